//! `workrail session list --workspace` through the real binary: only the runs of one repository.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::McpClient;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A repository with a commit of its own: that is what tells it from others.
fn repository(home: &Home, name: &str) -> PathBuf {
    let folder = home.root().join(name);
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(words);
        let ran = git.current_dir(&folder).env("HOME", home.home()).output().unwrap();
        assert!(ran.status.success(), "{words:?}: {ran:?}");
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", name]);
    folder
}

fn start(client: &mut McpClient, goal: &str, folder: &Path) {
    let arguments = json!({ "workflowId": "wr.small_change", "goal": goal, "workspacePath": folder });
    let started = client.call("start_workflow", arguments);
    assert_eq!(started.structured["kind"], "ok", "{}", started.text);
}

#[test]
fn only_the_runs_of_a_folders_repository_are_listed() {
    let home = Home::new(PROGRAM);
    let (kettle, teapot) = (repository(&home, "kettle"), repository(&home, "teapot"));
    let mut client = home.client();
    start(&mut client, "mend the kettle", &kettle);
    start(&mut client, "mend the teapot", &teapot);
    start(&mut client, "mend the lid of the kettle", &kettle.join("src"));
    client.close();
    let goals = |arguments: &[&str], folder: &Path| -> Vec<String> {
        let mut command = home.command(&[&["session", "list", "--json"], arguments].concat());
        let ran = command.current_dir(folder).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        let list: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        let mut goals: Vec<String> = list["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["goal"].as_str().unwrap().to_owned())
            .collect();
        goals.sort();
        goals
    };
    let of_kettle = ["mend the kettle", "mend the lid of the kettle"];
    assert_eq!(goals(&["--workspace", kettle.to_str().unwrap()], &teapot), of_kettle);
    assert_eq!(goals(&["--workspace"], &kettle), of_kettle, "the folder at hand");
    assert_eq!(goals(&["--workspace", "src"], &kettle), of_kettle, "a folder inside");
    assert_eq!(goals(&["--workspace", "."], &teapot), ["mend the teapot"]);
    assert_eq!(goals(&[], &teapot).len(), 3, "without the filter all of them");
    let outside = home.run(&["session", "list", "--workspace"]);
    assert_eq!(outside.code, 2, "the project is no repository: {outside:?}");
    assert!(outside.err.contains("is not in a git repository"), "{}", outside.err);
}
