//! Exports and imports sessions: raw records out, one transaction in (G80).

use std::fmt;
use std::ops::ControlFlow;

use postgres_types::Type;
use workrail_model::digest::Sha256;
use workrail_model::event::Activity;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::manifest::{Cursor, commit_group, group_bytes};
use workrail_model::plan::{Attachment, AttachmentKind, RawSegment};
use workrail_ports::archive::{Archived, SessionArchive, SessionImport, StagedSession, check_continues};
use workrail_ports::content::ContentError;
use workrail_ports::file_system::FsOp;
use workrail_ports::session_store::StoreError;

use crate::append::{self, EncodedSegment};
use crate::content::kind_name;
use crate::error::StatementError;
use crate::log::{self, Position, ReadRange};
use crate::open::PgStore;
use crate::transaction::{Purpose, Transaction};

/// How many segments are in memory at once.
const AT_ONCE: i64 = 64;

impl SessionArchive for PgStore {
    fn segments(
        &self,
        session: SessionId,
        until: Option<&Cursor>,
        visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
    ) -> Result<Archived, StoreError> {
        let mut shown = Cursor::start();
        loop {
            // One transaction per batch: a log only grows, so later batches are consistent with earlier ones.
            let loaded = self.in_transaction(Purpose::Reading, |transaction| {
                log::load(transaction, session, Some(&shown), ReadRange::Segments(AT_ONCE))
            });
            let loaded = loaded.map_err(|failed| failed.of_session(FsOp::Read, session))?;
            let loaded = loaded.ok_or(StoreError::NotFound { session })?;
            if !loaded.continues {
                // Removed and imported again during the read.
                return Err(StoreError::Locked { session });
            }
            let (health, is_end) = (loaded.health, loaded.segments.is_empty());
            for segment in loaded.segments {
                if until.is_some_and(|until| shown.next_event_index >= until.next_event_index) {
                    return Ok(Archived { cursor: shown, health: SessionHealth::Healthy });
                }
                shown = cursor_after(&shown, &segment);
                if visit(segment).is_break() {
                    return Ok(Archived { cursor: shown, health: SessionHealth::Healthy });
                }
            }
            if is_end || !health.is_healthy() {
                return Ok(Archived { cursor: shown, health });
            }
        }
    }

    fn content(&self, kind: AttachmentKind, digest: Sha256) -> Result<Vec<u8>, ContentError> {
        self.content_bytes(kind, digest)
    }
}

/// The cursor after a validated segment.
fn cursor_after(cursor: &Cursor, segment: &RawSegment) -> Cursor {
    let records = commit_group(cursor.next_manifest_index, segment.events(), segment.bytes());
    // Validated: the same records were just computed from the same bytes.
    let group = group_bytes(&records).unwrap_or_default();
    cursor.after(&records, &group, segment.events().len() as u64)
}

/// A session being imported, in an open transaction. If dropped before it is published, it is rolled back.
pub struct StagedPgImport<'a> {
    session: SessionId,
    transaction: Transaction<'a>,
    head: Position,
}

impl fmt::Debug for StagedPgImport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedPgImport").field("session", &self.session).finish_non_exhaustive()
    }
}

impl StagedSession for StagedPgImport<'_> {
    fn content(&mut self, attachment: &Attachment) -> Result<(), StoreError> {
        let (kind, digest) = (kind_name(attachment.kind()), attachment.digest());
        let sql = "INSERT INTO workrail.content (tenant, kind, sha256, bytes) \
                   VALUES (current_setting('workrail.tenant'), $1, $2, $3) ON CONFLICT DO NOTHING";
        let (digest, bytes) = (digest.as_bytes().as_slice(), attachment.bytes());
        self.transaction
            .query(sql, &[(&kind, Type::TEXT), (&digest, Type::BYTEA), (&bytes, Type::BYTEA)])
            .map_err(|failed| failed.of_session(FsOp::Write, self.session))?;
        Ok(())
    }

    fn segment(&mut self, segment: &RawSegment) -> Result<(), StoreError> {
        if segment.events().is_empty() {
            return Ok(());
        }
        check_continues(segment, self.session, self.head.cursor.next_event_index)?;
        let raw = EncodedSegment { events: segment.events(), bytes: segment.bytes() };
        self.head = append::write_checked(&mut self.transaction, &self.head, self.session, &raw)?;
        Ok(())
    }

    fn publish(self) -> Result<(), StoreError> {
        append::commit(self.transaction, self.session)
    }
}

fn exists(transaction: &mut Transaction<'_>, session: SessionId) -> Result<bool, StatementError> {
    let (id, sql) = (session.to_string(), "SELECT 1 FROM workrail.session WHERE id = $1");
    transaction.query_opt(sql, &[(&id, Type::TEXT)]).map(|row| row.is_some())
}

impl SessionImport for PgStore {
    type Staged<'a> = StagedPgImport<'a>;

    fn is_taken(&self, session: SessionId) -> Result<bool, StoreError> {
        self.in_transaction(Purpose::Reading, |transaction| exists(transaction, session))
            .map_err(|failed| failed.of_session(FsOp::Read, session))
    }

    fn stage(&self, session: SessionId) -> Result<StagedPgImport<'_>, StoreError> {
        let mut transaction = self.lock_in_database(session)?;
        // In the same transaction: who holds a session waits for no second connection (G102).
        if exists(&mut transaction, session).map_err(|failed| failed.of_session(FsOp::Read, session))? {
            return Err(StoreError::AlreadyExists { session });
        }
        Ok(StagedPgImport { session, transaction, head: Position::start() })
    }

    fn newest_activity(&self) -> Result<Activity, StoreError> {
        self.counted_so_far()
    }

    fn raise_activity(&self, at_least: Activity) -> Result<(), StoreError> {
        self.raise_counter(at_least)
    }
}
