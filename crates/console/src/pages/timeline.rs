//! The runs of a session on one timeline with an axis: one lane each, with inner runs below their parent and inside
//! its bar.

use std::collections::BTreeMap;

use maud::{Markup, html};
use workrail_engine::report::{RunReport, duration_text};
use workrail_model::id::RunId;
use workrail_model::preferences::RunStatus;
use workrail_model::time::Timestamp;

use super::time;
use crate::target::run_address;

const WIDTH: i64 = 1000;
const LANE: i64 = 28;
const AXIS: i64 = 26;
const NAME_WIDTH: i64 = 300;
/// The minimum width, so that a momentary run is still visible.
const BAR_MIN: i64 = 6;
const INDENT: i64 = 14;
/// More runs are listed but not drawn.
const RUNS_MAX: usize = 200;
/// The maximum number of ticks on the axis.
const TICKS_MAX: i64 = 6;
/// Readable distances between ticks, in milliseconds.
const STEPS_MS: [i64; 21] = [
    10,
    50,
    100,
    500,
    1_000,
    5_000,
    15_000,
    30_000,
    60_000,
    5 * 60_000,
    15 * 60_000,
    30 * 60_000,
    3_600_000,
    3 * 3_600_000,
    6 * 3_600_000,
    12 * 3_600_000,
    86_400_000,
    2 * 86_400_000,
    7 * 86_400_000,
    30 * 86_400_000,
    365 * 86_400_000,
];

/// A run in its lane.
struct Lane<'a> {
    run: &'a RunReport,
    depth: i64,
    from: i64,
    to: i64,
}

/// Empty for a single run, whose times are among its facts.
pub(super) fn timeline(runs: &[RunReport]) -> Markup {
    if runs.len() < 2 {
        return html! {};
    }
    let lanes = lanes(runs);
    let (Some(from), Some(to)) =
        (lanes.iter().map(|lane| lane.from).min(), lanes.iter().map(|lane| lane.to).max())
    else {
        return html! {};
    };
    let span = (to - from).max(1);
    let scale = |at: i64| NAME_WIDTH + (at - from) * (WIDTH - NAME_WIDTH - BAR_MIN) / span;
    let bottom = i64::try_from(lanes.len()).unwrap_or(i64::MAX / LANE) * LANE + 4;
    let step = step(span);
    html! {
        @if let (Some(first), Some(last)) = (bound(runs, true), bound(runs, false)) {
            p.meta { "From " (time(first)) " to " (time(last)) @if runs.len() > RUNS_MAX { ", the first " (RUNS_MAX) " runs" } }
        }
        div.scroll {
            svg.timeline viewBox={ "0 0 " (WIDTH) " " (bottom + AXIS) } role="group" aria-label="The runs over time" {
                @for tick in 0..=span / step {
                    @let x = scale(from + tick * step);
                    path class="tick" d={ "M" (x) " 0V" (bottom) } {}
                    text class=(if tick == span / step && tick > 0 { "axis end" } else { "axis" }) x=(x) y=(bottom + 17) {
                        @if tick == 0 { "start" } @else { "+" (duration_text((tick * step).unsigned_abs())) }
                    }
                }
                @for (index, lane) in lanes.iter().enumerate() {
                    @let y = i64::try_from(index).unwrap_or_default() * LANE;
                    @let indent = lane.depth * INDENT;
                    a href=(run_address(lane.run.run_id)) {
                        @if lane.depth > 0 {
                            path class="nest" d={ "M" (indent - 6) " " (y - 4) "V" (y + 14) "H" (indent + 1) } {}
                        }
                        text x=(4 + indent) y=(y + 18) { (lane.run.label) tspan.axis dx="6" { (status(lane.run)) } }
                        rect class=(class(lane.run)) x=(scale(lane.from)) y=(y + 7) rx="4" height="13"
                            width=(scale(lane.to) - scale(lane.from) + BAR_MIN) {
                            title { (lane.run.label) ", " (status(lane.run)) ", " (duration_text((lane.to - lane.from).unsigned_abs())) }
                        }
                    }
                }
            }
        }
    }
}

/// The status in words, because colour alone is not enough.
fn status(run: &RunReport) -> &'static str {
    match run.status {
        _ if run.is_damaged => "damaged",
        Some(RunStatus::Blocked) if run.waits_for_person => "waits for a person",
        Some(status) => status.in_words(),
        None => "unreadable",
    }
}

/// The smallest readable distance that keeps the number of ticks low.
fn step(span: i64) -> i64 {
    let fits = |step: &&i64| span / **step < TICKS_MAX;
    STEPS_MS.iter().find(fits).copied().unwrap_or(span)
}

/// The first or the last time of all runs.
fn bound(runs: &[RunReport], is_first: bool) -> Option<&Timestamp> {
    let times = runs.iter().flat_map(|run| [&run.span.from, &run.span.to]).flatten();
    if is_first { times.min() } else { times.max() }
}

fn ms(at: &Option<Timestamp>) -> Option<i64> {
    at.as_ref().and_then(Timestamp::epoch_ms)
}

fn class(run: &RunReport) -> &'static str {
    match run.status {
        _ if run.is_damaged => "bad",
        Some(RunStatus::Complete) => "good",
        Some(RunStatus::CompleteWithGaps) => "warn",
        Some(RunStatus::InProgress) => "running",
        Some(RunStatus::Closed) => "quiet",
        Some(RunStatus::Blocked) | None => "bad",
    }
}

/// Every run with a time once, each below its parent. A run lasts at least as long as the runs started in it: its own
/// last event may be older.
fn lanes(runs: &[RunReport]) -> Vec<Lane<'_>> {
    let known: BTreeMap<RunId, &RunReport> = runs.iter().map(|run| (run.run_id, run)).collect();
    let parent =
        |run: &RunReport| run.parent.as_ref().map(|parent| parent.run_id).filter(|id| known.contains_key(id));
    let mut inner: BTreeMap<Option<RunId>, Vec<&RunReport>> = BTreeMap::new();
    for run in runs {
        inner.entry(parent(run)).or_default().push(run);
    }
    let mut open: Vec<(&RunReport, i64)> = Vec::new();
    let started = |of: Option<RunId>| inner.get(&of).into_iter().flatten().rev().copied();
    open.extend(started(None).map(|run| (run, 0)));
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    while let Some((run, depth)) = open.pop() {
        if lanes.len() == RUNS_MAX {
            break;
        }
        open.extend(started(Some(run.run_id)).map(|inner| (inner, depth + 1)));
        if let Some(from) = ms(&run.span.from) {
            let to = ms(&run.span.to).unwrap_or(from).max(from);
            lanes.push(Lane { run, depth, from, to });
        }
    }
    // Inner runs follow their parent, so going backwards passes their end times up.
    for at in (1..lanes.len()).rev() {
        let (to, parent) = (lanes[at].to, parent(lanes[at].run));
        if let Some(above) = lanes[..at].iter_mut().rev().find(|above| Some(above.run.run_id) == parent) {
            above.to = above.to.max(to);
        }
    }
    lanes
}
