//! VS Code's agent hooks (preview): Claude's events, other names of the fields, and the decision to block inside
//! `hookSpecificOutput`. From its documentation; not run against the program.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{Input, claude, is_true, of_chat, owned, specific, text, tool};
use crate::hook::{Happening, HookEvent, HookReply, TurnEnd};

pub(super) fn read(input: &Input, event: &str) -> Option<HookEvent> {
    let what = match event {
        "SessionStart" => Happening::ChatBegins(claude::chat_start(text(input, "source").unwrap_or("new"))),
        "UserPromptSubmit" => Happening::TurnBegins,
        // It has no event for the end of it.
        "PreCompact" => Happening::HistoryShrinks,
        "PreToolUse" => {
            Happening::ToolStarts(tool::named(text(input, "tool_name")?, input.get("tool_input")))
        }
        "PostToolUse" => Happening::ToolEnds {
            tool: tool::named(text(input, "tool_name")?, input.get("tool_input")),
            result: tool::result(input.get("tool_response")),
        },
        "SubagentStart" => Happening::SubagentStarts { kind: owned(input, "agent_type").unwrap_or_default() },
        "Stop" => Happening::TurnEnds(match is_true(input, "stop_hook_active") {
            true => TurnEnd::AfterHold,
            false => TurnEnd::Free,
        }),
        _ => return None,
    };
    // Versions of the preview differ in how they spell it.
    let chat = if input.contains_key("sessionId") { "sessionId" } else { "session_id" };
    of_chat(HostName::Vscode, input, (chat, "cwd"), what)
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
