//! Knows whether anything changed since the last listing, so that a repeated discovery walks nothing (G93).
//!
//! The system reports changes to the folders that were read. Before an answer is trusted, a file of our own is
//! written to and its report awaited: reports come in order, so every change made before the call has been reported
//! by then. That file has no name, so a server that is killed leaves nothing behind. If the report does not come, or
//! folders cannot be watched, the answer is "unknown" and the folders are walked as if there were no watching.
//! Changes that the system never reports (through another name of the same file, or through mapped memory) are seen
//! after `TRUSTED` at the latest; network disks are always walked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher};
use workrail_ports::workflow_source::{ListingId, SourceListing};

use crate::machine;

/// How long the absence of reports is trusted.
const TRUSTED: Duration = Duration::from_secs(60);
/// How long to wait for the report of our own change.
const REPORT_TIME_MAX: Duration = Duration::from_millis(250);
/// After this many missing reports in a row, watching is given up.
const MISSED_REPORTS_MAX: u32 = 3;
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
}

/// What a workspace's listing depends on besides the contents of folders.
pub(super) type Identity = Vec<Option<[u64; 4]>>;

#[derive(Debug)]
pub(super) struct FolderWatch {
    inner: Mutex<Inner>,
    folders_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    feed: Option<ChangeFeed>,
    known: BTreeMap<String, WatchedState>,
    /// Workspaces with folders that cannot be watched.
    unwatchable: BTreeSet<String>,
    missed_reports: u32,
    serial: u64,
}

#[derive(Debug)]
struct WatchedState {
    listing: ListingId,
    changes: u64,
    identity: Identity,
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
        identity: impl FnOnce() -> Identity,
    ) -> Option<ListingId> {
        let mut inner = self.inner();
        let since = inner.known.get(workspace)?.since;
        if since.elapsed() >= TRUSTED {
            return None;
        }
        let changes = inner.reported()?;
        let known = inner.known.get(workspace)?;
        (known.changes == changes && known.identity == identity()).then_some(known.listing)
    }

    /// Walks, and then watches every folder that was read, where possible.
    pub(super) fn list(
        &self,
        workspace: &str,
        identity: impl Fn() -> Identity,
        walk: impl Fn() -> Walked,
    ) -> SourceListing {
        let mut inner = self.inner();
        // The last listing is out of date: folders may have been replaced, so all of them are watched anew.
        if inner.known.contains_key(workspace) || inner.known.len() >= WORKSPACES_MAX {
            inner.known.clear();
            inner.feed = None;
        }
        for _ in 0..WALKS_MAX {
            let before = inner.is_watching(workspace).then(|| inner.reported()).flatten();
            let same = identity();
            let mut walked = walk();
            let Some(changes) = before else { return walked.listing };
            match inner.listen(&walked.folders, self.folders_max) {
                WatchResult::Already => {
                    inner.serial += 1;
                    let listing = ListingId(inner.serial);
                    let known = WatchedState { listing, changes, identity: same, since: Instant::now() };
                    inner.known.insert(workspace.to_owned(), known);
                    walked.listing.id = Some(listing);
                    return walked.listing;
                }
                // Changes made before it was watched are found by walking again.
                WatchResult::Now => {}
                WatchResult::Refused => {
                    if inner.unwatchable.len() < WORKSPACES_MAX {
                        inner.unwatchable.insert(workspace.to_owned());
                    }
                    inner.known.clear();
                    inner.feed = None;
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
        if self.missed_reports >= MISSED_REPORTS_MAX || self.unwatchable.contains(workspace) {
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
        match changes {
            Some(_) => self.missed_reports = 0,
            None => {
                self.missed_reports += 1;
                self.known.clear();
                self.feed = None;
            }
        }
        changes
    }

    fn listen(&mut self, folders: &[Utf8PathBuf], folders_max: usize) -> WatchResult {
        let Some(feed) = &mut self.feed else { return WatchResult::Refused };
        let new: Vec<&Utf8PathBuf> =
            folders.iter().filter(|folder| !feed.folders.contains(*folder)).collect();
        if new.is_empty() {
            return WatchResult::Already;
        }
        if feed.folders.len() + new.len() > folders_max {
            return WatchResult::Refused;
        }
        for folder in new {
            if feed.listen(folder).is_err() {
                return WatchResult::Refused;
            }
        }
        WatchResult::Now
    }
}

/// The system's reports, and a file of our own to prove that they arrive.
struct ChangeFeed {
    watcher: RecommendedWatcher,
    folders: BTreeSet<Utf8PathBuf>,
    reports: Arc<Reports>,
    own: File,
    /// How often our own file was written.
    written: u64,
}

impl std::fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeFeed").field("folders", &self.folders.len()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Reports {
    reported: Mutex<ReportedChanges>,
    news: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct ReportedChanges {
    changes: u64,
    own: u64,
}

impl ChangeFeed {
    fn new() -> Option<Self> {
        let own = tempfile::tempfile().ok()?;
        // The only path to a file without a name. Where it does not exist, nothing is watched and folders are walked.
        let path = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
        let reports = Arc::new(Reports::default());
        let (reported, ours) = (Arc::clone(&reports), path.clone());
        let handler = move |event: notify::Result<Event>| reported.take(event.as_ref(), &ours);
        // Links are not followed: they lead out of the permitted folders.
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher = RecommendedWatcher::new(handler, config).ok()?;
        watcher.watch(&path, RecursiveMode::NonRecursive).ok()?;
        Some(Self { watcher, folders: BTreeSet::new(), reports, own, written: 0 })
    }

    fn listen(&mut self, folder: &Utf8Path) -> notify::Result<()> {
        if machine::volume(folder).is_none_or(|volume| volume.network.is_some()) {
            return Err(notify::Error::generic("changes made on other machines are not reported"));
        }
        self.watcher.watch(folder.as_std_path(), RecursiveMode::NonRecursive)?;
        self.folders.insert(folder.to_owned());
        Ok(())
    }

    fn reported(&mut self) -> Option<u64> {
        self.own.write_all_at(b"1", 0).ok()?;
        self.written += 1;
        let until = Instant::now() + REPORT_TIME_MAX;
        let mut reported = self.reports.reported.lock().unwrap_or_else(PoisonError::into_inner);
        while reported.own < self.written {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            reported =
                self.reports.news.wait_timeout(reported, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(reported.changes)
    }
}

impl Reports {
    fn take(&self, event: Result<&Event, &notify::Error>, own: &Path) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // Reports were lost, or a folder can no longer be watched.
            Err(_) => reported.changes += 1,
            Ok(event) if event.need_rescan() => reported.changes += 1,
            Ok(event) => match event.kind {
                // Reading is not a change, and we read ourselves.
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => reported.changes += 1,
                EventKind::Access(_) => return,
                EventKind::Any
                | EventKind::Create(_)
                | EventKind::Modify(_)
                | EventKind::Remove(_)
                | EventKind::Other => match event.paths.iter().map(PathBuf::as_path).eq([own]) {
                    true => reported.own += 1,
                    false => reported.changes += 1,
                },
            },
        }
        self.news.notify_all();
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
