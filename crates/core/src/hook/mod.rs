//! What a hook of an agent's host means, and the answer: hold the turn, show the step again, refuse a call, or nothing.
//!
//! A host's adapter (`hosts`) turns its JSON into one of our events, and our reply into its JSON. The rules in between
//! (`rules`) know no host. Text states facts: hosts treat instructions in a hook's output as an injection.

pub mod hosts;
mod observed;
mod patch;
mod refuse;
mod rules;
mod words;

use workrail_model::chat::{ChatKey, HostName};
use workrail_model::tool::ToolName;

pub use observed::observed;
pub use refuse::refused_command;
pub use rules::{PendingFor, PersonWait, RunPosition, TurnDecision, hold, pending_for, refused_edit};
pub use words::{PendingWork, edit_denied, hold_reason, pending_step_text, unfinished_here};

/// Something that happened in a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookEvent {
    pub host: HostName,
    /// The host's id of the chat.
    pub chat: String,
    /// The agent in it, if it is not the one that the user talks to.
    pub agent: Option<String>,
    /// The folder that the host works in.
    pub workspace: Option<String>,
    pub kind: HookEventKind,
}

impl HookEvent {
    /// The key under which the event's own agent is remembered.
    pub fn key(&self) -> ChatKey {
        ChatKey::of(self.host, &self.chat, self.agent.as_deref())
    }

    /// The key under which the whole chat is remembered.
    pub fn chat_key(&self) -> ChatKey {
        ChatKey::of(self.host, &self.chat, None)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEventKind {
    ChatBegins(ChatStart),
    TurnBegins,
    /// The host is about to compact the history, and will not report when it is done.
    HistoryShrinks,
    ToolStarts(ToolUse),
    ToolEnds {
        tool: ToolUse,
        result: ToolResult,
    },
    SubagentStarts {
        kind: String,
    },
    TurnEnds(TurnEnd),
}

/// Why a chat begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatStart {
    /// Its history is empty.
    New,
    /// It had a history, of which the host kept all or a summary.
    Again,
}

/// Whether this end follows a turn that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    Free,
    AfterHold,
}

/// A tool call, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolUse {
    Own(ToolName),
    Shell {
        command: String,
    },
    /// Writes files, by the paths given to the host.
    Edit {
        paths: Vec<String>,
    },
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// All text in it.
    pub text: String,
    pub exit_code: Option<i64>,
    pub duration_ms: Option<u64>,
}

/// A hook's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookReply {
    Silent,
    /// Do not end the turn.
    Hold {
        reason: String,
    },
    /// Show this to the agent.
    Context {
        text: String,
    },
    /// Do not make the call.
    Deny {
        reason: String,
    },
}

/// The answer that needs no run; `None` if it needs one.
pub fn without_run(event: &HookEvent) -> Option<HookReply> {
    match &event.kind {
        HookEventKind::ToolStarts(ToolUse::Shell { command }) => Some(match refused_command(command) {
            Some(refused) => HookReply::Deny { reason: words::refused(&refused) },
            None => HookReply::Silent,
        }),
        HookEventKind::ToolStarts(ToolUse::Own(_) | ToolUse::Other)
        | HookEventKind::ToolEnds { tool: ToolUse::Other, .. } => Some(HookReply::Silent),
        HookEventKind::ToolEnds { tool: ToolUse::Own(tool), .. } if !gives_step(*tool) => {
            Some(HookReply::Silent)
        }
        HookEventKind::ChatBegins(_)
        | HookEventKind::TurnBegins
        | HookEventKind::HistoryShrinks
        | HookEventKind::ToolStarts(ToolUse::Edit { .. })
        | HookEventKind::ToolEnds { .. }
        | HookEventKind::SubagentStarts { .. }
        | HookEventKind::TurnEnds(_) => None,
    }
}

/// Whether a tool's reply contains the step that the chat works on from then on.
fn gives_step(tool: ToolName) -> bool {
    match tool {
        ToolName::StartWorkflow
        | ToolName::ContinueWorkflow
        | ToolName::CheckpointWorkflow
        | ToolName::ResumeSession => true,
        ToolName::ListWorkflows | ToolName::InspectWorkflow | ToolName::ReadRun | ToolName::StartSession => {
            false
        }
    }
}

/// The tokens in a tool's reply, starting with the one that decides which run the chat works on. A reply with a step
/// ends with the right to complete it. A reply without one, at the end of a run, has only bookmarks; those of
/// `resume_session` belong to runs to choose from.
pub fn tokens_in(tool: ToolName, text: &str) -> Vec<&str> {
    let is_token_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let words: Vec<&str> = text.split(|c: char| !is_token_char(c)).collect();
    let of_kind = |prefix: &'static str| {
        words
            .iter()
            .rev()
            .copied()
            .filter(move |word| word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(".v")))
    };
    let bookmarks = match tool {
        ToolName::ResumeSession => "",
        ToolName::StartWorkflow
        | ToolName::ContinueWorkflow
        | ToolName::CheckpointWorkflow
        | ToolName::ListWorkflows
        | ToolName::InspectWorkflow
        | ToolName::ReadRun
        | ToolName::StartSession => "st",
    };
    let all = of_kind("ack").chain(of_kind(bookmarks).filter(|_| !bookmarks.is_empty()));
    // The first ones decide; a text with more is not ours.
    all.take(TOKENS_MAX).map(|word| word.trim_end_matches(['.', '-'])).collect()
}

/// How many tokens of a reply are tried.
const TOKENS_MAX: usize = 8;

#[cfg(test)]
mod tests;
