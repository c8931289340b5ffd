//! Turns every failure into the one envelope: what is wrong, why it matters, what to do next (G70).
//!
//! No suggestion destroys anything: not a command, not a file to remove (G71).

use serde_json::{Value, json};
use workrail_core::compile::{BindingsError, Diagnostics};
use workrail_core::decide::DecideError;
use workrail_core::project::FoldError;
use workrail_core::token::{ScopePart, TokenError};
use workrail_model::canonical::CanonicalError;
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::event::ContextError;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{CONTEXT_BYTES_MAX, GOAL_BYTES_MAX, IO_RETRY_AFTER_MS, LOCK_RETRY_AFTER_MS};
use workrail_model::name::{NameError, WorkflowId};
use workrail_model::reply::NextCall;
use workrail_model::text::truncate_with_marker;
use workrail_model::token::TokenKind;
use workrail_ports::content::ContentError;
use workrail_ports::file_system::{FsError, FsErrorKind};
use workrail_ports::keyring::KeyringError;
use workrail_ports::session_store::StoreError;
use workrail_ports::workflow_source::SourceError;
use workrail_ports::workspace::WorkspacePathError;

use crate::request::{CheckpointWorkflow, ContinueWorkflow, ResumeSession};

type Boxed = Box<ErrorEnvelope>;

/// Problems of a workflow file in one answer; the rest is counted.
const DIAGNOSTICS_BYTES_MAX: usize = 4000;

fn envelope(code: ErrorCode, retry: Retry, message: String, suggestion: &str) -> Boxed {
    let suggestion = suggestion.to_owned();
    Box::new(ErrorEnvelope { code, message, retry, suggestion, next_call: None, details: None })
}

fn invalid(message: String, suggestion: &str) -> Boxed {
    envelope(ErrorCode::ValidationError, Retry::RetryableImmediate, message, suggestion)
}

pub(crate) fn internal(detail: &str) -> Boxed {
    let message = format!("A rule that must always hold did not: {detail}. Nothing was recorded.");
    let suggestion = "Repeat the call once; if it fails again, report it as a defect of WorkRail.";
    envelope(ErrorCode::InternalInvariant, Retry::RetryableImmediate, message, suggestion)
}

pub(crate) fn token(cause: &TokenError) -> Boxed {
    let told = if let TokenError::ScopeMismatch { part: ScopePart::Node, found, .. } = cause {
        format!("the two tokens are of different points of run {found}")
    } else {
        cause.to_string()
    };
    let message = format!("{}. Nothing was changed.", sentence(&told));
    let retry = match cause {
        TokenError::SessionLocked => Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
        TokenError::ScopeMismatch { .. } => Retry::RetryableImmediate,
        TokenError::InvalidFormat { .. }
        | TokenError::UnsupportedVersion { .. }
        | TokenError::BadSignature { .. }
        | TokenError::UnknownNode { .. }
        | TokenError::WorkflowHashMismatch { .. } => Retry::NotRetryable,
    };
    let suggestion = match cause {
        TokenError::InvalidFormat { .. } | TokenError::BadSignature { .. } => {
            "Copy the token again, exactly, from the last reply of this run. If it is lost, call \
             continue_workflow with the run's stateToken alone."
        }
        TokenError::UnsupportedVersion { .. } => {
            "Update WorkRail, or use a token that this version returned."
        }
        TokenError::ScopeMismatch { .. } => {
            "Send only the ackToken, or the stateToken and ackToken of the same reply."
        }
        TokenError::UnknownNode { .. } => {
            "Check that WORKRAIL_DATA_DIR is the directory that the run was started in."
        }
        TokenError::WorkflowHashMismatch { .. } => "Use a token from the latest reply of this run.",
        TokenError::SessionLocked => {
            "Send the same call again after the given time. If it persists, look for another WorkRail \
             process that hangs."
        }
    };
    envelope(cause.code(), retry, message, suggestion)
}

