//! What the reply to an advance discloses besides the next step: warnings, facts, the way back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use workrail_model::approval::ApprovalChannel;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::capability::{Capability, CapabilityStatus};
use workrail_model::compiled::{CompiledWorkflow, RecommendedPreferences};
use workrail_model::event::{
    AdvanceOutcome, ApprovalRecorded, EdgeCauseKind, GapRecorded, TraceEntry, TraceKind,
};
use workrail_model::gap::{Resolution, Severity};
use workrail_model::id::{AttemptId, GapId, NodeId, RunId};
use workrail_model::nearest::nearest;
use workrail_model::preferences::{Preferences, RiskPolicy};
use workrail_model::reason::{Advisory, ContractViolation, Reason};
use workrail_model::reply::{
    AssessmentFacts, DimensionFact, ReturnTo, StepContext, Warning, WarningCode, state_marker_of,
};
use workrail_model::snapshot::{EngineState, PendingStep};
use workrail_model::text::{BoundedText, truncate_with_marker};

use super::DecideError;
use crate::builtins;
use crate::contract::artifact_kind;
use crate::derive;
use crate::interpret::{AcceptedAssessment, Finding, OutputCheck, decided_since};
use crate::label::RunLabel;
use crate::project::{AdvanceRecord, GapState, SessionState};
use crate::reason::{GapCloser, exceeded, gap_closer, warns};
use crate::reply::{OpenGap, rehydrate_call};

/// Why the latest attempt at a node was refused, with what a person has decided on it since (G63).
pub fn refused_before(facts: &SessionState, node: NodeId) -> Vec<Blocker> {
    let Some(last) = facts.latest_advance(node) else { return Vec::new() };
    let AdvanceOutcome::Blocked { blockers } = &last.outcome else { return Vec::new() };
    let decision = decision_on(facts, node, last);
    let now = blockers.blockers().iter().map(|blocker| match (decision, &blocker.pointer) {
        (Some(decision), BlockerPointer::WorkflowStep { .. })
            if blocker.code == BlockerCode::UserOnlyDependency =>
        {
            decided_since(blocker, decision.decision, decision.note.as_ref().map(|note| note.as_str()))
        }
        (Some(_) | None, _) => blocker.clone(),
    });
    now.collect()
}

/// What a person decided on what an attempt submitted, after it was refused.
fn decision_on<'a>(
    facts: &'a SessionState,
    node: NodeId,
    attempt: &AdvanceRecord,
) -> Option<&'a ApprovalRecorded> {
    let submitted = attempt.submitted?;
    let decisions = facts.approvals(node).iter().rev();
    let mut since = decisions.take_while(|decision| decision.index > attempt.event_index);
    since.find(|decision| decision.data.submitted == Some(submitted)).map(|decision| &decision.data)
}

/// Preferred capabilities that this attempt found missing, each with what to record about it.
pub(super) fn degraded(
    workflow: &CompiledWorkflow,
    statuses: &BTreeMap<Capability, CapabilityStatus>,
) -> impl Iterator<Item = (&'static str, String)> {
    let preferred = workflow.capabilities.preferred.iter().copied();
    let missing =
        preferred.filter(|capability| statuses.get(capability) == Some(&CapabilityStatus::Unavailable));
    missing.map(|capability| {
        let name = capability.as_str();
        (
            name,
            format!("`{name}` is preferred by this workflow but unavailable; the run continues without it."),
        )
    })
}

/// The trace entry of an advance that makes another branch; none for an ordinary one.
pub(super) fn fork_entry(cause: EdgeCauseKind) -> Option<TraceEntry> {
    let summary = match cause {
        EdgeCauseKind::IntentionalFork => {
            "This step was completed before; a new branch was requested and starts here."
        }
        EdgeCauseKind::NonTipAdvance => {
            "This step was completed before with another ackToken; this advance starts a new branch."
        }
        EdgeCauseKind::AckPending | EdgeCauseKind::IdempotentReplay | EdgeCauseKind::CheckpointCreated => {
            return None;
        }
    };
    let kind = TraceKind::DetectedNonTipAdvance;
    Some(TraceEntry { kind, summary: BoundedText::clip(summary), refs: Vec::new() })
}

