//! VS Code's agent hooks (preview): Claude's events, different field names, and the blocking decision inside
//! `hookSpecificOutput`. Written from its documentation; not tested with the program.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{HookInput, claude, is_true, of_chat, owned, specific, text, tool};
use crate::hook::{HookEvent, HookEventKind, HookReply, TurnEnd};

pub(super) fn read(input: &HookInput, event: &str) -> Option<HookEvent> {
    let kind = match event {
        "SessionStart" => {
            HookEventKind::ChatBegins(claude::chat_start(text(input, "source").unwrap_or("new")))
        }
        "UserPromptSubmit" => HookEventKind::TurnBegins,
        // It has no event after the compaction.
        "PreCompact" => HookEventKind::HistoryShrinks,
        "PreToolUse" => {
            HookEventKind::ToolStarts(tool::tool_use(text(input, "tool_name")?, input.get("tool_input")))
        }
        "PostToolUse" => HookEventKind::ToolEnds {
            tool: tool::tool_use(text(input, "tool_name")?, input.get("tool_input")),
            result: tool::result(input.get("tool_response")),
        },
        "SubagentStart" => {
            HookEventKind::SubagentStarts { kind: owned(input, "agent_type").unwrap_or_default() }
        }
        "Stop" => HookEventKind::TurnEnds(match is_true(input, "stop_hook_active") {
            true => TurnEnd::AfterHold,
            false => TurnEnd::Free,
        }),
        _ => return None,
    };
    // Versions of the preview spell it differently.
    let chat = if input.contains_key("sessionId") { "sessionId" } else { "session_id" };
    of_chat(HostName::Vscode, input, (chat, "cwd"), kind)
}

pub(super) fn write(event: &str, reply: &HookReply) -> Option<Value> {
    match (event, reply) {
        ("Stop", HookReply::Hold { reason }) => {
            Some(specific(event, json!({ "decision": "block", "reason": reason })))
        }
        ("SessionStart" | "UserPromptSubmit" | "PostToolUse", HookReply::Context { text }) => {
            Some(specific(event, json!({ "additionalContext": text })))
        }
        ("PreToolUse", HookReply::Deny { reason }) => {
            Some(specific(event, json!({ "permissionDecision": "deny", "permissionDecisionReason": reason })))
        }
        (
            _,
            HookReply::Silent | HookReply::Hold { .. } | HookReply::Context { .. } | HookReply::Deny { .. },
        ) => None,
    }
}
