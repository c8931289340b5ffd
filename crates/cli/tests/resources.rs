//! The record of a run as MCP resources, through the real server (G56).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::McpClient;

use wording::assert_text;

fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    let step = |id: &str| json!({ "id": id, "title": format!("Do {id}"), "prompt": "Do it." });
    home.workflow(&json!({
        "id": "team.flow", "name": "Flow", "version": "1.0.0", "description": "A test.",
        "steps": [step("plan"), step("build"), step("report")],
    }));
    home
}

/// A run at its second step; returns its label.
fn run(client: &mut McpClient) -> String {
    let arguments =
        json!({ "workflowId": "team.flow", "goal": "attach the record", "context": { "size": "small" } });
    let started = client.call("start_workflow", arguments);
    let output =
        json!({ "notesMarkdown": "The plan is short.", "artifacts": [{ "kind": "team.plan", "files": 2 }] });
    let next =
        client.call("continue_workflow", json!({ "ackToken": started.string("ackToken"), "output": output }));
    assert!(!next.is_error, "{}", next.text);
    next.data["run"]["label"].as_str().unwrap().to_owned()
}

fn read(client: &mut McpClient, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri }))
}

fn text(client: &mut McpClient, uri: &str) -> String {
    let answer = read(client, uri);
    let contents = &answer["result"]["contents"][0];
    assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!(uri), &json!("text/markdown")), "{answer}");
    contents["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_runs_record_is_listed_and_read_as_resources() {
    let home = home();
    let mut client = home.client();
    let label = run(&mut client);
    let base = format!("workrail://run/{label}");
    let listed = client.request("resources/list", json!({}));
    let listed: Vec<&str> = listed["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap())
        .collect();
    let parts = ["", "/notes", "/context", "/step/1"].map(|part| format!("{base}{part}"));
    assert_eq!(listed, parts);
    for uri in &parts {
        assert!(text(&mut client, uri).contains(&label), "{uri}");
    }
    for (name, part) in
        [("overview", ""), ("step", "/step/plan"), ("notes", "/notes"), ("context", "/context")]
    {
        let shown = text(&mut client, &format!("{base}{part}"));
        assert_text(&home, &format!("resource_{name}"), &shown);
    }

    let templates = client.request("resources/templates/list", json!({}));
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap();
    let steps = json!("workrail://run/{run}/step/{step}");
    assert!(templates.iter().any(|template| template["uriTemplate"] == steps), "{templates:?}");
    client.close();
}

/// What is read as a resource is as harmless as in a tool's result (G76).
#[test]
fn recorded_text_is_harmless_as_a_resource() {
    let home = home();
    let mut client = home.client();
    let arguments = json!({ "workflowId": "team.flow", "goal": "red \u{1b}[31m goal" });
    let started = client.call("start_workflow", arguments);
    let output = json!({ "notesMarkdown": "A note that rings \u{7} and turns \u{202e} around." });
    let next =
        client.call("continue_workflow", json!({ "ackToken": started.string("ackToken"), "output": output }));
    assert!(!next.is_error, "{}", next.text);
    let base = format!("workrail://run/{}", next.label());
    for part in ["", "/notes"] {
        let shown = text(&mut client, &format!("{base}{part}"));
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown:?}");
    }
    let listed = client.request("resources/list", json!({}));
    let resources = listed["result"]["resources"].as_array().unwrap();
    for resource in resources {
        let description = resource["description"].as_str().unwrap();
        assert!(!description.contains('\u{1b}'), "{description:?}");
    }
    client.close();
}

#[test]
fn a_missing_resource_is_reported_and_reading_changes_nothing() {
    let home = home();
    let mut client = home.client();
    let label = run(&mut client);
    let events = || home.done(&["log", &label, "--json"]).json()["events"].as_array().unwrap().len();
    let before = events();
    for uri in [
        "workrail://run/amber-nobody".to_owned(),
        format!("workrail://run/{label}/step/99"),
        format!("workrail://run/{label}/secrets"),
        "file:///etc/passwd".to_owned(),
    ] {
        let answer = read(&mut client, &uri);
        assert_eq!(answer["error"]["code"], -32002, "{uri}: {answer}");
        assert_eq!(answer["error"]["data"]["uri"], json!(uri), "{answer}");
        let next = &answer["error"]["data"]["error"]["nextCall"];
        match &*uri {
            "workrail://run/amber-nobody" => assert_eq!(next["tool"], "resume_session", "{answer}"),
            step if step.ends_with("/step/99") => {
                assert_eq!(next, &json!({ "tool": "read_run", "arguments": { "run": label } }), "{answer}");
            }
            _ => assert_eq!(next, &Value::Null, "no run is named: {answer}"),
        }
    }
    text(&mut client, &format!("workrail://run/{label}"));
    assert_eq!(events(), before);
    client.close();
}
