//! Every environment variable that WorkRail reads, declared once.

/// A variable and what it does.
#[derive(Clone, Copy, Debug)]
pub struct EnvVar {
    pub name: &'static str,
    pub what: &'static str,
}

pub const CONFIG: EnvVar = EnvVar {
    name: "WORKRAIL_CONFIG",
    what: "The settings file. Default: `workrail/config.toml` in the user's config directory.",
};

pub const DATA_DIR: EnvVar = EnvVar {
    name: "WORKRAIL_DATA_DIR",
    what: "Where sessions, content and keys are kept. Default: the user's data directory, `workrail`.",
};

pub const STORE: EnvVar = EnvVar {
    name: "WORKRAIL_STORE",
    what: "The database that sessions are kept in instead of the data directory: `postgres://USER@HOST/DATABASE`, without a \
           password.",
};

pub(crate) const STORE_PASSWORD: EnvVar =
    EnvVar { name: "WORKRAIL_STORE_PASSWORD", what: "The password for the database of the store." };

pub(crate) const STORE_PASSWORD_FILE: EnvVar = EnvVar {
    name: "WORKRAIL_STORE_PASSWORD_FILE",
    what: "A file that holds the password for the database of the store and that only its owner can read. Wins over \
           `password_file` in the address.",
};

pub(crate) const STORE_KEY: EnvVar = EnvVar {
    name: "WORKRAIL_STORE_KEY",
    what: "32 bytes in base64 that encrypt the signing keys in the database of the store.",
};

pub(crate) const STORE_KEY_FILE: EnvVar = EnvVar {
    name: "WORKRAIL_STORE_KEY_FILE",
    what: "A file that holds the key of `WORKRAIL_STORE_KEY` and that only its owner can read. Wins over `key_file` in the \
           address.",
};

pub(crate) const STORAGE_PATH: EnvVar = EnvVar {
    name: "WORKFLOW_STORAGE_PATH",
    what: "Folders with workflow files, separated like PATH; later folders win.",
};

pub(crate) const PLUGINS: EnvVar = EnvVar {
    name: "WORKRAIL_PLUGINS",
    what: "Folders with a `workrail-plugin.json`, separated like PATH; later folders win.",
};

pub(crate) const PROJECT_DIR: EnvVar = EnvVar {
    name: "CLAUDE_PROJECT_DIR",
    what: "The workspace of calls that name none, when it is an existing absolute path. Set by Claude Code. \
           Default: the process directory.",
};

/// Read by the standard library's `home_dir`, which falls back to the user database.
pub const HOME: EnvVar = EnvVar {
    name: "HOME",
    what: "Where `.workrail/workflows` of the user and, by default, the data directory are.",
};

pub(crate) const LOG: EnvVar = EnvVar {
    name: "WORKRAIL_LOG",
    what: "What is logged to stderr, as `tracing` filter directives. Default: `warn`.",
};

pub(crate) const ENABLE_V2_TOOLS: EnvVar = EnvVar {
    name: "WORKRAIL_ENABLE_V2_TOOLS",
    what: "`false` leaves only the tools that cannot change anything. Default: `true`.",
};

pub(crate) const ENABLE_CHECKPOINT: EnvVar = EnvVar {
    name: "WORKRAIL_ENABLE_CHECKPOINT",
    what: "Whether `checkpoint_workflow` is offered. Default: `true`.",
};

pub(crate) const ENABLE_RESUME: EnvVar =
    EnvVar { name: "WORKRAIL_ENABLE_RESUME", what: "Whether `resume_session` is offered. Default: `true`." };

pub(crate) const ENABLE_START_SESSION: EnvVar = EnvVar {
    name: "WORKRAIL_ENABLE_START_SESSION",
    what: "Whether `start_session` is offered. Default: `false`.",
};

pub(crate) const DEFAULT_MODE: EnvVar = EnvVar {
    name: "WORKRAIL_DEFAULT_MODE",
    what: "The default mode of new runs: `guided`, `full_auto_stop_on_user_deps` or `full_auto_never_stop`. Sets \
           `preferences.autonomy` and the matching `preferences.risk_policy`; `WORKRAIL_AUTONOMY` and \
           `WORKRAIL_RISK_POLICY` win over it.",
};

pub(crate) const AUTONOMY: EnvVar = EnvVar {
    name: "WORKRAIL_AUTONOMY",
    what: "The autonomy alone of runs whose caller chooses no mode; wins over `WORKRAIL_DEFAULT_MODE`.",
};

