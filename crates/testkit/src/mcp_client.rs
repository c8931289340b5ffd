//! A plain MCP client of a child process: one line out, one line in, nothing hidden.
//!
//! It keeps the raw lines, so that tests can compare bytes and check that stdout carries JSON-RPC only.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use workrail_model::placeholder::{A_NUMBER, TRUE_OR_FALSE, is_placeholder};
use workrail_model::reply::META_KEY;

/// A server process and its pipes.
#[derive(Debug)]
pub struct McpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
    initialized: Value,
    notifications: Vec<Value>,
}

/// A server that ended instead of answering the handshake.
#[derive(Clone, Debug)]
pub struct FailedStart {
    what: String,
    /// `None` if a signal ended it.
    code: Option<i32>,
    /// Its stderr, if that was piped.
    printed: String,
}

impl FailedStart {
    /// Whether the server itself ended with one of the exit codes for an error and said why, without a panic.
    pub fn is_refusal(&self) -> bool {
        is_refusal(self.code, &self.printed)
    }
}

impl fmt::Display for FailedStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.printed)
    }
}

/// See [`FailedStart::is_refusal`].
pub fn is_refusal(code: Option<i32>, printed: &str) -> bool {
    matches!(code, Some(1..=3)) && !printed.trim().is_empty() && !printed.contains("panicked at")
}

/// The result of one tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolReply {
    /// The whole reply as data.
    pub data: Value,
    pub text: String,
    pub is_error: bool,
    /// The result as received, byte for byte.
    pub raw: String,
}

impl McpClient {
    /// Starts a server from a command with piped input and output, and completes the handshake.
    pub fn from_command(mut command: Command) -> Result<Self, FailedStart> {
        let mut child = command.spawn().expect("the program was built");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut client =
            Self { child, stdin, stdout, next_id: 0, initialized: Value::Null, notifications: Vec::new() };
        match client.handshake() {
            Ok(()) => Ok(client),
            Err(what) => {
                let (status, printed) = client.end();
                Err(FailedStart { what, code: status.code(), printed })
            }
        }
    }

    fn handshake(&mut self) -> Result<(), String> {
        let info = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "testkit", "version": "0" },
        });
        let answered = self.try_exchange("initialize", info)?;
        self.initialized = serde_json::from_str(&answered).map_err(|error| error.to_string())?;
        self.try_send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
    }

    fn send(&mut self, message: &Value) {
        self.try_send(message).expect("the server reads");
    }

    fn try_send(&mut self, message: &Value) -> Result<(), String> {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{message}").and_then(|()| stdin.flush()).map_err(|error| error.to_string())
    }

    /// The server's answer to the handshake.
    pub fn initialized(&self) -> &Value {
        &self.initialized
    }

    /// Sends a request and returns the whole response.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let line = self.exchange(method, params);
        serde_json::from_str(&line).expect("a response was read before")
    }

    fn exchange(&mut self, method: &str, params: Value) -> String {
        self.try_exchange(method, params).expect("the server answers")
    }

    fn try_exchange(&mut self, method: &str, params: Value) -> Result<String, String> {
        self.next_id += 1;
        let id = self.next_id;
        self.try_send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let (answered, line) = self.try_receive()?;
            if answered.is_none_or(|answered| answered == id) {
                return Ok(line);
            }
        }
    }

    fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The next response and the id it answers; `None` if the server could not read the id.
    fn receive(&mut self) -> (Option<u64>, String) {
        self.try_receive().expect("the server answers")
    }

    fn try_receive(&mut self) -> Result<(Option<u64>, String), String> {
        loop {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the server closed its output before answering".to_owned());
            }
            let message: Value = serde_json::from_str(&line)
                .map_err(|error| format!("stdout carries JSON-RPC lines only: {error}: {line}"))?;
            if message.get("result").is_some() || message.get("error").is_some() {
                return Ok((message["id"].as_u64(), line));
            }
            self.notifications.push(message);
        }
    }

    /// Calls a tool; panics on a protocol error.
    pub fn call(&mut self, tool: &str, arguments: Value) -> ToolReply {
        ToolReply::read(&self.exchange("tools/call", json!({ "name": tool, "arguments": arguments })))
    }

    /// Returns once the server has indexed what it recorded, so that it writes nothing more until the next call: it
    /// does so in a pause after its replies, and a search waits for it.
    pub fn until_indexed(&mut self) {
        let reply = self.call("resume_session", json!({}));
        assert!(!reply.is_error, "{}", reply.text);
    }

    /// Makes the next call that a reply suggests, with our own words in place of its placeholders.
    pub fn next(&mut self, reply: &ToolReply) -> ToolReply {
        let call = &reply.data["nextCall"];
        let tool = call["tool"].as_str().unwrap_or_else(|| panic!("no next call in {}", reply.data));
        self.call(tool, with_own_words(&call["arguments"]))
    }

    /// Calls a tool; fails if the server ends or answers with a protocol error.
    pub fn try_call(&mut self, tool: &str, arguments: Value) -> Result<ToolReply, String> {
        let line = self.try_exchange("tools/call", json!({ "name": tool, "arguments": arguments }))?;
        match line.contains("\"result\"") {
            true => Ok(ToolReply::read(&line)),
            false => Err(format!("a protocol error: {line}")),
        }
    }

    /// Sends a call without waiting for its answer.
    pub fn send_call(&mut self, tool: &str, arguments: Value) {
        self.send_request("tools/call", json!({ "name": tool, "arguments": arguments }));
    }

    /// Cancels the last call.
    pub fn cancel_last(&mut self) {
        let params = json!({ "requestId": self.next_id, "reason": "timeout" });
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }

    /// The next answer to any call.
    pub fn answer(&mut self) -> ToolReply {
        ToolReply::read(&self.receive().1)
    }

    /// All notifications that the server has sent so far.
    pub fn notifications(&self) -> &[Value] {
        &self.notifications
    }

    /// Sends all calls before reading any answer; the answers are in the order of the calls.
    pub fn call_at_once(&mut self, calls: &[(&str, Value)]) -> Vec<ToolReply> {
        let ids: Vec<u64> = calls
            .iter()
            .map(|(tool, arguments)| {
                self.send_request("tools/call", json!({ "name": tool, "arguments": arguments }))
            })
            .collect();
        let mut answers = BTreeMap::new();
        while answers.len() < ids.len() {
            let (id, line) = self.receive();
            let id = id.expect("every answer names its call");
            assert!(answers.insert(id, ToolReply::read(&line)).is_none(), "call {id} was answered twice");
        }
        ids.iter().map(|id| answers.remove(id).expect("every call is answered")).collect()
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server, as a crash would.
    pub fn kill(mut self) {
        self.child.kill().expect("the server is ours");
        self.child.wait().expect("the server ends");
    }

    /// Closes the server's input and waits for it to exit; returns the status and what it wrote to a piped stderr.
    pub fn end(mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        let mut printed = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).expect("stderr can be read");
            printed = String::from_utf8_lossy(&bytes).into_owned();
        }
        (self.child.wait().expect("the server ends when its input does"), printed)
    }

    /// Closes the server's input and waits for it to exit.
    pub fn close(mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.child.wait().expect("the server ends when its input does")
    }
}