pub(crate) fn unknown_session(session: SessionId) -> Boxed {
    envelope(
        ErrorCode::TokenUnknownNode,
        Retry::NotRetryable,
        format!(
            "The token is genuine, but session {session} is not in this data directory. Nothing was changed."
        ),
        "Check that WORKRAIL_DATA_DIR is the directory that the run was started in.",
    )
}

pub(crate) fn wrong_token_kind(found: TokenKind, wanted: TokenKind) -> Boxed {
    let message = format!(
        "The token starts with `{}`, but this argument takes one that starts with `{}`. Nothing was changed.",
        found.prefix(),
        wanted.prefix()
    );
    let suggestion =
        "Put each token into the argument of its name: `st.` into stateToken, `ack.` into ackToken.";
    envelope(ErrorCode::TokenScopeMismatch, Retry::RetryableImmediate, message, suggestion)
}

pub(crate) fn other_session(bookmark: SessionId, ack: SessionId) -> Boxed {
    let message =
        format!("The two tokens belong to different sessions, {bookmark} and {ack}. Nothing was changed.");
    let suggestion = "Send one of them alone, or both tokens of the same reply.";
    envelope(ErrorCode::TokenScopeMismatch, Retry::RetryableImmediate, message, suggestion)
}

pub(crate) fn no_token() -> Boxed {
    invalid(
        "continue_workflow needs a token: ackToken to complete the pending step, or stateToken to see it again."
            .to_owned(),
        "Send the ackToken of the last reply, or its stateToken alone.",
    )
}

pub(crate) fn output_without_ack(state_token: &str, request: &ContinueWorkflow) -> Boxed {
    let mut error = invalid(
        "`output` and `context` came with a stateToken alone, which only looks and records nothing; they would \
         be lost."
            .to_owned(),
        "Call as below to see the step with a fresh ackToken, then send output and context with that.",
    );
    let mut arguments = vec![("stateToken", Value::from(state_token))];
    arguments.extend(request.echo.run.clone().map(|run| ("run", Value::from(run))));
    error.next_call = Some(NextCall::new("continue_workflow", arguments));
    error
}

pub(crate) fn too_many_tokens() -> Boxed {
    invalid(
        "`continueToken` stands for one token, but `ackToken` or `stateToken` came with it.".to_owned(),
        "Send the ackToken alone to complete the step, or the stateToken alone to see it again.",
    )
}

/// The caller's words and the token name different things; `token` is what the token belongs to.
pub(crate) fn mixed_up(token: &str, claimed: &str) -> Boxed {
    envelope(
        ErrorCode::TokenScopeMismatch,
        Retry::RetryableImmediate,
        format!("The token belongs to {token}, but the call says {claimed}. Nothing was changed."),
        "Call as below to see the step that you mean with its own fresh tokens, then complete that one.",
    )
}

pub(crate) fn two_homes() -> Boxed {
    let mut error = invalid(
        "`parent` and `sessionToken` both say where the run is to live.".to_owned(),
        "Send `parent` to start inside a run, or `sessionToken` to start beside it, not both.",
    );
    error.details = Some(json!({ "argument": "sessionToken" }));
    error
}

pub(crate) fn one_checkpoint_token(request: &CheckpointWorkflow) -> Boxed {
    let mut error = invalid(
        "checkpoint_workflow needs either `checkpointToken` (of a run's last reply) or `sessionToken`."
            .to_owned(),
        "Send the checkpointToken of the last reply. If it is lost, show the step again as below: the reply has a \
         fresh one.",
    );
    error.next_call = Some(match &request.state_token {
        Some(token) => NextCall::new("continue_workflow", [("stateToken", Value::from(token.clone()))]),
        None => NextCall::new("resume_session", []),
    });
    error
}

