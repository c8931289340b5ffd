//! A session goes from one machine to another through the real binary, and the work goes on there.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod forge;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use workrail_testkit::mcp_client::{McpClient, ToolReply};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_workrail"))
}

/// A machine: a data directory with keys of its own, and a folder to work in.
struct Machine {
    data: tempfile::TempDir,
    desk: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { data: tempfile::tempdir().unwrap(), desk: tempfile::tempdir().unwrap() }
    }

    fn chat(&self) -> McpClient {
        McpClient::start(program(), self.data.path(), &[("WORKFLOW_STORAGE_PATH", self.desk.path())])
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(program())
            .args(arguments)
            .current_dir(self.desk.path())
            .env_clear()
            .env("WORKRAIL_DATA_DIR", self.data.path())
            .output()
            .unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(arguments)).unwrap()
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.data.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
                }
            }
        }
        found
    }
}

fn advance(client: &mut McpClient, reply: &ToolReply, notes: &str) -> ToolReply {
    let call = json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": notes } });
    let answer = client.call("continue_workflow", call);
    assert!(!answer.is_error, "{}", answer.text);
    answer
}

/// Half of a run, on a fresh machine.
fn halfway() -> (Machine, ToolReply) {
    let machine = Machine::new();
    let mut client = machine.chat();
    let start = json!({
        "workflowId": "wr.small_change", "goal": "mend the teapot",
        "workspacePath": machine.desk.path(), "context": { "apiKey": "sk-0123456789abcdef" },
    });
    let first = client.call("start_workflow", start);
    assert!(!first.is_error, "{}", first.text);
    let second = advance(&mut client, &first, "the spout is cracked");
    client.close();
    (machine, second)
}

fn session_of(reply: &ToolReply) -> String {
    reply.structured["run"]["sessionId"].as_str().unwrap().to_owned()
}

fn label_of(reply: &ToolReply) -> String {
    reply.structured["run"]["label"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_goes_on_where_another_machine_left_it() {
    let (laptop, reply) = halfway();
    let bundle = laptop.desk.path().join("work.json");
    let bundle = bundle.to_str().unwrap();
    let told = laptop.done(&["session", "export", &label_of(&reply), "-o", bundle]);
    assert!(told.contains(&session_of(&reply)) && told.contains(&label_of(&reply)), "{told}");
    let text = fs::read_to_string(bundle).unwrap();
    for place in [laptop.data.path(), laptop.desk.path()] {
        assert!(!text.contains(place.to_str().unwrap()), "a path of the machine is in the bundle");
    }
    assert!(!text.contains("ackToken\":\"ack."), "tokens do not travel");

    let desktop = Machine::new();
    let checked = desktop.json(&["session", "import", bundle, "--dry-run", "--json"]);
    assert_eq!(checked["imported"], false);
    assert!(!desktop.data.path().read_dir().unwrap().any(|_| true), "a dry run writes nothing");
    let told = desktop.done(&["session", "import", bundle]);
    assert!(told.contains(&label_of(&reply)) && told.contains("resume_session"), "{told}");

    let mut client = desktop.chat();
    let stale = client.call("continue_workflow", json!({ "ackToken": reply.string("ackToken") }));
    assert_eq!(stale.code(), "TOKEN_BAD_SIGNATURE", "a token of the laptop is none here");
    let found = client.call("resume_session", json!({ "query": "cracked spout" }));
    let next = &found.structured["nextCall"];
    let mut at = client.call(next["tool"].as_str().unwrap(), next["arguments"].clone());
    assert!(at.text.contains("the spout is cracked"), "the recap came along: {}", at.text);
    assert_eq!(at.step(), reply.step());
    assert_eq!((session_of(&at), label_of(&at)), (session_of(&reply), label_of(&reply)), "ids are kept");
    while at.structured["isComplete"] != true {
        at = advance(&mut client, &at, "done on the desktop");
    }
    assert!(client.close().success());
}

#[test]
fn a_copy_beside_the_original_is_a_session_of_its_own() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    machine.done(&["session", "export", &session[..12]]);
    let bundle = format!("{session}.bundle.json");
    let copy = machine.json(&["session", "import", &bundle, "--json"]);
    assert_eq!(copy["originalSessionId"], session.as_str());
    assert_ne!(copy["sessionId"], session.as_str());
    assert_eq!(copy["renamedRuns"].as_object().unwrap().len(), 1);
    assert_ne!(copy["runs"][0]["label"], label_of(&reply));
    let mut client = machine.chat();
    let on = advance(&mut client, &reply, "the original goes on");
    assert_eq!(session_of(&on), session, "nothing was merged");
    let elsewhere = Machine::new();
    let path = machine.desk.path().join(&bundle);
    let new = elsewhere.json(&["session", "import", path.to_str().unwrap(), "--as-new", "--json"]);
    assert_ne!(new["sessionId"], session.as_str());
    assert_eq!(new["runs"][0]["label"], label_of(&reply), "a free run id and its label are kept");
}

#[test]
fn what_was_deleted_comes_back_under_its_id_and_old_tokens_hold() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    machine.done(&["session", "export", &session, "-o", "kept.json"]);
    let folder = machine.data.path().join("sessions").join(&session);
    fs::remove_dir_all(&folder).unwrap();
    let back = machine.json(&["session", "import", "kept.json", "--json"]);
    assert_eq!(back["sessionId"], session.as_str());
    let mut client = machine.chat();
    let on = advance(&mut client, &reply, "as if nothing had happened");
    assert_eq!(session_of(&on), session);
}

