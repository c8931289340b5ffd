//! Reads a manifest group by group, recomputing each group from the segment it attests (G11).

use std::collections::BTreeSet;

use serde_json::Value;
use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventError, EventIndex};
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::limits::SEGMENT_BYTES_MAX;
use workrail_model::manifest::{
    Cursor, ManifestError, ManifestRecord, commit_group, group_bytes, segment_rel_path,
};
use workrail_model::strict_json;
use workrail_model::text::quoted_in_part;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind};

use super::LoadedLog;
use crate::{layout, orphan};

/// A record that damage made longer or shorter by more than this is not recognised as ours.
const DAMAGED_BYTES_MAX: usize = 8;

/// Why the bytes at the read position are not a committed group.
pub(crate) enum NoGroup {
    /// Nothing is left.
    End,
    Io(FsError),
    UnknownVersion {
        record: String,
        version: u64,
    },
    Corrupt(CorruptionReason),
}

pub(super) struct GroupReader<'a, F> {
    pub fs: &'a F,
    pub session: SessionId,
    pub bytes: &'a [u8],
    pub at: usize,
    pub cursor: Cursor,
}

pub(super) struct SegmentGroup {
    pub name: String,
    pub segment: Vec<u8>,
    pub events: Vec<Event>,
    pub records: Vec<ManifestRecord>,
    pub bytes: Vec<u8>,
}

