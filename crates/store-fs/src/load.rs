//! Reads a session's log and believes nothing: every byte of the manifest is recomputed from the
//! segments it attests (G11), and only an interrupted last write is forgiven (G13).

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventError, EventIndex};
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX, SUMMARY_BYTES_MAX};
use workrail_model::manifest::{
    Cursor, ManifestError, ManifestIndex, ManifestRecord, commit_group, group_bytes, segment_rel_path,
};
use workrail_model::plan::RawSegment;
use workrail_model::text::truncate_with_marker;
use workrail_ports::file_system::{DirEntry, FileKind, FileSystem, FsError, FsErrorKind, FsOp};

use crate::layout;

/// A validated stretch of a session's log.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub events: Vec<Event>,
    /// The names of the committed segments of this stretch, relative to `events/`.
    pub segments: BTreeSet<String>,
    pub cursor: Cursor,
    pub health: SessionHealth,
    /// Bytes behind the last complete group that an interrupted write left.
    pub torn_bytes: u64,
    /// False when the caller's cursor no longer fits and the stretch starts at 0.
    pub continues: bool,
}

/// How often a reader starts over when a writer changed the manifest under it.
const RACES_MAX: usize = 8;

/// Where the cursor of a caller comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CursorOrigin {
    /// This process read the log up to it.
    ThisProcess,
    /// It was read from a file. The log may have been cut behind it since, which its segments show.
    Saved,
}

/// Loads from `since` on. `None` when the session has no manifest.
pub(crate) fn load<F: FileSystem>(
    fs: &F,
    session: SessionId,
    since: Option<&Cursor>,
) -> Result<Option<Loaded>, FsError> {
    load_from(fs, session, since, CursorOrigin::ThisProcess)
}

/// The same, for a cursor of any origin.
pub(crate) fn load_from<F: FileSystem>(
    fs: &F,
    session: SessionId,
    since: Option<&Cursor>,
    origin: CursorOrigin,
) -> Result<Option<Loaded>, FsError> {
    for _ in 0..RACES_MAX {
        let before = manifest_from(fs, session, since, origin);
        let loaded = match &before {
            Manifest::Absent => return Ok(None),
            Manifest::Failed(error) => return Err(error.clone()),
            Manifest::Unusable(reason) => unreadable(reason.clone()),
            Manifest::Bytes { start, bytes, continues, newest } => {
                let stretch = Stretch { fs, session, bytes, at: 0, cursor: *start };
                let mut loaded = stretch.walk(*continues, None)?;
                let lost = newest.clone().and_then(|newest| newest.beyond(&loaded.cursor));
                if let (true, Some(reason)) = (loaded.health.is_healthy(), lost) {
                    loaded.health = corrupt_from(&loaded.cursor, reason);
                }
                loaded
            }
        };
        if loaded.health.is_healthy() {
            return Ok(Some(loaded));
        }
        // A writer may have cut a torn tail and removed its orphan segment while this reader was
        // between the two. Only a verdict on an unchanged manifest counts (G16).
        if before == manifest_from(fs, session, since, origin) {
            return Ok(Some(loaded));
        }
    }
    // An unconfirmed verdict is none: the caller may ask again, and a sound session is not called damaged.
    Err(FsError {
        op: FsOp::Read,
        path: layout::manifest(session),
        kind: FsErrorKind::Io,
        detail: "the manifest changes faster than it can be read".to_owned(),
    })
}

/// The longest run of whole groups that ends at `until` or before; what is behind it is not judged. `None` when
/// there is no manifest to read.
pub(crate) fn prefix<F: FileSystem>(
    fs: &F,
    session: SessionId,
    until: EventIndex,
) -> Result<Option<Loaded>, FsError> {
    match manifest_from(fs, session, None, CursorOrigin::ThisProcess) {
        Manifest::Absent | Manifest::Unusable(_) => Ok(None),
        Manifest::Failed(error) => Err(error),
        Manifest::Bytes { start, bytes, .. } => {
            let stretch = Stretch { fs, session, bytes: &bytes, at: 0, cursor: start };
            stretch.walk(true, Some(until)).map(Some)
        }
    }
}

