//! opencode: a JavaScript plugin calls `workrail hook` with JSON of our own format, and acts on the answer.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{HookInput, of_chat, owned, text, tool};
use crate::hook::{ChatStart, HookEvent, HookEventKind, HookReply, ToolResult, ToolUse, TurnEnd};

/// The plugin's text, for a program at this path.
pub fn plugin(program: &str) -> String {
    // A JSON string is a JavaScript string.
    include_str!("opencode.js").replace("\"PROGRAM\"", &Value::from(program).to_string())
}

pub(super) fn read(input: &HookInput, event: &str) -> Option<HookEvent> {
    let kind = match event {
        "tool.execute.before" => HookEventKind::ToolStarts(used(input)?),
        "tool.execute.after" => {
            let used = used(input)?;
            let exit_code = input.get("exit").and_then(Value::as_i64);
            let result = ToolResult { exit_code, ..tool::result(input.get("output")) };
            HookEventKind::ToolEnds { tool: used, result }
        }
        // Sent once for each chat that this process has not seen.
        "chat.system" => HookEventKind::ChatBegins(ChatStart::Again),
        "session.compacting" => HookEventKind::ChatBegins(ChatStart::Again),
        "session.idle" => HookEventKind::TurnEnds(TurnEnd::Free),
        // The plugin reports chats that were started by another one.
        "session.created" => {
            HookEventKind::SubagentStarts { kind: owned(input, "title").unwrap_or_default() }
        }
        _ => return None,
    };
    let agent = owned(input, "agent");
    of_chat(HostName::Opencode, input, ("session", "directory"), kind).map(|read| HookEvent { agent, ..read })
}

fn used(input: &HookInput) -> Option<ToolUse> {
    Some(tool::tool_use(text(input, "tool")?, input.get("args")))
}

pub(super) fn write(reply: &HookReply) -> Option<Value> {
    match reply {
        HookReply::Silent => None,
        HookReply::Hold { reason } => Some(json!({ "prompt": reason })),
        HookReply::Context { text } => Some(json!({ "context": text })),
        HookReply::Deny { reason } => Some(json!({ "deny": reason })),
    }
}
