//! Reads a session's log and verifies all of it: every manifest record is recomputed from the events that it attests,
//! and the digests chain from the first append to the head (G11).

use postgres_types::Type;
use tokio_postgres::Row;
use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventError, EventIndex};
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::manifest::{
    Cursor, ManifestError, ManifestIndex, ManifestRecord, commit_group, group_bytes, segment_rel_path,
};
use workrail_model::plan::{PlanError, RawSegment};
use workrail_model::text::quoted_in_part;

use crate::error::StatementError;
use crate::transaction::Transaction;

/// A position in a log: its cursor, and the digest of everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) cursor: Cursor,
    pub(crate) chain: Sha256,
}

impl Position {
    pub(crate) fn start() -> Self {
        Self { cursor: Cursor::start(), chain: Sha256::of(b"") }
    }

    /// The position after a segment.
    pub(crate) fn after(&self, records: &[ManifestRecord], group: &[u8], events: u64) -> Self {
        Self {
            cursor: self.cursor.after(records, group, events),
            chain: Sha256::of_parts(&[self.chain.as_bytes(), group]),
        }
    }
}

/// A segment as stored in its row.
pub(crate) struct StoredSegment {
    pub(crate) first_event: i64,
    pub(crate) next_event: i64,
    next_manifest: i64,
    manifest_bytes: i64,
    pub(crate) manifest: Vec<u8>,
    pub(crate) events: Vec<u8>,
    chain: Vec<u8>,
}

/// A validated range of a log.
#[derive(Debug)]
pub(crate) struct LoadedSegments {
    pub(crate) segments: Vec<RawSegment>,
    /// After the last validated segment.
    pub(crate) position: Position,
    /// False if the caller's cursor does not match the log and the range starts at 0.
    pub(crate) continues: bool,
    pub(crate) health: SessionHealth,
}

impl LoadedSegments {
    pub(crate) fn into_events(self) -> Vec<Event> {
        self.segments.into_iter().flat_map(|segment| segment.events().to_vec()).collect()
    }
}

/// How much of a log is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadRange {
    ToTheEnd,
    /// At most this many segments; if there are more, the end of the log is not checked.
    Segments(i64),
}

/// The schema has it as a function. Of the segment that ends at the cursor, the events are left out: it only shows whether the
/// cursor matches.
const READ: &str = "SELECT * FROM workrail.log_since($1, $2, $3)";

/// What came of loading from a position.
enum LoadAttempt {
    NoSession,
    /// The session's log has no such position.
    NoSuchPosition,
    Loaded(LoadedSegments),
}

/// Loads from `since` on; `None` if there is no such session.
pub(crate) fn load(
    transaction: &mut Transaction<'_>,
    session: SessionId,
    since: Option<&Cursor>,
    range: ReadRange,
) -> Result<Option<LoadedSegments>, StatementError> {
    let from = since.copied().unwrap_or_else(Cursor::start);
    match load_from(transaction, session, &from, range)? {
        LoadAttempt::Loaded(loaded) => return Ok(Some(loaded)),
        LoadAttempt::NoSession => return Ok(None),
        LoadAttempt::NoSuchPosition => {}
    }
    // The cursor does not match this log, so it is read from the beginning.
    Ok(match load_from(transaction, session, &Cursor::start(), range)? {
        LoadAttempt::Loaded(loaded) => Some(LoadedSegments { continues: false, ..loaded }),
        LoadAttempt::NoSession | LoadAttempt::NoSuchPosition => None,
    })
}

