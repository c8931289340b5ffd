//! Sources, `list` and `inspect` through the real binary and the real server, in an isolated home.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod wording;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_testkit::home::{Home, User};
use workrail_testkit::mcp_client::McpClient;

use wording::assert_text;

/// A home whose sources come from its settings and its project.
fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail")).without("WORKFLOW_STORAGE_PATH")
}

fn workflow(id: &str, name: &str) -> String {
    json!({
        "id": id, "name": name, "description": "Says hello.", "version": "1.0.0",
        "steps": [{ "id": "hello", "title": "Say hello", "prompt": "Say hello to the user." }],
    })
    .to_string()
}

/// A path beneath the root as text.
fn text(home: &Home, below: &str) -> String {
    home.root().join(below).to_str().unwrap().to_owned()
}

fn write(home: &Home, below: &str, text: &str) {
    home.write(&home.root().join(below), text);
}

fn config(home: &Home) -> String {
    fs::read_to_string(home.config()).unwrap_or_default()
}

/// Commits everything below `repo`, creating the repository first.
fn commit(home: &Home) {
    let repo = home.root().join("repo");
    home.git(&repo, &["init", "--quiet"]);
    home.git(&repo, &["add", "--all"]);
    home.git(&repo, &["commit", "--quiet", "--allow-empty", "--message=change"]);
}

fn add_team(home: &Home) {
    let repo = text(home, "repo");
    let options = ["--allow-local", "--sync-hours", "0"];
    home.done(&[&["workflow", "sources", "add", "git", "team", &repo][..], &options].concat());
}

/// Every workflow's id, as listed.
fn listed_ids(home: &Home) -> Vec<String> {
    ids(&home.done(&["workflow", "list", "--json"]).json())
}

fn source(home: &Home, kind: &str) -> Value {
    let health = home.run(&["workflow", "sources", "health", "--json"]).json();
    let sources = health["sources"].as_array().unwrap();
    sources.iter().find(|source| source["kind"] == kind).unwrap_or_else(|| panic!("{health:#}")).clone()
}

fn ids(listed: &Value) -> Vec<String> {
    let workflows = listed["workflows"].as_array().unwrap();
    let ids = workflows.iter().map(|workflow| workflow["workflowId"].as_str().unwrap().to_owned());
    ids.filter(|id| !id.starts_with("wr.")).collect()
}

#[test]
fn a_git_source_from_registering_to_removing() {
    let home = home();
    write(&home, "home/.config/workrail/config.toml", "# mine\n[retention]\nttl_days = 30 # a month\n");
    write(&home, "repo/hello.json", &workflow("team.hello", "Hello"));
    commit(&home);
    add_team(&home);
    assert_eq!(
        config(&home),
        format!(
            "# mine\n[retention]\nttl_days = 30 # a month\n\n[sources.git.team]\nurl = \"{}\"\nsync_hours = 0\n\
             allow_local = true\n",
            text(&home, "repo")
        )
    );
    let listed = home.done(&["config", "get", "sources.git", "--json"]).json();
    assert_eq!(listed["value"]["team"]["url"], text(&home, "repo"));
    assert_eq!(listed["restart"], "workflow_sources");
    assert_eq!(home.run(&["workflow", "sources", "health"]).code, 1, "it was never fetched");
    assert_eq!(source(&home, "git")["state"], "never_fetched");
    assert!(listed_ids(&home).is_empty());
    assert_eq!(home.run(&["workflow", "list", "--problems"]).code, 1);

    let synced = home.done(&["workflow", "sources", "sync", "--json"]).json();
    assert_eq!(
        (&synced["sources"][0]["outcome"], &synced["sources"][0]["files"]),
        (&json!("updated"), &json!(1))
    );
    assert_eq!(
        home.done(&["workflow", "sources", "sync", "team", "--json"]).json()["sources"][0]["outcome"],
        "unchanged"
    );
    assert_eq!(listed_ids(&home), ["team.hello"]);
    assert_eq!(home.run(&["workflow", "sources", "health"]).code, 0);
    let git = source(&home, "git");
    assert_eq!((&git["state"], &git["usable"], &git["sourceKind"]), (&json!("ok"), &json!(1), &json!("git")));

    fs::rename(home.root().join("repo"), home.root().join("moved")).unwrap();
    assert_eq!(home.run(&["workflow", "sources", "sync"]).code, 1);
    assert_eq!(source(&home, "git")["state"], "stale");
    assert_eq!(home.run(&["workflow", "sources", "health"]).code, 1);
    assert_eq!(listed_ids(&home), ["team.hello"], "offline, what was fetched keeps serving");

    assert_eq!(home.run(&["workflow", "sources", "sync", "taem"]).code, 2);
    home.done(&["workflow", "sources", "remove", "team"]);
    assert_eq!(config(&home), "# mine\n[retention]\nttl_days = 30 # a month\n");
    assert!(listed_ids(&home).is_empty());
    assert_eq!(fs::read_dir(home.root().join("data/sources/git")).unwrap().count(), 0);
    assert_eq!(home.run(&["workflow", "sources", "remove", "team"]).code, 2);
}

