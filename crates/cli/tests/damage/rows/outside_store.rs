//! What hosts run between two calls, and what is configured outside the store: clients, settings, trust and sources.

use serde_json::{Value, json};

use super::{program, typed};
use crate::commands::{About, Call, Command, Compare, Effect};
use crate::template::{GIT_SOURCE, Run, Template};

/// Configured in the template.
pub(crate) const INSTALLED_CLIENT: &str = "claude-code";

fn look(name: &str, compare: Compare, arguments: &[&str]) -> Command {
    program(name, Effect::Looks, About::Elsewhere, compare, arguments)
}

fn change(name: &str, arguments: &[&str]) -> Command {
    program(name, Effect::Writes, About::Elsewhere, Compare::Success, arguments)
}

pub(super) fn in_hosts(template: &Template) -> Vec<Command> {
    let hook = |name: &str, event, input| Command {
        name: name.to_owned(),
        effect: Effect::Writes,
        about: About::Elsewhere,
        compare: Compare::Success,
        signs: false,
        call: Call::Hook(event, input),
    };
    vec![
        hook("hook, turn ends", "Stop", json!({ "stop_hook_active": false, "background_tasks": [] })),
        hook("hook, chat resumed", "SessionStart", json!({ "source": "resume" })),
        hook("hook, step shown", "PostToolUse", shown(&template.victim)),
        hook("hook, command run", "PostToolUse", ran("cargo check")),
        look("install list", Compare::Success, &["install", "--list"]),
        change("install", &["install", "--client", "gemini", "--yes"]),
        change("uninstall", &["uninstall", "--client", INSTALLED_CLIENT, "--yes"]),
    ]
}

/// What Claude Code reports after one of our tools returned the pending step of a run.
pub(crate) fn shown(run: &Run) -> Value {
    let text = json!([{ "type": "text", "text": format!("stateToken: {}", run.state) }]);
    json!({ "tool_name": "mcp__workrail__continue_workflow", "tool_response": text })
}

/// What it reports after a command of the agent.
pub(crate) fn ran(command: &str) -> Value {
    let response = json!({ "stdout": "", "stderr": "", "interrupted": false });
    json!({ "tool_name": "Bash", "tool_input": { "command": command }, "tool_response": response })
}

pub(super) fn settings() -> Vec<Command> {
    vec![change("config set", &["config", "set", "retention.ttl_days", "60"])]
}

/// The template trusts the checks of its own project; the project of a copy is another one.
pub(super) fn trust() -> Vec<Command> {
    vec![
        look("trust list", Compare::Whole, &["trust", "list"]),
        look("trust propose", Compare::Success, &["trust", "propose", "--print"]),
        typed("trust", Effect::Writes, About::Elsewhere, &["trust"], "project"),
        change("trust revoke", &["trust", "revoke", "--all"]),
    ]
}

/// The source that a command adds.
pub(crate) const ADDED_SOURCE: &str = "more";

/// Commands about the sources of workflows.
pub(super) fn sources(template: &Template) -> Vec<Command> {
    fn words<'a>(words: &[&'a str]) -> Vec<&'a str> {
        [&["workflow", "sources"][..], words].concat()
    }
    let repository = template.repository();
    let repository = repository.to_str().unwrap();
    vec![
        look("sources list", Compare::Success, &words(&["list"])),
        look("sources health", Compare::Diagnosis, &words(&["health"])),
        change("sources sync", &words(&["sync", GIT_SOURCE])),
        change("sources add folder", &words(&["add", "folder", "../workflows"])),
        change("sources add plugin", &words(&["add", "plugin", "../plugin"])),
        change("sources add git", &words(&["add", "git", ADDED_SOURCE, repository, "--allow-local"])),
        change("sources remove", &words(&["remove", GIT_SOURCE])),
    ]
}
