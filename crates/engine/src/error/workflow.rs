//! Workflow files that do not exist or cannot be used (G45).

use workrail_core::compile::{BindingsError, Diagnostics};
use workrail_model::error::{ErrorCode, ErrorDetails, Retry};
use workrail_model::name::WorkflowId;
use workrail_model::reply::NextCall;
use workrail_model::text::truncate_with_marker;
use workrail_model::tool::ToolName;
use workrail_ports::workflow_source::SourceError;

use super::{Advice, BoxedError, LOCK_RETRY_AFTER_MS, envelope, sentence};

/// Limit on a file's problems in one answer; the others are counted.
const DIAGNOSTICS_BYTES_MAX: usize = 4000;

/// `known` lists the ids that can be started, the nearest to the misspelled one first.
pub(crate) fn unknown_workflow(id: &WorkflowId, nearest: Option<&str>, known: &[&str]) -> BoxedError {
    let people = "`workrail workflow list` shows every workflow, and every file that cannot be used.";
    let advice = match nearest {
        Some(near) => Advice {
            suggestion: format!(
                "Did you mean `{near}`? Then send the call below. Otherwise call list_workflows."
            ),
            for_people: Some(format!("Did you mean `{near}`? {people}")),
            in_team: None,
        },
        None => Advice {
            suggestion: format!(
                "Known: {}. Call list_workflows to see every workflow, and every file that cannot be used.",
                known.join(", ")
            ),
            for_people: Some(format!("Known: {}. {people}", known.join(", "))),
            in_team: None,
        },
    };
    let advice =
        advice.for_members("The page Workflows shows every workflow, and every file that cannot be used.");
    let message = format!("No workflow has the id `{id}`.");
    let mut error = envelope(ErrorCode::WorkflowNotFound, Retry::NotRetryable, message, advice);
    error.details = Some(ErrorDetails::UnknownWorkflow {
        nearest: nearest.map(str::to_owned),
        known: known.iter().map(|id| (*id).to_owned()).collect(),
    });
    if nearest.is_none() {
        error.next_call = Some(NextCall::new(ToolName::ListWorkflows, []));
    }
    error
}

pub(crate) fn unknown_file() -> BoxedError {
    envelope(
        ErrorCode::WorkflowNotFound,
        Retry::NotRetryable,
        "No source has a workflow file at this address.".to_owned(),
        "Open the file from the list of workflows.",
    )
}

pub(crate) fn not_text(reference: &str) -> BoxedError {
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("`{reference}` is not UTF-8 text."),
        "Save the file as UTF-8.",
    )
}

pub(crate) fn unusable_workflow(id: &WorkflowId, file: &str, why: &str) -> BoxedError {
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("`{id}` cannot be used: {file}: {why}"),
        Advice::repeat_after("Fix the file as the message says"),
    )
}

/// The sources could not be searched to the end, for a reason that passes. Which file owns an id is unknown.
pub(crate) fn sources_interrupted(detail: &str) -> BoxedError {
    envelope(
        ErrorCode::StoreBusy,
        Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
        format!("The workflow folders cannot be searched now: {detail}. Nothing was recorded."),
        Advice::repeat_soon(
            "If it persists: close other programs or raise the limit of open files (`ulimit -n`).",
        ),
    )
}

pub(crate) fn source(cause: &SourceError) -> BoxedError {
    if let SourceError::Interrupted { .. } = cause {
        return sources_interrupted(&cause.to_string());
    }
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("{}.", sentence(&cause.to_string())),
        Advice::from("Check that the file exists and can be read.")
            .by_an_admin("check that the file exists and can be read"),
    )
}

pub(crate) fn diagnostics(cause: &Diagnostics) -> BoxedError {
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("The workflow's file has errors:\n{}", first_of(cause)),
        Advice::from(
            "Fix the file as the messages say, then start again; `workrail workflow validate` shows all of them.",
        )
        .by_an_admin("fix the file as the messages say; `workrail workflow validate` shows all of them"),
    )
}

/// As many problems as fit in an answer.
fn first_of(cause: &Diagnostics) -> String {
    let mut text = String::new();
    let all: Vec<String> = cause.errors().map(|problem| format!("{}: {problem}", cause.file)).collect();
    for (position, problem) in all.iter().enumerate() {
        if position > 0 && text.len() + problem.len() > DIAGNOSTICS_BYTES_MAX {
            text.push_str(&format!("and {} more", all.len() - position + cause.left_out));
            break;
        }
        text.push_str(&truncate_with_marker(problem, DIAGNOSTICS_BYTES_MAX));
        text.push('\n');
    }
    text
}

pub(crate) fn bindings(file: &str, cause: &BindingsError) -> BoxedError {
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("The workspace's `{file}` cannot be used: {cause}. No run was started."),
        Advice::from("Correct the file: an object of slot to text, or of workflow id to such an object.")
            .by_an_admin("correct the file: an object of slot to text, or of workflow id to such an object"),
    )
}

pub(crate) fn unknown_hash(text: &str, found: usize) -> BoxedError {
    let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
    let message = match found {
        0 => format!("No run of this store is pinned to a workflow with the hash `{shown}`."),
        found => format!("{found} pinned workflows have a hash that starts with `{shown}`."),
    };
    envelope(
        ErrorCode::WorkflowNotFound,
        Retry::NotRetryable,
        message,
        "Give more of the hash, or name a run, a workflow id or a file. `workrail workflow inspect --run RUN` prints the hash of a run.",
    )
}
