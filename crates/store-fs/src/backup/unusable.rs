//! Tells a failure at one session, which the copy skips and reports, from one that ends the copy (G20, G26).

use workrail_model::id::SessionId;
use workrail_ports::backup::{CopyError, CopySide, UnusableSession};
use workrail_ports::file_system::{FsErrorKind, FsOp};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::UpkeepError;

use crate::{layout, suspect};

/// A failure that concerns one session alone; any other ends the copy.
pub(super) fn unusable(session: SessionId, error: CopyError) -> Result<UnusableSession, CopyError> {
    let (side, cause) = match error {
        CopyError::Source(cause) => (CopySide::Source, cause),
        CopyError::Target(UpkeepError::Store(cause)) if is_about_session(session, &cause) => {
            (CopySide::Target, cause)
        }
        error @ (CopyError::NotABackup
        | CopyError::NewerBackup { .. }
        | CopyError::Busy
        | CopyError::NotReadBack { .. }
        | CopyError::Target(_)) => return Err(error),
    };
    let kind = if let StoreError::Io(error) = &cause { error.kind } else { FsErrorKind::Io };
    Ok(UnusableSession { name: session.to_string(), side, kind, why: cause.to_string() })
}

/// Whether the target failed because of what is in this session's folder. A failed write or sync is about the disk.
fn is_about_session(session: SessionId, cause: &StoreError) -> bool {
    let StoreError::Io(error) = cause else { return false };
    let folder = layout::session(session);
    let is_within = error.path == folder || error.path.as_str().starts_with(&format!("{}/", folder.as_str()));
    let is_obstacle = match error.kind {
        FsErrorKind::PermissionDenied
        | FsErrorKind::WrongKind
        | FsErrorKind::NotFound
        | FsErrorKind::TooLarge { .. } => !suspect::is_failed_sync(error),
        FsErrorKind::Io => matches!(error.op, FsOp::Read | FsOp::List | FsOp::Stat),
        FsErrorKind::AlreadyExists
        | FsErrorKind::NoSpace
        | FsErrorKind::Quota
        | FsErrorKind::ReadOnly
        | FsErrorKind::TooManyOpenFiles
        | FsErrorKind::Database => false,
    };
    is_within && is_obstacle
}
