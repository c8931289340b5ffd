//! `assessment_consequence_applied`: a level asked for more before the step may end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assessment::ConsequenceEffect;
use crate::id::{AttemptId, ConsequenceId};
use crate::name::AssessmentName;
use crate::text::BoundedText;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssessmentConsequenceApplied {
    pub consequence_id: ConsequenceId,
    pub attempt_id: AttemptId,
    pub assessment_id: AssessmentName,
    pub dimension_id: AssessmentName,
    pub level: BoundedText<64>,
    pub effect: ConsequenceEffect,
}
