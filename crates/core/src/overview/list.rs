//! The list of sessions: one row per run, what waits first, then by recency (G7).

use std::cmp::Reverse;

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
use crate::report::Material;

const TITLE_BYTES_MAX: usize = 120;
/// Of the finished runs, so many of the newest are listed unless all are asked for.
const FINISHED_SHOWN: usize = 20;

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
    /// Whether nothing more is expected of it.
    pub fn is_finished(self) -> bool {
        match self {
            Self::WaitsForPerson | Self::Blocked | Self::InProgress | Self::Unreadable => false,
            Self::NotesOnly | Self::CompleteWithGaps | Self::Complete | Self::Closed => true,
        }
    }

    pub fn said(self) -> &'static str {
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

/// What one session adds to the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRows {
    Healthy(Vec<RunRow>),
    Damaged(DamagedRow),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionsList {
    pub runs: Vec<RunRow>,
    pub damaged: Vec<DamagedRow>,
    /// How many sessions there are, damaged ones included.
    pub sessions: u64,
    /// Finished runs that are not listed.
    pub left_out: u64,
}

/// Which rows are wanted. What is absent does not narrow the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// Any of these; all when it is empty.
    pub stages: Vec<Stage>,
    /// A part of the workflow's id.
    pub workflow: Option<String>,
    pub repository: Option<Sha256>,
    /// Worked on at this time or later, in milliseconds since 1970.
    pub since_ms: Option<i64>,
}

impl RowFilter {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn fits(&self, row: &RunRow) -> bool {
        let Self { stages, workflow, repository, since_ms } = self;
        let id = row.workflow_id.as_ref().map(|id| id.as_str()).unwrap_or_default();
        let last_ms = || row.last_at.as_ref().and_then(Timestamp::epoch_ms);
        (stages.is_empty() || stages.contains(&row.stage))
            && workflow.as_ref().is_none_or(|part| id.contains(part.as_str()))
            && repository.is_none_or(|wanted| row.repository == Some(wanted))
            && since_ms.is_none_or(|since| last_ms().is_some_and(|last| last >= since))
    }
}

impl SessionsList {
    /// The rows that fit, at most `limit` of them; what is beyond it is counted. Damaged sessions are not narrowed: they
    /// must not be overlooked.
    pub fn narrowed(mut self, filter: &RowFilter, limit: Option<usize>) -> Self {
        self.runs.retain(|row| filter.fits(row));
        let beyond = self.runs.len().saturating_sub(limit.unwrap_or(usize::MAX));
        self.runs.truncate(self.runs.len() - beyond);
        self.left_out += beyond as u64;
        self
    }
}

/// The rows of a healthy session.
pub fn rows(facts: &SessionState, material: &dyn Material) -> Vec<RunRow> {
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
            activity: facts.last_activity(),
        }];
    }
    facts.runs().map(|run| row(facts, run, material)).collect()
}

