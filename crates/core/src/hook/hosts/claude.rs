//! Claude Code, and Codex, which uses the same JSON. Formats recorded from Claude Code 2.1.325 and Codex 0.166.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{HookInput, is_true, of_chat, owned, specific, text, tool};
use crate::hook::{ChatStart, HookEvent, HookEventKind, HookReply, ToolResult, ToolUse, TurnEnd};

pub(super) fn read(input: &HookInput, event: &str) -> Option<HookEvent> {
    // Cursor also runs Claude's hook entries, but has its own.
    if input.contains_key("cursor_version") {
        return None;
    }
    shared(HostName::ClaudeCode, input, event)
}

pub(super) fn read_codex(input: &HookInput, event: &str) -> Option<HookEvent> {
    shared(HostName::Codex, input, event)
}

fn shared(host: HostName, input: &HookInput, event: &str) -> Option<HookEvent> {
    let kind = match event {
        "SessionStart" => HookEventKind::ChatBegins(chat_start(text(input, "source")?)),
        "UserPromptSubmit" => HookEventKind::TurnBegins,
        "PreToolUse" => HookEventKind::ToolStarts(used(input)?),
        "PostToolUse" | "PostToolUseFailure" => {
            let used = used(input)?;
            // A failed edit changed nothing.
            if event == "PostToolUseFailure" && matches!(used, ToolUse::Edit { .. }) {
                return None;
            }
            let result = result(host, event, input, &used);
            HookEventKind::ToolEnds { tool: used, result }
        }
        "SubagentStart" => {
            HookEventKind::SubagentStarts { kind: owned(input, "agent_type").unwrap_or_default() }
        }
        "Stop" | "SubagentStop" if !waits_for_others(input) => {
            HookEventKind::TurnEnds(match is_true(input, "stop_hook_active") {
                true => TurnEnd::AfterHold,
                false => TurnEnd::Free,
            })
        }
        _ => return None,
    };
    // Starting a subagent is something that the chat did.
    let agent = owned(input, "agent_id").filter(|_| event != "SubagentStart");
    of_chat(host, input, ("session_id", "cwd"), kind).map(|read| HookEvent { agent, ..read })
}

pub(super) fn chat_start(source: &str) -> ChatStart {
    match source {
        "resume" | "compact" | "fork" => ChatStart::Again,
        _ => ChatStart::New,
    }
}

fn used(input: &HookInput) -> Option<ToolUse> {
    Some(tool::tool_use(text(input, "tool_name")?, input.get("tool_input")))
}

/// Whether something is running that will wake the agent up again. An agent that ends is itself in the list.
fn waits_for_others(input: &HookInput) -> bool {
    let own = text(input, "agent_id");
    let tasks = input.get("background_tasks").and_then(Value::as_array);
    tasks.is_some_and(|tasks| tasks.iter().any(|task| task.get("id").and_then(Value::as_str) != own))
}

fn result(host: HostName, event: &str, input: &HookInput, used: &ToolUse) -> ToolResult {
    let mut result = tool::result(input.get("tool_response"));
    result.duration_ms = tool::duration(input, "duration_ms");
    if let (HostName::ClaudeCode, ToolUse::Shell { .. }) = (host, used) {
        result.exit_code = match event {
            "PostToolUseFailure" => text(input, "error")
                .filter(|error| error.starts_with("Exit code "))
                .and_then(|error| tool::code_after(error.lines().next()?, "Exit code ")),
            // A command that continues in the background, or was interrupted, has no result yet.
            _ => input.get("tool_response").filter(|response| has_ended(response)).map(|_| 0),
        };
    }
    result
}

fn has_ended(response: &Value) -> bool {
    let is_set =
        |name: &str| response.get(name).is_some_and(|value| !value.is_null() && *value != Value::Bool(false));
    response.is_object() && !is_set("interrupted") && !is_set("backgroundTaskId")
}

pub(super) fn write(event: &str, reply: &HookReply) -> Option<Value> {
    match (event, reply) {
        ("Stop" | "SubagentStop", HookReply::Hold { reason }) => {
            Some(json!({ "decision": "block", "reason": reason }))
        }
        ("SessionStart" | "UserPromptSubmit", HookReply::Context { text }) => {
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
