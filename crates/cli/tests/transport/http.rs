//! HTTP on the loopback address: who may ask, and what is answered.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_testkit::mcp_client::reply_data;
use workrail_testkit::wire::{Http, command, initialize, start_call, stateless};

use crate::new_home;
use crate::wording::assert_text;

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
