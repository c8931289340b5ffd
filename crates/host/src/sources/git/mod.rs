//! Git repositories as sources: fetched on command or in the background, served from what was fetched last (G91).
//!
//! ```text
//! sources/git/KEY/lock          held while fetching
//!                 repository/   bare, without hooks; never checked out
//!                 ID.contents   the contents of all workflow files, one after the other
//!                 record.json   which commit is served, since when, what went wrong
//! ```
//!
//! Serving reads the record and the contents, and starts no process. A failed fetch changes only the record's failure
//! reason: the last commit is still served (G92).

mod cause;
mod credentials;
mod listing;
mod program;
mod record;

use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::config::{CheckedSource, GitProblem, GitSource, GitTransport};
use workrail_model::digest::Sha256;
use workrail_model::discovery::Precedence;
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use workrail_ports::workflow_source::{CandidateFile, SourceError, SourceListing, WorkflowFileStamp};

use super::health::SourceState;
use super::{problem, unreadable};
use crate::{bounded, whole_file};
use cause::Cause;
use listing::Tree;
use program::{Caps, Git, GitFailure, disk_bytes};
use record::FetchRecord;

/// Beneath the data directory.
pub(super) const FOLDER: &str = "sources/git";
/// The prefix of locations in git sources; no path starts with it.
const LOCATION_PREFIX: &str = "git:";
const CONTENTS: &str = "contents";
const FETCH_TIME_MAX: Duration = Duration::from_secs(120);
const READ_TIME_MAX: Duration = Duration::from_secs(60);
/// Enough for one commit of a repository worth fetching for its workflows.
const REPOSITORY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Enough to list 50,000 files with long names.
const LISTING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The ref under which the fetched commit is kept.
const TIP: &str = "refs/workrail/tip";
/// A failed source is retried after at most this time.
const RETRY: Duration = Duration::from_secs(3600);

/// A registered repository and its copy on this machine.
#[derive(Clone, Debug)]
pub struct Mirror {
    pub name: String,
    pub source: GitSource,
    /// Position among the git sources; a later one wins.
    pub(super) position: usize,
    root: Utf8PathBuf,
}

/// The outcome of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Synced {
    /// The fetched commit was already being served.
    Unchanged {
        commit: String,
        files: usize,
    },
    Updated {
        commit: String,
        files: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    #[error("{0}")]
    Refused(GitProblem),
    #[error("another process is fetching it right now")]
    Busy,
    #[error("{0}")]
    Failed(String),
}

/// What is known about a source without network access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorState {
    pub state: SourceState,
    pub commit: Option<String>,
    pub fetched_at_ms: Option<u64>,
    pub tried_at_ms: Option<u64>,
    pub problem: Option<String>,
    pub fix: Option<String>,
}

impl Mirror {
    /// `data` is the data directory.
    pub(super) fn new(name: &str, source: &GitSource, position: usize, data: &Utf8Path) -> Self {
        let key = Sha256::of_parts(&[name.as_bytes(), source.url.as_bytes()]).hex();
        let root = data.join(FOLDER).join(&key[..32]);
        Self { name: name.to_owned(), source: source.clone(), position, root }
    }

    fn record_path(&self) -> Utf8PathBuf {
        self.root.join("record.json")
    }

    fn content_path(&self, content: &str) -> Utf8PathBuf {
        self.root.join(format!("{content}.{CONTENTS}"))
    }

    fn record(&self) -> FetchRecord {
        FetchRecord::load(&self.record_path(), &self.name, &self.source)
    }

    /// The file that changes with every fetch.
    pub(super) fn watched_file(&self) -> Utf8PathBuf {
        self.record_path()
    }

