//! Prompts, which users choose in a client, usually as slash commands. One for each workflow, and `resume`.
//!
//! A prompt changes nothing. It tells the model which call to make; the model makes the call, visible to the user.

use rmcp::ErrorData;
use rmcp::model::{CompletionInfo, GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde::de::DeserializeOwned;
use serde_json::Value;
use workrail_engine::request::{ListWorkflows, Request, ResumeSession};
use workrail_model::discovery::{ListedWorkflow, NarrowBy, WorkflowKind, WorkflowList};
use workrail_model::preferences::Mode;
use workrail_model::reply::NextCall;
use workrail_model::resume::{MatchReason, ResumeBody};
use workrail_model::text::clean;
use workrail_model::tool::ToolName;

use crate::call::{self, Execution};

const RESUME: &str = "resume";

/// The maximum number of prompts; a longer menu is of no use.
const PROMPTS_MAX: usize = 200;

/// The arguments of prompts, as users see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromptInput {
    Goal,
    Mode,
    Run,
}

impl PromptInput {
    fn name(self) -> &'static str {
        match self {
            Self::Goal => "goal",
            Self::Mode => "mode",
            Self::Run => "run",
        }
    }

    fn shown(self) -> PromptArgument {
        let description = match self {
            Self::Goal => "The work in a few words. Without it, the agent takes it from the chat.",
            Self::Mode => {
                "How far the run goes on its own: guided, full_auto_stop_on_user_deps or full_auto_never_stop. \
                 Default: the user's setting."
            }
            Self::Run => {
                "The label of a run, or a few words of its goal or notes. Without it, the latest run."
            }
        };
        PromptArgument::new(self.name()).with_description(description).with_required(false)
    }

    /// The given value; empty means absent.
    fn of(self, given: &JsonObject) -> Result<Option<String>, ErrorData> {
        match given.get(self.name()) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(ErrorData::invalid_params(format!("`{}` must be text", self.name()), None))
            }
        }
    }
}

/// The available prompts. `folder` is the client's, if it named one.
pub(crate) fn list(execution: &dyn Execution, folder: Option<String>) -> Vec<Prompt> {
    let mut prompts = Vec::new();
    if execution.lists(ToolName::ResumeSession) {
        let description = "Continue earlier work: finds the run and shows its pending step.";
        let arguments = vec![PromptInput::Run.shown()];
        prompts.push(Prompt::new(RESUME, Some(description), Some(arguments)).with_title("Resume a run"));
    }
    if execution.lists(ToolName::StartWorkflow) {
        let workflows = workflows(execution, folder.as_deref());
        prompts.extend(
            workflows.iter().filter(|workflow| workflow.workflow_id.as_str() != RESUME).map(prompt_of),
        );
    }
    prompts.truncate(PROMPTS_MAX);
    prompts
}

fn prompt_of(workflow: &ListedWorkflow) -> Prompt {
    let arguments = vec![PromptInput::Goal.shown(), PromptInput::Mode.shown()];
    Prompt::new(workflow.workflow_id.as_str(), Some(clean(&workflow.description)), Some(arguments))
        .with_title(clean(&workflow.name))
}

/// Workflows without routines, which are parts of others.
fn workflows(execution: &dyn Execution, folder: Option<&str>) -> Vec<ListedWorkflow> {
    let list = |narrow: ListWorkflows| {
        let request = ListWorkflows { workspace_path: folder.map(str::to_owned), ..narrow };
        answered::<WorkflowList>(execution, Request::ListWorkflows(request))
    };
    let Some(mut all) = list(ListWorkflows::default()) else { return Vec::new() };
    // Too many to list at once: they are listed group by group.
    for group in std::mem::take(&mut all.groups) {
        let narrow = match group.narrow_by {
            NarrowBy::Query => ListWorkflows { query: Some(group.name), ..ListWorkflows::default() },
            NarrowBy::Tags => ListWorkflows { tags: vec![group.name], ..ListWorkflows::default() },
        };
        all.workflows.extend(list(narrow).into_iter().flat_map(|found| found.workflows));
        if all.workflows.len() >= PROMPTS_MAX {
            break;
        }
    }
    all.workflows.retain(|workflow| workflow.kind == WorkflowKind::Workflow);
    let mut seen = std::collections::BTreeSet::new();
    all.workflows.retain(|workflow| seen.insert(workflow.workflow_id.clone()));
    all.workflows
}

/// The data of an answer; `None` if there is none.
fn answered<T: DeserializeOwned>(execution: &dyn Execution, request: Request) -> Option<T> {
    match execution.answer(request) {
        Ok(reply) => serde_json::from_value(reply.into_structured()).ok(),
        Err(error) => {
            tracing::warn!(code = error.code.as_str(), error.message, "prompts cannot be found");
            None
        }
    }
}

