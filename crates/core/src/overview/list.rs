//! The rows of the list of sessions: one for every run, and one for every damaged session.

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::digest::Sha256;
use workrail_model::event::{Activity, ObservationKey, ObservationValue};
use workrail_model::health::SessionHealth;
use workrail_model::id::{RunId, SessionId};
use workrail_model::limits::GOAL_BYTES_MAX;
use workrail_model::name::{StepId, WorkflowId};
use workrail_model::preferences::RunStatus;
use workrail_model::snapshot::EngineState;
use workrail_model::text::truncate_with_marker;
use workrail_model::time::Timestamp;

use crate::label::RunLabel;
use crate::progress::Progress;
use crate::project::{RunState, SessionState};
use crate::render::prompt::title_without_secrets;
use crate::report::ContentReader;

const TITLE_SHOWN_BYTES_MAX: usize = 120;

/// Where a run is, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    WaitsForPerson,
    Blocked,
    InProgress,
    /// The content that says where it is cannot be read.
    Unreadable,
    /// Notes without a run.
    NotesOnly,
    CompleteWithGaps,
    Complete,
    /// A person decided that nobody will finish it (G65).
    Closed,
}

impl Stage {
    /// In the order of the list: what waits, what is in progress, what cannot be read, what is finished.
    pub const ALL: [Self; 8] = [
        Self::WaitsForPerson,
        Self::Blocked,
        Self::InProgress,
        Self::Unreadable,
        Self::NotesOnly,
        Self::CompleteWithGaps,
        Self::Complete,
        Self::Closed,
    ];

    /// Whether nothing more is expected of it.
    pub fn is_finished(self) -> bool {
        match self {
            Self::WaitsForPerson | Self::Blocked | Self::InProgress | Self::Unreadable => false,
            Self::NotesOnly | Self::CompleteWithGaps | Self::Complete | Self::Closed => true,
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::WaitsForPerson => "waits for a person",
            Self::Blocked => RunStatus::Blocked.in_words(),
            Self::InProgress => RunStatus::InProgress.in_words(),
            Self::Unreadable => "unreadable",
            Self::NotesOnly => "notes only",
            Self::CompleteWithGaps => RunStatus::CompleteWithGaps.in_words(),
            Self::Complete => RunStatus::Complete.in_words(),
            Self::Closed => RunStatus::Closed.in_words(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepAt {
    pub step_id: StepId,
    pub title: String,
    #[serde(flatten)]
    pub progress: Progress,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    pub session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<WorkflowId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    pub stage: Stage,
    /// Why a closed run was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// The run inside which this one was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Names the repository in which the session works; absent outside of repositories.
    #[serde(skip)]
    pub repository: Option<Sha256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepAt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// Who worked on it last (G114); absent in a data directory, which has one user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_actor: Option<String>,
    /// The store-wide number by which rows of one stage are ordered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
}

/// A session that cannot continue, and what can be read of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DamagedRow {
    pub session_id: SessionId,
    pub health: SessionHealth,
    /// The runs whose beginning is intact.
    pub labels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
}

/// The rows of a healthy session.
pub fn rows(facts: &SessionState, content: &dyn ContentReader) -> Vec<RunRow> {
    if facts.runs().len() == 0 {
        return vec![RunRow {
            session_id: facts.session_id(),
            run_id: None,
            label: None,
            workflow_id: None,
            goal: None,
            stage: Stage::NotesOnly,
            closed: None,
            parent: None,
            repository: repository(facts),
            step: None,
            last_at: facts.last_at().cloned(),
            last_actor: None,
            activity: facts.last_activity(),
        }];
    }
    facts.runs().map(|run| row(facts, run, content)).collect()
}

fn row(facts: &SessionState, run: &RunState, content: &dyn ContentReader) -> RunRow {
    let tip = facts.preferred_tip(run.run_id).and_then(|tip| facts.node(tip));
    let state = tip.and_then(|tip| content.state_at(tip));
    let workflow = content.workflow(run.workflow_hash);
    let context = tip.and_then(|tip| facts.context_at(tip.node_id).ok()).unwrap_or_default();
    let step = workflow.as_deref().zip(state.as_ref()).and_then(|(workflow, state)| {
        let pending = state.pending_step()?;
        let title = title_without_secrets(workflow, pending, &context);
        Some(StepAt {
            step_id: pending.step_id.clone(),
            title: truncate_with_marker(&title, TITLE_SHOWN_BYTES_MAX).into_owned(),
            progress: Progress::of(workflow, state, &context)?,
        })
    });
    RunRow {
        session_id: facts.session_id(),
        run_id: Some(run.run_id),
        label: Some(RunLabel::of(run.run_id).to_string()),
        workflow_id: Some(run.workflow_id.clone()),
        goal: context
            .get("goal")
            .and_then(serde_json::Value::as_str)
            .map(|goal| truncate_with_marker(goal, GOAL_BYTES_MAX).into_owned()),
        closed: run.closed.as_ref().map(|closed| closed.reason.as_str().to_owned()),
        parent: run.parent.map(|parent| parent.run_id),
        repository: repository(facts),
        stage: stage(facts, run, state.as_ref()),
        step,
        last_at: run.last_at.clone(),
        last_actor: run.last_actor.clone(),
        activity: run.last_activity,
    }
}

fn repository(facts: &SessionState) -> Option<Sha256> {
    match &facts.observation(ObservationKey::RepoRootHash)?.value {
        ObservationValue::Sha256(root) => Some(*root),
        ObservationValue::ShortString(_) | ObservationValue::GitSha1(_) => None,
    }
}

/// A run's stage; `state` is that of its preferred tip, if it can be read.
pub(crate) fn stage(facts: &SessionState, run: &RunState, state: Option<&EngineState>) -> Stage {
    let waits = facts.preferred_tip(run.run_id).is_some_and(|tip| facts.waits_for_person(tip));
    match state.and_then(|state| facts.run_status(run.run_id, state.is_complete())) {
        // It will not be finished, so its content is not needed.
        None if run.closed.is_some() => Stage::Closed,
        None => Stage::Unreadable,
        Some(RunStatus::Blocked) if waits => Stage::WaitsForPerson,
        Some(RunStatus::Blocked) => Stage::Blocked,
        Some(RunStatus::InProgress) => Stage::InProgress,
        Some(RunStatus::Complete) => Stage::Complete,
        Some(RunStatus::CompleteWithGaps) => Stage::CompleteWithGaps,
        Some(RunStatus::Closed) => Stage::Closed,
    }
}

/// The row of a damaged session; `facts` holds its validated prefix.
pub fn damaged(session_id: SessionId, health: SessionHealth, facts: Option<&SessionState>) -> DamagedRow {
    let runs = facts.into_iter().flat_map(|facts| facts.runs());
    DamagedRow {
        session_id,
        health,
        labels: runs.map(|run| RunLabel::of(run.run_id).to_string()).collect(),
        last_at: facts.and_then(|facts| facts.last_at().cloned()),
    }
}
