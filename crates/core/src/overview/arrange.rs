//! The list of sessions: those that wait first, then by recency (G7), as long as requested.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::digest::Sha256;
use workrail_model::event::Activity;
use workrail_model::id::{RunId, SessionId};
use workrail_model::time::Timestamp;

use super::{DamagedRow, RunRow, Stage};

/// How many of the newest runs in progress a short list has; more are not read.
const IN_PROGRESS_SHOWN: usize = 500;
/// How many of the newest finished ones it has.
const FINISHED_SHOWN: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionsList {
    pub runs: Vec<RunRow>,
    pub damaged: Vec<DamagedRow>,
    /// How many sessions there are, damaged ones included.
    pub sessions: u64,
    /// Runs that are wanted but not listed.
    pub left_out: u64,
}

/// Which rows to list. An absent field does not filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// Any of these; all if empty.
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

    pub(crate) fn fits(&self, row: &RunRow) -> bool {
        let Self { stages, workflow, repository, since_ms } = self;
        let id = row.workflow_id.as_ref().map(|id| id.as_str()).unwrap_or_default();
        let last_ms = || row.last_at.as_ref().and_then(Timestamp::epoch_ms);
        (stages.is_empty() || stages.contains(&row.stage))
            && workflow.as_ref().is_none_or(|part| id.contains(part.as_str()))
            && repository.is_none_or(|wanted| row.repository == Some(wanted))
            && since_ms.is_none_or(|since| last_ms().is_some_and(|last| last >= since))
    }
}

/// The length of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListLength {
    /// What a person reads first: everything that needs a person, the newest runs in progress and the newest finished
    /// ones.
    #[default]
    Short,
    /// Every unfinished run and the newest finished ones.
    Unfinished,
    Whole,
}

impl ListLength {
    /// How many runs in progress, and how many finished ones.
    fn most_shown(self) -> (usize, usize) {
        match self {
            Self::Short => (IN_PROGRESS_SHOWN, FINISHED_SHOWN),
            Self::Unfinished => (usize::MAX, FINISHED_SHOWN),
            Self::Whole => (usize::MAX, usize::MAX),
        }
    }
}

/// What is requested of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    pub length: ListLength,
    pub filter: RowFilter,
    /// At most so many rows.
    pub limit: Option<usize>,
}

impl ListQuery {
    /// Without a filter.
    pub fn all_of(length: ListLength) -> Self {
        Self { length, ..Self::default() }
    }

    /// How many of the newest runs of each stage the list needs; `None` if any run may be in it.
    pub fn newest_of_stages(&self) -> Option<Vec<(Stage, usize)>> {
        let is_bounded = self.length == ListLength::Short || self.limit.is_some();
        if !is_bounded || !self.filter.is_empty() {
            return None;
        }
        let (running, finished) = self.length.most_shown();
        let shown = |stage: Stage| match stage {
            Stage::WaitsForPerson | Stage::Blocked | Stage::Unreadable => usize::MAX,
            Stage::InProgress => running,
            Stage::NotesOnly | Stage::CompleteWithGaps | Stage::Complete | Stage::Closed => finished,
        };
        let most = self.limit.unwrap_or(usize::MAX);
        Some(Stage::ALL.into_iter().map(|stage| (stage, shown(stage).min(most))).collect())
    }

    pub fn is_narrowed(&self) -> bool {
        self.limit.is_some() || !self.filter.is_empty()
    }
}

/// Sorts the rows of all healthy sessions: by stage, then the most recent first, then by id. Only rows that are
/// listed are copied; the others are counted.
pub fn arrange<'a>(healthy: impl IntoIterator<Item = &'a [RunRow]>, wanted: &ListQuery) -> SessionsList {
    let mut list = SessionsList::default();
    let (mut shown, mut running, mut finished) = (Vec::new(), Vec::new(), Vec::new());
    for rows in healthy {
        list.sessions += 1;
        for row in rows.iter().filter(|row| wanted.filter.fits(row)) {
            match row.stage {
                Stage::WaitsForPerson | Stage::Blocked | Stage::Unreadable => shown.push(row),
                Stage::InProgress => running.push(row),
                Stage::NotesOnly | Stage::CompleteWithGaps | Stage::Complete | Stage::Closed => {
                    finished.push(row)
                }
            }
        }
    }
    let (running_max, finished_max) = wanted.length.most_shown();
    list.left_out += keep_first(&mut running, running_max, recency);
    list.left_out += keep_first(&mut finished, finished_max, recency);
    shown.extend(running.into_iter().chain(finished));
    list.left_out += keep_first(&mut shown, wanted.limit.unwrap_or(usize::MAX), in_list);
    shown.sort_unstable_by_key(|row| in_list(row));
    list.runs = shown.into_iter().cloned().collect();
    list
}

