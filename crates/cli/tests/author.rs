//! An author gets from `new` to a validated, previewed, tested workflow with only the command line.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use workrail_testkit::home::Home;

use wording::assert_text;

/// An author's home; commands run in its project.
fn author() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

/// Writes a file of the project.
fn put(home: &Home, name: &str, text: impl AsRef<[u8]>) {
    fs::write(home.project().join(name), text).unwrap();
}

#[test]
fn from_new_to_tested() {
    let home = author();
    let new = home.run(&["workflow", "new", "team.release_notes"]);
    assert!(new.code == 0, "{}", new.err);
    // The commands that `new` prints are run literally.
    let said = new.out;
    let commands: Vec<&str> = said.lines().filter_map(|line| line.trim().strip_prefix("workrail ")).collect();
    assert_eq!(commands.len(), 3);
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').collect();
        let done = home.run(&arguments);
        assert!(done.code == 0, "{command}: {}{}", done.out, done.err);
    }
    let again = home.run(&["workflow", "new", "team.release_notes"]);
    assert_eq!(again.code, 2, "an author's file is never overwritten");
}

#[test]
fn new_refuses_legacy_and_reserved_ids_with_a_better_one() {
    let home = author();
    for (id, better) in [("release-notes", "project.release_notes"), ("wr.notes", "project.notes")] {
        let refused = home.run(&["workflow", "new", id]);
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains(better), "{}", refused.err);
    }
    assert_eq!(home.run(&["workflow", "new", "../x.y"]).code, 2);
    assert_eq!(fs::read_dir(home.project()).unwrap().count(), 0, "nothing is written");
}

#[test]
fn every_problem_is_shown_at_once_with_location_and_fix() {
    let home = author();
    let text = "{ \"id\": \"team.x\", \"name\": \"X\", \"description\": \"d\", \"version\": \"1\",\n  \"steps\": [\n    \
                { \"id\": \"aaa\", \"title\": \"A\", \"prmpt\": \"x\" },\n    { \"id\": \"aaa\", \"title\": \"B\", \"prompt\": \"y\" }\n  ] }";
    put(&home, "bad.json", text);
    let checked = home.run(&["workflow", "validate", "--json", "bad.json"]);
    assert_eq!(checked.code, 1);
    let value = checked.json();
    assert!(value["errors"].as_u64().unwrap() >= 3, "{value}");
    let first = &value["files"][0]["problems"][0];
    for member in ["line", "column", "path", "message", "why", "fix", "code", "severity"] {
        assert!(!first[member].is_null(), "{member} in {first}");
    }
}

#[test]
fn hostile_files_give_diagnostics_and_nothing_else() {
    let home = author();
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
        put(&home, name, bytes);
        let output = home.run(&["workflow", "validate", name]);
        let code = output.code;
        assert!(matches!(code, 0 | 1), "{name}: {code:?} {}", output.err);
        assert!(!output.err.contains("panicked"), "{name}: {}", output.err);
        if !["many.json", "regex.json"].contains(name) {
            assert_eq!(code, 1, "{name} has problems");
        }
    }
    std::os::unix::fs::symlink(home.project(), home.project().join("loop")).unwrap();
    let all = home.run(&["workflow", "validate", "--json", "."]);
    let value = all.json();
    assert_eq!(value["files"].as_array().unwrap().len(), cases.len(), "links are not followed");
    assert_eq!(home.run(&["workflow", "validate", "absent"]).code, 2);
}

#[test]
fn the_hash_is_independent_of_key_order_comments_and_folder() {
    let (one, two) = (author(), author());
    let plain = r#"{"id":"a.b","name":"n","description":"d","version":"1.0.0","steps":[{"id":"aaa","title":"t","prompt":"p"}]}"#;
    let shuffled = "// a comment\n{ \"steps\": [ { \"prompt\": \"p\", \"title\": \"t\", \"id\": \"aaa\", }, ],\n\"version\": \"1.0.0\", \"description\": \"d\", \"name\": \"n\", \"id\": \"a.b\" }";
    put(&one, "x.json", plain);
    put(&two, "y.jsonc", shuffled);
    let hash = |home: &Home, file: &str| home.done(&["workflow", "compile", file, "--emit", "hash"]).out;
    assert_eq!(hash(&one, "x.json"), hash(&two, "y.jsonc"));
    assert!(hash(&one, "x.json").starts_with("sha256:"));
}

#[test]
fn bindings_of_the_workspace_are_compiled_in() {
    let home = author();
    let text = r#"{"id":"team.bound","name":"n","description":"d","version":"1.0.0",
        "extensionPoints":[{"slotId":"style","purpose":"which style guide","default":"the usual one"}],
        "steps":[{"id":"aaa","title":"t","prompt":"Follow {{wr.bindings.style}}."}]}"#;
    put(&home, "x.json", text);
    let prompts = || home.done(&["workflow", "compile", "x.json", "--emit", "prompts"]).out;
    assert_text(&home, "prompts_with_default_binding", &prompts());
    fs::create_dir(home.project().join(".workrail")).unwrap();
    put(&home, ".workrail/bindings.json", r#"{"team.bound":{"style":"house rules"}}"#);
    assert_text(&home, "prompts_with_own_binding", &prompts());
    put(&home, ".workrail/bindings.json", "{");
    let broken = home.run(&["workflow", "compile", "x.json"]);
    assert_eq!(broken.code, 2, "a broken file is never ignored");
}

