//! Every kind of reply that an agent gets.

use serde_json::json;

use crate::stage::Stage;

#[test]
fn discovery() {
    let stage = Stage::new();
    let mut client = stage.server();
    stage.call(&mut client, "list_workflows", json!({ "query": "release" }));
    stage.call(&mut client, "list_workflows", json!({ "query": "nothing-like-this" }));
    stage.call(&mut client, "inspect_workflow", json!({ "workflowId": "team.release" }));
    stage.call(&mut client, "inspect_workflow", json!({ "workflowId": "team.release", "mode": "metadata" }));
    stage.call(&mut client, "inspect_workflow", json!({ "workflowId": "team.relase" }));
    stage.compare("reply_discovery");
}

#[test]
fn a_whole_run() {
    let stage = Stage::new();
    let mut client = stage.server();
    let first = stage.call(
        &mut client,
        "start_workflow",
        json!({ "workflowId": "team.change", "goal": "give retries a budget" }),
    );
    stage.name(&first, "run");
    let state = json!({ "stateToken": first.string("stateToken") });
    stage.call(&mut client, "continue_workflow", state);
    let ack = json!({
        "ackToken": first.string("ackToken"),
        "output": { "notesMarkdown": "Retries now stop after three attempts." },
    });
    let second = stage.call(&mut client, "continue_workflow", ack.clone());
    stage.call(&mut client, "continue_workflow", ack);
    let checkpoint = json!({
        "checkpointToken": second.string("checkpointToken"), "output": { "notesMarkdown": "Two of five suites pass." },
    });
    stage.call(&mut client, "checkpoint_workflow", checkpoint);
    let last = json!({
        "ackToken": second.string("ackToken"), "output": { "notesMarkdown": "All suites pass." },
    });
    stage.call(&mut client, "continue_workflow", last);
    stage.compare("reply_whole_run");
}

#[test]
fn a_branch_and_a_resumed_chat() {
    let stage = Stage::new();
    let mut client = stage.server();
    let first = client
        .call("start_workflow", json!({ "workflowId": "team.change", "goal": "give retries a budget" }));
    stage.name(&first, "run");
    let notes =
        |text: &str| json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": text } });
    client.call("continue_workflow", notes("Retries now stop after three attempts."));
    stage.call(&mut client, "continue_workflow", notes("Retries now stop after ten seconds."));
    let looked =
        stage.call(&mut client, "continue_workflow", json!({ "stateToken": first.string("stateToken") }));
    let again = json!({
        "ackToken": looked.string("ackToken"),
        "output": { "notesMarkdown": "Retries now stop after ten seconds." },
    });
    stage.call(&mut client, "continue_workflow", again);
    stage.call(&mut client, "resume_session", json!({ "query": "retries budget" }));
    stage.call(&mut client, "resume_session", json!({ "query": "unrelated words" }));
    stage.compare("reply_branch_and_resume");
}

#[test]
fn a_blocked_step_and_an_approval() {
    let stage = Stage::new();
    let mut client = stage.server();
    let report =
        client.call("start_workflow", json!({ "workflowId": "team.report", "goal": "explain the outage" }));
    stage.name(&report, "report run");
    let ack =
        json!({ "ackToken": report.string("ackToken"), "output": { "notesMarkdown": "It was the cache." } });
    let blocked = stage.call(&mut client, "continue_workflow", ack);
    let better = json!({
        "ackToken": blocked.string("ackToken"), "output": { "notesMarkdown": "It was the cache. Sources: the log." },
    });
    stage.call(&mut client, "continue_workflow", better);
    let gated = stage.call(
        &mut client,
        "start_workflow",
        json!({ "workflowId": "team.release", "goal": "publish 2.0" }),
    );
    stage.name(&gated, "release run");
    let ack = json!({ "ackToken": gated.string("ackToken"), "output": { "notesMarkdown": "Published to the registry." } });
    stage.call(&mut client, "continue_workflow", ack);
    stage.compare("reply_blocked_and_approval");
}

#[test]
fn wrong_calls() {
    let stage = Stage::new();
    let mut client = stage.server();
    let first = client
        .call("start_workflow", json!({ "workflowId": "team.change", "goal": "give retries a budget" }));
    stage.name(&first, "run");
    stage.call(&mut client, "start_workflow", json!({ "workflow": "team.change" }));
    stage.call(&mut client, "start_workflow", json!({ "workflowId": "team.chang" }));
    stage.call(&mut client, "continue_workflow", json!({}));
    stage.call(&mut client, "continue_workflow", json!({ "ackToken": "hello" }));
    stage.call(&mut client, "continue_workflow", json!({ "ackToken": first.string("ackToken") }));
    stage.call(
        &mut client,
        "continue_workflow",
        json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "<what you did in this step>" } }),
    );
    stage.compare("reply_wrong_calls");
}

#[test]
fn a_session_that_starts_without_a_workflow() {
    let stage = Stage::new();
    stage.home().done(&["config", "set", "tools.start_session", "true"]);
    let mut client = stage.server();
    let session = stage.call(&mut client, "start_session", json!({ "goal": "give retries a budget" }));
    let token = session.string("sessionToken");
    let notes =
        json!({ "sessionToken": token, "output": { "notesMarkdown": "Retries stop after three attempts." } });
    stage.call(&mut client, "checkpoint_workflow", notes);
    let started = stage.call(
        &mut client,
        "start_workflow",
        json!({ "workflowId": "team.change", "sessionToken": token }),
    );
    stage.name(&started, "run");
    stage.compare("reply_start_session");
}

#[test]
fn a_nested_run_and_its_way_back() {
    let stage = Stage::new();
    let mut client = stage.server();
    let outer = client
        .call("start_workflow", json!({ "workflowId": "team.change", "goal": "give retries a budget" }));
    stage.name(&outer, "outer run");
    let first = stage.call(
        &mut client,
        "start_workflow",
        json!({ "workflowId": "team.change", "goal": "measure the retries", "parent": outer.string("stateToken") }),
    );
    stage.name(&first, "inner run");
    let second = client.call("continue_workflow", first.ack("Most retries succeed at the second attempt."));
    let last = stage.call(&mut client, "continue_workflow", second.ack("Measured on a day of logs."));
    let back = &last.data["returnTo"]["nextCall"];
    stage.call(&mut client, back["tool"].as_str().unwrap(), back["arguments"].clone());
    stage.compare("reply_nested_run");
}

#[test]
fn what_is_recorded_of_a_run() {
    let stage = Stage::new();
    let mut client = stage.server();
    let first = client
        .call("start_workflow", json!({ "workflowId": "team.change", "goal": "give retries a budget" }));
    let run = stage.name(&first, "run");
    let mut ack = first.ack("Retries now stop after three attempts.");
    ack["context"] = json!({ "attemptsMax": 3 });
    client.call("continue_workflow", ack);
    for question in [
        json!({}),
        json!({ "step": "1" }),
        json!({ "step": "all" }),
        json!({ "context": true }),
        json!({ "query": "attempts" }),
        json!({ "query": "nothing-like-this" }),
    ] {
        let mut arguments = question;
        arguments["run"] = json!(run);
        stage.call(&mut client, "read_run", arguments);
    }
    stage.compare("reply_read_run");
}
