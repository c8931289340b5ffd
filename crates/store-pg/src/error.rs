//! Maps failed statements to the errors of the ports. Never contains a value from a row, or a password.

use std::error::Error as _;

use tokio_postgres::error::SqlState;
use workrail_model::id::SessionId;
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};
use workrail_ports::keyring::KeyringError;
use workrail_ports::session_store::StoreError;

use crate::reader::path_of;

/// Why a transaction could not begin or a statement failed.
#[derive(Debug)]
pub(crate) enum StatementError {
    /// Every connection was in use for too long.
    Busy,
    /// A lock was not free in time.
    Locked,
    /// The server did not answer in time: it is frozen or unreachable.
    NoAnswer,
    /// This process failed before it sent anything.
    Local(String),
    Database(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            true => Self::Locked,
            false => Self::Database(error),
        }
    }
}

impl StatementError {
    /// As an error of this operation at this logical path.
    pub(crate) fn at(&self, op: FsOp, path: &str) -> FsError {
        let detail = self.detail();
        // Ids, digests and constants: each is a plain path.
        let path = RelPath::parse(path).unwrap_or_else(RelPath::root);
        FsError { op, path, kind: self.kind(), detail }
    }

    /// As an error of this session.
    pub(crate) fn of_session(&self, op: FsOp, session: SessionId) -> StoreError {
        match self {
            Self::Busy => StoreError::Busy,
            Self::Locked => StoreError::Locked { session },
            Self::NoAnswer | Self::Local(_) | Self::Database(_) => {
                StoreError::Io(self.at(op, &path_of(session)))
            }
        }
    }

    /// As an error of something that all sessions share.
    pub(crate) fn of_store(&self, op: FsOp, path: &str) -> StoreError {
        if self.is_busy() { StoreError::Busy } else { StoreError::Io(self.at(op, path)) }
    }

    /// As an error of signing keys, or of anything that is stored like them.
    pub(crate) fn of_keys(&self, op: FsOp, path: &str) -> KeyringError {
        match self {
            Self::Locked => KeyringError::Locked,
            Self::Busy | Self::NoAnswer | Self::Local(_) | Self::Database(_) => {
                KeyringError::Io(self.at(op, path))
            }
        }
    }

    /// Whether others are using what it needs, so that it may work later.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Busy | Self::Locked => true,
            Self::NoAnswer | Self::Local(_) | Self::Database(_) => false,
        }
    }

    fn kind(&self) -> FsErrorKind {
        let is_full = |error: &tokio_postgres::Error| error.code() == Some(&SqlState::DISK_FULL);
        match self {
            Self::Database(error) if is_full(error) => FsErrorKind::NoSpace,
            Self::Busy | Self::Locked | Self::NoAnswer | Self::Local(_) | Self::Database(_) => {
                FsErrorKind::Database
            }
        }
    }
}

impl StatementError {
    /// In words, never with a value from a row.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Busy => "all connections to the database are in use".to_owned(),
            Self::Locked => "another transaction holds a lock on it".to_owned(),
            Self::NoAnswer => "the database did not answer in time".to_owned(),
            Self::Local(detail) => detail.clone(),
            Self::Database(error) => reported(error),
        }
    }

    /// Whether the connection is lost, so that the outcome of the last message is unknown.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Busy | Self::Locked | Self::Local(_) => false,
            Self::NoAnswer => true,
            Self::Database(error) => is_gone(error),
        }
    }
}

/// What the server or the connection reported. Only the server's message: its detail may repeat values of a row.
fn reported(error: &tokio_postgres::Error) -> String {
    if let Some(reply) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", reply.message(), reply.code().code());
    }
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Whether the connection is gone.
fn is_gone(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        None => true,
        // The server ends the connection or shuts down, possibly in the middle of a COMMIT.
        Some(code) => {
            code.code().starts_with("57P") || code.code().starts_with("08") || code.code().starts_with("XX")
        }
    }
}
