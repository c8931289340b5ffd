//! Nearly right names, and commands under other names, through the real binary.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "snapshot/mod.rs"]
mod snapshot;

use serde_json::{Value, json};
use workrail_core::label::RunLabel;
use workrail_testkit::home::{CommandRun, Home};
use workrail_testkit::mcp_client::{McpClient, ToolReply};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Change something.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }, { "id": "b", "title": "B", "prompt": "Do b." }],
    }));
    home
}

fn start(client: &mut McpClient) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "rename a setting" }))
}

fn label(reply: &ToolReply) -> String {
    reply.data["run"]["label"].as_str().unwrap().to_owned()
}

/// The run that a command showed.
fn shown(ran: &CommandRun) -> Value {
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()["report"]["runs"][0]["label"].clone()
}

#[test]
fn a_nearly_right_label_names_its_run_and_says_so() {
    let home = home();
    let run = label(&start(&mut home.client()));
    let (adjective, animal) = run.split_once('-').unwrap();
    let mut wrong = run.clone();
    wrong.replace_range(1..2, if &run[1..2] == "x" { "y" } else { "x" });
    let near =
        [&run[..3], animal, &format!("{}-{}", &adjective[..2], &animal[..2]), &wrong, &run[..run.len() - 1]];
    for typed in near {
        let ran = home.run(&["show", typed, "--json"]);
        assert_eq!(shown(&ran), run.as_str());
        assert_eq!(ran.err, format!("`{typed}` is read as {run}.\n"));
    }
    for same in [run.to_uppercase(), run.replace('-', " "), run.replace('-', "_")] {
        let ran = home.run(&["show", &same, "--json"]);
        assert_eq!((shown(&ran), ran.err.as_str()), (json!(run), ""));
    }
    for command in [
        &["log", animal][..],
        &["tree", animal],
        &["report", animal],
        &["session", "keep", animal],
        &["session", "unkeep", animal],
        &["session", "prefs", "show", "--session", animal],
        &["session", "export", animal, "-o", "near.json"],
        &["store", "verify", animal],
        &["close", animal, "--reason", "over"],
    ] {
        home.done(command);
    }
}

#[test]
fn a_name_of_several_runs_lists_them() {
    let home = home();
    let mut client = home.client();
    // Two runs whose labels begin alike: among so many runs there are always some.
    let labels: Vec<String> = (0..40).map(|_| label(&start(&mut client))).collect();
    let alike = |text: &str| labels.iter().filter(|label| label.starts_with(text)).count();
    let prefix =
        labels.iter().map(|label| &label[..2]).find(|text| alike(text) > 1).expect("two begin alike");
    let ran = home.run(&["show", prefix, "--json"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let candidates = ran.json()["error"]["details"]["candidates"].clone();
    let candidates: Vec<&str> =
        candidates.as_array().unwrap().iter().map(|candidate| candidate.as_str().unwrap()).collect();
    let begins = |own: &&String| RunLabel::parse(own).unwrap().nearness(prefix).is_some();
    let mut expected: Vec<&str> = labels.iter().filter(begins).map(String::as_str).collect();
    // Runs with the same label are distinguished by their ids.
    let mut found: Vec<&str> =
        candidates.iter().map(|candidate| candidate.split(' ').next().unwrap()).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    let text = home.run(&["show", prefix]).err;
    assert!(text.contains(candidates[0]) && text.contains(candidates[1]), "{text}");
}

#[test]
fn what_cannot_be_undone_needs_the_whole_label() {
    let home = home();
    let run = label(&start(&mut home.client()));
    for near in [&run[..run.len() - 1], &run[..4]] {
        let ran = home.run(&["session", "delete", near, "--yes"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(&run), "the label is named: {}", ran.err);
    }
    home.done(&["show", &run]);
    home.done(&["session", "delete", &run.to_uppercase(), "--yes"]);
}

#[test]
fn a_name_possibly_in_a_damaged_session_says_so() {
    let home = home();
    let mut client = home.client();
    let started =
        client.call("start_workflow", json!({ "workflowId": "wr.small_change", "goal": "be damaged" }));
    client.close();
    let session = started.data["run"]["sessionId"].as_str().unwrap().to_owned();
    let unknown = home.run(&["show", "amber-nobody"]);
    std::fs::write(home.data().join("sessions").join(session).join("manifest.jsonl"), "damaged\n").unwrap();
    let damaged = home.run(&["show", &started.label()]);
    assert_eq!((unknown.code, damaged.code), (2, 2));
    let said = format!("{}{}", unknown.err, damaged.err.replace(&started.label(), "[label]"));
    snapshot::settings().bind(|| insta::assert_snapshot!("name_in_a_damaged_session", said));
}

#[test]
fn a_wrong_command_leads_to_the_right_one() {
    let home = home();
    let mut said = String::new();
    for command in [
        &["runs"][..],
        &["ls"],
        &["sessions", "resume", "retry", "budget"],
        &["status", "amber-falcon"],
        &["status", "amber", "falcon"],
        &["continue", "amber-falcon"],
        &["verify"],
        &["amber-falcon"],
        &["cancel", "amber-falcon", "--reason", "no longer needed"],
        &["delete", "amber-falcon"],
        &["dashboard"],
        &["nonsense"],
    ] {
        let ran = home.run(command);
        assert_eq!(ran.code, 2, "{ran:?}");
        said.push_str(&format!("$ workrail {}\n{}\n", command.join(" "), ran.err));
    }
    snapshot::settings().bind(|| insta::assert_snapshot!("wrong_commands", said));
}
