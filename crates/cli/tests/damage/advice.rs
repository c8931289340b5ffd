//! The commands that answers recommend: each one exists, can be called as it is written, and leads on.

use workrail_testkit::home::Home;

use crate::commands::{CommandResult, End, answer_of};
use crate::template::Template;

/// A recommended command, without the program's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Advice(Vec<String>);

/// All commands in backticks.
pub(crate) fn of(answer: &CommandResult) -> Vec<Advice> {
    let after = |(at, opening): (usize, &str)| &answer.output[at + opening.len()..];
    answer
        .output
        .match_indices("`workrail ")
        .map(after)
        .filter_map(|rest| rest.split_once('`'))
        .map(|(line, _)| Advice(line.split_whitespace().map(str::to_owned).collect()))
        .collect()
}

impl Advice {
    pub(crate) fn line(&self) -> String {
        self.0.join(" ")
    }

    /// The command itself, without arguments and options.
    pub(crate) fn path(&self) -> Vec<&str> {
        let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '-';
        let is_word = |word: &&String| !word.starts_with('-') && word.chars().all(is_letter);
        self.0.iter().take_while(is_word).map(String::as_str).collect()
    }

    /// Runs it as a user would who reads the answer; `None` if it serves until it is stopped, or needs to be told
    /// something that only a user knows.
    pub(crate) fn follow(&self, help: &str, template: &Template, home: &Home) -> Option<CommandResult> {
        let needs_a_person = matches!(
            self.path()[..],
            ["config", "edit"] | ["store", "passkeys", "reset"] | ["team", "token", "create"] | ["trust"]
        );
        let serves = matches!(self.path().first(), Some(&"mcp" | &"serve" | &"console" | &"watch"));
        if needs_a_person || serves {
            return None;
        }
        let mut arguments = Vec::new();
        for word in &self.0 {
            arguments.push(match word.as_str() {
                "BACKUP" => "../backup".to_owned(),
                "SESSION" => template.victim.session.clone(),
                "LABEL" | "RUN" => template.victim.label.clone(),
                placeholder if placeholder.chars().all(|letter| letter.is_ascii_uppercase()) => return None,
                word => word.to_owned(),
            });
        }
        for option in ["--yes", "--json"].into_iter().filter(|option| help.contains(option)) {
            if !arguments.iter().any(|argument| argument == option) {
                arguments.push(option.to_owned());
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Some(answer_of(home, &home.run(&arguments)))
    }

    /// Whether its answer helps: it did what it says, it reports problems, or it is refused and recommends
    /// something else.
    pub(crate) fn leads_on(&self, answer: &CommandResult) -> bool {
        match &answer.end {
            End::Done | End::Problems => true,
            End::Refused(code) => {
                let is_usage = code == "VALIDATION_ERROR";
                let leads_elsewhere = of(answer).iter().any(|next| next.path() != self.path());
                leads_elsewhere || (!is_usage && names_a_fix(&answer.output))
            }
            End::Stopped(_) | End::Broken(_) => false,
        }
    }
}

/// Whether the text tells what to do without this program.
pub(crate) fn names_a_fix(output: &str) -> bool {
    ["chmod", "chown", "Give ", "Move ", "move it", "Free ", "Remove ", "replace it", "Name an"]
        .iter()
        .any(|fix| output.contains(fix))
}
