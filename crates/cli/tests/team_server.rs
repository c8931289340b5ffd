//! A team's server through the real binary: tokens, roles, admission, and what records say (G113, G114, G115).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
use workrail_model::tool::ToolName;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::reply_data;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::team::{secret, serve, serve_with, token};
use workrail_testkit::wire::{Http, HttpResponse, initialize, stateless};

const ROLES: [&str; 4] = ["viewer", "agent", "approver", "admin"];

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

/// Lets a token of a data directory expire in the past.
fn end_long_ago(home: &Home, token: &Value) {
    let file = home.data().join("keys/access-tokens.json");
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    for own in stored["tokens"].as_array_mut().unwrap() {
        if own["id"] == token["id"] {
            own["expiresAt"] = json!("2020-01-01T00:00:00.000Z");
        }
    }
    std::fs::write(&file, format!("{stored}\n")).unwrap();
}

/// One message with a token, on its own connection.
fn ask(server: &Http, token: &str, message: &Value) -> HttpResponse {
    let headers = format!("Authorization: Bearer {token}\r\n{}", stateless_headers(message));
    server.post(&headers, &message.to_string())
}

/// What the stateless revision repeats from a message in its headers.
fn stateless_headers(message: &Value) -> String {
    let method = message["method"].as_str().unwrap();
    let name = message["params"]["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n"));
    match method {
        "initialize" => String::new(),
        method => format!(
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{}",
            name.unwrap_or_default()
        ),
    }
}

fn call(server: &Http, token: &str, tool: &str, arguments: Value) -> Value {
    let message = stateless(1, "tools/call", json!({ "name": tool, "arguments": arguments }));
    let answer = ask(server, token, &message);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn get(server: &Http, path: &str, headers: &str) -> HttpResponse {
    server.exchange(&format!("GET {path} HTTP/1.1\r\nHost: {{address}}\r\n{headers}"), b"")
}

/// Who is offered a tool. A new tool does not compile without its roles.
fn roles_of(tool: ToolName) -> &'static [&'static str] {
    match tool {
        ToolName::ListWorkflows | ToolName::InspectWorkflow | ToolName::ResumeSession | ToolName::ReadRun => {
            &ROLES
        }
        ToolName::StartWorkflow
        | ToolName::ContinueWorkflow
        | ToolName::CheckpointWorkflow
        | ToolName::StartSession => &["agent", "admin"],
    }
}

/// G113: each tool with each role.
#[test]
fn the_role_table_of_tools() {
    let home = home().with("WORKRAIL_ENABLE_START_SESSION", "true");
    let server = serve(&home);
    for role in ROLES {
        let made = token(&home, role, role);
        let listed = ask(&server, secret(&made), &stateless(1, "tools/list", json!({}))).json();
        let offered: BTreeSet<&str> = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        let expected = ToolName::ALL.into_iter().filter(|tool| roles_of(*tool).contains(&role));
        assert_eq!(offered, expected.map(ToolName::as_str).collect(), "{role}");
        for tool in ToolName::ALL {
            let arguments = match tool {
                ToolName::StartWorkflow | ToolName::InspectWorkflow => {
                    json!({ "workflowId": "wr.small_change" })
                }
                ToolName::ContinueWorkflow => json!({ "ackToken": "ack.v2.x" }),
                ToolName::CheckpointWorkflow => json!({ "checkpointToken": "chk.v2.x" }),
                ToolName::ReadRun => json!({ "run": "amber-falcon" }),
                ToolName::ListWorkflows | ToolName::ResumeSession | ToolName::StartSession => json!({}),
            };
            let called = call(&server, secret(&made), tool.as_str(), arguments);
            let is_denied = reply_data(&called["result"])["code"] == "STORE_ACCESS_DENIED";
            assert_eq!(is_denied, !roles_of(tool).contains(&role), "{tool} as {role}: {called}");
        }
    }
    server.end("TERM");
}

