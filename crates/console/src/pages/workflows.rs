//! What can be started here, and one workflow with its plan. Read only.

use std::collections::BTreeMap;

use maud::{Markup, html};
use workrail_engine::catalog::Filter;
use workrail_model::discovery::{
    ListedWorkflow, PlanEntry, Staleness, UnusableFile, WorkflowInspection, WorkflowKind,
};
use workrail_model::event::WorkflowSourceKind;
use workrail_model::name::WorkflowId;
use workrail_model::text::clean;

use super::{Page, Part, copyable};
use crate::state::Console;
use crate::target::Target;
use crate::use_cases::Answer;

pub(super) fn list(console: &Console, words: &str) -> Answer<Page> {
    let query = Some(words.to_owned()).filter(|words| !words.is_empty());
    let (workflows, unusable) = console.use_cases.workflows(&Filter { tags: Vec::new(), query });
    let mut sources: BTreeMap<&'static str, Vec<&ListedWorkflow>> = BTreeMap::new();
    for own in &workflows {
        sources.entry(source(own.source_kind)).or_default().push(own);
    }
    let body = html! {
        form.filters method="get" action="/workflows" role="search" {
            label { span.hidden { "Search" }
                input type="search" name="q" value=(words) placeholder="Id, name, description or tag" data-search;
            }
            button type="submit" { "Search" }
        }
        @if workflows.is_empty() { p.quiet { "No workflow matches." } }
        @for (name, own) in &sources {
            h2 { (name) " " span.count { (own.len()) } }
            div.scroll {
                table {
                    thead { tr { th { "Workflow" } th { "What it is for" } th { "Tags" } th { "Version" } } }
                    tbody { @for own in own { (row(own)) } }
                }
            }
        }
    };
    let mut parts = vec![Part::new("workflows", body)];
    if !unusable.is_empty() && words.is_empty() {
        parts.push(Part::new("unusable", problems(&unusable)));
    }
    Ok(Page { title: "Workflows".to_owned(), parts })
}

fn source(kind: WorkflowSourceKind) -> &'static str {
    match kind {
        WorkflowSourceKind::Bundled => "Bundled",
        WorkflowSourceKind::Plugin => "Plugins",
        WorkflowSourceKind::User => "Yours",
        WorkflowSourceKind::Remote => "Git sources",
        WorkflowSourceKind::Project => "This project",
    }
}

fn row(own: &ListedWorkflow) -> Markup {
    html! {
        tr data-item {
            td {
                a href=(Target::Workflow(own.workflow_id.clone()).address()) { (clean(&own.name)) }
                div.meta { (own.workflow_id) @if own.kind == WorkflowKind::Routine { " · routine" } }
            }
            td { (clean(&own.description)) @if let Some(age) = stale(own.staleness) { div.warn { (age) } } }
            td { (clean(&own.tags.join(", "))) }
            td { (clean(&own.version)) }
        }
    }
}

fn stale(staleness: Option<Staleness>) -> Option<&'static str> {
    match staleness? {
        Staleness::None => None,
        Staleness::Possible => Some("Does not say which authoring rules it was written for."),
        Staleness::Likely => Some("Written for other authoring rules than those of today."),
    }
}

fn problems(unusable: &[UnusableFile]) -> Markup {
    html! {
        h2 { "Files that cannot be used " span.count { (unusable.len()) } }
        @for file in unusable {
            article.card data-item {
                header { h3 { (clean(&file.file)) } span.meta { (source(file.source_kind)) } }
                ul.plain { @for error in &file.errors { li { (clean(error)) } } }
                @if file.errors_left_out > 0 { p.quiet { (file.errors_left_out) " more errors" } }
            }
        }
        p { code { "workrail workflow validate FILE" } " shows every error with its place." }
    }
}

pub(super) fn detail(console: &Console, id: &WorkflowId) -> Answer<Page> {
    let found = console.use_cases.workflow(id.as_str())?;
    let parts = vec![
        Part::new("workflow", about(&found)),
        Part::new(
            "plan",
            html! {
                h2 { "Plan " span.count { (found.step_count) } }
                ol.plan { @for entry in &found.plan { (step(entry)) } }
            },
        ),
    ];
    Ok(Page { title: found.name, parts })
}

fn about(found: &WorkflowInspection) -> Markup {
    let hash = found.workflow_hash.digest().to_string();
    let facts = [
        ("Id", found.workflow_id.to_string()),
        ("Version", found.version.clone()),
        ("Source", format!("{}, {}", source(found.source_kind), found.source_ref)),
        ("Pinned as", hash),
        ("Tags", found.tags.join(", ")),
        ("Features", found.features.join(", ")),
        ("Loops", found.loop_count.to_string()),
    ];
    html! {
        @for warning in &found.warnings { div.banner.remark { strong { "Note." } " " (clean(&warning.message)) } }
        p { (clean(&found.description)) }
        @if let Some(about) = &found.about { p { (clean(about)) } }
        dl.facts {
            @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
                dt { (name) } dd { (clean(value)) }
            }
        }
        @if !found.contracts.is_empty() {
            h3 { "Contracts" }
            ul.plain { @for own in &found.contracts { li { code { (clean(&own.contract_ref)) } ": " (clean(&own.purpose)) } } }
        }
        @if !found.references.is_empty() {
            h3 { "References" }
            ul.plain {
                @for own in &found.references {
                    li { (clean(&own.title)) " " code { (clean(&own.source)) } @if !own.is_resolved { span.warn { " not found" } } }
                }
            }
        }
        h3 { "Start it" }
        (copyable(&format!("start_workflow {{ \"workflowId\": \"{}\" }}", found.workflow_id)))
    }
}

fn step(entry: &PlanEntry) -> Markup {
    html! {
        li.inside[entry.inside_loop.is_some()] {
            span.number { (entry.number) } " " strong { (clean(&entry.title)) } " " code { (clean(&entry.id)) }
            @if let Some(text) = &entry.runs_if { div.meta { "Runs if " (clean(text)) } }
            @if let Some(text) = &entry.repeats { div.meta { (clean(text)) } }
            @if let Some(text) = &entry.contract { div.meta { "Owes " code { (clean(text)) } } }
            @if let Some(text) = &entry.confirmation { div.meta { (clean(text)) } }
            @for own in &entry.user_dependencies { div.meta { "Needs a person: " (clean(own)) } }
            @if let Some(prompt) = &entry.prompt {
                details data-key={ "prompt-" (entry.number) } { summary { "Prompt" } pre { (clean(prompt)) } }
            }
        }
    }
}