#[test]
fn an_invalid_source_is_refused_before_anything_is_written() {
    let home = home();
    write(&home, "plain/a.json", "{}");
    let plain = text(&home, "plain");
    for arguments in [
        vec!["git", "Team", "https://example.com/a.git"],
        vec!["git", "team", "http://example.com/a.git"],
        vec!["git", "team", "ext::sh"],
        vec!["git", "team", "https://me:hunter2@example.com/a.git"],
        vec!["git", "team", "git@example.com:a.git", "--ref=--upload-pack=x"],
        vec!["git", "team", "git@example.com:a.git", "--folder", "../x"],
        vec!["git", "team", plain.as_str()],
        vec!["folder", "/nowhere/at/all"],
        vec!["plugin", plain.as_str()],
    ] {
        let whole: Vec<&str> =
            ["workflow", "sources", "add"].into_iter().chain(arguments.iter().copied()).collect();
        let ran = home.run(&whole);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(![ran.out, ran.err].concat().contains("hunter2"), "{arguments:?}");
        assert_eq!(config(&home), "");
    }
}

#[test]
fn a_malicious_address_in_the_settings_is_listed_and_stops_nothing() {
    let home = home();
    write(
        &home,
        "home/.config/workrail/config.toml",
        "[sources.git.bad]\nurl = \"ext::sh -c evil\"\n[sources.git.secret]\nurl = \"https://me:hunter2@example.com/a\"\n",
    );
    write(&home, "project/workflows/own.json", &workflow("project.own", "Own"));
    assert_eq!(listed_ids(&home), ["project.own"]);
    let health = home.run(&["workflow", "sources", "health", "--json"]);
    assert_eq!(health.code, 1);
    let sources = health.json()["sources"].as_array().unwrap().clone();
    let git = sources.iter().filter(|source| source["kind"] == "git");
    assert_eq!(git.map(|own| &own["state"]).collect::<Vec<_>>(), ["refused", "refused"], "{sources:#?}");
    let mut client = home.client();
    let listed = client.call("list_workflows", json!({}));
    assert!(!listed.is_error, "{}", listed.text);
    let text = home.run(&["workflow", "sources", "health"]).out;
    let records = fs::read_dir(home.data().join("servers")).unwrap();
    let records: String =
        records.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap_or_default()).collect();
    let record: Value = serde_json::from_str(&records).unwrap();
    assert_eq!(record["settings"]["data_dir"]["origin"], "environment", "the record of the server was read");
    for shown in [health.out, text, listed.raw, records] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn an_invalid_table_of_git_sources_is_refused() {
    let home = home();
    for text in [
        "[sources.git.x]\nurll = \"a\"\n",
        "[sources.git.x]\nref = \"a\"\n",
        "[sources.git.x]\nurl = \"a\"\nsync_hours = \"b\"\n",
        "[sources.git]\nX = 1\n",
    ] {
        home.write(&home.config(), text);
        let listed = home.run(&["config", "list", "--json"]);
        assert_eq!((listed.code, &listed.json()["error"]["code"]), (2, &json!("VALIDATION_ERROR")), "{text}");
    }
}

