//! Finds what does not belong in the data directory: leftovers, and files from elsewhere.

use std::collections::BTreeSet;

use workrail_model::event::EventIndex;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::ManifestRecord;
use workrail_model::plan::AttachmentKind;
use workrail_ports::file_system::{DirEntry, FileKind, FileSystem, FsError, FsErrorKind, RelPath};
use workrail_ports::upkeep::{Stray, StrayKind};

use crate::folder_tree;
use crate::layout::{self, content_digest, content_dir, is_temporary};
use crate::load;
use crate::rebuild;
use crate::segment::{self, SegmentRead};

/// Our own names in the root, apart from the counter's. Anything new that WorkRail creates there must be added.
const ROOT_NAMES: [&str; 19] = [
    "sessions",
    "snapshots",
    "blobs",
    "workflows",
    "keys",
    "backups",
    "backup.json",
    "backup.lock",
    "sources",
    "import.lock",
    "store.lock",
    "servers",
    "observed",
    "chats",
    "logs",
    "config.toml",
    "cache",
    "clients",
    ".suspect",
];
/// Files of the root that have a spare name in case theirs is taken.
const COUNTER_NAMES: [&str; 3] = ["activity", "activity.lock", "activity.reserved"];
const SESSION_NAMES: [&str; 8] =
    [".lock", "manifest.jsonl", "manifest.torn", ".suspect", "control.json", "keep", "events", "cache"];
const KEY_NAMES: [&str; 7] = [
    "keyring.json",
    "http-secret",
    "access-tokens.json",
    "passkeys.jsonl",
    "passkeys.head",
    ".lock",
    ".suspect",
];

/// Collects findings up to a limit, and counts the rest.
struct StrayList {
    strays: Vec<Stray>,
    count: u64,
    max: usize,
}

impl StrayList {
    fn add(&mut self, folder: &RelPath, entry: &DirEntry) {
        self.count += 1;
        if self.strays.len() < self.max {
            // A sweep cannot open what has no exact name.
            let is_leftover = is_temporary(&entry.name) && folder.child(&entry.name).is_some();
            let kind = if is_leftover { StrayKind::Leftover } else { StrayKind::Unknown };
            self.strays.push(Stray { path: folder.describe_child(&entry.name), kind });
        }
    }

    fn add_path(&mut self, path: &RelPath, kind: StrayKind) {
        self.count += 1;
        if self.strays.len() < self.max {
            self.strays.push(Stray { path: path.as_str().to_owned(), kind });
        }
    }
}

/// A foreign folder among the sessions. It is worse than a stray: it prevents the sweep.
pub(crate) fn is_foreign_folder(entry: &DirEntry) -> bool {
    let is_ours = is_temporary(&entry.name)
        || layout::is_suspect_mark(&entry.name)
        || SessionId::parse(&entry.name).is_ok();
    entry.kind == FileKind::Directory && !is_ours
}

/// Whether this is the name of a file of the activity counter, its own or a spare one.
fn is_counter_name(name: &str) -> bool {
    COUNTER_NAMES.contains(&name.trim_end_matches(".spare"))
}

fn is_counter(entry: &DirEntry) -> bool {
    entry.kind == FileKind::Regular && is_counter_name(&entry.name)
}

/// Names of counter files that are taken by something other than a file.
pub(crate) fn blocked_names<F: FileSystem>(fs: &F) -> Result<Vec<String>, FsError> {
    let entries = listed(fs, &RelPath::root())?.into_iter();
    let blocked = entries.filter(|entry| is_counter_name(&entry.name) && entry.kind != FileKind::Regular);
    Ok(blocked.map(|entry| entry.name).collect())
}

pub(crate) fn foreign_folders<F: FileSystem>(fs: &F) -> Result<Vec<String>, FsError> {
    let folder = layout::sessions();
    let foreign = listed(fs, &folder)?.into_iter().filter(is_foreign_folder);
    Ok(foreign.map(|entry| folder.describe_child(&entry.name)).collect())
}

pub(crate) fn strays<F: FileSystem>(fs: &F, max: usize) -> Result<(Vec<Stray>, u64), FsError> {
    let mut found = StrayList { strays: Vec::new(), count: 0, max };
    // First: of everything here, only content that such a session alone needed is removed by a sweep.
    for entry in listed(fs, &layout::sessions())? {
        if let Ok(session) = SessionId::parse(&entry.name)
            && is_empty_session(fs, session)
        {
            found.add_path(&layout::session(session), StrayKind::EmptySession);
        }
    }
    let mut check = |folder: RelPath, belongs: &dyn Fn(&DirEntry) -> bool| -> Result<(), FsError> {
        for entry in listed(fs, &folder)? {
            if !belongs(&entry) {
                found.add(&folder, &entry);
            }
        }
        Ok(())
    };
    check(RelPath::root(), &|entry| ROOT_NAMES.contains(&entry.name.as_str()) || is_counter(entry))?;
    check(layout::keys_dir(), &|entry| {
        KEY_NAMES.contains(&entry.name.as_str()) || layout::is_key_aside(&entry.name)
    })?;
    check(layout::sessions(), &|entry| {
        // If it is not a folder, it is reported as a damaged session.
        SessionId::parse(&entry.name).is_ok()
            || is_foreign_folder(entry)
            || layout::is_suspect_mark(&entry.name)
    })?;
    for kind in AttachmentKind::ALL {
        check(content_dir(kind), &|entry| match entry.kind {
            FileKind::Regular => {
                content_digest(kind, &entry.name).is_some() || layout::is_suspect_mark(&entry.name)
            }
            // A link or a pipe in the place of content is reported as an obstacle.
            FileKind::Other => content_digest(kind, &entry.name).is_some(),
            FileKind::Directory => false,
        })?;
    }
    for entry in listed(fs, &layout::sessions())? {
        let Ok(session) = SessionId::parse(&entry.name) else { continue };
        check(layout::session(session), &|entry| SESSION_NAMES.contains(&entry.name.as_str()))?;
        let segments = Segments::of(fs, session);
        check(layout::events(session), &|entry| {
            entry.kind == FileKind::Regular && segments.explain(fs, session, &entry.name)
        })?;
    }
    check(layout::backups(), &|entry| !is_temporary(&entry.name))?;
    for path in oversized_in_backups(fs)? {
        found.add_path(&path, StrayKind::Unknown);
    }
    Ok((found.strays, found.count))
}

