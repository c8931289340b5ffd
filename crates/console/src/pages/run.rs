//! One run: what it needs, its path, and the selected point with everything recorded there.

use std::collections::BTreeMap;

use maud::{Markup, html};
use workrail_engine::html::{PageLinks, badges, banner, facts, table};
use workrail_engine::report::{
    BRANCHES, NodeReport, PREFERENCES, PathAddresses, Report, ReportSection, RunReport, Times, draw_path,
    render_node, render_notes,
};
use workrail_engine::sessions::{Attention, RunContinuation};
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::preferences::RunStatus;
use workrail_model::team::Act;
use workrail_model::text::clean;

use super::attention::needs;
use super::compare::{attempt_links, branch_links};
use super::layout::token;
use super::session::manage;
use super::{Page, PagePart, call_text, copyable};
use crate::files::downloads;
use crate::state::Console;
use crate::target::{ComparePage, ComparedRef, PageAddress, RunPage, run_address};
use crate::use_cases::EngineResult;

pub(super) fn page(console: &Console, asked: &RunPage) -> EngineResult<Page> {
    let found = console.use_cases.find(&asked.run.to_string())?;
    let view = console.use_cases.show(found, asked.node)?;
    let session = found.session;
    let Some(run) = view.report.runs.iter().find(|run| run.run_id == asked.run) else {
        return Ok(Page { title: "Run".to_owned(), parts: vec![PagePart::new("run", nothing(session))] });
    };
    let links = links(&view.report, run, asked);
    let chosen = asked.node.or(run.tip);
    let shown = run.nodes.iter().find(|node| Some(node.node_id) == chosen);
    // A damaged session has no waiting step.
    let attention = match view.report.health.is_healthy() {
        true => console.use_cases.attention(session, asked.run),
        false => Ok(None),
    };
    let continuation = view.continuations.iter().find(|continuation| continuation.run_id == asked.run);
    let mut parts = vec![
        PagePart::new("run", head(console, &view.report, (run, asked), &attention, &links)),
        PagePart::new("latest", latest(run, continuation)),
        PagePart::new("graph", path(run, asked, chosen)),
    ];
    let node = match shown {
        Some(shown) => {
            let attention = attention.as_ref().ok().and_then(Option::as_ref);
            point(console, session, (run, shown), attention, &links)
        }
        None => html! { h2 { "Point" } p.warn { "This run has no such point." } },
    };
    parts.push(PagePart::new("node", node));
    parts.push(PagePart::new("tables", tables(run, &links)));
    if let Some(continuation) = continuation.filter(|_| !is_complete(run) && !run.is_damaged) {
        parts.push(PagePart::new("continue", continuation_part(continuation)));
        if run.status != Some(RunStatus::Closed) {
            parts.push(PagePart::new("close", close(console, asked)));
        }
    }
    if let Ok(seen) = console.use_cases.overview(session) {
        parts.push(PagePart::new("manage", manage(console, &seen)));
    }
    let goal = run.goal.as_deref().map(|goal| format!(": {goal}")).unwrap_or_default();
    Ok(Page { title: format!("{}{goal}", run.label), parts })
}

/// Nothing is left to continue with.
fn is_complete(run: &RunReport) -> bool {
    match run.status {
        Some(RunStatus::Complete | RunStatus::CompleteWithGaps) => true,
        // The next step reopens a closed run.
        Some(RunStatus::InProgress | RunStatus::Blocked | RunStatus::Closed) | None => false,
    }
}

fn nothing(session: SessionId) -> Markup {
    html! {
        p { "The part of the session that can be read does not have this run." }
        p { a href=(PageAddress::Session(session).address()) { "Open the session" } }
    }
}

fn point_address(page: &RunPage, node: NodeId) -> String {
    format!("{}#node", page.at(node).address())
}

fn links(report: &Report, run: &RunReport, asked: &RunPage) -> PageLinks {
    let points = run.nodes.iter().map(|node| (node.point.clone(), point_address(asked, node.node_id)));
    let mut runs: BTreeMap<RunId, String> =
        report.runs.iter().map(|run| (run.run_id, run_address(run.run_id))).collect();
    // The report of a single run does not list its parent.
    runs.extend(run.parent.iter().map(|parent| (parent.run_id, run_address(parent.run_id))));
    PageLinks { points: points.collect(), runs }
}

fn head(
    console: &Console,
    report: &Report,
    (run, asked): (&RunReport, &RunPage),
    attention: &EngineResult<Option<Attention>>,
    links: &PageLinks,
) -> Markup {
    let run_facts = run.facts(Times::UTC);
    html! {
        @for item in report.banners() { (banner(&item)) }
        p { (badges(&run_facts, links)) }
        @match attention {
            Ok(Some(attention)) => {
                article.card { (needs(console, run.run_id, attention, &asked.address())) }
            }
            Ok(None) => {}
            Err(error) => p.bad { (clean(&error.message)) },
        }
        (facts(&run_facts, links))
        p {
            a href=(PageAddress::Session(report.session_id).address()) { "Session" }
            " · " a href=(PageAddress::Compare(ComparePage { a: ComparedRef::whole(run.run_id), b: None }).address()) { "Compare" }
            " · " (downloads(report.session_id, Some(run.run_id)))
        }
    }
}

