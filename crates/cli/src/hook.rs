//! `workrail hook`: reads a host's JSON, answers in the host's JSON, and never blocks the host (G108).
//!
//! Whatever goes wrong, the answer is an empty object and the exit code 0: an unknown event, no input, a broken or
//! busy store, a panic, or work that takes too long. Only a refusal that needs no run is given even then (G109). Nothing
//! is logged, because the input is the content of a chat.

use std::io::{self, IsTerminal as _, Read as _};
use std::process::ExitCode;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use workrail_core::hook::{HookEvent, HookEventKind, HookReply, ToolUse, hosts, without_run};
use workrail_host::workspace::path_in_repository;
use workrail_model::chat::HostName;
use workrail_ports::chats::ChatDirectory as _;

use crate::{output, settings, wiring};

/// Hosts wait about a minute; users notice a second.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// A tool's arguments and result together; hosts truncate longer ones.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;
const NOTHING: &str = "{}";
/// Prints the plugin instead of answering an event.
const PLUGIN: &str = "plugin";

/// The host and event of a call that is exactly `workrail hook HOST EVENT`. Any other form is parsed by clap.
pub(crate) fn plain_arguments() -> Option<(String, String)> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != "hook" {
        return None;
    }
    let (host, event) = (words.next()?.into_string().ok()?, words.next()?.into_string().ok()?);
    let is_plain = words.next().is_none() && !host.starts_with('-') && !event.starts_with('-');
    is_plain.then_some((host, event))
}

/// Answers one event.
pub(crate) fn run(host: String, event: String) -> ExitCode {
    // A panic message would end up in the host's log.
    std::panic::set_hook(Box::new(|_| {}));
    let deadline = Instant::now() + ANSWER_MAX;
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        if let Some(answer) = answer(&host, &event, &sender) {
            // After the deadline there is no receiver.
            let _ = sender.send(answer);
        }
    };
    // If it cannot be started, the sender is dropped with it.
    let _ = thread::Builder::new().spawn(work);
    // The last answer counts. Late, panicked or not started: the process ends, and the work with it.
    let mut answered = None;
    while let Ok(answer) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        answered = Some(answer);
    }
    output::for_host(answered.as_deref().unwrap_or(NOTHING));
    ExitCode::SUCCESS
}

/// The answer, unless it was sent to `early` because it depends on nothing that may be slow.
fn answer(host: &str, event: &str, early: &Sender<String>) -> Option<String> {
    let host = HostName::parse(host);
    if (host, event) == (Some(HostName::Opencode), PLUGIN) {
        let program = std::env::current_exe().ok()?;
        return Some(hosts::opencode_plugin(program.to_str()?));
    }
    // Read even if unneeded: a host may take a pipe that is closed early for a failure.
    let input = input()?;
    let host = host?;
    let happened = in_repository(hosts::read(host, event, &input)?)?;
    let reply = match without_run(&happened) {
        Some(reply @ HookReply::Deny { .. }) => {
            // First: a store that takes too long must not turn a refusal into permission (G109).
            let _ = early.send(hosts::write(host, event, &reply).to_string());
            // The attempt is evidence if the chat works on a run.
            let _ = answer_about_run(&happened);
            return None;
        }
        Some(reply) => reply,
        None => answer_about_run(&happened)?,
    };
    Some(hosts::write(host, event, &reply).to_string())
}

/// The event with its files as paths relative to the repository; `None` if all of them are elsewhere.
fn in_repository(mut event: HookEvent) -> Option<HookEvent> {
    let paths = match &mut event.kind {
        HookEventKind::ToolStarts(ToolUse::Edit { paths })
        | HookEventKind::ToolEnds { tool: ToolUse::Edit { paths }, .. } => paths,
        HookEventKind::ToolStarts(_)
        | HookEventKind::ToolEnds { .. }
        | HookEventKind::ChatBegins(_)
        | HookEventKind::TurnBegins
        | HookEventKind::HistoryShrinks
        | HookEventKind::SubagentStarts { .. }
        | HookEventKind::TurnEnds(_) => return Some(event),
    };
    let workspace = event.workspace.as_deref().unwrap_or(".");
    let given = !paths.is_empty();
    *paths = paths.iter().filter_map(|path| path_in_repository(workspace, path)).collect();
    (!given || !paths.is_empty()).then_some(event)
}

/// All of standard input, if it is JSON of a plausible size.
fn input() -> Option<Value> {
    let mut stdin = io::stdin().lock();
    if stdin.is_terminal() {
        return None;
    }
    let mut bytes = Vec::new();
    stdin.by_ref().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        // A host may take a pipe that is closed early for a failure.
        let _ = io::copy(&mut stdin, &mut io::sink());
        return None;
    }
    serde_json::from_slice(&bytes).ok()
}

fn answer_about_run(event: &HookEvent) -> Option<HookReply> {
    let current = settings::current().ok()?;
    let machine = wiring::directory_for_hooks(current)?;
    let is_known = machine.chat(event.key()).is_some() || machine.chat(event.chat_key()).is_some();
    // A chat becomes known by using one of our tools, and a new chat may continue what another one left.
    let may_begin = match &event.kind {
        HookEventKind::ChatBegins(_) | HookEventKind::ToolEnds { tool: ToolUse::Own(_), .. } => true,
        HookEventKind::TurnBegins
        | HookEventKind::HistoryShrinks
        | HookEventKind::ToolStarts(_)
        | HookEventKind::ToolEnds { .. }
        | HookEventKind::SubagentStarts { .. }
        | HookEventKind::TurnEnds(_) => false,
    };
    if !is_known && !may_begin {
        return None;
    }
    let engine = wiring::engine_for_hooks(current, &machine).ok()?;
    engine.hook(event, &*machine).ok()
}
