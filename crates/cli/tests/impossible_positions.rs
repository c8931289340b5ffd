//! A snapshot at a position that its workflow does not have, or that no run reaches from the snapshot before it: an
//! import refuses it before writing anything, and `verify` reports the same about a store that contains it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod forge;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use workrail_model::bundle::BlobText;
use workrail_model::canonical::value_to_canonical;
use workrail_testkit::home::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A run that waits inside two loops, exported.
fn bundle() -> Value {
    let home = Home::new(PROGRAM);
    let counted = |id: &str, body: Value| {
        json!({ "id": id, "type": "loop", "title": id, "body": body,
                "loop": { "type": "for", "count": 3, "maxIterations": 3 } })
    };
    let step = |id: &str| json!({ "id": id, "title": id, "prompt": "Do it." });
    let inner = counted("inner", json!([step("read"), step("write")]));
    home.workflow(&json!({
        "id": "team.loops", "name": "Loops", "description": "d", "version": "1.0.0",
        "steps": [step("begin"), counted("outer", json!([inner, step("review")])), step("end")],
    }));
    let mut client = home.client();
    let first = client.call("start_workflow", json!({ "workflowId": "team.loops" }));
    let output = json!({ "notesMarkdown": "Did the work." });
    let call = json!({ "ackToken": first.string("ackToken"), "output": output });
    let second = client.call("continue_workflow", call);
    assert_eq!(second.structured["run"]["stepId"], "read", "{}", second.text);
    client.close();
    let session = second.structured["run"]["sessionId"].as_str().unwrap();
    home.done(&["session", "export", session, "-o", "-"]).json()
}

/// Changes the newest snapshot and recomputes every digest.
fn forged(base: &Value, change: &dyn Fn(&mut Value)) -> Value {
    let mut bundle = base.clone();
    let node = *forge::events_of(&bundle, "node_created").last().unwrap();
    let old = bundle["session"]["events"][node]["data"]["snapshotRef"].as_str().unwrap().to_owned();
    let mut snapshot = bundle["session"]["snapshots"].as_object_mut().unwrap().remove(&old).unwrap();
    change(&mut snapshot["enginePayload"]["engineState"]);
    let (new, _) = forge::digest(&snapshot).unwrap();
    bundle["session"]["snapshots"][&new] = snapshot;
    bundle["session"]["events"][node]["data"]["snapshotRef"] = json!(new);
    forge::recommit(&mut bundle);
    forge::reattest(&mut bundle);
    bundle
}

/// Writes the bundle's session directly into a store, bypassing every check.
fn planted(bundle: &Value, data: &Path) {
    let inside = &bundle["session"];
    let folder = data.join("sessions").join(inside["sessionId"].as_str().unwrap());
    fs::create_dir_all(folder.join("events")).unwrap();
    let lines = |list: &Value| -> Vec<u8> {
        let lines = list.as_array().unwrap().iter();
        lines.flat_map(|line| [value_to_canonical(line).unwrap(), b"\n".to_vec()].concat()).collect()
    };
    let segment = inside["manifest"][0]["segmentRelPath"].as_str().unwrap();
    fs::write(folder.join(segment), lines(&inside["events"])).unwrap();
    fs::write(folder.join("manifest.jsonl"), lines(&inside["manifest"])).unwrap();
    for (table, place, end) in [
        ("snapshots", "snapshots", ".json"),
        ("pinnedWorkflows", "workflows/pinned", ".json"),
        ("blobs", "blobs", ""),
    ] {
        fs::create_dir_all(data.join(place)).unwrap();
        for (digest, item) in inside[table].as_object().into_iter().flatten() {
            let bytes = match table {
                "blobs" => serde_json::from_value::<BlobText>(item.clone()).unwrap().into_bytes().unwrap(),
                _ => value_to_canonical(item).unwrap(),
            };
            let name = format!("{}{end}", digest.strip_prefix("sha256:").unwrap());
            fs::write(data.join(place).join(name), bytes).unwrap();
        }
    }
}

/// The text of a bundle whose workflows come before its events.
fn with_workflows_first(mut bundle: Value) -> String {
    let workflows = bundle["session"].as_object_mut().unwrap().remove("pinnedWorkflows").unwrap();
    let first = format!("\"session\":{{\"pinnedWorkflows\":{workflows},");
    bundle.to_string().replacen("\"session\":{", &first, 1)
}

/// A run that ended, with the steps counted that were completed.
fn complete() -> Box<dyn Fn(&mut Value)> {
    Box::new(|state: &mut Value| *state = json!({ "kind": "complete", "completed": state["completed"] }))
}

