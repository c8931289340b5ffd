//! For each node, the nearest ancestor-or-self with a fact, without walking the path.
//!
//! A node inherits its parent's answer when it is created, and answers with itself once it is marked.
//! A mark on a node that already has children (a fork that starts with a change) would leave its
//! descendants with an outdated answer. If no child has children, such as the checkpoints of a step that is answered,
//! their answers are corrected. Other *late* marks are stored separately and checked as well. They are few, and
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
        let Some(answer) = self.answers.get_mut(ix.position()).filter(|answer| **answer != Some(ix)) else {
            return;
        };
        *answer = Some(ix);
        let children: Vec<NodeIx> =
            dag.node(ix).children.iter().filter_map(|child| dag.find(*child)).collect();
        if children.iter().any(|child| !dag.node(*child).children.is_empty()) {
            self.late.insert(ix);
            return;
        }
        for child in children {
            if let Some(answer) =
                self.answers.get_mut(child.position()).filter(|answer| **answer != Some(child))
            {
                *answer = Some(ix);
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
