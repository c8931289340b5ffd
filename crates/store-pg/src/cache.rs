//! What is kept only to save time, shared by all servers of a tenant (G18). Written without waiting for the disk.

use postgres_types::Type;
use tokio_postgres::Row;
use workrail_model::id::SessionId;
use workrail_model::limits::CACHE_BYTES_MAX;
use workrail_model::manifest::Cursor;
use workrail_ports::cache::{CachedProjection, IfAbsent, IndexRecord, ProjectionCache, SessionIndex};
use workrail_ports::file_system::{FileStamp, FsError, FsOp};
use workrail_ports::session_store::LogStamp;

use crate::open::PgStore;
use crate::transaction::Purpose;

fn place(session: SessionId) -> String {
    format!("sessions/{session}/projection")
}

/// Never an older state over a newer one: the lock of the session ended with its append.
const PUT: &str = "INSERT INTO workrail.projection (tenant, session, version, next_event, cursor, state) \
                   VALUES (current_setting('workrail.tenant'), $1, $2, $3, $4, $5) \
                   ON CONFLICT (tenant, session) DO UPDATE SET version = excluded.version, \
                   next_event = excluded.next_event, cursor = excluded.cursor, state = excluded.state \
                   WHERE projection.version <> excluded.version OR projection.next_event <= excluded.next_event";

const ADD: &str = "INSERT INTO workrail.session_summary (tenant, version, session, stamp, cursor, summary) \
                   SELECT current_setting('workrail.tenant'), $1, r.session, r.stamp, r.cursor, r.summary \
                   FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bytea[]) AS r (session, stamp, cursor, summary) \
                   ORDER BY r.session \
                   ON CONFLICT (tenant, version, session) DO UPDATE SET stamp = excluded.stamp, \
                   cursor = excluded.cursor, summary = excluded.summary";

impl ProjectionCache for PgStore {
    fn get(&self, session: SessionId, version: u32) -> Option<CachedProjection> {
        let (id, wanted) = (session.to_string(), i64::from(version));
        let sql = "SELECT cursor, state FROM workrail.projection WHERE session = $1 AND version = $2";
        let row = self.within(Purpose::Reading, |transaction| {
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
        let put = self.within(Purpose::WritingLoosely, |transaction| {
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
        put.map(|_| ()).map_err(|failed| failed.at(FsOp::Write, &place(session)))
    }

    fn invalidate(&self, session: SessionId) -> Result<(), FsError> {
        let id = session.to_string();
        let sql = "DELETE FROM workrail.projection WHERE session = $1";
        let gone =
            self.within(Purpose::WritingLoosely, |transaction| transaction.query(sql, &[(&id, Type::TEXT)]));
        gone.map(|_| ()).map_err(|failed| failed.at(FsOp::Remove, &place(session)))
    }
}

impl SessionIndex for PgStore {
    fn index_records(&self, version: u32, is_present: &dyn Fn(SessionId) -> bool) -> Vec<IndexRecord> {
        let version = i64::from(version);
        let sql = "SELECT session, stamp, cursor, summary FROM workrail.session_summary WHERE version = $1";
        let rows =
            self.within(Purpose::Reading, |transaction| transaction.query(sql, &[(&version, Type::INT8)]));
        let records = rows.unwrap_or_default().into_iter().filter_map(|row| record_of(&row));
        records.filter(|record| is_present(record.session)).collect()
    }

    fn add_to_index(&self, version: u32, records: &[IndexRecord], _: IfAbsent) {
        let version = i64::from(version);
        // One statement may write a row only once; the last record of a session wins.
        let newest: std::collections::BTreeMap<SessionId, &IndexRecord> =
            records.iter().map(|record| (record.session, record)).collect();
        let sessions: Vec<String> = newest.keys().map(ToString::to_string).collect();
        let stamps: Vec<Vec<u8>> =
            newest.values().map(|record| stamp_bytes(&record.stamp).to_vec()).collect();
        let cursors: Vec<Vec<u8>> = newest.values().map(|record| cursor_bytes(&record.cursor)).collect();
        let summaries: Vec<&[u8]> = newest.values().map(|record| &*record.summary).collect();
        // What could not be written costs time only.
        let _ = self.within(Purpose::WritingLoosely, |transaction| {
            transaction.query(
                ADD,
                &[
                    (&version, Type::INT8),
                    (&sessions, Type::TEXT_ARRAY),
                    (&stamps, Type::BYTEA_ARRAY),
                    (&cursors, Type::BYTEA_ARRAY),
                    (&summaries, Type::BYTEA_ARRAY),
                ],
            )
        });
    }
}

fn cursor_bytes(cursor: &Cursor) -> Vec<u8> {
    // Numbers and a digest always serialise.
    serde_json::to_vec(cursor).expect("plain struct")
}

/// The four words of a stamp.
fn stamp_bytes(stamp: &LogStamp) -> [u8; 32] {
    let words = [stamp.bytes, stamp.file.file, stamp.file.changed_ns.cast_unsigned(), stamp.segments];
    let mut bytes = [0; 32];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

fn stamp_of(bytes: &[u8]) -> Option<LogStamp> {
    let ([a, b, c, d], []) = bytes.as_chunks::<8>() else { return None };
    let file = FileStamp { file: u64::from_be_bytes(*b), changed_ns: i64::from_be_bytes(*c) };
    Some(LogStamp { bytes: u64::from_be_bytes(*a), file, segments: u64::from_be_bytes(*d) })
}

fn record_of(row: &Row) -> Option<IndexRecord> {
    Some(IndexRecord {
        session: SessionId::parse(row.get(0)).ok()?,
        stamp: stamp_of(row.get(1))?,
        cursor: serde_json::from_slice(row.get(2)).ok()?,
        summary: row.get(3),
    })
}
