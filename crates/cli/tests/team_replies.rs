//! What agents and members read from a team's server: only calls and addresses that work for them (G113, G115).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod wording;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::reply_data;
use workrail_testkit::team::{access_token, serve_with};
use workrail_testkit::wire::{Http, stateless};

use wording::assert_text;

const HOST: &str = "workrail.example.com";

struct Team {
    home: Home,
    server: Http,
}

impl Team {
    fn new() -> Self {
        let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
        home.gated_workflow();
        let steps = [
            json!({ "id": "do", "title": "Do it", "prompt": "Do it.", "edits": { "allow": ["docs/**"] } }),
            json!({ "id": "sign", "title": "Sign it", "prompt": "Sign it.", "edits": { "allow": [] },
                    "requireConfirmation": { "kind": "human_approval", "proof": "passkey" } }),
        ];
        home.workflow(&json!({
            "id": "team.signed", "name": "Signed", "description": "Needs a passkey.", "version": "1.0.0",
            "steps": steps,
        }));
        let server = serve_with(&home, &["--public-url", &format!("https://{HOST}"), "--behind-proxy"]);
        Self { home, server }
    }

    fn token(&self, role: &str) -> String {
        access_token(&self.home, role, role)
    }

    /// The result of a call.
    fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let message = stateless(1, "tools/call", json!({ "name": tool, "arguments": arguments }));
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        );
        let answer = self.server.exchange(&head, message.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["result"].clone()
    }

    fn submit(&self, token: &str, ack: &Value) -> Value {
        let arguments = json!({ "ackToken": ack, "output": { "notesMarkdown": "Did it." } });
        self.call(token, "continue_workflow", arguments)
    }
}