    /// Adds what was last fetched, and any problems with it.
    pub(super) fn list_into(&self, listing: &mut SourceListing) {
        if let Err(refused) = self.source.checked() {
            let refusal = problem(
                Precedence::Git,
                &self.name,
                format!("{refused}; it is never fetched"),
                refused.fix(),
            );
            listing.problems.push(refusal);
            return;
        }
        let record = match FetchRecord::try_load(&self.record_path(), &self.name, &self.source) {
            Ok(record) => record,
            Err(error) => {
                listing.interrupted.get_or_insert(format!("{}: {error}", self.name));
                return;
            }
        };
        if record.commit.is_none() {
            let fix = match &record.failure {
                Some(failure) => self.fix(failure),
                None => format!("run `workrail workflow sources sync {}`", self.name),
            };
            let why = record.failure.map_or_else(String::new, |failure| format!(": {failure}"));
            let never_fetched =
                problem(Precedence::Git, &self.name, format!("it was never fetched{why}"), &fix);
            listing.problems.push(never_fetched);
            return;
        }
        for item in record.problems {
            let reference = format!("{}/{}", self.name, item.path);
            listing.problems.push(problem(Precedence::Git, &reference, item.problem, &item.fix));
        }
        let content = record.content.unwrap_or_default();
        let files = record.files.into_iter().filter_map(|file| {
            let part = format!("{content}:{}:{}", file.offset, file.bytes);
            Some(CandidateFile {
                precedence: Precedence::Git,
                folder_position: self.position,
                reference: format!("{}/{}", self.name, file.path),
                location: format!("{LOCATION_PREFIX}{}:{part}:{}", self.root, file.path),
                // There is no working tree that could contain a document.
                package: None,
                stamp: Some(stamp(&file.blob)?),
            })
        });
        listing.files.extend(files);
    }

    /// The content of one of its files; `None` if the candidate belongs to another source.
    pub(super) fn read(&self, file: &CandidateFile) -> Option<Result<Vec<u8>, SourceError>> {
        let below = file
            .location
            .strip_prefix(LOCATION_PREFIX)?
            .strip_prefix(self.root.as_str())?
            .strip_prefix(':')?;
        let mut parts = below.splitn(4, ':');
        let content = parts.next().filter(|content| listing::is_blob_id(content))?;
        let (offset, bytes): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let read = match bytes <= WORKFLOW_SOURCE_BYTES_MAX {
            true => bounded::read_part(&self.content_path(content), offset, bytes),
            false => Err(std::io::Error::other("it is too large")),
        };
        Some(read.map_err(|error| {
            let detail = format!("{error}; run `workrail workflow sources sync {}`", self.name);
            unreadable(&file.reference, &error, detail)
        }))
    }

    pub fn state(&self) -> MirrorState {
        let record = self.record();
        let (state, problem, fix) = match (self.source.checked(), &record.commit, &record.failure) {
            (Err(refused), _, _) => {
                (SourceState::Refused, Some(refused.to_string()), Some(refused.fix().to_owned()))
            }
            (Ok(_), None, failure) => {
                let why = failure.as_deref().unwrap_or("nobody has fetched it yet");
                let fix = failure.as_deref().map_or_else(|| self.sync_command(), |failure| self.fix(failure));
                (SourceState::NeverFetched, Some(why.to_owned()), Some(fix))
            }
            (Ok(_), Some(_), Some(failure)) => {
                let text = format!("the last fetch failed, and what was fetched before is served: {failure}");
                (SourceState::Stale, Some(text), Some(self.fix(failure)))
            }
            (Ok(_), Some(_), None) if self.is_overdue(&record) => {
                let text = format!("it was not fetched for more than twice {} hours", self.source.sync_hours);
                (SourceState::Stale, Some(text), Some(self.sync_command()))
            }
            (Ok(_), Some(_), None) if !self.has_content(&record) => {
                let text = "what was fetched is damaged".to_owned();
                (SourceState::Unreadable, Some(text), Some(self.sync_command()))
            }
            (Ok(_), Some(_), None) => (SourceState::Ok, None, None),
        };
        MirrorState {
            state,
            commit: record.commit,
            fetched_at_ms: record.fetched_at_ms,
            tried_at_ms: (record.tried_at_ms > 0).then_some(record.tried_at_ms),
            problem,
            fix,
        }
    }

    /// What to do about a failed fetch, by its cause.
    pub fn fix(&self, failure: &str) -> String {
        Cause::of(failure).fix(&self.name, &self.source)
    }

    fn sync_command(&self) -> String {
        format!("workrail workflow sources sync {}", self.name)
    }

