//! The wording of a comparison, the same in every rendering.

use serde_json::Value;
use workrail_model::event::EventIndex;
use workrail_model::preferences::RunStatus;
use workrail_model::time::Timestamp;

use super::{
    ArtifactComparison, ComparedGapState, Comparison, Continuation, CurrentSide, Difference,
    DifferenceCounts, Extent, FieldDifference, GapComparison, Side, StepOutcome, StepSide,
};
use crate::report::sections::{ReportSection, TextSpan};
use crate::report::words::{context_value, one_line, plain, point, preferences};
use crate::report::{Attempt, ContextValue, Outcome, RunReport, elapsed_text, shown};

/// Why few steps are aligned.
pub(super) const OTHER_WORKFLOW: &str =
    "The two runs use different workflows. Only steps with the same id are compared.";

/// How the two relate, in a word or two.
pub fn difference(difference: Difference) -> &'static str {
    match difference {
        Difference::Shared => "shared",
        Difference::Same => "same",
        Difference::Differs => "differs",
        Difference::OnlyA => "only in A",
        Difference::OnlyB => "only in B",
    }
}

/// What a side is: `amber-falcon`, `amber-falcon, branch b`, `amber-falcon, point 3, attempt 2`.
pub fn side(side: &Side) -> String {
    let Side { label, branch, end, .. } = side;
    match side.what {
        Extent::Path if side.reference == *label => label.clone(),
        Extent::Path if side.reference == format!("{label}@{branch}") => format!("{label}, branch {branch}"),
        Extent::Path => format!("{label} up to point {}", end.point),
        Extent::Point => format!("{label}, point {}", end.point),
        Extent::Attempt { number } => format!("{label}, point {}, attempt {number}", end.point),
    }
}

/// Where a side ends: `2b. Check the change`.
pub(crate) fn end(side: &Side) -> String {
    format!("{}. {}", side.end.point, one_line(&side.end.step))
}

/// How many steps it took, and how long.
pub(crate) fn work(side: &Side) -> String {
    let steps = counted(side.completed, "step completed", "steps completed");
    let refused = match side.refused_attempts {
        0 => String::new(),
        count => format!(", {}", counted(count, "blocked attempt", "blocked attempts")),
    };
    let time = side.elapsed_ms.map(|ms| format!(", {}", elapsed_text(ms))).unwrap_or_default();
    format!("{steps}{refused}{time}")
}

fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// What the two sides are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedFact {
    Run,
    Goal,
    Workflow,
    Status,
    EndsAt,
    Work,
    Preferences,
}

impl ComparedFact {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Goal => "goal",
            Self::Workflow => "workflow",
            Self::Status => "status",
            Self::EndsAt => "ends at",
            Self::Work => "work",
            Self::Preferences => "preferences",
        }
    }
}

/// Facts with each side's value, if they are worth a line; equal values are given once.
pub fn facts(comparison: &Comparison) -> Vec<(ComparedFact, String, String)> {
    let Comparison { a, b, .. } = comparison;
    let both = |fact: ComparedFact, value: &dyn Fn(&Side) -> String| (fact, value(a), value(b));
    let version = |side: &Side| match a.workflow_id == b.workflow_id && a.workflow_hash != b.workflow_hash {
        true => format!("{} ({})", side.workflow_id, &side.workflow_hash.digest().hex()[..12]),
        false => side.workflow_id.to_string(),
    };
    let all = [
        both(ComparedFact::Run, &side),
        both(ComparedFact::Goal, &|side| one_line(side.goal.as_deref().unwrap_or_default())),
        both(ComparedFact::Workflow, &version),
        both(ComparedFact::Status, &|side| side.status.map_or("unreadable", RunStatus::in_words).to_owned()),
        both(ComparedFact::EndsAt, &end),
        both(ComparedFact::Work, &work),
        both(ComparedFact::Preferences, &|side| preferences(side.preferences)),
    ];
    all.into_iter().filter(|(_, a, b)| !(a.is_empty() && b.is_empty())).collect()
}

/// How the steps relate, counted.
pub fn counts(counts: &DifferenceCounts) -> String {
    let named = [
        (counts.shared, "shared"),
        (counts.same, "the same"),
        (counts.different, "different"),
        (counts.only_a, "only in A"),
        (counts.only_b, "only in B"),
    ];
    let parts: Vec<String> =
        named.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
    if parts.is_empty() { "No steps.".to_owned() } else { format!("Steps: {}.", parts.join(", ")) }
}

/// The outcome of a step on one side: `completed after 5 s, 2 attempts`.
pub fn step_side(side: &StepSide) -> String {
    let outcome = match side.outcome {
        StepOutcome::Completed => "completed",
        StepOutcome::Refused => "refused",
        StepOutcome::Pending => "pending",
    };
    let after = side.elapsed_ms.filter(|ms| *ms > 0).map(|ms| format!(" after {}", elapsed_text(ms)));
    let attempts = if side.attempts > 1 { format!(", {} attempts", side.attempts) } else { String::new() };
    format!("{outcome}{}{attempts}", after.unwrap_or_default())
}

pub fn artifact(artifact: &ArtifactComparison) -> String {
    let kind = one_line(&artifact.artifact_kind);
    let reason = artifact.not_compared.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("artifact {kind} ({}){reason}", difference(artifact.difference))
}

/// The name of a field; the artifact itself where it has none.
pub fn field_name(field: &FieldDifference) -> String {
    if field.path.is_empty() { "(whole)".to_owned() } else { one_line(&field.path) }
}

