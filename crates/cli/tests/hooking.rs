//! `workrail hook` through the real binary and server: what a chat gets, and that no host is blocked (G108, G109).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A home with a workflow of two steps, the first of which waits for no one.
fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.rails", "name": "Rails", "version": "1.0.0", "description": "Two steps.",
        "steps": [
            { "id": "plan", "title": "Plan the change", "prompt": "Write the plan." },
            { "id": "build", "title": "Make the change", "prompt": "Edit the file.", "requireConfirmation": true },
        ],
    }));
    home
}

/// What a hook prints for these bytes on standard input. Whatever they are, it exits with 0 and prints exactly one
/// JSON document.
fn hook_bytes(home: &Home, host: &str, event: &str, input: &[u8]) -> Value {
    let mut command = home.command(&["hook", host, event]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A hook reads everything, so that no host sees a closed pipe.
    stdin.write_all(input).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{host} {event}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{host} {event}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An event of Claude Code in the chat of that name.
fn claude(home: &Home, event: &str, chat: &str, more: Value) -> Value {
    let mut input = json!({ "session_id": chat, "cwd": home.project(), "hook_event_name": event });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    hook_bytes(home, "claude-code", event, input.to_string().as_bytes())
}

/// The host reports the answer of one of our tools.
fn returned(home: &Home, chat: &str, tool: &str, reply: &ToolReply) {
    let name = format!("mcp__workrail__{tool}");
    let response = json!([{ "type": "text", "text": reply.data["text"] }]);
    let said = claude(home, "PostToolUse", chat, json!({ "tool_name": name, "tool_response": response }));
    assert_eq!(said, json!({}));
}

fn stop(home: &Home, chat: &str, active: bool) -> Value {
    claude(home, "Stop", chat, json!({ "stop_hook_active": active, "background_tasks": [] }))
}

fn started(home: &Home, chat: &str) -> (McpClient, ToolReply) {
    let mut client = home.client();
    let first =
        client.call("start_workflow", json!({ "workflowId": "team.rails", "goal": "stay on the rails" }));
    returned(home, chat, "start_workflow", &first);
    (client, first)
}

/// Labels, tokens and folders differ from run to run.
fn plain(text: &Value, first: &ToolReply) -> String {
    let text = text.as_str().unwrap().replace(&first.label(), "LABEL");
    let words: Vec<String> = text
        .split('"')
        .map(|word| if word.starts_with("st.v2.") { "STATE".to_owned() } else { word.to_owned() })
        .collect();
    words.join("\"")
}

#[test]
fn a_turn_is_held_once_per_position_and_never_for_the_user() {
    let home = home();
    let (mut client, first) = started(&home, "chat");
    let held = stop(&home, "chat", false);
    assert_eq!(held["decision"], "block");
    insta::assert_snapshot!("held", plain(&held["reason"], &first));
    assert_eq!(stop(&home, "chat", true), json!({}), "nothing moved since");
    assert_eq!(stop(&home, "chat", false), json!({}), "nor in the next turn");
    assert_eq!(stop(&home, "another chat", false), json!({}), "a chat without a run is free");

    // A refused attempt moves the run: the step holds a second time, but not a third.
    let mut without_notes = first.data["nextCall"]["arguments"].clone();
    without_notes.as_object_mut().unwrap().remove("output");
    let blocked = client.call("continue_workflow", without_notes);
    assert_eq!(blocked.data["kind"], "blocked");
    assert_eq!(stop(&home, "chat", true)["decision"], "block");
    let again = client.call("continue_workflow", json!({ "ackToken": blocked.string("ackToken") }));
    assert_eq!(again.data["kind"], "blocked");
    assert_eq!(stop(&home, "chat", true), json!({}));

    // The second step asks the user, who can only answer once the turn ends.
    let second = client.next(&again);
    assert_eq!(second.step(), "build");
    returned(&home, "chat", "continue_workflow", &second);
    assert_eq!(stop(&home, "chat", false), json!({}));
}

#[test]
fn running_tasks_and_complete_runs_hold_nothing() {
    let home = home();
    let (mut client, first) = started(&home, "chat");
    let task = json!({ "stop_hook_active": false, "background_tasks": [{ "id": "b1", "type": "shell" }] });
    assert_eq!(claude(&home, "Stop", "chat", task), json!({}));
    let second = client.next(&first);
    let done = client.next(&second);
    assert_eq!(done.data["isComplete"], true);
    returned(&home, "chat", "continue_workflow", &done);
    assert_eq!(stop(&home, "chat", false), json!({}));
}

#[test]
fn the_step_is_repeated_to_its_chat_and_mentioned_to_a_new_one() {
    let home = home();
    let (_client, first) = started(&home, "chat");
    for source in ["compact", "resume"] {
        let said = claude(&home, "SessionStart", "chat", json!({ "source": source }));
        let text = said["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned();
        assert_eq!(said["hookSpecificOutput"]["hookEventName"], "SessionStart");
        let opening = text.lines().next().unwrap();
        insta::assert_snapshot!("given_back", plain(&Value::from(opening), &first));
        assert!(text.contains("Write the plan.") && text.contains("\"ackToken\":\"ack.v2."), "{text}");
    }
    let said = claude(&home, "SessionStart", "new chat", json!({ "source": "startup" }));
    insta::assert_snapshot!("left_here", plain(&said["hookSpecificOutput"]["additionalContext"], &first));
    let elsewhere = json!({ "source": "startup", "cwd": "/somewhere/else" });
    assert_eq!(claude(&home, "SessionStart", "new chat", elsewhere), json!({}));
    assert_eq!(stop(&home, "new chat", false), json!({}), "it is only mentioned");
}

/// A subagent with its own run is held by that run, and the chat by its own.
#[test]
fn a_subagent_has_its_own_run() {
    let home = home();
    let (mut client, first) = started(&home, "chat");
    let inner = client
        .call("start_workflow", json!({ "workflowId": "team.rails", "parent": first.string("stateToken") }));
    let response = json!([{ "type": "text", "text": inner.data["text"] }]);
    let result =
        json!({ "agent_id": "a1", "tool_name": "mcp__workrail__start_workflow", "tool_response": response });
    claude(&home, "PostToolUse", "chat", result);
    let ended = json!({ "agent_id": "a1", "stop_hook_active": false, "background_tasks": [{ "id": "a1" }] });
    let held = claude(&home, "SubagentStop", "chat", ended);
    assert!(held["reason"].as_str().unwrap().contains(&inner.label()), "{held}");
    let held = stop(&home, "chat", false);
    assert!(held["reason"].as_str().unwrap().contains(&first.label()), "{held}");
}

#[test]
fn a_users_decision_is_refused_with_and_without_a_run() {
    let home = Home::new(PROGRAM);
    let call = json!({ "tool_name": "Bash", "tool_input": { "command": "sudo sh -c 'workrail approve amber-falcon'" } });
    let said = claude(&home, "PreToolUse", "chat", call);
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny");
    let call = json!({ "tool_name": "Bash", "tool_input": { "command": "workrail show amber-falcon" } });
    assert_eq!(claude(&home, "PreToolUse", "chat", call), json!({}));
    assert!(!home.data().join("sessions").exists(), "a hook makes no store");
}

/// A refusal needs no run, so a store that does not answer in time does not turn it into permission (G109).
#[test]
fn a_users_decision_is_refused_while_the_store_does_not_answer() {
    let home = home();
    let (client, _) = started(&home, "chat");
    client.close();
    // The system accepts connections to it, and nobody answers on them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("postgres://agent@{}/none", silent.local_addr().unwrap());
    let call = json!({ "tool_name": "Bash", "tool_input": { "command": "workrail approve amber-falcon" } });
    let said = claude(&home.with("WORKRAIL_STORE", address), "PreToolUse", "chat", call);
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny");
}

/// A token that another store signed, or an invented one, binds nothing.
#[test]
fn only_tokens_of_this_store_bind_a_chat() {
    let home = home();
    let (_client, first) = started(&home, "chat");
    let own = first.string("ackToken");
    let forged = format!("{}{}", &own[..own.len() - 1], if own.ends_with('0') { '1' } else { '0' });
    let response = json!(format!("Run x. {{\"ackToken\":\"{forged}\"}}"));
    let result = json!({ "tool_name": "mcp__workrail__start_workflow", "tool_response": response });
    claude(&home, "PostToolUse", "other", result);
    assert_eq!(stop(&home, "other", false), json!({}));
}

#[test]
fn chat_records_are_private_and_bounded() {
    let home = home();
    let (_client, first) = started(&home, "chat");
    for number in 0..140 {
        returned(&home, &format!("chat {number}"), "start_workflow", &first);
    }
    let files: Vec<_> =
        fs::read_dir(home.data().join("chats")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 128);
    for file in files {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
    assert_eq!(stop(&home, "chat 139", false)["decision"], "block");
    assert_eq!(home.run(&["doctor", "--json"]).json()["problems"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn nothing_blocks_a_host() {
    let home = home();
    let (_client, _) = started(&home, "chat");
    let nothing = json!({});
    for input in ["", "null", "3", "[]", "{", "{\"session_id\":7}", "\u{0}\u{1}", &"[".repeat(100_000)] {
        for (host, event) in
            [("claude-code", "Stop"), ("cursor", "stop"), ("gemini", "AfterAgent"), ("no-host", "Stop")]
        {
            assert_eq!(
                hook_bytes(&home, host, event, input.as_bytes()),
                nothing,
                "{host} {event} {input:.20}"
            );
        }
    }
    let input = json!({ "session_id": "chat", "cwd": home.project() }).to_string();
    assert_eq!(hook_bytes(&home, "claude-code", "NoSuchEvent", input.as_bytes()), nothing);
    // More than a hook keeps; it still reads all of it from the pipe.
    let huge = format!("{{\"session_id\":\"chat\",\"x\":\"{}\"}}", "x".repeat(17 * 1024 * 1024));
    assert_eq!(hook_bytes(&home, "claude-code", "Stop", huge.as_bytes()), nothing);
    // Settings that cannot be read.
    let broken = home.with("WORKRAIL_CONFIG", home.root().join("broken.toml"));
    fs::write(home.root().join("broken.toml"), "[[[").unwrap();
    assert_eq!(stop(&broken, "chat", false), nothing);
    // A data directory that is not one, and one with a damaged session.
    fs::write(home.root().join("file"), "x").unwrap();
    assert_eq!(stop(&home.with_data(&home.root().join("file")), "chat", false), nothing);
    assert_eq!(stop(&home.with_data(&home.root().join("missing")), "chat", false), nothing);
    assert!(!home.root().join("missing").exists());
    for session in fs::read_dir(home.data().join("sessions")).unwrap() {
        fs::write(session.unwrap().path().join("manifest.jsonl"), "damaged\n").unwrap();
    }
    assert_eq!(stop(&home, "chat", false), nothing);
}

/// A process that writes to the session holds its lock; a hook does not wait for it.
#[test]
fn a_held_lock_does_not_delay_a_hook() {
    let home = home();
    let (_client, first) = started(&home, "chat");
    let session = first.data["run"]["sessionId"].as_str().unwrap();
    let lock = fs::File::open(home.data().join("sessions").join(session).join(".lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(stop(&home, "chat", false)["decision"], "block");
}

/// A host that never closes the pipe still gets its answer.
#[test]
fn an_endless_input_is_answered_in_time() {
    let home = Home::new(PROGRAM);
    let mut command = home.command(&["hook", "claude-code", "Stop"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let _open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"{}\n".to_vec()));
}

#[test]
fn the_plugin_of_opencode_calls_this_program() {
    let home = Home::new(PROGRAM);
    let printed = home.done(&["hook", "opencode", "plugin"]).out;
    let named = printed.lines().find(|line| line.starts_with("const program"));
    assert_eq!(named, Some(&*format!("const program = {};", json!(PROGRAM))));
}

/// A workflow whose first step allows no edits and whose second allows those of `src`.
fn gated() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.rails", "name": "Rails", "version": "1.0.0", "description": "Two steps.",
        "steps": [
            { "id": "plan", "title": "Plan the change", "prompt": "Write the plan.", "edits": { "allow": [] } },
            { "id": "build", "title": "Make the change", "prompt": "Edit.", "edits": { "allow": ["src/**"] } },
        ],
    }));
    home
}

fn write(home: &Home, path: &str) -> Value {
    claude(home, "PreToolUse", "chat", json!({ "tool_name": "Write", "tool_input": { "file_path": path } }))
}

#[test]
fn edits_are_refused_if_the_step_does_not_allow_them() {
    let home = gated();
    let (mut client, first) = started(&home, "chat");
    let inside = home.project().join("src/a.rs").to_str().unwrap().to_owned();
    let denied = write(&home, &inside);
    assert_eq!(denied["hookSpecificOutput"]["permissionDecision"], "deny");
    insta::assert_snapshot!(
        "edit_denied",
        plain(&denied["hookSpecificOutput"]["permissionDecisionReason"], &first)
    );
    assert_eq!(write(&home, "/somewhere/else/a.rs"), json!({}), "not of this repository");
    let second = client.next(&first);
    returned(&home, "chat", "continue_workflow", &second);
    assert_eq!(write(&home, &inside), json!({}));
    assert_eq!(write(&home, "src/../src/deep/b.rs"), json!({}));
    let denied = write(&home, "README.md");
    insta::assert_snapshot!(
        "edit_outside",
        plain(&denied["hookSpecificOutput"]["permissionDecisionReason"], &first)
    );
}

#[test]
fn a_hooks_observation_is_evidence_of_the_step() {
    let home = gated();
    let (mut client, first) = started(&home, "chat");
    let shell = |command: &str| json!({ "tool_name": "Bash", "tool_input": { "command": command } });
    let with = |mut call: Value, more: Value| {
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    claude(
        &home,
        "PostToolUse",
        "chat",
        with(
            shell("cargo test"),
            json!({ "tool_response": { "stdout": "SECRET-OUTPUT", "interrupted": false }, "duration_ms": 29 }),
        ),
    );
    claude(
        &home,
        "PostToolUseFailure",
        "chat",
        with(shell("cargo clippy"), json!({ "error": "Exit code 101\nfailed", "duration_ms": 7 })),
    );
    claude(&home, "PreToolUse", "chat", shell("workrail approve x"));
    write(&home, "a.rs");
    claude(&home, "SubagentStart", "chat", json!({ "agent_id": "a1", "agent_type": "reviewer" }));
    let _ = client.next(&first);
    let log = home.run(&["log", &first.label(), "--json"]);
    let kept =
        fs::read_dir(home.data().join("sessions")).unwrap().map(|entry| entry.unwrap().path().join("events"));
    let events: String = kept
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let observed: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == "evidence_recorded" && event["data"]["grade"] == "observed")
        .map(|event| event["data"]["evidence"].clone())
        .collect();
    insta::assert_snapshot!("observed", serde_json::to_string_pretty(&observed).unwrap());
    assert!(!events.contains("SECRET-OUTPUT") && log.code == 0);
}