/// Broke: such a token was created and never worked; a lifetime beyond all limits led to advice about sessions.
#[test]
fn a_token_that_could_never_be_used_is_not_created() {
    let home = home();
    let create =
        |expires: &str| home.run(&["team", "token", "create", "x", "--role", "agent", "--expires", expires]);
    let (none, too_long) = (create("0d"), create("99999999d"));
    assert!(none.code != 0 && too_long.code != 0, "{none:?} {too_long:?}");
    assert_eq!((none.out.as_str(), too_long.out.as_str()), ("", ""));
    let listed = home.done(&["team", "token", "list"]).out;
    insta::assert_snapshot!([none.err, too_long.err, listed].join("---\n"));
}

/// G113, G115
#[test]
fn only_a_valid_token_of_this_store_is_admitted() {
    let (home, elsewhere) = (home(), home());
    let server = serve(&home);
    let (good, revoked) = (token(&home, "ada", "agent"), token(&home, "bob", "agent"));
    home.done(&["team", "token", "revoke", revoked["id"].as_str().unwrap()]);
    let expired = token(&home, "eve", "admin");
    end_long_ago(&home, &expired);
    let foreign = token(&elsewhere, "ada", "admin");
    let (id, own) = secret(&good).split_once('.').unwrap();
    let other = secret(&revoked).split_once('.').unwrap().1;
    let message = stateless(1, "tools/list", json!({}));
    let bad = [
        String::new(),
        "x".to_owned(),
        id.to_owned(),
        format!("{id}.{other}"),
        format!("{id}.{}", &own[1..]),
        secret(&good).to_uppercase(),
        secret(&revoked).to_owned(),
        secret(&expired).to_owned(),
        secret(&foreign).to_owned(),
    ];
    let mut bodies = Vec::new();
    for bad in &bad {
        let answer = ask(&server, bad, &message);
        assert_eq!(answer.status, 401, "{bad:?}: {}", answer.body);
        assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        bodies.push(answer.body);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "a stranger does not learn what is wrong with a token: {bodies:?}");
    assert_eq!(server.post("", &message.to_string()).status, 401, "without a token");
    let twice = format!("Authorization: Bearer {0}\r\nAuthorization: Bearer {0}\r\n", secret(&good));
    assert_eq!(server.post(&twice, &message.to_string()).status, 401, "two headers");
    assert_eq!(ask(&server, secret(&good), &message).status, 200);
    // Revoked while the server runs.
    home.done(&["team", "token", "revoke", id]);
    assert_eq!(ask(&server, secret(&good), &message).status, 401);
    server.end("TERM");
    let listed = home.done(&["team", "token", "list", "--json"]);
    for (made, state) in [(&good, "revoked"), (&revoked, "revoked"), (&expired, "expired")] {
        let tokens = listed.json();
        let own = tokens["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .find(|token| token["id"] == made["id"])
            .unwrap()
            .clone();
        assert_eq!(own["state"], state);
        let kept = std::fs::read_to_string(home.data().join("keys/access-tokens.json")).unwrap();
        assert!(!kept.contains(secret(made).split_once('.').unwrap().1), "only a digest is stored");
        assert!(!listed.out.contains(secret(made)));
    }
}

/// G115: both eras, the program's name, and who is shown as having done it.
#[test]
fn work_over_the_network_is_recorded_under_its_tokens_name() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ci-bot", "agent");
    let opened = ask(&server, secret(&made), &initialize(1, "2025-11-25")).json();
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    let arguments = json!({ "workflowId": "wr.small_change", "goal": "mend the kettle", "workspacePath": "/nowhere/there" });
    let started = call(&server, secret(&made), "start_workflow", arguments);
    let data = reply_data(&started["result"]);
    let label = data["run"]["label"].as_str().unwrap().to_owned();
    server.end("TERM");
    let log = home.done(&["log", &label, "--json"]).json();
    for event in log["events"].as_array().unwrap() {
        let actor = &event["actor"];
        assert_eq!((&actor["name"], &actor["role"]), (&json!("ci-bot"), &json!("agent")), "{event}");
        assert_eq!((&actor["tokenId"], &actor["client"]), (&made["id"], &json!("test 0")), "{event}");
    }
    for list in [&["session", "list", "--json"][..], &["status", "--json"], &["show", &label, "--json"]] {
        assert!(home.done(list).out.contains(r#""lastActor": "ci-bot (agent)""#), "{list:?}");
    }
    assert!(home.done(&["log", &label]).out.contains("[ci-bot (agent)]"));
    assert!(home.done(&["report", &label]).out.contains("ci-bot (agent)"));
}

/// Broke: the agent was told to send `workspacePath` and to have hooks installed; neither helps on a team's server.
#[test]
fn missing_evidence_leads_to_a_local_server() {
    let home = home();
    let step = |id: &str, min: &str| json!({ "id": id, "title": "Do it", "prompt": "Do it.", "evidence": { "min": min } });
    for min in ["observed", "checked"] {
        home.workflow(&json!({
            "id": format!("team.{min}"), "name": "Needs evidence", "description": "One step.", "version": "1.0.0",
            "steps": [step("do", min)],
        }));
    }
    let server = serve(&home);
    let made = token(&home, "ada", "agent");
    for min in ["observed", "checked"] {
        let begun =
            call(&server, secret(&made), "start_workflow", json!({ "workflowId": format!("team.{min}") }));
        let begun = reply_data(&begun["result"]).clone();
        let arguments = json!({ "ackToken": begun["ackToken"], "output": { "notesMarkdown": "Did it." } });
        let blocked = call(&server, secret(&made), "continue_workflow", arguments);
        let blocker = reply_data(&blocked["result"])["blockers"][0].clone();
        assert_eq!(blocker["code"], "EVIDENCE_MISSING", "{blocked}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(blocker["suggestedFix"].as_str().unwrap(), @"Ask the user to connect you through `workrail mcp` on the machine of the repository. With the same store, this run continues there.");
        }
    }
    server.end("TERM");
}

/// G115: the rules for a public name, on a listener that only this machine can reach.
#[test]
fn a_request_must_name_the_public_address_and_come_from_no_other_page() {
    let home = home();
    let server = serve_with(&home, &["--public-url", "https://workrail.example.com", "--behind-proxy"]);
    let made = token(&home, "ada", "agent");
    let message = stateless(1, "tools/list", json!({}));
    let body = message.to_string();
    let post = |host: &str, more: &str| {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n\
             Accept: application/json, text/event-stream\r\n{}{more}",
            secret(&made),
            stateless_headers(&message)
        );
        server.exchange(&head, body.as_bytes()).status
    };
    let name = "workrail.example.com";
    assert_eq!(post(name, ""), 200);
    assert_eq!(post(&format!("{name}:443"), ""), 200);
    assert_eq!(post(name, "Origin: https://workrail.example.com\r\n"), 200);
    for host in ["{address}", "localhost", "workrail.example.com.evil.example", "workrail.example.com:80", ""]
    {
        assert_eq!(post(host, ""), 403, "{host}");
    }
    assert_eq!(post(name, "Host: evil.example\r\n"), 403, "two names");
    for origin in ["https://evil.example", "http://workrail.example.com", "null"] {
        assert_eq!(post(name, &format!("Origin: {origin}\r\n")), 403, "{origin}");
    }
    server.end("TERM");
}

#[test]
fn an_address_reachable_by_others_needs_encryption_and_a_name() {
    let home = home();
    let refused = |arguments: &[&str]| {
        let ran = home.run(&[&["serve"], arguments].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.err
    };
    let table = [
        (&["--listen", "0.0.0.0:0"][..], "--public-url"),
        (&["--listen", "0.0.0.0:0", "--public-url", "https://w.example"], "--behind-proxy"),
        (&["--listen", "0.0.0.0:0", "--public-url", "http://w.example", "--behind-proxy"], "https://HOST"),
        (&["--listen", "127.0.0.1:0", "--public-url", "https://w.example"], "--behind-proxy"),
        (&["--listen", "127.0.0.1:0", "--public-url", "http://w.example"], "--behind-proxy"),
        (&["--listen", "127.0.0.1:0", "--public-url", "w.example"], "without a path"),
    ];
    for (arguments, hint) in table {
        let said = refused(arguments);
        assert!(said.contains(hint), "{arguments:?}: {said}");
    }
}

#[test]
fn probes_need_no_token_but_metrics_do() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "prometheus", "viewer");
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(get(&server, probe, "").status, 200, "{probe}");
    }
    assert_eq!(get(&server, "/metrics", "").status, 401);
    call(&server, secret(&made), "list_workflows", json!({}));
    let numbers = get(&server, "/metrics", &format!("Authorization: Bearer {}\r\n", secret(&made)));
    assert!(
        numbers.body.contains("workrail_calls_total{tool=\"list_workflows\",outcome=\"ok\"} 1"),
        "{}",
        numbers.body
    );
    assert!(numbers.body.contains("workrail_refused_total{reason=\"token\"} 1"), "{}", numbers.body);
    assert!(numbers.body.contains("\nworkrail_appends_total 0\n"), "{}", numbers.body);
    assert!(server.end("TERM").success(), "a stop is no failure");
}

