//! The agent's memory of a run: what was asked, done and decided, read from the record and never from the chat.
//!
//! The answers are text, in pages that fit in a reply. Reading changes nothing (G36, G56).
//!
//! Code map: `overview` the run at a glance, `detail` one step or the context in full, `find` a search in the run,
//! `pages` how a long text is split, `session` a session's notes and runs.

mod detail;
mod find;
mod overview;
mod pages;
mod session;

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::{Context, OutputPayload};
use workrail_model::id::{NodeId, RunId};
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::name::StepId;
use workrail_model::snapshot::{EngineState, PendingStep};
use workrail_model::text::truncate_with_marker;

use crate::label::RunLabel;
use crate::progress::loops;
use crate::project::{NodeState, PathStep, RunState, SessionState};
use crate::render::prompt::render_title;
use crate::report::ContentReader;

pub use pages::{TextPage, page};
pub use session::session;

const TITLE_SHOWN_BYTES_MAX: usize = 120;

/// A run whose record is read, from the current point back to its start.
#[derive(Clone, Copy, Debug)]
pub struct RunRecord<'a> {
    facts: &'a SessionState,
    run: &'a RunState,
    /// Absent if the pinned workflow cannot be read.
    workflow: Option<&'a CompiledWorkflow>,
    content: &'a dyn ContentReader,
    tip: &'a NodeState,
}

/// No such step: a step is named by its number on the path to the current point, its id, or the id of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchStep {
    pub asked: String,
    /// How many steps there are.
    pub count: usize,
}

impl<'a> RunRecord<'a> {
    /// The record of the branch that `at` is on: the one where the run continues, unless `at` is on another one. `None`
    /// if the run has no node yet.
    pub fn of(
        facts: &'a SessionState,
        run: RunId,
        at: Option<NodeId>,
        workflow: Option<&'a CompiledWorkflow>,
        content: &'a dyn ContentReader,
    ) -> Option<Self> {
        let preferred = facts.preferred_tip(run)?;
        let elsewhere = at.filter(|at| !facts.is_ancestor_or_self(*at, preferred));
        let tip = elsewhere
            .and_then(|at| facts.tips(run).rev().find(|tip| facts.is_ancestor_or_self(at, tip.node_id)));
        let tip = tip.or_else(|| facts.node(preferred))?;
        Some(Self { facts, run: facts.run(run)?, workflow, content, tip })
    }

    fn label(&self) -> RunLabel {
        RunLabel::of(self.run.run_id)
    }

    /// The steps on the path to a point, in order; at a tip, the last one is pending or ends the run.
    fn path(&self, end: NodeId) -> Vec<PathStep<'a>> {
        let mut steps: Vec<_> = self.facts.path_steps(end).collect();
        steps.reverse();
        steps
    }

    fn state(&self, node: &NodeState) -> Option<EngineState> {
        self.content.state_at(node)
    }

    fn context(&self) -> Context {
        self.facts.context_at(self.tip.node_id).unwrap_or_default()
    }

    /// A step's title as shown at its own node; its id if the workflow cannot be read.
    fn title(&self, node: &NodeState, pending: &PendingStep) -> String {
        let Some(workflow) = self.workflow else { return pending.step_id.to_string() };
        let own = self.facts.context_at(node.node_id).unwrap_or_default();
        truncate_with_marker(&render_title(workflow, pending, &own), TITLE_SHOWN_BYTES_MAX).into_owned()
    }

    /// The pending step's id, and its title with the loops that it is in.
    fn named(&self, node: &NodeState, state: &EngineState) -> Option<(StepId, String)> {
        let pending = state.pending_step()?;
        let title = self.title(node, pending);
        let loops = self.loops(node, pending);
        let title = if loops.is_empty() { title } else { format!("{title} [{}]", loops.join(", ")) };
        Some((pending.step_id.clone(), title))
    }

    /// The loops that a step is in, as named in replies: `slice 2 of 3`.
    fn loops(&self, node: &NodeState, pending: &PendingStep) -> Vec<String> {
        let Some(workflow) = self.workflow.filter(|_| !pending.loop_path.is_empty()) else {
            return Vec::new();
        };
        let own = self.facts.context_at(node.node_id).unwrap_or_default();
        loops(workflow, pending, &own).iter().map(ToString::to_string).collect()
    }

    /// The full note, even if the event contains only its beginning.
    fn whole_notes(&self, payload: &OutputPayload) -> Option<String> {
        notes_of(payload, self.content)
    }

    /// An artifact as sent; `None` for notes, and for content that cannot be read.
    fn artifact(&self, payload: &OutputPayload) -> Option<serde_json::Value> {
        artifact_of(payload, self.content)
    }
}

fn notes_of(payload: &OutputPayload, content: &dyn ContentReader) -> Option<String> {
    let OutputPayload::Notes { notes_markdown, full_text_ref } = payload else { return None };
    let whole = full_text_ref.and_then(|reference| String::from_utf8(content.blob(reference)?).ok());
    Some(whole.unwrap_or_else(|| notes_markdown.as_str().to_owned()))
}

fn artifact_of(payload: &OutputPayload, content: &dyn ContentReader) -> Option<serde_json::Value> {
    let OutputPayload::ArtifactRef { sha256, .. } = payload else { return None };
    serde_json::from_slice(&content.blob(*sha256)?).ok()
}

/// The beginning of a text on one line.
fn gist(text: &str, bytes_max: usize) -> String {
    let line: String = text.replace(TRUNCATION_MARKER, " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let keep = line.floor_char_boundary(bytes_max);
    if keep < line.len() { format!("{}…", &line[..keep]) } else { line }
}

fn kind_of(artifact: &serde_json::Value) -> &str {
    artifact.get("kind").and_then(serde_json::Value::as_str).unwrap_or("artifact")
}
