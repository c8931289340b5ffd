//! What the core refused to decide, as an error for the caller.

use serde_json::{Value, json};
use workrail_core::decide::DecideError;
use workrail_core::interpret::{InterpretError, LoopInput};
use workrail_core::render::prompt::StepTextTooLong;
use workrail_model::canonical::CanonicalError;
use workrail_model::error::{ErrorDetails, RefusedArgument, RefusedArtifact, SizeMethod, WantedValue};
use workrail_model::event::EventError;
use workrail_model::limits::RENDERED_STEP_BYTES_MAX;
use workrail_model::placeholder;
use workrail_model::plan::PlanError;

use super::{Advice, BoxedError, chain, context, internal, invalid, oversize, session_full};

/// About a gap that only the user can close.
const TELL_OF_GAP: &str = "Leave this artifact out and tell the user about the gap. The gap stays in the record. If the user \
                           wants to decide after all, go back to that step in guided mode and";

pub(crate) fn decide(cause: &DecideError) -> BoxedError {
    match cause {
        DecideError::Context(inner) => context(inner),
        DecideError::NotesTooLong { bytes, max } => {
            let mut error = invalid(
                format!(
                    "`output.notesMarkdown` has {bytes} bytes, at most {max} are allowed. Nothing was recorded."
                ),
                "Shorten the notes to what this step did; link to files instead of pasting them.",
            );
            error.details = Some(oversize(None, *bytes, *max, SizeMethod::Bytes));
            error
        }
        DecideError::ArtifactTooLong { position, bytes, max } => {
            let mut error = invalid(
                format!("`output.artifacts[{position}]` has {bytes} bytes, at most {max} are allowed."),
                "Write the content to a file and send an artifact that refers to it.",
            );
            error.details = Some(oversize(
                None,
                *bytes,
                usize::try_from(*max).unwrap_or(usize::MAX),
                SizeMethod::CanonicalJson,
            ));
            error
        }
        DecideError::TextTooLong(inner) => step_text(inner),
        DecideError::Placeholder { location } => {
            let mut error = invalid(
                format!(
                    "`{location}` holds the placeholder that a WorkRail reply showed, not your own text. Nothing was \
                     recorded."
                ),
                "Send the call again with your own text there, and leave out what does not apply: a list may be empty.",
            );
            let argument = location.split(['.', '[']).next().unwrap_or(location);
            error.details =
                Some(ErrorDetails::Placeholder { argument: argument.to_owned(), location: location.clone() });
            error
        }
        DecideError::NotTheAgentsGap { run, position, gap, summary } => {
            let mut error = invalid(
                format!(
                    "Gap {gap} cannot be closed with an artifact: only the user can supply it ({summary}). Nothing \
                     was recorded."
                ),
                Advice::from(format!("{TELL_OF_GAP} let them run `workrail approve`."))
                    .in_team(format!("{TELL_OF_GAP} let an approver decide in the team's console."))
                    .on_the_page_of(*run),
            );
            error.details = Some(ErrorDetails::NotTheAgentsGap { refused: refused(*position), gap_id: *gap });
            error
        }
        DecideError::NoSuchGap { position, open } => {
            let mut error = invalid(
                format!(
                    "`output.artifacts[{position}]` closes a gap that is not open in this run. Nothing was recorded."
                ),
                "",
            );
            error.suggestion = match open.as_slice() {
                [] => "The run has no open gap: leave the artifact out.".to_owned(),
                ids => format!("Name an open gap in `gapId`: {}. Or leave the artifact out.", ids.join(", ")),
            };
            error.details =
                Some(ErrorDetails::NoSuchGap { refused: refused(*position), open_gaps: open.clone() });
            error
        }
        DecideError::Plan(PlanError::Event { source: EventError::Field { field, .. }, .. })
            if field == "eventIndex" =>
        {
            session_full("its events have used up their numbers")
        }
        DecideError::EmptyCheckpoint => invalid(
            "The checkpoint holds neither notes nor artifacts, so there is nothing to keep.".to_owned(),
            "Send `output.notesMarkdown` with what is done and what is next.",
        ),
        DecideError::NothingPending => invalid(
            "The run is complete: there is no step to complete.".to_owned(),
            "Start another workflow, or send the stateToken of an earlier step to continue there.",
        ),
        DecideError::Canonical(inner) => {
            let suggestion = match inner {
                CanonicalError::TooDeep => "Flatten the artifact, or write it to a file and refer to that.",
                CanonicalError::UnsafeInteger { .. } | CanonicalError::NotJson { .. } => {
                    "Send integers beyond 2^53-1 as strings."
                }
            };
            let message = format!("`output` cannot be kept: {inner}. Nothing was recorded.");
            let mut error = invalid(message, suggestion);
            error.details = Some(ErrorDetails::Argument { argument: RefusedArgument::Output });
            error
        }
        DecideError::Interpret(missing @ InterpretError::MissingContext { key, expected, .. }) => {
            missing_key(key, *expected, &missing.to_string())
        }
        DecideError::Interpret(_)
        | DecideError::Plan(_)
        | DecideError::Snapshot(_)
        | DecideError::StepKey(_)
        | DecideError::Invariant(_) => internal(&chain(cause)),
    }
}

/// A loop at the very start reads a key that the start did not set.
fn missing_key(key: &str, expected: LoopInput, cause: &str) -> BoxedError {
    let mut error = invalid(
        format!("`context.{key}` is missing. {cause} Nothing was recorded."),
        "Send the call below with your own value.",
    );
    let value = match expected {
        LoopInput::Number => json!(placeholder::A_NUMBER),
        LoopInput::List => json!([placeholder::AN_ITEM]),
        LoopInput::Objects => json!([{ "...": placeholder::AN_ITEM }]),
    };
    error.details = Some(ErrorDetails::MissingContext(wanted(key, value)));
    error
}

fn refused(position: usize) -> RefusedArtifact {
    RefusedArtifact { argument: RefusedArgument::Output, refused_artifact: position }
}

fn wanted(key: &str, empty_value: Value) -> WantedValue {
    WantedValue { argument: RefusedArgument::Context, context_key: key.to_owned(), empty_value }
}

/// A context value makes the text of the next step too long to send or store.
pub(crate) fn step_text(cause: &StepTextTooLong) -> BoxedError {
    let StepTextTooLong { step_id, variable, context_key, variable_bytes, empty_value } = cause;
    let mut error = invalid(
        format!("`context.{context_key}` is too large to be shown: {cause}. Nothing was recorded."),
        "",
    );
    error.suggestion = format!(
        "Send the call again with a smaller `context.{context_key}`: write the content to a file and pass its path. \
         The call below sends an empty value."
    );
    error.details = Some(ErrorDetails::StepTextTooLong {
        wanted: wanted(context_key, empty_value.clone()),
        step_id: step_id.clone(),
        variable: variable.clone(),
        variable_bytes: *variable_bytes,
        max_bytes: RENDERED_STEP_BYTES_MAX,
        method: SizeMethod::JsonString,
    });
    error
}