/// A value as one line.
pub fn value(value: &Value) -> String {
    one_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// The state of a gap on each side.
pub fn gap(gap: &GapComparison) -> String {
    let word = |state: ComparedGapState| match state {
        ComparedGapState::Open => "open",
        ComparedGapState::Resolved => "resolved",
    };
    match (gap.a, gap.b) {
        (Some(a), Some(b)) if a == b => format!("{} in both", word(a)),
        (Some(a), Some(b)) => format!("{} in A, {} in B", word(a), word(b)),
        (Some(a), None) => format!("{}, only in A", word(a)),
        (None, Some(b)) => format!("{}, only in B", word(b)),
        (None, None) => String::new(),
    }
}

impl Comparison {
    /// Differing context, and gaps, as tables; empty ones are left out.
    pub fn sections(&self) -> Vec<ReportSection> {
        let text = |text: String| vec![TextSpan::Text(text)];
        let seen = |value: &Option<ContextValue>| text(value.as_ref().map(context_value).unwrap_or_default());
        let context = self.context.iter().map(|entry| {
            let key = vec![TextSpan::Code(entry.key.clone())];
            vec![key, text(difference(entry.difference).to_owned()), seen(&entry.a), seen(&entry.b)]
        });
        let gaps = self.gaps.iter().map(|entry| {
            vec![text(plain(&entry.severity)), text(gap(entry)), text(one_line(&entry.summary))]
        });
        let all = [
            ReportSection::new("Context that differs", &["key", "how", "A", "B"], context),
            ReportSection::new("Gaps", &["severity", "state", "what"], gaps),
        ];
        all.into_iter().filter(|section| !section.rows.is_empty()).collect()
    }
}

/// What continuing a side does.
pub fn continuation(continuation: Continuation) -> &'static str {
    match continuation {
        Continuation::Current => "The run continues here.",
        Continuation::OtherBranch => "The next completed step makes this branch the current one.",
        Continuation::NewBranch => "Work continued from here: the next completed step starts a new branch.",
        Continuation::Nothing => "Complete: there is nothing to continue.",
    }
}

/// The heading that says which one continues.
pub fn continues(comparison: &Comparison) -> &'static str {
    match comparison.continues {
        CurrentSide::A => "A continues",
        CurrentSide::B => "B continues",
        CurrentSide::Both if comparison.a.run_id != comparison.b.run_id => "Both runs are open",
        CurrentSide::Both => "Both continue",
        CurrentSide::Neither => "Neither continues",
    }
}

/// How an attempt ended, where attempts are compared.
pub(super) fn attempt(name: &str, side: &Side, attempt: &Attempt) -> Option<String> {
    let Extent::Attempt { number } = side.what else { return None };
    Some(match &attempt.outcome {
        Outcome::Advanced { to_point: Some(to), .. } => format!("{name}: attempt {number} led to {to}."),
        Outcome::Advanced { to_point: None, .. } => format!("{name}: attempt {number} was completed."),
        Outcome::Blocked { .. } => format!("{name}: attempt {number} was refused."),
    })
}

/// Why one of two parts of a run continues.
pub(super) fn why_of_one_run(
    continues: CurrentSide,
    (a, b): (&Side, &Side),
    run: &RunReport,
    latest: Option<(EventIndex, Option<Timestamp>)>,
) -> Vec<String> {
    let tip = run.nodes.iter().find(|node| Some(node.node_id) == run.tip);
    let at = tip.map(|tip| tip.point.to_string()).unwrap_or_default();
    let record = latest.map(|(index, at)| {
        let time = at.map(|at| format!(", {}", shown(&at))).unwrap_or_default();
        format!(" (event {}{time})", index.get())
    });
    let record = record.unwrap_or_default();
    match (run.status, &a.closed) {
        (Some(RunStatus::Complete | RunStatus::CompleteWithGaps), _) => {
            return vec![format!(
                "The run is complete: the branch worked on last ends at {at}{record}, and nothing is left there."
            )];
        }
        (Some(RunStatus::Closed), Some(reason)) => {
            return vec![format!(
                "The run was closed: {}. The next completed step reopens it at {at}.",
                one_line(reason)
            )];
        }
        (Some(RunStatus::Closed | RunStatus::InProgress | RunStatus::Blocked) | None, _) => {}
    }
    let rule = format!(
        "A run continues where it was last worked on. The latest record{record} is on the path to {at}"
    );
    vec![match continues {
        CurrentSide::A => format!("{rule}, where A ends."),
        CurrentSide::B => format!("{rule}, where B ends."),
        CurrentSide::Both if a.end.node_id == b.end.node_id => format!("{rule}, where both end."),
        CurrentSide::Both => format!("{rule}, where both lead."),
        CurrentSide::Neither => format!("{rule}, where neither of the two ends."),
    }]
}

/// Where a run continues, when two runs are compared.
pub(super) fn why_of_run(name: &str, side: &Side, run: &RunReport) -> String {
    let label = &side.label;
    let tip = run.nodes.iter().find(|node| Some(node.node_id) == run.tip);
    let at = tip.map(|tip| format!("{}. {}", tip.point, one_line(&point(tip)))).unwrap_or_default();
    match (side.status, &side.closed) {
        (Some(RunStatus::Complete | RunStatus::CompleteWithGaps), _) => {
            format!("{name}: run {label} is complete.")
        }
        (Some(RunStatus::Closed), Some(reason)) => {
            format!("{name}: run {label} was closed: {}.", one_line(reason))
        }
        (Some(RunStatus::Blocked), _) => format!("{name}: run {label} is blocked at {at}."),
        (Some(RunStatus::Closed | RunStatus::InProgress) | None, _) => {
            format!("{name}: run {label} continues at {at}.")
        }
    }
}
