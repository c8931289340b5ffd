//! Which tools a server offers: each can be disabled, and one switch leaves only the read-only ones.

use workrail_model::config::{Key, Settings};
use workrail_model::tool::{ToolName, ToolSet};

/// The tools that the settings enable.
pub(crate) fn offered(settings: &Settings) -> ToolSet {
    ToolSet::of(|tool| offers(settings, tool))
}

fn offers(settings: &Settings, tool: ToolName) -> bool {
    let is_enabled = match tool {
        ToolName::CheckpointWorkflow => settings.is_on(Key::ToolsCheckpoint),
        ToolName::ResumeSession => settings.is_on(Key::ToolsResume),
        ToolName::StartSession => settings.is_on(Key::ToolsStartSession),
        ToolName::ListWorkflows
        | ToolName::InspectWorkflow
        | ToolName::StartWorkflow
        | ToolName::ContinueWorkflow
        | ToolName::ReadRun => true,
    };
    is_enabled && (settings.is_on(Key::ToolsExecution) || tool.is_read_only())
}
