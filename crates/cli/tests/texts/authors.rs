//! Commands for workflow authors.

use crate::stage::Stage;

#[test]
fn list_and_inspect() {
    let stage = Stage::new();
    stage.project_file(".workrail/workflows/broken.json", r#"{ "id": "team.broken", "name": "Broken" }"#);
    stage.say(&["workflow", "list"]);
    stage.say(&["workflow", "list", "--query", "release", "--json"]);
    stage.say(&["workflow", "list", "--query", "nothing-like-this"]);
    stage.say(&["workflow", "list", "--problems"]);
    stage.say_both(&["workflow", "inspect", "team.release"]);
    stage.say_both(&["workflow", "inspect", "team.relase"]);
    stage.say_both(&["workflow", "preview", "team.release"]);
    stage.compare("workflow_list_and_inspect");
}

#[test]
fn write_and_check() {
    let stage = Stage::new();
    stage.say(&["workflow", "new", "team.notes"]);
    stage.say(&["workflow", "new", "team.notes"]);
    stage.say(&["workflow", "new", "Team Notes"]);
    stage.say_both(&["workflow", "validate", "workflows"]);
    stage.say_both(&["workflow", "test", "workflows/team.notes.json"]);
    stage.say(&["workflow", "compile", "workflows/team.notes.json", "--emit", "prompts"]);
    stage.project_file(
        "bad.json",
        "{\n  \"id\": \"team.bad\", \"name\": \"Bad\", \"version\": \"1\",\n  \"steps\": [{ \"id\": \"One\", \"titel\": \"x\" }]\n}\n",
    );
    stage.say_both(&["workflow", "validate", "bad.json"]);
    stage.say_both(&["workflow", "validate", "missing.json"]);
    stage.compare("workflow_write_and_check");
}

#[test]
fn schema_for_editors() {
    let stage = Stage::new();
    stage.say(&["workflow", "schema", "--help"]);
    stage.say_both(&["workflow", "schema", "--write"]);
    stage.say(&["workflow", "new", "team.notes", "--dir", "flows/deep", "--json"]);
    stage.say(&["workflow", "validate", "flows"]);
    stage.compare("workflow_schema");
}

const UNTIDY: &str = "{ \"id\": \"my-review\", // renamed soon\n \"name\": \"Review\", \"description\": \"Review a change.\", \"version\": \"1.0.0\",\n \
                      \"steps\": [ { \"id\": \"look\", \"title\": \"Look\", \"prompt\": \"Look.\", \"output\": { \"contractRef\": \
                      \"wr.contracts.review_verdict\" } } ] }\n";
const CALLER: &str = "{\n  \"id\": \"wr.call\",\n  \"name\": \"Call\",\n  \"description\": \"Let others review.\",\n  \"version\": \"1.0.0\",\n  \
                      \"steps\": [\n    {\n      \"id\": \"call\",\n      \"type\": \"parallel\",\n      \"title\": \"Call\",\n      \
                      \"parallelDelegations\": [\n        { \"workflowId\": \"my-review\" }\n      ]\n    }\n  ]\n}\n";

#[test]
fn format_and_migrate() {
    let stage = Stage::new();
    stage.project_file("flows/review.jsonc", UNTIDY);
    stage.project_file("flows/call.json", CALLER);
    stage.say(&["workflow", "fmt", "--help"]);
    stage.say_both(&["workflow", "fmt", "--check", "flows"]);
    stage.say(&["workflow", "fmt", "flows"]);
    stage.say(&["workflow", "fmt", "flows", "--check"]);
    stage.say(&["workflow", "migrate", "--help"]);
    stage.say_both(&["workflow", "migrate", "flows", "--namespace", "team"]);
    stage.say(&["workflow", "migrate", "flows", "--namespace", "wr"]);
    stage.say(&["workflow", "migrate", "flows", "--namespace", "team", "--write"]);
    stage.say(&["workflow", "migrate", "flows", "--namespace", "team"]);
    stage.say(&["workflow", "validate", "flows"]);
    stage.project_file("flows/broken.json", "{ \"id\": ");
    stage.say(&["workflow", "fmt", "flows"]);
    stage.compare("workflow_fmt_and_migrate");
}

#[test]
fn versions_of_a_workflow() {
    let stage = Stage::new();
    let mut client = stage.server();
    let started = client
        .call("start_workflow", serde_json::json!({ "workflowId": "team.change", "goal": "rename a field" }));
    let run = stage.name(&started, "run");
    stage.say(&["workflow", "diff", "--help"]);
    stage.say(&["workflow", "inspect", "--run", &run]);
    stage.say(&["workflow", "diff", &run, "team.change"]);
    stage.home().workflow(&serde_json::json!({
        "id": "team.change", "name": "A change", "description": "Change something and check it.", "version": "1.1.0",
        "steps": [
            { "id": "change", "title": "Make the change", "prompt": "Change the code.\nKeep it small." },
            { "id": "check", "title": "Check the change", "prompt": "Run the tests.",
              "outputContract": { "contractRef": "wr.contracts.verification_report" } },
            { "id": "report", "title": "Report", "prompt": "Say what changed." },
        ],
    }));
    stage.say(&["workflow", "inspect", "--run", &run]);
    stage.say(&["workflow", "diff", &run, "team.change"]);
    stage.say(&["workflow", "diff", &run, "team.change", "--prompts"]);
    stage.say(&["workflow", "diff", &run, "team.change", "--json"]);
    stage.say(&["workflow", "compile", &run, "--emit", "inputs"]);
    stage.say(&["workflow", "compile", "team.change", "--emit", "inputs", "--json"]);
    stage.say(&["workflow", "compile", "team.change", "--emit", "source"]);
    stage.say(&["workflow", "diff", "nothing-here", "team.change"]);
    stage.say(&["workflow", "diff", "sha256:0000", "team.change"]);
    stage.compare("workflow_versions");
}

#[test]
fn copy() {
    let stage = Stage::new();
    stage.say(&["workflow", "copy", "wr.small_change", "team.small_change"]);
    stage.say(&["workflow", "validate", "workflows"]);
    stage.say(&["workflow", "inspect", "team.small_change"]);
    stage.say(&["workflow", "copy", "team.release", "team.notes", "--dir", "elsewhere", "--json"]);
    // Nothing is overwritten, and no id is taken from another file.
    stage.say(&["workflow", "copy", "wr.small_change", "team.small_change"]);
    stage.say(&["workflow", "copy", "wr.small_change", "team.release", "--json"]);
    stage.project_file("elsewhere/team.other.json", "mine");
    stage.say(&["workflow", "copy", "wr.small_change", "team.other", "--dir", "elsewhere"]);
    assert_eq!(
        std::fs::read_to_string(stage.home().project().join("elsewhere/team.other.json")).unwrap(),
        "mine"
    );
    stage.say(&["workflow", "copy", "wr.small_change", "wr.mine"]);
    stage.say(&["workflow", "copy", "wr.small_change", "mine"]);
    stage.say_both(&["workflow", "copy", "wr.smal_change", "team.mine"]);
    stage.say(&["workflow", "copy", "Small Change", "team.mine"]);
    stage.say(&["workflow", "copy", "wr.small_change"]);
    stage.compare("workflow_copy");
}

#[test]
fn sources() {
    let stage = Stage::new();
    let folder = stage.home().root().join("home/flows");
    stage.home().write(&folder.join("readme.txt"), "");
    let folder = folder.to_str().unwrap();
    stage.say_both(&["workflow", "sources"]);
    stage.say(&["workflow", "sources", "add", "folder", folder]);
    stage.say(&["workflow", "sources", "add", "folder", "/nonexistent"]);
    stage.say(&["workflow", "sources", "add", "folder", folder, "--json"]);
    stage.say_both(&["workflow", "sources", "add", "plugin", folder]);
    stage.say_both(&["workflow", "sources", "add", "git", "flows", "ftp://example.org/flows"]);
    stage.say_both(&["workflow", "sources", "list"]);
    stage.say_both(&["workflow", "sources", "health"]);
    stage.say(&["workflow", "sources", "remove", folder]);
    stage.say_both(&["workflow", "sources", "remove", folder]);
    stage.say_both(&["workflow", "sources", "sync"]);
    stage.say(&["workflow", "sources", "sync", "team"]);
    stage.compare("workflow_sources");
}