/// A refused checkpoint; an empty one is shown what to send.
pub(crate) fn checkpoint(cause: &DecideError, request: &CheckpointWorkflow) -> Boxed {
    let DecideError::EmptyCheckpoint = cause else { return decide(cause) };
    let mut error = decide(cause);
    let mut arguments = Vec::new();
    arguments.extend(request.checkpoint_token.clone().map(|token| ("checkpointToken", Value::from(token))));
    arguments.extend(request.session_token.clone().map(|token| ("sessionToken", Value::from(token))));
    arguments.push(("output", json!({ "notesMarkdown": "<what is done, what is next>" })));
    error.next_call = Some(NextCall::new("checkpoint_workflow", arguments));
    error
}

pub(crate) fn goal_too_long(bytes: usize) -> Boxed {
    let mut error = invalid(
        format!(
            "`goal` has {bytes} bytes, at most {GOAL_BYTES_MAX} are allowed: it names the work in lists."
        ),
        "Say it in a sentence; put details into `context` or the notes.",
    );
    error.details =
        Some(json!({ "measuredBytes": bytes, "maxBytes": GOAL_BYTES_MAX, "method": "UTF-8 bytes" }));
    error
}

pub(crate) fn workspace(cause: &WorkspacePathError) -> Boxed {
    let mut error = invalid(
        format!("`workspacePath` cannot be used: {cause}."),
        "Send the absolute path of the folder you work in, or leave it out.",
    );
    error.details = Some(json!({ "argument": "workspacePath" }));
    error
}

pub(crate) fn session_not_found(request: &ResumeSession) -> Boxed {
    let named = request.session_id.as_ref().or(request.run_id.as_ref()).or(request.run.as_ref());
    let named: String =
        named.map_or("it", String::as_str).chars().filter(|c| !c.is_control()).take(80).collect();
    let mut error = envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("No healthy session of this data directory has a run or id `{named}`."),
        "Call resume_session as below for the latest runs, or check that WORKRAIL_DATA_DIR is the directory it was started in.",
    );
    error.next_call = Some(NextCall::new("resume_session", []));
    error
}

pub(crate) fn unknown_label(label: &str) -> Boxed {
    let shown: String = label.chars().filter(|c| !c.is_control()).take(80).collect();
    envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("No run of this data directory is called `{shown}`."),
        "Use the two-word label that stands at the top of the run's replies, such as amber-falcon.",
    )
}

pub(crate) fn ambiguous_label(label: &str, count: usize) -> Boxed {
    envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("{count} runs are called `{label}`, so the label alone does not say which is meant."),
        "Name the run by its run id.",
    )
}

pub(crate) fn nothing_to_approve(label: &str) -> Boxed {
    invalid(
        format!("Run {label} has no step that waits for an approval."),
        "Look at the run first: a step that waits says so in its reply.",
    )
}

pub(crate) fn workflow_id(cause: &NameError) -> Boxed {
    let mut error =
        invalid(format!("`workflowId`: {cause}."), "Send the id as it is listed, such as wr.small_change.");
    error.next_call = Some(NextCall::new("list_workflows", []));
    error
}

pub(crate) fn context(cause: &ContextError) -> Boxed {
    let mut error = invalid(
        format!("`context`: {cause}. Nothing was recorded."),
        "Remove large values from `context` and pass references (paths, ids) instead.",
    );
    match cause {
        ContextError::OverBudget { bytes } => {
            error.details = Some(json!({
                "measuredBytes": bytes, "maxBytes": CONTEXT_BYTES_MAX,
                "method": "UTF-8 bytes of RFC 8785 canonical JSON, after the merge", "argument": "context",
            }));
        }
        ContextError::Reserved { .. } => {
            "Use another name for this key.".clone_into(&mut error.suggestion);
            error.details = Some(json!({ "argument": "context" }));
        }
        ContextError::TooDeep => {
            "Flatten the value, or write it to a file and pass the path.".clone_into(&mut error.suggestion);
            error.details = Some(json!({ "argument": "context" }));
        }
        ContextError::NotCanonical(_) => {
            "Send integers beyond 2^53-1 as strings.".clone_into(&mut error.suggestion);
            error.details = Some(json!({ "argument": "context" }));
        }
    }
    error
}

