//! The first page: what needs me and the action that moves it, then what runs, then what is done.

use std::collections::BTreeSet;

use maud::{Markup, html};
use workrail_engine::html::chip_of;
use workrail_engine::sessions::{DamagedRow, RunRow, SessionsList, Stage};
use workrail_model::text::clean;

use super::attention::needs;
use super::{Page, Part, time};
use crate::forms::From;
use crate::state::Console;
use crate::target::{Filters, StatusFilter, Target, run_address};
use crate::use_cases::Answer;

/// Cards with their whole text on one page.
const CARDS_MAX: usize = 20;
/// Rows of a table on one page.
const ROWS_MAX: usize = 100;
/// Rows of a table beside others.
const ROWS_BESIDE_MAX: usize = 15;

pub(super) fn page(console: &Console, filters: &Filters) -> Answer<Page> {
    let list = console.sessions()?;
    let fitting: Vec<&RunRow> = list.runs.iter().filter(|row| fits(row, filters)).collect();
    let mut parts = vec![Part::new("filters", form(&list, filters))];
    match filters.status {
        Some(StatusFilter::Damaged) => parts.push(Part::new("damaged", damaged(&list.damaged, true))),
        Some(status) => parts.push(listed(console, status, &fitting, filters)),
        None => parts.extend(overview(console, &list, &fitting, filters)),
    }
    if filters.is_empty() {
        parts.push(Part::new("import", import(console)));
    }
    Ok(Page { title: "Now".to_owned(), parts })
}

fn fits(row: &RunRow, filters: &Filters) -> bool {
    let workflow = row.workflow_id.as_ref().map(|id| id.as_str()).unwrap_or_default();
    if !filters.workflow.is_empty() && workflow != filters.workflow {
        return false;
    }
    if filters.words.is_empty() {
        return true;
    }
    let (session, run) =
        (row.session_id.to_string(), row.run_id.map(|run| run.to_string()).unwrap_or_default());
    let texts = [
        row.label.as_deref().unwrap_or_default(),
        row.goal.as_deref().unwrap_or_default(),
        row.step.as_ref().map(|step| step.title.as_str()).unwrap_or_default(),
        workflow,
        &session,
        &run,
    ];
    let text = texts.join(" ").to_lowercase();
    filters.words.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

fn form(list: &SessionsList, filters: &Filters) -> Markup {
    let workflows: BTreeSet<&str> =
        list.runs.iter().filter_map(|row| row.workflow_id.as_ref().map(|id| id.as_str())).collect();
    html! {
        form.filters method="get" action="/" role="search" {
            label { span.hidden { "Search" }
                input type="search" name="q" value=(filters.words) placeholder="Label, goal, step or id" data-search;
            }
            label { span.hidden { "Status" }
                select name="status" data-submit {
                    option value="" { "Every status" }
                    @for own in StatusFilter::ALL {
                        option value=(own.as_str()) selected[filters.status == Some(own)] { (own.title()) }
                    }
                }
            }
            label { span.hidden { "Workflow" }
                select name="workflow" data-submit {
                    option value="" { "Every workflow" }
                    @for own in &workflows {
                        option value=(own) selected[filters.workflow == **own] { (own) }
                    }
                }
            }
            button type="submit" { "Search" }
            @if !filters.is_empty() { a href="/" { "Clear" } }
            @if !filters.words.is_empty() {
                a href=(Target::Search { words: filters.words.clone() }.address()) { "Search the notes" }
            }
        }
    }
}

fn overview(console: &Console, list: &SessionsList, fitting: &[&RunRow], filters: &Filters) -> Vec<Part> {
    let of = |status: StatusFilter| -> Vec<&RunRow> {
        fitting.iter().filter(|row| StatusFilter::of(row.stage) == status).copied().collect()
    };
    let waiting = of(StatusFilter::NeedsMe);
    let running = of(StatusFilter::Running);
    let mut finished = of(StatusFilter::Finished);
    let all_finished = finished.len();
    let now = console.environment.now();
    let today = &now.as_str()[..10];
    // A search looks at all of them.
    if filters.is_empty() {
        finished.retain(|row| row.last_at.as_ref().is_some_and(|at| at.as_str().starts_with(today)));
    }
    finished.sort_by_key(|row| std::cmp::Reverse(row.activity));
    let name = if filters.is_empty() { "Done today" } else { "Finished" };
    let more = |status, shown: usize, all: usize| (shown < all).then(|| more_link(filters, status, all));
    let mut parts = vec![
        Part::new(
            "needs",
            html! {
                h2 { "Needs you " (count(waiting.len())) }
                @if waiting.is_empty() {
                    p.quiet { (if list.sessions == 0 { EMPTY } else { "Nothing waits for you." }) }
                }
                @for row in waiting.iter().take(CARDS_MAX) { (card(console, row)) }
                @if let Some(more) = more(StatusFilter::NeedsMe, CARDS_MAX.min(waiting.len()), waiting.len()) { (more) }
            },
        ),
        Part::new(
            "running",
            html! {
                h2 { "Running " (count(running.len())) }
                @if running.is_empty() { p.quiet { "No run is in progress." } }
                @else { (table(running.iter().take(ROWS_BESIDE_MAX).copied())) }
                @if let Some(more) = more(StatusFilter::Running, ROWS_BESIDE_MAX.min(running.len()), running.len()) { (more) }
            },
        ),
        Part::new(
            "done",
            html! {
                h2 { (name) " " (count(finished.len())) }
                @if finished.is_empty() { p.quiet { "No run was finished." } }
                @else { (table(finished.iter().take(ROWS_BESIDE_MAX).copied())) }
                @if let Some(more) = more(StatusFilter::Finished, ROWS_BESIDE_MAX.min(finished.len()), all_finished) { (more) }
            },
        ),
    ];
    if !list.damaged.is_empty() && filters.is_empty() {
        parts.push(Part::new("damaged", damaged(&list.damaged, false)));
    }
    parts
}

const EMPTY: &str = "No sessions yet. An agent starts one with start_workflow; `workrail setup install` adds WorkRail to a client.";

fn count(count: usize) -> Markup {
    html! { span.count { (count) } }
}

fn more_link(filters: &Filters, status: StatusFilter, all: usize) -> Markup {
    let address = Filters { status: Some(status), page: 1, ..filters.clone() }.address();
    html! { p { a href=(address) { "All " (all) } } }
}

/// One list, page by page.
fn listed(console: &Console, status: StatusFilter, fitting: &[&RunRow], filters: &Filters) -> Part {
    let mut rows: Vec<&RunRow> =
        fitting.iter().filter(|row| StatusFilter::of(row.stage) == status).copied().collect();
    if status == StatusFilter::Finished {
        rows.sort_by_key(|row| std::cmp::Reverse(row.activity));
    }
    let per_page = if status == StatusFilter::NeedsMe { CARDS_MAX } else { ROWS_MAX };
    let pages = rows.len().div_ceil(per_page).max(1);
    let page = filters.page.min(pages);
    let shown = rows.iter().skip((page - 1) * per_page).take(per_page).copied();
    let to = |page: usize| Filters { page, ..filters.clone() }.address();
    let body = html! {
        h2 { (status.title()) " " (count(rows.len())) }
        @if rows.is_empty() { p.quiet { "Nothing matches." } }
        @else if status == StatusFilter::NeedsMe { @for row in shown { (card(console, row)) } }
        @else { (table(shown)) }
        @if pages > 1 {
            nav.pages aria-label="Pages of the list" {
                @if page > 1 { a href=(to(page - 1)) rel="prev" { "Previous" } }
                span { "Page " (page) " of " (pages) }
                @if page < pages { a href=(to(page + 1)) rel="next" { "Next" } }
            }
        }
    };
    Part::new("list", body)
}

fn address(row: &RunRow) -> String {
    row.run_id.map_or_else(|| Target::Session(row.session_id).address(), run_address)
}

fn name(row: &RunRow) -> &str {
    row.label.as_deref().unwrap_or("notes")
}

/// A run that needs somebody, with what it needs and the action.
fn card(console: &Console, row: &RunRow) -> Markup {
    let attention = row.run_id.map(|run| (run, console.use_cases.attention(row.session_id, run)));
    html! {
        article.card data-item {
            header {
                h3 { a href=(address(row)) { (name(row)) } }
                (chip_of(row.stage))
                @if let Some(at) = &row.last_at { (time(at)) }
            }
            @if let Some(goal) = &row.goal { p.goal { (clean(goal)) } }
            p.meta {
                @if let Some(id) = &row.workflow_id { (id) }
                @if let Some(step) = &row.step { " · step " (step.progress) }
            }
            @match &attention {
                Some((run, Ok(Some(found)))) => (needs(console, *run, found, From::Now)),
                Some((_, Err(error))) => p.bad { (clean(&error.message)) },
                // Unreadable, or it moved on while this page was made.
                Some((_, Ok(None))) | None => p { a href=(address(row)) { "Open the run" } },
            }
        }
    }
}

fn table<'a>(rows: impl Iterator<Item = &'a RunRow>) -> Markup {
    html! {
        div.scroll {
            table.runs {
                thead { tr { th { "Run" } th { "Goal" } th { "Status" } th { "Step" } th { "Last" } } }
                tbody { @for own in rows { (row(own)) } }
            }
        }
    }
}

