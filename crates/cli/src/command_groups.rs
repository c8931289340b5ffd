//! The command tree in the help: grouped by task, with a hint for a command that is in another group.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use workrail_core::label::{RunLabel, normalised};
use workrail_model::shell;

struct CommandGroup {
    heading: &'static str,
    commands: &'static [&'static str],
}

const GROUPS: [CommandGroup; 3] = [
    CommandGroup {
        heading: "Runs",
        commands: &[
            "status", "watch", "show", "log", "tree", "compare", "search", "resume", "approve", "reject",
            "answer", "close", "report", "console",
        ],
    },
    CommandGroup {
        heading: "Manage",
        commands: &[
            "install",
            "uninstall",
            "workflow",
            "session",
            "store",
            "team",
            "trust",
            "plugin",
            "setup",
            "config",
            "doctor",
        ],
    },
    CommandGroup { heading: "Learn and serve", commands: &["demo", "explain", "mcp", "serve", "hook"] },
];

/// The program with its commands grouped in the help.
pub(crate) fn program<P: CommandFactory>() -> Command {
    let program = P::command();
    let template =
        format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}", groups(&program));
    program.help_template(template)
}

fn groups(program: &Command) -> String {
    let width =
        GROUPS.iter().flat_map(|group| group.commands).map(|name| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for group in &GROUPS {
        text.push_str(&format!("{}:\n", group.heading));
        for name in group.commands {
            let about = program.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {name:width$}  {about}\n"));
        }
        text.push('\n');
    }
    text
}

/// Words that users type when they mean another command.
const GUESSES: [(&[&str], &str); 17] = [
    (&["runs", "ls", "list", "ps", "sessions-list"], "session list"),
    (&["continue", "pick-up"], "resume"),
    (&["info", "view", "inspect", "details", "describe"], "show"),
    (&["history", "logs", "events"], "log"),
    (&["graph", "branches"], "tree"),
    (&["diff", "versus", "vs"], "compare"),
    (&["find", "grep"], "search"),
    (&["stop", "cancel", "abort", "abandon", "kill", "end", "finish"], "close"),
    (&["accept", "confirm", "ok", "yes"], "approve"),
    (&["deny", "decline", "no"], "reject"),
    (&["rm", "remove", "del"], "session delete"),
    (&["ui", "web", "dashboard", "browser", "gui"], "console"),
    (&["server", "start", "run"], "mcp"),
    (&["init", "add", "configure"], "install"),
    (&["settings", "set", "get"], "config list"),
    (&["check", "health", "diagnose"], "doctor"),
    (&["tail", "follow", "monitor", "top"], "watch"),
];

/// Points from an unknown command to the intended one: in another group, under another name, or the label of a run.
/// `typed` is what was typed after the program's name.
pub(crate) fn with_suggestion(mut error: clap::Error, program: &Command, typed: &[String]) -> clap::Error {
    let commands = if error.kind() == ErrorKind::InvalidSubcommand {
        wrong_command(&error, program, typed)
    } else if error.kind() == ErrorKind::UnknownArgument {
        show_instead_of_status(typed)
    } else {
        Vec::new()
    };
    if !commands.is_empty() {
        suggest(&mut error, &commands);
    }
    error
}

fn wrong_command(error: &clap::Error, program: &Command, typed: &[String]) -> Vec<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return Vec::new();
    };
    let paths = full_paths_of(program, name);
    if paths.is_empty() && RunLabel::parse(&normalised(name)).is_ok() {
        return vec![format!("workrail show {name}")];
    }
    let rest = arguments_after(typed, name);
    // A wrong word must never suggest ending all passkeys (G71).
    let is_harmless = |path: &&String| !path.ends_with("passkeys reset");
    paths.iter().filter(is_harmless).map(|path| format!("{path}{rest}")).collect()
}

