//! `workrail store backup` and `workrail store restore`: consistent copies, even while agents work (G26).

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;
use workrail_engine::upkeep::{self, CopySummary, KeysResult};
use workrail_host::data_dir::data_dir;
use workrail_host::folders;
use workrail_ports::backup::{BackupOptions, RestoreOptions};

use super::{BackupArguments, PhaseProgress, RestoreArguments, bytes_shown, row, show_problems};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::settings;
use crate::wiring::{self, DirectoryOnly};

const BACKUP: DirectoryOnly = DirectoryOnly {
    command: "store backup",
    instead: "Back up a database with `pg_dump`, or copy its sessions to a folder: `workrail store copy`.",
};
const RESTORE: DirectoryOnly = DirectoryOnly {
    command: "store restore",
    instead: "Restore a database with `pg_restore`, or add missing sessions from a folder: `workrail store \
              copy FOLDER DATABASE --merge`.",
};

pub(super) fn back_up(arguments: &BackupArguments) -> Result<(), Failure> {
    let format = Format::json_if(arguments.json);
    BACKUP.refuse_database()?;
    let (data, backup) = store_and_backup(&arguments.dest)?;
    if !folders::is_folder(&data) {
        return Err(Failure::Usage(format!("There is nothing to back up: `{data}` does not exist.")));
    }
    refuse_overlap(&data, &backup)?;
    refuse_foreign(&backup)?;
    let store = wiring::store_as_is(&data)?;
    let target = wiring::store_as_is(&backup)?;
    let options = BackupOptions { with_keys: !arguments.without_keys, check_all: arguments.verify };
    let summary = {
        let mut progress = PhaseProgress::new("Backing up");
        upkeep::back_up(&*store, &*target, options, &mut |done, total| progress.at(done, total))?
    };
    match format {
        Format::Json => output::json(&json!({ "backup": backup, "result": summary })),
        Format::Text => show_backup(&summary, &backup),
    }
    if summary.problem_count == 0 { Ok(()) } else { Err(Failure::Problems) }
}

pub(super) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let format = Format::json_if(arguments.json);
    RESTORE.refuse_database()?;
    let (data, backup) = store_and_backup(&arguments.src)?;
    refuse_overlap(&data, &backup)?;
    if !folders::is_folder(&backup.join("sessions")) {
        let message = format!("`{backup}` is not a WorkRail backup: it has no folder `sessions`.");
        return Err(Failure::Usage(message));
    }
    let source = wiring::store_as_is(&backup)?;
    let only = arguments.session.as_deref().map(|text| upkeep::find_in_backup(&*source, text)).transpose()?;
    // A dry run creates nothing: without a data directory, it compares with an empty one.
    let empty;
    let store = match arguments.dry_run && !folders::is_folder(&data) {
        true => {
            empty = tempfile::tempdir().map_err(|error| Failure::Environment(error.to_string()))?;
            wiring::store_as_is(Utf8Path::from_path(empty.path()).unwrap_or(&data))?
        }
        false => wiring::store_as_is(&data)?,
    };
    let options = RestoreOptions { only, dry_run: arguments.dry_run };
    let summary = {
        let mut progress = PhaseProgress::new("Restoring");
        upkeep::restore(&*store, &*source, options, &mut |done, total| progress.at(done, total))?
    };
    match format {
        Format::Json => output::json(&json!({ "dryRun": arguments.dry_run, "result": summary })),
        Format::Text => show_restore(&summary, arguments.dry_run),
    }
    if summary.problem_count == 0 { Ok(()) } else { Err(Failure::Problems) }
}

/// The data directory and the folder named by the caller, both with links resolved.
fn store_and_backup(named: &Utf8Path) -> Result<(Utf8PathBuf, Utf8PathBuf), Failure> {
    let current = settings::current()?;
    let data = data_dir(&current.settings).map_err(|error| Failure::Environment(error.to_string()))?;
    let resolved = |path: &Utf8Path| {
        folders::resolved(path).map_err(|error| Failure::Usage(format!("`{path}` cannot be used: {error}.")))
    };
    Ok((resolved(&data)?, resolved(named)?))
}

