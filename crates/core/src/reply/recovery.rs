//! What an agent that lost the chat gets: what was done, and which branches start here (G53).
//!
//! Only the newest steps that fit are examined, so that the cost does not grow with the run (G23). Which
//! step a node represents is in its snapshot, which the caller provides.

use std::borrow::Cow;
use std::fmt::Debug;

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::{Context, EventIndex, OutputPayload};
use workrail_model::id::NodeId;
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::name::StepId;
use workrail_model::reply::{Branch, Recap, RecapEntry, RunIsAt, state_marker_of, without_markers};
use workrail_model::snapshot::{EngineState, PendingStep};
use workrail_model::text::{truncate_in_the_middle, truncate_with_marker};

use super::rehydrate_call;
use crate::label::RunLabel;
use crate::project::{NodeState, SessionState};
use crate::render::prompt::{functions, render_title, title_without_secrets};

/// In place of a title that cannot be read; its notes can.
const TITLE_UNKNOWN: &str = "(step unknown: its snapshot is missing or damaged)";
const RECAP_BYTES_MAX: usize = 1500;
const DOWNSTREAM_BYTES_MAX: usize = 800;
/// One long report must not hide all the others.
const ENTRY_BYTES_MAX: usize = 1000;
const FUNCTIONS_BYTES_MAX: usize = 500;
/// How far beyond a point its functions are searched for.
const FUNCTION_STEPS_MAX: usize = 12;
const BRANCHES_MAX: usize = 3;
const BRANCH_SUMMARY_BYTES_MAX: usize = 120;
const TITLE_SHOWN_BYTES_MAX: usize = 120;
/// The size of an entry's quote marks and heading.
const ENTRY_OVERHEAD_BYTES: usize = 60;
/// `> ` before a line.
const QUOTE_BYTES: usize = 2;

const POLICY: &str = "kept the first step, the latest plan and the most recent entries";
const GOAL_SHOWN_BYTES_MAX: usize = 240;
const SESSION_NOTES_MAX: usize = 2;
const KEPT_ENTRY_BYTES_MAX: usize = 900;
/// How many older steps are searched for a plan.
const PLAN_STEPS_MAX: usize = 64;

/// Provides the execution state of a node; `None` if its content cannot be read.
pub trait Snapshots: Debug {
    fn state_at(&self, node: &NodeState) -> Option<EngineState>;
}

/// Who reads what was recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The agent that works on the run: it was shown these titles, and has set the values in them.
    RunAgent,
    /// Any reader of the session: the values of secret keys are withheld (G81).
    AnyReader,
}

/// The input for recovering one point.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryInput<'a> {
    pub facts: &'a SessionState,
    pub workflow: &'a CompiledWorkflow,
    pub context: &'a Context,
    pub snapshots: &'a dyn Snapshots,
    pub audience: Audience,
}

