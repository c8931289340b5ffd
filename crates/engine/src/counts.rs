//! How many appends this process made, and how many conflicted: for a server's metrics, never the source of truth.

use std::sync::atomic::{AtomicU64, Ordering};

use workrail_ports::session_store::StoreError;

#[derive(Debug, Default)]
pub(crate) struct AppendCounters {
    appends: AtomicU64,
    conflicts: AtomicU64,
}

/// The counts since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendCounts {
    pub appends: u64,
    /// Writes that conflicted with another writer. Their callers were asked to retry.
    pub conflicts: u64,
}

impl AppendCounters {
    pub(crate) fn appended(&self) {
        self.appends.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts failures caused by another writer; other failures are not conflicts.
    pub(crate) fn failed(&self, error: &StoreError) {
        match error {
            StoreError::Locked { .. } | StoreError::Stale { .. } | StoreError::Busy => {
                self.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            StoreError::NotFound { .. }
            | StoreError::AlreadyExists { .. }
            | StoreError::Unhealthy { .. }
            | StoreError::WrongSession { .. }
            | StoreError::DedupeConflict { .. }
            | StoreError::MissingContent(_)
            | StoreError::Unattached { .. }
            | StoreError::Uncertain(_)
            | StoreError::Io(_) => {}
        }
    }

    pub(crate) fn now(&self) -> AppendCounts {
        AppendCounts {
            appends: self.appends.load(Ordering::Relaxed),
            conflicts: self.conflicts.load(Ordering::Relaxed),
        }
    }
}
