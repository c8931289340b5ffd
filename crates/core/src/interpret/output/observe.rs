//! Facts that agents report in addition to their work: divergences and capability observations (G62). Unreadable ones
//! get an answer and are never dropped.

use serde_json::Value;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::capability::{
    AttemptContext, Capability, CapabilityStatus, Claim, ClaimDetail, Claimant, EnforcementGrade,
    ProbeDetail, Provenance, UseDetail, UseFailure, UseResult,
};
use workrail_model::compiled::{CompiledStep, StepKind};
use workrail_model::name::{ContractRef, StepId};
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::text::BoundedText;

use super::super::Finding;
use super::{CapabilityFact, DivergenceFact, OutputCheck, output_finding};
use crate::builtins::{CAPABILITY_OBSERVATION_KIND, WORKFLOW_DIVERGENCE_KIND};
use crate::contract::artifact_kind;
use crate::{builtins, skeleton};

fn member<T: serde::de::DeserializeOwned>(artifact: &Value, name: &str) -> Option<T> {
    serde_json::from_value(artifact.get(name)?.clone()).ok()
}

/// Contracts of artifacts that any step may send in addition to what it requires.
const OPTIONAL_CONTRACTS: [&str; 2] =
    ["wr.contracts.capability_observation", "wr.contracts.workflow_divergence"];

/// Artifacts that are not what they claim to be. What the step requires is checked by its contract.
pub(super) fn findings(step: &CompiledStep, artifacts: &[Value]) -> Vec<Finding> {
    let owed = step.output.as_ref().map(|output| output.contract_ref.as_str());
    let mut findings = Vec::new();
    for (position, artifact) in artifacts.iter().enumerate() {
        if artifact.get("kind").and_then(Value::as_str).is_none_or(|kind| kind.trim().is_empty()) {
            findings.push(without_kind(step, position));
        }
    }
    for contract in
        OPTIONAL_CONTRACTS.into_iter().filter(|id| owed != Some(*id)).filter_map(builtins::contract)
    {
        let Ok(contract_ref) = ContractRef::parse(contract.id) else { continue };
        let is_of_contract = |artifact: &&Value| artifact_kind(artifact) == contract.artifact_kind;
        for artifact in artifacts.iter().filter(is_of_contract) {
            let issues = crate::contract::issues(&contract.schema, artifact);
            if issues.is_empty() {
                continue;
            }
            let message =
                format!("The `{}` artifact is not valid: {}.", contract.artifact_kind, issues.join("; "));
            let shape = skeleton::of_schema(&contract.schema);
            findings.push(output_finding(
                ContractViolation::InvalidRequiredOutput,
                &contract_ref,
                &message,
                &[shape],
            ));
        }
    }
    findings
}

fn without_kind(step: &CompiledStep, position: usize) -> Finding {
    let blocker = Blocker {
        code: BlockerCode::InvalidRequiredOutput,
        pointer: BlockerPointer::WorkflowStep { step_id: step.step_id.clone() },
        message: BoundedText::clip(&format!(
            "output.artifacts[{position}] has no `kind`, so nobody can tell what it is."
        )),
        suggested_fix: Some(BoundedText::clip(
            "Send each artifact as an object with a `kind`, for example {\"kind\":\"team.measurements\", ...}, or put \
             the text into output.notesMarkdown.",
        )),
        decision: None,
    };
    Finding { reason: Reason::ContractViolation(ContractViolation::InvalidRequiredOutput), blocker }
}

pub(super) fn divergences(artifacts: &[Value], check: &mut OutputCheck) {
    for artifact in artifacts.iter().filter(|artifact| artifact_kind(artifact) == WORKFLOW_DIVERGENCE_KIND) {
        let summary = artifact.get("summary").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let (Some(reason), Some(summary)) = (member(artifact, "reason"), summary) else { continue };
        check.divergences.push(DivergenceFact {
            reason,
            summary: BoundedText::clip(summary),
            related_step_id: member::<StepId>(artifact, "relatedStepId"),
        });
    }
}

pub(super) fn capabilities(step: &CompiledStep, artifacts: &[Value], check: &mut OutputCheck) {
    let is_observation = |artifact: &&Value| artifact_kind(artifact) == CAPABILITY_OBSERVATION_KIND;
    for artifact in artifacts.iter().filter(is_observation) {
        let Some(capability) = member::<Capability>(artifact, "capability") else { continue };
        let status = match member::<CapabilityStatus>(artifact, "status") {
            Some(status @ (CapabilityStatus::Available | CapabilityStatus::Unavailable)) => status,
            Some(CapabilityStatus::Unknown) | None => continue,
        };
        let provenance = provenance(step, artifact, capability, status);
        check.capabilities.push(CapabilityFact { capability, status, provenance });
    }
}

/// Only the injected probe is strong. An attempt that only the agent reports is a claim with details.
fn provenance(
    step: &CompiledStep,
    artifact: &Value,
    capability: Capability,
    status: CapabilityStatus,
) -> Provenance {
    let worked = status == CapabilityStatus::Available;
    let result = if worked { UseResult::Success } else { UseResult::Failure };
    let attempted = artifact.get("attempt").and_then(|attempt| member::<UseResult>(attempt, "result"));
    // A probe whose own report contradicts its verdict proves nothing.
    let contradicts = attempted.is_some_and(|attempted| attempted != result);
    if let StepKind::CapabilityProbe { capability: probed, template_id } = &step.kind
        && *probed == capability
        && !contradicts
    {
        let detail = ProbeDetail {
            probe_template_id: BoundedText::clip(template_id),
            probe_step_id: step.step_id.clone(),
            result,
        };
        return Provenance::ProbeStep { enforcement_grade: EnforcementGrade::Strong, detail };
    }
    if attempted == Some(result) {
        let failure = artifact.get("attempt").and_then(|attempt| member(attempt, "failureCode"));
        let detail = UseDetail {
            attempt_context: AttemptContext::WorkflowStep,
            result,
            failure_code: (!worked).then(|| failure.unwrap_or(UseFailure::Unknown)),
        };
        return Provenance::AttemptedUse { enforcement_grade: EnforcementGrade::Weak, detail };
    }
    let claim = if worked { Claim::Available } else { Claim::Unavailable };
    let detail = ClaimDetail { claimed_by: Claimant::Agent, claim };
    Provenance::ManualClaim { enforcement_grade: EnforcementGrade::Weak, detail }
}