/// Gaps as the reply shows them; the risk policy decides which advisories are worth a warning.
pub(super) fn warnings(policy: RiskPolicy, gaps: &[GapRecorded]) -> Vec<Warning> {
    let unresolved = gaps.iter().filter(|gap| gap.resolution == Resolution::Unresolved);
    let shown = unresolved.filter_map(|gap| {
        let (code, message) = match gap.reason {
            Reason::Advisory(advisory) if !warns(policy, advisory) => return None,
            Reason::Advisory(advisory) => (advisory_code(advisory), gap.summary.as_str().to_owned()),
            Reason::UserOnlyDependency(_)
            | Reason::ContractViolation(_)
            | Reason::CapabilityMissing(_)
            | Reason::Unexpected(_) => {
                let message = format!("Recorded as a gap, and the run continued. {}", gap.summary.as_str());
                (WarningCode::GapRecorded, message)
            }
        };
        Some(Warning { code, message })
    });
    shown.collect()
}

/// The code of an advisory in a reply.
pub(crate) fn advisory_code(advisory: Advisory) -> WarningCode {
    match advisory {
        Advisory::PreferencesAboveRecommendation => WarningCode::PreferencesAboveRecommendation,
        Advisory::LoopLimitReached => WarningCode::LoopLimitReached,
        Advisory::CapabilityDegraded => WarningCode::CapabilityDegraded,
        Advisory::ReferenceUnresolved => WarningCode::ReferenceUnresolved,
        Advisory::ContextKeyNeverSet => WarningCode::ContextKeyNeverSet,
        Advisory::ClaimContradicted => WarningCode::ClaimContradicted,
    }
}

/// How an approval was given, and what that proves.
pub(super) fn approved_how(decided: &ApprovalRecorded) -> String {
    match decided.channel {
        ApprovalChannel::Passkey => {
            let key = decided.proof.as_ref().map(|proof| proof.key.name.as_str()).unwrap_or_default();
            format!("Approved with the passkey \"{key}\"; its signature is valid.")
        }
        ApprovalChannel::Terminal => {
            "Approved at a terminal. A typed label does not prove that a person did it.".to_owned()
        }
        ApprovalChannel::Console => {
            "Approved in the console without a passkey. This does not prove that a person did it.".to_owned()
        }
        ApprovalChannel::Chat => {
            "Approved in the chat. The program that runs the agent can answer by itself, so this does not prove that a \
             person did it."
                .to_owned()
        }
    }
}

/// What the disclosure is about: different settings that go too far are disclosed again.
pub(super) fn preferences_cause(effective: Preferences) -> String {
    format!("preferences {} {}", effective.autonomy.as_str(), effective.risk_policy.as_str())
}

/// The message if a mode goes beyond what the workflow recommends.
pub(super) fn above_recommendation(workflow: &CompiledWorkflow, effective: Preferences) -> Option<String> {
    let RecommendedPreferences { autonomy, risk_policy } = exceeded(effective, workflow.recommended);
    let excess =
        |what: &str, now: &str, most: &str| format!("{what} is `{now}`, at most `{most}` is advised");
    let above = [
        autonomy.map(|most| excess("the mode", effective.autonomy.as_str(), most.as_str())),
        risk_policy.map(|most| excess("the risk policy", effective.risk_policy.as_str(), most.as_str())),
    ];
    let above: Vec<String> = above.into_iter().flatten().collect();
    (!above.is_empty()).then(|| {
        format!(
            "The settings of this run go further than the workflow recommends: {}. This is allowed; no action is needed.",
            above.join("; ")
        )
    })
}

/// The run's unresolved critical gaps, oldest first, each by its id.
pub fn open_gaps(facts: &SessionState, run: RunId) -> Vec<OpenGap> {
    let open = facts.gaps(run).filter(|gap| gap.is_open() && gap.severity == Severity::Critical);
    open.map(|gap| OpenGap {
        gap_id: gap.gap_id,
        summary: gap.summary.as_str().to_owned(),
        closer: gap_closer(gap.reason),
    })
    .collect()
}

