//! Whether a shell line ran a command, and whether the line's exit code is certainly that of the command.
//!
//! Only what is certain counts. A line that may have run the command, or may not, makes earlier results of it uncertain.

use workrail_model::limits::TRUNCATION_MARKER;

use crate::shell::{commands, from_program};

/// What a line says about a command that it may have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunResult {
    /// The exit code is the command's.
    Certain(i32),
    /// It may have run, and its exit code is not known.
    Unknown,
}

/// What decides whether the last command of a line runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connector {
    /// It runs in any case.
    None,
    /// `cd FOLDER &&` at the beginning of the line
    Cd,
    /// `&&`
    And,
    /// `||`
    Or,
    /// It may not be a command, something before it may have ended the shell, or another command of its pipeline may
    /// give the exit code.
    Unknown,
}

/// Shells give one of these if `cd` fails.
const CD_FAILED: [i32; 2] = [1, 2];

/// Commands that can end the shell or replace it, or run others that can. `.`, another name of `source`, is also the name
/// of a folder, so it counts only where a command begins.
const ENDS_SHELL: [&str; 7] = ["set", "exit", "return", "exec", "trap", "eval", "source"];

/// What a line and its exit code say about a command; `None` if the line did not run it. After `&&` and `||` the command
/// may not have run: then the code is that of a command before it, which failed or passed.
pub(super) fn result_of(command: &str, line: &str, code: Option<i32>) -> Option<RunResult> {
    let Some(connector) = connector_of_last(line, command) else {
        // What was cut off a long line may have run it.
        let may_have_run = mentions(line, command) || line.ends_with(TRUNCATION_MARKER);
        return may_have_run.then_some(RunResult::Unknown);
    };
    let is_certain = |code: &i32| match connector {
        Connector::None => true,
        Connector::Cd => !CD_FAILED.contains(code),
        Connector::And => *code == 0,
        Connector::Or => *code != 0,
        Connector::Unknown => false,
    };
    Some(code.filter(is_certain).map_or(RunResult::Unknown, RunResult::Certain))
}

/// Whether a line ends with a command.
pub(super) fn ends_with(line: &str, command: &str) -> bool {
    connector_of_last(line, command).is_some()
}

/// Whether the words of a command follow each other anywhere in a line: in a pipeline, in parentheses, after `time`.
fn mentions(line: &str, command: &str) -> bool {
    let (line, command) = (plain_words(line), plain_words(command));
    !command.is_empty() && line.windows(command.len()).any(|words| words == command)
}

/// The words without redirections, quotes and the signs between commands.
fn plain_words(text: &str) -> Vec<&str> {
    let is_sign = |c: char| "();&|{}<>`\"'\\".contains(c);
    let words = text.split_whitespace().filter(|word| !is_redirection(word));
    words.flat_map(|word| word.split(is_sign)).filter(|word| !word.is_empty()).collect()
}

/// The connector of a command at the end of a line; `None` if the line does not end with it, except for redirections.
fn connector_of_last(text: &str, command: &str) -> Option<Connector> {
    let mut line: Vec<&str> = text.split_whitespace().collect();
    while line.last().is_some_and(|word| is_redirection(word)) {
        line.pop();
    }
    let command: Vec<&str> = command.split_whitespace().filter(|word| !is_redirection(word)).collect();
    let start = line.len().checked_sub(command.len()).filter(|_| !command.is_empty())?;
    let (before, last) = line.split_at(start);
    if last != command {
        return None;
    }
    // What precedes it must be another command, not part of this one.
    let own = before.iter().rev().take_while(|word| end_of(word).is_none() && word.contains('=')).count();
    let (before, own) = before.split_at(before.len() - own);
    if own.iter().any(|word| may_fail_to_expand(word)) {
        return Some(Connector::Unknown);
    }
    let Some(word) = before.last() else { return Some(Connector::None) };
    end_of(word)?;
    let is_comment_or_option = |word: &&str| word.starts_with('#') || word.ends_with("pipefail");
    let is_unclear = line.iter().any(is_comment_or_option)
        || before.iter().any(|word| may_end_shell(word))
        || reads_file(text);
    if is_unclear {
        return Some(Connector::Unknown);
    }
    // A pipeline runs as a whole, so what precedes it decides.
    let ends = before.iter().rev().filter_map(|word| end_of(word));
    Some(match ends.into_iter().find(|end| *end != CommandEnd::Pipe) {
        None | Some(CommandEnd::Semicolon | CommandEnd::Pipe) => Connector::None,
        Some(CommandEnd::And) if matches!(before, ["cd", folder, "&&"] if end_of(folder).is_none()) => {
            Connector::Cd
        }
        Some(CommandEnd::And) => Connector::And,
        Some(CommandEnd::Or) => Connector::Or,
    })
}

