//! `list_workflows`: one compact line each, or counts if there are too many to read (G72, G73).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::discovery::{
    DISCOVERY_TEXT_BYTES_MAX, DiscoveryWarning, DiscoveryWarningCode, IdStatus, InspectMode,
    LISTED_DESCRIPTION_BYTES_MAX, LISTED_PROBLEMS_MAX, ListedWorkflow, NarrowBy, Precedence, Staleness,
    UnusableFile, WorkflowGroup, WorkflowKind, WorkflowList,
};
use workrail_model::name::WorkflowId;
use workrail_model::reply::NextCall;
use workrail_model::tool::{ToolName, ToolSet};

use super::{counted, one_line, staleness, tags, within, workflow_kind};
use crate::agent_site::RunRights;
use crate::compile::{FileOrigin, suggested_id};
use crate::search;

/// Shown with the call that starts a workflow: what an agent would otherwise omit.
pub(super) const GOAL_WANTED: &str =
    "Add `goal`, the request in a few words: a new chat finds the run by it.";

/// The share of the text for unusable files: the list itself comes first.
const UNUSABLE_BYTES_MAX: usize = 2_600;
const LEGACY_BYTES_MAX: usize = 1_200;
/// Groups beyond the largest ones do not help to choose.
const GROUPS_MAX: usize = 40;

/// What a listing needs to know about a workflow; small, so that it can be kept for every file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowSummary {
    pub id: WorkflowId,
    pub kind: WorkflowKind,
    pub source_kind: Precedence,
    /// Digest of the file's bytes.
    pub source: Sha256,
    pub hash: WorkflowHash,
    pub name: String,
    pub version: String,
    pub description: String,
    pub tags: Vec<String>,
    pub staleness: Option<Staleness>,
    /// What a query is compared with.
    words: BTreeSet<String>,
    /// The same without common endings.
    stems: BTreeSet<String>,
}

impl WorkflowSummary {
    pub fn new(
        workflow: &CompiledWorkflow,
        hash: WorkflowHash,
        source_kind: Precedence,
        reference: &str,
        source: Sha256,
    ) -> Self {
        let tags = tags(workflow);
        let text =
            [workflow.workflow_id.as_str(), &workflow.name, &workflow.description, &tags.join(" ")].join(" ");
        Self {
            id: workflow.workflow_id.clone(),
            kind: workflow_kind(&workflow.workflow_id, reference),
            source_kind,
            source,
            hash,
            name: one_line(&workflow.name, 128),
            version: workflow.version.clone(),
            description: one_line(&workflow.description, LISTED_DESCRIPTION_BYTES_MAX),
            tags,
            staleness: staleness(workflow, source_kind),
            stems: search::stems(&text),
            words: search::word_set(&text),
        }
    }

    /// The fixed order: namespace, workflows before routines, name. A missing namespace sorts first.
    fn order(&self) -> (&str, WorkflowKind, &str) {
        let (namespace, name) = self.id.as_str().split_once('.').unwrap_or(("", self.id.as_str()));
        (namespace, self.kind, name)
    }

