//! `advance_recorded`: the durable outcome of one ack attempt; replays are answered from it (G30).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocker::BlockerReport;
use crate::digest::{BlobRef, Sha256};
use crate::id::{AttemptId, NodeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdvanceIntent {
    AckPending,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AdvanceOutcome {
    Blocked {
        blockers: BlockerReport,
    },
    #[serde(rename_all = "camelCase")]
    Advanced {
        to_node_id: NodeId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdvanceRecorded {
    pub attempt_id: AttemptId,
    pub intent: AdvanceIntent,
    pub outcome: AdvanceOutcome,
    /// The digest of what was sent; a replay that sends something else gets a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_digest: Option<Sha256>,
    /// The rendered reply, kept so that a replay returns the same bytes under any version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_ref: Option<BlobRef>,
    /// Names what was submitted, when a person is asked about it: an approval is for exactly this (G63).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Sha256>,
}
