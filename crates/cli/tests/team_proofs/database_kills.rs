//! PostgreSQL is killed while the servers of a team work on calls: what was acknowledged to agents is recorded once, in
//! order, and the servers continue without a restart (G8, G102). With `synchronous_commit = off`, the same kill loses
//! something, so this proof can fail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use workrail_testkit::fleet::Fleet;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::proxy::{Bytes, Proxy};
use workrail_testkit::team::session_of;

use crate::is_full;
use crate::load::{self, Acknowledged, Effort, assert_recorded, run_agents};
use crate::recorded::{self, note};

fn effort() -> Effort {
    let (agents, seconds, strikes_min, answers_per_strike) =
        if is_full() { (200, 600, 20, 600) } else { (12, 4, 3, 80) };
    Effort { agents, time: Duration::from_secs(seconds), strikes_min, answers_per_strike }
}

#[test]
fn figure_a_killed_database_loses_nothing_that_agents_were_acknowledged() {
    let Some(cluster) = Cluster::start(&["max_connections=300"]) else { return };
    let database = cluster.database();
    let effort = effort();
    let (fleet, strikes) = load::fleet(&cluster.address(&database, ROLE, "team"), &effort);
    let begun = Instant::now();
    let done = run_agents(&fleet, strikes, &effort, |_| {
        fleet.during_outage(|| {
            cluster.kill();
            cluster.restart();
        });
    });
    let took = begun.elapsed();
    assert_recorded(&cluster, &database, &done);
    let verified = fleet.machine().done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");
    load::report(&fleet, &effort, &done, "PostgreSQL was killed", took);
    fleet.end();
}

/// Works until a call is not answered.
fn work_until_the_end(fleet: &Fleet, agent: usize) -> Vec<Acknowledged> {
    let call = |at: usize, tool: &str, arguments: &serde_json::Value| {
        fleet.call_once(agent, agent + at, tool, arguments).filter(|reply| !reply.is_error)
    };
    let mut done = Vec::new();
    loop {
        let begin = json!({ "workflowId": "wr.small_change", "goal": "repair the teapot" });
        let Some(mut reply) = call(done.len(), "start_workflow", &begin) else { return done };
        let run = done.len();
        done.push(Acknowledged { session: session_of(&reply), notes: Vec::new() });
        for step in 0..load::STEPS {
            let note = note(&format!("{agent}-{run}-{step}"));
            let advance =
                json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": note } });
            let Some(next) = call(run + step, "continue_workflow", &advance) else { return done };
            done[run].notes.push(note);
            reply = next;
        }
    }
}

/// How many acknowledged starts and steps are lost when PostgreSQL is killed once under load.
fn lost_by(bytes: Bytes) -> Option<usize> {
    // Only a commit writes to the disk.
    let cluster = Cluster::start(&["wal_writer_delay=10s", "autovacuum=off"])?;
    let database = cluster.database();
    let proxy = Proxy::start_with(cluster.socket_folder(), bytes);
    let through = format!("postgres://{ROLE}@/{database}?host={}&tenant=team", proxy.folder().display());
    let effort = Effort { agents: 8, time: Duration::ZERO, strikes_min: 1, answers_per_strike: 60 };
    let (fleet, strikes) = load::fleet(&through, &effort);
    let is_killed = AtomicBool::new(false);
    let strike = |_| {
        if !is_killed.swap(true, Ordering::Relaxed) {
            fleet.during_outage(|| cluster.kill());
        }
    };
    let agents = fleet.under_load(strikes, effort.agents, strike, |agent| work_until_the_end(&fleet, agent));
    assert!(is_killed.into_inner(), "the agents ended before PostgreSQL was killed");
    cluster.restart();
    let recorded = recorded::all_in_database(&cluster, &database);
    let lost_of = |run: &Acknowledged| match recorded.get(&run.session) {
        None => 1 + run.notes.len(),
        Some(found) => run.notes.iter().filter(|note| !found.contains(note)).count(),
    };
    let lost = agents.iter().flatten().map(lost_of).sum();
    let steps: usize = agents.iter().flatten().map(|run| run.notes.len()).sum();
    println!("{bytes:?}: {lost} lost, of {steps} acknowledged steps and their starts");
    fleet.end();
    Some(lost)
}

#[test]
fn a_kill_of_the_database_loses_nothing_acknowledged_to_several_agents() {
    let Some(lost) = lost_by(Bytes::AsTheyAre) else { return };
    assert_eq!(lost, 0);
}

/// One round may be lucky, when the last page of the log was just written.
#[test]
fn without_synchronous_commit_the_same_kill_loses_what_agents_were_acknowledged() {
    for _ in 0..5 {
        match lost_by(Bytes::Sabotaged) {
            Some(0) => {}
            Some(_) | None => return,
        }
    }
    panic!("no round lost anything: this proof could not fail");
}
