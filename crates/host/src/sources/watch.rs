//! Knows whether anything changed since the last listing, so that a repeated discovery walks nothing (G93).
//!
//! The system reports changes to the folders that were read (`change_feed.rs`). If folders cannot be watched, the
//! answer is "unknown" and the folders are walked as if there were no watching. Changes that the system never reports
//! (through another name of the same file, or through mapped memory) are seen after `TRUSTED` at the latest; network
//! disks are always walked.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_ports::workflow_source::{ListingId, SourceListing};

use super::change_feed::ChangeFeed;
use super::walk::WalkCompleteness;

/// How long the absence of reports is trusted.
const TRUSTED: Duration = Duration::from_secs(60);
/// The system limits watches for all programs of a user together.
pub(super) const FOLDERS_MAX: usize = 4_096;
/// How many workspaces' listings are remembered.
const WORKSPACES_MAX: usize = 16;
/// If a folder changes while it is walked, it is walked again, up to this many times.
const WALKS_MAX: usize = 3;

/// One walk over the source locations of a workspace.
pub(super) struct Walked {
    pub(super) listing: SourceListing,
    /// Every folder that was read.
    pub(super) folders: Vec<Utf8PathBuf>,
    pub(super) completeness: WalkCompleteness,
}

impl Walked {
    /// Whether the listing is worth remembering: what could not be read may become readable without any report.
    fn is_lasting(&self) -> bool {
        self.completeness == WalkCompleteness::All && self.listing.interrupted.is_none()
    }
}

/// What a workspace's listing depends on besides the contents of folders.
pub(super) type ListingIdentity = Vec<Option<[u64; 4]>>;

#[derive(Debug)]
pub(super) struct FolderWatch {
    inner: Mutex<Inner>,
    folders_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    feed: Option<ChangeFeed>,
    by_workspace: BTreeMap<String, WatchedState>,
    /// Workspaces with folders that cannot be watched.
    unwatchable: BTreeSet<String>,
    serial: u64,
}

#[derive(Debug)]
struct WatchedState {
    listing: ListingId,
    changes: u64,
    identity: ListingIdentity,
    since: Instant,
}

impl FolderWatch {
    pub(super) fn new(folders_max: usize) -> Self {
        Self { inner: Mutex::default(), folders_max }
    }

    /// A poisoned lock is fine: a panic elsewhere leaves entries whole or absent.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of the workspace's last listing, if nothing has changed since.
    pub(super) fn unchanged_listing(
        &self,
        workspace: &str,
        identity: impl FnOnce() -> ListingIdentity,
    ) -> Option<ListingId> {
        let mut inner = self.inner();
        let since = inner.by_workspace.get(workspace)?.since;
        if since.elapsed() >= TRUSTED {
            return None;
        }
        let changes = inner.reported()?;
        let known = inner.by_workspace.get(workspace)?;
        (known.changes == changes && known.identity == identity()).then_some(known.listing)
    }

    /// Walks, and then watches every folder that was read, where possible.
    pub(super) fn list(
        &self,
        workspace: &str,
        identity: impl Fn() -> ListingIdentity,
        walk: impl Fn() -> Walked,
    ) -> SourceListing {
        let mut inner = self.inner();
        // A listing is out of date: folders may have been replaced, so all of them are watched anew.
        if inner.by_workspace.contains_key(workspace)
            || inner.by_workspace.len() >= WORKSPACES_MAX
            || inner.has_changed()
        {
            inner.start_over();
        }
        for _ in 0..WALKS_MAX {
            let before = inner.is_watching(workspace).then(|| inner.reported()).flatten();
            let same = identity();
            let mut walked = walk();
            let Some(changes) = before.filter(|_| walked.is_lasting()) else { return walked.listing };
            match inner.listen(&walked.folders, self.folders_max) {
                WatchResult::Already => {
                    inner.serial += 1;
                    let listing = ListingId(inner.serial);
                    let known = WatchedState { listing, changes, identity: same, since: Instant::now() };
                    inner.by_workspace.insert(workspace.to_owned(), known);
                    walked.listing.id = Some(listing);
                    return walked.listing;
                }
                // Changes made before it was watched are found by walking again.
                WatchResult::Now => {}
                WatchResult::Refused => {
                    if inner.unwatchable.len() < WORKSPACES_MAX {
                        inner.unwatchable.insert(workspace.to_owned());
                    }
                    inner.start_over();
                    return walked.listing;
                }
            }
        }
        walk().listing
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchResult {
    Already,
    Now,
    Refused,
}

impl Inner {
    /// Whether changes can be observed at all.
    fn is_watching(&mut self, workspace: &str) -> bool {
        if self.unwatchable.contains(workspace) {
            return false;
        }
        if self.feed.is_none() {
            self.feed = ChangeFeed::new();
        }
        self.feed.is_some()
    }

    /// The number of reported changes, including every change made before this call.
    fn reported(&mut self) -> Option<u64> {
        let changes = self.feed.as_mut()?.reported();
        if changes.is_none() {
            self.start_over();
        }
        changes
    }

    /// Whether anything was reported since a listing that is remembered.
    fn has_changed(&mut self) -> bool {
        let changes = self.reported();
        self.by_workspace.values().any(|state| Some(state.changes) != changes)
    }

    fn start_over(&mut self) {
        self.by_workspace.clear();
        if let Some(feed) = self.feed.take() {
            // The system takes milliseconds to end the watches, and no call should wait for that. Without a thread to
            // spare it does.
            let _ = std::thread::Builder::new().spawn(move || drop(feed));
        }
    }

    fn listen(&mut self, folders: &[Utf8PathBuf], folders_max: usize) -> WatchResult {
        let Some(feed) = &mut self.feed else { return WatchResult::Refused };
        let new: Vec<&Utf8PathBuf> = folders.iter().filter(|folder| !feed.is_watched(folder)).collect();
        if new.is_empty() {
            return WatchResult::Already;
        }
        if feed.folder_count() + new.len() > folders_max {
            return WatchResult::Refused;
        }
        for folder in new {
            if !feed.listen(folder) {
                return WatchResult::Refused;
            }
        }
        WatchResult::Now
    }
}

/// Distinguishes a file or folder from another one put at the same path; `None` if nothing is there.
pub(super) fn identity(path: &Utf8Path) -> Option<[u64; 4]> {
    let own = std::fs::symlink_metadata(path).ok()?;
    let target = std::fs::metadata(path).ok()?;
    // A folder's contents are watched; a replaced file may have got the same inode number again.
    let written =
        if target.is_dir() { 0 } else { target.mtime_nsec().cast_unsigned() ^ target.len().rotate_left(32) };
    let kind = u64::from(target.mode()) ^ written.rotate_left(16);
    Some([own.dev() ^ target.dev().rotate_left(32), own.ino(), target.ino(), kind])
}
