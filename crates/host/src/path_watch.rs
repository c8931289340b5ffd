//! Waits for changes to files and folders named on the command line.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

/// An editor writes a file in several steps; they are reported as one change.
const SETTLED: Duration = Duration::from_millis(30);

/// Reports changes from its creation on, even those made before `wait` is called.
#[derive(Debug)]
pub struct PathWatch {
    _watcher: RecommendedWatcher,
    changes: Receiver<()>,
}

impl PathWatch {
    /// A folder is watched with everything beneath it, a file through its parent folder, because editors replace files.
    pub fn new(paths: &[Utf8PathBuf]) -> Result<Self, String> {
        let (sender, changes) = channel();
        let files: BTreeSet<PathBuf> =
            paths.iter().filter(|path| !path.is_dir()).filter_map(|path| whole(path)).collect();
        let folders: Vec<PathBuf> =
            paths.iter().filter(|path| path.is_dir()).filter_map(|path| whole(path)).collect();
        let beneath = folders.clone();
        let heard = move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            let is_named = |path: &PathBuf| {
                files.contains(path) || beneath.iter().any(|folder| path.starts_with(folder))
            };
            if changes_content(event.kind) && event.paths.iter().any(is_named) {
                // The receiver is gone when the command ends.
                let _ = sender.send(());
            }
        };
        let failed = |error: notify::Error| error.to_string();
        let mut watcher = notify::recommended_watcher(heard).map_err(failed)?;
        for folder in &folders {
            watcher.watch(folder, RecursiveMode::Recursive).map_err(failed)?;
        }
        let parents: BTreeSet<PathBuf> = paths
            .iter()
            .filter(|path| !path.is_dir())
            .filter_map(|path| Some(whole(path)?.parent()?.to_owned()))
            .collect();
        for parent in parents {
            watcher.watch(&parent, RecursiveMode::NonRecursive).map_err(failed)?;
        }
        Ok(Self { _watcher: watcher, changes })
    }

    /// Returns after the next change, once its folder is quiet.
    pub fn wait(&self) {
        if self.changes.recv().is_err() {
            return;
        }
        loop {
            match self.changes.recv_timeout(SETTLED) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// The path as the system reports it; works even if the file is missing for a moment.
fn whole(path: &Utf8Path) -> Option<PathBuf> {
    let full = std::path::absolute(path).ok()?;
    let folder = full.parent()?.canonicalize().ok()?;
    full.canonicalize().ok().or_else(|| Some(folder.join(full.file_name()?)))
}

fn changes_content(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}