fn row(facts: &SessionState, run: &RunState, material: &dyn Material) -> RunRow {
    let tip = facts.preferred_tip(run.run_id).and_then(|tip| facts.node(tip));
    let state = tip.and_then(|tip| material.state_at(tip));
    let workflow = material.workflow(run.workflow_hash);
    let context = tip.and_then(|tip| facts.context_at(tip.node_id).ok()).unwrap_or_default();
    let step = workflow.as_deref().zip(state.as_ref()).and_then(|(workflow, state)| {
        let pending = state.pending_step()?;
        let title = title_without_secrets(workflow, pending, &context);
        Some(StepAt {
            step_id: pending.step_id.clone(),
            title: truncate_with_marker(&title, TITLE_BYTES_MAX).into_owned(),
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
        activity: run.last_activity,
    }
}

fn repository(facts: &SessionState) -> Option<Sha256> {
    match &facts.observation(ObservationKey::RepoRootHash)?.value {
        ObservationValue::Sha256(root) => Some(*root),
        ObservationValue::ShortString(_) | ObservationValue::GitSha1(_) => None,
    }
}

/// Where a run is; `state` is that of its preferred tip, where it can be read.
pub(crate) fn stage(facts: &SessionState, run: &RunState, state: Option<&EngineState>) -> Stage {
    let waits = facts.preferred_tip(run.run_id).is_some_and(|tip| facts.waits_for_person(tip));
    match state.and_then(|state| facts.run_status(run.run_id, state.is_complete())) {
        // Nobody will finish it, so nobody has to read it.
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

/// The row of a damaged session; `facts` holds its validated beginning.
pub fn damaged(session_id: SessionId, health: SessionHealth, facts: Option<&SessionState>) -> DamagedRow {
    let runs = facts.into_iter().flat_map(|facts| facts.runs());
    DamagedRow {
        session_id,
        health,
        labels: runs.map(|run| RunLabel::of(run.run_id).to_string()).collect(),
        last_at: facts.and_then(|facts| facts.last_at().cloned()),
    }
}

/// How many of the finished runs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    Newest,
    All,
}

/// Puts the rows of all sessions in order: by stage, then the most recent first, then by id. Finished runs that
/// are left out are counted; unfinished and damaged ones are always there.
pub fn arrange(sessions: impl IntoIterator<Item = SessionRows>, finished: Finished) -> SessionsList {
    let mut list = SessionsList::default();
    for rows in sessions {
        list.sessions += 1;
        match rows {
            SessionRows::Healthy(rows) => list.runs.extend(rows),
            SessionRows::Damaged(row) => list.damaged.push(row),
        }
    }
    list.runs.sort_by_key(|row| (row.stage, Reverse(row.activity), row.session_id, row.run_id));
    list.damaged.sort_by_key(|row| row.session_id);
    if finished == Finished::Newest {
        let mut ended: Vec<_> = list
            .runs
            .iter()
            .filter(|row| row.stage.is_finished())
            .map(|row| (Reverse(row.activity), row.session_id, row.run_id))
            .collect();
        ended.sort();
        let limit = ended.get(FINISHED_SHOWN).copied();
        let before = list.runs.len();
        list.runs.retain(|row| {
            let key = (Reverse(row.activity), row.session_id, row.run_id);
            !row.stage.is_finished() || limit.is_none_or(|limit| key < limit)
        });
        list.left_out = (before - list.runs.len()) as u64;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u8, stage: Stage, activity: u64) -> RunRow {
        RunRow {
            session_id: SessionId::from_bits([n; 10]),
            run_id: None,
            label: None,
            workflow_id: None,
            goal: None,
            stage,
            closed: None,
            parent: None,
            repository: None,
            step: None,
            last_at: None,
            activity: Activity::new(activity),
        }
    }

    fn listed(rows: Vec<RunRow>, finished: Finished) -> (Vec<u8>, u64) {
        let list = arrange(rows.into_iter().map(|row| SessionRows::Healthy(vec![row])), finished);
        (list.runs.iter().map(|row| row.session_id.bits()[0]).collect(), list.left_out)
    }

    #[test]
    fn what_waits_comes_first_and_then_what_was_touched_last() {
        let rows = vec![
            row(1, Stage::Complete, 99),
            row(2, Stage::InProgress, 5),
            row(3, Stage::InProgress, 7),
            row(4, Stage::Blocked, 1),
            row(5, Stage::WaitsForPerson, 1),
            row(6, Stage::CompleteWithGaps, 50),
        ];
        let mut turned = rows.clone();
        turned.reverse();
        assert_eq!(listed(rows, Finished::Newest).0, [5, 4, 3, 2, 6, 1]);
        assert_eq!(listed(turned, Finished::All).0, [5, 4, 3, 2, 6, 1]);
    }

    #[test]
    fn only_finished_runs_are_left_out_and_they_are_counted() {
        let rows: Vec<RunRow> = (0..60)
            .map(|n| row(n, if n % 2 == 0 { Stage::Complete } else { Stage::InProgress }, u64::from(n)))
            .collect();
        let (shown, left_out) = listed(rows.clone(), Finished::Newest);
        assert_eq!((shown.len(), left_out), (50, 10));
        assert!(shown.contains(&58) && shown.contains(&20) && !shown.contains(&18), "the newest stay");
        assert_eq!(listed(rows, Finished::All), (listed_all(), 0));
    }

    #[test]
    fn a_filter_narrows_the_runs_and_counts_what_is_beyond_the_limit() {
        let at = |text: &str| Some(Timestamp::parse(text).unwrap());
        let mut rows: Vec<RunRow> = (0..6).map(|n| row(n, Stage::InProgress, u64::from(n))).collect();
        rows[0].workflow_id = Some(WorkflowId::parse("team.change").unwrap());
        rows[1].repository = Some(Sha256::of(b"here"));
        rows[2].stage = Stage::Closed;
        rows[3].last_at = at("2026-01-02T00:00:00.000Z");
        rows[4].last_at = at("2026-01-01T00:00:00.000Z");
        let narrowed = |filter: RowFilter, limit| {
            let sessions = rows.iter().cloned().map(|row| SessionRows::Healthy(vec![row]));
            let list = arrange(sessions, Finished::All).narrowed(&filter, limit);
            (list.runs.iter().map(|row| row.session_id.bits()[0]).collect::<Vec<_>>(), list.left_out)
        };
        let none = RowFilter::default;
        assert_eq!(narrowed(RowFilter { workflow: Some("chan".to_owned()), ..none() }, None), (vec![0], 0));
        assert_eq!(
            narrowed(RowFilter { repository: Some(Sha256::of(b"here")), ..none() }, None),
            (vec![1], 0)
        );
        assert_eq!(narrowed(RowFilter { stages: vec![Stage::Closed], ..none() }, None), (vec![2], 0));
        let since_ms = at("2026-01-01T12:00:00.000Z").unwrap().epoch_ms();
        assert_eq!(narrowed(RowFilter { since_ms, ..none() }, None), (vec![3], 0));
        assert_eq!(narrowed(none(), Some(2)), (vec![5, 4], 4));
    }

    fn listed_all() -> Vec<u8> {
        (0..30).map(|n| 59 - 2 * n).chain((0..30).map(|n| 58 - 2 * n)).collect()
    }
}
