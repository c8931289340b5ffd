//! `workrail compare` through the real program: what is aligned, which side continues, and what is never shown (G99).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::fs;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use wording::assert_text;

fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Two rounds, then a report.", "version": "1.0.0",
        "steps": [
            { "id": "plan", "title": "Plan", "prompt": "Plan it." },
            { "id": "rounds", "type": "loop", "title": "Rounds", "loop": { "type": "for", "count": 2, "maxIterations": 2 },
              "body": [{ "id": "work", "title": "Work", "prompt": "Work." }] },
            { "id": "report", "title": "Report", "prompt": "Report." },
        ],
    }));
    home
}

fn begin(client: &mut McpClient) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "the retry budget" }))
}

fn complete(client: &mut McpClient, reply: &ToolReply, output: Value) -> ToolReply {
    let done =
        client.call("continue_workflow", json!({ "ackToken": reply.string("ackToken"), "output": output }));
    assert!(!done.is_error, "{}", done.text);
    done
}

fn notes(text: &str) -> Value {
    json!({ "notesMarkdown": text })
}

fn label(reply: &ToolReply) -> String {
    reply.data["run"]["label"].as_str().unwrap().to_owned()
}

fn compared(home: &Home, a: &str, b: &str) -> Value {
    home.done(&["compare", a, b, "--json"]).json()
}

/// The name of each step and how the two sides relate.
fn steps(comparison: &Value) -> Vec<String> {
    let all = comparison["steps"].as_array().unwrap().iter();
    all.map(|step| format!("{} {}", step["title"].as_str().unwrap(), step["difference"].as_str().unwrap()))
        .collect()
}

/// Two branches that diverge at the second step.
fn forked(client: &mut McpClient) -> (ToolReply, ToolReply) {
    let first = begin(client);
    let second = complete(client, &first, notes("One plan."));
    let other = complete(client, &second, notes("Work of the first branch."));
    let again = client.call("continue_workflow", json!({ "stateToken": second.string("stateToken") }));
    let current = complete(client, &again, notes("Work of the second branch."));
    (current, other)
}

#[test]
fn the_suggested_call_makes_the_other_branch_current() {
    let home = home();
    let mut client = home.client();
    let (current, _) = forked(&mut client);
    let run = label(&current);
    let before = compared(&home, &run, "@b");
    assert_eq!(before["continues"], "a");
    assert_eq!(before["a"]["continuation"], "current");
    assert_eq!(before["b"]["continuation"], "other_branch");
    assert_eq!(steps(&before), ["Plan shared", "Work (rounds 1 of 2) differs", "Work (rounds 2 of 2) same"]);
    let lines = json!([
        { "in": "a", "text": "Work of the second branch." }, { "in": "b", "text": "Work of the first branch." },
    ]);
    assert_eq!(before["steps"][1]["notes"], lines);
    let call = &before["b"]["nextCall"];
    assert_eq!(call["tool"], "continue_workflow");
    let looked = client.call("continue_workflow", call["arguments"].clone());
    complete(&mut client, &looked, notes("The first branch continues."));
    let after = compared(&home, &run, "@b");
    assert_eq!(after["continues"], "a");
    assert_eq!(after["counts"], json!({ "shared": 1, "same": 0, "different": 2, "onlyA": 1, "onlyB": 0 }));
    let swapped = compared(&home, &format!("{run}@b"), &run);
    assert_eq!(swapped["continues"], "b");
    assert_eq!(swapped["counts"], json!({ "shared": 1, "same": 0, "different": 2, "onlyA": 0, "onlyB": 1 }));
}

#[test]
fn runs_are_aligned_by_step_and_iteration() {
    let home = home();
    let mut client = home.client();
    let mut short = begin(&mut client);
    short = complete(&mut client, &short, notes("The same plan."));
    let mut long = begin(&mut client);
    for text in ["The same plan.", "Round one.", "Round two."] {
        long = complete(&mut client, &long, notes(text));
    }
    let found = compared(&home, &label(&short), &label(&long));
    let expected =
        ["Plan same", "Work (rounds 1 of 2) differs", "Work (rounds 2 of 2) only_b", "Report only_b"];
    assert_eq!(steps(&found), expected);
    assert_eq!(found["continues"], "both");
    assert_eq!(found["a"]["completed"], 1);
    assert_eq!(found["b"]["completed"], 3);
}