impl<F: FileSystem> GroupReader<'_, F> {
    /// Reads group after group.
    pub(super) fn walk(mut self, continues: bool) -> Result<LoadedLog, FsError> {
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
                Err(NoGroup::End) => break SessionHealth::Healthy,
                Err(NoGroup::Io(error)) => return Err(error),
                Err(stop) => {
                    let rest = &self.bytes[self.at..];
                    let orphans = orphan::candidates(self.fs, self.session, &self.cursor)?;
                    if orphans.iter().flatten().any(|orphan| orphan.explains(rest)) {
                        torn_bytes = rest.len() as u64;
                        break SessionHealth::Healthy;
                    }
                    break self.health_at(stop, orphans.into_iter().find_map(Result::err).as_ref());
                }
            }
        };
        Ok(LoadedLog {
            events,
            segments,
            cursor: self.cursor,
            health,
            torn_bytes,
            continues,
            has_manifest: true,
        })
    }

    /// The health of a log that stops here; a segment that may not be read explains damage.
    fn health_at(&self, stop: NoGroup, denied: Option<&FsError>) -> SessionHealth {
        match stop {
            NoGroup::End | NoGroup::Io(_) => SessionHealth::Healthy,
            NoGroup::UnknownVersion { record, version } => SessionHealth::UnknownVersion { record, version },
            NoGroup::Corrupt(reason) => {
                let reason = denied.map_or(reason, orphan::access_denied);
                SessionHealth::corrupt_from(self.cursor.next_event_index, reason)
            }
        }
    }

    /// The committed group at the read position.
    pub(super) fn group(&self) -> Result<SegmentGroup, NoGroup> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Err(NoGroup::End);
        }
        let (name, digest, size) = self.closing_record(rest)?;
        let segment = self.segment(&name, size)?;
        if Sha256::of(&segment) != digest {
            return Err(NoGroup::Corrupt(CorruptionReason::SegmentDigest { segment: name }));
        }
        let events = events_of(self.session, self.cursor.next_event_index, &name, &segment)?;
        let records = commit_group(self.cursor.next_manifest_index, &events, &segment);
        let mismatch = |position: usize| {
            NoGroup::Corrupt(CorruptionReason::ManifestMismatch {
                manifest_index: self.cursor.next_manifest_index.get() + position as u64,
                segment: name.clone(),
            })
        };
        let bytes = group_bytes(&records).map_err(|_| mismatch(0))?;
        // A segment without events commits nothing: accepting it would not advance the read position.
        if records.is_empty() {
            return Err(mismatch(0));
        }
        if !rest.starts_with(&bytes) {
            let position = first_differing_line(&bytes, rest);
            let line =
                |lines: &[u8]| lines.split(|byte| *byte == b'\n').nth(position).unwrap_or_default().to_vec();
            let (found, expected) = (line(rest), line(&bytes));
            // A newer build may pin kinds that this one does not know, which is not damage.
            return Err(match ManifestRecord::parse(&found) {
                Err(error) if !is_damaged_form(&found, &expected) => {
                    self.newer(position, &error).unwrap_or_else(|| mismatch(position))
                }
                Err(_) | Ok(_) => mismatch(position),
            });
        }
        Ok(SegmentGroup { name, segment, events, records, bytes })
    }

    /// Reads the `segment_closed` line and checks everything that does not need the segment.
    fn closing_record(&self, rest: &[u8]) -> Result<(String, Sha256, u64), NoGroup> {
        let index = self.cursor.next_manifest_index;
        let corrupt = |detail: String| {
            let detail = quoted_in_part(&detail);
            NoGroup::Corrupt(CorruptionReason::ManifestRecord { manifest_index: index.get(), detail })
        };
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.len() == rest.len() {
            let offset = self.cursor.manifest_bytes;
            return Err(NoGroup::Corrupt(CorruptionReason::ManifestTail { offset }));
        }
        let record = match ManifestRecord::parse(line) {
            Ok(record) => record,
            Err(error) => {
                let newer = self.newer(0, &error);
                if newer.is_some() && self.follows_but_for_its_version(line).map_err(NoGroup::Io)? {
                    return Err(corrupt(error.to_string()));
                }
                return Err(newer.unwrap_or_else(|| corrupt(error.to_string())));
            }
        };
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
            return Err(corrupt("a pin is in place of the end of a segment".to_owned()));
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

    /// Whether `line` would close an existing segment if its version or kind were ours.
    fn follows_but_for_its_version(&self, line: &[u8]) -> Result<bool, FsError> {
        let orphans = orphan::at(self.fs, self.session, &self.cursor)?;
        let closing = |group: &[u8]| group.split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec();
        Ok(orphans.iter().any(|orphan| is_damaged_form(line, &closing(&orphan.group))))
    }

    /// The reason to stop if a newer build wrote this record of the group at the read position; `None` if not.
    fn newer(&self, position: usize, error: &ManifestError) -> Option<NoGroup> {
        let record = format!("manifest record {}", self.cursor.next_manifest_index.get() + position as u64);
        match error {
            ManifestError::UnknownVersion { version } => {
                Some(NoGroup::UnknownVersion { record, version: *version })
            }
            ManifestError::UnknownKind { kind } => Some(NoGroup::UnknownVersion {
                record: quoted_in_part(&format!("{record} ({kind})")),
                version: 1,
            }),
            ManifestError::Json(_) | ManifestError::Field { .. } | ManifestError::NotCanonical => None,
        }
    }

    fn segment(&self, name: &str, size: u64) -> Result<Vec<u8>, NoGroup> {
        let segment = || name.to_owned();
        let unreadable = |detail: String| {
            NoGroup::Corrupt(CorruptionReason::SegmentUnreadable { segment: segment(), detail })
        };
        let path = layout::in_session(self.session, name)
            .ok_or_else(|| unreadable("the path leaves the session's folder".to_owned()))?;
        self.fs.read(&path, 0, size.min(SEGMENT_BYTES_MAX)).map_err(|error| match error.kind {
            FsErrorKind::NotFound => {
                NoGroup::Corrupt(CorruptionReason::SegmentMissing { segment: segment() })
            }
            FsErrorKind::TooLarge { .. } => {
                NoGroup::Corrupt(CorruptionReason::SegmentDigest { segment: segment() })
            }
            FsErrorKind::WrongKind => unreadable(error.detail),
            FsErrorKind::PermissionDenied => NoGroup::Corrupt(orphan::access_denied(&error)),
            FsErrorKind::AlreadyExists
            | FsErrorKind::NoSpace
            | FsErrorKind::Quota
            | FsErrorKind::ReadOnly
            | FsErrorKind::TooManyOpenFiles
            | FsErrorKind::Database
            | FsErrorKind::Io => NoGroup::Io(error),
        })
    }

    /// The narrow rule of G13: every byte is NUL or what the interrupted write would have written, recomputed from a
    /// segment that was durable before that write began.
    pub(super) fn is_interrupted_write(&self, rest: &[u8]) -> Result<bool, FsError> {
        let orphans = orphan::at(self.fs, self.session, &self.cursor)?;
        Ok(orphans.iter().any(|orphan| orphan.explains(rest)))
    }
}

