//! The transports through the real binary: both eras, strict input, concurrency, and how a server ends.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod http;
#[path = "../wording/mod.rs"]
mod wording;

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{is_refusal, reply_data};
use workrail_testkit::wire::{Piped, command, initialize, start_call, stateless};

use wording::assert_text;

fn new_home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

/// G74: every handshake revision over standard input and output.
#[test]
fn stdio_speaks_every_handshake_revision() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let home = new_home();
        let mut server = Piped::start(&home);
        let answer = server.ask(&initialize(1, version));
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "workrail");
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let listed = server.ask(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
        let tools = listed["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "start_workflow"), "{listed}");
        let (status, rest) = server.close();
        assert!(status.success());
        assert_eq!(rest, "");
    }
}

/// G74: the stateless revision over standard input and output.
#[test]
fn stdio_speaks_the_stateless_revision_without_a_handshake() {
    let home = new_home();
    let mut server = Piped::start(&home);
    let discovered = server.ask(&stateless(1, "server/discover", json!({})));
    let versions = discovered["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")));
    assert!(discovered["result"]["instructions"].is_string(), "{discovered}");
    let listed = server.ask(&stateless(2, "tools/list", json!({})));
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
    let arguments = json!({ "workflowId": "wr.small_change", "goal": "try it" });
    let called =
        server.ask(&stateless(3, "tools/call", json!({ "name": "start_workflow", "arguments": arguments })));
    assert_eq!(reply_data(&called["result"])["isComplete"], false, "{called}");
    assert!(server.close().0.success());
}

#[test]
fn a_client_that_offers_a_later_handshake_gets_the_latest_supported_one() {
    let home = new_home();
    let mut server = Piped::start(&home);
    let answer = server.ask(&initialize(1, "2099-01-01"));
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
    server.close();
}

#[test]
fn stray_messages_before_the_handshake_do_not_end_the_server() {
    let home = new_home();
    let mut server = Piped::start(&home);
    server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.say(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    let refused = server.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    server.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    server.open();
    assert!(server.close().0.success());
}

#[test]
fn invalid_json_is_answered_and_the_next_line_is_read() {
    let home = new_home();
    let mut server = Piped::start(&home);
    // Before the handshake as well as after it.
    for opened in [false, true] {
        if opened {
            server.open();
        }
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (arguments, name) in [
            (r#"{"workflowId":"\ud800"}"#, "message_with_half_a_character"),
            (r#"{"workflowId":"x","context":{"n":1e400}}"#, "message_with_a_number_out_of_range"),
            (&format!(r#"{{"workflowId":"x","context":{{"n":{deep}}}}}"#), "message_nested_too_deeply"),
        ] {
            server.say(format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"start_workflow","arguments":{arguments}}}}}"#
            ));
            let answer = server.hear();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)), "{answer}");
            assert_text(&home, name, answer["error"]["message"].as_str().unwrap());
        }
        for bytes in [&b"{\"jsonrpc\":"[..], b"\xff\xfe", b"\xef\xbb\xbf{}", b"Content-Length: 5"] {
            server.say(bytes);
            let answer = server.hear();
            assert_eq!(answer["error"]["code"], -32700, "{answer}");
            assert!(answer.get("id").is_none(), "{answer}");
        }
    }
    // Readable but ambiguous: the tool answers, with a call that would pass.
    server.say(
        r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"start_workflow","arguments":{"workflowId":"wr.small_change","workflowId":"wr.other"}}}"#,
    );
    let answer = server.hear();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let said = reply_data(&answer["result"]);
    assert_eq!(said["code"], "VALIDATION_ERROR", "{answer}");
    assert_text(&home, "key_given_twice", said["message"].as_str().unwrap());
    assert_eq!(said["nextCall"]["tool"], "start_workflow", "{answer}");
    // None of it was recorded.
    assert!(
        !home.data().join("sessions").exists()
            || home.data().join("sessions").read_dir().unwrap().next().is_none()
    );
    let answer = server.ask(&start_call(8));
    assert_eq!(reply_data(&answer["result"])["isComplete"], false, "{answer}");
    assert!(server.close().0.success());
}

#[test]
fn invalid_parameters_of_a_known_method_are_reported_as_such() {
    let home = new_home();
    let mut server = Piped::start(&home);
    server.open();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "arguments": [] } });
    let answer = server.ask(&call);
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = server.ask(&json!({ "jsonrpc": "2.0", "id": 2, "method": "no/such" }));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    server.close();
}

/// Broke: an error repeated the whole name, up to 4 MB, with the control characters in it.
#[test]
fn an_unknown_name_is_quoted_short_and_clean() {
    let home = new_home();
    let mut server = Piped::start(&home);
    server.open();
    let long = format!("no\u{1b}[2J\n\n{}", "such".repeat(100_000));
    for (method, params) in [
        ("tools/call", json!({ "name": long, "arguments": {} })),
        ("prompts/get", json!({ "name": long, "arguments": {} })),
        (long.as_str(), json!({})),
    ] {
        let answer = server.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("suchsuch") && message.len() < 1000, "{message}");
        assert!(!message.contains(|c: char| c.is_control()), "{message}");
    }
    server.close();
}

