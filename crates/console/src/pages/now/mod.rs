//! The first page: what needs the user, with its action, then running work, then finished work.

mod filters;
mod rows;

use maud::{Markup, html};
use workrail_engine::sessions::{DamagedRow, RunRow, SessionsList};
use workrail_model::team::Act;
use workrail_model::text::clean;
use workrail_model::time::Timestamp;

use super::{Page, PagePart, ticked};
use crate::held::HeldState;
use crate::state::Console;
use crate::target::{Filters, StatusFilter};
use crate::use_cases::EngineResult;
use filters::{Choices, form, is_meant};
use rows::{Nesting, card, count, damaged, session_form, table};

/// Cards with their whole text on one page.
const CARDS_MAX: usize = 20;
/// Rows of a table on one page.
const ROWS_MAX: usize = 100;
/// Cards of a list in the overview of all lists.
const OVERVIEW_CARDS_MAX: usize = 5;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Rows of a table in the overview of all lists.
const OVERVIEW_ROWS_MAX: usize = 15;

pub(super) fn page(console: &Console, filters: &Filters) -> EngineResult<Page> {
    let list = console.sessions()?;
    let choices = Choices::of(console, &list, filters);
    let is_listed = |row: &&RunRow| !console.held().is_held(row.session_id);
    let fitting: Vec<&RunRow> =
        list.runs.iter().filter(is_listed).filter(|row| choices.fit(row, filters)).collect();
    let mut parts =
        vec![PagePart::new("filters", form(&choices, filters)), PagePart::new("held", held(console))];
    match filters.status {
        Some(StatusFilter::Damaged) => {
            parts.push(PagePart::new("damaged", all_damaged(&list.damaged, filters)))
        }
        Some(status) => parts.push(listed(console, status, (&fitting, &Nesting::of(&list)), filters)),
        None => parts.extend(overview(console, &list, &fitting, filters)),
    }
    if filters.is_empty() {
        parts.push(PagePart::new("import", import(console)));
    }
    Ok(Page { title: "Now".to_owned(), parts })
}

/// Deletions that can still be undone, and those that were refused.
fn held(console: &Console) -> Markup {
    html! {
        @for held in console.held().list() {
            div.banner.remark {
                @match &held.state {
                    HeldState::Held => {
                        strong { "Deleting " (clean(&held.name)) } " in a few seconds. "
                        (session_form(console, held.session, "undo", "Undo"))
                    }
                    HeldState::Deleting => strong { "Deleting " (clean(&held.name)) "." },
                    HeldState::Refused(reason) => {
                        strong { (clean(&held.name)) " was not deleted." } " " (ticked(reason)) " "
                        (session_form(console, held.session, "undo", "Dismiss"))
                    }
                }
            }
        }
    }
}

fn overview(console: &Console, list: &SessionsList, fitting: &[&RunRow], filters: &Filters) -> Vec<PagePart> {
    let of = |status: StatusFilter| -> Vec<&RunRow> {
        fitting.iter().filter(|row| StatusFilter::of(row.stage) == status).copied().collect()
    };
    let mut waiting = of(StatusFilter::NeedsMe);
    waiting.sort_by_key(|row| row.activity);
    let blocked = of(StatusFilter::Blocked);
    let running = of(StatusFilter::Running);
    let mut finished = of(StatusFilter::Finished);
    let all_finished = finished.len();
    let now = console.environment.now().epoch_ms().unwrap_or_default();
    let is_recent = |row: &&RunRow| {
        row.last_at.as_ref().and_then(Timestamp::epoch_ms).is_some_and(|at| now - at < DAY_MS)
    };
    // A search covers all of them.
    if filters.is_empty() {
        finished.retain(is_recent);
    }
    finished.sort_by_key(|row| std::cmp::Reverse(row.activity));
    let name = if filters.is_empty() { "Done in the last day" } else { "Finished" };
    let none = |text: &'static str| if filters.is_empty() { text } else { "Nothing matches." };
    let more = |status, shown: usize, all: usize| (shown < all).then(|| more_link(filters, status, all));
    let broken: Vec<&DamagedRow> = list.damaged.iter().filter(|row| is_meant(row, filters)).collect();
    let counts = [
        ("needs", waiting.len(), "needs you", "need you"),
        ("blocked", blocked.len(), "blocked", "blocked"),
        ("running", running.len(), "running", "running"),
        ("done", finished.len(), "done", "done"),
        ("damaged", broken.len(), "damaged", "damaged"),
    ];
    let nesting = Nesting::of(list);
    let mut parts = vec![
        PagePart::new("summary", summary(&counts)),
        PagePart::new(
            "needs",
            html! {
                h2 { "Needs you " (count(waiting.len())) }
                @if waiting.is_empty() {
                    p.quiet { (ticked(if list.sessions == 0 { EMPTY } else { none("Nothing waits for you.") })) }
                }
                @for row in waiting.iter().take(CARDS_MAX) { (card(console, row, filters, &nesting)) }
                @if let Some(more) = more(StatusFilter::NeedsMe, CARDS_MAX.min(waiting.len()), waiting.len()) { (more) }
            },
        ),
        PagePart::new(
            "blocked",
            html! {
                @if !blocked.is_empty() {
                    h2 { "Blocked: the agent has to correct its work " (count(blocked.len())) }
                    @for row in blocked.iter().take(OVERVIEW_CARDS_MAX) { (card(console, row, filters, &nesting)) }
                    @if let Some(more) = more(StatusFilter::Blocked, OVERVIEW_CARDS_MAX.min(blocked.len()), blocked.len()) { (more) }
                }
            },
        ),
        PagePart::new(
            "running",
            html! {
                h2 { "Running " (count(running.len())) }
                @if running.is_empty() { p.quiet { (none("No run is in progress.")) } }
                @else { (table(console, running.iter().take(OVERVIEW_ROWS_MAX).copied(), &nesting)) }
                @if let Some(more) = more(StatusFilter::Running, OVERVIEW_ROWS_MAX.min(running.len()), running.len()) { (more) }
            },
        ),
        PagePart::new(
            "done",
            html! {
                h2 { (name) " " (count(finished.len())) }
                @if finished.is_empty() { p.quiet { (none("No run was finished.")) } }
                @else { (table(console, finished.iter().take(OVERVIEW_ROWS_MAX).copied(), &nesting)) }
                @if let Some(more) = more(StatusFilter::Finished, OVERVIEW_ROWS_MAX.min(finished.len()), all_finished) { (more) }
            },
        ),
    ];
    if !broken.is_empty() {
        let shown = &broken[..OVERVIEW_ROWS_MAX.min(broken.len())];
        let all = more(StatusFilter::Damaged, shown.len(), broken.len());
        parts.push(PagePart::new("damaged", damaged(shown, broken.len(), all)));
    }
    parts
}

