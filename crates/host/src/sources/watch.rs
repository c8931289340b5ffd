//! Knows whether anything changed since the last look, so that a warm discovery walks nothing (G93).
//!
//! The system reports changes of the folders that were read. Before an answer is trusted, a file of our own is
//! written to and its report awaited: reports come in order, so every change made before the call has been heard
//! of. That file has no name, so a server that is killed leaves nothing behind. When the report does not come, or folders cannot be watched, the answer is "unknown" and the folders are
//! walked as without watching. What the system never reports (a change through another name of the same file,
//! or through mapped memory) is seen after `TRUSTED` at the latest, and changes on network disks always by
//! walking.

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
use workrail_ports::workflow_source::{Mark, SourceListing};

use crate::machine;

/// How long silence is believed.
const TRUSTED: Duration = Duration::from_secs(60);
/// How long the report of our own change is waited for.
const REPORT_TIME_MAX: Duration = Duration::from_millis(250);
/// After so many in a row nothing is expected of this system any more.
const SILENCES_MAX: u32 = 3;
/// The system has a limit for all programs of a user together.
pub(super) const FOLDERS_MAX: usize = 4_096;
/// Workspaces whose surveys are known at a time.
const WORKSPACES_MAX: usize = 16;
/// A folder may change while it is walked; then it is walked again.
const WALKS_MAX: usize = 3;

/// One walk over the places of a workspace.
pub(super) struct Walked {
    pub(super) survey: SourceListing,
    /// Every folder that was read.
    pub(super) folders: Vec<Utf8PathBuf>,
}

/// What a workspace's survey depends on beside the content of folders.
pub(super) type Identity = Vec<Option<[u64; 4]>>;

#[derive(Debug)]
pub(super) struct FolderWatch {
    inner: Mutex<Inner>,
    folders_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    ear: Option<Ear>,
    known: BTreeMap<String, WatchedState>,
    /// Workspaces with folders that cannot be watched.
    deaf: BTreeSet<String>,
    silences: u32,
    serial: u64,
}

#[derive(Debug)]
struct WatchedState {
    mark: Mark,
    changes: u64,
    identity: Identity,
    since: Instant,
}

impl FolderWatch {
    pub(super) fn new(folders_max: usize) -> Self {
        Self { inner: Mutex::default(), folders_max }
    }

    /// A panic elsewhere leaves whole entries or none.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mark of the workspace's last survey, when nothing changed since.
    pub(super) fn mark(&self, workspace: &str, identity: impl FnOnce() -> Identity) -> Option<Mark> {
        let mut inner = self.inner();
        let since = inner.known.get(workspace)?.since;
        if since.elapsed() >= TRUSTED {
            return None;
        }
        let changes = inner.heard()?;
        let known = inner.known.get(workspace)?;
        (known.changes == changes && known.identity == identity()).then_some(known.mark)
    }

