//! Commands about sessions.

use serde_json::json;

use crate::stage::Stage;

fn with_a_finished_and_an_open_run() -> (Stage, String, String) {
    let stage = Stage::new();
    let mut client = stage.server();
    let first = client
        .call("start_workflow", json!({ "workflowId": "team.change", "goal": "give retries a budget" }));
    let finished = stage.name(&first, "finished run");
    let second = Stage::follow(&mut client, &first);
    Stage::follow(&mut client, &second);
    let open =
        client.call("start_workflow", json!({ "workflowId": "team.report", "goal": "explain the outage" }));
    let open = stage.name(&open, "open run");
    client.close();
    (stage, finished, open)
}

#[test]
fn list() {
    let (stage, _, _) = with_a_finished_and_an_open_run();
    stage.say_both(&["session", "list"]);
    stage.compare("session_list");
    let empty = Stage::new();
    empty.say_both(&["session", "list"]);
    empty.compare("session_list_empty");
}

#[test]
fn keep_and_delete() {
    let (stage, finished, open) = with_a_finished_and_an_open_run();
    stage.say_both(&["session", "keep", &finished]);
    stage.say(&["session", "delete", &finished, "--yes"]);
    stage.say_both(&["session", "unkeep", &finished]);
    stage.say(&["session", "delete", &open]);
    stage.say(&["session", "delete", &open, "--yes"]);
    stage.say(&["session", "delete", &finished, "--yes", "--json"]);
    stage.compare("session_keep_and_delete");
}

#[test]
fn export_and_import() {
    let (stage, finished, open) = with_a_finished_and_an_open_run();
    stage.say(&["session", "export", &finished, "-o", "work.json"]);
    stage.say(&["session", "export", &open, "-o", "open.json", "--redact", "--json"]);
    stage.say(&["session", "export", &finished, "-o", "work.json"]);
    stage.say_both(&["session", "import", "work.json", "--dry-run"]);
    stage.say(&["session", "import", "work.json"]);
    stage.say(&["session", "import", "missing.json"]);
    stage.compare("session_export_and_import");
}

#[test]
fn preferences() {
    let (stage, _, open) = with_a_finished_and_an_open_run();
    stage.say_both(&["session", "prefs", "show"]);
    stage.say_both(&["session", "prefs", "show", "--session", &open]);
    stage.say_both(&["session", "prefs", "set", "risk_policy=balanced", "--session", &open]);
    stage.say(&["session", "prefs", "set", "full_auto_never_stop", "--session", &open]);
    stage.say(&["session", "prefs", "set", "bold"]);
    stage.compare("session_prefs");
}
