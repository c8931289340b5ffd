//! Asks for a person: a terminal, and a text typed into it (G63).
//!
//! Agents have shells, and a shell can open a terminal and type into it. So this is a hurdle and a record, not a
//! proof: whether the terminal belongs to the program that runs an agent is reported, recorded, and refused if the
//! settings say so.

use std::io::{BufRead, IsTerminal, stdin};

use workrail_engine::{Engine, Store};
use workrail_host::processes::{self, Process};
use workrail_model::approval::Descent;
use workrail_model::config::Key;
use workrail_model::server::{ServerRecord, Transport};

use crate::outcome::Failure;
use crate::output;
use crate::settings;

/// What is known about the process that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    pub(crate) descends_from_server: Descent,
}

/// What the record will say about the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginRecord {
    /// How it was given, and whether the process descends from a server's parent.
    Descent,
    /// Only that it came from the command line.
    CommandLine,
    Nothing,
}

/// Checks that a person can be asked here. `what` begins the refusal: "Approving".
pub(crate) fn requester<S: Store>(
    engine: &Engine<S>,
    what: &str,
    recorded: OriginRecord,
) -> Result<Requester, Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "{what} needs an interactive terminal. Run this command yourself, not from a script. Nothing was recorded."
        )));
    }
    let (requester, warning) = descent(engine, what)?;
    if let Some(whose) = warning {
        let record = match recorded {
            OriginRecord::Descent => "This is recorded with the decision.",
            OriginRecord::CommandLine => {
                "The record will only say that the change came from the command line."
            }
            OriginRecord::Nothing => "This is not recorded.",
        };
        output::notice(&format!(
            "warning: this terminal was started by {whose}. The agent can use such a terminal as well. {record}"
        ));
    }
    Ok(requester)
}

/// Whether this process descends from the program that runs an agent, and that program. Refused if the settings say
/// so.
fn descent<S: Store>(engine: &Engine<S>, what: &str) -> Result<(Requester, Option<String>), Failure> {
    descent_among(engine, processes::ancestors(), |starter| {
        format!(
            "{what} is refused here: this terminal was started by {starter}. Use a terminal of your own. Nothing was \
             recorded."
        )
    })
}

/// Like `descent`, for a process that is or was below these: one in the background has lost its parents. `None` if
/// they could not be determined. `refusal` gets the program and the setting that is on.
pub(crate) fn descent_among<S: Store>(
    engine: &Engine<S>,
    ancestors: Option<Vec<Process>>,
    refusal: impl FnOnce(&str) -> String,
) -> Result<(Requester, Option<String>), Failure> {
    let servers = engine.servers().unwrap_or_default();
    let Some(ancestors) = ancestors else {
        return Ok((Requester { descends_from_server: Descent::Unknown }, None));
    };
    let starter = ancestors.iter().find(|process| servers.iter().any(|server| is_parent(server, process)));
    let Some(starter) = starter else {
        let is_certain = !servers.is_empty() && servers.iter().all(can_be_compared);
        let descends_from_server = if is_certain { Descent::No } else { Descent::Unknown };
        return Ok((Requester { descends_from_server }, None));
    };
    let whose =
        format!("`{}` (process {}), the program that runs an agent", starter.name, starter.id.process_id);
    if settings::is_on_anywhere(Key::ApprovalsRefuseDescendants)? {
        let setting = Key::ApprovalsRefuseDescendants.as_str();
        return Err(Failure::Usage(refusal(&format!("{whose}, and `{setting}` is on"))));
    }
    Ok((Requester { descends_from_server: Descent::Yes }, Some(whose)))
}

/// Whether it is certain that we do not descend from the program that started this server: agents do not start a
/// server on HTTP, and a parent that ended or is in another container is invisible.
fn can_be_compared(server: &ServerRecord) -> bool {
    match server.transport {
        Transport::Stdio => server.parent.is_some_and(processes::is_visible),
        Transport::Http => false,
    }
}

/// The program that runs the agent starts a server on standard input; a server on HTTP may be started by any program.
fn is_parent(server: &ServerRecord, process: &Process) -> bool {
    match server.transport {
        Transport::Stdio => server.parent == Some(process.id),
        Transport::Http => false,
    }
}

/// The refusal if a typed label is not enough: a passkey is required (G97). `why` names the reason.
pub(crate) fn passkey_needed(what: &str, why: &str) -> Failure {
    Failure::Usage(format!(
        "{what} needs a passkey: {why}. Open the console with `workrail console` and do it there. Nothing was recorded."
    ))
}

/// Continues only if exactly `answer` is typed.
pub(crate) fn require_typed(prompt: &str, answer: &str) -> Result<(), Failure> {
    output::notice(prompt);
    let mut typed = String::new();
    stdin().lock().read_line(&mut typed).map_err(|error| Failure::Environment(error.to_string()))?;
    match typed.trim() == answer {
        true => Ok(()),
        false => Err(Failure::Usage(format!("The answer did not match `{answer}`. Nothing was recorded."))),
    }
}
