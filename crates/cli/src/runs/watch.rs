//! `workrail watch`: keeps the status up to date; in a pipe, prints one line per change.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, stdout};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use workrail_core::report::words::one_line;
use workrail_engine::sessions::{
    ListLength, ListQuery, NeedsYou, RunRow, SessionsList, Stage, StoreStatus, WaitReason,
};
use workrail_host::clock::SystemClock;
use workrail_host::local_time::local_clock;
use workrail_host::notification::{self, NotificationOutcome};
use workrail_host::terminal;
use workrail_model::id::{RunId, SessionId};
use workrail_ports::environment::Clock as _;

use super::status::{lines, why};
use crate::outcome::{Failure, Format};
use crate::output::{self, OutputLine, Tone};
use crate::wiring;

/// How soon a change is shown.
const POLL_EVERY: Duration = Duration::from_millis(400);
/// The store's stamp changes before the write is readable, so it is read this many times after a change.
const READS_AFTER_CHANGE: u32 = 4;
/// How often relative times are redrawn, and how often a store without a stamp is read.
const REDRAW_EVERY: Duration = Duration::from_secs(30);

/// Whether to raise a desktop notification when a run starts to wait for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notify {
    Yes,
    No,
}

impl Notify {
    /// From the command's `--notify` switch.
    pub(super) fn if_requested(switch: bool) -> Self {
        if switch { Self::Yes } else { Self::No }
    }
}

/// Runs until it is interrupted, or until its output is closed.
pub(super) fn run(notify: Notify, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let draws = format == Format::Text && stdout().is_terminal();
    let mut seen: Option<WatchedRuns> = None;
    let mut notifier = Notifier { announced: false };
    let mut schedule = ReadSchedule::default();
    let mut last_read = Instant::now();
    loop {
        if schedule.is_due(engine.change_stamp()) || last_read.elapsed() >= REDRAW_EVERY {
            last_read = Instant::now();
            let list = engine.sessions(&ListQuery::all_of(ListLength::Whole), &mut |_, _| {})?;
            let status = engine.status_in(&list);
            let now = WatchedRuns::of(list, &status);
            if draws {
                draw(&status);
            } else {
                now.changes(seen.as_ref()).into_iter().for_each(|changed| changed.print(format));
            }
            if let Some(before) = &seen
                && notify == Notify::Yes
            {
                now.newly_waiting(before).into_iter().for_each(|run| notifier.notify(run));
            }
            seen = Some(now);
        }
        if output::is_closed() {
            return Ok(());
        }
        thread::sleep(POLL_EVERY);
    }
}

/// Decides when the store is read again.
#[derive(Debug, Default)]
struct ReadSchedule {
    /// The stamp at the last look; the outer `None` before the first.
    stamp: Option<Option<u64>>,
    /// How many more times it is read without a further change.
    left: u32,
}

impl ReadSchedule {
    fn is_due(&mut self, stamp: Option<u64>) -> bool {
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.left = READS_AFTER_CHANGE;
        }
        let is_due = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }
}

/// Draws the status over the previous one, from the top of the screen.
fn draw(status: &StoreStatus) {
    let mut drawn = lines(status, terminal::columns());
    let clock = local_clock(&SystemClock.now());
    drawn.insert(0, OutputLine::plain(""));
    drawn.insert(0, OutputLine::toned(Tone::Quiet, &format!("workrail watch · {clock} · Ctrl-C to stop")));
    // The cursor takes the last row.
    if let Some(rows) = terminal::rows()
        && drawn.len() >= rows
    {
        let kept = rows.saturating_sub(2);
        let hidden = drawn.len() - kept;
        drawn.truncate(kept);
        drawn.push(OutputLine::toned(Tone::Quiet, &format!("{hidden} more lines: workrail status")));
    }
    output::redraw(&drawn);
}

/// The state of every run, for comparison.
#[derive(Debug, Default)]
struct WatchedRuns {
    runs: BTreeMap<(SessionId, Option<RunId>), WatchedRun>,
}

#[derive(Clone, Debug, PartialEq)]
struct WatchedRun {
    row: RunRow,
    needs: Option<NeedsYou>,
}

impl WatchedRuns {
    fn of(list: SessionsList, status: &StoreStatus) -> Self {
        let mut runs = BTreeMap::new();
        for row in list.runs {
            let key = (row.session_id, row.run_id);
            let needs =
                status.needs_you.iter().find(|waiting| (waiting.run.session_id, waiting.run.run_id) == key);
            runs.insert(key, WatchedRun { row, needs: needs.cloned() });
        }
        Self { runs }
    }

