//! The command tree as help shows it: grouped by what people do, and a hint for a command that is in another group.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

struct Group {
    heading: &'static str,
    commands: &'static [&'static str],
}

const GROUPS: [Group; 3] = [
    Group {
        heading: "Runs",
        commands: &[
            "show", "log", "tree", "search", "resume", "approve", "reject", "answer", "report", "console",
        ],
    },
    Group { heading: "Manage", commands: &["workflow", "session", "store", "setup", "config", "doctor"] },
    Group { heading: "Learn and serve", commands: &["demo", "explain", "mcp"] },
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

/// Names the commands in other groups that a mistyped command may mean: `workrail store verify` is `workrail store verify`.
pub(crate) fn with_full_path(mut error: clap::Error, program: &Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand).cloned() else {
        return error;
    };
    let mut paths = Vec::new();
    collect(program, &name, program.get_name(), &mut paths);
    if !paths.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(paths));
    }
    error
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
    use super::{GROUPS, collect};
    use crate::Arguments;
    use clap::CommandFactory;

    #[test]
    fn help_lists_every_command_once() {
        let program = Arguments::command();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        let mut existing: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
        listed.sort_unstable();
        existing.sort_unstable();
        assert_eq!(listed, existing);
    }

    #[test]
    fn a_command_of_a_group_is_found_by_its_own_name() {
        let mut found = Vec::new();
        collect(&Arguments::command(), "verify", "workrail", &mut found);
        assert_eq!(found, ["workrail store verify"]);
    }
}
