//! The runs of a session on one timeline: a lane for each, inner runs below the one that they were started in.

use maud::{Markup, html};
use workrail_engine::report::RunReport;
use workrail_model::id::RunId;
use workrail_model::preferences::RunStatus;
use workrail_model::time::Timestamp;

use crate::target::run_address;

const WIDTH: i64 = 1000;
const LANE: usize = 26;
const NAME_WIDTH: i64 = 220;
/// A run of an instant is still seen.
const BAR_MIN: i64 = 6;
const INDENT: usize = 14;
/// More are listed and not drawn.
const RUNS_MAX: usize = 200;

/// Nothing for a single run, whose times are among its facts.
pub(super) fn timeline(runs: &[RunReport]) -> Markup {
    let times: Vec<i64> = runs.iter().flat_map(|run| [&run.span.from, &run.span.to]).filter_map(ms).collect();
    let (Some(from), Some(to)) = (times.iter().min(), times.iter().max()) else { return html! {} };
    if runs.len() < 2 {
        return html! {};
    }
    let order = nested(runs);
    let scale = |at: i64| NAME_WIDTH + (at - from) * (WIDTH - NAME_WIDTH - BAR_MIN) / (to - from).max(1);
    let height = order.len() * LANE + 8;
    html! {
        div.scroll {
            svg.timeline viewBox={ "0 0 " (WIDTH) " " (height) } role="group" aria-label="The runs over time" {
                @for (lane, (run, depth)) in order.iter().enumerate() {
                    @let y = lane * LANE;
                    @let begin = ms(&run.span.from).unwrap_or(*from);
                    @let end = ms(&run.span.to).unwrap_or(begin).max(begin);
                    a href=(run_address(run.run_id)) {
                        text x=(4 + depth * INDENT) y=(y + 18) { (run.label) }
                        rect class=(class(run)) x=(scale(begin)) y=(y + 7) rx="4" height="13"
                            width=(scale(end) - scale(begin) + BAR_MIN) {}
                    }
                }
            }
        }
    }
}

fn ms(at: &Option<Timestamp>) -> Option<i64> {
    at.as_ref().and_then(Timestamp::epoch_ms)
}

fn class(run: &RunReport) -> &'static str {
    match run.status {
        Some(RunStatus::Complete) => "good",
        Some(RunStatus::CompleteWithGaps) => "warn",
        Some(RunStatus::InProgress) => "running",
        Some(RunStatus::Closed) => "quiet",
        Some(RunStatus::Blocked) | None => "bad",
    }
}

/// Every run once, each below its parent, with how deep it is.
fn nested(runs: &[RunReport]) -> Vec<(&RunReport, usize)> {
    let parent = |run: &RunReport| run.parent.as_ref().map(|parent| parent.run_id);
    let has = |id: RunId| runs.iter().any(|run| run.run_id == id);
    let mut open: Vec<(&RunReport, usize)> =
        runs.iter().filter(|run| !parent(run).is_some_and(has)).map(|run| (run, 0)).rev().collect();
    let mut ordered = Vec::new();
    while let Some((run, depth)) = open.pop() {
        if ordered.len() == RUNS_MAX {
            break;
        }
        ordered.push((run, depth));
        let inner = runs.iter().filter(|inner| parent(inner) == Some(run.run_id));
        open.extend(inner.map(|inner| (inner, depth + 1)).rev());
    }
    ordered
}
