//! `workrail store gc`: what is deleted, what is kept, and why.

use serde_json::json;
use workrail_engine::upkeep::{ApplyMode, CleanupReport, FileTotals};
use workrail_host::local_time::local;
use workrail_model::retention::Ttl;

use super::{GcArguments, PhaseProgress, bytes_shown};
use crate::outcome::{self, Failure, Format};
use crate::output::{self, Tone};
use crate::store_kind::StoreKind;
use crate::{settings, wiring};

/// How many sessions are listed; the JSON output has them all.
const SHOWN_MAX: usize = 20;

pub(super) fn run(arguments: &GcArguments) -> Result<(), Failure> {
    let format = Format::json_if(arguments.json);
    let default_ttl = Ttl::of_days(settings::current()?.settings.retention_days());
    let mode = if arguments.dry_run { ApplyMode::DryRun } else { ApplyMode::Real };
    let read_only = wiring::read_only_default()?;
    // A dry run creates nothing, and an empty folder in place of lost sessions would hide their loss.
    let engine = match mode == ApplyMode::DryRun || read_only.has_lost_sessions() {
        true => read_only,
        false => wiring::open_existing_default()?,
    };
    let cleaned = {
        let mut progress = PhaseProgress::new("Looking at sessions");
        let ttl = arguments.ttl.unwrap_or(default_ttl);
        engine.clean_up(ttl, mode, &mut |done, total| progress.at(done, total))?
    };
    match format {
        Format::Json => output::json(&json!(cleaned)),
        Format::Text => show(&cleaned, wiring::store_kind()?),
    }
    match (cleaned.stopped, cleaned.safe_mode) {
        (Some(error), _) => Err(Failure::Stopped(Box::new(error))),
        (None, Some(_)) => Err(Failure::Problems),
        (None, None) => Ok(()),
    }
}

fn show(cleaned: &CleanupReport, store_kind: StoreKind) {
    let verb = if cleaned.dry_run { "would delete" } else { "deleted" };
    for session in cleaned.removed.iter().take(SHOWN_MAX) {
        let last = session
            .last_worked_on
            .as_ref()
            .map_or_else(String::new, |at| format!(", last worked on {}", local(at)));
        output::line(&format!(
            "{verb}: {} ({} days old{last}; {})",
            session.session_id,
            session.age_days,
            bytes_shown(session.bytes)
        ));
    }
    if cleaned.removed.len() > SHOWN_MAX {
        output::line(&format!("and {} more sessions", cleaned.removed.len() - SHOWN_MAX));
    }
    for warning in cleaned.stopped.iter().chain(&cleaned.safe_mode) {
        output::toned(Tone::Warning, &outcome::described(warning));
    }
    if cleaned.stopped.is_some() {
        return;
    }
    output::line(&retained(cleaned));
    if let Some(ahead) = &cleaned.ahead_of_clock {
        output::toned(
            Tone::Warning,
            &format!(
                "Session {} has an event dated {}, which is in the future, so ages cannot be computed. Correct the clock \
                 of this machine. If the session came from another machine, you can delete it with \
                 `workrail session delete {}`.",
                ahead.session_id,
                local(&ahead.at),
                ahead.session_id
            ),
        );
    }
    let freed = &cleaned.freed;
    let row =
        |name: &str, sum: FileTotals| vec![name.to_owned(), sum.files.to_string(), bytes_shown(sum.bytes)];
    output::table(
        &[verb, store_kind.pieces(), "size"],
        [
            row("sessions", freed.sessions),
            row("snapshots", freed.snapshots),
            row("blobs", freed.blobs),
            row("workflows", freed.workflows),
            row("leftovers", freed.leftovers),
            row("all", freed.total()),
        ],
    );
    if cleaned.dry_run {
        output::toned(Tone::Quiet, "Dry run: nothing was deleted. Run without --dry-run to delete.");
    }
}

/// How many sessions are not deleted, and why.
fn retained(cleaned: &CleanupReport) -> String {
    let retained = &cleaned.retained;
    let ttl = &cleaned.ttl;
    let reasons = [
        (retained.unfinished, "unfinished".to_owned()),
        (retained.kept, "marked with `session keep`".to_owned()),
        (retained.recent, format!("worked on in the last {ttl}")),
        (retained.without_timestamp, "without a timestamp".to_owned()),
        (retained.in_use, "in use".to_owned()),
        (retained.clock_behind, "because the clock is behind the newest event of the store".to_owned()),
    ];
    let parts: Vec<String> = reasons
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    let (was, were) =
        if cleaned.dry_run { ("would not be", "would not be") } else { ("was not", "were not") };
    match retained.total() {
        0 if cleaned.removed.is_empty() => "Nothing to clean up.".to_owned(),
        0 => "No other sessions.".to_owned(),
        1 => format!("1 session {was} deleted: {}.", parts.join(", ")),
        many => format!("{many} sessions {were} deleted: {}.", parts.join(", ")),
    }
}