/// What a complete run reports besides its gaps: the open disclosures that changed which steps were done.
pub fn disclosed(facts: &SessionState, run: RunId) -> impl Iterator<Item = &str> {
    let open = facts.gaps(run).filter(|gap| gap.is_open() && is_reported_at_the_end(gap.reason));
    open.map(|gap| gap.summary.as_str())
}

pub(super) fn is_reported_at_the_end(reason: Reason) -> bool {
    match reason {
        Reason::Advisory(
            Advisory::LoopLimitReached | Advisory::ContextKeyNeverSet | Advisory::ClaimContradicted,
        ) => true,
        Reason::Advisory(
            Advisory::PreferencesAboveRecommendation
            | Advisory::CapabilityDegraded
            | Advisory::ReferenceUnresolved,
        )
        | Reason::UserOnlyDependency(_)
        | Reason::ContractViolation(_)
        | Reason::CapabilityMissing(_)
        | Reason::Unexpected(_) => false,
    }
}

/// The artifact with which an agent reports that a gap has been closed.
pub(crate) const GAP_RESOLUTION: &str = "wr.gap_resolution";

/// Refuses an artifact that would close a gap on the user's behalf (G63).
pub(super) fn check_resolutions(
    facts: &SessionState,
    run: RunId,
    artifacts: &[Value],
) -> Result<(), DecideError> {
    let named = artifacts.iter().enumerate().filter_map(|(position, artifact)| {
        let gap = named_gap(facts, run, artifact)?;
        Some((position, gap))
    });
    for (position, gap) in named {
        match gap_closer(gap.reason) {
            GapCloser::Agent => {}
            GapCloser::NotTheAgent => {
                let summary = gap.summary.as_str().to_owned();
                return Err(DecideError::NotTheAgentsGap { run, position, gap: gap.gap_id, summary });
            }
        }
    }
    Ok(())
}

/// Outside a step, refuses an artifact that closes no open gap: there is no retry in which to correct it.
pub(super) fn check_named_gaps(
    facts: &SessionState,
    run: RunId,
    artifacts: &[Value],
) -> Result<(), DecideError> {
    match artifacts.iter().position(|artifact| names_no_open_gap(facts, run, artifact)) {
        None => Ok(()),
        Some(position) => Err(DecideError::NoSuchGap { position, open: open_ids(facts, run) }),
    }
}

fn open_ids(facts: &SessionState, run: RunId) -> Vec<String> {
    facts.gaps(run).filter(|gap| gap.is_open()).map(|gap| gap.gap_id.to_string()).collect()
}

/// Whether an artifact claims to close a gap but names no open one.
pub(super) fn names_no_open_gap(facts: &SessionState, run: RunId, artifact: &Value) -> bool {
    artifact_kind(artifact) == GAP_RESOLUTION && named_gap(facts, run, artifact).is_none()
}

/// What is wrong with artifacts that close a gap which is not open.
pub(super) fn unknown_gaps(
    facts: &SessionState,
    run: RunId,
    pending: &PendingStep,
    artifacts: &[Value],
) -> Vec<Finding> {
    let unknown = artifacts.iter().filter(|artifact| names_no_open_gap(facts, run, artifact));
    let open = open_ids(facts, run);
    let fix = match open.as_slice() {
        [] => "This run has no open gap: leave the artifact out.".to_owned(),
        ids => format!("Name an open gap in `gapId`: {}. Or leave the artifact out.", ids.join(", ")),
    };
    let findings = unknown.map(|artifact| {
        let named = artifact.get("gapId").and_then(Value::as_str).unwrap_or("nothing");
        let blocker = Blocker {
            code: BlockerCode::InvalidRequiredOutput,
            pointer: BlockerPointer::WorkflowStep { step_id: pending.step_id.clone() },
            message: BoundedText::clip(&format!(
                "The `{GAP_RESOLUTION}` artifact names {named}, which is not an open gap of this run."
            )),
            suggested_fix: Some(BoundedText::clip(&fix)),
            decision: None,
        };
        Finding { reason: Reason::ContractViolation(ContractViolation::InvalidRequiredOutput), blocker }
    });
    findings.collect()
}

