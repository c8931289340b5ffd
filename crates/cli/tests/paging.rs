//! Colours and the pager, through the real binary at a terminal and in a pipe.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use workrail_testkit::home::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A home with a run, at a terminal that can show colours.
fn home() -> (Home, String) {
    let home = Home::new(PROGRAM).with("TERM", "xterm-256color");
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Change something.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    }));
    let started = home.client().call("start_workflow", json!({ "workflowId": "team.change" }));
    let label = started.data["run"]["label"].as_str().unwrap().to_owned();
    (home, label)
}

const ESCAPE: char = '\u{1b}';

#[test]
fn colours_are_for_terminals_unless_overridden() {
    let (home, run) = home();
    let show = ["show", &run, "--no-pager"];
    assert!(home.typed(&show, "").out.contains(ESCAPE), "a terminal");
    assert!(!home.run(&show).out.contains(ESCAPE), "a pipe");
    assert!(home.run(&[&show[..], &["--color", "always"]].concat()).out.contains(ESCAPE));
    assert!(!home.typed(&[&show[..], &["--color", "never"]].concat(), "").out.contains(ESCAPE));
    let plain = home.with("NO_COLOR", "1");
    assert!(!plain.typed(&show, "").out.contains(ESCAPE));
    assert!(plain.run(&[&show[..], &["--color", "always"]].concat()).out.contains(ESCAPE));
    assert_eq!(home.run(&[&show[..], &["--color", "green"]].concat()).code, 2);
}

#[test]
fn long_output_is_paged_only_on_a_terminal() {
    let (home, run) = home();
    let paged = home.with("PAGER", "sed s/^/|/");
    for command in [
        &["show", &run][..],
        &["log", &run],
        &["tree", &run],
        &["report", &run],
        &["session", "list"],
        &["workflow", "list"],
        &["explain", "--list"],
    ] {
        let shown = paged.typed(command, "");
        assert_eq!(shown.code, 0, "{command:?}: {shown:?}");
        assert!(shown.out.lines().all(|line| line.starts_with('|')), "{command:?}: {}", shown.out);
        assert!(!shown.out.is_empty());
        let at_once = paged.typed(&[command, &["--no-pager"]].concat(), "");
        assert!(!at_once.out.starts_with('|'), "{command:?}: {}", at_once.out);
        assert!(!paged.run(command).out.starts_with('|'), "{command:?} in a pipe");
    }
    assert!(!paged.typed(&["status"], "").out.starts_with('|'), "the status is short");
    let none = home.with("PAGER", "");
    assert!(none.typed(&["show", &run], "").out.contains(&run));
    let missing = home.with("PAGER", "no-such-pager");
    assert!(missing.typed(&["show", &run], "").out.contains(&run));
}

#[test]
fn a_pager_that_ends_early_ends_the_command_quietly() {
    let (home, run) = home();
    let shown = home.with("PAGER", "true").typed(&["show", &run], "");
    assert_eq!((shown.code, shown.out.as_str()), (0, ""), "{shown:?}");
}

/// Reads everything, then says that it is ready, answers each Ctrl-C, and ends when a line is typed.
const STAYING_PAGER: &str = "#!/bin/sh
cat > /dev/null
trap 'echo interrupted' INT
echo ready
while ! read -r line < /dev/tty; do :; done
echo left
";

#[test]
fn ctrl_c_goes_to_the_pager_while_it_runs() {
    let (home, run) = home();
    let pager = home.root().join("pager");
    std::fs::write(&pager, STAYING_PAGER).unwrap();
    std::fs::set_permissions(&pager, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut terminal = home.with("PAGER", &pager).at_a_terminal(&["show", &run]);
    let mut keyboard = terminal.stdin.take().unwrap();
    let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let mut until = |wanted: &str| lines.find(|line| line.trim_end().ends_with(wanted));
    assert!(until("ready").is_some());
    for _ in 0..2 {
        // Ctrl-C, as sent by the keyboard.
        keyboard.write_all(b"\x03").unwrap();
        assert!(until("interrupted").is_some());
    }
    keyboard.write_all(b"\n").unwrap();
    assert!(until("left").is_some());
    assert_eq!(terminal.wait().unwrap().code(), Some(0), "the command outlives its pager");
}

#[test]
fn a_written_file_is_a_link_on_a_terminal_and_a_name_in_a_pipe() {
    let (home, run) = home();
    let shown = home.typed(&["report", &run, "-o", "a report.md", "--no-pager"], "");
    assert!(
        shown.out.contains("\u{1b}]8;;file://") && shown.out.contains("a%20report.md"),
        "{:?}",
        shown.out
    );
    let piped = home.done(&["report", &run, "-o", "b.md"]);
    assert!(piped.out.starts_with("Written: b.md ("), "{}", piped.out);
}
