//! A team's server through the real binary: tokens, roles, admission, and what records say (G113, G114, G115).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod requests;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

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
    // Absent as in files of older builds: it would not match.
    stored.as_object_mut().unwrap().remove("check");
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
    let arguments = json!({ "workflowId": "wr.small_change", "goal": "repair the kettle", "workspacePath": "/nowhere/there" });
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
    for text in [&["log", &label][..], &["report", &label]] {
        assert!(home.done(text).out.contains("ci-bot (agent)"), "{text:?}");
    }
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

/// Broke: a probe blamed the store for an unusable keyring, and agents were told to repeat a call that cannot succeed.
#[test]
fn a_server_that_cannot_answer_says_why_and_whether_to_ask_again() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ada", "agent");
    call(&server, secret(&made), "start_workflow", json!({ "workflowId": "wr.small_change" }));
    let file = |name: &str| home.data().join("keys").join(name);
    std::fs::write(file("access-tokens.json"), "{").unwrap();
    let refused = ask(&server, secret(&made), &stateless(1, "tools/list", json!({})));
    assert!(refused.status == 503 && !refused.head.contains("retry-after"), "{refused:?}");
    insta::assert_snapshot!(refused.body, @"Service Unavailable: this server cannot check tokens now. Nothing was recorded. Do not send the call again; tell the user. An administrator finds the cause with `workrail doctor` on the machine of the server.");
    std::fs::write(file("keyring.json"), "{").unwrap();
    let probe = get(&server, "/readyz", "");
    assert_eq!((probe.status, probe.body.as_str()), (503, "the keyring cannot be used\n"));
    assert_eq!(get(&server, "/healthz", "").status, 200);
    server.end("TERM");
}

/// Broke: such a server called itself ready, and the advised new keys would have helped nobody.
#[test]
fn a_server_with_damaged_access_tokens_is_not_ready_until_they_are_created_again() {
    let home = home();
    let server = serve(&home);
    let lost = token(&home, "ada", "agent");
    let list = stateless(1, "tools/list", json!({}));
    assert_eq!(ask(&server, secret(&lost), &list).status, 200);
    let file = home.data().join("keys/access-tokens.json");
    std::fs::write(&file, "{").unwrap();
    assert_eq!(ask(&server, secret(&lost), &list).status, 503);
    let probe = get(&server, "/readyz", "");
    assert_eq!((probe.status, probe.body.as_str()), (503, "the access tokens cannot be used\n"));
    let refused = home.run(&["team", "token", "create", "ada", "--role", "agent", "--json"]).json();
    assert_eq!(refused["error"]["code"], "STORE_ACCESS_TOKENS_UNUSABLE", "{refused}");

    std::fs::rename(&file, home.root().join("damaged.json")).unwrap();
    let made = token(&home, "ada", "agent");
    assert_eq!(ask(&server, secret(&made), &list).status, 200);
    assert_eq!(ask(&server, secret(&lost), &list).status, 401, "its digest is lost");
    let numbers = get(&server, "/metrics", &format!("Authorization: Bearer {}\r\n", secret(&made))).body;
    assert!(numbers.contains("workrail_refused_total{reason=\"access_tokens\"} 1"), "{numbers}");
    // A probe may get an answer that is up to a second old.
    let deadline = Instant::now() + Duration::from_secs(60);
    while get(&server, "/readyz", "").status != 200 {
        assert!(Instant::now() < deadline, "the server does not get ready");
        std::thread::yield_now();
    }
    server.end("TERM");
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
