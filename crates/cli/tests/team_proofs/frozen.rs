//! A server freezes in the middle of a call, for longer than everything that waits for it, and then continues:
//! nothing acknowledged is lost, nothing is applied twice, and no run is advanced by another run's call (G8, G118).

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::team::{access_token, call_server, serve, session_of, tool_request};
use workrail_testkit::wire::Http;

use crate::recorded::{self, note};
use crate::{PROGRAM, is_full};

/// Longer than a writer waits for a lock and, with `timeout=1`, than a database keeps the lock of a frozen writer.
const FROZEN_FOR: Duration = Duration::from_millis(4_500);

fn rounds() -> usize {
    if is_full() { 40 } else { 3 }
}

fn signal(server: &Http, name: &str) {
    let process = server.child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
}

/// Sends a call without waiting for its answer.
fn send(server: &Http, token: &str, arguments: &Value) -> TcpStream {
    let (headers, body) = tool_request(token, "continue_workflow", arguments);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        server.address,
        body.len()
    )
    .unwrap();
    stream
}

/// The answer to a call; `None` if the server could not handle it: the request came too late, or the database did not
/// identify the token in time.
fn answer_on(mut stream: TcpStream) -> Option<ToolReply> {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if ["408", "503"].contains(&status) {
        return None;
    }
    assert_eq!(status, "200", "{answer}");
    Some(ToolReply::read(body))
}

fn may_repeat(reply: &ToolReply) -> bool {
    reply.is_error && reply.data["retry"]["kind"] == "retryable_after_ms"
}

/// Repeats a call until it is answered.
fn at_last(server: &Http, token: &str, tool: &str, arguments: &Value) -> ToolReply {
    loop {
        let reply = call_server(server, token, tool, arguments);
        if !may_repeat(&reply) {
            assert!(!reply.is_error, "{}", reply.text);
            return reply;
        }
    }
}

/// Advances a run step by step. Each call goes to a server that is frozen right after it was sent, after a delay that
/// differs from round to round, and meanwhile to another one. Returns the session and the notes of its steps.
fn advance_over_frozen(homes: [&Home; 2]) -> (String, Vec<String>) {
    let (slow, fast) = (serve(homes[0]), serve(homes[1]));
    let [token, reader] = ["ada", "bob"].map(|name| access_token(homes[0], name, "agent"));
    let start = json!({ "workflowId": "team.long", "goal": "repair the teapot" });
    let mut reply = at_last(&fast, &token, "start_workflow", &start);
    let session = session_of(&reply);
    let mut notes = Vec::new();
    for round in 0..rounds() {
        let mine = note(&format!("of-round-{round}"));
        let call = json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": mine } });
        let pending = send(&slow, &token, &call);
        // The call's progress by then varies; a timed wait would always find it at the same point.
        (0..round * 40).for_each(|_| std::thread::yield_now());
        signal(&slow, "STOP");
        let frozen = Instant::now();
        let mut meanwhile = call_server(&fast, &token, "continue_workflow", &call);
        while frozen.elapsed() < FROZEN_FOR {
            let looked = call_server(&fast, &reader, "resume_session", &json!({ "sessionId": session }));
            assert!(!looked.is_error, "readers do not wait: {}", looked.text);
            if may_repeat(&meanwhile) {
                meanwhile = call_server(&fast, &token, "continue_workflow", &call);
            }
        }
        signal(&slow, "CONT");
        let late = answer_on(pending);
        let again = at_last(&fast, &token, "continue_workflow", &call);
        for told in [Some(&meanwhile), late.as_ref()].into_iter().flatten() {
            assert!(may_repeat(told) || !told.is_error, "{}", told.text);
            if !told.is_error {
                assert_eq!(told.string("ackToken"), again.string("ackToken"), "one call, one answer");
            }
        }
        notes.push(mine);
        reply = again;
    }
    slow.end("TERM");
    fast.end("TERM");
    (session, notes)
}

#[test]
fn figure_a_frozen_server_on_a_database() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let address = format!("{}&timeout=1", cluster.address(&database, ROLE, "team"));
    let home = crate::home_with_long_workflow().with("WORKRAIL_STORE", &address);
    let other = Home::new(PROGRAM).with("WORKRAIL_STORE", &address);
    other.write(
        &other.workflows().join("team.long.json"),
        &std::fs::read_to_string(home.workflows().join("team.long.json")).unwrap(),
    );
    let (session, notes) = advance_over_frozen([&home, &other]);
    assert_eq!(recorded::in_database(cluster, &database, &session), notes, "the log is the serial history");
    assert_eq!(home.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
    println!("a server frozen {} times for {FROZEN_FOR:?}: nothing lost, nothing twice", notes.len());
}

#[test]
fn figure_a_frozen_server_on_a_data_directory() {
    let home = crate::home_with_long_workflow();
    let (session, notes) = advance_over_frozen([&home, &home]);
    assert_eq!(recorded::in_directory(&home.data(), &session), notes, "the log is the serial history");
    assert_eq!(home.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
    println!("a server frozen {} times for {FROZEN_FOR:?}: nothing lost, nothing twice", notes.len());
}
