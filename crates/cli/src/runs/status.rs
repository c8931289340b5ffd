//! `workrail status`: what needs the user, why, and what to type; then what is running.

use workrail_core::report;
use workrail_core::report::words::one_line;
use workrail_engine::sessions::{NeedsYou, Stage, StoreStatus, WaitReason};
use workrail_host::clock::SystemClock;
use workrail_ports::environment::Clock as _;

use super::list;
use crate::layout::{cut, wrapped};
use crate::outcome::{Failure, Format};
use crate::output::{self, OutputLine, ProgressDisplay, Tone};
use crate::wiring::{self, AnyEngine};

/// How many reasons are shown per run; `workrail show` lists all of them.
const REASONS_SHOWN: usize = 3;
const INDENT: &str = "  ";
/// How many lines of a submission are shown; `workrail approve` shows all of it.
const SUBMITTED_LINES: usize = 2;

pub(crate) fn run(format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let status = current(&engine)?;
    if format == Format::Json {
        output::json(&super::value(&status)?);
        return Ok(());
    }
    lines(&status, output::columns()).iter().for_each(output::print);
    Ok(())
}

/// What needs the user now.
fn current(engine: &AnyEngine) -> Result<StoreStatus, Failure> {
    let mut progress: Option<ProgressDisplay> = None;
    let status = engine.status(&mut |done, total| {
        progress.get_or_insert_with(|| ProgressDisplay::new("reading sessions", total)).at(done);
    })?;
    Ok(status)
}

/// The whole status as lines that fit a width.
pub(super) fn lines(status: &StoreStatus, width: Option<usize>) -> Vec<OutputLine> {
    let mut lines = Vec::new();
    if status.sessions == 0 {
        lines.push(OutputLine::plain("No sessions yet. An agent starts one with start_workflow."));
        lines.push(OutputLine::toned(Tone::Quiet, "Set up your clients:  workrail install"));
        lines.push(OutputLine::toned(Tone::Quiet, "See it work:          workrail demo"));
        return lines;
    }
    let (waiting, blocked): (Vec<&NeedsYou>, Vec<&NeedsYou>) =
        status.needs_you.iter().partition(|waiting| waiting.run.stage == Stage::WaitsForPerson);
    match waiting.len() {
        0 => lines.push(OutputLine::toned(Tone::Good, "Nothing waits for you.")),
        count => lines.push(OutputLine::toned(Tone::Heading, &format!("Needs you ({count})"))),
    }
    let all = |runs: &[&NeedsYou]| -> Vec<OutputLine> {
        runs.iter()
            .flat_map(|needs| std::iter::once(OutputLine::plain("")).chain(needed(needs, width)))
            .collect()
    };
    lines.extend(all(&waiting));
    if !blocked.is_empty() {
        let title = format!("Blocked: the agent has to correct its work ({})", blocked.len());
        lines.push(OutputLine::plain(""));
        lines.push(OutputLine::toned(Tone::Heading, &title));
        lines.extend(all(&blocked));
    }
    lines.push(OutputLine::plain(""));
    if status.running.is_empty() {
        lines.push(OutputLine::plain("No run is in progress."));
    } else {
        lines.push(OutputLine::toned(Tone::Heading, &format!("Running ({})", status.running.len())));
        lines.extend(list::running(&status.running, &SystemClock.now(), width));
    }
    if !status.damaged.is_empty() {
        let count = status.damaged.len();
        let what = if count == 1 { "1 session is damaged" } else { &format!("{count} sessions are damaged") };
        lines.push(OutputLine::plain(""));
        lines.push(OutputLine::toned(Tone::Warning, &format!("{what}: workrail store verify")));
    }
    lines
}

fn needed(needs: &NeedsYou, width: Option<usize>) -> Vec<OutputLine> {
    let run = &needs.run;
    let name = run.label.clone().unwrap_or_else(|| run.session_id.to_string());
    let about =
        run.goal.as_deref().map(one_line).or_else(|| run.workflow_id.as_ref().map(ToString::to_string));
    let title = about.map_or(name.clone(), |about| format!("{name} · {about}"));
    let title = width.map_or(title.clone(), |width| cut(&title, width).into_owned());
    let mut lines = vec![OutputLine::toned(Tone::Heading, &title)];
    let when = run.last_at.as_ref().and_then(|at| report::ago(at, &SystemClock.now()));
    let when = match (&run.last_actor, when) {
        (Some(actor), Some(when)) => Some(format!("{}, {when}", one_line(actor))),
        (Some(actor), None) => Some(one_line(actor)),
        (None, when) => when,
    };
    let room = width.map(|width| width.saturating_sub(INDENT.len()));
    for (at, text) in why(&needs.need.why).into_iter().enumerate() {
        let when = when.as_ref().filter(|_| at == 0).map(|when| format!(" ({when})")).unwrap_or_default();
        let text = one_line(&text);
        // The colon of a line that introduces others comes last.
        let text = match text.strip_suffix(':').filter(|_| at == 0) {
            Some(text) => format!("{text}{when}:"),
            None => format!("{text}{when}"),
        };
        lines.extend(wrapped(&text, room).iter().map(|line| OutputLine::plain(&format!("{INDENT}{line}"))));
    }
    if let Some(submitted) = submitted(&needs.need.why) {
        let shown = wrapped(&one_line(submitted), room);
        let more = shown.len() > SUBMITTED_LINES;
        for (at, line) in shown.into_iter().take(SUBMITTED_LINES).enumerate() {
            let end = if more && at + 1 == SUBMITTED_LINES { " …" } else { "" };
            lines.push(OutputLine::toned(Tone::Quiet, &format!("{INDENT}{line}{end}")));
        }
    }
    lines.push(OutputLine::toned(Tone::Warning, &format!("{INDENT}{}", needs.need.command)));
    lines
}

/// The submission to decide on, if the run waits for that.
pub(super) fn submitted(why: &WaitReason) -> Option<&str> {
    match why {
        WaitReason::Approval { submitted, .. } => submitted.as_deref(),
        WaitReason::Questions { .. }
        | WaitReason::Refused { .. }
        | WaitReason::Gaps { .. }
        | WaitReason::Unreadable { .. } => None,
    }
}

/// Why a run does not move on, the first line first, and of many reasons only the first.
pub(super) fn why(why: &WaitReason) -> Vec<String> {
    let mut lines = every_reason(why);
    let more = lines.len().saturating_sub(REASONS_SHOWN + 1);
    if more > 0 {
        lines.truncate(REASONS_SHOWN + 1);
        lines.push(format!("and {more} more"));
    }
    lines
}

/// Why a run does not move on, the first line first.
pub(super) fn every_reason(why: &WaitReason) -> Vec<String> {
    let (first, rest) = match why {
        WaitReason::Approval { step, .. } => (format!("\"{step}\" waits for your approval."), Vec::new()),
        WaitReason::Questions { step, questions } => {
            let asked = questions.iter().map(|question| format!("{}: {}", question.key, question.question));
            (format!("\"{step}\" asks you:"), asked.collect())
        }
        WaitReason::Refused { step, reasons } => {
            (format!("\"{step}\" is blocked: the agent's last attempt was refused."), reasons.clone())
        }
        WaitReason::Gaps { gaps } => ("Blocked: critical gaps are open.".to_owned(), gaps.clone()),
        WaitReason::Unreadable { problem } => (format!("Cannot be read: {problem}"), Vec::new()),
    };
    std::iter::once(first).chain(rest).collect()
}
