//! Reads sessions: only committed rows, without a lock, in one statement and so from one snapshot (G16).

use std::collections::BTreeMap;

use postgres_types::Type;
use workrail_model::digest::Sha256;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::file_system::{FileStamp, FsOp};
use workrail_ports::session_store::{
    LogStamp, SessionReader, SessionSlice, StampDepth, StampedSession, StoreError,
};

use crate::log::{self, LoadedSegments, Position, ReadRange};
use crate::open::PgStore;
use crate::transaction::Purpose;

pub(crate) fn path_of(session: SessionId) -> String {
    format!("sessions/{session}")
}

impl LoadedSegments {
    pub(crate) fn into_slice(self) -> SessionSlice {
        SessionSlice {
            continues: self.continues,
            cursor: self.position.cursor,
            health: self.health.clone(),
            events: self.into_events(),
        }
    }
}

/// A session's stamp, from its head alone: any append changes the chain.
fn stamp_of(head: &Position) -> LogStamp {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head.chain.as_bytes()[at..at + 8]);
        bytes
    };
    LogStamp {
        bytes: head.cursor.manifest_bytes,
        file: FileStamp { file: u64::from_be_bytes(word(0)), changed_ns: i64::from_be_bytes(word(8)) },
        segments: u64::from_be_bytes(word(16)),
    }
}

pub(crate) const HEADS: &str =
    "SELECT next_event, next_manifest, manifest_bytes, anchor_bytes, anchor, chain, id FROM workrail.session";

impl SessionReader for PgStore {
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let all = self.stamped_sessions(StampDepth::Manifest)?;
        Ok(all.into_iter().map(|stamped| stamped.session).collect())
    }

    fn stamped_sessions(&self, _: StampDepth) -> Result<Vec<StampedSession>, StoreError> {
        let rows = self.in_transaction(Purpose::Reading, |transaction| transaction.query(HEADS, &[]));
        let rows = rows.map_err(|failed| failed.of_store(FsOp::List, "sessions"))?;
        let stamped = rows.iter().filter_map(|row| {
            let session = SessionId::parse(row.get(6)).ok()?;
            Some(StampedSession { session, stamp: log::head_of(row).map(|head| stamp_of(&head)) })
        });
        let mut stamped: Vec<StampedSession> = stamped.collect();
        stamped.sort_by_key(|stamped| stamped.session);
        Ok(stamped)
    }

    fn stamp(&self, session: SessionId) -> Option<LogStamp> {
        let id = session.to_string();
        let one = format!("{HEADS} WHERE id = $1");
        let row = self.in_transaction(Purpose::Reading, |transaction| {
            transaction.query_opt(&one, &[(&id, Type::TEXT)])
        });
        log::head_of(&row.ok()??).map(|head| stamp_of(&head))
    }

    fn stamps(&self, sessions: &[SessionId]) -> Vec<Option<LogStamp>> {
        let ids: Vec<String> = sessions.iter().map(ToString::to_string).collect();
        let some = format!("{HEADS} WHERE id = ANY($1)");
        let rows = self.in_transaction(Purpose::Reading, |transaction| {
            transaction.query(&some, &[(&ids, Type::TEXT_ARRAY)])
        });
        let rows = rows.unwrap_or_default();
        let found: BTreeMap<&str, LogStamp> =
            rows.iter().filter_map(|row| Some((row.get(6), stamp_of(&log::head_of(row)?)))).collect();
        ids.iter().map(|id| found.get(id.as_str()).copied()).collect()
    }

    /// The running and finished transactions: every write changes it, and so do other things.
    fn change_stamp(&self) -> Option<u64> {
        let sql = "SELECT pg_current_snapshot()::text";
        let row =
            self.in_transaction(Purpose::Reading, |transaction| transaction.query_opt(sql, &[])).ok()??;
        let snapshot: String = row.get(0);
        let digest = Sha256::of(snapshot.as_bytes());
        let (word, _) = digest.as_bytes().split_first_chunk::<8>()?;
        Some(u64::from_be_bytes(*word))
    }

    fn read(&self, session: SessionId, since: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
        let loaded = self.in_transaction(Purpose::Reading, |transaction| {
            log::load(transaction, session, since, ReadRange::ToTheEnd)
        });
        let loaded = loaded.map_err(|failed| failed.of_session(FsOp::Read, session))?;
        loaded.map(LoadedSegments::into_slice).ok_or(StoreError::NotFound { session })
    }
}