#[test]
fn sixteen_calls_at_once_are_all_answered_and_leave_nothing_behind() {
    let home = new_home();
    let mut server = Piped::start(&home);
    server.open();
    for id in 1..=16 {
        server.say(start_call(id).to_string());
    }
    // The input ends while calls are running: every one of them is still answered.
    let (status, rest) = server.close();
    assert!(status.success());
    let mut ids: Vec<u64> = rest
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).unwrap();
            assert_eq!(reply_data(&answer["result"])["isComplete"], false, "{answer}");
            answer["id"].as_u64().unwrap()
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=16).collect::<Vec<_>>());
    assert_eq!(home.data().join("sessions").read_dir().unwrap().count(), 16);
}

#[test]
fn waiting_calls_do_not_delay_the_next_one() {
    let home = new_home();
    let mut server = Piped::start(&home);
    server.open();
    let started = server.ask(&start_call(1));
    let token = &reply_data(&started["result"])["ackToken"];
    let session = home.data().join("sessions").read_dir().unwrap().next().unwrap().unwrap().path();
    let lock = std::fs::File::open(session.join(".lock")).unwrap();
    lock.try_lock().unwrap();
    let arguments = json!({ "ackToken": token, "output": { "notesMarkdown": "Did the work." } });
    for id in 2..=17 {
        let params = json!({ "name": "continue_workflow", "arguments": arguments });
        server
            .say(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string());
    }
    // Sent last, answered first: sixteen calls wait for the lock meanwhile, each on its own thread.
    assert_eq!(server.ask(&start_call(18))["id"], 18);
    drop(lock);
    let mut ids: Vec<u64> = (2..=17).map(|_| server.hear()["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (2..=17).collect::<Vec<_>>());
    assert!(server.close().0.success());
}

#[test]
fn a_closed_stderr_does_not_end_the_server() {
    let home = new_home();
    let mut server = Piped::of(command(&home, &[]).env("WORKRAIL_LOG", "trace").stderr(Stdio::piped()));
    drop(server.child.stderr.take());
    server.open();
    server.say("not json");
    assert_eq!(server.hear()["error"]["code"], -32700);
    let answer = server.ask(&start_call(1));
    assert_eq!(reply_data(&answer["result"])["isComplete"], false, "{answer}");
    assert!(server.close().0.success());
}

#[test]
fn a_closed_stdout_ends_the_server_quietly_while_its_input_stays_open() {
    let home = new_home();
    let mut server = Piped::of(command(&home, &[]).stderr(Stdio::piped()));
    server.open();
    drop(server.stdout.take());
    server.say(start_call(1).to_string());
    let mut complaints = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert!(server.child.wait().unwrap().success());
    assert_eq!(complaints, "");
}

#[test]
fn a_killed_server_leaves_no_temporary_files() {
    let home = new_home();
    let temporary = home.root().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    home.give(&temporary);
    let mut client = home.with("TMPDIR", &temporary).client();
    for _ in 0..2 {
        assert!(!client.call("list_workflows", json!({})).is_error);
    }
    client.kill();
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

/// Runs a server with one opening message and a bounded wait for its end; returns its exit code and stderr.
fn run_to_end(command: &mut Command) -> (Option<i32>, String) {
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A server that could not start does not read.
    let _ = writeln!(stdin, "{}", initialize(1, "2025-11-25"));
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn unwritable_answers_are_a_failure() {
    let home = new_home();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (code, said) = run_to_end(command(&home, &[]).stdout(full));
    assert_eq!(code, Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn too_few_file_handles_are_an_error_and_not_a_panic() {
    let mut refused = false;
    for arguments in [&[][..], &["--http", "127.0.0.1:0"]] {
        for limit in [4, 5, 6, 7, 8, 9, 10, 12, 14] {
            let home = new_home();
            let limit_word = format!("--nofile={limit}");
            let wrapper = ["timeout", "10", "prlimit", &limit_word];
            let mut limited = home.command_in(&wrapper, &[&["mcp"], arguments].concat());
            limited.stdout(Stdio::null());
            let (code, said) = run_to_end(&mut limited);
            // A server on HTTP runs until it is ended if its input was closed before it looked.
            let served = code == Some(0) || (!arguments.is_empty() && code == Some(124));
            // The system could not load the program.
            let is_unloaded = code == Some(127);
            assert!(
                served || is_unloaded || is_refusal(code, &said),
                "{arguments:?} with {limit}: {code:?} {said}"
            );
            refused |= is_refusal(code, &said);
        }
    }
    assert!(refused, "no limit was too low");
}

/// The runtime behind signals panics if it cannot open its files.
#[test]
fn commands_without_file_handles_say_what_to_do() {
    for limit in [5, 6, 7, 8, 9, 10] {
        let home = new_home();
        let limit_word = format!("--nofile={limit}");
        for command in [&["demo"][..], &["console", "--no-open", "--port", "0"]] {
            let said = home.run_in(&["timeout", "5", "prlimit", &limit_word], command);
            let started = said.code == 0 || said.code == 124;
            assert!(started || is_refusal(Some(said.code), &said.err), "{command:?} with {limit}: {said:?}");
        }
    }
}
