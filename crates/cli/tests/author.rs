//! An author goes from `new` to a validated, previewed, tested workflow with the CLI alone.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn workrail(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_workrail"))
        .args(arguments)
        .env_clear()
        .env("NO_COLOR", "1")
        .current_dir(folder)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn from_new_to_tested() {
    let folder = tempfile::tempdir().unwrap();
    let new = workrail(folder.path(), &["workflow", "new", "team.release_notes"]);
    assert!(new.status.success(), "{}", stderr(&new));
    // What `new` prints next is run literally.
    let said = stdout(&new);
    let commands: Vec<&str> = said.lines().filter_map(|line| line.trim().strip_prefix("workrail ")).collect();
    assert_eq!(commands.len(), 3);
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').collect();
        let done = workrail(folder.path(), &arguments);
        assert!(done.status.success(), "{command}: {}{}", stdout(&done), stderr(&done));
    }
    let again = workrail(folder.path(), &["workflow", "new", "team.release_notes"]);
    assert_eq!(again.status.code(), Some(2), "an author's file is never overwritten");
}

#[test]
fn new_refuses_legacy_and_reserved_ids_with_a_better_one() {
    let folder = tempfile::tempdir().unwrap();
    for (id, better) in [("release-notes", "project.release_notes"), ("wr.notes", "project.notes")] {
        let refused = workrail(folder.path(), &["workflow", "new", id]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(better), "{}", stderr(&refused));
    }
    assert_eq!(workrail(folder.path(), &["workflow", "new", "../x.y"]).status.code(), Some(2));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
}

