//! The preferred tip: where work on a run continues, from the order of events alone (G6, G52).
//!
//! Tips are ranked by last activity, then by `node_created` index, then by id. The last activity of a
//! tip is the highest index among the events that touch its reachable history, which is its path to the
//! root. An event touches the node it is scoped to; an edge touches the node it leads to, and a context
//! set the node from which on it applies.
//!
//! **Tips are steps.** A checkpoint is a note on a step, and it is the step that is continued. So the
//! candidates are the steps that were not continued ([`SessionState::is_tip`]), and what touches a
//! checkpoint touches the step that owns it. G38 requires this: a checkpoint never makes the next
//! advance a fork, so it must not hide the step whose advance is awaited.
//!
//! **Why no history is walked.** Indexes are unique, so one event E is the last that touched the run, at
//! one node A. E is in the history of exactly the nodes at or below A: each of them has the last
//! activity E, every other node has less. The winner is therefore the newest tip at or below A; older
//! activity, private to a branch or shared, no longer matters. Two tips never have the same
//! `node_created` index, so the id never decides. There is always such a tip: the newest step at or below
//! A cannot have been continued, because its child would be newer.
//!
//! The fold stores A (one write per event) and the set of tips. The query goes through the tips from the
//! newest and takes the first that is below A, a test of O(log depth): O(tips) at worst, one test if
//! work continues on the same branch as before.

use workrail_model::event::EventIndex;
use workrail_model::id::{NodeId, RunId};

use super::{NodeState, SessionState};

impl SessionState {
    /// The step at which work on the run continues; `None` for an unknown run or one without nodes.
    pub fn preferred_tip(&self, run: RunId) -> Option<NodeId> {
        let touched = self.dag.get(self.run(run)?.touched?)?;
        let step = touched.links.owner;
        let tip = self.dag.tips(run).rev().find(|tip| self.dag.is_ancestor_or_self(step, *tip))?;
        Some(self.dag.node(tip).node_id)
    }

    /// The last record that touched a step of the run: work continues there.
    pub(crate) fn latest_touch(&self, run: RunId) -> Option<EventIndex> {
        self.run(run)?.touched_index
    }

    /// The tips of the run's branches: its steps that were not continued, oldest first.
    pub(crate) fn tips(&self, run: RunId) -> impl DoubleEndedIterator<Item = &NodeState> {
        self.dag.tips(run).map(|tip| self.dag.node(tip))
    }
}
