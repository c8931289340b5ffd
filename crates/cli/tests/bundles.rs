//! A session moves from one machine to another through the real binary, and the work continues there.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod forge;
mod wording;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workrail_testkit::folder::{files, recorded};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use wording::assert_text;

/// A machine: a home with its own keys, whose project is its working folder.
fn new_machine() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn advance(client: &mut McpClient, reply: &ToolReply, notes: &str) -> ToolReply {
    let call = json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": notes } });
    let answer = client.call("continue_workflow", call);
    assert!(!answer.is_error, "{}", answer.text);
    answer
}

/// Half of a run, on a fresh machine.
fn halfway() -> (Home, ToolReply) {
    let machine = new_machine();
    let mut client = machine.client();
    let start = json!({
        "workflowId": "wr.small_change", "goal": "repair the teapot",
        "workspacePath": machine.project(), "context": { "apiKey": "sk-0123456789abcdef" },
    });
    let first = client.call("start_workflow", start);
    assert!(!first.is_error, "{}", first.text);
    let second = advance(&mut client, &first, "the spout is cracked");
    client.close();
    (machine, second)
}

fn session_of(reply: &ToolReply) -> String {
    reply.data["run"]["sessionId"].as_str().unwrap().to_owned()
}

fn label_of(reply: &ToolReply) -> String {
    reply.data["run"]["label"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_continues_where_another_machine_left_it() {
    let (laptop, reply) = halfway();
    let bundle = laptop.project().join("work.json");
    let bundle = bundle.to_str().unwrap();
    let exported = laptop.done(&["session", "export", &label_of(&reply), "-o", bundle, "--json"]).json();
    assert_eq!(exported["sessionId"], json!(session_of(&reply)), "{exported}");
    let text = fs::read_to_string(bundle).unwrap();
    for folder in [laptop.data(), laptop.project()] {
        assert!(!text.contains(folder.to_str().unwrap()), "a path of the machine is in the bundle");
    }
    assert!(!text.contains("ackToken\":\"ack."), "tokens do not travel");

    let desktop = new_machine();
    let checked = desktop.done(&["session", "import", bundle, "--dry-run", "--json"]).json();
    assert_eq!(checked["imported"], false);
    assert!(!desktop.data().read_dir().unwrap().any(|_| true), "a dry run writes nothing");
    let imported = desktop.done(&["session", "import", bundle, "--json"]).json();
    assert_eq!(imported["runs"][0]["label"], json!(label_of(&reply)), "{imported}");

    let mut client = desktop.client();
    let stale = client.call("continue_workflow", json!({ "ackToken": reply.string("ackToken") }));
    assert_eq!(stale.code(), "TOKEN_BAD_SIGNATURE", "a token of the laptop is none here");
    let found = client.call("resume_session", json!({ "query": "cracked spout" }));
    let next = &found.data["nextCall"];
    let mut at = client.call(next["tool"].as_str().unwrap(), next["arguments"].clone());
    assert_text(&desktop, "reply_on_another_machine", &at.text);
    assert_eq!(at.step(), reply.step());
    assert_eq!((session_of(&at), label_of(&at)), (session_of(&reply), label_of(&reply)), "ids are kept");
    while at.data["isComplete"] != true {
        at = advance(&mut client, &at, "done on the desktop");
    }
    assert!(client.close().success());
}

#[test]
fn a_dry_run_names_what_the_import_creates() {
    let (laptop, reply) = halfway();
    let bundle = laptop.project().join("work.json");
    let bundle = bundle.to_str().unwrap();
    laptop.done(&["session", "export", &label_of(&reply), "-o", bundle]);
    let named = |own: &Value| (own["sessionId"].clone(), own["runs"].clone(), own["events"].clone());

    let desktop = new_machine();
    let planned = desktop.done(&["session", "import", bundle, "--dry-run", "--json"]).json();
    let made = desktop.done(&["session", "import", bundle, "--json"]).json();
    assert_eq!(named(&planned), named(&made));
    assert_eq!(made["runs"][0]["label"], json!(label_of(&reply)));
    let listed = desktop.done(&["session", "list", "--json"]).json();
    assert_eq!(listed["runs"][0]["sessionId"], planned["sessionId"], "{listed}");
    assert_eq!(listed["runs"][0]["label"], planned["runs"][0]["label"], "{listed}");

    // The id is taken now: the copy gets another one, and the dry run knows which.
    let planned_again = desktop.done(&["session", "import", bundle, "--dry-run", "--json"]).json();
    assert_ne!(planned_again["sessionId"], planned["sessionId"]);
    assert_eq!(named(&planned_again), named(&desktop.done(&["session", "import", bundle, "--json"]).json()));
}

#[test]
fn a_copy_next_to_the_original_is_a_separate_session() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    machine.done(&["session", "export", &session[..12]]);
    let bundle = format!("{session}.bundle.json");
    let copy = machine.done(&["session", "import", &bundle, "--json"]).json();
    assert_eq!(copy["originalSessionId"], session.as_str());
    assert_ne!(copy["sessionId"], session.as_str());
    assert_eq!(copy["renamedRuns"].as_object().unwrap().len(), 1);
    assert_ne!(copy["runs"][0]["label"], label_of(&reply));
    let mut client = machine.client();
    let on = advance(&mut client, &reply, "the original goes on");
    assert_eq!(session_of(&on), session, "nothing was merged");
    let elsewhere = new_machine();
    let path = machine.project().join(&bundle);
    let new = elsewhere.done(&["session", "import", path.to_str().unwrap(), "--as-new", "--json"]).json();
    assert_ne!(new["sessionId"], session.as_str());
    assert_eq!(new["runs"][0]["label"], label_of(&reply), "a free run id and its label are kept");
}

#[test]
fn a_deleted_session_returns_under_its_id_and_old_tokens_stay_valid() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    machine.done(&["session", "export", &session, "-o", "kept.json"]);
    let folder = machine.data().join("sessions").join(&session);
    fs::remove_dir_all(&folder).unwrap();
    let back = machine.done(&["session", "import", "kept.json", "--json"]).json();
    assert_eq!(back["sessionId"], session.as_str());
    let mut client = machine.client();
    let on = advance(&mut client, &reply, "as if nothing had happened");
    assert_eq!(session_of(&on), session);
}

