//! `workrail store copy`: copies all sessions of one store into another (G117).

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;
use workrail_engine::upkeep::{
    self, ApplyMode, KeysResult, StoreCopyOptions, StoreCopySummary, TargetSessions,
};
use workrail_host::folders;
use workrail_store_pg::DatabaseAddress;

use super::{CopyArguments, PhaseProgress, row, show_problems};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::store::AnyStore;
use crate::wiring;

/// A store named by the caller.
#[derive(Debug)]
enum StoreLocation {
    Folder(Utf8PathBuf),
    Database(Box<DatabaseAddress>),
}

impl StoreLocation {
    fn parse(text: &str) -> Result<Self, Failure> {
        if DatabaseAddress::is_address(text) {
            let address = DatabaseAddress::parse(text);
            return address
                .map(|address| Self::Database(Box::new(address)))
                .map_err(|error| Failure::Usage(format!("{error}.")));
        }
        // Not repeated: it may be an address with a password.
        if text.contains("://") {
            return Err(Failure::Usage(
                "A store is a folder, or a database address that begins with `postgres://`. Nothing was copied."
                    .to_owned(),
            ));
        }
        let path = Utf8Path::new(text);
        let resolved = folders::resolved(path);
        resolved
            .map(Self::Folder)
            .map_err(|error| Failure::Usage(format!("`{path}` cannot be used: {error}.")))
    }

    fn name(&self) -> String {
        match self {
            Self::Folder(path) => path.to_string(),
            Self::Database(address) => address.to_string(),
        }
    }

    /// The store to copy from. Nothing is created.
    fn source(&self) -> Result<AnyStore, Failure> {
        match self {
            Self::Folder(path) if !folders::is_folder(&path.join("sessions")) => {
                Err(Failure::Usage(format!(
                    "`{path}` is not a WorkRail data directory: it has no folder `sessions`. Name another one. If the folder was \
                 moved, move it back; if it is lost, `workrail store restore BACKUP` restores it from a backup."
                )))
            }
            Self::Folder(path) => wiring::store_as_is(path).map(AnyStore::Directory),
            Self::Database(address) => wiring::database_at(address),
        }
    }

    /// The store to copy to, created if it does not exist.
    fn target(&self, mode: ApplyMode) -> Result<AnyStore, Failure> {
        let path = match self {
            Self::Folder(path) => path,
            Self::Database(address) => return wiring::database_at(address),
        };
        let is_free = folders::is_empty_or_missing(path)
            .map_err(|error| Failure::Usage(format!("`{path}` cannot be used: {error}.")))?;
        if !is_free && !folders::is_folder(&path.join("sessions")) {
            return Err(Failure::Usage(format!(
                "`{path}` contains files and is not a WorkRail data directory. Name an empty or a new folder. Nothing \
                 was written."
            )));
        }
        match mode {
            ApplyMode::Real => wiring::store_in(path).map(AnyStore::Directory),
            ApplyMode::DryRun => wiring::read_only_in(path).map(AnyStore::Directory),
        }
    }
}

pub(super) fn run(arguments: &CopyArguments) -> Result<(), Failure> {
    let format = Format::json_if(arguments.json);
    let (from, to) = (StoreLocation::parse(&arguments.from)?, StoreLocation::parse(&arguments.to)?);
    if from.name() == to.name() {
        return Err(Failure::Usage("FROM and TO are the same store.".to_owned()));
    }
    let mode = if arguments.dry_run { ApplyMode::DryRun } else { ApplyMode::Real };
    let (source, target) = (from.source()?, to.target(mode)?);
    let options = StoreCopyOptions {
        with_keys: arguments.with_keys,
        target: if arguments.merge { TargetSessions::Any } else { TargetSessions::OnlyCopied },
        mode,
    };
    let summary = {
        let mut progress = PhaseProgress::new("Copying and comparing");
        upkeep::copy_store(&source, &target, options, &mut |done, total| progress.at(done, total))?
    };
    match format {
        Format::Json => output::json(&json!({ "from": from.name(), "to": to.name(), "result": summary })),
        Format::Text => show(&summary, &to),
    }
    if summary.problem_count == 0 { Ok(()) } else { Err(Failure::Problems) }
}

fn show(summary: &StoreCopySummary, to: &StoreLocation) {
    output::table(
        &["copy", "count"],
        [
            row("sessions", summary.sessions),
            row("added", summary.added),
            row("continued", summary.continued),
            row("unchanged", summary.unchanged),
            row("skipped", summary.skipped),
            row("events copied", summary.events_copied),
            row("content copied", summary.content_copied),
            row("compared and equal", summary.verified),
        ],
    );
    let problems = summary.problems.iter();
    show_problems(
        problems.map(|problem| (&*problem.what, &*problem.problem, &*problem.fix)),
        summary.problem_count,
    );
    output::line(match summary.keys {
        KeysResult::Copied | KeysResult::Replaced | KeysResult::Unchanged => {
            "The signing keys were copied too: tokens in open chats work with both stores."
        }
        KeysResult::TargetHasOthers => {
            "The target keeps its own signing keys. Tokens of the source are not accepted there; resume a run by its \
             label to get new ones."
        }
        KeysResult::SourceUnusable => "The signing keys were left out: those of the source cannot be used.",
        KeysResult::SourceHasNone => "The source has no signing keys.",
        KeysResult::LeftOut => {
            "The signing keys were left out (`--with-keys` copies them). Tokens of the source are not accepted in the target; \
             resume a run by its label to get new ones."
        }
    });
    if summary.dry_run {
        output::toned(Tone::Quiet, "Dry run: nothing was copied. Run without --dry-run to copy.");
    } else if summary.problem_count == 0 {
        output::toned(
            Tone::Good,
            &format!("Every session was compared with its source. The copy is in {}.", to.name()),
        );
    }
}