fn row(row: &RunRow) -> Markup {
    html! {
        tr data-item {
            td {
                a href=(address(row)) { (name(row)) }
                @if let Some(id) = &row.workflow_id { div.meta { (id) } }
            }
            td { (clean(row.goal.as_deref().unwrap_or_default())) }
            td { (chip_of(row.stage)) }
            td {
                @if let Some(step) = &row.step { (clean(&step.title)) div.meta { "step " (step.progress) } }
                @else if row.stage == Stage::NotesOnly { span.quiet { "no run" } }
            }
            td { @if let Some(at) = &row.last_at { (time(at)) } }
        }
    }
}

/// The script sends the file; without it there is the command.
fn import(console: &Console) -> Markup {
    html! {
        h2 { "Import a session" }
        p data-without-script { code { "workrail session import FILE" } " takes in a session that was exported." }
        p hidden data-with-script {
            label { "A bundle that was exported " input type="file" accept=".json" data-import=(console.guard.form_token()); }
            " " span.bad role="status" data-import-said {}
        }
    }
}

fn damaged(rows: &[DamagedRow], all: bool) -> Markup {
    let limit = if all { usize::MAX } else { ROWS_BESIDE_MAX };
    html! {
        h2 { "Damaged sessions " (count(rows.len())) }
        @if rows.is_empty() { p.quiet { "No damaged session." } }
        @else {
            div.scroll {
                table {
                    thead { tr { th { "Session" } th { "Runs" } th { "What is wrong" } } }
                    tbody {
                        @for row in rows.iter().take(limit) {
                            tr data-item {
                                td { a href=(Target::Session(row.session_id).address()) { code { (row.session_id) } } }
                                td { (row.labels.join(", ")) }
                                td { (clean(&row.health.damage().unwrap_or_default())) }
                            }
                        }
                    }
                }
            }
            p { code { "workrail store verify" } " explains the damage and what can be repaired." }
        }
    }
}
