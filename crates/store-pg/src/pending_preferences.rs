//! Pending preferences: one row per run in the table `workrail.wish`, next to the log and never part of it (G64).
//!
//! The table is called `wish`. A better name would need a migration, and then older versions refuse the database.

use std::collections::BTreeMap;

use postgres_types::Type;
use tokio_postgres::Row;
use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::PendingPreferences;
use workrail_ports::file_system::{FsError, FsOp};
use workrail_ports::pending_preferences::{PendingPreferencesReader, PendingPreferencesStore};

use crate::connection::Parameter;
use crate::open::PgStore;
use crate::transaction::Purpose;

fn path_of(session: SessionId) -> String {
    format!("sessions/{session}/preferences")
}

const GET_PENDING: &str = "SELECT run, preferences, proof FROM workrail.wish WHERE session = $1 AND run = $2";

const SET_PENDING: &str = "INSERT INTO workrail.wish (tenant, session, run, preferences, proof) \
                    VALUES (current_setting('workrail.tenant'), $1, $2, $3, $4) \
                    ON CONFLICT (tenant, session, run) \
                    DO UPDATE SET preferences = excluded.preferences, proof = excluded.proof";

/// Locked, so that a request that is made meanwhile is not the one that is cleared.
const LOCK_PENDING: &str =
    "SELECT run, preferences, proof FROM workrail.wish WHERE session = $1 AND run = $2 FOR UPDATE";

const CLEAR_PENDING: &str = "DELETE FROM workrail.wish WHERE session = $1 AND run = $2";

/// Reads the columns `run, preferences, proof`. A row with an unreadable proof is ignored.
fn pending_of(row: &Row) -> Option<(RunId, PendingPreferences)> {
    let run = RunId::parse(row.get(0)).ok()?;
    let preferences = serde_json::from_slice(row.get(1)).ok()?;
    let proof = row.get::<_, Option<&[u8]>>(2).map(serde_json::from_slice).transpose().ok()?;
    Some((run, PendingPreferences { preferences, proof }))
}

/// The columns `preferences, proof`.
fn columns_of(pending: &PendingPreferences) -> (Vec<u8>, Option<Vec<u8>>) {
    let preferences = serde_json::to_vec(&pending.preferences).expect("closed sets always serialise");
    let proof = pending.proof.as_ref().map(|proof| {
        serde_json::to_vec(proof).expect("numbers, texts, ids and closed sets always serialise")
    });
    (preferences, proof)
}

impl PendingPreferencesReader for PgStore {
    fn pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<PendingPreferences>, FsError> {
        let (id, run) = (session.to_string(), run.to_string());
        let row = self.in_transaction(Purpose::Reading, |transaction| {
            transaction.query_opt(GET_PENDING, &[(&id, Type::TEXT), (&run, Type::TEXT)])
        });
        let row = row.map_err(|failed| failed.at(FsOp::Read, &path_of(session)))?;
        Ok(row.as_ref().and_then(pending_of).map(|(_, pending)| pending))
    }

    fn has_unreadable_pending_preferences(&self, session: SessionId, is_run: &dyn Fn(RunId) -> bool) -> bool {
        let id = session.to_string();
        let sql = "SELECT run, preferences, proof FROM workrail.wish WHERE session = $1";
        let rows =
            self.in_transaction(Purpose::Reading, |transaction| transaction.query(sql, &[(&id, Type::TEXT)]));
        let Ok(rows) = rows else { return true };
        !rows.iter().all(|row| pending_of(row).is_some_and(|(run, _)| is_run(run)))
    }
}

impl PendingPreferencesStore for PgStore {
    fn set_pending_preferences(
        &self,
        session: SessionId,
        pending: &BTreeMap<RunId, PendingPreferences>,
    ) -> Result<(), FsError> {
        let id = session.to_string();
        let written = self.in_transaction(Purpose::Writing, |transaction| {
            for (run, pending) in pending {
                let (run, (preferences, proof)) = (run.to_string(), columns_of(pending));
                let values: [Parameter<'_>; 4] = [
                    (&id, Type::TEXT),
                    (&run, Type::TEXT),
                    (&preferences, Type::BYTEA),
                    (&proof, Type::BYTEA),
                ];
                transaction.query(SET_PENDING, &values)?;
            }
            Ok(())
        });
        written.map_err(|failed| failed.at(FsOp::Write, &path_of(session)))
    }

    fn clear_pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
        applied: &PendingPreferences,
    ) -> Result<(), FsError> {
        let (id, run) = (session.to_string(), run.to_string());
        let key: [Parameter<'_>; 2] = [(&id, Type::TEXT), (&run, Type::TEXT)];
        let cleared = self.in_transaction(Purpose::Writing, |transaction| {
            let row = transaction.query_opt(LOCK_PENDING, &key)?;
            // By value: another version may write the same request with other bytes.
            if row.as_ref().and_then(pending_of).is_some_and(|(_, pending)| pending == *applied) {
                transaction.query(CLEAR_PENDING, &key)?;
            }
            Ok(())
        });
        cleared.map_err(|failed| failed.at(FsOp::Remove, &path_of(session)))
    }
}