fn refuse_overlap(data: &Utf8Path, backup: &Utf8Path) -> Result<(), Failure> {
    let why = if data == backup {
        "it is the data directory itself"
    } else if backup.starts_with(data) {
        "it is inside the data directory"
    } else if data.starts_with(backup) {
        "the data directory is inside it"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "`{backup}` cannot hold a backup: {why}. Name a folder elsewhere, best on another disk."
    )))
}

/// Only an empty folder or an earlier backup is written to.
fn refuse_foreign(backup: &Utf8Path) -> Result<(), Failure> {
    let is_free = folders::is_empty_or_missing(backup)
        .map_err(|error| Failure::Usage(format!("`{backup}` cannot hold a backup: {error}.")))?;
    match is_free || backup.join("backup.json").is_file() || backup.join(".tmp-backup").is_file() {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "`{backup}` contains files and is not a WorkRail backup. Name an empty or a new folder, or an earlier \
             backup. Nothing was written."
        ))),
    }
}

fn show_backup(summary: &CopySummary, backup: &Utf8Path) {
    let counts = &summary.sessions;
    output::table(
        &["backup", "count"],
        [
            row("sessions", counts.total),
            row("new", counts.added),
            row("continued", counts.extended),
            row("unchanged", counts.unchanged),
            row("replaced", counts.replaced),
            row("skipped", counts.skipped),
            row("segments copied", summary.segments_copied),
            row("content files copied", summary.content_copied),
            vec!["copied".to_owned(), bytes_shown(summary.segment_bytes + summary.content_bytes)],
        ],
    );
    show_details(summary, "");
    if let Some(aside) = &summary.keys_kept_aside {
        output::toned(
            Tone::Warning,
            &format!("The backup had other signing keys. They are kept in {aside} of the backup."),
        );
    }
    output::line(match summary.keys {
        KeysResult::Copied | KeysResult::Replaced | KeysResult::Unchanged => {
            "The signing keys are included: keep the backup as private as the data directory."
        }
        KeysResult::LeftOut
        | KeysResult::SourceHasNone
        | KeysResult::SourceUnusable
        | KeysResult::TargetHasOthers => match summary.keeps_earlier_keys {
            true => {
                "No signing keys were copied. The backup keeps those of an earlier backup: keep it as private as the data \
                 directory."
            }
            false => "The signing keys are not included.",
        },
    });
    output::toned(Tone::Good, &format!("Every copied file was verified. The backup is in {backup}."));
}

fn show_restore(summary: &CopySummary, dry_run: bool) {
    let counts = &summary.sessions;
    output::table(
        &["restore", "count"],
        [
            row("sessions in the backup", counts.total),
            row("added", counts.added),
            row("continued", counts.extended),
            row("damaged ones replaced", counts.replaced),
            row("unchanged", counts.unchanged),
            row("skipped", counts.skipped),
            row("content files restored", summary.content_copied),
        ],
    );
    show_details(summary, if dry_run { "would be " } else { "" });
    match summary.keys {
        KeysResult::Copied | KeysResult::Replaced => output::line("The signing keys come from the backup."),
        KeysResult::TargetHasOthers => output::line(
            "The data directory keeps its signing keys. Tokens signed with the backup's keys are not accepted; resume \
             a run by its label to get new ones.",
        ),
        KeysResult::Unchanged
        | KeysResult::LeftOut
        | KeysResult::SourceHasNone
        | KeysResult::SourceUnusable => {}
    }
    if dry_run {
        output::toned(Tone::Quiet, "Dry run: nothing was restored. Run without --dry-run to restore.");
    }
}

/// `would_be` precedes what a dry run only announces.
fn show_details(summary: &CopySummary, would_be: &str) {
    for change in summary.changes.iter().filter(|change| change.why.is_some()) {
        let why = change.why.as_deref().unwrap_or_default();
        let aside = change.kept_aside.as_deref();
        let aside = aside.map(|path| format!(" Its previous files are kept in {path}.")).unwrap_or_default();
        output::toned(
            Tone::Warning,
            &format!("{} {would_be}{}: {why}{aside}", change.session_id, change.change),
        );
    }
    for path in &summary.repaired_content {
        output::line(&format!(
            "{path} is damaged and {would_be}restored; the damaged copy: backups/content."
        ));
    }
    let problems = summary.problems.iter();
    show_problems(
        problems.map(|problem| (&*problem.what, &*problem.problem, &*problem.fix)),
        summary.problem_count,
    );
}
