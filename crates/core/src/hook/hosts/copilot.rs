//! Copilot CLI: different names of events and fields, arguments as JSON in a text, decisions at the top level.
//! Written from its documentation; not tested with the program.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{HookInput, claude, is_true, of_chat, owned, text, tool};
use crate::hook::{HookEvent, HookEventKind, HookReply, ToolResult, ToolUse, TurnEnd};

pub(super) fn read(input: &HookInput, event: &str) -> Option<HookEvent> {
    let kind = match event {
        "sessionStart" => {
            HookEventKind::ChatBegins(claude::chat_start(text(input, "source").unwrap_or("new")))
        }
        "userPromptSubmitted" => HookEventKind::TurnBegins,
        "preCompact" => HookEventKind::HistoryShrinks,
        "preToolUse" => HookEventKind::ToolStarts(used(input)?),
        "postToolUse" | "postToolUseFailure" => {
            let used = used(input)?;
            let result = result(input, &used);
            HookEventKind::ToolEnds { tool: used, result }
        }
        "subagentStart" => HookEventKind::SubagentStarts {
            kind: owned(input, "agentName").or_else(|| owned(input, "agent_type")).unwrap_or_default(),
        },
        "agentStop" => HookEventKind::TurnEnds(match is_true(input, "stopHookActive") {
            true => TurnEnd::AfterHold,
            false => TurnEnd::Free,
        }),
        _ => return None,
    };
    of_chat(HostName::Copilot, input, ("sessionId", "cwd"), kind)
}

fn used(input: &HookInput) -> Option<ToolUse> {
    Some(tool::tool_use(text(input, "toolName")?, input.get("toolArgs")))
}

fn result(input: &HookInput, used: &ToolUse) -> ToolResult {
    let mut result = tool::result(input.get("toolResult").or_else(|| input.get("error")));
    if let ToolUse::Shell { .. } = used {
        result.exit_code = tool::code_after(&result.text, "exited with exit code ");
    }
    result
}

pub(super) fn write(event: &str, reply: &HookReply) -> Option<Value> {
    match (event, reply) {
        ("agentStop", HookReply::Hold { reason }) => Some(json!({ "decision": "block", "reason": reason })),
        ("sessionStart" | "postToolUse", HookReply::Context { text }) => {
            Some(json!({ "additionalContext": text }))
        }
        ("preToolUse", HookReply::Deny { reason }) => {
            Some(json!({ "permissionDecision": "deny", "permissionDecisionReason": reason }))
        }
        (
            _,
            HookReply::Silent | HookReply::Hold { .. } | HookReply::Context { .. } | HookReply::Deny { .. },
        ) => None,
    }
}
