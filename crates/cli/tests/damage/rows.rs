//! The commands of the matrix: every command of the program and every tool of the server that reads or writes what a
//! store has, or what is configured outside it. `coverage.rs` checks that none is missing.

mod outside_store;
mod runs;
mod store;

use serde_json::Value;

use crate::commands::{About, Call, Command, Compare, Effect};
use crate::template::Template;

pub(crate) use outside_store::{ADDED_SOURCE, INSTALLED_CLIENT, ran, shown};

/// All commands, with those about a session for each of them.
pub(crate) fn commands(template: &Template) -> Vec<Command> {
    let mut all = Vec::new();
    for run in [&template.victim, &template.sharing, &template.apart] {
        all.extend(runs::about_one(run, template));
    }
    all.extend(runs::decisions(template));
    all.extend(store::reading(template));
    all.extend(store::tools());
    all.extend(store::writing(template));
    all.extend(store::next_steps());
    all.extend(store::access(template));
    all.extend(outside_store::in_hosts(template));
    all.extend(outside_store::settings());
    all.extend(outside_store::trust());
    all.extend(outside_store::sources(template));
    all
}

fn program(name: &str, effect: Effect, about: About, compare: Compare, arguments: &[&str]) -> Command {
    let signs = ["resume", "show", "compare", "rotate"].iter().any(|word| name.contains(word));
    let call = Call::Program(with_json(arguments));
    Command { name: name.to_owned(), effect, about, compare, signs, call }
}

/// A command that asks, and the line that is typed.
fn typed(name: &str, effect: Effect, about: About, arguments: &[&str], line: &str) -> Command {
    let compare = if effect == Effect::Repairs { Compare::Diagnosis } else { Compare::Success };
    let call = Call::Typed(with_json(arguments), line.to_owned());
    Command { call, ..program(name, effect, about, compare, arguments) }
}

fn with_json(arguments: &[&str]) -> Vec<String> {
    arguments.iter().chain(&["--json"]).map(|word| (*word).to_owned()).collect()
}

fn tool(
    name: &str,
    effect: Effect,
    about: About,
    compare: Compare,
    tool: &'static str,
    arguments: Value,
) -> Command {
    let signs = !["workflow", "list", "inspect"].iter().any(|word| name.starts_with(word));
    Command { name: name.to_owned(), effect, about, compare, signs, call: Call::Tool(tool, arguments) }
}
