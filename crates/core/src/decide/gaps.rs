//! What an advance discloses: what was skipped, what is only worth knowing, and what was delivered late (G41).

use std::collections::BTreeMap;

use workrail_model::blocker::{Blocker, BlockerPointer};
use workrail_model::capability::{Capability, CapabilityStatus};
use workrail_model::event::GapRecorded;
use workrail_model::evidence::Evidence;
use workrail_model::gap::{Resolution, Severity};
use workrail_model::limits::GAP_CAUSE_BYTES_MAX;
use workrail_model::name::StepId;
use workrail_model::reason::{Advisory, Reason};
use workrail_model::snapshot::PendingStep;
use workrail_model::text::BoundedText;

use super::advance::{Advance, PreparedAttempt};
use super::disclose;
use crate::builtins::LOOP_CONTROL_KIND;
use crate::claims::{self, Contradiction, KnownFact};
use crate::contract::{self, artifact_kind};
use crate::interpret::{Finding, OutputCheck, StepSelection};
use crate::project::GapState;
use crate::reason::{GapCloser, disposition, gap_closer};
use crate::{derive, routing};

impl PreparedAttempt<'_> {
    pub(super) fn gaps(
        &self,
        step: &StepId,
        selection: &StepSelection,
        waived: &[Finding],
        check: &OutputCheck,
    ) -> Vec<GapRecorded> {
        let mut gaps = Vec::new();
        for Finding { reason, blocker } in waived {
            let cause = cause(self.pending, blocker);
            let summary = format!("Step `{step}`: {}", blocker.message.as_str());
            gaps.push(self.gap(*reason, &cause, &summary));
        }
        for advisory in &selection.advisories {
            let summary = advisory.summary();
            gaps.push(self.gap(advisory.reason(), &summary, &summary));
        }
        gaps.extend(self.never_decided(selection));
        let workflow = self.command.workflow;
        if self.preferences != self.command.facts.preferences(self.node.node_id)
            && let Some(summary) = disclose::above_recommendation(workflow, self.preferences)
        {
            let reason = Reason::Advisory(Advisory::PreferencesAboveRecommendation);
            gaps.push(self.gap(reason, &disclose::preferences_cause(self.preferences), &summary));
        }
        for (subject, summary) in disclose::degraded(workflow, &self.reported_capabilities(check)) {
            gaps.push(self.gap(Reason::Advisory(Advisory::CapabilityDegraded), subject, &summary));
        }
        let contradictions = self.contradictions();
        for contradiction in &contradictions {
            let reason = Reason::Advisory(Advisory::ClaimContradicted);
            gaps.push(self.gap(reason, &self.contradiction_cause(contradiction), &contradiction.text));
        }
        // An open gap stays one gap, however often it is encountered again.
        gaps.retain(|new| !self.open_gaps().any(|old| old.reason == new.reason && is_same_cause(old, new)));
        gaps.extend(self.resolutions(step, waived, &contradictions));
        gaps
    }

    /// Where the submission contradicts what is known (G124).
    fn contradictions(&self) -> Vec<Contradiction> {
        let Advance { facts, evidence, .. } = &self.command;
        let recorded =
            facts.evidence(self.node.node_id).iter().map(|record| KnownFact::recorded(&record.data));
        let waiting = evidence.observations.iter().map(KnownFact::waiting);
        let checks: Vec<Evidence> = self.checks().map(|run| Evidence::CheckRun(run.clone())).collect();
        let checked = checks.iter().map(KnownFact::checked);
        let known: Vec<KnownFact<'_>> = recorded.chain(waiting).chain(checked).collect();
        let changed = evidence.workspace.changed_in_run.as_deref();
        claims::contradictions(&self.delivered.output.artifacts, &known, changed)
    }

    /// Names a contradiction as the cause of its gap, as recorded.
    fn contradiction_cause(&self, contradiction: &Contradiction) -> String {
        let cause = format!("{}#claim:{}", step_text(self.pending), contradiction.about);
        BoundedText::<GAP_CAUSE_BYTES_MAX>::clip(&cause).as_str().to_owned()
    }

    /// Capabilities reported in this attempt and in the refused ones that it retries.
    fn reported_capabilities(&self, check: &OutputCheck) -> BTreeMap<Capability, CapabilityStatus> {
        let mut statuses = BTreeMap::new();
        if !self.retried.is_empty() {
            for capability in Capability::ALL {
                let recorded = self.command.facts.capability(self.node.node_id, capability);
                statuses.extend(recorded.map(|state| (capability, state.status)));
            }
        }
        statuses.extend(check.capabilities.iter().map(|fact| (fact.capability, fact.status)));
        statuses
    }

    /// Gaps that the agent closes by name, and those whose cause is gone.
    fn resolutions(
        &self,
        step: &StepId,
        waived: &[Finding],
        contradictions: &[Contradiction],
    ) -> Vec<GapRecorded> {
        let (facts, run) = (self.command.facts, self.node.run_id);
        let (node, attempt) = (self.node.node_id, self.attempt_id);
        let mut resolved = disclose::resolutions(facts, run, node, attempt, &self.delivered.output.artifacts);
        let waived = waived.iter().map(|finding| cause(self.pending, &finding.blocker));
        let contradicted = contradictions.iter().map(|contradiction| self.contradiction_cause(contradiction));
        let still: Vec<String> = waived.chain(contradicted).collect();
        for gap in self.open_gaps().filter(|gap| gap_closer(gap.reason) == GapCloser::Agent) {
            let Some(cause) = gap.cause.as_ref().map(BoundedText::as_str) else { continue };
            let named = |record: &GapRecorded| {
                record.resolution == Resolution::Resolves { resolves_gap_id: gap.gap_id }
            };
            if self.is_delivered(cause)
                && !still.iter().any(|other| other == cause)
                && !resolved.iter().any(named)
            {
                let summary = format!("Delivered at step `{step}`.");
                resolved.push(disclose::resolution(gap, node, attempt, &summary));
            }
        }
        resolved
    }

    fn open_gaps(&self) -> impl Iterator<Item = &GapState> {
        self.command.facts.gaps(self.node.run_id).filter(|gap| gap.is_open())
    }

    /// Whether this attempt delivers what a gap is about: the same pass of the same step done again, an accepted value
    /// for the key, or a valid artifact at a later step that does not require one itself.
    fn is_delivered(&self, cause: &str) -> bool {
        if let Some(key) = cause.strip_prefix("context.") {
            return self.is_set_now(key);
        }
        let Some((owner, what)) = cause.split_once('#') else { return false };
        if owner == step_text(self.pending) {
            return true;
        }
        let workflow = self.command.workflow;
        let step = workflow.step(&self.pending.step_id);
        let owes = step
            .and_then(|step| step.output.as_ref())
            .is_some_and(|output| output.contract_ref.as_str() == what);
        let contract = workflow.contracts.iter().find(|contract| contract.contract_ref.as_str() == what);
        // A loop's decision counts for its own pass only.
        contract.filter(|contract| !owes && contract.artifact_kind != LOOP_CONTROL_KIND).is_some_and(
            |contract| {
                let sent = self.sent.output.artifacts.iter();
                let own = sent.filter(|artifact| artifact_kind(artifact) == contract.artifact_kind);
                own.map(|artifact| contract::issues(&contract.schema, artifact))
                    .any(|issues| issues.is_empty())
            },
        )
    }

    /// Whether this attempt sent a value that is accepted by everything that declares or reads the key.
    fn is_set_now(&self, key: &str) -> bool {
        let Some(value) = self.delivered.context.get(key).filter(|value| !value.is_null()) else {
            return false;
        };
        let workflow = self.command.workflow;
        let duties =
            workflow.steps.iter().flat_map(|step| &step.sets).filter(|(other, _)| other.as_str() == key);
        let is_allowed = duties.map(|(_, duty)| &duty.accepts).all(|accepts| routing::allows(accepts, value));
        is_allowed && workflow.loops.iter().all(|owner| routing::can_control(owner, key, value))
    }

    /// Discloses, when a run ends, steps that were never decided on.
    fn never_decided(&self, selection: &StepSelection) -> Vec<GapRecorded> {
        if !selection.state.is_complete() {
            return Vec::new();
        }
        let unset = routing::never_decided(self.command.workflow, &self.context);
        let gaps = unset.into_iter().map(|(key, skipped)| {
            let shown: Vec<String> =
                skipped.iter().take(STEPS_NAMED_MAX).map(|id| format!("`{id}`")).collect();
            let more = match skipped.len().saturating_sub(STEPS_NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let summary = format!(
                "`context.{key}` was never set, so these steps were skipped: {}{more}.",
                shown.join(", ")
            );
            let mut gap = self.gap(Reason::Advisory(Advisory::ContextKeyNeverSet), key, &summary);
            gap.cause = Some(BoundedText::clip(&format!("context.{key}")));
            gap
        });
        gaps.collect()
    }

    pub(super) fn gap(&self, reason: Reason, cause: &str, summary: &str) -> GapRecorded {
        GapRecorded {
            gap_id: derive::gap_id(self.node.node_id, self.attempt_id, reason, cause),
            severity: disposition(reason, self.preferences.autonomy).gap().unwrap_or(Severity::Critical),
            reason,
            summary: BoundedText::clip(summary),
            resolution: Resolution::Unresolved,
            cause: Some(BoundedText::clip(cause)),
            evidence_refs: Vec::new(),
        }
    }
}

