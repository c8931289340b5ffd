//! `workrail demo`: a whole run through the real server over stdio, in a temporary directory.

use std::process::{ExitCode, Stdio};

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use workrail_host::env_vars;
use workrail_model::reply::META_KEY;
use workrail_model::tool::ToolName;

use crate::outcome;
use crate::output::{self, Tone};

type DemoError = Box<dyn std::error::Error + Send + Sync>;

/// Runs the demo; fails if anything is wrong.
pub(crate) fn run() -> ExitCode {
    let built = workrail_mcp::check_open_files()
        .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build());
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => {
            output::error(&format!("the demo cannot start: {}", outcome::io_error_text(&error)));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run_chapters()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&format!("the demo failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// A server process and the official client connected to it.
struct DemoSession {
    client: RunningService<RoleClient, ClientConfig>,
    server: Child,
}

impl DemoSession {
    async fn open(data: &std::path::Path) -> Result<Self, DemoError> {
        let mut server = Command::new(std::env::current_exe()?)
            .arg("mcp")
            // Nothing of the user is part of the demo: no settings, no workflows of theirs or of a project.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env(env_vars::HOME.name, data)
            .env(env_vars::DATA_DIR.name, data.join("data"))
            .env(env_vars::CONFIG.name, data.join("config.toml"))
            .current_dir(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = server.stdout.take().zip(server.stdin.take()).ok_or("the server has no pipes")?;
        let client = ClientConfig::default().serve(pipes).await?;
        Ok(Self { client, server })
    }

    async fn call(&self, tool: ToolName, arguments: Value) -> Result<Value, DemoError> {
        let mut request = CallToolRequestParams::new(tool.as_str());
        request.arguments = arguments.as_object().cloned();
        let result: CallToolResult = self.client.call_tool(request).await?;
        let data = result.meta.and_then(|mut meta| meta.0.remove(META_KEY));
        data.ok_or_else(|| "the server answered without the data of its reply".into())
    }

    /// Closes the server's input and waits until the process has ended.
    async fn close(mut self) -> Result<(), DemoError> {
        self.client.cancel().await?;
        self.server.wait().await?;
        Ok(())
    }
}

fn text(reply: &Value, member: &str) -> Result<String, DemoError> {
    let found = reply.get(member).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| format!("the reply has no `{member}`: {reply}").into())
}

/// The call that a reply suggests, with the caller's own notes.
fn next(reply: &Value, notes: Option<&str>) -> Result<Value, DemoError> {
    let mut arguments =
        reply["nextCall"]["arguments"].as_object().cloned().ok_or("the reply has no next call")?;
    match notes {
        Some(notes) => arguments.insert("output".to_owned(), json!({ "notesMarkdown": notes })),
        None => arguments.remove("output"),
    };
    Ok(Value::Object(arguments))
}

/// Makes the call in `nextCall` exactly.
async fn follow(session: &DemoSession, reply: &Value) -> Result<Value, DemoError> {
    let call = &reply["nextCall"];
    let tool = ToolName::parse(&text(call, "tool")?).ok_or("the reply names a tool that does not exist")?;
    session.call(tool, call["arguments"].clone()).await
}

fn require(holds: bool, what: &str) -> Result<(), DemoError> {
    if holds { Ok(()) } else { Err(format!("expectation failed: {what}").into()) }
}

fn chapter(title: &str) {
    output::line("");
    output::toned(Tone::Heading, title);
}

fn print_reply(reply: &Value) {
    for line in reply.get("text").and_then(Value::as_str).unwrap_or_default().lines() {
        output::toned(Tone::Quiet, &format!("    {line}"));
    }
}

async fn run_chapters() -> Result<(), DemoError> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("config.toml"), "")?;
    let session = DemoSession::open(folder.path()).await?;
    let first = begin(&session).await?;
    let second = correct(&session, &first).await?;
    session.close().await?;
    let session = DemoSession::open(folder.path()).await?;
    rewind(&session, &first, &second).await?;
    mangle_token(&session, &second).await?;
    let found = find_again(&session).await?;
    complete(&session, found).await?;
    session.close().await?;
    folder.close()?;

    what_next();
    Ok(())
}

/// What the user can do next.
fn what_next() {
    chapter("What to do next");
    let next = [
        ("Set up your clients:", "workrail install"),
        ("See the workflows:", "workrail workflow list"),
        ("Tell your agent:", "Use WorkRail. Start the workflow wr.coding_task; the goal is ..."),
        ("See what needs you:", "workrail"),
        ("See it in a browser:", "workrail console"),
    ];
    for (what, how) in next {
        output::line(&format!("    {what:22} {how}"));
    }
    output::toned(Tone::Quiet, "    Everything above happened in a temporary directory, which is gone now.");
}

