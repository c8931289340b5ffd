//! The first page: what needs me and the action that moves it, then what runs, then what is done.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use workrail_engine::catalog::Filter;
use workrail_engine::html::{chip, chip_of};
use workrail_engine::report::Tone;
use workrail_engine::sessions::{DamagedRow, RunRow, SessionsList, Stage};
use workrail_model::digest::Sha256;
use workrail_model::id::{RunId, SessionId};
use workrail_model::text::clean;
use workrail_model::time::Timestamp;

use super::attention::needs;
use super::layout::token;
use super::{Page, Part, ticked, time};
use crate::held::Outcome;
use crate::state::Console;
use crate::target::{ComparePage, ComparedRef, Filters, StatusFilter, Target, WorkspaceFilter, run_address};
use crate::use_cases::Answer;

/// Cards with their whole text on one page.
const CARDS_MAX: usize = 20;
/// Rows of a table on one page.
const ROWS_MAX: usize = 100;
/// Cards beside other lists.
const CARDS_BESIDE_MAX: usize = 5;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Rows of a table beside others.
const ROWS_BESIDE_MAX: usize = 15;

pub(super) fn page(console: &Console, filters: &Filters) -> Answer<Page> {
    let list = console.sessions()?;
    let choices = Choices::of(console, &list, filters);
    let is_listed = |row: &&RunRow| !console.held.is_held(row.session_id);
    let fitting: Vec<&RunRow> =
        list.runs.iter().filter(is_listed).filter(|row| choices.fit(row, filters)).collect();
    let mut parts = vec![Part::new("filters", form(&choices, filters)), Part::new("held", held(console))];
    match filters.status {
        Some(StatusFilter::Damaged) => parts.push(Part::new("damaged", all_damaged(&list.damaged, filters))),
        Some(status) => parts.push(listed(console, status, (&fitting, &Nesting::of(&list)), filters)),
        None => parts.extend(overview(console, &list, &fitting, filters)),
    }
    if filters.is_empty() {
        parts.push(Part::new("import", import(console)));
    }
    Ok(Page { title: "Now".to_owned(), parts })
}

/// What the filters offer, and what is needed to apply them.
struct Choices<'a> {
    workflows: BTreeSet<&'a str>,
    workspaces: BTreeSet<Option<Sha256>>,
    own_workspace: Option<Sha256>,
    /// The tags of every workflow that can be started, by its id.
    tags: BTreeMap<String, Vec<String>>,
}

impl<'a> Choices<'a> {
    fn of(console: &Console, list: &'a SessionsList, filters: &Filters) -> Self {
        let workflows: BTreeSet<&str> = list.runs.iter().filter_map(workflow_of).collect();
        let (known, _) = console.use_cases.workflows(&Filter { tags: Vec::new(), query: None });
        let is_used = |id: &str| workflows.contains(id) || !filters.tag.is_empty();
        let tags = known.into_iter().filter(|own| is_used(own.workflow_id.as_str()));
        Self {
            tags: tags.map(|own| (own.workflow_id.to_string(), own.tags)).collect(),
            workspaces: list.runs.iter().map(|row| row.repository).collect(),
            own_workspace: console.use_cases.own_workspace(),
            workflows,
        }
    }

    fn fit(&self, row: &RunRow, filters: &Filters) -> bool {
        let workflow = workflow_of(row).unwrap_or_default();
        let is_tagged = |tag: &String| self.tags.get(workflow).is_some_and(|own| own.contains(tag));
        let is_there = match filters.workspace {
            None => true,
            Some(WorkspaceFilter::Here) => row.repository.is_some() && row.repository == self.own_workspace,
            Some(WorkspaceFilter::Unknown) => row.repository.is_none(),
            Some(WorkspaceFilter::Other(root)) => row.repository == Some(root),
        };
        is_there
            && (filters.workflow.is_empty() || workflow == filters.workflow)
            && (filters.tag.is_empty() || is_tagged(&filters.tag))
            && has_words(row, filters)
    }
}

fn workflow_of(row: &RunRow) -> Option<&str> {
    row.workflow_id.as_ref().map(|id| id.as_str())
}

