//! Recomputes a manifest from the segments alone (G11), for the repair of a damaged or lost one.
//!
//! A partly readable manifest still counts: a segment that does not match its attested digest was itself changed, and
//! is not used.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventIndex};
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{
    Cursor, ManifestError, ManifestIndex, ManifestRecord, commit_group, group_bytes, segment_rel_path,
};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind};
use workrail_ports::upkeep::is_other_segment;

use crate::layout;
use crate::load::{self, NoGroup};
use crate::segment::{self, SegmentRead};

/// The log that the segments form.
#[derive(Debug)]
pub(crate) struct RebuiltLog {
    pub manifest: Vec<u8>,
    /// Named as in the manifest.
    pub segments: BTreeSet<String>,
    pub end: EventIndex,
    /// Where the rebuilt manifest ends.
    pub cursor: Cursor,
    /// A record that a newer build wrote; in that case nothing may be cut or rewritten.
    pub newer: Option<(String, u64)>,
    /// A segment that this user may not read; it may be intact, so nothing may be cut after it.
    pub denied: Option<FsError>,
}

/// Whether a segment could come next, and if not, why.
enum SegmentJudgement {
    Candidate(SegmentCandidate),
    Invalid,
    Newer { record: String, version: u64 },
    Denied(FsError),
}

/// A segment that could come next.
struct SegmentCandidate {
    name: String,
    segment: Vec<u8>,
    events: Vec<Event>,
    /// Attested by an intact record; continued by another segment. The highest candidate is taken.
    priority: (bool, bool),
}

/// Follows the segments from the first event up to `until`, if given.
pub(crate) fn rebuild<F: FileSystem>(
    fs: &F,
    session: SessionId,
    until: Option<EventIndex>,
) -> Result<RebuiltLog, FsError> {
    let old = manifest_bytes(fs, session)?;
    let attested = attested(session, &old);
    let names = segment::names(fs, session)?;
    let mut rebuilt = RebuiltLog {
        manifest: Vec::new(),
        segments: BTreeSet::new(),
        end: EventIndex::ZERO,
        cursor: Cursor::start(),
        newer: None,
        denied: None,
    };
    let mut cursor = Cursor::start();
    loop {
        let mut candidates = Vec::new();
        for name in names.get(&cursor.next_event_index.get()).into_iter().flatten() {
            match read(fs, session, cursor.next_event_index, name, &attested)? {
                SegmentJudgement::Candidate(candidate) => candidates.push(candidate),
                SegmentJudgement::Newer { record, version } => {
                    rebuilt.newer.get_or_insert((record, version));
                }
                SegmentJudgement::Denied(error) => {
                    rebuilt.denied.get_or_insert(error);
                }
                SegmentJudgement::Invalid => {}
            }
        }
        for candidate in &mut candidates {
            let after = cursor.next_event_index.plus(candidate.events.len() as u64);
            candidate.priority.1 = names.contains_key(&after.get());
        }
        let Some(next) = candidates.into_iter().max_by_key(|candidate| candidate.priority) else { break };
        let records = commit_group(cursor.next_manifest_index, &next.events, &next.segment);
        let Ok(group) = group_bytes(&records) else { break };
        let after = cursor.after(&records, &group, next.events.len() as u64);
        let is_beyond = until.is_some_and(|until| after.next_event_index > until);
        if is_beyond || after.manifest_bytes > MANIFEST_BYTES_MAX {
            break;
        }
        rebuilt.manifest.extend_from_slice(&group);
        rebuilt.segments.insert(format!("events/{}", next.name));
        cursor = after;
    }
    rebuilt.end = cursor.next_event_index;
    rebuilt.cursor = cursor;
    if rebuilt.newer.is_none() {
        rebuilt.newer = newer_record(&old, &rebuilt.manifest);
    }
    Ok(rebuilt)
}

