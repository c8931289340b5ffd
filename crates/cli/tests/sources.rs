//! Sources, `list` and `inspect` through the real binary and the real server, in a home of their own.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_testkit::command::{self, Place, Ran};
use workrail_testkit::mcp_client::McpClient;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

struct Home(tempfile::TempDir);

fn workflow(id: &str, name: &str) -> String {
    json!({
        "id": id, "name": name, "description": "Says hello.", "version": "1.0.0",
        "steps": [{ "id": "hello", "title": "Say hello", "prompt": "Say hello to the user." }],
    })
    .to_string()
}

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir(home.path("work")).unwrap();
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn text(&self, below: &str) -> String {
        self.path(below).to_str().unwrap().to_owned()
    }

    fn write(&self, below: &str, text: &str) -> &Self {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn config(&self) -> String {
        fs::read_to_string(self.path(".config/workrail/config.toml")).unwrap_or_default()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let place = Place { home: self.0.path(), data: &self.path("data"), folder: &self.path("work") };
        command::run(Path::new(PROGRAM), place, arguments, &[])
    }

    fn done(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran
    }

    fn server(&self) -> McpClient {
        let path = PathBuf::from(std::env::var("PATH").unwrap());
        McpClient::start(
            Path::new(PROGRAM),
            &self.path("data"),
            &[("HOME", self.0.path()), ("PATH", &path), ("CLAUDE_PROJECT_DIR", &self.path("work"))],
        )
    }

    /// Commits everything below `repo`, making the repository first.
    fn commit(&self) {
        for arguments in [
            vec!["init", "--quiet", "--initial-branch=main"],
            vec!["add", "--all"],
            vec!["commit", "--quiet", "--allow-empty", "--message=change"],
        ] {
            let done = Command::new("git")
                .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
                .args(&arguments)
                .current_dir(self.path("repo"))
                .env_clear()
                .env("PATH", std::env::var("PATH").unwrap())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .status()
                .unwrap();
            assert!(done.success(), "{arguments:?}");
        }
    }

    fn add_team(&self) {
        self.done(&[
            "workflow",
            "sources",
            "add",
            "git",
            "team",
            &self.text("repo"),
            "--allow-local",
            "--sync-hours",
            "0",
        ]);
    }

    /// Every workflow's id, as listed.
    fn ids(&self) -> Vec<String> {
        ids(&self.done(&["workflow", "list", "--json"]).json())
    }

    fn source(&self, kind: &str) -> Value {
        let health = self.run(&["workflow", "sources", "health", "--json"]).json();
        let sources = health["sources"].as_array().unwrap();
        sources.iter().find(|own| own["kind"] == kind).unwrap_or_else(|| panic!("{health:#}")).clone()
    }
}

fn ids(listed: &Value) -> Vec<String> {
    let workflows = listed["workflows"].as_array().unwrap();
    let ids = workflows.iter().map(|own| own["workflowId"].as_str().unwrap().to_owned());
    ids.filter(|id| !id.starts_with("wr.")).collect()
}

