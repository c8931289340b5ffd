//! The words for things in text for people, the same in every rendering.

use serde::Serialize;
use serde_json::Value;
use workrail_model::approval::Descent;
use workrail_model::capability::{Provenance, UseResult};
use workrail_model::event::{EdgeCauseKind, NodeKind};
use workrail_model::evidence::EvidenceGrade;
use workrail_model::preferences::{Preferences, RunStatus};
use workrail_model::reason::{Advisory, Reason};
use workrail_model::text::clean;

use super::sections::SpanTone;
use super::{
    ActorKind, Approval, Attempt, BranchPosition, ContextValue, GapReport, NodeReport, Report, RunReport,
    Signature, StepReport, TimeSpan, Times, elapsed_text,
};

/// A word of a closed set as people write it: `user_only_dependency` as `user only dependency`.
pub fn plain<T: Serialize>(word: &T) -> String {
    match serde_json::to_value(word) {
        Ok(Value::String(text)) => text.replace('_', " "),
        Ok(_) | Err(_) => String::new(),
    }
}

/// What a run is doing. In a damaged session, only what it did before the damage is known.
pub fn status(run: &RunReport) -> String {
    match run.is_damaged {
        true => format!("damaged (was {})", undamaged_status(run)),
        false => undamaged_status(run),
    }
}

fn undamaged_status(run: &RunReport) -> String {
    match run.status {
        None => "unreadable".to_owned(),
        Some(RunStatus::Blocked) if run.waits_for_person => "waits for a person".to_owned(),
        Some(status) => status.in_words().to_owned(),
    }
}

/// Why a closed run was closed, how and when; `None` for any other run.
pub fn closed(run: &RunReport, times: Times) -> Option<String> {
    let closed = run.closed.as_ref()?;
    let at = closed.at.as_ref().map(|at| format!(", {}", times.shown(at))).unwrap_or_default();
    Some(format!("{} (by {}{at})", closed.reason, actor(closed.by)))
}

pub(crate) fn actor(actor: ActorKind) -> &'static str {
    match actor {
        ActorKind::Agent => "the agent",
        ActorKind::Terminal => "someone at a terminal",
        ActorKind::Chat => "an answer in the chat",
        ActorKind::Console => "someone in the console",
        ActorKind::Passkey => "a person with a passkey",
        ActorKind::CommandLine => "someone on the command line",
        ActorKind::User => "the call that started the run",
        ActorKind::Workflow => "the workflow's recommendation",
        ActorKind::System => "the defaults",
    }
}

