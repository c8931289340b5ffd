//! opencode: a plugin in JavaScript calls the verb with JSON of our own making, and does what the answer says.

use serde_json::{Value, json};
use workrail_model::chat::HostName;

use super::{Input, of_chat, owned, text, tool};
use crate::hook::{ChatStart, Happening, HookEvent, HookReply, ToolResult, ToolUse, TurnEnd};

/// The plugin, for a program at this path.
pub fn plugin(program: &str) -> String {
    // A JSON text is a JavaScript one.
    include_str!("opencode.js").replace("\"PROGRAM\"", &Value::from(program).to_string())
}

pub(super) fn read(input: &Input, event: &str) -> Option<HookEvent> {
    let what = match event {
        "tool.execute.before" => Happening::ToolStarts(used(input)?),
        "tool.execute.after" => {
            let used = used(input)?;
            let exit_code = input.get("exit").and_then(Value::as_i64);
            let result = ToolResult { exit_code, ..tool::result(input.get("output")) };
            Happening::ToolEnds { tool: used, result }
        }
        // Asked once for each chat that this process has not seen.
        "chat.system" => Happening::ChatBegins(ChatStart::Again),
        "session.compacting" => Happening::ChatBegins(ChatStart::Again),
        "session.idle" => Happening::TurnEnds(TurnEnd::Free),
        // The plugin tells of chats that another one has started.
        "session.created" => Happening::SubagentStarts { kind: owned(input, "title").unwrap_or_default() },
        _ => return None,
    };
    let agent = owned(input, "agent");
    of_chat(HostName::Opencode, input, ("session", "directory"), what).map(|read| HookEvent { agent, ..read })
}

fn used(input: &Input) -> Option<ToolUse> {
    Some(tool::named(text(input, "tool")?, input.get("args")))
}

pub(super) fn write(reply: &HookReply) -> Option<Value> {
    match reply {
        HookReply::Silent => None,
        HookReply::Hold { reason } => Some(json!({ "prompt": reason })),
        HookReply::Context { text } => Some(json!({ "context": text })),
        HookReply::Deny { reason } => Some(json!({ "deny": reason })),
    }
}