#[test]
fn a_git_source_from_registering_to_removing() {
    let home = Home::new();
    home.write(".config/workrail/config.toml", "# mine\n[retention]\nttl_days = 30 # a month\n");
    home.write("repo/hello.json", &workflow("team.hello", "Hello")).commit();
    home.add_team();
    assert_eq!(
        home.config(),
        format!(
            "# mine\n[retention]\nttl_days = 30 # a month\n\n[sources.git.team]\nurl = \"{}\"\nsync_hours = 0\n\
             allow_local = true\n",
            home.text("repo")
        )
    );
    let listed = home.done(&["config", "get", "sources.git", "--json"]).json();
    assert_eq!(listed["value"]["team"]["url"], home.text("repo"));
    assert_eq!(listed["restart"], "workflow_sources");
    assert_eq!(home.run(&["workflow", "sources", "health"]).code, 1, "it was never fetched");
    assert_eq!(home.source("git")["state"], "never_fetched");
    assert!(home.ids().is_empty());
    let problems = home.run(&["workflow", "list", "--problems"]);
    assert!(
        problems.code == 1 && problems.out.contains("workrail workflow sources sync team"),
        "{problems:?}"
    );

    let synced = home.done(&["workflow", "sources", "sync", "--json"]).json();
    assert_eq!(
        (&synced["sources"][0]["outcome"], &synced["sources"][0]["files"]),
        (&json!("updated"), &json!(1))
    );
    assert_eq!(
        home.done(&["workflow", "sources", "sync", "team", "--json"]).json()["sources"][0]["outcome"],
        "unchanged"
    );
    assert_eq!(home.ids(), ["team.hello"]);
    assert_eq!(home.run(&["workflow", "sources", "health"]).code, 0);
    let git = home.source("git");
    assert_eq!(
        (&git["state"], &git["usable"], &git["sourceKind"]),
        (&json!("ok"), &json!(1), &json!("remote"))
    );

    fs::rename(home.path("repo"), home.path("moved")).unwrap();
    let failed = home.run(&["workflow", "sources", "sync"]);
    assert!(failed.code == 1 && failed.out.contains("stays in use"), "{failed:?}");
    assert_eq!(home.source("git")["state"], "stale");
    assert_eq!(home.run(&["workflow", "sources", "health"]).code, 1);
    assert_eq!(home.ids(), ["team.hello"], "offline, what was fetched keeps serving");

    assert_eq!(home.run(&["workflow", "sources", "sync", "taem"]).code, 2);
    home.done(&["workflow", "sources", "remove", "team"]);
    assert_eq!(home.config(), "# mine\n[retention]\nttl_days = 30 # a month\n");
    assert!(home.ids().is_empty());
    assert_eq!(fs::read_dir(home.path("data/sources/git")).unwrap().count(), 0);
    assert_eq!(home.run(&["workflow", "sources", "remove", "team"]).code, 2);
}

#[test]
fn what_cannot_be_a_source_is_refused_before_anything_is_written() {
    let home = Home::new();
    home.write("plain/a.json", "{}");
    let plain = home.text("plain");
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
        assert!(ran.code == 2 && ran.err.contains("Nothing was written"), "{arguments:?}: {ran:?}");
        assert!(!ran.err.contains("hunter2"));
        assert_eq!(home.config(), "");
    }
}

#[test]
fn an_address_with_tricks_in_the_settings_is_listed_and_stops_nothing() {
    let home = Home::new();
    home.write(
        ".config/workrail/config.toml",
        "[sources.git.bad]\nurl = \"ext::sh -c evil\"\n[sources.git.secret]\nurl = \"https://me:hunter2@example.com/a\"\n",
    );
    home.write("work/workflows/own.json", &workflow("project.own", "Own"));
    assert_eq!(home.ids(), ["project.own"]);
    let health = home.run(&["workflow", "sources", "health"]);
    assert_eq!(health.code, 1);
    assert!(
        health.out.contains("refused") && health.out.contains("https and ssh")
            || health.out.contains("ASCII")
    );
    let mut server = home.server();
    let listed = server.call("list_workflows", json!({}));
    assert!(listed.text.contains("never fetched") && listed.text.contains("bad"), "{}", listed.text);
    let record = fs::read_dir(home.path("data/servers")).unwrap().next().unwrap().unwrap().path();
    let everything = [health.out, listed.raw, fs::read_to_string(record).unwrap_or_default()].concat();
    assert!(!everything.contains("hunter2"));
    for (text, part) in [
        ("[sources.git.x]\nurll = \"a\"\n", "did you mean `url`?"),
        ("[sources.git.x]\nref = \"a\"\n", "sources.git.x.url"),
        ("[sources.git.x]\nurl = \"a\"\nsync_hours = \"b\"\n", "a whole number"),
        ("[sources.git]\nX = 1\n", "lower-case letters"),
    ] {
        home.write(".config/workrail/config.toml", text);
        let listed = home.run(&["config", "list"]);
        assert!(listed.code == 2 && listed.err.contains(part), "{text}: {listed:?}");
    }
}

