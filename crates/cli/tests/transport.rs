//! The transports through the real binary: both eras, strict input, concurrency, and how a server ends.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::reply_data;
use workrail_testkit::wire::{Http, Piped, command, initialize, start_call, stateless};

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

/// G74: both generations over HTTP.
#[test]
fn http_speaks_both_eras() {
    let home = new_home();
    let server = Http::start(&home);
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let opened = server.post("", &initialize(1, version).to_string());
        assert_eq!(opened.json()["result"]["protocolVersion"], version, "{}", opened.body);
        let header = format!("MCP-Protocol-Version: {version}\r\n");
        let noted = server.post(&header, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(noted.status, 202);
        let called = server.post(&header, &start_call(2).to_string());
        assert_eq!(reply_data(&called.json()["result"])["isComplete"], false, "{}", called.body);
    }
    let headers = |method: &str| format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
    let discover = stateless(3, "server/discover", json!({})).to_string();
    let discovered = server.post(&headers("server/discover"), &discover);
    assert!(discovered.json()["result"]["supportedVersions"].is_array(), "{}", discovered.body);
    let arguments = json!({ "workflowId": "wr.small_change" });
    let call = stateless(4, "tools/call", json!({ "name": "start_workflow", "arguments": arguments }));
    let named = format!("{}Mcp-Name: start_workflow\r\n", headers("tools/call"));
    let called = server.post(&named, &call.to_string());
    assert_eq!(reply_data(&called.json()["result"])["isComplete"], false, "{}", called.body);
    assert!(server.end("TERM").success());
}

