//! What needs the user, and what is running.

use serde_json::json;

use crate::stage::Stage;

/// A run that waits for an approval, one that asks a question, one that is blocked, one in progress and one that is
/// finished.
fn with_runs_of_every_kind() -> Stage {
    let stage = Stage::new();
    stage.home().workflow(&json!({
        "id": "team.deploy", "name": "A deployment", "description": "Asks where to.", "version": "1.0.0",
        "steps": [
            { "id": "target", "title": "Choose the target", "prompt": "Find out where to deploy.",
              "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "scope_boundary",
                                     "description": "Which branch is deployed?", "contextKey": "targetBranch" }] },
            { "id": "deploy", "title": "Deploy", "prompt": "Deploy it." },
        ],
    }));
    let mut client = stage.server();
    let start = |client: &mut workrail_testkit::mcp_client::McpClient, workflow: &str, goal: &str| {
        client.call("start_workflow", json!({ "workflowId": workflow, "goal": goal }))
    };
    let notes = |ack: String, text: &str| json!({ "ackToken": ack, "output": { "notesMarkdown": text } });
    let finished = start(&mut client, "team.change", "rename the timeout setting");
    stage.name(&finished, "finished run");
    let second = Stage::follow(&mut client, &finished);
    Stage::follow(&mut client, &second);
    let running = start(&mut client, "team.change", "give retries a budget");
    stage.name(&running, "running run");
    Stage::follow(&mut client, &running);
    let blocked = start(&mut client, "team.report", "explain the outage");
    stage.name(&blocked, "blocked run");
    client.call("continue_workflow", notes(blocked.string("ackToken"), "It was the cache."));
    let asking = start(&mut client, "team.deploy", "deploy the fix");
    stage.name(&asking, "asking run");
    client.call("continue_workflow", notes(asking.string("ackToken"), "Two branches could be meant."));
    let waiting =
        start(&mut client, "team.release", "publish 2.0 with the new console and all that was promised");
    stage.name(&waiting, "waiting run");
    Stage::follow(&mut client, &waiting);
    client.close();
    stage
}

#[test]
fn status() {
    let stage = with_runs_of_every_kind();
    stage.say(&["status"]);
    stage.say(&[]);
    stage.fits(&["status"], 80);
    stage.fits(&["status"], 60);
    stage.say(&["status", "--json"]);
    stage.compare("status");
}

#[test]
fn status_of_nothing() {
    let empty = Stage::new();
    empty.say_both(&["status"]);
    let mut client = empty.server();
    let only =
        client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "rename a setting" }));
    empty.name(&only, "finished run");
    let second = Stage::follow(&mut client, &only);
    Stage::follow(&mut client, &second);
    client.close();
    empty.say(&["status"]);
    empty.compare("status_of_nothing");
}
