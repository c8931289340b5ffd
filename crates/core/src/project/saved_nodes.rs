//! The saved form of the nodes: fixed-size records in one Base64 text, read many times faster than JSON objects.
//!
//! Every node of a session is needed to fold the next event, so these cannot be read on demand like the facts.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use workrail_model::digest::{Sha256, SnapshotRef};
use workrail_model::event::{CheckpointRecord, EdgeCause, EdgeCauseKind, EdgeKind, EventIndex, NodeKind};
use workrail_model::id::{AttemptId, EventId, NodeId, RunId};

use super::dag::{EdgeInfo, NodeLinks, NodeState};

const RECORD_BYTES: usize = 89;
/// Marks a missing parent or attempt. Indexes are smaller, and attempts have 45 bits.
const NO_PARENT: u32 = u32::MAX;
const NO_ATTEMPT: u64 = u64::MAX;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedNodes {
    /// Referred to by their index here.
    runs: Vec<RunId>,
    records: String,
    /// By the index of the node.
    checkpoints: BTreeMap<u32, CheckpointRecord>,
}

impl SavedNodes {
    /// `position_of` returns the index of a parent.
    pub(super) fn of(nodes: &[NodeState], position_of: impl Fn(NodeId) -> Option<usize>) -> Self {
        let mut runs = Vec::new();
        let mut run_positions = BTreeMap::new();
        let mut records = Vec::with_capacity(nodes.len() * RECORD_BYTES);
        let mut checkpoints = BTreeMap::new();
        for (position, node) in nodes.iter().enumerate() {
            let run = *run_positions.entry(node.run_id).or_insert_with(|| {
                runs.push(node.run_id);
                runs.len() - 1
            });
            let parent = node.parent.and_then(&position_of).map_or(NO_PARENT, |parent| parent as u32);
            write(&mut records, node, run as u32, parent);
            if let Some(checkpoint) = node.checkpoint {
                checkpoints.insert(position as u32, checkpoint);
            }
        }
        Self { runs, records: BASE64.encode(&records), checkpoints }
    }

    /// The nodes; an error if a record is impossible.
    pub(super) fn nodes(self) -> Result<Vec<NodeState>, String> {
        let bytes = BASE64.decode(self.records.as_bytes()).map_err(|error| error.to_string())?;
        let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
        if !rest.is_empty() {
            return Err("the last node is cut off".to_owned());
        }
        let mut nodes: Vec<NodeState> = Vec::with_capacity(records.len());
        for (position, record) in records.iter().enumerate() {
            let node = read(record, &self.runs, &nodes, self.checkpoints.get(&(position as u32)));
            nodes.push(node.ok_or_else(|| format!("the record of node {position} is invalid"))?);
        }
        Ok(nodes)
    }
}

fn write(out: &mut Vec<u8>, node: &NodeState, run: u32, parent: u32) {
    let edge = node.edge;
    let cause = edge.map(|edge| edge.cause);
    out.extend(node.node_id.bits());
    out.extend(node.created_by.bits());
    out.extend(node.snapshot_ref.digest().as_bytes());
    out.extend(run.to_be_bytes());
    out.extend(parent.to_be_bytes());
    out.extend((node.created_index.get() as u32).to_be_bytes());
    out.push(match node.kind {
        NodeKind::Step => 0,
        NodeKind::Checkpoint => 1,
    });
    out.push(match edge.map(|edge| edge.kind) {
        None => 0,
        Some(EdgeKind::AckedStep) => 1,
        Some(EdgeKind::Checkpoint) => 2,
    });
    out.push(match cause.map(|cause| cause.kind) {
        None | Some(EdgeCauseKind::AckPending) => 0,
        Some(EdgeCauseKind::IdempotentReplay) => 1,
        Some(EdgeCauseKind::IntentionalFork) => 2,
        Some(EdgeCauseKind::NonTipAdvance) => 3,
        Some(EdgeCauseKind::CheckpointCreated) => 4,
    });
    out.extend(cause.map_or([0; 10], |cause| cause.event_id.bits()));
    out.extend(edge.map_or(0, |edge| edge.index.get() as u32).to_be_bytes());
    let attempt = edge.and_then(|edge| edge.attempt);
    out.extend(attempt.map_or(NO_ATTEMPT, |attempt| attempt.bits()).to_be_bytes());
}

fn read(
    record: &[u8; RECORD_BYTES],
    runs: &[RunId],
    before: &[NodeState],
    checkpoint: Option<&CheckpointRecord>,
) -> Option<NodeState> {
    let rest = &mut record.as_slice();
    let node_id = NodeId::from_bits(take(rest)?);
    let created_by = EventId::from_bits(take(rest)?);
    let snapshot_ref = SnapshotRef::new(Sha256::from_bytes(take(rest)?));
    let run_id = *runs.get(u32::from_be_bytes(take(rest)?) as usize)?;
    let parent = match u32::from_be_bytes(take(rest)?) {
        NO_PARENT => None,
        position => Some(before.get(position as usize)?.node_id),
    };
    let created_index = index(take(rest)?)?;
    let [kind, edge_kind, cause_kind] = take(rest)?;
    let kind = match kind {
        0 => NodeKind::Step,
        1 => NodeKind::Checkpoint,
        _ => return None,
    };
    let edge_kind = match edge_kind {
        0 => None,
        1 => Some(EdgeKind::AckedStep),
        2 => Some(EdgeKind::Checkpoint),
        _ => return None,
    };
    let cause_kind = match cause_kind {
        0 => EdgeCauseKind::AckPending,
        1 => EdgeCauseKind::IdempotentReplay,
        2 => EdgeCauseKind::IntentionalFork,
        3 => EdgeCauseKind::NonTipAdvance,
        4 => EdgeCauseKind::CheckpointCreated,
        _ => return None,
    };
    let cause = EdgeCause { kind: cause_kind, event_id: EventId::from_bits(take(rest)?) };
    let edge_index = index(take(rest)?)?;
    let attempt = match u64::from_be_bytes(take(rest)?) {
        NO_ATTEMPT => None,
        bits => Some(AttemptId::from_bits(bits)),
    };
    let edge = edge_kind.map(|kind| EdgeInfo { kind, cause, index: edge_index, attempt });
    Some(NodeState {
        node_id,
        run_id,
        kind,
        parent,
        snapshot_ref,
        created_index,
        created_by,
        edge,
        checkpoint: checkpoint.copied(),
        children: Vec::new(),
        depth: 0,
        step_number: 0,
        links: NodeLinks::default(),
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

fn index(bytes: [u8; 4]) -> Option<EventIndex> {
    EventIndex::new(u32::from_be_bytes(bytes).into())
}
