//! Settings, preferences and `doctor` through the real binary, in an isolated home.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, with_own_words};

/// A home whose sources come from its settings.
fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail")).without("WORKFLOW_STORAGE_PATH")
}

fn configure(home: &Home, text: &str) {
    home.write(&home.config(), text);
}

fn tools(client: &mut McpClient) -> Vec<String> {
    let listed = client.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn setting_a_value_keeps_the_rest_of_the_file_and_get_reads_it_back() {
    let home = home();
    configure(
        &home,
        "# mine\n[retention]\n# not too long\nttl_days = 60   # two months\n\n[tools]\nresume = true\n",
    );
    assert_eq!(home.run(&["config", "get", "retention.ttl_days"]).out, "60\n");
    assert_eq!(home.run(&["config", "set", "retention.ttl_days", "30"]).code, 0);
    assert_eq!(home.run(&["config", "set", "tools.start_session", "true"]).code, 0);
    assert_eq!(home.run(&["config", "set", "sources.paths", "/a:/b"]).code, 0);
    assert_eq!(
        fs::read_to_string(home.config()).unwrap(),
        "# mine\n[retention]\n# not too long\nttl_days = 30   # two months\n\n[tools]\nresume = true\n\
         start_session = true\n\n[sources]\npaths = [\"/a\", \"/b\"]\n"
    );
    let got = home.run(&["config", "get", "sources.paths", "--json"]).json();
    assert_eq!((&got["value"], &got["origin"]), (&json!(["/a", "/b"]), &json!("file")));
    assert_eq!(home.run(&["config", "set", "sources.paths"]).code, 0);
    assert_eq!(home.run(&["config", "get", "sources.paths", "--json"]).json()["origin"], "default");
    let left = fs::read_to_string(home.config()).unwrap();
    assert_eq!(
        left.lines().filter(|line| line.starts_with('[')).collect::<Vec<_>>(),
        ["[retention]", "[tools]"]
    );
}

#[test]
fn a_variable_wins_over_the_file_and_the_file_over_the_default() {
    let home = home();
    configure(&home, "[tokens]\nencoding = \"v1\"\n");
    let key = ["config", "get", "tokens.encoding", "--json"];
    assert_eq!(home.run(&key).json()["value"], "v1");
    let over = home.run_with(&key, &[("WORKRAIL_TOKEN_ENCODING", "v2")]).json();
    assert_eq!((&over["value"], &over["origin"]), (&json!("v2"), &json!("environment")));
    let other = home.root().join("other.toml");
    fs::write(&other, "[retention]\nttl_days = 1\n").unwrap();
    let named = home.run(&["--config", other.to_str().unwrap(), "config", "get", "retention.ttl_days"]);
    assert_eq!(named.out, "1\n");
    let absent = home.run(&["--config", "/nowhere/at/all.toml", "config", "get", "retention.ttl_days"]);
    assert_eq!(absent.code, 2, "a file that was named must be there");
}

#[test]
fn an_unusable_settings_file_stops_every_command_but_those_that_fix_it() {
    let home = home();
    for text in [
        "[retention]\nttl_dayz = 3\n",
        "[retention]\nttl_days = \"three\"\n",
        "[retention\nttl_days = 3\n",
        "[tokens]\nencoding = \"v9\"\n",
        "data_dir = \"here\"\n",
        "[tools.deep]\nresume = true\n",
        "retention = 3\n",
        "[zzzzzzzzzzzz]\nqqqq = 3\n",
    ] {
        configure(&home, text);
        let listed = home.run(&["config", "list", "--json"]);
        assert_eq!((listed.code, &listed.json()["error"]["code"]), (2, &json!("VALIDATION_ERROR")), "{text}");
        let served = home.run(&["mcp"]);
        assert!(served.code != 0 && served.out.is_empty(), "{served:?}");
        let set = home.run(&["config", "set", "retention.ttl_days", "30"]);
        assert_eq!(set.code, 2, "a broken file is not written over");
        assert_eq!(fs::read_to_string(home.config()).unwrap(), text);
        assert_eq!(home.run(&["doctor"]).code, 1, "{text}");
        assert_eq!(home.run(&["config", "path"]).code, 0, "what fixes the file works while it is broken");
    }
    let refused = home.run(&["config", "get", "no.such", "--json"]);
    assert_eq!((refused.code, &refused.json()["error"]["code"]), (2, &json!("VALIDATION_ERROR")));
}

#[test]
fn a_named_file_need_not_exist_when_a_setting_is_written_to_it() {
    let home = home();
    let set = home.run(&["--config", "new.toml", "config", "set", "retention.ttl_days", "30"]);
    assert_eq!(set.code, 0, "{set:?}");
    let got = home.run(&["--config", "new.toml", "config", "get", "retention.ttl_days"]);
    assert_eq!((got.code, got.out.trim()), (0, "30"), "{got:?}");
}

#[test]
fn an_unparsable_call_is_answered_in_the_requested_format() {
    let home = home();
    for arguments in [&["config", "list", "--json", "--no-such"][..], &["show", "--json"]] {
        let refused = home.run(arguments);
        assert_eq!((refused.code, &refused.json()["error"]["code"]), (2, &json!("VALIDATION_ERROR")));
    }
    let plain = home.run(&["config", "list", "--no-such"]);
    assert_eq!((plain.code, plain.out.as_str()), (2, ""), "{plain:?}");
    home.done(&["config", "list", "--json", "--help"]);
}

#[test]
fn a_symlinked_settings_file_stays_a_symlink() {
    let home = home();
    configure(&home, "");
    let real = home.root().join("dotfiles.toml");
    fs::rename(home.config(), &real).unwrap();
    std::os::unix::fs::symlink(&real, home.config()).unwrap();
    assert_eq!(home.run(&["config", "set", "log.filter", "info"]).code, 0);
    assert!(fs::symlink_metadata(home.config()).unwrap().file_type().is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap().trim(), "[log]\nfilter = \"info\"");
}

#[test]
fn the_editor_gets_a_file_with_every_setting_and_the_result_is_checked() {
    let home = home();
    assert_eq!(home.run(&["config", "edit"]).code, 2, "without an editor the path is said");
    assert_eq!(home.run_with(&["config", "edit"], &[("EDITOR", "true")]).code, 0);
    let text = fs::read_to_string(home.config()).unwrap();
    for key in ["ttl_days", "start_session", "encoding", "redact_keys"] {
        assert!(text.contains(key), "{key}");
    }
    // With all lines uncommented, the file is valid and states the defaults.
    let all: String = text.lines().map(|line| format!("{}\n", bare(line))).collect();
    configure(&home, &all.replace("data_dir = \"\"\n", "").replace("store = \"\"\n", ""));
    let listed = home.run(&["config", "list", "--json"]).json();
    for setting in listed["settings"].as_array().unwrap() {
        if setting["key"] != "data_dir" && setting["key"] != "store" {
            assert_eq!(setting["value"], setting["default"], "{setting}");
        }
    }
    configure(&home, "broken = \n");
    assert_eq!(home.run_with(&["config", "edit"], &[("EDITOR", "true")]).code, 2);
}

/// The line without the `#` before an assignment.
fn bare(line: &str) -> &str {
    match line.strip_prefix("# ") {
        Some(rest) if rest.split(' ').nth(1) == Some("=") => rest,
        _ => line,
    }
}

#[test]
fn a_running_server_is_listed_with_the_settings_that_need_a_restart() {
    let home = home();
    let mut client = home.client();
    assert!(!tools(&mut client).contains(&"start_session".to_owned()));
    assert_eq!(home.run(&["config", "list", "--json"]).json()["serversBehind"], json!([]));
    home.done(&["config", "set", "tools.start_session", "true"]);
    home.done(&["config", "set", "retention.ttl_days", "5"]);
    let behind = &home.run(&["config", "list", "--json"]).json()["serversBehind"];
    let differences = behind[0]["differences"].as_array().unwrap();
    let found: Vec<(&Value, &Value)> =
        differences.iter().map(|difference| (&difference["key"], &difference["restart"])).collect();
    assert_eq!(
        found,
        [(&json!("retention.ttl_days"), &Value::Null), (&json!("tools.start_session"), &json!("tool_set")),]
    );
    finding(&home, "servers", "warning");
    client.close();
    let again = home.run(&["config", "list", "--json"]).json();
    assert_eq!(again["serversBehind"], json!([]), "a server that ended is gone");
    assert!(tools(&mut home.client()).contains(&"start_session".to_owned()));
}

#[test]
fn a_killed_server_is_not_mistaken_for_a_running_one_and_its_calls_are_in_the_log() {
    let home = home();
    let mut client = home.client();
    let first = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    client.call("continue_workflow", json!({ "ackToken": "ack.v2.nonsense" }));
    client.kill();
    assert_eq!(finding(&home, "servers", "ok")["what"], "0 running");
    let logs: Vec<PathBuf> =
        fs::read_dir(home.data().join("logs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let text = fs::read_to_string(&logs[0]).unwrap();
    let calls: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(calls[0]["tool"], "start_workflow");
    assert_eq!((&calls[0]["outcome"], &calls[0]["run"]), (&json!("ok"), &first.data["run"]["label"]));
    assert_eq!(calls[1]["outcome"], "TOKEN_INVALID_FORMAT");
    assert!(!text.contains("nonsense"), "nothing of what was said is kept");
    let next = home.client();
    let records = fs::read_dir(home.data().join("servers")).unwrap().count();
    assert_eq!(records, 2, "the record and the lock of the one that runs");
    next.close();
}

#[test]
fn preferences_for_new_runs_take_effect_without_a_restart() {
    let home = home();
    let mut client = home.client();
    let mode = |client: &mut McpClient| {
        let started = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
        started.data["preferences"].clone()
    };
    assert_eq!(mode(&mut client)["autonomy"], "guided");
    let raise = ["session", "prefs", "set", "full_auto_never_stop", "risk_policy=balanced"];
    assert_eq!(home.run(&raise).code, 2, "more autonomy needs a terminal");
    assert_eq!(home.run(&["config", "set", "preferences.autonomy", "full_auto_never_stop"]).code, 2);
    assert_ne!(home.typed(&raise, "yes").code, 0, "the mode's name is typed");
    assert_eq!(mode(&mut client)["autonomy"], "guided");
    let less = "full_auto_stop_on_user_deps";
    assert_eq!(home.typed(&["config", "set", "preferences.autonomy", less], less).code, 0);
    assert_eq!(home.typed(&raise, "full_auto_never_stop").code, 0);
    let now = mode(&mut client);
    assert_eq!((&now["autonomy"], &now["riskPolicy"]), (&json!("full_auto_never_stop"), &json!("balanced")));
    let shown = home.run(&["session", "prefs", "show", "--json"]).json();
    assert_eq!(shown["default"], now);
    assert_eq!(home.run(&["session", "prefs", "set", "guided"]).code, 0, "less autonomy asks nobody");
    assert_eq!(home.run(&["config", "set", "preferences.autonomy"]).code, 0);
}

#[test]
fn disabling_the_refusal_of_descendants_needs_a_terminal() {
    let home = home();
    let key = "approvals.refuse_descendants";
    assert_eq!(home.run(&["config", "set", key, "true"]).code, 0);
    assert_eq!(home.run(&["config", "set", key, "false"]).code, 2);
    assert_eq!(home.run(&["config", "set", key]).code, 2);
    assert_eq!(home.run(&["config", "get", key]).out, "true\n");
    assert_eq!(home.typed(&["config", "set", key, "false"], key).code, 0);
    assert_eq!(home.run(&["config", "get", key]).out, "false\n");
}

#[test]
fn preferences_of_a_session_are_pending_until_a_step_is_completed() {
    let home = home();
    let mut client = home.client();
    let first = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    let session = first.data["run"]["sessionId"].as_str().unwrap();
    let set = home.run(&[
        "session",
        "prefs",
        "set",
        "risk_policy=aggressive",
        "--session",
        &session[..9],
        "--json",
    ]);
    assert_eq!(set.json()["runs"][0]["pending"]["riskPolicy"], "aggressive");
    let label = first.data["run"]["label"].as_str().unwrap();
    let shown = home.done(&["session", "prefs", "show", "--session", label, "--json"]).json();
    assert_eq!(shown["runs"][0]["pending"]["riskPolicy"], "aggressive", "{shown}");
    let call = with_own_words(&first.data["nextCall"]["arguments"]);
    let second = client.call("continue_workflow", call);
    assert_eq!(second.data["preferences"]["riskPolicy"], "aggressive");
    let after = home.run(&["session", "prefs", "show", "--session", label, "--json"]).json();
    assert_eq!(after["runs"][0]["applied"]["riskPolicy"], "aggressive");
    assert!(after["runs"][0].get("pending").is_none());
    assert_eq!(home.run(&["session", "prefs", "set", "fast", "--session", label]).code, 2);
    assert_eq!(home.run(&["session", "prefs", "show", "--session", "amber-nobody"]).code, 2);
}

#[test]
fn doctor_finds_problems_and_says_how_to_fix_them() {
    let home = home();
    let first = home.run(&["doctor", "--json"]);
    assert_eq!(first.code, 0, "{first:?}");
    let mut client = home.client();
    let started = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
    client.close();
    let session = started.data["run"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["doctor"]).code, 0, "the session is healthy");
    fs::write(home.data().join(format!("sessions/{session}/manifest.jsonl")), "{}\n").unwrap();
    let misspelt = home.with("WORKRAIL_DATADIR", "/x");
    assert_eq!(misspelt.run(&["doctor"]).code, 1);
    let fix = finding(&misspelt, "sessions", "problem")["fix"].as_str().unwrap().to_owned();
    assert!(fix.contains(&format!("repair {session}")), "{fix}");
    assert_eq!(finding(&misspelt, "environment", "warning")["fix"], "did you mean WORKRAIL_DATA_DIR?");
    let keys = home.data().join("keys/keyring.json");
    let aside = home.root().join("keyring.json");
    fs::rename(&keys, &aside).unwrap();
    finding(&home, "data directory", "problem");
    fs::rename(&aside, &keys).unwrap();
    fs::set_permissions(&keys, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    finding(&home, "data directory", "problem");
}

/// The first finding of `doctor` about an area at a level.
fn finding(home: &Home, area: &str, level: &str) -> Value {
    let found = home.run(&["doctor", "--json"]).json();
    let mut findings = found["findings"].as_array().unwrap().iter();
    let finding = findings.find(|finding| finding["area"] == area && finding["level"] == level);
    finding.unwrap_or_else(|| panic!("no {level} about {area}: {found:#}")).clone()
}

#[test]
fn the_shell_completion_and_the_manual_cover_every_command() {
    let home = home();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["setup", "completions", shell]);
        assert!(script.code == 0 && script.out.contains("doctor"), "{shell}");
    }
    let folder = home.root().join("man1");
    assert_eq!(home.run(&["setup", "man", folder.to_str().unwrap()]).code, 0);
    let page = fs::read_to_string(folder.join("workrail.1")).unwrap();
    assert!(page.contains("doctor"));
    assert!(folder.join("workrail-config-set.1").exists());
    let version = home.run(&["--version"]).out;
    assert!(version.starts_with("workrail 0.") && version.contains('('), "{version}");
}