    /// The namespaced replacement for a legacy id; `None` for ids that are fine.
    pub fn suggested(&self, is_taken: impl Fn(&str) -> bool) -> Option<String> {
        match IdStatus::of(&self.id) {
            IdStatus::Namespaced => None,
            IdStatus::Legacy => suggested_id(
                self.id.as_str(),
                FileOrigin::of(self.source_kind.source_kind()),
                self.source,
                is_taken,
            )
            .map(|id| id.to_string()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// All of these are required; an empty list matches everything.
    pub tags: Vec<String>,
    /// All of its words are required.
    pub query: Option<String>,
}

impl Filter {
    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.query.as_deref().is_none_or(|query| query.trim().is_empty())
    }

    fn admits_tags(&self, summary: &WorkflowSummary) -> bool {
        self.tags.iter().all(|wanted| summary.tags.contains(&wanted.trim().to_lowercase()))
    }
}

/// The whole answer. The order of the workflows and files does not matter; `is_taken` knows every id that
/// a file has, usable or not.
pub fn list(
    summaries: &[&WorkflowSummary],
    mut unusable: Vec<UnusableFile>,
    filter: &Filter,
    (tools, rights): (ToolSet, RunRights),
    is_taken: impl Fn(&str) -> bool,
) -> WorkflowList {
    let WorkflowMatches { of: matched, how } = matched(summaries, filter);
    let workflows: Vec<ListedWorkflow> = matched.iter().map(|summary| listed(summary, &is_taken)).collect();
    let warnings: Vec<DiscoveryWarning> = workflows.iter().filter_map(legacy_warning).collect();
    unusable.sort_by(|a, b| (a.source_kind, &a.file).cmp(&(b.source_kind, &b.file)));

    let parts = ListParts {
        head: head(&matched, how, summaries.len(), filter),
        lines: workflows.iter().map(line).collect(),
        after: after(&workflows, &unusable),
        foot: foot(&workflows, how, (tools, rights)),
    };
    let is_grouped = parts.are_too_long();
    let groups = if is_grouped { groups(&matched) } else { Vec::new() };
    let text = if is_grouped { parts.counted(&groups) } else { parts.listed() };
    let next_call = next_call(&workflows, how, &groups, filter, tools)
        .filter(|call| call.tool != ToolName::StartWorkflow || rights == RunRights::Work);
    let unusable_left_out = unusable.len().saturating_sub(LISTED_PROBLEMS_MAX);
    unusable.truncate(LISTED_PROBLEMS_MAX);
    WorkflowList {
        text: text.trim_end().to_owned(),
        total: summaries.len(),
        matched: matched.len(),
        is_grouped,
        warnings: if is_grouped { Vec::new() } else { warnings },
        workflows: if is_grouped { Vec::new() } else { workflows },
        groups,
        unusable,
        unusable_left_out,
        next_call,
    }
}

/// What the text of a listing consists of.
struct ListParts {
    head: String,
    /// One for each workflow.
    lines: Vec<String>,
    after: String,
    foot: String,
}

impl ListParts {
    fn are_too_long(&self) -> bool {
        let lines: usize = self.lines.iter().map(|line| line.len() + 1).sum();
        self.head.len() + lines + self.after.len() + self.foot.len() + 2 > DISCOVERY_TEXT_BYTES_MAX
    }

    fn listed(&self) -> String {
        let lines: String = self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        self.around(&lines)
    }

    fn counted(&self, groups: &[WorkflowGroup]) -> String {
        let intro = "Too many to list, so they are counted; name one of these to see them:\n";
        let others = self.head.len() + 1 + intro.len() + self.after.len() + self.foot.len();
        let max = DISCOVERY_TEXT_BYTES_MAX.saturating_sub(others + 100);
        let lines: Vec<String> = groups.iter().map(group_line).collect();
        let counts = within(&lines, max, |left| format!("- and {left} smaller groups"));
        self.around(&format!("{intro}{counts}"))
    }

    fn around(&self, body: &str) -> String {
        let Self { head, lines, after, foot } = self;
        // Without a workflow there is nothing to start or to look at.
        let foot = if lines.is_empty() { String::new() } else { format!("\n{foot}") };
        format!("{head}\n{body}{after}{foot}")
    }
}

/// The calls that start a listed workflow and show what it does.
fn foot(workflows: &[ListedWorkflow], how: Matching, (tools, rights): (ToolSet, RunRights)) -> String {
    // With one workflow the text names the very call that `nextCall` holds (G72).
    let (start, id) = match workflows {
        [only] if how == Matching::Exact => ("Start it", only.workflow_id.as_str()),
        _ => ("Start one", "ID"),
    };
    let inspect = [("workflowId", Value::from(id)), ("mode", json!(InspectMode::Preview))];
    let preview = format!("{}.\n", NextCall::new(ToolName::InspectWorkflow, inspect).in_a_line());
    match (rights.why_no_start(), tools.offers(ToolName::StartWorkflow)) {
        (Some(why), _) => format!("{why} See what it does: {preview}"),
        (None, true) => format!(
            "{start}: {}. {GOAL_WANTED} See what it does first: {preview}",
            start_call(id).in_a_line()
        ),
        (None, false) => format!("See what it does: {preview}"),
    }
}

/// All workflows that match the filter, in listing order.
pub fn matching(
    summaries: &[&WorkflowSummary],
    filter: &Filter,
    is_taken: impl Fn(&str) -> bool,
) -> Vec<ListedWorkflow> {
    let WorkflowMatches { of, how } = matched(summaries, filter);
    match how {
        Matching::Exact => of.iter().map(|summary| listed(summary, &is_taken)).collect(),
        Matching::Nearest => Vec::new(),
    }
}

/// Whether the listed workflows contain every word of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matching {
    Exact,
    /// None does; these are the closest.
    Nearest,
}

struct WorkflowMatches<'s> {
    of: Vec<&'s WorkflowSummary>,
    how: Matching,
}

