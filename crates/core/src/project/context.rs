//! Context that follows the branch (G50): a node sees only the sets on its own path to the root.
//!
//! The sets are kept as recorded, plus now and then what a node inherits from above, so that a
//! lookup folds a bounded number of sets and the state grows with the events, not by the whole
//! context at every step.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workrail_model::event::{Context, ContextError, ContextSet, ContextSource, EventIndex, NodeKind};
use workrail_model::id::{AttemptId, NodeId, RunId};

use super::SessionState;
use super::dag::{Dag, NodeIx};
use super::nearest::Nearest;
use super::per_node::PerNode;
use crate::secrets::is_secret;

/// After this many nodes with sets on a path, the next one stores what it inherits.
const SETS_FOLDED_MAX: u32 = 32;

/// The sets of a node, and how they relate to those above.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeSets {
    sets: Vec<Context>,
    /// What the node inherits, merged; if absent, the nodes above are folded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inherited: Option<Context>,
    /// How many nodes with sets must be folded before this one.
    to_fold: u32,
}

/// A blocked attempt's set, visible only to its retry chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttemptSet {
    attempt: AttemptId,
    index: EventIndex,
    context: Context,
}

/// What a person answered at a node, and their last answer's position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredNode {
    index: EventIndex,
    values: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Contexts {
    /// At most one entry per node.
    by_node: PerNode<NodeSets>,
    nearest: Nearest,
    by_attempt: PerNode<AttemptSet>,
    /// Where a person last answered a question of the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    answered: BTreeMap<NodeIx, AnsweredNode>,
    /// Runs in which a node got a set after steps followed it. What was merged below is not repaired but ignored: in such
    /// runs the whole path is folded.
    unmerged_runs: BTreeSet<RunId>,
}

impl Contexts {
    pub(super) fn is_readable(&self) -> bool {
        self.by_node.is_readable() && self.by_attempt.is_readable()
    }

    pub(super) fn node_created(&mut self, parent: Option<NodeIx>) {
        self.nearest.node_created(parent);
    }

    pub(super) fn set(&mut self, dag: &Dag, index: EventIndex, ix: NodeIx, set: &ContextSet) {
        let context = set.context.clone();
        if let Some(attempt) = set.attempt_id {
            self.by_attempt.push(ix, AttemptSet { attempt, index, context });
            return;
        }
        let is_answer = match set.source {
            ContextSource::Answer | ContextSource::ChatAnswer | ContextSource::ConsoleAnswer => true,
            ContextSource::Initial | ContextSource::AgentDelta => false,
        };
        if is_answer {
            let answered =
                self.answered.entry(ix).or_insert_with(|| AnsweredNode { index, values: Map::new() });
            answered.index = index;
            answered.values.extend(set.context.as_map().clone());
        }
        let node = dag.node(ix);
        if self.is_inherited_from(dag, ix) {
            self.unmerged_runs.insert(node.run_id);
        }
        if let Some(sets) = self.by_node.get_mut(ix).first_mut() {
            sets.sets.push(context);
            return;
        }
        let above = node.links.parent.and_then(|parent| self.nearest.find(dag, parent));
        let to_fold = above.and_then(|above| self.sets(above)).map_or(0, NodeSets::to_fold_below);
        // Merging can fail only beyond the budget, which writers check. Doubling the distance to the
        // next try keeps its cost constant per set even then.
        let merge = to_fold >= SETS_FOLDED_MAX && to_fold.is_power_of_two();
        let inherited = above
            .filter(|_| merge && !self.unmerged_runs.contains(&node.run_id))
            .and_then(|above| Context::new(self.fold(dag, above)).ok());
        self.by_node.push(ix, NodeSets { sets: vec![context], inherited, to_fold });
        self.nearest.mark(dag, ix);
    }

    /// Whether nodes below may have merged what they inherit from this one. A checkpoint has no sets of its own, unless
    /// work continued from it.
    fn is_inherited_from(&self, dag: &Dag, ix: NodeIx) -> bool {
        dag.node(ix).children.iter().filter_map(|child| dag.find(*child)).any(|child| {
            let node = dag.node(child);
            node.kind != NodeKind::Checkpoint || !node.children.is_empty() || self.sets(child).is_some()
        })
    }

    fn sets(&self, ix: NodeIx) -> Option<&NodeSets> {
        self.by_node.get(ix).first()
    }

    /// The sets up to and including those of `from`, a node with sets, merged from the root down.
    fn fold(&self, dag: &Dag, from: NodeIx) -> Map<String, Value> {
        let use_merged = !self.unmerged_runs.contains(&dag.node(from).run_id);
        let mut chain = Vec::new();
        let mut at = Some(from);
        while let Some(sets) = at.and_then(|ix| self.sets(ix)) {
            chain.push(sets);
            if use_merged && sets.inherited.is_some() {
                break;
            }
            let parent = at.and_then(|ix| dag.node(ix).links.parent);
            at = parent.and_then(|parent| self.nearest.find(dag, parent));
        }
        let start = chain.last().and_then(|oldest| oldest.inherited.as_ref().filter(|_| use_merged));
        let mut merged = start.map(|context| context.as_map().clone()).unwrap_or_default();
        for set in chain.iter().rev().flat_map(|sets| &sets.sets) {
            merge_into(&mut merged, set);
        }
        merged
    }
}