pub fn cause(cause: EdgeCauseKind) -> &'static str {
    match cause {
        EdgeCauseKind::AckPending => "completing the step",
        EdgeCauseKind::IdempotentReplay => "repeated call",
        EdgeCauseKind::IntentionalFork => "a requested branch",
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

/// The position of a point in its run; `None` if work went beyond it.
pub fn branch_position(node: &NodeReport) -> Option<(SpanTone, &'static str)> {
    match (node.branch_position, &node.step) {
        (BranchPosition::Tip, StepReport::Complete) => Some((SpanTone::Good, "complete")),
        (BranchPosition::Tip, StepReport::Pending { .. } | StepReport::Unreadable) => {
            Some((SpanTone::Current, "current"))
        }
        (BranchPosition::BranchEnd, _) => Some((SpanTone::Quiet, "end of a branch")),
        (BranchPosition::Passed, _) => None,
    }
}

/// As people type them in commands.
pub fn preferences(preferences: Preferences) -> String {
    format!("{}, {}", preferences.autonomy.as_str(), preferences.risk_policy.as_str())
}

pub(crate) fn reason(reason: Reason) -> String {
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
pub(crate) fn provenance(provenance: &Provenance) -> String {
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

/// What the report is about, in one line.
pub fn title(report: &Report) -> String {
    match report.runs.as_slice() {
        [run] => {
            let name = run.workflow.name.as_deref().unwrap_or(run.workflow.workflow_id.as_str());
            let goal = run.goal.as_deref().map(|goal| format!(": {}", one_line(goal))).unwrap_or_default();
            format!("{}{goal}", one_line(name))
        }
        [] => "A session of notes".to_owned(),
        runs => format!("A session of {} runs", runs.len()),
    }
}

/// The notice at the top of a damaged session's report, in every rendering.
pub fn damage(report: &Report) -> Option<String> {
    let (until, reason) = report.damage()?;
    Some(format!(
        "This session is damaged: {reason}. The report covers the {} events before the damage, which are verified; \
         what came after is missing here.",
        until.get()
    ))
}

/// What happened in a run, counted.
pub fn counts(run: &RunReport) -> String {
    let counts = &run.counts;
    let named = [
        (counts.advances, "step completed", "steps completed"),
        (counts.blocked_attempts, "blocked attempt", "blocked attempts"),
        (counts.checkpoints, "checkpoint", "checkpoints"),
        // A single path is not a branching.
        (if counts.branches > 1 { counts.branches } else { 0 }, "branch", "branches"),
        (counts.open_gaps, "open gap", "open gaps"),
        (counts.artifacts, "artifact", "artifacts"),
    ];
    let parts = named.iter().filter(|(count, ..)| *count > 0).map(|(count, one, many)| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// How much of a run is known besides what was claimed; empty if nothing is.
pub fn evidence(run: &RunReport) -> String {
    let attempts = run.nodes.iter().flat_map(|node| &node.attempts);
    let grades: Vec<EvidenceGrade> =
        attempts.flat_map(|attempt| &attempt.evidence).map(|evidence| evidence.grade).collect();
    let count = |grade: EvidenceGrade| grades.iter().filter(|other| **other == grade).count();
    let is_contradicted = |gap: &&GapReport| gap.reason == Reason::Advisory(Advisory::ClaimContradicted);
    let named = [
        (count(EvidenceGrade::Checked), EvidenceGrade::Checked.as_str()),
        (count(EvidenceGrade::Observed), EvidenceGrade::Observed.as_str()),
        (run.gaps.iter().filter(is_contradicted).count(), "contradicted"),
    ];
    let parts = named.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// From when to when, and how long.
pub fn span(span: &TimeSpan, times: Times) -> String {
    let elapsed = span.elapsed_ms.map(|ms| format!(" ({})", elapsed_text(ms))).unwrap_or_default();
    match (&span.from, &span.to) {
        (Some(from), Some(to)) if from == to => times.shown(from),
        (Some(from), Some(to)) => format!("{} to {}{elapsed}", times.shown(from), times.shown(to)),
        (Some(one), None) | (None, Some(one)) => times.shown(one),
        (None, None) => String::new(),
    }
}

/// When an attempt was made, and how long after its point was reached.
pub(crate) fn when(attempt: &Attempt, times: Times) -> String {
    let at = attempt.at.as_ref().map(|at| format!(", {}", times.shown(at))).unwrap_or_default();
    let after = attempt.elapsed_ms.filter(|ms| *ms > 0).map(|ms| format!(" after {}", elapsed_text(ms)));
    format!("{at}{}", after.unwrap_or_default())
}

/// A decision that a passkey signed, and what that proves.
fn signed(approval: &Approval, verb: &str, at: &str, note: &str) -> String {
    let by = approval.who.as_ref().map(|who| format!("by {who} ")).unwrap_or_default();
    let Some(key) = &approval.key else {
        return format!(
            "{verb} {by}with a passkey for step {}{at}{note} — its signature was removed, so nothing here proves it",
            approval.step_id
        );
    };
    let resets = match approval.resets {
        None => String::new(),
        Some(1) => "; the passkeys of that store had been reset once before".to_owned(),
        Some(count) => format!("; the passkeys of that store had been reset {count} times before"),
    };
    let proves = approval.signature.as_ref().unwrap_or(&Signature::Unchecked).in_words();
    format!(
        "{verb} {by}with the passkey \"{key}\" for step {}{at}{note} — {proves}{resets}",
        approval.step_id
    )
}

/// The actor, by the channel used and by name if the record has one.
pub(crate) fn caused(by: &str, who: Option<&str>) -> String {
    who.map_or_else(|| by.to_owned(), |who| format!("{who}, {by}"))
}

/// An approval or rejection in words.
pub fn approval(approval: &Approval, times: Times) -> String {
    let verb = if approval.approved { "approved" } else { "rejected" };
    let at = approval.at.as_ref().map(|at| format!(", {}", times.shown(at))).unwrap_or_default();
    let note = approval.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
    let warning = match approval.by {
        ActorKind::Passkey => return signed(approval, verb, &at, &note),
        ActorKind::Chat => {
            " — warning: given through the program that runs the agent, which can answer by itself; this does not prove \
             that a person decided"
        }
        ActorKind::Console if approval.with_token => {
            " — given in the team's console by someone who logged in with this member's token"
        }
        ActorKind::Console => " — given in the console, which an agent with a shell can open too",
        ActorKind::Terminal => match approval.descends_from_server {
            Descent::Yes => {
                " — warning: from a terminal that the agent's program started, which the agent can use too"
            }
            Descent::No | Descent::Unknown => " — a typed label, which an agent with a shell can type too",
        },
        ActorKind::Agent
        | ActorKind::CommandLine
        | ActorKind::User
        | ActorKind::Workflow
        | ActorKind::System => "",
    };
    let by = caused(actor(approval.by), approval.who.as_deref());
    format!("{verb} by {by} for step {}{at}{note}{warning}", approval.step_id)
}

/// JSON as people read it: indented.
pub fn json(value: &Value) -> String {
    format!("{value:#}")
}

/// Clean text on one line.
pub fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
