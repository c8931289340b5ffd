//! `evidence_recorded`: something known of a step's work besides what the agent said (G104).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, EvidenceGrade};
use crate::id::{AttemptId, EvidenceId};
use crate::text::BoundedText;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceRecorded {
    pub evidence_id: EvidenceId,
    /// The attempt that it was recorded with; absent for what was seen when the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<AttemptId>,
    /// The grade of this kind of evidence.
    pub grade: EvidenceGrade,
    /// The host whose hook saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<BoundedText<32>>,
    /// When the hook saw it, by the clock of its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    pub evidence: Evidence,
}

impl EvidenceRecorded {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.grade != self.evidence.grade() {
            return Err("grade is not the grade of evidence.kind");
        }
        // A host is named exactly if its hook saw it.
        let is_by_host = self.grade == EvidenceGrade::Observed;
        if self.host.is_some() != is_by_host || self.seen_at.is_some() != is_by_host {
            return Err("only observed evidence has host and seenAt");
        }
        self.evidence.check()
    }
}