fn load_from(
    transaction: &mut Transaction<'_>,
    session: SessionId,
    from: &Cursor,
    range: ReadRange,
) -> Result<LoadAttempt, StatementError> {
    let at_start = *from == Cursor::start();
    // One more row: the segment that ends at the cursor shows whether the cursor matches.
    let limit = match range {
        ReadRange::ToTheEnd => i64::MAX,
        ReadRange::Segments(count) => count.saturating_add(1),
    };
    let id = session.to_string();
    let Ok(since) = i64::try_from(from.next_event_index.get()) else {
        return Ok(LoadAttempt::NoSuchPosition);
    };
    let rows = transaction.query(READ, &[(&id, Type::TEXT), (&since, Type::INT8), (&limit, Type::INT8)])?;
    let Some(first) = rows.first() else { return Ok(LoadAttempt::NoSession) };
    let head = head_of(first);
    let mut stored = rows.iter().filter_map(stored_of).peekable();
    let mut position = Position::start();
    if !at_start {
        let Some(fitting) = stored.next().and_then(|row| row.end(from)) else {
            return Ok(LoadAttempt::NoSuchPosition);
        };
        position = fitting;
    }
    let is_cut = rows.len() as i64 >= limit;
    let mut segments = Vec::new();
    let mut health = SessionHealth::Healthy;
    for row in stored {
        match follow(session, &position, row) {
            Ok((segment, next)) => {
                position = next;
                segments.push(segment);
            }
            Err(found) => {
                health = found;
                break;
            }
        }
    }
    if health.is_healthy() && !is_cut {
        health = ends_at_head(&position, head.as_ref());
    }
    Ok(LoadAttempt::Loaded(LoadedSegments { segments, position, continues: true, health }))
}

impl StoredSegment {
    /// The position after this segment, if it is the one that the cursor names.
    fn end(self, cursor: &Cursor) -> Option<Position> {
        let found = Cursor {
            next_event_index: index(self.next_event)?,
            next_manifest_index: ManifestIndex::new(u64::try_from(self.next_manifest).ok()?),
            manifest_bytes: u64::try_from(self.manifest_bytes).ok()?,
            anchor_bytes: self.manifest.len() as u64,
            anchor: Sha256::of(&self.manifest),
        };
        (found == *cursor).then_some(Position { cursor: found, chain: digest(&self.chain)? })
    }

    pub(crate) fn name(&self) -> String {
        let (Some(first), Some(next)) = (index(self.first_event), index(self.next_event)) else {
            return "events/unnamed".to_owned();
        };
        let last = EventIndex::new(next.get().saturating_sub(1)).unwrap_or(first);
        segment_rel_path(first, last)
    }
}

fn index(value: i64) -> Option<EventIndex> {
    EventIndex::new(u64::try_from(value).ok()?)
}

fn digest(bytes: &[u8]) -> Option<Sha256> {
    bytes.try_into().ok().map(Sha256::from_bytes)
}

/// The head of the session; `None` if its row holds impossible numbers.
pub(crate) fn head_of(row: &Row) -> Option<Position> {
    let number = |column: usize| u64::try_from(row.get::<_, i64>(column)).ok();
    Some(Position {
        cursor: Cursor {
            next_event_index: EventIndex::new(number(0)?)?,
            next_manifest_index: ManifestIndex::new(number(1)?),
            manifest_bytes: number(2)?,
            anchor_bytes: number(3)?,
            anchor: digest(row.get(4))?,
        },
        chain: digest(row.get(5))?,
    })
}

/// The segment of a row of `READ`; `None` if the session has no segment.
pub(crate) fn stored_of(row: &Row) -> Option<StoredSegment> {
    Some(StoredSegment {
        first_event: row.get::<_, Option<i64>>(6)?,
        next_event: row.get(7),
        next_manifest: row.get(8),
        manifest_bytes: row.get(9),
        manifest: row.get(10),
        events: row.get(11),
        chain: row.get(12),
    })
}

