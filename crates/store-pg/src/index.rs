//! The index of sessions, queried by keys and by order (G127). Written without waiting for the disk.
//!
//! A trigger marks every session whose log moved. The server that summarises it holds that mark locked, so that two
//! servers never index a session at once, and removes it if the summary covers the newest log.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use postgres_types::Type;
use tokio_postgres::Row;
use workrail_model::event::Activity;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::cache::{Count, IfAbsent, IndexAnswer, IndexKeys, IndexQuery, IndexRecord, SessionIndex};
use workrail_ports::file_system::FileStamp;
use workrail_ports::session_store::LogStamp;

use crate::cache::cursor_bytes;
use crate::error::StatementError;
use crate::open::PgStore;
use crate::transaction::{Purpose, Transaction};

/// Counting more runs than this would dominate the time of an answer.
const RUNS_COUNTED_ALWAYS: u64 = 10_000;
/// Above that limit, the counts may be this old.
const COUNT_AGE_MAX: Duration = Duration::from_secs(60);

/// The counts, and when they were taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedCounts {
    sessions: u64,
    runs: u64,
    at: Instant,
}

/// At most this many sessions are considered for each term.
const SESSIONS_PER_TERM_MAX: i64 = 128;

/// The marks of those sessions that no other server is indexing; none if the index has another version.
const TAKE_MARKS: &str = "
SELECT session FROM workrail.unindexed
WHERE session = ANY($1) AND EXISTS (SELECT FROM workrail.index_version WHERE version = $2)
ORDER BY session FOR UPDATE SKIP LOCKED";

/// Writes summaries, runs and changed terms. A mark is removed if the summary covers the newest log: after its first
/// word, a stamp holds the beginning of the chain.
const INDEX: &str = "
WITH given AS (
    SELECT r.session, r.stamp, r.cursor, r.summary, r.runs
    FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bytea[], $6::int8[])
        AS r (session, stamp, cursor, summary, runs)
), key AS (
    SELECT k.session, k.term FROM unnest($7::text[], $8::int8[]) AS k (session, term)
), old AS (
    SELECT s.session, t.term FROM workrail.session_summary s, unnest(s.terms) AS t (term)
    WHERE s.version = $1 AND s.session = ANY($2)
), no_longer AS (
    DELETE FROM workrail.indexed_term i USING (SELECT * FROM old EXCEPT SELECT * FROM key) AS o
    WHERE i.term = o.term AND i.session = o.session
), terms AS (
    INSERT INTO workrail.indexed_term (tenant, term, session)
    SELECT current_setting('workrail.tenant'), n.term, n.session
    FROM (SELECT * FROM key EXCEPT SELECT * FROM old) AS n
    ON CONFLICT DO NOTHING
), fewer AS (
    DELETE FROM workrail.indexed_run i USING given g WHERE i.session = g.session AND i.number >= g.runs
), runs AS (
    INSERT INTO workrail.indexed_run (tenant, session, number, stage, activity)
    SELECT current_setting('workrail.tenant'), r.session, r.number, r.stage, r.activity
    FROM unnest($9::text[], $10::int8[], $11::int8[], $12::int8[]) AS r (session, number, stage, activity)
    ON CONFLICT (tenant, session, number) DO UPDATE SET stage = excluded.stage, activity = excluded.activity
), marks AS (
    DELETE FROM workrail.unindexed u USING given g
    WHERE u.session = g.session AND substring(u.chain FROM 1 FOR 24) = substring(g.stamp FROM 9 FOR 24)
)
INSERT INTO workrail.session_summary (tenant, version, session, stamp, cursor, summary, terms)
SELECT current_setting('workrail.tenant'), $1, g.session, g.stamp, g.cursor, g.summary, coalesce(k.terms, '{}')
FROM given g LEFT JOIN (SELECT session, array_agg(term) AS terms FROM key GROUP BY session) k ON k.session = g.session
ON CONFLICT (tenant, version, session) DO UPDATE SET stamp = excluded.stamp, cursor = excluded.cursor,
    summary = excluded.summary, terms = excluded.terms";

/// For a server whose summaries have another version than the index: it reads everything, as if there were no index.
const ADD: &str = "
INSERT INTO workrail.session_summary (tenant, version, session, stamp, cursor, summary)
SELECT current_setting('workrail.tenant'), $1, r.session, r.stamp, r.cursor, r.summary
FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bytea[]) AS r (session, stamp, cursor, summary)
WHERE NOT EXISTS (SELECT FROM workrail.index_version WHERE version = $1)
ORDER BY r.session
ON CONFLICT (tenant, version, session) DO UPDATE SET stamp = excluded.stamp, cursor = excluded.cursor,
    summary = excluded.summary";

