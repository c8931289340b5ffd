//! A home with runs in it, and what its data directory holds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workrail_testkit::home::{CommandRun, Home};
use workrail_testkit::mcp_client::{McpClient, ToolReply};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A workflow that ends after one completed step.
pub(crate) fn one_step() -> Value {
    json!({
        "id": "team.one", "name": "One", "description": "A single step.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    })
}

/// A home with that workflow.
pub(crate) fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&one_step());
    home
}

/// A run that is finished.
pub(crate) fn finished(home: &Home) -> ToolReply {
    let mut client = home.client();
    let first = start(&mut client);
    let last = advance(&mut client, &first);
    assert_eq!(last.data["isComplete"], Value::from(true), "{}", last.text);
    client.close();
    first
}

/// A run that waits at its step.
pub(crate) fn unfinished(home: &Home) -> ToolReply {
    let mut client = home.client();
    let first = start(&mut client);
    // So that no file of the server vanishes while a test inspects the files.
    client.close();
    first
}

pub(crate) fn session_dir(home: &Home, reply: &ToolReply) -> PathBuf {
    home.data().join("sessions").join(session(reply))
}

/// The names of all content files.
pub(crate) fn content(data: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["snapshots", "blobs", "workflows/pinned"] {
        for entry in std::fs::read_dir(data.join(folder)).unwrap() {
            names.insert(format!("{folder}/{}", entry.unwrap().file_name().into_string().unwrap()));
        }
    }
    names
}

/// Runs a command on a data directory, in an isolated home.
pub(crate) fn run(data: &Path, arguments: &[&str]) -> CommandRun {
    Home::new(PROGRAM).with_data(data).run(arguments)
}

pub(crate) fn start(client: &mut McpClient) -> ToolReply {
    let reply = client.call("start_workflow", json!({ "workflowId": "team.one", "goal": "tidy the shed" }));
    assert!(!reply.is_error, "{}", reply.text);
    reply
}

pub(crate) fn advance(client: &mut McpClient, reply: &ToolReply) -> ToolReply {
    let ack =
        json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": "done and dusted" } });
    client.call("continue_workflow", ack)
}

pub(crate) fn session(reply: &ToolReply) -> String {
    reply.data["run"]["sessionId"].as_str().unwrap().to_owned()
}

pub(crate) fn label(reply: &ToolReply) -> String {
    reply.data["run"]["label"].as_str().unwrap().to_owned()
}
