//! The tools that agents can call, by their names on the wire.

use strum::Display;

use crate::closed_set::closed_set;

closed_set! {
    "snake_case",
    /// The closed set of tools; no tool shows projections, those are the console's.
    #[derive(Display)]
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
}

// `ALL` is in listing order.

impl ToolName {
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

/// The tools that a server offers; replies name only these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolSet(u16);

impl ToolSet {
    /// Every tool.
    pub const ALL: Self = Self(u16::MAX);

    /// The tools that pass the test.
    pub fn of(mut offers: impl FnMut(ToolName) -> bool) -> Self {
        let offered = ToolName::ALL.into_iter().filter(|tool| offers(*tool));
        Self(offered.fold(0, |set, tool| set | Self::bit(tool)))
    }

    pub fn offers(self, tool: ToolName) -> bool {
        self.0 & Self::bit(tool) != 0
    }

    fn bit(tool: ToolName) -> u16 {
        1 << (tool as u16)
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

    #[test]
    fn a_set_offers_exactly_its_tools() {
        let set = ToolSet::of(ToolName::is_read_only);
        for tool in ToolName::ALL {
            assert_eq!(set.offers(tool), tool.is_read_only(), "{tool}");
            assert!(ToolSet::ALL.offers(tool), "{tool}");
        }
    }
}
