//! Copying sessions from one store to another: making a backup, and restoring from one (G26).
//!
//! Both stores have the same layout, so that a backup can be read, verified and used like any store.

use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;

use crate::session_store::StoreError;
use crate::upkeep::{Tally, UpkeepError};

/// What a backup includes and how much it trusts what is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupOptions {
    /// The signing keys are copied too.
    pub with_keys: bool,
    /// Everything that the backup already holds is read and hashed again.
    pub check_all: bool,
}

/// What a restore does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Only this session.
    pub only: Option<SessionId>,
    /// Says what would be done, and writes nothing.
    pub dry_run: bool,
}

/// What was done with one session of the source.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionCopy {
    pub session: SessionId,
    pub change: SessionChange,
    /// Events of the session in the target, afterwards.
    pub events: u64,
    /// The session's health in the source; only its validated part is ever copied.
    pub source: SessionHealth,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    Added,
    /// The target had the beginning of it.
    Extended,
    Unchanged,
    /// The target had another history, or a damaged one; that is kept aside at this path of the target.
    Replaced {
        aside: String,
    },
    /// The target keeps what it has.
    Left(LeftReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftReason {
    /// The target's history continues the source's.
    TargetHasMore,
    /// The target's log is damaged, and a repair would keep more of it than the source has.
    RepairKeepsMore,
    /// Neither history continues the other.
    HistoriesDiffer,
    /// No part of it can be trusted in the source.
    SourceUnusable,
}

/// Content that a session needs and that neither store holds intact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostContent {
    pub path: String,
    pub session: SessionId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysCopy {
    Copied,
    Unchanged,
    /// The caller wanted none, or the source has none.
    LeftOut,
    /// The target has keys of its own, which stay.
    TargetHasOthers,
    /// The source's keyring cannot be used, so the target's stays as it is.
    SourceUnusable,
}

/// What a backup or a restore did, or would do.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyReport {
    pub sessions: Vec<SessionCopy>,
    /// Sessions of the source that could not be read at all, and why.
    pub unreadable: Vec<(String, String)>,
    pub segments: Tally,
    pub content: Tally,
    /// Paths of damaged content that was replaced by an intact copy; the damaged file is kept aside.
    pub mended: Vec<String>,
    pub lost_content: Vec<LostContent>,
    pub keys: KeysCopy,
}

/// Why a copy was not begun or not finished.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CopyError {
    #[error("the folder holds files and is not a backup")]
    NotABackup,
    #[error("the backup was written by a newer version ({version})")]
    NewerBackup { version: u64 },
    #[error("another backup or restore is running")]
    Busy,
    #[error("`{path}` was copied and cannot be read back: {detail}")]
    NotReadBack { path: String, detail: String },
    #[error("the source failed: {0}")]
    Source(StoreError),
    #[error(transparent)]
    Target(#[from] UpkeepError),
}

/// Is told how far a copy has come: done, and of how many sessions.
pub type CopyWatch<'a> = &'a mut dyn FnMut(u64, u64);

/// A store that can be copied to another of its kind.
pub trait Replicate: Sized {
    /// Brings `backup` up to date with this store, while this store is in use.
    fn back_up_to(
        &self,
        backup: &Self,
        options: BackupOptions,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport, CopyError>;

    /// Takes over from `backup` what this store lacks.
    fn restore_from(
        &self,
        backup: &Self,
        options: RestoreOptions,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport, CopyError>;
}
