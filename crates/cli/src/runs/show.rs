//! `workrail show`: one session, run or point.

use serde_json::json;
use workrail_core::link::NodeLink;
use workrail_core::report::markdown::render_node;
use workrail_core::report::{
    BranchPosition, ContextValues, GapReportState, Report, RunReport, branch_letter, words,
};
use workrail_engine::SessionOrRun;
use workrail_engine::sessions::{RunContinuation, WaitReason};
use workrail_model::preferences::RunStatus;

use super::status::{every_reason, submitted};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::wiring::{self, AnyEngine};
use crate::{name, times};

/// How many points are listed; `tree` and `report` show them all.
const POINTS_SHOWN: usize = 12;

pub(super) fn run(about: &str, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    if NodeLink::is_meant(about) {
        let link = NodeLink::parse(about).map_err(|error| Failure::Usage(format!("`{about}`: {error}")))?;
        return point(&engine, link, format);
    }
    let view = engine.show_session(name::session_or_run(&engine, about)?)?;
    if format == Format::Json {
        output::json(&super::value(&view)?);
        return Ok(());
    }
    let report = &view.report;
    super::warn_of_damage(&report.health);
    report.remarks.iter().for_each(|remark| output::toned(Tone::Warning, remark));
    warn_if_keys_unusable(&engine);
    for run in &report.runs {
        print(run, view.continuations.iter().find(|continuation| continuation.run_id == run.run_id));
        output::line("");
    }
    session(report);
    Ok(())
}

/// Where it was recorded, which matters least to the reader.
fn session(report: &Report) {
    output::toned(Tone::Heading, &format!("Session {}", report.session_id));
    if report.runs.len() != 1 {
        fact("time", &words::span(&report.span, times::LOCAL));
    }
    for observed in &report.workspace {
        fact(&observed.key.replace('_', " "), &observed.value);
    }
    fact("events", &report.events.to_string());
    if !report.notes.is_empty() {
        let count = output::counted(report.notes.len() as u64, "session note", "session notes");
        fact("notes", &format!("{count}; `workrail report` prints them"));
    }
}

fn point(engine: &AnyEngine, link: NodeLink, format: Format) -> Result<(), Failure> {
    let found = engine.find(&link.session.to_string())?;
    let report = engine.report(SessionOrRun { run: None, ..found }, ContextValues::NotShown)?;
    let absent = || Failure::Usage(format!("Session {} has no node {}.", link.session, link.node));
    if format == Format::Json {
        let mut nodes = report.runs.iter().flat_map(|run| &run.nodes);
        let node = nodes.find(|node| node.node_id == link.node).ok_or_else(absent)?;
        output::json(&json!({ "sessionId": report.session_id, "health": report.health, "node": node }));
        return Ok(());
    }
    let text = render_node(&report, link.node, times::LOCAL).ok_or_else(absent)?;
    if let Some(damage) = words::damage(&report) {
        output::toned(Tone::Warning, &damage);
    }
    output::line(text.trim_end());
    Ok(())
}

/// Explains why no call to continue a run is shown.
pub(super) fn warn_if_keys_unusable(engine: &AnyEngine) {
    if let Some(problem) = engine.keys_problem() {
        output::toned(Tone::Warning, &format!("{}\n{}", problem.message, problem.suggestion_for_a_person()));
    }
}

fn fact(name: &str, value: &str) {
    if !value.is_empty() {
        output::line(&format!("  {name:16} {}", words::one_line(value)));
    }
}

fn print(run: &RunReport, continuation: Option<&RunContinuation>) {
    output::toned(Tone::Heading, &format!("Run {} · {}", run.label, words::status(run)));
    fact("goal", run.goal.as_deref().unwrap_or_default());
    fact("workflow", run.workflow.workflow_id.as_str());
    fact("closed", &words::closed(run, times::LOCAL).unwrap_or_default());
    fact("step", &run.progress.as_ref().map(ToString::to_string).unwrap_or_default());
    if let Some(parent) = &run.parent {
        fact("started inside", &parent.label);
    }
    fact("started by", run.started_by.as_deref().unwrap_or_default());
    fact("worked on by", run.last_actor.as_deref().unwrap_or_default());
    fact("time", &words::span(&run.span, times::LOCAL));
    fact("counts", &words::counts(run));
    fact("evidence", &words::evidence(run));
    if let Some(last) = run.preferences.last() {
        fact("preferences", &words::preferences(last.effective));
    }
    if let Some(pending) = continuation.and_then(|continuation| continuation.pending_preferences) {
        fact("pending", &format!("{}, from the next completed step on", words::preferences(pending)));
    }
    needs(run, continuation);
    branches(run);
    gaps(run);
    recap(continuation);
    points(run);
    how_to_continue(run, continuation);
}

fn branches(run: &RunReport) {
    if run.branches.len() > 1 {
        output::line("\n  Branches");
        let rows = run.branches.iter().map(|branch| {
            let from = branch.from.as_ref().map(|from| from.to_string()).unwrap_or_default();
            let current = if branch.preferred { "current" } else { "" };
            let now_at = format!("{}. {}", branch.last, words::one_line(&words::step(&branch.current_step)));
            let summary = words::one_line(&branch.summary);
            vec![format!("  {}", branch_letter(branch.number)), current.to_owned(), from, now_at, summary]
        });
        output::table(&["  BRANCH", "", "FROM", "NOW AT", "FIRST NOTES"], rows);
    }
}

