//! Which run a chat in an agent's host works on: used by hooks, never the source of truth (G108).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;
use crate::digest::Sha256;
use crate::event::EventIndex;
use crate::id::{NodeId, RunId, SessionId};
use crate::time::Timestamp;

closed_set! {
    "kebab-case",
    /// The programs that agents run in and that call `workrail hook`, by their names in `workrail hook`.
    pub enum HostName {
        ClaudeCode,
        Codex,
        Copilot,
        Vscode,
        Gemini,
        Cursor,
        Opencode,
    }
}

/// Identifies a chat, or one agent in it, without revealing anything about either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChatKey(Sha256);

impl ChatKey {
    /// `agent` is absent for the one that the user talks to.
    pub fn of(host: HostName, chat: &str, agent: Option<&str>) -> Self {
        // JSON keeps the three apart, whatever they contain.
        let parts = serde_json::json!([host, chat, agent]);
        Self(Sha256::of(parts.to_string().as_bytes()))
    }

    pub fn hex(self) -> String {
        self.0.hex()
    }
}

/// What hooks remember of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatRecord {
    pub v: u32,
    pub host: HostName,
    pub session_id: SessionId,
    /// The run whose step the chat was given last.
    pub run_id: RunId,
    /// The folder that the host works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// When the chat last called a tool of ours. Decides which records are dropped first, and nothing else.
    pub used_at: Timestamp,
    /// The last turn of this chat that was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldTurn>,
    pub memory: ChatMemory,
}

impl ChatRecord {
    pub const VERSION: u32 = 1;
}

/// A turn that did not end because a step was pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldTurn {
    /// Where the run was.
    pub node_id: NodeId,
    /// How long the session's log was. A run that has not moved since is not held again.
    pub log_length: EventIndex,
    /// How often this step was held.
    pub times: u32,
}

closed_set! {
    "snake_case",
    /// Whether the chat still has the step in its history.
    pub enum ChatMemory {
        Whole,
        /// The host shortened or reloaded it, and the step is to be given back when the next turn begins.
        Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::{ChatKey, HostName};

    #[test]
    fn chats_agents_and_hosts_have_distinct_keys() {
        let mut keys = vec![
            ChatKey::of(HostName::ClaudeCode, "a", None),
            ChatKey::of(HostName::ClaudeCode, "a", Some("")),
            ChatKey::of(HostName::ClaudeCode, "a", Some("b")),
            ChatKey::of(HostName::Codex, "a", None),
            ChatKey::of(HostName::ClaudeCode, "a\",\"b", None),
        ];
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 5);
    }

    #[test]
    fn hosts_have_the_names_that_entries_use() {
        let names: Vec<&str> = HostName::ALL.into_iter().map(HostName::as_str).collect();
        assert_eq!(names, ["claude-code", "codex", "copilot", "vscode", "gemini", "cursor", "opencode"]);
    }
}
