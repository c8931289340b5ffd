//! Commands for people who write workflows.

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
    stage.say(&["workflow", "preview", "team.release"]);
    stage.compare("workflow_list_and_inspect");
}

#[test]
fn write_and_check() {
    let stage = Stage::new();
    stage.say(&["workflow", "new", "team.notes"]);
    stage.say(&["workflow", "new", "team.notes"]);
    stage.say(&["workflow", "new", "Team Notes"]);
    stage.say_both(&["workflow", "validate", "workflows"]);
    stage.say(&["workflow", "test", "workflows/team.notes.json"]);
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
fn copy() {
    let stage = Stage::new();
    stage.say(&["workflow", "copy", "wr.small_change", "team.small_change"]);
    stage.say(&["workflow", "validate", "workflows"]);
    stage.say(&["workflow", "inspect", "team.small_change"]);
    stage.say(&["workflow", "copy", "team.release", "team.notes", "--dir", "elsewhere", "--json"]);
    // Nothing is overwritten, and nothing takes an id that another file has.
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
    stage.say(&["workflow", "sources", "add", "plugin", folder]);
    stage.say_both(&["workflow", "sources", "health"]);
    stage.say(&["workflow", "sources", "remove", folder]);
    stage.say(&["workflow", "sources", "remove", folder]);
    stage.say(&["workflow", "sources", "sync"]);
    stage.say(&["workflow", "sources", "sync", "team"]);
    stage.compare("workflow_sources");
}