fn matched<'s>(summaries: &[&'s WorkflowSummary], filter: &Filter) -> WorkflowMatches<'s> {
    let query = filter.query.as_deref().unwrap_or_default();
    let words = search::word_set(query);
    // A query in another script has no words to compare, and must not match everything.
    if words.is_empty() && !query.trim().is_empty() {
        return WorkflowMatches { of: Vec::new(), how: Matching::Exact };
    }
    let tagged: Vec<&WorkflowSummary> =
        summaries.iter().copied().filter(|summary| filter.admits_tags(summary)).collect();
    let exact = tagged.iter().copied().filter(|summary| search::matches(&summary.words, &words));
    let mut of: Vec<&WorkflowSummary> = exact.collect();
    let how = if of.is_empty() { Matching::Nearest } else { Matching::Exact };
    if how == Matching::Nearest {
        of = nearest(&tagged, query);
    }
    of.sort_by(|a, b| a.order().cmp(&b.order()));
    WorkflowMatches { of, how }
}

/// If not every word is found as written: the workflows that share most of the significant words, regardless of
/// endings (`docs` finds documentation, `shape an idea` finds shaping).
fn nearest<'s>(summaries: &[&'s WorkflowSummary], query: &str) -> Vec<&'s WorkflowSummary> {
    let words = search::query_words(query);
    // A single word may be an abbreviation; among others it would match anything that begins alike.
    let is_short_form = words.len() == 1;
    let shared = |summary: &WorkflowSummary| {
        let has = |stem: &String| {
            summary.stems.contains(stem)
                || is_short_form && search::matches(&summary.words, &BTreeSet::from([stem.clone()]))
        };
        words.iter().filter(|(_, stems)| stems.iter().all(has)).count()
    };
    let most = summaries.iter().map(|summary| shared(summary)).max().unwrap_or(0);
    summaries.iter().copied().filter(|summary| most > 0 && shared(summary) == most).collect()
}

fn listed(summary: &WorkflowSummary, is_taken: impl Fn(&str) -> bool) -> ListedWorkflow {
    ListedWorkflow {
        workflow_id: summary.id.clone(),
        kind: summary.kind,
        id_status: IdStatus::of(&summary.id),
        suggested_id: summary.suggested(is_taken),
        source_kind: summary.source_kind,
        workflow_hash: summary.hash,
        name: summary.name.clone(),
        version: summary.version.clone(),
        description: summary.description.clone(),
        tags: summary.tags.clone(),
        staleness: summary.staleness,
    }
}

pub(super) fn legacy_text(id: &str, suggested: Option<&str>) -> String {
    let rename = suggested.map_or_else(String::new, |new| format!("; rename it to `{new}`"));
    format!("`{id}` has no namespace: it runs, but such names can collide{rename}")
}

fn legacy_warning(workflow: &ListedWorkflow) -> Option<DiscoveryWarning> {
    (workflow.id_status == IdStatus::Legacy).then(|| DiscoveryWarning {
        code: DiscoveryWarningCode::LegacyWorkflowId,
        workflow_id: workflow.workflow_id.to_string(),
        message: legacy_text(workflow.workflow_id.as_str(), workflow.suggested_id.as_deref()),
    })
}

fn head(matched: &[&WorkflowSummary], how: Matching, total: usize, filter: &Filter) -> String {
    if matched.is_empty() {
        return if total == 0 {
            "No workflow can be started. Put workflow files into `workflows/` of the workspace or into \
             `~/.workrail/workflows`; `workrail workflow new team.name` writes one to start from.\n"
                .to_owned()
        } else {
            format!(
                "No workflow matches. There are {total} in all: call list_workflows without `tags` and `query` to see \
                 them.\n"
            )
        };
    }
    let routines = matched.iter().filter(|summary| summary.kind == WorkflowKind::Routine).count();
    let count = match (matched.len() - routines, routines) {
        (workflows, 0) => counted(workflows, "workflow"),
        (0, routines) => counted(routines, "routine"),
        (workflows, routines) => {
            format!("{} and {}", counted(workflows, "workflow"), counted(routines, "routine"))
        }
    };
    if how == Matching::Nearest {
        format!(
            "None of the {total} has all of these words. {count} closest to them: id · name (source, version, hash): what it is for\n"
        )
    } else if filter.is_empty() {
        format!("{count}: id · name (source, version, hash): what it is for\n")
    } else {
        format!("{count} of {total} match: id · name (source, version, hash): what it is for\n")
    }
}

