//! Every error code is reachable, and each answer says what is wrong and what to do next.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod forge;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workrail_core::token::{MintTarget, NodeFacts, mint};
use workrail_model::digest::WorkflowHash;
use workrail_model::error::ErrorCode;
use workrail_model::event::{Event, EventData, EventIndex};
use workrail_model::id::{EventId, NodeId, RunId, SessionId};
use workrail_model::manifest::{ManifestIndex, commit_group, group_bytes, segment_bytes};
use workrail_model::token::TokenEncoding;
use workrail_ports::keyring::KeyringStore;
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

/// A server on a fresh data directory with one started run.
struct Scene {
    data: tempfile::TempDir,
    client: Option<McpClient>,
    first: ToolReply,
}

impl Scene {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut client = server(data.path());
        let first = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
        assert!(!first.is_error, "{}", first.text);
        Self { data, client: Some(client), first }
    }

    fn client(&mut self) -> &mut McpClient {
        self.client.as_mut().unwrap()
    }

    /// Stops the server, so that the files can be changed behind its back, and starts another one.
    fn restart_after(&mut self, change: impl FnOnce(&Self)) {
        self.client.take().unwrap().close();
        change(self);
        self.client = Some(server(self.data.path()));
    }

    fn session(&self) -> SessionId {
        SessionId::parse(self.first.structured["run"]["sessionId"].as_str().unwrap()).unwrap()
    }

    fn session_dir(&self) -> PathBuf {
        self.data.path().join(format!("sessions/{}", self.session()))
    }

    fn ack(&self) -> Value {
        json!({ "ackToken": self.first.string("ackToken"), "output": { "notesMarkdown": "n" } })
    }

    fn advance(&mut self) -> ToolReply {
        let ack = self.ack();
        self.client().call("continue_workflow", ack)
    }
}

fn server(data: &Path) -> McpClient {
    McpClient::start(Path::new(env!("CARGO_BIN_EXE_workrail")), data, &[])
}

fn refused(reply: &ToolReply, code: ErrorCode) {
    assert!(reply.is_error, "{}", reply.text);
    assert_eq!(reply.code(), code.as_str(), "{}", reply.text);
    for member in ["message", "suggestion", "text"] {
        assert!(!reply.string(member).is_empty(), "{member} of {code:?}");
    }
    assert!(reply.structured["retry"]["kind"].is_string());
    for forbidden in ["rm ", "delete the", "--force"] {
        assert!(!reply.text.contains(forbidden), "{}", reply.text);
    }
}

