//! The sweep: removes unreferenced content, and rows that belong to removed sessions (G25).
//!
//! Everything reachable is collected once, without a lock. Then, in a bounded number of batches, writers are locked out,
//! what sessions gained meanwhile is read, and what is still unreachable is removed. Writers share the same lock while
//! they hold a session, so nothing that they are about to refer to is removed.

use std::collections::{BTreeMap, BTreeSet};

use postgres_types::Type;
use tokio_postgres::Row;
use workrail_model::digest::Sha256;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::plan::{AttachmentKind, ContentKey};
use workrail_ports::file_system::FsOp;
use workrail_ports::upkeep::{SafeModeReason, Swept, Tally, UpkeepError, digests_in};

use crate::append;
use crate::content::kind_name;
use crate::error::StatementError;
use crate::log::{self, Position, ReadRange};
use crate::open::PgStore;
use crate::reader::HEADS;
use crate::transaction::{Purpose, Transaction};

/// Pieces removed while writers wait.
const BATCH_PIECES_MIN: usize = 1024;
/// Every batch checks the end of every session, so a large sweep has larger batches.
const BATCHES_MAX: usize = 64;
/// How many segments are in memory at once.
const SEGMENTS_AT_ONCE: i64 = 64;

/// Tables whose rows are removed with their session. `event_key` too: a key without its session prevents nothing.
const SESSION_TABLES: [&str; 4] = ["event_key", "wish", "projection", "session_summary"];

const DELETE: &str = "DELETE FROM workrail.content c USING unnest($2::bytea[]) AS gone (sha256) \
                      WHERE c.kind = $1 AND c.sha256 = gone.sha256 RETURNING octet_length(c.bytes)";

/// What sessions refer to, as far as they were read.
#[derive(Default)]
struct ReferencedContent {
    referenced: BTreeSet<ContentKey>,
    /// Digests of any kind in logs that repairs moved aside.
    in_asides: BTreeSet<Sha256>,
    ends: BTreeMap<SessionId, Position>,
}

/// Why collecting stopped early.
enum CollectError {
    Failed(StatementError),
    InDoubt(Vec<SafeModeReason>),
}

impl From<StatementError> for CollectError {
    fn from(failed: StatementError) -> Self {
        Self::Failed(failed)
    }
}

impl From<CollectError> for UpkeepError {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Failed(failed) => of_store(&failed),
            CollectError::InDoubt(doubts) => Self::InDoubt(doubts),
        }
    }
}

fn of_store(failed: &StatementError) -> UpkeepError {
    if failed.is_busy() { UpkeepError::Busy } else { failed.at(FsOp::Remove, "content").into() }
}

impl ReferencedContent {
    fn contains(&self, (kind, digest): ContentKey) -> bool {
        self.referenced.contains(&(kind, digest)) || self.in_asides.contains(&digest)
    }

    /// Collects what was appended since the last pass. Nothing is ever taken out.
    fn extend(
        &mut self,
        transaction: &mut Transaction<'_>,
        without: &BTreeSet<SessionId>,
    ) -> Result<(), CollectError> {
        let mut doubts = Vec::new();
        for row in transaction.query(HEADS, &[])? {
            let name: &str = row.get(6);
            let doubt = |why: String| SafeModeReason { what: name.to_owned(), why };
            let Ok(session) = SessionId::parse(name) else {
                // A newer build may name its sessions like this.
                doubts.push(doubt("its id is not one of a session".to_owned()));
                continue;
            };
            let end = self.ends.get(&session).copied();
            if without.contains(&session) || (end.is_some() && end == log::head_of(&row)) {
                continue;
            }
            if let Some(why) = self.read(transaction, session)? {
                doubts.push(doubt(why));
            }
        }
        self.extend_from_asides(transaction)?;
        if doubts.is_empty() { Ok(()) } else { Err(CollectError::InDoubt(doubts)) }
    }

    /// Collects what a session refers to, or returns why that is unknown.
    fn read(
        &mut self,
        transaction: &mut Transaction<'_>,
        session: SessionId,
    ) -> Result<Option<String>, StatementError> {
        loop {
            let since = self.ends.get(&session).map(|end| end.cursor);
            let range = ReadRange::Segments(SEGMENTS_AT_ONCE);
            // Gone since the listing.
            let Some(loaded) = log::load(transaction, session, since.as_ref(), range)? else {
                return Ok(None);
            };
            let is_end = loaded.segments.is_empty();
            let events = loaded.segments.iter().flat_map(|segment| segment.events());
            self.referenced.extend(events.flat_map(|event| event.data.content_refs()));
            self.ends.insert(session, loaded.position);
            match loaded.health {
                SessionHealth::Healthy if is_end => return Ok(None),
                SessionHealth::Healthy => {}
                unhealthy @ (SessionHealth::CorruptTail { .. }
                | SessionHealth::CorruptHead { .. }
                | SessionHealth::UnknownVersion { .. }) => return Ok(Some(unhealthy.to_string())),
            }
        }
    }

