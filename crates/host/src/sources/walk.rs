//! Walks a folder for workflow files: within limits, without following links, in a fixed order.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::discovery::Precedence;
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use workrail_ports::workflow_source::{
    CandidateFile, ProblemScope, SourceListing, SourceProblem, WorkflowFileStamp,
};

use super::health::SourceState;
use super::problem;
use crate::bounded::is_shortage;

/// More files than this indicate a wrong folder, not a library of workflows.
pub(super) const FILES_MAX: usize = 10_000;
/// Limit on entries of any kind: a dependency folder must not stall every call.
const ENTRIES_MAX: usize = 50_000;
pub(super) const DEPTH_MAX: usize = 16;
/// A listing with more problems than this needs no more.
pub(super) const PROBLEMS_MAX: usize = 1_000;
/// On coarse file systems, two changes within this time may leave the same modification time.
const FRESH: Duration = Duration::from_secs(2);

/// A folder to search.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) precedence: Precedence,
    pub(super) position: usize,
    pub(super) path: Utf8PathBuf,
    /// The prefix of its files' references.
    prefix: String,
    package: Utf8PathBuf,
    missing: Missing,
    /// Links inside a checkout come from its authors; links outside were made by the user.
    linked: Linked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Fine,
    Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Linked {
    Followed,
    /// Refused in any part of the path below this folder.
    RefusedBelow(Utf8PathBuf),
}

impl Root {
    pub(super) fn user(path: &Utf8Path) -> Self {
        Self {
            precedence: Precedence::User,
            position: 0,
            path: path.to_owned(),
            prefix: String::new(),
            package: path.to_owned(),
            missing: Missing::Fine,
            linked: Linked::Followed,
        }
    }

    pub(super) fn custom(position: usize, path: &Utf8Path) -> Self {
        Self { precedence: Precedence::Custom, position, missing: Missing::Problem, ..Self::user(path) }
    }

    /// The project as a whole is the package of its workflows.
    pub(super) fn project(position: usize, workspace: &Utf8Path, name: &'static str) -> Self {
        Self {
            precedence: Precedence::Project,
            position,
            path: workspace.join(name),
            prefix: name.to_owned(),
            package: workspace.to_owned(),
            missing: Missing::Fine,
            linked: Linked::RefusedBelow(workspace.to_owned()),
        }
    }

    /// A plugin's folder; its manifest names the files.
    pub(super) fn plugin(position: usize, path: &Utf8Path, name: &str) -> Self {
        let named =
            Self { precedence: Precedence::Plugin, position, missing: Missing::Problem, ..Self::user(path) };
        Self { prefix: name.to_owned(), ..named }
    }

    /// Whether it is a default folder, searched without being registered.
    pub(super) fn is_usual(&self) -> bool {
        self.missing == Missing::Fine
    }

    /// Every path whose replacement would change what is found here.
    pub(super) fn parts(&self) -> Vec<Utf8PathBuf> {
        match &self.linked {
            Linked::Followed => vec![self.path.clone()],
            Linked::RefusedBelow(base) => {
                self.path.ancestors().take_while(|path| path != base).map(Utf8Path::to_owned).collect()
            }
        }
    }

    fn reference(&self, path: &Utf8Path) -> String {
        let below = path.strip_prefix(&self.path).unwrap_or(path);
        Utf8Path::new(&self.prefix).join(below).to_string()
    }

    /// The first part of the path below the workspace that is a link.
    fn link(&self) -> Option<Utf8PathBuf> {
        let Linked::RefusedBelow(base) = &self.linked else { return None };
        let below = self.path.ancestors().take_while(|path| path != base);
        let mut parts: Vec<&Utf8Path> = below.collect();
        parts.reverse();
        let is_link = |path: &&Utf8Path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
        parts.into_iter().find(is_link).map(Utf8Path::to_owned)
    }
}

/// The walk of one listing; the limits apply to all its folders together.
#[derive(Debug)]
pub(super) struct FolderWalk<'s> {
    listing: &'s mut SourceListing,
    /// Folders that are named twice, or contain each other, list each file once.
    seen: BTreeSet<(Precedence, Utf8PathBuf)>,
    /// Every folder that was read.
    pub(super) folders: Vec<Utf8PathBuf>,
    pub(super) completeness: WalkCompleteness,
    files: usize,
    entries: usize,
    now: SystemTime,
}

