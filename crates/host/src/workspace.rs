//! What can be observed of a workspace: git branch, HEAD and the repository's root.
//!
//! Anchors are read directly from git's files: they are wanted everywhere and must take microseconds. For changes in
//! the working tree git itself is run (`working_tree.rs`). Anything unexpected is left out; the anchors help to find
//! work again and are never a reason to fail.

use std::collections::BTreeMap;
use std::time::SystemTime;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use workrail_model::digest::Sha256;
use workrail_model::event::{ObservationKey, ObservationValue};
use workrail_model::evidence::{NotSeenReason, TreeInspection};
use workrail_model::text::BoundedText;
use workrail_ports::workspace::{WorkspaceFacts, WorkspaceObserver, WorkspacePath};

use crate::git_filters::FilterNames;
use crate::{bounded, env_vars, working_tree};

/// `HEAD`, a loose ref, `gitdir:` and `commondir` are a line each.
const LINE_BYTES_MAX: u64 = 4096;
/// Enough for about 100,000 refs; a repository with more gets no HEAD.
const PACKED_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// More parts than any path has in practice; bounds the search upward.
const DEPTH_MAX: usize = 128;
/// `ref: ` to a ref to a ref: git itself writes one level.
const SYMBOLIC_MAX: usize = 4;

/// The workspace of calls that name none: the one given by the client, else the process's working directory.
pub fn default_workspace() -> Option<WorkspacePath> {
    let claimed = env_vars::PROJECT_DIR.get();
    let here = std::env::current_dir().ok().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
    choose(claimed.as_deref(), here.as_deref())
}

/// The process's working directory, where it is the workspace of calls that name none; `None` if the client gives one.
pub fn process_folder() -> Option<WorkspacePath> {
    let used = default_workspace()?;
    let claimed = env_vars::PROJECT_DIR.get();
    (claimed.as_deref() != Some(used.as_str())).then_some(used)
}

fn choose(claimed: Option<&str>, here: Option<&Utf8Path>) -> Option<WorkspacePath> {
    let claimed = claimed.and_then(|path| WorkspacePath::parse(path).ok());
    let claimed = claimed.filter(|path| Utf8Path::new(path.as_str()).is_dir());
    claimed.or_else(|| here.and_then(|path| WorkspacePath::parse(path.as_str()).ok()))
}

/// Whether the folder exists.
pub fn is_folder(path: &str) -> bool {
    Utf8Path::new(path).is_dir()
}

/// A file as a path relative to the root of the workspace's repository, or to the workspace if there is none; `None`
/// for a file elsewhere. The file need not exist. Links on the way to it are followed, as an editor would.
pub fn path_in_repository(workspace: &str, path: &str) -> Option<String> {
    let workspace = Utf8Path::new(workspace).canonicalize_utf8().ok()?;
    let root = Repository::find(&workspace).map_or_else(|| workspace.clone(), |found| found.root);
    let whole = workspace.join(path);
    let existing =
        whole.ancestors().take(DEPTH_MAX).find_map(|part| Some((part, part.canonicalize_utf8().ok()?)));
    let (part, canonical) = existing?;
    let rest = whole.strip_prefix(part).ok()?;
    let mut found = canonical;
    // A path that does not exist contains no links, so `..` can be resolved by name.
    for name in rest.components() {
        match name {
            Utf8Component::ParentDir => {
                found.pop();
            }
            Utf8Component::Normal(name) => found.push(name),
            Utf8Component::CurDir | Utf8Component::RootDir | Utf8Component::Prefix(_) => {}
        }
    }
    found.strip_prefix(&root).ok().map(|below| below.as_str().to_owned()).filter(|below| !below.is_empty())
}

/// The root of the workspace's repository with links resolved, or of the workspace if there is none.
pub fn project_root(workspace: &str) -> Option<Utf8PathBuf> {
    let workspace = Utf8Path::new(workspace).canonicalize_utf8().ok().filter(|folder| folder.is_dir())?;
    Some(Repository::find(&workspace).map_or(workspace, |found| found.root))
}

/// Where a workspace's repository keeps its refs and objects: below its root, or, for a worktree, where the
/// worktree's entry refers back to it. A file in the workspace alone is not trusted: a check could write it.
pub(crate) fn git_folder(workspace: &Utf8Path) -> Option<Utf8PathBuf> {
    let found = Repository::find(workspace)?;
    let worktree_dir = found.worktree_dir.canonicalize_utf8().ok()?;
    let common_dir = found.common_dir.canonicalize_utf8().ok()?;
    let named =
        line(&worktree_dir.join("gitdir")).and_then(|text| worktree_dir.join(text).canonicalize_utf8().ok());
    let is_worktree = worktree_dir.parent() == Some(common_dir.join("worktrees").as_path())
        && named == Some(found.root.join(".git"));
    (common_dir.starts_with(&found.root) || is_worktree).then_some(common_dir)
}

/// Reads git's own files, and runs git for what differs from HEAD.
#[derive(Debug, Default)]
pub struct GitObserver {
    filters: FilterNames,
}

impl WorkspaceObserver for GitObserver {
    fn is_folder(&self, workspace: &WorkspacePath) -> bool {
        is_folder(workspace.as_str())
    }