#[test]
fn folders_and_plugins_are_registered_and_a_running_server_is_named() {
    let home = Home::new();
    home.write("flows/f.json", &workflow("user.f", "F"));
    home.write("plug/p.json", &workflow("acme.p", "P"));
    home.write(
        "plug/workrail-plugin.json",
        r#"{"manifestVersion":1,"name":"acme","workflows":["p.json","q.json"]}"#,
    );
    let mut server = home.server();
    let added = home.done(&["workflow", "sources", "add", "folder", "../flows"]);
    assert!(added.out.contains("restart that client"), "{added:?}");
    let added = home.done(&["workflow", "sources", "add", "plugin", &home.text("plug"), "--json"]).json();
    assert_eq!(added["serversToRestart"].as_array().unwrap().len(), 1);
    assert_eq!(home.ids(), ["acme.p", "user.f"]);
    let unaware = server.call("list_workflows", json!({}));
    assert!(!unaware.text.contains("acme.p"), "a new source waits for a restart");
    drop(server);
    assert!(home.server().call("list_workflows", json!({})).text.contains("acme.p"));
    let plugin = home.source("plugin");
    assert_eq!((&plugin["state"], &plugin["usable"]), (&json!("ok"), &json!(1)));
    assert!(plugin["problems"][0]["problem"].as_str().unwrap().contains("not there"), "{plugin:#}");
    let again = home.done(&["workflow", "sources", "add", "folder", &home.text("flows")]);
    assert!(again.out.starts_with("Already registered"));
    home.done(&["workflow", "sources", "remove", "../flows"]);
    home.done(&["workflow", "sources", "remove", &home.text("plug")]);
    assert_eq!(home.config(), "");
}

#[test]
fn every_sort_of_trouble_has_its_state_and_none_is_fatal() {
    let home = Home::new();
    symlink(home.path("circle"), home.path("circle")).unwrap();
    home.write("file", "");
    let folders = ["circle", "file", "gone"].map(|name| format!("{:?}", home.text(name))).join(", ");
    home.write(".config/workrail/config.toml", &format!("[sources]\npaths = [{folders}]\n"));
    symlink(home.path("flows"), home.path("work/workflows")).unwrap();
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
    assert!(home.run(&["workflow", "sources"]).out.contains("4 need attention"));
    home.done(&["workflow", "list"]);
}

