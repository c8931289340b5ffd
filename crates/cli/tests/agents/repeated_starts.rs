//! A start with an idempotency key, repeated: after a lost reply, from several processes, after a kill (G30).

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{ToolReply, reply_data};
use workrail_testkit::skipped::skip;
use workrail_testkit::strace::may_trace;

use crate::support::{Agent, contents, events, home_with, is_on_database};
use crate::wording::assert_text;

fn two_steps() -> Value {
    json!({
        "id": "team.two", "name": "Two", "description": "Two steps.", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "A", "prompt": "Do a." }, { "id": "b", "title": "B", "prompt": "Do b." },
        ],
    })
}

fn call() -> Value {
    json!({ "workflowId": "team.two", "goal": "tidy the shed", "context": { "ticket": "T-1" }, "idempotencyKey": "k-1" })
}

fn refused(agent: &mut Agent, arguments: Value) -> ToolReply {
    let reply = agent.call("start_workflow", arguments);
    assert!(reply.is_error, "{}", reply.text);
    reply
}

fn started(home: &Home) -> usize {
    events(home).iter().filter(|event| event["kind"] == json!("run_started")).count()
}

#[test]
fn a_repeated_start_returns_the_recorded_reply_and_starts_nothing() {
    let home = home_with(&[two_steps()]);
    let mut agent = Agent::of(&home);
    let first = agent.done("start_workflow", call());
    agent.close();
    let before = contents(&home);
    // Another process, and another file under the same id: the answer comes from the record.
    home.write(
        &home.workflows().join("team.two.json"),
        &two_steps().to_string().replace("Do a.", "Do something else."),
    );
    let again = Agent::of(&home).done("start_workflow", call());
    assert_eq!(again.raw, first.raw);
    assert!(contents(&home) == before, "a repeated start changed the data directory");
    // The run continues from either reply.
    let ack = json!({ "ackToken": again.string("ackToken"), "output": { "notesMarkdown": "Did the work." } });
    let next = Agent::of(&home).done("continue_workflow", ack);
    assert_eq!(Agent::of(&home).done("start_workflow", call()).raw, first.raw, "also after the run went on");
    assert_eq!(started(&home), 1);
    // Inside the run and next to it, the key counts for that session.
    let mut inside = call();
    inside["parent"] = json!(next.string("stateToken"));
    inside["idempotencyKey"] = json!("k-inside");
    let child = Agent::of(&home).done("start_workflow", inside.clone());
    assert_eq!(Agent::of(&home).done("start_workflow", inside).raw, child.raw);
    assert_ne!(child.data["run"], first.data["run"]);
    assert_eq!(child.data["run"]["sessionId"], first.data["run"]["sessionId"]);
    assert_eq!(started(&home), 2);
}

#[test]
fn the_same_key_with_other_arguments_is_refused_and_names_the_run() {
    let home = home_with(&[two_steps()]);
    let mut agent = Agent::of(&home);
    let first = agent.done("start_workflow", call());
    let label = first.data["run"]["label"].as_str().unwrap();
    for (field, value) in [
        ("goal", json!("mow the lawn")),
        ("context", json!({ "ticket": "T-2" })),
        ("mode", json!("full_auto_never_stop")),
    ] {
        let mut other = call();
        other[field] = value;
        let refused = refused(&mut agent, other);
        assert_eq!(refused.data["code"], json!("VALIDATION_ERROR"), "{}", refused.text);
        assert!(refused.text.contains(label), "{}", refused.text);
        assert_text(&home, "same_key_with_other_arguments", &refused.text);
    }
    let mut other = call();
    other["idempotencyKey"] = json!("x".repeat(201));
    refused(&mut agent, other.clone());
    // An empty optional argument counts as absent.
    other["idempotencyKey"] = json!("");
    agent.done("start_workflow", other);
    let mut other = call();
    other["idempotencyKey"] = json!("k-2");
    let second = agent.done("start_workflow", other);
    assert_ne!(second.data["run"], first.data["run"]);
}

