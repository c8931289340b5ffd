//! Runs as rows, with the same words and columns in every list.

use std::collections::BTreeMap;

use workrail_core::report;
use workrail_core::report::words::one_line;
use workrail_engine::sessions::{RunRow, Stage};
use workrail_model::id::RunId;
use workrail_model::time::Timestamp;

use crate::layout::{self, Column, ColumnFit};
use crate::output::{OutputLine, Tone};

const RUNNING: [Column; 6] = [
    Column { title: "RUN", fit: ColumnFit::Whole },
    Column { title: "GOAL", fit: ColumnFit::Cut { min: 10, good: 30 } },
    Column { title: "STEP", fit: ColumnFit::Cut { min: 10, good: 18 } },
    Column { title: "LAST", fit: ColumnFit::Whole },
    Column { title: "BY", fit: ColumnFit::Cut { min: 8, good: 16 } },
    Column { title: "WORKFLOW", fit: ColumnFit::Drop(1) },
];

/// Runs in progress.
pub(super) fn running(rows: &[RunRow], now: &Timestamp, width: Option<usize>) -> Vec<OutputLine> {
    let cells: Vec<Vec<String>> = nested(rows)
        .into_iter()
        .map(|(depth, row)| {
            vec![
                name(depth, row),
                one_line(row.goal.as_deref().unwrap_or_default()),
                step(row),
                row.last_at.as_ref().and_then(|at| report::ago(at, now)).unwrap_or_default(),
                one_line(row.last_actor.as_deref().unwrap_or_default()),
                row.workflow_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            ]
        })
        .collect();
    with_quiet_heading(layout::table(&RUNNING, &cells, width))
}

/// The runs in order, each followed by the runs of the same stage that were started inside it, with their depth.
pub(crate) fn nested(rows: &[RunRow]) -> Vec<(usize, &RunRow)> {
    let stages: BTreeMap<RunId, Stage> =
        rows.iter().filter_map(|row| Some((row.run_id?, row.stage))).collect();
    let mut inside: BTreeMap<RunId, Vec<&RunRow>> = BTreeMap::new();
    let mut top = Vec::new();
    for row in rows {
        match row.parent.filter(|parent| stages.get(parent) == Some(&row.stage)) {
            Some(parent) => inside.entry(parent).or_default().push(row),
            None => top.push((0, row)),
        }
    }
    // Taken from the end, so that inner runs come right after their parent.
    let mut left: Vec<(usize, &RunRow)> = top.into_iter().rev().collect();
    let mut ordered = Vec::with_capacity(rows.len());
    while let Some((depth, row)) = left.pop() {
        ordered.push((depth, row));
        let within = row.run_id.and_then(|run| inside.remove(&run)).unwrap_or_default();
        left.extend(within.into_iter().rev().map(|row| (depth + 1, row)));
    }
    ordered
}

/// The name of a run in a list, indented below its parent.
pub(crate) fn name(depth: usize, row: &RunRow) -> String {
    let label = row.label.as_deref().unwrap_or("-");
    match depth {
        0 => label.to_owned(),
        depth => format!("{}└ {label}", "  ".repeat(depth - 1)),
    }
}

/// The current step of a run: its number, as in replies, and its title.
pub(crate) fn step(row: &RunRow) -> String {
    let Some(step) = &row.step else { return String::new() };
    one_line(&format!("{}. {}", step.progress.number, step.title))
}

/// The lines of a table, with a quiet heading.
pub(crate) fn with_quiet_heading(lines: Vec<String>) -> Vec<OutputLine> {
    let mut lines = lines.into_iter();
    let heading = lines.next().map(|text| OutputLine::toned(Tone::Quiet, &text));
    heading.into_iter().chain(lines.map(|text| OutputLine::plain(&text))).collect()
}
