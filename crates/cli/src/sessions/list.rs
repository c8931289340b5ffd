//! `workrail session list`: waiting runs first, as many as fit the terminal.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use serde::Serialize;
use workrail_core::label::RunLabel;
use workrail_core::overview::{DamagedRow, ListLength, ListQuery, RowFilter, RunRow, SessionsList, Stage};
use workrail_core::report::words::one_line;
use workrail_host::clock::SystemClock;
use workrail_host::local_time::start_of_day_ms;
use workrail_model::id::{RunId, SessionId};
use workrail_model::retention::Ttl;
use workrail_model::time::Timestamp;
use workrail_ports::environment::Clock as _;

use crate::layout::{self, Column, ColumnFit};
use crate::outcome::{EXIT_CODES, Failure, Format};
use crate::output::{self, ProgressDisplay, Tone};
use crate::wiring::{self, AnyEngine};
use crate::{runs, sessions, times};

const COLUMNS: [Column; 9] = [
    Column { title: "RUN", fit: ColumnFit::Whole },
    Column { title: "STATUS", fit: ColumnFit::Cut { min: 11, good: 18 } },
    Column { title: "STEP", fit: ColumnFit::Cut { min: 7, good: 12 } },
    Column { title: "GOAL", fit: ColumnFit::Cut { min: 10, good: 24 } },
    Column { title: "LAST", fit: ColumnFit::Whole },
    Column { title: "BY", fit: ColumnFit::Cut { min: 8, good: 16 } },
    Column { title: "WORKFLOW", fit: ColumnFit::Drop(2) },
    Column { title: "INSIDE", fit: ColumnFit::Drop(3) },
    Column { title: "SESSION", fit: ColumnFit::Drop(1) },
];

#[derive(Debug, Args)]
#[command(after_help = format!(
    "A `*` marks sessions that `workrail session keep` protects.\n\nExamples:\n  workrail session list --all\n  \
     workrail session list --status needs-me\n  workrail session list --workspace . --since 7d\n  \
     workrail session list --workflow bug --limit 5 --json\n\n{EXIT_CODES}"
))]
pub(crate) struct ListRunsArguments {
    /// List all runs, not only the newest 500 in progress and the newest 20 finished ones.
    #[arg(long)]
    all: bool,
    /// Only runs of this status. May be repeated.
    #[arg(long, value_enum, value_name = "STATUS")]
    status: Vec<StatusArgument>,
    /// Only runs of this folder's repository.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    workspace: Option<String>,
    /// Only runs whose workflow id contains this.
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only runs that were worked on since then: a day such as 2026-01-31, or an age such as 12h or 7d.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// List at most N runs.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatusArgument {
    /// Waiting for you, blocked or unreadable
    NeedsMe,
    /// Waiting for a decision or an answer
    Waiting,
    Blocked,
    Running,
    /// Complete, with or without gaps
    Finished,
    Closed,
}

impl StatusArgument {
    fn stages(self) -> &'static [Stage] {
        match self {
            Self::NeedsMe => &[Stage::WaitsForPerson, Stage::Blocked, Stage::Unreadable],
            Self::Waiting => &[Stage::WaitsForPerson],
            Self::Blocked => &[Stage::Blocked],
            Self::Running => &[Stage::InProgress],
            Self::Finished => &[Stage::Complete, Stage::CompleteWithGaps, Stage::NotesOnly],
            Self::Closed => &[Stage::Closed],
        }
    }
}

pub(super) fn run(arguments: &ListRunsArguments, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let now = SystemClock.now();
    let filter = filter(arguments, &engine, &now)?;
    let mut wanted = ListQuery { length: ListLength::Short, filter, limit: arguments.limit };
    // A user who narrows the list is looking for something, so nothing that matches is left out.
    if arguments.all || wanted.is_narrowed() {
        wanted.length = ListLength::Whole;
    }
    let mut progress: Option<ProgressDisplay> = None;
    let list = engine.sessions(&wanted, &mut |done, total| {
        progress.get_or_insert_with(|| ProgressDisplay::new("reading sessions", total)).at(done);
    })?;
    drop(progress);
    let kept = engine.kept_sessions(list.runs.iter().map(|row| row.session_id));
    if format == Format::Json {
        output::json(&runs::value(&document(&list, &kept))?);
        return Ok(());
    }
    print(&list, &kept, &wanted, &now);
    Ok(())
}