impl RecoveryInput<'_> {
    /// What was recorded on the path to the node.
    pub fn recap(&self, node: NodeId) -> Option<Recap> {
        let (mut recap, seen) = self.recap_until(node, None, RECAP_BYTES_MAX);
        recap.goal = self.goal();
        recap.session_notes = self.session_notes();
        if recap.omitted > 0 {
            recap.kept = self.first_step(node).into_iter().chain(self.latest_plan(node, seen)).collect();
            recap.omitted = recap.omitted.saturating_sub(recap.kept.len() as u64);
            // What was too old to be listed may be among what is kept, and complete there.
            recap.truncated = recap.omitted > 0 || recap.kept.iter().chain(&recap.entries).any(is_shortened);
        }
        let is_empty = recap.goal.is_none() && recap.session_notes.is_empty() && recap.entries.is_empty();
        (!is_empty).then_some(recap)
    }

    fn goal(&self) -> Option<String> {
        let goal = self.context.get("goal")?.as_str()?;
        Some(without_markers(&truncate_with_marker(goal, GOAL_SHOWN_BYTES_MAX)))
    }

    fn session_notes(&self) -> Vec<String> {
        let all = self.facts.session_outputs();
        let newest = &all[all.len().saturating_sub(SESSION_NOTES_MAX)..];
        newest.iter().filter_map(|output| notes(&output.payload)).map(first_words).collect()
    }

    /// What the first step recorded on the path to the node: that is where the work was agreed on.
    fn first_step(&self, node: NodeId) -> Option<RecapEntry> {
        let run = self.facts.run(self.facts.node(node)?.run_id)?;
        let root = self.facts.node(run.root?)?;
        let on_the_way = |child: &&NodeState| self.facts.is_ancestor_or_self(child.node_id, node);
        let attempt = self.facts.acked_children(root.node_id).find(on_the_way)?.edge?.attempt;
        let words = self
            .facts
            .current_outputs(root.node_id, attempt)
            .rev()
            .find_map(|output| notes(&output.payload))?;
        Some(self.entry(root, root, &fitted(words)))
    }

    /// The newest notes of a planning step among those too old to be shown; `seen` are already shown.
    fn latest_plan(&self, node: NodeId, seen: usize) -> Option<RecapEntry> {
        if !self.workflow.steps.iter().any(|step| is_plan(&step.step_id)) {
            return None;
        }
        let older = self.facts.path_steps(node).skip(seen).take(PLAN_STEPS_MAX);
        older.filter(|step| step.node.parent.is_some()).find_map(|step| {
            let state = self.snapshots.state_at(step.node)?;
            state.pending_step().filter(|pending| is_plan(&pending.step_id))?;
            let (at, words) = step
                .outputs
                .iter()
                .rev()
                .find_map(|entry| Some((entry.node, notes(&entry.output.payload)?)))?;
            Some(self.entry(step.node, at, &fitted(words)))
        })
    }

    /// What the most recently continued branch recorded beyond the node; `None` at a tip.
    pub fn downstream(&self, node: NodeId) -> Option<Recap> {
        let run = self.facts.node(node)?.run_id;
        let tip = self.facts.preferred_tip(run)?;
        let beyond = tip != node && self.facts.is_ancestor_or_self(node, tip);
        let (recap, _) = beyond.then(|| self.recap_until(tip, Some(node), DOWNSTREAM_BYTES_MAX))?;
        (!recap.entries.is_empty()).then_some(recap)
    }

    /// The functions named by steps beyond the node, whose notes may mention them; `None` at a tip.
    pub fn functions(&self, node: NodeId) -> Option<String> {
        let at = self.facts.node(node)?;
        let tip = self.facts.preferred_tip(at.run_id).filter(|tip| *tip != node)?;
        let beyond = self.facts.path_steps(tip).take_while(|step| step.node.node_id != node);
        let steps: Vec<PendingStep> = beyond
            .take(FUNCTION_STEPS_MAX)
            .filter_map(|step| self.snapshots.state_at(step.node)?.pending_step().cloned())
            .collect();
        let own = self.snapshots.state_at(at);
        let pending = own.as_ref().and_then(EngineState::pending_step);
        functions::of_others(self.workflow, pending, &steps, FUNCTIONS_BYTES_MAX)
            .map(|text| without_markers(&text))
    }

    /// The branches that start at this node, the newest first.
    pub fn branches(&self, node: NodeId) -> Vec<Branch> {
        let Some(from) = self.facts.node(node) else { return Vec::new() };
        self.ways_on(node).iter().map(|(child, tip)| self.branch(from, child, tip)).collect()
    }

    /// The first steps of the branches from a node and where each of them is now, the newest first.
    pub(super) fn ways_on(&self, node: NodeId) -> Vec<(&NodeState, &NodeState)> {
        let facts = self.facts;
        let mut children: Vec<&NodeState> = facts.acked_children(node).collect();
        children.reverse();
        children.truncate(BRANCHES_MAX);
        let with_tip = |child: &'_ NodeState| {
            let below = |tip: &NodeId| facts.is_ancestor_or_self(child.node_id, *tip);
            let preferred = facts.preferred_tip(child.run_id).filter(below);
            preferred.or_else(|| facts.tips(child.run_id).rev().map(|tip| tip.node_id).find(below))
        };
        let ways = children.into_iter().map(|child| {
            let tip = with_tip(child).and_then(|tip| facts.node(tip));
            (child, tip.unwrap_or(child))
        });
        ways.collect()
    }

    fn branch(&self, from: &NodeState, child: &NodeState, tip: &NodeState) -> Branch {
        let facts = self.facts;
        let is_preferred = facts.preferred_tip(from.run_id) == Some(tip.node_id);
        let attempt = child.edge.and_then(|edge| edge.attempt);
        let notes = facts.current_outputs(from.node_id, attempt).find_map(|output| notes(&output.payload));
        let state = self.snapshots.state_at(tip);
        Branch {
            preferred: is_preferred,
            steps: tip.step_number.saturating_sub(from.step_number),
            summary: notes.map_or_else(|| "(no notes)".to_owned(), first_words),
            current_step: state.as_ref().and_then(|state| self.title(tip, state)),
            is_complete: state.is_some_and(|state| state.is_complete()),
            next_call: Some(rehydrate_call(&state_marker_of(tip.created_index), RunLabel::of(tip.run_id))),
        }
    }

    /// Where the run is now; `None` if it is at this node.
    pub fn run_is_at(&self, node: NodeId) -> Option<RunIsAt> {
        let run = self.facts.node(node)?.run_id;
        let tip = self.facts.node(self.facts.preferred_tip(run)?).filter(|tip| tip.node_id != node)?;
        let state = self.snapshots.state_at(tip);
        Some(RunIsAt {
            is_ahead: self.facts.is_ancestor_or_self(node, tip.node_id),
            is_complete: state.as_ref().is_some_and(EngineState::is_complete),
            step_number: tip.step_number,
            title: state.as_ref().and_then(|state| self.title(tip, state)),
            next_call: rehydrate_call(&state_marker_of(tip.created_index), RunLabel::of(run)),
        })
    }

    /// The newest entries that fit, from `tip` back to `until` (exclusive) or to the root; and how many steps
    /// were examined.
    fn recap_until(&self, tip: NodeId, until: Option<NodeId>, budget: usize) -> (Recap, usize) {
        let mut entries = Vec::new();
        let mut seen = 0;
        let (mut bytes, mut omitted, mut cut) = (0, 0, false);
        let floor = until.and_then(|node| self.facts.node(node)).map_or(0, |node| node.step_number);
        'steps: for step in self.facts.path_steps(tip) {
            if until == Some(step.node.node_id) {
                break;
            }
            seen += 1;
            for entry in step.outputs.iter().rev() {
                let Some(words) = notes(&entry.output.payload) else { continue };
                let shown = truncate_in_the_middle(words, ENTRY_BYTES_MAX);
                // Every line is quoted, and the quote marks count.
                let quoted = shown.len() + shown.lines().count() * QUOTE_BYTES;
                let room = budget.saturating_sub(bytes + ENTRY_OVERHEAD_BYTES);
                if quoted > room {
                    cut = true;
                    if entries.is_empty() {
                        entries.push(self.entry(
                            step.node,
                            entry.node,
                            &truncate_in_the_middle(words, room / 2),
                        ));
                    }
                    omitted = step.node.step_number.saturating_sub(floor);
                    seen -= 1;
                    break 'steps;
                }
                cut |= shown.len() < words.len();
                bytes += quoted + ENTRY_OVERHEAD_BYTES;
                entries.push(self.entry(step.node, entry.node, &shown));
            }
        }
        entries.reverse();
        let policy = cut.then(|| POLICY.to_owned());
        (Recap { entries, truncated: cut, omitted, policy, ..Recap::default() }, seen)
    }

    fn entry(&self, step: &NodeState, at: &NodeState, words: &str) -> RecapEntry {
        let title = self.snapshots.state_at(step).and_then(|state| self.title(step, &state));
        RecapEntry {
            title: title.unwrap_or_else(|| TITLE_UNKNOWN.to_owned()),
            checkpoint: step.node_id != at.node_id,
            notes: without_markers(words),
        }
    }

    /// A step's title as shown at its own node: with the context of that node, not of this one (G50).
    pub(super) fn title(&self, node: &NodeState, state: &EngineState) -> Option<String> {
        let pending = state.pending_step()?;
        let authored = &self.workflow.step(&pending.step_id)?.title;
        // Folding a context is costly, and most titles use none of it.
        let own = authored.contains("{{").then(|| self.facts.context_at(node.node_id).ok()).flatten();
        let context = own.as_ref().unwrap_or(self.context);
        let title = match self.audience {
            Audience::RunAgent => render_title(self.workflow, pending, context),
            Audience::AnyReader => title_without_secrets(self.workflow, pending, context),
        };
        Some(without_markers(&truncate_with_marker(&title, TITLE_SHOWN_BYTES_MAX)))
    }
}

