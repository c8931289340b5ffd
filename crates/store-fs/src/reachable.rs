//! What is reachable: everything that committed events and backups refer to (G25).
//!
//! A session with an invalid log yields a doubt instead of references, and any doubt prevents the sweep.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::digest::Sha256;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::Cursor;
use workrail_model::plan::AttachmentKind;
use workrail_ports::file_system::{
    DirEntry, FileKind, FileStamp, FileStat, FileSystem, FsError, FsErrorKind, FsOp, RelPath, StatEntry,
};
use workrail_ports::upkeep::{DIGEST_TEXT_BYTES, FOREIGN_FOLDER, SafeModeReason, digests_in};

use crate::{folder_tree, layout, load, orphan, strays};

/// How much of a large file is held in memory at once.
const PART_BYTES: usize = 1024 * 1024;

/// A log file among the backups is read up to this length: sixteen times the longest log that a store writes, or some
/// seconds. A sparse file in its place may have terabytes.
const BACKUP_LOG_BYTES_MAX: u64 = 16 * MANIFEST_BYTES_MAX;

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
    /// The stamp of the segments folder, the only place where a completed but uncommitted write is visible; `None` if
    /// it was too new.
    segments: Option<FileStamp>,
}

impl ReachableContent {
    /// Whether committed events of the session were read.
    pub(crate) fn has_read(&self, session: SessionId) -> bool {
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
                // The present, as far as the file system's clock has shown it.
                let present = entries.iter().filter_map(|found| Some(found.stat?.stamp.changed_ns)).max();
                for StatEntry { entry, stat } in entries {
                    doubts.extend(self.extend_from(fs, &entry, stat, present, without));
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
        present: Option<i64>,
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
        let segments = fs.stat(&layout::events(session)).ok().map(|stat| stat.stamp);
        // A segment that is added before the clock ticks would not change the stamp.
        let segments = segments.filter(|segments| Some(segments.changed_ns) < present);
        let end = self.ends.get(&session);
        let is_settled = stamp.is_some() && segments.is_some();
        if is_settled && end.is_some_and(|end| (end.stamp, end.segments) == (stamp, segments)) {
            return None;
        }
        let loaded = match load::load(fs, session, end.map(|end| &end.cursor)) {
            // Created without any commit, or removed since the listing.
            Ok(None) => load::LoadedLog::nothing(),
            Ok(Some(loaded)) => loaded,
            Err(error) => return doubt(error.to_string()),
        };
        if !loaded.health.is_healthy() {
            return doubt(loaded.health.to_string());
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
            self.ends.insert(session, LogEnd { cursor: loaded.cursor, stamp, segments });
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
                FileKind::Regular if layout::is_log_file(file) => {
                    check_length(fs, file).and_then(|()| find_digests(fs, file, PART_BYTES, &mut found))
                }
                FileKind::Regular => match fs.read(file, 0, MANIFEST_BYTES_MAX) {
                    Ok(bytes) => {
                        found.extend(digests_in(&bytes));
                        Ok(())
                    }
                    // Nothing else of ours is that large, so it holds none of our references; `verify` names it.
                    Err(error) if matches!(error.kind, FsErrorKind::TooLarge { .. }) => Ok(()),
                    Err(error) => Err(error),
                },
                FileKind::Directory => Err(too_deep(file)),
                FileKind::Other => Ok(()),
            };
            match entry.kind {
                FileKind::Regular => read(&path, entry.kind),
                // A link is refused: it may lead to a backup.
                FileKind::Directory | FileKind::Other => folder_tree::each_file(fs, &path, &mut read),
            }
            .map_err(|error| unreadable(&path, &error))?;
            self.in_backups.extend(found);
            self.backups_read.insert(entry.name);
        }
        Ok(())
    }
}

/// Refuses a log file that would take hours to read (G22). It may refer to any content, so it must not be skipped.
fn check_length<F: FileSystem>(fs: &F, path: &RelPath) -> Result<(), FsError> {
    let (len, max) = (fs.stat(path)?.len, BACKUP_LOG_BYTES_MAX);
    if len <= max {
        return Ok(());
    }
    let detail = format!(
        "it has {len} bytes, more than any log; move it out of the data directory if nothing in it is needed"
    );
    Err(FsError { op: FsOp::Read, path: path.clone(), kind: FsErrorKind::TooLarge { len, max }, detail })
}

