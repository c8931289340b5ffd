//! Nodes, edges and ancestry of all runs of a session, in one arena.
//!
//! A node's index in the arena is its rank by creation, so a parent always comes before its
//! children and the index of a `node_created` event is found by bisection. Only what events say is
//! serialised; children, depth and links are rebuilt from it, so a damaged cache cannot contain a
//! dangling link.
//!
//! Every node belongs to a step: itself, or for a checkpoint the step it was taken on (its *owner*; a
//! root owns itself whatever its kind). Checkpoints are notes on their owner's work, not work of their own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};
use workrail_model::digest::SnapshotRef;
use workrail_model::event::{CheckpointRecord, EdgeCause, EdgeCreated, EdgeKind, EventIndex, NodeKind};
use workrail_model::id::{AttemptId, EventId, NodeId, RunId};

use super::index::IdIndex;
use super::saved_nodes::SavedNodes;
use super::{FoldError, SessionState};

/// How many of the newest nodes are checked before the index: an advance touches the tip and its
/// child, so nearly every lookup ends here, in memory that was just used.
const RECENT_NODES: usize = 4;

/// A node's index in the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct NodeIx(u32);

impl NodeIx {
    pub(super) fn at(position: usize) -> Self {
        // Every node took an event, and event indexes fit in 25 bits.
        Self(position as u32)
    }

    pub(super) fn position(self) -> usize {
        self.0 as usize
    }
}

/// The edge that led to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeInfo {
    pub kind: EdgeKind,
    pub cause: EdgeCause,
    pub index: EventIndex,
    /// The attempt whose recorded advance made this edge; `None` for a checkpoint.
    pub attempt: Option<AttemptId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    pub node_id: NodeId,
    pub run_id: RunId,
    pub kind: NodeKind,
    pub parent: Option<NodeId>,
    pub snapshot_ref: SnapshotRef,
    /// The index of its `node_created`; short tokens name the node by it.
    pub created_index: EventIndex,
    /// Its `node_created` event. Every append draws a new id, so that a node of a truncated or
    /// restored history is not taken for the one that was there before.
    pub created_by: EventId,
    pub edge: Option<EdgeInfo>,
    /// The reply to the call that made this checkpoint, for when it is repeated.
    pub checkpoint: Option<CheckpointRecord>,
    pub children: Vec<NodeId>,
    pub depth: u32,
    /// The number of its step on the path to it, from 1, as in replies and lists; a checkpoint has that of its step.
    /// Not the depth: an advance may start from a checkpoint.
    pub step_number: u64,
    pub(super) links: NodeLinks,
}

/// What is derived from the nodes' parents, kinds and edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeLinks {
    pub(super) parent: Option<NodeIx>,
    /// A distant ancestor, chosen so that any ancestor is reached in O(log depth) hops.
    jump: NodeIx,
    pub(super) owner: NodeIx,
    /// The checkpoints that this step owns, oldest first.
    pub(super) checkpoints: Vec<NodeIx>,
    /// An `acked_step` edge starts here, or at one of the checkpoints.
    continued: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "SavedNodes")]
pub(super) struct Dag {
    nodes: Vec<NodeState>,
    ids: IdIndex,
    /// Steps that were not continued, by run and creation.
    tips: BTreeMap<RunId, BTreeSet<NodeIx>>,
}

impl Serialize for Dag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SavedNodes::of(&self.nodes, |id| self.find(id).map(NodeIx::position)).serialize(serializer)
    }
}

impl TryFrom<SavedNodes> for Dag {
    type Error = String;

    fn try_from(saved: SavedNodes) -> Result<Self, String> {
        let mut dag = Self::default();
        // A parent is referred to by its index among the preceding nodes, so it is always found.
        for node in saved.nodes()? {
            dag.insert(node);
        }
        Ok(dag)
    }
}

impl Dag {
    pub(super) fn get(&self, ix: NodeIx) -> Option<&NodeState> {
        self.nodes.get(ix.position())
    }

    /// For indexes that this arena handed out.
    pub(super) fn node(&self, ix: NodeIx) -> &NodeState {
        &self.nodes[ix.position()]
    }

    pub(super) fn find(&self, id: NodeId) -> Option<NodeIx> {
        let first = self.nodes.len().saturating_sub(RECENT_NODES);
        let recent = self.nodes[first..].iter().rposition(|node| node.node_id == id);
        recent.map(|position| NodeIx::at(first + position)).or_else(|| self.ids.find(&self.nodes, id))
    }

    pub(super) fn is_ancestor_or_self(&self, ancestor: NodeIx, of: NodeIx) -> bool {
        let depth = self.node(ancestor).depth;
        let mut at = of;
        while self.node(at).depth > depth {
            let NodeLinks { jump, parent, .. } = &self.node(at).links;
            // Only a root has no parent, and its depth is 0, where the loop has ended.
            at = if self.node(*jump).depth >= depth { *jump } else { parent.unwrap_or(*jump) };
        }
        at == ancestor
    }

    /// A run's steps that were not continued, oldest first.
    pub(super) fn tips(&self, run: RunId) -> impl DoubleEndedIterator<Item = NodeIx> {
        self.tips.get(&run).into_iter().flatten().copied()
    }

