//! The durable outcomes of ack attempts, used to answer replays.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use workrail_model::blocker::BlockerCode;
use workrail_model::digest::{BlobRef, Sha256};
use workrail_model::event::{AdvanceOutcome, AdvanceRecorded, EventIndex, NodeKind};
use workrail_model::id::{AttemptId, NodeId};

use super::dag::{Dag, NodeIx};
use super::per_node::PerNode;
use super::{FoldError, SessionState};
use crate::derive;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdvanceRecord {
    pub attempt: AttemptId,
    pub outcome: AdvanceOutcome,
    pub request_digest: Option<Sha256>,
    /// Identifies what was submitted, if a person is asked about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Sha256>,
    pub reply_ref: Option<BlobRef>,
    pub event_index: EventIndex,
}

impl AdvanceRecord {
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self.outcome, AdvanceOutcome::Blocked { .. })
    }

    /// Whether the attempt was refused for something that only a person can give.
    pub fn asks_a_person(&self) -> bool {
        match &self.outcome {
            AdvanceOutcome::Blocked { blockers } => {
                blockers.blockers().iter().any(|blocker| blocker.code == BlockerCode::UserOnlyDependency)
            }
            AdvanceOutcome::Advanced { .. } => false,
        }
    }
}

/// How many of a node's records are scanned; beyond that a map is used. Nearly every node has
/// fewer, but nothing bounds the number of blocked attempts.
const SCANNED_MAX: usize = 8;

/// An advance whose edge has not been recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Awaited {
    from: NodeId,
    attempt: AttemptId,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub(super) struct Advances {
    records: PerNode<AdvanceRecord>,
    /// By the node that the edge will lead to. Within one plan the record may come before or after the
    /// node and the edge it mentions; both orders mean the same.
    awaited: BTreeMap<NodeId, Awaited>,
    /// The nodes with more than `SCANNED_MAX` records.
    crowded: BTreeSet<NodeIx>,
    /// The position of an attempt among its node's records, from `SCANNED_MAX` on.
    #[serde(skip)]
    positions: BTreeMap<(NodeIx, AttemptId), usize>,
}

#[derive(Deserialize)]
struct Stored {
    records: PerNode<AdvanceRecord>,
    awaited: BTreeMap<NodeId, Awaited>,
    crowded: BTreeSet<NodeIx>,
}

impl From<Stored> for Advances {
    fn from(stored: Stored) -> Self {
        let mut positions = BTreeMap::new();
        for node in &stored.crowded {
            for (position, record) in stored.records.get(*node).iter().enumerate().skip(SCANNED_MAX) {
                positions.insert((*node, record.attempt), position);
            }
        }
        Self { records: stored.records, awaited: stored.awaited, crowded: stored.crowded, positions }
    }
}

impl Advances {
    pub(super) fn is_readable(&self) -> bool {
        self.records.is_readable()
    }

    pub(super) fn get(&self, ix: NodeIx, attempt: AttemptId) -> Option<&AdvanceRecord> {
        let records = self.records.get(ix);
        let scanned = records.iter().take(SCANNED_MAX).find(|record| record.attempt == attempt);
        scanned.or_else(|| records.get(*self.positions.get(&(ix, attempt))?))
    }

    pub(super) fn latest(&self, ix: NodeIx) -> Option<&AdvanceRecord> {
        self.records.get(ix).last()
    }

    pub(super) fn record(
        &mut self,
        dag: &mut Dag,
        index: EventIndex,
        ix: NodeIx,
        advance: &AdvanceRecorded,
    ) -> Result<(), FoldError> {
        let node = dag.node(ix).node_id;
        let attempt = advance.attempt_id;
        if self.get(ix, attempt).is_some() {
            return Err(FoldError::DuplicateAdvance { index, node, attempt });
        }
        if let AdvanceOutcome::Advanced { to_node_id: to } = advance.outcome {
            self.link(dag, index, Awaited { from: node, attempt }, to)?;
        }
        let position = self.records.get(ix).len();
        if position >= SCANNED_MAX {
            self.crowded.insert(ix);
            self.positions.insert((ix, attempt), position);
        }
        let record = AdvanceRecord {
            attempt,
            outcome: advance.outcome.clone(),
            request_digest: advance.request_digest,
            submitted: advance.submitted,
            reply_ref: advance.reply_ref,
            event_index: index,
        };
        self.records.push(ix, record);
        Ok(())
    }

    fn link(&mut self, dag: &mut Dag, index: EventIndex, made: Awaited, to: NodeId) -> Result<(), FoldError> {
        if self.awaited.contains_key(&to) {
            return Err(FoldError::AdvancedTwice { index, to });
        }
        if let Some(to_ix) = dag.find(to) {
            let target = dag.node(to_ix);
            if target.parent != Some(made.from) || target.kind != NodeKind::Step {
                return Err(FoldError::AdvanceTarget { index, node: made.from, to });
            }
            if target.edge.is_some_and(|edge| edge.attempt.is_some()) {
                return Err(FoldError::AdvancedTwice { index, to });
            }
            if dag.set_edge_attempt(to_ix, made.attempt) {
                return Ok(());
            }
        }
        self.awaited.insert(to, made);
        Ok(())
    }

    /// Refuses a node that an earlier record assigns to another parent.
    pub(super) fn check_node(
        &self,
        index: EventIndex,
        node: NodeId,
        parent: Option<NodeId>,
        kind: NodeKind,
    ) -> Result<(), FoldError> {
        match self.awaited.get(&node) {
            Some(made) if parent != Some(made.from) || kind != NodeKind::Step => {
                Err(FoldError::AdvanceTarget { index, node: made.from, to: node })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The attempt that an earlier record named for the edge.
    pub(super) fn take_awaited(&mut self, to: NodeId) -> Option<AttemptId> {
        self.awaited.remove(&to).map(|made| made.attempt)
    }
}

impl SessionState {
    pub fn advance(&self, node: NodeId, attempt: AttemptId) -> Option<&AdvanceRecord> {
        self.advances.get(self.dag.find(node)?, attempt)
    }

    pub fn latest_advance(&self, node: NodeId) -> Option<&AdvanceRecord> {
        self.advances.latest(self.dag.find(node)?)
    }

    /// All outcomes recorded on the node, oldest first.
    pub(crate) fn advances(&self, node: NodeId) -> &[AdvanceRecord] {
        self.dag.find(node).map_or(&[], |ix| self.advances.records.get(ix))
    }

    /// The blocked attempts that lead to `attempt`, newest first.
    pub(crate) fn retry_chain(&self, node: NodeId, attempt: AttemptId) -> Vec<AttemptId> {
        let mut chain = Vec::new();
        let mut current = attempt;
        for record in self.advances(node).iter().rev().filter(|record| record.is_blocked()) {
            if derive::retry_attempt(record.attempt) == current {
                chain.push(record.attempt);
                current = record.attempt;
            }
        }
        chain
    }
}