pub(crate) fn query(what: &str, bytes: usize, max: usize) -> Boxed {
    let mut error = invalid(
        format!("`{what}` has {bytes} bytes, at most {max} are allowed."),
        "Search with fewer words.",
    );
    error.details = Some(json!({ "measuredBytes": bytes, "maxBytes": max, "method": "UTF-8 bytes" }));
    error.next_call = Some(NextCall::new("list_workflows", []));
    error
}

/// `known` has the ids that can be started, the nearest to the misspelled one first.
pub(crate) fn unknown_workflow(id: &WorkflowId, nearest: Option<&str>, known: &[&str]) -> Boxed {
    let next = "Call list_workflows to see every workflow, and every file that cannot be used.";
    let suggestion = match nearest {
        Some(near) => format!("Did you mean `{near}`? {next}"),
        None => format!("Known: {}. {next}", known.join(", ")),
    };
    let message = format!("No workflow has the id `{id}`.");
    let mut error = envelope(ErrorCode::WorkflowNotFound, Retry::NotRetryable, message, &suggestion);
    error.details = Some(json!({ "nearest": nearest, "known": known }));
    error.next_call = Some(NextCall::new("list_workflows", []));
    error
}

pub(crate) fn unusable_workflow(id: &WorkflowId, file: &str, why: &str) -> Boxed {
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("`{id}` cannot be used: {file}: {why}"),
        "Fix the file as the message says, then repeat the call.",
    )
}

pub(crate) fn source(cause: &SourceError) -> Boxed {
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("{}.", sentence(&cause.to_string())),
        "Check that the file exists and can be read.",
    )
}

pub(crate) fn diagnostics(cause: &Diagnostics) -> Boxed {
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("The workflow's file has errors:\n{}", first_of(cause)),
        "Fix the file as the messages say, then start again; `workrail validate` shows all of them.",
    )
}

/// As many problems as an answer can hold.
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

pub(crate) fn bindings(file: &str, cause: &BindingsError) -> Boxed {
    envelope(
        ErrorCode::WorkflowInvalid,
        Retry::NotRetryable,
        format!("The workspace's `{file}` cannot be used: {cause}. No run was started."),
        "Correct the file: an object of slot to text, or of workflow id to such an object.",
    )
}

pub(crate) fn decide(cause: &DecideError) -> Boxed {
    match cause {
        DecideError::Context(inner) => context(inner),
        DecideError::NotesTooLong { bytes, max } => {
            let mut error = invalid(
                format!(
                    "`output.notesMarkdown` has {bytes} bytes, at most {max} are allowed. Nothing was recorded."
                ),
                "Shorten the notes to what this step did; link to files instead of pasting them.",
            );
            error.details = Some(json!({ "measuredBytes": bytes, "maxBytes": max, "method": "UTF-8 bytes" }));
            error
        }
        DecideError::ArtifactTooLong { position, bytes, max } => {
            let mut error = invalid(
                format!("`output.artifacts[{position}]` has {bytes} bytes, at most {max} are allowed."),
                "Write the content to a file and send an artifact that refers to it.",
            );
            error.details = Some(json!({
                "measuredBytes": bytes, "maxBytes": max, "method": "UTF-8 bytes of RFC 8785 canonical JSON",
            }));
            error
        }
        DecideError::EmptyCheckpoint => invalid(
            "The checkpoint holds neither notes nor artifacts, so there is nothing to keep.".to_owned(),
            "Send `output.notesMarkdown` with what is done and what is next.",
        ),
        DecideError::NothingPending => invalid(
            "The run is complete at this point: there is no step to acknowledge.".to_owned(),
            "Start another workflow, or rehydrate an earlier point of the run to go on from there.",
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
            error.details = Some(json!({ "argument": "output" }));
            error
        }
        DecideError::Interpret(_)
        | DecideError::Plan(_)
        | DecideError::Snapshot(_)
        | DecideError::StepKey(_)
        | DecideError::Invariant(_) => internal(&chain(cause)),
    }
}

