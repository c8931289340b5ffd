//! Running the checks of a project: commands that its checks file names and a person trusted (G120, G121).
//!
//! Only an adapter can make a `ReadyCheck`, after it has found the command trusted. Whoever has none runs nothing.

use std::time::Duration;

use workrail_model::digest::WorkflowHash;
use workrail_model::evidence::{EndedProcess, NotRunReason};
use workrail_model::name::CheckName;

use crate::workspace::WorkspacePath;

/// What a name stands for in a workspace.
#[derive(Debug)]
pub struct PreparedCheck {
    /// The program and its arguments as the checks file has them; empty where it does not define the name.
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

/// Why a check that was ready has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckRunError {
    #[error("the program could not be started: {0}")]
    NotStarted(String),
    #[error("the server is ending")]
    Interrupted,
}

/// A command that may run.
pub trait ReadyCheck: Send {
    /// Runs it to its end, and ends everything that it started. `tick` is called about every second meanwhile.
    fn run(
        &self,
        time_limit: Duration,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<EndedProcess, CheckRunError>;
}

/// Runs the checks of workspaces on this machine.
pub trait CheckRunner: Send + Sync {
    /// Reads the checks file and asks whether the command is trusted, each time anew.
    fn prepare(&self, workspace: &WorkspacePath, workflow: WorkflowHash, name: &CheckName) -> PreparedCheck;
    /// Ends every check that runs, and starts no more: the server is ending.
    fn end(&self);
}
