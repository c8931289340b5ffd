//! What an attempt leads to: the output is checked, the gates are evaluated, the next step is selected.

use std::collections::BTreeMap;

use workrail_model::approval::ApprovalDecision;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer, BlockerReport};
use workrail_model::capability::{Capability, EnforcementGrade};
use workrail_model::event::{AdvanceOutcome, Context};
use workrail_model::evidence::PathList;
use workrail_model::preferences::Autonomy;
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::snapshot::PendingStep;
use workrail_model::text::BoundedText;

use super::advance::{Advance, PreparedAttempt};
use super::{DecideError, disclose, retry};
use crate::edits::AllowedEdits;
use crate::evidence;
use crate::interpret::{self, ApprovalState, Finding, OutputCheck, StepSelection, Strictness, Submitted};
use crate::project::AdvanceRecord;
use crate::reason::{AdvanceEffect, TRIES_BEFORE_GAP, on_advance};

/// What follows "undo" in advice about edits that the step does not allow.
const EDITS_TO_UNDO: &str = "these changes, or put them aside with `git stash push --include-untracked -- FILE` until a \
                             step allows them, and send this step again. Undo a commit that contains them with \
                             `git reset --soft`. Changes that the user made are the user's: ask before you touch them.";

/// Whether only a person's decision on the submission is missing.
fn awaits_decision(finding: &Finding) -> bool {
    match (&finding.reason, &finding.blocker.pointer) {
        // A question is answered separately.
        (Reason::UserOnlyDependency(_), BlockerPointer::ContextKey { .. }) => false,
        (Reason::UserOnlyDependency(_), _) => true,
        (
            Reason::ContractViolation(_)
            | Reason::CapabilityMissing(_)
            | Reason::Unexpected(_)
            | Reason::Advisory(_),
            _,
        ) => false,
    }
}

pub(super) enum AttemptResult {
    Blocked { blockers: BlockerReport },
    Advanced { selection: StepSelection, waived: Vec<Finding> },
}