/// G9: a position that the workflow does not have is refused by an import and reported by `verify`.
#[test]
fn import_and_verify_agree_about_positions() {
    let base = bundle();
    type Change = Box<dyn Fn(&mut Value)>;
    let set = |pointer: &'static str, value: Value| -> Change {
        Box::new(move |state: &mut Value| *state.pointer_mut(pointer).unwrap() = value.clone())
    };
    let in_both = |pointer: &'static str, other: &'static str, value: Value| -> Change {
        Box::new(move |state: &mut Value| {
            *state.pointer_mut(pointer).unwrap() = value.clone();
            *state.pointer_mut(other).unwrap() = value.clone();
        })
    };
    let in_order = |step: &'static str, iterations: [u32; 2], index: u32| -> Change {
        Box::new(move |state: &mut Value| {
            state["pending"]["step"]["stepId"] = json!(step);
            for (position, iteration) in iterations.into_iter().enumerate() {
                state["loopStack"][position]["iteration"] = json!(iteration);
                state["pending"]["step"]["loopPath"][position]["iteration"] = json!(iteration);
            }
            state["loopStack"][1]["bodyIndex"] = json!(index);
        })
    };
    let outside = |step: &'static str| -> Change {
        Box::new(move |state: &mut Value| {
            state["loopStack"] = json!([]);
            state["pending"]["step"] = json!({ "stepId": step, "loopPath": [] });
        })
    };
    let cases = [
        (
            "waits at step `end`, although step `read` before it is neither completed nor skipped",
            outside("end"),
        ),
        ("waits at step `begin`, which does not come after step `begin`", outside("begin")),
        ("waits at step `write`, although step `read` before it", in_order("write", [0, 0], 1)),
        ("waits at step `read`, although step `read` before it", in_order("read", [0, 1], 0)),
        ("waits at step `read`, although step `read` before it", in_order("read", [1, 0], 0)),
        ("is complete, although step `read` before it", complete()),
        ("counts 2 completed steps, and its parent's counts 0", set("/completed/steps", json!(2))),
        ("waits at step `gone`", set("/pending/step/stepId", json!("gone"))),
        ("waits at step `review`", set("/pending/step/stepId", json!("review"))),
        ("waits at step `begin`", set("/pending/step/stepId", json!("begin"))),
        ("loop `other`", in_both("/loopStack/1/loopId", "/pending/step/loopPath/1/loopId", json!("other"))),
        ("position 7 of loop `inner`", set("/loopStack/1/bodyIndex", json!(7))),
        (
            "iteration 3 of loop `outer`",
            in_both("/loopStack/0/iteration", "/pending/step/loopPath/0/iteration", json!(3)),
        ),
        ("counts 500 completed steps", set("/completed/steps", json!(500))),
        ("counts 0 completed steps", set("/completed/steps", json!(0))),
        ("waits at no step", set("/pending", json!({ "kind": "none" }))),
        ("is not started", set("", json!({ "kind": "init" }))),
    ];
    for (expected, change) in cases {
        let forged = forged(&base, &*change);
        // The workflows may also come before the events, which are then read once more.
        for bundle in [forged.to_string(), with_workflows_first(forged.clone())] {
            let home = Home::new(PROGRAM);
            home.write(&home.project().join("forged.json"), &bundle);
            let said = home.run(&["session", "import", "forged.json", "--json"]).json();
            assert_eq!(said["error"]["code"], "BUNDLE_INVALID_FORMAT", "{expected}: {said}");
            assert!(said["error"]["message"].as_str().unwrap().contains(expected), "{expected}: {said}");
            let next = said["error"]["suggestion"].as_str().unwrap();
            assert!(next.ends_with("do not trust the bundle: no export writes this."), "{expected}: {said}");
            assert!(!has_files(&home.data().join("snapshots")), "{expected}: something was written");
        }

        let other = Home::new(PROGRAM);
        planted(&forged, &other.data());
        let said = other.run(&["store", "verify", "--json"]).json();
        let problems = problems_of_sessions(&said);
        assert_eq!(problems.len(), 1, "{expected}: {said}");
        assert!(problems[0].contains(expected), "{expected}: {said}");
    }

    // The unchanged bundle is accepted, whatever the order of its members, and a store that contains it is healthy.
    let home = Home::new(PROGRAM);
    home.write(&home.project().join("bundle.json"), &with_workflows_first(forged(&base, &|_| {})));
    assert_eq!(home.run(&["session", "import", "bundle.json"]).code, 0);
    let home = Home::new(PROGRAM);
    planted(&forged(&base, &|_| {}), &home.data());
    let said = home.run(&["store", "verify", "--json"]).json();
    assert_eq!(problems_of_sessions(&said), [""; 0], "{said}");
}

/// What `verify` reports, except that a planted store has no signing keys.
fn problems_of_sessions(said: &Value) -> Vec<&str> {
    let problems = said["problems"].as_array().unwrap().iter();
    let problems = problems.filter(|problem| problem["subject"] != "keys/keyring.json");
    problems.map(|problem| problem["problem"].as_str().unwrap()).collect()
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
