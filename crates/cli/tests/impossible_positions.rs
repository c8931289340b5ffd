//! A snapshot at a position that its workflow does not have, or that no run reaches from the snapshot before it: an
//! import refuses it before writing anything, and `verify` reports the same about a store that contains it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod forge;
mod wording;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use workrail_model::bundle::BlobText;
use workrail_model::canonical::value_to_canonical;
use workrail_testkit::home::Home;

use wording::assert_text;

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
    assert_eq!(second.data["run"]["stepId"], "read", "{}", second.text);
    client.close();
    let session = second.data["run"]["sessionId"].as_str().unwrap();
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
        ("a later step", outside("end")),
        ("the step before the loops again", outside("begin")),
        ("the second step of an inner iteration", in_order("write", [0, 0], 1)),
        ("the next iteration of the inner loop", in_order("read", [0, 1], 0)),
        ("the next iteration of the outer loop", in_order("read", [1, 0], 0)),
        ("the end of the run", complete()),
        ("two steps completed at once", set("/completed/steps", json!(2))),
        ("a step that the workflow does not have", set("/pending/step/stepId", json!("gone"))),
        ("a step of the outer loop alone", set("/pending/step/stepId", json!("review"))),
        ("a step outside the loops", set("/pending/step/stepId", json!("begin"))),
        (
            "a loop that the workflow does not have",
            in_both("/loopStack/1/loopId", "/pending/step/loopPath/1/loopId", json!("other")),
        ),
        ("a position beyond the loop's body", set("/loopStack/1/bodyIndex", json!(7))),
        (
            "an iteration beyond the loop's limit",
            in_both("/loopStack/0/iteration", "/pending/step/loopPath/0/iteration", json!(3)),
        ),
        ("500 completed steps", set("/completed/steps", json!(500))),
        ("no completed step", set("/completed/steps", json!(0))),
        ("no step at all", set("/pending", json!({ "kind": "none" }))),
        ("a run that is not started", set("", json!({ "kind": "init" }))),
    ];
    let mut shown = String::new();
    for (position, change) in cases {
        let forged = forged(&base, &*change);
        // The workflows may also come before the events, which are then read once more.
        let refusals = [forged.to_string(), with_workflows_first(forged.clone())].map(|bundle| {
            let home = Home::new(PROGRAM);
            home.write(&home.project().join("forged.json"), &bundle);
            let refused = home.run(&["session", "import", "forged.json", "--json"]).json();
            assert_eq!(refused["error"]["code"], "BUNDLE_INVALID_FORMAT", "{position}: {refused}");
            assert!(!has_files(&home.data().join("snapshots")), "{position}: something was written");
            ["message", "suggestion"].map(|part| without_place(refused["error"][part].as_str().unwrap()))
        });
        assert_eq!(refusals[0], refusals[1], "{position}");

        let other = Home::new(PROGRAM);
        planted(&forged, &other.data());
        let verified = other.run(&["store", "verify", "--json"]).json();
        let problems = problems_of_sessions(&verified);
        assert_eq!(problems.len(), 1, "{position}: {verified}");
        let [message, suggestion] = &refusals[0];
        writeln!(shown, "{position}\n  import: {message}\n  {suggestion}\n  verify: {}\n", problems[0])
            .unwrap();
    }
    assert_text(&Home::new(PROGRAM), "impossible_positions", &shown);

    // The unchanged bundle is accepted, whatever the order of its members, and a store that contains it is healthy.
    let home = Home::new(PROGRAM);
    home.write(&home.project().join("bundle.json"), &with_workflows_first(forged(&base, &|_| {})));
    assert_eq!(home.run(&["session", "import", "bundle.json"]).code, 0);
    let home = Home::new(PROGRAM);
    planted(&forged(&base, &|_| {}), &home.data());
    let verified = home.run(&["store", "verify", "--json"]).json();
    assert_eq!(problems_of_sessions(&verified), [""; 0], "{verified}");
}

/// Without the line and column, which depend on the order of the members.
fn without_place(text: &str) -> String {
    let parts = text
        .split_once(" (line 1, column ")
        .and_then(|(before, rest)| Some((before, rest.split_once(')')?.1)));
    parts.map_or_else(|| text.to_owned(), |(before, after)| format!("{before}{after}"))
}

/// What `verify` reports, except that a planted store has no signing keys.
fn problems_of_sessions(verified: &Value) -> Vec<&str> {
    let problems = verified["problems"].as_array().unwrap().iter();
    let problems = problems.filter(|problem| problem["subject"] != "keys/keyring.json");
    problems.map(|problem| problem["problem"].as_str().unwrap()).collect()
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
