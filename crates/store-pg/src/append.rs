//! The append: content, head, keys and segment in one transaction, acknowledged after its COMMIT (G102).
//!
//! The head moves only from where the writer last saw it. If the connection is lost after COMMIT was sent, the
//! outcome is unknown: the error says so, and repeating the call finds the record or writes it.

use std::collections::BTreeSet;

use postgres_types::Type;
use workrail_model::digest::Sha256;
use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{commit_group, group_bytes};
use workrail_model::plan::{AppendPlan, Attachment, AttachmentKind};
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};
use workrail_ports::session_store::{StoreError, is_recorded};

use crate::content::kind_name;
use crate::log::Position;
use crate::reader::path_of;
use crate::transaction::Transaction;

/// A new plan, written into an open transaction.
pub(crate) struct Write {
    session: SessionId,
    next: Position,
}

const FOUND: &str = "
SELECT 'key' AS kind, fingerprint AS found FROM workrail.event_key WHERE session = $1 AND fingerprint = ANY($2)
UNION ALL
SELECT c.kind, c.sha256 FROM workrail.content c
JOIN unnest($3::text[], $4::bytea[]) AS needed (kind, sha256) ON c.kind = needed.kind AND c.sha256 = needed.sha256";

/// Content that the events refer to but the plan does not bring.
type Needed = BTreeSet<(AttachmentKind, Sha256)>;

/// Checks the plan against the locked log and writes it; `None` if all of it is already recorded.
///
/// A plan that continues the log is written immediately, by a statement that writes nothing unless its keys are new
/// and its content exists. The reason is looked up only if nothing was written.
pub(crate) fn prepare(
    transaction: &mut Transaction<'_>,
    head: &Position,
    plan: &AppendPlan,
) -> Result<Option<Write>, StoreError> {
    let session = plan.session_id();
    let attached = |reference: &(AttachmentKind, Sha256)| {
        plan.attachments().iter().any(|attachment| (attachment.kind(), attachment.digest()) == *reference)
    };
    let needed: Needed = plan
        .events()
        .iter()
        .flat_map(|event| event.data.content_refs())
        .filter(|reference| !attached(reference))
        .collect();
    let (expected, first) = (head.cursor.next_event_index, plan.first_index());
    if first == expected
        && let Some(next) =
            write(transaction, head, session, &EncodedSegment::of_plan(plan), plan.attachments(), &needed)?
    {
        return Ok(Some(Write { session, next }));
    }
    let found = ExistingRows::of(transaction, plan, &needed)?;
    if is_recorded(plan, |event| found.has("key", &event.dedupe_key.fingerprint()))? {
        return Ok(None);
    }
    if first != expected {
        return Err(StoreError::Stale { expected, found: first });
    }
    found.check_content(&needed)?;
    // Another process wrote since the lock was released: the next read finds the new end of the log.
    Err(StoreError::Locked { session })
}

/// What the database already has of a plan: the keys of its events, and the content it needs.
struct ExistingRows(BTreeSet<(String, Vec<u8>)>);

