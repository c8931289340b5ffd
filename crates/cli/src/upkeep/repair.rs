//! `workrail repair`: what is kept, what is given up, where the backup is.

use serde_json::json;
use workrail_engine::upkeep::{GivenUp, GivenUpSegment, MendOutcome, Mended, Mode};
use workrail_model::id::SessionId;

use super::RepairArguments;
use crate::confirm::{self, Asked};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::wiring::{self, LocalEngine};

pub(super) fn run(arguments: &RepairArguments) -> Result<(), Failure> {
    let engine = if arguments.dry_run { wiring::look_default()? } else { wiring::change_default()? };
    // A session whose only write was not committed is in no list; its id is enough.
    let session = match SessionId::parse(arguments.session.trim()) {
        Ok(session) => session,
        Err(_) => engine.find(&arguments.session)?.session,
    };
    let format = Format::json_if(arguments.json);
    let planned = engine.repair(session, Mode::DryRun)?;
    if arguments.dry_run {
        tell(&planned, format);
        return Ok(());
    }
    match &planned {
        MendOutcome::WouldRepair(plan) if format == Format::Text => show(plan, "would be"),
        MendOutcome::WouldRepair(_) => {}
        // Nothing is cut or replaced, so nobody is asked.
        MendOutcome::WouldRollForward { .. } => {
            tell(&engine.repair(session, Mode::Real)?, format);
            return Ok(());
        }
        MendOutcome::Healthy { .. } | MendOutcome::RolledForward { .. } | MendOutcome::Repaired(_) => {
            tell(&planned, format);
            return Ok(());
        }
    }
    repair(&engine, session, Asked::unless(arguments.yes), format)
}

fn repair(engine: &LocalEngine, session: SessionId, asked: Asked, format: Format) -> Result<(), Failure> {
    confirm::typed(asked, "Type the session's id to repair it:", &[session.to_string()])?;
    tell(&engine.repair(session, Mode::Real)?, format);
    Ok(())
}

fn tell(outcome: &MendOutcome, format: Format) {
    if format == Format::Json {
        return output::json(&json!(outcome));
    }
    match outcome {
        MendOutcome::Healthy { session_id, events } => output::toned(
            Tone::Good,
            &format!("Session {session_id} is healthy ({events} events). There is nothing to repair."),
        ),
        MendOutcome::WouldRollForward { session_id, events } => {
            output::line(&format!(
                "Session {session_id} is healthy. One completed write ({events} events) waits to be rolled forward."
            ));
            output::toned(Tone::Quiet, "Nothing was changed.");
        }
        MendOutcome::RolledForward { session_id, events } => output::toned(
            Tone::Good,
            &format!("Session {session_id}: one completed write ({events} events) was rolled forward."),
        ),
        MendOutcome::WouldRepair(plan) => {
            show(plan, "would be");
            output::toned(Tone::Quiet, "Nothing was changed.");
        }
        MendOutcome::Repaired(done) => {
            output::toned(Tone::Good, &format!("Repaired: {} events kept.", done.events_kept));
            output::line(&format!("The session as it was: {} in the data directory.", done.backup));
        }
    }
}

fn show(plan: &Mended, tense: &str) {
    output::toned(Tone::Heading, &format!("Session {}", plan.session_id));
    output::line(&format!("Damage: {}", plan.damage));
    output::line(&format!("{} events {tense} kept.", plan.events_kept));
    if plan.events_rebuilt > 0 {
        output::line(&format!(
            "The manifest is rebuilt from the segments, for {} of these events.",
            plan.events_rebuilt
        ));
    }
    let given_up = &plan.gives_up;
    if given_up.segments.is_empty() {
        output::toned(Tone::Good, &format!("Nothing {tense} given up."));
    } else {
        show_given_up(given_up, tense);
    }
    output::line(&format!("Backup first: {} in the data directory, the whole session.", plan.backup));
}

fn show_given_up(given_up: &GivenUp, tense: &str) {
    output::toned(
        Tone::Warning,
        &format!(
            "Given up {tense}: {} segments, with {} events and {} notes that can still be read, and {} bytes of \
             the manifest.",
            given_up.segments.len(),
            given_up.readable_events,
            given_up.readable_notes,
            given_up.manifest_bytes
        ),
    );
    for segment in &given_up.segments {
        output::line(&format!("  {}", described(segment)));
        for event in &segment.events {
            output::line(&format!("    {event}"));
        }
    }
}

fn described(segment: &GivenUpSegment) -> String {
    let events = match (segment.first_event, segment.last_event) {
        (Some(first), Some(last)) => format!("events {first} to {last}"),
        _ => "events unknown".to_owned(),
    };
    let state = match (segment.is_there, segment.unreadable_lines) {
        (false, _) => ", missing".to_owned(),
        (true, 0) => String::new(),
        (true, lines) => format!(", {lines} lines cannot be read"),
    };
    format!("{} ({events}{state})", segment.path)
}
