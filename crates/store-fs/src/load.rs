//! Reads a session's log and believes nothing: every byte of the manifest is recomputed from the
//! segments it attests (G11), and only an interrupted last write is forgiven (G13).

use std::collections::BTreeSet;

use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventError, EventIndex};
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::{
    Cursor, ManifestError, ManifestIndex, ManifestRecord, commit_group, group_bytes, segment_rel_path,
};
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind, FsOp};

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

/// Loads from `since` on. `None` when the session has no manifest.
pub(crate) fn load<F: FileSystem>(
    fs: &F,
    session: SessionId,
    since: Option<&Cursor>,
) -> Result<Option<Loaded>, FsError> {
    let mut last = None;
    for _ in 0..RACES_MAX {
        let before = manifest_from(fs, session, since);
        let loaded = match &before {
            Manifest::Absent => return Ok(None),
            Manifest::Failed(error) => return Err(error.clone()),
            Manifest::Unusable(reason) => unreadable(reason.clone()),
            Manifest::Bytes { start, bytes, continues } => {
                Stretch { fs, session, bytes, at: 0, cursor: *start }.walk(*continues)?
            }
        };
        if loaded.health.is_healthy() {
            return Ok(Some(loaded));
        }
        // A writer may have cut a torn tail and removed its orphan segment while this reader was
        // between the two. Only a verdict on an unchanged manifest counts (G16).
        if before == manifest_from(fs, session, since) {
            return Ok(Some(loaded));
        }
        last = Some(loaded);
    }
    Ok(last)
}

#[derive(Clone, Debug, PartialEq)]
enum Manifest {
    Absent,
    Unusable(CorruptionReason),
    Failed(FsError),
    Bytes { start: Cursor, bytes: Vec<u8>, continues: bool },
}

/// The manifest's bytes from the cursor on, or all of them when the cursor's anchor is not there.
fn manifest_from<F: FileSystem>(fs: &F, session: SessionId, since: Option<&Cursor>) -> Manifest {
    let path = layout::manifest(session);
    if let Some(cursor) = since.filter(|cursor| cursor.manifest_bytes > 0) {
        let anchor_at = cursor.manifest_bytes - cursor.anchor_bytes;
        if let Ok(bytes) = fs.read(&path, anchor_at, MANIFEST_BYTES_MAX) {
            let anchor_len = cursor.anchor_bytes as usize;
            if bytes.len() >= anchor_len && Sha256::of(&bytes[..anchor_len]) == cursor.anchor {
                let bytes = bytes[anchor_len..].to_vec();
                return Manifest::Bytes { start: *cursor, bytes, continues: true };
            }
        }
    }
    match fs.read(&path, 0, MANIFEST_BYTES_MAX) {
        Ok(bytes) => {
            let continues = since.is_none_or(|cursor| cursor.manifest_bytes == 0);
            Manifest::Bytes { start: Cursor::start(), bytes, continues }
        }
        Err(error) => match error.kind {
            FsErrorKind::NotFound => Manifest::Absent,
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
    events: Vec<Event>,
    records: Vec<ManifestRecord>,
    bytes: Vec<u8>,
}

impl<F: FileSystem> Stretch<'_, F> {
    fn walk(mut self, continues: bool) -> Result<Loaded, FsError> {
        let mut events = Vec::new();
        let mut segments = BTreeSet::new();
        let mut torn_bytes = 0;
        let health = loop {
            match self.group() {
                Ok(group) => {
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
            Stop::Corrupt(reason) if self.cursor.next_event_index == EventIndex::ZERO => {
                SessionHealth::CorruptHead { reason }
            }
            Stop::Corrupt(reason) => {
                SessionHealth::CorruptTail { valid_until: self.cursor.next_event_index, reason }
            }
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
        if !rest.starts_with(&bytes) {
            return Err(mismatch(first_differing_line(&bytes, rest)));
        }
        Ok(Group { name, events, records, bytes })
    }

    /// Reads the `segment_closed` line and checks all that does not need the segment.
    fn closing_record(&self, rest: &[u8]) -> Result<(String, Sha256, u64), Stop> {
        let index = self.cursor.next_manifest_index;
        let corrupt = |detail: String| {
            Stop::Corrupt(CorruptionReason::ManifestRecord { manifest_index: index.get(), detail })
        };
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.len() == rest.len() {
            let offset = self.cursor.manifest_bytes;
            return Err(Stop::Corrupt(CorruptionReason::ManifestTail { offset }));
        }
        let record = ManifestRecord::parse(line).map_err(|error| match error {
            ManifestError::UnknownVersion { version } => {
                Stop::UnknownVersion { record: format!("manifest record {}", index.get()), version }
            }
            error @ (ManifestError::Json(_) | ManifestError::Field { .. } | ManifestError::NotCanonical) => {
                corrupt(error.to_string())
            }
        })?;
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
                detail,
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
        if rest.iter().all(|byte| *byte == 0) {
            return Ok(rest.len() as u64 <= SEGMENT_BYTES_MAX);
        }
        for name in self.orphans()? {
            let Some(path) = layout::events(self.session).child(&name) else { continue };
            let Ok(segment) = self.fs.read(&path, 0, SEGMENT_BYTES_MAX) else { continue };
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
        let listed = match self.fs.list(&layout::events(self.session)) {
            Ok(listed) => listed,
            Err(error) if matches!(error.kind, FsErrorKind::NotFound | FsErrorKind::WrongKind) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(listed
            .into_iter()
            .filter(|entry| entry.kind == FileKind::Regular && entry.name.starts_with(&prefix))
            .map(|entry| entry.name)
            .collect())
    }
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