impl ExistingRows {
    fn of(transaction: &mut Transaction<'_>, plan: &AppendPlan, needed: &Needed) -> Result<Self, StoreError> {
        let session = plan.session_id();
        let (keys, (kinds, digests)) = (fingerprints(plan.events()), columns(needed));
        let id = session.to_string();
        let rows = transaction.query(
            FOUND,
            &[
                (&id, Type::TEXT),
                (&keys, Type::BYTEA_ARRAY),
                (&kinds, Type::TEXT_ARRAY),
                (&digests, Type::BYTEA_ARRAY),
            ],
        );
        let rows = rows.map_err(|failed| failed.of_session(FsOp::Write, session))?;
        Ok(Self(rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
    }

    fn has(&self, kind: &str, bytes: &[u8]) -> bool {
        self.0.contains(&(kind.to_owned(), bytes.to_vec()))
    }

    fn check_content(&self, needed: &Needed) -> Result<(), StoreError> {
        let missing = needed.iter().find(|(kind, digest)| !self.has(kind_name(*kind), digest.as_bytes()));
        missing.map_or(Ok(()), |(kind, digest)| {
            Err(StoreError::Unattached { kind: *kind, digest: digest.to_string() })
        })
    }
}

fn fingerprints(events: &[Event]) -> Vec<Vec<u8>> {
    events.iter().map(|event| event.dedupe_key.fingerprint().to_vec()).collect()
}

fn columns(needed: &Needed) -> (Vec<&'static str>, Vec<&[u8]>) {
    needed.iter().map(|(kind, digest)| (kind_name(*kind), digest.as_bytes().as_slice())).unzip()
}

impl Write {
    /// Makes it durable; returns the head after it.
    pub(crate) fn commit(self, transaction: Transaction<'_>) -> Result<Position, StoreError> {
        commit(transaction, self.session)?;
        Ok(self.next)
    }
}

/// Commits what was written to a session; a distinct error says that the outcome is unknown.
pub(crate) fn commit(transaction: Transaction<'_>, session: SessionId) -> Result<(), StoreError> {
    commit_at(transaction, &path_of(session))
}

/// Like `commit`, for writes outside any session.
pub(crate) fn commit_at(transaction: Transaction<'_>, path: &str) -> Result<(), StoreError> {
    transaction.commit().map_err(|failed| {
        let is_unknown = failed.is_lost();
        let error = failed.at(FsOp::Write, path);
        if is_unknown { StoreError::Uncertain(error) } else { StoreError::Io(error) }
    })
}

/// Events with the bytes that they are stored as.
pub(crate) struct EncodedSegment<'a> {
    pub(crate) events: &'a [Event],
    pub(crate) bytes: &'a [u8],
}

impl<'a> EncodedSegment<'a> {
    fn of_plan(plan: &'a AppendPlan) -> Self {
        Self { events: plan.events(), bytes: plan.segment() }
    }
}

/// The schema has it as a function: the head moves only if no key is known and no content is missing, and everything else is
/// written only if it moved.
const APPEND: &str =
    "SELECT workrail.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

/// Writes a segment and its content after `head` and moves the head, all in the open transaction. Returns `None`
/// without writing if the head is elsewhere, an event is already recorded, or needed content is missing.
fn write(
    transaction: &mut Transaction<'_>,
    head: &Position,
    session: SessionId,
    segment: &EncodedSegment<'_>,
    content: &[Attachment],
    needed: &Needed,
) -> Result<Option<Position>, StoreError> {
    let records = commit_group(head.cursor.next_manifest_index, segment.events, segment.bytes);
    let full = || StoreError::Io(too_long(session));
    let group = group_bytes(&records).map_err(|_| full())?;
    if head.cursor.manifest_bytes + group.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(full());
    }
    let next = head.after(&records, &group, segment.events.len() as u64);
    let number = |value: u64| i64::try_from(value).map_err(|_| full());
    let id = session.to_string();
    let kinds: Vec<&str> = content.iter().map(|piece| kind_name(piece.kind())).collect();
    let digests: Vec<Vec<u8>> = content.iter().map(|piece| piece.digest().as_bytes().to_vec()).collect();
    let bytes: Vec<&[u8]> = content.iter().map(Attachment::bytes).collect();
    let fingerprints = fingerprints(segment.events);
    let (needed_kinds, needed_digests) = columns(needed);
    let written = transaction
        .query(
            APPEND,
            &[
                (&id, Type::TEXT),
                (&number(next.cursor.next_event_index.get())?, Type::INT8),
                (&number(next.cursor.next_manifest_index.get())?, Type::INT8),
                (&number(next.cursor.manifest_bytes)?, Type::INT8),
                (&number(next.cursor.anchor_bytes)?, Type::INT8),
                (&next.cursor.anchor.as_bytes().as_slice(), Type::BYTEA),
                (&next.chain.as_bytes().as_slice(), Type::BYTEA),
                (&number(head.cursor.next_event_index.get())?, Type::INT8),
                (&head.chain.as_bytes().as_slice(), Type::BYTEA),
                (&group, Type::BYTEA),
                (&segment.bytes, Type::BYTEA),
                (&kinds, Type::TEXT_ARRAY),
                (&digests, Type::BYTEA_ARRAY),
                (&bytes, Type::BYTEA_ARRAY),
                (&fingerprints, Type::BYTEA_ARRAY),
                (&needed_kinds, Type::TEXT_ARRAY),
                (&needed_digests, Type::BYTEA_ARRAY),
            ],
        )
        .map_err(|failed| failed.of_session(FsOp::Write, session))?;
    let is_written = written.first().is_some_and(|row| row.get(0));
    Ok(is_written.then_some(next))
}

/// Like `write`, for a segment that was already checked, in a log without other writers.
pub(crate) fn write_checked(
    transaction: &mut Transaction<'_>,
    head: &Position,
    session: SessionId,
    segment: &EncodedSegment<'_>,
) -> Result<Position, StoreError> {
    let written = write(transaction, head, session, segment, &[], &Needed::new())?;
    written.ok_or(StoreError::Locked { session })
}

fn too_long(session: SessionId) -> FsError {
    FsError {
        op: FsOp::Write,
        // An id is a plain path.
        path: RelPath::parse(&path_of(session)).unwrap_or_else(RelPath::root),
        kind: FsErrorKind::TooLarge { len: MANIFEST_BYTES_MAX, max: MANIFEST_BYTES_MAX },
        detail: "its manifest is full".to_owned(),
    }
}