/// A server that outlives its test would still write to a folder that the test compares or removes.
impl Drop for McpClient {
    fn drop(&mut self) {
        // More than a server needs to end; one that a test has suspended never does.
        const WITHIN: Duration = Duration::from_secs(10);
        drop(self.stdin.take());
        let deadline = Instant::now() + WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The arguments of a suggested call, with our own words in place of every placeholder.
pub fn with_own_words(arguments: &Value) -> Value {
    match arguments {
        Value::String(text) if is_placeholder(text) => own_answer(text),
        Value::Array(items) => items.iter().map(with_own_words).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, member)| (key.clone(), with_own_words(member))).collect()
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain.clone(),
    }
}

/// What an agent would put in place of a placeholder; of several allowed values, the last, which ends a loop.
fn own_answer(placeholder: &str) -> Value {
    match placeholder {
        A_NUMBER => Value::from(1),
        TRUE_OR_FALSE => Value::from(false),
        text if text.starts_with("<a whole number") => Value::from(1),
        text if text.starts_with("<text like ") && text.contains("{4}-") && text.contains('T') => {
            Value::from("2026-01-31T09:00:00Z")
        }
        text if text.starts_with("<text like ") => Value::from("5f0c1a52-6a3d-4a43-9f4e-0d8a3f1b2c4d"),
        text => match text.strip_prefix("<one of: ").and_then(|text| text.strip_suffix('>')) {
            Some(values) => Value::from(values.rsplit(" | ").next().unwrap_or(values)),
            None if text.starts_with("<your text, ") && !text.starts_with("<your text, at most ") => {
                Value::from("Words of my own, more of them than usual, because so many were asked for.")
            }
            None => Value::from("Words of my own."),
        },
    }
}

/// The content items in order, joined as the structured text joins them.
fn all_text(content: &Value) -> String {
    let items = content.as_array().into_iter().flatten();
    items.filter_map(|item| item["text"].as_str()).collect::<Vec<_>>().join("\n\n")
}

/// The data of a tool result, for programs; null if there is none.
pub fn reply_data(result: &Value) -> &Value {
    &result["_meta"][META_KEY]
}

/// The codes of the warnings in the data of a reply.
pub fn warning_codes(reply: &Value) -> Vec<&str> {
    let warnings = reply["warnings"].as_array().into_iter().flatten();
    warnings.map(|warning| warning["code"].as_str().expect("a warning has a code")).collect()
}

impl ToolReply {
    /// Parses the line or body of a response.
    pub fn read(line: &str) -> Self {
        let mut response: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(line).expect("a response is an object");
        let raw = response.remove("result").unwrap_or_else(|| panic!("a protocol error: {line}"));
        let result: Value = serde_json::from_str(raw.get()).expect("a raw value is JSON");
        Self {
            data: reply_data(&result).clone(),
            text: all_text(&result["content"]),
            is_error: result["isError"] == true,
            raw: raw.get().to_owned(),
        }
    }

    /// A member of the reply as text.
    pub fn string(&self, member: &str) -> String {
        self.data[member].as_str().unwrap_or_else(|| panic!("no `{member}` in {}", self.data)).to_owned()
    }

    pub fn code(&self) -> String {
        self.string("code")
    }

    pub fn step(&self) -> &Value {
        &self.data["run"]["stepId"]
    }

    /// The arguments of `continue_workflow` that complete the step with these notes.
    pub fn ack(&self, notes: &str) -> Value {
        json!({ "ackToken": self.string("ackToken"), "output": { "notesMarkdown": notes } })
    }

    /// The codes of the reply's warnings.
    pub fn warnings(&self) -> Vec<&str> {
        warning_codes(&self.data)
    }

    /// The label of the run.
    pub fn label(&self) -> String {
        let label = self.data["run"]["label"].as_str();
        label.unwrap_or_else(|| panic!("no run in {}", self.data)).to_owned()
    }
}
