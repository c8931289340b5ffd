//! For each node, the nearest ancestor-or-self with a fact, without walking the path.
//!
//! A node inherits its parent's answer when it is created, and answers with itself once it is marked.
//! A mark on a node that already has children (a fork that starts with a change) would leave its
//! descendants with an outdated answer; such *late* marks are stored separately and checked as well. They are few, and
//! checking one costs O(log depth), so the answer is exactly that of a walk.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::dag::{Dag, NodeIx};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Nearest {
    answers: Vec<Option<NodeIx>>,
    late: BTreeSet<NodeIx>,
}

impl Nearest {
    /// Must be called for every node, in the order of creation.
    pub(super) fn node_created(&mut self, parent: Option<NodeIx>) {
        let inherited = parent.and_then(|parent| self.answers.get(parent.position()).copied().flatten());
        self.answers.push(inherited);
    }

    pub(super) fn mark(&mut self, dag: &Dag, ix: NodeIx) {
        if let Some(answer) = self.answers.get_mut(ix.position()).filter(|answer| **answer != Some(ix)) {
            *answer = Some(ix);
            if !dag.node(ix).children.is_empty() {
                self.late.insert(ix);
            }
        }
    }

    pub(super) fn find(&self, dag: &Dag, ix: NodeIx) -> Option<NodeIx> {
        let inherited = self.answers.get(ix.position()).copied().flatten();
        let late = self.late.iter().copied();
        let above = late.filter(|late| dag.get(*late).is_some() && dag.is_ancestor_or_self(*late, ix));
        above.chain(inherited).max_by_key(|found| dag.get(*found).map(|node| node.depth))
    }
}