#[test]
fn precedence_reservation_and_suggestions_hold_for_new_sources() {
    let home = Home::new();
    let put = |below: &str, id: &str, name: &str| {
        home.write(below, &workflow(id, name));
    };
    put("plug/same.json", "team.same", "Plugin");
    put("plug/core.json", "wr.mine", "Stolen");
    put("plug/old.json", "old-plugin", "Old");
    home.write(
        "plug/workrail-plugin.json",
        r#"{"manifestVersion":1,"name":"acme","workflows":["same.json","core.json","old.json"]}"#,
    );
    put("flows/same.json", "team.same", "Folder");
    put("repo/same.json", "team.same", "Git");
    put("repo/core.json", "wr.small_change", "Stolen");
    put("repo/routines/part.json", "team.part", "Part");
    put("repo/old-way.json", "old-way", "Old");
    put("repo/taken.json", "repo.old_way", "Taken");
    home.commit();
    home.add_team();
    home.done(&["workflow", "sources", "sync"]);
    home.done(&["workflow", "sources", "add", "plugin", &home.text("plug")]);
    home.done(&["workflow", "sources", "add", "folder", &home.text("flows")]);

    let listed = home.done(&["workflow", "list", "--all", "--json"]).json();
    assert_eq!(ids(&listed), ["old-plugin", "old-way", "repo.old_way", "team.same", "team.part"]);
    let find = |id: &str| {
        let all = listed["workflows"].as_array().unwrap();
        all.iter().find(|own| own["workflowId"] == id).unwrap().clone()
    };
    assert_eq!(
        (&find("team.same")["name"], &find("team.same")["sourceKind"]),
        (&json!("Git"), &json!("remote"))
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
        listed["unusable"].as_array().unwrap().iter().map(|own| own["file"].as_str().unwrap()).collect();
    assert_eq!(refused, ["acme/core.json", "team/core.json"]);
    assert_eq!(
        home.done(&["workflow", "list", "--all", "--json"]).out,
        home.done(&["workflow", "list", "--all", "--json"]).out
    );

    let shown = home.done(&["workflow", "inspect", "team.same", "--json"]).json();
    assert_eq!(
        shown["candidates"],
        json!([
            { "source": "git", "file": "team/same.json", "state": "used" },
            { "source": "folder", "file": "same.json", "state": "shadowed" },
            { "source": "plugin", "file": "acme/same.json", "state": "shadowed" },
        ])
    );
    let text = home.done(&["workflow", "inspect", "team.same"]).out;
    assert!(text.contains("shadowed") && text.contains("Say hello"), "{text}");
    assert_eq!(home.run(&["workflow", "inspect", "team.nothing"]).code, 2);
    put("work/workflows/same.json", "team.same", "Project");
    assert_eq!(home.done(&["workflow", "inspect", "team.same", "--json"]).json()["name"], "Project");
}

/// Calls until the answer is as wanted; how soon a system reports a change is not ours to say.
fn until(server: &mut McpClient, what: &str, wanted: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let listed = server.call("list_workflows", json!({}));
        if wanted(&listed.text) {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {}", listed.text);
    }
}

#[test]
fn a_running_server_sees_edits_additions_renames_removals_and_fetches() {
    let home = Home::new();
    home.write("work/workflows/a.json", &workflow("project.a", "First"));
    home.write("repo/g.json", &workflow("team.g", "Git one")).commit();
    home.add_team();
    home.done(&["workflow", "sources", "sync"]);
    let mut server = home.server();
    until(&mut server, "both", |text| text.contains("First") && text.contains("Git one"));
    let started = server.call("start_workflow", json!({ "workflowId": "team.g" }));
    let token = started.structured["stateToken"].as_str().unwrap().to_owned();
    home.write("work/workflows/a.json", &workflow("project.a", "Second"));
    until(&mut server, "an edit", |text| text.contains("Second") && !text.contains("First"));
    home.write("work/workflows/deep/b.json", &workflow("project.b", "Added"));
    until(&mut server, "an addition", |text| text.contains("Added"));
    fs::rename(home.path("work/workflows/deep/b.json"), home.path("work/workflows/deep/b.txt")).unwrap();
    until(&mut server, "a rename", |text| !text.contains("Added"));
    fs::rename(home.path("work/workflows/deep/b.txt"), home.path("work/workflows/c.json")).unwrap();
    until(&mut server, "a rename back", |text| text.contains("Added"));
    fs::remove_file(home.path("work/workflows/a.json")).unwrap();
    until(&mut server, "a removal", |text| !text.contains("Second"));
    home.write("repo/g.json", &workflow("team.g", "Git two")).commit();
    home.done(&["workflow", "sources", "sync"]);
    until(&mut server, "a fetch", |text| text.contains("Git two"));
    // The run keeps what it was started with, and is told that the source has moved on.
    let again = server.call("continue_workflow", json!({ "stateToken": token }));
    let codes: Vec<&str> = again.structured["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|warning| warning["code"].as_str())
        .collect();
    assert!(codes.contains(&"PINNED_WORKFLOW_DIFFERS"), "{}", again.raw);
}

#[test]
fn a_server_fetches_what_is_due_by_itself() {
    let home = Home::new();
    home.write("repo/g.json", &workflow("team.g", "Fetched")).commit();
    home.done(&["workflow", "sources", "add", "git", "team", &home.text("repo"), "--allow-local"]);
    let mut server = home.server();
    until(&mut server, "the first fetch", |text| text.contains("Fetched"));
}