/// The index holds older summaries than ours: everything is indexed again.
const RAISE: &str = "
INSERT INTO workrail.index_version (tenant, version) VALUES (current_setting('workrail.tenant'), $1)
ON CONFLICT (tenant) DO UPDATE SET version = excluded.version WHERE index_version.version < excluded.version
RETURNING 1";
const MARK_ALL: &str = "
INSERT INTO workrail.unindexed (tenant, session, chain) SELECT tenant, id, chain FROM workrail.session
ON CONFLICT DO NOTHING";
const CLEAR: &str = "
DELETE FROM workrail.indexed_run; DELETE FROM workrail.indexed_term; UPDATE workrail.session_summary SET terms = '{}'";

const COUNTS: &str = "
SELECT (SELECT count(*) FROM workrail.session), (SELECT count(*) FROM workrail.indexed_run)";

/// Outside an index, the tenant's rule is evaluated for every row that is counted, which takes twice as long.
const COUNT_BY_INDEX: &str = "SET LOCAL enable_seqscan = off";

/// The version with the sessions that are not indexed: one statement sees both at one moment.
const UNINDEXED: &str = "
SELECT v.version, u.session FROM (SELECT (SELECT version FROM workrail.index_version) AS version) v
LEFT JOIN workrail.unindexed u ON true ORDER BY u.session";

const NEWEST: &str = "
SELECT r.session FROM unnest($1::int8[], $2::int8[]) AS w (stage, most),
LATERAL (SELECT session FROM workrail.indexed_run WHERE stage = w.stage ORDER BY activity DESC, session LIMIT w.most) r";

const HOLDING: &str = "
SELECT w.term, t.session FROM unnest($1::int8[]) AS w (term),
LATERAL (SELECT session FROM workrail.indexed_term WHERE term = w.term LIMIT $2) t";

/// For terms that each occur in many sessions, the sessions that hold most of them.
const HOLDING_MOST: &str = "
SELECT session FROM workrail.indexed_term WHERE term = ANY($1)
GROUP BY session ORDER BY count(*) DESC, session LIMIT $2";

/// The version again, in the first column: a newer server that raised it meanwhile has also cleared the index.
const RECORDS: &str = "
SELECT v.version, s.session, s.stamp, s.cursor, s.summary
FROM (SELECT (SELECT version FROM workrail.index_version) AS version) v
LEFT JOIN workrail.session_summary s ON s.version = $1 AND s.session = ANY($2)";

/// The mark goes first, alone: no server indexes without it.
pub(crate) const REMOVE_MARK: &str = "DELETE FROM workrail.unindexed WHERE session = $1";
pub(crate) const REMOVE: &str = "
WITH terms AS (
    DELETE FROM workrail.indexed_term i
    USING (SELECT unnest(terms) AS term FROM workrail.session_summary WHERE session = $1) AS o
    WHERE i.term = o.term AND i.session = $1
), runs AS (DELETE FROM workrail.indexed_run WHERE session = $1)
DELETE FROM workrail.session_summary WHERE session = $1";

impl SessionIndex for PgStore {
    fn index_records(&self, version: u32, is_present: &dyn Fn(SessionId) -> bool) -> Vec<IndexRecord> {
        let version = i64::from(version);
        let sql = "SELECT session, stamp, cursor, summary FROM workrail.session_summary WHERE version = $1";
        let rows = self.in_transaction(Purpose::Reading, |transaction| {
            transaction.query(sql, &[(&version, Type::INT8)])
        });
        let records = rows.unwrap_or_default().into_iter().filter_map(|row| record_of(&row));
        records.filter(|record| is_present(record.session)).collect()
    }

    fn add_to_index(&self, version: u32, records: &[IndexRecord], _: IfAbsent) {
        // One statement may write a row only once; the last record of a session wins.
        let newest: BTreeMap<SessionId, &IndexRecord> =
            records.iter().map(|record| (record.session, record)).collect();
        if newest.is_empty() {
            return;
        }
        // A failed write only costs time.
        let _ = self.in_transaction(Purpose::WritingLoosely, |transaction| add(transaction, version, newest));
    }

    fn query_index(&self, version: u32, query: &IndexQuery) -> Option<IndexAnswer> {
        match self.ask_once(version, query)? {
            IndexReading::Answer(answer) => Some(answer),
            IndexReading::Newer => None,
            IndexReading::Older => {
                self.in_transaction(Purpose::WritingLoosely, |transaction| raise(transaction, version))
                    .ok()?;
                match self.ask_once(version, query)? {
                    IndexReading::Answer(answer) => Some(answer),
                    IndexReading::Newer | IndexReading::Older => None,
                }
            }
        }
    }
}

