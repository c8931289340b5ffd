//! Values and workflows designed to render gigabytes, through the real binary: refused or shortened, and the server's
//! peak memory stays close to its idle memory.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod forge;
mod wording;

use std::fs;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
const MIB: u64 = 1024 * 1024;
/// How much rendering may use beyond an idle server.
const OVER_IDLE_MAX: u64 = 64 * MIB;

/// A home with workflows that show a value many times.
fn hostile_home() -> Home {
    let home = Home::new(PROGRAM);
    let step = |id: &str, title: &str, prompt: &str| json!({ "id": id, "title": title, "prompt": prompt });
    let show = step("show", "Show {{b}}", &"{{b}}".repeat(13_000));
    let delegation = |number: u32| {
        json!({ "workflowId": "wr.other", "goal": format!("Part {number}."),
                "contextMapping": { "b": "packet" } })
    };
    let fan = json!({ "id": "fan", "type": "parallel", "title": "Fan {{b}}",
                      "parallelDelegations": (0..100).map(delegation).collect::<Vec<_>>() });
    for (id, steps) in [
        ("team.late", json!([step("begin", "Begin", "Begin."), show, step("end", "End", "End.")])),
        ("team.early", json!([show])),
        ("team.fan", json!([fan])),
    ] {
        home.workflow(
            &json!({ "id": id, "name": id, "description": "d", "version": "1.0.0", "steps": steps }),
        );
    }
    home
}

/// The peak memory of a process, in bytes.
fn peak_bytes(client: &McpClient) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", client.process_id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn start(client: &mut McpClient, workflow: &str, context: Value) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": workflow, "context": context }))
}

fn advance(client: &mut McpClient, at: &ToolReply, context: Value) -> ToolReply {
    let output = json!({ "notesMarkdown": "Did the work." });
    let call = json!({ "ackToken": at.string("ackToken"), "output": output, "context": context });
    client.call("continue_workflow", call)
}

fn large() -> Value {
    // Escaped, every character takes six bytes.
    json!([["x".repeat(150_000), "\u{1}".repeat(10_000)], vec![0; 10_000]])
}

fn names_the_variable(home: &Home, reply: &ToolReply, step: &str) {
    assert_eq!(reply.code(), "VALIDATION_ERROR", "{}", reply.text);
    assert_text(home, &format!("value_too_large_for_{step}"), &reply.string("message"));
}

/// A bundle of a run that waits at `show`, in which an attacker enlarged the recorded value.
fn enlarged(home: &Home, session: &str) -> String {
    home.done(&["session", "export", session, "-o", "bundle.json"]);
    let path = home.project().join("bundle.json");
    let mut bundle: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let set = *forge::events_of(&bundle, "context_set").last().unwrap();
    bundle["session"]["events"][set]["data"]["context"]["b"] = json!("x".repeat(200_000));
    forge::recommit(&mut bundle);
    forge::reattest(&mut bundle);
    fs::write(&path, bundle.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// G54: the size is known before anything is copied, and a recorded value never stops a run.
#[test]
fn figure_memory_of_hostile_renders() {
    let home = hostile_home();
    let mut client = home.client();
    let first = start(&mut client, "team.late", json!({}));
    let idle = peak_bytes(&client);
    for workflow in ["team.early", "team.fan"] {
        let step = if workflow == "team.fan" { "fan" } else { "show" };
        names_the_variable(&home, &start(&mut client, workflow, json!({ "b": large() })), step);
    }
    names_the_variable(&home, &advance(&mut client, &first, json!({ "b": large() })), "show");
    let shown = advance(&mut client, &first, json!({ "b": "small" }));
    assert_eq!(shown.data["run"]["stepId"], "show", "{}", shown.text);
    let while_refusing = peak_bytes(&client) - idle;
    client.close();

    // A recorded value that makes the answer too long: it is shortened, and the run can be completed.
    let session = shown.data["run"]["sessionId"].as_str().unwrap();
    let bundle = enlarged(&home, session);
    let other = hostile_home();
    other.done(&["session", "import", &bundle]);
    let mut client = other.client();
    start(&mut client, "team.late", json!({}));
    let idle = peak_bytes(&client);
    let found = client.call("resume_session", json!({ "sessionId": session }));
    let next = &found.data["nextCall"];
    let looked = client.call(next["tool"].as_str().unwrap(), next["arguments"].clone());
    assert!(!looked.is_error && looked.text.contains("NOTE: "), "{:.500}", looked.text);
    assert!(looked.text.contains("`context.b`"), "{:.500}", looked.text);
    let blocked = client.call("continue_workflow", json!({ "ackToken": looked.string("ackToken") }));
    assert_eq!(blocked.data["blockers"][0]["code"], "MISSING_REQUIRED_NOTES", "{:.500}", blocked.text);
    let last = advance(&mut client, &blocked, json!({ "b": null }));
    assert_eq!(last.data["run"]["stepId"], "end", "{:.500}", last.text);
    assert_eq!(advance(&mut client, &last, json!({})).data["isComplete"], true);
    let while_looking = peak_bytes(&client) - idle;
    client.close();
    for command in [&["report", session, "-o", "r.md"][..], &["session", "list"], &["store", "verify"]] {
        other.done(command);
    }

    println!(
        "figure: hostile renders take {} MB over an idle server when refused, {} MB when an imported run is looked at \
         and ended",
        while_refusing / MIB,
        while_looking / MIB
    );
    assert!(while_refusing < OVER_IDLE_MAX, "{while_refusing}");
    assert!(while_looking < OVER_IDLE_MAX, "{while_looking}");
}