/// Whether a shell may end at this word. In one with quotes, a backslash, an expansion or a here-document, the end of a
/// command may be text.
fn may_end_shell(word: &str) -> bool {
    word.contains(['"', '\'', '\\', '`', '$'])
        || word.contains("<<")
        || plain_words(word).iter().any(|word| ENDS_SHELL.contains(word))
}

/// Whether an assignment before a command may fail, so that the command does not run: `A=${B:?}`, `A=$((1/0))`.
fn may_fail_to_expand(word: &str) -> bool {
    word.contains("$((") || word.contains("$[") || (word.contains("${") && word.contains('?'))
}

/// Whether a command of a line is `.`, which runs a file in this shell.
fn reads_file(line: &str) -> bool {
    commands(line).iter().any(|command| {
        let runs_builtin = |word: &&String| ["command", "builtin"].contains(&word.as_str());
        from_program(&command.words).iter().find(|word| !runs_builtin(word)).is_some_and(|word| word == ".")
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandEnd {
    And,
    Or,
    Semicolon,
    Pipe,
}

/// How a word ends a command; `None` if it does not.
fn end_of(word: &str) -> Option<CommandEnd> {
    let ends = [
        ("&&", CommandEnd::And),
        ("||", CommandEnd::Or),
        (";", CommandEnd::Semicolon),
        ("|", CommandEnd::Pipe),
    ];
    ends.into_iter().find(|(end, _)| word.ends_with(end)).map(|(_, end)| end)
}

/// `2>&1`, `>file`: a word by itself.
fn is_redirection(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_digit());
    word.contains('>') && digits.trim_start_matches(['>', '&']).len() < digits.len()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("cargo test", "cargo test", true)]
    #[test_case("cd a && cargo  test", "cargo test", true)]
    #[test_case("cargo test 2>&1", "cargo test", true; "a redirection")]
    #[test_case("CI=1 cargo test", "cargo test", true; "a variable")]
    #[test_case("cargo test | tail", "cargo test", false; "the code is that of tail")]
    #[test_case("cargo test; true", "cargo test", false)]
    #[test_case("cargo test", "test", false; "a part of a word list")]
    #[test_case("cargo test-all", "cargo test", false)]
    #[test_case("echo cargo test", "cargo test", false; "an argument")]
    #[test_case("cargo test", "", false)]
    fn a_line_that_ends_with_a_command_has_its_exit_code(line: &str, command: &str, expected: bool) {
        assert_eq!(ends_with(line, command), expected);
    }

    const CERTAIN: Option<RunResult> = Some(RunResult::Certain(0));
    const UNKNOWN: Option<RunResult> = Some(RunResult::Unknown);

    /// Broke: these lines were skipped, so an earlier result still counted.
    #[test_case("cargo test", Some(0) => CERTAIN; "the command alone")]
    #[test_case("cargo test", None => UNKNOWN; "no exit code")]
    #[test_case("cargo test 2>&1 | tail -5", Some(0) => UNKNOWN; "a pipe after it")]
    #[test_case("timeout 300 cargo test", Some(0) => UNKNOWN; "run by another program")]
    #[test_case("time cargo test", Some(0) => UNKNOWN; "timed")]
    #[test_case("cargo test > out.txt", Some(0) => UNKNOWN; "a file for its output")]
    #[test_case("cargo test>out.txt", Some(0) => UNKNOWN; "a file without spaces")]
    #[test_case("cargo test && git commit", Some(0) => UNKNOWN; "another command after it")]
    #[test_case("(cd a && cargo test)", Some(0) => UNKNOWN; "a subshell")]
    #[test_case("cargo build\ncargo test", Some(0) => UNKNOWN; "two lines")]
    #[test_case("bash -c 'cargo test'", Some(0) => UNKNOWN; "another shell")]
    #[test_case("cargo test --workspace", Some(0) => UNKNOWN; "more arguments")]
    #[test_case("cat <<EOF >notes\n\n[TRUNCATED]", Some(0) => UNKNOWN; "a line whose end is not known")]
    #[test_case("cargo test-all", Some(0) => None; "another word")]
    #[test_case("cargo build && cargo clippy", Some(0) => None; "other commands")]
    fn a_line_that_may_have_run_a_command_is_not_skipped(line: &str, code: Option<i32>) -> Option<RunResult> {
        result_of("cargo test", line, code)
    }

    /// Broke: the code counted as the command's although the shell ended before it, or it was an argument.
    #[test_case("set -e; cargo fmt --check; cargo test", 1; "the shell ends at the first failure")]
    #[test_case("[ -f x ] || exit 1; cargo test", 1; "it exits first")]
    #[test_case("[ -f x ] || { echo no;exit; } ; cargo test", 1; "it exits in braces")]
    #[test_case("exit 0; cargo test", 0; "it exits with success")]
    #[test_case("exit 0 && cargo test", 0; "it exits before both")]
    #[test_case("return 0; cargo test", 0; "it returns")]
    #[test_case("exec true; cargo test", 0; "it is replaced")]
    #[test_case("trap 'exit 0' ERR; false; cargo test", 0; "it has a trap")]
    #[test_case(". ./env; cargo test", 1; "a file that is read may end it")]
    #[test_case("cd a && . ./env; cargo test", 1; "a file is read after another command")]
    #[test_case("if [ -f x ]; then A=1 . ./env; fi; cargo test", 1; "a file is read in a condition")]
    #[test_case("{ . ./env; } ; cargo test", 1; "a file is read in braces")]
    #[test_case("cd a\n. ./env; cargo test", 1; "a file is read on a line of its own")]
    #[test_case("case a in a) . ./env;; esac; cargo test", 1; "a file is read in a case")]
    #[test_case(">log . ./env; cargo test", 1; "a file is read after a redirection")]
    #[test_case("command . ./env; cargo test", 1; "a file is read by a builtin")]
    #[test_case("echo a\\; cargo test", 0; "an argument")]
    #[test_case("echo 'a;' cargo test; cargo test", 0; "quotes")]
    #[test_case("echo ${x:?}; cargo test", 1; "a variable that must be set")]
    #[test_case("cat <<EOF; cargo test", 0; "a document")]
    #[test_case("FOO=${BAR:?} cargo test", 1; "a variable of its own that must be set")]
    #[test_case("A=1 FOO=${BAR?no B=2} cargo test", 1; "a message with a sign of assignment")]
    #[test_case("cargo build; FOO=$((1/0)) cargo test", 1; "a number of its own that does not exist")]
    fn a_shell_that_may_end_first_leaves_the_exit_code_uncertain(line: &str, code: i32) {
        assert_eq!(result_of("cargo test", line, Some(code)), UNKNOWN);
    }

    #[test_case("cargo build; cargo test" => CERTAIN)]
    #[test_case("cargo settle; cargo test" => CERTAIN; "a word that begins like one that ends the shell")]
    #[test_case("git add .; cargo test" => CERTAIN; "this folder")]
    #[test_case("ls . && git add . ; cargo test" => CERTAIN; "this folder, twice")]
    #[test_case("FOO=${BAR:-a} cargo test" => CERTAIN; "a variable of its own")]
    fn other_commands_before_it_leave_it_certain(line: &str) -> Option<RunResult> {
        result_of("cargo test", line, Some(0))
    }
}
