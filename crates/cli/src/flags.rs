//! Which tools a server offers (decision 43): each can be switched, and one switch leaves only looking.

use workrail_host::env_vars::{self, EnvVar};
use workrail_mcp::catalogue::ToolName;

/// Whether the environment lets a server offer the tool.
pub(crate) fn offers(tool: ToolName) -> bool {
    let switched = |variable: &EnvVar, unset: bool| is_on(variable.get().as_deref(), unset);
    let executes = switched(&env_vars::ENABLE_V2_TOOLS, true);
    let own = match tool {
        ToolName::CheckpointWorkflow => switched(&env_vars::ENABLE_CHECKPOINT, true),
        ToolName::ResumeSession => switched(&env_vars::ENABLE_RESUME, true),
        ToolName::StartSession => switched(&env_vars::ENABLE_START_SESSION, false),
        ToolName::ListWorkflows
        | ToolName::InspectWorkflow
        | ToolName::StartWorkflow
        | ToolName::ContinueWorkflow => true,
    };
    own && (executes || tool.is_read_only())
}

fn is_on(value: Option<&str>, unset: bool) -> bool {
    match value.map(str::to_ascii_lowercase).as_deref() {
        Some("true" | "1" | "on" | "yes") => true,
        Some("false" | "0" | "off" | "no") => false,
        Some(_) | None => unset,
    }
}

#[cfg(test)]
mod tests {
    use super::is_on;

    #[test]
    fn only_plain_words_switch() {
        assert!(is_on(Some("TRUE"), false));
        assert!(!is_on(Some("off"), true));
        assert!(is_on(Some("perhaps"), true), "an unknown word changes nothing");
        assert!(!is_on(None, false));
    }
}