    /// Walks, and leaves every folder that was read watched where that is possible.
    pub(super) fn survey(
        &self,
        workspace: &str,
        identity: impl Fn() -> Identity,
        walk: impl Fn() -> Walked,
    ) -> SourceListing {
        let mut inner = self.inner();
        // What was known is out of date: folders may have been replaced, so all are listened to afresh.
        if inner.known.contains_key(workspace) || inner.known.len() >= WORKSPACES_MAX {
            inner.known.clear();
            inner.ear = None;
        }
        for _ in 0..WALKS_MAX {
            let before = inner.listening(workspace).then(|| inner.heard()).flatten();
            let same = identity();
            let mut walked = walk();
            let Some(changes) = before else { return walked.survey };
            match inner.listen(&walked.folders, self.folders_max) {
                Listened::Already => {
                    inner.serial += 1;
                    let mark = Mark(inner.serial);
                    let known = WatchedState { mark, changes, identity: same, since: Instant::now() };
                    inner.known.insert(workspace.to_owned(), known);
                    walked.survey.mark = Some(mark);
                    return walked.survey;
                }
                // What happened there before is found by walking once more.
                Listened::Now => {}
                Listened::Refused => {
                    if inner.deaf.len() < WORKSPACES_MAX {
                        inner.deaf.insert(workspace.to_owned());
                    }
                    inner.known.clear();
                    inner.ear = None;
                    return walked.survey;
                }
            }
        }
        walk().survey
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listened {
    Already,
    Now,
    Refused,
}

impl Inner {
    /// Whether there is something to hear with.
    fn listening(&mut self, workspace: &str) -> bool {
        if self.silences >= SILENCES_MAX || self.deaf.contains(workspace) {
            return false;
        }
        if self.ear.is_none() {
            self.ear = Ear::new();
        }
        self.ear.is_some()
    }

    /// How many changes were reported, with every change made before this call among them.
    fn heard(&mut self) -> Option<u64> {
        let changes = self.ear.as_mut()?.heard();
        match changes {
            Some(_) => self.silences = 0,
            None => {
                self.silences += 1;
                self.known.clear();
                self.ear = None;
            }
        }
        changes
    }

    fn listen(&mut self, folders: &[Utf8PathBuf], folders_max: usize) -> Listened {
        let Some(ear) = &mut self.ear else { return Listened::Refused };
        let new: Vec<&Utf8PathBuf> = folders.iter().filter(|folder| !ear.folders.contains(*folder)).collect();
        if new.is_empty() {
            return Listened::Already;
        }
        if ear.folders.len() + new.len() > folders_max {
            return Listened::Refused;
        }
        for folder in new {
            if ear.listen(folder).is_err() {
                return Listened::Refused;
            }
        }
        Listened::Now
    }
}

/// The system's reports, and a file of our own to prove that they come.
struct Ear {
    watcher: RecommendedWatcher,
    folders: BTreeSet<Utf8PathBuf>,
    reports: Arc<Reports>,
    own: File,
    /// How often our own file was written to.
    written: u64,
}

impl std::fmt::Debug for Ear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ear").field("folders", &self.folders.len()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Reports {
    heard: Mutex<Heard>,
    news: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    changes: u64,
    own: u64,
}

impl Ear {
    fn new() -> Option<Self> {
        let own = tempfile::tempfile().ok()?;
        // The one path to a file without a name. Where there is none, nothing is watched and folders are walked.
        let path = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
        let reports = Arc::new(Reports::default());
        let (heard, ours) = (Arc::clone(&reports), path.clone());
        let handler = move |event: notify::Result<Event>| heard.take(event.as_ref(), &ours);
        // Links are not followed: they lead out of what may be looked at.
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

    fn heard(&mut self) -> Option<u64> {
        self.own.write_all_at(b"1", 0).ok()?;
        self.written += 1;
        let until = Instant::now() + REPORT_TIME_MAX;
        let mut heard = self.reports.heard.lock().unwrap_or_else(PoisonError::into_inner);
        while heard.own < self.written {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            heard = self.reports.news.wait_timeout(heard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(heard.changes)
    }
}

impl Reports {
    fn take(&self, event: Result<&Event, &notify::Error>, own: &Path) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // Reports were lost, or a folder can no longer be watched.
            Err(_) => heard.changes += 1,
            Ok(event) if event.need_rescan() => heard.changes += 1,
            Ok(event) => match event.kind {
                // Looking changes nothing; we look ourselves.
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => heard.changes += 1,
                EventKind::Access(_) => return,
                EventKind::Any
                | EventKind::Create(_)
                | EventKind::Modify(_)
                | EventKind::Remove(_)
                | EventKind::Other => match event.paths.iter().map(PathBuf::as_path).eq([own]) {
                    true => heard.own += 1,
                    false => heard.changes += 1,
                },
            },
        }
        self.news.notify_all();
    }
}

/// What tells a file or folder at a path from another one put there; `None` when nothing is there.
pub(super) fn identity(path: &Utf8Path) -> Option<[u64; 4]> {
    let own = std::fs::symlink_metadata(path).ok()?;
    let target = std::fs::metadata(path).ok()?;
    // What a folder holds is watched; a file that was replaced may have got the same number again.
    let written =
        if target.is_dir() { 0 } else { target.mtime_nsec().cast_unsigned() ^ target.len().rotate_left(32) };
    let kind = u64::from(target.mode()) ^ written.rotate_left(16);
    Some([own.dev() ^ target.dev().rotate_left(32), own.ino(), target.ino(), kind])
}