impl PgStore {
    fn ask_once(&self, version: u32, query: &IndexQuery) -> Option<IndexReading> {
        let mut known =
            self.counted.lock().unwrap_or_else(PoisonError::into_inner).filter(CachedCounts::may_be_reused);
        let asked =
            self.in_transaction(Purpose::Reading, |transaction| ask(transaction, version, query, &mut known));
        let asked = asked.ok()?;
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Some(asked)
    }
}

impl CachedCounts {
    fn may_be_reused(&self) -> bool {
        self.runs > RUNS_COUNTED_ALWAYS && self.at.elapsed() < COUNT_AGE_MAX
    }
}

fn add(
    transaction: &mut Transaction<'_>,
    version: u32,
    mut newest: BTreeMap<SessionId, &IndexRecord>,
) -> Result<(), StatementError> {
    let version = i64::from(version);
    let sessions: Vec<String> = newest.keys().map(ToString::to_string).collect();
    let marked = transaction.query(TAKE_MARKS, &[(&sessions, Type::TEXT_ARRAY), (&version, Type::INT8)])?;
    let marked: BTreeSet<SessionId> =
        marked.iter().filter_map(|row| SessionId::parse(row.get(0)).ok()).collect();
    let is_indexed = !marked.is_empty();
    if is_indexed {
        newest.retain(|session, _| marked.contains(session));
    }
    let sessions: Vec<String> = newest.keys().map(ToString::to_string).collect();
    let stamps: Vec<Vec<u8>> = newest.values().map(|record| stamp_bytes(&record.stamp).to_vec()).collect();
    let cursors: Vec<Vec<u8>> = newest.values().map(|record| cursor_bytes(&record.cursor)).collect();
    let summaries: Vec<&[u8]> = newest.values().map(|record| &*record.summary).collect();
    let record = [
        (&version as _, Type::INT8),
        (&sessions as _, Type::TEXT_ARRAY),
        (&stamps as _, Type::BYTEA_ARRAY),
        (&cursors as _, Type::BYTEA_ARRAY),
        (&summaries as _, Type::BYTEA_ARRAY),
    ];
    if !is_indexed {
        return transaction.query(ADD, &record).map(drop);
    }
    let keyed = newest.values().zip(&sessions);
    let counts: Vec<i64> = newest.values().map(|record| record.keys.runs.len() as i64).collect();
    let terms =
        keyed.clone().flat_map(|(record, session)| record.keys.terms.iter().map(move |term| (session, term)));
    let (term_sessions, terms): (Vec<&str>, Vec<i64>) =
        terms.map(|(session, term)| (session.as_str(), term.cast_signed())).unzip();
    let runs: Vec<_> = keyed
        .flat_map(|(record, session)| {
            (0_i64..).zip(&record.keys.runs).map(move |run| (session.as_str(), run))
        })
        .collect();
    let run_sessions: Vec<&str> = runs.iter().map(|(session, _)| *session).collect();
    let numbers: Vec<i64> = runs.iter().map(|(_, (number, _))| *number).collect();
    let stages: Vec<i64> = runs.iter().map(|(_, (_, run))| i64::from(run.stage)).collect();
    let activities: Vec<i64> = runs.iter().map(|(_, (_, run))| recency(run.activity)).collect();
    let keys = [
        (&counts as _, Type::INT8_ARRAY),
        (&term_sessions as _, Type::TEXT_ARRAY),
        (&terms as _, Type::INT8_ARRAY),
        (&run_sessions as _, Type::TEXT_ARRAY),
        (&numbers as _, Type::INT8_ARRAY),
        (&stages as _, Type::INT8_ARRAY),
        (&activities as _, Type::INT8_ARRAY),
    ];
    transaction.query(INDEX, &[&record[..], &keys[..]].concat()).map(drop)
}

/// Sessions without activity come last.
fn recency(activity: Option<Activity>) -> i64 {
    activity.map_or(-1, |activity| i64::try_from(activity.get()).unwrap_or(i64::MAX))
}

enum IndexReading {
    Answer(IndexAnswer),
    /// The index has an older version, or does not exist.
    Older,
    Newer,
}

