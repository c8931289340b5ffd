//! The projection cache: derived, versioned, rebuildable; never truth (G18).

use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;

use crate::file_system::FsError;

/// A folded state and the point of the log that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedProjection {
    /// The version of the folded state; another one is discarded.
    pub version: u32,
    pub cursor: Cursor,
    pub state: Vec<u8>,
}

pub trait ProjectionCache: Send + Sync {
    /// What is cached, when it is whole and of this version; `None` otherwise, never an error.
    fn get(&self, session: SessionId, version: u32) -> Option<CachedProjection>;
    /// Replaces the cache. Not durable and not needed: a failure only costs time.
    fn put(&self, session: SessionId, projection: &CachedProjection) -> Result<(), FsError>;
    fn invalidate(&self, session: SessionId) -> Result<(), FsError>;
}
