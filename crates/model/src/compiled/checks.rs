//! Commands that a step requires to be run, and how well its result must be known (G107, G120).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;
use crate::name::CheckName;

/// A check of a step: the engine runs it before the run continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckRequest {
    /// A name in the project's checks file, which says what it runs.
    pub command: CheckName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "CheckExpectation::is_default")]
    pub expect: CheckExpectation,
}

/// When a check has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckExpectation {
    #[serde(default)]
    pub exit_code: u8,
}

impl CheckExpectation {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

closed_set! {
    "snake_case",
    /// The weakest grade of evidence that is enough.
    pub enum RequiredGrade {
        Observed,
        Checked,
    }
}

/// How well the result of a step must be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvidenceRule {
    pub min: RequiredGrade,
}
