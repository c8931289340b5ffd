//! Many clients send one ack at once, over all servers of a team: the run advances once, and everyone gets the same
//! reply (G8).

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::team::{access_token, call_server, serve, session_of};
use workrail_testkit::wire::Http;

use crate::recorded::{self, note};
use crate::{PROGRAM, is_full};

const SERVERS: usize = 4;
const RACERS: usize = 16;

fn rounds() -> usize {
    if is_full() { 100 } else { 8 }
}

/// Repeats a call for as long as another racer has the session.
fn advance(server: &Http, token: &str, call: &Value) -> ToolReply {
    loop {
        let reply = call_server(server, token, "continue_workflow", call);
        if !reply.is_error {
            return reply;
        }
        assert_eq!(reply.data["retry"]["kind"], "retryable_after_ms", "{}", reply.text);
    }
}

#[test]
fn of_sixteen_racers_with_one_ack_over_four_servers_one_advances_the_run() {
    let Some(cluster) = Cluster::start(&["max_connections=200"]) else { return };
    let database = cluster.database();
    let address = cluster.address(&database, ROLE, "team");
    let first = crate::home_with_long_workflow().with("WORKRAIL_STORE", &address);
    let others = (1..SERVERS).map(|_| Home::new(PROGRAM).with("WORKRAIL_STORE", &address));
    let machines: Vec<Home> = [first].into_iter().chain(others).collect();
    let servers: Vec<Http> = machines.iter().map(serve).collect();
    // Their own tokens: the limits of one token are not the subject.
    let tokens: Vec<String> =
        (0..RACERS).map(|racer| access_token(&machines[0], &format!("racer-{racer}"), "agent")).collect();
    let start = json!({ "workflowId": "team.long", "goal": "repair the teapot" });
    let mut reply = call_server(&servers[0], &tokens[0], "start_workflow", &start);
    assert!(!reply.is_error, "{}", reply.text);
    let session = session_of(&reply);
    let segments = || {
        let count = format!("SELECT count(*) FROM workrail.segment WHERE session = '{session}'");
        cluster.count(&database, &count)
    };
    let mut notes = Vec::new();
    for round in 0..rounds() {
        let mine = note(&format!("of-round-{round}"));
        let call = json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": mine } });
        let (begin, before) = (Barrier::new(RACERS), segments());
        let answers: Vec<ToolReply> = thread::scope(|scope| {
            let racers: Vec<_> = (0..RACERS)
                .map(|racer| {
                    let (server, token) = (&servers[racer % SERVERS], &tokens[racer]);
                    let (begin, call) = (&begin, &call);
                    scope.spawn(move || {
                        begin.wait();
                        advance(server, token, call)
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        for answer in &answers {
            assert_eq!(answer.raw, answers[0].raw, "round {round}: one ack, one reply");
        }
        assert_eq!(segments(), before + 1, "round {round}: one advance");
        notes.push(mine);
        reply = answers.into_iter().next().unwrap();
    }
    assert_eq!(recorded::in_database(&cluster, &database, &session), notes, "the log is the serial history");
    assert_eq!(machines[0].done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
    for server in servers {
        server.end("TERM");
    }
}