fn only_for_me(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Runs a command on the data directory of the scene; its exit code and the error that it printed.
fn command(scene: &Scene, arguments: &[&str]) -> (i32, Value) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_workrail"))
        .args(arguments)
        .arg("--json")
        .env_clear()
        .env("WORKRAIL_DATA_DIR", scene.data.path())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

fn replaced_last(token: &str) -> String {
    // The last character has one unused bit; both of these leave it empty.
    let last = if token.ends_with('0') { '2' } else { '0' };
    format!("{}{last}", &token[..token.len() - 1])
}

#[test]
fn token_invalid_format() {
    let mut scene = Scene::new();
    let token = scene.first.string("ackToken");
    for bad in [&token[..40], &token.to_uppercase(), "hello", "", &format!("{token}{token}")] {
        refused(
            &scene.client().call("continue_workflow", json!({ "ackToken": bad })),
            ErrorCode::TokenInvalidFormat,
        );
    }
}

#[test]
fn token_unsupported_version() {
    let mut scene = Scene::new();
    let token = scene.first.string("stateToken").replace("st.v2.", "st.v9.");
    let reply = scene.client().call("continue_workflow", json!({ "stateToken": token }));
    refused(&reply, ErrorCode::TokenUnsupportedVersion);
}

#[test]
fn token_bad_signature() {
    let mut scene = Scene::new();
    let token = replaced_last(&scene.first.string("ackToken"));
    let reply = scene.client().call("continue_workflow", json!({ "ackToken": token }));
    refused(&reply, ErrorCode::TokenBadSignature);
}

#[test]
fn token_scope_mismatch() {
    let mut scene = Scene::new();
    let other = scene.client().call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let mixed = json!({
        "stateToken": other.string("stateToken"), "ackToken": scene.first.string("ackToken"),
        "output": { "notesMarkdown": "n" },
    });
    refused(&scene.client().call("continue_workflow", mixed), ErrorCode::TokenScopeMismatch);
    let swapped = json!({ "ackToken": scene.first.string("stateToken") });
    refused(&scene.client().call("continue_workflow", swapped), ErrorCode::TokenScopeMismatch);
    let second = scene.advance();
    let stale = json!({
        "stateToken": scene.first.string("stateToken"), "ackToken": second.string("ackToken"),
        "output": { "notesMarkdown": "n" },
    });
    refused(&scene.client().call("continue_workflow", stale), ErrorCode::TokenScopeMismatch);
}

#[test]
fn token_unknown_node() {
    let mut scene = Scene::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir_all(elsewhere.path().join("keys")).unwrap();
    only_for_me(&elsewhere.path().join("keys"));
    fs::copy(scene.data.path().join("keys/keyring.json"), elsewhere.path().join("keys/keyring.json"))
        .unwrap();
    let mut client = server(elsewhere.path());
    let bookmark = json!({ "stateToken": scene.first.string("stateToken") });
    refused(&client.call("continue_workflow", bookmark), ErrorCode::TokenUnknownNode);
    let ack = scene.ack();
    refused(&client.call("continue_workflow", ack), ErrorCode::TokenUnknownNode);
    assert!(!scene.advance().is_error, "the run goes on where it lives");
}

#[test]
fn token_workflow_hash_mismatch() {
    let mut scene = Scene::new();
    let root = camino::Utf8Path::from_path(scene.data.path()).unwrap();
    let disk = Disk::open(root).unwrap();
    let store = LocalStore::open(disk, Box::new(SeededEntropy::new(1)), "boot".to_owned()).unwrap();
    let key = store.load_or_create().unwrap().current;
    let run = RunId::parse(scene.first.structured["run"]["runId"].as_str().unwrap()).unwrap();
    let at = NodeFacts {
        node: workrail_core::derive::root_node_id(run),
        run,
        node_event: EventIndex::ZERO,
        created_by: EventId::from_bits([0; 10]),
        workflow: WorkflowHash::of(b"another workflow"),
    };
    let token = mint(&MintTarget::State { session: scene.session(), at }, TokenEncoding::V1, &key);
    let reply = scene.client().call("continue_workflow", json!({ "stateToken": token }));
    refused(&reply, ErrorCode::TokenWorkflowHashMismatch);
    let unknown = NodeFacts { node: NodeId::from_bits([9; 10]), ..at };
    let token = mint(&MintTarget::State { session: scene.session(), at: unknown }, TokenEncoding::V1, &key);
    let reply = scene.client().call("continue_workflow", json!({ "stateToken": token }));
    refused(&reply, ErrorCode::TokenUnknownNode);
}

#[test]
fn token_session_locked() {
    let mut scene = Scene::new();
    let file = fs::File::open(scene.session_dir().join(".lock")).unwrap();
    file.try_lock().unwrap();
    let reply = scene.advance();
    refused(&reply, ErrorCode::TokenSessionLocked);
    assert_eq!(reply.structured["retry"]["kind"], "retryable_after_ms");
    let bookmark = json!({ "stateToken": scene.first.string("stateToken") });
    assert!(!scene.client().call("continue_workflow", bookmark).is_error, "readers never wait for a writer");
    drop(file);
    assert!(!scene.advance().is_error);
}

#[test]
fn validation_error() {
    let mut scene = Scene::new();
    let token = scene.first.string("ackToken");
    let bad = [
        json!({}),
        json!({ "ackToken": 7 }),
        json!({ "ackToken": token, "outptu": {} }),
        json!({ "ackToken": token, "output": "{}" }),
        json!({ "ackToken": token, "context": { "__proto__": 1 } }),
        json!({ "ackToken": token, "context": { "blob": "x".repeat(300_000) } }),
        json!({ "ackToken": token, "output": { "notesMarkdown": "x".repeat(300_000) } }),
        json!({ "stateToken": scene.first.string("stateToken"), "output": { "notesMarkdown": "lost" } }),
    ];
    for arguments in bad {
        refused(&scene.client().call("continue_workflow", arguments), ErrorCode::ValidationError);
    }
    refused(
        &scene.client().call("start_workflow", json!({ "workflowId": "../etc/passwd" })),
        ErrorCode::ValidationError,
    );
}

#[test]
fn budget_errors_measure() {
    let mut scene = Scene::new();
    let token = scene.first.string("ackToken");
    let arguments = json!({ "ackToken": token, "context": { "blob": "x".repeat(300_000) } });
    let reply = scene.client().call("continue_workflow", arguments);
    assert_eq!(reply.structured["details"]["measuredBytes"], 300_011);
    assert_eq!(reply.structured["details"]["maxBytes"], 262_144);
    assert!(reply.structured["details"]["method"].as_str().unwrap().contains("RFC 8785"));
}

#[test]
fn workflow_not_found() {
    let mut scene = Scene::new();
    let reply = scene.client().call("start_workflow", json!({ "workflowId": "wr.absent" }));
    refused(&reply, ErrorCode::WorkflowNotFound);
    assert!(reply.text.contains("wr.small_change"), "{}", reply.text);
}

#[test]
fn workflow_invalid() {
    let data = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("broken.json"), r#"{ "id": "team.broken", "name": "Broken" }"#).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_workrail"));
    let mut client = McpClient::start(program, data.path(), &[("WORKFLOW_STORAGE_PATH", folder.path())]);
    refused(
        &client.call("start_workflow", json!({ "workflowId": "team.broken" })),
        ErrorCode::WorkflowInvalid,
    );
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
    refused(&scene.advance(), ErrorCode::SessionCorrupt);
    let bookmark = json!({ "stateToken": scene.first.string("stateToken") });
    refused(&scene.client().call("continue_workflow", bookmark), ErrorCode::SessionCorrupt);
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
    refused(&scene.advance(), ErrorCode::SessionUnknownVersion);
}

#[test]
fn store_io() {
    let mut scene = Scene::new();
    fs::remove_dir_all(scene.data.path().join("snapshots")).unwrap();
    fs::write(scene.data.path().join("snapshots"), "not a folder").unwrap();
    let reply = scene.advance();
    // The root's snapshot cannot be read either: which of the two is met first does not matter.
    assert!(["STORE_IO", "STORE_CONTENT_DAMAGED"].contains(&reply.code().as_str()), "{}", reply.text);
    let mut scene = Scene::new();
    let events = scene.session_dir().join("events");
    fs::rename(&events, scene.session_dir().join("moved")).unwrap();
    fs::write(&events, "not a folder").unwrap();
    refused(&scene.advance(), ErrorCode::StoreIo);
    fs::remove_file(&events).unwrap();
    fs::rename(scene.session_dir().join("moved"), &events).unwrap();
    assert!(!scene.advance().is_error, "the same call succeeds once the disk works again");
}

#[test]
fn store_content_damaged() {
    let mut scene = Scene::new();
    // A server that runs remembers what it has read; a new one reads again.
    scene.restart_after(|scene| {
        for entry in fs::read_dir(scene.data.path().join("workflows/pinned")).unwrap() {
            fs::write(entry.unwrap().path(), "{}").unwrap();
        }
    });
    refused(&scene.advance(), ErrorCode::StoreContentDamaged);
}

#[test]
fn session_not_found() {
    let mut scene = Scene::new();
    let unknown = json!({ "sessionId": "sess_0000000000000000" });
    let reply = scene.client().call("resume_session", unknown);
    refused(&reply, ErrorCode::SessionNotFound);
    let next = &reply.structured["nextCall"];
    let found = scene.client().call(next["tool"].as_str().unwrap(), next["arguments"].clone());
    assert!(!found.is_error, "{}", found.text);
}

/// The bundle of a session of one step.
fn bundle() -> Value {
    let mut scene = Scene::new();
    scene.advance();
    let session = scene.session().to_string();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_workrail"))
        .args(["session", "export", &session, "-o", "-"])
        .env_clear()
        .env("WORKRAIL_DATA_DIR", scene.data.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Imports a bundle that somebody edited; it must be refused with the code, say where, and write nothing.
fn import_refused(bundle: &Value, code: ErrorCode, at: &str) {
    let (data, desk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = desk.path().join("bundle.json");
    fs::write(&file, bundle.to_string()).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_workrail"))
        .args(["session", "import"])
        .arg(&file)
        .arg("--json")
        .env_clear()
        .env("WORKRAIL_DATA_DIR", data.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = &said["error"];
    assert_eq!(error["code"], code.as_str(), "{said}");
    assert!(error["message"].as_str().unwrap().contains(at), "{said}");
    assert!(!error["suggestion"].as_str().unwrap().is_empty());
    for folder in ["sessions", "snapshots", "blobs", "workflows/pinned"] {
        assert_eq!(fs::read_dir(data.path().join(folder)).unwrap().count(), 0, "{folder}");
    }
}

#[test]
fn bundle_invalid_format() {
    let mut bundle = bundle();
    bundle["session"]["events"] = json!({});
    import_refused(&bundle, ErrorCode::BundleInvalidFormat, "session/events");
    import_refused(&json!({ "bundleSchemaVersion": 1 }), ErrorCode::BundleInvalidFormat, "bundleId");
}

#[test]
fn bundle_unsupported_version() {
    import_refused(
        &json!({ "session": [], "zVersion": {}, "bundleSchemaVersion": 2 }),
        ErrorCode::BundleUnsupportedVersion,
        "bundleSchemaVersion",
    );
    let mut bundle = bundle();
    bundle["session"]["events"][1]["v"] = json!(2);
    forge::reattest(&mut bundle);
    import_refused(&bundle, ErrorCode::BundleUnsupportedVersion, "session/events/1");
}

#[test]
fn bundle_integrity_failed() {
    let mut changed = bundle();
    changed["session"]["events"][0]["at"] = json!("2026-01-01T00:00:00.000Z");
    import_refused(&changed, ErrorCode::BundleIntegrityFailed, "session/events");
    let mut without_blobs = bundle();
    without_blobs["session"]["blobs"] = json!({});
    forge::reattest(&mut without_blobs);
    import_refused(&without_blobs, ErrorCode::BundleIntegrityFailed, "session/blobs/sha256:");
}

#[test]
fn bundle_missing_snapshot() {
    let mut bundle = bundle();
    let key = bundle["session"]["snapshots"].as_object().unwrap().keys().next().unwrap().clone();
    bundle["session"]["snapshots"].as_object_mut().unwrap().remove(&key);
    import_refused(&bundle, ErrorCode::BundleMissingSnapshot, &key);
    forge::reattest(&mut bundle);
    import_refused(&bundle, ErrorCode::BundleMissingSnapshot, &key);
}

#[test]
fn bundle_missing_pinned_workflow() {
    let mut bundle = bundle();
    let key = bundle["session"]["pinnedWorkflows"].as_object().unwrap().keys().next().unwrap().clone();
    bundle["session"]["pinnedWorkflows"] = json!({});
    import_refused(&bundle, ErrorCode::BundleMissingPinnedWorkflow, &key);
    forge::reattest(&mut bundle);
    import_refused(&bundle, ErrorCode::BundleMissingPinnedWorkflow, &key);
}

#[test]
fn bundle_event_order_invalid() {
    let mut swapped = bundle();
    swapped["session"]["events"].as_array_mut().unwrap().swap(1, 2);
    forge::reattest(&mut swapped);
    import_refused(&swapped, ErrorCode::BundleEventOrderInvalid, "session/events/1");
    let mut forged = bundle();
    forged["session"]["events"][1]["dedupeKey"] = json!("run_started:forged");
    forge::recommit(&mut forged);
    forge::reattest(&mut forged);
    import_refused(&forged, ErrorCode::BundleEventOrderInvalid, "dedupe key");
}

#[test]
fn bundle_manifest_order_invalid() {
    let mut bundle = bundle();
    bundle["session"]["manifest"].as_array_mut().unwrap().swap(0, 1);
    forge::reattest(&mut bundle);
    import_refused(&bundle, ErrorCode::BundleManifestOrderInvalid, "session/manifest/0");
}

#[test]
fn session_locked() {
    let scene = Scene::new();
    let session = scene.session().to_string();
    let file = fs::File::open(scene.session_dir().join(".lock")).unwrap();
    file.try_lock().unwrap();
    let (code, said) = command(&scene, &["session", "delete", &session, "--yes"]);
    assert_eq!((code, &said["error"]["code"]), (3, &json!(ErrorCode::SessionLocked.as_str())));
    assert_eq!(said["error"]["retry"]["kind"], "retryable_after_ms");
    drop(file);
    assert_eq!(command(&scene, &["session", "keep", &session]).0, 0);
}

#[test]
fn store_busy() {
    let scene = Scene::new();
    let file = fs::File::open(scene.data.path().join("store.lock")).unwrap();
    file.try_lock_shared().unwrap();
    let (code, said) = command(&scene, &["store", "gc"]);
    assert_eq!((code, &said["error"]["code"]), (3, &json!(ErrorCode::StoreBusy.as_str())));
    drop(file);
    assert_eq!(command(&scene, &["store", "gc"]).0, 0);
}

#[test]
fn store_safe_mode() {
    let mut scene = Scene::new();
    let other = scene.client().call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let spared = SessionId::parse(other.structured["run"]["sessionId"].as_str().unwrap()).unwrap();
    fs::write(scene.data.path().join("blobs").join("0".repeat(64)), "nobody needs it").unwrap();
    fs::write(scene.session_dir().join("manifest.jsonl"), "damage").unwrap();
    let (code, said) = command(&scene, &["store", "gc", "--ttl", "0d"]);
    let warning = &said["safeMode"];
    assert_eq!((code, &warning["code"]), (1, &json!(ErrorCode::StoreSafeMode.as_str())));
    assert_eq!(warning["details"][0]["what"], json!(scene.session()), "{warning}");
    assert!(scene.data.path().join("blobs").join("0".repeat(64)).exists());
    // Once the doubt is gone, so is the garbage.
    let damaged = scene.session().to_string();
    assert_eq!(command(&scene, &["session", "delete", &damaged, "--yes"]).0, 0);
    let (code, said) = command(&scene, &["store", "gc", "--ttl", "0d"]);
    assert_eq!((code, &said["freed"]["blobs"]["files"]), (0, &json!(1)), "{said}");
    assert_eq!(said["stayed"]["unfinished"], json!(1));
    assert_eq!(command(&scene, &["store", "verify", &spared.to_string()]).0, 0);
}

#[test]
fn store_keyring_unusable() {
    use std::os::unix::fs::PermissionsExt;
    let mut scene = Scene::new();
    let keyring = scene.data.path().join("keys/keyring.json");
    fs::set_permissions(&keyring, fs::Permissions::from_mode(0o644)).unwrap();
    let state = json!({ "stateToken": scene.first.string("stateToken") });
    let refused = scene.client().call("continue_workflow", state);
    assert_eq!(refused.code(), "STORE_KEYRING_UNUSABLE", "{}", refused.text);
    assert!(refused.text.contains("0600"), "{}", refused.text);
}

#[test]
fn internal_invariant() {
    let mut scene = Scene::new();
    let blocked = {
        let ack = json!({ "ackToken": scene.first.string("ackToken") });
        scene.client().call("continue_workflow", ack)
    };
    assert_eq!(blocked.structured["kind"], "blocked");
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
    refused(&reply, ErrorCode::InternalInvariant);
    assert!(reply.text.contains("not recomputed"), "{}", reply.text);
}

#[test]
fn every_code_has_a_page_and_a_test_of_its_name() {
    let source = include_str!("error_codes.rs");
    let tested: BTreeSet<String> = source
        .lines()
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
fn explain_prints_the_page_of_a_code() {
    let explain = |code: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_workrail")).args(["explain", code]).output().unwrap()
    };
    let known = explain("token_bad_signature");
    assert!(known.status.success());
    assert!(String::from_utf8(known.stdout).unwrap().starts_with("# TOKEN_BAD_SIGNATURE"));
    let unknown = explain("NOPE");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("TOKEN_BAD_SIGNATURE"));
}
