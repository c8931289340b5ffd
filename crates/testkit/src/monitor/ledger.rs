//! What the monitor remembers: unsynced data per file, unsynced names per directory, violations.

use std::collections::BTreeMap;
use std::thread::{self, ThreadId};

use workrail_ports::file_system::RelPath;

use super::layout::{FileRole, role_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(u64);

#[derive(Clone, Debug)]
struct FileRecord {
    path: RelPath,
    /// Counts writes, so that a sync covers only those before it began.
    writes: u64,
    synced_writes: u64,
    /// The last writer; matters only while something is not synced.
    writer: ThreadId,
    /// A failed sync loses part of the file for good: only a new file can be trusted.
    damaged: bool,
}

impl FileRecord {
    fn is_synced(&self) -> bool {
        self.writes == self.synced_writes && !self.damaged
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataState {
    Synced,
    Unsynced,
}

/// A file that was renamed into place and that no manifest may rely on yet.
#[derive(Clone, Copy, Debug)]
struct RenamedFile {
    data: DataState,
    by: ThreadId,
}

#[derive(Debug, Default)]
pub(super) struct WriteLedger {
    files: BTreeMap<FileId, FileRecord>,
    by_path: BTreeMap<RelPath, FileId>,
    /// Names of the layout that were created and whose directory has not been synced since.
    unsynced_names: BTreeMap<RelPath, ThreadId>,
    /// Segments and CAS files renamed into place since the last manifest write that covers them.
    renamed: BTreeMap<RelPath, RenamedFile>,
    violations: Vec<String>,
    next: u64,
}

impl WriteLedger {
    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    fn add_file(&mut self, path: &RelPath, writes: u64) -> FileId {
        let id = FileId(self.next);
        self.next += 1;
        let writer = thread::current().id();
        let record = FileRecord { path: path.clone(), writes, synced_writes: 0, writer, damaged: false };
        self.files.insert(id, record);
        self.by_path.insert(path.clone(), id);
        id
    }

    pub(super) fn created(&mut self, path: &RelPath) -> FileId {
        self.name_changed(path);
        // Creating it counts as a write: an empty file that was never synced may be lost as well.
        self.add_file(path, 1)
    }

    pub(super) fn opened(&mut self, path: &RelPath) -> FileId {
        // The file existed before: what others wrote to it is not ours to judge.
        self.by_path.get(path).copied().unwrap_or_else(|| self.add_file(path, 0))
    }

    /// Records a new name; it counts only if it belongs to the layout.
    pub(super) fn name_changed(&mut self, path: &RelPath) {
        if role_of(path) != FileRole::Elsewhere {
            self.unsynced_names.insert(path.clone(), thread::current().id());
        }
    }

    pub(super) fn written(&mut self, id: FileId) {
        if let Some(record) = self.files.get_mut(&id) {
            record.writes += 1;
            record.writer = thread::current().id();
        }
    }

    /// Taken before a sync begins: identifies the writes that it covers.
    pub(super) fn sync_mark(&self, id: FileId) -> u64 {
        self.files.get(&id).map_or(0, |record| record.writes)
    }

    pub(super) fn synced(&mut self, id: FileId, mark: u64) {
        if let Some(record) = self.files.get_mut(&id) {
            record.synced_writes = record.synced_writes.max(mark);
        }
    }

    pub(super) fn sync_failed(&mut self, id: FileId) {
        if let Some(record) = self.files.get_mut(&id) {
            record.damaged = true;
        }
    }

    pub(super) fn removed(&mut self, path: &RelPath) {
        // If a crash undoes a removal, the name that returns is not relied on.
        self.unsynced_names.remove(path);
        self.renamed.remove(path);
        if let Some(id) = self.by_path.remove(path) {
            self.files.remove(&id);
        }
    }

    pub(super) fn dir_synced(&mut self, dir: &RelPath) {
        self.unsynced_names.retain(|path, _| path.parent().as_ref() != Some(dir));
    }

    /// R3, and R1 and R2 when a manifest is replaced.
    pub(super) fn check_rename(&mut self, from: &RelPath, to: &RelPath) {
        match role_of(to) {
            FileRole::Segment { .. } | FileRole::Cas | FileRole::Keyring => {}
            FileRole::Manifest { session } => self.check_manifest_write(session, to),
            FileRole::Directory | FileRole::Elsewhere => return,
        }
        match self.data_at(from) {
            Some(DataState::Synced) => {}
            Some(DataState::Unsynced) => {
                self.violate(format!(
                    "R3: `{from}` is renamed to `{to}` without a sync after its last write"
                ));
            }
            None => {
                self.violate(format!("R3: `{from}`, renamed to `{to}`, was not written and synced here"));
            }
        }
    }

    pub(super) fn renamed(&mut self, from: &RelPath, to: &RelPath) {
        let data = self.data_at(from).unwrap_or(DataState::Unsynced);
        let id = self.by_path.get(from).copied();
        self.removed(to);
        // Forget the old name without forgetting the file.
        self.by_path.remove(from);
        self.removed(from);
        if let Some(id) = id {
            self.by_path.insert(to.clone(), id);
            if let Some(record) = self.files.get_mut(&id) {
                record.path = to.clone();
            }
        }
        self.name_changed(to);
        match role_of(to) {
            FileRole::Segment { .. } | FileRole::Cas => {
                self.renamed.insert(to.clone(), RenamedFile { data, by: thread::current().id() });
            }
            FileRole::Manifest { .. } | FileRole::Keyring | FileRole::Directory | FileRole::Elsewhere => {}
        }
    }

    /// R1 and R2 when a manifest grows.
    pub(super) fn check_append(&mut self, id: FileId) {
        let Some(path) = self.files.get(&id).map(|record| record.path.clone()) else { return };
        match role_of(&path) {
            FileRole::Manifest { session } => self.check_manifest_write(session, &path),
            FileRole::Segment { .. }
            | FileRole::Cas
            | FileRole::Keyring
            | FileRole::Directory
            | FileRole::Elsewhere => {}
        }
    }

    fn check_manifest_write(&mut self, session: &str, manifest: &RelPath) {
        let here = thread::current().id();
        let covered: Vec<(RelPath, RenamedFile, &str)> = self
            .renamed
            .iter()
            .filter_map(|(path, renamed)| match role_of(path) {
                FileRole::Segment { session: of } if of == session => Some((path.clone(), *renamed, "R1")),
                FileRole::Cas if renamed.by == here => Some((path.clone(), *renamed, "R2")),
                FileRole::Segment { .. }
                | FileRole::Manifest { .. }
                | FileRole::Cas
                | FileRole::Keyring
                | FileRole::Directory
                | FileRole::Elsewhere => None,
            })
            .collect();
        for (path, renamed, rule) in covered {
            if renamed.data == DataState::Unsynced {
                self.violate(format!(
                    "{rule}: `{manifest}` is written, but `{path}` was not synced before its rename"
                ));
            }
            if self.unsynced_names.contains_key(&path) {
                self.violate(format!(
                    "{rule}: `{manifest}` is written before the sync of the directory of `{path}`"
                ));
            }
            self.renamed.remove(&path);
        }
    }

    /// R4, for what this thread did.
    pub(super) fn check_quiescent(&mut self) {
        let here = thread::current().id();
        let names = self.unsynced_names.iter().filter(|(_, by)| **by == here);
        let mut found: Vec<String> = names
            .map(|(path, _)| format!("R4: acknowledged before the sync of the directory of `{path}`"))
            .collect();
        for record in self.files.values() {
            let is_manifest = matches!(role_of(&record.path), FileRole::Manifest { .. });
            if is_manifest && record.writer == here && !record.is_synced() {
                found.push(format!("R4: acknowledged before the sync of `{}`", record.path));
            }
        }
        for text in found {
            self.violate(text);
        }
    }

    pub(super) fn report_resync(&mut self, id: FileId) {
        let path = self.files.get(&id).map_or_else(|| "a removed file".to_owned(), |r| r.path.to_string());
        self.violate(format!("R5: a second sync of `{path}` on the handle on which one failed"));
    }

    pub(super) fn forget_unacknowledged(&mut self) {
        let here = thread::current().id();
        self.unsynced_names.retain(|_, by| *by != here);
        self.renamed.retain(|path, renamed| renamed.by != here || role_of(path) != FileRole::Cas);
        self.files.retain(|_, record| record.writer != here || record.is_synced());
        self.by_path.retain(|_, id| self.files.contains_key(id));
    }

    fn data_at(&self, path: &RelPath) -> Option<DataState> {
        let record = self.files.get(self.by_path.get(path)?)?;
        Some(if record.is_synced() { DataState::Synced } else { DataState::Unsynced })
    }

    fn violate(&mut self, text: String) {
        self.violations.push(text);
    }
}
