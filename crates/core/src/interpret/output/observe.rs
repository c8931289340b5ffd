//! Facts that agents report beside their work: divergences and capability observations (G62).

use serde_json::Value;
use workrail_model::capability::{
    AttemptContext, Capability, CapabilityStatus, Claim, ClaimDetail, Claimant, EnforcementGrade,
    ProbeDetail, Provenance, UseDetail, UseFailure, UseResult,
};
use workrail_model::compiled::{CompiledStep, StepKind};
use workrail_model::name::StepId;
use workrail_model::text::BoundedText;

use super::{CapabilityFact, DivergenceFact, OutputCheck};
use crate::contract::kind_of;

fn member<T: serde::de::DeserializeOwned>(artifact: &Value, name: &str) -> Option<T> {
    serde_json::from_value(artifact.get(name)?.clone()).ok()
}

/// A malformed report is not a fact; where a step requires the artifact, its contract says what is wrong.
pub(super) fn divergences(artifacts: &[Value], check: &mut OutputCheck) {
    for artifact in artifacts.iter().filter(|artifact| kind_of(artifact) == "wr.workflow_divergence") {
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
    for artifact in artifacts.iter().filter(|artifact| kind_of(artifact) == "wr.capability_observation") {
        let Some(capability) = member::<Capability>(artifact, "capability") else { continue };
        let status = match member::<CapabilityStatus>(artifact, "status") {
            Some(status @ (CapabilityStatus::Available | CapabilityStatus::Unavailable)) => status,
            Some(CapabilityStatus::Unknown) | None => continue,
        };
        let provenance = provenance(step, artifact, capability, status);
        check.capabilities.push(CapabilityFact { capability, status, provenance });
    }
}

/// Only the injected probe and a declared attempt are strong; everything else is a claim.
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
        return Provenance::AttemptedUse { enforcement_grade: EnforcementGrade::Strong, detail };
    }
    let claim = if worked { Claim::Available } else { Claim::Unavailable };
    let detail = ClaimDetail { claimed_by: Claimant::Agent, claim };
    Provenance::ManualClaim { enforcement_grade: EnforcementGrade::Weak, detail }
}
