//! One session: its runs on one timeline, its notes, and its downloads.

use maud::{Markup, html};
use workrail_engine::html::{PageLinks, badges, banner, facts};
use workrail_engine::report::{Report, RunReport, Times, render_output};
use workrail_engine::upkeep::SessionOverview;
use workrail_engine::{RunPreferences, SessionOrRun};
use workrail_model::error::ErrorEnvelope;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::preferences::{Mode, Preferences, RunStatus};
use workrail_model::team::Act;
use workrail_model::text::clean;

use super::attention::signing;
use super::layout::token;
use super::timeline::timeline;
use super::{Page, PagePart, copyable, table, ticked};
use crate::files::downloads;
use crate::held::HELD_FOR;
use crate::state::Console;
use crate::target::{RunPage, run_address};
use crate::use_cases::EngineResult;

pub(super) fn page(console: &Console, session: SessionId) -> EngineResult<Page> {
    let view = match console.use_cases.show(SessionOrRun { session, run: None }, None) {
        Ok(view) => view,
        Err(error) => return unreadable(console, session, error),
    };
    let report = &view.report;
    let runs = report.runs.iter().map(|run| (run.run_id, run_address(run.run_id))).collect();
    let links = PageLinks { runs, ..PageLinks::default() };
    let mut parts = vec![
        PagePart::new(
            "session",
            html! {
                @for item in report.banners() { (banner(&item)) }
                (facts(&report.facts(Times::UTC), &links))
                p { (downloads(session, None)) }
            },
        ),
        PagePart::new("runs", runs_of(report, &links)),
    ];
    if let Ok(runs) = console.use_cases.preferences(SessionOrRun { session, run: None }) {
        parts.push(PagePart::new("preferences", preferences(console, session, &runs)));
    }
    if let Ok(seen) = console.use_cases.overview(session) {
        parts.push(PagePart::new("manage", manage(console, &seen)));
    }
    if !report.notes.is_empty() {
        let notes = html! {
            h2 { "Session notes" }
            @for note in &report.notes { (render_output(note, &links)) }
        };
        parts.push(PagePart::new("notes", notes));
    }
    Ok(Page { title: title(report), parts })
}

/// The title of the session: its first goal.
fn title(report: &Report) -> String {
    let goal = report.runs.iter().find_map(|run| run.goal.as_deref());
    goal.map_or_else(|| format!("Session {}", report.session_id), |goal| format!("Session: {goal}"))
}

/// Each run's autonomy, pending requests, and a form to ask for less.
fn preferences(console: &Console, session: SessionId, runs: &[RunPreferences]) -> Markup {
    let preferences_text = |preferences: Preferences| {
        format!("{}, {}", preferences.autonomy.as_str(), preferences.risk_policy.as_str())
    };
    let row = |run: &RunPreferences| {
        let node = RunPage { node: Some(run.applied_at), ..RunPage::of(run.run_id) };
        vec![
            html! { a href=(run_address(run.run_id)) { (run.label) } },
            html! { (preferences_text(run.applied)) " " a href={ (node.address()) "#node" } { "at this point" } },
            html! {
                @match run.pending {
                    Some(pending) => { (preferences_text(pending)) ", applied by the next completed step" }
                    None => span.quiet { "nothing pending" },
                }
                @if let Some(problem) = run.pending_problem { div.warn { (ticked(problem)) } }
            },
        ]
    };
    let is_open =
        |run: &RunPreferences| !matches!(run.status, Some(RunStatus::Complete | RunStatus::CompleteWithGaps));
    let signs = signing(console);
    html! {
        @if !runs.is_empty() {
            h2 { "Preferences" }
            (table(&["Run", "Applied", "Pending"], runs.iter().map(row)))
        }
        @if runs.iter().any(is_open) && console.may(Act::Decide) {
            form.filters method="post" action={ "/session/" (session) "/prefer" } data-passkey=[signs] {
                (token(console.form_token()))
                label { span.hidden { "Mode of the open runs" }
                    select name="mode" { @for mode in Mode::ALL { option value=(mode.as_str()) { (mode.as_str()) } } }
                }
                button type="submit" { "Ask for this mode" }
                span.meta {
                    @if signs.is_some() { "Your passkey signs it." }
                    @else { "Raising autonomy needs a passkey or a terminal." }
                }
            }
        }
    }
}

