//! The files that a run declared, compared with those that changed (G123).

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use super::{edit, home, start_of};

/// A workflow that declares its scope in the plan, keeps to it in two steps and hands over.
fn scoped() -> Home {
    let home = home();
    home.workflow(&json!({
        "id": "team.scoped", "name": "Scoped", "description": "Declares, builds, hands over.", "version": "1.0.0",
        "steps": [
            { "id": "plan", "title": "Plan", "prompt": "Plan it.", "edits": { "allow": [] },
              "sets": { "changeScope": { "type": "list", "description": "The files that change." } } },
            { "id": "build", "title": "Build", "prompt": "Build it.",
              "edits": { "allow": ["docs/**"], "scope": "changeScope" } },
            { "id": "handoff", "title": "Hand over", "prompt": "Hand over.",
              "outputContract": { "contractRef": "wr.contracts.coding_handoff" } },
        ],
    }));
    home
}

fn send(client: &mut McpClient, at: &ToolReply, context: Value) -> ToolReply {
    let ack = at.string("ackToken");
    client.call(
        "continue_workflow",
        json!({ "ackToken": ack, "output": { "notesMarkdown": "Did it." }, "context": context }),
    )
}

/// The build step of a run whose scope is `src`.
fn building(home: &Home, client: &mut McpClient, mode: &str) -> ToolReply {
    let first = start_of(home, client, "team.scoped", mode);
    let build = send(client, &first, json!({ "changeScope": ["src"] }));
    assert_eq!(build.step(), "build", "{}", build.data);
    build
}

#[test]
fn files_outside_the_declared_scope_block_until_they_are_undone_or_declared() {
    let home = scoped();
    let mut client = home.client();
    let build = building(&home, &mut client, "guided");
    let told = build.string("text");
    let scope = told.lines().find(|line| line.starts_with("**Scope:**")).unwrap();
    insta::assert_snapshot!("scope_in_the_step", scope);

    edit(&home, "src/tool.rs", "fn main() {}\n");
    edit(&home, "docs/plan.md", "The plan.\n");
    edit(&home, "Makefile", "all:\n");
    let blocked = send(&mut client, &build, json!({}));
    let blocker = &blocked.data["blockers"][0];
    assert_eq!(blocker["code"], "SCOPE_EXCEEDED", "{}", blocked.data);
    insta::assert_snapshot!("scope_exceeded", blocker["message"].as_str().unwrap());

    let handoff = send(&mut client, &blocked, json!({ "changeScope": ["src", "Makefile"] }));
    assert_eq!(handoff.step(), "handoff", "{}", handoff.data);
    let report = home.done(&["report", &build.label(), "--format", "json"]).json();
    let attempt = &report["runs"][0]["nodes"][1]["attempts"][0];
    assert_eq!(attempt["outcome"]["blockers"][0]["code"], "SCOPE_EXCEEDED", "{attempt}");
    let checked = attempt["evidence"][0].clone();
    assert_eq!(checked["grade"], "checked");
    assert!(checked["summary"].as_str().unwrap().contains("Makefile"), "{checked}");
}

#[test]
fn never_stop_records_the_exceeded_scope_as_a_gap() {
    let home = scoped();
    let mut client = home.client();
    let mut at = building(&home, &mut client, "full_auto_never_stop");
    edit(&home, "Makefile", "all:\n");
    for _ in 0..2 {
        at = send(&mut client, &at, json!({}));
        assert_eq!(at.data["blockers"][0]["code"], "SCOPE_EXCEEDED", "{}", at.data);
    }
    let handoff = send(&mut client, &at, json!({}));
    assert_eq!(handoff.step(), "handoff", "{}", handoff.data);
    let report = home.done(&["report", &handoff.label(), "--format", "json"]).json();
    let gap = &report["runs"][0]["gaps"][0];
    assert_eq!(gap["reason"]["detail"], "scope_exceeded", "{gap}");
    assert_eq!(gap["severity"], "critical");
}

/// G124: a handoff's statement about files is compared with the repository.
#[test]
fn a_handoff_that_names_other_files_is_contradicted() {
    let home = scoped();
    let mut client = home.client();
    let build = building(&home, &mut client, "guided");
    edit(&home, "src/tool.rs", "fn main() {}\n");
    let handoff = send(&mut client, &build, json!({}));
    let artifact = json!({
        "kind": "wr.coding_handoff", "version": 1, "keyDecisions": [], "knownLimitations": [], "testsAdded": [],
        "filesChanged": ["src/other.rs"],
    });
    let output = json!({ "notesMarkdown": "Done.", "artifacts": [artifact] });
    let done =
        client.call("continue_workflow", json!({ "ackToken": handoff.string("ackToken"), "output": output }));
    assert_eq!(done.data["isComplete"], true, "{}", done.data);
    let warnings = done.data["warnings"].as_array().unwrap().iter();
    let said: Vec<&str> = warnings
        .filter(|warning| warning["code"] == "CLAIM_CONTRADICTED")
        .map(|warning| warning["message"].as_str().unwrap())
        .collect();
    insta::assert_snapshot!("handoff_contradicted", said.join("\n"));
}
