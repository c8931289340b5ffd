//! Checks what a step delivered: contract, assessments, criteria, notes (G42, G43).
//!
//! Everything is checked, not only up to the first failure; each finding shows what would pass.

mod assess;
mod context;
mod criteria;
mod notes;
mod observe;
mod verification;

pub(crate) use assess::{ASSESSMENT_CONTRACT, definitions};
pub(crate) use criteria::{CRITERIA_REF, pattern_of, wants};
pub(crate) use notes::says_nothing;

use serde_json::Value;
use workrail_model::assessment::{AssessedDimension, ConsequenceEffect};
use workrail_model::blocker::{Blocker, BlockerPointer};
use workrail_model::capability::{Capability, CapabilityStatus, Provenance};
use workrail_model::compiled::{
    CompiledContract, CompiledStep, CompiledWorkflow, RequiredGrade, Requiredness, StepKind,
};
use workrail_model::event::{Context, DivergenceReason, ValidationResult};
use workrail_model::limits::{BLOCKER_FIX_BYTES_MAX, SUMMARY_BYTES_MAX};
use workrail_model::name::{AssessmentName, ContractRef, StepId};
use workrail_model::placeholder::are_placeholder_notes;
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::snapshot::PendingStep;
use workrail_model::text::BoundedText;

use super::{Finding, loop_names, step_scope};
use crate::builtins::LOOP_CONTROL_KIND;
use crate::contract::{self, ContractFit};
use crate::reason::violation_code;
use crate::skeleton;

/// Everything found in one attempt's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputCheck {
    /// In the order contract, assessments, criteria, notes, follow-ups; empty if the step may end.
    pub findings: Vec<Finding>,
    pub validations: Vec<ValidationFact>,
    pub assessments: Vec<AcceptedAssessment>,
    pub consequences: Vec<AppliedConsequence>,
    pub divergences: Vec<DivergenceFact>,
    pub capabilities: Vec<CapabilityFact>,
    /// Claims of the notes that pass the criteria and are not known well enough (G107).
    pub unproven: Vec<UnprovenClaim>,
}

