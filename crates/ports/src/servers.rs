//! The servers that run over a store; for people, never truth.

use workrail_model::server::ServerRecord;

use crate::file_system::FsError;

pub trait ServerDirectory: Send + Sync {
    /// Every server that runs now, by id.
    fn servers(&self) -> Result<Vec<ServerRecord>, FsError>;
}
