//! The filters that git is configured with, so that observing a repository can turn them off (G104).
//!
//! A filter's program would run on files that `git status` compares. Asking git for their names takes as long as the
//! status of a small repository, so the answer is cached until a configuration file changes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::evidence::NotSeenReason;

use crate::working_tree;

/// A file that is younger may change again without another time stamp: file systems count in milliseconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Beyond this the cache starts over: a process observes few repositories.
const REPOSITORIES_MAX: usize = 16;

/// The names of filters in the configuration of each repository, by its root.
#[derive(Debug, Default)]
pub(crate) struct FilterNames {
    cached: Mutex<BTreeMap<Utf8PathBuf, Cached>>,
}

#[derive(Debug)]
struct Cached {
    files: Vec<Option<ConfigFileStamp>>,
    names: BTreeSet<String>,
}

/// Changes whenever the file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConfigFileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ConfigFileStamp {
    fn of(path: &Utf8Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    fn is_settled(&self, now: SystemTime) -> bool {
        let changed = u64::try_from(self.changed.0).ok().map(|at| UNIX_EPOCH + Duration::from_secs(at));
        changed.and_then(|at| now.duration_since(at).ok()).is_some_and(|age| age >= SETTLED_AFTER)
    }
}

impl FilterNames {
    /// Settings that turn off every configured filter. `worktree_dir` and `common_dir` are git's folders with the
    /// configuration of this worktree and of all worktrees.
    pub(crate) fn settings_off(
        &self,
        root: &Utf8Path,
        worktree_dir: &Utf8Path,
        common_dir: &Utf8Path,
        now: SystemTime,
    ) -> Result<Vec<String>, NotSeenReason> {
        // Stamped before git reads them: a file that changes in between is read again the next time.
        let files = configuration_files(worktree_dir, common_dir);
        let files: Vec<Option<ConfigFileStamp>> =
            files.iter().map(|path| ConfigFileStamp::of(path)).collect();
        if let Some(cached) = self.cached().get(root).filter(|cached| cached.files == files) {
            return Ok(off(&cached.names));
        }
        // Without the lock: a repository that is slow to answer must not hold up others.
        let (names, is_complete) = ask_git(root)?;
        let settings = off(&names);
        let is_settled = files.iter().flatten().all(|file| file.is_settled(now));
        let mut all = self.cached();
        if all.len() >= REPOSITORIES_MAX {
            all.clear();
        }
        match is_complete && is_settled {
            true => all.insert(root.to_owned(), Cached { files, names }),
            false => all.remove(root),
        };
        Ok(settings)
    }

    fn cached(&self) -> MutexGuard<'_, BTreeMap<Utf8PathBuf, Cached>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where git finds its configuration, except the system's file, which no repository can change.
fn configuration_files(worktree_dir: &Utf8Path, common_dir: &Utf8Path) -> Vec<Utf8PathBuf> {
    let folder = |name| std::env::var(name).ok().filter(|path| !path.is_empty()).map(Utf8PathBuf::from);
    let home = folder("HOME");
    let config = folder("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let mut files = vec![common_dir.join("config"), worktree_dir.join("config.worktree")];
    files.extend(config.map(|folder| folder.join("git/config")));
    files.extend(home.map(|home| home.join(".gitconfig")));
    files
}

/// The names of all filters, and whether they come from the known files only: a file that one of them includes can
/// change without them.
fn ask_git(root: &Utf8Path) -> Result<(BTreeSet<String>, bool), NotSeenReason> {
    // `working_tree::run` always sets this one: without any match git would exit as if it had failed.
    let pattern = r"^((filter|include|includeif)\..*|core\.fsmonitor)$";
    let printed =
        working_tree::run(root, &[], &["config", "--null", "--name-only", "--get-regexp", pattern])?;
    let (mut names, mut is_complete) = (BTreeSet::new(), true);
    for key in working_tree::records(&printed) {
        // A filter that cannot be turned off would run: then nothing is inspected.
        let key = std::str::from_utf8(key).map_err(|_| NotSeenReason::GitFailed)?;
        is_complete &= !key.starts_with("include");
        let Some((name, _)) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) else {
            continue;
        };
        // In `-c KEY=VALUE` the key ends at the first equals sign.
        if name.contains(['=', '\n']) {
            return Err(NotSeenReason::GitFailed);
        }
        names.insert(name.to_owned());
    }
    Ok((names, is_complete))
}

fn off(names: &BTreeSet<String>) -> Vec<String> {
    let settings = names.iter().flat_map(|name| {
        [
            format!("filter.{name}.clean="),
            format!("filter.{name}.process="),
            format!("filter.{name}.required=false"),
        ]
    });
    settings.collect()
}

#[cfg(test)]
#[path = "git_filters_tests.rs"]
mod tests;