/// The old manifest, if there is one.
pub(crate) fn manifest_bytes<F: FileSystem>(fs: &F, session: SessionId) -> Result<Vec<u8>, FsError> {
    match fs.read(&layout::manifest(session), 0, MANIFEST_BYTES_MAX) {
        Ok(bytes) => Ok(bytes),
        // An unreadable one may still attest which segments were changed.
        Err(error) if error.kind == FsErrorKind::PermissionDenied => Err(error),
        Err(error) if error.kind.is_verdict_on_file() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The segments that intact records close. A record with contradictory fields is itself damaged, and one from another
/// session says nothing about this one.
pub(crate) fn attested(session: SessionId, manifest: &[u8]) -> BTreeMap<String, Sha256> {
    let lines = manifest.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| match ManifestRecord::parse(line).ok()? {
            ManifestRecord::SegmentClosed {
                session_id,
                first_event_index,
                last_event_index,
                segment_rel_path: name,
                sha256,
                ..
            } => {
                let is_whole = name == segment_rel_path(first_event_index, last_event_index);
                (is_whole && session_id == session).then_some((name, sha256))
            }
            ManifestRecord::SnapshotPinned { .. } | ManifestRecord::BlobPinned { .. } => None,
        })
        .collect()
}

/// Long enough for the last group of all but enormous plans.
pub(crate) const MANIFEST_TAIL_BYTES: u64 = 64 * 1024;

/// The last record in the end of a manifest that closes a segment: its index, and the segment's name.
pub(crate) fn last_closed(tail: &[u8]) -> Option<(ManifestIndex, String)> {
    tail.split(|byte| *byte == b'\n').rev().find_map(|line| match ManifestRecord::parse(line) {
        Ok(ManifestRecord::SegmentClosed { manifest_index, segment_rel_path, .. }) => {
            Some((manifest_index, segment_rel_path))
        }
        Ok(ManifestRecord::SnapshotPinned { .. } | ManifestRecord::BlobPinned { .. }) | Err(_) => None,
    })
}

/// Reads a segment, and judges whether it could come next.
fn read<F: FileSystem>(
    fs: &F,
    session: SessionId,
    first: EventIndex,
    name: &str,
    attested: &BTreeMap<String, Sha256>,
) -> Result<SegmentJudgement, FsError> {
    let segment = match segment::read(fs, session, name)? {
        SegmentRead::Read(bytes) => bytes,
        SegmentRead::Denied(error) => return Ok(SegmentJudgement::Denied(error)),
        SegmentRead::NoSegment => return Ok(SegmentJudgement::Invalid),
    };
    // Checked before its events are read: a changed byte may look like a newer build's kind or version, but a segment
    // that a newer build wrote matches the digest that its manifest attests.
    let digest = Sha256::of(&segment);
    let attested_digest = attested.get(&format!("events/{name}"));
    if attested_digest.is_some_and(|attested| is_other_segment(*attested, digest)) {
        return Ok(SegmentJudgement::Invalid);
    }
    let events = match segment::events(session, first, name, &segment) {
        Ok(events) => events,
        Err(NoGroup::UnknownVersion { record, version }) => {
            return Ok(SegmentJudgement::Newer { record, version });
        }
        Err(NoGroup::Io(error)) => return Err(error),
        Err(NoGroup::End | NoGroup::Corrupt(_)) => return Ok(SegmentJudgement::Invalid),
    };
    let priority = (attested_digest == Some(&digest), false);
    let name = name.to_owned();
    Ok(SegmentJudgement::Candidate(SegmentCandidate { name, segment, events, priority }))
}

/// A record of the old manifest that only a newer build can have written, with its version.
fn newer_record(old: &[u8], rebuilt: &[u8]) -> Option<(String, u64)> {
    old.split(|byte| *byte == b'\n').enumerate().find_map(|(index, line)| {
        let record = format!("manifest record {index}");
        let found = match ManifestRecord::parse(line) {
            Err(ManifestError::UnknownVersion { version }) => (record, version),
            Err(ManifestError::UnknownKind { .. }) => (record, 1),
            Ok(_)
            | Err(ManifestError::Json(_) | ManifestError::Field { .. } | ManifestError::NotCanonical) => {
                return None;
            }
        };
        let mut expected = rebuilt.split(|byte| *byte == b'\n');
        (!expected.any(|expected| load::is_damaged_form(line, expected))).then_some(found)
    })
}
