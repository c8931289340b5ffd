//! Folded states, a cache shared by a tenant's servers (G18). Written without waiting for the disk.

use postgres_types::Type;
use workrail_model::id::SessionId;
use workrail_model::limits::CACHE_BYTES_MAX;
use workrail_model::manifest::Cursor;
use workrail_ports::cache::{CachedProjection, ProjectionCache};
use workrail_ports::file_system::{FsError, FsOp};

use crate::open::PgStore;
use crate::transaction::Purpose;

fn path_of(session: SessionId) -> String {
    format!("sessions/{session}/projection")
}

/// Never replaces a newer state by an older one: the session's lock ended with its append.
const PUT: &str = "INSERT INTO workrail.projection (tenant, session, version, next_event, cursor, state) \
                   VALUES (current_setting('workrail.tenant'), $1, $2, $3, $4, $5) \
                   ON CONFLICT (tenant, session) DO UPDATE SET version = excluded.version, \
                   next_event = excluded.next_event, cursor = excluded.cursor, state = excluded.state \
                   WHERE projection.version <> excluded.version OR projection.next_event <= excluded.next_event";

impl ProjectionCache for PgStore {
    fn get(&self, session: SessionId, version: u32) -> Option<CachedProjection> {
        let (id, wanted) = (session.to_string(), i64::from(version));
        let sql = "SELECT cursor, state FROM workrail.projection WHERE session = $1 AND version = $2";
        let row = self.in_transaction(Purpose::Reading, |transaction| {
            transaction.query_opt(sql, &[(&id, Type::TEXT), (&wanted, Type::INT8)])
        });
        let row = row.ok()??;
        Some(CachedProjection {
            version,
            cursor: serde_json::from_slice(row.get(0)).ok()?,
            state: row.get(1),
        })
    }

    fn put(&self, session: SessionId, projection: &CachedProjection) -> Result<(), FsError> {
        if projection.state.len() as u64 > CACHE_BYTES_MAX {
            return Ok(());
        }
        let (id, version) = (session.to_string(), i64::from(projection.version));
        let next = i64::try_from(projection.cursor.next_event_index.get()).unwrap_or(i64::MAX);
        let cursor = cursor_bytes(&projection.cursor);
        let put = self.in_transaction(Purpose::WritingLoosely, |transaction| {
            transaction.query(
                PUT,
                &[
                    (&id, Type::TEXT),
                    (&version, Type::INT8),
                    (&next, Type::INT8),
                    (&cursor, Type::BYTEA),
                    (&projection.state, Type::BYTEA),
                ],
            )
        });
        put.map(|_| ()).map_err(|failed| failed.at(FsOp::Write, &path_of(session)))
    }

    fn invalidate(&self, session: SessionId) -> Result<(), FsError> {
        let id = session.to_string();
        let sql = "DELETE FROM workrail.projection WHERE session = $1";
        let gone = self.in_transaction(Purpose::WritingLoosely, |transaction| {
            transaction.query(sql, &[(&id, Type::TEXT)])
        });
        gone.map(|_| ()).map_err(|failed| failed.at(FsOp::Remove, &path_of(session)))
    }
}

pub(crate) fn cursor_bytes(cursor: &Cursor) -> Vec<u8> {
    serde_json::to_vec(cursor).expect("numbers and a digest always serialise")
}
