//! A team: a database, the machines that use it, their servers, and an agent's calls.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::Home;
use crate::mcp_client::{McpClient, ToolReply};
use crate::postgres::{Cluster, ROLE};
use crate::wire::{Http, stateless};

/// A database, and machines that use it.
#[derive(Debug)]
pub struct Team {
    pub cluster: &'static Cluster,
    pub database: String,
    program: &'static str,
}

impl Team {
    /// `None` if PostgreSQL is not installed.
    pub fn new(program: &'static str) -> Option<Self> {
        let cluster = Cluster::shared()?;
        Some(Self { cluster, database: cluster.database(), program })
    }

    /// The same machines on another database.
    #[must_use]
    pub fn on(&self, database: String) -> Self {
        Self { cluster: self.cluster, database, program: self.program }
    }

    pub fn address(&self) -> String {
        self.cluster.address(&self.database, ROLE, "team")
    }

    /// A machine with its own data directory.
    pub fn machine(&self) -> Home {
        Home::new(self.program).with("WORKRAIL_STORE", self.address())
    }

    /// The printed text, without the parts that differ from run to run.
    pub fn plain(&self, text: &str) -> String {
        let folder = self.cluster.socket_folder().to_str().unwrap();
        text.replace(folder, "SOCKETS").replace(&self.database, "DATABASE")
    }
}

pub fn start(machine: &Home, client: &mut McpClient, goal: &str) -> ToolReply {
    let start = json!({ "workflowId": "wr.small_change", "goal": goal, "workspacePath": machine.project() });
    let first = client.call("start_workflow", start);
    assert!(!first.is_error, "{}", first.text);
    first
}

pub fn advance(client: &mut McpClient, reply: &ToolReply, notes: &str) -> ToolReply {
    let answer = client.call("continue_workflow", reply.ack(notes));
    assert!(!answer.is_error, "{}", answer.text);
    answer
}

pub fn session_of(reply: &ToolReply) -> String {
    reply.data["run"]["sessionId"].as_str().unwrap().to_owned()
}

pub fn label_of(reply: &ToolReply) -> String {
    reply.data["run"]["label"].as_str().unwrap().to_owned()
}

/// `workrail serve` on its own port.
pub fn serve(home: &Home) -> Http {
    serve_with(home, &[])
}

/// The same with further arguments.
pub fn serve_with(home: &Home, arguments: &[&str]) -> Http {
    let all = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
    Http::of_command(home.command(&all).stdin(Stdio::null()))
}

/// A new access token, as the command describes it.
pub fn token(home: &Home, name: &str, role: &str) -> Value {
    home.done(&["team", "token", "create", name, "--role", role, "--json"]).json()
}

/// The secret of a token.
pub fn secret(token: &Value) -> &str {
    token["token"].as_str().unwrap()
}

/// The secret of a new access token.
pub fn access_token(home: &Home, name: &str, role: &str) -> String {
    secret(&token(home, name, role)).to_owned()
}

/// The headers and the body of a tool call in the stateless revision.
pub fn tool_request(token: &str, tool: &str, arguments: &Value) -> (String, String) {
    let message = stateless(1, "tools/call", json!({ "name": tool, "arguments": arguments }));
    let headers = format!(
        "Authorization: Bearer {token}\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: {tool}\r\n"
    );
    (headers, message.to_string())
}

/// One call on its own connection, repeated for as long as the member is rate-limited.
pub fn call_server(server: &Http, token: &str, tool: &str, arguments: &Value) -> ToolReply {
    let (headers, body) = tool_request(token, tool, arguments);
    loop {
        let answer = server.post(&headers, &body);
        if answer.status != 429 {
            assert_eq!(answer.status, 200, "{}", answer.body);
            return ToolReply::read(&answer.body);
        }
        std::thread::yield_now();
    }
}
