//! `workrail workflow validate`: every problem of every file at once.

use camino::Utf8PathBuf;
use serde_json::json;
use workrail_core::compile::{CompileInput, Diagnostics, Severity, authored_id, check};

use super::{compile, files, report};
use crate::outcome::Failure;
use crate::output::{self, Tone};

pub(super) fn run(paths: &[Utf8PathBuf], as_json: bool) -> Result<(), Failure> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(files::workflow_files(path)?);
    }
    if found.is_empty() {
        return Err(Failure::Call("no workflow files (*.json, *.jsonc) in the given paths".to_owned()));
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
        let missing = compile::missing_documents(checked.workflow.as_ref());
        if !missing.is_empty() {
            let library = library.clone().with_missing_documents(missing);
            checked = check(CompileInput { library: &library, ..input });
        }
        if !as_json {
            report::print(&checked.diagnostics, &bytes);
        }
        all.push(checked.diagnostics);
    }
    let count = |severity: Severity| -> usize {
        all.iter().flat_map(|file| &file.problems).filter(|problem| problem.severity == severity).count()
    };
    let (errors, warnings, hints) = (count(Severity::Error), count(Severity::Warning), count(Severity::Hint));
    if as_json {
        let value = json!({ "files": all, "errors": errors, "warnings": warnings, "hints": hints });
        output::json(&value);
    } else {
        let tone = if errors > 0 { Tone::Warning } else { Tone::Good };
        let files = found.len();
        output::toned(tone, &format!("{files} checked: {errors} errors, {warnings} warnings, {hints} hints"));
    }
    if errors > 0 { Err(Failure::Problems) } else { Ok(()) }
}
