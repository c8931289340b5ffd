//! How a command ends: exit codes that scripts can rely on, and one format for failures.

use std::io;
use std::process::ExitCode;

use serde_json::json;
use workrail_host::machine;
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};

use crate::output;

/// Shown in the help of every command without its own codes.
pub(crate) const EXIT_CODES: &str =
    "Exit codes: 0 success, 1 failed or found problems, 2 usage error or not found, 3 busy (try again).";

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It completed and found problems, which are already printed.
    Problems,
    /// It was stopped by an error that is already printed, with what was done before.
    Stopped(Box<ErrorEnvelope>),
    /// The call is invalid as written.
    Usage(String),
    /// An error of the engine.
    Refused(Box<ErrorEnvelope>),
    /// Something in the environment failed; the text says what, and what to do.
    Environment(String),
}

impl From<Box<ErrorEnvelope>> for Failure {
    fn from(mut error: Box<ErrorEnvelope>) -> Self {
        if let Some(suggestion) = error.suggestion_for_people.take() {
            error.suggestion = suggestion;
        }
        Self::Refused(error)
    }
}

/// An I/O error, and what to do about it if that is known.
pub(crate) fn io_error_text(error: &io::Error) -> String {
    match machine::is_shortage(error) {
        true => format!(
            "{error}.\nClose other programs or raise the limit of open files (`ulimit -n`), then run the command again."
        ),
        false => error.to_string(),
    }
}

/// How a command prints its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Format {
    /// From a command's `--json` switch. Called before the command does anything: from then on, prose on standard
    /// output is a mistake.
    pub(crate) fn json_if(switch: bool) -> Self {
        if switch {
            output::expect_json();
            return Self::Json;
        }
        Self::Text
    }
}

/// Runs a command in the format that its `--json` switch asks for.
pub(crate) fn run(json: bool, command: impl FnOnce(Format) -> Result<(), Failure>) -> ExitCode {
    let format = Format::json_if(json);
    finish(command(format), format)
}

/// Prints a failure in the requested format, and chooses the exit code.
pub(crate) fn finish(result: Result<(), Failure>, format: Format) -> ExitCode {
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => print_failure(failure, format),
    };
    if format == Format::Json {
        output::assert_document();
    }
    code
}

fn print_failure(failure: Failure, format: Format) -> ExitCode {
    match failure {
        Failure::Problems => ExitCode::from(1),
        Failure::Stopped(error) => ExitCode::from(exit_code(&error)),
        Failure::Usage(message) => {
            print_error(format, ErrorCode::ValidationError, &message);
            ExitCode::from(2)
        }
        Failure::Environment(message) => {
            print_error(format, ErrorCode::StoreIo, &message);
            ExitCode::from(1)
        }
        Failure::Refused(error) => {
            match format {
                Format::Json => output::json(&json!({ "error": error })),
                Format::Text => output::error(&described(&error)),
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

fn print_error(format: Format, code: ErrorCode, message: &str) {
    match format {
        Format::Json => output::json(&json!({ "error": { "code": code, "message": message } })),
        Format::Text => output::error(message),
    }
}

/// An error in words: what is wrong, and what to do next.
pub(crate) fn described(error: &ErrorEnvelope) -> String {
    format!("{}: {}\n{}", error.code.as_str(), error.message, error.suggestion)
}

fn exit_code(error: &ErrorEnvelope) -> u8 {
    match (error.code, error.retry) {
        (ErrorCode::ValidationError | ErrorCode::SessionNotFound | ErrorCode::WorkflowNotFound, _) => 2,
        (_, Retry::RetryableAfterMs { .. }) => 3,
        (_, Retry::NotRetryable | Retry::RetryableImmediate) => 1,
    }
}
