//! `workrail session list`: what waits first.

use workrail_core::overview::{Finished, RunRow, SessionsList};
use workrail_core::report::words::one_line;

use crate::outcome::Failure;
use crate::output::{self, Progress, Tone};
use crate::{runs, wiring};

const GOAL_CHARS_MAX: usize = 48;

pub(super) fn run(all: bool, json: bool) -> Result<(), Failure> {
    let engine = wiring::look_default()?;
    let mut progress: Option<Progress> = None;
    let list = engine.sessions(if all { Finished::All } else { Finished::Newest }, &mut |done, total| {
        progress.get_or_insert_with(|| Progress::new("reading sessions", total)).at(done);
    })?;
    drop(progress);
    if json {
        output::json(&runs::value(&list)?);
        return Ok(());
    }
    print(&list);
    Ok(())
}

fn print(list: &SessionsList) {
    if list.sessions == 0 {
        output::line("No sessions yet. An agent starts one with start_workflow.");
        return;
    }
    if !list.runs.is_empty() {
        let heading = ["RUN", "WORKFLOW", "GOAL", "STATUS", "STEP", "LAST (UTC)", "SESSION"];
        output::table(&heading, list.runs.iter().map(row));
    }
    if list.left_out > 0 {
        output::toned(Tone::Quiet, &format!("\n{} more finished runs; --all lists them.", list.left_out));
    }
    output::toned(Tone::Quiet, "\nSee and steer them in a browser: workrail console");
    if !list.damaged.is_empty() {
        output::toned(Tone::Warning, &format!("\nDamaged or unreadable sessions: {}", list.damaged.len()));
        let rows = list.damaged.iter().map(|row| {
            let damage = row.health.damage().unwrap_or_default();
            vec![row.session_id.to_string(), row.labels.join(", "), damage]
        });
        output::table(&["SESSION", "RUNS", "WHAT IS WRONG"], rows);
    }
}

fn row(row: &RunRow) -> Vec<String> {
    let step = row.step.as_ref().map(|step| one_line(&step.progress.to_string()));
    let goal = one_line(row.goal.as_deref().unwrap_or_default());
    let short: String = goal.chars().take(GOAL_CHARS_MAX).collect();
    let more = if short.len() < goal.len() { "…" } else { "" };
    // A timestamp reads 2026-01-31T23:59:59.999Z.
    let last = row.last_at.as_ref().map(|at| at.as_str()[..16].replace('T', " "));
    vec![
        row.label.clone().unwrap_or_else(|| "-".to_owned()),
        row.workflow_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        format!("{short}{more}"),
        row.stage.said().to_owned(),
        step.unwrap_or_default(),
        last.unwrap_or_default(),
        row.session_id.to_string(),
    ]
}
