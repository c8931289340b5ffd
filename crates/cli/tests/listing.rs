//! `workrail session list` through the real binary: the runs of one repository, and a readable part of many runs.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::large_store::SessionTemplate;
use workrail_testkit::mcp_client::McpClient;

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A repository with its own commit, which distinguishes it from others.
fn repository(home: &Home, name: &str) -> PathBuf {
    let folder = home.root().join(name);
    std::fs::create_dir_all(folder.join("src")).unwrap();
    home.git(&folder, &["init", "--quiet"]);
    home.git(&folder, &["commit", "--quiet", "--allow-empty", "--message", name]);
    folder
}

fn start(client: &mut McpClient, goal: &str, folder: &Path) {
    let arguments = json!({ "workflowId": "wr.small_change", "goal": goal, "workspacePath": folder });
    let started = client.call("start_workflow", arguments);
    assert_eq!(started.data["kind"], "ok", "{}", started.text);
}

#[test]
fn only_the_runs_of_the_folders_repository_are_listed() {
    let home = Home::new(PROGRAM);
    let (kettle, teapot) = (repository(&home, "kettle"), repository(&home, "teapot"));
    let mut client = home.client();
    start(&mut client, "repair the kettle", &kettle);
    start(&mut client, "repair the teapot", &teapot);
    start(&mut client, "repair the lid of the kettle", &kettle.join("src"));
    client.close();
    let goals = |arguments: &[&str], folder: &Path| -> Vec<String> {
        let mut command = home.command(&[&["session", "list", "--json"], arguments].concat());
        let ran = command.current_dir(folder).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        let list: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let mut goals: Vec<String> = list["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["goal"].as_str().unwrap().to_owned())
            .collect();
        goals.sort();
        goals
    };
    let of_kettle = ["repair the kettle", "repair the lid of the kettle"];
    assert_eq!(goals(&["--workspace", kettle.to_str().unwrap()], &teapot), of_kettle);
    assert_eq!(goals(&["--workspace"], &kettle), of_kettle, "the folder at hand");
    assert_eq!(goals(&["--workspace", "src"], &kettle), of_kettle, "a folder inside");
    assert_eq!(goals(&["--workspace", "."], &teapot), ["repair the teapot"]);
    assert_eq!(goals(&[], &teapot).len(), 3, "without the filter all of them");
    let outside = home.run(&["session", "list", "--workspace"]);
    assert_eq!(outside.code, 2, "the project is no repository: {outside:?}");
    assert_text(&home, "list_of_a_folder_outside_repositories", &outside.err);
}

#[test]
fn a_run_started_inside_another_is_listed_below_it() {
    let home = Home::new(PROGRAM);
    let mut client = home.client();
    let outer = client.call("start_workflow", json!({ "workflowId": "wr.small_change", "goal": "outer" }));
    let parent = outer.string("ackToken");
    let nested = json!({ "workflowId": "wr.small_change", "goal": "inner", "parent": parent });
    let inner = client.call("start_workflow", nested);
    start(&mut client, "outside both", &home.project());
    client.close();
    let expected = [outer.label(), format!("└ {}", inner.label())];
    for command in [&["session", "list"][..], &["status"]] {
        let text = home.done(command).out;
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.starts_with(&expected[0])).unwrap();
        assert!(lines[at + 1].starts_with(&expected[1]), "{command:?}: {text}");
    }
}

fn rows(list: &Value) -> &Vec<Value> {
    list["runs"].as_array().unwrap()
}

/// More runs in progress than a short list shows, all of them in the index.
fn many_runs() -> Home {
    let home = Home::new(PROGRAM);
    let mut client = home.client();
    start(&mut client, "repair kettle oooo", &home.project());
    SessionTemplate::of(&home.data()).multiply(&home.data(), 519, "oooo");
    client.call("resume_session", json!({}));
    client.close();
    home
}

#[test]
fn of_many_runs_the_newest_are_listed_and_the_rest_counted() {
    let home = many_runs();
    let list = home.done(&["session", "list", "--json"]).json();
    assert_eq!((rows(&list).len(), &list["leftOut"], &list["sessions"]), (500, &json!(20), &json!(520)));
    let whole = home.done(&["session", "list", "--all", "--json"]).json();
    assert_eq!((rows(&whole).len(), &whole["leftOut"]), (520, &json!(0)));
    assert_eq!(rows(&whole)[..500], rows(&list)[..], "the first of all of them");
    let text = home.done(&["session", "list"]).out;
    // A heading, the rows, and two lines that each follow an empty one.
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[502]), (505, "Not listed: 20 more; --all lists them."));
    let five = home.done(&["session", "list", "--limit", "5", "--json"]).json();
    assert_eq!((rows(&five), &five["leftOut"]), (&rows(&list)[..5].to_vec(), &json!(515)));
    let named = home.done(&["session", "list", "--workflow", "small_change", "--json"]).json();
    assert_eq!(rows(&named).len(), 520, "a narrowed list is whole");
}

/// The manifest is unchanged, so only the segments show it.
#[test]
fn a_damaged_segment_is_reported_however_the_list_is_narrowed() {
    let home = many_runs();
    let list = home.done(&["session", "list", "--json"]).json();
    let damage = |row: usize| {
        let session = rows(&list)[row]["sessionId"].as_str().unwrap().to_owned();
        let events = home.data().join("sessions").join(&session).join("events");
        let segment = std::fs::read_dir(events).unwrap().next().unwrap().unwrap().path();
        std::fs::write(segment, "{}\n").unwrap();
        session
    };
    let mut expected = [damage(0), damage(499)];
    expected.sort();
    for narrowed in
        [&[][..], &["--all"], &["--limit", "1"], &["--workflow", "nobodys"], &["--status", "finished"]]
    {
        let list = home.done(&[&["session", "list", "--json"], narrowed].concat()).json();
        let damaged: Vec<&str> = list["damaged"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["sessionId"].as_str().unwrap())
            .collect();
        assert_eq!(damaged, expected, "{narrowed:?}");
        let is_listed = |row: &Value| expected.iter().any(|session| row["sessionId"] == json!(session));
        assert!(!rows(&list).iter().any(is_listed), "{narrowed:?}");
    }
    let list = home.done(&["session", "list", "--json"]).json();
    assert_eq!((rows(&list).len(), &list["leftOut"], &list["sessions"]), (500, &json!(18), &json!(520)));
    let status = home.done(&["status", "--json"]).json();
    assert_eq!(status["damaged"].as_array().unwrap().len(), 2, "{status}");
}
