//! `workrail store repair`: reports what is kept, given up and restored, and where the backup is.

use camino::Utf8Path;
use serde_json::json;
use workrail_engine::upkeep::{
    ApplyMode, ContentRepair, LostEvents, RepairOutcome, RepairSummary, SegmentLoss, VerifyScope,
};
use workrail_host::folders;
use workrail_model::id::SessionId;

use super::{PhaseProgress, RepairArguments};
use crate::confirm::{self, UserConfirmation};
use crate::name;
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::store::AnyStore;
use crate::store_kind::StoreKind;
use crate::wiring::{self, AnyEngine};

pub(super) fn run(arguments: &RepairArguments) -> Result<(), Failure> {
    let format = Format::json_if(arguments.json);
    let engine =
        if arguments.dry_run { wiring::read_only_default()? } else { wiring::open_existing_default()? };
    let store_kind = wiring::store_kind()?;
    let mode = if arguments.dry_run { ApplyMode::DryRun } else { ApplyMode::Real };
    let (scope, log) = match &arguments.session {
        Some(text) => {
            // A session whose only write was not committed is in no list; its id is enough.
            let session = match SessionId::parse(text.trim()) {
                Ok(session) => session,
                Err(_) => name::exact(&engine, text)?.session,
            };
            (VerifyScope::One(session), Some(repair_log(&engine, session, arguments, format, store_kind)?))
        }
        None => (VerifyScope::All, None),
    };
    let backup = arguments.from.as_deref().map(backup_at).transpose()?;
    let content = {
        let mut progress = PhaseProgress::new("Checking content");
        let mut watch = |done, total| progress.at(done, total);
        engine.restore_content(scope, backup.as_ref(), mode, &mut watch)?
    };
    print_result(log.as_ref(), &content, mode, format, store_kind);
    let is_whole = content.lost.is_empty() && (log.is_some() || content.damaged_sessions.is_empty());
    if is_whole { Ok(()) } else { Err(Failure::Problems) }
}

fn backup_at(path: &Utf8Path) -> Result<AnyStore, Failure> {
    match folders::is_folder(&path.join("sessions")) {
        true => wiring::store_as_is(path).map(AnyStore::Directory),
        false => {
            Err(Failure::Usage(format!("`{path}` is not a WorkRail backup: it has no folder `sessions`.")))
        }
    }
}

/// Repairs the session's log. Asks first, unless a completed write only has to be rolled forward. A dry run only plans.
fn repair_log(
    engine: &AnyEngine,
    session: SessionId,
    arguments: &RepairArguments,
    format: Format,
    store_kind: StoreKind,
) -> Result<RepairOutcome, Failure> {
    let planned = engine.repair(session, ApplyMode::DryRun)?;
    if arguments.dry_run {
        return Ok(planned);
    }
    match &planned {
        RepairOutcome::WouldRepair(plan) if format == Format::Text => show_plan(plan, store_kind),
        RepairOutcome::WouldRepair(_) => {}
        // Nothing is cut or replaced, so no confirmation is needed.
        RepairOutcome::WouldRollForward { .. } => return Ok(engine.repair(session, ApplyMode::Real)?),
        RepairOutcome::Healthy { .. } | RepairOutcome::RolledForward { .. } | RepairOutcome::Repaired(_) => {
            return Ok(planned);
        }
    }
    let confirmation = UserConfirmation::given_if(arguments.yes);
    confirm::confirm_by_typing(confirmation, "Type the session's id to repair it:", &[session.to_string()])?;
    Ok(engine.repair(session, ApplyMode::Real)?)
}

fn print_result(
    log: Option<&RepairOutcome>,
    content: &ContentRepair,
    mode: ApplyMode,
    format: Format,
    store_kind: StoreKind,
) {
    if format == Format::Json {
        let mut document = log.map_or_else(|| json!({}), |log| json!(log));
        document["content"] = json!(content);
        return output::json(&document);
    }
    match log {
        None => {}
        Some(RepairOutcome::Healthy { session_id, events }) => output::toned(
            Tone::Good,
            &format!("The log of session {session_id} is healthy ({events} events)."),
        ),
        Some(RepairOutcome::WouldRollForward { session_id, events }) => {
            output::line(&format!(
                "Session {session_id} is healthy. One completed write ({events} events) can be rolled forward."
            ));
            output::toned(Tone::Quiet, "Dry run: nothing was changed.");
        }
        Some(RepairOutcome::RolledForward { session_id, events }) => output::toned(
            Tone::Good,
            &format!("Session {session_id}: one completed write ({events} events) was rolled forward."),
        ),
        Some(RepairOutcome::WouldRepair(plan)) => {
            show_plan(plan, store_kind);
            output::toned(Tone::Quiet, "Dry run: nothing was changed.");
        }
        Some(RepairOutcome::Repaired(done)) => {
            output::toned(Tone::Good, &format!("Repaired: {} events kept.", done.events_kept));
            output::line(&format!(
                "Backup of the damaged session: {} in {}.",
                done.backup,
                store_kind.name()
            ));
        }
    }
    print_content(content, mode, log.is_none(), store_kind);
}

