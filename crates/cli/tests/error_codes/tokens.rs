//! Codes about tokens.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use workrail_core::token::{MintTarget, NodeFacts, mint};
use workrail_model::digest::WorkflowHash;
use workrail_model::error::ErrorCode;
use workrail_model::event::EventIndex;
use workrail_model::id::{EventId, NodeId, RunId};
use workrail_model::token::TokenEncoding;
use workrail_ports::keyring::KeyringStore;
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_testkit::fixed::SeededEntropy;

use super::{Scene, refused};

fn replaced_last(token: &str) -> String {
    // The last character has one unused bit; both of these leave it empty.
    let last = if token.ends_with('0') { '2' } else { '0' };
    format!("{}{last}", &token[..token.len() - 1])
}

#[test]
fn token_invalid_format() {
    let mut scene = Scene::new();
    let token = scene.first.string("ackToken");
    for (cause, bad) in [
        ("cut short", &token[..token.len() - 10]),
        ("a word", "hello"),
        ("twice", &format!("{token}{token}")),
    ] {
        let reply = scene.client().call("continue_workflow", json!({ "ackToken": bad }));
        refused(&scene, &reply, ErrorCode::TokenInvalidFormat, cause);
    }
}

#[test]
fn token_unsupported_version() {
    let mut scene = Scene::new();
    let token = scene.first.string("stateToken").replace("st.v2.", "st.v9.");
    let reply = scene.client().call("continue_workflow", json!({ "stateToken": token }));
    refused(&scene, &reply, ErrorCode::TokenUnsupportedVersion, "version 9");
}

/// G32: only what WorkRail signed is a token.
#[test]
fn token_bad_signature() {
    let mut scene = Scene::new();
    let token = replaced_last(&scene.first.string("ackToken"));
    let reply = scene.client().call("continue_workflow", json!({ "ackToken": token }));
    refused(&scene, &reply, ErrorCode::TokenBadSignature, "changed at its end");
}

/// G32: each kind of token grants one right; a state token completes no step.
#[test]
fn token_scope_mismatch() {
    let mut scene = Scene::new();
    let other = scene.client().call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let mixed = json!({
        "stateToken": other.string("stateToken"), "ackToken": scene.first.string("ackToken"),
        "output": { "notesMarkdown": "n" },
    });
    let reply = scene.client().call("continue_workflow", mixed);
    refused(&scene, &reply, ErrorCode::TokenScopeMismatch, "tokens of two runs");
    let swapped = json!({ "ackToken": scene.first.string("stateToken") });
    let reply = scene.client().call("continue_workflow", swapped);
    refused(&scene, &reply, ErrorCode::TokenScopeMismatch, "state token as ack token");
    let second = scene.advance();
    let stale = json!({
        "stateToken": scene.first.string("stateToken"), "ackToken": second.string("ackToken"),
        "output": { "notesMarkdown": "n" },
    });
    let reply = scene.client().call("continue_workflow", stale);
    refused(&scene, &reply, ErrorCode::TokenScopeMismatch, "tokens of two nodes");
}

#[test]
fn token_unknown_node() {
    let mut scene = Scene::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir_all(elsewhere.path().join("keys")).unwrap();
    fs::set_permissions(elsewhere.path().join("keys"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(scene.home.data().join("keys/keyring.json"), elsewhere.path().join("keys/keyring.json"))
        .unwrap();
    let mut client = scene.home.with_data(elsewhere.path()).client();
    let bookmark = json!({ "stateToken": scene.first.string("stateToken") });
    refused(&scene, &client.call("continue_workflow", bookmark), ErrorCode::TokenUnknownNode, "state token");
    let ack = scene.ack();
    refused(&scene, &client.call("continue_workflow", ack), ErrorCode::TokenUnknownNode, "ack token");
    assert!(!scene.advance().is_error, "the run continues in its own store");
}

#[test]
fn token_workflow_hash_mismatch() {
    let mut scene = Scene::new();
    let root = camino::Utf8PathBuf::from_path_buf(scene.home.data()).unwrap();
    let disk = Disk::open(&root).unwrap();
    let store = LocalStore::open(disk, Box::new(SeededEntropy::new(1)), "boot".to_owned()).unwrap();
    let key = store.load_or_create().unwrap().current;
    let run = RunId::parse(scene.first.data["run"]["runId"].as_str().unwrap()).unwrap();
    let at = NodeFacts {
        node: workrail_core::derive::root_node_id(run),
        run,
        node_event: EventIndex::ZERO,
        created_by: EventId::from_bits([0; 10]),
        workflow: WorkflowHash::of(b"another workflow"),
    };
    let token = mint(&MintTarget::State { session: scene.session(), at }, TokenEncoding::V1, &key);
    let reply = scene.client().call("continue_workflow", json!({ "stateToken": token }));
    refused(&scene, &reply, ErrorCode::TokenWorkflowHashMismatch, "another workflow");
    let unknown = NodeFacts { node: NodeId::from_bits([9; 10]), ..at };
    let token = mint(&MintTarget::State { session: scene.session(), at: unknown }, TokenEncoding::V1, &key);
    let reply = scene.client().call("continue_workflow", json!({ "stateToken": token }));
    refused(&scene, &reply, ErrorCode::TokenUnknownNode, "long state token");
}

#[test]
fn token_session_locked() {
    let mut scene = Scene::new();
    let file = fs::File::open(scene.session_dir().join(".lock")).unwrap();
    file.try_lock().unwrap();
    let reply = scene.advance();
    refused(&scene, &reply, ErrorCode::TokenSessionLocked, "in use");
    assert_eq!(reply.data["retry"]["kind"], "retryable_after_ms");
    let bookmark = json!({ "stateToken": scene.first.string("stateToken") });
    assert!(!scene.client().call("continue_workflow", bookmark).is_error, "readers never wait for a writer");
    drop(file);
    assert!(!scene.advance().is_error);
}