pub(crate) const RISK_POLICY: EnvVar = EnvVar {
    name: "WORKRAIL_RISK_POLICY",
    what: "The risk policy alone of runs whose caller chooses no mode: `conservative`, `balanced` or \
           `aggressive`.",
};

pub(crate) const STRUCTURED_REPLIES: EnvVar = EnvVar {
    name: "WORKRAIL_STRUCTURED_REPLIES",
    what: "Whether replies also have `structuredContent`, and tools an output schema. Default: `false`.",
};

pub(crate) const TEXT_IN_DATA: EnvVar = EnvVar {
    name: "WORKRAIL_TEXT_IN_DATA",
    what: "Whether the data of a reply, in `_meta`, repeats the text that the model reads. Default: `true`.",
};

pub(crate) const RETENTION_DAYS: EnvVar = EnvVar {
    name: "WORKRAIL_RETENTION_DAYS",
    what: "How many days after its last event a finished or closed session may be removed. Default: 90.",
};

pub(crate) const REDACT_KEYS: EnvVar = EnvVar {
    name: "WORKRAIL_REDACT_KEYS",
    what: "Context keys that redacted exports leave out, separated by colons; `*` matches any characters.",
};

pub(crate) const TOKEN_ENCODING: EnvVar = EnvVar {
    name: "WORKRAIL_TOKEN_ENCODING",
    what: "Which tokens are handed out: `v2` (short) or `v1` (long). Both are always accepted. Default: `v2`.",
};

pub(crate) const BROWSER: EnvVar = EnvVar {
    name: "WORKRAIL_BROWSER",
    what: "The Chromium or Chrome that prints reports to PDF. Default: the first one found under its usual names.",
};

/// Read by clients, through the project files that `install --http` writes.
pub(crate) const HTTP_TOKEN: EnvVar = EnvVar {
    name: "WORKRAIL_HTTP_TOKEN",
    what: "The secret that clients send to `workrail mcp --http`, where a project's file names this variable. WorkRail \
           itself does not read it; `workrail store keys http-secret` prints the value.",
};

/// Read by clients, through the files that `install --remote` writes, and by `doctor`.
pub const TOKEN: EnvVar = EnvVar {
    name: "WORKRAIL_TOKEN",
    what: "The access token that clients send to a team's server, where `workrail install --remote` set them up. \
           `workrail team token create` makes one; `workrail doctor` tries it.",
};

pub const COLUMNS: EnvVar = EnvVar {
    name: "COLUMNS",
    what: "How wide lists and tables may be. Default: the width of the terminal; unlimited in a file or a pipe.",
};

pub const PAGER: EnvVar = EnvVar {
    name: "PAGER",
    what: "The program that long output on a terminal goes through; empty or `cat` for none. Default: `less`.",
};

/// Read by the library that writes colours.
pub const NO_COLOR: EnvVar = EnvVar {
    name: "NO_COLOR",
    what: "Any non-empty value: output has no colours, unless `--color always` is given.",
};

/// Read by the library that formats times.
pub const TZ: EnvVar =
    EnvVar { name: "TZ", what: "The time zone of times that are shown to people. Default: the machine's." };

pub const ALL: [EnvVar; 31] = [
    CONFIG,
    DATA_DIR,
    STORE,
    STORE_PASSWORD,
    STORE_PASSWORD_FILE,
    STORE_KEY,
    STORE_KEY_FILE,
    STORAGE_PATH,
    PLUGINS,
    PROJECT_DIR,
    HOME,
    LOG,
    ENABLE_V2_TOOLS,
    ENABLE_CHECKPOINT,
    ENABLE_RESUME,
    ENABLE_START_SESSION,
    DEFAULT_MODE,
    AUTONOMY,
    RISK_POLICY,
    STRUCTURED_REPLIES,
    TEXT_IN_DATA,
    RETENTION_DAYS,
    REDACT_KEYS,
    TOKEN_ENCODING,
    BROWSER,
    HTTP_TOKEN,
    TOKEN,
    COLUMNS,
    PAGER,
    NO_COLOR,
    TZ,
];

impl EnvVar {
    /// The value, when it is set, not empty and valid UTF-8.
    pub fn get(&self) -> Option<String> {
        std::env::var(self.name).ok().filter(|value| !value.is_empty())
    }
}
