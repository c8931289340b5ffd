//! Gemini CLI. Formats recorded from 0.61.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{HookInput, claude, is_true, of_chat, specific, text, tool};
use crate::hook::{HookEvent, HookEventKind, HookReply, ToolResult, ToolUse, TurnEnd};

pub(super) fn read(input: &HookInput, event: &str) -> Option<HookEvent> {
    let kind = match event {
        "SessionStart" => HookEventKind::ChatBegins(claude::chat_start(text(input, "source")?)),
        "BeforeAgent" => HookEventKind::TurnBegins,
        // With the trigger `auto` it fires before every request, whether or not anything is compressed.
        "PreCompress" if text(input, "trigger") == Some("manual") => HookEventKind::HistoryShrinks,
        "BeforeTool" => HookEventKind::ToolStarts(used(input)?),
        "AfterTool" => {
            let used = used(input)?;
            let result = result(input, &used);
            HookEventKind::ToolEnds { tool: used, result }
        }
        "AfterAgent" => HookEventKind::TurnEnds(match is_true(input, "stop_hook_active") {
            true => TurnEnd::AfterHold,
            false => TurnEnd::Free,
        }),
        _ => return None,
    };
    of_chat(HostName::Gemini, input, ("session_id", "cwd"), kind)
}

fn used(input: &HookInput) -> Option<ToolUse> {
    Some(tool::tool_use(text(input, "tool_name")?, input.get("tool_input")))
}

fn result(input: &HookInput, used: &ToolUse) -> ToolResult {
    let mut result = tool::result(input.get("tool_response"));
    if let ToolUse::Shell { .. } = used {
        // The text gives the exit code of a failed command, and none for a successful one.
        let said = tool::code_after(&result.text, "Exit Code:");
        let is_error = input
            .get("tool_response")
            .is_some_and(|response| response.get("error").is_some_and(|error| !error.is_null()));
        result.exit_code = said.or((!is_error && !result.text.contains("Signal:")).then_some(0));
    }
    result
}

pub(super) fn write(event: &str, reply: &HookReply) -> Option<Value> {
    match (event, reply) {
        ("AfterAgent", HookReply::Hold { reason }) | ("BeforeTool", HookReply::Deny { reason }) => {
            Some(json!({ "decision": "deny", "reason": reason }))
        }
        ("SessionStart" | "BeforeAgent", HookReply::Context { text }) => {
            Some(specific(event, json!({ "additionalContext": text })))
        }
        (
            _,
            HookReply::Silent | HookReply::Hold { .. } | HookReply::Context { .. } | HookReply::Deny { .. },
        ) => None,
    }
}
