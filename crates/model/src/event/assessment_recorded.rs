//! `assessment_recorded`: one accepted assessment of one attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assessment::AssessedDimension;
use crate::id::{AssessmentRecordId, AttemptId};
use crate::name::AssessmentName;
use crate::text::BoundedText;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssessmentRecorded {
    /// Derived from the attempt and the assessment, so that a step with several writes distinct keys.
    pub record_id: AssessmentRecordId,
    pub attempt_id: AttemptId,
    pub assessment_id: AssessmentName,
    #[schemars(length(min = 1))]
    pub dimensions: Vec<AssessedDimension>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<BoundedText<1024>>,
}

impl AssessmentRecorded {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.dimensions.is_empty() { Err("dimensions must not be empty") } else { Ok(()) }
    }
}
