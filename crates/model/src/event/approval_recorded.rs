//! `approval_recorded`: a person opened or closed a gate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::{ApprovalChannel, ApprovalDecision};
use crate::id::ApprovalId;
use crate::limits::SUMMARY_BYTES_MAX;
use crate::name::StepId;
use crate::text::BoundedText;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecorded {
    pub approval_id: ApprovalId,
    pub step_id: StepId,
    pub decision: ApprovalDecision,
    pub channel: ApprovalChannel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<BoundedText<SUMMARY_BYTES_MAX>>,
}
