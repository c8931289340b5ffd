//! What ranking keeps of a session: one card for every run, or one for its notes if it has no run.

use workrail_model::digest::WorkflowHash;
use workrail_model::event::{Activity, EventIndex, ObservationKey, ObservationValue, OutputPayload};
use workrail_model::id::{EventId, NodeId, RunId, SessionId};
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::name::WorkflowId;
use workrail_model::reply::without_markers;
use workrail_model::text::truncate_with_marker;

use super::{ResumeQuery, Words, terms};
use crate::label::RunLabel;
use crate::overview::{Stage, stage};
use crate::project::{OutputState, RunState, SessionState};
use crate::report::ContentReader;

/// Bytes of a candidate's excerpt.
const SNIPPET_BYTES_MAX: usize = 1024;
/// Older outputs of a very long run are not searched, so that one run cannot fill the memory.
const OUTPUTS_PER_RUN_MAX: usize = 512;
/// Beyond the beginning, a large artifact is data, not what a person remembers of the work.
const ARTIFACT_SEARCHED_BYTES_MAX: usize = 64 * 1024;

/// Where a run continues, with everything that a token for it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardPosition {
    pub run: RunId,
    pub workflow_id: WorkflowId,
    pub workflow_hash: WorkflowHash,
    pub tip: NodeId,
    /// The index of the tip's `node_created`.
    pub tip_event: EventIndex,
    /// That event.
    pub tip_created_by: EventId,
}

/// A run as seen by ranking; `at` is absent for a session with only notes.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCard {
    pub session: SessionId,
    pub at: Option<CardPosition>,
    pub activity: Option<Activity>,
    /// The term of its idempotency key, if it was started with one.
    pub start_key: Option<u64>,
    pub git_branch: Option<Box<str>>,
    pub git_head_sha: Option<Box<str>>,
    pub stage: Stage,
    /// The run's notes and its session's.
    pub notes: Words,
    pub artifacts: Words,
    pub goal: Words,
    pub workflow: Words,
    /// The words of the git branch's name.
    pub branch: Words,
}

impl RunCard {
    pub fn run(&self) -> Option<RunId> {
        self.at.as_ref().map(|at| at.run)
    }

    pub fn label(&self) -> Option<RunLabel> {
        self.at.as_ref().map(|at| RunLabel::of(at.run))
    }
}

/// One card for every run of a session, or one for its notes if it has no run.
pub fn cards(facts: &SessionState, content: &dyn ContentReader) -> Vec<RunCard> {
    let observed = |key| facts.observation(key).and_then(|state| observed_text(&state.value));
    let of_session = || facts.session_outputs().iter().rev().take(OUTPUTS_PER_RUN_MAX);
    let blank = RunCard {
        session: facts.session_id(),
        at: None,
        activity: facts.last_activity(),
        start_key: None,
        git_branch: observed(ObservationKey::GitBranch),
        git_head_sha: observed(ObservationKey::GitHeadSha),
        stage: Stage::NotesOnly,
        notes: Words::default(),
        artifacts: Words::default(),
        goal: Words::default(),
        workflow: Words::default(),
        branch: Words::of(observed(ObservationKey::GitBranch).as_deref()),
    };
    if facts.runs().len() == 0 {
        return vec![RunCard {
            notes: words_of(of_session(), |output| notes_text(output, content)),
            artifacts: words_of(of_session(), |output| artifact_text(output, content)),
            ..blank
        }];
    }
    let card = |run: &RunState| {
        let tip = facts.node(facts.preferred_tip(run.run_id)?)?;
        let newest: Vec<&OutputState> = searched_outputs(facts, tip.node_id).chain(of_session()).collect();
        let newest = || newest.iter().copied();
        let context = facts.context_at(tip.node_id).ok()?;
        let goal = context.get("goal").and_then(serde_json::Value::as_str).unwrap_or_default();
        let name = content.workflow(run.workflow_hash).map(|workflow| workflow.name.clone());
        Some(RunCard {
            at: Some(CardPosition {
                run: run.run_id,
                workflow_id: run.workflow_id.clone(),
                workflow_hash: run.workflow_hash,
                tip: tip.node_id,
                tip_event: tip.created_index,
                tip_created_by: tip.created_by,
            }),
            activity: run.last_activity,
            start_key: run.keyed.as_ref().map(terms::of_keyed_start),
            stage: stage(facts, run, content.state_at(tip).as_ref()),
            notes: words_of(newest(), |output| notes_text(output, content)),
            artifacts: words_of(newest(), |output| artifact_text(output, content)),
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

/// The outputs of a run that are searched, the newest first.
fn searched_outputs(facts: &SessionState, tip: NodeId) -> impl Iterator<Item = &OutputState> {
    facts.newest_outputs(tip).take(OUTPUTS_PER_RUN_MAX)
}

fn words_of<'a>(
    outputs: impl Iterator<Item = &'a OutputState>,
    text: impl Fn(&OutputState) -> Option<String>,
) -> Words {
    let texts: Vec<String> = outputs.filter_map(text).collect();
    Words::of(texts.iter().map(String::as_str))
}

/// The searched beginning of an artifact; bytes that are not text have no words.
fn artifact_text(output: &OutputState, content: &dyn ContentReader) -> Option<String> {
    let OutputPayload::ArtifactRef { sha256, .. } = &output.payload else { return None };
    let mut bytes = content.blob(*sha256)?;
    bytes.truncate(ARTIFACT_SEARCHED_BYTES_MAX);
    // A character cut in two ends the text.
    let valid = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
    bytes.truncate(valid);
    String::from_utf8(bytes).ok()
}

/// The text of notes: in full if it was truncated, without the truncation marker.
fn notes_text(output: &OutputState, content: &dyn ContentReader) -> Option<String> {
    match &output.payload {
        OutputPayload::Notes { notes_markdown, full_text_ref } => {
            let whole = full_text_ref.and_then(|reference| content.blob(reference));
            let whole = whole.and_then(|bytes| String::from_utf8(bytes).ok());
            Some(whole.unwrap_or_else(|| notes_markdown.as_str().replace(TRUNCATION_MARKER, " ")))
        }
        OutputPayload::ArtifactRef { .. } => None,
    }
}

/// The newest notes that contain all words of the query or, if none does, the most of them; without words, the newest notes. The
/// session's notes come after the run's own.
pub fn snippet(
    facts: &SessionState,
    tip: Option<NodeId>,
    query: &ResumeQuery,
    content: &dyn ContentReader,
) -> Option<String> {
    let of_run = tip.into_iter().flat_map(|tip| searched_outputs(facts, tip));
    let newest = of_run.chain(facts.session_outputs().iter().rev().take(OUTPUTS_PER_RUN_MAX));
    let mut best: Option<(u32, String)> = None;
    for text in newest.filter_map(|output| notes_text(output, content)) {
        let held = query.count_in(&text);
        if best.as_ref().is_none_or(|(most, _)| held > *most) {
            best = Some((held, text));
        }
        if held == query.words_len() {
            break;
        }
    }
    best.map(|(_, text)| without_markers(&truncate_with_marker(&text, SNIPPET_BYTES_MAX)))
}