    /// A log that was moved aside is damaged, so it is not parsed as one: every digest in it counts.
    fn extend_from_asides(&mut self, transaction: &mut Transaction<'_>) -> Result<(), StatementError> {
        for row in transaction.query("SELECT manifest, events FROM workrail.segment_aside", &[])? {
            self.in_asides.extend(digests_in(row.get(0)));
            self.in_asides.extend(digests_in(row.get(1)));
        }
        Ok(())
    }
}

impl PgStore {
    /// A transaction during which no other process writes sessions or content.
    pub(crate) fn without_writers(&self) -> Result<Transaction<'_>, UpkeepError> {
        let failed = |failed: StatementError| of_store(&failed);
        let mut transaction =
            Transaction::begin(&self.writers, &self.tenant, Purpose::Writing).map_err(failed)?;
        let key = self.store_lock_key();
        transaction.batch(&format!("SELECT pg_advisory_xact_lock({key})")).map_err(failed)?;
        Ok(transaction)
    }

    /// What is reachable now, and the content that is not.
    fn unreachable(
        &self,
        without: &BTreeSet<SessionId>,
    ) -> Result<(ReferencedContent, Vec<(ContentKey, u64)>), UpkeepError> {
        let mut transaction = self.begin(Purpose::Reading).map_err(|failed| of_store(&failed))?;
        let mut reachable = ReferencedContent::default();
        reachable.extend(&mut transaction, without)?;
        let mut unreachable = Vec::new();
        for kind in AttachmentKind::ALL {
            let sql = "SELECT sha256, octet_length(bytes) FROM workrail.content WHERE kind = $1";
            let rows = transaction
                .query(sql, &[(&kind_name(kind), Type::TEXT)])
                .map_err(|failed| of_store(&failed))?;
            for row in rows {
                // Not a digest, so not ours to judge.
                let Ok(digest) = row.get::<_, &[u8]>(0).try_into().map(Sha256::from_bytes) else { continue };
                if !reachable.contains((kind, digest)) {
                    unreachable.push(((kind, digest), u64::from(row.get::<_, i32>(1).unsigned_abs())));
                }
            }
        }
        Ok((reachable, unreachable))
    }

    pub(crate) fn would_sweep(&self, without: &BTreeSet<SessionId>) -> Result<Swept, UpkeepError> {
        let (_, unreachable) = self.unreachable(without)?;
        let mut swept = Swept::default();
        for ((kind, _), bytes) in unreachable {
            swept.of(kind).add(bytes);
        }
        let leftovers = self.in_transaction(Purpose::Reading, |transaction| {
            let mut leftovers = Tally::default();
            for table in SESSION_TABLES {
                let sql =
                    format!("SELECT pg_column_size(t.*) FROM workrail.{table} t WHERE {}", without_session());
                count(&mut leftovers, &transaction.query(&sql, &[])?);
            }
            Ok(leftovers)
        });
        swept.leftovers = leftovers.map_err(|failed| of_store(&failed))?;
        Ok(swept)
    }

    pub(crate) fn sweep_for_real(&self) -> Result<Swept, UpkeepError> {
        let no_sessions = BTreeSet::new();
        let (mut reachable, unreachable) = self.unreachable(&no_sessions)?;
        let mut swept = Swept { leftovers: self.sweep_leftovers()?, ..Swept::default() };
        let pieces = unreachable.len().div_ceil(BATCHES_MAX).max(BATCH_PIECES_MIN);
        for batch in unreachable.chunks(pieces) {
            let mut transaction = self.without_writers()?;
            reachable.extend(&mut transaction, &no_sessions)?;
            for kind in AttachmentKind::ALL {
                let going = batch.iter().map(|(piece, _)| *piece);
                let going = going.filter(|piece| piece.0 == kind && !reachable.contains(*piece));
                let digests: Vec<Vec<u8>> = going.map(|(_, digest)| digest.as_bytes().to_vec()).collect();
                let parameters = [(&kind_name(kind) as _, Type::TEXT), (&digests as _, Type::BYTEA_ARRAY)];
                let rows = transaction.query(DELETE, &parameters).map_err(|failed| of_store(&failed))?;
                count(swept.of(kind), &rows);
            }
            append::commit_at(transaction, "content")?;
        }
        Ok(swept)
    }

    fn sweep_leftovers(&self) -> Result<Tally, UpkeepError> {
        let mut transaction = self.without_writers()?;
        let mut leftovers = Tally::default();
        for table in SESSION_TABLES {
            let sql = format!(
                "DELETE FROM workrail.{table} t WHERE {} RETURNING pg_column_size(t.*)",
                without_session()
            );
            count(&mut leftovers, &transaction.query(&sql, &[]).map_err(|failed| of_store(&failed))?);
        }
        append::commit_at(transaction, "content")?;
        Ok(leftovers)
    }
}

fn without_session() -> &'static str {
    "NOT EXISTS (SELECT FROM workrail.session s WHERE s.tenant = t.tenant AND s.id = t.session)"
}

/// Adds up rows that each hold a size in bytes.
fn count(tally: &mut Tally, rows: &[Row]) {
    rows.iter().for_each(|row| tally.add(u64::from(row.get::<_, i32>(0).unsigned_abs())));
}
