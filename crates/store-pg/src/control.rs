//! What a person asked of a run: a row beside the log, never truth (G64).

use postgres::types::Type;
use workrail_model::id::{RunId, SessionId};
use workrail_model::preferences::Preferences;
use workrail_ports::control::{SessionControl, WishReader};
use workrail_ports::file_system::{FsError, FsOp};

use crate::open::PgStore;
use crate::transaction::Purpose;

fn place(session: SessionId) -> String {
    format!("sessions/{session}/wishes")
}

const WISH: &str = "INSERT INTO workrail.wish (tenant, session, run, preferences) \
                    VALUES (current_setting('workrail.tenant'), $1, $2, $3) \
                    ON CONFLICT (tenant, session, run) DO UPDATE SET preferences = excluded.preferences";

impl WishReader for PgStore {
    fn wished_preferences(&self, session: SessionId, run: RunId) -> Result<Option<Preferences>, FsError> {
        let (id, run) = (session.to_string(), run.to_string());
        let sql = "SELECT preferences FROM workrail.wish WHERE session = $1 AND run = $2";
        let row = self.within(Purpose::Reading, |transaction| {
            transaction.query_opt(sql, &[(&id, Type::TEXT), (&run, Type::TEXT)])
        });
        let row = row.map_err(|failed| failed.at(FsOp::Read, &place(session)))?;
        Ok(row.and_then(|row| serde_json::from_slice(row.get(0)).ok()))
    }

    fn has_unreadable_wishes(&self, session: SessionId, is_run: &dyn Fn(RunId) -> bool) -> bool {
        let id = session.to_string();
        let sql = "SELECT run, preferences FROM workrail.wish WHERE session = $1";
        let rows = self.within(Purpose::Reading, |transaction| transaction.query(sql, &[(&id, Type::TEXT)]));
        let Ok(rows) = rows else { return true };
        !rows.iter().all(|row| {
            RunId::parse(row.get(0)).is_ok_and(is_run)
                && serde_json::from_slice::<Preferences>(row.get(1)).is_ok()
        })
    }
}

impl SessionControl for PgStore {
    fn wish_preferences(
        &self,
        session: SessionId,
        run: RunId,
        preferences: Preferences,
    ) -> Result<(), FsError> {
        let (id, run) = (session.to_string(), run.to_string());
        // Closed sets always serialise.
        let bytes = serde_json::to_vec(&preferences).expect("plain struct");
        let wished = self.within(Purpose::Writing, |transaction| {
            transaction.query(WISH, &[(&id, Type::TEXT), (&run, Type::TEXT), (&bytes, Type::BYTEA)])
        });
        wished.map(|_| ()).map_err(|failed| failed.at(FsOp::Write, &place(session)))
    }

    fn forget_wish(&self, session: SessionId, run: RunId) -> Result<(), FsError> {
        let (id, run) = (session.to_string(), run.to_string());
        let sql = "DELETE FROM workrail.wish WHERE session = $1 AND run = $2";
        let forgotten = self.within(Purpose::Writing, |transaction| {
            transaction.query(sql, &[(&id, Type::TEXT), (&run, Type::TEXT)])
        });
        forgotten.map(|_| ()).map_err(|failed| failed.at(FsOp::Remove, &place(session)))
    }
}