/// The open gap in this run that the artifact claims to close.
fn named_gap<'a>(facts: &'a SessionState, run: RunId, artifact: &Value) -> Option<&'a GapState> {
    if artifact_kind(artifact) != GAP_RESOLUTION {
        return None;
    }
    let id = GapId::parse(artifact.get("gapId")?.as_str()?).ok()?;
    facts.gaps(run).find(|gap| gap.gap_id == id && gap.is_open())
}

/// The gaps that these artifacts resolve, as records that link to them: nothing is ever edited (G41).
pub(super) fn resolutions(
    facts: &SessionState,
    run: RunId,
    node: NodeId,
    attempt: AttemptId,
    artifacts: &[Value],
) -> Vec<GapRecorded> {
    let resolved = artifacts.iter().filter_map(|artifact| {
        let gap = named_gap(facts, run, artifact)?;
        let summary = artifact.get("summary").and_then(Value::as_str).unwrap_or("resolved");
        Some(resolution(gap, node, attempt, summary))
    });
    resolved.collect()
}

/// The record that resolves a gap.
pub(super) fn resolution(gap: &GapState, node: NodeId, attempt: AttemptId, summary: &str) -> GapRecorded {
    let id = gap.gap_id;
    GapRecorded {
        gap_id: derive::gap_id(node, attempt, gap.reason, &format!("resolves:{id}")),
        severity: Severity::Info,
        reason: gap.reason,
        summary: BoundedText::clip(summary),
        resolution: Resolution::Resolves { resolves_gap_id: id },
        cause: None,
        evidence_refs: Vec::new(),
    }
}

/// Kinds under `wr.` are a closed set: an unknown one is usually a typo, and nothing reads it.
pub(super) fn unknown_kinds(artifacts: &[Value]) -> Vec<Warning> {
    let known: Vec<&str> =
        builtins::contracts().iter().map(|contract| contract.artifact_kind).chain([GAP_RESOLUTION]).collect();
    let kinds: BTreeSet<&str> = artifacts.iter().map(artifact_kind).collect();
    let unknown = kinds
        .into_iter()
        .filter(|kind| kind.starts_with("wr.") && !known.contains(kind))
        .take(UNKNOWN_KINDS_MAX);
    unknown
        .map(|kind| {
            let near = nearest(kind, known.iter().copied());
            let near = near.map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
            let kind = truncate_with_marker(kind, 64);
            let message =
                format!("There is no artifact kind `{kind}`: it was recorded, but no step reads it.{near}");
            Warning { code: WarningCode::UnknownArtifactKind, message }
        })
        .collect()
}

/// More misspelled kinds than this teach nothing new.
const UNKNOWN_KINDS_MAX: usize = 4;

/// The assessments that were accepted; absent, not empty, without one.
pub(super) fn step_context(check: &OutputCheck) -> Option<StepContext> {
    let (last, others) = check.assessments.split_last()?;
    Some(StepContext {
        assessments: facts_of(last),
        other_assessments: others.iter().map(facts_of).collect(),
    })
}

fn facts_of(accepted: &AcceptedAssessment) -> AssessmentFacts {
    let dimensions = accepted.dimensions.iter().map(|given| DimensionFact {
        dimension_id: given.dimension_id.to_string(),
        level: given.level.as_str().to_owned(),
        rationale: given.rationale.as_ref().map(|text| text.as_str().to_owned()),
    });
    AssessmentFacts {
        assessment_id: accepted.assessment_id.to_string(),
        dimensions: dimensions.collect(),
        normalization_notes: accepted.normalization_notes.clone(),
    }
}

/// Where to continue when this run ends and was started inside another (G37): the point at which that run
/// is now, by a bookmark that shows its step afresh.
pub fn return_to(facts: &SessionState, run: RunId, state: &EngineState) -> Option<ReturnTo> {
    if !state.is_complete() {
        return None;
    }
    let link = facts.run(run)?.parent?;
    let parent = facts.run(link.run_id)?;
    let tip = facts.node(facts.preferred_tip(link.run_id)?)?;
    let label = RunLabel::of(link.run_id);
    Some(ReturnTo {
        label: label.to_string(),
        workflow_id: parent.workflow_id.clone(),
        next_call: rehydrate_call(&state_marker_of(tip.created_index), label),
    })
}
