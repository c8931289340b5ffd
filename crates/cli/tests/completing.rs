//! Shell completion of names, through the real binary and the real shells that are installed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;
use workrail_testkit::home::Home;
use workrail_testkit::skipped::skip;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

fn home() -> (Home, String) {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Change something.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    }));
    let started = home.client().call("start_workflow", json!({ "workflowId": "team.change" }));
    let label = started.data["run"]["label"].as_str().unwrap().to_owned();
    (home, label)
}

fn offered(home: &Home, words: &[&str]) -> Vec<String> {
    let ran = home.done(&[&["complete", "--"], words].concat());
    ran.out.lines().map(str::to_owned).collect()
}

#[test]
fn names_are_offered_where_a_command_takes_them() {
    let (home, label) = home();
    let first = &label[..2];
    for words in [
        &["show", first][..],
        &["approve", first],
        &["close", first],
        &["compare", first],
        &["compare", "blue-otter", first],
        &["session", "delete", first],
        &["session", "prefs", "show", "--session", first],
        &["report", "--format", "html", first],
    ] {
        assert_eq!(offered(&home, words), [label.as_str()], "{words:?}");
    }
    assert_eq!(offered(&home, &["workflow", "inspect", "team."]), ["team.change"]);
    assert_eq!(offered(&home, &["workflow", "preview", "team."]), ["team.change"]);
    assert_eq!(offered(&home, &["workflow", "copy", "team."]), ["team.change"]);
    assert_eq!(offered(&home, &["trust", "team."]), ["team.change"]);
    assert_eq!(offered(&home, &["trust", "team.other", "team."]), ["team.change"]);
    assert_eq!(offered(&home, &["workflow", "copy", "team.change", "team."]), Vec::<String>::new());
    assert_eq!(offered(&home, &["config", "get", "approvals.refuse"]), ["approvals.refuse_descendants"]);
    assert_eq!(offered(&home, &["explain", "TOKEN_BAD"]), ["TOKEN_BAD_SIGNATURE"]);
    for nothing in [&["show", "--j"][..], &["report", "--format", "ht"], &["status", ""], &["sho"]] {
        assert_eq!(offered(&home, nothing), Vec::<String>::new(), "{nothing:?}");
    }
}

#[test]
fn completing_creates_nothing() {
    let home = Home::new(PROGRAM);
    let nowhere = home.with_data(&home.root().join("nowhere"));
    for words in [&["show", ""][..], &["config", "get", ""], &["workflow", "inspect", ""]] {
        nowhere.done(&[&["complete", "--"], words].concat());
    }
    assert!(!home.root().join("nowhere").exists());
}

/// What a shell needs to complete names right after it starts, and how to start it.
struct Shell {
    name: &'static str,
    /// Its settings file, by its name beneath the home directory.
    settings: (&'static str, &'static str),
    start: &'static str,
}

/// Shown when the shell waits for a line.
const PROMPT: &str = "READY>";

const SHELLS: [Shell; 4] = [
    Shell {
        name: "bash",
        settings: (".rc", "PS1='READY>'\neval \"$(workrail setup completions bash)\"\n"),
        start: "bash --noprofile --rcfile \"$HOME/.rc\" -i",
    },
    Shell {
        name: "zsh",
        settings: (
            ".zshrc",
            "PS1='READY>'\nautoload -U compinit && compinit -u\neval \"$(workrail setup completions zsh)\"\n",
        ),
        start: "zsh -d -i",
    },
    // As a file among the shell's functions, which it reads at the first completion.
    Shell {
        name: "zsh",
        settings: (
            ".zshrc",
            "PS1='READY>'\nmkdir -p ~/functions && workrail setup completions zsh > ~/functions/_workrail\n\
             fpath=(~/functions $fpath)\nautoload -U compinit && compinit -u\n",
        ),
        start: "zsh -d -i",
    },
    Shell {
        name: "fish",
        settings: (
            ".config/fish/config.fish",
            "function fish_prompt; echo -n 'READY>'; end\nworkrail setup completions fish | source\n",
        ),
        start: "fish -i",
    },
];

/// A folder with a `workrail` that completes like the real one, and otherwise prints how it was called.
fn folder(home: &Home) -> String {
    let folder = home.root().join("bin");
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\ncomplete | setup) exec '{PROGRAM}' \"$@\" ;;\n*) echo \"called with [$*]\" ;;\nesac\n"
    );
    home.write(&folder.join("workrail"), &script);
    std::fs::set_permissions(folder.join("workrail"), std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", folder.display())
}

/// A shell at a terminal.
struct Typing {
    terminal: Child,
    screen: ChildStdout,
}

impl Typing {
    fn start(home: &Home, shell: &Shell) -> Self {
        let (file, settings) = shell.settings;
        home.write(&home.home().join(file), settings);
        let mut command = Command::new("script");
        // Without a size, shells do not know where a line ends.
        let line = format!("stty cols 100 rows 30; exec {}", shell.start);
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        command.env_clear().envs(home.variables()).env("PATH", folder(home)).env("TERM", "xterm");
        command
            .current_dir(home.project())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut terminal = command.spawn().unwrap();
        let screen = terminal.stdout.take().unwrap();
        Self { terminal, screen }
    }

    /// Reads until this text is shown.
    fn until(&mut self, wanted: &str) -> String {
        let mut shown = Vec::new();
        while !String::from_utf8_lossy(&shown).contains(wanted) {
            let mut byte = [0];
            let read = self.screen.read(&mut byte).unwrap();
            assert_ne!(read, 0, "`{wanted}` is not shown: {}", String::from_utf8_lossy(&shown));
            shown.push(byte[0]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    }

    fn press(&mut self, keys: &str) {
        self.terminal.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// How the program is called when a line is completed with Tab and sent.
    fn called_with(&mut self, typed: &str, completed: &str) -> String {
        self.until(PROMPT);
        self.press(typed);
        self.press("\t");
        let rest = completed.strip_prefix(typed).unwrap();
        self.until(rest);
        self.press("\r");
        self.until("called with [");
        self.until("]").trim_end_matches(']').trim_end().to_owned()
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        let _ = self.terminal.kill();
        let _ = self.terminal.wait();
    }
}

#[test]
fn shells_complete_labels_workflows_and_commands() {
    let (home, label) = home();
    for shell in SHELLS {
        if !["/usr/bin", "/bin"].iter().any(|folder| Path::new(folder).join(shell.name).exists()) {
            skip(&format!("completion in {}", shell.name), "the shell is not installed");
            continue;
        }
        let mut typing = Typing::start(&home, &shell);
        for (typed, completed) in [
            (format!("workrail show {}", &label[..2]), format!("workrail show {label}")),
            (
                "workrail workflow inspect team.".to_owned(),
                "workrail workflow inspect team.change".to_owned(),
            ),
            ("workrail statu".to_owned(), "workrail status".to_owned()),
            ("workrail show --js".to_owned(), "workrail show --json".to_owned()),
        ] {
            let called = typing.called_with(&typed, &completed);
            assert_eq!(format!("workrail {called}"), completed, "{}", shell.name);
        }
    }
}
