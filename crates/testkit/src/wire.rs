//! Servers with direct access to their bytes: lines on pipes, requests on sockets.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::home::Home;

/// A command that starts a server.
pub fn command(home: &Home, arguments: &[&str]) -> Command {
    home.command(&[&["mcp"], arguments].concat())
}

/// A request of the stateless revision.
pub fn stateless(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn initialize(id: u64, version: &str) -> Value {
    let params = json!({
        "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "test", "version": "0" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params })
}

pub fn start_call(id: u64) -> Value {
    let arguments = json!({ "workflowId": "wr.small_change", "goal": "try it" });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "start_workflow", "arguments": arguments } })
}

/// A server on pipes, with direct access to its lines.
#[derive(Debug)]
pub struct Piped {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<BufReader<ChildStdout>>,
}

impl Piped {
    pub fn start(home: &Home) -> Self {
        Self::of(command(home, &[]).stderr(Stdio::inherit()))
    }

    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdin, stdout }
    }

    pub fn say(&mut self, line: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_ref()).unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    pub fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.as_mut().unwrap().read_line(&mut line).unwrap() > 0, "the server ended");
        serde_json::from_str(&line).unwrap()
    }

    pub fn ask(&mut self, message: &Value) -> Value {
        self.say(message.to_string());
        self.hear()
    }

    pub fn open(&mut self) {
        let answer = self.ask(&initialize(0, "2025-11-25"));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// Closes the input; returns how the server ended and its remaining output.
    pub fn close(mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        let mut rest = String::new();
        if let Some(mut stdout) = self.stdout.take() {
            stdout.read_to_string(&mut rest).unwrap();
        }
        (self.child.wait().unwrap(), rest)
    }
}

/// The address in the line that says where a server listens.
fn listening_address(line: &str) -> Option<&str> {
    let rest =
        line.strip_prefix("listening on http://").or_else(|| line.strip_prefix("listening on https://"))?;
    rest.strip_suffix("/mcp\n")
}

/// A server on a loopback port.
#[derive(Debug)]
pub struct Http {
    pub child: Child,
    pub address: String,
    /// The header that shows the secret; empty for a server without one.
    pub authorization: String,
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl HttpResponse {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.body))
    }
}

impl Drop for Http {
    /// A test that panics leaves no server behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Http {
    pub fn start(home: &Home) -> Self {
        let mut server = Self::of(home, &["--http", "127.0.0.1:0"]);
        let secret = std::fs::read_to_string(home.data().join("keys/http-secret")).unwrap();
        server.authorization = format!("Authorization: Bearer {}\r\n", secret.trim_end());
        server
    }

    pub fn of(home: &Home, arguments: &[&str]) -> Self {
        // The shell that runs the tests may hold the other end of their input.
        Self::of_command(command(home, arguments).stdin(Stdio::null()))
    }

    /// Waits until the server listens.
    pub fn of_command(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = listening_address(&line).unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { address, child, authorization: String::new() }
    }

    /// The same for a server whose log is read; the thread ends with the server and returns the whole log.
    pub fn of_command_with_log(command: &mut Command) -> (Self, JoinHandle<String>) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut log = String::new();
        let mut last_line = 0;
        let address = loop {
            assert!(stderr.read_line(&mut log).unwrap() > 0, "the server ended: {log}");
            if let Some(address) = listening_address(&log[last_line..]) {
                break address.to_owned();
            }
            last_line = log.len();
        };
        let rest = std::thread::spawn(move || {
            stderr.read_to_string(&mut log).unwrap();
            log
        });
        (Self { address, child, authorization: String::new() }, rest)
    }

    /// One exchange on its own connection.
    pub fn exchange(&self, head: &str, body: &[u8]) -> HttpResponse {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = head.replace("{address}", &self.address);
        let length = body.len();
        write!(stream, "{head}Content-Length: {length}\r\nConnection: close\r\n\r\n").unwrap();
        // A server that refuses a request may close before it has read everything.
        let _ = stream.write_all(body);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        HttpResponse { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub fn post(&self, headers: &str, body: &str) -> HttpResponse {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {{address}}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{}{headers}",
            self.authorization
        );
        self.exchange(&head, body.as_bytes())
    }

    pub fn end(mut self, signal: &str) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}