pub(crate) fn store(cause: StoreError) -> Boxed {
    match &cause {
        StoreError::Locked { .. } => token(&TokenError::SessionLocked),
        StoreError::NotFound { session } => unknown_session(*session),
        StoreError::Unhealthy { session, health: found } => health(*session, found),
        StoreError::Io(error) => io(error),
        StoreError::MissingContent(_)
        | StoreError::Unattached { .. }
        | StoreError::AlreadyExists { .. }
        | StoreError::Stale { .. }
        | StoreError::WrongSession { .. }
        | StoreError::DedupeConflict { .. } => internal(&cause.to_string()),
    }
}

pub(crate) fn io(cause: &FsError) -> Boxed {
    let next = match cause.kind {
        FsErrorKind::NoSpace | FsErrorKind::Quota => "Free some disk space",
        FsErrorKind::ReadOnly => "Make the data directory writable",
        FsErrorKind::PermissionDenied => "Give this user access to the data directory",
        FsErrorKind::TooManyOpenFiles => "Close other programs or raise the limit of open files",
        FsErrorKind::NotFound
        | FsErrorKind::AlreadyExists
        | FsErrorKind::WrongKind
        | FsErrorKind::TooLarge { .. }
        | FsErrorKind::Io => "Check the disk and the data directory",
    };
    envelope(
        ErrorCode::StoreIo,
        Retry::RetryableAfterMs { after_ms: IO_RETRY_AFTER_MS },
        format!("The disk refused to work: {cause}. Nothing was acknowledged; earlier work is intact."),
        &format!("{next}, then send the same call again with the same token."),
    )
}

pub(crate) fn content(cause: ContentError) -> Boxed {
    if let ContentError::Io(error) = &cause {
        return io(error);
    }
    envelope(
        ErrorCode::StoreContentDamaged,
        Retry::NotRetryable,
        format!("{}. Nothing was changed.", sentence(&chain(&cause))),
        "Restore the named file of the data directory from a backup.",
    )
}

pub(crate) fn health(session: SessionId, found: &SessionHealth) -> Boxed {
    let (code, why) = match found {
        SessionHealth::Healthy => (ErrorCode::InternalInvariant, "it is healthy".to_owned()),
        SessionHealth::CorruptHead { reason } | SessionHealth::CorruptTail { reason, .. } => {
            (ErrorCode::SessionCorrupt, reason.to_string())
        }
        SessionHealth::UnknownVersion { record, version } => {
            (ErrorCode::SessionUnknownVersion, format!("{record} has version {version}"))
        }
    };
    let suggestion = match found {
        SessionHealth::UnknownVersion { .. } => "Update WorkRail, then repeat the call.",
        SessionHealth::Healthy | SessionHealth::CorruptHead { .. } | SessionHealth::CorruptTail { .. } => {
            "Do not go on with this run. Tell the user; the records before the damage are intact."
        }
    };
    let message = format!("Session {session} cannot be continued: {why}. Nothing was changed.");
    let mut error = envelope(code, Retry::NotRetryable, message, suggestion);
    error.details = serde_json::to_value(found).ok();
    error
}

pub(crate) fn fold(session: SessionId, cause: &FoldError) -> Boxed {
    envelope(
        ErrorCode::SessionCorrupt,
        Retry::NotRetryable,
        format!("Session {session} cannot be continued: {}.", chain(cause)),
        "Do not go on with this run. Tell the user; nothing was changed.",
    )
}

pub(crate) fn keyring(cause: KeyringError) -> Boxed {
    match &cause {
        KeyringError::Io(error) => io(error),
        KeyringError::Locked => envelope(
            ErrorCode::StoreKeyringUnusable,
            Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
            sentence(&cause.to_string()),
            "Start again in a moment.",
        ),
        KeyringError::Exposed { .. } | KeyringError::Invalid { .. } | KeyringError::UnknownVersion { .. } => {
            envelope(
                ErrorCode::StoreKeyringUnusable,
                Retry::NotRetryable,
                format!("{}.", sentence(&cause.to_string())),
                "Make the file readable by you alone (mode 0600) or restore it from a backup.",
            )
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