fn print_content(content: &ContentRepair, mode: ApplyMode, all: bool, store_kind: StoreKind) {
    for restored in &content.restored {
        let verb = match mode {
            ApplyMode::DryRun => "would be restored",
            ApplyMode::Real => "restored",
        };
        output::toned(Tone::Good, &format!("{}: {verb}, {}.", restored.path, restored.how));
        if let Some(aside) = &restored.kept_aside {
            let what = match store_kind {
                StoreKind::Directory => "file",
                StoreKind::Database => "row",
            };
            output::line(&format!("  The damaged {what}: {aside} in {}.", store_kind.name()));
        }
    }
    for lost in &content.lost {
        if let Some(fix) = lost.fix {
            let what = format!("{}: {} ({}).", lost.path, lost.problem, lost.session_id);
            output::toned(Tone::Warning, &what);
            output::line(&format!("  {} {fix}", lost.effect));
            continue;
        }
        let what =
            format!("{}: {}, and cannot be recomputed ({}).", lost.path, lost.problem, lost.session_id);
        output::toned(Tone::Warning, &what);
        output::line(&format!("  {} With a backup: workrail store repair --all --from BACKUP", lost.effect));
    }
    if all {
        for session in &content.damaged_sessions {
            output::toned(Tone::Warning, &format!("{session}: its log is damaged."));
            output::line(&format!("  workrail store repair {session} --dry-run"));
        }
    }
    if content.restored.is_empty() && content.lost.is_empty() {
        output::toned(Tone::Good, "No damaged content.");
    }
}

fn show_plan(plan: &RepairSummary, store_kind: StoreKind) {
    output::toned(Tone::Heading, &format!("Session {}", plan.session_id));
    output::line(&capitalized(&plan.damage));
    output::line(&format!("{} events would be kept.", plan.events_kept));
    if plan.events_rebuilt > 0 {
        output::line(&format!(
            "The manifest is rebuilt from the segments for {} of these events.",
            plan.events_rebuilt
        ));
    }
    let (stored, gone): (Vec<&SegmentLoss>, Vec<&SegmentLoss>) =
        plan.lost.segments.iter().partition(|segment| segment.exists);
    if stored.is_empty() {
        output::toned(Tone::Good, "No stored event would be lost.");
    } else {
        show_lost(&plan.lost, &stored);
    }
    if !gone.is_empty() {
        show_gone(&gone);
    }
    output::line(&format!(
        "The whole session is backed up first, to {} in {}.",
        plan.backup,
        store_kind.name()
    ));
}

/// Events that were recorded and are no longer in the store: no repair can bring them back.
fn show_gone(gone: &[&SegmentLoss]) {
    let count = |segment: &&SegmentLoss| Some(segment.last_event? - segment.first_event? + 1);
    let events: u64 = gone.iter().filter_map(count).sum();
    let ranges: Vec<String> = gone.iter().map(|segment| events_of(segment)).collect();
    output::toned(
        Tone::Warning,
        &format!(
            "Already gone: {} ({}). A backup or a copy of the store may have them.",
            output::counted(events, "recorded event", "recorded events"),
            ranges.join(", ")
        ),
    );
}

fn show_lost(lost: &LostEvents, stored: &[&SegmentLoss]) {
    output::toned(
        Tone::Warning,
        &format!(
            "Would be lost: {} ({}, {}) and {} of the manifest.",
            output::counted(stored.len() as u64, "segment", "segments"),
            output::counted(lost.readable_events, "readable event", "readable events"),
            output::counted(lost.readable_notes, "readable note", "readable notes"),
            output::counted(lost.manifest_bytes, "byte", "bytes")
        ),
    );
    for segment in stored {
        output::line(&format!("  {}", described(segment)));
        for event in &segment.events {
            output::line(&format!("    {event}"));
        }
    }
}

/// The text with a capital first letter.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn described(segment: &SegmentLoss) -> String {
    let state = match segment.unreadable_lines {
        0 => String::new(),
        lines => format!(", {}", output::counted(lines, "unreadable line", "unreadable lines")),
    };
    format!("{} ({}{state})", segment.path, events_of(segment))
}

fn events_of(segment: &SegmentLoss) -> String {
    match (segment.first_event, segment.last_event) {
        (Some(first), Some(last)) if first == last => format!("event {first}"),
        (Some(first), Some(last)) => format!("events {first} to {last}"),
        _ => "events unknown".to_owned(),
    }
}