fn ask(
    transaction: &mut Transaction<'_>,
    version: u32,
    query: &IndexQuery,
    known: &mut Option<CachedCounts>,
) -> Result<IndexReading, StatementError> {
    // Must come first: a session without a mark now is in the index that is read next. Every statement sees what was
    // committed before it.
    let own = i64::from(version);
    let rows = transaction.query(UNINDEXED, &[])?;
    match version_of(&rows).map(|found| found.cmp(&own)) {
        None | Some(Ordering::Less) => return Ok(IndexReading::Older),
        Some(Ordering::Greater) => return Ok(IndexReading::Newer),
        Some(Ordering::Equal) => {}
    }
    let unindexed =
        rows.iter().filter_map(|row| SessionId::parse(row.get::<_, Option<&str>>(1)?).ok()).collect();
    let (sessions, runs) = match query.count {
        Count::Skip => (0, 0),
        Count::All => {
            let counted = match *known {
                Some(counted) => counted,
                None => *known.insert(count(transaction)?),
            };
            (counted.sessions, counted.runs)
        }
    };
    let mut wanted: BTreeSet<String> = query.sessions.iter().map(ToString::to_string).collect();
    if !query.newest.is_empty() {
        let stages: Vec<i64> = query.newest.iter().map(|(stage, _)| i64::from(*stage)).collect();
        let most = query.newest.iter().map(|(_, most)| i64::try_from(*most).unwrap_or(i64::MAX));
        let most: Vec<i64> = most.collect();
        let rows = transaction.query(NEWEST, &[(&stages, Type::INT8_ARRAY), (&most, Type::INT8_ARRAY)])?;
        wanted.extend(rows.iter().map(|row| row.get(0)));
    }
    if !query.terms.is_empty() {
        wanted.extend(holding(transaction, &query.terms)?);
    }
    let wanted: Vec<String> = wanted.into_iter().collect();
    let rows = transaction.query(RECORDS, &[(&own, Type::INT8), (&wanted, Type::TEXT_ARRAY)])?;
    if version_of(&rows) != Some(own) {
        return Ok(IndexReading::Newer);
    }
    let records = rows.iter().filter_map(record_of).collect();
    Ok(IndexReading::Answer(IndexAnswer { records, unindexed, sessions, runs }))
}

/// The version of the index, in the first column of at least one row; `None` before the first one.
fn version_of(rows: &[Row]) -> Option<i64> {
    rows.first()?.get(0)
}

fn count(transaction: &mut Transaction<'_>) -> Result<CachedCounts, StatementError> {
    transaction.query(COUNT_BY_INDEX, &[])?;
    let row = transaction.query_opt(COUNTS, &[])?;
    let counted = |column: usize| row.as_ref().map_or(0, |row| row.get::<_, i64>(column).unsigned_abs());
    Ok(CachedCounts { sessions: counted(0), runs: counted(1), at: Instant::now() })
}

/// Sessions that hold any of the terms, up to the limit for each term.
fn holding(transaction: &mut Transaction<'_>, terms: &[u64]) -> Result<Vec<String>, StatementError> {
    let terms: Vec<i64> = terms.iter().map(|term| term.cast_signed()).collect();
    let rows =
        transaction.query(HOLDING, &[(&terms, Type::INT8_ARRAY), (&SESSIONS_PER_TERM_MAX, Type::INT8)])?;
    let mut found: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for row in &rows {
        found.entry(row.get(0)).or_default().push(row.get(1));
    }
    let is_common = |sessions: &Vec<String>| sessions.len() as i64 >= SESSIONS_PER_TERM_MAX;
    let common: Vec<i64> =
        found.iter().filter(|(_, sessions)| is_common(sessions)).map(|(term, _)| *term).collect();
    let is_narrow = found.values().any(|sessions| !is_common(sessions));
    let mut sessions: Vec<String> = found.into_values().flatten().collect();
    if common.len() > 1 && !is_narrow {
        let rows = transaction
            .query(HOLDING_MOST, &[(&common, Type::INT8_ARRAY), (&SESSIONS_PER_TERM_MAX, Type::INT8)])?;
        sessions.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    Ok(sessions)
}

fn raise(transaction: &mut Transaction<'_>, version: u32) -> Result<(), StatementError> {
    let raised = transaction.query_opt(RAISE, &[(&i64::from(version), Type::INT8)])?;
    if raised.is_some() {
        transaction.batch(CLEAR)?;
        transaction.query(MARK_ALL, &[])?;
    }
    Ok(())
}

/// The four words of a stamp.
fn stamp_bytes(stamp: &LogStamp) -> [u8; 32] {
    let words = [stamp.bytes, stamp.file.file, stamp.file.changed_ns.cast_unsigned(), stamp.segments];
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

fn stamp_of(bytes: &[u8]) -> Option<LogStamp> {
    let ([a, b, c, d], []) = bytes.as_chunks::<8>() else { return None };
    let file = FileStamp { file: u64::from_be_bytes(*b), changed_ns: i64::from_be_bytes(*c) };
    Some(LogStamp { bytes: u64::from_be_bytes(*a), file, segments: u64::from_be_bytes(*d) })
}

fn record_of(row: &Row) -> Option<IndexRecord> {
    let session = SessionId::parse(row.get::<_, Option<&str>>("session")?).ok()?;
    let cursor: Cursor = serde_json::from_slice(row.get("cursor")).ok()?;
    Some(IndexRecord {
        session,
        stamp: stamp_of(row.get("stamp"))?,
        cursor,
        summary: row.get("summary"),
        keys: IndexKeys::default(),
    })
}
