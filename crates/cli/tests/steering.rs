//! What a person does from a terminal, and what the environment switches, through the real binary.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use workrail_testkit::mcp_client::{McpClient, ToolReply, with_own_words};
use workrail_testkit::terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

struct Scene {
    data: tempfile::TempDir,
    workflows: tempfile::TempDir,
}

impl Scene {
    /// A workflow whose first step only a person lets pass.
    fn new() -> Self {
        let scene = Self { data: tempfile::tempdir().unwrap(), workflows: tempfile::tempdir().unwrap() };
        let file = json!({
            "id": "team.gated", "name": "Gated", "description": "Waits for a person.", "version": "1.0.0",
            "steps": [
                { "id": "a", "title": "A", "prompt": "Do a.", "requireConfirmation": { "kind": "human_approval" } },
                { "id": "b", "title": "B", "prompt": "Do b." },
            ],
        });
        std::fs::write(scene.workflows.path().join("gated.json"), file.to_string()).unwrap();
        scene
    }

    fn server(&self, more: &[(&str, &str)]) -> McpClient {
        let mut env = vec![("WORKFLOW_STORAGE_PATH", self.workflows.path())];
        env.extend(more.iter().map(|(name, value)| (*name, Path::new(*value))));
        McpClient::start(Path::new(PROGRAM), self.data.path(), &env)
    }

    /// Runs a command that is not at a terminal.
    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(PROGRAM)
            .args(arguments)
            .env("WORKRAIL_DATA_DIR", self.data.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs a command at a terminal and types a line into it.
    fn typed(&self, arguments: &str, line: &str) -> bool {
        terminal::typed(Path::new(PROGRAM), self.data.path(), arguments, line)
    }
}

fn start(client: &mut McpClient) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": "team.gated" }))
}

/// Follows the next call of a reply.
fn next(client: &mut McpClient, reply: &ToolReply) -> ToolReply {
    let call = &reply.structured["nextCall"];
    client.call(call["tool"].as_str().unwrap(), with_own_words(&call["arguments"]))
}

fn label(reply: &ToolReply) -> String {
    reply.structured["run"]["label"].as_str().unwrap().to_owned()
}

#[test]
fn an_approval_needs_a_terminal_and_the_typed_label() {
    let scene = Scene::new();
    let mut client = scene.server(&[]);
    let first = start(&mut client);
    let label = label(&first);
    let blocked = next(&mut client, &first);
    assert_eq!(blocked.structured["kind"], "blocked");

    let refused = scene.run(&["approve", &label]);
    assert!(!refused.status.success());
    assert!(String::from_utf8(refused.stderr).unwrap().contains("needs an interactive terminal"));
    assert!(!scene.typed(&format!("approve {label}"), "yes"), "another word than the label approves nothing");
    let still = next(&mut client, &blocked);
    assert_eq!(still.structured["kind"], "blocked");

    assert!(scene.typed(&format!("reject {label}"), &label));
    let rejected = next(&mut client, &still);
    assert!(rejected.text.contains("rejected"), "{}", rejected.text);
    assert!(scene.typed(&format!("approve {label}"), &label));
    assert_eq!(next(&mut client, &rejected).step(), "b");
    assert!(!scene.run(&["approve", "amber-nobody"]).status.success());
}

#[test]
fn a_mode_that_is_chosen_later_is_pending_and_then_applied() {
    let scene = Scene::new();
    let mut client = scene.server(&[]);
    let first = start(&mut client);
    let run = label(&first);
    let refused = scene.run(&["session", "prefs", "set", "full_auto_never_stop", "--run", &run]);
    assert!(!refused.status.success(), "more autonomy needs a terminal");
    let raise = format!("session prefs set full_auto_never_stop --run {run}");
    assert!(!scene.typed(&raise, "full_auto_never_stop"), "the run's label is typed");
    assert!(scene.typed(&raise, &run));
    let lower = scene.run(&["session", "prefs", "set", "risk_policy=balanced", "--run", &run]);
    assert!(lower.status.success(), "what does not raise autonomy asks nobody: {lower:?}");
    let looked = client.call("continue_workflow", json!({ "stateToken": first.string("stateToken") }));
    assert_eq!(looked.structured["warnings"][0]["code"], "PREFERENCES_PENDING");
    let second = next(&mut client, &first);
    assert_eq!(second.step(), "b");
    assert_eq!(second.structured["preferences"]["autonomy"], "full_auto_never_stop");
    let log = String::from_utf8(scene.run(&["log", &run, "--json"]).stdout).unwrap();
    assert!(log.contains("command_line") || log.contains("command line"), "{log}");
}