fn text(result: &Value) -> String {
    let parts = result["content"].as_array().unwrap().iter();
    parts.map(|part| part["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n\n")
}

/// The reply without what differs between runs of the test.
fn plain(result: &Value) -> String {
    let data = reply_data(result);
    let mut shown = text(result);
    let mut names = vec![(data["stateToken"].as_str(), "STATE"), (data["ackToken"].as_str(), "ACK")];
    names.push((data["checkpointToken"].as_str(), "CHECKPOINT"));
    names.push((data["run"]["label"].as_str(), "LABEL"));
    names.push((data["run"]["runId"].as_str(), "RUN"));
    for (value, name) in names {
        if let Some(value) = value {
            shown = shown.replace(value, name);
        }
    }
    shown
}

/// Broke: the agent told its user to run `workrail approve`, which needs the store, and promised that edits are compared.
#[test]
fn approvals_lead_to_the_teams_console() {
    let team = Team::new();
    let agent = team.token("agent");
    let mut shown = Vec::new();
    let begun = team.call(&agent, "start_workflow", json!({ "workflowId": "team.gated" }));
    let blocked = team.submit(&agent, &reply_data(&begun)["ackToken"]);
    shown.extend([&begun, &blocked].map(plain));
    let begun = team.call(&agent, "start_workflow", json!({ "workflowId": "team.signed" }));
    let next = team.submit(&agent, &reply_data(&begun)["ackToken"]);
    let blocked = team.submit(&agent, &reply_data(&next)["ackToken"]);
    let again =
        team.call(&agent, "continue_workflow", json!({ "stateToken": reply_data(&blocked)["stateToken"] }));
    shown.extend([&begun, &next, &blocked, &again].map(plain));
    let shown = shown.join("\n\n=====\n\n");
    assert!(!shown.contains("`workrail approve") && !shown.contains("`workrail console"), "{shown}");
    insta::assert_snapshot!(shown);
    team.server.end("TERM");
}

/// Broke: a viewer or approver got tokens to work with and was told to complete the step.
#[test]
fn roles_that_may_not_work_get_nothing_to_work_with() {
    let team = Team::new();
    let agent = team.token("agent");
    let begun =
        team.call(&agent, "start_workflow", json!({ "workflowId": "team.gated", "goal": "Release it" }));
    let run = reply_data(&begun)["run"].clone();
    let label = run["label"].as_str().unwrap();
    for role in ["viewer", "approver"] {
        let reader = team.token(role);
        let looked = team.call(
            &reader,
            "continue_workflow",
            json!({ "stateToken": reply_data(&begun)["stateToken"] }),
        );
        let found = team.call(&reader, "resume_session", json!({ "run": label }));
        let read = team.call(&reader, "read_run", json!({ "run": label }));
        for result in [&looked, &found, &read] {
            let whole = result.to_string();
            for token in ["ack.v", "ackToken", "checkpointToken", "Do only this step", "ack1", "chk1"] {
                assert!(!whole.contains(token), "{role}: {token} in {whole}");
            }
        }
        insta::assert_snapshot!(format!("{role}_looks_at_a_step"), plain(&looked));
        assert_text(&team.home, &format!("{role}_resumes"), &text(&found));
        assert_text(&team.home, &format!("{role}_reads_a_run"), &text(&read));
    }
    team.server.end("TERM");
}

/// Broke: a viewer was offered a start, which was then refused; errors named commands on the store's machine.
#[test]
fn nothing_is_offered_that_a_member_cannot_do() {
    let team = Team::new();
    let (agent, viewer) = (team.token("agent"), team.token("viewer"));
    let mut shown = Vec::new();
    let listed = team.call(&viewer, "list_workflows", json!({ "query": "signed" }));
    let inspected = team.call(&viewer, "inspect_workflow", json!({ "workflowId": "team.signed" }));
    for result in [&listed, &inspected] {
        assert!(!result.to_string().contains("start_workflow"), "{result}");
        let end = text(result).lines().last().unwrap().to_owned();
        shown.push(end);
    }
    for (tool, arguments) in [
        ("resume_session", json!({ "run": "amber-falcon" })),
        ("read_run", json!({ "run": "amber-falcon" })),
        ("inspect_workflow", json!({ "workflowId": "team.unknown" })),
    ] {
        shown.push(text(&team.call(&agent, tool, arguments)));
    }
    let shown = shown.join("\n\n=====\n\n");
    assert!(!shown.contains("WORKRAIL_DATA_DIR") && !shown.contains("`workrail "), "{shown}");
    insta::assert_snapshot!(shown);
    team.server.end("TERM");
}

/// G114: agents learn who worked on a run last, as people do from lists; on this machine too.
#[test]
fn agents_learn_who_worked_on_a_run_last() {
    let team = Team::new();
    let (ada, bob) = (access_token(&team.home, "ada", "agent"), access_token(&team.home, "bob", "agent"));
    let begin = |token: &str, goal: &str| {
        team.call(token, "start_workflow", json!({ "workflowId": "team.signed", "goal": goal }))
    };
    let (begun, other) = (begin(&ada, "Release the kettle"), begin(&ada, "Release the teapot"));
    team.submit(&bob, &reply_data(&begun)["ackToken"]);
    let [run, other] = [&begun, &other].map(|begun| reply_data(begun)["run"]["label"].clone());
    let session = reply_data(&begun)["run"]["sessionId"].clone();
    let shown = [
        ("resume_session", json!({ "query": "release" })),
        ("resume_session", json!({ "run": run })),
        ("read_run", json!({ "run": run })),
        ("read_run", json!({ "run": other })),
        ("read_run", json!({ "run": session })),
    ]
    .map(|(tool, arguments)| format!("{tool}\n{}", text(&team.call(&ada, tool, arguments))))
    .join("\n\n=====\n\n");
    let listed = team.call(&ada, "resume_session", json!({ "query": "kettle" }));
    assert_eq!(reply_data(&listed)["candidates"][0]["lastActor"], "bob (agent)", "{listed}");
    assert_text(&team.home, "who_worked_on_a_run_last", &shown);
    let local = team.home.client().call("read_run", json!({ "run": run })).text;
    let listed = team.home.done(&["resume", "kettle"]).out;
    assert_text(&team.home, "who_worked_on_a_run_last_here", &format!("{local}\n\n=====\n\n{listed}"));
    team.server.end("TERM");
}

/// G114: a data directory has one user, whom no record names.
#[test]
fn nobody_is_named_in_a_data_directory_of_one_user() {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    let mut client = home.client();
    let begun =
        client.call("start_workflow", json!({ "workflowId": "wr.small_change", "goal": "Release it" }));
    let run = begun.label();
    let mut shown = Vec::new();
    for (tool, arguments) in [
        ("resume_session", json!({ "run": run })),
        ("resume_session", json!({ "query": "release" })),
        ("read_run", json!({ "run": run })),
        ("read_run", json!({ "run": begun.data["run"]["sessionId"] })),
    ] {
        let told = client.call(tool, arguments);
        assert!(!told.is_error, "{}", told.text);
        assert!(!told.raw.contains("lastActor"), "{}", told.raw);
        shown.push(format!("{tool}\n{}", told.text));
    }
    assert_text(&home, "replies_about_the_work_of_one_user", &shown.join("\n\n=====\n\n"));
    assert!(client.close().success());
}
