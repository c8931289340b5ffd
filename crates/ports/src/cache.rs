//! Caches: derived, versioned, rebuildable, and never the source of truth (G18).

use workrail_model::event::Activity;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;

use crate::file_system::FsError;
use crate::session_store::LogStamp;

/// A folded state and the log position it represents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedProjection {
    /// Version of the folded state; a cache with another version is discarded.
    pub version: u32,
    pub cursor: Cursor,
    pub state: Vec<u8>,
}

/// The folded state of long sessions.
pub trait ProjectionCache: Send + Sync {
    /// The cached state if it is intact and of this version; otherwise `None`, never an error.
    fn get(&self, session: SessionId, version: u32) -> Option<CachedProjection>;
    /// Replaces the cache. Not durable and not required: a failure only costs time.
    fn put(&self, session: SessionId, projection: &CachedProjection) -> Result<(), FsError>;
    fn invalidate(&self, session: SessionId) -> Result<(), FsError>;
}

/// An index entry for one session: a summary, and the log it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRecord {
    pub session: SessionId,
    pub stamp: LogStamp,
    pub cursor: Cursor,
    /// Opaque to the store.
    pub summary: Vec<u8>,
    /// For an index that supports queries; empty in a record that was read back.
    pub keys: IndexKeys,
}

/// The keys a record is found by. The numbers mean nothing to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexKeys {
    pub terms: Vec<u64>,
    pub runs: Vec<IndexedRun>,
}

/// A run of the session, used to find the newest runs per stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedRun {
    pub stage: u8,
    pub activity: Option<Activity>,
}

/// Which records are wanted: those of these sessions, those containing a term, and the newest per stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexQuery {
    pub sessions: Vec<SessionId>,
    /// For a term that many sessions contain, only some are returned; for several such terms, those that contain all.
    pub terms: Vec<u64>,
    /// For each stage, how many of its newest runs to return.
    pub newest: Vec<(u8, usize)>,
    pub count: Count,
}

/// Whether an answer includes the number of sessions and runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    #[default]
    Skip,
    All,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexAnswer {
    pub records: Vec<IndexRecord>,
    /// Sessions that were never indexed or have changed since.
    pub unindexed: Vec<SessionId>,
    pub sessions: u64,
    /// Number of indexed runs.
    pub runs: u64,
}

/// Whether to create an index that does not exist. Readers create nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfAbsent {
    Create,
    Skip,
}

/// One summary per session in one file, so that a new process does not read every session.
pub trait SessionIndex: Send + Sync {
    /// The newest intact record of each session for which `is_present` holds, if the index is of this version;
    /// otherwise nothing, never an error.
    fn index_records(&self, version: u32, is_present: &dyn Fn(SessionId) -> bool) -> Vec<IndexRecord>;
    /// Adds records, replacing older ones of the same sessions. Not durable and not required: a failed write only
    /// costs time, so there is no error.
    fn add_to_index(&self, version: u32, records: &[IndexRecord], if_absent: IfAbsent);
    /// The records that match a query; `None` if the index can only be read as a whole.
    fn query_index(&self, version: u32, query: &IndexQuery) -> Option<IndexAnswer> {
        let _ = (version, query);
        None
    }
}