/// Restored to an earlier point, a session can continue differently: what its later tokens were for is gone.
#[test]
fn tokens_of_a_replaced_history_advance_nothing() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    machine.done(&["session", "export", &session, "-o", "kept.json"]);
    let mut client = machine.client();
    let lost = advance(&mut client, &reply, "this will be lost");
    client.close();
    machine.done(&["session", "delete", &session, "--yes"]);
    machine.done(&["session", "import", "kept.json"]);
    let mut client = machine.client();
    let redone = advance(&mut client, &reply, "done again");
    assert_eq!(redone.step(), lost.step());
    client.until_indexed();
    let before = recorded(&machine.data());
    for (tool, arguments) in [
        (
            "continue_workflow",
            json!({ "ackToken": lost.string("ackToken"), "output": { "notesMarkdown": "old" } }),
        ),
        ("continue_workflow", json!({ "stateToken": lost.string("stateToken") })),
        (
            "checkpoint_workflow",
            json!({ "checkpointToken": lost.string("checkpointToken"), "output": { "notesMarkdown": "old" } }),
        ),
    ] {
        let refused = client.call(tool, arguments);
        assert!(refused.is_error, "{tool}: {}", refused.text);
        assert_eq!(refused.data["code"], "TOKEN_BAD_SIGNATURE");
    }
    assert!(recorded(&machine.data()) == before, "a token of another history wrote something");
}

#[test]
fn an_export_replaces_a_file_only_when_told_to() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    let file = machine.project().join("b.json");
    fs::write(&file, "precious").unwrap();
    let refused = machine.run(&["session", "export", &session, "-o", "b.json"]);
    assert_eq!(refused.code, 2);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let told = machine.done(&["session", "export", &session, "-o", "b.json", "--force", "--json"]).json();
    assert_eq!(
        told["events"],
        machine.done(&["session", "import", "b.json", "--dry-run", "--json"]).json()["events"]
    );
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let piped = machine.done(&["session", "export", &session, "-o", "-"]).json();
    assert_eq!(piped["session"], read_json(&file)["session"]);
    assert_eq!(machine.run(&["session", "export", &session, "-o", "-", "--json"]).code, 2);
    assert_eq!(machine.run(&["session", "export", "sess_zzzz"]).code, 2);
    assert_eq!(machine.run(&["session", "import", "absent.json"]).code, 2);
    let left: Vec<_> =
        fs::read_dir(machine.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["b.json"], "no temporary is left");
}