/// What the agent wrote last: the result of a finished run, or what an open one did before its current step.
fn latest(run: &RunReport, continuation: Option<&RunContinuation>) -> Markup {
    let recap = continuation.and_then(|continuation| continuation.recap.as_ref());
    html! {
        @if let Some(last) = recap.and_then(|recap| recap.entries.last()) {
            h2 { @if is_complete(run) { "Outcome" } @else { "Latest notes" } " " span.count { (clean(&last.title)) ", claimed" } }
            (render_notes(&last.notes))
        }
    }
}

fn path(run: &RunReport, asked: &RunPage, chosen: Option<NodeId>) -> Markup {
    let addresses = PathAddresses {
        point: &|node| point_address(asked, node),
        open: &|part| format!("{}#graph", asked.with_open(part).address()),
        fold: &|part| format!("{}#graph", asked.with_folded(part).address()),
    };
    let is_open = asked.is_all_open || !asked.open.is_empty();
    html! {
        header.tools {
            h2 { "Path" }
            @if run.nodes.len() > 1 {
                @if asked.is_all_open { a href={ (asked.with_all(false).address()) "#graph" } { "Fold" } }
                @else {
                    a href={ (asked.with_all(true).address()) "#graph" } { "Open all" }
                    @if is_open { a href={ (asked.with_all(false).address()) "#graph" } { "Fold" } }
                }
            }
            span.zoom hidden data-with-script {
                button type="button" data-zoom="in" aria-label="Larger" { "+" }
                button type="button" data-zoom="out" aria-label="Smaller" { "−" }
                button type="button" data-zoom="reset" { "Reset" }
            }
        }
        div.scroll.path tabindex="0" role="region" aria-label="Path of the run" {
            (draw_path(&run.nodes, &asked.opened(chosen), addresses))
        }
    }
}

/// Everything about one point, except what the page already shows above, next to the decision.
fn point(
    console: &Console,
    session: SessionId,
    (run, node): (&RunReport, &NodeReport),
    attention: Option<&Attention>,
    links: &PageLinks,
) -> Markup {
    let text = console.use_cases.step_text(session, node.node_id);
    let hidden = match attention {
        Some(Attention::Person(waiting)) if waiting.node == node.node_id => {
            node.attempts.last().map(|last| last.attempt_id)
        }
        Some(Attention::Person(_) | Attention::Agent { .. }) | None => None,
    };
    html! {
        h2 { "Point " (node.point) }
        @match text {
            Ok(Some(text)) => {
                // If nothing was submitted yet, the agent is working on it.
                details data-key={ "prompt-" (node.node_id) } open[node.attempts.is_empty()] {
                    summary { "Prompt as the agent gets it" }
                    pre { (clean(&text)) }
                }
            }
            Ok(None) => {}
            Err(error) => p.warn { (clean(&error.message)) },
        }
        (render_node(node, links, hidden))
        @for (text, address) in attempt_links(run.run_id, node) { p { a href=(address) { (text) } } }
        @for section in run.sections_at(node, Times::UTC) {
            h3 { (clean(&section.title)) }
            (table(&section, links))
        }
    }
}

fn tables(run: &RunReport, links: &PageLinks) -> Markup {
    // The run's preferences repeat those of the point, unless they were changed.
    let is_shown = |section: &ReportSection| section.title != PREFERENCES || section.rows.len() > 1;
    html! {
        @for section in run.sections(Times::UTC).into_iter().filter(is_shown) {
            h2 { (clean(&section.title)) }
            (table(&section, links))
            @if section.title == BRANCHES {
                p { @for (index, (text, address)) in branch_links(run).iter().enumerate() {
                    @if index > 0 { " · " } a href=(address) { (text) }
                } }
            }
        }
    }
}

fn continuation_part(continuation: &RunContinuation) -> Markup {
    html! {
        @if let Some(call) = &continuation.next_call {
            h2 { "Continue from here" }
            p { "Give an agent this call. It returns the pending step and changes nothing by itself." }
            (copyable(&call_text(call)))
        }
        @if let Some(pending) = &continuation.pending_preferences {
            p { "Pending: " (pending.autonomy.as_str()) ", applied when the next step is completed." }
        }
    }
}

/// For a run that will not be finished.
fn close(console: &Console, asked: &RunPage) -> Markup {
    if !console.may(Act::Decide) {
        return html! {};
    }
    html! {
        details data-key="close" {
            summary { "Close this run" }
            p { "Nobody will finish it: it no longer counts as running or waiting, and clean-up may delete it once it is old." }
            form method="post" action={ "/run/" (asked.run) "/close" } {
                (token(console.form_token()))
                input type="hidden" name="back" value=(asked.address());
                label for="close-reason" { "Why" }
                textarea id="close-reason" name="reason" rows="2" required {}
                button type="submit" { "Close" }
            }
        }
    }
}
