//! A person at a terminal: a command run on a pseudo-terminal, with a line typed into it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `program arguments` at a terminal on a data directory, types a line, and says whether it succeeded.
pub fn typed(program: &Path, data: &Path, arguments: &str, line: &str) -> bool {
    run(program, data, arguments, line).status.success()
}

/// The same; returns what the terminal showed.
pub fn shown(program: &Path, data: &Path, arguments: &str, line: &str) -> String {
    String::from_utf8_lossy(&run(program, data, arguments, line).stdout).into_owned()
}

fn run(program: &Path, data: &Path, arguments: &str, line: &str) -> Output {
    let command = format!("'{}' {arguments}", program.display());
    let mut at_terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", data)
        .env("WORKRAIL_DATA_DIR", data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`script` makes a terminal");
    let mut keyboard = at_terminal.stdin.take().expect("stdin is piped");
    writeln!(keyboard, "{line}").expect("the command reads");
    drop(keyboard);
    at_terminal.wait_with_output().expect("the command ends")
}