async fn begin(session: &DemoSession) -> Result<Value, DemoError> {
    chapter("1. List: the agent asks which workflows exist");
    let listed = session.call(ToolName::ListWorkflows, json!({ "query": "change" })).await?;
    print_reply(&listed);

    chapter("2. Start: the agent asks for a workflow and gets one step");
    let start = json!({ "workflowId": "wr.small_change", "goal": "rename the timeout setting" });
    let first = session.call(ToolName::StartWorkflow, start).await?;
    print_reply(&first);
    require(first["run"]["stepId"] == "understand", "the first step is pending")?;
    Ok(first)
}

async fn correct(session: &DemoSession, first: &Value) -> Result<Value, DemoError> {
    chapter("3. Blocked: notes are missing, and the reply says what to send");
    let blocked = session.call(ToolName::ContinueWorkflow, next(first, None)?).await?;
    print_reply(&blocked);
    require(blocked["kind"] == "blocked", "a step without notes is blocked")?;

    chapter("4. Corrected: with notes, the step is completed");
    let call = next(&blocked, Some("Read the settings module; the key `timeout` is to be renamed."))?;
    let second = session.call(ToolName::ContinueWorkflow, call.clone()).await?;
    require(second["run"]["stepId"] == "change", "the second step is pending")?;
    good(&format!("now pending: {}", second["pending"]["title"]));

    chapter("5. Replay: the same call again returns the same bytes and changes nothing");
    let replayed = session.call(ToolName::ContinueWorkflow, call).await?;
    require(replayed == second, "a replay equals the first answer")?;
    good("equal");

    chapter("6. Checkpoint: half-done work is saved inside the step");
    let checkpoint = json!({
        "checkpointToken": text(&second, "checkpointToken")?,
        "output": { "notesMarkdown": "Renamed it in the parser; the docs are still to be done." },
    });
    let saved = session.call(ToolName::CheckpointWorkflow, checkpoint).await?;
    require(saved["run"]["stepId"] == "change", "a checkpoint advances nothing")?;
    good("saved; the step is still pending");
    Ok(second)
}

async fn rewind(session: &DemoSession, first: &Value, second: &Value) -> Result<(), DemoError> {
    chapter("7. Restart: after a server restart the state token finds the step and its notes");
    let bookmark = json!({ "stateToken": text(second, "stateToken")? });
    let rehydrated = session.call(ToolName::ContinueWorkflow, bookmark).await?;
    require(
        rehydrated["recap"]["entries"].as_array().is_some_and(|entries| entries.len() == 2),
        "the reply contains the recap",
    )?;
    print_reply(&rehydrated);

    chapter("8. Rewind: the chat returns to the first step and takes another path");
    let rewound =
        session.call(ToolName::ContinueWorkflow, json!({ "stateToken": text(first, "stateToken")? })).await?;
    let other = session
        .call(ToolName::ContinueWorkflow, next(&rewound, Some("Read it again: two keys, not one."))?)
        .await?;
    require(other["stateToken"] != second["stateToken"], "a rewind makes a branch of its own")?;
    good("a second branch; the first one is untouched");
    Ok(())
}

async fn mangle_token(session: &DemoSession, second: &Value) -> Result<(), DemoError> {
    chapter("9. A token with one changed character is refused, and the error leads back to the run");
    let mut mangled = text(second, "ackToken")?;
    // The last character has one unused bit; both of these leave it empty.
    let last = if mangled.ends_with('0') { '2' } else { '0' };
    mangled.pop();
    mangled.push(last);
    let refused = session.call(ToolName::ContinueWorkflow, json!({ "ackToken": mangled })).await?;
    require(refused["code"] == "TOKEN_BAD_SIGNATURE", "a mangled token is refused")?;
    output::toned(Tone::Warning, &format!("    {}", text(&refused, "message")?));
    let back = follow(session, &refused).await?;
    require(back["run"]["label"] == second["run"]["label"], "the error leads back to its run")?;
    good(&format!("back at: {}", back["pending"]["title"]));
    Ok(())
}

async fn find_again(session: &DemoSession) -> Result<Value, DemoError> {
    chapter("10. Resume: a new chat finds the run by a few words of its goal");
    let resumed = session.call(ToolName::ResumeSession, json!({ "query": "timeout setting" })).await?;
    print_reply(&resumed);
    let found = follow(session, &resumed).await?;
    require(found["run"]["stepId"] == "change", "the newest branch is found")?;
    Ok(found)
}

async fn complete(session: &DemoSession, mut reply: Value) -> Result<(), DemoError> {
    chapter("11. Continue to the end");
    while reply["isComplete"] != true {
        let notes = format!("Did: {}", reply["pending"]["title"]);
        reply = session.call(ToolName::ContinueWorkflow, next(&reply, Some(&notes))?).await?;
        good(reply["pending"]["title"].as_str().unwrap_or("complete"));
    }
    Ok(())
}

fn good(text: &str) {
    output::toned(Tone::Good, &format!("    {text}"));
}