/// Keeping and deleting, as on the command line.
pub(super) fn manage(console: &Console, seen: &SessionOverview) -> Markup {
    let session = seen.session_id;
    let (action, name) = if seen.is_kept { ("unkeep", "Stop keeping") } else { ("keep", "Keep") };
    if !console.may(Act::Decide) {
        return html! {};
    }
    html! {
        h2 { "Keep or delete the session" }
        p { @if seen.is_kept { "Clean-up does not delete this session." } @else { "Clean-up may delete this session once it is finished or closed, and old." } }
        form method="post" action={ "/session/" (session) "/" (action) } {
            (token(console.form_token()))
            button type="submit" { (name) }
        }
        @if !seen.is_kept && console.may(Act::Administer) {
            // One process holds an undoable deletion, but any server of a team may answer.
            @if !console.is_of_team() { form method="post" action={ "/session/" (session) "/delete" } {
                (token(console.form_token()))
                button type="submit" { "Delete" }
                " " span.meta { "You can undo it for " (HELD_FOR.as_secs()) " seconds." }
            } }
            details data-key="delete" {
                summary { "Delete at once" }
                p { "This cannot be undone. Export the session first if it may be needed." }
                form.filters method="post" action={ "/session/" (session) "/delete-now" } {
                    (token(console.form_token()))
                    input type="hidden" name="events" value=(seen.events);
                    label { span { "Type the session's id or a run's label" }
                        input type="text" name="typed" autocomplete="off";
                    }
                    button type="submit" { "Delete for good" }
                }
            }
        }
    }
}

/// A session that cannot be trusted at all is shown with its damage; any other failure stays an error.
fn unreadable(console: &Console, session: SessionId, error: Box<ErrorEnvelope>) -> EngineResult<Page> {
    let list = console.sessions()?;
    let Some(row) = list.damaged.iter().find(|row| row.session_id == session) else {
        // A missing session is reported as on the command line.
        return Err(console.use_cases.find(&session.to_string()).err().unwrap_or(error));
    };
    let what = match row.health {
        SessionHealth::Healthy | SessionHealth::CorruptTail { .. } => {
            "Its beginning is intact, but cannot be shown now. This shows what a repair keeps and loses:"
        }
        SessionHealth::CorruptHead { .. } => {
            "It cannot be shown until it is repaired. This shows what a repair keeps and loses:"
        }
        SessionHealth::UnknownVersion { .. } => {
            "A newer version of WorkRail wrote it. Nothing is lost. Update WorkRail, then open it again."
        }
    };
    let repairs = !matches!(row.health, SessionHealth::UnknownVersion { .. });
    let body = html! {
        div.banner { strong { "Damaged session." } " " (clean(&row.health.damage().unwrap_or_default())) }
        p { (what) }
        @if repairs {
            (copyable(&format!("workrail store repair {session} --dry-run")))
            p { (ticked("Without `--dry-run` it backs up the session, then repairs it.")) }
        }
    };
    let mut parts = vec![PagePart::new("session", body)];
    if let Ok(seen) = console.use_cases.overview(session) {
        parts.push(PagePart::new("manage", manage(console, &seen)));
    }
    Ok(Page { title: format!("Session {session}"), parts })
}

fn runs_of(report: &Report, links: &PageLinks) -> Markup {
    html! {
        h2 { "Runs" }
        @if report.runs.is_empty() { p.quiet { "This session holds notes and no run." } }
        (timeline(&report.runs))
        @for run in &report.runs { (summary(run, links)) }
    }
}

fn summary(run: &RunReport, links: &PageLinks) -> Markup {
    let facts = run.facts(Times::UTC);
    html! {
        article.card data-item {
            header { h3 { a href=(run_address(run.run_id)) { (run.label) } } (badges(&facts, links)) }
            @if let Some(goal) = &run.goal { p.goal { (clean(goal)) } }
            p.meta {
                (run.workflow.workflow_id)
                @if let Some(progress) = &run.progress { " · step " (progress) }
                @if let Some(parent) = &run.parent {
                    " · started inside " a href=(run_address(parent.run_id)) { (parent.label) }
                }
            }
        }
    }
}
