//! The available workflows, by source and tag; and one workflow: its plan as a graph, its file next to the compiled
//! and the pinned versions, and the origin of each line of its prompts.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use serde_json::Value;
use workrail_engine::catalog::Filter;
use workrail_engine::edit::FileInSource;
use workrail_engine::versions::{PinnedVersion, StepPreview, WorkflowVersions};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::WorkflowHash;
use workrail_model::discovery::{
    ListedWorkflow, PlanEntry, Precedence, Staleness, UnusableFile, WorkflowInspection, WorkflowKind,
};
use workrail_model::name::WorkflowId;
use workrail_model::reply::NextCall;
use workrail_model::text::clean;
use workrail_model::tool::ToolName;

use super::layout::token;
use super::plan_graph::draw;
use super::{Page, PagePart, copyable, counted, ticked};
use crate::state::Console;
use crate::target::{CatalogPage, PageAddress, WorkflowPage};
use crate::use_cases::EngineResult;

pub(super) fn list(console: &Console, asked: &CatalogPage) -> EngineResult<Page> {
    let query = Some(asked.words.clone()).filter(|words| !words.is_empty());
    let (all, unusable) = console.use_cases.workflows(&Filter { tags: Vec::new(), query });
    let tags: BTreeSet<&String> = all.iter().flat_map(|workflow| &workflow.tags).collect();
    let is_tagged = |workflow: &&ListedWorkflow| asked.tag.is_empty() || workflow.tags.contains(&asked.tag);
    let workflows: Vec<&ListedWorkflow> = all.iter().filter(is_tagged).collect();
    let mut sources: BTreeMap<&'static str, Vec<&ListedWorkflow>> = BTreeMap::new();
    for workflow in &workflows {
        sources.entry(source(workflow.source_kind)).or_default().push(workflow);
    }
    let search = html! {
        form.filters method="get" action="/workflows" role="search" {
            label { span.hidden { "Search" }
                input type="search" name="q" value=(asked.words) placeholder="Id, name, description or tag" data-search;
            }
            label { span.hidden { "Tag" }
                select name="tag" {
                    option value="" { "Every tag" }
                    @for tag in &tags { option value=(tag) selected[asked.tag == **tag] { (clean(tag)) } }
                }
            }
            button type="submit" { "Search" }
            @if !asked.words.is_empty() || !asked.tag.is_empty() { a href="/workflows" { "Clear" } }
            a href="/settings/sources" { "Sources and their health" }
        }
    };
    let body = html! {
        @if workflows.is_empty() { p.quiet { "No workflow matches." } }
        @for (name, found) in &sources {
            h2 { (name) " " span.count { (found.len()) } }
            div.scroll {
                table {
                    thead { tr { th { "Workflow" } th { "What it is for" } th { "Tags" } th { "Version" } } }
                    tbody { @for workflow in found { (row(workflow)) } }
                }
            }
        }
    };
    let mut parts = vec![PagePart::new("search", search)];
    // Broken files come first: their author is looking for them.
    if !unusable.is_empty() && asked.words.is_empty() && asked.tag.is_empty() {
        let is_editable = !console.is_of_team();
        let files = if is_editable { console.use_cases.workflow_files() } else { Vec::new() };
        parts.push(PagePart::new("unusable", problems(&unusable, &files)));
    }
    parts.push(PagePart::new("workflows", body));
    Ok(Page { title: "Workflows".to_owned(), parts })
}

pub(super) fn source(kind: Precedence) -> &'static str {
    match kind {
        Precedence::Bundled => "Bundled",
        Precedence::Plugin => "Plugins",
        Precedence::User => "Yours",
        Precedence::Custom => "Folders",
        Precedence::Git => "Git sources",
        Precedence::Project => "This project",
    }
}

fn row(workflow: &ListedWorkflow) -> Markup {
    html! {
        tr data-item {
            td {
                a href=(address(&workflow.workflow_id)) { (clean(&workflow.name)) }
                div.meta { (workflow.workflow_id) @if workflow.kind == WorkflowKind::Routine { " · routine" } }
            }
            td { (clean(&workflow.description)) @if let Some(age) = stale(workflow.staleness) { div.warn { (age) } } }
            td { (clean(&workflow.tags.join(", "))) }
            td { (clean(&workflow.version)) }
        }
    }
}

fn address(id: &WorkflowId) -> String {
    PageAddress::Workflow(WorkflowPage { id: id.clone(), pinned: None }).address()
}

fn stale(staleness: Option<Staleness>) -> Option<&'static str> {
    match staleness? {
        Staleness::None => None,
        Staleness::Possible => Some("Does not say which authoring rules it was written for."),
        Staleness::Likely => Some("Written for another version of the authoring rules."),
    }
}

