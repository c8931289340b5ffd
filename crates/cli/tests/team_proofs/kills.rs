//! Servers of a team are killed under load: what was acknowledged is recorded once, in order, and every repeated call
//! gets the first answer (G8, G102).

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};
use workrail_testkit::postgres::{Cluster, ROLE};

use crate::recorded::{self, note};
use crate::{PROGRAM, is_full};

const SERVERS: usize = 4;
const STEPS: usize = 3;

/// How many sessions are used at a time, and for how long. An agent that finishes a run starts another.
struct Effort {
    agents: usize,
    time: Duration,
}

fn effort() -> Effort {
    match is_full() {
        true => Effort { agents: 200, time: Duration::from_secs(600) },
        false => Effort { agents: 6, time: Duration::from_secs(4) },
    }
}

/// The servers that all agents use, each on its own machine.
struct Servers {
    machines: Vec<Home>,
    running: Vec<Mutex<Option<McpClient>>>,
}

impl Servers {
    fn start(address: &str) -> Self {
        let machine = |_| Home::new(PROGRAM).with("WORKRAIL_STORE", address);
        let running = (0..SERVERS).map(|_| Mutex::default()).collect();
        Self { machines: (0..SERVERS).map(machine).collect(), running }
    }

    /// Repeats a call until it is answered, trying one server after another.
    fn call(&self, from: usize, tool: &str, arguments: &Value) -> ToolReply {
        for at in (from..).map(|at| at % SERVERS) {
            let mut server = self.running[at].lock().unwrap();
            let mut client = server.take().unwrap_or_else(|| self.machines[at].client());
            let Ok(reply) = client.try_call(tool, arguments.clone()) else { continue };
            *server = Some(client);
            let may_repeat = reply.structured["retry"]["kind"] == "retryable_after_ms";
            if !(reply.is_error && may_repeat) {
                return reply;
            }
        }
        unreachable!("there is always another server")
    }

    /// Sends a call and kills the server at once: whether it was recorded is unknown.
    fn call_and_kill(&self, at: usize, tool: &str, arguments: &Value) {
        let mut server = self.running[at % SERVERS].lock().unwrap();
        let mut client = server.take().unwrap_or_else(|| self.machines[at % SERVERS].client());
        client.send_call(tool, arguments.clone());
        client.kill();
    }
}

/// A run, and its acknowledged notes in order.
struct Acknowledged {
    session: String,
    notes: Vec<String>,
}

fn work(servers: &Servers, agent: usize, run: usize) -> Acknowledged {
    let project = servers.machines[agent % SERVERS].project();
    let begin =
        json!({ "workflowId": "wr.small_change", "goal": "mend the teapot", "workspacePath": project });
    let mut reply = servers.call(agent, "start_workflow", &begin);
    let session = reply.structured["run"]["sessionId"].as_str().unwrap().to_owned();
    let mut notes = Vec::new();
    for step in 0..STEPS {
        let note = note(&format!("{agent}-{run}-{step}"));
        let call = json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": note } });
        if (agent + run + step).is_multiple_of(3) {
            servers.call_and_kill(agent + step, "continue_workflow", &call);
        }
        let next = servers.call(agent + step + 1, "continue_workflow", &call);
        assert!(!next.is_error, "{}", next.text);
        let again = servers.call(agent + step + 2, "continue_workflow", &call);
        assert_eq!(again.string("ackToken"), next.string("ackToken"), "one call, one answer");
        notes.push(note);
        reply = next;
    }
    Acknowledged { session, notes }
}

#[test]
fn figure_killed_servers_lose_nothing_acknowledged_and_apply_nothing_twice() {
    let Some(cluster) = Cluster::start(&["max_connections=300"]) else { return };
    let database = cluster.database();
    let servers = Servers::start(&cluster.address(&database, ROLE, "team"));
    let Effort { agents, time } = effort();
    let begun = Instant::now();
    let done: Vec<Acknowledged> = thread::scope(|scope| {
        let agents: Vec<_> = (0..agents)
            .map(|agent| {
                let servers = &servers;
                scope.spawn(move || -> Vec<Acknowledged> {
                    let another = |_: &usize| begun.elapsed() < time;
                    (0..).take_while(another).map(|run| work(servers, agent, run)).collect()
                })
            })
            .collect();
        agents.into_iter().flat_map(|agent| agent.join().unwrap()).collect()
    });
    for Acknowledged { session, notes } in &done {
        assert_eq!(
            recorded::in_database(&cluster, &database, session),
            *notes,
            "the log is the serial history"
        );
    }
    let verified = servers.machines[0].done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");
    let steps: usize = done.iter().map(|run| run.notes.len()).sum();
    println!(
        "{agents} agents, {SERVERS} servers, {:.0?}: {steps} acknowledged steps of {} sessions, none lost, none twice",
        begun.elapsed(),
        done.len()
    );
}