#[test]
fn processes_that_race_with_one_key_start_one_run() {
    const PROCESSES: usize = 6;
    let home = home_with(&[two_steps()]);
    let barrier = std::sync::Barrier::new(PROCESSES);
    let replies: Vec<String> = std::thread::scope(|threads| {
        let racers: Vec<_> = (0..PROCESSES)
            .map(|_| {
                threads.spawn(|| {
                    let mut agent = Agent::of(&home);
                    barrier.wait();
                    agent.done("start_workflow", call()).raw
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    assert_eq!(started(&home), 1);
}

/// Sends one start to a server that is killed as it enters the Nth call of a kind; returns whether it answered.
fn answered(home: &Home, call_kind: &str, when: usize) -> bool {
    start_traced(home, call_kind, &format!("signal=KILL:when={when}"), &call()).is_some()
}

/// Sends one start to a server in which the Nth call of a kind is tampered with; returns its answer, if any.
fn start_traced(home: &Home, call_kind: &str, tampered: &str, arguments: &Value) -> Option<Value> {
    let (traced, injected) = (format!("trace={call_kind}"), format!("inject={call_kind}:{tampered}"));
    let tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &traced, "-e", &injected];
    let mut child = home
        .command_in(&tracer, &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "0" } },
    });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let start = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "start_workflow", "arguments": arguments },
    });
    let mut stdin = child.stdin.take().unwrap();
    // A server that is already dead does not read, as intended.
    let _ = write!(stdin, "{hello}\n{ready}\n{start}\n");
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer = text.lines().find(|line| line.contains("\"id\":2"))?;
    serde_json::from_str(answer).ok()
}

/// Whether system calls on a data directory's files can be made to fail; if the machine does not allow it, the proof is
/// named as skipped.
fn may_fail_calls(proof: &str) -> bool {
    if is_on_database() {
        // There are no files; the suite on data directories proves it.
        return false;
    }
    let may_trace = may_trace();
    if !may_trace {
        skip(proof, "strace is not here or may not trace");
    }
    may_trace
}

#[test]
fn figure_a_start_without_a_key_whose_outcome_is_unknown_is_looked_for_and_not_repeated() {
    if !may_fail_calls("a start whose outcome is unknown") {
        return;
    }
    let (mut failed, mut unknown) = (0, 0);
    let mut unkeyed = call();
    unkeyed.as_object_mut().unwrap().remove("idempotencyKey");
    for when in 1.. {
        let home = home_with(&[two_steps()]);
        Agent::of(&home)
            .done("start_workflow", json!({ "workflowId": "team.two", "goal": "the first of all" }));
        let answer = start_traced(&home, "fsync", &format!("error=EIO:when={when}"), &unkeyed);
        // The first calls belong to the server's start, and it then does not serve.
        let Some(answer) = answer else { continue };
        let said = reply_data(&answer["result"]);
        if answer["result"]["isError"] != true {
            break;
        }
        failed += 1;
        let mut agent = Agent::of(&home);
        if said["details"]["outcome"] == "unknown" {
            unknown += 1;
            assert_eq!(
                (&said["nextCall"]["tool"], &said["retry"]["kind"]),
                (&json!("resume_session"), &json!("not_retryable")),
                "{said}"
            );
            if agent.follow_call(&said["nextCall"]).is_error {
                agent.done("start_workflow", call());
            }
        } else {
            agent.done("start_workflow", unkeyed.clone());
        }
        let runs = agent.done("resume_session", json!({})).data["searchedRuns"].clone();
        assert_eq!(runs, 2, "fsync {when}: {said}");
    }
    println!(
        "figure: a start failed {failed} times, {unknown} of them with an unknown outcome: always one run"
    );
    assert!(unknown > 0, "{failed} failed");
}

#[test]
fn figure_a_start_killed_at_any_moment_and_repeated_is_one_run() {
    if !may_fail_calls("a start killed at system calls") {
        return;
    }
    let (mut kills, mut recorded) = (0, 0);
    for call_kind in ["fsync", "write", "?renameat2"] {
        for when in 1.. {
            let home = home_with(&[two_steps()]);
            let got_through = answered(&home, call_kind, when);
            kills += usize::from(!got_through);
            recorded += usize::from(!got_through && started(&home) == 1);
            let first = Agent::of(&home).done("start_workflow", call());
            let again = Agent::of(&home).done("start_workflow", call());
            assert_eq!(first.raw, again.raw, "{call_kind} {when}");
            let ack = json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "Did the work." } });
            Agent::of(&home).done("continue_workflow", ack);
            assert_eq!(started(&home), 1, "{call_kind} {when}");
            if got_through {
                break;
            }
        }
    }
    println!(
        "figure: a start killed {kills} times, {recorded} of them after it was recorded: always one run"
    );
    assert!(kills > 8 && recorded > 0, "{kills} kills, {recorded} recorded");
}
