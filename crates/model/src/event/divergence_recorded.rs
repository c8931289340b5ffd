//! `divergence_recorded`: the agent knowingly deviated from the workflow, and says why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;
use crate::id::DivergenceId;
use crate::limits::SUMMARY_BYTES_MAX;
use crate::name::StepId;
use crate::text::BoundedText;

closed_set! {
    "snake_case",
    pub enum DivergenceReason {
        MissingUserContext,
        CapabilityUnavailable,
        EfficiencySkip,
        SafetyStop,
        PolicyConstraint,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DivergenceRecorded {
    pub divergence_id: DivergenceId,
    pub reason: DivergenceReason,
    pub summary: BoundedText<SUMMARY_BYTES_MAX>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related_step_id: Option<StepId>,
}

impl DivergenceRecorded {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.summary.as_str().is_empty() { Err("summary must not be empty") } else { Ok(()) }
    }
}