#[test]
fn a_script_that_differs_fails_and_a_wrong_one_is_refused() {
    let home = author();
    home.run(&["workflow", "new", "team.x"]);
    let script = "[[run]]\nname = \"wrong\"\n[[run.step]]\nexpect = \"understand\"\nnext = \"report\"\n";
    put(&home, "wrong.toml", script);
    let failed = home.run(&["workflow", "test", "workflows/team.x.json", "--script", "wrong.toml"]);
    assert_eq!(failed.code, 1);
    let missing = home.run(&["workflow", "test", "workflows/team.x.json", "--script", "absent.toml"]);
    assert_eq!(missing.code, 2);
    put(&home, "typo.toml", "[[run]]\nname = \"x\"\nstpe = []\n");
    let typo = home.run(&["workflow", "test", "workflows/team.x.json", "--script", "typo.toml"]);
    assert_eq!(typo.code, 2);
}

#[test]
fn preview_shows_the_plan_of_a_bundled_workflow_by_id() {
    let home = author();
    let shown = home.run(&["workflow", "preview", "wr.small_change"]);
    assert!(shown.code == 0, "{}", shown.err);
    let unknown = home.run(&["workflow", "preview", "wr.nothing"]);
    assert_eq!(unknown.code, 2);
}

#[test]
fn bundled_workflows_validate_without_a_message_and_pass_their_trials() {
    let home = author();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let checked = home.done(&["workflow", "validate", "--json", bundled.to_str().unwrap()]).json();
    for count in ["errors", "warnings", "hints"] {
        assert_eq!(checked[count], json!(0), "{checked:#}");
    }
    home.done(&["workflow", "test", bundled.join("wr.bug_investigation.json").to_str().unwrap()]);
}

#[test]
fn a_workflow_is_found_by_id_in_every_source_and_the_project_wins() {
    let home = author();
    let write = |path: &str, name: &str| {
        let workflow = json!({
            "id": "team.x", "name": name, "description": "d", "version": "1.0.0",
            "steps": [{ "id": "a", "title": "A", "prompt": "Do." }],
        });
        home.write(&home.root().join(path), &workflow.to_string());
    };
    let inspect = || home.run(&["workflow", "inspect", "team.x", "--json"]);
    assert_eq!(inspect().code, 2);
    for (path, name) in [
        ("home/.workrail/workflows/x.json", "user"),
        ("workflows/deep/x.jsonc", "custom"),
        ("project/workflows/x.json", "project"),
        ("project/.workrail/workflows/x.json", "hidden"),
    ] {
        write(path, name);
        assert_eq!(inspect().json()["name"], name);
    }
}

/// Naming the schema does not change the workflow, and a file from `new` is valid against the schema that it names.
#[test]
fn a_new_file_is_valid_against_its_schema_which_is_not_part_of_the_hash() {
    let home = author();
    home.done(&["workflow", "new", "team.notes"]);
    let file = home.project().join("workflows/team.notes.json");
    let text = fs::read_to_string(&file).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let named = value["$schema"].as_str().unwrap();
    let schema = fs::read_to_string(file.parent().unwrap().join(named)).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&value));
    let mut wrong = value.clone();
    wrong["steps"][0]["titel"] = json!("x");
    assert!(!validator.is_valid(&wrong));
    let hash = |file: &str| home.done(&["workflow", "compile", file, "--emit", "hash"]).out;
    let mut without = value.clone();
    without.as_object_mut().unwrap().remove("$schema");
    put(&home, "without.json", without.to_string());
    assert_eq!(hash("without.json"), hash("workflows/team.notes.json"));
    // Both as a file of the project and by its id.
    home.done(&["workflow", "inspect", "team.notes"]);
}