/// Something that the notes claim and a criterion wants known better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprovenClaim {
    /// The message of the criterion.
    pub message: String,
    pub min: RequiredGrade,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationFact {
    pub contract_ref: Option<ContractRef>,
    pub result: ValidationResult,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedAssessment {
    pub assessment_id: AssessmentName,
    pub dimensions: Vec<AssessedDimension>,
    pub summary: Option<BoundedText<1024>>,
    /// Levels that were accepted in another spelling.
    pub normalization_notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedConsequence {
    pub assessment_id: AssessmentName,
    pub dimension_id: AssessmentName,
    pub level: BoundedText<64>,
    pub effect: ConsequenceEffect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DivergenceFact {
    pub reason: DivergenceReason,
    pub summary: BoundedText<SUMMARY_BYTES_MAX>,
    pub related_step_id: Option<StepId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityFact {
    pub capability: Capability,
    pub status: CapabilityStatus,
    pub provenance: Provenance,
}

/// What one attempt delivers, together with what its refused predecessors sent (G47).
#[derive(Clone, Copy, Debug)]
pub struct Submitted<'a> {
    pub notes: Option<&'a str>,
    pub artifacts: &'a [Value],
    /// The artifacts of this attempt alone: their reports are new facts; kept ones were recorded before.
    pub reported: &'a [Value],
    /// The run's context including what this attempt sent.
    pub context: &'a Context,
    /// The part of it that this attempt sent, and what the user answered at this step.
    pub given: &'a Context,
    /// The grades of evidence that the step has.
    pub known: &'a [RequiredGrade],
}

/// Checks one attempt at the pending step.
pub fn check_output(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    submitted: Submitted<'_>,
) -> OutputCheck {
    let mut check = OutputCheck::default();
    let Some(step) = workflow.step(&pending.step_id) else { return check };
    let Submitted { artifacts, context, .. } = submitted;
    check_contract(workflow, pending, step, artifacts, &mut check);
    assess::check(workflow, step, artifacts, &mut check);
    let scope = step_scope(workflow, pending, context);
    let notes = submitted.notes.filter(|text| !text.trim().is_empty() && !are_placeholder_notes(text));
    let notes = criteria::Notes { text: notes, known: submitted.known };
    criteria::check(workflow, step, notes, &scope, &mut check);
    if step.requires_notes() {
        check.findings.extend(notes::finding(step, submitted.notes));
    }
    check.findings.extend(context::findings(pending, step, submitted));
    check.findings.extend(verification::findings(step, submitted));
    check.findings.extend(observe::findings(step, artifacts));
    assess::apply_consequences(step, &scope, &mut check);
    observe::divergences(submitted.reported, &mut check);
    observe::capabilities(step, submitted.reported, &mut check);
    check
}

/// Whether an artifact would be refused whatever is sent with it: then a retry does not inherit it.
pub(crate) fn is_at_fault(workflow: &CompiledWorkflow, pending: &PendingStep, artifact: &Value) -> bool {
    let Some(step) = workflow.step(&pending.step_id) else { return false };
    let alone = std::slice::from_ref(artifact);
    let contract = step.output.as_ref().and_then(|output| workflow.contract(&output.contract_ref));
    let owed = contract.filter(|contract| contract::artifact_kind(artifact) == contract.artifact_kind);
    let refused = owed.is_some_and(|contract| {
        contract_outcome(workflow, pending, step, contract, alone) != ContractFit::Valid
    });
    refused || assess::is_at_fault(workflow, step, artifact) || !observe::findings(step, alone).is_empty()
}

fn check_contract(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    artifacts: &[Value],
    check: &mut OutputCheck,
) {
    let Some(output) = &step.output else { return };
    let Some(contract) = workflow.contract(&output.contract_ref) else { return };
    match contract_outcome(workflow, pending, step, contract, artifacts) {
        ContractFit::Valid => check.validations.push(valid(&contract.contract_ref)),
        ContractFit::Missing { submitted } => {
            if output.presence == Requiredness::Required {
                let message = missing_message(contract, &submitted);
                check.validations.push(invalid(&contract.contract_ref, std::slice::from_ref(&message)));
                check.findings.push(output_finding(
                    ContractViolation::MissingRequiredOutput,
                    &contract.contract_ref,
                    &message,
                    &[skeleton::artifact(step, contract)],
                ));
            }
        }
        ContractFit::Invalid { issues } => {
            let message =
                format!("The `{}` artifact is not valid: {}.", contract.artifact_kind, issues.join("; "));
            check.validations.push(invalid(&contract.contract_ref, &issues));
            let sent =
                artifacts.iter().find(|artifact| contract::artifact_kind(artifact) == contract.artifact_kind);
            check.findings.push(output_finding(
                ContractViolation::InvalidRequiredOutput,
                &contract.contract_ref,
                &message,
                &[skeleton::artifact_like(step, contract, sent)],
            ));
        }
    }
}

fn contract_outcome(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    contract: &CompiledContract,
    artifacts: &[Value],
) -> ContractFit {
    let mut outcome = contract::check(contract, artifacts);
    if outcome == ContractFit::Valid {
        outcome = loop_name_outcome(workflow, pending, contract, artifacts);
    }
    if outcome == ContractFit::Valid {
        outcome = probe_outcome(step, contract, artifacts);
    }
    outcome
}

/// A decision that names another loop decides nothing, and must not be taken for one.
fn loop_name_outcome(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    contract: &CompiledContract,
    artifacts: &[Value],
) -> ContractFit {
    let named = artifacts
        .iter()
        .find(|artifact| contract::artifact_kind(artifact) == contract.artifact_kind)
        .and_then(|artifact| artifact.get("loopId"))
        .and_then(Value::as_str);
    let own = pending.loop_path.last().map(|frame| &frame.loop_id);
    let (Some(named), Some(own)) = (named, own) else { return ContractFit::Valid };
    if contract.artifact_kind != LOOP_CONTROL_KIND {
        return ContractFit::Valid;
    }
    match loop_names(workflow, own) {
        Some(names) if !names.include(named) => ContractFit::Invalid {
            issues: vec![format!("`loopId` names `{named}`, but this step decides for `{}`", names.shown())],
        },
        Some(_) | None => ContractFit::Valid,
    }
}

/// A probe is answered by an observation of exactly the capability that it probes.
fn probe_outcome(step: &CompiledStep, contract: &CompiledContract, artifacts: &[Value]) -> ContractFit {
    let StepKind::CapabilityProbe { capability, .. } = &step.kind else { return ContractFit::Valid };
    let probed = capability.as_str();
    let mut observed =
        artifacts.iter().filter(|artifact| contract::artifact_kind(artifact) == contract.artifact_kind);
    if observed.any(|artifact| artifact.get("capability").and_then(Value::as_str) == Some(probed)) {
        ContractFit::Valid
    } else {
        ContractFit::Invalid {
            issues: vec![format!("`capability` must be `{probed}`, which this step probes")],
        }
    }
}

fn missing_message(contract: &CompiledContract, submitted: &[String]) -> String {
    let wanted = &contract.artifact_kind;
    if submitted.is_empty() {
        format!("This step must deliver an artifact of kind `{wanted}` in output.artifacts; none was sent.")
    } else {
        let found: Vec<String> = submitted.iter().take(4).map(|kind| format!("`{kind}`")).collect();
        format!("This step must deliver an artifact of kind `{wanted}`; only {} was sent.", found.join(", "))
    }
}

/// A finding about artifacts, with templates to fill in if they fit their budget.
fn output_finding(
    violation: ContractViolation,
    contract_ref: &ContractRef,
    message: &str,
    shapes: &[Value],
) -> Finding {
    let fix_with = |shapes: &[Value]| {
        let shown: Vec<String> = shapes.iter().map(Value::to_string).collect();
        let fix = format!("Fill in and send: {{\"output\":{{\"artifacts\":[{}]}}}}", shown.join(","));
        (fix.len() <= BLOCKER_FIX_BYTES_MAX).then_some(fix)
    };
    let fix = fix_with(shapes)
        .or_else(|| fix_with(&shapes.iter().map(skeleton::without_limits).collect::<Vec<_>>()))
        .unwrap_or_else(|| "Fill in the artifact as the call below shows it and send it.".to_owned());
    let blocker = Blocker {
        code: violation_code(violation),
        pointer: BlockerPointer::OutputContract { contract_ref: contract_ref.clone() },
        message: BoundedText::clip(message),
        suggested_fix: Some(BoundedText::clip(&fix)),
        decision: None,
    };
    Finding { reason: Reason::ContractViolation(violation), blocker }
}

fn valid(contract_ref: &ContractRef) -> ValidationFact {
    ValidationFact { contract_ref: Some(contract_ref.clone()), result: ValidationResult::Valid }
}

fn invalid(contract_ref: &ContractRef, issues: &[String]) -> ValidationFact {
    let issues = issues.iter().map(|issue| BoundedText::clip(issue)).collect();
    ValidationFact { contract_ref: Some(contract_ref.clone()), result: ValidationResult::Invalid { issues } }
}
