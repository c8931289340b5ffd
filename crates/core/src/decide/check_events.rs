//! Records what was found when checking an attempt: validations, assessments, divergences, capabilities.

use workrail_model::event::{
    AssessmentConsequenceApplied, AssessmentRecorded, CapabilityObserved, DivergenceRecorded, EventData,
    Scope, ValidationPerformed,
};
use workrail_model::id::{AttemptId, NodeId};

use super::draft::PlanDraft;
use crate::derive;
use crate::interpret::OutputCheck;

/// Appends one event per fact. Equal facts have equal ids and are recorded once.
pub(super) fn push(
    draft: &mut PlanDraft,
    on_node: Scope,
    node: NodeId,
    attempt: AttemptId,
    check: &OutputCheck,
) {
    for fact in &check.validations {
        let event = ValidationPerformed {
            validation_id: derive::validation_id(node, attempt, fact.contract_ref.as_ref()),
            attempt_id: attempt,
            contract_ref: fact.contract_ref.clone(),
            result: fact.result.clone(),
        };
        draft.push_once(on_node, EventData::ValidationPerformed(event));
    }
    for fact in &check.assessments {
        let event = AssessmentRecorded {
            record_id: derive::assessment_record_id(node, attempt, &fact.assessment_id),
            attempt_id: attempt,
            assessment_id: fact.assessment_id.clone(),
            dimensions: fact.dimensions.clone(),
            summary: fact.summary.clone(),
        };
        draft.push_once(on_node, EventData::AssessmentRecorded(event));
    }
    for fact in &check.consequences {
        let event = AssessmentConsequenceApplied {
            consequence_id: derive::consequence_id(node, attempt, &fact.assessment_id, &fact.dimension_id),
            attempt_id: attempt,
            assessment_id: fact.assessment_id.clone(),
            dimension_id: fact.dimension_id.clone(),
            level: fact.level.clone(),
            effect: fact.effect.clone(),
        };
        draft.push_once(on_node, EventData::AssessmentConsequenceApplied(event));
    }
    for fact in &check.divergences {
        let event = DivergenceRecorded {
            divergence_id: derive::divergence_id(node, attempt, fact.reason, fact.summary.as_str()),
            reason: fact.reason,
            summary: fact.summary.clone(),
            related_step_id: fact.related_step_id.clone(),
        };
        draft.push_once(on_node, EventData::DivergenceRecorded(event));
    }
    for fact in &check.capabilities {
        let event = CapabilityObserved {
            cap_obs_id: derive::cap_obs_id(node, attempt, fact.capability),
            capability: fact.capability,
            status: fact.status,
            provenance: fact.provenance.clone(),
        };
        draft.push_once(on_node, EventData::CapabilityObserved(event));
    }
}
