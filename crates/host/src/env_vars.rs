//! Every environment variable that WorkRail reads, declared once.

/// A variable and what it does.
#[derive(Clone, Copy, Debug)]
pub struct EnvVar {
    pub name: &'static str,
    pub what: &'static str,
}

pub const DATA_DIR: EnvVar = EnvVar {
    name: "WORKRAIL_DATA_DIR",
    what: "Where sessions, content and keys are kept. Default: the user's data directory, `workrail`.",
};

pub const STORAGE_PATH: EnvVar = EnvVar {
    name: "WORKFLOW_STORAGE_PATH",
    what: "Folders with workflow files, separated like PATH; later folders win.",
};

pub const PROJECT_DIR: EnvVar = EnvVar {
    name: "CLAUDE_PROJECT_DIR",
    what: "The workspace of calls that name none, when it is an existing absolute path. Set by Claude Code. \
           Default: the process directory.",
};

/// Read by the standard library's `home_dir`, which falls back to the user database.
pub const HOME: EnvVar = EnvVar {
    name: "HOME",
    what: "Where `.workrail/workflows` of the user and, by default, the data directory are.",
};

pub const LOG: EnvVar = EnvVar {
    name: "WORKRAIL_LOG",
    what: "What is logged to stderr, as `tracing` filter directives. Default: `warn`.",
};

pub const ALL: [EnvVar; 5] = [DATA_DIR, STORAGE_PATH, PROJECT_DIR, HOME, LOG];

impl EnvVar {
    /// The value, when it is set, not empty and valid UTF-8.
    pub fn get(&self) -> Option<String> {
        std::env::var(self.name).ok().filter(|value| !value.is_empty())
    }
}
