//! One linear workflow over real stdio MCP: start, advance, blocked, replay, rehydrate, rewind, crash.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use workrail_testkit::folder::{entries, recorded};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

fn start(client: &mut McpClient) -> ToolReply {
    let reply = client.call("start_workflow", json!({ "workflowId": "wr.small_change", "goal": "try it" }));
    assert!(!reply.is_error, "{}", reply.text);
    reply
}

#[test]
fn a_run_from_start_to_completion() {
    let home = home();
    let mut client = home.client();
    let mut reply = start(&mut client);
    let mut steps = Vec::new();
    while reply.data["isComplete"] != true {
        steps.push(reply.step().as_str().unwrap().to_owned());
        reply = client.call("continue_workflow", reply.ack("Did the work."));
        assert!(!reply.is_error, "{}", reply.text);
    }
    assert_eq!(steps, ["understand", "change", "verify", "report"]);
    assert_eq!(reply.data["nextIntent"], "complete");
    assert!(client.close().success());
}

/// G1: a run, and the commands that show it, write only to the data directory and use no network.
#[test]
fn a_run_stays_in_its_data_directory_and_off_the_network() {
    let home = home();
    // Temporary files would be found in the project.
    let home = home.with("TMPDIR", home.project());
    let outside = || -> Vec<PathBuf> {
        entries(home.root()).into_iter().filter(|path| !path.starts_with("data")).collect()
    };
    let before = outside();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("network");
    let tracer = ["strace", "-f", "-qq", "-A", "-o", log.to_str().unwrap(), "-e", "trace=%network"];
    let traced = Command::new(tracer[0]).args(&tracer[1..]).arg("true").status();
    let may_trace = traced.is_ok_and(|status| status.success());
    let tracer: &[&str] = if may_trace { &tracer } else { &[] };

    let mut client = home.server_in(tracer).unwrap();
    let mut reply = start(&mut client);
    while reply.data["isComplete"] != true {
        reply = client.call("continue_workflow", reply.ack("Did the work."));
        assert!(!reply.is_error, "{}", reply.text);
    }
    client.until_indexed();
    assert!(client.close().success());
    for command in [&["status"][..], &["session", "list"], &["workflow", "list"], &["store", "verify"]] {
        let ran = home.run_in(tracer, command);
        assert_eq!(ran.code, 0, "{command:?}: {ran:?}");
    }
    assert_eq!(outside(), before);
    match may_trace {
        true => assert!(!std::fs::read_to_string(&log).unwrap().contains("AF_INET")),
        false => println!("the network was not watched: strace is not here or may not trace"),
    }
}

#[test]
fn both_channels_carry_the_whole_text() {
    let home = home();
    let mut client = home.client();
    let reply = start(&mut client);
    assert_eq!(reply.text, reply.string("text"));
    for needed in [reply.string("stateToken"), reply.string("ackToken")] {
        assert!(reply.text.contains(&needed), "{needed} is not in the text");
        assert!(needed.len() <= 64, "{needed}");
    }
    assert!(reply.text.starts_with(&format!("Run {}", reply.data["run"]["label"].as_str().unwrap())));
    assert_eq!(reply.data["nextCall"]["arguments"]["ackToken"], reply.data["ackToken"]);
}

#[test]
fn the_same_ack_returns_the_same_bytes_across_restart_and_kill() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let call = first.ack("looked at it");
    let answer = client.call("continue_workflow", call.clone());
    client.until_indexed();
    let before = recorded(&home.data());
    for _ in 0..20 {
        assert_eq!(client.call("continue_workflow", call.clone()), answer);
    }
    client.kill();
    let mut client = home.client();
    assert_eq!(client.call("continue_workflow", call.clone()), answer);
    client.close();
    let mut client = home.client();
    assert_eq!(client.call("continue_workflow", call), answer);
    assert_eq!(recorded(&home.data()), before, "a replay writes nothing");
}