fn has_words(row: &RunRow, filters: &Filters) -> bool {
    if filters.words.is_empty() {
        return true;
    }
    let (session, run) =
        (row.session_id.to_string(), row.run_id.map(|run| run.to_string()).unwrap_or_default());
    let texts = [
        row.label.as_deref().unwrap_or_default(),
        row.goal.as_deref().unwrap_or_default(),
        row.step.as_ref().map(|step| step.title.as_str()).unwrap_or_default(),
        workflow_of(row).unwrap_or_default(),
        &session,
        &run,
    ];
    let text = texts.join(" ").to_lowercase();
    filters.words.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// Deletions that can still be undone, and those that were refused.
fn held(console: &Console) -> Markup {
    html! {
        @for own in console.held.list() {
            div.banner.remark {
                @match &own.outcome {
                    Outcome::Held => {
                        strong { "Deleting " (clean(&own.name)) } " in a few seconds. "
                        (session_form(console, own.session, "undo", "Undo"))
                    }
                    Outcome::Deleting => strong { "Deleting " (clean(&own.name)) "." },
                    Outcome::Refused(reason) => {
                        strong { (clean(&own.name)) " was not deleted." } " " (ticked(reason)) " "
                        (session_form(console, own.session, "undo", "Dismiss"))
                    }
                }
            }
        }
    }
}

/// A button that does something to a session.
fn session_form(console: &Console, session: SessionId, action: &str, name: &str) -> Markup {
    html! {
        form.inline method="post" action={ "/session/" (session) "/" (action) } {
            (token(console.guard.form_token()))
            button type="submit" { (name) }
        }
    }
}

/// Keeping and deleting, as the command line has them: for a session in any state, and a kept one is not deleted.
fn keep_or_delete(console: &Console, session: SessionId) -> Markup {
    html! {
        @if console.use_cases.is_kept(session) { (session_form(console, session, "unkeep", "Stop keeping")) }
        @else {
            (session_form(console, session, "keep", "Keep"))
            (session_form(console, session, "delete", "Delete"))
        }
    }
}

/// What a workspace is called: paths are not recorded.
fn workspace_name(root: Sha256, choices: &Choices<'_>) -> String {
    match choices.own_workspace == Some(root) {
        true => "This workspace".to_owned(),
        false => format!("Workspace {}", &root.hex()[..8]),
    }
}

fn form(choices: &Choices<'_>, filters: &Filters) -> Markup {
    let Choices { workflows, .. } = choices;
    let tags: BTreeSet<&String> = choices.tags.values().flatten().collect();
    html! {
        form.filters method="get" action="/" role="search" {
            label { span.hidden { "Search" }
                input type="search" name="q" value=(filters.words) placeholder="Label, goal, step or id" data-search;
            }
            label { span.hidden { "Status" }
                select name="status" {
                    option value="" { "Every status" }
                    @for own in StatusFilter::ALL {
                        option value=(own.as_str()) selected[filters.status == Some(own)] { (own.title()) }
                    }
                }
            }
            label { span.hidden { "Workflow" }
                select name="workflow" {
                    option value="" { "Every workflow" }
                    @for own in workflows {
                        option value=(own) selected[filters.workflow == **own] { (own) }
                    }
                }
            }
            @if !tags.is_empty() {
                label { span.hidden { "Tag" }
                    select name="tag" {
                        option value="" { "Every tag" }
                        @for own in &tags { option value=(own) selected[filters.tag == **own] { (clean(own)) } }
                    }
                }
            }
            @if choices.workspaces.len() > 1 || filters.workspace.is_some() {
                label { span.hidden { "Workspace" }
                    select name="workspace" {
                        option value="" { "Every workspace" }
                        @for own in &choices.workspaces {
                            @let filter = workspace_filter(*own, choices);
                            option value=(filter) selected[filters.workspace == Some(filter)] {
                                @match own {
                                    Some(root) => (workspace_name(*root, choices)),
                                    None => "No repository",
                                }
                            }
                        }
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

fn workspace_filter(root: Option<Sha256>, choices: &Choices<'_>) -> WorkspaceFilter {
    match root {
        None => WorkspaceFilter::Unknown,
        Some(root) if choices.own_workspace == Some(root) => WorkspaceFilter::Here,
        Some(root) => WorkspaceFilter::Other(root),
    }
}

fn overview(console: &Console, list: &SessionsList, fitting: &[&RunRow], filters: &Filters) -> Vec<Part> {
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
    // A search looks at all of them.
    if filters.is_empty() {
        finished.retain(is_recent);
    }
    finished.sort_by_key(|row| std::cmp::Reverse(row.activity));
    let name = if filters.is_empty() { "Done in the last day" } else { "Finished" };
    let none = |said: &'static str| if filters.is_empty() { said } else { "Nothing matches." };
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
        Part::new("summary", summary(&counts)),
        Part::new(
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
        Part::new(
            "blocked",
            html! {
                @if !blocked.is_empty() {
                    h2 { "Blocked: the agent has to correct its work " (count(blocked.len())) }
                    @for row in blocked.iter().take(CARDS_BESIDE_MAX) { (card(console, row, filters, &nesting)) }
                    @if let Some(more) = more(StatusFilter::Blocked, CARDS_BESIDE_MAX.min(blocked.len()), blocked.len()) { (more) }
                }
            },
        ),
        Part::new(
            "running",
            html! {
                h2 { "Running " (count(running.len())) }
                @if running.is_empty() { p.quiet { (none("No run is in progress.")) } }
                @else { (table(console, running.iter().take(ROWS_BESIDE_MAX).copied(), &nesting)) }
                @if let Some(more) = more(StatusFilter::Running, ROWS_BESIDE_MAX.min(running.len()), running.len()) { (more) }
            },
        ),
        Part::new(
            "done",
            html! {
                h2 { (name) " " (count(finished.len())) }
                @if finished.is_empty() { p.quiet { (none("No run was finished.")) } }
                @else { (table(console, finished.iter().take(ROWS_BESIDE_MAX).copied(), &nesting)) }
                @if let Some(more) = more(StatusFilter::Finished, ROWS_BESIDE_MAX.min(finished.len()), all_finished) { (more) }
            },
        ),
    ];
    if !broken.is_empty() {
        let shown = &broken[..ROWS_BESIDE_MAX.min(broken.len())];
        let all = more(StatusFilter::Damaged, shown.len(), broken.len());
        parts.push(Part::new("damaged", damaged(shown, broken.len(), all)));
    }
    parts
}

/// The whole page in one line; each count leads to its list.
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

/// The labels of runs, to say inside which one another was started.
struct Nesting<'a>(BTreeMap<RunId, &'a str>);

impl<'a> Nesting<'a> {
    fn of(list: &'a SessionsList) -> Self {
        let labels = list.runs.iter().filter_map(|row| Some((row.run_id?, row.label.as_deref()?)));
        Self(labels.collect())
    }

    /// Where a run belongs, for a line of small text.
    fn inside(&self, row: &RunRow) -> Markup {
        let parent = row.parent.and_then(|parent| Some((parent, self.0.get(&parent)?)));
        html! {
            @if let Some((parent, label)) = parent { " · inside " a href=(run_address(parent)) { (label) } }
        }
    }
}

/// Whether a damaged session is among those that are looked for. What it was about is not known.
fn is_meant(row: &DamagedRow, filters: &Filters) -> bool {
    let text = format!("{} {}", row.session_id, row.labels.join(" ")).to_lowercase();
    let is_narrowed = !filters.workflow.is_empty() || !filters.tag.is_empty() || filters.workspace.is_some();
    !is_narrowed && filters.words.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// Damaged sessions, page by page.
fn all_damaged(rows: &[DamagedRow], filters: &Filters) -> Markup {
    let rows: Vec<&DamagedRow> = rows.iter().filter(|row| is_meant(row, filters)).collect();
    let pages = rows.len().div_ceil(ROWS_MAX).max(1);
    let page = filters.page.min(pages);
    let shown: Vec<&DamagedRow> = rows.iter().skip((page - 1) * ROWS_MAX).take(ROWS_MAX).copied().collect();
    damaged(&shown, rows.len(), Some(pager(filters, page, pages)))
}

/// Leads to the other pages of a list.
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

fn count(count: usize) -> Markup {
    html! { span.count { (count) } }
}

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
) -> Part {
    let mut rows: Vec<&RunRow> =
        fitting.iter().filter(|row| StatusFilter::of(row.stage) == status).copied().collect();
    match status {
        StatusFilter::Finished => rows.sort_by_key(|row| std::cmp::Reverse(row.activity)),
        // The one that waits longest first, so that nothing moves above what is read.
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
    Part::new("list", body)
}

fn address(row: &RunRow) -> String {
    row.run_id.map_or_else(|| Target::Session(row.session_id).address(), run_address)
}

fn name(row: &RunRow) -> &str {
    row.label.as_deref().unwrap_or("notes")
}

/// A run that needs somebody, with what it needs and the action.
fn card(console: &Console, row: &RunRow, filters: &Filters, nesting: &Nesting<'_>) -> Markup {
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
                (nesting.inside(row))
            }
            @match &attention {
                Some((run, Ok(Some(found)))) => (needs(console, *run, found, &filters.address())),
                Some((_, Err(error))) => p.bad { (clean(&error.message)) },
                // Unreadable, or it moved on while this page was made.
                Some((_, Ok(None))) | None => p { a href=(address(row)) { "Open the run" } },
            }
            details.more data-key={ "more-" (row.session_id) "-" (name(row)) } {
                summary { "Keep or delete" }
                (keep_or_delete(console, row.session_id))
            }
        }
    }
}

fn table<'a>(console: &Console, rows: impl Iterator<Item = &'a RunRow>, nesting: &Nesting<'_>) -> Markup {
    let rows: Vec<&RunRow> = rows.collect();
    html! {
        div.scroll {
            table.runs {
                thead {
                    tr {
                        th { "Run" } th { "Goal" } th { "Status" }
                        // What is finished is at no step.
                        @if rows.iter().any(|row| has_place(row)) { th { "Step" } }
                        th { "Last" }
                        th { span.hidden { "Actions" } }
                    }
                }
                @let has_places = rows.iter().any(|row| has_place(row));
                tbody { @for own in rows { (row(console, own, has_places, nesting)) } }
            }
        }
    }
}

fn has_place(row: &RunRow) -> bool {
    row.step.is_some() || row.stage == Stage::NotesOnly
}

fn row(console: &Console, row: &RunRow, has_places: bool, nesting: &Nesting<'_>) -> Markup {
    html! {
        tr data-item {
            td {
                a href=(address(row)) { (name(row)) }
                @if let Some(id) = &row.workflow_id { div.meta { (id) (nesting.inside(row)) } }
            }
            td { (clean(row.goal.as_deref().unwrap_or_default())) }
            td { (chip_of(row.stage)) }
            @if has_places {
                td {
                    @if let Some(step) = &row.step { (clean(&step.title)) div.meta { "step " (step.progress) } }
                    @else if row.stage == Stage::NotesOnly { span.quiet { "no run" } }
                }
            }
            td { @if let Some(at) = &row.last_at { (time(at)) } }
            td.actions-of-row {
                details data-key={ "more-" (row.session_id) "-" (name(row)) } {
                    summary aria-label={ "Compare, close, keep or delete " (name(row)) } { "…" }
                    @if let Some(run) = row.run_id {
                        @let page = ComparePage { a: ComparedRef::whole(run), b: None };
                        a href=(Target::Compare(page).address()) aria-label={ "Compare " (name(row)) } { "Compare" } " "
                        @if row.stage == Stage::InProgress {
                            a href={ (run_address(run)) "#close-reason" } aria-label={ "Close " (name(row)) } { "Close" } " "
                        }
                    }
                    (keep_or_delete(console, row.session_id))
                }
            }
        }
    }
}

/// The script sends the file; without it there is the command.
fn import(console: &Console) -> Markup {
    html! {
        h2 { "Import a session" }
        p data-without-script { code { "workrail session import FILE" } " imports an exported session." }
        p hidden data-with-script {
            label { "An exported bundle " input type="file" accept=".json" data-import=(console.guard.form_token()); }
            " " span.bad role="status" data-import-said {}
        }
    }
}

fn damaged(rows: &[&DamagedRow], all: usize, more: Option<Markup>) -> Markup {
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
                                td { a href=(Target::Session(row.session_id).address()) { code { (row.session_id) } } }
                                td { (row.labels.join(", ")) }
                                td { (chip(Tone::Bad, "damaged")) " " (clean(&row.health.damage().unwrap_or_default())) }
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
