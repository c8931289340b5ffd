//! Follows the advice of `workrail doctor`: afterwards the finding is gone, or the command shows what to change.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};
use workrail_testkit::home::{Home, User};

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A healthy home: the program is on its path, and its data directory is private.
fn home() -> Home {
    let home = Home::new(PROGRAM);
    let programs = home.root().join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(PROGRAM, programs.join("workrail")).unwrap();
    std::fs::set_permissions(home.data(), std::fs::Permissions::from_mode(0o700)).unwrap();
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Change something.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    }));
    home.with("PATH", format!("{}:/usr/bin:/bin", programs.display()))
}

/// All findings that are not ok, each with its fix.
fn findings(home: &Home) -> Vec<(String, String)> {
    let found = home.run(&["doctor", "--json"]).json();
    let text = |own: &Value, name: &str| own[name].as_str().unwrap_or_default().to_owned();
    let unwell = found["findings"].as_array().unwrap().iter().filter(|own| own["level"] != "ok");
    unwell.map(|own| (text(own, "what"), text(own, "fix"))).collect()
}

/// The only finding.
fn only(home: &Home) -> (String, String) {
    let mut found = findings(home);
    assert_eq!(found.len(), 1, "each thing once: {found:?}");
    found.remove(0)
}

/// Types a fix into a shell, like a user who copies it.
fn typed(home: &Home, line: &str) -> i32 {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).env_clear().envs(home.variables()).current_dir(home.project());
    shell.output().unwrap().status.code().unwrap()
}

#[test]
fn a_home_without_problems_has_no_findings() {
    assert_eq!(findings(&home()), []);
}

