//! `workrail demo`: a whole run through the real server over stdio, in a temporary directory.

use std::process::{ExitCode, Stdio};

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Map, Value, json};
use tokio::process::{Child, Command};
use workrail_host::env_vars;

use crate::output::{self, Tone};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the demo; fails when anything is not as it should be.
pub(crate) fn run() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::error(&format!("the demo cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(show()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&format!("the demo failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// A server process and the official client that speaks to it.
struct Session {
    client: RunningService<RoleClient, ClientConfig>,
    server: Child,
}

impl Session {
    async fn open(data: &std::path::Path) -> Result<Self, Failure> {
        let mut server = Command::new(std::env::current_exe()?)
            .arg("mcp")
            .env(env_vars::DATA_DIR.name, data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = server.stdout.take().zip(server.stdin.take()).ok_or("the server has no pipes")?;
        let client = ClientConfig::default().serve(pipes).await?;
        Ok(Self { client, server })
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value, Failure> {
        let mut request = CallToolRequestParams::new(tool);
        request.arguments = arguments.as_object().cloned();
        let result: CallToolResult = self.client.call_tool(request).await?;
        result.structured_content.ok_or_else(|| "the server answered without structured content".into())
    }

    /// Closes the server's input and waits until the process has ended.
    async fn close(mut self) -> Result<(), Failure> {
        self.client.cancel().await?;
        self.server.wait().await?;
        Ok(())
    }
}

fn text(reply: &Value, member: &str) -> Result<String, Failure> {
    let found = reply.get(member).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| format!("the reply has no `{member}`: {reply}").into())
}

fn ack(reply: &Value, notes: Option<&str>) -> Result<Value, Failure> {
    let mut arguments = Map::new();
    arguments.insert("ackToken".to_owned(), Value::from(text(reply, "ackToken")?));
    if let Some(notes) = notes {
        arguments.insert("output".to_owned(), json!({ "notesMarkdown": notes }));
    }
    Ok(Value::Object(arguments))
}

fn require(holds: bool, what: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(format!("this should hold and does not: {what}").into()) }
}

fn chapter(title: &str) {
    output::line("");
    output::toned(Tone::Heading, title);
}

fn shown(reply: &Value) {
    for line in reply.get("text").and_then(Value::as_str).unwrap_or_default().lines() {
        output::toned(Tone::Quiet, &format!("    {line}"));
    }
}

async fn show() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let session = Session::open(folder.path()).await?;

    chapter("1. Start: the agent asks for a workflow and gets one step");
    let start = json!({ "workflowId": "wr.small_change", "goal": "rename a setting" });
    let first = session.call("start_workflow", start).await?;
    shown(&first);
    require(first["run"]["stepId"] == "understand", "the first step is pending")?;

    chapter("2. Blocked: notes are missing, the answer says what to send");
    let blocked = session.call("continue_workflow", ack(&first, None)?).await?;
    shown(&blocked);
    require(blocked["kind"] == "blocked", "a step without notes is blocked")?;

    chapter("3. Corrected: the same step, now with notes, advances");
    let second_call = ack(&blocked, Some("Read the settings module; one key is to be renamed."))?;
    let second = session.call("continue_workflow", second_call.clone()).await?;
    require(second["run"]["stepId"] == "change", "the second step is pending")?;
    output::toned(Tone::Good, &format!("    now pending: {}", second["pending"]["title"]));

    chapter("4. Replay: the same call again returns the same bytes and changes nothing");
    let replayed = session.call("continue_workflow", second_call).await?;
    require(replayed == second, "a replay equals the first answer")?;
    output::toned(Tone::Good, "    equal");

    chapter("5. The server is restarted; the bookmark finds the step again");
    session.close().await?;
    let session = Session::open(folder.path()).await?;
    let bookmark = json!({ "stateToken": text(&second, "stateToken")? });
    let rehydrated = session.call("continue_workflow", bookmark).await?;
    require(rehydrated["run"]["stepId"] == "change", "rehydrate shows the pending step")?;
    output::toned(Tone::Good, &format!("    found: {}", rehydrated["pending"]["title"]));

    chapter("6. Rewind: the chat goes back to the first step and continues differently");
    let rewound =
        session.call("continue_workflow", json!({ "stateToken": text(&first, "stateToken")? })).await?;
    let other =
        session.call("continue_workflow", ack(&rewound, Some("Read it again: two keys, not one."))?).await?;
    require(other["stateToken"] != second["stateToken"], "a rewind makes a branch of its own")?;
    output::toned(Tone::Good, "    a second branch, the first one is untouched");

    chapter("7. Go on to the end");
    let mut reply = other;
    while reply["isComplete"] != true {
        let notes = format!("Did: {}", reply["pending"]["title"]);
        reply = session.call("continue_workflow", ack(&reply, Some(&notes))?).await?;
        let now = reply["pending"]["title"].as_str().unwrap_or("complete");
        output::toned(Tone::Good, &format!("    {now}"));
    }

    chapter("8. A token with one character changed goes nowhere");
    let mut mangled = text(&second, "ackToken")?;
    let last = if mangled.ends_with('0') { '1' } else { '0' };
    mangled.pop();
    mangled.push(last);
    let refused = session.call("continue_workflow", json!({ "ackToken": mangled })).await?;
    require(refused["code"] == "TOKEN_BAD_SIGNATURE", "a mangled token is refused")?;
    output::toned(Tone::Warning, &format!("    {}", text(&refused, "message")?));
    session.close().await?;

    chapter("What is on disk now");
    for line in tree(folder.path())? {
        output::toned(Tone::Quiet, &format!("    {line}"));
    }
    Ok(())
}

/// Every file beneath the data directory with its size, sorted.
fn tree(root: &std::path::Path) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                let bytes = entry.metadata()?.len();
                let path = entry.path();
                lines.push(format!("{:<90} {bytes:>7} bytes", path.strip_prefix(root)?.display()));
            }
        }
    }
    lines.sort();
    Ok(lines)
}
