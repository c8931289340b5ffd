//! Runs closed by the user, through the real binary (G65).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod wording;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.gated_workflow();
    home
}

fn start(client: &mut McpClient) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": "team.gated", "goal": "publish 2.0" }))
}

fn close(home: &Home, run: &str) -> Value {
    home.done(&["close", run, "--reason", "the importer replaces it", "--json"]).json()
}

fn warnings(reply: &ToolReply) -> Vec<(String, String)> {
    let of = |warning: &Value, member: &str| warning[member].as_str().unwrap().to_owned();
    let warnings = reply.data["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().map(|warning| (of(warning, "code"), of(warning, "message"))).collect()
}

/// What the list shows about its only run.
fn stage(home: &Home) -> (Value, Value) {
    let list = home.done(&["session", "list", "--json"]).json();
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    (list["runs"][0]["stage"].clone(), list["runs"][0]["closed"].clone())
}

#[test]
fn a_closed_run_needs_no_attention_and_shows_its_reason_everywhere() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    client.next(&first);
    assert_eq!(home.done(&["status", "--json"]).json()["needsYou"][0]["label"], run.as_str());

    let closed = close(&home, &run);
    assert_eq!(closed["reason"], "the importer replaces it");
    let status = home.done(&["status", "--json"]).json();
    assert_eq!((status["needsYou"].clone(), status["running"].clone()), (json!([]), json!([])));
    assert_eq!(stage(&home), (json!("closed"), json!("the importer replaces it")));
    let shown = home.done(&["show", &run, "--json"]).json();
    assert_eq!(shown["report"]["runs"][0]["status"], "closed");
    assert_eq!(shown["report"]["runs"][0]["closed"]["reason"], "the importer replaces it");
    for command in ["show", "report", "log", "tree"] {
        assert_text(&home, &format!("{command}_of_a_closed_run"), &home.done(&[command, &run]).out);
    }
    let read = client.call("read_run", json!({ "run": run }));
    assert_text(&home, "read_run_of_a_closed_run", &read.text);
    home.done(&["store", "verify"]);
}

#[test]
fn showing_a_closed_run_reports_it_and_changes_nothing() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    close(&home, &first.label());
    let looked = client.call("continue_workflow", json!({ "stateToken": first.string("stateToken") }));
    let told = warnings(&looked);
    assert_eq!(
        told,
        [(
            "RUN_CLOSED".to_owned(),
            "A person closed this run (the importer replaces it). Any attempt or checkpoint reopens it; ask the user first."
                .to_owned()
        )]
    );
    assert!(looked.text.contains(&told[0].1), "{}", looked.text);
    assert_eq!(stage(&home).0, "closed");
}

#[test]
fn the_next_attempt_reopens_a_run_and_the_reply_says_so_once() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    close(&home, &run);
    let blocked = client.next(&first);
    assert_eq!(blocked.data["kind"], "blocked");
    let told = warnings(&blocked);
    let expected = "A person had closed this run (the importer replaces it); this call reopened it.";
    assert_eq!(told, [("RUN_REOPENED".to_owned(), expected.to_owned())]);
    assert_eq!(blocked.text.matches(expected).count(), 1, "{}", blocked.text);
    assert_eq!(stage(&home), (json!("waits_for_person"), Value::Null));
    assert_eq!(home.typed(&["approve", &run], &run).code, 0);
    let second = client.next(&blocked);
    assert_eq!(second.step(), "b");
    let codes: Vec<String> = warnings(&second).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["APPROVED_HOW"]);
    // It can be closed again, and a checkpoint reopens it as well.
    close(&home, &run);
    let saved = client.call(
        "checkpoint_workflow",
        json!({ "checkpointToken": second.string("checkpointToken"), "output": { "notesMarkdown": "Half of it." } }),
    );
    assert_eq!(warnings(&saved)[0].0, "RUN_REOPENED", "{}", saved.text);
    assert_eq!(stage(&home).0, "in_progress");
}

#[test]
fn an_approval_reopens_a_closed_run() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    let blocked = client.next(&first);
    close(&home, &run);
    assert_eq!(home.typed(&["approve", &run], &run).code, 0);
    assert_ne!(stage(&home).0, "closed");
    assert_eq!(client.next(&blocked).step(), "b");
}

#[test]
fn a_run_is_closed_only_once_with_a_reason_and_while_it_is_open() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    assert_eq!(home.run(&["close", &run]).code, 2, "a reason is asked for");
    assert_eq!(home.run(&["close", &run, "--reason", "  "]).code, 2);
    assert_eq!(home.run(&["close", "no-such", "--reason", "x"]).code, 2);
    close(&home, &run);
    let again = home.run(&["close", &run, "--reason", "another"]);
    assert_eq!(again.code, 2, "{again:?}");
    assert_eq!(stage(&home).1, "the importer replaces it");
    let blocked = client.next(&first);
    home.typed(&["approve", &run], &run);
    let second = client.next(&blocked);
    client.next(&second);
    let complete = home.run(&["close", &run, "--reason", "late"]);
    assert_eq!(complete.code, 2, "{complete:?}");
}

#[test]
fn agents_have_no_tool_that_closes_a_run() {
    let home = home();
    let listed = home.client().request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let closing = |tool: &&Value| tool["name"].as_str().unwrap().contains("close");
    assert!(!tools.is_empty() && !tools.iter().any(|tool| closing(&tool)), "{tools:?}");
}

#[test]
fn a_closed_run_stays_closed_on_another_machine_and_can_be_cleaned_up() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    client.close();
    let old = ["store", "gc", "--ttl", "0d", "--dry-run", "--json"];
    assert_eq!(home.done(&old).json()["removed"], json!([]), "an open run is never taken by age");
    close(&home, &run);
    home.done(&["session", "export", &run, "-o", "closed.json"]);
    let other = Home::new(PROGRAM);
    let bundle = home.project().join("closed.json");
    other.done(&["session", "import", bundle.to_str().unwrap()]);
    assert_eq!(stage(&other), (json!("closed"), json!("the importer replaces it")));
    other.done(&["store", "verify"]);
    let expired = home.done(&old).json()["removed"].clone();
    assert_eq!(expired.as_array().map(Vec::len), Some(1), "{expired}");
}
