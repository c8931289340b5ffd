//! Folders, files and locks that this user may not use, or that are blocked by something else (G20, G22).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use workrail_testkit::home::CommandRun;

use crate::reading::Copied;
use crate::scene::{finished, home, label, session, session_dir, unfinished};
use crate::wording::assert_text;

fn deny(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
}

/// Lets the folder be removed again.
fn allow(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// The problem that `verify` reports about a path.
fn problem(verified: &CommandRun, what: &str) -> Value {
    assert_eq!(verified.code, 1, "{verified:?}");
    let problems = verified.json()["problems"].as_array().unwrap().clone();
    let found = problems.iter().find(|problem| problem["subject"] == what);
    found.unwrap_or_else(|| panic!("{what}: {problems:?}")).clone()
}

/// Broke: `mcp` exited, `verify` stopped and `doctor` found no problem.
#[test]
fn an_unusable_folder_is_reported_and_stops_no_other_check() {
    let home = home();
    finished(&home);
    for folder in ["blobs", "snapshots", "workflows", "sessions"] {
        for is_denied in [true, false] {
            let copy = Copied::of(&home);
            let path = copy.data().join(folder);
            if is_denied {
                deny(&path);
            } else {
                fs::rename(&path, copy.data().parent().unwrap().join("moved")).unwrap();
                fs::write(&path, "a file").unwrap();
            }
            let what = format!("{folder}, denied: {is_denied}");
            let found = problem(&copy.run(&["store", "verify", "--json"]), folder);
            let fix = found["fix"].as_str().unwrap();
            let command = if is_denied { "chmod u+rwx" } else { "workrail store restore" };
            assert!(fix.contains(command), "{what}: {fix}");
            let doctor = copy.run(&["doctor"]);
            assert!(doctor.out.contains(command), "{what}: {doctor:?}");
            let server = copy.run(&["mcp"]);
            assert_eq!(server.code, 0, "{what}: {server:?}");
            if is_denied {
                allow(&path);
            }
        }
    }
}

/// Broke: every write failed, and neither `verify` nor `doctor` said why.
#[test]
fn an_unobtainable_lock_is_reported() {
    let home = home();
    let run = finished(&home);
    let session_lock = format!("sessions/{}/.lock", session(&run));
    for (lock, is_denied) in [("store.lock", false), (&session_lock, true), (&session_lock, false)] {
        let copy = Copied::of(&home);
        let path = copy.data().join(lock);
        if is_denied {
            deny(&path);
        } else {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }
        let found = problem(&copy.run(&["store", "verify", "--json"]), lock);
        let name = if is_denied { "fix_of_a_denied_lock" } else { "fix_of_a_folder_in_place_of_a_lock" };
        let fix = found["fix"].as_str().unwrap().replace(lock, "LOCK");
        let data = copy.data().to_string_lossy().into_owned();
        assert_text(&home, name, &fix.replace(&data, "DATA"));
        let doctor = copy.run(&["doctor"]);
        assert!(doctor.code == 1 && doctor.out.contains(lock), "{lock}: {doctor:?}");
    }
}

#[test]
fn a_start_while_another_process_holds_the_counter_is_refused_for_a_moment() {
    let home = home();
    let run = unfinished(&home);
    let counter = fs::File::open(home.data().join("activity.lock")).unwrap();
    counter.lock().unwrap();
    let mut client = home.client();
    let call = json!({ "workflowId": "team.one", "goal": "tidy the shed" });
    let refused = client.call("start_workflow", call.clone());
    assert_eq!(refused.code(), "STORE_BUSY", "{}", refused.text);
    assert_text(&home, "start_while_the_counter_is_held", &refused.text);
    assert_eq!(refused.data["retry"]["kind"], "retryable_after_ms", "{}", refused.text);
    let busy = client.call("continue_workflow", run.ack("done and dusted"));
    assert_eq!(busy.code(), "STORE_BUSY", "{}", busy.text);
    drop(counter);
    for (tool, arguments) in [("start_workflow", call), ("continue_workflow", run.ack("done and dusted"))] {
        let reply = client.call(tool, arguments);
        assert!(!reply.is_error, "{tool}: {}", reply.text);
    }
    client.close();
    let listed = home.done(&["session", "list", "--all", "--json"]).json();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(2), "a refused start leaves no run: {listed}");
    assert_eq!(home.done(&["store", "verify", "--json"]).json()["notes"], json!([]));
}

