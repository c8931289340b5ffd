//! Reads a session's log and verifies all of it: every byte of the manifest is recomputed from the segments it
//! attests (G11), and only an interrupted last write is tolerated (G13).

mod group_reader;
mod manifest;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use workrail_model::event::Event;
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{Cursor, ManifestIndex};
use workrail_model::plan::RawSegment;
use workrail_ports::file_system::{DirEntry, FileKind, FileSystem, FsError, FsErrorKind, FsOp, RelPath};

use self::group_reader::GroupReader;
pub(crate) use self::group_reader::{NoGroup, events_of, is_damaged_form};
use self::manifest::{ManifestRead, manifest_from, newest_segment};
use crate::layout;
use crate::orphan::{self, LogContinuation};

/// A validated range of a session's log.
#[derive(Clone, Debug)]
pub(crate) struct LoadedLog {
    pub events: Vec<Event>,
    /// The names of the committed segments in this range, relative to `events/`.
    pub segments: BTreeSet<String>,
    pub cursor: Cursor,
    pub health: SessionHealth,
    /// Bytes after the last complete group, left by an interrupted write.
    pub torn_bytes: u64,
    /// False if the caller's cursor no longer matches and the range starts at 0.
    pub continues: bool,
    pub has_manifest: bool,
}

impl LoadedLog {
    /// A session without a manifest.
    pub(crate) fn nothing() -> Self {
        Self {
            events: Vec::new(),
            segments: BTreeSet::new(),
            cursor: Cursor::start(),
            health: SessionHealth::Healthy,
            torn_bytes: 0,
            continues: false,
            has_manifest: false,
        }
    }
}

/// How often a reader starts over because a writer changed the manifest during the read.
const RACES_MAX: usize = 8;

/// Where the cursor of a caller comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CursorOrigin {
    /// This process read the log up to it.
    ThisProcess,
    /// It was read from a file. The log may have been cut after it since, which its segments show.
    Saved,
}

/// Loads from `since` on. `None` when the session has no manifest.
pub(crate) fn load<F: FileSystem>(
    fs: &F,
    session: SessionId,
    since: Option<&Cursor>,
) -> Result<Option<LoadedLog>, FsError> {
    load_from(fs, session, since, CursorOrigin::ThisProcess)
}

/// Like `load`, for a cursor of any origin.
pub(crate) fn load_from<F: FileSystem>(
    fs: &F,
    session: SessionId,
    since: Option<&Cursor>,
    origin: CursorOrigin,
) -> Result<Option<LoadedLog>, FsError> {
    for _ in 0..RACES_MAX {
        let before = manifest_from(fs, session, since, origin);
        let loaded = match &before {
            ManifestRead::Absent => match orphan::pending(fs, session, &Cursor::start(), &[])? {
                LogContinuation::Nothing | LogContinuation::Write(_) => return Ok(None),
                LogContinuation::Damaged(reason) => unreadable(reason),
            },
            ManifestRead::Failed(error) => return Err(error.clone()),
            ManifestRead::Unusable(reason) => unreadable(reason.clone()),
            ManifestRead::Bytes { start, bytes, continues, newest } => {
                let reader = GroupReader { fs, session, bytes, at: 0, cursor: *start };
                let mut loaded = reader.walk(*continues)?;
                let lost = newest.clone().and_then(|newest| newest.beyond(&loaded.cursor));
                if let (true, Some(reason)) = (loaded.health.is_healthy(), lost) {
                    loaded.health = SessionHealth::corrupt_from(loaded.cursor.next_event_index, reason);
                }
                let torn_start = bytes.len() - usize::try_from(loaded.torn_bytes).unwrap_or(0);
                if loaded.health.is_healthy()
                    && newest.as_ref().is_some_and(|newest| newest.continues(&loaded.cursor))
                    && let LogContinuation::Damaged(reason) =
                        orphan::pending(fs, session, &loaded.cursor, &bytes[torn_start..])?
                {
                    loaded.health = SessionHealth::corrupt_from(loaded.cursor.next_event_index, reason);
                }
                loaded
            }
        };
        if loaded.health.is_healthy() {
            return Ok(Some(loaded));
        }
        // A writer may have cut a torn tail and removed its orphan segment during this read. Damage counts only if
        // the manifest did not change (G16), and a denial only while it lasts.
        if before == manifest_from(fs, session, since, origin) && !is_readable_again(fs, &loaded.health) {
            return Ok(Some(loaded));
        }
    }
    Err(unsettled(session))
}