fn gaps(run: &RunReport) {
    if !run.gaps.is_empty() {
        output::line("\n  Gaps");
        let rows = run.gaps.iter().map(|gap| {
            let state = match &gap.state {
                GapReportState::Open => "open",
                GapReportState::Resolved { .. } => "resolved",
            };
            let what = words::one_line(&gap.summary);
            vec![format!("  {}", words::plain(&gap.severity)), state.to_owned(), gap.point.to_string(), what]
        });
        output::table(&["  SEVERITY", "STATE", "AT", "WHAT"], rows);
    }
}

fn recap(continuation: Option<&RunContinuation>) {
    let Some(recap) = continuation.and_then(|continuation| continuation.recap.as_ref()) else { return };
    if recap.entries.is_empty() {
        return;
    }
    output::line("\n  Recent notes (claimed), oldest first");
    if recap.omitted > 0 {
        let earlier = output::counted(recap.omitted, "earlier step is", "earlier steps are");
        output::toned(Tone::Quiet, &format!("    {earlier} not shown"));
    }
    for entry in recap.kept.iter().chain(&recap.entries) {
        let checkpoint = if entry.checkpoint { " (checkpoint)" } else { "" };
        output::line(&format!("    {}{checkpoint}", words::one_line(&entry.title)));
        for line in entry.notes.lines() {
            output::toned(Tone::Quiet, &format!("      {line}"));
        }
    }
}

fn points(run: &RunReport) {
    output::line("\n  History");
    let skipped = run.nodes.len().saturating_sub(POINTS_SHOWN);
    if skipped > 0 {
        output::toned(Tone::Quiet, &format!("    {skipped} earlier ones: workrail tree {} --all", run.label));
    }
    for node in run.nodes.iter().skip(skipped) {
        let suffix = match node.branch_position {
            BranchPosition::Tip => " · current",
            BranchPosition::BranchEnd => " · end of a branch",
            BranchPosition::Passed => "",
        };
        output::line(&format!("    {}. {}{suffix}", node.point, words::one_line(&words::point(node))));
        output::toned(Tone::Quiet, &format!("       {}", node.link));
    }
    if let Some(node) = run.nodes.last() {
        output::line(&format!("  Show one point:  workrail show {}", node.link));
    }
}

fn how_to_continue(run: &RunReport, continuation: Option<&RunContinuation>) {
    let Some(call) = continuation.and_then(|continuation| continuation.next_call.as_ref()) else {
        // The problem with the keys or the session was already reported above.
        return output::toned(Tone::Quiet, "\n  It cannot be continued until the problem above is fixed.");
    };
    let what = match run.status {
        // Nothing to continue: `report` shows the record.
        Some(RunStatus::Complete | RunStatus::CompleteWithGaps) => {
            return output::line(&format!("\n  It is finished. Full record:  workrail report {}", run.label));
        }
        Some(RunStatus::Closed) => "To reopen it in a chat",
        Some(RunStatus::InProgress | RunStatus::Blocked) | None => "To continue in a chat",
    };
    output::line(&format!("\n  {what}, ask the agent to call {} with:", call.tool));
    output::line(&format!("    {}", call.arguments_text()));
}

/// Why the run does not advance, and what to type: the most important information.
fn needs(run: &RunReport, continuation: Option<&RunContinuation>) {
    let Some(need) = continuation.and_then(|continuation| continuation.need.as_ref()) else { return };
    output::line("");
    for (at, line) in every_reason(&need.why).iter().enumerate() {
        let line = words::one_line(line);
        match at {
            0 => output::toned(Tone::Warning, &format!("  {line}")),
            _ => output::line(&format!("    {line}")),
        }
    }
    if let Some(submitted) = submitted(&need.why) {
        output::line("  What the agent submitted:");
        submitted.lines().for_each(|line| output::toned(Tone::Quiet, format!("    {line}").trim_end()));
    }
    match &need.why {
        WaitReason::Approval { .. } | WaitReason::Questions { .. } | WaitReason::Unreadable { .. } => {
            output::toned(Tone::Warning, &format!("  {}", need.command));
        }
        // The command is the one that shows this.
        WaitReason::Refused { .. } | WaitReason::Gaps { .. } => {}
    }
    if let Some(or) = alternative(&need.why, run) {
        output::line(&format!("  {or}"));
    }
}

/// What else the user can do about it.
fn alternative(why: &WaitReason, run: &RunReport) -> Option<String> {
    let label = &run.label;
    match why {
        WaitReason::Approval { .. } => {
            Some(format!("or send it back: workrail reject {label} --reason TEXT"))
        }
        WaitReason::Refused { .. } => Some(format!(
            "The agent has this message. If its chat is gone, continue in a new one with the call below. If nobody \
             will finish it: workrail close {label} --reason TEXT"
        )),
        WaitReason::Questions { .. } | WaitReason::Gaps { .. } | WaitReason::Unreadable { .. } => None,
    }
}
