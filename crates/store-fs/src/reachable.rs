//! What is reachable: everything that committed events and backups refer to (G25).
//!
//! A session with an invalid log yields a doubt instead of references, and any doubt prevents the sweep.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::digest::Sha256;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::Cursor;
use workrail_model::plan::AttachmentKind;
use workrail_ports::file_system::{
    DirEntry, FileKind, FileStamp, FileStat, FileSystem, FsError, FsErrorKind, FsOp, RelPath, StatEntry,
};
use workrail_ports::upkeep::{FOREIGN_FOLDER, SafeModeReason, digests_in};

use crate::{layout, load, orphan, strays, tree};

#[derive(Debug, Default)]
pub(crate) struct ReachableContent {
    referenced: BTreeSet<(AttachmentKind, Sha256)>,
    /// Digests found in backups, of any kind.
    in_backups: BTreeSet<Sha256>,
    /// How far each session was read, so that the next pass reads only what was appended since.
    ends: BTreeMap<SessionId, LogEnd>,
    backups_read: BTreeSet<String>,
}

/// Where a session's log ended when it was read.
#[derive(Debug)]
struct LogEnd {
    cursor: Cursor,
    /// The manifest's length and stamp; `None` if it held more than the log.
    stamp: Option<(u64, FileStamp)>,
}

impl ReachableContent {
    /// Whether committed events of the session were read.
    pub(crate) fn have_read(&self, session: SessionId) -> bool {
        self.ends.contains_key(&session)
    }

    pub(crate) fn contains(&self, kind: AttachmentKind, digest: Sha256) -> bool {
        self.referenced.contains(&(kind, digest)) || self.in_backups.contains(&digest)
    }

    /// Collects what was appended since the last pass. Nothing is ever taken out.
    pub(crate) fn extend<F: FileSystem>(
        &mut self,
        fs: &F,
        without: &BTreeSet<SessionId>,
    ) -> Result<(), Vec<SafeModeReason>> {
        let mut doubts = Vec::new();
        match fs.list_with_stat(&layout::sessions(), Some(layout::MANIFEST_NAME)) {
            Ok(entries) => {
                for StatEntry { entry, stat } in entries {
                    doubts.extend(self.extend_from(fs, &entry, stat, without));
                }
            }
            Err(error) => doubts.push(unreadable(&layout::sessions(), &error)),
        }
        self.extend_from_backups(fs).unwrap_or_else(|doubt| doubts.push(doubt));
        if doubts.is_empty() { Ok(()) } else { Err(doubts) }
    }

    fn extend_from<F: FileSystem>(
        &mut self,
        fs: &F,
        entry: &DirEntry,
        manifest: Option<FileStat>,
        without: &BTreeSet<SessionId>,
    ) -> Option<SafeModeReason> {
        let doubt = |why: String| Some(SafeModeReason { what: entry.name.clone(), why });
        if layout::is_temporary(&entry.name) || layout::is_suspect_mark(&entry.name) {
            return None;
        }
        if strays::is_foreign_folder(entry) {
            // A newer build may name sessions differently.
            return Some(SafeModeReason {
                what: layout::sessions().describe_child(&entry.name),
                why: FOREIGN_FOLDER.to_owned(),
            });
        }
        // A file is not a session in any build.
        let session = SessionId::parse(&entry.name).ok()?;
        if without.contains(&session) {
            return None;
        }
        if entry.kind != FileKind::Directory {
            return doubt("a file or a link is in the place of a session's folder".to_owned());
        }
        // Taken before the log is read: anything written in between shows up in the next pass.
        let stamp = manifest.map(|stat| (stat.len, stat.stamp));
        let end = self.ends.get(&session);
        if stamp.is_some() && end.is_some_and(|end| end.stamp == stamp) {
            return None;
        }
        let loaded = match load::load(fs, session, end.map(|end| &end.cursor)) {
            // Created without any commit, or removed since the listing.
            Ok(None) => load::LoadedLog::nothing(),
            Ok(Some(loaded)) => loaded,
            Err(error) => return doubt(error.to_string()),
        };
        if !loaded.health.is_healthy() {
            return doubt(health_text(&loaded.health));
        }
        self.referenced.extend(loaded.events.iter().flat_map(|event| event.data.content_refs()));
        // A completed write will be rolled forward with everything it refers to (G13).
        match orphan::at(fs, session, &loaded.cursor) {
            Ok(orphans) => {
                let events = orphans.iter().flat_map(|orphan| &orphan.events);
                self.referenced.extend(events.flat_map(|event| event.data.content_refs()));
            }
            Err(error) => return doubt(error.to_string()),
        }
        if loaded.cursor != Cursor::start() {
            let stamp = stamp.filter(|(len, _)| *len == loaded.cursor.manifest_bytes);
            self.ends.insert(session, LogEnd { cursor: loaded.cursor, stamp });
        }
        None
    }

    /// A backup holds a damaged session, so it is not parsed as one: every digest in it counts.
    fn extend_from_backups<F: FileSystem>(&mut self, fs: &F) -> Result<(), SafeModeReason> {
        let folder = layout::backups();
        let entries = match fs.list(&folder) {
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(()),
            listed => listed.map_err(|error| unreadable(&folder, &error))?,
        };
        for entry in entries {
            let is_no_backup = layout::is_temporary(&entry.name) || entry.name == layout::DAMAGED_CONTENT;
            if is_no_backup || self.backups_read.contains(&entry.name) {
                continue;
            }
            let Some(path) = folder.child(&entry.name) else {
                let why = "its name is not valid UTF-8, so it cannot be read".to_owned();
                return Err(SafeModeReason { what: folder.describe_child(&entry.name), why });
            };
            let mut found = BTreeSet::new();
            let mut read = |file: &RelPath, kind| match kind {
                FileKind::Regular => {
                    found.extend(digests_in(&fs.read(file, 0, MANIFEST_BYTES_MAX)?));
                    Ok(())
                }
                FileKind::Directory => Err(too_deep(file)),
                FileKind::Other => Ok(()),
            };
            match entry.kind {
                FileKind::Regular => read(&path, entry.kind),
                // A link is refused: it may lead to a backup.
                FileKind::Directory | FileKind::Other => tree::each_file(fs, &path, &mut read),
            }
            .map_err(|error| unreadable(&path, &error))?;
            self.in_backups.extend(found);
            self.backups_read.insert(entry.name);
        }
        Ok(())
    }
}

fn too_deep(path: &RelPath) -> FsError {
    let detail = "folders are nested too deeply".to_owned();
    FsError { op: FsOp::List, path: path.clone(), kind: FsErrorKind::WrongKind, detail }
}

fn unreadable(path: &RelPath, error: &FsError) -> SafeModeReason {
    SafeModeReason { what: path.to_string(), why: error.to_string() }
}

/// A health in words.
fn health_text(health: &SessionHealth) -> String {
    match health {
        SessionHealth::Healthy => "healthy".to_owned(),
        SessionHealth::CorruptTail { reason, .. } | SessionHealth::CorruptHead { reason } => {
            format!("damaged: {reason}")
        }
        SessionHealth::UnknownVersion { record, version } => {
            format!("written by a newer version: {record} has version {version}")
        }
    }
}