/// The most recent first.
type Recency = (Reverse<Option<Activity>>, SessionId, Option<RunId>);

fn recency(row: &RunRow) -> Recency {
    (Reverse(row.activity), row.session_id, row.run_id)
}

fn in_list(row: &RunRow) -> (Stage, Recency) {
    (row.stage, recency(row))
}

/// Keeps the first `count` rows, in no order; returns how many were dropped.
fn keep_first<K: Ord>(rows: &mut Vec<&RunRow>, count: usize, key: impl Fn(&RunRow) -> K) -> u64 {
    if rows.len() <= count {
        return 0;
    }
    let beyond = rows.len() - count;
    rows.select_nth_unstable_by_key(count, |row| key(row));
    rows.truncate(count);
    beyond as u64
}

#[cfg(test)]
mod tests {
    use workrail_model::name::WorkflowId;

    use super::*;

    fn row(n: u16, stage: Stage, activity: u64) -> RunRow {
        let [high, low] = n.to_be_bytes();
        RunRow {
            session_id: SessionId::from_bits([high, low, 0, 0, 0, 0, 0, 0, 0, 0]),
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
            last_actor: None,
            activity: Activity::new(activity),
        }
    }

    fn number(row: &RunRow) -> u16 {
        let [high, low, ..] = row.session_id.bits();
        u16::from_be_bytes([high, low])
    }

    fn listed(rows: &[RunRow], wanted: &ListQuery) -> (Vec<u16>, u64) {
        let list = arrange(rows.chunks(1), wanted);
        assert_eq!(list.sessions, rows.len() as u64, "all are counted");
        (list.runs.iter().map(number).collect(), list.left_out)
    }

    fn with(length: ListLength) -> ListQuery {
        ListQuery::all_of(length)
    }

    #[test]
    fn waiting_runs_come_first_and_then_the_most_recent() {
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
        assert_eq!(listed(&rows, &with(ListLength::Short)).0, [5, 4, 3, 2, 6, 1]);
        assert_eq!(listed(&turned, &with(ListLength::Whole)).0, [5, 4, 3, 2, 6, 1]);
    }

    #[test]
    fn a_short_list_has_the_newest_of_both_kinds_and_counts_the_others() {
        let stage = |n| match n % 3 {
            0 => Stage::Complete,
            1 => Stage::CompleteWithGaps,
            _ => Stage::InProgress,
        };
        let mut rows: Vec<RunRow> = (0..1_800).map(|n| row(n, stage(n), u64::from(n))).collect();
        // The oldest activity of all.
        rows.extend([row(1_800, Stage::WaitsForPerson, 0), row(1_801, Stage::Unreadable, 0)]);
        let (shown, left_out) = listed(&rows, &with(ListLength::Short));
        assert_eq!((shown.len(), left_out), (522, 1_280));
        assert_eq!(shown[..3], [1_800, 1_799, 1_796], "what waits is never cut");
        assert_eq!(shown[501], 1_801, "nor is what nobody can read");
        assert_eq!(shown[502..504], [1_798, 1_795], "the finished ones come last, by stage");
        assert!(shown.contains(&1_770) && !shown.contains(&1_768), "of the finished ones the newest stay");
        let (whole, none) = listed(&rows, &with(ListLength::Whole));
        assert_eq!((whole.len(), none), (1_802, 0));
        assert_eq!(whole[..501], shown[..501]);
        let (unfinished, left_out) = listed(&rows, &with(ListLength::Unfinished));
        assert_eq!((&unfinished[..602], unfinished.len(), left_out), (&whole[..602], 622, 1_180));
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
        let narrowed = |filter, limit| listed(&rows, &ListQuery { length: ListLength::Whole, filter, limit });
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
}
