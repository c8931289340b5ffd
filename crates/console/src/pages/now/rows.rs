//! Runs and sessions on the first page: cards with what they need, table rows, and actions on sessions.

use std::collections::BTreeMap;

use maud::{Markup, html};
use workrail_engine::html::{chip, chip_of};
use workrail_engine::report::SpanTone;
use workrail_engine::sessions::{DamagedRow, RunRow, SessionsList, Stage};
use workrail_model::id::{RunId, SessionId};
use workrail_model::team::Act;
use workrail_model::text::clean;

use super::super::attention::needs;
use super::super::layout::token;
use super::super::time;
use crate::state::Console;
use crate::target::{ComparePage, ComparedRef, Filters, PageAddress, run_address};

/// The labels of runs, to show in which run another one was started.
pub(super) struct Nesting<'a>(BTreeMap<RunId, &'a str>);

impl<'a> Nesting<'a> {
    pub(super) fn of(list: &'a SessionsList) -> Self {
        let labels = list.runs.iter().filter_map(|row| Some((row.run_id?, row.label.as_deref()?)));
        Self(labels.collect())
    }

    /// The parent of a run, as a line of small text.
    fn inside(&self, row: &RunRow) -> Markup {
        let parent = row.parent.and_then(|parent| Some((parent, self.0.get(&parent)?)));
        html! {
            @if let Some((parent, label)) = parent { " · inside " a href=(run_address(parent)) { (label) } }
        }
    }
}

pub(super) fn count(count: usize) -> Markup {
    html! { span.count { (count) } }
}

/// A button that does something to a session.
pub(super) fn session_form(console: &Console, session: SessionId, action: &str, name: &str) -> Markup {
    html! {
        form.inline method="post" action={ "/session/" (session) "/" (action) } {
            (token(console.form_token()))
            button type="submit" { (name) }
        }
    }
}

/// What the menu of a row offers.
fn offered(console: &Console) -> &'static str {
    if console.may(Act::Decide) { "Compare, close, keep or delete" } else { "Compare" }
}

/// Keeping and deleting, as on the command line: for a session in any state; a kept one cannot be deleted.
fn keep_or_delete(console: &Console, session: SessionId) -> Markup {
    html! {
        @if !console.may(Act::Decide) {}
        @else if console.use_cases.is_kept(session) { (session_form(console, session, "unkeep", "Stop keeping")) }
        @else {
            (session_form(console, session, "keep", "Keep"))
            // One process holds an undoable deletion, but any server of a team may answer.
            @if !console.is_of_team() { (session_form(console, session, "delete", "Delete")) }
        }
    }
}

fn address(row: &RunRow) -> String {
    row.run_id.map_or_else(|| PageAddress::Session(row.session_id).address(), run_address)
}

fn name(row: &RunRow) -> &str {
    row.label.as_deref().unwrap_or("notes")
}

/// A run that needs the user, with what it needs and the action.
pub(super) fn card(console: &Console, row: &RunRow, filters: &Filters, nesting: &Nesting<'_>) -> Markup {
    let attention = row.run_id.map(|run| (run, console.use_cases.attention(row.session_id, run)));
    html! {
        article.card data-item {
            header {
                h3 { a href=(address(row)) { (name(row)) } }
                (chip_of(row.stage))
                @if let Some(at) = &row.last_at { (time(at)) }
                @if let Some(actor) = &row.last_actor { span.meta { "by " (clean(actor)) } }
            }
            @if let Some(goal) = &row.goal { p.goal { (clean(goal)) } }
            p.meta {
                @if let Some(id) = &row.workflow_id { (id) }
                @if let Some(step) = &row.step { " · step " (step.progress) }
                (nesting.inside(row))
            }
            @match &attention {
                Some((run, Ok(Some(found)))) => (needs(console, *run, found, &filters.address())),
                Some((_, Err(error))) => p.bad { (clean(&error.message)) },
                // Unreadable, or the run advanced while this page was being rendered.
                Some((_, Ok(None))) | None => p { a href=(address(row)) { "Open the run" } },
            }
            @if console.may(Act::Decide) {
                details.more data-key={ "more-" (row.session_id) "-" (name(row)) } {
                    summary { "Keep or delete" }
                    (keep_or_delete(console, row.session_id))
                }
            }
        }
    }
}

pub(super) fn table<'a>(
    console: &Console,
    rows: impl Iterator<Item = &'a RunRow>,
    nesting: &Nesting<'_>,
) -> Markup {
    let rows: Vec<&RunRow> = rows.collect();
    let has_steps = rows.iter().any(|row| has_step(row));
    html! {
        div.scroll {
            table.runs {
                thead {
                    tr {
                        th { "Run" } th { "Goal" } th { "Status" }
                        // A finished run is at no step.
                        @if has_steps { th { "Step" } }
                        th { "Last" }
                        th { span.hidden { "Actions" } }
                    }
                }
                tbody { @for item in rows { (row(console, item, has_steps, nesting)) } }
            }
        }
    }
}

fn has_step(row: &RunRow) -> bool {
    row.step.is_some() || row.stage == Stage::NotesOnly
}

fn row(console: &Console, row: &RunRow, has_steps: bool, nesting: &Nesting<'_>) -> Markup {
    html! {
        tr data-item {
            td {
                a href=(address(row)) { (name(row)) }
                @if let Some(id) = &row.workflow_id { div.meta { (id) (nesting.inside(row)) } }
            }
            td { (clean(row.goal.as_deref().unwrap_or_default())) }
            td { (chip_of(row.stage)) }
            @if has_steps {
                td {
                    @if let Some(step) = &row.step { (clean(&step.title)) div.meta { "step " (step.progress) } }
                    @else if row.stage == Stage::NotesOnly { span.quiet { "no run" } }
                }
            }
            td {
                @if let Some(at) = &row.last_at { (time(at)) }
                @if let Some(actor) = &row.last_actor { div.meta { "by " (clean(actor)) } }
            }
            td.actions-of-row {
                details data-key={ "more-" (row.session_id) "-" (name(row)) } {
                    summary aria-label={ (offered(console)) " " (name(row)) } { "…" }
                    @if let Some(run) = row.run_id {
                        @let page = ComparePage { a: ComparedRef::whole(run), b: None };
                        a href=(PageAddress::Compare(page).address()) aria-label={ "Compare " (name(row)) } { "Compare" } " "
                        @if row.stage == Stage::InProgress && console.may(Act::Decide) {
                            a href={ (run_address(run)) "#close-reason" } aria-label={ "Close " (name(row)) } { "Close" } " "
                        }
                    }
                    (keep_or_delete(console, row.session_id))
                }
            }
        }
    }
}

pub(super) fn damaged(rows: &[&DamagedRow], all: usize, more: Option<Markup>) -> Markup {
    html! {
        h2 { "Damaged sessions " (count(all)) }
        @if rows.is_empty() { p.quiet { "No damaged session." } }
        @else {
            div.scroll {
                table.stacked {
                    thead { tr { th { "Session" } th { "Runs" } th { "What is wrong" } } }
                    tbody {
                        @for row in rows {
                            tr data-item {
                                td { a href=(PageAddress::Session(row.session_id).address()) { code { (row.session_id) } } }
                                td { (row.labels.join(", ")) }
                                td { (chip(SpanTone::Bad, "damaged")) " " (clean(&row.health.damage().unwrap_or_default())) }
                            }
                        }
                    }
                }
            }
            @if let Some(more) = more { (more) }
            p { code { "workrail store repair SESSION --dry-run" } " shows what can be kept; without " code { "--dry-run" } " it repairs." }
        }
    }
}