impl NodeSets {
    fn to_fold_below(&self) -> u32 {
        if self.inherited.is_some() { 1 } else { self.to_fold + 1 }
    }
}

/// Shallow: `null` deletes, everything else replaces.
fn merge_into(merged: &mut Map<String, Value>, set: &Context) {
    for (key, value) in set.as_map() {
        if value.is_null() {
            merged.remove(key);
        } else {
            merged.insert(key.clone(), value.clone());
        }
    }
}

impl SessionState {
    /// The node's effective context; empty for an unknown node.
    pub fn context_at(&self, node: NodeId) -> Result<Context, ContextError> {
        self.context_for(node, &[])
    }

    /// What a person answered at this node.
    pub(crate) fn answers_at(&self, node: NodeId) -> Option<&Map<String, Value>> {
        self.contexts.answered.get(&self.dag.find(node)?).map(|answered| &answered.values)
    }

    /// The context that an attempt on the node sees: the node's own, overlaid with what the blocked
    /// attempts of its retry chain sent, in the order recorded.
    pub(crate) fn context_for(
        &self,
        node: NodeId,
        retry_chain: &[AttemptId],
    ) -> Result<Context, ContextError> {
        let Some(ix) = self.dag.find(node) else { return Ok(Context::default()) };
        let nearest = self.contexts.nearest.find(&self.dag, ix);
        let mut merged = nearest.map(|from| self.contexts.fold(&self.dag, from)).unwrap_or_default();
        // An answer overrides what was sent before it.
        let answered = self.contexts.answered.get(&ix);
        let (before, after): (Vec<&AttemptSet>, Vec<&AttemptSet>) = self
            .contexts
            .by_attempt
            .get(ix)
            .iter()
            .filter(|set| retry_chain.contains(&set.attempt))
            .partition(|set| answered.is_some_and(|answered| set.index < answered.index));
        before.into_iter().for_each(|set| merge_into(&mut merged, &set.context));
        merged.extend(answered.into_iter().flat_map(|answered| answered.values.clone()));
        after.into_iter().for_each(|set| merge_into(&mut merged, &set.context));
        Context::new(merged)
    }

    /// The context that the next attempt at the node sees, including what its refused attempts sent if the newest was
    /// refused.
    pub fn context_of_retry(&self, node: NodeId) -> Result<Context, ContextError> {
        match self.latest_advance(node).filter(|last| last.is_blocked()) {
            None => self.context_at(node),
            Some(last) => {
                let mut chain = self.retry_chain(node, last.attempt);
                chain.push(last.attempt);
                self.context_for(node, &chain)
            }
        }
    }

    /// What the attempts of a retry chain sent, including deletions, in the order recorded.
    pub(crate) fn context_sent(&self, node: NodeId, retry_chain: &[AttemptId]) -> Map<String, Value> {
        let sets = self.dag.find(node).map_or(&[][..], |ix| self.contexts.by_attempt.get(ix));
        let own = sets.iter().filter(|set| retry_chain.contains(&set.attempt));
        own.flat_map(|set| set.context.as_map().clone()).collect()
    }

    /// The context values that an attempt and the refused ones before it sent, as shown to people: without those of
    /// secret keys (G81).
    pub fn shown_context_of(&self, node: NodeId, attempt: AttemptId) -> Map<String, Value> {
        let mut chain = self.retry_chain(node, attempt);
        chain.push(attempt);
        let mut sent = self.context_sent(node, &chain);
        let secret = sent.iter_mut().filter(|(key, _)| is_secret(key));
        secret.for_each(|(_, value)| *value = Value::from("[withheld]"));
        sent
    }

    /// Whether a person has decided on the node, or answered one of its questions, since this event.
    fn is_decided_since(&self, node: NodeId, index: EventIndex) -> bool {
        let answered =
            self.dag.find(node).and_then(|ix| self.contexts.answered.get(&ix)).map(|answered| answered.index);
        let decided = self.approvals(node).last().map(|approval| approval.index);
        answered.into_iter().chain(decided).any(|later| later > index)
    }

    /// Whether the node waits for a person: its newest attempt asked for one and has not been answered. In a copy
    /// without the digest of the attempt, nobody can decide on it; the agent submits the step again.
    pub fn waits_for_person(&self, node: NodeId) -> bool {
        self.latest_advance(node).is_some_and(|last| {
            last.asks_a_person() && last.submitted.is_some() && !self.is_decided_since(node, last.event_index)
        })
    }

    /// Whether the node's newest attempt was refused and has not been answered by a person since.
    pub(crate) fn is_refused(&self, node: NodeId) -> bool {
        self.latest_advance(node).is_some_and(|last| {
            last.is_blocked() && !(last.asks_a_person() && self.is_decided_since(node, last.event_index))
        })
    }
}