#[test]
fn folders_and_plugins_are_registered_and_a_running_server_is_named() {
    let home = home();
    write(&home, "flows/f.json", &workflow("user.f", "F"));
    write(&home, "plug/p.json", &workflow("acme.p", "P"));
    write(
        &home,
        "plug/workrail-plugin.json",
        r#"{"manifestVersion":1,"name":"acme","workflows":["p.json","q.json"]}"#,
    );
    let mut server = home.client();
    let added = home.done(&["workflow", "sources", "add", "folder", "../flows", "--json"]).json();
    assert_eq!(added["serversToRestart"].as_array().unwrap().len(), 1);
    let added = home.done(&["workflow", "sources", "add", "plugin", &text(&home, "plug"), "--json"]).json();
    assert_eq!(added["serversToRestart"].as_array().unwrap().len(), 1);
    assert_eq!(listed_ids(&home), ["acme.p", "user.f"]);
    let listed = |client: &mut McpClient| ids(&client.call("list_workflows", json!({})).data);
    assert_eq!(listed(&mut server), <[&str; 0]>::default(), "a new source waits for a restart");
    drop(server);
    assert_eq!(listed(&mut home.client()), ["acme.p", "user.f"]);
    let plugin = source(&home, "plugin");
    assert_eq!((&plugin["state"], &plugin["usable"]), (&json!("ok"), &json!(1)));
    assert_eq!(plugin["problems"].as_array().unwrap().len(), 1, "{plugin:#}");
    let before = config(&home);
    home.done(&["workflow", "sources", "add", "folder", &text(&home, "flows")]);
    assert_eq!(config(&home), before, "a source is registered once");
    home.done(&["workflow", "sources", "remove", "../flows"]);
    home.done(&["workflow", "sources", "remove", &text(&home, "plug")]);
    assert_eq!(config(&home), "");
}

