//! The servers running on a store; shown to people, never the source of truth.

use workrail_model::server::{LoggedCall, ServerRecord};

use crate::file_system::FsError;

pub trait ServerDirectory: Send + Sync {
    /// Every server running now, by id.
    fn servers(&self) -> Result<Vec<ServerRecord>, FsError>;

    /// The newest calls that servers logged, at most `limit`, newest first. Unreadable ones are left out.
    fn calls(&self, limit: usize) -> Result<Vec<LoggedCall>, FsError>;
}
