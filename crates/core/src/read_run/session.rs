//! A session as a whole: its own notes and artifacts, and which runs it has.

use workrail_model::event::OutputPayload;
use workrail_model::reply::without_markers;

use super::overview::status_words;
use super::{artifact_of, gist, kind_of, notes_of};
use crate::label::RunLabel;
use crate::project::{RunState, SessionState};
use crate::report::ContentReader;

const RUNS_MAX: usize = 50;
const GOAL_SHOWN_BYTES_MAX: usize = 160;

/// The notes of a session in full, and its runs at a glance.
pub fn session(facts: &SessionState, content: &dyn ContentReader) -> String {
    let mut sections = vec![format!("Session {}", facts.session_id())];
    let mut runs: Vec<String> =
        facts.runs().rev().take(RUNS_MAX).map(|run| run_line(facts, run, content)).collect();
    if facts.runs().len() > RUNS_MAX {
        runs.push(format!("- and {} more", facts.runs().len() - RUNS_MAX));
    }
    sections.push(match runs.is_empty() {
        true => "It has notes and no run.".to_owned(),
        false => format!("## Runs\nRead one with its label as `run`.\n{}", runs.join("\n")),
    });
    let own: Vec<String> = facts
        .session_outputs()
        .iter()
        .filter_map(|output| match &output.payload {
            notes @ OutputPayload::Notes { .. } => notes_of(notes, content),
            artifact @ OutputPayload::ArtifactRef { .. } => {
                let value = artifact_of(artifact, content)?;
                Some(format!("Artifact {}: {value:#}", kind_of(&value)))
            }
        })
        .collect();
    sections.push(match own.is_empty() {
        true => "## Notes\nNone.".to_owned(),
        false => format!("## Notes\n{}", own.join("\n\n")),
    });
    without_markers(&sections.join("\n\n"))
}

fn run_line(facts: &SessionState, run: &RunState, content: &dyn ContentReader) -> String {
    let tip = facts.preferred_tip(run.run_id).and_then(|tip| facts.node(tip));
    let state = tip.and_then(|tip| content.state_at(tip));
    let status = state.and_then(|state| facts.run_status(run.run_id, state.is_complete()));
    let context = tip.and_then(|tip| facts.context_at(tip.node_id).ok()).unwrap_or_default();
    let goal = context.get("goal").and_then(serde_json::Value::as_str);
    let goal = goal.map_or_else(String::new, |goal| format!(": {}", gist(goal, GOAL_SHOWN_BYTES_MAX)));
    let by = run.last_actor.as_ref().map_or_else(String::new, |actor| format!(", last worked on by {actor}"));
    format!("- {} ({}), {}{by}{goal}", RunLabel::of(run.run_id), run.workflow_id, status_words(status))
}
