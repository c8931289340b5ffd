//! The contents of a data directory: every entry with its kind, permissions and contents.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Longer files are compared by their length.
const HASHED_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    kind: Kind,
    mode: u32,
    owner: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    File { bytes: u64, hash: u64 },
    Link(PathBuf),
    Pipe,
    Other,
}

pub(crate) type Tree = BTreeMap<PathBuf, Entry>;

/// Every entry beneath a folder, by its path relative to it.
pub(crate) fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let entry = look(&path);
            if entry.kind == Kind::Folder {
                folders.push(path);
            }
            tree.insert(name, entry);
        }
    }
    tree
}

fn look(path: &Path) -> Entry {
    let found = fs::symlink_metadata(path).unwrap();
    let kind = match found.file_type() {
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_symlink() => Kind::Link(fs::read_link(path).unwrap()),
        kind if kind.is_fifo() => Kind::Pipe,
        kind if kind.is_file() => Kind::File { bytes: found.len(), hash: hash(path, found.len()) },
        _ => Kind::Other,
    };
    Entry { kind, mode: found.mode() & 0o7777, owner: found.uid() }
}

fn hash(path: &Path, bytes: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    if bytes <= HASHED_BYTES_MAX
        && let Ok(contents) = fs::read(path)
    {
        contents.hash(&mut hasher);
    }
    hasher.finish()
}

/// Servers' notes about themselves, derived data, and what was fetched from elsewhere: never truth (G18, G83, G91).
pub(crate) fn is_derived(path: &Path) -> bool {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let first = parts.next().unwrap_or_default();
    ["servers", "logs", "cache", "chats", "sources"].contains(&first.as_str())
        || parts.any(|part| part == "cache")
}

/// Files that a writer may replace: locks, the counter, temporaries and marks.
pub(crate) fn is_working_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.ends_with("lock") || name.starts_with("activity") || name.starts_with('.') || name == "manifest.torn"
}

/// The differences between two states, in words.
pub(crate) fn differences(before: &Tree, after: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for path in before.keys().chain(after.keys().filter(|path| !before.contains_key(*path))) {
        let word = match (before.get(path), after.get(path)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "removed",
            (None, _) => "created",
        };
        if !is_derived(path) {
            found.push(format!("{} {word}", path.display()));
        }
    }
    found
}