#[test]
fn every_kind_of_problem_has_its_state_and_none_is_fatal() {
    let home = home();
    symlink(home.root().join("circle"), home.root().join("circle")).unwrap();
    write(&home, "file", "");
    let folders = ["circle", "file", "gone"].map(|name| format!("{:?}", text(&home, name))).join(", ");
    write(&home, "home/.config/workrail/config.toml", &format!("[sources]\npaths = [{folders}]\n"));
    symlink(home.root().join("flows"), home.root().join("project/workflows")).unwrap();
    let health = home.run(&["workflow", "sources", "health", "--json"]);
    assert_eq!(health.code, 1);
    let health = health.json();
    let states: Vec<&str> =
        health["sources"].as_array().unwrap().iter().map(|own| own["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["ok", "absent", "loop", "unreadable", "missing", "link", "absent"]);
    for own in health["sources"].as_array().unwrap() {
        let troubled = !["ok", "absent"].contains(&own["state"].as_str().unwrap());
        assert_eq!(own["problems"].as_array().unwrap().len(), usize::from(troubled), "{own:#}");
    }
    home.done(&["workflow", "list"]);
}

#[test]
fn precedence_reservation_and_suggestions_hold_for_new_sources() {
    let home = home();
    let put = |below: &str, id: &str, name: &str| {
        write(&home, below, &workflow(id, name));
    };
    put("plug/same.json", "team.same", "Plugin");
    put("plug/core.json", "wr.mine", "Stolen");
    put("plug/old.json", "old-plugin", "Old");
    write(
        &home,
        "plug/workrail-plugin.json",
        r#"{"manifestVersion":1,"name":"acme","workflows":["same.json","core.json","old.json"]}"#,
    );
    put("flows/same.json", "team.same", "Folder");
    put("repo/same.json", "team.same", "Git");
    put("repo/core.json", "wr.small_change", "Stolen");
    put("repo/routines/part.json", "team.part", "Part");
    put("repo/old-way.json", "old-way", "Old");
    put("repo/taken.json", "repo.old_way", "Taken");
    commit(&home);
    add_team(&home);
    home.done(&["workflow", "sources", "sync"]);
    home.done(&["workflow", "sources", "add", "plugin", &text(&home, "plug")]);
    home.done(&["workflow", "sources", "add", "folder", &text(&home, "flows")]);

    let listed = home.done(&["workflow", "list", "--all", "--json"]).json();
    assert_eq!(ids(&listed), ["old-plugin", "old-way", "repo.old_way", "team.same", "team.part"]);
    let find = |id: &str| {
        let all = listed["workflows"].as_array().unwrap();
        all.iter().find(|own| own["workflowId"] == id).unwrap().clone()
    };
    assert_eq!(
        (&find("team.same")["name"], &find("team.same")["sourceKind"]),
        (&json!("Git"), &json!("git"))
    );
    assert_eq!(find("team.part")["kind"], "routine");
    assert_eq!(find("old-plugin")["suggestedId"], "repo.old_plugin");
    assert_eq!(
        (&find("old-plugin")["idStatus"], &find("old-plugin")["sourceKind"]),
        (&json!("legacy"), &json!("plugin"))
    );
    let suggested = find("old-way")["suggestedId"].as_str().unwrap().to_owned();
    assert!(
        suggested.starts_with("repo.old_way_") && suggested.len() == "repo.old_way_".len() + 4,
        "{suggested}"
    );
    let refused: Vec<&str> =
        listed["unusable"].as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(refused, ["acme/core.json", "team/core.json"]);
    assert_eq!(
        home.done(&["workflow", "list", "--all", "--json"]).out,
        home.done(&["workflow", "list", "--all", "--json"]).out
    );

    let problems = home.run(&["workflow", "list", "--problems"]);
    assert_eq!(problems.code, 1);
    let files: Vec<&str> = problems.out.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(files, ["plugin acme/core.json (wr.mine)", "git team/core.json (wr.small_change)"]);
    let table = home.done(&["workflow", "list"]).out;
    let row = table.lines().find(|line| line.trim_start().starts_with("team.same")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[..3], ["team.same", "Git", "git"]);
    let agent = home.client().call("list_workflows", json!({})).text;
    assert_text(&home, "list_of_every_source", &agent);

    let shown = home.done(&["workflow", "inspect", "team.same", "--json"]).json();
    assert_eq!(
        shown["candidates"],
        json!([
            { "source": "git", "file": "team/same.json", "state": "used" },
            { "source": "folder", "file": "same.json", "state": "shadowed" },
            { "source": "plugin", "file": "acme/same.json", "state": "shadowed" },
        ])
    );
    let sources = home.done(&["workflow", "sources", "--json"]);
    assert_eq!(
        sources.json(),
        home.done(&["workflow", "sources", "list", "--json"]).json(),
        "list is the default"
    );
    home.done(&["workflow", "inspect", "team.same"]);
    assert_eq!(home.run(&["workflow", "inspect", "team.nothing"]).code, 2);
    put("project/workflows/same.json", "team.same", "Project");
    assert_eq!(home.done(&["workflow", "inspect", "team.same", "--json"]).json()["name"], "Project");
}

/// Calls until exactly these names are listed, besides the bundled ones: the system may report a change late.
fn until(server: &mut McpClient, what: &str, wanted: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let listed = server.call("list_workflows", json!({}));
        let workflows = listed.data["workflows"].as_array().unwrap().iter();
        let own = workflows.filter(|workflow| !workflow["workflowId"].as_str().unwrap().starts_with("wr."));
        let mut names: Vec<&str> = own.map(|own| own["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        if names == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {names:?} in place of {wanted:?}");
    }
}

#[test]
fn a_running_server_notices_edits_additions_renames_removals_and_fetches() {
    let home = home();
    write(&home, "project/workflows/a.json", &workflow("project.a", "First"));
    write(&home, "repo/g.json", &workflow("team.g", "Git one"));
    commit(&home);
    add_team(&home);
    home.done(&["workflow", "sources", "sync"]);
    let mut server = home.client();
    until(&mut server, "both", &["First", "Git one"]);
    let started = server.call("start_workflow", json!({ "workflowId": "team.g" }));
    let token = started.data["stateToken"].as_str().unwrap().to_owned();
    write(&home, "project/workflows/a.json", &workflow("project.a", "Second"));
    until(&mut server, "an edit", &["Git one", "Second"]);
    write(&home, "project/workflows/deep/b.json", &workflow("project.b", "Added"));
    until(&mut server, "an addition", &["Added", "Git one", "Second"]);
    fs::rename(
        home.root().join("project/workflows/deep/b.json"),
        home.root().join("project/workflows/deep/b.txt"),
    )
    .unwrap();
    until(&mut server, "a rename", &["Git one", "Second"]);
    fs::rename(
        home.root().join("project/workflows/deep/b.txt"),
        home.root().join("project/workflows/c.json"),
    )
    .unwrap();
    until(&mut server, "a rename back", &["Added", "Git one", "Second"]);
    fs::remove_file(home.root().join("project/workflows/a.json")).unwrap();
    until(&mut server, "a removal", &["Added", "Git one"]);
    write(&home, "repo/g.json", &workflow("team.g", "Git two"));
    commit(&home);
    home.done(&["workflow", "sources", "sync"]);
    until(&mut server, "a fetch", &["Added", "Git two"]);
    // The run keeps its version, and its replies say that the source has changed.
    let again = server.call("continue_workflow", json!({ "stateToken": token }));
    let codes: Vec<&str> = again.data["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|warning| warning["code"].as_str())
        .collect();
    assert!(codes.contains(&"PINNED_WORKFLOW_DIFFERS"), "{}", again.raw);
}

#[test]
fn a_server_fetches_due_sources_by_itself() {
    let home = home();
    write(&home, "repo/g.json", &workflow("team.g", "Fetched"));
    commit(&home);
    home.done(&["workflow", "sources", "add", "git", "team", &text(&home, "repo"), "--allow-local"]);
    let mut server = home.client();
    until(&mut server, "the first fetch", &["Fetched"]);
}

fn limit_open_files(server: &McpClient, limit: &str) {
    let process = server.process_id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &process, &format!("--nofile={limit}:")]).status();
    assert!(limited.unwrap().success());
}

/// Without file handles nothing is known about the workflows that exist, so none is called unknown.
#[test]
fn too_many_open_files_never_make_a_workflow_unknown() {
    let home = home();
    write(&home, "project/workflows/flow.json", &workflow("team.flow", "Flow"));
    let asked = ["workflow", "inspect", "team.flow", "--json"];
    let refused = home.run_in(&["prlimit", "--nofile=4"], &asked).json();
    assert_eq!(refused["error"]["code"], "STORE_BUSY", "{refused}");

    let mut server = home.client();
    server.call("list_workflows", json!({}));
    write(&home, "project/workflows/flow.json", &workflow("team.flow", "Flow, edited"));
    let start = json!({ "workflowId": "team.flow" });
    for limit in ["3", "8"] {
        limit_open_files(&server, limit);
        let refused = server.call("start_workflow", start.clone());
        assert_eq!(refused.code(), "STORE_BUSY", "{limit}: {}", refused.text);
        assert!(refused.data["retry"]["afterMs"].is_u64(), "{}", refused.data);
    }
    limit_open_files(&server, "3");
    let refused = server.call("list_workflows", json!({}));
    assert_eq!(refused.code(), "STORE_BUSY", "{}", refused.text);
    // Once there are handles again, the next call finds everything.
    limit_open_files(&server, "1024");
    let started = server.call("start_workflow", start);
    assert!(started.text.contains("Flow, edited"), "{}", started.text);
    server.close();
}

/// A folder that cannot be read may hold the version that was meant: the list and the start say so.
#[test]
fn an_unreadable_project_folder_is_disclosed_when_another_file_has_the_id() {
    let home = home();
    write(&home, "home/.workrail/workflows/flow.json", &workflow("team.flow", "The user's"));
    write(&home, "project/workflows/flow.json", &workflow("team.flow", "The project's"));
    let home = home.given_to(User::find());
    if !home.user().respects_permissions() {
        return;
    }
    for (closed, name) in [
        ("project/workflows/flow.json", "list_with_an_unreadable_file"),
        ("project/workflows", "list_with_an_unreadable_folder"),
    ] {
        let path = home.root().join(closed);
        let open = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let mut server = home.client();
        let listed = server.call("list_workflows", json!({}));
        assert_text(&home, name, &listed.text);
        let started = server.call("start_workflow", json!({ "workflowId": "team.flow" }));
        assert_eq!(started.data["warnings"][0]["code"], "SOURCE_UNREADABLE", "{}", started.data);
        // A bundled workflow cannot be replaced, so there is nothing to warn about.
        let started = server.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
        assert_eq!(started.data["warnings"].as_array().map(Vec::len).unwrap_or(0), 0, "{}", started.text);

        fs::set_permissions(&path, open).unwrap();
        let started = server.call("start_workflow", json!({ "workflowId": "team.flow" }));
        assert!(started.text.contains("The project's"), "{closed}: {}", started.text);
        server.close();
    }
}