fn filter(arguments: &ListRunsArguments, engine: &AnyEngine, now: &Timestamp) -> Result<RowFilter, Failure> {
    let repository = match &arguments.workspace {
        None => None,
        Some(folder) => {
            let whole = std::path::absolute(folder).map_err(|error| Failure::Usage(error.to_string()))?;
            let found = engine.repository_of(&whole.to_string_lossy())?;
            Some(found.ok_or_else(|| {
                Failure::Usage(format!(
                    "`{folder}` is not in a git repository. --workspace selects sessions by repository; omit it."
                ))
            })?)
        }
    };
    Ok(RowFilter {
        stages: arguments.status.iter().flat_map(|status| status.stages()).copied().collect(),
        workflow: arguments.workflow.clone(),
        repository,
        since_ms: arguments.since.as_deref().map(|text| since_ms(text, now)).transpose()?,
    })
}

fn since_ms(text: &str, now: &Timestamp) -> Result<i64, Failure> {
    let age = || {
        let age = i64::try_from(Ttl::parse(text).ok()?.ms()).ok()?;
        now.epoch_ms()?.checked_sub(age)
    };
    start_of_day_ms(text).or_else(age).ok_or_else(|| {
        Failure::Usage(format!(
            "`{text}` is not a time: write a day such as 2026-01-31, or an age such as 12h or 7d."
        ))
    })
}

/// The list as JSON, with whether the session of each run is kept.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListDocument<'a> {
    runs: Vec<ListedRun<'a>>,
    damaged: &'a [DamagedRow],
    sessions: u64,
    left_out: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedRun<'a> {
    #[serde(flatten)]
    row: &'a RunRow,
    is_kept: bool,
}

fn document<'a>(list: &'a SessionsList, kept: &BTreeSet<SessionId>) -> ListDocument<'a> {
    let SessionsList { runs, damaged, sessions, left_out } = list;
    let listed = |row: &'a RunRow| ListedRun { row, is_kept: kept.contains(&row.session_id) };
    let runs = runs.iter().map(listed).collect();
    ListDocument { runs, damaged, sessions: *sessions, left_out: *left_out }
}

fn print(list: &SessionsList, kept: &BTreeSet<SessionId>, wanted: &ListQuery, now: &Timestamp) {
    if list.sessions == 0 {
        output::line("No sessions yet. An agent starts one with start_workflow.");
        return;
    }
    if list.runs.is_empty() {
        if !wanted.filter.is_empty() {
            output::line("No run matches. Leave the filters out to see every run.");
        }
    } else {
        let listed: BTreeSet<RunId> = list.runs.iter().filter_map(|row| row.run_id).collect();
        let rows: Vec<Vec<String>> = runs::list::nested(&list.runs)
            .into_iter()
            .map(|(depth, row)| cells((depth, row), &listed, kept, now))
            .collect();
        let lines = layout::table(&COLUMNS, &rows, output::columns());
        output::print_all(&runs::list::with_quiet_heading(lines));
    }
    if list.left_out > 0 {
        let how = match wanted.limit {
            None => "--all lists them",
            Some(_) => "raise --limit to see them",
        };
        output::toned(Tone::Quiet, &format!("\nNot listed: {} more; {how}.", list.left_out));
    }
    sessions::damaged::print(&list.damaged);
    output::toned(Tone::Quiet, "\nTo see and manage them in a browser: workrail console");
}

fn cells(
    (depth, row): (usize, &RunRow),
    listed: &BTreeSet<RunId>,
    kept: &BTreeSet<SessionId>,
    now: &Timestamp,
) -> Vec<String> {
    let kept = if kept.contains(&row.session_id) { "*" } else { "" };
    // A run that is indented below its parent needs no further mention of it.
    let parent = row.parent.filter(|parent| depth == 0 && listed.contains(parent));
    let status = match &row.closed {
        Some(reason) => one_line(&format!("{}: {reason}", row.stage.label())),
        None => row.stage.label().to_owned(),
    };
    vec![
        format!("{}{kept}", runs::list::name(depth, row)),
        status,
        runs::list::step(row),
        one_line(row.goal.as_deref().unwrap_or_default()),
        row.last_at.as_ref().map(|at| times::when(at, now)).unwrap_or_default(),
        one_line(row.last_actor.as_deref().unwrap_or_default()),
        row.workflow_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        parent.map(|parent| RunLabel::of(parent).to_string()).unwrap_or_default(),
        row.session_id.to_string(),
    ]
}
