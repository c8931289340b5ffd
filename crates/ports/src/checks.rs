//! Running a project's checks: commands named in its checks file and trusted by a person (G120, G121).
//!
//! Only an adapter can make a `ReadyCheck`, after confirming that the command is trusted. Without one, nothing runs.

use std::time::Duration;

use workrail_model::digest::WorkflowHash;
use workrail_model::evidence::{EndedProcess, NotRunReason};
use workrail_model::name::CheckName;

use crate::workspace::WorkspacePath;

/// What a check name resolves to in a workspace.
#[derive(Debug)]
pub struct PreparedCheck {
    /// The program and its arguments as written in the checks file; empty if the file does not define the name.
    pub argv: Vec<String>,
    pub readiness: Readiness,
}

pub enum Readiness {
    /// Defined, found, and trusted for this workspace and workflow.
    Ready(Box<dyn ReadyCheck>),
    NotRun(NotRunReason),
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready(_) => f.write_str("Ready"),
            Self::NotRun(reason) => f.debug_tuple("NotRun").field(reason).finish(),
        }
    }
}

/// Why a ready check produced no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckRunError {
    #[error("the program could not be started: {0}")]
    NotStarted(String),
    #[error("the server is ending")]
    Interrupted,
}

/// A command that is allowed to run.
pub trait ReadyCheck: Send {
    /// Runs it to completion, then ends every process it started. Meanwhile `tick` is called about once a second.
    fn run(
        &self,
        time_limit: Duration,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<EndedProcess, CheckRunError>;
}

/// Runs the checks of workspaces on this machine.
pub trait CheckRunner: Send + Sync {
    /// Reads the checks file and looks up the trust record anew on every call.
    fn prepare(&self, workspace: &WorkspacePath, workflow: WorkflowHash, name: &CheckName) -> PreparedCheck;
    /// Ends all running checks and starts no more: the server is shutting down.
    fn end(&self);
}