/// G31: the recorded answer with a warning, and an ack for a fork.
#[test]
fn the_same_ack_with_another_payload_is_reported_and_offers_a_branch() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let answer = client.call("continue_workflow", first.ack("one"));
    let differs = client.call("continue_workflow", first.ack("two"));
    assert_eq!(differs.data["warnings"][0]["code"], "REPLAY_INPUT_DIFFERS");
    assert_eq!(differs.data["stateToken"], answer.data["stateToken"]);
    let fork = json!({
        "ackToken": differs.string("forkAckToken"), "output": { "notesMarkdown": "two" },
    });
    let forked = client.call("continue_workflow", fork.clone());
    assert!(!forked.is_error, "{}", forked.text);
    assert_ne!(forked.data["stateToken"], answer.data["stateToken"]);
    assert_eq!(client.call("continue_workflow", fork), forked);
}

/// G36: rehydrating returns the pending step and appends nothing.
#[test]
fn rehydrating_changes_no_byte_of_the_data_directory() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    client.call("continue_workflow", first.ack("Did the work."));
    client.until_indexed();
    let before = recorded(&home.data());
    for _ in 0..5 {
        let again = client.call("continue_workflow", json!({ "stateToken": first.string("stateToken") }));
        assert_eq!(again.step(), first.step());
        assert_ne!(again.data["ackToken"], first.data["ackToken"], "each look mints a fresh attempt");
    }
    assert_eq!(recorded(&home.data()), before);
}

/// G40: a blocked advance is recorded, and the retry has its own ack.
#[test]
fn a_step_without_notes_is_blocked_and_its_retry_advances() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let empty = json!({ "ackToken": first.string("ackToken"), "context": { "ticket": "T-1" } });
    let blocked = client.call("continue_workflow", empty.clone());
    assert_eq!(blocked.data["kind"], "blocked");
    assert_eq!(blocked.data["blockers"][0]["code"], "MISSING_REQUIRED_NOTES");
    assert_eq!(client.call("continue_workflow", empty), blocked, "a blocked answer is replayed too");
    let advanced = client.call("continue_workflow", blocked.ack("now with notes"));
    assert_eq!(advanced.step(), "change");
}

#[test]
fn rewinding_to_every_node_creates_branches_and_loses_nothing() {
    let home = home();
    let mut client = home.client();
    let mut trunk = vec![start(&mut client)];
    for n in 0..3 {
        let next = client.call("continue_workflow", trunk.last().unwrap().ack(&format!("trunk {n}")));
        trunk.push(next);
    }
    for (n, point) in trunk.iter().take(3).enumerate() {
        let again = client.call("continue_workflow", json!({ "stateToken": point.string("stateToken") }));
        let branch = client.call("continue_workflow", again.ack(&format!("branch {n}")));
        assert!(!branch.is_error, "{}", branch.text);
        assert_eq!(branch.step(), trunk[n + 1].step());
        assert_ne!(branch.data["stateToken"], trunk[n + 1].data["stateToken"]);
    }
    for point in &trunk {
        let again = client.call("continue_workflow", json!({ "stateToken": point.string("stateToken") }));
        assert_eq!(again.step(), point.step());
    }
}

#[test]
fn two_servers_share_one_session() {
    let home = home();
    let mut one = home.client();
    let mut two = home.client();
    let mut reply = start(&mut one);
    for n in 0..4 {
        let client = if n % 2 == 0 { &mut two } else { &mut one };
        reply = client.call("continue_workflow", reply.ack("Did the work."));
        assert!(!reply.is_error, "{}", reply.text);
    }
    assert_eq!(reply.data["isComplete"], true);
}

#[test]
fn the_tool_list_is_small_and_fixed() {
    let home = home();
    let mut client = home.client();
    let listed = client.request("tools/list", json!({}));
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(
        names,
        [
            "list_workflows",
            "inspect_workflow",
            "start_workflow",
            "continue_workflow",
            "checkpoint_workflow",
            "resume_session",
            "read_run"
        ]
    );
    assert!(listed.to_string().len() <= 8 * 1024);
}
