//! What an edge hands to the engine: parsed shapes, unchecked meanings.

use serde_json::{Map, Value};
use workrail_model::preferences::Mode;

pub use crate::inspect::InspectWorkflow;
pub use crate::list::ListWorkflows;

#[derive(Clone, Debug, Default)]
pub struct StartWorkflow {
    pub workflow_id: String,
    pub goal: Option<String>,
    pub context: Map<String, Value>,
    pub mode: Option<Mode>,
    /// A state or ack token of the run inside which this one is started.
    pub parent: Option<String>,
    pub session_token: Option<String>,
    pub workspace: Option<String>,
    /// Makes the call repeatable: the same key starts one run, however often it is sent.
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct ContinueWorkflow {
    pub state_token: Option<String>,
    pub ack_token: Option<String>,
    pub continue_token: Option<String>,
    pub echo: Echo,
    pub context: Map<String, Value>,
    pub output: Output,
    pub workspace: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct CheckpointWorkflow {
    pub checkpoint_token: Option<String>,
    pub state_token: Option<String>,
    pub session_token: Option<String>,
    pub echo: Echo,
    pub output: Output,
}

/// Which run and step the caller believes to be at; checked against the token (G35).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    pub run: Option<String>,
    pub step_id: Option<String>,
}

/// The durable result of a step.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub notes_markdown: Option<String>,
    pub artifacts: Vec<Value>,
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.notes_markdown.is_none() && self.artifacts.is_empty()
    }
}

#[derive(Clone, Debug, Default)]
pub struct ResumeSession {
    pub query: Option<String>,
    pub session_id: Option<String>,
    pub run_id: Option<String>,
    /// A run's label.
    pub run: Option<String>,
    pub git_branch: Option<String>,
    pub git_head_sha: Option<String>,
    pub workspace: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct StartSession {
    pub goal: Option<String>,
}
