//! What a hook saw of a step's work, as evidence (G110). Tool results are not kept, only what was run and edited.

use workrail_model::evidence::{Evidence, PathList};
use workrail_model::text::BoundedText;

use super::{HookEventKind, ToolUse};

/// The evidence in an event; `None` if it proves nothing about work.
pub fn observed(kind: &HookEventKind) -> Option<Evidence> {
    match kind {
        HookEventKind::ToolEnds { tool: ToolUse::Shell { command }, result } => Some(Evidence::CommandRun {
            command: BoundedText::clip(command),
            exit_code: result.exit_code.and_then(|code| i32::try_from(code).ok()),
            duration_ms: result.duration_ms,
            output_ref: None,
        }),
        HookEventKind::ToolEnds { tool: ToolUse::Edit { paths }, .. } if !paths.is_empty() => {
            Some(Evidence::FilesEdited { files: PathList::new(paths.clone()) })
        }
        // The start of a command matters only if it was refused.
        HookEventKind::ToolStarts(ToolUse::Shell { command }) => {
            Some(Evidence::CommandRefused { command: BoundedText::clip(command) })
        }
        HookEventKind::SubagentStarts { kind } => {
            let agent = if kind.is_empty() { "subagent" } else { kind };
            Some(Evidence::SubagentStarted { agent: BoundedText::clip(agent) })
        }
        HookEventKind::ToolEnds { .. }
        | HookEventKind::ToolStarts(_)
        | HookEventKind::ChatBegins(_)
        | HookEventKind::TurnBegins
        | HookEventKind::HistoryShrinks
        | HookEventKind::TurnEnds(_) => None,
    }
}