/// Shows the committed segments one at a time, from the first one up to `until` or to the end; `None` when the
/// session has no manifest. Returns where it stopped, and the health of what was read.
pub(crate) fn each_segment<F: FileSystem>(
    fs: &F,
    session: SessionId,
    until: Option<&Cursor>,
    visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
) -> Result<Option<(Cursor, SessionHealth)>, FsError> {
    let (bytes, newest) = match manifest_from(fs, session, None, CursorOrigin::ThisProcess) {
        Manifest::Absent => return Ok(None),
        Manifest::Failed(error) => return Err(error),
        Manifest::Unusable(reason) => {
            return Ok(Some((Cursor::start(), SessionHealth::CorruptHead { reason })));
        }
        Manifest::Bytes { bytes, newest, .. } => (bytes, newest),
    };
    let mut stretch = Stretch { fs, session, bytes: &bytes, at: 0, cursor: Cursor::start() };
    let stop = loop {
        if until.is_some_and(|until| stretch.cursor.next_event_index >= until.next_event_index) {
            return Ok(Some((stretch.cursor, SessionHealth::Healthy)));
        }
        let group = match stretch.group() {
            Ok(group) => group,
            Err(stop) => break stop,
        };
        let Ok(segment) = RawSegment::parse(group.segment) else {
            break Stop::Corrupt(CorruptionReason::SegmentDigest { segment: group.name });
        };
        stretch.at += group.bytes.len();
        stretch.cursor = stretch.cursor.after(&group.records, &group.bytes, group.events.len() as u64);
        if visit(segment).is_break() {
            return Ok(Some((stretch.cursor, SessionHealth::Healthy)));
        }
    };
    if let Stop::Io(error) = stop {
        return Err(error);
    }
    let lost = newest.and_then(|newest| newest.beyond(&stretch.cursor));
    if matches!(stop, Stop::End) && lost.is_none() {
        return Ok(Some((stretch.cursor, SessionHealth::Healthy)));
    }
    // Whether this is damage, an interrupted write or a writer at work is for the one judge to say.
    let judged = load(fs, session, None)?;
    Ok(judged.map(|judged| (stretch.cursor, judged.health)))
}

/// More than the group of the largest plan takes: a longer manifest holds a complete one.
const FIRST_GROUP_BYTES_MAX: u64 = 1024 * 1024;

/// Whether a session has anything to show: committed events, or damage. A first append that was
/// interrupted is neither.
pub(crate) fn is_begun<F: FileSystem>(fs: &F, session: SessionId) -> Result<bool, FsError> {
    let path = layout::manifest(session);
    let stat = match fs.stat(&path) {
        Ok(stat) => stat,
        Err(error) if error.kind == FsErrorKind::NotFound => return has_lost_all(fs, session),
        Err(error) => return Err(error),
    };
    if stat.kind == FileKind::Regular && stat.len == 0 {
        return has_lost_all(fs, session);
    }
    if stat.kind != FileKind::Regular || stat.len > FIRST_GROUP_BYTES_MAX {
        return Ok(true);
    }
    let bytes = fs.read(&path, 0, MANIFEST_BYTES_MAX)?;
    let stretch = Stretch { fs, session, bytes: &bytes, at: 0, cursor: Cursor::start() };
    match stretch.group() {
        Ok(_) => Ok(true),
        Err(Stop::End) => Ok(false),
        Err(Stop::Io(error)) => Err(error),
        Err(Stop::UnknownVersion { .. } | Stop::Corrupt(_)) => Ok(!stretch.is_interrupted_write(&bytes)?),
    }
}

/// Whether segments show that there was a manifest once.
fn has_lost_all<F: FileSystem>(fs: &F, session: SessionId) -> Result<bool, FsError> {
    let newest = newest_segment(fs, session)?;
    Ok(newest.and_then(|newest| newest.beyond(&Cursor::start())).is_some())
}

