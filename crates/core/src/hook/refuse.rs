//! Commands with which an agent would decide on a person's behalf (G109).
//!
//! This keeps an honest agent from taking a shortcut. It is not a security boundary: an agent can hide a command from
//! any reader of it. The boundary is what the decision itself requires, up to a passkey (G97).

use crate::shell::{ShellCommand, commands, from_program};

/// A command reserved for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCommand {
    /// As typed after `workrail`.
    pub path: &'static str,
    pub why: &'static str,
}

struct ForPeople {
    path: &'static str,
    why: &'static str,
    /// Only with an argument that starts with this.
    about: Option<&'static str>,
}

const DECIDES: &str = "it records the user's decision";
const MODE: &str = "it changes how far runs go without asking the user";

const FOR_PEOPLE: [ForPeople; 11] = [
    ForPeople { path: "approve", why: DECIDES, about: None },
    ForPeople { path: "reject", why: DECIDES, about: None },
    ForPeople { path: "answer", why: "it answers a question that was put to the user", about: None },
    ForPeople { path: "trust", why: "it allows commands of this folder to be run", about: None },
    ForPeople { path: "console", why: "anyone who has its address can decide as the user", about: None },
    ForPeople { path: "store passkeys reset", why: "it revokes all passkeys", about: None },
    ForPeople { path: "session prefs set", why: MODE, about: None },
    ForPeople { path: "sessions prefs set", why: MODE, about: None },
    ForPeople { path: "config set", why: "it changes what a decision needs", about: Some("approvals.") },
    ForPeople { path: "config set", why: MODE, about: Some("preferences.") },
    ForPeople { path: "config edit", why: "it changes settings of the user", about: None },
];

/// Options of the program that take a value.
const WITH_VALUE: [&str; 3] = ["--config", "--store", "--color"];

/// Programs that run the command in their arguments.
const RUNNERS: [&str; 24] = [
    "env",
    "sudo",
    "doas",
    "nohup",
    "setsid",
    "exec",
    "command",
    "builtin",
    "nice",
    "ionice",
    "stdbuf",
    "timeout",
    "xargs",
    "parallel",
    "find",
    "unbuffer",
    "chronic",
    "strace",
    "ltrace",
    "systemd-run",
    "flock",
    "busybox",
    "npx",
    "winpty",
];

/// Programs whose arguments are shell lines, or close enough to be parsed as such.
const SHELLS: [&str; 15] = [
    "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "eval", "su", "script", "watch", "expect", "tmux",
    "screen", "ssh",
];

/// Nested lines are parsed to this depth.
const DEPTH_MAX: usize = 4;

/// The first command in a shell line that is reserved for people, if any.
pub fn refused_command(line: &str) -> Option<RefusedCommand> {
    in_line(line, 0)
}

fn in_line(line: &str, depth: usize) -> Option<RefusedCommand> {
    if depth > DEPTH_MAX {
        return None;
    }
    let all = commands(line);
    let mut before: Option<&ShellCommand> = None;
    for command in &all {
        let piped = before.filter(|before| before.is_piped);
        let found = in_words(&command.words, depth).or_else(|| in_input(command, piped, depth));
        if found.is_some() {
            return found;
        }
        before = Some(command);
    }
    None
}

fn in_words(words: &[String], depth: usize) -> Option<RefusedCommand> {
    let mut rest = from_program(words);
    loop {
        let (program, arguments) = rest.split_first()?;
        let program = program_name(program);
        if program == "workrail" {
            return for_people(arguments);
        }
        if SHELLS.contains(&&*program) {
            let whole = arguments.join(" ");
            let lines = arguments.iter().chain([&whole]);
            return lines.filter(|line| !line.starts_with('-')).find_map(|line| in_line(line, depth + 1));
        }
        if !RUNNERS.contains(&&*program) {
            return None;
        }
        // A runner's options are skipped without knowing them: what it runs is the first word that matters here.
        let is_known = |word: &String| {
            let name = program_name(word);
            name == "workrail" || SHELLS.contains(&&*name) || RUNNERS.contains(&&*name)
        };
        rest = arguments.get(arguments.iter().position(is_known)?..)?;
    }
}

/// What a shell without arguments reads, from a here-document or from the preceding command.
fn in_input(command: &ShellCommand, piped: Option<&ShellCommand>, depth: usize) -> Option<RefusedCommand> {
    let program = from_program(&command.words).first().map(|word| program_name(word))?;
    let reads = SHELLS.contains(&&*program) || RUNNERS.contains(&&*program);
    if !reads {
        return None;
    }
    let printed = piped.map(|piped| &piped.words[1.min(piped.words.len())..]).unwrap_or_default();
    let printed = printed.iter().chain(piped.into_iter().flat_map(|piped| &piped.input));
    command.input.iter().chain(printed).find_map(|line| in_line(line, depth + 1))
}

/// The last part of a path, without the Windows extension.
fn program_name(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word).to_ascii_lowercase();
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}

fn for_people(arguments: &[String]) -> Option<RefusedCommand> {
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--help" | "-h" => return None,
            option if WITH_VALUE.contains(&option) => {
                rest.next();
            }
            option if option.starts_with('-') => {}
            word => words.push(word),
        }
    }
    let is_meant = |command: &&ForPeople| {
        let path: Vec<&str> = command.path.split(' ').collect();
        words.starts_with(&path)
            && command
                .about
                .is_none_or(|about| words.get(path.len()).is_some_and(|word| word.starts_with(about)))
    };
    FOR_PEOPLE.iter().find(is_meant).map(|command| RefusedCommand { path: command.path, why: command.why })
}