fn problems(unusable: &[UnusableFile], files: &[FileInSource]) -> Markup {
    // Two folders may have a file of the same name, which makes it ambiguous.
    let editable = |unusable: &UnusableFile| {
        let is_meant = |file: &&FileInSource| {
            file.reference == unusable.file && file.source_kind == unusable.source_kind
        };
        let mut found = files.iter().filter(is_meant);
        found.next().filter(|file| file.is_editable && found.next().is_none())
    };
    html! {
        h2 { "Files that cannot be used " span.count { (unusable.len()) } }
        @for file in unusable {
            article.card data-item {
                header { h3 { (clean(&file.file)) } span.meta { (source(file.source_kind)) }
                    @if let Some(source_file) = editable(file) {
                        a href=(PageAddress::Edit(source_file.key).address()) aria-label={ "Edit " (clean(&file.file)) } { "Edit" }
                    }
                }
                ul.plain { @for error in &file.errors { li { (ticked(error)) } } }
                @if file.errors_left_out > 0 {
                    p.quiet { (counted(file.errors_left_out as u64, "more error", "more errors")) }
                }
            }
        }
        p { (ticked("`workrail workflow validate FILE` shows every error with its place.")) }
    }
}

pub(super) fn detail(console: &Console, asked: &WorkflowPage) -> EngineResult<Page> {
    let found = console.use_cases.workflow(asked.id.as_str())?;
    let versions = console.use_cases.versions(&asked.id)?;
    let parts = vec![
        PagePart::new("workflow", about(console, &found, asked)),
        PagePart::new(
            "plan",
            html! {
                h2 { "Plan " span.count { (counted(found.step_count as u64, "step", "steps")) } }
                div.scroll.path tabindex="0" role="region" aria-label="Plan of the workflow" { (draw(&found.plan)) }
                ol.plan { @for entry in &found.plan { (step(entry, &versions.steps)) } }
            },
        ),
        PagePart::new("versions", three(console, &versions, asked)?),
        PagePart::new("hash", hash_inputs(&versions)),
    ];
    Ok(Page { title: found.name, parts })
}

fn about(console: &Console, found: &WorkflowInspection, asked: &WorkflowPage) -> Markup {
    let facts = [
        ("Id", found.workflow_id.to_string()),
        ("Version", found.version.clone()),
        ("Source", format!("{}, {}", source(found.source_kind), found.source_ref)),
        ("Tags", found.tags.join(", ")),
        ("Features", found.features.join(", ")),
        ("Loops", if found.loop_count == 0 { String::new() } else { found.loop_count.to_string() }),
    ];
    let start =
        NextCall::new(ToolName::StartWorkflow, [("workflowId", Value::from(found.workflow_id.as_str()))]);
    html! {
        @for warning in &found.warnings { div.banner.remark { strong { "Note." } " " (ticked(&warning.message)) } }
        p { (clean(&found.description)) }
        @if let Some(about) = &found.about { p { (clean(about)) } }
        dl.facts {
            @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
                dt { (name) } dd { (clean(value)) }
            }
        }
        @if !found.contracts.is_empty() {
            h3 { "Contracts" }
            ul.plain { @for contract in &found.contracts { li { code { (clean(&contract.contract_ref)) } ": " (clean(&contract.purpose)) } } }
        }
        @if !found.references.is_empty() {
            h3 { "References" }
            ul.plain {
                @for reference in &found.references {
                    li { (clean(&reference.title)) " " code { (clean(&reference.source)) } @if !reference.is_resolved { span.warn { " not found" } } }
                }
            }
        }
        @if let Some(file) = console.use_cases.file_of_workflow(&asked.id).ok().filter(|_| !console.is_of_team()) {
            p { a href=(PageAddress::Edit(file.key).address()) {
                @if file.is_editable { "Edit " (clean(&file.reference)) } @else { "View the source with its checks" }
            } }
        }
        h3 { "Start it" }
        (copyable(&start.in_a_line()))
        @if !console.is_of_team() {
        h3 { "Make it yours" }
        p.quiet { "Writes its file under a new id to your own folder for workflows, where you can edit it. Nothing is overwritten." }
        form.filters method="post" action={ "/workflows/" (asked.id) "/copy" } {
            (token(console.form_token()))
            label { span.hidden { "New id" } input type="text" name="id" value=(suggested(&asked.id)) autocomplete="off"; }
            button type="submit" { "Copy" }
        }
        }
    }
}

/// The same name in a namespace that the user may use.
fn suggested(id: &WorkflowId) -> String {
    let name = id.as_str().rsplit('.').next().unwrap_or_default();
    format!("my.{name}")
}