/// Finds every digest in a file, also one that two parts share.
fn find_digests<F: FileSystem>(
    fs: &F,
    path: &RelPath,
    part_bytes: usize,
    found: &mut BTreeSet<Sha256>,
) -> Result<(), FsError> {
    let (mut offset, mut window) = (0, Vec::new());
    loop {
        let part = fs.read_part(path, offset, part_bytes)?;
        offset += part.len() as u64;
        window.extend_from_slice(&part);
        found.extend(digests_in(&window));
        if part.len() < part_bytes {
            return Ok(());
        }
        window.drain(..window.len().saturating_sub(DIGEST_TEXT_BYTES - 1));
    }
}

fn too_deep(path: &RelPath) -> FsError {
    let detail = "folders are nested too deeply".to_owned();
    FsError { op: FsOp::List, path: path.clone(), kind: FsErrorKind::WrongKind, detail }
}

fn unreadable(path: &RelPath, error: &FsError) -> SafeModeReason {
    SafeModeReason { what: path.to_string(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use workrail_ports::session_store::{LockedSession as _, SessionStore as _};
    use workrail_testkit::fixed::SeededEntropy;
    use workrail_testkit::history::{Step, plans};

    use super::*;
    use crate::sim::SimFs;
    use crate::store::LocalStore;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    fn open(disk: &SimFs) -> LocalStore<SimFs> {
        LocalStore::open(disk.clone(), Box::new(SeededEntropy::new(1)), "boot".to_owned()).unwrap()
    }

    /// Broke: its content was swept, because only the manifests were compared between two passes.
    #[test]
    fn a_completed_write_that_is_not_committed_is_found_by_the_next_pass() {
        let disk = SimFs::new();
        let written = plans(1, &[Step::AdvanceWithArtifact, Step::AdvanceWithArtifact]);
        let (last, first) = written.split_last().unwrap();
        let session = last.events[0].session_id;
        let store = open(&disk);
        let mut locked = store.create(session).unwrap();
        first.iter().for_each(|parts| drop(locked.append(parts.plan()).unwrap()));
        drop(locked);
        let mut reachable = ReachableContent::default();
        reachable.extend(&disk, &BTreeSet::new()).unwrap();
        assert!(reachable.ends[&session].segments.is_some(), "the folder was settled when it was read");

        // Everything of the last write but the manifest's group, as a process leaves it that is killed just before that.
        let further = disk.fork();
        drop(open(&further).lock(session).unwrap().append(last.plan()).unwrap());
        let known = disk.all_files();
        for path in further.all_files().into_iter().filter(|path| !known.contains(path)) {
            disk.write_raw(&path, &further.read_raw(&path).unwrap());
        }
        // Time passes: with that, only the folder's stamp shows the write.
        let other = plans(2, &[]);
        drop(store.create(other[0].events[0].session_id).unwrap().append(other[0].plan()).unwrap());
        reachable.extend(&disk, &BTreeSet::new()).unwrap();
        let mut needed = last.events.iter().flat_map(|event| event.data.content_refs());
        assert!(needed.all(|(kind, digest)| reachable.contains(kind, digest)));
    }

    #[test]
    fn a_session_in_which_nothing_changed_is_not_read_again() {
        let disk = SimFs::new();
        let store = open(&disk);
        for seed in [1, 2] {
            let written = plans(seed, &[Step::AdvanceWithArtifact]);
            let mut locked = store.create(written[0].events[0].session_id).unwrap();
            written.iter().for_each(|parts| drop(locked.append(parts.plan()).unwrap()));
        }
        let mut reachable = ReachableContent::default();
        let mut reads = || {
            let before = disk.read_op_count();
            reachable.extend(&disk, &BTreeSet::new()).unwrap();
            disk.read_op_count() - before
        };
        let (first, second) = (reads(), reads());
        let sessions = 2;
        // One listing of the sessions and of the backups each, and a look at each manifest and folder of segments.
        assert!(second <= 2 + 2 * sessions && first > 2 * second, "{first} reads, then {second}");
    }

    /// Broke: a digest in a file that no buffer holds was not found.
    #[test]
    fn every_digest_of_a_file_that_is_read_in_parts_is_found() {
        let disk = SimFs::new();
        let digests: BTreeSet<Sha256> = (0..20_u8).map(|number| Sha256::of(&[number])).collect();
        let text: String = digests.iter().map(|digest| format!("{{\"ref\":\"{digest}\"}}\n")).collect();
        let file = path("backups/kept/manifest.jsonl");
        disk.write_raw(&file, text.as_bytes());
        for part_bytes in (1..=3 * DIGEST_TEXT_BYTES).chain([text.len() - 1, text.len(), text.len() + 1]) {
            let mut found = BTreeSet::new();
            find_digests(&disk, &file, part_bytes, &mut found).unwrap();
            assert_eq!(found, digests, "in parts of {part_bytes} bytes");
        }
    }
}