#[test]
fn a_redacted_bundle_lists_what_is_missing() {
    let (machine, reply) = halfway();
    let exported = machine
        .done(&["session", "export", &session_of(&reply), "-o", "r.json", "--redact", "--json"])
        .json();
    assert_eq!(exported["redaction"]["removed"], json!({ "apiKey": 1 }));
    let text = fs::read_to_string(machine.project().join("r.json")).unwrap();
    assert!(!text.contains("sk-0123456789abcdef"));
    let bundle: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bundle["redaction"]["removed"], json!({ "apiKey": 1 }));
    let session = session_of(&reply);
    let patterns = ["-o", "r2.json", "--redact-key", "go*", "--json"];
    let exported = machine.done(&[&["session", "export", &session][..], &patterns].concat()).json();
    assert!(exported["redaction"]["removed"]["goal"].is_number(), "{exported}");
    let path = machine.project().join("r.json");
    let imported = new_machine().done(&["session", "import", path.to_str().unwrap(), "--json"]).json();
    assert_eq!(imported["redaction"]["removed"], json!({ "apiKey": 1 }), "{imported}");
}

#[test]
fn a_dropped_value_is_not_left_in_the_goal() {
    let machine = new_machine();
    let mut client = machine.client();
    let start = json!({
        "workflowId": "wr.small_change", "goal": "use sk-0123456789abcdef for the teapot",
        "workspacePath": machine.project(), "context": { "apiKey": "sk-0123456789abcdef" },
    });
    let first = client.call("start_workflow", start);
    advance(&mut client, &first, "the spout is cracked");
    client.close();
    let exported = machine
        .done(&["session", "export", &session_of(&first), "-o", "r.json", "--redact", "--json"])
        .json();
    assert_eq!(exported["redaction"]["messagesChanged"], 1, "{exported}");
    let text = fs::read_to_string(machine.project().join("r.json")).unwrap();
    assert!(!text.contains("sk-0123456789abcdef"));
    let bundle: Value = serde_json::from_str(&text).unwrap();
    let started = forge::events_of(&bundle, "context_set")[0];
    let goal = &bundle["session"]["events"][started]["data"]["context"]["goal"];
    assert_eq!(goal, "use [redacted] for the teapot", "{bundle:#}");
    let path = machine.project().join("r.json");
    new_machine().done(&["session", "import", path.to_str().unwrap()]);
}

#[test]
fn a_title_does_not_leak_a_dropped_value() {
    let machine = new_machine();
    // The second title is cut three characters into the value.
    let filler = "x".repeat(200 - "\n\n[TRUNCATED]".len() - 3);
    let file = json!({
        "id": "team.titles", "name": "Titles", "description": "d", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "Begin", "prompt": "Do a." },
            { "id": "b", "title": "Log in with {{apiKey}}", "prompt": "Do b." },
            { "id": "c", "title": "{{filler}}{{apiKey}} and so on for a while", "prompt": "Do c." },
        ],
    });
    machine.workflow(&file);
    let mut client = machine.client();
    let key = "ZQ9-0123456789abcdef";
    let start = json!({ "workflowId": "team.titles", "context": { "apiKey": key, "filler": filler } });
    let first = client.call("start_workflow", start);
    let second = advance(&mut client, &first, "begun");
    assert!(second.text.contains(key), "the title shows it to the agent: {}", second.text);
    let third = advance(&mut client, &second, "logged in");
    assert!(third.text.contains("xZQ9"), "cut inside the value: {}", third.text);
    client.close();
    machine.done(&["session", "export", &session_of(&first), "-o", "r.json", "--redact"]);
    let text = fs::read_to_string(machine.project().join("r.json")).unwrap();
    assert!(!text.contains(key) && !text.contains("xZQ9"), "a title leaks");
    assert!(text.contains("Log in with [redacted]"));
    // A report withholds the same parts of the context.
    for format in ["md", "html", "json"] {
        let name = format!("report.{format}");
        machine.done(&["report", &session_of(&first), "--format", format, "-o", &name]);
        let report = fs::read_to_string(machine.project().join(name)).unwrap();
        assert!(!report.contains("ZQ9"), "{format}: {report}");
    }
    let report = fs::read_to_string(machine.project().join("report.md")).unwrap();
    assert_text(&machine, "report_with_withheld_titles", &report);
}