    /// Adds a node whose parent, if any, is already in the arena.
    pub(super) fn insert(&mut self, mut node: NodeState) -> NodeIx {
        let ix = NodeIx::at(self.nodes.len());
        let parent = node.parent.and_then(|parent| self.find(parent));
        node.children = Vec::new();
        node.links = NodeLinks { parent, jump: ix, owner: ix, ..NodeLinks::default() };
        node.step_number = 1;
        if let Some(parent) = parent {
            let above = self.node(parent);
            node.depth = above.depth + 1;
            node.step_number = match node.kind {
                NodeKind::Step => above.step_number + 1,
                NodeKind::Checkpoint => above.step_number,
            };
            node.links.jump = self.jump_below(parent);
            if node.kind == NodeKind::Checkpoint {
                node.links.owner = above.links.owner;
            }
            self.nodes[parent.position()].children.push(node.node_id);
        }
        let (run, owner) = (node.run_id, node.links.owner);
        let acked = node.edge.is_some_and(|edge| edge.kind == EdgeKind::AckedStep);
        self.nodes.push(node);
        self.ids.add_last(&self.nodes);
        if owner == ix {
            self.tips.entry(run).or_default().insert(ix);
        } else {
            self.nodes[owner.position()].links.checkpoints.push(ix);
        }
        if let Some(parent) = parent.filter(|_| acked) {
            self.mark_continued(parent);
        }
        ix
    }

    /// The jump of a child of `parent`: as in a skew-binary list, two jumps of equal length become one.
    fn jump_below(&self, parent: NodeIx) -> NodeIx {
        let first = self.node(parent).links.jump;
        let second = self.node(first).links.jump;
        let depth = |ix| self.node(ix).depth;
        let equal = depth(parent) - depth(first) == depth(first) - depth(second);
        if equal { second } else { parent }
    }

    fn mark_continued(&mut self, from: NodeIx) {
        let owner = self.node(from).links.owner;
        // Work that continues from a checkpoint continues from the step that owns it.
        for ix in [from, owner] {
            self.nodes[ix.position()].links.continued = true;
        }
        if let Some(tips) = self.tips.get_mut(&self.nodes[owner.position()].run_id) {
            tips.remove(&owner);
        }
    }

    /// Checks an edge against its nodes and returns its end.
    pub(super) fn check_edge(
        &self,
        index: EventIndex,
        run: RunId,
        edge: &EdgeCreated,
    ) -> Result<NodeIx, FoldError> {
        let (from, to) = (edge.from_node_id, edge.to_node_id);
        for node in [from, to] {
            let ix = self.find(node).ok_or(FoldError::UnknownNode { index, node })?;
            if self.node(ix).run_id != run {
                return Err(FoldError::NodeOfAnotherRun { index, run, node });
            }
        }
        let ix = self.find(to).ok_or(FoldError::UnknownNode { index, node: to })?;
        let node = self.node(ix);
        if node.parent != Some(from) {
            return Err(FoldError::EdgeParent { index, from, to });
        }
        let fits = match edge.edge_kind {
            EdgeKind::AckedStep => node.kind == NodeKind::Step,
            EdgeKind::Checkpoint => node.kind == NodeKind::Checkpoint,
        };
        if !fits {
            return Err(FoldError::EdgeKind { index, to });
        }
        if node.edge.is_some() {
            return Err(FoldError::DuplicateEdge { index, to });
        }
        Ok(ix)
    }

    pub(super) fn set_edge(&mut self, to: NodeIx, edge: EdgeInfo) {
        let node = &mut self.nodes[to.position()];
        node.edge = Some(edge);
        if let Some(parent) = node.links.parent.filter(|_| edge.kind == EdgeKind::AckedStep) {
            self.mark_continued(parent);
        }
    }

    /// Sets the attempt of an edge that came before its `advance_recorded`; `false` without an edge.
    pub(super) fn set_edge_attempt(&mut self, to: NodeIx, attempt: AttemptId) -> bool {
        match &mut self.nodes[to.position()].edge {
            Some(edge) => {
                edge.attempt = Some(attempt);
                true
            }
            None => false,
        }
    }
}

impl SessionState {
    pub fn node(&self, id: NodeId) -> Option<&NodeState> {
        self.dag.find(id).map(|ix| self.dag.node(ix))
    }

    /// The node whose `node_created` has this index.
    pub fn node_by_event(&self, index: EventIndex) -> Option<&NodeState> {
        let position = self.dag.nodes.binary_search_by_key(&index, |node| node.created_index).ok()?;
        self.dag.nodes.get(position)
    }

    /// A run's nodes in the order of their creation.
    pub fn nodes(&self, run: RunId) -> impl Iterator<Item = &NodeState> {
        self.dag.nodes.iter().filter(move |node| node.run_id == run)
    }

    /// From the node itself to its root.
    pub(crate) fn ancestors(&self, id: NodeId) -> impl Iterator<Item = &NodeState> {
        std::iter::successors(self.node(id), |node| node.links.parent.map(|ix| self.dag.node(ix)))
    }

    /// Whether `ancestor` is `of` itself or on its path to the root; does not walk the path.
    pub(crate) fn is_ancestor_or_self(&self, ancestor: NodeId, of: NodeId) -> bool {
        match (self.dag.find(ancestor), self.dag.find(of)) {
            (Some(ancestor), Some(of)) => self.dag.is_ancestor_or_self(ancestor, of),
            (None, _) | (_, None) => false,
        }
    }

    /// The children created by advances from this node itself, oldest first.
    pub(crate) fn acked_children(&self, id: NodeId) -> impl Iterator<Item = &NodeState> {
        let children = self.node(id).map_or(&[][..], |node| &node.children);
        children
            .iter()
            .filter_map(|child| self.node(*child))
            .filter(|child| child.edge.is_some_and(|edge| edge.kind == EdgeKind::AckedStep))
    }

    /// Whether no `acked_step` edge starts at the node or at a checkpoint that belongs to it.
    /// Checkpoints alone never end a tip. `false` for an unknown node.
    pub(crate) fn is_tip(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| !node.links.continued)
    }
}