#[derive(Clone, Debug, PartialEq)]
enum Manifest {
    Absent,
    Unusable(CorruptionReason),
    Failed(FsError),
    Bytes { start: Cursor, bytes: Vec<u8>, continues: bool, newest: Option<Newest> },
}

/// The segment with the highest first index.
#[derive(Clone, Debug, PartialEq)]
struct Newest {
    first: u64,
    name: String,
}

impl Newest {
    /// A segment is written only when all before it are committed, so one that starts beyond the end
    /// of the log shows that the manifest lost groups: no crash leaves that behind.
    fn beyond(self, end: &Cursor) -> Option<CorruptionReason> {
        (self.first > end.next_event_index.get())
            .then(|| CorruptionReason::SegmentUnattested { segment: format!("events/{}", self.name) })
    }
}

/// The index of a segment's first event, from its name.
pub(crate) fn first_index(name: &str) -> Option<u64> {
    let (first, last) = name.strip_suffix(".jsonl")?.split_once('-')?;
    last.parse::<u64>().ok().and(first.parse().ok())
}

fn newest_segment<F: FileSystem>(fs: &F, session: SessionId) -> Result<Option<Newest>, FsError> {
    let segments = list_events(fs, session)?.into_iter().filter(|entry| entry.kind == FileKind::Regular);
    Ok(segments
        .filter_map(|entry| Some(Newest { first: first_index(&entry.name)?, name: entry.name }))
        .max_by_key(|newest| newest.first))
}

/// What lies in the folder of the segments; nothing, where a session was begun and has none yet.
pub(crate) fn list_events<F: FileSystem>(fs: &F, session: SessionId) -> Result<Vec<DirEntry>, FsError> {
    match fs.list(&layout::events(session)) {
        Err(error) if matches!(error.kind, FsErrorKind::NotFound | FsErrorKind::WrongKind) => Ok(Vec::new()),
        listed => listed,
    }
}

/// The manifest's bytes from the cursor on, or all of them when the cursor's anchor is not there.
fn manifest_from<F: FileSystem>(
    fs: &F,
    session: SessionId,
    since: Option<&Cursor>,
    origin: CursorOrigin,
) -> Manifest {
    let path = layout::manifest(session);
    // Listed before the manifest is read, so that a writer in between cannot look like a loss.
    let newest = match (since, origin) {
        (Some(_), CursorOrigin::ThisProcess) => Ok(None),
        (Some(_), CursorOrigin::Saved) | (None, _) => newest_segment(fs, session),
    };
    // A cursor may come from a file: without an anchor it proves nothing.
    if let Some(cursor) = since.filter(|cursor| cursor.anchor_bytes > 0)
        && let Some(anchor_at) = cursor.manifest_bytes.checked_sub(cursor.anchor_bytes)
        && let Ok(bytes) = fs.read(&path, anchor_at, MANIFEST_BYTES_MAX)
        && let Some((anchor, rest)) = usize::try_from(cursor.anchor_bytes)
            .ok()
            .and_then(|anchor_len| bytes.split_at_checked(anchor_len))
        && Sha256::of(anchor) == cursor.anchor
    {
        let bytes = rest.to_vec();
        return match newest {
            Ok(newest) => Manifest::Bytes { start: *cursor, bytes, continues: true, newest },
            Err(error) => Manifest::Failed(error),
        };
    }
    // The cursor does not fit: what it spared us is done now.
    let newest = match (since, origin) {
        (Some(_), CursorOrigin::ThisProcess) => newest_segment(fs, session),
        (Some(_), CursorOrigin::Saved) | (None, _) => newest,
    };
    let newest = match newest {
        Ok(newest) => newest,
        Err(error) => return Manifest::Failed(error),
    };
    match fs.read(&path, 0, MANIFEST_BYTES_MAX) {
        Ok(bytes) => {
            let continues = since.is_none_or(|cursor| cursor.manifest_bytes == 0);
            Manifest::Bytes { start: Cursor::start(), bytes, continues, newest }
        }
        Err(error) => match error.kind {
            FsErrorKind::NotFound => match newest.and_then(|newest| newest.beyond(&Cursor::start())) {
                Some(reason) => Manifest::Unusable(reason),
                None => Manifest::Absent,
            },
            FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. } | FsErrorKind::PermissionDenied => {
                Manifest::Unusable(CorruptionReason::ManifestUnreadable { detail: error.detail })
            }
            FsErrorKind::AlreadyExists
            | FsErrorKind::NoSpace
            | FsErrorKind::Quota
            | FsErrorKind::ReadOnly
            | FsErrorKind::TooManyOpenFiles
            | FsErrorKind::Io => Manifest::Failed(error),
        },
    }
}

