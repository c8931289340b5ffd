//! Runs hooks as their hosts do, and asks hosts whether they would run them.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use serde_json::{Value, json};

use super::InstalledHook;
use crate::machine;
use crate::timed_run::{self, RunLimits, RunOutput};

/// The entries give a hook this time.
const HOOK_LIMITS: RunLimits = RunLimits { ms: 10_000, printed_bytes: ANSWER_BYTES_MAX };
/// Codex starts its server within this time.
const CODEX_MS_MAX: u64 = 10_000;
/// More than any hook's or host's answer.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// The outcome of running a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookTrial {
    Runs { after_ms: u64 },
    Fails { why: String },
}

/// Runs a hook the way its host does: through a shell, in the project's folder, with the event on standard input.
///
/// The event is about a chat that does not exist, so it changes nothing.
pub fn try_hook(hook: &InstalledHook, folder: &Utf8Path) -> HookTrial {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(&hook.command).current_dir(folder);
    let begun = Instant::now();
    match timed_run::run(command, event(hook, folder), HOOK_LIMITS) {
        Ok(output) => judged(hook, &output, u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)),
        Err(why) => HookTrial::Fails { why },
    }
}

/// An event with the field names of all hosts.
fn event(hook: &InstalledHook, folder: &Utf8Path) -> String {
    let chat = "workrail-doctor";
    json!({
        "session_id": chat, "sessionId": chat, "conversation_id": chat,
        "cwd": folder, "workspace_roots": [folder],
        "hook_event_name": hook.event, "source": "startup",
        "tool_name": "Read", "toolName": "view", "tool_input": {}, "toolArgs": {}, "command": "true",
        "stop_hook_active": true, "stopHookActive": true, "status": "aborted",
    })
    .to_string()
}

fn judged(hook: &InstalledHook, output: &RunOutput, after_ms: u64) -> HookTrial {
    let answer = output.out.trim();
    if let Some(why) = failure(output) {
        return HookTrial::Fails { why };
    }
    // An empty answer is valid, except for Cursor, which then blocks the tool.
    let is_answer =
        (answer.is_empty() && hook.host != "cursor") || serde_json::from_str::<Value>(answer).is_ok();
    match is_answer {
        true => HookTrial::Runs { after_ms },
        false => HookTrial::Fails { why: "its answer is not JSON".to_owned() },
    }
}

/// Why a hook failed, by its exit status; the numbers are those used by every shell.
fn failure(output: &RunOutput) -> Option<String> {
    let message = output.err.trim().lines().next().unwrap_or_default();
    match output.code {
        Some(0) => None,
        Some(126) => Some("its program cannot be run".to_owned()),
        Some(127) => Some("its program was not found".to_owned()),
        Some(code) => Some(format!("it ended with exit code {code}: {message}")),
        None => Some("it was ended by a signal".to_owned()),
    }
}

/// Hook commands that Codex says it would skip; `None` if it could not be asked.
pub fn untrusted_by_codex(folder: &Utf8Path) -> Option<Vec<String>> {
    let codex = machine::program("codex")?;
    let mut command = Command::new(codex);
    command.arg("app-server").current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().ok()?;
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    let client = json!({ "name": "workrail", "version": env!("CARGO_PKG_VERSION") });
    let calls = [
        json!({ "id": 1, "method": "initialize", "params": { "clientInfo": client } }),
        json!({ "method": "initialized" }),
        json!({ "id": 2, "method": "hooks/list", "params": { "cwds": [folder] } }),
    ];
    let text: String = calls.iter().map(|call| format!("{call}\n")).collect();
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        let lines = BufReader::new(stdout.take(ANSWER_BYTES_MAX)).lines().map_while(Result::ok);
        let mut answers = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        // The receiver may have stopped waiting.
        let _ = sender.send(answers.find(|answer| answer["id"] == 2));
    };
    // Without a thread to spare the sender is dropped, and there is no answer.
    let _ = thread::Builder::new().spawn(work);
    let asked = stdin.write_all(text.as_bytes());
    let answer = match asked {
        Ok(()) => receiver.recv_timeout(Duration::from_millis(CODEX_MS_MAX)).ok().flatten(),
        Err(_) => None,
    };
    drop(stdin);
    timed_run::end(&mut child);
    let found = answer?;
    let folders = found["result"]["data"].as_array()?;
    let hooks = folders.iter().filter_map(|folder| folder["hooks"].as_array()).flatten();
    let skipped = hooks.filter(|hook| {
        hook["trustStatus"] == "untrusted" || hook["trustStatus"] == "modified" || hook["enabled"] == false
    });
    Some(skipped.filter_map(|hook| hook["command"].as_str().map(str::to_owned)).collect())
}