/// Restored to an earlier point, a session can go on differently: what its later tokens were for is gone.
#[test]
fn tokens_of_a_history_that_was_replaced_advance_nothing() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    machine.done(&["session", "export", &session, "-o", "kept.json"]);
    let mut client = machine.chat();
    let lost = advance(&mut client, &reply, "this will be lost");
    client.close();
    machine.done(&["session", "delete", &session, "--yes"]);
    machine.done(&["session", "import", "kept.json"]);
    let mut client = machine.chat();
    let redone = advance(&mut client, &reply, "done again");
    assert_eq!(redone.step(), lost.step());
    let before = machine.files();
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
        assert_eq!(refused.structured["code"], "TOKEN_BAD_SIGNATURE");
    }
    let truth = |files: BTreeMap<PathBuf, Vec<u8>>| -> BTreeMap<PathBuf, Vec<u8>> {
        let noted = |path: &Path| path.to_str().unwrap().contains("/logs/");
        files.into_iter().filter(|(path, _)| !noted(path)).collect()
    };
    assert!(truth(machine.files()) == truth(before), "a token of another history wrote something");
}

#[test]
fn an_export_replaces_nothing_unless_it_is_told_to() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    let file = machine.desk.path().join("b.json");
    fs::write(&file, "precious").unwrap();
    let refused = machine.run(&["session", "export", &session, "-o", "b.json"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let told = machine.json(&["session", "export", &session, "-o", "b.json", "--force", "--json"]);
    assert_eq!(
        told["events"],
        machine.json(&["session", "import", "b.json", "--dry-run", "--json"])["events"]
    );
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let piped = machine.done(&["session", "export", &session, "-o", "-"]);
    let (piped, filed): (Value, Value) = (
        serde_json::from_str(&piped).unwrap(),
        serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap(),
    );
    assert_eq!(piped["session"], filed["session"]);
    assert_eq!(machine.run(&["session", "export", &session, "-o", "-", "--json"]).status.code(), Some(2));
    assert_eq!(machine.run(&["session", "export", "sess_zzzz"]).status.code(), Some(2));
    assert_eq!(machine.run(&["session", "import", "absent.json"]).status.code(), Some(2));
    let left: Vec<_> =
        fs::read_dir(machine.desk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["b.json"], "no temporary is left");
}

#[test]
fn a_redacted_bundle_says_what_is_missing() {
    let (machine, reply) = halfway();
    let exported =
        machine.json(&["session", "export", &session_of(&reply), "-o", "r.json", "--redact", "--json"]);
    assert_eq!(exported["redaction"]["removed"], json!({ "apiKey": 1 }));
    let text = fs::read_to_string(machine.desk.path().join("r.json")).unwrap();
    assert!(!text.contains("sk-0123456789abcdef"));
    let bundle: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bundle["redaction"]["removed"], json!({ "apiKey": 1 }));
    let told =
        machine.done(&["session", "export", &session_of(&reply), "-o", "r2.json", "--redact-key", "go*"]);
    assert!(told.contains("goal"), "{told}");
    let elsewhere = Machine::new();
    let path = machine.desk.path().join("r.json");
    assert!(elsewhere.done(&["session", "import", path.to_str().unwrap()]).contains("apiKey"));
}