fn line(workflow: &ListedWorkflow) -> String {
    let routine = match workflow.kind {
        WorkflowKind::Workflow => "",
        WorkflowKind::Routine => "routine ",
    };
    let tags =
        if workflow.tags.is_empty() { String::new() } else { format!(" [{}]", workflow.tags.join(", ")) };
    format!(
        "- {routine}{} · {} ({}, {}, {}){tags}: {}",
        workflow.workflow_id,
        workflow.name,
        workflow.source_kind.word(),
        workflow.version,
        &workflow.workflow_hash.digest().hex()[..8],
        workflow.description,
    )
}

/// What follows the list: legacy ids and files that cannot be used.
fn after(workflows: &[ListedWorkflow], unusable: &[UnusableFile]) -> String {
    let mut text = String::new();
    let legacy = workflows.iter().filter(|workflow| workflow.id_status == IdStatus::Legacy);
    let lines: Vec<String> = legacy.map(rename_line).collect();
    if !lines.is_empty() {
        text.push_str("\nWarning: ids without a namespace work, but can collide; rename:\n");
        text.push_str(&within(&lines, LEGACY_BYTES_MAX, |left| format!("- and {left} more")));
    }
    if !unusable.is_empty() {
        text.push_str(&format!("\nNot usable, {}:\n", counted(unusable.len(), "file")));
        let lines: Vec<String> = unusable.iter().map(unusable_line).collect();
        text.push_str(&within(&lines, UNUSABLE_BYTES_MAX, |left| {
            format!("- and {left} more; `workrail workflow validate FOLDER` shows everything")
        }));
    }
    text
}

fn rename_line(workflow: &ListedWorkflow) -> String {
    let new = workflow.suggested_id.as_ref().map_or_else(String::new, |new| format!(" to `{new}`"));
    format!("- `{}`{new}", workflow.workflow_id)
}

fn unusable_line(file: &UnusableFile) -> String {
    let id = file.workflow_id.as_ref().map_or_else(String::new, |id| format!(" (`{id}`)"));
    let mut text = format!("- {} {}{id}", file.source_kind.word(), one_line(&file.file, 200));
    for error in &file.errors {
        text.push_str("\n    ");
        text.push_str(error);
    }
    if file.errors_left_out > 0 {
        text.push_str(&format!("\n    and {} more", file.errors_left_out));
    }
    text
}

/// Counts by tag, or by namespace if there is none; the largest first.
fn groups(matched: &[&WorkflowSummary]) -> Vec<WorkflowGroup> {
    let mut counts: BTreeMap<(NarrowBy, &str), usize> = BTreeMap::new();
    for summary in matched {
        if summary.tags.is_empty() {
            let namespace = summary.id.namespace().unwrap_or(summary.id.as_str());
            *counts.entry((NarrowBy::Query, namespace)).or_default() += 1;
        }
        for tag in &summary.tags {
            *counts.entry((NarrowBy::Tags, tag)).or_default() += 1;
        }
    }
    let mut groups: Vec<WorkflowGroup> = counts
        .into_iter()
        .map(|((narrow_by, name), count)| WorkflowGroup { name: name.to_owned(), count, narrow_by })
        .collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    groups.truncate(GROUPS_MAX);
    groups
}

fn narrowing_to(group: &WorkflowGroup) -> NextCall {
    let argument = match group.narrow_by {
        NarrowBy::Query => ("query", json!(group.name)),
        NarrowBy::Tags => ("tags", json!([group.name])),
    };
    NextCall::new(ToolName::ListWorkflows, [argument])
}

fn group_line(group: &WorkflowGroup) -> String {
    format!("- {}: {} — {}", group.name, group.count, narrowing_to(group).in_a_line())
}

fn start_call(id: &str) -> NextCall {
    NextCall::new(ToolName::StartWorkflow, [("workflowId", Value::from(id))])
}

/// The one call that is certainly next, if there is one.
fn next_call(
    workflows: &[ListedWorkflow],
    how: Matching,
    groups: &[WorkflowGroup],
    filter: &Filter,
    tools: ToolSet,
) -> Option<NextCall> {
    let call = match (workflows, groups) {
        (_, [group, ..]) => narrowing_to(group),
        ([_, ..], []) if how == Matching::Nearest => NextCall::new(ToolName::ListWorkflows, []),
        ([only], []) => start_call(only.workflow_id.as_str()),
        ([], []) if !filter.is_empty() => NextCall::new(ToolName::ListWorkflows, []),
        (_, []) => return None,
    };
    Some(call).filter(|call| tools.offers(call.tool))
}