/// An unconfirmed result does not count: the caller may retry, and an intact session is not reported as damaged.
fn unsettled(session: SessionId) -> FsError {
    FsError {
        op: FsOp::Read,
        path: layout::manifest(session),
        kind: FsErrorKind::Io,
        detail: "the log changes faster than it can be read".to_owned(),
    }
}

/// Whether a file or folder that was unreadable a moment ago can be read now.
fn is_readable_again<F: FileSystem>(fs: &F, health: &SessionHealth) -> bool {
    let is_denied = |error: FsError| error.kind == FsErrorKind::PermissionDenied;
    // Reads no bytes, so a file that is too large counts as readable.
    health.denied_path().and_then(RelPath::parse).is_some_and(|path| {
        !fs.read(&path, 0, 0).is_err_and(is_denied) && !fs.list(&path).is_err_and(is_denied)
    })
}

/// Visits the committed segments one at a time, from the first up to `until` or the end; `None` if the session has no
/// manifest. Returns where it stopped, and the health of the log: a healthy log was visited completely.
pub(crate) fn each_segment<F: FileSystem>(
    fs: &F,
    session: SessionId,
    until: Option<&Cursor>,
    visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
) -> Result<Option<(Cursor, SessionHealth)>, FsError> {
    let mut shown = Cursor::start();
    for _ in 0..RACES_MAX {
        match show_from(fs, session, &mut shown, until, visit)? {
            ReadSoFar::Nothing => return Ok(None),
            ReadSoFar::All(health) => return Ok(Some((shown, health))),
            ReadSoFar::Replaced => break,
            ReadSoFar::UpToDoubt => {}
        }
        // Whether this is damage, an interrupted write or an active writer is decided by `load` alone.
        let Some(judged) = load(fs, session, None)? else { return Ok(None) };
        match (judged.cursor.next_event_index.cmp(&shown.next_event_index), judged.health.is_healthy()) {
            (Ordering::Equal, _) | (Ordering::Less, false) => return Ok(Some((shown, judged.health))),
            // `load` could read what was unreadable a moment ago.
            (Ordering::Greater, _) => {}
            (Ordering::Less, true) => break,
        }
    }
    Err(unsettled(session))
}

/// How far the segments of a log could be visited.
enum ReadSoFar {
    Nothing,
    /// Everything requested, or everything possible.
    All(SessionHealth),
    /// What follows is not a committed segment.
    UpToDoubt,
    /// The log no longer begins with the visited segments.
    Replaced,
}

/// Visits the segments after `shown`, and advances it.
fn show_from<F: FileSystem>(
    fs: &F,
    session: SessionId,
    shown: &mut Cursor,
    until: Option<&Cursor>,
    visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
) -> Result<ReadSoFar, FsError> {
    // `Saved`: its segments are listed, as for a first read.
    let (bytes, newest) = match manifest_from(fs, session, Some(shown), CursorOrigin::Saved) {
        ManifestRead::Absent => return Ok(ReadSoFar::Nothing),
        ManifestRead::Failed(error) => return Err(error),
        ManifestRead::Unusable(_) => return Ok(ReadSoFar::UpToDoubt),
        ManifestRead::Bytes { continues: false, .. } => return Ok(ReadSoFar::Replaced),
        ManifestRead::Bytes { bytes, newest, continues: true, .. } => (bytes, newest),
    };
    let mut reader = GroupReader { fs, session, bytes: &bytes, at: 0, cursor: *shown };
    let stop = loop {
        if until.is_some_and(|until| reader.cursor.next_event_index >= until.next_event_index) {
            return Ok(ReadSoFar::All(SessionHealth::Healthy));
        }
        let group = match reader.group() {
            Ok(group) => group,
            Err(stop) => break stop,
        };
        let segment = match RawSegment::parse(group.segment) {
            Ok(segment) => segment,
            Err(error) => {
                let event_index = reader.cursor.next_event_index.get();
                let (segment, detail) = (group.name, error.to_string());
                let reason = CorruptionReason::Event { segment, event_index, detail };
                return Ok(ReadSoFar::All(SessionHealth::corrupt_from(shown.next_event_index, reason)));
            }
        };
        reader.at += group.bytes.len();
        reader.cursor = reader.cursor.after(&group.records, &group.bytes, group.events.len() as u64);
        *shown = reader.cursor;
        if visit(segment).is_break() {
            return Ok(ReadSoFar::All(SessionHealth::Healthy));
        }
    };
    if let NoGroup::Io(error) = stop {
        return Err(error);
    }
    let is_last = newest.is_none_or(|newest| !newest.continues(shown) && newest.beyond(shown).is_none());
    Ok(match matches!(stop, NoGroup::End) && is_last {
        true => ReadSoFar::All(SessionHealth::Healthy),
        false => ReadSoFar::UpToDoubt,
    })
}

