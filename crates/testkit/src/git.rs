//! Git without the developer's settings, hooks and keys, whose commits have the same ids in every run of a test.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Settings that a home's own configuration cannot change.
const SETTINGS: [&str; 6] =
    ["-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false", "-c", "init.defaultBranch=main"];
const ENVIRONMENT: [(&str, &str); 8] = [
    ("PATH", "/usr/bin:/bin"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_AUTHOR_NAME", "Test"),
    ("GIT_AUTHOR_EMAIL", "test@example.com"),
    ("GIT_COMMITTER_NAME", "Test"),
    ("GIT_COMMITTER_EMAIL", "test@example.com"),
    ("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z"),
    ("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z"),
];

/// `prefix git words`, with this folder as the user's home; the prefix may run it as another user.
pub(crate) fn command(prefix: &[impl AsRef<OsStr>], home: &Path, folder: &Path, words: &[&str]) -> Command {
    let mut all = prefix.iter().map(AsRef::as_ref).chain([OsStr::new("git")]);
    let mut command = Command::new(all.next().expect("`git` at least"));
    command.args(all).args(SETTINGS).args(words);
    command.env_clear().envs(ENVIRONMENT).env("HOME", home).current_dir(folder);
    command
}

/// Runs git in a folder, which must succeed, and returns what it printed.
pub fn run(home: &Path, folder: &Path, words: &[&str]) -> String {
    run_with_input(home, folder, words, b"")
}

/// The same with an input.
pub fn run_with_input(home: &Path, folder: &Path, words: &[&str], input: &[u8]) -> String {
    finished(command(&[""; 0], home, folder, words), input)
}

pub(crate) fn finished(mut command: Command, input: &[u8]) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("git is installed");
    // Dropped after this statement, which ends the input.
    child.stdin.take().expect("its input is a pipe").write_all(input).expect("git reads its input");
    let ran = child.wait_with_output().expect("git can be waited for");
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("git prints UTF-8").trim().to_owned()
}
