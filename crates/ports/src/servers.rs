//! The servers that run over a store; for people, never truth.

use workrail_model::server::{LoggedCall, ServerRecord};

use crate::file_system::FsError;

pub trait ServerDirectory: Send + Sync {
    /// Every server that runs now, by id.
    fn servers(&self) -> Result<Vec<ServerRecord>, FsError>;

    /// The newest calls that servers logged, at most `limit`, newest first. What cannot be read is left out.
    fn calls(&self, limit: usize) -> Result<Vec<LoggedCall>, FsError>;
}
