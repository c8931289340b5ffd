//! `workrail workflow list` and `workrail workflow inspect`: the available workflows, and one in detail.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use workrail_engine::catalog::{Catalog, Choice, ClaimingFile, Filter};
use workrail_engine::request::InspectWorkflow;
use workrail_host::workspace::default_workspace;
use workrail_model::discovery::{
    InspectMode, ListedWorkflow, PlanEntry, UnusableFile, WorkflowInspection, WorkflowKind,
};
use workrail_ports::workspace::WorkspacePath;

use super::pinned;
use crate::layout::wrapped;
use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::{settings, wiring};

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// List the workflows that can be started here.
    #[command(after_help = format!(
        "{EXIT_CODES}\n\nExamples:\n  workrail workflow list\n  workrail workflow list --query review --tag coding\n  workrail workflow list --problems"
    ))]
    List(ListWorkflowsArguments),
    /// Show a workflow: its description, source, plan and requirements.
    #[command(after_help = format!(
        "{EXIT_CODES}\n\nExamples:\n  workrail workflow inspect wr.code_review\n  workrail workflow inspect --run amber-falcon"
    ))]
    Inspect(InspectArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ListWorkflowsArguments {
    /// Only workflows with all these words in the id, name, description or tags.
    #[arg(long)]
    query: Option<String>,
    /// Only workflows with this tag. May be repeated.
    #[arg(long)]
    tag: Vec<String>,
    /// Also list files that cannot be used, with the reasons.
    #[arg(long)]
    all: bool,
    /// List only files that cannot be used; exit code 1 if there are any.
    #[arg(long, conflicts_with_all = ["all", "query", "tag"])]
    problems: bool,
    /// The workspace to list workflows for. Default: the current directory.
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// The id of the workflow.
    #[arg(required_unless_present = "run")]
    id: Option<String>,
    /// Show what a run is pinned to instead, and whether the file has changed since.
    #[arg(long, value_name = "LABEL", conflicts_with_all = ["id", "workspace"])]
    run: Option<String>,
    /// The workspace to look in. Default: the current directory.
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: CatalogCommand) -> ExitCode {
    match command {
        CatalogCommand::List(arguments) => outcome::run(arguments.json, |format| list(arguments, format)),
        CatalogCommand::Inspect(arguments) => {
            outcome::run(arguments.json, |format| inspect(&arguments, format))
        }
    }
}

/// The named folder, or else that of this process.
fn workspace(named: Option<&str>) -> Result<Option<WorkspacePath>, Failure> {
    let Some(named) = named else { return Ok(default_workspace()) };
    let full = std::path::absolute(named).ok().and_then(|full| full.into_os_string().into_string().ok());
    let path = full.and_then(|full| WorkspacePath::parse(&full).ok());
    path.map(Some).ok_or_else(|| Failure::Usage(format!("`{named}` is not a folder.")))
}

fn list(arguments: ListWorkflowsArguments, format: Format) -> Result<(), Failure> {
    let workspace = workspace(arguments.workspace.as_deref())?;
    let catalog = Catalog::new(Arc::new(settings::sources()?));
    let filter = Filter { tags: arguments.tag, query: arguments.query };
    let (workflows, unusable) = catalog.all(workspace.as_ref(), &filter);
    let done = if arguments.problems && !unusable.is_empty() { Err(Failure::Problems) } else { Ok(()) };
    if format == Format::Json {
        let workflows = if arguments.problems { Vec::new() } else { workflows };
        output::json(&json!({ "workflows": workflows, "unusable": unusable }));
        return done;
    }
    if !arguments.problems {
        let rows = workflows.iter().map(row);
        match output::columns() {
            Some(width) => rows.for_each(|row| paragraph(&row, width)),
            None => output::table(&["workflow", "name", "source", "version", "what it is for"], rows),
        }
        if workflows.is_empty() {
            output::line(
                "No workflow matches. `workrail workflow list` without --query and --tag shows all.",
            );
        }
    }
    if arguments.problems || arguments.all {
        unusable.iter().for_each(problem);
        if unusable.is_empty() {
            output::toned(Tone::Good, "No problems found.");
        }
    } else if !unusable.is_empty() {
        let files = output::counted(unusable.len() as u64, "file", "files");
        output::toned(Tone::Warning, &format!("{files} cannot be used: workrail workflow list --problems"));
    }
    done
}

/// A row for a terminal that is too narrow for five columns.
fn paragraph(row: &[String], width: usize) {
    let [id, name, source, version, what] = row else { return };
    output::toned(Tone::Heading, &format!("{id} · {name} ({source}, {version})"));
    for line in wrapped(what, Some(width.saturating_sub(2))) {
        output::line(&format!("  {line}"));
    }
}

fn row(workflow: &ListedWorkflow) -> Vec<String> {
    let routine = match workflow.kind {
        WorkflowKind::Workflow => "",
        WorkflowKind::Routine => " (routine)",
    };
    let rename = workflow.suggested_id.as_ref().map_or(String::new(), |new| format!(" (rename to {new})"));
    vec![
        format!("{}{routine}{rename}", workflow.workflow_id),
        workflow.name.clone(),
        workflow.source_kind.word().to_owned(),
        workflow.version.clone(),
        workflow.description.clone(),
    ]
}

fn problem(file: &UnusableFile) {
    let id = file.workflow_id.as_ref().map_or(String::new(), |id| format!(" ({id})"));
    output::toned(Tone::Bad, &format!("{} {}{id}", file.source_kind.word(), file.file));
    for error in &file.errors {
        output::line(&format!("  {error}"));
    }
    if file.errors_left_out > 0 {
        output::line(&format!(
            "  and {} more; `workrail workflow validate FILE` shows all",
            file.errors_left_out
        ));
    }
}

fn inspect(arguments: &InspectArguments, format: Format) -> Result<(), Failure> {
    match (&arguments.id, &arguments.run) {
        (Some(id), _) => inspect_id(id, arguments, format),
        (None, Some(run)) => pinned::inspect(run, format),
        // The parser refuses this.
        (None, None) => Err(Failure::Usage("Name a workflow, or a run with --run.".to_owned())),
    }
}

fn inspect_id(id: &str, arguments: &InspectArguments, format: Format) -> Result<(), Failure> {
    let workspace = workspace(arguments.workspace.as_deref())?.map(|path| path.as_str().to_owned());
    let engine = wiring::read_only_default()?;
    let request = InspectWorkflow {
        workflow_id: id.to_owned(),
        mode: InspectMode::Preview,
        workspace_path: workspace.clone(),
    };
    let found = engine.inspect_workflow(request)?;
    let claimants = engine.claimants(&found.workflow_id, workspace.as_deref())?;
    if format == Format::Json {
        return json_document(&found, &claimants);
    }
    show(&found, &claimants);
    Ok(())
}

fn choice_state(choice: Choice) -> &'static str {
    match choice {
        Choice::Chosen => "used",
        Choice::Shadowed => "shadowed",
        Choice::Duplicate { .. } => "duplicate",
        Choice::Reserved => "reserved",
        Choice::BundledCopy => "copy",
    }
}

