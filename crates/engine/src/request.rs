//! What an edge hands to the engine: parsed shapes, unchecked meanings.

use serde_json::{Map, Value};

pub use crate::inspect::InspectWorkflow;
pub use crate::list::ListWorkflows;

#[derive(Clone, Debug, Default)]
pub struct StartWorkflow {
    pub workflow_id: String,
    pub goal: Option<String>,
    pub context: Map<String, Value>,
}

#[derive(Clone, Debug, Default)]
pub struct ContinueWorkflow {
    pub state_token: Option<String>,
    pub ack_token: Option<String>,
    pub context: Map<String, Value>,
    pub notes_markdown: Option<String>,
    pub artifacts: Vec<Value>,
}
