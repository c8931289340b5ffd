//! Moves a session to another machine: `workrail session export` and `workrail session import` (G80, G81).

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use workrail_core::bundle::KeyPatterns;
use workrail_engine::{ExportFailure, Exported, ImportMode, Imported, RunSummary};
use workrail_model::bundle::{Redaction, Salvage};
use workrail_model::config::Key;
use workrail_model::reply::NextCall;
use workrail_model::tool::ToolName;

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, ProgressDisplay, Tone};
use crate::wiring::{self, AnyEngine};
use crate::{name, settings};

const EXPORT_EXAMPLES: &str = "Examples:
  workrail session export amber-falcon                     write SESSION.bundle.json here
  workrail session export sess_0123 -o work.json           name the session by a prefix of its id
  workrail session export amber-falcon --redact            leave out context values whose keys look like secrets
  workrail session export amber-falcon --redact-key 'customer*' -o - | ssh host 'cat > work.json'";

const IMPORT_EXAMPLES: &str = "Examples:
  workrail session import work.json --dry-run              check only
  workrail session import work.json                        then ask the agent to resume the run
  workrail session import work.json --as-new               import a second copy";

#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    /// Export a session to one file so that work can continue elsewhere.
    #[command(after_help = format!("{EXPORT_EXAMPLES}\n\n{EXIT_CODES}"))]
    Export(ExportArguments),
    /// Import a session from a bundle. Checks everything first and never merges.
    #[command(after_help = format!("{IMPORT_EXAMPLES}\n\n{EXIT_CODES}"))]
    Import(ImportArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// A session or one of its runs: an id, a prefix of one, or a run's two-word label.
    session: String,
    /// Where to write the bundle; `-` writes to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<Utf8PathBuf>,
    /// Leave out context values whose keys look like secrets.
    #[arg(long)]
    redact: bool,
    /// Also leave out context values whose keys match this pattern (`*` matches anything). May be repeated.
    #[arg(long, value_name = "PATTERN")]
    redact_key: Vec<String>,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The bundle.
    file: Utf8PathBuf,
    /// Import under a new session id even if the original id is free.
    #[arg(long)]
    as_new: bool,
    /// Check the bundle and write nothing.
    #[arg(long, conflicts_with = "as_new")]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: BundleCommand) -> ExitCode {
    match command {
        BundleCommand::Export(arguments) => {
            let format = Format::json_if(arguments.json);
            outcome::finish(export(&arguments, format), format)
        }
        BundleCommand::Import(arguments) => {
            let format = Format::json_if(arguments.json);
            outcome::finish(import(&arguments, format), format)
        }
    }
}

/// Where a bundle goes.
enum BundleDestination {
    Stdout,
    File(Utf8PathBuf),
}

fn export(arguments: &ExportArguments, format: Format) -> Result<(), Failure> {
    let to_stdout = arguments.output.as_deref() == Some(Utf8Path::new("-"));
    if to_stdout && format == Format::Json {
        let message = "`--json` and `-o -` both need standard output. Write the bundle to a file.";
        return Err(Failure::Usage(message.to_owned()));
    }
    let engine = wiring::read_only_default()?;
    let session = name::session_or_run(&engine, &arguments.session)?.session;
    let target = match &arguments.output {
        _ if to_stdout => BundleDestination::Stdout,
        Some(path) => BundleDestination::File(path.clone()),
        None => BundleDestination::File(format!("{session}.bundle.json").into()),
    };
    let exported = match &target {
        BundleDestination::Stdout => write(&engine, session, arguments, &mut output::raw())?,
        BundleDestination::File(path) => {
            to_file(path, arguments.force, |out| write(&engine, session, arguments, out))?
        }
    };
    match (&target, format) {
        (BundleDestination::File(path), Format::Json) => output::json(&exported_json(&exported, path)),
        (BundleDestination::File(path), Format::Text) => print_exported(&exported, path),
        (BundleDestination::Stdout, _) => warnings(exported.salvage.as_ref(), exported.redaction.as_ref())
            .iter()
            .for_each(|text| output::notice(text)),
    }
    Ok(())
}

