//! The open tips of a run other than the one shown: work left on another branch is offered, never lost.

use workrail_model::id::NodeId;
use workrail_model::reply::{OpenTip, state_marker_of};

use super::recovery::{RecoveryInput, first_words};
use super::rehydrate_call;
use crate::label::RunLabel;
use crate::project::{NodeState, SessionState};
use crate::reply::children::last_notes;

/// How many are offered; `read_run` has the others.
const TIPS_MAX: usize = 4;
/// How many tips are examined: the cost of a reply does not grow with the number of branches.
const TIPS_READ_MAX: usize = 32;
const TEXT_BYTES_MAX: usize = 1200;

impl RecoveryInput<'_> {
    /// Unfinished tips of the run, the longest first, except those that the reply already names: this node, where the
    /// run is now, and where the branches from here are.
    pub fn open_tips(&self, node: NodeId) -> Vec<OpenTip> {
        let facts = self.facts;
        let Some(run) = facts.node(node).map(|at| at.run_id) else { return Vec::new() };
        let ways = self.ways_on(node);
        let mentioned: Vec<NodeId> = [node]
            .into_iter()
            .chain(facts.preferred_tip(run))
            .chain(ways.iter().map(|(_, tip)| tip.node_id))
            .collect();
        let elsewhere = |tip: &&NodeState| !mentioned.contains(&tip.node_id);
        let is_open = |tip: &&NodeState| {
            // An unreadable tip is not known to be finished.
            self.snapshots.state_at(tip).is_none_or(|state| !state.is_complete())
        };
        let newest = facts.tips(run).rev().filter(elsewhere).take(TIPS_READ_MAX);
        let mut tips: Vec<&NodeState> = newest.filter(is_open).collect();
        // The sort is stable: among equally long branches, the newest stays first.
        tips.sort_by_key(|tip| std::cmp::Reverse(tip.step_number));
        tips.truncate(TIPS_MAX);
        tips.into_iter().map(|tip| self.open_tip(tip, node)).collect()
    }

    fn open_tip(&self, tip: &NodeState, node: NodeId) -> OpenTip {
        let shared = fork(self.facts, tip.node_id, node);
        let state = self.snapshots.state_at(tip);
        OpenTip {
            step_number: tip.step_number,
            title: state.as_ref().and_then(|state| self.title(tip, state)),
            from_step: shared.map_or(1, |node| node.step_number),
            summary: last_notes(self.facts, tip.node_id)
                .map_or_else(|| "(no notes)".to_owned(), |notes| first_words(&notes)),
            next_call: Some(rehydrate_call(&state_marker_of(tip.created_index), RunLabel::of(tip.run_id))),
        }
    }
}

/// The last node that two branches have in common.
fn fork(facts: &SessionState, one: NodeId, other: NodeId) -> Option<&NodeState> {
    facts.ancestors(one).find(|node| facts.is_ancestor_or_self(node.node_id, other))
}

/// The open tips in words, for a reply and for a candidate of `resume_session`.
pub fn text(tips: &[OpenTip]) -> Option<String> {
    if tips.is_empty() {
        return None;
    }
    let mut text = String::from("Unfinished on other branches of this run:");
    for (position, tip) in tips.iter().enumerate() {
        let location = match &tip.title {
            Some(title) => format!("at step {}, \"{title}\"", tip.step_number),
            None => format!("at step {}, which cannot be read", tip.step_number),
        };
        let call = tip
            .next_call
            .as_ref()
            .map_or_else(String::new, |call| format!(" To see it: {}", call.in_a_line()));
        let line = format!(
            "\n- {location}; branched off after step {}. Last recorded: {}{call}",
            tip.from_step, tip.summary
        );
        if position > 0 && text.len() + line.len() > TEXT_BYTES_MAX {
            text.push_str(&format!("\n- and {} more; read_run lists them", tips.len() - position));
            break;
        }
        text.push_str(&line);
    }
    Some(text)
}
