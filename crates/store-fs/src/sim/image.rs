//! Builds the disk that a crash leaves: what is reachable by name, with the bytes that survived.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::content::SimContent;
use super::names::{DirectoryTable, Ino};
use super::shared_bytes::{SharedBytes, digest_of};
use super::state::{Inode, InodeBody, ROOT, SimState};

/// A disk image whose open files still have to get their surviving bytes.
#[derive(Clone, Debug)]
pub(super) struct Image {
    state: SimState,
    /// The digest of everything but the open files.
    digest: u64,
    /// The reachable files that have changes which are not durable.
    pub(super) open: Vec<OpenFile>,
}

#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub(super) ino: Ino,
    path: String,
}

impl OpenFile {
    /// What this file adds to the digest when it holds `bytes`.
    pub(super) fn digest(&self, bytes: &SharedBytes) -> u64 {
        entry_digest(&self.path, &ImageShape::File(bytes.digest()))
    }
}

impl Image {
    /// Everything of `from` that is reachable by the names in `table`.
    pub(super) fn new(from: &SimState, table: &DirectoryTable) -> Self {
        let mut inodes = BTreeMap::new();
        let mut names = DirectoryTable::default();
        let mut digest = 0_u64;
        let mut open = Vec::new();
        for_each_name(table, &mut |path, ino| {
            let inode = from.inode(ino);
            if let Some(entries) = table.entries(ino) {
                names.put_entries(ino, entries.clone());
            }
            let body = match &inode.body {
                InodeBody::File(content) => {
                    let bytes = content.durable();
                    if content.changes().is_empty() {
                        digest = digest.wrapping_add(entry_digest(path, &ImageShape::File(bytes.digest())));
                    } else {
                        open.push(OpenFile { ino, path: path.to_owned() });
                    }
                    InodeBody::File(SimContent::settled(bytes.clone()))
                }
                InodeBody::Dir => {
                    digest = digest.wrapping_add(entry_digest(path, &ImageShape::Dir));
                    InodeBody::Dir
                }
                InodeBody::Other => {
                    digest = digest.wrapping_add(entry_digest(path, &ImageShape::Other));
                    InodeBody::Other
                }
            };
            inodes.insert(ino, Inode { body, ..*inode });
        });
        Self { state: SimState::settled(inodes, names), digest, open }
    }

    /// The digest of the finished image, given what the open files add to it.
    pub(super) fn digest_with(&self, open_files: impl Iterator<Item = u64>) -> u64 {
        open_files.fold(self.digest, u64::wrapping_add)
    }

    /// The finished image, given the surviving bytes of each open file.
    pub(super) fn finish(&self, bytes: impl Iterator<Item = Arc<SharedBytes>>) -> SimState {
        let mut state = self.state.clone();
        for (file, bytes) in self.open.iter().zip(bytes) {
            *state.open_file(file.ino) = SimContent::settled(bytes);
        }
        state
    }
}

/// The digest of what is seen on a disk: equal for equal paths and contents.
pub(super) fn seen_digest(state: &SimState) -> u64 {
    let mut digest = 0_u64;
    for_each_name(&state.seen, &mut |path, ino| {
        let shape = match &state.inode(ino).body {
            InodeBody::File(content) => ImageShape::File(content.seen().digest()),
            InodeBody::Dir => ImageShape::Dir,
            InodeBody::Other => ImageShape::Other,
        };
        digest = digest.wrapping_add(entry_digest(path, &shape));
    });
    digest
}

/// Visits the root (with an empty path) and everything reachable from it.
pub(super) fn for_each_name(table: &DirectoryTable, visit: &mut dyn FnMut(&str, Ino)) {
    // An inode has one name only, so this ends: no directory can be reached twice.
    let mut stack = vec![(String::new(), ROOT)];
    while let Some((path, ino)) = stack.pop() {
        visit(&path, ino);
        for (name, child) in table.entries(ino).into_iter().flat_map(|entries| entries.iter()) {
            let path = if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
            stack.push((path, *child));
        }
    }
}

#[derive(Hash)]
enum ImageShape {
    File(u64),
    Dir,
    Other,
}

/// Entries are added up, so that an image's digest does not depend on the order of the visit.
fn entry_digest(path: &str, shape: &ImageShape) -> u64 {
    digest_of(&(path, shape))
}