#[test]
fn a_data_directory_that_others_can_read_is_fixed() {
    let home = home();
    std::fs::set_permissions(home.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (what, fix) = only(&home);
    assert_eq!(what, "other users of this machine can read it");
    assert_eq!(typed(&home, &fix), 0, "{fix}");
    assert_eq!(findings(&home), []);
}

#[test]
fn a_damaged_session_is_repaired_by_the_suggested_command() {
    let home = home();
    let mut client = home.client();
    let started = client.call("start_workflow", json!({ "workflowId": "team.change" }));
    client.close();
    let session = started.data["run"]["sessionId"].as_str().unwrap();
    let manifest = home.data().join("sessions").join(session).join("manifest.jsonl");
    std::fs::write(&manifest, "damaged\n").unwrap();
    let (_, fix) = only(&home);
    let planned = fix.split(" shows what can be kept").next().unwrap();
    assert_eq!(planned, format!("workrail store repair {session} --dry-run"));
    typed(&home, planned);
    assert_eq!(only(&home).1, fix, "a dry run repairs nothing");
    // Without --dry-run it asks, and accepts the session's id.
    let repaired = home.typed(&["store", "repair", session], session);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    assert_eq!(findings(&home), []);
}

#[test]
fn the_suggested_command_shows_a_files_problem_wherever_the_file_is() {
    for folder in
        ["workflows", "project/workflows", "project/.workrail/workflows", "home/.workrail/workflows"]
    {
        let home = home();
        let file = home.root().join(folder).join("broken.json");
        home.write(&file, r#"{ "id": "team.broken", "name": "Broken" }"#);
        let (what, fix) = only(&home);
        let reason = what.split_once(" cannot be used: ").unwrap_or_else(|| panic!("{folder}: {what}")).1;
        assert_eq!(reason, "1:1 the workflow has no `description`; add \"description\": \"...\"", "{folder}");
        assert_eq!(typed(&home, &fix), 1, "{folder}: it names the errors: {fix}");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(findings(&home), [], "{folder}");
    }
}

#[test]
fn a_client_that_starts_a_missing_program_is_configured_again() {
    let home = home();
    let file = home.home().join(".cursor/mcp.json");
    home.write(
        &file,
        r#"{ "mcpServers": { "workrail": { "command": "/gone/workrail", "args": ["mcp"] } } }"#,
    );
    let (what, fix) = only(&home);
    assert_text(&home, "doctor_missing_program", &what);
    assert_eq!(typed(&home, &fix), 0, "{fix}");
    assert_eq!(findings(&home), []);
}

#[test]
fn a_misspelt_variable_leads_to_the_intended_one() {
    let (what, fix) = only(&home().with("WORKRAIL_DATA_DIRECTORY", "/srv/data"));
    assert_eq!(what, "`WORKRAIL_DATA_DIRECTORY` is not a WorkRail variable and has no effect");
    assert_eq!(fix, "did you mean WORKRAIL_DATA_DIR?");
}

/// A session that exists, so that its folder does.
fn started(home: &Home) -> String {
    let mut client = home.client();
    let first = client.call("start_workflow", json!({ "workflowId": "team.change" }));
    client.close();
    first.data["run"]["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn a_folder_that_cannot_be_written_is_a_problem() {
    let home = home();
    started(&home);
    let home = home.given_to(User::find());
    if !home.user().respects_permissions() {
        return;
    }
    let sessions = home.data().join("sessions");
    std::fs::set_permissions(&sessions, std::fs::Permissions::from_mode(0o500)).unwrap();
    let (what, fix) = only(&home);
    assert!(fix.contains(sessions.to_str().unwrap()), "{fix}");
    assert_text(&home, "doctor_with_a_folder_that_cannot_be_written", &format!("{what}\n{fix}"));
}

#[test]
fn a_closed_data_directory_is_named_with_the_command_that_opens_it() {
    let home = home();
    started(&home);
    let home = home.given_to(User::find());
    if !home.user().respects_permissions() {
        return;
    }
    std::fs::set_permissions(home.data(), std::fs::Permissions::from_mode(0o000)).unwrap();
    let said = home.run(&["session", "list"]);
    assert_eq!(said.code, 1, "{said:?}");
    let command = format!("chmod u+rwx {}", home.data().display());
    assert!(said.err.contains(&command), "{said:?}");
    std::fs::set_permissions(home.data(), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_foreign_folder_among_the_sessions_is_a_problem() {
    let home = home();
    started(&home);
    std::fs::create_dir(home.data().join("sessions/elsewhere")).unwrap();
    let (what, fix) = only(&home);
    assert_text(&home, "doctor_with_a_foreign_folder_among_the_sessions", &format!("{what}\n{fix}"));
}

/// Broke: what was in the place of the folder and the session itself were both counted.
#[test]
fn something_in_the_place_of_a_session_is_one_problem() {
    let home = home();
    let session = started(&home);
    let folder = home.data().join("sessions").join(&session);
    std::fs::remove_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/nowhere", &folder).unwrap();
    let (what, _) = only(&home);
    assert!(what.contains(&session), "{what}");
}

#[test]
fn keys_of_a_newer_version_are_kept_and_lead_to_an_update() {
    let home = home();
    started(&home);
    let keyring = home.data().join("keys/keyring.json");
    let text = std::fs::read_to_string(&keyring).unwrap();
    let mut newer: Value = serde_json::from_str(&text).unwrap();
    newer["v"] = json!(2);
    std::fs::write(&keyring, newer.to_string()).unwrap();
    let (what, fix) = only(&home);
    assert_text(&home, "doctor_with_keys_of_a_newer_version", &format!("{what}\n{fix}"));
    let said = home.run(&["store", "keys", "new", "--yes"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert_text(&home, "new_keys_in_place_of_those_of_a_newer_version", &said.err);
    assert_eq!(std::fs::read_to_string(&keyring).unwrap(), newer.to_string());
}

#[test]
fn a_link_in_the_place_of_the_keys_is_not_about_permissions() {
    let home = home();
    started(&home);
    let keyring = home.data().join("keys/keyring.json");
    std::fs::remove_file(&keyring).unwrap();
    std::os::unix::fs::symlink("/nowhere", &keyring).unwrap();
    let (what, fix) = only(&home);
    assert!(!fix.contains("chmod"), "{fix}");
    assert_text(&home, "doctor_with_a_link_in_the_place_of_the_keys", &format!("{what}\n{fix}"));
}

/// A pinned workflow is content: without it, the log is healthy and the run cannot continue.
#[test]
fn a_lost_workflow_of_an_unfinished_run_is_a_problem() {
    let home = home();
    started(&home);
    for file in std::fs::read_dir(home.data().join("workflows/pinned")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let (what, fix) = only(&home);
    assert_text(&home, "doctor_with_a_lost_workflow", &format!("{what}\n{fix}"));
    let mut client = home.client();
    let resumed = client.call("resume_session", json!({}));
    client.close();
    assert_text(&home, "resume_of_a_run_whose_workflow_is_lost", &resumed.text);
}
