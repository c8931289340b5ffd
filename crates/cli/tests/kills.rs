//! Servers killed in the middle of their calls while others work on the same store (G8, G10, G13, G19, G30).
//!
//! Several agents work through their own runs, each with its own server. Again and again a server is killed right
//! after a call was sent to it, and the agent sends the same call to a new one. In the end every acknowledged step is
//! in the log exactly once, and so is every repeated step.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::proof;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
const AGENTS: u64 = 4;
const STEPS: usize = 60;

/// The same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// One for the start and one for each step.
fn segments(home: &Home, session: &str) -> usize {
    std::fs::read_dir(home.data().join("sessions").join(session).join("events")).unwrap().count()
}

/// What one agent experienced.
#[derive(Default)]
struct Walk {
    kills: usize,
    /// Calls that were recorded before the server was killed, but not acknowledged.
    recorded_unheard: usize,
    /// Replies that were compared with the first answer to the same call.
    replays: usize,
    /// Each session with the number of its steps that were acknowledged.
    acknowledged: Vec<(String, usize)>,
}

fn session(reply: &ToolReply) -> String {
    reply.data["run"]["sessionId"].as_str().unwrap().to_owned()
}

/// Works until enough servers were killed.
fn walk(home: &Home, agent: u64, kills: usize) -> Walk {
    let mut numbers = Numbers(agent * 7_919 + 13);
    let mut done = Walk::default();
    let mut server = home.client();
    while done.kills < kills {
        let mut at = server
            .call("start_workflow", json!({ "workflowId": "team.long", "goal": format!("agent {agent}") }));
        assert!(!at.is_error, "{}", at.text);
        let mut steps = 0;
        while at.data["isComplete"] != true && done.kills < kills {
            let notes = format!("agent {agent} did step {steps}");
            let call = json!({ "ackToken": at.string("ackToken"), "output": { "notesMarkdown": notes } });
            if numbers.below(28) == 0 {
                server.send_call("continue_workflow", call.clone());
                // The kill hits the call at a different point each time.
                (0..numbers.below(4_000)).for_each(|_| std::thread::yield_now());
                server.kill();
                server = home.client();
                done.kills += 1;
                done.recorded_unheard += usize::from(segments(home, &session(&at)) > steps + 1);
            }
            let reply = server.call("continue_workflow", call.clone());
            assert!(!reply.is_error, "the same call again succeeds: {}", reply.text);
            if numbers.below(10) == 0 {
                assert_eq!(server.call("continue_workflow", call).raw, reply.raw, "a replay is the record");
                done.replays += 1;
            }
            steps += 1;
            at = reply;
        }
        done.acknowledged.push((session(&at), steps));
    }
    server.close();
    done
}

/// The completed steps in the log.
fn recorded(home: &Home, session: &str) -> usize {
    let log = home.run(&["log", session, "--json"]).json();
    let advances = log["events"].as_array().unwrap().iter();
    advances
        .filter(|event| event["kind"] == "advance_recorded" && event["data"]["outcome"]["kind"] == "advanced")
        .count()
}

#[test]
fn figure_servers_killed_under_load() {
    let full = proof::is_full();
    let kills_each = if full { 250 } else { 10 };
    let home = Home::new(PROGRAM);
    let steps: Vec<Value> = (0..STEPS)
        .map(|n| json!({ "id": format!("step-{n}"), "title": format!("Step {n}"), "prompt": format!("Do part {n}.") }))
        .collect();
    let workflow = json!({ "id": "team.long", "name": "Long", "description": "Many steps.", "version": "1.0.0", "steps": steps });
    home.workflow(&workflow);
    // Created before all of them start, so that they share its keys.
    home.client().call("start_workflow", json!({ "workflowId": "team.long" }));
    let walks: Vec<Walk> = std::thread::scope(|scope| {
        let home = &home;
        let agents: Vec<_> =
            (1..=AGENTS).map(|agent| scope.spawn(move || walk(home, agent, kills_each))).collect();
        agents.into_iter().map(|agent| agent.join().unwrap()).collect()
    });
    let (mut acknowledged, mut found) = (0, 0);
    for (session, steps) in walks.iter().flat_map(|walk| &walk.acknowledged) {
        let recorded = recorded(&home, session);
        assert_eq!(recorded, *steps, "{session}: as many steps are recorded as were acknowledged");
        acknowledged += steps;
        found += recorded;
    }
    let verified = home.run(&["store", "verify", "--json"]).json();
    let total = |count: fn(&Walk) -> usize| walks.iter().map(count).sum::<usize>();
    let (kills, replays) = (total(|walk| walk.kills), total(|walk| walk.replays));
    let unheard = total(|walk| walk.recorded_unheard);
    println!(
        "figure: {kills} servers killed under load, {unheard} of them after writing: {acknowledged} advances acknowledged, {found} found, \
         {replays} replays equal, verify: {} problems",
        verified["counts"]["problems"]
    );
    assert_eq!(verified["counts"]["problems"], json!(0), "{verified}");
    assert!(kills >= kills_each * AGENTS as usize);
}
