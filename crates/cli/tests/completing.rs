//! Completion of names in shells, through the real binary and the real shells where they are installed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::print_stdout, reason = "what was skipped is shown")]

use std::path::Path;
use std::process::Command;

use serde_json::json;
use workrail_testkit::home::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

fn home() -> (Home, String) {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Change something.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    }));
    let started = home.client().call("start_workflow", json!({ "workflowId": "team.change" }));
    let label = started.structured["run"]["label"].as_str().unwrap().to_owned();
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
        &["session", "delete", first],
        &["session", "prefs", "show", "--session", first],
        &["report", "--format", "html", first],
    ] {
        assert_eq!(offered(&home, words), [label.as_str()], "{words:?}");
    }
    assert_eq!(offered(&home, &["workflow", "inspect", "team."]), ["team.change"]);
    assert_eq!(offered(&home, &["workflow", "preview", "team."]), ["team.change"]);
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

/// A folder in which the program has its usual name.
fn folder(home: &Home) -> String {
    let folder = home.root().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(PROGRAM, folder.join("workrail")).unwrap();
    format!("{}:/usr/bin:/bin", folder.display())
}

/// What a shell prints for a script, or `None` where the shell is not installed.
fn printed(home: &Home, shell: &str, script: &str) -> Option<String> {
    let program =
        ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(shell)).find(|path| path.exists());
    let Some(program) = program else {
        println!("skipped: {shell} is not installed");
        return None;
    };
    let mut command = Command::new(program);
    command.arg("-c").arg(script).env_clear().envs(home.variables()).current_dir(home.project());
    let output = command.env("PATH", folder(home)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn bash_offers_labels_and_still_offers_commands() {
    let (home, label) = home();
    let script = format!(
        "eval \"$(workrail setup completions bash)\"\n\
         COMP_WORDS=(workrail show {0}); COMP_CWORD=2; _workrail_names workrail {0} show; echo \"${{COMPREPLY[@]}}\"\n\
         COMP_WORDS=(workrail sho); COMP_CWORD=1; _workrail_names workrail sho workrail; echo \"${{COMPREPLY[@]}}\"",
        &label[..2]
    );
    if let Some(printed) = printed(&home, "bash", &script) {
        assert_eq!(printed, format!("{label}\nshow\n"));
    }
}

#[test]
fn fish_offers_labels() {
    let (home, label) = home();
    let script =
        format!("workrail setup completions fish | source; complete -C 'workrail show {}'", &label[..2]);
    if let Some(printed) = printed(&home, "fish", &script) {
        assert!(printed.lines().any(|line| line == label), "{printed}");
    }
}

#[test]
fn the_zsh_script_is_one_that_zsh_reads() {
    let (home, _) = home();
    let script = "workrail setup completions zsh > script.zsh && zsh -n script.zsh && echo read";
    if let Some(printed) = printed(&home, "zsh", script) {
        assert_eq!(printed, "read\n");
    }
}
