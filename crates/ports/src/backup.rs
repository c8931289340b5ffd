//! Copying sessions from one store to another: making a backup, and restoring from one (G26).
//!
//! Both stores have the same layout, so a backup can be read, verified and used like any store.

use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;

use crate::file_system::FsErrorKind;
use crate::session_store::StoreError;
use crate::upkeep::{Tally, UpkeepError};

/// What a backup includes, and how far it trusts existing files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupOptions {
    /// Also copy the signing keys.
    pub with_keys: bool,
    /// Read and hash again everything the backup already holds.
    pub check_all: bool,
}

/// What to restore, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Only this session.
    pub only: Option<SessionId>,
    /// Report what would be done; write nothing.
    pub dry_run: bool,
}

/// What was done with one session from the source.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionCopy {
    pub session: SessionId,
    pub change: SessionChange,
    /// Number of events in the target's session afterwards.
    pub events: u64,
    /// The session's health in the source; only its validated part is copied.
    pub source: SessionHealth,
    pub source_log: SourceLog,
}

/// What the copied part of a session's log was validated by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLog {
    /// The source's manifest attests it.
    Attested,
    /// The manifest is lost or damaged, and was recomputed from the segments.
    Rebuilt,
}

/// One of the two stores of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySide {
    Source,
    Target,
}

/// A session that was not copied because its files in one of the stores cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableSession {
    pub name: String,
    pub side: CopySide,
    pub kind: FsErrorKind,
    pub why: String,
}

/// A passkey log that was not copied, because one of the two stores has a file that cannot be used in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusablePasskeys {
    pub side: CopySide,
    pub kind: FsErrorKind,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    Added,
    /// The target had only the beginning of it.
    Extended,
    Unchanged,
    /// The target had a different or damaged history, which was moved aside to this path in the target.
    Replaced {
        aside: String,
    },
    /// The target keeps its own version.
    Left(SkipReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The target's history continues the source's.
    TargetHasMore,
    /// The target's log is damaged, and a repair would keep more of it than the source has.
    RepairKeepsMore,
    /// Neither history continues the other.
    HistoriesDiffer,
    /// No part of the source session can be trusted.
    SourceUnusable,
}

/// Content that a session needs and neither store holds intact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostContent {
    pub path: String,
    pub session: SessionId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysCopy {
    Copied,
    Unchanged,
    /// The target had other keys, which were moved aside.
    Replaced,
    /// The caller did not ask for keys.
    LeftOut,
    SourceHasNone,
    /// The target has its own keys and keeps them.
    TargetHasOthers,
    /// The source's keyring is unusable; the target's is unchanged.
    SourceUnusable,
}

/// What a backup or restore did, or would do.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyReport {
    pub sessions: Vec<SessionCopy>,
    /// Sessions that could not be copied at all. They do not stop the others.
    pub unusable: Vec<UnusableSession>,
    pub segments: Tally,
    pub content: Tally,
    /// Paths of damaged content that was replaced by an intact copy; the damaged file is moved aside.
    pub repaired: Vec<String>,
    pub lost_content: Vec<LostContent>,
    pub keys: KeysCopy,
    /// Where the target's earlier keys were moved, if other keys replaced them.
    pub keys_aside: Option<String>,
    /// Whether the target has the keys of an earlier copy that this one did not replace.
    pub keeps_earlier_keys: bool,
    pub unusable_passkeys: Option<UnusablePasskeys>,
}

/// Why a copy did not start or finish.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CopyError {
    #[error("the folder contains files and is not a backup")]
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

/// Progress callback: sessions done, and sessions in total.
pub type CopyWatch<'a> = &'a mut dyn FnMut(u64, u64);

/// A store that can be copied to another store of the same kind.
pub trait Replicate: Sized {
    /// Brings `backup` up to date with this store, while this store is in use.
    fn back_up_to(
        &self,
        backup: &Self,
        options: BackupOptions,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport, CopyError>;

    /// Copies from `backup` what this store lacks.
    fn restore_from(
        &self,
        backup: &Self,
        options: RestoreOptions,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport, CopyError>;
}
