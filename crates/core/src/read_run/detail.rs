//! One step of a run, or its context, in full.

use serde_json::Value;
use workrail_model::event::NodeKind;
use workrail_model::id::NodeId;
use workrail_model::read_run::ALL_STEPS;
use workrail_model::reply::without_markers;

use super::{NoSuchStep, RunRecord, kind_of};
use crate::evidence;
use crate::project::PathStep;

/// As much text as fits a few hundred pages; a single longer step is still shown.
const ALL_STEPS_BYTES_MAX: usize = 1024 * 1024;

/// Enough for the commands of a long step.
const EVIDENCE_LINES_MAX: usize = 40;

/// Selects the session's notes instead of a step's.
const SESSION: &str = "session";

impl RunRecord<'_> {
    /// A step with all of its notes and artifacts. `asked` is `all` for all steps, its number on the path to the current
    /// point, its id (the latest time it came up), `session` for the session's notes, or the id of a node, which may be on
    /// another branch. The first of these that fits counts: replies suggest calls with `all` and numbers, and a step whose
    /// id is such a text has a number, too.
    pub fn step(&self, asked: &str) -> Result<String, NoSuchStep> {
        let asked = asked.trim();
        let path = self.path(self.tip.node_id);
        if asked == ALL_STEPS {
            return Ok(self.all_steps(&path));
        }
        let count = path.len();
        let unknown = || NoSuchStep { asked: asked.to_owned(), count };
        if let Ok(number) = asked.parse::<usize>()
            && let Some(step) = number.checked_sub(1).and_then(|position| path.get(position))
        {
            return Ok(self.step_text(number, step));
        }
        let has_id = |step: &PathStep<'_>| {
            let state = self.state(step.node);
            state
                .as_ref()
                .and_then(|state| state.pending_step())
                .is_some_and(|step| step.step_id.as_str() == asked)
        };
        if let Some(position) = path.iter().rposition(has_id) {
            return Ok(self.step_text(position + 1, &path[position]));
        }
        if asked == SESSION {
            return Ok(without_markers(&self.whole_session_notes()));
        }
        let node = self.facts.nodes(self.run.run_id).find(|node| node.node_id.to_string() == asked);
        // The outputs of a step belong to the branch that leads on from it.
        let end = node.and_then(|node| self.facts.acked_children(node.node_id).last().or(Some(node)));
        let branch = end.map(|end| self.path(end.node_id)).unwrap_or_default();
        let position =
            branch.iter().rposition(|step| step.node.node_id.to_string() == asked).ok_or_else(unknown)?;
        Ok(self.step_text(position + 1, &branch[position]))
    }

    /// Every step that recorded something; if there is too much text, the newest.
    fn all_steps(&self, path: &[PathStep<'_>]) -> String {
        let mut newest = Vec::new();
        let mut bytes = 0;
        let recorded = path.iter().enumerate().filter(|(_, step)| !step.outputs.is_empty());
        let mut left_out = recorded.clone().count();
        for (position, step) in recorded.rev() {
            let text = self.step_text(position + 1, step);
            bytes += text.len();
            if bytes > ALL_STEPS_BYTES_MAX && !newest.is_empty() {
                break;
            }
            newest.push(text);
            left_out -= 1;
        }
        if newest.is_empty() {
            return format!("Run {}: no step has recorded anything yet.", self.label());
        }
        if left_out > 0 {
            newest.push(format!("[{left_out} earlier steps left out; read one by its number]"));
        }
        newest.reverse();
        newest.join("\n\n")
    }

    fn step_text(&self, number: usize, step: &PathStep<'_>) -> String {
        let state = self.state(step.node);
        let named = state.as_ref().and_then(|state| self.named(step.node, state));
        let title = match named {
            Some((step_id, title)) => format!("{title} [{step_id}]"),
            None if state.is_some_and(|state| state.is_complete()) => "the run is complete".to_owned(),
            None => "(its snapshot cannot be read)".to_owned(),
        };
        let mut text = format!("Run {}, step {number}: {title}", self.label());
        let attempts = self.facts.advances(step.node.node_id);
        let refused = attempts.iter().filter(|record| record.is_blocked()).count();
        if refused > 0 {
            let times = if refused == 1 { "once".to_owned() } else { format!("{refused} times") };
            let until =
                if refused < attempts.len() { "before it was complete" } else { "so far; not complete yet" };
            text.push_str(&format!("\nRefused {times} {until}."));
        }
        if step.outputs.is_empty() {
            text.push_str("\n\nNo notes or artifacts are recorded for this step.");
        }
        for entry in &step.outputs {
            let of = if entry.node.kind == NodeKind::Checkpoint { " (saved inside the step)" } else { "" };
            if let Some(notes) = self.whole_notes(&entry.output.payload) {
                text.push_str(&format!("\n\n## Notes, claimed{of}\n{notes}"));
            } else if let Some(artifact) = self.artifact(&entry.output.payload) {
                text.push_str(&format!(
                    "\n\n## Artifact {}, claimed{of}\n{}",
                    kind_of(&artifact),
                    pretty(&artifact)
                ));
            } else {
                text.push_str("\n\n## Artifact\nIts content cannot be read.");
            }
        }
        let evidence = self.evidence_lines(step.node.node_id);
        if !evidence.is_empty() {
            text.push_str(&format!("\n\n## Evidence\n{}", evidence.join("\n")));
        }
        without_markers(&text)
    }

    /// What is known of a step besides what was sent, newest attempt last (G104).
    fn evidence_lines(&self, node: NodeId) -> Vec<String> {
        let recorded = self.facts.evidence(node).iter().map(|record| &record.data);
        let recorded = recorded.filter(|record| record.attempt_id.is_some());
        let lines = recorded.map(|record| {
            let by = record.host.as_ref().map(|host| format!(" by {host}")).unwrap_or_default();
            format!("- {}{by}: {}", record.grade.as_str(), evidence::line(&record.evidence))
        });
        let lines: Vec<String> = lines.collect();
        let skipped = lines.len().saturating_sub(EVIDENCE_LINES_MAX);
        let more = (skipped > 0).then(|| format!("- {skipped} earlier ones left out"));
        more.into_iter().chain(lines.into_iter().skip(skipped)).collect()
    }

    fn whole_session_notes(&self) -> String {
        let all = self.facts.session_outputs().iter().filter_map(|output| self.whole_notes(&output.payload));
        let all: Vec<String> = all.collect();
        match all.is_empty() {
            true => format!("Run {}: its session has no notes of its own.", self.label()),
            false => format!("Run {}: the notes of its session.\n\n{}", self.label(), all.join("\n\n")),
        }
    }

    /// The whole context at the current point.
    pub fn whole_context(&self) -> String {
        let context = self.context();
        let lines: Vec<String> =
            context.as_map().iter().map(|(key, value)| format!("{key}: {}", pretty(value))).collect();
        if lines.is_empty() {
            return format!("Run {}: the context is empty.", self.label());
        }
        without_markers(&format!("Run {}: the context.\n\n{}", self.label(), lines.join("\n")))
    }
}

fn pretty(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        // A value parsed from JSON always serialises.
        Value::Array(_) | Value::Object(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}