/// Broke: a probe blamed the store for an unusable keyring, and a refused call did not say whether to repeat it.
#[test]
fn a_server_that_cannot_answer_says_why_and_when_to_ask_again() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ada", "agent");
    call(&server, secret(&made), "start_workflow", json!({ "workflowId": "wr.small_change" }));
    let file = |name: &str| home.data().join("keys").join(name);
    std::fs::write(file("access-tokens.json"), "{").unwrap();
    let refused = ask(&server, secret(&made), &stateless(1, "tools/list", json!({})));
    assert!(refused.status == 503 && refused.head.contains("retry-after: 5"), "{refused:?}");
    insta::assert_snapshot!(refused.body, @"Service Unavailable: the store does not answer. Nothing was recorded. Send the same call again in a moment.");
    std::fs::write(file("keyring.json"), "{").unwrap();
    let probe = get(&server, "/readyz", "");
    assert_eq!((probe.status, probe.body.as_str()), (503, "the keyring cannot be used\n"));
    assert_eq!(get(&server, "/healthz", "").status, 200);
    server.end("TERM");
}

/// Broke: the server waited for a body that it would refuse, and then called it late.
#[test]
fn a_body_that_is_announced_as_too_long_is_not_waited_for() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ada", "agent");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: 50000000\r\n\r\n{{",
        server.address,
        secret(&made)
    )
    .unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(String::from_utf8_lossy(&status), "HTTP/1.1 413");
    server.end("TERM");
}