    /// Whether the source should have been fetched: no server was running, or the fetch failed.
    fn is_overdue(&self, record: &FetchRecord) -> bool {
        let hours = u64::from(self.source.sync_hours);
        let age = now_ms().saturating_sub(record.fetched_at_ms.unwrap_or_default());
        hours > 0 && !self.is_pinned() && age > hours * 2 * 3_600_000
    }

    /// A commit never changes: once fetched, there is nothing more to fetch.
    fn is_pinned(&self) -> bool {
        self.source.checked().is_ok_and(|checked| checked.git_ref.is_commit())
    }

    /// How long until a server fetches it automatically; `None` if never.
    pub fn due_in(&self) -> Option<Duration> {
        let record = self.record();
        if self.source.sync_hours == 0
            || self.source.checked().is_err()
            || (self.is_pinned() && record.commit.is_some())
        {
            return None;
        }
        let every = Duration::from_secs(u64::from(self.source.sync_hours) * 3600);
        let every = if record.failure.is_some() { every.min(RETRY) } else { every };
        let since = Duration::from_millis(now_ms().saturating_sub(record.tried_at_ms));
        Some(if record.tried_at_ms == 0 { Duration::ZERO } else { every.saturating_sub(since) })
    }

    /// Fetches, and serves the new commit from then on.
    pub fn sync(&self) -> Result<Synced, SyncError> {
        let checked = self.source.checked().map_err(SyncError::Refused)?;
        let _lock = self.lock()?;
        let mut record = self.record();
        record.tried_at_ms = now_ms();
        let done = self.fetch(&checked, &mut record);
        match &done {
            Ok(_) => {
                record.failure = None;
                record.fetched_at_ms = Some(record.tried_at_ms);
            }
            Err(failure) => record.failure = Some(failure.clone()),
        }
        let previous = self.record();
        let saved = record.save(&self.record_path()).map_err(|error| SyncError::Failed(error.to_string()));
        let synced = done.map_err(SyncError::Failed)?;
        saved?;
        self.sweep(&[&previous, &record]);
        Ok(synced)
    }

    /// Deletes everything that was fetched from disk.
    pub fn forget(&self) -> Result<(), SyncError> {
        if !self.root.exists() {
            return Ok(());
        }
        let _lock = self.lock()?;
        std::fs::remove_dir_all(&self.root).map_err(|error| SyncError::Failed(error.to_string()))
    }

