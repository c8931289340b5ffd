//! `node_created`: a durable point in the run's graph, with the snapshot that rehydrates it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use crate::id::{AttemptId, NodeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    Step,
    Checkpoint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCreated {
    pub node_kind: NodeKind,
    /// Null only for a run's root.
    #[serde(deserialize_with = "nullable_but_present")]
    #[schemars(required)]
    pub parent_node_id: Option<NodeId>,
    pub workflow_hash: WorkflowHash,
    pub snapshot_ref: SnapshotRef,
    /// Present on checkpoints: what a repeated call is answered from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointRecord>,
}

/// The call that made a checkpoint, by which its replay is recognised and answered (G30).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointRecord {
    pub attempt_id: AttemptId,
    /// The digest of what was sent; a replay that sends something else gets a warning. A purged copy lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_digest: Option<Sha256>,
    pub reply_ref: BlobRef,
}

impl NodeCreated {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match (self.node_kind, self.checkpoint) {
            (NodeKind::Step, Some(_)) => Err("only a checkpoint has `checkpoint`"),
            (NodeKind::Step, None) | (NodeKind::Checkpoint, _) => Ok(()),
        }
    }
}

/// A root says `null`; omitting the field is an error, not a root.
fn nullable_but_present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NodeId>, D::Error> {
    Option::deserialize(deserializer)
}
