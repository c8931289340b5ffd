//! What all agents share: a home with workflows, a checked connection, and the recorded events.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};
use workrail_testkit::folder::{files, recorded};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply, with_own_words};
use workrail_testkit::postgres::{Cluster, ROLE};

/// A reply's text, without the authored prompt (G73).
const TEXT_BYTES_MAX: usize = 9_000;
const TOKEN_CHARS_MAX: usize = 64;

/// A home with these workflows: on a data directory or, in the `agents_on_postgres` build of this suite, on its own
/// database.
pub(crate) fn home_with(workflows: &[Value]) -> Home {
    let mut home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    if let Some(cluster) = database_server() {
        let database = cluster.database();
        home = home.with("WORKRAIL_STORE", cluster.address(&database, ROLE, "team"));
        databases().insert(home.data(), database);
    }
    workflows.iter().for_each(|workflow| home.workflow(workflow));
    home
}

/// Whether this build of the suite keeps sessions in a database.
pub(crate) fn is_on_database() -> bool {
    env!("CARGO_CRATE_NAME") == "agents_on_postgres"
}

/// The database server; `None` on data directories, and if PostgreSQL is not installed.
fn database_server() -> Option<&'static Cluster> {
    if is_on_database() { Cluster::shared() } else { None }
}

/// The database of each home, by its data directory.
fn databases() -> MutexGuard<'static, BTreeMap<PathBuf, String>> {
    static DATABASES: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    DATABASES.lock().unwrap()
}

/// Everything durable in a database, named as in a data directory.
const ROWS: &str = "
SELECT 'sessions/' || session || '/events/' || lpad(first_event::text, 8, '0') || '.jsonl', encode(events, 'hex') FROM workrail.segment
UNION ALL SELECT 'sessions/' || id || '/head', encode(chain, 'hex') FROM workrail.session
UNION ALL SELECT kind || 's/' || encode(sha256, 'hex'), encode(bytes, 'hex') FROM workrail.content
UNION ALL SELECT 'sessions/' || session || '/wishes/' || run, encode(preferences, 'hex') FROM workrail.wish
UNION ALL SELECT 'keyring', encode(current, 'hex') FROM workrail.keyring
UNION ALL SELECT 'activity', lpad(to_hex(last_value), 16, '0') FROM workrail.activity_sequence";

fn rows(cluster: &Cluster, home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    let database = databases().get(&home.data()).unwrap().clone();
    let rows = cluster.sql(&database, ROWS);
    let row = |line: &str| {
        let (name, hex) = line.split_once('|').unwrap();
        let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
        let bytes = hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1]));
        (PathBuf::from(name), bytes.collect())
    };
    rows.lines().map(row).collect()
}

/// Every recorded event, session by session, in order.
pub(crate) fn events(home: &Home) -> Vec<Value> {
    let mut events = Vec::new();
    for (path, bytes) in logs(home) {
        let path = path.to_string_lossy();
        if path.contains("/events/") && path.ends_with(".jsonl") {
            let lines = String::from_utf8(bytes).unwrap();
            events.extend(lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
    }
    events
}

/// What is below `sessions`: unlike the index, none of it disappears while a server is at work.
fn logs(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    match database_server() {
        Some(cluster) => rows(cluster, home),
        None => files(&home.data().join("sessions")),
    }
}

pub(crate) fn events_of_kind(home: &Home, kind: &str) -> Vec<Value> {
    events(home).into_iter().filter(|event| event["kind"] == kind).collect()
}

/// How many plans were ever committed, each one segment.
pub(crate) fn segments(home: &Home) -> usize {
    if let Some(cluster) = database_server() {
        let database = databases().get(&home.data()).unwrap().clone();
        return usize::try_from(cluster.count(&database, "SELECT count(*) FROM workrail.segment")).unwrap();
    }
    let sessions = fs::read_dir(home.data().join("sessions")).unwrap();
    sessions.map(|session| fs::read_dir(session.unwrap().path().join("events")).unwrap().count()).sum()
}

/// Every file of the data directory with its bytes, except a server's notes about itself; or the equivalent rows of a
/// database.
pub(crate) fn contents(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    match database_server() {
        Some(cluster) => rows(cluster, home),
        None => recorded(&home.data()),
    }
}

/// What an agent did and saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: usize,
    pub(crate) text_bytes_max: usize,
}

impl Seen {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            text_bytes_max: self.text_bytes_max.max(other.text_bytes_max),
        }
    }

    /// The line of figures that every agent prints.
    pub(crate) fn figure(self, agent: u32, found: &str) -> String {
        let Self { calls, text_bytes_max } = self;
        format!(
            "agent {agent}: {calls} calls, {found}; longest text around the prompt {text_bytes_max} bytes"
        )
    }
}