/// G115: a server that stops finishes the requests in progress.
#[test]
fn a_request_in_progress_is_answered_by_a_server_that_was_told_to_stop() {
    let home = home();
    let mut server = serve(&home);
    let made = token(&home, "ada", "agent");
    let message = stateless(1, "tools/list", json!({}));
    let body = message.to_string();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n\
         Accept: application/json, text/event-stream\r\nExpect: 100-continue\r\n{}Content-Length: {}\r\n\r\n",
        server.address,
        secret(&made),
        stateless_headers(&message),
        body.len()
    )
    .unwrap();
    // The server asks for the body: the request has begun.
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(String::from_utf8_lossy(&interim), "HTTP/1.1 100 Continue\r\n\r\n");
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    while TcpStream::connect(&server.address).is_ok() {
        std::thread::yield_now();
    }
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(server.child.wait().unwrap().success());
}

/// A service manager starts it again: docs/team.md has the unit.
#[test]
fn a_server_without_its_database_ends_with_an_error() {
    let home = home().with("WORKRAIL_STORE", "postgres://agent@127.0.0.1:1/team");
    let ended = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{ended:?}");
    insta::assert_snapshot!(ended.err.split(" (os error").next().unwrap());
}

/// Broke: the error and the fix gave the same advice.
#[test]
fn doctor_says_once_what_to_do_about_a_database_that_does_not_answer() {
    let home = home().with("WORKRAIL_STORE", "postgres://agent@127.0.0.1:1/team");
    let doctor = home.run(&["doctor", "--json"]).json();
    let findings = doctor["findings"].as_array().unwrap().iter();
    let of_store: Vec<&Value> = findings.filter(|finding| finding["area"] == "store").collect();
    let [finding] = of_store[..] else { panic!("{of_store:?}") };
    assert!(!finding["what"].as_str().unwrap().contains("password"), "{finding}");
    let fix = "Check that the database is running, and that its address and the password are right.";
    assert_eq!(finding["fix"], fix);
}

