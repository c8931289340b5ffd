//! Agent 9 sends sixteen calls before it reads an answer: reads never fail, writes succeed or say when to retry, and
//! the server ends with its input.

use serde_json::{Value, json};

use crate::support::{Agent, ack, events_of_kind, home_with, plain_workflow};

const AT_ONCE: usize = 16;
const ROUNDS: usize = 8;

#[test]
fn figure_agent_9_does_not_wait_for_answers() {
    let home = home_with(&[plain_workflow("project.walk", ROUNDS + 2)]);
    let mut agent = Agent::of(&home);
    let starts: Vec<(&str, Value)> = (0..AT_ONCE)
        .map(|n| ("start_workflow", json!({ "workflowId": "project.walk", "goal": format!("walk {n}") })))
        .collect();
    let mut runs = agent.call_at_once(&starts);
    assert!(runs.iter().all(|run| !run.is_error), "starts of different sessions do not collide");
    let (mut reads, mut writes, mut retried) = (0, 0, 0);
    for round in 0..ROUNDS {
        let looks: Vec<(&str, Value)> = runs
            .iter()
            .enumerate()
            .map(|(n, run)| match n % 4 {
                0 => ("list_workflows", json!({})),
                1 => ("inspect_workflow", json!({ "workflowId": "project.walk", "mode": "preview" })),
                2 => ("resume_session", json!({ "query": format!("walk {n}") })),
                _ => ("continue_workflow", json!({ "stateToken": run.string("stateToken") })),
            })
            .collect();
        for (look, reply) in looks.iter().zip(agent.call_at_once(&looks)) {
            assert!(!reply.is_error, "{look:?}: {}", reply.text);
            reads += 1;
        }
        // In every second round all sixteen write to one session, otherwise each to its own.
        let one = agent.look(&runs[0].string("stateToken"));
        let mut open: Vec<usize> = (0..AT_ONCE).collect();
        while !open.is_empty() {
            let calls: Vec<(&str, Value)> = open
                .iter()
                .map(|n| {
                    let from = if round % 2 == 0 { &runs[*n] } else { &one };
                    ("continue_workflow", ack(from, &format!("part {round}")))
                })
                .collect();
            let mut left = Vec::new();
            for (n, reply) in open.iter().zip(agent.call_at_once(&calls)) {
                if reply.is_error {
                    assert_eq!(reply.data["retry"]["kind"], "retryable_after_ms", "{}", reply.text);
                    left.push(*n);
                    retried += 1;
                } else if round % 2 == 0 || *n == 0 {
                    runs[*n] = reply;
                    writes += 1;
                } else {
                    assert_eq!(reply.raw, runs[0].raw, "one attempt has one answer");
                }
            }
            assert!(left.len() < AT_ONCE, "some calls get through");
            open = left;
        }
    }
    let advances = events_of_kind(&home, "advance_recorded").len();
    assert_eq!(advances, writes, "every acknowledged advance is recorded once");
    let seen = agent.close();
    println!(
        "{}",
        seen.figure(9, &format!("{reads} reads and {writes} writes without an error, {retried} retried"))
    );
}