/// A connection whose every reply is checked.
#[derive(Debug)]
pub(crate) struct Agent {
    client: McpClient,
    pub(crate) seen: Seen,
}

impl Agent {
    /// An agent with its own server.
    pub(crate) fn of(home: &Home) -> Self {
        Self { client: home.client(), seen: Seen::default() }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> ToolReply {
        let reply = self.client.call(tool, arguments);
        self.check(&reply);
        reply
    }

    pub(crate) fn call_at_once(&mut self, calls: &[(&str, Value)]) -> Vec<ToolReply> {
        let replies = self.client.call_at_once(calls);
        replies.iter().for_each(|reply| self.check(reply));
        replies
    }

    /// A call that must not fail.
    pub(crate) fn done(&mut self, tool: &str, arguments: Value) -> ToolReply {
        let reply = self.call(tool, arguments);
        assert!(!reply.is_error, "{}", reply.text);
        reply
    }

    pub(crate) fn start(&mut self, workflow: &str, goal: &str) -> ToolReply {
        self.done("start_workflow", json!({ "workflowId": workflow, "goal": goal }))
    }

    /// Makes the call that a reply suggests, with the agent's own words in place of placeholders.
    pub(crate) fn follow(&mut self, reply: &ToolReply) -> ToolReply {
        self.follow_call(&reply.data["nextCall"])
    }

    pub(crate) fn follow_call(&mut self, call: &Value) -> ToolReply {
        let tool = call["tool"].as_str().unwrap_or_else(|| panic!("no next call in {call}"));
        self.call(tool, with_own_words(&call["arguments"]))
    }

    pub(crate) fn look(&mut self, state_token: &str) -> ToolReply {
        self.done("continue_workflow", json!({ "stateToken": state_token }))
    }

    /// Makes the suggested call, with the agent's own notes.
    pub(crate) fn complete(&mut self, reply: &ToolReply, notes: &str) -> ToolReply {
        self.done("continue_workflow", ack(reply, notes))
    }

    pub(crate) fn kill(self) -> Seen {
        self.client.kill();
        self.seen
    }

    pub(crate) fn close(self) -> Seen {
        assert!(self.client.close().success(), "the server ends well when its input does");
        self.seen
    }

    fn check(&mut self, reply: &ToolReply) {
        let structured = &reply.data;
        assert_eq!(structured["text"], Value::from(reply.text.as_str()), "both channels say the same");
        let prompt = structured["pending"]["prompt"].as_str().filter(|prompt| reply.text.contains(*prompt));
        let other_bytes = reply.text.len() - prompt.map_or(0, str::len);
        assert!(other_bytes <= TEXT_BYTES_MAX, "{other_bytes} bytes around the prompt: {}", reply.text);
        check_tokens(structured, &reply.text);
        if let Some(call) = structured.get("nextCall").filter(|call| call.is_object()) {
            // A call without arguments is identified by its name.
            let bare = call["arguments"].as_object().unwrap().is_empty();
            let shown =
                if bare { call["tool"].as_str().unwrap().to_owned() } else { call["arguments"].to_string() };
            assert!(reply.text.contains(&shown), "the next call {shown} is not in: {}", reply.text);
        }
        self.seen = self.seen.and(Seen { calls: 1, text_bytes_max: other_bytes });
    }
}

fn check_tokens(value: &Value, text: &str) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(token) = member.as_str().filter(|_| name.ends_with("Token"))
                    && token.split('.').count() == 4
                {
                    assert!(token.len() <= TOKEN_CHARS_MAX, "{token}");
                    assert!(text.contains(token), "{name} {token} is not in the text");
                }
                check_tokens(member, text);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| check_tokens(item, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The call that completes the step of a reply.
pub(crate) fn ack(reply: &ToolReply, notes: &str) -> Value {
    let mut arguments = reply.data["nextCall"]["arguments"].clone();
    arguments["output"] = json!({ "notesMarkdown": notes });
    arguments
}

pub(crate) fn label(reply: &ToolReply) -> String {
    reply.data["run"]["label"].as_str().unwrap().to_owned()
}

/// A workflow of plain steps: `step-0`, `step-1` and so on.
pub(crate) fn plain_workflow(id: &str, steps: usize) -> Value {
    let steps: Vec<Value> = (0..steps)
        .map(|n| {
            json!({
                "id": format!("step-{n}"), "title": format!("Step {n} of {id}"),
                "prompt": format!("Do part {n} and say what you did."),
            })
        })
        .collect();
    json!({ "id": id, "name": id, "description": "Steps to walk through.", "version": "1.0.0", "steps": steps })
}