#[test]
fn every_problem_is_shown_at_once_with_place_and_fix() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{ \"id\": \"team.x\", \"name\": \"X\", \"description\": \"d\", \"version\": \"1\",\n  \"steps\": [\n    \
                { \"id\": \"aaa\", \"title\": \"A\", \"prmpt\": \"x\" },\n    { \"id\": \"aaa\", \"title\": \"B\", \"prompt\": \"y\" }\n  ] }";
    fs::write(folder.path().join("bad.json"), text).unwrap();
    let shown = workrail(folder.path(), &["workflow", "validate", "bad.json"]);
    assert_eq!(shown.status.code(), Some(1));
    let said = stdout(&shown);
    for part in ["bad.json:3:", "did you mean `prompt`?", "version", "aaa"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let json = workrail(folder.path(), &["workflow", "validate", "--json", "bad.json"]);
    assert_eq!(json.status.code(), Some(1));
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(value["errors"].as_u64().unwrap() >= 3, "{value}");
    let first = &value["files"][0]["problems"][0];
    for member in ["line", "column", "path", "message", "why", "fix", "code", "severity"] {
        assert!(!first[member].is_null(), "{member} in {first}");
    }
}

#[test]
fn hostile_files_give_diagnostics_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let many = format!(
        "{{\"id\":\"team.many\",\"name\":\"M\",\"description\":\"d\",\"version\":\"1.0.0\",\"steps\":[{}]}}",
        (0..10_000)
            .map(|n| format!("{{\"id\":\"s-{n}\",\"title\":\"T\",\"prompt\":\"p\"}}"))
            .collect::<Vec<_>>()
            .join(",")
    );
    let regex = r#"{"id":"team.re","name":"R","description":"d","version":"1.0.0","steps":[{"id":"aaa","title":"T","prompt":"p","validationCriteria":[{"type":"regex","pattern":"(a+)+$","message":"m"}]}]}"#;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("not.json", b"hello".to_vec()),
        ("empty.json", Vec::new()),
        ("bom.json", b"\xef\xbb\xbf{}".to_vec()),
        ("types.json", br#"{"id":7,"name":[],"steps":{}}"#.to_vec()),
        ("duplicate.json", br#"{"id":"a.b","id":"a.c"}"#.to_vec()),
        ("deep.json", "[".repeat(100_000).into_bytes()),
        ("long.json", format!("{{\"id\":\"a.b\",\"name\":\"{}\"}}", "x".repeat(1_200_000)).into_bytes()),
        ("bytes.json", vec![0xff; 4096]),
        ("nul.json", vec![0; 4096]),
        ("many.json", many.into_bytes()),
        ("regex.json", regex.as_bytes().to_vec()),
        ("crlf.json", b"{\r\n\"id\": \"a.b\",\r\n\"nam\": \"x\"\r\n}".to_vec()),
        ("ids.json", br#"{"id":"../etc","name":"n","description":"d","version":"1.0.0","steps":[{"id":"a@/:b","title":"t","prompt":"p"}]}"#.to_vec()),
        ("template.json", br#"{"id":"a.b","name":"n","description":"d","version":"1.0.0","steps":[{"id":"aaa","title":"t","templateCall":{"templateId":"wr.templates.nope"}}]}"#.to_vec()),
    ];
    for (name, bytes) in &cases {
        fs::write(folder.path().join(name), bytes).unwrap();
        let output = workrail(folder.path(), &["workflow", "validate", name]);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "{name}: {code:?} {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{name}: {}", stderr(&output));
        if !["many.json", "regex.json"].contains(name) {
            assert_eq!(code, Some(1), "{name} has problems");
        }
    }
    std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
    let all = workrail(folder.path(), &["workflow", "validate", "--json", "."]);
    let value: Value = serde_json::from_slice(&all.stdout).unwrap();
    assert_eq!(value["files"].as_array().unwrap().len(), cases.len(), "links are not followed");
    assert_eq!(workrail(folder.path(), &["workflow", "validate", "absent"]).status.code(), Some(2));
}

#[test]
fn the_hash_does_not_depend_on_key_order_comments_or_folder() {
    let one = tempfile::tempdir().unwrap();
    let two = tempfile::tempdir().unwrap();
    let plain = r#"{"id":"a.b","name":"n","description":"d","version":"1.0.0","steps":[{"id":"aaa","title":"t","prompt":"p"}]}"#;
    let shuffled = "// a comment\n{ \"steps\": [ { \"prompt\": \"p\", \"title\": \"t\", \"id\": \"aaa\", }, ],\n\"version\": \"1.0.0\", \"description\": \"d\", \"name\": \"n\", \"id\": \"a.b\" }";
    fs::write(one.path().join("x.json"), plain).unwrap();
    fs::write(two.path().join("y.jsonc"), shuffled).unwrap();
    let hash = |folder: &Path, file: &str| {
        stdout(&workrail(folder, &["workflow", "compile", file, "--emit", "hash"]))
    };
    assert_eq!(hash(one.path(), "x.json"), hash(two.path(), "y.jsonc"));
    assert!(hash(one.path(), "x.json").starts_with("sha256:"));
}

#[test]
fn bindings_of_the_workspace_are_compiled_in() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"{"id":"team.bound","name":"n","description":"d","version":"1.0.0",
        "extensionPoints":[{"slotId":"style","purpose":"which style guide","default":"the usual one"}],
        "steps":[{"id":"aaa","title":"t","prompt":"Follow {{wr.bindings.style}}."}]}"#;
    fs::write(folder.path().join("x.json"), text).unwrap();
    let prompts =
        |folder: &Path| stdout(&workrail(folder, &["workflow", "compile", "x.json", "--emit", "prompts"]));
    assert!(prompts(folder.path()).contains("Follow the usual one."));
    fs::create_dir(folder.path().join(".workrail")).unwrap();
    fs::write(folder.path().join(".workrail/bindings.json"), r#"{"team.bound":{"style":"house rules"}}"#)
        .unwrap();
    assert!(prompts(folder.path()).contains("Follow house rules."));
    fs::write(folder.path().join(".workrail/bindings.json"), "{").unwrap();
    let broken = workrail(folder.path(), &["workflow", "compile", "x.json"]);
    assert_eq!(broken.status.code(), Some(2), "a broken file is never ignored");
}

#[test]
fn a_failing_script_says_what_differs_and_what_is_not_covered() {
    let folder = tempfile::tempdir().unwrap();
    workrail(folder.path(), &["workflow", "new", "team.x"]);
    let script = "[[run]]\nname = \"wrong\"\n[[run.step]]\nexpect = \"understand\"\nnext = \"report\"\n";
    fs::write(folder.path().join("wrong.toml"), script).unwrap();
    let failed =
        workrail(folder.path(), &["workflow", "test", "workflows/team.x.json", "--script", "wrong.toml"]);
    assert_eq!(failed.status.code(), Some(1));
    let said = stdout(&failed);
    for part in ["FAILED", "leads to `work`, expected `report`", "not tried: step `plan` is never reached"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let missing =
        workrail(folder.path(), &["workflow", "test", "workflows/team.x.json", "--script", "absent.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("[[run.step]]"), "it shows how to start one");
    fs::write(folder.path().join("typo.toml"), "[[run]]\nname = \"x\"\nstpe = []\n").unwrap();
    let typo =
        workrail(folder.path(), &["workflow", "test", "workflows/team.x.json", "--script", "typo.toml"]);
    assert_eq!(typo.status.code(), Some(2));
    assert!(stderr(&typo).contains("stpe"), "{}", stderr(&typo));
}

#[test]
fn preview_shows_the_plan_of_a_bundled_workflow_by_id() {
    let folder = tempfile::tempdir().unwrap();
    let shown = workrail(folder.path(), &["workflow", "preview", "wr.small_change"]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    for step in ["understand", "change", "verify", "report"] {
        assert!(stdout(&shown).contains(step));
    }
    let unknown = workrail(folder.path(), &["workflow", "preview", "wr.nothing"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("wr.small_change"));
}

#[test]
fn bundled_workflows_validate_without_a_word_and_pass_their_trials() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checked = workrail(&root, &["workflow", "validate", "workflows"]);
    assert!(checked.status.success(), "{}", stdout(&checked));
    assert!(stdout(&checked).ends_with("checked: 0 errors, 0 warnings, 0 hints\n"), "{}", stdout(&checked));
    let tried = workrail(&root, &["workflow", "test", "workflows/wr.bug_investigation.json"]);
    assert!(tried.status.success(), "{}{}", stdout(&tried), stderr(&tried));
}

#[test]
fn a_workflow_is_found_by_id_in_every_source_and_the_project_wins() {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, name: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = format!(
            r#"{{ "id": "team.x", "name": "{name}", "description": "d", "version": "1.0.0",
                 "steps": [{{ "id": "a", "title": "A", "prompt": "Do." }}] }}"#
        );
        fs::write(path, text).unwrap();
    };
    let named = || {
        let output = Command::new(env!("CARGO_BIN_EXE_workrail"))
            .args(["workflow", "preview", "team.x"])
            .env_clear()
            .env("HOME", folder.path().join("home"))
            .env("WORKFLOW_STORAGE_PATH", folder.path().join("custom"))
            .env("CLAUDE_PROJECT_DIR", folder.path().join("project"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        stdout(&output).lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(named(), "");
    for (path, name) in [
        ("home/.workrail/workflows/x.json", "user"),
        ("custom/deep/x.jsonc", "custom"),
        ("project/workflows/x.json", "project"),
        ("project/.workrail/workflows/x.json", "hidden"),
    ] {
        put(path, name);
        assert_eq!(named(), format!("team.x · {name} (1.0.0)"));
    }
}
