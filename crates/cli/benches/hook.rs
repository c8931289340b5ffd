//! How fast a hook starts: hosts wait for it at every tool call (G108).
//!
//! Prints medians and fails above the target: a hook with nothing to report takes at most 3 times as long as
//! `/bin/true`. Both are judged by their fastest tenth, to which other work of the machine adds least. Also prints what the end of a turn costs in a chat without a run, and in one with a run.
#![expect(clippy::print_stdout, reason = "a benchmark reports")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use workrail_testkit::home::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
const REPETITIONS: usize = 201;
const RATIO_MAX: f64 = 3.0;
/// Start times are only approximate without optimisation, or while the machine builds something else.
const ROUGH_RATIO_MAX: f64 = 6.0;

fn main() -> ExitCode {
    let home = Home::new(PROGRAM);
    let mut client = home.client();
    let first = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let read =
        json!({ "session_id": "chat", "tool_name": "Read", "tool_input": { "file_path": "/a" } }).to_string();
    let free = json!({ "session_id": "another chat" }).to_string();
    let bound = json!({ "session_id": "chat", "stop_hook_active": true }).to_string();
    let response = json!([{ "type": "text", "text": first.data["text"] }]);
    let started = json!({ "session_id": "chat", "tool_name": "mcp__workrail__start_workflow", "tool_response": response });
    time(home.command(&["hook", "claude-code", "PostToolUse"]), &started.to_string());
    let (mut nothing, mut silent, mut unbound, mut pending) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // Alternated, so that a change in the machine's load affects all of them.
    for _ in 0..REPETITIONS {
        nothing.push(time(Command::new("/bin/true"), ""));
        silent.push(time(home.command(&["hook", "claude-code", "PreToolUse"]), &read));
        unbound.push(time(home.command(&["hook", "claude-code", "Stop"]), &free));
        pending.push(time(home.command(&["hook", "claude-code", "Stop"]), &bound));
    }
    let ratio = fast(&mut silent).as_secs_f64() / fast(&mut nothing).as_secs_f64();
    let (nothing, silent) = (middle(nothing), middle(silent));
    let ratio_max = if cfg!(debug_assertions) { ROUGH_RATIO_MAX } else { RATIO_MAX };
    println!("/bin/true: {nothing:?}");
    println!("a hook with nothing to say: {silent:?}");
    println!(
        "the end of a turn, chat without a run: {:?}, with a run: {:?}",
        middle(unbound),
        middle(pending)
    );
    println!("start of a hook / start of /bin/true: {ratio:.2} (at most {ratio_max})");
    if ratio <= ratio_max { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn time(mut command: Command, input: &str) -> Duration {
    let began = Instant::now();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // `/bin/true` may have ended before it is written to.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait().unwrap();
    began.elapsed()
}

/// A tenth of them is faster.
fn fast(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 10]
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
