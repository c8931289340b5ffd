//! Turns every failure into the one envelope: what is wrong, why it matters, what to do next (G70).
//!
//! No suggestion destroys anything: not a command, not a file to remove (G71).

mod bundle;
mod call;
mod token;
mod upkeep;
mod workflow;

use serde_json::json;
use workrail_core::decide::DecideError;
use workrail_core::project::FoldError;
use workrail_core::token::TokenError;
use workrail_model::canonical::CanonicalError;
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{IO_RETRY_AFTER_MS, LOCK_RETRY_AFTER_MS};
use workrail_ports::content::ContentError;
use workrail_ports::file_system::{FsError, FsErrorKind};
use workrail_ports::keyring::KeyringError;
use workrail_ports::session_store::StoreError;

pub(crate) use bundle::*;
pub(crate) use call::*;
pub(crate) use token::*;
pub(crate) use upkeep::*;
pub(crate) use workflow::*;

type Boxed = Box<ErrorEnvelope>;

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

/// What a person can do about a disk that does not work.
fn remedy(cause: &FsError) -> &'static str {
    match cause.kind {
        FsErrorKind::NoSpace | FsErrorKind::Quota => "Free some disk space",
        FsErrorKind::ReadOnly => "Make the data directory writable",
        FsErrorKind::PermissionDenied => "Give this user access to the data directory",
        FsErrorKind::TooManyOpenFiles => "Close other programs or raise the limit of open files",
        FsErrorKind::NotFound
        | FsErrorKind::AlreadyExists
        | FsErrorKind::WrongKind
        | FsErrorKind::TooLarge { .. }
        | FsErrorKind::Io => "Check the disk and the data directory",
    }
}

pub(crate) fn io(cause: &FsError) -> Boxed {
    let next = remedy(cause);
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
        KeyringError::Io(error) if error.kind == FsErrorKind::PermissionDenied => {
            unusable_keyring(&format!("the keyring cannot be read: {error}"), KEYRING_REMEDY)
        }
        KeyringError::Io(error) if error.kind == FsErrorKind::WrongKind => unusable_keyring(
            &format!("the folder of the signing keys cannot be used: {error}"),
            "Tell the user: move `keys` out of the data directory, then restore it from a backup or run `workrail keys \
             new`.",
        ),
        KeyringError::Io(error) => io(error),
        KeyringError::Locked => envelope(
            ErrorCode::StoreKeyringUnusable,
            Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
            sentence(&cause.to_string()),
            "Try again in a moment.",
        ),
        KeyringError::Exposed { .. } => unusable_keyring(
            &cause.to_string(),
            "Tell the user: make the folder `keys` of the data directory and the files in it theirs alone (modes \
             0700 and 0600).",
        ),
        KeyringError::ForeignOwner { .. } => unusable_keyring(
            &cause.to_string(),
            "Tell the user: run WorkRail as the owner of the data directory, or give the folder `keys` and the files \
             in it to the user who runs WorkRail.",
        ),
        KeyringError::Invalid { .. } | KeyringError::UnknownVersion { .. } => {
            unusable_keyring(&cause.to_string(), KEYRING_REMEDY)
        }
        KeyringError::Usable { .. } => invalid(
            format!("{}.", sentence(&cause.to_string())),
            "To sign with a fresh key, run `workrail keys rotate`.",
        ),
    }
}

/// Both ways out; the sessions themselves need no keys.
const KEYRING_REMEDY: &str = "Tell the user: restore keys/keyring.json from a backup, or run `workrail keys new`. New \
     keys end the tokens in open chats; resume_session then finds every run again.";

/// Sessions exist and the keyring does not: making another one silently would end every token unsaid.
pub(crate) fn keyring_lost() -> Boxed {
    unusable_keyring(
        "the keyring `keys/keyring.json` is missing, but this data directory has sessions",
        KEYRING_REMEDY,
    )
}

fn unusable_keyring(what: &str, remedy: &str) -> Boxed {
    let message = format!("{}. No token can be signed or checked; all sessions are intact.", sentence(what));
    envelope(ErrorCode::StoreKeyringUnusable, Retry::NotRetryable, message, remedy)
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