/// Whether everything that exists was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkCompleteness {
    All,
    /// Something could not be read. That may change without any report.
    Part,
}

/// Whether the walk continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkStep {
    On,
    Stop,
}

impl<'s> FolderWalk<'s> {
    pub(super) fn new(listing: &'s mut SourceListing) -> Self {
        Self {
            listing,
            seen: BTreeSet::new(),
            folders: Vec::new(),
            completeness: WalkCompleteness::All,
            files: 0,
            entries: 0,
            now: SystemTime::now(),
        }
    }

    pub(super) fn listing(&mut self) -> &mut SourceListing {
        self.listing
    }

    /// Finds what is beneath a root and returns the root's state.
    pub(super) fn root(&mut self, root: &Root) -> SourceState {
        let usable = self.usable(root);
        if usable != SourceState::Ok {
            return usable;
        }
        match self.folder(root, &root.path, 0) {
            WalkStep::On => SourceState::Ok,
            WalkStep::Stop => SourceState::TooManyFiles,
        }
    }

    /// Whether a root can be searched; if not, the listing gives the reason.
    pub(super) fn usable(&mut self, root: &Root) -> SourceState {
        if let Some(link) = root.link() {
            let shown = link.file_name().unwrap_or_default().to_owned();
            let text = "it is a link, and links in a workspace are not followed".to_owned();
            let fix = "put the files themselves there, or register their folder: workrail workflow sources add folder PATH";
            self.problem(root, &shown, text, fix);
            return SourceState::Link;
        }
        let (state, text, fix) = match std::fs::metadata(&root.path) {
            Ok(metadata) if metadata.is_dir() => {
                return match std::fs::read_dir(&root.path) {
                    Ok(_) => SourceState::Ok,
                    Err(error) => self.unreadable_folder(root, root.path.as_str(), &error),
                };
            }
            Ok(_) => (
                SourceState::Unreadable,
                "it is not a folder".to_owned(),
                "name the folder that holds the files",
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if root.is_usual() {
                    return SourceState::Absent;
                }
                let fix = "create it, or correct `sources` in the settings or WORKFLOW_STORAGE_PATH (full paths, \
                           `~` is not expanded)";
                (SourceState::Missing, "the folder does not exist".to_owned(), fix)
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => (
                SourceState::Loop,
                "its links lead in a circle".to_owned(),
                "make the link lead to the folder",
            ),
            Err(error) => return self.unreadable_folder(root, root.path.as_str(), &error),
        };
        self.problem(root, root.path.as_str(), text, fix);
        state
    }

    fn unreadable_folder(&mut self, root: &Root, shown: &str, error: &std::io::Error) -> SourceState {
        if is_shortage(error) {
            self.interrupt(shown, &error.to_string());
        } else {
            self.unseen(root, shown, format!("the folder cannot be read: {error}"), "check its permissions");
        }
        SourceState::Unreadable
    }

    fn folder(&mut self, root: &Root, folder: &Utf8Path, depth: usize) -> WalkStep {
        let shown = root.reference(folder);
        if depth > DEPTH_MAX {
            let text = format!("it is nested deeper than {DEPTH_MAX} folders and is not searched");
            self.problem(root, &shown, text, "move its workflow files up");
            return WalkStep::On;
        }
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.unreadable_folder(root, &shown, &error);
                return WalkStep::On;
            }
        };
        self.folders.push(folder.to_owned());
        let mut names = Vec::new();
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.unreadable_folder(root, &shown, &error);
                    break;
                }
            };
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                let text = format!("more than {ENTRIES_MAX} entries were found; the rest is not searched");
                self.problem(root, &shown, text, "keep workflow files in a folder of their own");
                return WalkStep::Stop;
            }
            names.push(entry.file_name());
        }
        names.sort();
        for name in names {
            let Some(name) = name.to_str() else {
                let lossy = name.to_string_lossy().into_owned();
                self.problem(root, &lossy, "its name is not UTF-8".to_owned(), "rename it");
                continue;
            };
            // Hidden: version control, editors, half-written files.
            if name.starts_with('.') {
                continue;
            }
            if self.entry(root, &folder.join(name), depth) == WalkStep::Stop {
                return WalkStep::Stop;
            }
        }
        WalkStep::On
    }

    fn entry(&mut self, root: &Root, path: &Utf8Path, depth: usize) -> WalkStep {
        let is_workflow = matches!(path.extension(), Some("json" | "jsonc"));
        let metadata = match std::fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            // Deleted since the folder was listed, which is not a problem.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return WalkStep::On,
            Err(error) if is_shortage(&error) => {
                self.interrupt(&root.reference(path), &error.to_string());
                return WalkStep::On;
            }
            Err(error) => {
                let text = format!("it cannot be read: {error}");
                self.unseen(root, &root.reference(path), text, "check the permissions of its folder");
                return WalkStep::On;
            }
        };
        if metadata.is_dir() {
            return self.folder(root, path, depth + 1);
        }
        if metadata.is_symlink() {
            if is_workflow || std::fs::metadata(path).is_ok_and(|target| target.is_dir()) {
                let fix = "put the file itself there, or register its folder: workrail workflow sources add folder PATH";
                let text = "it is a link, and links are not followed".to_owned();
                self.problem(root, &root.reference(path), text, fix);
            }
            return WalkStep::On;
        }
        if !is_workflow {
            return WalkStep::On;
        }
        self.file(root, path, &metadata)
    }

    pub(super) fn file(&mut self, root: &Root, path: &Utf8Path, metadata: &Metadata) -> WalkStep {
        if !self.seen.insert((root.precedence, path.to_owned())) {
            return WalkStep::On;
        }
        let reference = root.reference(path);
        if !metadata.is_file() {
            let text = "it is not a regular file".to_owned();
            self.problem(root, &reference, text, "put a regular file there");
            return WalkStep::On;
        }
        if metadata.len() > WORKFLOW_SOURCE_BYTES_MAX {
            let bytes = metadata.len();
            let text = format!("it has {bytes} bytes, at most {WORKFLOW_SOURCE_BYTES_MAX} are read");
            let fix = "move long material into files that `references` point at";
            self.problem(root, &reference, text, fix);
            return WalkStep::On;
        }
        self.files += 1;
        if self.files > FILES_MAX {
            let text =
                format!("more than {FILES_MAX} workflow files were found; this and the rest are left out");
            self.problem(root, &reference, text, "name a folder that holds workflow files only");
            return WalkStep::Stop;
        }
        self.listing.files.push(CandidateFile {
            precedence: root.precedence,
            folder_position: root.position,
            reference,
            location: path.to_string(),
            package: Some(root.package.to_string()),
            stamp: self.stamp(metadata),
        });
        WalkStep::On
    }

    fn stamp(&self, metadata: &Metadata) -> Option<WorkflowFileStamp> {
        let modified = metadata.modified().ok()?;
        // In the future, or just now: the next change could leave the same stamp.
        let age = self.now.duration_since(modified).ok()?;
        (age > FRESH).then(|| {
            let nanos = |seconds: i64, nanos: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos);
            WorkflowFileStamp([
                metadata.len(),
                nanos(metadata.mtime(), metadata.mtime_nsec()).cast_unsigned(),
                nanos(metadata.ctime(), metadata.ctime_nsec()).cast_unsigned(),
                metadata.ino(),
            ])
        })
    }

    /// The search ends early, for now: what was not seen may exist.
    pub(super) fn interrupt(&mut self, shown: &str, detail: &str) {
        self.completeness = WalkCompleteness::Part;
        self.listing.interrupted.get_or_insert_with(|| format!("{shown}: {detail}"));
    }

    /// A problem that may hide workflow files.
    pub(super) fn unseen(&mut self, root: &Root, reference: &str, text: String, fix: &str) {
        self.completeness = WalkCompleteness::Part;
        if self.listing.problems.len() < PROBLEMS_MAX {
            let scope = ProblemScope::Unseen { folder_position: root.position };
            let named = problem(root.precedence, reference, text, fix);
            self.listing.problems.push(SourceProblem { scope, ..named });
        }
    }

    pub(super) fn problem(&mut self, root: &Root, reference: &str, text: String, fix: &str) {
        if self.listing.problems.len() < PROBLEMS_MAX {
            self.listing.problems.push(problem(root.precedence, reference, text, fix));
        }
    }
}
