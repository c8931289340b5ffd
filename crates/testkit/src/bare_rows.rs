//! The minimum cost of an append to PostgreSQL: a transaction that writes the same rows, without reading, locking or
//! checking anything.

#![expect(clippy::unwrap_used, reason = "a measurement stops at the first surprise")]

use postgres::types::Type;
use postgres::{Client, NoTls};
use workrail_model::event::EventIndex;
use workrail_model::plan::AttachmentKind;

use crate::history::{AdvancePayload, History, PlanParts};
use crate::postgres::{Cluster, ROLE};

/// A connection as the tenant `bench`.
pub fn connect(cluster: &Cluster, database: &str) -> Client {
    let mut config = postgres::Config::new();
    config.host_path(cluster.socket_folder()).user(ROLE).dbname(database);
    let mut client = config.connect(NoTls).unwrap();
    client.batch_execute("SET workrail.tenant = 'bench'").unwrap();
    client
}

/// A start and this many advances, all of one history.
pub fn one_run(seed: u64, advances: usize) -> Vec<PlanParts> {
    let mut history = History::new(seed);
    let mut made = vec![history.start()];
    let mut at = history.root();
    for _ in 0..advances {
        let (parts, next) = history.advance(at, AdvancePayload::NOTES);
        made.push(parts);
        at = next;
    }
    made
}

/// Whether a session is created or continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentPosition {
    First,
    Later,
}

/// The rows of one append.
#[derive(Debug)]
pub struct Rows {
    session: String,
    first: i64,
    next: i64,
    manifest: Vec<u8>,
    events: Vec<u8>,
    keys: Vec<Vec<u8>>,
    kinds: Vec<&'static str>,
    digests: Vec<Vec<u8>>,
    contents: Vec<Vec<u8>>,
}

impl Rows {
    pub fn of(parts: &PlanParts) -> Self {
        let plan = parts.plan();
        let index = |index: EventIndex| i64::try_from(index.get()).unwrap();
        let kind = |kind: AttachmentKind| match kind {
            AttachmentKind::Snapshot => "snapshot",
            AttachmentKind::Blob => "blob",
            AttachmentKind::Workflow => "workflow",
        };
        Self {
            session: plan.session_id().to_string(),
            first: index(plan.first_index()),
            next: index(plan.first_index().plus(plan.events().len() as u64)),
            // As long as the records of such a plan.
            manifest: vec![b'm'; 850],
            events: plan.segment().to_vec(),
            keys: plan.events().iter().map(|event| event.dedupe_key.fingerprint().to_vec()).collect(),
            kinds: plan.attachments().iter().map(|piece| kind(piece.kind())).collect(),
            digests: plan.attachments().iter().map(|piece| piece.digest().as_bytes().to_vec()).collect(),
            contents: plan.attachments().iter().map(|piece| piece.bytes().to_vec()).collect(),
        }
    }

    /// Writes them in one transaction of a connection whose tenant is `bench`.
    pub fn write(&self, client: &mut Client, position: SegmentPosition) {
        let digest = [7_u8; 32].as_slice();
        let mut transaction = client.transaction().unwrap();
        let head = match position {
            SegmentPosition::First => {
                "INSERT INTO workrail.session VALUES ('bench', $1, $2, 0, 0, 0, $3, $3)"
            }
            SegmentPosition::Later => {
                "UPDATE workrail.session SET next_event = $2, anchor = $3, chain = $3 WHERE id = $1"
            }
        };
        let text = Type::TEXT;
        transaction
            .query_typed(
                head,
                &[(&self.session, text.clone()), (&self.next, Type::INT8), (&digest, Type::BYTEA)],
            )
            .unwrap();
        transaction
            .query_typed(
                "INSERT INTO workrail.content SELECT 'bench', * FROM unnest($1::text[], $2::bytea[], $3::bytea[]) \
                 ON CONFLICT DO NOTHING",
                &[
                    (&self.kinds, Type::TEXT_ARRAY),
                    (&self.digests, Type::BYTEA_ARRAY),
                    (&self.contents, Type::BYTEA_ARRAY),
                ],
            )
            .unwrap();
        transaction
            .query_typed(
                "INSERT INTO workrail.event_key SELECT 'bench', $1, * FROM unnest($2::bytea[])",
                &[(&self.session, text.clone()), (&self.keys, Type::BYTEA_ARRAY)],
            )
            .unwrap();
        transaction
            .query_typed(
                "INSERT INTO workrail.segment VALUES ('bench', $1, $2, $3, 0, 0, $4, $5, $6)",
                &[
                    (&self.session, text),
                    (&self.next, Type::INT8),
                    (&self.first, Type::INT8),
                    (&self.manifest, Type::BYTEA),
                    (&self.events, Type::BYTEA),
                    (&digest, Type::BYTEA),
                ],
            )
            .unwrap();
        transaction.commit().unwrap();
    }
}
