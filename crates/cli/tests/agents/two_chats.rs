//! Agent 4 is in two chats, which resume the same node from two processes at the same moment: each gets its branch,
//! and every acknowledged note is found afterwards.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use serde_json::Value;
use workrail_testkit::mcp_client::ToolReply;

use crate::support::{Agent, ack, events_of_kind, home_with, plain_workflow};

const ROUNDS: usize = 24;
const RETRIES_MAX: usize = 50;

/// Repeats a call until the session is free, as the error says.
fn insist(agent: &mut Agent, call: &Value) -> (ToolReply, usize) {
    for retries in 0..RETRIES_MAX {
        let reply = agent.call("continue_workflow", call.clone());
        if !reply.is_error {
            return (reply, retries);
        }
        assert_eq!(reply.data["retry"]["kind"], "retryable_after_ms", "{}", reply.text);
    }
    panic!("the session was never free");
}

/// One chat's part of a round: it resumes the node, or has the same ack as the other chat.
fn take_part(
    agent: &mut Agent,
    at: &ToolReply,
    same_ack: bool,
    notes: &str,
    gate: &Barrier,
) -> (ToolReply, usize) {
    let from = if same_ack { at.clone() } else { agent.look(&at.string("stateToken")) };
    gate.wait();
    let (reply, retries) = insist(agent, &ack(&from, notes));
    if reply.data["warnings"][0]["code"] != "REPLAY_INPUT_DIFFERS" {
        return (reply, retries);
    }
    // The other chat was first; the suggested call keeps both.
    let mut call = ack(&from, notes);
    call["ackToken"] = reply.data["forkAckToken"].clone();
    let (reply, more) = insist(agent, &call);
    (reply, retries + more)
}

#[test]
fn figure_agent_4_resumes_in_two_chats_at_once() {
    let home = home_with(&[plain_workflow("project.walk", ROUNDS + 1)]);
    let mut chats = [Agent::of(&home), Agent::of(&home)];
    let mut at = chats[0].start("project.walk", "two at once");
    let mut acknowledged: BTreeMap<String, String> = BTreeMap::new();
    let mut retried = 0;
    for round in 0..ROUNDS {
        let same_ack = round % 3 == 2;
        let gate = Barrier::new(chats.len());
        let results: Vec<(String, ToolReply, usize)> = thread::scope(|scope| {
            let (at, gate) = (&at, &gate);
            let running: Vec<_> = chats
                .iter_mut()
                .enumerate()
                .map(|(chat, agent)| {
                    scope.spawn(move || {
                        let notes = format!("chat {chat} in round {round}");
                        let (reply, retries) = take_part(agent, at, same_ack, &notes, gate);
                        (notes, reply, retries)
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let here = chats[round % 2].look(&at.string("stateToken"));
        let summaries: Vec<&Value> =
            here.data["branches"].as_array().unwrap().iter().map(|branch| &branch["summary"]).collect();
        assert_eq!(summaries.len(), 2, "two chats, two branches: {}", here.text);
        for (notes, reply, retries) in &results {
            assert!(summaries.contains(&&Value::from(notes.as_str())), "{notes} is lost: {}", here.text);
            acknowledged.insert(reply.string("stateToken"), notes.clone());
            retried += retries;
        }
        at = results[round % 2].1.clone();
    }
    let [mut one, two] = chats;
    for (state_token, notes) in &acknowledged {
        let again = one.look(state_token);
        let last = again.data["recap"]["entries"].as_array().unwrap().last().unwrap();
        assert_eq!(last["notes"], notes.as_str(), "each chat's note is on its own branch");
    }
    assert_eq!(acknowledged.len(), 2 * ROUNDS, "every chat got a home of its own in every round");
    for notes in acknowledged.values() {
        let recorded = events_of_kind(&home, "node_output_appended");
        let same =
            recorded.iter().filter(|event| event["data"]["payload"]["notesMarkdown"] == notes.as_str());
        assert_eq!(same.count(), 1, "{notes} is recorded once");
    }
    let found = format!("{} notes acknowledged and found, {retried} lock retries", acknowledged.len());
    println!("{}", one.close().and(two.close()).figure(4, &found));
}
