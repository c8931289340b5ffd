//! `workrail watch` through the real binary: changes as lines, a redrawn screen, and notifications.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod wording;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.gated", "name": "Gated", "description": "Waits for a person.", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "Prepare", "prompt": "Do a." },
            { "id": "b", "title": "Publish", "prompt": "Do b.", "requireConfirmation": { "kind": "human_approval" } },
        ],
    }));
    home
}

/// A watch that ends with the test.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(&[&["watch"], arguments].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the next line.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Ends it; returns its standard error.
    fn end(mut self) -> String {
        self.child.kill().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        self.child.wait().unwrap();
        said
    }
}

fn start(client: &mut McpClient) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": "team.gated", "goal": "publish 2.0" }))
}

#[test]
fn in_a_pipe_every_change_is_a_line() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    let mut watch = Watch::start(&home, &[]);
    let clock_is_cut = |line: String| line.split_once("  ").map(|(_, rest)| rest.to_owned()).unwrap();
    assert_eq!(clock_is_cut(watch.line()), format!("{run}  in progress, step 1. Prepare"));
    let second = client.next(&first);
    assert_eq!(clock_is_cut(watch.line()), format!("{run}  in progress, step 2. Publish"));
    let blocked = client.next(&second);
    assert_eq!(blocked.data["kind"], "blocked");
    let waits =
        format!("{run}  waits for a person: \"Publish\" waits for your approval. · workrail approve {run}");
    assert_eq!(clock_is_cut(watch.line()), waits);
    home.typed(&["approve", &run], &run);
    assert_eq!(clock_is_cut(watch.line()), format!("{run}  in progress, step 2. Publish"));
    client.next(&blocked);
    assert_eq!(clock_is_cut(watch.line()), format!("{run}  complete"));
    assert_eq!(watch.end(), "");
}

#[test]
fn changes_are_json_lines_on_request() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let mut watch = Watch::start(&home, &["--json"]);
    assert_eq!(watch.json()["stage"], "in_progress");
    let second = client.next(&first);
    assert_eq!(watch.json()["step"]["stepNumber"], 2);
    client.next(&second);
    let waits = watch.json();
    assert_eq!(waits["why"]["kind"], "approval", "{waits}");
    assert_eq!(waits["command"], format!("workrail approve {}", first.label()));
    watch.end();
}

/// A home whose desktop is a program that writes each notification to a file.
fn with_desktop(home: &Home) -> Home {
    let folder = home.root().join("bin");
    let program = folder.join("notify-send");
    let told = home.root().join("told");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(&program, format!("#!/bin/sh\nprintf '%s|' \"$@\" >> '{}'\n", told.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    home.with("PATH", format!("{}:/usr/bin:/bin", folder.display()))
}

#[test]
fn a_run_that_starts_to_wait_raises_one_notification() {
    let home = with_desktop(&home());
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    let mut watch = Watch::start(&home, &["--notify", "--json"]);
    assert_eq!(watch.json()["stage"], "in_progress");
    let second = client.next(&first);
    assert_eq!(watch.json()["step"]["stepNumber"], 2);
    let blocked = client.next(&second);
    assert_eq!(watch.json()["stage"], "waits_for_person");
    home.typed(&["approve", &run], &run);
    // The notification was shown before the next change was detected.
    assert_eq!(watch.json()["stage"], "in_progress");
    client.next(&blocked);
    assert_eq!(watch.json()["stage"], "complete");
    assert_eq!(watch.end(), "");
    let told = std::fs::read_to_string(home.root().join("told")).unwrap();
    let expected = format!(
        "--app-name|WorkRail|--|WorkRail: {run} needs you|\"Publish\" waits for your approval.\nworkrail approve {run}|"
    );
    assert_eq!(told, expected);
}

#[test]
fn without_a_desktop_the_bell_rings_and_this_is_announced_once() {
    // A path without any programs: the shell's own folders may contain one.
    let home = home();
    let bare = home.with("PATH", home.root().join("no-programs"));
    let mut client = home.client();
    let first = start(&mut client);
    let second = client.next(&first);
    let mut watch = Watch::start(&bare, &["--notify", "--json"]);
    assert_eq!(watch.json()["stage"], "in_progress");
    let blocked = client.next(&second);
    assert_eq!(watch.json()["stage"], "waits_for_person");
    let run = first.label();
    home.typed(&["approve", &run], &run);
    assert_eq!(watch.json()["stage"], "in_progress");
    client.next(&blocked);
    assert_eq!(watch.json()["stage"], "complete");
    let said = watch.end();
    insta::assert_snapshot!(said.replace('\u{7}', "[bell]"), @"[bell]No desktop notification could be shown (notify-send or osascript). The terminal bell rings instead.");
}

#[test]
fn on_a_terminal_the_screen_is_redrawn() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let words = format!("'{PROGRAM}' watch");
    let mut command = std::process::Command::new("script");
    command.args(["--quiet", "--return", "--echo", "never", "--command", &words, "/dev/null"]);
    command.env_clear().envs(home.variables()).current_dir(home.project());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut terminal = command.spawn().unwrap();
    let mut screen = BufReader::new(terminal.stdout.take().unwrap());
    let mut until = |wanted: &str| {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(wanted) {
            let mut byte = [0];
            screen.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    };
    let drawn = until("1. Prepare");
    assert_text(&home, "first_screen_of_watch", &drawn.replace('\u{1b}', "[escape]").replace('\r', ""));
    let second = client.next(&first);
    assert!(until("2. Publish").contains("\u{1b}[H"), "drawn from the top again");
    client.next(&second);
    until(&format!("workrail approve {}", first.label()));
    terminal.kill().unwrap();
    terminal.wait().unwrap();
}