/// The log of a run, as text.
fn log(scene: &Scene, run: &str) -> String {
    String::from_utf8(scene.run(&["log", run]).stdout).unwrap()
}

#[test]
fn an_approval_below_the_program_that_runs_a_server_is_recorded_as_such() {
    let scene = Scene::new();
    // This test starts the server and the terminal alike, as a program that runs an agent does.
    let mut client = scene.server(&[]);
    let first = start(&mut client);
    let run = label(&first);
    let blocked = next(&mut client, &first);
    assert!(scene.typed(&format!("approve {run}"), &run));
    assert_eq!(next(&mut client, &blocked).step(), "b");
    assert!(
        log(&scene, &run).contains("from a terminal of the program that runs the agent"),
        "{}",
        log(&scene, &run)
    );
    let report = String::from_utf8(scene.run(&["report", &run]).stdout).unwrap();
    assert!(
        report.contains("someone at a terminal") && report.contains("warning: from a terminal"),
        "{report}"
    );
}

#[test]
fn an_approval_while_no_server_runs_does_not_claim_to_know_where_it_came_from() {
    let scene = Scene::new();
    let mut client = scene.server(&[]);
    let first = start(&mut client);
    let run = label(&first);
    let blocked = next(&mut client, &first);
    client.close();
    assert!(scene.typed(&format!("approve {run}"), &run));
    assert!(log(&scene, &run).contains("not known whether"), "{}", log(&scene, &run));
    assert_eq!(next(&mut scene.server(&[]), &blocked).step(), "b");
}