#[test]
fn a_watched_file_is_checked_again_when_it_changes() {
    let home = author();
    put(&home, "x.json", "{}");
    let mut command = home.command(&["workflow", "validate", "--watch", "--json", "x.json"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut errors = || {
        let line = lines.next().unwrap().unwrap();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()["errors"].as_u64().unwrap()
    };
    assert!(errors() > 0);
    let good = r#"{"id":"a.b","name":"n","description":"d","version":"1.0.0","steps":[{"id":"aaa","title":"t","prompt":"p"}]}"#;
    // As most editors save: a new file replaces it.
    put(&home, "x.json.tmp", good);
    fs::rename(home.project().join("x.json.tmp"), home.project().join("x.json")).unwrap();
    assert_eq!(errors(), 0);
    put(&home, "x.json", "{ \"id\": 7 }");
    // A file that is written in place may first appear empty.
    assert!(errors() > 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What a newcomer writes with the guide: loops, a contract, a reference, an assessment, a gate and a capability.
#[test]
fn the_guides_hotfix_workflow_validates_without_a_message_and_is_formatted() {
    let home = author();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/team.hotfix.json");
    let text = fs::read_to_string(file).unwrap();
    put(&home, "team.hotfix.json", &text);
    // The target of its reference.
    home.write(&home.project().join("docs/release.md"), "# Release\n");
    let checked = home.run(&["workflow", "validate", "--json", "team.hotfix.json"]).json();
    assert_eq!((&checked["errors"], &checked["warnings"]), (&json!(0), &json!(0)), "{checked:#}");
    let compiled = home.done(&["workflow", "compile", "team.hotfix.json"]).json();
    assert_eq!(compiled["steps"].as_array().unwrap().len(), 14);
    let schema = home.done(&["workflow", "schema"]).json();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value));
    home.done(&["workflow", "fmt", "--check", "team.hotfix.json"]);
}

/// Writes a workflow file beneath the home with one reference that is resolved relative to its package.
fn with_package_reference(home: &Home, path: &str, source: &str) {
    let workflow = json!({
        "id": "team.packed", "name": "n", "description": "d", "version": "1.0.0",
        "references": [{ "id": "r", "title": "t", "source": source, "purpose": "p", "authoritative": true,
            "resolveFrom": "package" }],
        "steps": [{ "id": "a", "title": "A", "prompt": "Do." }],
    });
    home.write(&home.root().join(path), &workflow.to_string());
}

#[test]
fn a_missing_document_of_the_package_is_reported_where_a_run_looks_for_it() {
    let home = author();
    let warnings = |file: &str| {
        let checked = home.run(&["workflow", "validate", "--json", file]).json();
        let problems = checked["files"][0]["problems"].as_array().unwrap().clone();
        problems.iter().map(|problem| problem["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // The package of a project's workflow is the project; of a user's, its folder.
    with_package_reference(&home, "project/workflows/a.json", "docs/guide.md");
    assert_eq!(warnings("workflows/a.json"), ["reference-source"]);
    home.write(&home.project().join("docs/guide.md"), "# Guide\n");
    assert_eq!(warnings("workflows/a.json"), <[&str; 0]>::default());
    with_package_reference(&home, "home/.workrail/workflows/b.json", "docs/guide.md");
    let user = home.root().join("home/.workrail/workflows");
    assert_eq!(warnings(user.join("b.json").to_str().unwrap()), ["reference-source"]);
    home.write(&user.join("docs/guide.md"), "# Guide\n");
    assert_eq!(warnings(user.join("b.json").to_str().unwrap()), <[&str; 0]>::default());
    // A file outside every source has no package yet.
    with_package_reference(&home, "elsewhere/c.json", "docs/guide.md");
    assert_eq!(warnings(home.root().join("elsewhere/c.json").to_str().unwrap()), <[&str; 0]>::default());
}

#[test]
fn migrate_moves_the_bindings_of_a_renamed_workflow() {
    let home = author();
    let workflow = json!({
        "id": "release", "name": "n", "description": "d", "version": "1.0.0",
        "extensionPoints": [{ "slotId": "checker", "purpose": "Who checks.", "default": "you" }],
        "steps": [{ "id": "a", "title": "A", "prompt": "Ask {{wr.bindings.checker}}." }],
    });
    let bindings =
        "{\n  \"release\": { \"checker\": \"the owner\" },\n  \"team.other\": { \"x\": \"y\" }\n}\n";
    home.write(&home.project().join("workflows/release.json"), &workflow.to_string());
    home.write(&home.project().join(".workrail/bindings.json"), bindings);
    let read = || fs::read_to_string(home.project().join(".workrail/bindings.json")).unwrap();
    let migrate = ["workflow", "migrate", "workflows", "--namespace", "team"];
    assert_text(&home, "migrate_with_bindings", &home.done(&migrate).out);
    assert_eq!(read(), bindings, "nothing is written without --write");
    home.done(&[&migrate[..], &["--write"]].concat());
    assert_eq!(read(), bindings.replace("\"release\"", "\"team.release\""));
    let prompts = home.done(&["workflow", "compile", "team.release", "--emit", "prompts"]).out;
    assert_text(&home, "prompts_with_migrated_binding", &prompts);
}

/// The guide's complete file, and what the text next to it says about its parts.
#[test]
fn the_guides_workflow_validates_without_a_message() {
    let home = author();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/authoring.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let whole: Vec<&str> = blocks.filter(|block| block.contains("\"steps\"")).collect();
    assert_eq!(whole.len(), 1);
    put(&home, "team.hotfix.json", whole[0]);
    home.write(&home.project().join("docs/runbook.md"), "# Runbook\n");
    let checked = home.done(&["workflow", "validate", "--json", "team.hotfix.json"]).json();
    for count in ["errors", "warnings", "hints"] {
        assert_eq!(checked[count], json!(0), "{checked:#}");
    }
}
