//! Workflow files that do not exist or cannot be used (G45).

use workrail_core::compile::{BindingsError, Diagnostics};
use workrail_model::error::{ErrorCode, ErrorDetails, Retry};
use workrail_model::name::WorkflowId;
use workrail_model::text::truncate_with_marker;
use workrail_ports::workflow_source::SourceError;

use super::{Advice, BoxedError, LOCK_RETRY_AFTER_MS, envelope, quoted, sentence};

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
        Advice::repeat_soon_or("close other programs or raise the limit of open files (`ulimit -n`)"),
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
    let all: Vec<String> = cause.errors().map(|problem| format!("{}: {problem}", cause.file)).collect();
    let (mut shown, mut bytes) = (Vec::new(), 0);
    for problem in &all {
        bytes += problem.len() + 1;
        if !shown.is_empty() && bytes > DIAGNOSTICS_BYTES_MAX {
            break;
        }
        shown.push(truncate_with_marker(problem, DIAGNOSTICS_BYTES_MAX));
    }
    // Errors come first, so what is not even listed has no errors unless everything listed is one.
    let unlisted = if all.len() == cause.problems.len() { cause.left_out } else { 0 };
    match all.len() - shown.len() + unlisted {
        0 => shown.join("\n"),
        more => format!("{}\nand {more} more", shown.join("\n")),
    }
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
    let shown = quoted(text);
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

#[cfg(test)]
mod tests {
    use workrail_core::compile::{Code, Diagnostic, DiagnosticSeverity, SourceSpan};

    use super::*;

    fn problem(line: usize) -> Diagnostic {
        Diagnostic {
            severity: DiagnosticSeverity::Error,
            code: Code::ALL[0],
            path: String::new(),
            line,
            column: 1,
            span: SourceSpan::default(),
            message: "m".repeat(1000),
            why: "w".to_owned(),
            fix: "f".to_owned(),
        }
    }

    /// Broke: the message ended with a line break, so replies had an empty line too many.
    #[test]
    fn the_problems_of_a_file_are_listed_without_empty_lines() {
        let of = |count, left_out| {
            let problems = (1..=count).map(problem).collect();
            diagnostics(&Diagnostics { file: "a.json".to_owned(), problems, left_out }).message
        };
        assert!(of(2, 0).ends_with("\n  fix: f"), "{}", of(2, 0));
        assert!(of(7, 2).ends_with("\n  fix: f\nand 6 more"), "{}", of(7, 2));
        assert!(!of(7, 2).contains("\n\n"));
    }
}
