//! Installed hooks: `doctor` runs them, and every one answers through the real binary.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use workrail_model::chat::HostName;
use workrail_testkit::home::Home;

use crate::{compare, home};

/// A program of this name that answers like a hook, or does not.
fn stand_in(home: &Home, folder: &str, name: &str, script: &str) -> String {
    let path = home.root().join(folder).join(name);
    home.write(&path, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What `doctor` says about hooks: level, text without folders, and fix.
fn about_hooks(home: &Home) -> String {
    let found = home.run(&["doctor", "--json"]).json();
    let hooks = found["findings"].as_array().unwrap().iter().filter(|finding| finding["area"] == "hooks");
    let lines = hooks.map(|finding| {
        let text = |member: &str| finding[member].as_str().unwrap_or("-").to_owned();
        let what = text("what");
        // The duration differs from run to run.
        let what = match what.split_once(", the slowest in ") {
            Some((before, after)) => {
                format!("{before}, the slowest in [time]{}", &after[after.find(" ms").unwrap()..])
            }
            None => what,
        };
        format!("{}: {what}\n  fix: {}\n", text("level"), text("fix"))
    });
    lines.collect()
}

#[test]
fn doctor_runs_the_hooks_and_reports_those_that_fail() {
    let home = home();
    assert_eq!(about_hooks(&home), "");
    let good = stand_in(&home, "good", "workrail", "cat >/dev/null; echo '{}'");
    let silent = stand_in(&home, "silent", "workrail", "cat >/dev/null");
    let broken = stand_in(&home, "broken", "workrail", "echo oh no >&2; exit 3");
    let chatty = stand_in(&home, "chatty", "workrail", "cat >/dev/null; echo hello");
    let hook = |program: &str, host: &str, event: &str| json!({ "type": "command", "command": format!("{program} hook {host} {event}") });
    let group = |program: &str, event: &str| json!([{ "hooks": [hook(program, "claude-code", event)] }]);
    let claude = json!({ "hooks": {
        "SessionStart": group(&good, "SessionStart"), "Stop": group(&broken, "Stop"),
        "PreToolUse": group(&chatty, "PreToolUse"), "PostToolUse": group("/nowhere/workrail", "PostToolUse"),
    } });
    home.write(&home.home().join(".claude/settings.json"), &claude.to_string());
    let gemini = json!({ "hooksConfig": { "enabled": false }, "hooks": { "AfterAgent": [{ "hooks": [hook(&silent, "gemini", "AfterAgent")] }] } });
    home.write(&home.home().join(".gemini/settings.json"), &gemini.to_string());
    let cursor = json!({ "version": 1, "hooks": { "stop": [hook(&silent, "cursor", "stop")], "sessionStart": [hook(&good, "cursor", "sessionStart")] } });
    home.write(&home.home().join(".cursor/hooks.json"), &cursor.to_string());
    compare("doctor_hooks", &about_hooks(&home), &home);
    assert_eq!(home.run(&["doctor"]).code, 1);
}

/// A repository that was only cloned runs nothing, whatever its files call a hook (G22, G112).
#[test]
fn doctor_runs_no_other_command_of_a_projects_file() {
    let home = home();
    let mark = home.root().join("ran");
    let program = stand_in(&home, "project/bin", "workrail", &format!("touch {}", mark.display()));
    let before = format!("touch {}; /nowhere/workrail", mark.display());
    for own in [program.as_str(), "bin/workrail", before.as_str(), "$(touch ran)/workrail"] {
        let hook = json!({ "type": "command", "command": format!("{own} hook claude-code Stop") });
        let settings = json!({ "hooks": { "Stop": [{ "hooks": [hook] }] } });
        home.write(&home.project().join(".claude/settings.json"), &settings.to_string());
        let said = about_hooks(&home);
        assert!(said.starts_with("warning: "), "{own}: {said}");
        assert!(!mark.exists() && !home.project().join("ran").exists(), "{own}");
    }
}

#[test]
fn doctor_asks_codex_which_hooks_it_trusts() {
    let home = home();
    let good = stand_in(&home, "good", "workrail", "cat >/dev/null; echo '{}'");
    let command = |event: &str| format!("{good} hook codex {event}");
    let group = |event: &str| json!([{ "hooks": [{ "type": "command", "command": command(event) }] }]);
    let hooks = json!({ "hooks": { "Stop": group("Stop"), "PreToolUse": group("PreToolUse") } });
    home.write(&home.home().join(".codex/hooks.json"), &hooks.to_string());
    // As Codex 0.166 answers.
    let listed = json!({ "id": 2, "result": { "data": [{ "cwd": "/", "hooks": [
        { "command": command("Stop"), "enabled": true, "trustStatus": "untrusted" },
        { "command": command("PreToolUse"), "enabled": true, "trustStatus": "trusted" },
    ] }] } });
    stand_in(
        &home,
        "bin",
        "codex",
        &format!("read a; read b; read c; echo '{{\"id\":1}}'; echo '{listed}'; cat >/dev/null"),
    );
    let path = std::env::var("PATH").unwrap();
    let with_codex = home.with("PATH", format!("{}:{path}", home.root().join("bin").display()));
    let said = format!(
        "{}--- without Codex\n{}",
        about_hooks(&with_codex),
        about_hooks(&home.with("PATH", "/usr/bin:/bin"))
    );
    compare("doctor_codex_trust", &said, &home);
}

const WITH_HOOKS: [(&str, &str); 6] = [
    ("claude-code", "user"),
    ("codex", "user"),
    ("gemini", "user"),
    ("cursor", "user"),
    ("copilot", "user"),
    ("vscode", "project"),
];

#[test]
fn every_installed_hook_answers_and_is_known_to_the_program() {
    let home = home().with("PATH", "/usr/bin:/bin");
    for (client, scope) in WITH_HOOKS {
        home.done(&["install", "--client", client, "--scope", scope, "--only", "hooks"]);
    }
    // A project's file names the program, which the shell finds on its path.
    let bin = home.program().parent().unwrap().display().to_string();
    let found = home.with("PATH", format!("{bin}:/usr/bin:/bin")).run(&["doctor", "--json"]).json();
    let hooks: Vec<&Value> =
        found["findings"].as_array().unwrap().iter().filter(|finding| finding["area"] == "hooks").collect();
    assert!(hooks.len() >= WITH_HOOKS.len(), "{hooks:#?}");
    assert!(hooks.iter().all(|finding| finding["level"] == "ok"), "{hooks:#?}");

    let path = |path: PathBuf| camino::Utf8PathBuf::from_path_buf(path).unwrap();
    let bases = workrail_host::clients::Bases {
        home: path(home.home()),
        config: path(home.home().join(".config")),
        desktop: path(home.home().join(".config")),
        project: path(home.project()),
    };
    let (installed, unreadable) = workrail_host::clients::installed_hooks(&bases);
    assert!(unreadable.is_empty(), "{unreadable:?}");
    for host in HostName::ALL {
        let mut own: Vec<&str> = installed
            .iter()
            .filter(|hook| hook.host == host.as_str())
            .map(|hook| hook.event.as_str())
            .collect();
        let mut known = workrail_core::hook::hosts::events(host).to_vec();
        own.sort_unstable();
        known.sort_unstable();
        match host {
            HostName::Opencode => {
                assert!(own.is_empty(), "its plugin calls the program")
            }
            HostName::ClaudeCode
            | HostName::Codex
            | HostName::Copilot
            | HostName::Vscode
            | HostName::Gemini
            | HostName::Cursor => assert_eq!(own, known, "{}", host.as_str()),
        }
    }
}