impl PreparedAttempt<'_> {
    /// Never-stop skips what is missing once the agent has used its tries.
    fn strictness(&self) -> Strictness {
        match self.preferences.autonomy {
            Autonomy::FullAutoNeverStop if self.retried.len() >= TRIES_BEFORE_GAP => Strictness::NeverStop,
            Autonomy::Guided | Autonomy::FullAutoStopOnUserDeps | Autonomy::FullAutoNeverStop => {
                Strictness::Blocking
            }
        }
    }

    /// How many of the attempts that this one retries were refused with this code.
    fn refusals_with(&self, code: BlockerCode) -> usize {
        let records =
            self.retried.iter().filter_map(|attempt| self.command.facts.advance(self.node.node_id, *attempt));
        let has_code = |record: &AdvanceRecord| match &record.outcome {
            AdvanceOutcome::Blocked { blockers } => {
                blockers.blockers().iter().any(|blocker| blocker.code == code)
            }
            AdvanceOutcome::Advanced { .. } => false,
        };
        records.filter(|record| has_code(record)).count()
    }

    /// Checks the output against the step, then asks the interpreter for the next one.
    pub(super) fn judge(&self) -> Result<(OutputCheck, AttemptResult), DecideError> {
        let check = self.check_delivered()?;
        let mut findings = self.findings(&check)?;
        let selection = self.select_next(&mut findings)?;
        // The one table decides what stops and what is disclosed (G61).
        let at_gate = self.autonomy_at_gate();
        let stops = |finding: &Finding| {
            let autonomy = if awaits_decision(finding) { at_gate } else { self.preferences.autonomy };
            match on_advance(finding.reason, autonomy, self.tries_used(finding, &check)) {
                AdvanceEffect::Block | AdvanceEffect::FailFast => true,
                AdvanceEffect::RecordGap(_) => false,
            }
        };
        let result = match selection {
            Some(selection) if !findings.iter().any(stops) => {
                findings.extend(selection.waived.iter().cloned());
                AttemptResult::Advanced { selection, waived: findings }
            }
            Some(_) | None => {
                // What does not block is not waited for, and a person decides only on what is otherwise complete.
                findings.retain(stops);
                if !findings.iter().all(awaits_decision) {
                    findings.retain(|finding| !awaits_decision(finding));
                }
                let blockers = findings.into_iter().map(|finding| finding.blocker).collect();
                let blockers = BlockerReport::new(blockers)
                    .ok_or(DecideError::Invariant("a refused advance has a blocker"))?;
                AttemptResult::Blocked { blockers }
            }
        };
        Ok((check, result))
    }

    /// Checks what the attempt delivers against the step.
    fn check_delivered(&self) -> Result<OutputCheck, DecideError> {
        let command = &self.command;
        let mut given = command.facts.answers_at(self.node.node_id).cloned().unwrap_or_default();
        given.extend(self.delivered.context.as_map().clone());
        let given = Context::new(given)?;
        let submitted = Submitted {
            notes: self.delivered.output.notes_markdown.as_deref(),
            artifacts: &self.delivered.output.artifacts,
            reported: &self.sent.output.artifacts,
            context: &self.context,
            given: &given,
            known: &self.known_grades(),
        };
        Ok(interpret::check_output(command.workflow, self.pending, submitted))
    }

    /// Everything found about the attempt at this step, whether or not it stops the advance.
    fn findings(&self, check: &OutputCheck) -> Result<Vec<Finding>, DecideError> {
        let pending = self.pending;
        let mut findings = check.findings.clone();
        findings.extend(disclose::unknown_gaps(
            self.command.facts,
            self.node.run_id,
            pending,
            &self.delivered.output.artifacts,
        ));
        findings.extend(self.edit_finding(pending));
        findings.extend(self.check_finding(pending));
        findings.extend(self.evidence_finding(pending, &check.unproven));
        findings.extend(self.gate_findings(pending, check)?);
        Ok(findings)
    }

    /// Selects the next step; `None` if it cannot be selected, with the reason added to the findings.
    fn select_next(&self, findings: &mut Vec<Finding>) -> Result<Option<StepSelection>, DecideError> {
        let selection = interpret::advance_in(
            self.strictness(),
            self.command.workflow,
            self.command.snapshot.state(),
            &self.context,
            &self.delivered.output.artifacts,
        );
        match selection {
            Ok(selection) => Ok(Some(selection)),
            Err(error) => {
                let finding = error.finding(&self.pending.step_id).ok_or(error)?;
                // A list that the step declares and a loop reads is reported missing once.
                let is_same = |other: &Finding| {
                    let (known, new) = (&other.blocker, &finding.blocker);
                    known.code == new.code && known.pointer == new.pointer
                };
                if !findings.iter().any(is_same) {
                    findings.push(finding);
                }
                Ok(None)
            }
        }
    }

    /// How many tries the agent has used to fix what was found.
    fn tries_used(&self, finding: &Finding, check: &OutputCheck) -> usize {
        let code = finding.blocker.code;
        if code == BlockerCode::AssessmentFollowupRequired {
            // Another mistake before it was not a second look.
            return self.refusals_with(code);
        }
        if code == BlockerCode::EvidenceMissing && self.evidence_is_for_people(&check.unproven) {
            // The agent cannot supply what only a person can allow.
            return TRIES_BEFORE_GAP;
        }
        self.retried.len()
    }

    /// Files changed since the step began that it does not allow to change (G106), or that are outside the scope that
    /// the run declared (G123).
    fn edit_finding(&self, pending: &PendingStep) -> Option<Finding> {
        let allowed = AllowedEdits::of(self.edit_rule()?, &self.context)?;
        let changed = self.command.evidence.workspace.changed.as_ref()?;
        let outside = PathList::new(changed.iter().filter(|path| !allowed.allows(path)));
        if outside.is_empty() {
            return None;
        }
        let files = evidence::paths(&outside);
        let (violation, code, message, fix) = match &allowed.declared {
            None => (
                ContractViolation::EditsNotAllowed,
                BlockerCode::EditsNotAllowed,
                format!("Since this step began, files changed that it does not allow: {files}."),
                format!("Undo {EDITS_TO_UNDO}"),
            ),
            Some(scope) => (
                ContractViolation::ScopeExceeded,
                BlockerCode::ScopeExceeded,
                format!(
                    "Since this step began, files changed outside the declared scope (`context.{}`): {files}.",
                    scope.key
                ),
                format!(
                    "If the task needs these changes, add `\"context\":{{\"{}\":[<the whole list, with these files \
                     added>]}}` to the call below, and say why in the notes. Otherwise, undo {EDITS_TO_UNDO}",
                    scope.key
                ),
            ),
        };
        let blocker = Blocker {
            code,
            pointer: BlockerPointer::WorkflowStep { step_id: pending.step_id.clone() },
            message: BoundedText::clip(&message),
            suggested_fix: Some(BoundedText::clip(&fix)),
            decision: None,
        };
        Some(Finding { reason: Reason::ContractViolation(violation), blocker })
    }

    /// The run's autonomy where a decision is missing.
    fn autonomy_at_gate(&self) -> Autonomy {
        let approvals = &self.command.approvals;
        let asked = approvals.asked(self.command.workflow, self.pending);
        approvals.autonomy_at_gate(self.command.facts, self.preferences, self.mode_proof, asked)
    }

    /// What only a person or a proven capability can open.
    fn gate_findings(&self, pending: &PendingStep, check: &OutputCheck) -> Result<Vec<Finding>, DecideError> {
        let Advance { facts, workflow, .. } = self.command;
        let node = self.node.node_id;
        let asked = self.command.approvals.asked(workflow, pending);
        let approval = match facts.approval(node, &pending.step_id).map(|found| &found.data) {
            None => ApprovalState::None,
            // A decision that does not count is treated as missing (G97).
            Some(decided) if !self.command.approvals.counts(facts, node, decided, asked) => {
                ApprovalState::Unproven
            }
            // A decision is about what was submitted and shown, and nothing else (G63).
            Some(decided) if decided.submitted != Some(retry::delivered_digest(&self.delivered)?) => {
                ApprovalState::ForOther
            }
            Some(decided) => match decided.decision {
                ApprovalDecision::Approved => ApprovalState::Approved,
                ApprovalDecision::Rejected => {
                    ApprovalState::Rejected { reason: decided.note.as_ref().map(|note| note.as_str()) }
                }
            },
        };
        let site = self.command.site;
        let mut findings = interpret::user_findings(workflow, pending, &self.context, approval, asked, site);
        let mut observed = BTreeMap::new();
        for capability in Capability::ALL {
            let recorded = facts.capability(node, capability);
            if let Some(state) = recorded.filter(|state| state.grade() == EnforcementGrade::Strong) {
                observed.insert(capability, state.status);
            }
        }
        for fact in &check.capabilities {
            if fact.provenance.grade() == EnforcementGrade::Strong {
                observed.insert(fact.capability, fact.status);
            }
        }
        findings.extend(interpret::capability_findings(workflow, pending, &observed));
        Ok(findings)
    }
}
