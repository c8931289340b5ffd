//! A run at a glance: what it is for, where it is, what each step recorded, and which branches are open.

use serde_json::Value;
use workrail_model::event::OutputPayload;
use workrail_model::gap::Severity;
use workrail_model::preferences::RunStatus;
use workrail_model::reply::{state_marker_of, without_markers};
use workrail_model::tool::{ToolName, ToolSet};

use super::{RunRecord, gist, kind_of};
use crate::label::RunLabel;
use crate::progress::Progress;
use crate::project::{NodeState, PathStep, RunState};
use crate::reply::children::last_notes;
use crate::reply::rehydrate_call;

const GIST_BYTES_MAX: usize = 220;
const VALUE_BYTES_MAX: usize = 160;
const CONTEXT_KEYS_MAX: usize = 30;
const GAPS_MAX: usize = 20;
const BRANCHES_MAX: usize = 12;
const INNER_RUNS_MAX: usize = 10;
const SESSION_NOTES_MAX: usize = 5;
/// In a long run, the beginning has what was agreed and the end what is current.
const FIRST_STEPS_MAX: usize = 8;
const LAST_STEPS_MAX: usize = 40;

const NO_WORKFLOW: &str = "The pinned workflow cannot be read, so steps are named by their ids. `workrail store verify` \
                           says what is damaged.";

