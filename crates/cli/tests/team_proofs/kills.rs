//! Servers of a team are killed while they work on calls: what was acknowledged is recorded once, in order, and every
//! repeated call gets the first answer (G8, G102).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use workrail_testkit::postgres::{Cluster, ROLE};

use crate::is_full;
use crate::load::{self, Effort, assert_recorded, run_agents};

fn effort() -> Effort {
    let (agents, seconds, strikes_min) = if is_full() { (200, 600, 100) } else { (12, 4, 5) };
    Effort { agents, time: Duration::from_secs(seconds), strikes_min, answers_per_strike: 25 }
}

#[test]
fn figure_killed_servers_lose_nothing_acknowledged_and_apply_nothing_twice() {
    let Some(cluster) = Cluster::start(&["max_connections=300"]) else { return };
    let database = cluster.database();
    let effort = effort();
    let (fleet, strikes) = load::fleet(&cluster.address(&database, ROLE, "team"), &effort);
    let begun = Instant::now();
    let done = run_agents(&fleet, strikes, &effort, |at| fleet.kill_server(at));
    let took = begun.elapsed();
    assert_recorded(&cluster, &database, &done);
    let verified = fleet.machine().done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");
    load::report(&fleet, &effort, &done, "a server was killed", took);
    assert!(fleet.counts().cut.load(Ordering::Relaxed) > 0, "no call was cut");
    fleet.end();
}
