//! Damaged content: what reports it, what is recomputed, what is restored from a backup (G27).

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use crate::scene::{advance, finished, label, session, unfinished};
use crate::wording::assert_text;

/// Steps, then a loop that an artifact ends, then one more step.
fn looping() -> Value {
    json!({
        "id": "team.looping", "name": "Looping", "description": "Steps and a loop.", "version": "1.0.0",
        "steps": [
            { "id": "first", "title": "First", "prompt": "Begin." },
            {
                "id": "rounds", "type": "loop", "title": "Rounds",
                "loop": {
                    "type": "while", "maxIterations": 5,
                    "conditionSource": { "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control", "loopId": "rounds" },
                },
                "body": [{
                    "id": "round", "title": "Round", "prompt": "Go round.",
                    "outputContract": { "contractRef": "wr.contracts.loop_control" },
                }],
            },
            { "id": "last", "title": "Last", "prompt": "End." },
        ],
    })
}

fn home() -> Home {
    let home = crate::scene::home();
    home.workflow(&looping());
    home
}

fn step(client: &mut McpClient, reply: &ToolReply, notes: &str, artifacts: Value) -> ToolReply {
    let arguments = json!({
        "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": notes, "artifacts": artifacts },
    });
    let next = client.call("continue_workflow", arguments);
    assert!(!next.is_error, "{}", next.text);
    next
}

/// A run with a loop, long notes, a checkpoint and a branch, which waits at its last step.
fn long_run(home: &Home) -> ToolReply {
    let mut client = home.client();
    let start = json!({ "workflowId": "team.looping", "goal": "round and round", "idempotencyKey": "one" });
    let start = client.call("start_workflow", start);
    assert!(!start.is_error, "{}", start.text);
    let turn =
        |decision: &str| json!([{ "kind": "wr.loop_control", "loopId": "rounds", "decision": decision }]);
    let first = step(&mut client, &start, &"long notes ".repeat(600), json!([]));
    let kept = client.call(
        "checkpoint_workflow",
        json!({ "checkpointToken": first.string("checkpointToken"), "output": { "notesMarkdown": "half way" } }),
    );
    assert!(!kept.is_error, "{}", kept.text);
    let again = step(&mut client, &first, "once more", turn("continue"));
    let last = step(&mut client, &again, "enough", turn("stop"));
    assert_eq!(last.step(), "last", "{}", last.text);
    last
}