/// Larger than the group of the largest plan: a longer manifest contains at least one complete group.
const FIRST_GROUP_BYTES_MAX: u64 = 1024 * 1024;

/// Whether a session has anything to show: committed events, or damage. An interrupted first append is neither.
pub(crate) fn is_begun<F: FileSystem>(fs: &F, session: SessionId) -> Result<bool, FsError> {
    let path = layout::manifest(session);
    let stat = match fs.stat(&path) {
        Ok(stat) => stat,
        Err(error) if error.kind == FsErrorKind::NotFound => return has_lost_all(fs, session, &[]),
        Err(error) => return Err(error),
    };
    if stat.kind == FileKind::Regular && stat.len == 0 {
        return has_lost_all(fs, session, &[]);
    }
    if stat.kind != FileKind::Regular || stat.len > FIRST_GROUP_BYTES_MAX {
        return Ok(true);
    }
    let bytes = fs.read(&path, 0, MANIFEST_BYTES_MAX)?;
    let reader = GroupReader { fs, session, bytes: &bytes, at: 0, cursor: Cursor::start() };
    match reader.group() {
        Ok(_) => Ok(true),
        Err(NoGroup::End) => Ok(false),
        Err(NoGroup::Io(error)) => Err(error),
        // Nothing follows an interrupted first write; later segments show that groups were lost.
        Err(NoGroup::UnknownVersion { .. } | NoGroup::Corrupt(_)) => {
            Ok(!reader.is_interrupted_write(&bytes)? || has_lost_all(fs, session, &bytes)?)
        }
    }
}

/// Whether the segments show that there once was a manifest, or a first write that was damaged since.
fn has_lost_all<F: FileSystem>(fs: &F, session: SessionId, tail: &[u8]) -> Result<bool, FsError> {
    let Some(newest) = newest_segment(fs, session)? else { return Ok(false) };
    if newest.continues(&Cursor::start()) {
        return Ok(matches!(
            orphan::pending(fs, session, &Cursor::start(), tail)?,
            LogContinuation::Damaged(_)
        ));
    }
    Ok(newest.beyond(&Cursor::start()).is_some())
}

/// Whether a folder holds work: anything `is_begun` reports, or a completed first write that is not committed.
pub(crate) fn holds_work<F: FileSystem>(fs: &F, session: SessionId) -> Result<bool, FsError> {
    Ok(is_begun(fs, session)? || !orphan::at(fs, session, &Cursor::start())?.is_empty())
}

/// The entries of the segments folder; empty if the session has no such folder yet.
pub(crate) fn list_events<F: FileSystem>(fs: &F, session: SessionId) -> Result<Vec<DirEntry>, FsError> {
    match fs.list(&layout::events(session)) {
        Err(error) if matches!(error.kind, FsErrorKind::NotFound | FsErrorKind::WrongKind) => Ok(Vec::new()),
        listed => listed,
    }
}

fn unreadable(reason: CorruptionReason) -> LoadedLog {
    LoadedLog { health: SessionHealth::CorruptHead { reason }, has_manifest: true, ..LoadedLog::nothing() }
}

/// The error for a log that outgrew its limit.
pub(crate) fn too_long(session: SessionId, index: ManifestIndex) -> FsError {
    FsError {
        op: FsOp::Write,
        path: layout::manifest(session),
        kind: FsErrorKind::TooLarge { len: MANIFEST_BYTES_MAX, max: MANIFEST_BYTES_MAX },
        detail: format!("the manifest is full at record {}", index.get()),
    }
}
