//! Commands about the store.

use serde_json::json;
use workrail_testkit::mcp_client::ToolReply;

use crate::stage::Stage;

fn with_a_finished_run() -> (Stage, ToolReply, String) {
    let stage = Stage::new();
    let mut client = stage.server();
    let first = client
        .call("start_workflow", json!({ "workflowId": "team.change", "goal": "give retries a budget" }));
    let label = stage.name(&first, "finished run");
    let second = Stage::follow(&mut client, &first);
    let last = Stage::follow(&mut client, &second);
    client.close();
    (stage, last, label)
}

fn session(reply: &ToolReply) -> String {
    reply.data["run"]["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn verify() {
    let (stage, last, label) = with_a_finished_run();
    stage.say_both(&["store", "verify"]);
    stage.say(&["store", "verify", &label]);
    damage_the_last_segment(&stage, &session(&last));
    stage.say_both(&["store", "verify"]);
    stage.say(&["show", &label]);
    stage.say(&["session", "list"]);
    stage.compare("store_verify");
}

fn damage_the_last_segment(stage: &Stage, session: &str) {
    let events = stage.home().data().join("sessions").join(session).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let last = segments.last().unwrap();
    let mut bytes = std::fs::read(last).unwrap();
    bytes[10] ^= 1;
    std::fs::write(last, bytes).unwrap();
}

#[test]
fn repair() {
    let (stage, last, label) = with_a_finished_run();
    stage.say(&["store", "repair", &label]);
    damage_the_last_segment(&stage, &session(&last));
    stage.say_both(&["store", "repair", &session(&last), "--dry-run"]);
    stage.say(&["store", "repair", &session(&last)]);
    stage.say(&["store", "repair", &session(&last), "--yes"]);
    stage.say_both(&["store", "repair", "--all"]);
    stage.compare("store_repair");
}

#[test]
fn backup_and_restore() {
    let (stage, last, _) = with_a_finished_run();
    let backup = stage.home().root().join("home/backup");
    let backup = backup.to_str().unwrap();
    stage.say(&["store", "backup", backup]);
    stage.say(&["store", "backup", backup, "--verify", "--json"]);
    stage.say(&["store", "restore", backup]);
    damage_the_last_segment(&stage, &session(&last));
    stage.say_both(&["store", "restore", backup, "--dry-run"]);
    stage.say(&["store", "restore", backup]);
    stage.say(&["store", "restore", "/nonexistent"]);
    stage.compare("store_backup_and_restore");
}

#[test]
fn gc() {
    let (stage, _, label) = with_a_finished_run();
    stage.say_both(&["store", "gc"]);
    stage.say_both(&["store", "gc", "--ttl", "0d", "--dry-run"]);
    stage.say(&["session", "keep", &label]);
    stage.say(&["store", "gc", "--ttl", "0d"]);
    stage.say(&["session", "unkeep", &label]);
    stage.say(&["store", "gc", "--ttl", "0d"]);
    stage.say(&["store", "gc", "--ttl", "soon"]);
    stage.compare("store_gc");
}

#[test]
fn keys() {
    let empty = Stage::new();
    empty.say_both(&["store", "keys", "show"]);
    empty.say_both(&["store", "keys", "http-secret"]);
    empty.say(&["store", "keys", "rotate", "--yes"]);
    empty.compare("store_keys_empty");
    let (stage, _, _) = with_a_finished_run();
    stage.say_both(&["store", "keys", "show"]);
    stage.say(&["store", "keys", "rotate"]);
    stage.say(&["store", "keys", "rotate", "--yes"]);
    stage.say(&["store", "keys", "rotate", "--yes", "--json"]);
    std::fs::remove_file(stage.home().data().join("keys/keyring.json")).unwrap();
    stage.say(&["store", "keys", "show"]);
    stage.say(&["store", "keys", "new"]);
    stage.say_both(&["store", "keys", "new", "--yes"]);
    stage.compare("store_keys");
}

#[test]
fn copy() {
    let (stage, _, _) = with_a_finished_run();
    let (data, copy) = (stage.home().data(), stage.home().root().join("home/copy"));
    let (data, copy) = (data.to_str().unwrap(), copy.to_str().unwrap());
    stage.say_both(&["store", "copy", data, copy, "--dry-run"]);
    stage.say(&["store", "copy", data, copy]);
    stage.say(&["store", "copy", data, copy, "--with-keys", "--json"]);
    stage.say(&["store", "copy", data, data]);
    stage.say_both(&["store", "copy", "/nonexistent", copy]);
    stage.say(&["store", "copy", data, "mysql://db.example/workrail"]);
    stage.compare("store_copy");
}
