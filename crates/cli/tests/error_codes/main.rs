//! Every error code is reachable, and each answer says what is wrong and what to do next.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod bundles;
#[path = "../forge/mod.rs"]
mod forge;
#[path = "../snapshot/mod.rs"]
mod snapshot;
mod tokens;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_model::error::ErrorCode;
use workrail_model::event::{Event, EventData, EventIndex};
use workrail_model::id::SessionId;
use workrail_model::manifest::{ManifestIndex, commit_group, group_bytes, segment_bytes};
use workrail_testkit::home::{CommandRun, Home};
use workrail_testkit::mcp_client::{McpClient, ToolReply, reply_data};
use workrail_testkit::volatile;
use workrail_testkit::wire::{Http, stateless};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A server in a fresh home with one started run.
struct Scene {
    home: Home,
    client: Option<McpClient>,
    first: ToolReply,
}

impl Scene {
    fn new() -> Self {
        let home = Home::new(PROGRAM);
        let mut client = home.client();
        let first = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
        assert!(!first.is_error, "{}", first.text);
        Self { home, client: Some(client), first }
    }

    fn client(&mut self) -> &mut McpClient {
        self.client.as_mut().unwrap()
    }

    /// Stops the server, so that the files can be changed behind its back, and starts another one.
    fn restart_after(&mut self, change: impl FnOnce(&Self)) {
        self.client.take().unwrap().close();
        change(self);
        self.client = Some(self.home.client());
    }

    fn session(&self) -> SessionId {
        SessionId::parse(self.first.data["run"]["sessionId"].as_str().unwrap()).unwrap()
    }

    fn session_dir(&self) -> PathBuf {
        self.home.data().join(format!("sessions/{}", self.session()))
    }

    fn ack(&self) -> Value {
        self.first.ack("n")
    }

    fn advance(&mut self) -> ToolReply {
        let ack = self.ack();
        self.client().call("continue_workflow", ack)
    }
}

