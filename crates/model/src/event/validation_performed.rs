//! `validation_performed`: the facts of checking one attempt's output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AttemptId, ValidationId};
use crate::limits::SUMMARY_BYTES_MAX;
use crate::name::ContractRef;
use crate::text::BoundedText;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ValidationResult {
    Valid,
    Invalid { issues: Vec<BoundedText<SUMMARY_BYTES_MAX>> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidationPerformed {
    pub validation_id: ValidationId,
    pub attempt_id: AttemptId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_ref: Option<ContractRef>,
    pub result: ValidationResult,
}
