//! `workrail store verify`: what was checked, and what is wrong.

use serde_json::json;
use workrail_engine::upkeep::{Verified, VerifyScope};

use super::{PhaseProgress, VerifyArguments, row, show_problems};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::{name, wiring};

pub(super) fn run(arguments: &VerifyArguments) -> Result<(), Failure> {
    let format = Format::json_if(arguments.json);
    let engine = wiring::read_only_default()?;
    let scope = match &arguments.session {
        Some(text) => VerifyScope::One(name::session_or_run(&engine, text)?.session),
        None => VerifyScope::All,
    };
    let verified = {
        let mut progress = PhaseProgress::new("Checking");
        engine.verify(scope, &mut |done, total| progress.at(done, total))?
    };
    match format {
        Format::Json => output::json(&json!(verified)),
        Format::Text => show(&verified),
    }
    if verified.counts.problems == 0 { Ok(()) } else { Err(Failure::Problems) }
}

fn show(verified: &Verified) {
    let counts = &verified.counts;
    output::table(
        &["checked", "count"],
        [
            row("sessions", counts.sessions),
            row("events", counts.events),
            row("segments", counts.segments),
            row("snapshots", counts.snapshots),
            row("blobs", counts.blobs),
            row("stored replies", counts.stored_replies),
            row("workflows", counts.workflows),
            row("signed by passkeys of this store", counts.signed_decisions),
            row("signed by passkeys of other stores", counts.foreign_decisions),
            row("problems", counts.problems),
            row("notes", counts.notes),
        ],
    );
    if !verified.signed.is_empty() {
        output::table(
            &["signed", "session", "event", "key", "fingerprint", "enrolled"],
            verified.signed.iter().map(|signature| {
                let enrolled = match (signature.is_foreign, signature.resets) {
                    (true, _) => "in another store",
                    (false, 0) => "here",
                    (false, _) => "here, after a reset",
                };
                let (what, session) = (signature.what.to_owned(), signature.session_id.clone());
                let (event, key) = (signature.event_index.to_string(), signature.key.clone());
                vec![what, session, event, key, signature.fingerprint.clone(), enrolled.to_owned()]
            }),
        );
    }
    for note in &verified.notes {
        output::toned(Tone::Quiet, &format!("note: {}: {}", note.path, note.note));
    }
    let problems = verified.problems.iter();
    show_problems(
        problems.map(|problem| (&*problem.what, &*problem.problem, &*problem.fix)),
        counts.problems,
    );
    if counts.sessions == 0 && counts.problems == 0 {
        output::line("No sessions yet.");
    } else if counts.problems == 0 {
        output::toned(Tone::Good, "No problems found.");
    }
}
