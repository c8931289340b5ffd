//! The filters of the first page: what they offer, and which runs match them.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use strum::VariantArray as _;
use workrail_engine::catalog::Filter;
use workrail_engine::sessions::{DamagedRow, RunRow, SessionsList};
use workrail_model::digest::Sha256;
use workrail_model::text::clean;

use crate::state::Console;
use crate::target::{Filters, PageAddress, StatusFilter, WorkspaceFilter};

/// What the filters offer, and what is needed to apply them.
pub(super) struct Choices<'a> {
    workflows: BTreeSet<&'a str>,
    workspaces: BTreeSet<Option<Sha256>>,
    own_repository: Option<Sha256>,
    /// The tags of every workflow that can be started, by its id.
    tags: BTreeMap<String, Vec<String>>,
}

impl<'a> Choices<'a> {
    pub(super) fn of(console: &Console, list: &'a SessionsList, filters: &Filters) -> Self {
        let workflows: BTreeSet<&str> = list.runs.iter().filter_map(workflow_of).collect();
        let (known, _) = console.use_cases.workflows(&Filter { tags: Vec::new(), query: None });
        let is_used = |id: &str| workflows.contains(id) || !filters.tag.is_empty();
        let tags = known.into_iter().filter(|workflow| is_used(workflow.workflow_id.as_str()));
        Self {
            tags: tags.map(|workflow| (workflow.workflow_id.to_string(), workflow.tags)).collect(),
            workspaces: list.runs.iter().map(|row| row.repository).collect(),
            own_repository: console.use_cases.own_repository(),
            workflows,
        }
    }

    pub(super) fn fit(&self, row: &RunRow, filters: &Filters) -> bool {
        let workflow = workflow_of(row).unwrap_or_default();
        let is_tagged = |tag: &String| self.tags.get(workflow).is_some_and(|tags| tags.contains(tag));
        let is_there = match filters.workspace {
            None => true,
            Some(WorkspaceFilter::Here) => row.repository.is_some() && row.repository == self.own_repository,
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

/// Whether a damaged session matches the filters. What it was about is unknown.
pub(super) fn is_meant(row: &DamagedRow, filters: &Filters) -> bool {
    let text = format!("{} {}", row.session_id, row.labels.join(" ")).to_lowercase();
    let is_narrowed = !filters.workflow.is_empty() || !filters.tag.is_empty() || filters.workspace.is_some();
    !is_narrowed && filters.words.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// The name of a workspace: paths are not recorded.
fn workspace_name(root: Sha256, choices: &Choices<'_>) -> String {
    match choices.own_repository == Some(root) {
        true => "This workspace".to_owned(),
        false => format!("Workspace {}", &root.hex()[..8]),
    }
}

pub(super) fn form(choices: &Choices<'_>, filters: &Filters) -> Markup {
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
                    @for filter in StatusFilter::VARIANTS.iter().copied() {
                        option value=(filter.into_str()) selected[filters.status == Some(filter)] { (filter.title()) }
                    }
                }
            }
            label { span.hidden { "Workflow" }
                select name="workflow" {
                    option value="" { "Every workflow" }
                    @for workflow in workflows {
                        option value=(workflow) selected[filters.workflow == **workflow] { (workflow) }
                    }
                }
            }
            @if !tags.is_empty() {
                label { span.hidden { "Tag" }
                    select name="tag" {
                        option value="" { "Every tag" }
                        @for tag in &tags { option value=(tag) selected[filters.tag == **tag] { (clean(tag)) } }
                    }
                }
            }
            @if choices.workspaces.len() > 1 || filters.workspace.is_some() {
                label { span.hidden { "Workspace" }
                    select name="workspace" {
                        option value="" { "Every workspace" }
                        @for workspace in &choices.workspaces {
                            @let filter = workspace_filter(*workspace, choices);
                            option value=(filter) selected[filters.workspace == Some(filter)] {
                                @match workspace {
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
                a href=(PageAddress::Search { words: filters.words.clone() }.address()) { "Search the notes" }
            }
        }
    }
}

fn workspace_filter(root: Option<Sha256>, choices: &Choices<'_>) -> WorkspaceFilter {
    match root {
        None => WorkspaceFilter::Unknown,
        Some(root) if choices.own_repository == Some(root) => WorkspaceFilter::Here,
        Some(root) => WorkspaceFilter::Other(root),
    }
}
