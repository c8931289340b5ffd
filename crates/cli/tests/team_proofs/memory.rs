//! A server's memory stays constant, however many calls it serves.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use serde_json::json;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::team::{access_token, call_server, serve, session_of};
use workrail_testkit::wire::Http;

use crate::is_full;

const CLIENTS: u64 = 4;
/// A single member may not send so many calls a second.
const MEMBERS: usize = 16;
/// Relative to the second quarter of the calls, when caches are full. In the short run they add to the growth.
const GROWTH_MAX: f64 = 1.15;

fn resident_kb(server: &Http) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A run with some steps, reads of it, and refused calls; returns the number of calls.
fn work(server: &Http, token: &str, number: u64) -> u64 {
    let start = json!({ "workflowId": "team.long", "goal": format!("repair teapot {number}") });
    let mut reply = call_server(server, token, "start_workflow", &start);
    let session = session_of(&reply);
    for step in 0..4 {
        let output = json!({ "notesMarkdown": format!("Step {step} of {number}: the spout is cracked.") });
        let call = json!({ "ackToken": reply.string("ackToken"), "output": output });
        reply = call_server(server, token, "continue_workflow", &call);
        assert!(!reply.is_error, "{}", reply.text);
        call_server(server, token, "continue_workflow", &call);
    }
    let looks = [
        ("resume_session", json!({ "query": format!("teapot {number}") })),
        ("resume_session", json!({ "sessionId": session })),
        ("read_run", json!({ "run": session })),
        ("list_workflows", json!({})),
        ("continue_workflow", json!({ "ackToken": "ack.v2.amber-falcon.nonsense" })),
    ];
    for (tool, arguments) in &looks {
        call_server(server, token, tool, arguments);
    }
    1 + 8 + 5
}

#[test]
fn figure_memory_of_a_server() {
    let Some(cluster) = Cluster::shared() else { return };
    let address = cluster.address(&cluster.database(), ROLE, "team");
    let home = crate::home_with_long_workflow().with("WORKRAIL_STORE", address);
    let calls_max = if is_full() { 100_000 } else { 1_500 };
    let server = serve(&home);
    let tokens: Vec<String> =
        (0..MEMBERS).map(|number| access_token(&home, &format!("member-{number}"), "agent")).collect();
    let (calls, numbers) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut samples: Vec<(u64, u64)> = Vec::new();
    // The sampler waits for a message instead of polling: with two cores, polling would take half of the machine.
    let (finished, runs) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let finished = finished.clone();
            let (server, tokens, calls, numbers) = (&server, &tokens, &calls, &numbers);
            scope.spawn(move || {
                while calls.load(Ordering::Relaxed) < calls_max {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let token = &tokens[number as usize % MEMBERS];
                    let count = work(server, token, number);
                    finished.send(calls.fetch_add(count, Ordering::Relaxed) + count).unwrap();
                }
            });
        }
        drop(finished);
        let mut next = 0;
        for done in runs {
            if done >= next {
                samples.push((done, resident_kb(&server)));
                next = done + calls_max / 100;
            }
        }
    });
    let mean_of = |quarter: u64| {
        let within = |(done, _): &&(u64, u64)| done * 4 / calls_max.max(1) == quarter;
        let kb: Vec<u64> = samples.iter().filter(within).map(|(_, kb)| *kb).collect();
        kb.iter().sum::<u64>() as f64 / kb.len() as f64
    };
    let (second, last) = (mean_of(1), mean_of(3));
    println!(
        "{} calls: {:.1} MB in the second quarter, {:.1} MB in the last, growth {:.2} (at most {GROWTH_MAX})",
        calls.load(Ordering::Relaxed),
        second / 1024.0,
        last / 1024.0,
        last / second
    );
    server.end("TERM");
    assert!(last / second <= GROWTH_MAX, "{samples:?}");
}
