//! What a member may do at most, and where a team's server listens (G115).

use std::process::Stdio;

use serde_json::json;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::team::{access_token, call_server, serve};
use workrail_testkit::wire::Http;

#[path = "wording/mod.rs"]
mod wording;

/// More than the burst of new sessions (120) and what is added meanwhile (1 a second).
const STARTS: usize = 200;

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

#[test]
fn a_member_who_starts_too_many_sessions_has_to_wait() {
    let home = home();
    let server = serve(&home);
    let (wild, other) = (access_token(&home, "wild", "agent"), access_token(&home, "other", "agent"));
    let start = |token: &str| -> ToolReply {
        call_server(&server, token, "start_workflow", &json!({ "workflowId": "wr.small_change" }))
    };
    let first = start(&wild);
    let refused = (1..STARTS).map(|_| start(&wild)).find(|reply| reply.is_error).unwrap();
    wording::assert_text(&home, "too_many_new_sessions", &refused.text);
    assert_eq!(refused.data["code"], "STORE_BUSY");
    assert_eq!(refused.data["retry"], json!({ "kind": "retryable_after_ms", "afterMs": 1000 }));
    let nested = json!({ "workflowId": "wr.small_change", "parent": first.string("stateToken") });
    let nested = call_server(&server, &wild, "start_workflow", &nested);
    assert!(!nested.is_error, "a run in a session that exists is not limited: {}", nested.text);
    assert!(!start(&other).is_error, "another member is not limited");
    server.end("TERM");
}

/// Broke: a batch of 64 calls counted as one request.
#[test]
fn the_messages_of_a_batch_count_as_requests() {
    let home = home();
    let server = serve(&home);
    let token = access_token(&home, "wild", "agent");
    let ping = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let batch = serde_json::Value::from((0..64).map(ping).collect::<Vec<_>>()).to_string();
    let headers = format!("Authorization: Bearer {token}\r\nMCP-Protocol-Version: 2025-03-26\r\n");
    let first = server.post(&headers, &batch);
    assert_eq!((first.status, first.json().as_array().unwrap().len()), (200, 64), "{first:?}");
    // Far more than a second's requests, in each of many seconds.
    let refused =
        (0..100).map(|_| server.post(&headers, &batch)).find(|answer| answer.status != 200).unwrap();
    assert_eq!(refused.status, 429, "{refused:?}");
    // At most until 64 messages may be sent again, 20 a second.
    let retry_after = refused.head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((1..=4).contains(&retry_after.parse::<u32>().unwrap()), "{refused:?}");
    wording::assert_text(&home, "too_many_requests", &refused.body);
    let metrics = "GET /metrics HTTP/1.1\r\nHost: {address}\r\n".to_owned()
        + &format!("Authorization: Bearer {token}\r\n");
    let counted =
        std::iter::repeat_with(|| server.exchange(&metrics, b"")).find(|answer| answer.status == 200);
    assert!(counted.unwrap().body.contains("workrail_refused_total{reason=\"quota\"}"));
    server.end("TERM");
}

#[test]
fn a_server_listens_on_a_host_name() {
    let home = home();
    let server = Http::of_command(home.command(&["serve", "--listen", "localhost:0"]).stdin(Stdio::null()));
    let token = access_token(&home, "ada", "agent");
    let listed = call_server(&server, &token, "list_workflows", &json!({}));
    assert!(!listed.is_error, "{}", listed.text);
    server.end("TERM");
}

#[test]
fn an_address_that_cannot_be_listened_on_is_refused_with_examples() {
    let home = home();
    for (name, listen) in
        [("no_port", "localhost"), ("no_host", "8080"), ("no_number", "localhost:http-or-so")]
    {
        let ran = home.run(&["serve", "--listen", listen]);
        assert_eq!(ran.code, 2, "{ran:?}");
        wording::assert_text(&home, &format!("listen_{name}"), &ran.err);
    }
}

#[test]
fn an_address_reachable_by_others_needs_encryption_and_a_name() {
    let home = home();
    let mut shown = String::new();
    for arguments in [
        "--listen 0.0.0.0:0",
        "--listen 0.0.0.0:0 --public-url https://w.example",
        "--listen 0.0.0.0:0 --public-url http://w.example --behind-proxy",
        "--listen 127.0.0.1:0 --public-url https://w.example",
        "--listen 127.0.0.1:0 --public-url http://w.example",
        "--listen 127.0.0.1:0 --public-url w.example",
    ] {
        let words: Vec<&str> = ["serve"].into_iter().chain(arguments.split(' ')).collect();
        let ran = home.run(&words);
        assert_eq!(ran.code, 2, "{ran:?}");
        shown.push_str(&format!("$ workrail serve {arguments}\n{}\n", ran.err));
    }
    insta::assert_snapshot!(shown);
}
