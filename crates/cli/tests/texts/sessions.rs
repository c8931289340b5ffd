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
    stage.fits(&["session", "list"], 80);
    stage.fits(&["session", "list"], 60);
    let empty = Stage::new();
    empty.say_both(&["session", "list"]);
    empty.compare("session_list_empty");
}

#[test]
fn list_with_filters() {
    let (stage, finished, open) = with_a_finished_and_an_open_run();
    let mut client = stage.server();
    let parent =
        client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "split the module" }));
    stage.name(&parent, "outer run");
    let inner = client.call(
        "start_workflow",
        json!({ "workflowId": "team.report", "goal": "write it down", "parent": parent.string("stateToken") }),
    );
    stage.name(&inner, "inner run");
    client.close();
    stage.home().done(&["session", "keep", &finished]);
    stage.home().done(&["close", &open, "--reason", "the outage explains itself"]);
    stage.say(&["session", "list"]);
    stage.say(&["session", "list", "--status", "running"]);
    stage.say(&["session", "list", "--status", "finished", "--status", "closed"]);
    stage.say(&["session", "list", "--status", "needs-me"]);
    stage.say(&["session", "list", "--workflow", "report", "--limit", "1"]);
    stage.say(&["session", "list", "--since", "1h", "--status", "closed", "--json"]);
    stage.say(&["session", "list", "--since", "2999-01-01"]);
    stage.say(&["session", "list", "--since", "lately"]);
    stage.say(&["session", "list", "--workspace"]);
    stage.compare("session_list_with_filters");
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
fn purge() {
    let stage = Stage::new();
    let mut client = stage.server();
    let leaking = |client: &mut workrail_testkit::mcp_client::McpClient, name: &str| {
        let goal = "rotate the key hunter2";
        let first = client.call("start_workflow", json!({ "workflowId": "team.change", "goal": goal }));
        stage.name(&first, name)
    };
    let first = leaking(&mut client, "leaking run");
    let second = leaking(&mut client, "other run");
    client.until_indexed();
    client.close();
    stage.say(&["session", "purge", &first, "--text", "hunter3"]);
    stage.say_both(&["session", "purge", &first, "--text", "hunter2"]);
    stage.type_line(&["session", "purge", &first, "--text", "hunter2"], "yes");
    stage.say(&["session", "purge", &first, "--text", "hunter2", "--yes"]);
    stage.say(&["session", "purge", &second, "--text", "hunter2", "--yes", "--json"]);
    stage.say(&["session", "purge", "no-such", "--text", "hunter2"]);
    stage.say(&["session", "purge", &second, "--text", "h"]);
    stage.compare("session_purge");
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
