//! `edge_created`: how one node came from another, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;
use crate::id::{EventId, NodeId};

closed_set! {
    "snake_case",
    pub enum EdgeKind {
        AckedStep,
        Checkpoint,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeCauseKind {
    /// The ordinary advance.
    AckPending,
    // Part of the locked set. A replay answers from the record and makes no edge, so nothing writes it.
    IdempotentReplay,
    /// The caller asked for a second branch.
    IntentionalFork,
    /// The node already had a completed child.
    NonTipAdvance,
    CheckpointCreated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeCause {
    pub kind: EdgeCauseKind,
    pub event_id: EventId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeCreated {
    pub edge_kind: EdgeKind,
    pub from_node_id: NodeId,
    pub to_node_id: NodeId,
    pub cause: EdgeCause,
}

impl EdgeCreated {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let checkpoint_cause = self.cause.kind == EdgeCauseKind::CheckpointCreated;
        match self.edge_kind {
            EdgeKind::Checkpoint if !checkpoint_cause => {
                Err("a checkpoint edge must have the cause checkpoint_created")
            }
            EdgeKind::AckedStep if checkpoint_cause => {
                Err("an acked_step edge cannot have the cause checkpoint_created")
            }
            EdgeKind::Checkpoint | EdgeKind::AckedStep => Ok(()),
        }
    }
}
