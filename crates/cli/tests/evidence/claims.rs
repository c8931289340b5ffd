//! Claims compared with what hooks saw, in replies and reports (G104, G124), with the real server and the real hook.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use super::wording::assert_text;
use super::{home, start_of};

/// A workflow whose second step requires a report of checks.
fn proving() -> Home {
    let home = home();
    home.workflow(&json!({
        "id": "team.proving", "name": "Proving", "description": "Builds and proves.", "version": "1.0.0",
        "steps": [
            { "id": "build", "title": "Build", "prompt": "Build it." },
            { "id": "prove", "title": "Prove", "prompt": "Prove it.",
              "outputContract": { "contractRef": "wr.contracts.verification_report" } },
            { "id": "report", "title": "Report", "prompt": "Report it." },
        ],
    }));
    home
}

pub(crate) fn hook(home: &Home, host: &str, event: &str, input: &Value) -> Value {
    let mut command = home.command(&["hook", host, event]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{host} {event}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn claude(home: &Home, event: &str, more: Value) {
    let mut input = json!({ "session_id": "chat", "cwd": home.project(), "hook_event_name": event });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(hook(home, "claude-code", event, &input), json!({}));
}

/// The host tells its hook what our tool returned.
fn returned(home: &Home, reply: &ToolReply) {
    let response = json!([{ "type": "text", "text": reply.data["text"] }]);
    let name = "mcp__workrail__continue_workflow";
    claude(home, "PostToolUse", json!({ "tool_name": name, "tool_response": response }));
}

/// The host tells its hook how a command ended.
fn ran(home: &Home, command: &str, code: i32) {
    let call = json!({ "tool_name": "Bash", "tool_input": { "command": command }, "duration_ms": 12 });
    let with = |member: &str, value: Value| {
        let mut call = call.clone();
        call[member] = value;
        call
    };
    match code {
        0 => {
            claude(home, "PostToolUse", with("tool_response", json!({ "stdout": "", "interrupted": false })))
        }
        code => claude(home, "PostToolUseFailure", with("error", json!(format!("Exit code {code}\nfailed")))),
    }
}

/// Advances to the step that requires the report, in a chat that the hooks see.
fn at_proof(home: &Home, client: &mut McpClient) -> ToolReply {
    let first = start_of(home, client, "team.proving", "guided");
    let prove = client.next(&first);
    assert_eq!(prove.step(), "prove", "{}", prove.data);
    prove
}

fn prove(client: &mut McpClient, at: &ToolReply, checks: Value) -> ToolReply {
    let artifact = json!({ "kind": "wr.verification_report", "result": "passed", "checks": checks });
    let output = json!({ "notesMarkdown": "All tests pass.", "artifacts": [artifact] });
    let next =
        client.call("continue_workflow", json!({ "ackToken": at.string("ackToken"), "output": output }));
    assert_eq!(next.step(), "report", "{}", next.data);
    next
}

fn contradictions(reply: &ToolReply) -> String {
    let warnings = reply.data["warnings"].as_array().cloned().unwrap_or_default();
    let own = warnings.iter().filter(|warning| warning["code"] == "CLAIM_CONTRADICTED");
    own.map(|own| own["message"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn tests_that_no_hook_saw_are_contradicted_in_the_reply_and_at_the_end() {
    let home = proving();
    let mut client = home.client();
    let at = at_proof(&home, &mut client);
    returned(&home, &at);
    let next =
        prove(&mut client, &at, json!([{ "name": "unit", "result": "passed", "command": "make test" }]));
    insta::assert_snapshot!("nothing_ran", contradictions(&next));
    assert_text(&home, "reply_to_a_contradicted_claim", &next.string("text"));
    let done = client.next(&next);
    assert_text(&home, "end_of_a_run_with_a_contradicted_claim", &done.string("text"));
    let report = home.done(&["report", &at.label(), "--format", "json"]).json();
    assert_eq!(report["runs"][0]["gaps"][0]["reason"]["detail"], "claim_contradicted");
}

#[test]
fn a_reported_command_that_failed_last_is_contradicted_and_one_that_passed_is_observed() {
    let home = proving();
    let mut client = home.client();
    let at = at_proof(&home, &mut client);
    returned(&home, &at);
    ran(&home, "make test", 2);
    ran(&home, "make lint", 0);
    let checks = json!([
        { "name": "unit", "result": "passed", "command": "make test" },
        { "name": "lint", "result": "passed", "command": "make lint" },
        { "name": "by hand", "result": "passed" },
    ]);
    let next = prove(&mut client, &at, checks);
    insta::assert_snapshot!("failed_last", contradictions(&next));
    let report = home.done(&["report", &at.label(), "--format", "json"]).json();
    let output = &report["runs"][0]["nodes"][1]["attempts"][0]["outputs"][1];
    assert_eq!(output["grade"], "claimed");
    let rows = output["body"]["artifact"]["shown"]["tables"][0]["rows"].as_array().unwrap();
    let known: Vec<&str> =
        rows.iter().map(|row| row.as_array().unwrap().last().unwrap().as_str().unwrap()).collect();
    assert_eq!(
        known,
        [
            "contradicted (observed: the last run that the hooks of claude-code saw ended with exit code 2)",
            "observed",
            "claimed"
        ]
    );
}

#[test]
fn without_hooks_a_claim_is_only_a_claim() {
    let home = proving();
    let mut client = home.client();
    let at = at_proof(&home, &mut client);
    let next =
        prove(&mut client, &at, json!([{ "name": "unit", "result": "passed", "command": "make test" }]));
    assert_eq!(contradictions(&next), "");
}

/// G130: a report says for every statement how it is known.
#[test]
fn a_report_says_for_every_statement_how_it_is_known() {
    let home = proving();
    let mut client = home.client();
    let at = at_proof(&home, &mut client);
    returned(&home, &at);
    ran(&home, "make test", 0);
    let next =
        prove(&mut client, &at, json!([{ "name": "unit", "result": "passed", "command": "make test" }]));
    returned(&home, &next);
    client.next(&next);
    let run = at.label();
    let markdown = home.done(&["report", &run, "--format", "md"]).out;
    assert_text(&home, "report_with_grades", &markdown);
    let json = home.done(&["report", &run, "--format", "json"]).json();
    let nodes = json["runs"][0]["nodes"].as_array().unwrap().iter();
    let outputs: Vec<&Value> = nodes
        .flat_map(|node| node["attempts"].as_array().unwrap())
        .flat_map(|attempt| attempt["outputs"].as_array().unwrap())
        .collect();
    assert!(outputs.len() == 4 && outputs.iter().all(|output| output["grade"] == "claimed"), "{outputs:?}");
    assert_text(&home, "log_with_grades", &home.done(&["log", &run]).out);
}
