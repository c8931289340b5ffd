//! What ranking keeps of a session: one card for every run, or one for its notes when it has no run.

use workrail_model::digest::WorkflowHash;
use workrail_model::event::{Activity, EventIndex, ObservationKey, ObservationValue, OutputPayload};
use workrail_model::id::{EventId, NodeId, RunId, SessionId};
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::name::WorkflowId;
use workrail_model::reply::without_marks;
use workrail_model::text::truncate_with_marker;

use super::{Query, Words};
use crate::label::RunLabel;
use crate::project::{OutputState, RunState, SessionState};
use crate::report::Material;

/// Bytes of a candidate's excerpt (lock 2.3).
const SNIPPET_BYTES_MAX: usize = 1024;
/// Older notes of a very long run are not searched, so that one run cannot fill the memory.
const NOTES_PER_RUN_MAX: usize = 512;
/// What is behind the beginning of a large artifact is data, not what a person remembers of the work.
const ARTIFACT_SEARCHED_BYTES_MAX: usize = 64 * 1024;

/// Where a run continues, with all that a token for it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    pub run: RunId,
    pub workflow_id: WorkflowId,
    pub workflow_hash: WorkflowHash,
    pub tip: NodeId,
    /// The index of the tip's `node_created`.
    pub tip_event: EventIndex,
    /// That event.
    pub tip_created_by: EventId,
}

/// One run as ranking sees it; `at` is absent for a session that holds notes only.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCard {
    pub session: SessionId,
    pub at: Option<RunPlace>,
    pub activity: Option<Activity>,
    pub git_branch: Option<Box<str>>,
    pub git_head_sha: Option<Box<str>>,
    pub notes: Words,
    pub goal: Words,
    pub workflow: Words,
}

impl RunCard {
    pub fn run(&self) -> Option<RunId> {
        self.at.as_ref().map(|at| at.run)
    }

    pub fn label(&self) -> Option<RunLabel> {
        self.at.as_ref().map(|at| RunLabel::of(at.run))
    }
}

/// One card for every run of a session, or one for its notes when it has no run.
pub fn cards(facts: &SessionState, material: &dyn Material) -> Vec<RunCard> {
    let observed = |key| facts.observation(key).and_then(|state| observed_text(&state.value));
    let of_session = || facts.session_outputs().iter().rev().take(NOTES_PER_RUN_MAX);
    let blank = RunCard {
        session: facts.session_id(),
        at: None,
        activity: facts.last_activity(),
        git_branch: observed(ObservationKey::GitBranch),
        git_head_sha: observed(ObservationKey::GitHeadSha),
        notes: Words::default(),
        goal: Words::default(),
        workflow: Words::default(),
    };
    if facts.runs().len() == 0 {
        let notes = words_of(of_session(), material);
        return vec![RunCard { notes, ..blank }];
    }
    let card = |run: &RunState| {
        let tip = facts.node(facts.preferred_tip(run.run_id)?)?;
        let newest = facts.path_steps(tip.node_id).flat_map(|step| step.outputs.into_iter().rev());
        let newest = newest.map(|entry| entry.output).take(NOTES_PER_RUN_MAX);
        let context = facts.context_at(tip.node_id).ok()?;
        let goal = context.get("goal").and_then(serde_json::Value::as_str).unwrap_or_default();
        let name = material.workflow(run.workflow_hash).map(|workflow| workflow.name.clone());
        Some(RunCard {
            at: Some(RunPlace {
                run: run.run_id,
                workflow_id: run.workflow_id.clone(),
                workflow_hash: run.workflow_hash,
                tip: tip.node_id,
                tip_event: tip.created_index,
                tip_created_by: tip.created_by,
            }),
            activity: run.last_activity,
            notes: words_of(newest.chain(of_session()), material),
            goal: Words::of([goal]),
            workflow: Words::of([run.workflow_id.as_str(), name.as_deref().unwrap_or_default()]),
            ..blank.clone()
        })
    };
    facts.runs().filter_map(card).collect()
}

fn observed_text(value: &ObservationValue) -> Option<Box<str>> {
    match value {
        ObservationValue::ShortString(text) => Some(text.as_str().into()),
        ObservationValue::GitSha1(text) => Some(text.as_str().into()),
        ObservationValue::Sha256(_) => None,
    }
}

fn words_of<'a>(outputs: impl Iterator<Item = &'a OutputState>, material: &dyn Material) -> Words {
    let texts: Vec<String> = outputs
        .filter_map(|output| match &output.payload {
            OutputPayload::Notes { .. } => notes_text(output, material),
            OutputPayload::ArtifactRef { sha256, .. } => artifact_text(material.blob(*sha256)?),
        })
        .collect();
    Words::of(texts.iter().map(String::as_str))
}

/// The searched beginning of an artifact; bytes that are no text have no words.
fn artifact_text(mut bytes: Vec<u8>) -> Option<String> {
    bytes.truncate(ARTIFACT_SEARCHED_BYTES_MAX);
    // A character that was cut in two ends the text.
    let valid = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
    bytes.truncate(valid);
    String::from_utf8(bytes).ok()
}

/// The text of notes: whole where it was cut, without the mark of the cut.
fn notes_text(output: &OutputState, material: &dyn Material) -> Option<String> {
    match &output.payload {
        OutputPayload::Notes { notes_markdown, full_text_ref } => {
            let whole = full_text_ref.and_then(|reference| material.blob(reference));
            let whole = whole.and_then(|bytes| String::from_utf8(bytes).ok());
            Some(whole.unwrap_or_else(|| notes_markdown.as_str().replace(TRUNCATION_MARKER, " ")))
        }
        OutputPayload::ArtifactRef { .. } => None,
    }
}

/// The newest notes that hold all words of the query, or most of them; without words, the newest notes.
pub fn snippet(
    facts: &SessionState,
    tip: Option<NodeId>,
    query: &Query,
    material: &dyn Material,
) -> Option<String> {
    let newest: Vec<&OutputState> = match tip {
        Some(tip) => facts
            .path_steps(tip)
            .flat_map(|step| step.outputs.into_iter().rev())
            .map(|entry| entry.output)
            .take(NOTES_PER_RUN_MAX)
            .collect(),
        None => facts.session_outputs().iter().rev().collect(),
    };
    let words = query.word_hashes();
    let mut best: Option<(usize, String)> = None;
    for text in newest.into_iter().filter_map(|output| notes_text(output, material)) {
        let held = Words::of([text.as_str()]).count(words);
        if best.as_ref().is_none_or(|(most, _)| held > *most) {
            best = Some((held, text));
        }
        if held == words.len() {
            break;
        }
    }
    best.map(|(_, text)| without_marks(&truncate_with_marker(&text, SNIPPET_BYTES_MAX)))
}