/// The events of a segment, which must be consecutive from `first` and belong to this session.
pub(crate) fn events_of(
    session: SessionId,
    first: EventIndex,
    name: &str,
    segment: &[u8],
) -> Result<Vec<Event>, NoGroup> {
    let mut events = Vec::new();
    let mut expected = first;
    let corrupt = |index: EventIndex, detail: String| {
        NoGroup::Corrupt(CorruptionReason::Event {
            segment: name.to_owned(),
            event_index: index.get(),
            detail: quoted_in_part(&detail),
        })
    };
    for line in segment.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(corrupt(expected, "the last line has no end".to_owned()));
        };
        let event = Event::parse(line).map_err(|error| match error {
            EventError::UnknownVersion { version } => {
                NoGroup::UnknownVersion { record: format!("event {}", expected.get()), version }
            }
            EventError::UnknownKind { kind } => NoGroup::UnknownVersion {
                record: quoted_in_part(&format!("event {} ({kind})", expected.get())),
                version: 1,
            },
            error @ (EventError::Json(_) | EventError::Field { .. }) => corrupt(expected, error.to_string()),
        })?;
        if event.event_index != expected || event.session_id != session {
            return Err(corrupt(expected, "does not continue the events before it".to_owned()));
        }
        expected = expected.plus(1);
        events.push(event);
    }
    Ok(events)
}

/// Whether a manifest line with an unknown version or kind is otherwise exactly the record that the segment implies.
/// That is damage, because a newer build would have changed more than that. So is a kind that lost or changed one byte,
/// even if one more field differs: no build calls a new kind almost like an old one and gives it the same fields.
pub(crate) fn is_damaged_form(found: &[u8], expected: &[u8]) -> bool {
    let parse = |line| strict_json::parse(line).ok();
    let (Some(mut found_value), Some(expected_value)) = (parse(found), parse(expected)) else { return false };
    let is_as_long = found.len().abs_diff(expected.len()) <= DAMAGED_BYTES_MAX;
    if is_as_long && is_misspelt(&found_value, &expected_value) {
        return true;
    }
    for field in ["kind", "v"] {
        if let (Some(value), Some(right)) = (found_value.get_mut(field), expected_value.get(field)) {
            *value = right.clone();
        }
    }
    found.len() == expected.len() && found_value == expected_value
}

/// Whether a record has a kind that lost or changed one byte, the same fields, and at most one other value.
fn is_misspelt(found: &Value, expected: &Value) -> bool {
    let (Some(found), Some(expected)) = (found.as_object(), expected.as_object()) else { return false };
    let (Some(kind), Some(right)) =
        (found.get("kind").and_then(Value::as_str), expected.get("kind").and_then(Value::as_str))
    else {
        return false;
    };
    let same_before = kind.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    let same_after = kind.bytes().rev().zip(right.bytes().rev()).take_while(|(a, b)| a == b).count();
    // A longer kind, such as `segment_closed2`, may be a new one.
    let is_one_byte_off = kind != right
        && (kind.len() == right.len() || kind.len() + 1 == right.len())
        && same_before + same_after + 1 >= right.len();
    let has_same_fields =
        found.len() == expected.len() && found.keys().all(|name| expected.contains_key(name));
    let others = expected.iter().filter(|(name, _)| name.as_str() != "kind");
    let differing = others.filter(|(name, value)| found.get(name.as_str()) != Some(*value)).count();
    is_one_byte_off && has_same_fields && differing <= 1
}

fn first_differing_line(expected: &[u8], found: &[u8]) -> usize {
    let differs = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(found.len());
    expected[..differs.min(expected.len())].iter().filter(|byte| **byte == b'\n').count()
}
