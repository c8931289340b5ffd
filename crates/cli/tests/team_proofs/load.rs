//! Agents that work through the servers of a team at the same time, and what was acknowledged to them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_testkit::fleet::{Fleet, Strikes};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::postgres::Cluster;
use workrail_testkit::team::session_of;

use crate::PROGRAM;
use crate::recorded::{self, note};

pub(crate) const SERVERS: usize = 4;
pub(crate) const STEPS: usize = 3;
/// Few enough that a token's limits are rarely reached: an answer that says so is one more to repeat.
const AGENTS_PER_TOKEN: usize = 4;

/// How much longer than planned agents work if nothing struck often enough, before the proof fails.
const STRIKES_WAIT: Duration = Duration::from_secs(300);

/// How many agents work at the same time, for how long, and how often something strikes meanwhile.
pub(crate) struct Effort {
    pub(crate) agents: usize,
    pub(crate) time: Duration,
    pub(crate) strikes_min: usize,
    pub(crate) answers_per_strike: usize,
}

/// A run, and its acknowledged notes in order.
pub(crate) struct Acknowledged {
    pub(crate) session: String,
    pub(crate) notes: Vec<String>,
}

/// Servers on their own machines, with enough tokens for the agents.
pub(crate) fn fleet(address: &str, effort: &Effort) -> (Fleet, Strikes) {
    let machines = (0..SERVERS).map(|_| Home::new(PROGRAM).with("WORKRAIL_STORE", address)).collect();
    Fleet::start(machines, effort.agents.div_ceil(AGENTS_PER_TOKEN), effort.answers_per_strike)
}

/// An agent that finishes a run starts another, until its time is up and something struck often enough.
pub(crate) fn run_agents(
    fleet: &Fleet,
    strikes: Strikes,
    effort: &Effort,
    strike: impl Fn(usize) + Sync,
) -> Vec<Acknowledged> {
    let begun = Instant::now();
    let another = |_: &usize| {
        let is_struck = fleet.counts().strikes.load(Ordering::Relaxed) >= effort.strikes_min;
        begun.elapsed() < if is_struck { effort.time } else { effort.time + STRIKES_WAIT }
    };
    let runs = fleet.under_load(strikes, effort.agents, strike, |agent| -> Vec<Acknowledged> {
        (0..).take_while(another).map(|run| work(fleet, agent, run)).collect()
    });
    runs.into_iter().flatten().collect()
}

fn work(fleet: &Fleet, agent: usize, run: usize) -> Acknowledged {
    let call = |from: usize, tool: &str, arguments: &Value| -> ToolReply {
        let reply = fleet.call(agent, agent + run + from, tool, arguments);
        assert!(!reply.is_error, "{}", reply.text);
        reply
    };
    // A start that is cut and repeated is still one run.
    let key = format!("{agent}-{run}");
    let begin =
        json!({ "workflowId": "wr.small_change", "goal": "repair the teapot", "idempotencyKey": key });
    let mut reply = call(0, "start_workflow", &begin);
    let session = session_of(&reply);
    let mut notes = Vec::new();
    for step in 0..STEPS {
        let note = note(&format!("{agent}-{run}-{step}"));
        let advance = json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": note } });
        let first = || call(step + 1, "continue_workflow", &advance);
        let again = || call(step + 2, "continue_workflow", &advance);
        // Every third call is sent to two servers at once, as by an impatient client; the others one after the other.
        let (next, repeated) = match (agent + run + step).is_multiple_of(3) {
            true => thread::scope(|scope| {
                let other = scope.spawn(again);
                (first(), other.join().unwrap())
            }),
            false => (first(), again()),
        };
        assert_eq!(repeated.data, next.data, "one call, one answer");
        notes.push(note);
        reply = next;
    }
    Acknowledged { session, notes }
}

/// Asserts that the database holds what was acknowledged, once and in order, and no other run.
pub(crate) fn assert_recorded(cluster: &Cluster, database: &str, done: &[Acknowledged]) {
    let recorded = recorded::all_in_database(cluster, database);
    let acknowledged: BTreeMap<&str, &Vec<String>> =
        done.iter().map(|run| (run.session.as_str(), &run.notes)).collect();
    assert_eq!(acknowledged.len(), done.len(), "every start has a session of its own");
    for (session, notes) in &acknowledged {
        assert_eq!(recorded.get(*session), Some(*notes), "the log of {session} is the serial history");
    }
    assert_eq!(recorded.len(), done.len(), "no start was recorded twice");
}

/// Asserts that many calls were in flight when something struck, and prints what happened.
pub(crate) fn report(fleet: &Fleet, effort: &Effort, done: &[Acknowledged], what: &str, took: Duration) {
    let counts = fleet.counts();
    let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let steps: usize = done.iter().map(|run| run.notes.len()).sum();
    println!(
        "{} agents, {SERVERS} servers, {took:.0?}: {what} {} times with {} calls in flight ({} at most at a time); {} calls, {} cut, {} \
         refused; {steps} acknowledged steps of {} sessions, none lost, none twice",
        effort.agents,
        load(&counts.strikes),
        load(&counts.struck),
        load(&counts.in_flight_max),
        load(&counts.sent),
        load(&counts.cut),
        load(&counts.refused),
        done.len(),
    );
    assert!(load(&counts.strikes) >= effort.strikes_min);
    assert!(load(&counts.cut) + load(&counts.refused) > 0, "no call was interrupted");
    assert!(load(&counts.in_flight_max) > SERVERS, "the agents waited for each other");
}