fn write(
    engine: &AnyEngine,
    session: workrail_model::id::SessionId,
    arguments: &ExportArguments,
    out: &mut dyn Write,
) -> Result<Exported, Failure> {
    let configured = settings::current()?.settings.list(Key::ExportRedactKeys);
    let configured = configured.iter().filter(|_| arguments.redact);
    let patterns: Vec<String> = configured.chain(&arguments.redact_key).cloned().collect();
    let patterns = (!patterns.is_empty()).then(|| KeyPatterns::new(patterns));
    let mut bar: Option<ProgressDisplay> = None;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let exported = engine.export(session, patterns, &mut out, &mut |done, of| {
        bar.get_or_insert_with(|| ProgressDisplay::new("Exporting", of)).at(done);
    });
    let exported = exported.map_err(|failure| match failure {
        ExportFailure::Refused(refused) => Failure::Refused(refused),
        ExportFailure::Output(error) => not_written(&error),
    })?;
    out.flush().map_err(|error| not_written(&error))?;
    Ok(exported)
}

fn not_written(error: &io::Error) -> Failure {
    Failure::Environment(format!(
        "The bundle cannot be written: {error}. Check the place and its free space."
    ))
}

/// Writes a file completely or not at all: to a temporary name, synced, then renamed.
fn to_file<T>(
    path: &Utf8Path,
    force: bool,
    fill: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let exists = || {
        let what = format!("`{path}` already exists. Choose another name, or pass --force to overwrite it.");
        Failure::Usage(what)
    };
    if !force && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let folder = path.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    // Readable only by its owner, like everything that WorkRail stores.
    let mut file = tempfile::Builder::new()
        .prefix(".tmp-bundle-")
        .tempfile_in(folder)
        .map_err(|error| Failure::Usage(format!("No file can be made in `{folder}`: {error}.")))?;
    let filled = fill(&mut file)?;
    file.as_file().sync_all().map_err(|error| not_written(&error))?;
    match force {
        true => file.persist(path).map_err(|error| not_written(&error.error))?,
        false => file.persist_noclobber(path).map_err(|error| {
            let taken = error.error.kind() == io::ErrorKind::AlreadyExists;
            if taken { exists() } else { not_written(&error.error) }
        })?,
    };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| not_written(&error))?;
    Ok(filled)
}

fn import(arguments: &ImportArguments, format: Format) -> Result<(), Failure> {
    let mode = match (arguments.dry_run, arguments.as_new) {
        (true, _) => ImportMode::CheckOnly,
        (false, true) => ImportMode::AsNew,
        (false, false) => ImportMode::KeepIdIfFree,
    };
    let mut source = Source::open(&arguments.file, mode)?;
    let engine = match mode {
        ImportMode::CheckOnly => wiring::read_only_default()?,
        ImportMode::KeepIdIfFree | ImportMode::AsNew => wiring::open_default()?,
    };
    let imported = engine.import(&mut source, mode)?;
    drop(source);
    match format {
        Format::Json => output::json(&imported_json(&imported, mode)),
        Format::Text => print_imported(&imported, mode),
    }
    Ok(())
}

/// A bundle that is read several times, with progress.
struct Source {
    file: File,
    done: u64,
    bar: ProgressDisplay,
}

