//! Appends a second with 1, 8 and 32 clients, beside bare transactions that write the same rows, in the same run.
//!
//! `cargo bench -p workrail-store-pg --bench append_pg`
#![expect(clippy::print_stdout, reason = "figures are printed")]
#![expect(clippy::unwrap_used, reason = "a measurement stops at the first surprise")]

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use postgres::types::Type;
use postgres::{Client, NoTls};
use workrail_model::event::EventIndex;
use workrail_model::plan::AttachmentKind;
use workrail_ports::session_store::{LockedSession, SessionStore};
use workrail_store_pg::{Address, PgStore};
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::history::{History, Load, PlanParts};
use workrail_testkit::postgres::{Cluster, ROLE};

const APPENDS_EACH: usize = 40;
const ROUNDS: usize = 3;

fn main() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    for clients in [1, 8, 32] {
        // Turn by turn, so that a busy machine slows both; the best of each counts.
        let (mut store, mut bare) = (0.0_f64, 0.0_f64);
        for round in 0..ROUNDS {
            let seed = (clients * 100 + round) as u64 * 1000;
            store = store.max(rate(clients, &cluster, seed, Writer::Store));
            bare = bare.max(rate(clients, &cluster, seed + 500, Writer::Bare));
        }
        println!(
            "{clients:>2} clients: {store:>6.0} appends/s, bare transactions {bare:>6.0}/s, ratio {:.2}",
            store / bare
        );
    }
}

#[derive(Clone, Copy)]
enum Writer {
    Store,
    Bare,
}

/// Appends a second of all clients, each with a session and connections of its own.
fn rate(clients: usize, cluster: &Cluster, seed: u64, writer: Writer) -> f64 {
    let database = cluster.database();
    let address = Address::parse(&cluster.address(&database, ROLE, "bench")).unwrap();
    drop(PgStore::open(&address, None, Box::new(SeededEntropy::new(0))).unwrap());
    let begin = Barrier::new(clients);
    let spent: Vec<Duration> = thread::scope(|scope| {
        let workers: Vec<_> = (0..clients as u64)
            .map(|number| {
                let (address, begin, database) = (&address, &begin, &database);
                scope.spawn(move || match writer {
                    Writer::Store => by_store(address, begin, seed + number),
                    Writer::Bare => by_hand(cluster, database, begin, seed + number),
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let slowest = spent.into_iter().max().unwrap_or(Duration::from_secs(1));
    (clients * APPENDS_EACH) as f64 / slowest.as_secs_f64()
}

/// A start and as many advances, of histories of their own, so that each brings content of its own.
fn plans(seed: u64) -> Vec<PlanParts> {
    let mut history = History::new(seed);
    let mut made = vec![history.start()];
    let mut at = history.root();
    for _ in 0..APPENDS_EACH {
        let (parts, next) = history.advance(at, Load::NOTES);
        made.push(parts);
        at = next;
    }
    made
}

fn by_store(address: &Address, begin: &Barrier, seed: u64) -> Duration {
    let store = PgStore::open(address, None, Box::new(SeededEntropy::new(seed))).unwrap();
    let made = plans(seed);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();
    begin.wait();
    let begun = Instant::now();
    for parts in &made[1..] {
        store.lock(session).unwrap().append(parts.plan()).unwrap();
    }
    begun.elapsed()
}

/// The same rows without reading, locking or checking anything: one statement for each table, prepared once.
fn by_hand(cluster: &Cluster, database: &str, begin: &Barrier, seed: u64) -> Duration {
    let mut client = postgres::Config::new()
        .host_path(cluster.socket_folder())
        .user(ROLE)
        .dbname(database)
        .connect(NoTls)
        .unwrap();
    client.batch_execute("SET workrail.tenant = 'bench'").unwrap();
    let made = plans(seed);
    let rows: Vec<Rows> = made.iter().map(Rows::of).collect();
    rows[0].write(&mut client, true);
    begin.wait();
    let begun = Instant::now();
    for row in &rows[1..] {
        row.write(&mut client, false);
    }
    begun.elapsed()
}

struct Rows {
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
    fn of(parts: &PlanParts) -> Self {
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

    fn write(&self, client: &mut Client, is_first: bool) {
        let digest = [7_u8; 32].as_slice();
        let mut transaction = client.transaction().unwrap();
        let head = match is_first {
            true => "INSERT INTO workrail.session VALUES ('bench', $1, $2, 0, 0, 0, $3, $3)",
            false => "UPDATE workrail.session SET next_event = $2, anchor = $3, chain = $3 WHERE id = $1",
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