#[test]
fn a_dropped_value_is_not_left_in_the_goal() {
    let machine = Machine::new();
    let mut client = machine.chat();
    let start = json!({
        "workflowId": "wr.small_change", "goal": "use sk-0123456789abcdef for the teapot",
        "workspacePath": machine.desk.path(), "context": { "apiKey": "sk-0123456789abcdef" },
    });
    let first = client.call("start_workflow", start);
    advance(&mut client, &first, "the spout is cracked");
    client.close();
    let exported =
        machine.json(&["session", "export", &session_of(&first), "-o", "r.json", "--redact", "--json"]);
    assert_eq!(exported["redaction"]["messagesChanged"], 1, "{exported}");
    let text = fs::read_to_string(machine.desk.path().join("r.json")).unwrap();
    assert!(!text.contains("sk-0123456789abcdef"));
    assert!(text.contains("use [redacted] for the teapot"));
    let path = machine.desk.path().join("r.json");
    Machine::new().done(&["session", "import", path.to_str().unwrap()]);
}

#[test]
fn a_title_leaks_nothing_of_a_dropped_value() {
    let machine = Machine::new();
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
    fs::write(machine.desk.path().join("titles.json"), file.to_string()).unwrap();
    let mut client = machine.chat();
    let key = "ZQ9-0123456789abcdef";
    let start = json!({ "workflowId": "team.titles", "context": { "apiKey": key, "filler": filler } });
    let first = client.call("start_workflow", start);
    let second = advance(&mut client, &first, "begun");
    assert!(second.text.contains(key), "the title shows it to the agent: {}", second.text);
    let third = advance(&mut client, &second, "logged in");
    assert!(third.text.contains("xZQ9"), "cut inside the value: {}", third.text);
    client.close();
    machine.done(&["session", "export", &session_of(&first), "-o", "r.json", "--redact"]);
    let text = fs::read_to_string(machine.desk.path().join("r.json")).unwrap();
    assert!(!text.contains(key) && !text.contains("xZQ9"), "a title leaks");
    assert!(text.contains("Log in with [redacted]"));
    // A report withholds what it withholds of the context.
    for format in ["md", "html", "json"] {
        let name = format!("report.{format}");
        machine.done(&["report", &session_of(&first), "--format", format, "-o", &name]);
        let report = fs::read_to_string(machine.desk.path().join(name)).unwrap();
        assert!(!report.contains("ZQ9") && report.contains("withheld"), "{format}: {report}");
    }
}

