//! `gap_recorded`: something was missing, assumed or skipped, and is disclosed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gap::{EvidenceRef, Resolution, Severity};
use crate::id::GapId;
use crate::limits::{GAP_CAUSE_BYTES_MAX, SUMMARY_BYTES_MAX};
use crate::reason::Reason;
use crate::text::BoundedText;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GapRecorded {
    pub gap_id: GapId,
    pub severity: Severity,
    pub reason: Reason,
    pub summary: BoundedText<SUMMARY_BYTES_MAX>,
    pub resolution: Resolution,
    /// What was missing, as in `plan#notes` or `context.taskSize`: one gap stays open for it, and whatever delivers it
    /// later closes the gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<BoundedText<GAP_CAUSE_BYTES_MAX>>,
    // Part of the locked format, and read if another writer recorded it. Our own gaps name node and reason, which
    // is all that any reader has needed so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence_refs: Vec<EvidenceRef>,
}
