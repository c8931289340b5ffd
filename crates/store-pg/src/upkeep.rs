//! Upkeep on request: keeping, removing, sweeping, repairing (G24, G25).
//!
//! Each change is one transaction under the locks that writers take, so a session is either whole or gone, and
//! nothing that a writer is about to refer to is swept.

use postgres_types::Type;
use workrail_model::event::EventIndex;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_model::plan::Attachment;
use workrail_ports::file_system::FsOp;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Diagnosis, Sweep, Swept, Tally, Upkeep, UpkeepError};

use crate::append;
use crate::content::kind_name;
use crate::error::StatementError;
use crate::index;
use crate::log::{self, ReadRange};
use crate::open::PgStore;
use crate::reader::path_of;
use crate::transaction::{Purpose, Transaction};

const KEEP: &str = "UPDATE workrail.session SET is_kept = $2 WHERE id = $1 RETURNING 1";

/// How many rows a removal deletes, and their bytes.
const WEIGH: &str = "SELECT count(g.next_event) + 1, coalesce(sum(octet_length(g.events) + octet_length(g.manifest)), 0)::int8 \
                     FROM workrail.session s LEFT JOIN workrail.segment g ON g.tenant = s.tenant AND g.session = s.id \
                     WHERE s.id = $1 GROUP BY s.id";

/// Deleting the session's row also deletes its segments.
const REMOVE: &str = "
WITH keys AS (DELETE FROM workrail.event_key WHERE session = $1),
     wishes AS (DELETE FROM workrail.wish WHERE session = $1),
     projections AS (DELETE FROM workrail.projection WHERE session = $1)
DELETE FROM workrail.session WHERE id = $1";

const CONTENT_ASIDE: &str = "
INSERT INTO workrail.content_aside (tenant, kind, sha256, number, bytes)
SELECT c.tenant, c.kind, c.sha256,
       (SELECT count(*) + 1 FROM workrail.content_aside a WHERE a.kind = c.kind AND a.sha256 = c.sha256), c.bytes
FROM workrail.content c WHERE c.kind = $1 AND c.sha256 = $2
RETURNING number";

const CONTENT_REPLACED: &str = "
INSERT INTO workrail.content (tenant, kind, sha256, bytes)
VALUES (current_setting('workrail.tenant'), $1, $2, $3)
ON CONFLICT (tenant, kind, sha256) DO UPDATE SET bytes = excluded.bytes";

/// Deletes every row of a session.
pub(crate) fn remove_rows(
    transaction: &mut Transaction<'_>,
    session: SessionId,
) -> Result<(), StatementError> {
    let id = session.to_string();
    for sql in [index::REMOVE_MARK, index::REMOVE, REMOVE] {
        transaction.query(sql, &[(&id, Type::TEXT)])?;
    }
    Ok(())
}

fn weighed(transaction: &mut Transaction<'_>, session: SessionId) -> Result<Option<Tally>, StatementError> {
    let row = transaction.query_opt(WEIGH, &[(&session.to_string(), Type::TEXT)])?;
    let number = |value: i64| value.unsigned_abs();
    Ok(row.map(|row| Tally { files: number(row.get(0)), bytes: number(row.get(1)) }))
}

impl PgStore {
    fn set_kept(&self, session: SessionId, is_kept: bool) -> Result<(), UpkeepError> {
        let mut transaction = self.lock_in_database(session)?;
        let updated = transaction
            .query_opt(KEEP, &[(&session.to_string(), Type::TEXT), (&is_kept, Type::BOOL)])
            .map_err(|failed| failed.of_session(FsOp::Write, session))?;
        updated.ok_or(StoreError::NotFound { session })?;
        Ok(append::commit(transaction, session)?)
    }

    fn remove_one(&self, session: SessionId, judged: Option<&Cursor>) -> Result<Tally, UpkeepError> {
        let failed = |failed: StatementError| failed.of_session(FsOp::Remove, session);
        let mut transaction = self.lock_in_database(session)?;
        let sql = "SELECT is_kept FROM workrail.session WHERE id = $1";
        let row = transaction.query_opt(sql, &[(&session.to_string(), Type::TEXT)]).map_err(failed)?;
        if row.ok_or(StoreError::NotFound { session })?.get(0) {
            return Err(UpkeepError::Kept { session });
        }
        if let Some(judged) = judged {
            let loaded =
                log::load(&mut transaction, session, Some(judged), ReadRange::ToTheEnd).map_err(failed)?;
            let loaded = loaded.ok_or(StoreError::NotFound { session })?;
            if !(loaded.health.is_healthy() && loaded.continues && loaded.position.cursor == *judged) {
                return Err(UpkeepError::Changed { session });
            }
        }
        let freed = weighed(&mut transaction, session).map_err(failed)?.unwrap_or_default();
        remove_rows(&mut transaction, session).map_err(failed)?;
        append::commit(transaction, session)?;
        self.forget(session);
        Ok(freed)
    }
}

impl Upkeep for PgStore {
    fn keep(&self, session: SessionId) -> Result<(), UpkeepError> {
        self.set_kept(session, true)
    }

    fn unkeep(&self, session: SessionId) -> Result<(), UpkeepError> {
        self.set_kept(session, false)
    }

    fn remove_all(&self, sessions: &[(SessionId, Option<Cursor>)]) -> Vec<Result<Tally, UpkeepError>> {
        sessions.iter().map(|(session, judged)| self.remove_one(*session, judged.as_ref())).collect()
    }

    fn weigh(&self, session: SessionId) -> Result<Tally, UpkeepError> {
        let tally = self.in_transaction(Purpose::Reading, |transaction| weighed(transaction, session));
        let tally = tally.map_err(|failed| failed.of_session(FsOp::Read, session))?;
        Ok(tally.ok_or(StoreError::NotFound { session })?)
    }

    fn may_sweep(&self) -> Result<(), UpkeepError> {
        self.without_writers().map(drop)
    }

    /// A database does not lose a single table: without it every query would fail.
    fn has_lost_sessions(&self) -> bool {
        false
    }

    fn sweep(&self, sweep: Sweep<'_>) -> Result<Swept, UpkeepError> {
        match sweep {
            Sweep::DryRun { without } => self.would_sweep(without),
            Sweep::Real => self.sweep_for_real(),
        }
    }

    fn diagnose(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        self.diagnose_session(session, trusted_until)
    }

    fn replace_content(&self, content: &Attachment) -> Result<Option<String>, UpkeepError> {
        let (kind, digest) = (kind_name(content.kind()), content.digest());
        let (key, bytes) = (digest.as_bytes().as_slice(), content.bytes());
        let aside = self.in_transaction(Purpose::Writing, |transaction| {
            let aside = transaction.query_opt(CONTENT_ASIDE, &[(&kind, Type::TEXT), (&key, Type::BYTEA)])?;
            transaction.query(
                CONTENT_REPLACED,
                &[(&kind, Type::TEXT), (&key, Type::BYTEA), (&bytes, Type::BYTEA)],
            )?;
            Ok(aside.map(|row| row.get::<_, i64>(0)))
        });
        let path = format!("content/{kind}/{}", digest.hex());
        let number = aside.map_err(|failed| failed.at(FsOp::Write, &path))?;
        Ok(number.map(|number| format!("workrail.content_aside, number {number} of {kind} {}", digest.hex())))
    }

    fn repair(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        self.repair_session(session, trusted_until)
    }
}

/// Where a repair moves the rows of a session.
pub(crate) fn aside_path(session: SessionId, number: i64) -> String {
    format!("workrail.segment_aside, number {number} of {}", path_of(session))
}
