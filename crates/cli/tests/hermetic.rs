//! No test sees anything of the developer who runs it: settings, workflows, sessions.

use std::process::Command;

use serde_json::json;
use workrail_testkit::home::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
/// Set in the process that runs with the developer's environment.
const INSIDE: &str = "WORKRAIL_TEST_INSIDE";

/// A developer with workflows in every place that the program searches, and with their own settings and mode.
fn developer() -> Home {
    let developer = Home::new(PROGRAM);
    let workflow = |id: &str| {
        let steps = json!([{ "id": "a", "title": "A", "prompt": "Do a." }]);
        json!({ "id": id, "name": id, "description": "Planted.", "version": "1.0.0", "steps": steps })
    };
    developer.workflow(&workflow("planted.variable"));
    let own = developer.home().join(".workrail/workflows/own.json");
    developer.write(&own, &workflow("planted.home").to_string());
    let project = developer.project().join("workflows/project.json");
    developer.write(&project, &workflow("planted.project").to_string());
    developer.write(&developer.config(), "[retention]\nttl_days = 7\n");
    developer.with("WORKRAIL_DEFAULT_MODE", "full_auto_never_stop").with(INSIDE, "yes")
}

/// Which of the developer's things a home shows.
fn seen(home: &Home) -> Vec<&'static str> {
    let mut client = home.client();
    let started = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let texts = [
        home.done(&["workflow", "list", "--json"]).out,
        home.typed(&["workflow", "list"], "").out,
        home.done(&["config", "get", "retention.ttl_days"]).out,
        home.typed(&["config", "get", "retention.ttl_days"], "").out,
        client.call("list_workflows", json!({})).raw,
        started.data["preferences"]["autonomy"].to_string(),
    ];
    let marks = ["planted.variable", "planted.home", "planted.project", "7\n", "7\r\n", "full_auto"];
    marks.into_iter().filter(|mark| texts.iter().any(|text| text.contains(mark))).collect()
}

#[test]
fn what_the_developer_has_is_not_seen_by_a_test() {
    if std::env::var_os(INSIDE).is_some() {
        assert_eq!(seen(&Home::new(PROGRAM)), <[&str; 0]>::default());
        return;
    }
    let developer = developer();
    assert_eq!(seen(&developer).len(), 6, "a program with the developer's environment sees all of it");
    // The same test again, in a process with the developer's environment.
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "what_the_developer_has_is_not_seen_by_a_test"]);
    let ended = again.envs(developer.variables()).current_dir(developer.project()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}