/// How many skipped steps a sentence names.
const STEPS_NAMED_MAX: usize = 6;

/// Names what was missing, so that it is recognised when it is encountered again.
fn cause(pending: &PendingStep, blocker: &Blocker) -> String {
    let at = step_text(pending);
    let cause = match &blocker.pointer {
        BlockerPointer::ContextKey { key } => format!("context.{key}"),
        BlockerPointer::OutputContract { contract_ref } => format!("{at}#{contract_ref}"),
        BlockerPointer::WorkflowStep { .. } => format!("{at}#{}", blocker.code.as_str()),
        BlockerPointer::AssessmentDimension { assessment_id, dimension_id } => {
            format!("{at}#{assessment_id}.{dimension_id}")
        }
        BlockerPointer::Capability { capability } => format!("capability.{}", capability.as_str()),
        BlockerPointer::ContextBudget => "context".to_owned(),
    };
    // As recorded, so that it can be compared.
    BoundedText::<GAP_CAUSE_BYTES_MAX>::clip(&cause).as_str().to_owned()
}

/// The step with its pass in each surrounding loop: `work@0.2`.
fn step_text(pending: &PendingStep) -> String {
    let passes: Vec<String> = pending.loop_path.iter().map(|frame| frame.iteration.to_string()).collect();
    match passes.is_empty() {
        true => pending.step_id.to_string(),
        false => format!("{}@{}", pending.step_id, passes.join(".")),
    }
}

/// Whether a gap is open for the same thing, in any pass.
fn is_same_cause(old: &GapState, new: &GapRecorded) -> bool {
    let without_pass = |cause: &BoundedText<GAP_CAUSE_BYTES_MAX>| match cause.as_str().split_once('#') {
        Some((owner, what)) => format!("{}#{what}", owner.split('@').next().unwrap_or(owner)),
        None => cause.as_str().to_owned(),
    };
    old.cause.as_ref().map(without_pass) == new.cause.as_ref().map(without_pass)
}