impl Source {
    fn open(path: &Utf8Path, mode: ImportMode) -> Result<Self, Failure> {
        let unreadable = |what: &str| Failure::Usage(format!("`{path}` cannot be read: {what}."));
        // Checked first: opening a pipe would wait for another process to write into it.
        let found = path.metadata().map_err(|error| unreadable(&error.to_string()))?;
        if !found.is_file() {
            return Err(unreadable("it is not a regular file"));
        }
        let file = File::open(path).map_err(|error| unreadable(&error.to_string()))?;
        let (what, readings) = match mode {
            ImportMode::CheckOnly => ("Checking", 2),
            ImportMode::KeepIdIfFree | ImportMode::AsNew => ("Importing", 3),
        };
        Ok(Self { file, done: 0, bar: ProgressDisplay::new(what, found.len() * readings) })
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.done += count as u64;
        self.bar.at(self.done);
        Ok(count)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

fn runs_json(runs: &[RunSummary]) -> Value {
    let run = |run: &RunSummary| json!({ "runId": run.run, "label": run.label, "workflowId": run.workflow });
    runs.iter().map(run).collect()
}

fn exported_json(exported: &Exported, path: &Utf8Path) -> Value {
    json!({
        "file": path,
        "bundleId": exported.bundle,
        "sessionId": exported.session,
        "runs": runs_json(&exported.runs),
        "events": exported.events,
        "contents": exported.contents,
        "salvage": exported.salvage,
        "redaction": exported.redaction,
    })
}

fn imported_json(imported: &Imported, mode: ImportMode) -> Value {
    json!({
        "imported": mode != ImportMode::CheckOnly,
        "bundleId": imported.bundle,
        "sessionId": imported.session,
        "originalSessionId": imported.original,
        "runs": runs_json(&imported.runs),
        "renamedRuns": imported.renamed_runs,
        "events": imported.events,
        "contents": imported.contents,
        "salvage": imported.salvage,
        "redaction": imported.redaction,
        "renumbered": imported.renumbered,
        "unknownMembers": imported.unknown_members,
    })
}

fn print_exported(exported: &Exported, path: &Utf8Path) {
    output::toned(Tone::Good, &format!("Exported session {} to {path}", exported.session));
    show_runs(&exported.runs);
    output::line(&format!("{} events, {} content files", exported.events, exported.contents));
    show_warnings(exported.salvage.as_ref(), exported.redaction.as_ref());
    output::toned(Tone::Quiet, &format!("On the other machine: workrail session import {path}"));
}

fn print_imported(imported: &Imported, mode: ImportMode) {
    let same = imported.session == imported.original;
    let (verb, id) = match (mode, same) {
        (ImportMode::CheckOnly, true) => {
            ("The bundle is valid. It would be imported as session", imported.session)
        }
        (ImportMode::CheckOnly, false) => (
            "The bundle is valid. Its own id is in use here, so it would be imported as session",
            imported.session,
        ),
        (ImportMode::KeepIdIfFree | ImportMode::AsNew, _) => ("Imported session", imported.session),
    };
    output::toned(Tone::Good, &format!("{verb} {id}"));
    show_runs(&imported.runs);
    output::line(&format!("{} events, {} content files", imported.events, imported.contents));
    if !same && mode != ImportMode::CheckOnly {
        output::line(&format!(
            "It was {} on the machine it came from; here it is a separate session.",
            imported.original
        ));
    }
    if imported.renumbered {
        let text =
            "Its activity numbers were too large for this data directory and were renumbered in order.";
        output::toned(Tone::Warning, text);
    }
    for member in &imported.unknown_members {
        let text = format!("`{member}` is from a newer version and was left out.");
        output::toned(Tone::Warning, &text);
    }
    show_warnings(imported.salvage.as_ref(), imported.redaction.as_ref());
    if let (Some(run), true) = (imported.runs.first(), mode != ImportMode::CheckOnly) {
        let call = NextCall::new(ToolName::ResumeSession, [("run", Value::from(run.label.as_str()))]);
        let arguments = call.arguments_text();
        let text = format!("To continue, tell the agent: call {} with {arguments}", call.tool);
        output::toned(Tone::Quiet, &text);
    }
}

fn show_runs(runs: &[RunSummary]) {
    if !runs.is_empty() {
        let row = |run: &RunSummary| vec![run.label.clone(), run.workflow.to_string(), run.run.to_string()];
        output::table(&["RUN", "WORKFLOW", "ID"], runs.iter().map(row));
    }
}

fn show_warnings(salvage: Option<&Salvage>, redaction: Option<&Redaction>) {
    for text in warnings(salvage, redaction) {
        output::toned(Tone::Warning, &text);
    }
}

/// What a recipient of the bundle must know.
fn warnings(salvage: Option<&Salvage>, redaction: Option<&Redaction>) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(salvage) = salvage {
        warnings.push(format!(
            "This is a salvage: the log is damaged ({}). Its first {} events are here; what came after them is not.",
            salvage.why, salvage.events_kept
        ));
    }
    if let Some(redaction) = redaction {
        let keys: Vec<&str> = redaction.removed.keys().map(String::as_str).collect();
        let keys = if keys.is_empty() { "no key fitted".to_owned() } else { keys.join(", ") };
        warnings.push(format!(
            "Context values were left out ({keys}) and replaced in {} stored replies.",
            redaction.replies_changed
        ));
        if redaction.notes_with_values + redaction.artifacts_with_values > 0 {
            warnings.push(format!(
                "A left-out value still occurs in {} notes and {} artifacts: text that agents wrote is not changed. \
                 Read it before you share the bundle.",
                redaction.notes_with_values, redaction.artifacts_with_values
            ));
        }
    }
    warnings
}