    /// What changed. The first look reports only unfinished runs.
    fn changes(&self, before: Option<&Self>) -> Vec<&WatchedRun> {
        let mut changed: Vec<&WatchedRun> = Vec::new();
        for (key, now) in &self.runs {
            let is_news = match before.map(|before| before.runs.get(key)) {
                None => !now.row.stage.is_finished(),
                Some(None) => true,
                Some(Some(then)) => then.differs(now),
            };
            changed.extend(is_news.then_some(now));
        }
        changed.sort_by_key(|run| (run.row.activity, run.row.run_id));
        changed
    }

    /// Runs that now wait for the user and did not before, or waited for something else.
    fn newly_waiting<'a>(&'a self, before: &Self) -> Vec<&'a NeedsYou> {
        let waits = |run: &&WatchedRun| run.row.stage == Stage::WaitsForPerson;
        let mut found = Vec::new();
        for (key, now) in self.runs.iter().filter(|(_, now)| waits(now)) {
            let then = before.runs.get(key).filter(waits);
            if then.is_none_or(|then| then.wait_reason() != now.wait_reason()) {
                found.extend(&now.needs);
            }
        }
        found
    }
}

impl WatchedRun {
    fn wait_reason(&self) -> Option<&WaitReason> {
        self.needs.as_ref().map(|needs| &needs.need.why)
    }

    /// Whether the change is worth a line: a note inside a step is not.
    fn differs(&self, now: &Self) -> bool {
        self.row.stage != now.row.stage
            || self.row.step.as_ref().map(|step| &step.progress)
                != now.row.step.as_ref().map(|step| &step.progress)
            || self.wait_reason() != now.wait_reason()
    }

    fn print(&self, format: Format) {
        let row = &self.row;
        match format {
            Format::Json => output::json_line(&json!({
                "at": SystemClock.now(), "sessionId": row.session_id, "runId": row.run_id, "label": row.label,
                "stage": row.stage, "step": row.step, "why": self.wait_reason(),
                "command": self.needs.as_ref().map(|needs| &needs.need.command),
            })),
            Format::Text => output::line_now(&self.text()),
        }
    }

    fn text(&self) -> String {
        let row = &self.row;
        let name = row.label.clone().unwrap_or_else(|| row.session_id.to_string());
        let clock = local_clock(&SystemClock.now());
        let now_at = match (&self.needs, &row.step) {
            (Some(needs), _) => {
                format!(": {} · {}", one_line(&why(&needs.need.why).join(" ")), needs.need.command)
            }
            (None, Some(_)) => format!(", step {}", super::list::step(row)),
            (None, None) => String::new(),
        };
        format!("{clock}  {name}  {}{now_at}", row.stage.label())
    }
}

/// Notifies the user on the desktop, or rings the terminal's bell if there is no desktop.
struct Notifier {
    /// Whether it was announced that only the bell rings.
    announced: bool,
}

impl Notifier {
    fn notify(&mut self, run: &NeedsYou) {
        let name = run.run.label.clone().unwrap_or_default();
        let text = format!("{}\n{}", why(&run.need.why).join(" "), run.need.command);
        match notification::show(&format!("WorkRail: {name} needs you"), &text) {
            NotificationOutcome::OnDesktop => {}
            NotificationOutcome::Nowhere => {
                output::ring();
                if !self.announced {
                    self.announced = true;
                    output::notice(
                        "No desktop notification could be shown (notify-send or osascript). The terminal bell rings instead.",
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_change_the_store_is_read_a_few_times_and_no_more() {
        let mut schedule = ReadSchedule::default();
        let mut reads = |stamp: u64, times: usize| -> Vec<bool> {
            (0..times).map(|_| schedule.is_due(Some(stamp))).collect()
        };
        assert_eq!(reads(1, 6), [true, true, true, true, false, false], "the first look is one of them");
        assert_eq!(reads(2, 2), [true, true], "the stamp moved");
        assert_eq!(reads(3, 5), [true, true, true, true, false], "and once more before it was quiet");
    }

    #[test]
    fn without_a_change_stamp_the_store_is_read_a_few_times_at_the_start() {
        let mut schedule = ReadSchedule::default();
        let reads: Vec<bool> = (0..6).map(|_| schedule.is_due(None)).collect();
        assert_eq!(reads, [true, true, true, true, false, false]);
    }
}