#[test]
fn the_sound_beginning_of_a_damaged_session_can_be_saved() {
    let (machine, reply) = halfway();
    let session = session_of(&reply);
    let events = machine.data.path().join("sessions").join(&session).join("events");
    let mut segments: Vec<PathBuf> =
        fs::read_dir(events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let damage = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[40] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    damage(segments.last().unwrap());
    let told = machine.done(&["session", "export", &session, "-o", "s.json"]);
    assert!(told.contains("salvage") && told.contains("damaged"), "{told}");
    let bundle: Value =
        serde_json::from_str(&fs::read_to_string(machine.desk.path().join("s.json")).unwrap()).unwrap();
    assert_eq!(bundle["salvage"]["health"]["health"], "corrupt_tail");
    let elsewhere = Machine::new();
    let path = machine.desk.path().join("s.json");
    let told = elsewhere.json(&["session", "import", path.to_str().unwrap(), "--json"]);
    assert_eq!(told["salvage"]["eventsKept"], told["events"]);
    let mut client = elsewhere.chat();
    let found = client.call("resume_session", json!({ "query": "teapot" }));
    let next = &found.structured["nextCall"];
    let at = client.call(next["tool"].as_str().unwrap(), next["arguments"].clone());
    assert_eq!(at.step(), "understand", "the first step again: what came after it was lost");
    advance(&mut client, &at, "once more");
    elsewhere.done(&["session", "export", &session, "-o", "u.json"]);
    let third = Machine::new();
    third.done(&["session", "import", elsewhere.desk.path().join("u.json").to_str().unwrap()]);
    third.done(&["session", "export", &session, "-o", "v.json"]);
    let again: Value =
        serde_json::from_str(&fs::read_to_string(third.desk.path().join("v.json")).unwrap()).unwrap();
    assert_eq!(again["session"]["events"][0]["data"]["importedFrom"]["salvaged"], true, "also two hops away");
    damage(&segments[0]);
    let refused = machine.run(&["session", "export", &session, "-o", "t.json", "--json"]);
    let error: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(error["error"]["code"], "SESSION_CORRUPT");
    assert!(!machine.desk.path().join("t.json").exists());
}

#[test]
fn fields_of_later_versions_survive_the_journey() {
    let (machine, reply) = halfway();
    machine.done(&["session", "export", &session_of(&reply), "-o", "b.json"]);
    let path = machine.desk.path().join("b.json");
    let mut bundle: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    bundle["session"]["events"][1]["data"]["laterField"] = json!({ "a": [1, 2.5] });
    bundle["session"]["events"][1]["laterToo"] = json!("x");
    bundle["laterMember"] = json!(true);
    forge::recommit(&mut bundle);
    forge::reattest(&mut bundle);
    fs::write(&path, serde_json::to_string_pretty(&bundle).unwrap()).unwrap();
    let elsewhere = Machine::new();
    let told = elsewhere.json(&["session", "import", path.to_str().unwrap(), "--json"]);
    assert_eq!(told["unknownMembers"], json!(["laterMember"]));
    elsewhere.done(&["session", "export", &session_of(&reply), "-o", "c.json"]);
    let again: Value =
        serde_json::from_str(&fs::read_to_string(elsewhere.desk.path().join("c.json")).unwrap()).unwrap();
    assert_eq!(again["session"]["events"][1], bundle["session"]["events"][1]);
}

#[test]
fn a_refused_bundle_leaves_every_byte_as_it_was() {
    let (machine, reply) = halfway();
    machine.done(&["session", "export", &session_of(&reply), "-o", "b.json"]);
    let path = machine.desk.path().join("b.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("cracked", "crooked", 1)).unwrap();
    let before = machine.files();
    let refused = machine.run(&["session", "import", "b.json"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("BUNDLE_INTEGRITY_FAILED") && said.contains("session/"), "{said}");
    assert_eq!(machine.files(), before);
}

#[test]
fn an_import_into_a_busy_store_is_told_to_wait() {
    let (here, there) = (Machine::new(), Machine::new());
    let started = here.chat().call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let session = started.structured["run"]["sessionId"].as_str().unwrap();
    let bundle = there.desk.path().join("run.json");
    here.done(&["session", "export", session, "-o", bundle.to_str().unwrap()]);
    for name in ["import.lock", "store.lock"] {
        let lock = fs::File::create(there.data.path().join(name)).unwrap();
        lock.lock().unwrap();
        let refused = there.run(&["session", "import", bundle.to_str().unwrap(), "--json"]);
        assert_eq!(refused.status.code(), Some(3), "{name}: {refused:?}");
        let said: Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(said["error"]["code"], "STORE_BUSY", "{name}: {said}");
    }
    there.done(&["session", "import", bundle.to_str().unwrap()]);
}
