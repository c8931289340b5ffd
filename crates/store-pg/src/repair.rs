//! Repairs a damaged session: its rows are moved aside, then the log is rewritten from the intact segments (G24). All
//! of it is one transaction.
//!
//! Manifest records, numbers and chain follow from the events, so damage to them alone loses nothing. A segment that
//! does not match its own manifest record was itself changed; it is not used, nor is anything after it.

use postgres_types::Type;
use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventError, EventIndex};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::manifest::{ManifestRecord, commit_group, group_bytes, segment_rel_path};
use workrail_model::plan::{PlanError, RawSegment};
use workrail_ports::file_system::FsOp;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Diagnosis, LostEvent, LostSegment, UpkeepError, is_other_segment};

use crate::append::{self, EncodedSegment};
use crate::error::StatementError;
use crate::log::{self, Position, ReadRange, StoredSegment};
use crate::open::PgStore;
use crate::transaction::{Purpose, Transaction};
use crate::upkeep::{aside_path, remove_rows};

const SEGMENTS: &str = "
SELECT 0::int8, 0::int8, 0::int8, 0::int8, ''::bytea, ''::bytea,
       first_event, next_event, next_manifest, manifest_bytes, manifest, events, chain
FROM workrail.segment WHERE session = $1 ORDER BY next_event";

const NEXT_NUMBER: &str =
    "SELECT coalesce(max(number), 0) + 1 FROM workrail.session_aside WHERE session = $1";

const SESSION_ASIDE: &str = "
INSERT INTO workrail.session_aside
    (tenant, session, number, next_event, next_manifest, manifest_bytes, anchor_bytes, anchor, chain)
SELECT tenant, id, $2, next_event, next_manifest, manifest_bytes, anchor_bytes, anchor, chain
FROM workrail.session WHERE id = $1";

const SEGMENTS_ASIDE: &str = "
INSERT INTO workrail.segment_aside
    (tenant, session, number, next_event, first_event, next_manifest, manifest_bytes, manifest, events, chain)
SELECT tenant, session, $2, next_event, first_event, next_manifest, manifest_bytes, manifest, events, chain
FROM workrail.segment WHERE session = $1";

const HEAD: &str = "SELECT next_event, next_manifest, manifest_bytes, anchor_bytes, anchor, chain FROM workrail.session WHERE id = $1";
const IS_KEPT: &str = "SELECT is_kept FROM workrail.session WHERE id = $1";
const KEEP_AGAIN: &str = "UPDATE workrail.session SET is_kept = true WHERE id = $1";

/// A damaged session and what a repair would do.
struct RowRepairPlan {
    rebuilt_segments: Vec<RawSegment>,
    diagnosis: Diagnosis,
    number: i64,
}

/// Why a row's events cannot be used.
enum UnusableRow {
    Invalid,
    Newer { record: String, version: u64 },
}

impl PgStore {
    pub(crate) fn diagnose_session(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        let mut transaction =
            self.begin(Purpose::Reading).map_err(|failed| failed.of_session(FsOp::Read, session))?;
        Ok(planned(&mut transaction, session, trusted_until)?.diagnosis)
    }

    pub(crate) fn repair_session(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        let mut transaction = self.lock_in_database(session)?;
        let plan = planned(&mut transaction, session, trusted_until)?;
        let is_kept = put_aside(&mut transaction, session, plan.number)
            .map_err(|failed| failed.of_session(FsOp::Write, session))?;
        let mut head = Position::start();
        for segment in &plan.rebuilt_segments {
            let raw = EncodedSegment { events: segment.events(), bytes: segment.bytes() };
            head = append::write_checked(&mut transaction, &head, session, &raw)?;
        }
        if is_kept {
            transaction
                .query(KEEP_AGAIN, &[(&session.to_string(), Type::TEXT)])
                .map_err(|failed| failed.of_session(FsOp::Write, session))?;
        }
        append::commit(transaction, session)?;
        self.forget(session);
        Ok(plan.diagnosis)
    }
}

