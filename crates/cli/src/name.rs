//! Resolves what the user types to a session or run, and reports the correct name if it was typed differently.

use workrail_engine::compare::LocatedPart;
use workrail_engine::{Engine, NameMatch, Naming, SessionOrRun, Store};
use workrail_model::id::{RunId, SessionId};

use crate::outcome::Failure;
use crate::output;

/// The named session or run. A label that is nearly right is accepted, with a note.
pub(crate) fn session_or_run<S: Store>(engine: &Engine<S>, text: &str) -> Result<SessionOrRun, Failure> {
    let named = engine.find_named(text, Naming::Forgiving)?;
    print_reading(text, &named);
    Ok(named.found)
}

/// The named run, or the only run of the named session.
pub(crate) fn run<S: Store>(engine: &Engine<S>, text: &str) -> Result<(SessionId, RunId), Failure> {
    let (session, run, named) = engine.find_run(text)?;
    print_reading(text, &named);
    Ok((session, run))
}

/// The named part of a run; without a run, a part of `other_part`'s run.
pub(crate) fn part<S: Store>(
    engine: &Engine<S>,
    text: &str,
    other_part: Option<&LocatedPart>,
) -> Result<LocatedPart, Failure> {
    let (part, named) = engine.find_part(text, other_part)?;
    if let Some(named) = &named {
        print_reading(text.split('@').next().unwrap_or_default(), named);
    }
    Ok(part)
}

/// For actions that cannot be undone: only exact names.
pub(crate) fn exact<S: Store>(engine: &Engine<S>, text: &str) -> Result<SessionOrRun, Failure> {
    Ok(engine.find_named(text, Naming::Exact)?.found)
}

fn print_reading(text: &str, named: &NameMatch) {
    if let Some(label) = &named.read_as {
        output::notice(&format!("`{}` is read as {label}.", text.trim()));
    }
}