/// Files among the backups that are larger than any that a store writes there; a sweep does not read them. Log files are
/// read whatever their length: a repair or a restore moves damaged ones there.
fn oversized_in_backups<F: FileSystem>(fs: &F) -> Result<Vec<RelPath>, FsError> {
    let folder = layout::backups();
    let mut oversized = Vec::new();
    let mut visit = |file: &RelPath, kind| {
        let is_foreign = kind == FileKind::Regular && !layout::is_log_file(file);
        if is_foreign && fs.stat(file).is_ok_and(|stat| stat.len > MANIFEST_BYTES_MAX) {
            oversized.push(file.clone());
        }
        Ok(())
    };
    for entry in listed(fs, &folder)? {
        let is_no_backup = is_temporary(&entry.name) || entry.name == layout::DAMAGED_CONTENT;
        let Some(path) = folder.child(&entry.name).filter(|_| !is_no_backup) else { continue };
        match entry.kind {
            // What cannot be visited prevents the sweep, which names it.
            FileKind::Directory => folder_tree::each_file(fs, &path, &mut visit).unwrap_or_default(),
            FileKind::Regular | FileKind::Other => visit(&path, entry.kind)?,
        }
    }
    Ok(oversized)
}

/// Whether the folder of a session is there without any event. One that cannot be read is reported elsewhere.
fn is_empty_session<F: FileSystem>(fs: &F, session: SessionId) -> bool {
    load::holds_work(fs, session) == Ok(false)
        // It may have been removed since it was listed.
        && fs.stat(&layout::session(session)).is_ok_and(|stat| stat.kind == FileKind::Directory)
}

/// What a session's manifest says about files named like segments.
struct Segments {
    attested: BTreeSet<String>,
    /// The first and last event of each attested one.
    ranges: Vec<(u64, u64)>,
    /// The first event after the attested ones.
    end: u64,
    /// Whether a record cannot be read, so that the segment it closed is not attested.
    is_damaged: bool,
}

impl Segments {
    fn of<F: FileSystem>(fs: &F, session: SessionId) -> Self {
        let manifest = rebuild::manifest_bytes(fs, session).unwrap_or_default();
        let attested: BTreeSet<String> = rebuild::attested(session, &manifest).into_keys().collect();
        let indexes =
            attested.iter().filter_map(|name| layout::segment_indexes(name.strip_prefix("events/")?));
        let ranges: Vec<(u64, u64)> = indexes.collect();
        let end = ranges.iter().map(|(_, last)| last + 1).max().unwrap_or(0);
        let mut lines = manifest.split(|byte| *byte == b'\n');
        let is_damaged = lines.any(|line| !line.is_empty() && ManifestRecord::parse(line).is_err());
        Self { attested, ranges, end, is_damaged }
    }

    /// Whether a file is a segment of the log, or is reported elsewhere as a pending write or as damage.
    fn explain<F: FileSystem>(&self, fs: &F, session: SessionId, name: &str) -> bool {
        let Some((first, last)) = layout::segment_indexes(name) else { return false };
        if self.attested.contains(&format!("events/{name}")) || first > self.end {
            return true;
        }
        // Before the end, only a damaged record leaves events that no attested segment has.
        let has_attested_events = self.ranges.iter().any(|(from, to)| first <= *to && *from <= last);
        let Some(index) = EventIndex::new(first).filter(|_| !has_attested_events) else { return false };
        match segment::read(fs, session, name) {
            Ok(SegmentRead::Read(bytes)) if first < self.end || self.is_damaged => {
                segment::begins(session, index, name, &bytes)
            }
            Ok(SegmentRead::Read(bytes)) => segment::events(session, index, name, &bytes).is_ok(),
            Ok(SegmentRead::Denied(_)) | Err(_) => true,
            Ok(SegmentRead::NoSegment) => false,
        }
    }
}

/// A folder that is missing, unreadable or not a folder counts as empty: each case is reported elsewhere, where it
/// matters, and does not stop the rest of the check.
fn listed<F: FileSystem>(fs: &F, folder: &RelPath) -> Result<Vec<DirEntry>, FsError> {
    match fs.list(folder) {
        Err(error) => match error.kind {
            FsErrorKind::NotFound
            | FsErrorKind::WrongKind
            | FsErrorKind::PermissionDenied
            | FsErrorKind::Database
            | FsErrorKind::Io => Ok(Vec::new()),
            FsErrorKind::AlreadyExists
            | FsErrorKind::NoSpace
            | FsErrorKind::Quota
            | FsErrorKind::ReadOnly
            | FsErrorKind::TooManyOpenFiles
            | FsErrorKind::TooLarge { .. } => Err(error),
        },
        listed => listed,
    }
}
