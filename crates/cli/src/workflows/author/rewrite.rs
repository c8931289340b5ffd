//! `workrail workflow fmt` and `workrail workflow migrate`: the standard layout and the current format (G101).

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};
use workrail_core::author::{Migration, Renames, formatted, migrated, migrated_bindings, renamed};
use workrail_core::compare::{DiffLine, text_lines};
use workrail_core::compile::{CompileInput, FileOrigin, check};
use workrail_host::sources::write_named;
use workrail_host::workspace::default_workspace;
use workrail_model::name::WorkflowId;
use workrail_ports::workflow_source::WorkflowSource as _;

use super::{diagnostics, files};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::settings;

/// A file and its new text.
struct Rewritten {
    file: Utf8PathBuf,
    before: String,
    after: String,
    changes: Vec<Migration>,
}

impl Rewritten {
    fn differs(&self) -> bool {
        self.before != self.after
    }
}

/// The text of every file beneath the paths; problems of unreadable files are printed.
fn texts(paths: &[Utf8PathBuf], format: Format) -> Result<Vec<(Utf8PathBuf, String)>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(files::workflow_files(path)?);
    }
    if found.is_empty() {
        return Err(Failure::Usage("no workflow files (*.json, *.jsonc) in the given paths".to_owned()));
    }
    let mut texts = Vec::new();
    for file in found {
        let bytes = files::read(&file)?;
        match String::from_utf8(bytes) {
            Ok(text) if formatted(&text).is_some() => texts.push((file, text)),
            Ok(text) => return Err(unreadable(&file, text.as_bytes(), format)),
            Err(error) => return Err(unreadable(&file, error.as_bytes(), format)),
        }
    }
    Ok(texts)
}

/// If one of the files is not JSON, nothing is written: the compiler says why.
fn unreadable(file: &Utf8Path, bytes: &[u8], format: Format) -> Failure {
    let diagnostics = check(CompileInput::new(bytes, file.as_str())).diagnostics;
    match format {
        Format::Text => diagnostics::print(&diagnostics, bytes),
        Format::Json => output::json(&json!({ "file": file, "diagnostics": diagnostics })),
    }
    Failure::Problems
}

pub(super) fn fmt(paths: &[Utf8PathBuf], check: bool, format: Format) -> Result<(), Failure> {
    let all = texts(paths, format)?.into_iter().map(|(file, before)| {
        let after = formatted(&before).unwrap_or_else(|| before.clone());
        Rewritten { file, before, after, changes: Vec::new() }
    });
    let all: Vec<Rewritten> = all.collect();
    let changed: Vec<&Rewritten> = all.iter().filter(|rewritten| rewritten.differs()).collect();
    if !check {
        write(&changed)?;
    }
    match format {
        Format::Json => {
            let names: Vec<&Utf8PathBuf> = changed.iter().map(|rewritten| &rewritten.file).collect();
            output::json(&json!({ "files": all.len(), "changed": names, "written": !check }));
        }
        Format::Text => {
            for rewritten in &changed {
                let word = if check { "would change" } else { "formatted" };
                output::line(&format!("{word} {}", rewritten.file));
            }
            let (tone, text) = match (changed.len(), check) {
                (0, _) => (Tone::Good, format!("{} already formatted.", counted(all.len()))),
                (some, true) => (Tone::Warning, format!("{} of {} not formatted.", some, counted(all.len()))),
                (some, false) => (Tone::Good, format!("Formatted {} of {}.", some, counted(all.len()))),
            };
            output::toned(tone, &text);
        }
    }
    if check && !changed.is_empty() { Err(Failure::Problems) } else { Ok(()) }
}

fn counted(files: usize) -> String {
    output::counted(files as u64, "file", "files")
}

fn write(changed: &[&Rewritten]) -> Result<(), Failure> {
    for rewritten in changed {
        write_named(&rewritten.file, &rewritten.after)
            .map_err(|error| Failure::Environment(format!("`{}` is not written: {error}", rewritten.file)))?;
    }
    Ok(())
}