/// Broke: `verify` blamed the disk, `repair` the first segment, and a deletion failed with "Not a directory".
#[test]
fn a_link_in_the_place_of_a_session_is_reported_as_such() {
    let home = home();
    let run = finished(&home);
    let (id, folder) = (session(&run), session_dir(&home, &run));
    let elsewhere = home.data().parent().unwrap().join("moved");
    fs::rename(&folder, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
    let path = format!("sessions/{id}");
    let scopes: [&[&str]; 2] = [&["store", "verify", "--json"], &["store", "verify", &id, "--json"]];
    for scope in scopes {
        let verified = home.run(scope);
        assert_eq!(verified.json()["problems"].as_array().map(Vec::len), Some(1), "{verified:?}");
        let fix = problem(&verified, &path)["fix"].as_str().unwrap().to_owned();
        assert_text(&home, "fix_of_a_link_in_place_of_a_session", &fix);
    }
    let commands: [&[&str]; 4] = [
        &["show", &id],
        &["store", "repair", &id, "--dry-run"],
        &["store", "repair", &id, "--yes"],
        &["session", "delete", &id, "--yes"],
    ];
    let mut said = String::new();
    for command in commands {
        let refused = home.run(command);
        assert!(refused.code != 0, "{command:?}: {refused:?}");
        said += &format!("$ workrail {}\n{}{}\n", command.join(" "), refused.out, refused.err);
    }
    assert_text(&home, "link_in_place_of_a_session", &said);
    fs::remove_file(&folder).unwrap();
    fs::rename(&elsewhere, &folder).unwrap();
    assert_eq!(home.run(&["store", "verify"]).code, 0);
}

/// Broke: the error said that the same call succeeds after two seconds.
#[test]
fn a_missing_write_permission_needs_a_person_and_then_the_same_command_succeeds() {
    let home = home();
    let run = unfinished(&home);
    let copy = Copied::of(&home);
    let events = copy.data().join("sessions").join(session(&run)).join("events");
    fs::set_permissions(&events, fs::Permissions::from_mode(0o500)).unwrap();
    let close = ["close", &label(&run), "--reason", "it is not needed", "--json"];
    let refused = copy.run(&close).json()["error"].clone();
    assert_eq!((&refused["code"], &refused["retry"]["kind"]), (&json!("STORE_IO"), &json!("not_retryable")));
    let said =
        format!("{}\n{}", refused["message"].as_str().unwrap(), refused["suggestion"].as_str().unwrap());
    assert_text(&home, "missing_write_permission", &said.replace(&session(&run), "ID"));
    allow(&events);
    let closed = copy.run(&close);
    assert_eq!(closed.code, 0, "{closed:?}");
}

/// Broke: `repair --dry-run` offered to give up what was only unreadable, and `doctor` recommended it.
#[test]
fn unreadable_files_need_a_permission_and_not_a_repair() {
    let home = home();
    let run = finished(&home);
    let id = session(&run);
    let folder = session_dir(&home, &run);
    let segments = fs::read_dir(folder.join("events")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut denied: Vec<String> =
        segments.map(|name| format!("events/{}", name.into_string().unwrap())).collect();
    denied.extend(["events".to_owned(), "manifest.jsonl".to_owned()]);
    for name in denied {
        let copy = Copied::of(&home);
        let path = copy.data().join("sessions").join(&id).join(&name);
        deny(&path);
        let found = problem(&copy.run(&["store", "verify", "--json"]), &id);
        assert!(found["problem"].as_str().unwrap().contains(&name), "{found}");
        let fix = found["fix"].as_str().unwrap().replace(&id, "ID").replace(&name, "NAME");
        let data = copy.data().to_string_lossy().into_owned();
        assert_text(&home, "fix_of_a_denied_file", &fix.replace(&data, "DATA"));
        let planned = copy.run(&["store", "repair", &id, "--dry-run", "--json"]);
        assert_eq!((planned.code, &planned.json()["lost"]), (1, &Value::Null), "{name}: {planned:?}");
        let doctor = copy.run(&["doctor", "--json"]);
        assert_eq!(doctor.code, 1, "{name}: {doctor:?}");
        assert!(!doctor.out.contains("workrail store repair"), "{name}: {doctor:?}");
        allow(&path);
    }
}

/// Broke: the named folder was `events`, whose permissions were right.
#[test]
fn an_unreadable_folder_of_a_session_is_named() {
    let home = home();
    let run = finished(&home);
    let (copy, id) = (Copied::of(&home), session(&run));
    let folder = copy.data().join("sessions").join(&id);
    deny(&folder);
    let found = problem(&copy.run(&["store", "verify", "--json"]), &id);
    allow(&folder);
    let said = format!("{}\n{}", found["problem"].as_str().unwrap(), found["fix"].as_str().unwrap());
    assert_text(&home, "denied_folder_of_a_session", &said.replace(&id, "ID"));
    assert_eq!(copy.run(&["store", "verify"]).code, 0);
}

/// Broke: `verify` advised a repair that cannot recompute a stored reply, although only a permission was missing.
#[test]
fn unreadable_content_needs_a_permission_and_not_a_repair() {
    let home = home();
    finished(&home);
    let copy = Copied::of(&home);
    let blobs: Vec<_> =
        fs::read_dir(copy.data().join("blobs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!blobs.is_empty());
    for blob in &blobs {
        deny(blob);
    }
    let verified = copy.run(&["store", "verify", "--json"]);
    assert_eq!(verified.code, 1, "{verified:?}");
    for problem in verified.json()["problems"].as_array().unwrap() {
        assert!(problem["problem"].as_str().unwrap().contains("blobs/"), "{problem}");
        assert_text(&home, "fix_of_a_denied_file", problem["fix"].as_str().unwrap());
    }
    let repaired = copy.run(&["store", "repair", "--all", "--json"]);
    let lost = repaired.json()["content"]["lost"].as_array().unwrap().clone();
    assert!(repaired.code == 1 && !lost.is_empty(), "{repaired:?}");
    for lost in lost {
        assert_text(&home, "fix_of_a_denied_file", lost["fix"].as_str().unwrap());
    }
    let repaired = copy.run(&["store", "repair", "--all"]).out;
    let data = copy.data().to_string_lossy().into_owned();
    assert_text(&home, "repair_of_denied_content", &repaired.replace(&data, "DATA"));
    for blob in &blobs {
        allow(blob);
    }
    assert_eq!(copy.run(&["store", "verify"]).code, 0);
}

/// Broke: a session with a segment damaged after it was indexed vanished silently.
#[test]
fn resume_counts_a_session_damaged_since_it_was_indexed() {
    let home = home();
    let (damaged, sound) = (unfinished(&home), unfinished(&home));
    assert_eq!(home.run(&["session", "list"]).code, 0);
    let before = home.client().call("resume_session", json!({}));
    assert_eq!(before.data["candidates"].as_array().map(Vec::len), Some(2), "{}", before.text);
    let events = fs::read_dir(session_dir(&home, &damaged).join("events")).unwrap();
    let segment = events.map(|entry| entry.unwrap().path()).max().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let after = home.client().call("resume_session", json!({}));
    let offered = after.data["candidates"].as_array().unwrap();
    assert!(offered.len() == 1 && offered[0]["sessionId"] == json!(session(&sound)), "{}", after.text);
    assert_eq!(after.data["unhealthySessions"], json!(1), "{}", after.text);
}