/// Two lengths, or a length and chunks, are how one request is smuggled in another: what follows is read as the body by
/// a proxy, and as a request by the server.
#[test]
fn no_request_is_smuggled_in_another() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ada", "agent");
    let body = stateless(1, "tools/list", json!({})).to_string();
    // Needs no token, so it is answered wherever it is taken for a request.
    let inner = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address);
    let answers = |lengths: &str, rest: &str| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let headers = stateless_headers(&stateless(1, "tools/list", json!({})));
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nAuthorization: Bearer {}\r\n{headers}{lengths}\r\n{rest}",
            server.address,
            secret(&made)
        )
        .unwrap();
        let mut answer = Vec::new();
        // The server may reset the connection after its answer.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let count = |answer: &str| answer.matches("HTTP/1.1 ").count();
    let honest = answers(&format!("Content-Length: {}\r\n", body.len()), &format!("{body}{inner}"));
    assert_eq!(count(&honest), 2, "two requests are answered twice: {honest}");
    assert!(honest.starts_with("HTTP/1.1 200"), "{honest}");

    let (own, both) = (body.len(), body.len() + inner.len());
    let chunked = format!("{own:x}\r\n{body}\r\n0\r\n\r\n{inner}");
    let plain = format!("{body}{inner}");
    for (lengths, rest) in [
        (format!("Content-Length: {own}\r\nContent-Length: {both}\r\n"), &plain),
        (format!("Content-Length: {both}\r\nContent-Length: {own}\r\n"), &plain),
        (format!("Content-Length: {own}, {both}\r\n"), &plain),
        (format!("Content-Length: +{own}\r\n"), &plain),
        (format!("Content-Length: {both}\r\nTransfer-Encoding: chunked\r\n"), &chunked),
        (format!("Transfer-Encoding: chunked\r\nContent-Length: {own}\r\n"), &chunked),
        ("Transfer-Encoding: xchunked\r\n".to_owned(), &chunked),
        (format!("Transfer-Encoding: identity, chunked\r\nContent-Length: {own}\r\n"), &chunked),
    ] {
        let answer = answers(&lengths, rest);
        assert!(count(&answer) <= 1, "{lengths:?}: {answer}");
    }
    server.end("TERM");
}

/// Two servers and two tenants in one database (G103, G113).
#[test]
fn servers_share_tokens_and_runs_and_tenants_do_not() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let machine = |tenant: &str| home().with("WORKRAIL_STORE", cluster.address(&database, ROLE, tenant));
    let (one, two, others) = (machine("red"), machine("red"), machine("blue"));
    let (first, second, foreign) = (serve_with(&one, &[]), serve_with(&two, &[]), serve_with(&others, &[]));
    let made = token(&one, "ada", "agent");
    let started = call(&first, secret(&made), "start_workflow", json!({ "workflowId": "wr.small_change" }));
    let label = reply_data(&started["result"])["run"]["label"].clone();
    let read = call(&second, secret(&made), "read_run", json!({ "run": label }));
    let numbers = get(&first, "/metrics", &format!("Authorization: Bearer {}\r\n", secret(&made))).body;
    for line in
        ["workrail_appends_total 1", "workrail_conflicts_total 0", "workrail_pool_size{pool=\"writers\"} 8"]
    {
        assert!(numbers.lines().any(|other| other == line), "{line}: {numbers}");
    }
    assert!(read["result"]["isError"] != true, "{read}");
    let list = stateless(1, "tools/list", json!({}));
    assert_eq!(ask(&foreign, secret(&made), &list).status, 401, "a token of another tenant");
    two.done(&["team", "token", "revoke", made["id"].as_str().unwrap()]);
    assert_eq!(ask(&first, secret(&made), &list).status, 401, "revoked on another machine");
    for server in [first, second, foreign] {
        server.end("TERM");
    }
}
