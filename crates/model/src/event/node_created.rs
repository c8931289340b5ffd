//! `node_created`: a durable point of the run's graph, with the snapshot that rehydrates it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::{SnapshotRef, WorkflowHash};
use crate::id::NodeId;

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
}

/// A root says `null`; leaving the field out is an error, not a root.
fn nullable_but_present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NodeId>, D::Error> {
    Option::deserialize(deserializer)
}