/// The page in one line; each count links to its list.
fn summary(counts: &[(&str, usize, &str, &str)]) -> Markup {
    let shown: Vec<_> = counts.iter().filter(|(_, count, ..)| *count > 0).collect();
    html! {
        @if !shown.is_empty() {
            ul.summary aria-label="Runs" {
                @for (part, count, one, many) in shown {
                    li class=(part) { a href={ "#" (part) } { strong { (count) } " " (if *count == 1 { one } else { many }) } }
                }
            }
        }
    }
}

/// Damaged sessions, page by page.
fn all_damaged(rows: &[DamagedRow], filters: &Filters) -> Markup {
    let rows: Vec<&DamagedRow> = rows.iter().filter(|row| is_meant(row, filters)).collect();
    let pages = rows.len().div_ceil(ROWS_MAX).max(1);
    let page = filters.page.min(pages);
    let shown: Vec<&DamagedRow> = rows.iter().skip((page - 1) * ROWS_MAX).take(ROWS_MAX).copied().collect();
    damaged(&shown, rows.len(), Some(pager(filters, page, pages)))
}

/// Links to the other pages of a list.
fn pager(filters: &Filters, page: usize, pages: usize) -> Markup {
    let to = |page: usize| Filters { page, ..filters.clone() }.address();
    html! {
        @if pages > 1 {
            nav.pages aria-label="Pages of the list" {
                @if page > 1 { a href=(to(page - 1)) rel="prev" { "Previous" } }
                span { "Page " (page) " of " (pages) }
                @if page < pages { a href=(to(page + 1)) rel="next" { "Next" } }
            }
        }
    }
}

const EMPTY: &str = "No sessions yet. An agent starts one with `start_workflow`; `workrail install` adds WorkRail to a \
                     client.";

fn more_link(filters: &Filters, status: StatusFilter, all: usize) -> Markup {
    let address = Filters { status: Some(status), page: 1, ..filters.clone() }.address();
    html! { p { a href=(address) { "All " (all) } } }
}

/// One list, page by page.
fn listed(
    console: &Console,
    status: StatusFilter,
    (fitting, nesting): (&[&RunRow], &Nesting<'_>),
    filters: &Filters,
) -> PagePart {
    let mut rows: Vec<&RunRow> =
        fitting.iter().filter(|row| StatusFilter::of(row.stage) == status).copied().collect();
    match status {
        StatusFilter::Finished => rows.sort_by_key(|row| std::cmp::Reverse(row.activity)),
        // Longest waiting first, so that nothing new appears above the item being read.
        StatusFilter::NeedsMe => rows.sort_by_key(|row| row.activity),
        StatusFilter::Blocked | StatusFilter::Running | StatusFilter::Damaged => {}
    }
    let in_cards = matches!(status, StatusFilter::NeedsMe | StatusFilter::Blocked);
    let per_page = if in_cards { CARDS_MAX } else { ROWS_MAX };
    let pages = rows.len().div_ceil(per_page).max(1);
    let page = filters.page.min(pages);
    let shown = rows.iter().skip((page - 1) * per_page).take(per_page).copied();
    let body = html! {
        h2 { (status.title()) " " (count(rows.len())) }
        @if rows.is_empty() { p.quiet { "Nothing matches." } }
        @else if in_cards { @for row in shown { (card(console, row, filters, nesting)) } }
        @else { (table(console, shown, nesting)) }
        (pager(filters, page, pages))
    };
    PagePart::new("list", body)
}

/// The script sends the file; without script, the page shows the command.
fn import(console: &Console) -> Markup {
    if !console.may(Act::Administer) {
        return html! {};
    }
    html! {
        h2 { "Import a session" }
        p data-without-script { code { "workrail session import FILE" } " imports an exported session." }
        p hidden data-with-script {
            label { "An exported bundle " input type="file" accept=".json" data-import=(console.form_token()); }
            " " span.bad role="status" data-import-said {}
        }
    }
}