fn unreadable(reason: CorruptionReason) -> Loaded {
    Loaded {
        events: Vec::new(),
        segments: BTreeSet::new(),
        cursor: Cursor::start(),
        health: SessionHealth::CorruptHead { reason },
        torn_bytes: 0,
        continues: false,
    }
}

/// The health of a log of which only the part before `end` holds.
fn corrupt_from(end: &Cursor, reason: CorruptionReason) -> SessionHealth {
    match end.next_event_index {
        EventIndex::ZERO => SessionHealth::CorruptHead { reason },
        valid_until => SessionHealth::CorruptTail { valid_until, reason },
    }
}

/// Why the bytes at the reading position are not a committed group.
enum Stop {
    /// Nothing is left.
    End,
    Io(FsError),
    UnknownVersion {
        record: String,
        version: u64,
    },
    Corrupt(CorruptionReason),
}

struct Stretch<'a, F> {
    fs: &'a F,
    session: SessionId,
    bytes: &'a [u8],
    at: usize,
    cursor: Cursor,
}

struct Group {
    name: String,
    segment: Vec<u8>,
    events: Vec<Event>,
    records: Vec<ManifestRecord>,
    bytes: Vec<u8>,
}

impl<F: FileSystem> Stretch<'_, F> {
    /// Reads group after group, up to `until` when that is given.
    fn walk(mut self, continues: bool, until: Option<EventIndex>) -> Result<Loaded, FsError> {
        let mut events = Vec::new();
        let mut segments = BTreeSet::new();
        let mut torn_bytes = 0;
        let health = loop {
            match self.group() {
                Ok(group) => {
                    let end = self.cursor.next_event_index.plus(group.events.len() as u64);
                    if until.is_some_and(|until| end > until) {
                        break SessionHealth::Healthy;
                    }
                    self.at += group.bytes.len();
                    self.cursor = self.cursor.after(&group.records, &group.bytes, group.events.len() as u64);
                    segments.insert(group.name);
                    events.extend(group.events);
                }
                Err(Stop::End) => break SessionHealth::Healthy,
                Err(Stop::Io(error)) => return Err(error),
                Err(stop) => {
                    let rest = &self.bytes[self.at..];
                    if self.is_interrupted_write(rest)? {
                        torn_bytes = rest.len() as u64;
                        break SessionHealth::Healthy;
                    }
                    break self.verdict(stop);
                }
            }
        };
        Ok(Loaded { events, segments, cursor: self.cursor, health, torn_bytes, continues })
    }

    fn verdict(&self, stop: Stop) -> SessionHealth {
        match stop {
            Stop::End | Stop::Io(_) => SessionHealth::Healthy,
            Stop::UnknownVersion { record, version } => SessionHealth::UnknownVersion { record, version },
            Stop::Corrupt(reason) => corrupt_from(&self.cursor, reason),
        }
    }

    /// The committed group at the reading position.
    fn group(&self) -> Result<Group, Stop> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Err(Stop::End);
        }
        let (name, digest, size) = self.closing_record(rest)?;
        let segment = self.segment(&name, size)?;
        if Sha256::of(&segment) != digest {
            return Err(Stop::Corrupt(CorruptionReason::SegmentDigest { segment: name }));
        }
        let events = self.events(&name, &segment)?;
        let records = commit_group(self.cursor.next_manifest_index, &events, &segment);
        let mismatch = |position: usize| {
            Stop::Corrupt(CorruptionReason::ManifestMismatch {
                manifest_index: self.cursor.next_manifest_index.get() + position as u64,
                segment: name.clone(),
            })
        };
        let bytes = group_bytes(&records).map_err(|_| mismatch(0))?;
        // A segment without events commits nothing: believing it would not move the reading position.
        if records.is_empty() {
            return Err(mismatch(0));
        }
        if !rest.starts_with(&bytes) {
            let position = first_differing_line(&bytes, rest);
            let line = rest.split(|byte| *byte == b'\n').nth(position).unwrap_or_default();
            // A newer build may pin what this one does not know: that is news, not damage.
            return Err(match ManifestRecord::parse(line) {
                Err(error) => self.newer(position, &error).unwrap_or_else(|| mismatch(position)),
                Ok(_) => mismatch(position),
            });
        }
        Ok(Group { name, segment, events, records, bytes })
    }

    /// Reads the `segment_closed` line and checks all that does not need the segment.
    fn closing_record(&self, rest: &[u8]) -> Result<(String, Sha256, u64), Stop> {
        let index = self.cursor.next_manifest_index;
        let corrupt = |detail: String| {
            let detail = clip(&detail);
            Stop::Corrupt(CorruptionReason::ManifestRecord { manifest_index: index.get(), detail })
        };
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.len() == rest.len() {
            let offset = self.cursor.manifest_bytes;
            return Err(Stop::Corrupt(CorruptionReason::ManifestTail { offset }));
        }
        let record = ManifestRecord::parse(line)
            .map_err(|error| self.newer(0, &error).unwrap_or_else(|| corrupt(error.to_string())))?;
        let ManifestRecord::SegmentClosed {
            manifest_index,
            session_id,
            first_event_index,
            last_event_index,
            segment_rel_path: name,
            sha256,
            bytes,
            ..
        } = record
        else {
            return Err(corrupt("a pin stands where a segment must be closed".to_owned()));
        };
        let expected = segment_rel_path(first_event_index, last_event_index);
        if manifest_index != index
            || session_id != self.session
            || first_event_index != self.cursor.next_event_index
            || last_event_index < first_event_index
            || name != expected
        {
            return Err(corrupt("does not continue the records before it".to_owned()));
        }
        Ok((name, sha256, bytes))
    }

    /// Whether a record of the group at the reading position was written by a newer build.
    fn newer(&self, position: usize, error: &ManifestError) -> Option<Stop> {
        let record = format!("manifest record {}", self.cursor.next_manifest_index.get() + position as u64);
        match error {
            ManifestError::UnknownVersion { version } => {
                Some(Stop::UnknownVersion { record, version: *version })
            }
            ManifestError::UnknownKind { kind } => {
                Some(Stop::UnknownVersion { record: clip(&format!("{record} ({kind})")), version: 1 })
            }
            ManifestError::Json(_) | ManifestError::Field { .. } | ManifestError::NotCanonical => None,
        }
    }

    fn segment(&self, name: &str, size: u64) -> Result<Vec<u8>, Stop> {
        let segment = || name.to_owned();
        let unreadable = |detail: String| {
            Stop::Corrupt(CorruptionReason::SegmentUnreadable { segment: segment(), detail })
        };
        let path = layout::in_session(self.session, name)
            .ok_or_else(|| unreadable("the path leaves the session's folder".to_owned()))?;
        self.fs.read(&path, 0, size.min(SEGMENT_BYTES_MAX)).map_err(|error| match error.kind {
            FsErrorKind::NotFound => Stop::Corrupt(CorruptionReason::SegmentMissing { segment: segment() }),
            FsErrorKind::TooLarge { .. } => {
                Stop::Corrupt(CorruptionReason::SegmentDigest { segment: segment() })
            }
            FsErrorKind::WrongKind | FsErrorKind::PermissionDenied => unreadable(error.detail),
            FsErrorKind::AlreadyExists
            | FsErrorKind::NoSpace
            | FsErrorKind::Quota
            | FsErrorKind::ReadOnly
            | FsErrorKind::TooManyOpenFiles
            | FsErrorKind::Io => Stop::Io(error),
        })
    }

    /// The events of a segment, which must be consecutive, of this session and in canonical form.
    fn events(&self, name: &str, segment: &[u8]) -> Result<Vec<Event>, Stop> {
        let mut events = Vec::new();
        let mut expected = self.cursor.next_event_index;
        let corrupt = |index: EventIndex, detail: String| {
            Stop::Corrupt(CorruptionReason::Event {
                segment: name.to_owned(),
                event_index: index.get(),
                detail: clip(&detail),
            })
        };
        for line in segment.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n") else {
                return Err(corrupt(expected, "the last line has no end".to_owned()));
            };
            let event = Event::parse(line).map_err(|error| match error {
                EventError::UnknownVersion { version } => {
                    Stop::UnknownVersion { record: format!("event {}", expected.get()), version }
                }
                EventError::UnknownKind { kind } => {
                    Stop::UnknownVersion { record: format!("event {} ({kind})", expected.get()), version: 1 }
                }
                error @ (EventError::Json(_) | EventError::Field { .. }) => {
                    corrupt(expected, error.to_string())
                }
            })?;
            if event.event_index != expected || event.session_id != self.session {
                return Err(corrupt(expected, "does not continue the events before it".to_owned()));
            }
            expected = expected.plus(1);
            events.push(event);
        }
        Ok(events)
    }

    /// The narrow rule of G13: every byte is NUL or what the interrupted write would have put there,
    /// recomputed from a segment that was durable before that write began.
    fn is_interrupted_write(&self, rest: &[u8]) -> Result<bool, FsError> {
        for name in self.orphans()? {
            let Some(path) = layout::events(self.session).child(&name) else { continue };
            let segment = match self.fs.read(&path, 0, SEGMENT_BYTES_MAX) {
                Ok(segment) => segment,
                Err(error) => match error.kind {
                    FsErrorKind::NotFound
                    | FsErrorKind::WrongKind
                    | FsErrorKind::TooLarge { .. }
                    | FsErrorKind::PermissionDenied => continue,
                    // It may explain the tail: an error that passes is no verdict on the log.
                    FsErrorKind::AlreadyExists
                    | FsErrorKind::NoSpace
                    | FsErrorKind::Quota
                    | FsErrorKind::ReadOnly
                    | FsErrorKind::TooManyOpenFiles
                    | FsErrorKind::Io => return Err(error),
                },
            };
            let Ok(events) = self.events(&name, &segment) else { continue };
            let group = commit_group(self.cursor.next_manifest_index, &events, &segment);
            let (Ok(bytes), Some(first), Some(last)) = (group_bytes(&group), events.first(), events.last())
            else {
                continue;
            };
            let named = segment_rel_path(first.event_index, last.event_index);
            if named.strip_prefix("events/") != Some(&name) || rest.len() > bytes.len() {
                continue;
            }
            if rest.iter().zip(&bytes).all(|(found, written)| *found == 0 || found == written) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Segments that start where the committed ones end.
    fn orphans(&self) -> Result<Vec<String>, FsError> {
        let prefix = format!("{:08}-", self.cursor.next_event_index.get());
        Ok(list_events(self.fs, self.session)?
            .into_iter()
            .filter(|entry| entry.kind == FileKind::Regular && entry.name.starts_with(&prefix))
            .map(|entry| entry.name)
            .collect())
    }
}

/// A parser's words may repeat a whole hostile line; a reason is one sentence or two.
fn clip(detail: &str) -> String {
    truncate_with_marker(detail, SUMMARY_BYTES_MAX).into_owned()
}

fn first_differing_line(expected: &[u8], found: &[u8]) -> usize {
    let differs = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(found.len());
    expected[..differs.min(expected.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// An error of this module's own making, for a log that outgrew its limit.
pub(crate) fn too_long(session: SessionId, index: ManifestIndex) -> FsError {
    FsError {
        op: FsOp::Write,
        path: layout::manifest(session),
        kind: FsErrorKind::TooLarge { len: MANIFEST_BYTES_MAX, max: MANIFEST_BYTES_MAX },
        detail: format!("the manifest is full at record {}", index.get()),
    }
}
