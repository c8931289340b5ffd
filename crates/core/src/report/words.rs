//! What things are called when people read about them, in every rendering alike.

use serde::Serialize;
use serde_json::Value;
use workrail_model::capability::{Provenance, UseResult};
use workrail_model::event::{EdgeCauseKind, NodeKind};
use workrail_model::preferences::{Preferences, RunStatus};
use workrail_model::reason::Reason;

use super::{Actor, ContextValue, NodeReport, RunReport, StepReport};

/// A word of a closed set as people write it: `user_only_dependency` as `user only dependency`.
pub fn plain<T: Serialize>(word: &T) -> String {
    match serde_json::to_value(word) {
        Ok(Value::String(text)) => text.replace('_', " "),
        Ok(_) | Err(_) => String::new(),
    }
}

pub fn status(run: &RunReport) -> String {
    match run.status {
        None => "unreadable".to_owned(),
        Some(RunStatus::Blocked) if run.waits_for_person => "waits for a person".to_owned(),
        Some(RunStatus::Blocked) => "blocked".to_owned(),
        Some(RunStatus::InProgress) => "in progress".to_owned(),
        Some(RunStatus::Complete) => "complete".to_owned(),
        Some(RunStatus::CompleteWithGaps) => "complete, with open gaps".to_owned(),
    }
}

pub fn actor(actor: Actor) -> &'static str {
    match actor {
        Actor::Agent => "the agent",
        Actor::Terminal => "someone at a terminal",
        Actor::CommandLine => "the command line",
        Actor::User => "the call that started the run",
        Actor::Workflow => "the workflow's recommendation",
        Actor::System => "the defaults",
    }
}

pub fn cause(cause: EdgeCauseKind) -> &'static str {
    match cause {
        EdgeCauseKind::AckPending => "ordinary advance",
        EdgeCauseKind::IdempotentReplay => "repeated call",
        EdgeCauseKind::IntentionalFork => "fork that was asked for",
        EdgeCauseKind::NonTipAdvance => "advance from an earlier point",
        EdgeCauseKind::CheckpointCreated => "checkpoint",
    }
}

/// A step's title with its loops: `Review (rounds 2)`.
pub fn step(step: &StepReport) -> String {
    match step {
        StepReport::Pending { title, loops, .. } if loops.is_empty() => title.clone(),
        StepReport::Pending { title, loops, .. } => format!("{title} ({})", loops.join(", ")),
        StepReport::Complete => "Complete".to_owned(),
        StepReport::Unreadable => "(a step whose content cannot be read)".to_owned(),
    }
}

/// What a point is: a step, or a checkpoint on one.
pub fn point(node: &NodeReport) -> String {
    match node.kind {
        NodeKind::Step => step(&node.step),
        NodeKind::Checkpoint => format!("Checkpoint at {}", step(&node.step)),
    }
}

pub fn preferences(preferences: Preferences) -> String {
    format!("{}, {}", plain(&preferences.autonomy), plain(&preferences.risk_policy))
}

pub fn reason(reason: Reason) -> String {
    let (category, detail) = match reason {
        Reason::UserOnlyDependency(detail) => ("only a person can give it", plain(&detail)),
        Reason::ContractViolation(detail) => ("contract", plain(&detail)),
        Reason::CapabilityMissing(detail) => ("capability", plain(&detail)),
        Reason::Unexpected(detail) => ("unexpected", plain(&detail)),
        Reason::Advisory(detail) => ("advisory", plain(&detail)),
    };
    format!("{category}: {detail}")
}

/// How a capability became known.
pub fn provenance(provenance: &Provenance) -> String {
    let result = |result: UseResult| match result {
        UseResult::Success => "succeeded",
        UseResult::Failure => "failed",
    };
    match provenance {
        Provenance::ProbeStep { detail, .. } => format!("a probe {}", result(detail.result)),
        Provenance::AttemptedUse { detail, .. } => format!("its use {}", result(detail.result)),
        Provenance::ManualClaim { detail, .. } => format!("claimed by the {}", plain(&detail.claimed_by)),
    }
}

pub fn context_value(value: &ContextValue) -> String {
    match value {
        ContextValue::NotShown => "(not shown)".to_owned(),
        ContextValue::Withheld => "(withheld)".to_owned(),
        ContextValue::Shown { value } => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        ContextValue::TooLong { .. } => "(too long to be shown)".to_owned(),
    }
}

/// Whether a character makes a line read differently from what it holds: marks, overrides and isolates of
/// direction, separators that are no newline, and what takes no space. Joiners stay: scripts and emoji need them.
pub fn misleads(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text for people's eyes: what would steer a terminal, reorder the line or hide in it is replaced.
pub fn clean(text: &str) -> String {
    let harmless = |c: char| match c {
        '\n' | '\t' => c,
        _ if c.is_control() || misleads(c) => '\u{fffd}',
        _ => c,
    };
    text.replace("\r\n", "\n").chars().map(harmless).collect()
}

/// The same on one line.
pub fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
