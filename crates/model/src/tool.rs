//! The tools that agents can call, by the names they have on the wire.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The closed set of tools; no tool shows projections, those are the console's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolName {
    ListWorkflows,
    InspectWorkflow,
    StartWorkflow,
    ContinueWorkflow,
    CheckpointWorkflow,
    ResumeSession,
    ReadRun,
    StartSession,
}

impl ToolName {
    /// In the order in which they are listed.
    pub const ALL: [Self; 8] = [
        Self::ListWorkflows,
        Self::InspectWorkflow,
        Self::StartWorkflow,
        Self::ContinueWorkflow,
        Self::CheckpointWorkflow,
        Self::ResumeSession,
        Self::ReadRun,
        Self::StartSession,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ListWorkflows => "list_workflows",
            Self::InspectWorkflow => "inspect_workflow",
            Self::StartWorkflow => "start_workflow",
            Self::ContinueWorkflow => "continue_workflow",
            Self::CheckpointWorkflow => "checkpoint_workflow",
            Self::ResumeSession => "resume_session",
            Self::ReadRun => "read_run",
            Self::StartSession => "start_session",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    /// Whether the tool cannot change anything.
    pub fn is_read_only(self) -> bool {
        match self {
            Self::ListWorkflows | Self::InspectWorkflow | Self::ResumeSession | Self::ReadRun => true,
            Self::StartWorkflow | Self::ContinueWorkflow | Self::CheckpointWorkflow | Self::StartSession => {
                false
            }
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_one_spelling_in_json_in_text_and_when_parsed() {
        for tool in ToolName::ALL {
            assert_eq!(serde_json::to_value(tool).unwrap(), tool.to_string());
            assert_eq!(ToolName::parse(tool.as_str()), Some(tool));
        }
        assert_eq!(ToolName::parse("Start_Workflow"), None);
    }
}