fn json_document(found: &WorkflowInspection, claimants: &[ClaimingFile]) -> Result<(), Failure> {
    let whole = serde_json::to_value(found);
    let mut whole = whole.map_err(|error| Failure::Environment(error.to_string()))?;
    let claimants: Vec<Json> = claimants
        .iter()
        .map(|claimant| json!({ "source": claimant.precedence, "file": claimant.reference, "state": choice_state(claimant.choice) }))
        .collect();
    if let Json::Object(members) = &mut whole {
        // Text for agents, whose next call is not a user's.
        members.remove("text");
        members.remove("nextCall");
        members.insert("candidates".to_owned(), claimants.into());
    }
    output::json(&whole);
    Ok(())
}

fn show(found: &WorkflowInspection, claimants: &[ClaimingFile]) {
    output::toned(Tone::Heading, &format!("{}  {} {}", found.workflow_id, found.name, found.version));
    output::line(&found.description);
    output::line("");
    for claimant in claimants {
        let text = format!(
            "  {:<10} {} {}",
            choice_state(claimant.choice),
            claimant.precedence.word(),
            claimant.reference
        );
        output::toned(if claimant.choice == Choice::Chosen { Tone::Good } else { Tone::Quiet }, &text);
    }
    output::line(&format!("  {:<10} {}", "hash", found.workflow_hash));
    for warning in &found.warnings {
        output::toned(Tone::Warning, &format!("  warning    {}", warning.message));
    }
    section("Preconditions", found.preconditions.iter().cloned());
    section("Asks you for", asked(found).into_iter());
    let references = found.references.iter().map(|reference| match &reference.path {
        Some(path) => format!("{}: {path}", reference.title),
        None => format!("{}: {} was not found", reference.title, reference.source),
    });
    section("References", references);
    let owed =
        found.contracts.iter().map(|contract| format!("{}: {}", contract.contract_ref, contract.purpose));
    section("Steps must deliver", owed);
    section("Steps", found.plan.iter().map(plan_line));
}

fn section(title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return;
    }
    output::line("");
    output::toned(Tone::Heading, title);
    for line in lines {
        output::line(&format!("  {line}"));
    }
}

/// Everything that only the user can provide, and where.
fn asked(found: &WorkflowInspection) -> Vec<String> {
    let mut asked: Vec<String> = found.clarification_prompts.clone();
    for entry in &found.plan {
        asked.extend(entry.confirmation.iter().map(|text| format!("{}: {text}", entry.title)));
        asked.extend(entry.user_dependencies.iter().map(|text| format!("{}: {text}", entry.title)));
    }
    asked
}

/// A step of a plan, with its condition and repetition.
pub(super) fn plan_line(entry: &PlanEntry) -> String {
    let notes = [entry.runs_if.as_ref().map(|text| format!("if {text}")), entry.repeats.clone()];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" [{}]", notes.join("; ")) };
    format!("{} {}{notes}", entry.number, entry.title)
}