#[test]
fn an_approval_beside_a_server_on_http_does_not_claim_to_know_where_it_came_from() {
    let scene = Scene::new();
    let mut client = scene.server(&[]);
    let first = start(&mut client);
    let run = label(&first);
    next(&mut client, &first);
    client.close();
    let mut http = Command::new(PROGRAM)
        .args(["mcp", "--http", "127.0.0.1:0"])
        .env("WORKRAIL_DATA_DIR", scene.data.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = std::io::BufReader::new(http.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut String::new()).unwrap();
    let said = terminal::shown(Path::new(PROGRAM), scene.data.path(), &format!("approve {run} --json"), &run);
    http.kill().unwrap();
    http.wait().unwrap();
    assert!(said.contains("\"descendsFromServer\": null"), "{said}");
}

#[test]
fn raising_autonomy_says_what_is_recorded_of_it() {
    let scene = Scene::new();
    let mut client = scene.server(&[]);
    let run = label(&start(&mut client));
    let raise = format!("prefs set full_auto_never_stop --run {run}");
    let said = terminal::shown(Path::new(PROGRAM), scene.data.path(), &raise, &run);
    assert!(said.contains("only say that the change came from the command line"), "{said}");
}

#[test]
fn another_settings_file_does_not_switch_the_protection_off() {
    let scene = Scene::new();
    let home = scene.workflows.path();
    std::fs::create_dir(home.join("workrail")).unwrap();
    std::fs::write(home.join("workrail/config.toml"), "[approvals]\nrefuse_descendants = true\n").unwrap();
    let empty = home.join("empty.toml");
    std::fs::write(&empty, "").unwrap();
    let mut client = scene.server(&[]);
    let first = start(&mut client);
    let run = label(&first);
    next(&mut client, &first);
    let with = |more: &str, rest: &str| {
        let words = format!("XDG_CONFIG_HOME='{}' {more} '{PROGRAM}' {rest} approve {run}", home.display());
        terminal::shown(Path::new("/usr/bin/env"), scene.data.path(), &words, &run)
    };
    let empty = empty.display();
    for said in [
        with("", ""),
        with("", &format!("--config '{empty}'")),
        with(&format!("WORKRAIL_CONFIG='{empty}'"), ""),
    ] {
        assert!(said.contains("An approval is refused here"), "{said}");
    }
}

#[test]
fn a_setting_refuses_approvals_below_the_program_that_runs_a_server() {
    let scene = Scene::new();
    let config = scene.workflows.path().join("config.toml");
    std::fs::write(&config, "[approvals]\nrefuse_descendants = true\n").unwrap();
    let mut client = scene.server(&[]);
    let first = start(&mut client);
    let run = label(&first);
    let blocked = next(&mut client, &first);
    let with_setting = format!("--config '{}'", config.display());
    assert!(!scene.typed(&format!("{with_setting} approve {run}"), &run));
    assert!(
        !scene.typed(&format!("{with_setting} session prefs set full_auto_never_stop --run {run}"), &run)
    );
    let still = next(&mut client, &blocked);
    assert_eq!(still.structured["kind"], "blocked", "{}", still.text);
    client.close();
    assert!(
        scene.typed(&format!("{with_setting} approve {run}"), &run),
        "a terminal of one's own is not refused"
    );
}

#[test]
fn an_approval_of_a_session_in_use_is_told_to_wait() {
    let scene = Scene::new();
    let mut client = scene.server(&[]);
    let first = start(&mut client);
    let run = label(&first);
    next(&mut client, &first);
    let session = first.structured["run"]["sessionId"].as_str().unwrap();
    let lock = std::fs::File::open(scene.data.path().join(format!("sessions/{session}/.lock"))).unwrap();
    lock.lock().unwrap();
    let said = terminal::shown(Path::new(PROGRAM), scene.data.path(), &format!("approve {run} --json"), &run);
    assert!(said.contains("\"SESSION_LOCKED\""), "{said}");
}

#[test]
fn the_environment_chooses_mode_tokens_and_tools() {
    let scene = Scene::new();
    let names = |client: &mut McpClient| -> Vec<String> {
        let listed = client.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut looking = scene.server(&[("WORKRAIL_ENABLE_V2_TOOLS", "false")]);
    assert_eq!(names(&mut looking), ["list_workflows", "inspect_workflow", "resume_session"]);
    let mut fewer = scene.server(&[("WORKRAIL_ENABLE_CHECKPOINT", "off"), ("WORKRAIL_ENABLE_RESUME", "off")]);
    assert_eq!(
        names(&mut fewer),
        ["list_workflows", "inspect_workflow", "start_workflow", "continue_workflow"]
    );
    let mut more = scene.server(&[("WORKRAIL_ENABLE_START_SESSION", "true")]);
    assert!(names(&mut more).contains(&"start_session".to_owned()));

    let mut long =
        scene.server(&[("WORKRAIL_TOKEN_ENCODING", "v1"), ("WORKRAIL_DEFAULT_MODE", "full_auto_never_stop")]);
    let first = start(&mut long);
    assert!(first.string("ackToken").starts_with("ack.v1."));
    assert_eq!(first.structured["preferences"]["autonomy"], Value::from("full_auto_never_stop"));
    let mut short = scene.server(&[]);
    let second = next(&mut short, &first);
    assert_eq!(second.step(), "b", "both encodings are always accepted");
    assert!(second.string("ackToken").starts_with("ack.v2."));
}

#[test]
fn a_wrong_word_in_the_environment_is_said_at_once() {
    let scene = Scene::new();
    let started = Command::new(PROGRAM)
        .arg("mcp")
        .env("WORKRAIL_DATA_DIR", scene.data.path())
        .env("WORKRAIL_DEFAULT_MODE", "fast")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!started.status.success() && started.stdout.is_empty());
    assert!(String::from_utf8(started.stderr).unwrap().contains("full_auto_never_stop"));
}