/// The prompt as a user message.
pub(crate) fn get(
    execution: &dyn Execution,
    name: &str,
    given: &JsonObject,
    folder: Option<String>,
) -> Result<GetPromptResult, ErrorData> {
    let text = if name == RESUME && execution.lists(ToolName::ResumeSession) {
        resume_text(PromptInput::Run.of(given)?)
    } else {
        let offered = execution.lists(ToolName::StartWorkflow);
        let found = if offered { workflows(execution, folder.as_deref()) } else { Vec::new() };
        match found.iter().find(|workflow| workflow.workflow_id.as_str() == name) {
            Some(workflow) => {
                start_text(workflow, PromptInput::Goal.of(given)?, PromptInput::Mode.of(given)?)?
            }
            None => return Err(unknown(execution, name, folder)),
        }
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}

fn unknown(execution: &dyn Execution, name: &str, folder: Option<String>) -> ErrorData {
    let known: Vec<String> = list(execution, folder).into_iter().map(|prompt| prompt.name).collect();
    let name = call::quoted_name(name);
    ErrorData::invalid_params(format!("unknown prompt `{name}`; the prompts are {}", known.join(", ")), None)
}

fn start_text(
    workflow: &ListedWorkflow,
    goal: Option<String>,
    mode: Option<String>,
) -> Result<String, ErrorData> {
    let mode = mode.map(|text| Mode::parse(&text).ok_or_else(unknown_mode)).transpose()?;
    let id = workflow.workflow_id.as_str();
    let title = clean(&workflow.name);
    let goal_line = match &goal {
        Some(goal) => format!("Goal: {}", clean(goal)),
        None => "Take the goal from this chat and send it as `goal`, in a few words. If it is not clear, ask me first."
            .to_owned(),
    };
    let arguments = [
        ("workflowId", Some(id.to_owned())),
        ("goal", goal),
        ("mode", mode.map(|mode| mode.as_str().to_owned())),
    ];
    let arguments = arguments.into_iter().filter_map(|(name, value)| Some((name, Value::from(value?))));
    let suggested = NextCall::new(ToolName::StartWorkflow, arguments);
    Ok(format!(
        "Start the WorkRail workflow `{id}` ({title}).\n{goal_line}\n\nCall start_workflow with:\n{}\n\nThen do \
         exactly the step that it returns and continue as its next call says.",
        call::escaped(&suggested.arguments_text())
    ))
}

fn unknown_mode() -> ErrorData {
    let known: Vec<&str> = Mode::ALL.into_iter().map(Mode::as_str).collect();
    ErrorData::invalid_params(format!("`mode` must be one of {}", known.join(", ")), None)
}

fn resume_text(run: Option<String>) -> String {
    let (which, arguments) = match run {
        Some(run) => {
            (format!("Continue this WorkRail run: {}", clean(&run)), vec![("query", Value::from(run))])
        }
        None => ("Continue the WorkRail run that I worked on last.".to_owned(), Vec::new()),
    };
    let suggested = NextCall::new(ToolName::ResumeSession, arguments);
    format!(
        "{which}\n\nCall resume_session with:\n{}\n\nThen make the call that it shows for the run I mean. If several \
         runs fit, ask me which one.",
        call::escaped(&suggested.arguments_text())
    )
}

/// Completes an argument of a prompt.
pub(crate) fn complete(
    execution: &dyn Execution,
    prompt: &str,
    argument: &str,
    typed: &str,
    folder: Option<String>,
) -> CompletionInfo {
    let mut values = match (prompt, argument) {
        (RESUME, "run") if execution.lists(ToolName::ResumeSession) => run_labels(execution, typed, folder),
        (_, "mode") if prompt != RESUME => {
            let modes = Mode::ALL.into_iter().map(|mode| mode.as_str().to_owned());
            modes.filter(|mode| mode.starts_with(typed)).collect()
        }
        _ => Vec::new(),
    };
    values.truncate(CompletionInfo::MAX_VALUES);
    CompletionInfo::with_all_values(values).unwrap_or_default()
}

/// Labels of the latest runs that begin as typed, then those of runs found by the words.
fn run_labels(execution: &dyn Execution, typed: &str, folder: Option<String>) -> Vec<String> {
    let find = |query: Option<String>| {
        let request = ResumeSession { query, workspace_path: folder.clone(), ..ResumeSession::default() };
        let found = answered::<ResumeBody>(execution, Request::ResumeSession(request));
        found.map(|found| found.candidates).unwrap_or_default()
    };
    let mut labels: Vec<String> = find(None).into_iter().filter_map(|candidate| candidate.label).collect();
    labels.retain(|label| label.starts_with(&typed.to_lowercase()));
    if !typed.trim().is_empty() {
        for candidate in find(Some(typed.to_owned())) {
            let is_meant = !candidate.why_matched.contains(&MatchReason::RecencyFallback);
            labels.extend(candidate.label.filter(|_| is_meant));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    labels.retain(|label| seen.insert(label.clone()));
    labels
}
