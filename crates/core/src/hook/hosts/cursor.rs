//! Cursor: events of its own for shell, MCP and files. It cannot hold a turn; a message that follows one is the nearest to
//! it. From its documentation; not run against the program.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{Input, owned, text, tool};
use crate::hook::{ChatStart, Happening, HookEvent, HookReply, ToolResult, ToolUse, TurnEnd};

pub(super) fn read(input: &Input, event: &str) -> Option<HookEvent> {
    let what = match event {
        "sessionStart" => Happening::ChatBegins(ChatStart::New),
        "preCompact" => Happening::HistoryShrinks,
        "preToolUse" => {
            Happening::ToolStarts(tool::named(text(input, "tool_name")?, input.get("tool_input")))
        }
        "beforeShellExecution" => Happening::ToolStarts(tool::shell(owned(input, "command")?)),
        "afterShellExecution" => Happening::ToolEnds {
            tool: tool::shell(owned(input, "command")?),
            result: ToolResult {
                text: owned(input, "output").unwrap_or_default(),
                exit_code: None,
                duration_ms: tool::duration(input, "duration"),
            },
        },
        "afterMCPExecution" => Happening::ToolEnds {
            tool: tool::named(text(input, "tool_name")?, input.get("tool_input")),
            result: tool::result(input.get("result_json")),
        },
        "afterFileEdit" => Happening::ToolEnds {
            tool: ToolUse::Edit { paths: vec![owned(input, "file_path")?] },
            result: ToolResult::default(),
        },
        "subagentStart" => {
            Happening::SubagentStarts { kind: owned(input, "subagent_type").unwrap_or_default() }
        }
        // After an error, or when the user stopped it, nothing follows.
        "stop" if text(input, "status") == Some("completed") => {
            Happening::TurnEnds(match input.get("loop_count").and_then(Value::as_u64).unwrap_or_default() {
                0 => TurnEnd::Free,
                _ => TurnEnd::AfterHold,
            })
        }
        _ => return None,
    };
    let folder = input.get("workspace_roots").and_then(|roots| roots.get(0)).and_then(Value::as_str);
    let workspace = folder.map(str::to_owned).or_else(|| owned(input, "cwd"));
    Some(HookEvent {
        host: HostName::Cursor,
        chat: owned(input, "conversation_id")?,
        agent: None,
        workspace,
        what,
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
