//! From a node's id to its index in the arena, at a cost that does not grow with the log.
//!
//! A search tree over random ids costs a cache miss per level, and took most of the time of folding an event.
//! This is a table of slots with a fixed hash, so equal logs give equal tables (no random order). An id is
//! searched for in only a few slots; an entry that finds no room there, by chance or by design, goes to a
//! tree, so that no choice of ids makes a lookup long.

use std::collections::BTreeMap;

use workrail_model::id::NodeId;

use super::dag::{NodeIx, NodeState};

const PROBES_MAX: usize = 8;
const SLOTS_MIN: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
struct IndexSlot {
    /// Part of the hash, so that a foreign slot is skipped without reading its node.
    tag: u32,
    ix: NodeIx,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IdIndex {
    /// Empty, or a power of two that is at least twice the number of nodes.
    slots: Vec<Option<IndexSlot>>,
    overflow: BTreeMap<NodeId, NodeIx>,
}

impl IdIndex {
    pub(super) fn find(&self, nodes: &[NodeState], id: NodeId) -> Option<NodeIx> {
        let (tag, probes) = self.probes(id);
        for position in probes {
            // Nothing is ever removed, so an empty slot ends the search.
            let slot = self.slots[position]?;
            if slot.tag == tag && nodes[slot.ix.position()].node_id == id {
                return Some(slot.ix);
            }
        }
        self.overflow.get(&id).copied()
    }

    /// Adds the last node of `nodes`.
    pub(super) fn add_last(&mut self, nodes: &[NodeState]) {
        if nodes.len() * 2 <= self.slots.len() {
            self.add(nodes, nodes.len() - 1);
            return;
        }
        // Doubling moves every node once per doubling: constant cost per node over time.
        *self = Self { slots: vec![None; SLOTS_MIN.max(self.slots.len() * 2)], overflow: BTreeMap::new() };
        for position in 0..nodes.len() {
            self.add(nodes, position);
        }
    }

    fn add(&mut self, nodes: &[NodeState], position: usize) {
        let (id, ix) = (nodes[position].node_id, NodeIx::at(position));
        let (tag, mut probes) = self.probes(id);
        match probes.find(|position| self.slots[*position].is_none()) {
            Some(free) => self.slots[free] = Some(IndexSlot { tag, ix }),
            None => {
                self.overflow.insert(id, ix);
            }
        }
    }

    /// The tag of an id and the slots in which it may be; none while there are no slots.
    fn probes(&self, id: NodeId) -> (u32, impl Iterator<Item = usize> + use<>) {
        let hash = hash(id);
        let (start, len) = (hash as usize, self.slots.len());
        let mask = len.wrapping_sub(1);
        let probes = (0..PROBES_MAX.min(len)).map(move |step| start.wrapping_add(step) & mask);
        ((hash >> 32) as u32, probes)
    }
}

/// Ids are already digests or random; this only moves all their bits to where they are used.
fn hash(id: NodeId) -> u64 {
    let mix =
        |hash: u64, byte: &u8| (hash.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
    let hash = id.body().as_bytes().iter().fold(0, mix);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use workrail_model::digest::SnapshotRef;
    use workrail_model::event::{EventIndex, NodeKind};
    use workrail_model::id::{EventId, RunId};

    use super::*;

    fn nodes(ids: &[NodeId]) -> Vec<NodeState> {
        let node = |node_id| NodeState {
            node_id,
            run_id: RunId::from_bits([0; 10]),
            kind: NodeKind::Step,
            parent: None,
            snapshot_ref: SnapshotRef::of(b""),
            created_index: EventIndex::ZERO,
            created_by: EventId::from_bits([0; 10]),
            edge: None,
            checkpoint: None,
            children: Vec::new(),
            depth: 0,
            step_number: 0,
            links: super::super::dag::NodeLinks::default(),
        };
        ids.iter().copied().map(node).collect()
    }

    fn check(ids: &[NodeId]) -> IdIndex {
        let nodes = nodes(ids);
        let mut index = IdIndex::default();
        assert_eq!(index.find(&[], ids[0]), None);
        for count in 1..=nodes.len() {
            assert_eq!(index.find(&nodes[..count - 1], ids[count - 1]), None);
            index.add_last(&nodes[..count]);
        }
        for (position, id) in ids.iter().enumerate() {
            assert_eq!(index.find(&nodes, *id), Some(NodeIx::at(position)));
        }
        index
    }

    #[test]
    fn every_node_is_found_and_no_other() {
        let ids: Vec<NodeId> = (0..3000u16)
            .map(|n| NodeId::from_bits([n.to_be_bytes()[0], n.to_be_bytes()[1], 0, 0, 0, 0, 0, 0, 0, 0]))
            .collect();
        // Half of the slots are empty: with a good hash, hardly any id overflows.
        assert!(check(&ids).overflow.len() < 30);
    }

    #[test]
    fn ids_that_all_want_the_same_slots_are_found_too() {
        let wanted = |id: &NodeId| hash(*id) & 1023 == 7;
        let ids: Vec<NodeId> = (0..200_000u32)
            .map(|n| {
                let [a, b, c, d] = n.to_be_bytes();
                NodeId::from_bits([a, b, c, d, 0, 0, 0, 0, 0, 0])
            })
            .filter(wanted)
            .take(100)
            .collect();
        assert_eq!(check(&ids).overflow.len(), 100 - PROBES_MAX);
    }
}