    fn lock(&self) -> Result<File, SyncError> {
        let failed = |error: std::io::Error| SyncError::Failed(format!("{}: {error}", self.root));
        whole_file::create_private_folder(&self.root).map_err(failed)?;
        let lock = bounded::open_lock(&self.root.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(SyncError::Busy),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    fn fetch(&self, checked: &CheckedSource, record: &mut FetchRecord) -> Result<Synced, String> {
        let commit = self.commit(checked).map_err(|failure| failure.to_string())?;
        if record.commit.as_deref() == Some(&commit) && self.has_content(record) {
            return Ok(Synced::Unchanged { commit, files: record.files.len() });
        }
        let git = self.git(checked);
        let caps = Caps { time: READ_TIME_MAX, printed: LISTING_BYTES_MAX, disk: None };
        let whole = format!("{commit}:{}", checked.folder);
        let listing = git.run(&["ls-tree", "-r", "-l", "-z", "--full-tree", &whole], None, &caps);
        let listing = listing.map_err(|failure| {
            if matches!(failure, GitFailure::Failed(_)) && !checked.folder.is_empty() {
                format!("the commit has no folder `{}`", checked.folder)
            } else {
                failure.to_string()
            }
        })?;
        let mut tree = Tree::parse(&listing);
        let contents =
            listing::contents(&git, &mut tree.files, &caps).map_err(|failure| failure.to_string())?;
        let name = Sha256::of(&contents).hex();
        // What is in its place is damaged, or a link, or has other permissions.
        whole_file::write_anew(&self.content_path(&name), &contents).map_err(|error| error.to_string())?;
        record.content = Some(name);
        record.commit = Some(commit.clone());
        record.files = tree.files;
        record.problems = tree.problems;
        Ok(Synced::Updated { commit, files: record.files.len() })
    }

    fn git(&self, checked: &CheckedSource) -> Git {
        let transport = checked.url.transport();
        // Ssh uses its own keys, and a local repository needs no credentials.
        let credentials = match transport {
            GitTransport::Https => credentials::settings(),
            GitTransport::Ssh | GitTransport::Local => Vec::new(),
        };
        Git { repository: self.root.join("repository"), transport, credentials }
    }

    /// Fetches one commit without its history and returns its id.
    fn commit(&self, checked: &CheckedSource) -> Result<String, GitFailure> {
        let git = self.git(checked);
        // Old packs are never needed again: start over at half the cap.
        if disk_bytes(&packs(&git)) > REPOSITORY_BYTES_MAX / 2 {
            discard(&git.repository);
        }
        let is_reused = git.repository.join("HEAD").exists();
        match fetched(&git, checked) {
            // The reason may be the repository: a lock that an ended git left, a damaged object, permissions.
            Err(failure) if is_reused && Cause::of(&failure.to_string()) == Cause::Other => {
                discard(&git.repository);
                fetched(&git, checked)
            }
            result => result,
        }
    }

    /// Whether the contents that a record names are what was fetched.
    fn has_content(&self, record: &FetchRecord) -> bool {
        let Some(name) = &record.content else { return false };
        let contents = bounded::read(&self.content_path(name), REPOSITORY_BYTES_MAX);
        contents.is_ok_and(|contents| Sha256::of(&contents).hex() == *name)
    }

    /// Removes contents that belong neither to the served commit nor to the one before it, which a call that began
    /// before the fetch may still be reading.
    fn sweep(&self, records: &[&FetchRecord]) {
        let wanted: Vec<Utf8PathBuf> = records
            .iter()
            .filter_map(|record| record.content.as_ref())
            .map(|name| self.content_path(name))
            .collect();
        let Ok(entries) = self.root.read_dir_utf8() else { return };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path().to_owned()) {
            if path.extension() == Some(CONTENTS) && !wanted.contains(&path) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn packs(git: &Git) -> Utf8PathBuf {
    git.repository.join("objects/pack")
}

/// Everything in it can be fetched again.
fn discard(repository: &Utf8Path) {
    // A folder without permissions would keep its files. A link would pass the permissions on to its target.
    if std::fs::symlink_metadata(repository).is_ok_and(|found| found.is_dir()) {
        let _ = std::fs::set_permissions(repository, Permissions::from_mode(0o700));
    }
    let _ = std::fs::remove_dir_all(repository);
}

/// Fetches into the repository, which is created if it is missing.
fn fetched(git: &Git, checked: &CheckedSource) -> Result<String, GitFailure> {
    let caps =
        Caps { time: FETCH_TIME_MAX, printed: 64 * 1024, disk: Some((packs(git), REPOSITORY_BYTES_MAX)) };
    if !git.repository.join("HEAD").exists() {
        // Incomplete if a process ended while creating it.
        discard(&git.repository);
        git.run(&["init", "--quiet", "--bare", "--template="], None, &caps)?;
    }
    let refspec = format!("+{}:{TIP}", checked.git_ref.as_str());
    let fetched = git.run(
        &[
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--",
            checked.url.as_str(),
            &refspec,
        ],
        None,
        &caps,
    );
    if let Err(GitFailure::TooLarge(_) | GitFailure::TooSlow(_)) = fetched {
        // A partial fetch is useless and takes up space.
        discard(&git.repository);
    }
    fetched?;
    let tip = format!("{TIP}^{{commit}}");
    let commit = git.run(&["rev-parse", "--verify", "--end-of-options", &tip], None, &caps)?;
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    if listing::is_blob_id(&commit) {
        Ok(commit)
    } else {
        Err(GitFailure::Failed("it names no commit".to_owned()))
    }
}

/// Git's blob id is an ideal stamp.
fn stamp(blob: &str) -> Option<WorkflowFileStamp> {
    let digest = Sha256::of(blob.as_bytes());
    let mut parts = [0; 4];
    for (part, bytes) in parts.iter_mut().zip(digest.as_bytes().chunks_exact(8)) {
        *part = u64::from_be_bytes(bytes.try_into().ok()?);
    }
    Some(WorkflowFileStamp(parts))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
