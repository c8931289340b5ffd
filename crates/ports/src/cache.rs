//! What is kept only to save time: derived, versioned, rebuildable, never truth (G18).

use workrail_model::event::Activity;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;

use crate::file_system::FsError;
use crate::session_store::LogStamp;

/// A folded state and the point of the log that it represents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedProjection {
    /// The version of the folded state; another one is discarded.
    pub version: u32,
    pub cursor: Cursor,
    pub state: Vec<u8>,
}

/// The folded state of long sessions.
pub trait ProjectionCache: Send + Sync {
    /// What is cached, when it is whole and of this version; `None` otherwise, never an error.
    fn get(&self, session: SessionId, version: u32) -> Option<CachedProjection>;
    /// Replaces the cache. Not durable and not needed: a failure only costs time.
    fn put(&self, session: SessionId, projection: &CachedProjection) -> Result<(), FsError>;
    fn invalidate(&self, session: SessionId) -> Result<(), FsError>;
}

/// What the index keeps of one session: a summary, and the log that it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRecord {
    pub session: SessionId,
    pub stamp: LogStamp,
    pub cursor: Cursor,
    /// Opaque to the store.
    pub summary: Vec<u8>,
    /// For an index that can be asked; empty in a record that was read.
    pub keys: IndexKeys,
}

/// What a record is found by. The numbers mean nothing to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexKeys {
    pub terms: Vec<u64>,
    pub runs: Vec<IndexedRun>,
}

/// A run of the session, for the newest of each stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedRun {
    pub stage: u8,
    pub activity: Option<Activity>,
}

/// Which records are wanted: those of the sessions, those that hold a term, and the newest of the stages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexQuestion {
    pub sessions: Vec<SessionId>,
    /// Of a term that many sessions hold, some; of terms that each are in many, those sessions that hold all of them.
    pub terms: Vec<u64>,
    /// So many of the newest runs of a stage.
    pub newest: Vec<(u8, usize)>,
    pub count: Count,
}

/// Whether an answer says how many sessions and runs there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    #[default]
    Skip,
    All,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexAnswer {
    pub records: Vec<IndexRecord>,
    /// Sessions that changed since they were indexed, or never were.
    pub unindexed: Vec<SessionId>,
    pub sessions: u64,
    /// Indexed runs.
    pub runs: u64,
}

/// Whether an index that does not exist is created. Readers create nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfAbsent {
    Create,
    Skip,
}

/// One summary per session, in one place, so that a new process reads one file instead of every session.
pub trait SessionIndex: Send + Sync {
    /// The newest whole record of each session that `is_present`, when the index is of this version; nothing
    /// otherwise, and never an error.
    fn index_records(&self, version: u32, is_present: &dyn Fn(SessionId) -> bool) -> Vec<IndexRecord>;
    /// Adds records; they replace older ones of the same sessions. Not durable and not needed: what could not be
    /// written costs time, so there is no error.
    fn add_to_index(&self, version: u32, records: &[IndexRecord], if_absent: IfAbsent);
    /// The records that a question is about; `None` where the index can only be read as a whole.
    fn ask_index(&self, version: u32, question: &IndexQuestion) -> Option<IndexAnswer> {
        let _ = (version, question);
        None
    }
}
