//! The hosts: from a host's JSON to our event, and from our reply to the host's JSON.
//!
//! An event that a host does not have, or that lacks the chat's id, is ignored. What a host cannot do with a
//! reply is left out: the answer is then an empty object, which every host reads as "nothing to say".

mod claude;
mod copilot;
mod cursor;
mod gemini;
mod opencode;
mod tool;
mod vscode;

use serde_json::{Map, Value, json};
use workrail_model::chat::HostName;

use super::{HookEvent, HookEventKind, HookReply};

pub use opencode::plugin as opencode_plugin;

/// Parses one of a host's events; `None` if it does not matter here.
pub fn read(host: HostName, event: &str, input: &Value) -> Option<HookEvent> {
    let input = input.as_object()?;
    match host {
        HostName::ClaudeCode => claude::read(input, event),
        HostName::Codex => claude::read_codex(input, event),
        HostName::Copilot => copilot::read(input, event),
        HostName::Vscode => vscode::read(input, event),
        HostName::Gemini => gemini::read(input, event),
        HostName::Cursor => cursor::read(input, event),
        HostName::Opencode => opencode::read(input, event),
    }
}

/// Writes a reply in the form that the host expects for that event.
pub fn write(host: HostName, event: &str, reply: &HookReply) -> Value {
    let written = match host {
        HostName::ClaudeCode | HostName::Codex => claude::write(event, reply),
        HostName::Copilot => copilot::write(event, reply),
        HostName::Vscode => vscode::write(event, reply),
        HostName::Gemini => gemini::write(event, reply),
        HostName::Cursor => cursor::write(event, reply),
        HostName::Opencode => opencode::write(reply),
    };
    written.unwrap_or_else(|| json!({}))
}

/// The events of a host for which hook entries make sense, by the host's own names.
pub fn events(host: HostName) -> &'static [&'static str] {
    match host {
        HostName::ClaudeCode => &[
            "SessionStart",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "Stop",
            "SubagentStart",
            "SubagentStop",
        ],
        HostName::Codex => {
            &["SessionStart", "PreToolUse", "PostToolUse", "Stop", "SubagentStart", "SubagentStop"]
        }
        HostName::Copilot => {
            &["sessionStart", "preToolUse", "postToolUse", "postToolUseFailure", "agentStop", "subagentStart"]
        }
        HostName::Vscode => {
            &["SessionStart", "PreToolUse", "PostToolUse", "PreCompact", "Stop", "SubagentStart"]
        }
        HostName::Gemini => {
            &["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "PreCompress", "AfterAgent"]
        }
        HostName::Cursor => &[
            "sessionStart",
            "preToolUse",
            "beforeShellExecution",
            "afterShellExecution",
            "afterMCPExecution",
            "afterFileEdit",
            "subagentStart",
            "stop",
        ],
        HostName::Opencode => &[
            "tool.execute.before",
            "tool.execute.after",
            "chat.system",
            "session.compacting",
            "session.created",
            "session.idle",
        ],
    }
}

/// Whether an agent in this host reads what a hook adds to the result of a tool, but nothing that is added after its
/// history was compacted.
pub fn takes_context_after_tools(host: HostName) -> bool {
    match host {
        HostName::Copilot | HostName::Vscode => true,
        HostName::ClaudeCode | HostName::Codex | HostName::Gemini | HostName::Cursor | HostName::Opencode => {
            false
        }
    }
}

/// Whether a host may compact the history without an event. Then every turn begins with a short reminder.
pub fn forgets_silently(host: HostName) -> bool {
    match host {
        HostName::Gemini => true,
        HostName::ClaudeCode
        | HostName::Codex
        | HostName::Copilot
        | HostName::Vscode
        | HostName::Cursor
        | HostName::Opencode => false,
    }
}

type HookInput = Map<String, Value>;

fn text<'a>(input: &'a HookInput, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn owned(input: &HookInput, name: &str) -> Option<String> {
    text(input, name).map(str::to_owned)
}

fn is_true(input: &HookInput, name: &str) -> bool {
    input.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// An event of the chat itself; `names` are the host's names for the chat's id and its folder.
fn of_chat(host: HostName, input: &HookInput, names: (&str, &str), kind: HookEventKind) -> Option<HookEvent> {
    let (chat, folder) = names;
    Some(HookEvent { host, chat: owned(input, chat)?, agent: None, workspace: owned(input, folder), kind })
}

/// `hookSpecificOutput` with the event's name, as several hosts require.
fn specific(event: &str, members: Value) -> Value {
    let mut inner = json!({ "hookEventName": event });
    if let (Value::Object(inner), Value::Object(members)) = (&mut inner, members) {
        inner.extend(members);
    }
    json!({ "hookSpecificOutput": inner })
}
