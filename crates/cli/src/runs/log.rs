//! `workrail log`: the event log, one event per line, or as recorded.

use serde_json::{Value, json};
use workrail_host::local_time::local_to_the_second;
use workrail_model::event::Event;

use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::{name, wiring};

pub(super) fn run(about: &str, limit: Option<usize>, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let found = name::session_or_run(&engine, about)?;
    let log = engine.session_log(found, limit)?;
    if format == Format::Json {
        let events: Result<Vec<Value>, Failure> = log.events.iter().map(recorded).collect();
        output::json(&json!({
            "sessionId": found.session, "health": log.health, "leftOut": log.left_out, "events": events?,
        }));
        return Ok(());
    }
    super::warn_of_damage(&log.health);
    if log.left_out > 0 {
        output::toned(
            Tone::Quiet,
            &format!("{} not shown.", output::counted(log.left_out, "older event is", "older events are")),
        );
    }
    for line in &log.lines {
        let at = line.at.as_ref().map(local_to_the_second).unwrap_or_default();
        let number = line.point.as_ref().map(|point| format!(" {point}.")).unwrap_or_default();
        let step = line.step.as_ref().map(|step| format!(" {step}")).unwrap_or_default();
        let prefix = line.run.as_ref().map(|run| format!("{run}{number}{step}: ")).unwrap_or_default();
        let by = line.actor.as_ref().map(|actor| format!(" [{actor}]")).unwrap_or_default();
        let (index, kind, summary) = (line.event_index, &line.kind, &line.summary);
        output::line(&format!("{index:>5}  {at:19}  {kind:30}  {prefix}{summary}{by}"));
    }
    Ok(())
}

/// The event as the log holds it.
fn recorded(event: &Event) -> Result<Value, Failure> {
    let broken = |error: &dyn std::fmt::Display| Failure::Environment(error.to_string());
    let bytes = event.to_canonical().map_err(|error| broken(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| broken(&error))
}