#[test]
fn the_intact_beginning_of_a_damaged_session_can_be_saved() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    let events = machine.data().join("sessions").join(&session).join("events");
    let mut segments: Vec<PathBuf> =
        fs::read_dir(events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let damage = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[40] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    damage(segments.last().unwrap());
    machine.done(&["session", "export", &session, "-o", "s.json"]);
    let bundle = read_json(&machine.project().join("s.json"));
    assert_eq!(bundle["salvage"]["health"]["health"], "corrupt_tail");
    let elsewhere = new_machine();
    let path = machine.project().join("s.json");
    let told = elsewhere.done(&["session", "import", path.to_str().unwrap(), "--json"]).json();
    assert_eq!(told["salvage"]["eventsKept"], told["events"]);
    let mut client = elsewhere.client();
    let found = client.call("resume_session", json!({ "query": "teapot" }));
    let next = &found.data["nextCall"];
    let at = client.call(next["tool"].as_str().unwrap(), next["arguments"].clone());
    assert_eq!(at.step(), "understand", "the first step again: what came after it was lost");
    advance(&mut client, &at, "once more");
    elsewhere.done(&["session", "export", &session, "-o", "u.json"]);
    let third = new_machine();
    third.done(&["session", "import", elsewhere.project().join("u.json").to_str().unwrap()]);
    third.done(&["session", "export", &session, "-o", "v.json"]);
    let again = read_json(&third.project().join("v.json"));
    assert_eq!(again["session"]["events"][0]["data"]["importedFrom"]["salvaged"], true, "also two hops away");
    damage(&segments[0]);
    let refused = machine.run(&["session", "export", &session, "-o", "t.json", "--json"]);
    assert_eq!(refused.json()["error"]["code"], "SESSION_CORRUPT");
    assert!(!machine.project().join("t.json").exists());
}

#[test]
fn fields_of_later_versions_survive_export_and_import() {
    let (machine, reply) = halfway();
    machine.done(&["session", "export", &session_of(&reply), "-o", "b.json"]);
    let path = machine.project().join("b.json");
    let mut bundle = read_json(&path);
    bundle["session"]["events"][1]["data"]["laterField"] = json!({ "a": [1, 2.5] });
    bundle["session"]["events"][1]["laterToo"] = json!("x");
    bundle["laterMember"] = json!(true);
    forge::recommit(&mut bundle);
    forge::reattest(&mut bundle);
    fs::write(&path, serde_json::to_string_pretty(&bundle).unwrap()).unwrap();
    let elsewhere = new_machine();
    let told = elsewhere.done(&["session", "import", path.to_str().unwrap(), "--json"]).json();
    assert_eq!(told["unknownMembers"], json!(["laterMember"]));
    elsewhere.done(&["session", "export", &session_of(&reply), "-o", "c.json"]);
    let again = read_json(&elsewhere.project().join("c.json"));
    assert_eq!(again["session"]["events"][1], bundle["session"]["events"][1]);
}

#[test]
fn a_refused_bundle_changes_nothing() {
    let (machine, reply) = halfway();
    machine.done(&["session", "export", &session_of(&reply), "-o", "b.json"]);
    let path = machine.project().join("b.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("cracked", "crooked", 1)).unwrap();
    let before = files(&machine.data());
    let refused = machine.run(&["session", "import", "b.json", "--json"]);
    assert_eq!((refused.code, &refused.json()["error"]["code"]), (1, &json!("BUNDLE_INTEGRITY_FAILED")));
    assert_eq!(files(&machine.data()), before);
}

#[test]
fn an_import_into_a_busy_store_is_refused_temporarily() {
    let (here, there) = (new_machine(), new_machine());
    let started = here.client().call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let session = started.data["run"]["sessionId"].as_str().unwrap();
    let bundle = there.project().join("run.json");
    here.done(&["session", "export", session, "-o", bundle.to_str().unwrap()]);
    for name in ["import.lock", "store.lock"] {
        let lock = fs::File::create(there.data().join(name)).unwrap();
        lock.lock().unwrap();
        let refused = there.run(&["session", "import", bundle.to_str().unwrap(), "--json"]);
        assert_eq!(refused.code, 3, "{name}: {refused:?}");
        assert_eq!(refused.json()["error"]["code"], "STORE_BUSY", "{name}: {refused:?}");
    }
    there.done(&["session", "import", bundle.to_str().unwrap()]);
}
