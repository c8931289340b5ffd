//! What a hook saw of a step's work, as evidence (G110). Nothing that a tool returned is kept, only what was run and edited.

use workrail_model::evidence::{Evidence, PathList};
use workrail_model::text::BoundedText;

use super::{Happening, ToolUse};

/// The evidence in an event; `None` for one that proves nothing about work.
pub fn observed(what: &Happening) -> Option<Evidence> {
    match what {
        Happening::ToolEnds { tool: ToolUse::Shell { command }, result } => Some(Evidence::CommandRun {
            command: BoundedText::clip(command),
            exit_code: result.exit_code.and_then(|code| i32::try_from(code).ok()),
            duration_ms: result.duration_ms,
            output_ref: None,
        }),
        Happening::ToolEnds { tool: ToolUse::Edit { paths }, .. } if !paths.is_empty() => {
            Some(Evidence::FilesEdited { files: PathList::new(paths.clone()) })
        }
        // A command is asked about only when it was refused.
        Happening::ToolStarts(ToolUse::Shell { command }) => {
            Some(Evidence::CommandRefused { command: BoundedText::clip(command) })
        }
        Happening::SubagentStarts { kind } => {
            let agent = if kind.is_empty() { "subagent" } else { kind };
            Some(Evidence::SubagentStarted { agent: BoundedText::clip(agent) })
        }
        Happening::ToolEnds { .. }
        | Happening::ToolStarts(_)
        | Happening::ChatBegins(_)
        | Happening::TurnBegins
        | Happening::HistoryShrinks
        | Happening::TurnEnds(_) => None,
    }
}
