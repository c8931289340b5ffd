//! Follows the advice of `workrail doctor`: afterwards the finding is gone, or the command shows what to change.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};
use workrail_testkit::home::Home;

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
    let session = started.structured["run"]["sessionId"].as_str().unwrap();
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