/// As much of a note as its quotation has room for.
fn fitted(words: &str) -> Cow<'_, str> {
    let shown = truncate_in_the_middle(words, KEPT_ENTRY_BYTES_MAX);
    let quotes = shown.lines().count() * QUOTE_BYTES;
    truncate_in_the_middle(words, KEPT_ENTRY_BYTES_MAX.saturating_sub(quotes))
}

fn is_shortened(entry: &RecapEntry) -> bool {
    entry.notes.contains(TRUNCATION_MARKER)
}

/// Whether a step's id indicates planning.
fn is_plan(step: &StepId) -> bool {
    let mut words = step.as_str().split(['-', '_', '.']);
    words.any(|word| ["plan", "planning", "design", "approach"].contains(&word))
}

fn notes(payload: &OutputPayload) -> Option<&str> {
    match payload {
        OutputPayload::Notes { notes_markdown, .. } => Some(notes_markdown.as_str()),
        OutputPayload::ArtifactRef { .. } => None,
    }
}

/// The beginning of a report, on one line.
pub(super) fn first_words(notes: &str) -> String {
    let line: String = notes.replace(TRUNCATION_MARKER, " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let keep = line.floor_char_boundary(BRANCH_SUMMARY_BYTES_MAX);
    let more = if keep < line.len() { "…" } else { "" };
    without_markers(&format!("{}{more}", &line[..keep]))
}

/// The previous node, to which a stuck run can go back.
pub(crate) fn last_good(facts: &SessionState, node: NodeId) -> Option<EventIndex> {
    facts.ancestors(node).nth(1).map(|before| before.created_index)
}
