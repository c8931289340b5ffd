//! What a hook saw of a step's work, as evidence (G110). Tool results are not kept, only what was run and edited.

use workrail_model::evidence::{Evidence, PathList};
use workrail_model::text::BoundedText;

use super::{HookEventKind, ToolUse, refused_command};

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
            refused_command(command).map(|_| Evidence::CommandRefused { command: BoundedText::clip(command) })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Broke: the start of every command counted as its refusal, and only the one caller kept it right.
    #[test]
    fn only_a_refused_command_is_evidence_when_it_starts() {
        let started = |command: &str| {
            observed(&HookEventKind::ToolStarts(ToolUse::Shell { command: command.to_owned() }))
        };
        assert_eq!(started("cargo test"), None);
        let command = "workrail approve amber-falcon";
        let refused = Evidence::CommandRefused { command: BoundedText::clip(command) };
        assert_eq!(started(command), Some(refused));
    }
}
