//! Assessments as recorded: a named judgement on levels, and which spellings were normalised (G42).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::AssessmentName;
use crate::text::BoundedText;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LevelMatch {
    Exact,
    Normalized,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssessedDimension {
    pub dimension_id: AssessmentName,
    pub level: BoundedText<64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<BoundedText<512>>,
    pub normalization: LevelMatch,
}

/// What an assessment's level brings about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ConsequenceEffect {
    RequireFollowup { guidance: BoundedText<512> },
}
