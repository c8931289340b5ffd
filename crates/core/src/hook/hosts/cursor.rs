//! Cursor: separate events for shell, MCP and files. It cannot hold a turn; a follow-up message is the closest to
//! that. Written from its documentation; not tested with the program.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{HookInput, owned, text, tool};
use crate::hook::{ChatStart, HookEvent, HookEventKind, HookReply, ToolResult, ToolUse, TurnEnd};

pub(super) fn read(input: &HookInput, event: &str) -> Option<HookEvent> {
    let kind = match event {
        "sessionStart" => HookEventKind::ChatBegins(ChatStart::New),
        "preCompact" => HookEventKind::HistoryShrinks,
        "preToolUse" => {
            HookEventKind::ToolStarts(tool::tool_use(text(input, "tool_name")?, input.get("tool_input")))
        }
        "beforeShellExecution" => HookEventKind::ToolStarts(tool::shell(owned(input, "command")?)),
        "afterShellExecution" => HookEventKind::ToolEnds {
            tool: tool::shell(owned(input, "command")?),
            result: ToolResult {
                text: owned(input, "output").unwrap_or_default(),
                exit_code: None,
                duration_ms: tool::duration(input, "duration"),
            },
        },
        "afterMCPExecution" => HookEventKind::ToolEnds {
            tool: tool::tool_use(text(input, "tool_name")?, input.get("tool_input")),
            result: tool::result(input.get("result_json")),
        },
        "afterFileEdit" => HookEventKind::ToolEnds {
            tool: ToolUse::Edit { paths: vec![owned(input, "file_path")?] },
            result: ToolResult::default(),
        },
        "subagentStart" => {
            HookEventKind::SubagentStarts { kind: owned(input, "subagent_type").unwrap_or_default() }
        }
        // After an error, or when the user stopped it, nothing follows.
        "stop" if text(input, "status") == Some("completed") => HookEventKind::TurnEnds(
            match input.get("loop_count").and_then(Value::as_u64).unwrap_or_default() {
                0 => TurnEnd::Free,
                _ => TurnEnd::AfterHold,
            },
        ),
        _ => return None,
    };
    let folder = input.get("workspace_roots").and_then(|roots| roots.get(0)).and_then(Value::as_str);
    let workspace = folder.map(str::to_owned).or_else(|| owned(input, "cwd"));
    Some(HookEvent {
        host: HostName::Cursor,
        chat: owned(input, "conversation_id")?,
        agent: None,
        workspace,
        kind,
    })
}

pub(super) fn write(event: &str, reply: &HookReply) -> Option<Value> {
    match (event, reply) {
        ("stop", HookReply::Hold { reason }) => Some(json!({ "followup_message": reason })),
        ("sessionStart", HookReply::Context { text }) => Some(json!({ "additional_context": text })),
        ("preToolUse" | "beforeShellExecution" | "beforeMCPExecution", HookReply::Deny { reason }) => {
            Some(json!({ "permission": "deny", "user_message": reason, "agent_message": reason }))
        }
        (
            _,
            HookReply::Silent | HookReply::Hold { .. } | HookReply::Context { .. } | HookReply::Deny { .. },
        ) => None,
    }
}
