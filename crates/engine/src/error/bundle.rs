//! Why a bundle was not imported, and what to do about it.

use workrail_core::bundle::{BundleError, BundleErrorKind};
use workrail_model::error::{ErrorCode, ErrorDetails, Retry};
use workrail_model::id::SessionId;
use workrail_model::limits::LOCK_RETRY_AFTER_MS;

use super::{BoxedError, envelope};

pub(crate) fn bundle(cause: &BundleError) -> BoxedError {
    let (kind, at, position) = match cause {
        BundleError::Source(error) => {
            let message = format!("The bundle cannot be read: {error}. Nothing was imported.");
            let suggestion = "Check the file and the disk that it is on, then import it again.";
            return envelope(ErrorCode::StoreIo, Retry::NotRetryable, message, suggestion);
        }
        BundleError::Refused { kind, at, position, .. } => (*kind, at, *position),
    };
    let suggestion = match kind {
        BundleErrorKind::UnsupportedVersion => "Update WorkRail, then import the bundle again.",
        BundleErrorKind::InvalidFormat => {
            "Copy the file again from where it was made, or export the session again there. If the error stays, do not \
             trust the bundle: no export writes this."
        }
        BundleErrorKind::IntegrityFailed => {
            "Copy the file again from where it was made, or export the session again there."
        }
        BundleErrorKind::MissingSnapshot | BundleErrorKind::MissingPinnedWorkflow => {
            "Export the session again on the machine that has it."
        }
        BundleErrorKind::EventOrderInvalid | BundleErrorKind::ManifestOrderInvalid => {
            "Export the session again. If the bundle comes from elsewhere, do not trust it: its digests are valid, but its \
             history is not."
        }
    };
    let message = format!("The bundle was rejected: {cause}. Nothing was imported.");
    let mut error = envelope(kind.code(), Retry::NotRetryable, message, suggestion);
    let (line, column) = position.unzip();
    error.details = Some(ErrorDetails::Bundle { at: at.clone(), line, column });
    error
}

/// Another process repaired or restored the session between two reads of its log.
pub(crate) fn changed_while_exported(session: SessionId) -> BoxedError {
    envelope(
        ErrorCode::StoreBusy,
        Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
        format!("Session {session} was replaced while it was exported. The bundle is not complete."),
        "Export the session again.",
    )
}

/// Another import holds the store, or has just taken the id.
pub(crate) fn import_busy() -> BoxedError {
    envelope(
        ErrorCode::StoreBusy,
        Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
        "Another import or a clean-up of this data directory is under way. Nothing was imported.".to_owned(),
        "Import the bundle again in a moment.",
    )
}