/// The segment at `position`, and the position after it.
fn follow(
    session: SessionId,
    position: &Position,
    row: StoredSegment,
) -> Result<(RawSegment, Position), SessionHealth> {
    let expected = position.cursor.next_event_index;
    let corrupt = |reason: CorruptionReason| SessionHealth::corrupt_from(expected, reason);
    let name = row.name();
    if index(row.first_event) != Some(expected) {
        let segment = format!("events/{:08}", expected.get());
        return Err(corrupt(CorruptionReason::SegmentMissing { segment }));
    }
    if attested_digest(position, &row.manifest)? != Sha256::of(&row.events) {
        return Err(corrupt(CorruptionReason::SegmentDigest { segment: name }));
    }
    let invalid = |at: EventIndex, detail: String| {
        let detail = quoted_in_part(&detail);
        corrupt(CorruptionReason::Event { segment: name.clone(), event_index: at.get(), detail })
    };
    if !row.events.ends_with(b"\n") {
        return Err(invalid(expected, "the last line has no end".to_owned()));
    }
    let segment = RawSegment::parse(row.events).map_err(|error| unread(expected, &error, &invalid))?;
    let events = segment.events();
    let continues = |event: &Event| event.session_id == session && event.event_index == expected;
    if !events.first().is_some_and(continues) {
        return Err(invalid(expected, "does not continue the events before it".to_owned()));
    }
    let mismatch = || {
        let manifest_index = position.cursor.next_manifest_index.get();
        corrupt(CorruptionReason::ManifestMismatch { manifest_index, segment: name.clone() })
    };
    let records = commit_group(position.cursor.next_manifest_index, events, segment.bytes());
    let group = group_bytes(&records).map_err(|_| mismatch())?;
    let next = position.after(&records, &group, events.len() as u64);
    let numbers = |cursor: &Cursor| {
        let numbers =
            [cursor.next_event_index.get(), cursor.next_manifest_index.get(), cursor.manifest_bytes];
        numbers.map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    };
    let is_attested = group == row.manifest
        && row.chain == next.chain.as_bytes()
        && numbers(&next.cursor) == [row.next_event, row.next_manifest, row.manifest_bytes];
    if is_attested { Ok((segment, next)) } else { Err(mismatch()) }
}

/// The digest that the first manifest record states for the events.
fn attested_digest(position: &Position, manifest: &[u8]) -> Result<Sha256, SessionHealth> {
    let manifest_index = position.cursor.next_manifest_index.get();
    let line = manifest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let unreadable = |detail: String| {
        let reason = CorruptionReason::ManifestRecord { manifest_index, detail: quoted_in_part(&detail) };
        SessionHealth::corrupt_from(position.cursor.next_event_index, reason)
    };
    match ManifestRecord::parse(line) {
        Ok(ManifestRecord::SegmentClosed { sha256, .. }) => Ok(sha256),
        Ok(ManifestRecord::SnapshotPinned { .. } | ManifestRecord::BlobPinned { .. }) => {
            Err(unreadable("a pin is in place of the end of a segment".to_owned()))
        }
        Err(ManifestError::UnknownVersion { version }) => Err(SessionHealth::UnknownVersion {
            record: format!("manifest record {manifest_index}"),
            version,
        }),
        Err(ManifestError::UnknownKind { kind }) => {
            let record = quoted_in_part(&format!("manifest record {manifest_index} ({kind})"));
            Err(SessionHealth::UnknownVersion { record, version: 1 })
        }
        Err(error @ (ManifestError::Json(_) | ManifestError::Field { .. } | ManifestError::NotCanonical)) => {
            Err(unreadable(error.to_string()))
        }
    }
}

fn unread(
    first: EventIndex,
    error: &PlanError,
    invalid: &dyn Fn(EventIndex, String) -> SessionHealth,
) -> SessionHealth {
    let PlanError::Event { position, source } = error else { return invalid(first, error.to_string()) };
    let at = first.plus(*position as u64);
    match source {
        EventError::UnknownVersion { version } => {
            SessionHealth::UnknownVersion { record: format!("event {}", at.get()), version: *version }
        }
        EventError::UnknownKind { kind } => SessionHealth::UnknownVersion {
            record: quoted_in_part(&format!("event {} ({kind})", at.get())),
            version: 1,
        },
        EventError::Json(_) | EventError::Field { .. } => invalid(at, source.to_string()),
    }
}

/// Whether the segments lead to the head of the session: none is missing at the end, and none is extra.
fn ends_at_head(position: &Position, head: Option<&Position>) -> SessionHealth {
    let end = position.cursor.next_event_index;
    let Some(head) = head else {
        let detail = "the session's row holds numbers that no log has".to_owned();
        return SessionHealth::corrupt_from(end, CorruptionReason::ManifestUnreadable { detail });
    };
    if head == position {
        return SessionHealth::Healthy;
    }
    let segment = format!("events/{:08}", end.get());
    let manifest_index = position.cursor.next_manifest_index.get();
    let reason = match head.cursor.next_event_index.cmp(&end) {
        std::cmp::Ordering::Greater => CorruptionReason::SegmentMissing { segment },
        std::cmp::Ordering::Less => CorruptionReason::SegmentUnattested { segment },
        std::cmp::Ordering::Equal => CorruptionReason::ManifestMismatch { manifest_index, segment },
    };
    SessionHealth::corrupt_from(end, reason)
}