fn step(entry: &PlanEntry, previews: &[StepPreview]) -> Markup {
    let preview = previews.iter().find(|preview| preview.step_id == entry.id && entry.prompt.is_some());
    html! {
        li.inside[entry.inside_loop.is_some()] id={ "step-" (entry.number) } {
            span.number { (entry.number) } " " strong { (clean(&entry.title)) } " " code { (clean(&entry.id)) }
            @if let Some(text) = &entry.runs_if { div.meta { "Runs if " (clean(text)) } }
            @if let Some(text) = &entry.repeats { div.meta { (clean(text)) } }
            @if let Some(text) = &entry.contract { div.meta { "Requires " code { (clean(text)) } } }
            @if let Some(text) = &entry.confirmation { div.meta { (clean(text)) } }
            @for dependency in &entry.user_dependencies { div.meta { "Needs a person: " (clean(dependency)) } }
            @if let Some(preview) = preview { (prompts(entry, preview)) }
        }
    }
}

/// The compiled prompt line by line, and the prompt as an agent would first read it.
fn prompts(entry: &PlanEntry, preview: &StepPreview) -> Markup {
    html! {
        details data-key={ "prompt-" (entry.number) } {
            summary { "Prompt, and where its lines come from" }
            table.lines {
                @for line in &preview.lines {
                    @let origin = line.origin.description();
                    tr.added[origin.is_some()] {
                        td { (clean(&line.text)) }
                        td { (clean(origin.as_deref().unwrap_or_default())) }
                    }
                }
            }
        }
        details data-key={ "rendered-" (entry.number) } {
            summary { "As an agent reads it at the start" }
            pre { (clean(&preview.rendered)) }
        }
    }
}

/// The file, the compiled workflow, and the version that runs are pinned to, side by side.
fn three(console: &Console, versions: &WorkflowVersions, asked: &WorkflowPage) -> EngineResult<Markup> {
    let chosen = asked.pinned.or(versions.pinned.first().map(|version| version.hash));
    let pinned = chosen.map(|hash| console.use_cases.pinned(hash)).transpose()?;
    Ok(html! {
        h2 { "Source, compiled, pinned" }
        @if !versions.pinned.is_empty() { (pins(versions, asked, chosen)) }
        div.three {
            section {
                h3 { "Source" }
                pre tabindex="0" { (clean(&versions.source)) }
            }
            section {
                h3 { "Compiled now" }
                pre tabindex="0" { (clean(&json(&versions.compiled))) }
            }
            section {
                h3 { "Pinned by runs" }
                @match pinned {
                    None => p.quiet { "No run of this store uses it." },
                    Some(_) if chosen == Some(versions.hash) => p.quiet { "The same as compiled now." },
                    Some(pinned) => pre tabindex="0" { (clean(&json(&pinned))) },
                }
            }
        }
    })
}

fn json(workflow: &CompiledWorkflow) -> String {
    serde_json::to_string_pretty(workflow).unwrap_or_default()
}

fn pins(versions: &WorkflowVersions, asked: &WorkflowPage, chosen: Option<WorkflowHash>) -> Markup {
    let link = |version: &PinnedVersion| {
        let page = WorkflowPage { pinned: Some(version.hash), ..asked.clone() };
        let short = version.hash.digest().hex();
        let now = if version.hash == versions.hash { ", the current one" } else { "" };
        let text = format!("{} ({}{now})", &short[..12], counted(version.runs as u64, "run", "runs"));
        html! { a href={ (PageAddress::Workflow(page).address()) "#versions" } aria-current=[(chosen == Some(version.hash)).then_some("true")] { (text) } }
    };
    html! {
        p {
            "Pinned: "
            @for (index, version) in versions.pinned.iter().enumerate() { @if index > 0 { " · " } (link(version)) }
        }
    }
}

/// Everything besides the file that the hash of the compiled workflow depends on.
fn hash_inputs(versions: &WorkflowVersions) -> Markup {
    let compiled = &versions.compiled;
    let features = compiled.features.iter().map(|feature| {
        let config: Vec<String> =
            feature.config.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (format!("Feature {}", feature.feature_id), config.join(", "))
    });
    let snippets = compiled
        .refs
        .iter()
        .map(|snippet| (format!("Snippet {}", snippet.ref_id), snippet.content_hash.to_string()));
    let bindings = compiled
        .bindings
        .iter()
        .map(|binding| (format!("Binding {}", binding.slot_id), binding.value.clone()));
    let contracts = compiled
        .contracts
        .iter()
        .map(|contract| (format!("Contract {}", contract.contract_ref), contract.artifact_kind.clone()));
    let fixed = [
        ("Hash".to_owned(), versions.hash.to_string()),
        ("Source file".to_owned(), versions.source_digest.to_string()),
        ("Compiled form".to_owned(), format!("version {}", compiled.schema_version)),
        ("Text layout".to_owned(), format!("version {}", compiled.render_version)),
    ];
    html! {
        h2 { "What the hash depends on" }
        dl.facts {
            @for (name, value) in fixed.into_iter().chain(features).chain(snippets).chain(bindings).chain(contracts) {
                dt { (clean(&name)) } dd { (clean(&value)) }
            }
        }
    }
}
