//! Runs as rows: the same words and columns wherever runs are listed.

use workrail_core::report;
use workrail_core::report::words::one_line;
use workrail_engine::sessions::RunRow;
use workrail_model::time::Timestamp;

use crate::layout::{self, Column, Fit};
use crate::output::{Line, Tone};

const RUNNING: [Column; 5] = [
    Column { title: "RUN", fit: Fit::Whole },
    Column { title: "STEP", fit: Fit::Cut { min: 12 } },
    Column { title: "GOAL", fit: Fit::Cut { min: 12 } },
    Column { title: "WORKFLOW", fit: Fit::Drop(1) },
    Column { title: "LAST", fit: Fit::Drop(2) },
];

/// Runs in progress.
pub(super) fn running(rows: &[RunRow], now: &Timestamp, width: Option<usize>) -> Vec<Line> {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.label.clone().unwrap_or_else(|| "-".to_owned()),
                step(row),
                one_line(row.goal.as_deref().unwrap_or_default()),
                row.workflow_id.as_ref().map(ToString::to_string).unwrap_or_default(),
                row.last_at.as_ref().and_then(|at| ago(at, now)).unwrap_or_default(),
            ]
        })
        .collect();
    toned(layout::table(&RUNNING, &cells, width))
}

/// Where a run is: the number of its step, as replies count, and the step's title.
pub(crate) fn step(row: &RunRow) -> String {
    let Some(step) = &row.step else { return String::new() };
    one_line(&format!("{}. {}", step.progress.number, step.title))
}

pub(crate) fn ago(at: &Timestamp, now: &Timestamp) -> Option<String> {
    report::ago(at, now)
}

/// The lines of a table, its heading in the colour of less important text.
pub(crate) fn toned(lines: Vec<String>) -> Vec<Line> {
    let mut lines = lines.into_iter();
    let heading = lines.next().map(|text| Line::toned(Tone::Quiet, &text));
    heading.into_iter().chain(lines.map(|text| Line::plain(&text))).collect()
}
