//! Appends per second with 1, 8 and 32 clients, compared with bare transactions that write the same rows.
//!
//! `cargo bench -p workrail-store-pg --bench append_pg`
#![expect(clippy::print_stdout, reason = "figures are printed")]
#![expect(clippy::unwrap_used, reason = "a measurement stops at the first surprise")]

use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use workrail_ports::session_store::{LockedSession, SessionStore};
use workrail_store_pg::{DatabaseAddress, PgStore};
use workrail_testkit::bare_rows::{self, Rows, SegmentPosition, one_run};
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::proof;

const APPENDS_EACH: usize = 40;
const RATIO_MIN: f64 = 0.7;

fn main() -> ExitCode {
    let full = proof::is_full();
    let rounds = if full { 9 } else { 3 };
    let Some(cluster) = Cluster::start(&["max_connections=200"]) else { return ExitCode::SUCCESS };
    let mut worst = f64::INFINITY;
    for clients in [1, 8, 32] {
        // Alternating, so that a busy machine slows both.
        let measured = |round: u64| {
            let seed = (clients as u64 * 100 + round) * 1000;
            let store = rate(clients, &cluster, seed, Writer::Store);
            (store, rate(clients, &cluster, seed + 500, Writer::Bare))
        };
        let rates: Vec<(f64, f64)> = (0..rounds).map(measured).collect();
        let store = middle(rates.iter().map(|(store, _)| *store));
        let bare = middle(rates.iter().map(|(_, bare)| *bare));
        let ratio = middle(rates.iter().map(|(store, bare)| store / bare));
        worst = worst.min(ratio);
        println!(
            "{clients:>2} clients: {store:>6.0} appends/s, bare transactions {bare:>6.0}/s, ratio {ratio:.2} (at least {RATIO_MIN})"
        );
    }
    // A short run on a busy machine says little.
    if worst >= RATIO_MIN || !full { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[derive(Clone, Copy)]
enum Writer {
    Store,
    Bare,
}

/// Appends per second of all clients, each with its own session and connections.
fn rate(clients: usize, cluster: &Cluster, seed: u64, writer: Writer) -> f64 {
    let database = cluster.database();
    let address = DatabaseAddress::parse(&cluster.address(&database, ROLE, "bench")).unwrap();
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

fn by_store(address: &DatabaseAddress, begin: &Barrier, seed: u64) -> Duration {
    let store = PgStore::open(address, None, Box::new(SeededEntropy::new(seed))).unwrap();
    let made = one_run(seed, APPENDS_EACH);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();
    begin.wait();
    let begun = Instant::now();
    for parts in &made[1..] {
        store.lock(session).unwrap().append(parts.plan()).unwrap();
    }
    begun.elapsed()
}

fn by_hand(cluster: &Cluster, database: &str, begin: &Barrier, seed: u64) -> Duration {
    let mut client = bare_rows::connect(cluster, database);
    let rows: Vec<Rows> = one_run(seed, APPENDS_EACH).iter().map(Rows::of).collect();
    rows[0].write(&mut client, SegmentPosition::First);
    begin.wait();
    let begun = Instant::now();
    for row in &rows[1..] {
        row.write(&mut client, SegmentPosition::Later);
    }
    begun.elapsed()
}
