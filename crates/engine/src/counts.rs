//! How often this process recorded something, and how often it was in the way of others: for a server's metrics. Never truth.

use std::sync::atomic::{AtomicU64, Ordering};

use workrail_ports::session_store::StoreError;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    appends: AtomicU64,
    conflicts: AtomicU64,
}

/// The counts since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendCounts {
    pub appends: u64,
    /// Writes that another writer was in the way of. Their callers were told to try again.
    pub conflicts: u64,
}

impl Counts {
    pub(crate) fn appended(&self) {
        self.appends.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what another writer caused; other failures are no conflict.
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