/// Copies the rows of the session and removes them; returns whether it was marked to be kept.
fn put_aside(
    transaction: &mut Transaction<'_>,
    session: SessionId,
    number: i64,
) -> Result<bool, StatementError> {
    let id = session.to_string();
    let is_kept = transaction.query_opt(IS_KEPT, &[(&id, Type::TEXT)])?.is_some_and(|row| row.get(0));
    for sql in [SESSION_ASIDE, SEGMENTS_ASIDE] {
        transaction.query(sql, &[(&id, Type::TEXT), (&number, Type::INT8)])?;
    }
    remove_rows(transaction, session)?;
    Ok(is_kept)
}

/// What is wrong and what is kept; refused if nothing is wrong or nothing can be kept.
fn planned(
    transaction: &mut Transaction<'_>,
    session: SessionId,
    trusted_until: Option<EventIndex>,
) -> Result<RowRepairPlan, UpkeepError> {
    let failed = |failed: StatementError| failed.of_session(FsOp::Read, session);
    let loaded = log::load(transaction, session, None, ReadRange::ToTheEnd).map_err(failed)?;
    let loaded = loaded.ok_or(StoreError::NotFound { session })?;
    let not_repairable = |health| Err(UpkeepError::NotRepairable { session, health });
    let is_repairable = match &loaded.health {
        SessionHealth::Healthy => trusted_until.is_some(),
        SessionHealth::CorruptTail { .. } | SessionHealth::CorruptHead { .. } => true,
        SessionHealth::UnknownVersion { .. } => false,
    };
    if !is_repairable {
        return not_repairable(loaded.health);
    }
    let id = session.to_string();
    let rows = transaction.query(SEGMENTS, &[(&id, Type::TEXT)]).map_err(failed)?;
    let rows: Vec<StoredSegment> = rows.iter().filter_map(log::stored_of).collect();
    let number = transaction.query_opt(NEXT_NUMBER, &[(&id, Type::TEXT)]).map_err(failed)?;
    let number = number.map_or(1, |row| row.get(0));
    let head = transaction.query_opt(HEAD, &[(&id, Type::TEXT)]).map_err(failed)?;
    let head = head.as_ref().and_then(log::head_of);
    let (rebuilt_segments, position, lost) = match rebuilt(session, rows, trusted_until) {
        Ok(rebuilt) => rebuilt,
        // Cutting it off would give up what the newer build recorded.
        Err((record, version)) => return not_repairable(SessionHealth::UnknownVersion { record, version }),
    };
    if rebuilt_segments.is_empty() {
        return not_repairable(loaded.health);
    }
    let end = position.cursor.next_event_index;
    let mut given_up: Vec<LostSegment> = lost.iter().map(described).collect();
    // A head with the same chain had only its numbers changed.
    if let Some(head) = head.filter(|head| head.chain != position.chain) {
        let gone = gaps(end, head.cursor.next_event_index, &given_up);
        given_up.extend(gone);
        given_up.sort_by_key(|segment| segment.indexes);
    }
    let validated = loaded.position.cursor.next_event_index.get().min(end.get());
    let diagnosis = Diagnosis {
        health: loaded.health,
        keeps_until: end,
        events_rebuilt: end.get() - validated,
        manifest_bytes: lost.iter().map(|row| row.manifest.len() as u64).sum(),
        lost: given_up,
        backup: aside_path(session, number),
    };
    Ok(RowRepairPlan { rebuilt_segments, diagnosis, number })
}

/// Segments that the session's row counts but no row has, between what is kept and where the log ended.
fn gaps(from: EventIndex, head: EventIndex, existing: &[LostSegment]) -> Vec<LostSegment> {
    let mut ranges: Vec<(u64, u64)> = existing.iter().filter_map(|segment| segment.indexes).collect();
    ranges.sort_unstable();
    // What follows the head closes the last gap.
    ranges.push((head.get(), head.get()));
    let mut next = from.get();
    let mut gaps = Vec::new();
    for (first, last) in ranges {
        let until = first.min(head.get());
        if let Some(range) = EventIndex::new(next).zip(until.checked_sub(1).and_then(EventIndex::new))
            && next < until
        {
            gaps.push(LostSegment {
                path: segment_rel_path(range.0, range.1),
                indexes: Some((range.0.get(), range.1.get())),
                exists: false,
                events: Vec::new(),
                unreadable_lines: 0,
            });
        }
        next = next.max(last.saturating_add(1));
    }
    gaps
}