#[test]
fn a_finished_run_suggests_no_call() {
    let home = home();
    let mut client = home.client();
    let mut done = begin(&mut client);
    for text in ["Plan.", "One.", "Two.", "Report."] {
        done = complete(&mut client, &done, notes(text));
    }
    let open = begin(&mut client);
    let found = compared(&home, &label(&done), &label(&open));
    assert_eq!(found["continues"], "b");
    assert_eq!(found["a"]["continuation"], "nothing");
    assert_eq!(found["a"].get("nextCall"), None);
    assert_eq!(found["why"][0], format!("A: run {} is complete.", label(&done)));
}

#[test]
fn artifacts_differ_field_by_field_and_secrets_stay_hidden() {
    let home = home();
    let mut client = home.client();
    let mut submit = |severity: &str, token: &str| {
        let first = begin(&mut client);
        let output = json!({
            "notesMarkdown": "The plan.",
            "artifacts": [{ "kind": "team.risk", "items": [{ "severity": severity }, { "severity": "low" }] }],
        });
        let context = json!({ "deploy_token": token, "region": severity });
        let arguments = json!({ "ackToken": first.string("ackToken"), "output": output, "context": context });
        let done = client.call("continue_workflow", arguments);
        assert!(!done.is_error, "{}", done.text);
        label(&done)
    };
    let (a, b) = (submit("high", "hunter-one"), submit("none", "hunter-two"));
    let text = home.done(&["compare", &a, &b, "--context", "--json"]).out;
    assert!(!text.contains("hunter"), "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let fields = json!([{ "path": "items[0].severity", "a": "high", "b": "none" }]);
    assert_eq!(found["steps"][0]["artifacts"][0]["fields"], fields);
    let context = found["context"].as_array().unwrap();
    let told: Vec<_> = context.iter().map(|own| (own["key"].as_str().unwrap(), &own["a"]["kind"])).collect();
    assert_eq!(told, [("deploy_token", &json!("withheld")), ("region", &json!("shown"))]);
    let quiet = home.done(&["compare", &a, &b, "--context"]).out;
    // The facts about the runs come first. Runs of equal duration share lines there, others do not.
    let differences: Vec<&str> = quiet.split("\n\n").skip(2).collect();
    assert_text(&home, "compare_withheld_context", &differences.join("\n\n"));
}

#[test]
fn a_damaged_session_is_compared_up_to_the_damage() {
    let home = home();
    let mut client = home.client();
    let (current, _) = forked(&mut client);
    client.close();
    let session = current.data["run"]["sessionId"].as_str().unwrap();
    let folder = home.data().join(format!("sessions/{session}/events"));
    let mut segments: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let mut bytes = fs::read(segments.last().unwrap()).unwrap();
    bytes[10] ^= 1;
    fs::write(segments.last().unwrap(), bytes).unwrap();
    let found = compared(&home, &label(&current), "@..1");
    assert_eq!(found["a"]["health"]["health"], "corrupt_tail");
    assert_eq!(found["a"].get("nextCall"), None);
    let text = home.done(&["compare", &label(&current), "@..1"]).out;
    assert_text(&home, "compare_with_a_damaged_session", &text);
}

#[test]
fn an_agents_text_cannot_control_the_terminal() {
    let home = home();
    let mut client = home.client();
    let own = begin(&mut client);
    let own = complete(&mut client, &own, notes("\u{1b}]0;owned\u{7} \u{202e}reversed"));
    let other = begin(&mut client);
    let text = home.done(&["compare", &label(&own), &label(&other)]).out;
    assert_text(&home, "compare_hostile_notes", &text);
}

#[test]
fn a_reference_to_a_point_is_accepted() {
    let home = home();
    let mut client = home.client();
    let (current, _) = forked(&mut client);
    let tree = home.done(&["tree", &label(&current), "--json"]).json();
    let link = |point: &str| {
        let nodes = tree["runs"][0]["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["point"] == point).unwrap()["link"].as_str().unwrap().to_owned()
    };
    let found = compared(&home, &link("3"), &link("3b"));
    assert_eq!(found["a"]["reference"], format!("{}@3", label(&current)));
    assert_eq!(found["b"]["what"]["kind"], "point");
    assert_eq!(steps(&found), ["Work (rounds 2 of 2) same"]);
}