pub(super) fn migrate(
    paths: &[Utf8PathBuf],
    namespace: &str,
    is_written: bool,
    format: Format,
) -> Result<(), Failure> {
    let texts = texts(paths, format)?;
    let renames = renames(&texts, namespace)?;
    let all = texts.into_iter().filter_map(|(file, before)| {
        let done = migrated(&before, &renames)?;
        Some(Rewritten { file, before, after: done.text, changes: done.changes })
    });
    let mut all: Vec<Rewritten> = all.collect();
    all.extend(bindings(&renames)?);
    let changed: Vec<&Rewritten> = all.iter().filter(|rewritten| rewritten.differs()).collect();
    if is_written {
        write(&changed)?;
    }
    match format {
        Format::Json => {
            let files: Vec<Value> = changed
                .iter()
                .map(|rewritten| {
                    json!({ "file": rewritten.file, "changes": rewritten.changes, "diff": text_lines(&rewritten.before, &rewritten.after) })
                })
                .collect();
            output::json(&json!({ "files": files, "written": is_written }));
        }
        Format::Text => shown(&all, &changed, is_written),
    }
    Ok(())
}

/// The workspace's bindings, if they have a section for a renamed workflow.
fn bindings(renames: &Renames) -> Result<Option<Rewritten>, Failure> {
    let workspace = default_workspace();
    let call = |error: &dyn std::fmt::Display| Failure::Usage(format!("the workspace's bindings: {error}"));
    let found = settings::sources()?.bindings(workspace.as_ref()).map_err(|error| call(&error))?;
    let (Some(workspace), Some(found)) = (workspace, found) else { return Ok(None) };
    let before = String::from_utf8(found.bytes).map_err(|error| call(&error))?;
    let Some(done) = migrated_bindings(&before, renames) else {
        return Err(call(&format!("`{}` is not JSON. Nothing was written.", found.reference)));
    };
    let file = Utf8Path::new(workspace.as_str()).join(&found.reference);
    let rewritten = Rewritten { file, before, after: done.text, changes: done.changes };
    Ok(rewritten.differs().then_some(rewritten))
}

fn shown(all: &[Rewritten], changed: &[&Rewritten], is_written: bool) {
    for rewritten in changed {
        output::toned(Tone::Heading, rewritten.file.as_str());
        for change in &rewritten.changes {
            output::line(&format!("  {}", change.words()));
        }
        for line in text_lines(&rewritten.before, &rewritten.after) {
            diff_line(&line);
        }
        output::line("");
    }
    if changed.is_empty() {
        output::toned(Tone::Good, &format!("Nothing to migrate in {}.", counted(all.len())));
    } else if is_written {
        output::toned(Tone::Good, &format!("Migrated {} of {}.", changed.len(), counted(all.len())));
    } else {
        output::toned(Tone::Warning, "Nothing was written. Run with --write to change the files.");
    }
}

/// A line of a diff.
pub(super) fn diff_line(line: &DiffLine) {
    match line {
        DiffLine::Both { text } => output::line(&format!("    {text}")),
        DiffLine::A { text } => output::toned(Tone::Bad, &format!("  - {text}")),
        DiffLine::B { text } => output::toned(Tone::Good, &format!("  + {text}")),
        DiffLine::Skipped { .. } => output::toned(Tone::Quiet, "    ..."),
        DiffLine::NotCompared { lines } => {
            output::toned(Tone::Quiet, &format!("    {lines} further lines are not compared"));
        }
        DiffLine::OnlyLineEnds => output::toned(Tone::Quiet, "    only line ends differ"),
    }
}

/// The new ids of all files of the call; two files never get the same id.
fn renames(texts: &[(Utf8PathBuf, String)], namespace: &str) -> Result<Renames, Failure> {
    if namespace == WorkflowId::RESERVED_NAMESPACE {
        return Err(Failure::Usage(
            "The namespace `wr` is reserved for bundled workflows. Choose another one.".to_owned(),
        ));
    }
    let mut renames = Renames::new();
    for (file, text) in texts {
        let Some((old, new)) = renamed(text, Some(namespace), FileOrigin::Project) else { continue };
        if let Some((other, _)) = renames.iter().find(|(other, taken)| **taken == new && **other != old) {
            return Err(Failure::Usage(format!(
                "`{old}` in `{file}` and `{other}` would both become `{new}`. Rename one of them by hand. Nothing was written."
            )));
        }
        renames.insert(old, new);
    }
    Ok(renames)
}