type RebuiltSegments = (Vec<RawSegment>, Position, Vec<StoredSegment>);

/// Follows the segments from the first event up to `until`, if given. The error is a record of a newer build.
fn rebuilt(
    session: SessionId,
    rows: Vec<StoredSegment>,
    until: Option<EventIndex>,
) -> Result<RebuiltSegments, (String, u64)> {
    let mut rebuilt_segments = Vec::new();
    let mut lost = Vec::new();
    let mut position = Position::start();
    for row in rows {
        let expected = position.cursor.next_event_index;
        let segment = match unchanged_segment(session, &row) {
            Ok(segment) => segment,
            Err(UnusableRow::Invalid) => {
                lost.push(row);
                continue;
            }
            Err(UnusableRow::Newer { record, version }) => return Err((record, version)),
        };
        let events = segment.events();
        let records = commit_group(position.cursor.next_manifest_index, events, segment.bytes());
        let continues = events.first().is_some_and(|event| event.event_index == expected);
        let group = group_bytes(&records).ok().filter(|_| continues);
        let next = group.map(|group| position.after(&records, &group, events.len() as u64));
        let is_within = |next: &Position| until.is_none_or(|until| next.cursor.next_event_index <= until);
        match next.filter(is_within) {
            Some(next) => {
                position = next;
                rebuilt_segments.push(segment);
            }
            None => lost.push(row),
        }
    }
    Ok((rebuilt_segments, position, lost))
}

/// The events of a row, if nothing shows that they were changed.
fn unchanged_segment(session: SessionId, row: &StoredSegment) -> Result<RawSegment, UnusableRow> {
    let digest = Sha256::of(&row.events);
    // Checked before the events are read: a changed byte may look like a newer build's kind or version.
    if attested(session, &row.manifest).is_some_and(|attested| is_other_segment(attested, digest)) {
        return Err(UnusableRow::Invalid);
    }
    if !row.events.ends_with(b"\n") {
        return Err(UnusableRow::Invalid);
    }
    let segment = RawSegment::parse(row.events.clone()).map_err(|error| newer(&error))?;
    match segment.events().first() {
        Some(first) if first.session_id == session => Ok(segment),
        Some(_) | None => Err(UnusableRow::Invalid),
    }
}

fn newer(error: &PlanError) -> UnusableRow {
    let PlanError::Event { position, source } = error else { return UnusableRow::Invalid };
    let record = format!("event {position} of a segment");
    match source {
        EventError::UnknownVersion { version } => UnusableRow::Newer { record, version: *version },
        EventError::UnknownKind { .. } => UnusableRow::Newer { record, version: 1 },
        EventError::Json(_) | EventError::Field { .. } => UnusableRow::Invalid,
    }
}

/// The digest that an intact manifest record of this session states for the events.
fn attested(session: SessionId, manifest: &[u8]) -> Option<Sha256> {
    let line = manifest.split(|byte| *byte == b'\n').next()?;
    match ManifestRecord::parse(line).ok()? {
        ManifestRecord::SegmentClosed { session_id, sha256, .. } => (session_id == session).then_some(sha256),
        ManifestRecord::SnapshotPinned { .. } | ManifestRecord::BlobPinned { .. } => None,
    }
}

fn described(row: &StoredSegment) -> LostSegment {
    let index = |value: i64| u64::try_from(value).ok();
    let indexes = index(row.first_event).zip(index(row.next_event.saturating_sub(1)));
    let mut lost =
        LostSegment { path: row.name(), indexes, exists: true, events: Vec::new(), unreadable_lines: 0 };
    for line in row.events.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match Event::parse(line) {
            Ok(event) => lost.events.push(LostEvent::of(&event)),
            Err(_) => lost.unreadable_lines += 1,
        }
    }
    lost
}