/// G75: a request must name this listener and not come from another site's page.
#[test]
fn http_refuses_foreign_hosts_and_origins_on_every_route() {
    let home = new_home();
    let server = Http::start(&home);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    for (method, path) in
        [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("OPTIONS", "/mcp"), ("GET", "/")]
    {
        for (headers, refused) in [
            (format!("Host: evil.example:{port}\r\n"), true),
            ("Host: localhost\r\n".to_owned(), true),
            (format!("Host: localhost:{port}\r\nOrigin: http://evil.example\r\n"), true),
            (format!("Host: localhost:{port}\r\nOrigin: null\r\n"), true),
            (String::new(), true),
            (format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"), false),
            (format!("Host: [::1]:{port}\r\n"), false),
        ] {
            let answer = server.exchange(&format!("{method} {path} HTTP/1.1\r\n{headers}"), b"");
            assert_eq!(answer.status == 403, refused, "{method} {path} {headers:?}: {}", answer.status);
        }
    }
    assert!(server.end("INT").success());
}

/// G75: every request carries the secret, which only the user can read.
#[test]
fn http_answers_only_requests_with_the_secret() {
    use std::os::unix::fs::MetadataExt as _;
    let home = new_home();
    let mut server = Http::start(&home);
    let right = std::mem::take(&mut server.authorization);
    assert_eq!(std::fs::metadata(home.data().join("keys/http-secret")).unwrap().mode() & 0o777, 0o600);
    let message = start_call(1).to_string();
    let wrong = right.replace("Bearer ", "Bearer x");
    let basic = right.replace("Bearer", "Basic");
    for headers in ["", &wrong, &basic, &format!("{right}{right}"), "Authorization: Bearer\r\n"] {
        let refused = server.post(headers, &message);
        assert_eq!(refused.status, 401, "{headers:?}: {}", refused.body);
        assert!(refused.head.contains("www-authenticate: bearer"), "{}", refused.head);
    }
    for (method, path) in [("GET", "/mcp"), ("OPTIONS", "/mcp"), ("GET", "/"), ("GET", "/.well-known/x")] {
        let refused = server.exchange(&format!("{method} {path} HTTP/1.1\r\nHost: {{address}}\r\n"), b"");
        assert_eq!(refused.status, 401, "{method} {path}");
    }
    assert!(!home.data().join("sessions").read_dir().unwrap().any(|_| true), "a refused call did something");
    assert_eq!(server.post(&right, &message).status, 200);
    assert!(server.end("TERM").success());

    let secret = home.done(&["store", "keys", "http-secret"]).out;
    assert_eq!(right, format!("Authorization: Bearer {}\r\n", secret.trim_end()));
    // The secret survives a restart, and is invalidated by a new one.
    let server = Http::start(&home);
    assert_eq!(server.post("", &message).status, 200);
    assert!(server.end("TERM").success());
    let new = home.done(&["store", "keys", "http-secret", "--new", "--yes"]).out;
    assert_ne!(new, secret);
    let mut server = Http::start(&home);
    assert_eq!(server.post("", &message).status, 200);
    server.authorization = right;
    assert_eq!(server.post("", &message).status, 401);
    assert!(server.end("TERM").success());
}

/// G75: the secret is never logged.
#[test]
fn the_http_secret_is_never_logged() {
    let home = new_home();
    let log = home.data().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut command = command(&home, &["--http", "127.0.0.1:0"]);
    let child = command.env("WORKRAIL_LOG", "trace").stderr(file).spawn().unwrap();
    let said = loop {
        let said = std::fs::read_to_string(&log).unwrap();
        if said.contains("SECRET") {
            break said;
        }
        std::thread::yield_now();
    };
    let address = said.split("listening on http://").nth(1).unwrap().split("/mcp").next().unwrap().to_owned();
    let secret = std::fs::read_to_string(home.data().join("keys/http-secret")).unwrap().trim_end().to_owned();
    let server = Http { child, address, authorization: String::new() };
    let message = start_call(1).to_string();
    assert_eq!(server.post(&format!("Authorization: Bearer {secret}\r\n"), &message).status, 200);
    assert_eq!(server.post(&format!("Authorization: Basic {secret}\r\n"), &message).status, 401);
    assert!(server.end("TERM").success());
    let logged = std::fs::read_to_string(&log).unwrap();
    let warnings: Vec<&str> = logged.lines().filter(|line| line.contains(" WARN ")).collect();
    assert_text(&home, "log_of_a_refused_request", &warnings.join("\n"));
    assert!(!logged.contains(&secret), "the secret is in the log");
}

#[test]
fn http_without_authentication_prints_a_warning() {
    let home = new_home();
    let server = Http::of(&home, &["--http", "127.0.0.1:0", "--no-auth"]);
    assert_eq!(server.post("", &start_call(1).to_string()).status, 200);
    assert!(!home.data().join("keys/http-secret").exists(), "no secret is made that nobody needs");
    assert!(server.end("TERM").success());
    let mut child =
        command(&home, &["--http", "127.0.0.1:0", "--no-auth"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut lines = String::new();
    for _ in 0..2 {
        said.read_line(&mut lines).unwrap();
    }
    assert_text(
        &home,
        "http_without_authentication",
        lines.split_once("127.0.0.1:").unwrap().1.split_once('/').unwrap().1,
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let alone = command(&home, &["--no-auth"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2), "only HTTP can be without a secret");
}

#[test]
fn http_parses_strictly_and_limits_the_size() {
    let home = new_home();
    let server = Http::start(&home);
    let twice = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"start_workflow","arguments":{"workflowId":"a","workflowId":"b"}}}"#;
    let answer = server.post("", twice);
    assert_eq!((answer.status, &answer.json()["result"]["isError"]), (200, &json!(true)), "{}", answer.body);
    let answered = answer.json();
    let said = reply_data(&answered["result"]);
    assert_text(&home, "key_given_twice_over_http", said["message"].as_str().unwrap());
    let answer = server.post("", "{");
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32700)));
    let answer = server.post("", &" ".repeat(4 * 1024 * 1024 + 1));
    assert_eq!((answer.status, &answer.json()["id"]), (413, &Value::Null));
    for long in [
        format!(r#"{{"jsonrpc":"2.0","id":8,"method":"{}"}}"#, "m".repeat(5 << 20)),
        format!(r#"{{"method":"{}","id":"8","jsonrpc":"2.0"}}"#, "m".repeat(5 << 20)),
    ] {
        let answer = server.post("", &long);
        let id = &answer.json()["id"];
        assert!(answer.status == 413 && (id == 8 || id == "8"), "{}", answer.body);
    }
    let largest =
        format!("{}{}", start_call(1), " ".repeat(4 * 1024 * 1024 - start_call(1).to_string().len()));
    assert_eq!(server.post("", &largest).status, 200);
    assert!(server.end("TERM").success());
}

#[test]
fn http_answers_sixteen_calls_at_once() {
    let home = new_home();
    let server = Http::start(&home);
    std::thread::scope(|scope| {
        for id in 1..=16 {
            let server = &server;
            scope.spawn(move || {
                let answer = server.post("", &start_call(id).to_string()).json();
                assert_eq!(answer["id"], id);
                assert_eq!(reply_data(&answer["result"])["isComplete"], false, "{answer}");
            });
        }
    });
    assert_eq!(home.data().join("sessions").read_dir().unwrap().count(), 16);
    assert!(server.end("TERM").success());
}

/// G75: only the loopback address is listened on.
#[test]
fn only_loopback_addresses_are_served() {
    let home = new_home();
    for address in ["0.0.0.0:0", "[::]:0", "192.168.1.1:8080", "example.org:80"] {
        let ended = command(&home, &["--http", address]).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{address}");
    }
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
    for arguments in [&[][..], &["--http", "127.0.0.1:0"]] {
        for limit in [4, 5, 6, 7, 8, 9, 10, 12, 14] {
            let home = new_home();
            let limit_word = format!("--nofile={limit}");
            let wrapper = ["timeout", "10", "prlimit", &limit_word];
            let mut limited = home.command_in(&wrapper, &[&["mcp"], arguments].concat());
            limited.stdout(Stdio::null());
            let (code, said) = run_to_end(&mut limited);
            assert!(!said.contains("panicked"), "{arguments:?} with {limit}: {said}");
            // A server on HTTP runs until it is ended if its input was closed before it looked.
            let served = code == Some(0) || (!arguments.is_empty() && code == Some(124));
            let refused = said.to_lowercase().contains("open files");
            assert!(served || refused, "{arguments:?} with {limit}: {code:?} {said}");
        }
    }
}

/// The runtime behind signals panics if it cannot open its files.
#[test]
fn commands_without_file_handles_say_what_to_do() {
    for limit in [5, 6, 7, 8, 9, 10] {
        let home = new_home();
        let limit_word = format!("--nofile={limit}");
        for command in [&["demo"][..], &["console", "--no-open", "--port", "0"]] {
            let said = home.run_in(&["timeout", "5", "prlimit", &limit_word], command);
            assert!(!said.err.contains("panicked"), "{command:?} with {limit}: {said:?}");
            let started = said.code == 0 || said.code == 124;
            assert!(started || said.err.contains("ulimit -n"), "{command:?} with {limit}: {said:?}");
        }
    }
}
