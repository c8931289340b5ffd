//! From what the user types to the session or run that is meant, saying so where it was typed differently.

use workrail_engine::compare::PartOfRun;
use workrail_engine::{Engine, NamedRun, Naming, SessionOrRun, Store};
use workrail_model::id::{RunId, SessionId};

use crate::outcome::Failure;
use crate::output;

/// The session or run that is named. A label that is nearly right will do, and is said.
pub(crate) fn session_or_run<S: Store>(engine: &Engine<S>, text: &str) -> Result<SessionOrRun, Failure> {
    let named = engine.find_named(text, Naming::Forgiving)?;
    told(text, &named);
    Ok(named.found)
}

/// The run that is named, or the only one of the session that is named.
pub(crate) fn run<S: Store>(engine: &Engine<S>, text: &str) -> Result<(SessionId, RunId), Failure> {
    let (session, run, named) = engine.find_run(text)?;
    told(text, &named);
    Ok((session, run))
}

/// The part of a run that is named; without a run, a part of the run of `beside`.
pub(crate) fn part<S: Store>(
    engine: &Engine<S>,
    text: &str,
    beside: Option<&PartOfRun>,
) -> Result<PartOfRun, Failure> {
    let (part, named) = engine.find_part(text, beside)?;
    if let Some(named) = &named {
        told(text.split('@').next().unwrap_or_default(), named);
    }
    Ok(part)
}

/// For what cannot be undone: only what is named exactly.
pub(crate) fn exact<S: Store>(engine: &Engine<S>, text: &str) -> Result<SessionOrRun, Failure> {
    Ok(engine.find_named(text, Naming::Exact)?.found)
}

fn told(text: &str, named: &NamedRun) {
    if let Some(label) = &named.read_as {
        output::notice(&format!("`{}` is read as {label}.", text.trim()));
    }
}
