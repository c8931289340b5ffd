//! Shell completion of names: labels, workflows, settings, error codes.
//!
//! The completion scripts call the hidden `workrail complete` with the words typed so far. It only reads.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, Command};
use workrail_core::discover::Filter;
use workrail_core::overview::{ListLength, ListQuery};
use workrail_engine::catalog::Catalog;
use workrail_host::workspace::default_workspace;
use workrail_model::config::Key;

use crate::{output, settings, wiring};

/// What the current word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletionKind {
    Runs,
    Workflows,
    Settings,
    Codes,
}

/// Prints the names that begin like the last word, one per line. If the word names nothing, or anything fails, it
/// prints nothing: a shell cannot show an error.
pub(crate) fn run(words: &[String], program: &Command) -> ExitCode {
    let Some((last, before)) = words.split_last() else { return ExitCode::SUCCESS };
    if let Some(kind) = named(program, before).filter(|_| !last.starts_with('-')) {
        let mut found = all(kind);
        found.retain(|name| name.starts_with(last.as_str()));
        found.iter().for_each(|name| output::line(name));
    }
    ExitCode::SUCCESS
}

/// What the word after these would name.
fn named(program: &Command, before: &[String]) -> Option<CompletionKind> {
    let mut command = program;
    let mut position = 0;
    let mut open: Option<&Arg> = None;
    for word in before {
        if open.take().is_some() {
            continue;
        }
        if let Some(name) = word.strip_prefix("--") {
            let option = command
                .get_arguments()
                .chain(program.get_arguments())
                .find(|argument| argument.get_long() == Some(name));
            open = option.filter(|option| option.get_action().takes_values());
        } else if let Some(inner) = command.find_subcommand(word).filter(|_| position == 0) {
            command = inner;
        } else {
            position += 1;
        }
    }
    let positional = || {
        let all: Vec<&Arg> = command.get_positionals().collect();
        all.get(position)
            .or(all.last().filter(|last| last.get_num_args().is_some_and(|range| range.max_values() > 1)))
            .copied()
    };
    kind(open.or_else(positional)?, command)
}

fn kind(argument: &Arg, command: &Command) -> Option<CompletionKind> {
    match argument.get_id().as_str() {
        "about" | "run" | "session" | "words" => Some(CompletionKind::Runs),
        "workflow" | "workflows" => Some(CompletionKind::Workflows),
        "id" if command.get_name() == "inspect" => Some(CompletionKind::Workflows),
        "key" => Some(CompletionKind::Settings),
        "code" => Some(CompletionKind::Codes),
        _ => None,
    }
}

fn all(kind: CompletionKind) -> Vec<String> {
    match kind {
        CompletionKind::Runs => runs().unwrap_or_default(),
        CompletionKind::Workflows => workflows().unwrap_or_default(),
        CompletionKind::Settings => Key::ALL.iter().map(|key| key.as_str().to_owned()).collect(),
        CompletionKind::Codes => {
            workrail_core::explain::topics().into_iter().map(|topic| topic.code).collect()
        }
    }
}

/// The labels of all runs, waiting ones first.
fn runs() -> Option<Vec<String>> {
    let engine = wiring::read_only_default().ok()?;
    let list = engine.sessions(&ListQuery::all_of(ListLength::Whole), &mut |_, _| {}).ok()?;
    Some(list.runs.into_iter().filter_map(|row| row.label).collect())
}

fn workflows() -> Option<Vec<String>> {
    let catalog = Catalog::new(Arc::new(settings::sources().ok()?));
    let (found, _) = catalog.all(default_workspace().as_ref(), &Filter::default());
    Some(found.into_iter().map(|listed| listed.workflow_id.to_string()).collect())
}
