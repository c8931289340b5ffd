//! A data directory with runs in it, and commands run on it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use workrail_testkit::mcp_client::{McpClient, ToolReply};
use workrail_testkit::terminal;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A workflow that one completed step finishes.
pub(crate) fn one_step() -> Value {
    json!({
        "id": "team.one", "name": "One", "description": "A single step.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    })
}

pub(crate) struct Scene {
    pub(crate) data: tempfile::TempDir,
    pub(crate) workflows: tempfile::TempDir,
    variables: Vec<(&'static str, &'static str)>,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The same, with variables in the environment of its servers.
    pub(crate) fn with(variables: &[(&'static str, &'static str)]) -> Self {
        let scene = Self {
            data: tempfile::tempdir().unwrap(),
            workflows: tempfile::tempdir().unwrap(),
            variables: variables.to_vec(),
        };
        std::fs::write(scene.workflows.path().join("one.json"), one_step().to_string()).unwrap();
        scene
    }

    pub(crate) fn server(&self) -> McpClient {
        let mut env = vec![("WORKFLOW_STORAGE_PATH", self.workflows.path())];
        env.extend(self.variables.iter().map(|(name, value)| (*name, Path::new(*value))));
        McpClient::start(Path::new(PROGRAM), self.data.path(), &env)
    }

    /// Runs a command that is not at a terminal.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        run(self.data.path(), arguments)
    }

    /// Runs a command at a terminal and types a line into it.
    pub(crate) fn typed(&self, arguments: &str, line: &str) -> bool {
        terminal::typed(Path::new(PROGRAM), self.data.path(), arguments, line)
    }

    /// A run that is finished.
    pub(crate) fn finished(&self) -> ToolReply {
        let mut client = self.server();
        let first = start(&mut client);
        let last = advance(&mut client, &first);
        assert_eq!(last.structured["isComplete"], Value::from(true), "{}", last.text);
        client.close();
        first
    }

    /// A run that waits at its step.
    pub(crate) fn unfinished(&self) -> ToolReply {
        let mut client = self.server();
        let first = start(&mut client);
        // Nothing of it is left to vanish while somebody looks at the files.
        client.close();
        first
    }

    pub(crate) fn session_dir(&self, reply: &ToolReply) -> PathBuf {
        self.data.path().join("sessions").join(session(reply))
    }

    /// The names of all content files.
    pub(crate) fn content(&self) -> BTreeSet<String> {
        content(self.data.path())
    }
}

pub(crate) fn content(data: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["snapshots", "blobs", "workflows/pinned"] {
        for entry in std::fs::read_dir(data.join(folder)).unwrap() {
            names.insert(format!("{folder}/{}", entry.unwrap().file_name().into_string().unwrap()));
        }
    }
    names
}

pub(crate) fn run(data: &Path, arguments: &[&str]) -> Said {
    let output = Command::new(PROGRAM)
        .args(arguments)
        .env_clear()
        .env("WORKRAIL_DATA_DIR", data)
        .env("HOME", data)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
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
    reply.structured["run"]["sessionId"].as_str().unwrap().to_owned()
}

pub(crate) fn label(reply: &ToolReply) -> String {
    reply.structured["run"]["label"].as_str().unwrap().to_owned()
}
