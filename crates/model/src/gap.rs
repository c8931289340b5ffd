//! Gaps: append-only disclosures; a resolution is a link, never an edit (G41).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{EventId, GapId, OutputId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Info,
    Warning,
    Critical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Resolution {
    Unresolved,
    #[serde(rename_all = "camelCase")]
    Resolves {
        resolves_gap_id: GapId,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EvidenceRef {
    #[serde(rename_all = "camelCase")]
    Event { event_id: EventId },
    #[serde(rename_all = "camelCase")]
    Output { output_id: OutputId },
}