impl RunRecord<'_> {
    /// The run at a glance; bookmarks of other branches are markers that the caller signs.
    pub fn overview(&self, tools: ToolSet) -> String {
        // Recorded text never contains a marker; only the calls of other branches do.
        let mut sections = vec![without_markers(&self.heading())];
        sections.extend(self.session_notes().map(|text| without_markers(&text)));
        sections.extend(self.inner_runs().map(|text| without_markers(&text)));
        sections.extend(self.open_gaps().map(|text| without_markers(&text)));
        sections.extend(self.other_tips(tools));
        sections.extend(self.context_at_a_glance().map(|text| without_markers(&text)));
        sections.push(without_markers(&self.steps()));
        sections.join("\n\n")
    }

    fn heading(&self) -> String {
        let label = self.label();
        let state = self.state(self.tip);
        let status =
            state.as_ref().and_then(|state| self.facts.run_status(self.run.run_id, state.is_complete()));
        let name = self.workflow.map_or_else(String::new, |workflow| format!(" ({})", workflow.name));
        let mut lines =
            vec![format!("Run {label}: {}{name}, {}.", self.run.workflow_id, status_words(status))];
        if self.workflow.is_none() {
            lines.push(NO_WORKFLOW.to_owned());
        }
        if let Some(closed) = &self.run.closed {
            lines.push(format!("A person closed this run: {}", closed.reason));
        }
        let context = self.context();
        if let Some(goal) = context.get("goal").and_then(Value::as_str) {
            lines.push(format!("Goal: {goal}"));
        }
        if let Some(parent) = self.run.parent {
            lines.push(format!("Started inside run {}.", RunLabel::of(parent.run_id)));
        }
        if let Some(actor) = &self.run.last_actor {
            lines.push(format!("Last worked on by {actor}."));
        }
        lines.push(format!("Mode: {}.", self.facts.preferences(self.tip.node_id).autonomy.as_str()));
        let location = self.workflow.zip(state.as_ref()).and_then(|(workflow, state)| {
            let progress = Progress::of(workflow, state, &context)?;
            let pending = state.pending_step()?;
            Some(format!("Now at step {progress}: {} [{}]", self.title(self.tip, pending), pending.step_id))
        });
        lines.extend(location);
        lines.join("\n")
    }

    fn session_notes(&self) -> Option<String> {
        let notes =
            self.facts.session_outputs().iter().filter_map(|output| self.whole_notes(&output.payload));
        let notes: Vec<String> = notes.map(|notes| format!("- {}", gist(&notes, GIST_BYTES_MAX))).collect();
        let newest = &notes[notes.len().saturating_sub(SESSION_NOTES_MAX)..];
        (!newest.is_empty())
            .then(|| format!("## Notes of the session (in full: `step: \"session\"`)\n{}", newest.join("\n")))
    }

    /// The nested runs, with what each recorded last.
    fn inner_runs(&self) -> Option<String> {
        let facts = self.facts;
        let own = |run: &&RunState| run.parent.is_some_and(|parent| parent.run_id == self.run.run_id);
        let mut lines: Vec<String> =
            facts.runs().rev().filter(own).take(INNER_RUNS_MAX).map(|run| self.inner_run(run)).collect();
        let more = facts.runs().filter(own).count().saturating_sub(INNER_RUNS_MAX);
        if more > 0 {
            lines.push(format!("- and {more} more"));
        }
        (!lines.is_empty()).then(|| format!("## Runs started inside this run\n{}", lines.join("\n")))
    }

    fn inner_run(&self, run: &RunState) -> String {
        let tip = self.facts.preferred_tip(run.run_id).and_then(|tip| self.facts.node(tip));
        let state = tip.and_then(|tip| self.state(tip));
        let status = state.and_then(|state| self.facts.run_status(run.run_id, state.is_complete()));
        let at = run.parent.and_then(|parent| self.facts.node(parent.node_id));
        let at = at.map_or_else(String::new, |node| format!(", started at step {}", node.step_number));
        let notes = tip.and_then(|tip| last_notes(self.facts, tip.node_id));
        let notes = notes.map_or_else(String::new, |notes| format!(": {}", gist(&notes, GIST_BYTES_MAX)));
        format!("- {} ({}), {}{at}{notes}", RunLabel::of(run.run_id), run.workflow_id, status_words(status))
    }

    /// Those that count against completion, followed by those that were only disclosed.
    fn open_gaps(&self) -> Option<String> {
        let critical = self.gaps("Open gaps", |severity| severity == Severity::Critical);
        let disclosed = self.gaps("Also recorded", |severity| severity != Severity::Critical);
        let parts: Vec<String> = critical.into_iter().chain(disclosed).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    fn gaps(&self, heading: &str, is_listed: impl Fn(Severity) -> bool) -> Option<String> {
        let all = self.facts.gaps(self.run.run_id);
        let open: Vec<_> = all.filter(|gap| gap.is_open() && is_listed(gap.severity)).collect();
        if open.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = open
            .iter()
            .take(GAPS_MAX)
            .map(|gap| format!("- {}: {} ({})", severity_words(gap.severity), gap.summary, gap.gap_id))
            .collect();
        if open.len() > GAPS_MAX {
            lines.push(format!("- and {} more", open.len() - GAPS_MAX));
        }
        Some(format!("## {heading}\n{}", lines.join("\n")))
    }

    /// Every open tip of the run except the one where it continues.
    fn other_tips(&self, tools: ToolSet) -> Option<String> {
        let others: Vec<&NodeState> =
            self.facts.tips(self.run.run_id).rev().filter(|tip| tip.node_id != self.tip.node_id).collect();
        if others.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = others.iter().take(BRANCHES_MAX).map(|tip| self.branch(tip)).collect();
        if others.len() > BRANCHES_MAX {
            lines.push(format!("- and {} more", others.len() - BRANCHES_MAX));
        }
        let read = "to read what is recorded on it, call read_run with its stateToken as `run`";
        let how = match tools.offers(ToolName::ContinueWorkflow) {
            true => format!("To look at a branch, call continue_workflow with its arguments; {read}:"),
            false => {
                "To read what is recorded on a branch, call read_run with its stateToken as `run`:".to_owned()
            }
        };
        Some(format!("## Other branches\n{how}\n{}", lines.join("\n")))
    }

    fn branch(&self, tip: &NodeState) -> String {
        let state = self.state(tip);
        let location = match state.as_ref().and_then(|state| self.named(tip, state)) {
            Some((step_id, title)) => format!("at {title} [{step_id}]"),
            None if state.is_some_and(|state| state.is_complete()) => "complete".to_owned(),
            None => "at a step that cannot be read".to_owned(),
        };
        let shared = self
            .facts
            .ancestors(tip.node_id)
            .find(|node| self.facts.is_ancestor_or_self(node.node_id, self.tip.node_id));
        let from = shared.map_or(0, |node| node.step_number);
        let call = rehydrate_call(&state_marker_of(tip.created_index), self.label());
        format!("- from step {from}, {}: {}", without_markers(&location), call.arguments_text())
    }

    fn context_at_a_glance(&self) -> Option<String> {
        let context = self.context();
        let values: Vec<_> = context.as_map().iter().filter(|(key, _)| *key != "goal").collect();
        if values.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = values
            .iter()
            .take(CONTEXT_KEYS_MAX)
            .map(|(key, value)| format!("- {key}: {}", gist(&value.to_string(), VALUE_BYTES_MAX)))
            .collect();
        if values.len() > CONTEXT_KEYS_MAX {
            lines.push(format!("- and {} more", values.len() - CONTEXT_KEYS_MAX));
        }
        Some(format!("## Context\n{}", lines.join("\n")))
    }

    fn steps(&self) -> String {
        let path = self.path(self.tip.node_id);
        let mut lines = Vec::new();
        let left_out = path.len().saturating_sub(FIRST_STEPS_MAX + LAST_STEPS_MAX);
        for (position, step) in path.iter().enumerate() {
            if left_out > 0 && position == FIRST_STEPS_MAX {
                lines.push(format!("[{left_out} steps left out; read one by its number]"));
            }
            if left_out > 0 && (FIRST_STEPS_MAX..FIRST_STEPS_MAX + left_out).contains(&position) {
                continue;
            }
            let is_pending = position + 1 == path.len();
            lines.extend(self.step_line(position + 1, step, is_pending));
        }
        format!("## Steps (notes are claimed)\n{}", lines.join("\n"))
    }

    fn step_line(&self, number: usize, step: &PathStep<'_>, is_pending: bool) -> Option<String> {
        let state = self.state(step.node);
        if state.as_ref().is_some_and(|state| state.is_complete()) {
            return None;
        }
        let (step_id, title) = match state.as_ref().and_then(|state| self.named(step.node, state)) {
            Some((step_id, title)) => (format!(" [{step_id}]"), title),
            None => (String::new(), "(cannot be read)".to_owned()),
        };
        let notes =
            step.outputs.iter().filter_map(|entry| self.whole_notes(&entry.output.payload)).next_back();
        let artifacts: Vec<Value> =
            step.outputs.iter().filter_map(|entry| self.artifact(&entry.output.payload)).collect();
        let summary = match (notes, is_pending, artifacts.last()) {
            (Some(notes), false, _) => gist(&notes, GIST_BYTES_MAX),
            (Some(notes), true, _) => format!("(pending) saved so far: {}", gist(&notes, GIST_BYTES_MAX)),
            (None, true, _) => "(pending)".to_owned(),
            (None, false, Some(newest)) => gist(&newest.to_string(), GIST_BYTES_MAX),
            (None, false, None) => "(no notes)".to_owned(),
        };
        let mut kinds: Vec<String> = artifacts.iter().map(|artifact| kind_of(artifact).to_owned()).collect();
        let sent = step
            .outputs
            .iter()
            .filter(|entry| matches!(entry.output.payload, OutputPayload::ArtifactRef { .. }))
            .count();
        kinds.extend((kinds.len()..sent).map(|_| "one that cannot be read".to_owned()));
        let kinds =
            if kinds.is_empty() { String::new() } else { format!(" (artifacts: {})", kinds.join(", ")) };
        Some(format!("{number}. {title}{step_id}: {summary}{kinds}"))
    }
}

pub(super) fn status_words(status: Option<RunStatus>) -> &'static str {
    match status {
        Some(RunStatus::InProgress) => "in progress",
        Some(RunStatus::Blocked) => "blocked",
        Some(RunStatus::Complete) => "complete",
        Some(RunStatus::CompleteWithGaps) => "complete with open gaps",
        Some(RunStatus::Closed) => "closed",
        None => "its state cannot be read",
    }
}

fn severity_words(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}