fn content_files(home: &Home, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let path = home.data().join(folder);
    let entries = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            (
                format!("{folder}/{}", entry.file_name().into_string().unwrap()),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
fn every_snapshot_and_workflow_is_recomputed_byte_for_byte() {
    let home = home();
    let last = long_run(&home);
    let mut wanted = content_files(&home, "snapshots");
    wanted.extend(content_files(&home, "workflows/pinned"));
    assert!(wanted.len() >= 5, "{:?}", wanted.keys());
    for (number, (path, bytes)) in wanted.iter().enumerate() {
        let file = home.data().join(path);
        match number % 3 {
            0 => fs::remove_file(&file).unwrap(),
            1 => fs::write(&file, &bytes[..bytes.len() / 2]).unwrap(),
            _ => fs::write(&file, b"{}").unwrap(),
        }
    }
    let planned = home.run(&["store", "repair", &label(&last), "--dry-run", "--json"]);
    assert_eq!(planned.json()["outcome"], json!("healthy"), "the log is fine: {planned:?}");
    assert_eq!(home.run(&["store", "verify"]).code, 1, "a dry run changes nothing");
    let done = home.run(&["store", "repair", "--all", "--json"]);
    assert_eq!((done.code, &done.json()["content"]["lost"]), (0, &json!([])), "{done:?}");
    assert_eq!(done.json()["content"]["restored"].as_array().unwrap().len(), wanted.len());
    for (path, bytes) in &wanted {
        assert_eq!(&fs::read(home.data().join(path)).unwrap(), bytes, "{path}");
    }
    let verified = home.run(&["store", "verify", "--json"]);
    assert_eq!((verified.code, &verified.json()["notes"]), (0, &json!([])), "{verified:?}");
    assert_eq!(home.run(&["store", "gc"]).code, 0);
    step(&mut home.client(), &last, "the end", json!([]));
    let again = home.run(&["store", "repair", "--all", "--json"]);
    assert_eq!((again.code, &again.json()["content"]["restored"]), (0, &json!([])), "{again:?}");
}

#[test]
fn damaged_shared_content_is_reported_with_every_session_that_needs_it() {
    let home = home();
    let (one, two) = (unfinished(&home), unfinished(&home));
    let (path, bytes) = content_files(&home, "workflows/pinned").pop_first().unwrap();
    fs::write(home.data().join(&path), b"{}").unwrap();

    let verified = home.run(&["store", "verify", "--json"]).json();
    let problem = &verified["problems"][0];
    assert_eq!(problem["subject"], json!(path));
    for run in [&one, &two] {
        assert!(problem["problem"].as_str().unwrap().contains(&session(run)), "{problem}");
    }
    let mut client = home.client();
    let refused = client.call("continue_workflow", json!({ "stateToken": one.string("stateToken") }));
    assert_eq!(refused.data["code"], json!("STORE_CONTENT_DAMAGED"), "{}", refused.text);
    assert!(refused.text.contains(&path), "{}", refused.text);
    assert_eq!(refused.data["details"]["runs"], json!([label(&one)]), "{}", refused.text);
    let found = client.call("resume_session", json!({ "run": label(&two) }));
    assert!(found.data["candidates"][0]["problem"].as_str().unwrap().contains(&path), "{}", found.text);
    assert!(!found.is_error, "{}", found.text);
    assert!(found.text.contains(&label(&two)), "{}", found.text);

    // Without its source the workflow cannot be compiled; with it, it is restored.
    let lost = home.without("WORKFLOW_STORAGE_PATH").run(&["store", "repair", "--all", "--json"]);
    assert_eq!((lost.code, &lost.json()["content"]["lost"][0]["path"]), (1, &json!(path)), "{lost:?}");
    assert_eq!(home.run(&["store", "repair", &label(&one)]).code, 0);
    assert_eq!(fs::read(home.data().join(&path)).unwrap(), bytes);
    let looked = client.call("continue_workflow", json!({ "stateToken": one.string("stateToken") }));
    assert!(!looked.is_error, "the server that ran meanwhile continues: {}", looked.text);
}

#[test]
fn a_folder_in_the_place_of_a_pinned_workflow_does_not_prevent_a_start() {
    let home = home();
    unfinished(&home);
    let (path, bytes) = content_files(&home, "workflows/pinned").pop_first().unwrap();
    let file = home.data().join(&path);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    fs::write(file.join("mine.txt"), "kept").unwrap();
    unfinished(&home);
    assert_eq!(fs::read(&file).unwrap(), bytes);
    let aside = fs::read_dir(home.data().join("backups/content")).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read_to_string(aside.path().join("mine.txt")).unwrap(), "kept");
}

#[test]
fn content_that_cannot_be_recomputed_is_reported_and_restored_from_a_backup() {
    let (home, place) = (home(), tempfile::tempdir().unwrap());
    let last = long_run(&home);
    let backup = place.path().join("backup");
    let backup = backup.to_str().unwrap();
    assert_eq!(home.run(&["store", "backup", backup]).code, 0);
    let blobs = content_files(&home, "blobs");
    for path in blobs.keys() {
        fs::remove_file(home.data().join(path)).unwrap();
    }
    let found = home.run(&["store", "repair", "--all", "--json"]);
    let report = found.json();
    assert_eq!(
        (found.code, report["content"]["lost"].as_array().unwrap().len()),
        (1, blobs.len()),
        "{found:?}"
    );
    // The run itself can continue: a lost reply is never rendered again, and reading the step works.
    let looked = home.client().call("continue_workflow", json!({ "stateToken": last.string("stateToken") }));
    assert!(!looked.is_error, "{}", looked.text);
    let done = home.run(&["store", "repair", "--all", "--from", backup, "--json"]);
    assert_eq!((done.code, done.json()["content"]["restored"].as_array().unwrap().len()), (0, blobs.len()));
    assert_eq!(content_files(&home, "blobs"), blobs);
    assert_eq!(home.run(&["store", "verify"]).code, 0);
    assert_eq!(home.run(&["store", "repair", "--all", "--from", "/nowhere"]).code, 2);
}

#[test]
fn a_repeated_call_with_a_lost_stored_reply_leads_to_the_next_step() {
    let home = crate::scene::home();
    let first = unfinished(&home);
    let mut client = home.client();
    let done = advance(&mut client, &first);
    assert!(!done.is_error, "{}", done.text);
    fs::remove_dir_all(home.data().join("blobs")).unwrap();
    fs::create_dir(home.data().join("blobs")).unwrap();
    let again = advance(&mut client, &first);
    assert_eq!(again.data["code"], "STORE_CONTENT_DAMAGED", "{}", again.text);
    // No repair computes a reply again.
    assert_text(&home, "lost_stored_reply", &again.text);
    let next = &again.data["nextCall"];
    let shown = client.call(next["tool"].as_str().unwrap(), next["arguments"].clone());
    assert_eq!((shown.is_error, &shown.data["isComplete"]), (false, &json!(true)), "{}", shown.text);
    client.close();
}

#[test]
fn unreadable_requested_preferences_are_reported() {
    let home = crate::scene::home();
    let id = session(&unfinished(&home));
    let show = ["session", "prefs", "show", "--session", &id, "--json"];
    let set = ["session", "prefs", "set", "risk_policy=balanced", "--session", &id, "--json"];
    assert_eq!(home.run(&set).code, 0);
    assert_eq!(home.run(&show).json()["runs"][0]["pendingProblem"], Value::Null);
    fs::write(home.data().join("sessions").join(&id).join("control.json"), "{").unwrap();
    let said = home.run(&show).json();
    assert_text(
        &home,
        "preferences_that_cannot_be_read",
        said["runs"][0]["pendingProblem"].as_str().unwrap(),
    );
    assert_eq!(home.run(&set).code, 0);
    assert_eq!(home.run(&show).json()["runs"][0]["pending"]["riskPolicy"], "balanced");
}

#[test]
fn a_session_with_a_lost_stored_reply_can_be_moved_with_a_backup() {
    let home = crate::scene::home();
    let id = session(&finished(&home));
    let outside = tempfile::tempdir().unwrap();
    let (bundle, backup) = (outside.path().join("out.json"), outside.path().join("backup"));
    for path in content_files(&home, "blobs").keys() {
        fs::remove_file(home.data().join(path)).unwrap();
    }
    let refused = home.run(&["session", "export", &id, "-o", bundle.to_str().unwrap(), "--json"]).json();
    assert_text(&home, "export_without_a_stored_reply", refused["error"]["suggestion"].as_str().unwrap());
    assert_eq!(home.run(&["store", "backup", backup.to_str().unwrap()]).code, 1, "it says what it lacks");
    let elsewhere = crate::scene::home();
    let restored = elsewhere.run(&["store", "restore", backup.to_str().unwrap(), "--json"]);
    assert!(restored.code < 2, "{restored:?}");
    let shown = elsewhere.run(&["show", &id, "--json"]);
    assert_eq!(shown.code, 0, "{shown:?}");
}
