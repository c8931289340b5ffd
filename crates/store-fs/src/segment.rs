//! Segment files that no manifest attests yet: found by name, and validated on their own.

use std::collections::BTreeMap;

use workrail_model::event::{Event, EventIndex};
use workrail_model::id::SessionId;
use workrail_model::limits::SEGMENT_BYTES_MAX;
use workrail_model::manifest::segment_rel_path;
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind};

use crate::layout;
use crate::load::{self, NoGroup};

/// The result of reading a file with a segment's name.
pub(crate) enum SegmentRead {
    Read(Vec<u8>),
    /// This user may not read it, so whether it is damaged is unknown.
    Denied(FsError),
    /// Gone, too large, or not a file.
    NoSegment,
}

/// The names of all files that are named like segments, by first event.
pub(crate) fn names<F: FileSystem>(
    fs: &F,
    session: SessionId,
) -> Result<BTreeMap<u64, Vec<String>>, FsError> {
    let mut names: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for entry in load::list_events(fs, session)? {
        if let (FileKind::Regular, Some((first, _))) = (entry.kind, layout::segment_indexes(&entry.name)) {
            names.entry(first).or_default().push(entry.name);
        }
    }
    Ok(names)
}

/// Reads a segment; `name` is relative to the segments folder.
pub(crate) fn read<F: FileSystem>(fs: &F, session: SessionId, name: &str) -> Result<SegmentRead, FsError> {
    let Some(path) = layout::events(session).child(name) else { return Ok(SegmentRead::NoSegment) };
    match fs.read(&path, 0, SEGMENT_BYTES_MAX) {
        Ok(bytes) => Ok(SegmentRead::Read(bytes)),
        Err(error) if error.kind == FsErrorKind::PermissionDenied => Ok(SegmentRead::Denied(error)),
        Err(error) if error.kind.is_verdict_on_file() => Ok(SegmentRead::NoSegment),
        Err(error) => Err(error),
    }
}

/// The events of a segment that starts at `first`: at least one, valid, and exactly those that its name says.
pub(crate) fn events(
    session: SessionId,
    first: EventIndex,
    name: &str,
    bytes: &[u8],
) -> Result<Vec<Event>, NoGroup> {
    let events = load::events_of(session, first, name, bytes)?;
    let last = events.last().ok_or(NoGroup::End)?;
    match segment_rel_path(first, last.event_index).strip_prefix("events/") == Some(name) {
        true => Ok(events),
        false => Err(NoGroup::End),
    }
}

/// Whether these bytes start as a segment of this session, from the event `first`.
pub(crate) fn begins(session: SessionId, first: EventIndex, name: &str, bytes: &[u8]) -> bool {
    let line = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    match load::events_of(session, first, name, line) {
        Ok(events) => !events.is_empty(),
        Err(NoGroup::UnknownVersion { .. }) => true,
        Err(NoGroup::End | NoGroup::Io(_) | NoGroup::Corrupt(_)) => false,
    }
}