    fn inspect_tree(&self, workspace: &WorkspacePath) -> TreeInspection {
        let Some(repository) = Repository::find(Utf8Path::new(workspace.as_str())) else {
            return TreeInspection::NoRepository;
        };
        let Repository { root, worktree_dir, common_dir } = &repository;
        // Without these, git looks for a repository further up and would answer about that one.
        if !common_dir.join("objects").is_dir() || !common_dir.join("refs").is_dir() {
            return TreeInspection::NotSeen(NotSeenReason::GitFailed);
        }
        let filters_off = match self.filters.settings_off(root, worktree_dir, common_dir, SystemTime::now()) {
            Ok(settings) => settings,
            Err(reason) => return TreeInspection::NotSeen(reason),
        };
        let (branch, head) = repository.head();
        working_tree::inspect(root, &filters_off, branch, head)
    }

    fn changed_between(&self, workspace: &WorkspacePath, from: &str, to: &str) -> Option<Vec<String>> {
        let repository = Repository::find(Utf8Path::new(workspace.as_str()))?;
        working_tree::changed_between(&repository.root, from, to)
    }

    fn observe(&self, workspace: &WorkspacePath) -> WorkspaceFacts {
        let Some(repository) = Repository::find(Utf8Path::new(workspace.as_str())) else {
            return WorkspaceFacts::default();
        };
        let root = Sha256::of(repository.root.as_str().as_bytes());
        let mut values = BTreeMap::from([(ObservationKey::RepoRootHash, ObservationValue::Sha256(root))]);
        let (branch, head) = repository.head();
        // A name over the limit is left out: truncated, it would be another branch.
        if let Some(name) = branch.and_then(|name| BoundedText::new(name).ok()) {
            values.insert(ObservationKey::GitBranch, ObservationValue::ShortString(name));
        }
        if let Some(sha) = head.and_then(|sha| BoundedText::new(sha).ok()) {
            values.insert(ObservationKey::GitHeadSha, ObservationValue::GitSha1(sha));
        }
        WorkspaceFacts { values }
    }
}

#[derive(Clone, Debug)]
struct Repository {
    /// Canonical, so that a repository has only one hash.
    root: Utf8PathBuf,
    /// Where this worktree keeps its HEAD.
    worktree_dir: Utf8PathBuf,
    /// Where all worktrees keep their refs.
    common_dir: Utf8PathBuf,
}

impl Repository {
    fn find(workspace: &Utf8Path) -> Option<Self> {
        let start = workspace.canonicalize_utf8().ok()?;
        start.ancestors().take(DEPTH_MAX).find_map(Self::at)
    }

    fn at(root: &Utf8Path) -> Option<Self> {
        let git = root.join(".git");
        let metadata = std::fs::symlink_metadata(&git).ok()?;
        let worktree_dir = if metadata.is_dir() {
            git
        } else if metadata.is_file() {
            // A worktree or a submodule: one line names its folder.
            let text = line(&git)?;
            root.join(text.strip_prefix("gitdir:")?.trim())
        } else {
            return None;
        };
        // An empty folder of that name is not a repository.
        std::fs::symlink_metadata(worktree_dir.join("HEAD")).ok()?;
        let common_dir = line(&worktree_dir.join("commondir"))
            .map_or_else(|| worktree_dir.clone(), |text| worktree_dir.join(text));
        Some(Self { root: root.to_owned(), worktree_dir, common_dir })
    }

    /// The branch and the commit, if any: a detached HEAD has no branch, an unborn branch
    /// no commit.
    fn head(&self) -> (Option<String>, Option<String>) {
        let Some(head) = line(&self.worktree_dir.join("HEAD")) else { return (None, None) };
        let Some(name) = symbolic(&head) else { return (None, sha(&head)) };
        let branch = name.strip_prefix("refs/heads/").map(str::to_owned);
        (branch, self.resolve(name))
    }

    fn resolve(&self, name: &str) -> Option<String> {
        let mut name = name.to_owned();
        for _ in 0..SYMBOLIC_MAX {
            let Some(text) = line(&self.common_dir.join(&name)) else { return self.packed(&name) };
            match symbolic(&text) {
                Some(next) => name = next.to_owned(),
                None => return sha(&text),
            }
        }
        None
    }

    fn packed(&self, name: &str) -> Option<String> {
        let bytes = bounded::read(&self.common_dir.join("packed-refs"), PACKED_BYTES_MAX).ok()?;
        bytes.split(|byte| *byte == b'\n').find_map(|line| {
            let (id, rest) = line.split_at_checked(40)?;
            let named = rest.strip_prefix(b" ")?;
            let named = named.strip_suffix(b"\r").unwrap_or(named);
            (named == name.as_bytes()).then(|| std::str::from_utf8(id).ok().and_then(sha)).flatten()
        })
    }
}

/// The only line of a small file, without characters that could disturb a terminal or a log.
fn line(path: &Utf8Path) -> Option<String> {
    let text = String::from_utf8(bounded::read(path, LINE_BYTES_MAX).ok()?).ok()?;
    let line = text.trim_end_matches(['\n', '\r', ' ']);
    (!line.is_empty() && !line.chars().any(char::is_control)).then(|| line.to_owned())
}

/// The target of a symbolic ref, if it is a name that git would accept: it becomes a path.
fn symbolic(text: &str) -> Option<&str> {
    let name = text.strip_prefix("ref:")?.trim_start();
    let is_safe = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with(".lock")
            && !part.contains("..")
            && !part.contains([' ', '~', '^', ':', '?', '*', '[', '\\', '\u{7f}'])
    };
    (name.starts_with("refs/") && name.split('/').all(is_safe)).then_some(name)
}

/// A SHA-1; SHA-256 ids are not supported and are left out.
fn sha(text: &str) -> Option<String> {
    let is_sha = text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_sha.then(|| text.to_owned())
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