/// Compares the answer with the snapshot of this code and cause.
fn compare(home: &Home, code: ErrorCode, cause: &str, answer: &str) {
    let name = format!("{}_{}", code.as_str().to_lowercase(), cause.replace(' ', "_"));
    let text = volatile::replaced(answer, home);
    snapshot::settings().bind(|| insta::assert_snapshot!(name, text));
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// An error reply with this code, word for word as in its snapshot. It suggests nothing that deletes or overwrites (G71).
fn refused(scene: &Scene, reply: &ToolReply, code: ErrorCode, cause: &str) {
    assert!(reply.is_error, "{}", reply.text);
    assert_eq!(reply.code(), code.as_str(), "{}", reply.text);
    for member in ["message", "suggestion", "text"] {
        assert!(!reply.string(member).is_empty(), "{member} of {code:?}");
    }
    assert!(reply.data["retry"]["kind"].is_string());
    for forbidden in ["rm ", "delete the", "session delete", "--force"] {
        assert!(!reply.text.contains(forbidden), "{}", reply.text);
    }
    let mut structured = reply.data.clone();
    // Repeats the text.
    structured.as_object_mut().unwrap().remove("text");
    compare(&scene.home, code, cause, &format!("{}\n\n(structured) {}\n", reply.text, pretty(&structured)));
}

/// A command that failed with this error, word for word as in its snapshot; `at` locates it in the output.
fn command_refused(home: &Home, ran: &CommandRun, at: &str, code: ErrorCode, cause: &str) {
    let said = ran.json();
    assert_eq!(said[at]["code"], code.as_str(), "{said}");
    compare(home, code, cause, &format!("[exit code {}]\n{}\n", ran.code, pretty(&said[at])));
}

fn command(scene: &Scene, arguments: &[&str]) -> CommandRun {
    scene.home.run(&[arguments, &["--json"]].concat())
}

#[test]
fn validation_error() {
    let mut scene = Scene::new();
    let token = scene.first.string("ackToken");
    let bad = [
        ("no token", json!({})),
        ("number as token", json!({ "ackToken": 7 })),
        ("unknown member", json!({ "ackToken": token, "outptu": {} })),
        ("list as output", json!({ "ackToken": token, "output": [1] })),
        ("forbidden key", json!({ "ackToken": token, "context": { "__proto__": 1 } })),
        ("large context", json!({ "ackToken": token, "context": { "blob": "x".repeat(300_000) } })),
        ("long notes", json!({ "ackToken": token, "output": { "notesMarkdown": "x".repeat(300_000) } })),
        (
            "notes without ack token",
            json!({ "stateToken": scene.first.string("stateToken"), "output": { "notesMarkdown": "lost" } }),
        ),
    ];
    for (cause, arguments) in bad {
        let reply = scene.client().call("continue_workflow", arguments);
        refused(&scene, &reply, ErrorCode::ValidationError, cause);
    }
    let reply = scene.client().call("start_workflow", json!({ "workflowId": "../etc/passwd" }));
    refused(&scene, &reply, ErrorCode::ValidationError, "path as workflow id");
}

/// G4: the error gives the measured size and the limit.
#[test]
fn budget_errors_measure() {
    let mut scene = Scene::new();
    let token = scene.first.string("ackToken");
    let arguments = json!({ "ackToken": token, "context": { "blob": "x".repeat(300_000) } });
    let reply = scene.client().call("continue_workflow", arguments);
    assert_eq!(reply.data["details"]["measuredBytes"], 300_011);
    assert_eq!(reply.data["details"]["maxBytes"], 262_144);
}

#[test]
fn workflow_not_found() {
    let mut scene = Scene::new();
    let reply = scene.client().call("start_workflow", json!({ "workflowId": "wr.absent" }));
    refused(&scene, &reply, ErrorCode::WorkflowNotFound, "unknown id");
}

#[test]
fn workflow_invalid() {
    let mut scene = Scene::new();
    let broken = scene.home.workflows().join("broken.json");
    scene.home.write(&broken, r#"{ "id": "team.broken", "name": "Broken" }"#);
    let reply = scene.client().call("start_workflow", json!({ "workflowId": "team.broken" }));
    refused(&scene, &reply, ErrorCode::WorkflowInvalid, "members are missing");
}

#[test]
fn session_corrupt() {
    let mut scene = Scene::new();
    scene.restart_after(|scene| {
        let events = scene.session_dir().join("events");
        let segment = fs::read_dir(events).unwrap().next().unwrap().unwrap().path();
        let mut bytes = fs::read(&segment).unwrap();
        bytes[10] ^= 1;
        fs::write(segment, bytes).unwrap();
    });
    let reply = scene.advance();
    refused(&scene, &reply, ErrorCode::SessionCorrupt, "advance");
    let bookmark = json!({ "stateToken": scene.first.string("stateToken") });
    let reply = scene.client().call("continue_workflow", bookmark);
    refused(&scene, &reply, ErrorCode::SessionCorrupt, "look");
}

/// The events of a session with one segment, and a way to write them back with valid digests.
fn events_of(scene: &Scene) -> Vec<Event> {
    let folder = scene.session_dir().join("events");
    let mut segments: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let bytes: Vec<u8> = segments.iter().flat_map(|path| fs::read(path).unwrap()).collect();
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| Event::parse(line).unwrap())
        .collect()
}

fn write_as_one_segment(scene: &Scene, events: &[Event], segment: &[u8]) {
    let folder = scene.session_dir();
    for entry in fs::read_dir(folder.join("events")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let last = events.last().unwrap().event_index;
    let name = workrail_model::manifest::segment_rel_path(EventIndex::ZERO, last);
    fs::write(folder.join(name), segment).unwrap();
    let group = commit_group(ManifestIndex::ZERO, events, segment);
    fs::write(folder.join("manifest.jsonl"), group_bytes(&group).unwrap()).unwrap();
}

#[test]
fn session_unknown_version() {
    let mut scene = Scene::new();
    scene.restart_after(|scene| {
        let events = events_of(scene);
        let segment =
            String::from_utf8(segment_bytes(&events).unwrap()).unwrap().replace("\"v\":1", "\"v\":2");
        write_as_one_segment(scene, &events, segment.as_bytes());
    });
    let reply = scene.advance();
    refused(&scene, &reply, ErrorCode::SessionUnknownVersion, "version 2");
}

#[test]
fn store_io() {
    let mut scene = Scene::new();
    fs::remove_dir_all(scene.home.data().join("snapshots")).unwrap();
    fs::write(scene.home.data().join("snapshots"), "not a folder").unwrap();
    let reply = scene.advance();
    // The root's snapshot is unreadable, too; which of the two is found first does not matter.
    assert!(["STORE_IO", "STORE_CONTENT_DAMAGED"].contains(&reply.code().as_str()), "{}", reply.text);
    let mut scene = Scene::new();
    let events = scene.session_dir().join("events");
    fs::rename(&events, scene.session_dir().join("moved")).unwrap();
    fs::write(&events, "not a folder").unwrap();
    let reply = scene.advance();
    refused(&scene, &reply, ErrorCode::StoreIo, "file in place of a folder");
    fs::remove_file(&events).unwrap();
    fs::rename(scene.session_dir().join("moved"), &events).unwrap();
    assert!(!scene.advance().is_error, "the same call succeeds once the disk works again");
}

#[test]
fn store_content_damaged() {
    let mut scene = Scene::new();
    // A running server remembers what it has read; a new one reads again.
    scene.restart_after(|scene| {
        for entry in fs::read_dir(scene.home.data().join("workflows/pinned")).unwrap() {
            fs::write(entry.unwrap().path(), "{}").unwrap();
        }
    });
    let reply = scene.advance();
    refused(&scene, &reply, ErrorCode::StoreContentDamaged, "workflow");
}

#[test]
fn session_not_found() {
    let mut scene = Scene::new();
    let unknown = json!({ "sessionId": "sess_0000000000000000" });
    let reply = scene.client().call("resume_session", unknown);
    refused(&scene, &reply, ErrorCode::SessionNotFound, "unknown id");
    let next = &reply.data["nextCall"];
    let found = scene.client().call(next["tool"].as_str().unwrap(), next["arguments"].clone());
    assert!(!found.is_error, "{}", found.text);
}

#[test]
fn session_locked() {
    let scene = Scene::new();
    let session = scene.session().to_string();
    let file = fs::File::open(scene.session_dir().join(".lock")).unwrap();
    file.try_lock().unwrap();
    let ran = command(&scene, &["session", "delete", &session, "--yes"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    command_refused(&scene.home, &ran, "error", ErrorCode::SessionLocked, "in use");
    drop(file);
    assert_eq!(command(&scene, &["session", "keep", &session]).code, 0);
}

#[test]
fn store_busy() {
    let scene = Scene::new();
    let file = fs::File::open(scene.home.data().join("store.lock")).unwrap();
    file.try_lock_shared().unwrap();
    let ran = command(&scene, &["store", "gc"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    command_refused(&scene.home, &ran, "error", ErrorCode::StoreBusy, "in use");
    drop(file);
    assert_eq!(command(&scene, &["store", "gc"]).code, 0);
}

#[test]
fn store_safe_mode() {
    let mut scene = Scene::new();
    let other = scene.client().call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let spared = SessionId::parse(other.data["run"]["sessionId"].as_str().unwrap()).unwrap();
    fs::write(scene.home.data().join("blobs").join("0".repeat(64)), "nobody needs it").unwrap();
    fs::write(scene.session_dir().join("manifest.jsonl"), "damage").unwrap();
    let ran = command(&scene, &["store", "gc", "--ttl", "0d"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    command_refused(&scene.home, &ran, "safeMode", ErrorCode::StoreSafeMode, "damaged session");
    assert_eq!(ran.json()["safeMode"]["details"][0]["subject"], json!(scene.session()), "{ran:?}");
    assert!(scene.home.data().join("blobs").join("0".repeat(64)).exists());
    // Once the doubt is gone, the garbage is removed.
    let damaged = scene.session().to_string();
    assert_eq!(command(&scene, &["session", "delete", &damaged, "--yes"]).code, 0);
    let ran = command(&scene, &["store", "gc", "--ttl", "0d"]);
    let (code, said) = (ran.code, ran.json());
    assert_eq!((code, &said["freed"]["blobs"]["files"]), (0, &json!(1)), "{said}");
    assert_eq!(said["retained"]["unfinished"], json!(1));
    assert_eq!(command(&scene, &["store", "verify", &spared.to_string()]).code, 0);
}

#[test]
fn store_keyring_unusable() {
    use std::os::unix::fs::PermissionsExt;
    let mut scene = Scene::new();
    let keyring = scene.home.data().join("keys/keyring.json");
    fs::set_permissions(&keyring, fs::Permissions::from_mode(0o644)).unwrap();
    let state = json!({ "stateToken": scene.first.string("stateToken") });
    let reply = scene.client().call("continue_workflow", state);
    refused(&scene, &reply, ErrorCode::StoreKeyringUnusable, "readable by others");
}

#[test]
fn store_access_tokens_unusable() {
    let scene = Scene::new();
    let create = ["team", "token", "create", "ada", "--role", "agent"];
    assert_eq!(command(&scene, &create).code, 0);
    let tokens = scene.home.data().join("keys/access-tokens.json");
    fs::write(&tokens, "{}").unwrap();
    let ran = command(&scene, &create);
    assert_eq!(ran.code, 1, "{ran:?}");
    command_refused(&scene.home, &ran, "error", ErrorCode::StoreAccessTokensUnusable, "damaged");
    fs::remove_file(&tokens).unwrap();
    assert_eq!(command(&scene, &create).code, 0);
}

#[test]
fn internal_invariant() {
    let mut scene = Scene::new();
    let blocked = {
        let ack = json!({ "ackToken": scene.first.string("ackToken") });
        scene.client().call("continue_workflow", ack)
    };
    assert_eq!(blocked.data["kind"], "blocked");
    scene.restart_after(|scene| {
        let mut events = events_of(scene);
        for event in &mut events {
            if let EventData::AdvanceRecorded(advance) = &mut event.data {
                advance.reply_ref = None;
            }
        }
        write_as_one_segment(scene, &events, &segment_bytes(&events).unwrap());
    });
    let ack = json!({ "ackToken": scene.first.string("ackToken") });
    let reply = scene.client().call("continue_workflow", ack);
    refused(&scene, &reply, ErrorCode::InternalInvariant, "reply without record");
}

#[test]
fn every_code_has_a_page_and_a_test_named_after_it() {
    let sources = [include_str!("main.rs"), include_str!("tokens.rs"), include_str!("bundles.rs")];
    let tested: BTreeSet<String> = sources
        .iter()
        .flat_map(|source| source.lines())
        .filter_map(|line| line.strip_prefix("fn ")?.strip_suffix("() {"))
        .map(str::to_uppercase)
        .collect();
    for code in ErrorCode::ALL {
        assert!(tested.contains(code.as_str()), "no test is named after {}", code.as_str());
        let page = code.page();
        for part in ["**What.**", "**Why it matters.**", "**What to do.**"] {
            assert!(page.contains(part), "{} lacks {part}", code.as_str());
        }
    }
}

#[test]
fn store_access_denied() {
    let home = Home::new(PROGRAM);
    let made = home.done(&["team", "token", "create", "ada", "--role", "viewer", "--json"]).json();
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    let server = Http::of_command(home.command(&listen).stdin(Stdio::null()));
    let arguments = json!({ "workflowId": "wr.small_change" });
    let call = stateless(1, "tools/call", json!({ "name": "start_workflow", "arguments": arguments }));
    let headers = format!(
        "Authorization: Bearer {}\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: start_workflow\r\n",
        made["token"].as_str().unwrap()
    );
    let answer = server.post(&headers, &call.to_string()).json();
    server.end("TERM");
    let said = reply_data(&answer["result"]);
    assert_eq!(said["code"], ErrorCode::StoreAccessDenied.as_str(), "{answer}");
    compare(&home, ErrorCode::StoreAccessDenied, "a viewer starts a run", &format!("{}\n", pretty(said)));
}

#[test]
fn explain_prints_the_page_of_a_code() {
    let home = Home::new(PROGRAM);
    let known = home.done(&["explain", "token_bad_signature"]);
    assert!(known.out.starts_with("# TOKEN_BAD_SIGNATURE"), "{known:?}");
    assert_eq!(home.run(&["explain", "NOPE"]).code, 2);
}