/// `workrail status amber-falcon`: the status covers everything, so `show` is suggested.
fn show_instead_of_status(typed: &[String]) -> Vec<String> {
    let Some((first, rest)) = typed.split_first() else { return Vec::new() };
    let about: Vec<&str> = rest.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    match ["status", "watch"].contains(&first.as_str()) && !about.is_empty() {
        true => vec![format!("workrail show {}", about.join("-"))],
        false => Vec::new(),
    }
}

fn suggest(error: &mut clap::Error, commands: &[String]) {
    error.remove(ContextKind::SuggestedSubcommand);
    error.remove(ContextKind::SuggestedArg);
    let tip = match commands {
        [one] => format!("run `{one}`"),
        several => format!("run one of: `{}`", several.join("`, `")),
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
}

/// What was typed after a word, to be pasted after another command.
fn arguments_after(typed: &[String], word: &str) -> String {
    let after = typed.iter().skip_while(|other| *other != word).skip(1);
    after.map(|word| format!(" {}", shell::quoted(word))).collect()
}

/// The commands that a wrong word may mean: one of the same name in another group, or else the usual guess.
fn full_paths_of(program: &Command, name: &str) -> Vec<String> {
    let mut paths = Vec::new();
    collect(program, name, program.get_name(), &mut paths);
    if paths.is_empty() {
        let guess = GUESSES.iter().find(|(words, _)| words.contains(&name));
        paths.extend(guess.map(|(_, command)| format!("{} {command}", program.get_name())));
    }
    paths
}

fn collect(command: &Command, name: &str, path: &str, found: &mut Vec<String>) {
    for inner in command.get_subcommands() {
        let path = format!("{path} {}", inner.get_name());
        if inner.get_name() == name {
            found.push(path.clone());
        }
        collect(inner, name, &path, found);
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, GUESSES, collect};
    use crate::Arguments;
    use clap::CommandFactory;

    #[test]
    fn help_lists_every_command_once() {
        let program = Arguments::command();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
        let mut existing: Vec<&str> = shown.map(clap::Command::get_name).collect();
        listed.sort_unstable();
        existing.sort_unstable();
        assert_eq!(listed, existing);
    }

    /// Commands that print no document: their output is for another program, or there is none.
    const WITHOUT_JSON: [(&str, &str); 7] = [
        ("workrail serve", "serves until it is ended; its one line is the address"),
        ("workrail console", "serves until it is ended; its one line is the address"),
        ("workrail mcp", "speaks MCP on standard output"),
        ("workrail hook", "answers a host in the host's own JSON"),
        ("workrail demo", "tells a story to people"),
        ("workrail setup completions", "prints a script for a shell"),
        ("workrail config edit", "opens an editor"),
    ];

    #[test]
    fn every_command_that_prints_supports_json() {
        let mut without = Vec::new();
        let mut open = vec![("workrail".to_owned(), Arguments::command())];
        while let Some((path, command)) = open.pop() {
            let inner: Vec<_> = command.get_subcommands().cloned().collect();
            let has_json = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
            if inner.is_empty() && !has_json && !command.is_hide_set() {
                without.push(path.clone());
            }
            open.extend(inner.into_iter().map(|command| (format!("{path} {}", command.get_name()), command)));
        }
        let mut excused: Vec<&str> = WITHOUT_JSON.iter().map(|(path, _)| *path).collect();
        without.sort_unstable();
        excused.sort_unstable();
        assert_eq!(without, excused, "a command without --json needs a reason in the list");
    }

    #[test]
    fn every_guess_leads_to_a_command_and_none_hides_one() {
        let program = Arguments::command();
        for (words, command) in GUESSES {
            let mut found = &program;
            for word in command.split(' ') {
                found = found.find_subcommand(word).unwrap_or_else(|| panic!("{command} is no command"));
            }
            for word in words {
                assert!(program.find_subcommand(word).is_none(), "{word} is a command itself");
            }
        }
    }

    #[test]
    fn a_command_of_a_group_is_found_by_its_own_name() {
        let mut found = Vec::new();
        collect(&Arguments::command(), "verify", "workrail", &mut found);
        assert_eq!(found, ["workrail store verify"]);
    }
}
