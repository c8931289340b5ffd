//! `workrail workflow validate`: reports every problem of every file at once.

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use workrail_core::compile::{CompileInput, DiagnosticSeverity, Diagnostics, authored_id, check};
use workrail_host::path_watch::PathWatch;

use super::{compile, diagnostics, files};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};

/// Checks again whenever a file changes, until interrupted. With `--json`, prints one document per line.
pub(super) fn watch(paths: &[Utf8PathBuf], format: Format) -> Result<(), Failure> {
    // Started before the first check, so that no change in between is missed.
    let changes = PathWatch::new(paths)
        .map_err(|error| Failure::Environment(format!("The files cannot be watched: {error}.")))?;
    loop {
        match once(paths, format) {
            Ok(checked) if format == Format::Json => output::json_line(&checked.document()),
            Ok(checked) => {
                checked.summary();
                output::toned(Tone::Quiet, "Watching for changes. Press Ctrl-C to stop.");
            }
            // An editor may have removed the file for a moment.
            Err(Failure::Usage(problem)) if format == Format::Json => {
                output::json_line(&json!({ "error": { "message": problem } }))
            }
            Err(Failure::Usage(problem)) => output::toned(Tone::Warning, &problem),
            Err(failure) => return Err(failure),
        }
        output::flush();
        if output::is_closed() {
            return Ok(());
        }
        changes.wait();
    }
}

pub(super) fn run(paths: &[Utf8PathBuf], format: Format) -> Result<(), Failure> {
    let checked = once(paths, format)?;
    match format {
        Format::Json => output::json(&checked.document()),
        Format::Text => checked.summary(),
    }
    if checked.count(DiagnosticSeverity::Error) > 0 { Err(Failure::Problems) } else { Ok(()) }
}

/// The results for all files.
struct CheckedFiles {
    all: Vec<Diagnostics>,
}

impl CheckedFiles {
    fn count(&self, severity: DiagnosticSeverity) -> usize {
        let problems = self.all.iter().flat_map(|file| &file.problems);
        problems.filter(|problem| problem.severity == severity).count()
    }

    fn counts(&self) -> (usize, usize, usize) {
        (
            self.count(DiagnosticSeverity::Error),
            self.count(DiagnosticSeverity::Warning),
            self.count(DiagnosticSeverity::Hint),
        )
    }

    fn document(&self) -> Value {
        let (errors, warnings, hints) = self.counts();
        json!({ "files": self.all, "errors": errors, "warnings": warnings, "hints": hints })
    }

    fn summary(&self) {
        let (errors, warnings, hints) = self.counts();
        let tone = if errors > 0 { Tone::Warning } else { Tone::Good };
        let files = self.all.len();
        output::toned(
            tone,
            &format!("Files checked: {files}. Errors: {errors}, warnings: {warnings}, hints: {hints}"),
        );
    }
}

/// Checks every file; problems are printed as they are found.
fn once(paths: &[Utf8PathBuf], format: Format) -> Result<CheckedFiles, Failure> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(files::workflow_files(path)?);
    }
    if found.is_empty() {
        return Err(Failure::Usage("no workflow files (*.json, *.jsonc) in the given paths".to_owned()));
    }
    // Files that are checked together may delegate to each other.
    let mut library = compile::library()?;
    for file in &found {
        library = library.also_with(authored_id(&files::read(file)?).map(|id| id.to_string()));
    }
    let mut all: Vec<Diagnostics> = Vec::new();
    for file in &found {
        let bytes = files::read(file)?;
        let bindings = compile::bindings(&bytes)?;
        let origin = compile::origin(&bytes);
        let input = CompileInput {
            bindings: &bindings,
            origin,
            library: &library,
            ..CompileInput::new(&bytes, file.as_str())
        };
        let mut checked = check(input);
        let missing = compile::missing_documents(file, checked.workflow.as_ref())?;
        if !missing.is_empty() {
            let library = library.clone().with_missing_documents(missing);
            checked = check(CompileInput { library: &library, ..input });
        }
        if format == Format::Text {
            diagnostics::print(&checked.diagnostics, &bytes);
        }
        all.push(checked.diagnostics);
    }
    Ok(CheckedFiles { all })
}
