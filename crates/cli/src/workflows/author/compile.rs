//! `workrail workflow compile`: the compiled form, its hash, or the prompts.

use std::sync::Arc;

use camino::Utf8Path;
use serde_json::{Value, json};
use workrail_core::compile::{Bindings, CompileInput, FileOrigin, Library, authored_id, bindings_for, check};
use workrail_core::render::prompt::{Lifecycle, render_step_shortened};
use workrail_engine::catalog::Catalog;
use workrail_host::sources::is_bundled;
use workrail_host::workspace::default_workspace;
use workrail_model::compiled::{CompiledStep, CompiledWorkflow, ResolveFrom};
use workrail_model::discovery::Precedence;
use workrail_model::event::Context;
use workrail_model::name::WorkflowId;
use workrail_model::snapshot::PendingStep;
use workrail_ports::workflow_source::{CandidateFile, Located, SourceFile, WorkflowSource};

use super::{Emit, diagnostics, diff, files};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::workflows::unusable_form;
use crate::{settings, wiring};

/// The workspace's choices for the extension points of a file's workflow.
pub(super) fn bindings(bytes: &[u8]) -> Result<Bindings, Failure> {
    let call = |error: &dyn std::fmt::Display| Failure::Usage(format!("the workspace's bindings: {error}"));
    let Some(file) =
        settings::sources()?.bindings(default_workspace().as_ref()).map_err(|error| call(&error))?
    else {
        return Ok(Bindings::new());
    };
    // A file without a readable id has other problems, which the check reports.
    let Some(id) = authored_id(bytes) else { return Ok(Bindings::new()) };
    bindings_for(&file.bytes, id.as_str()).map_err(|error| call(&error))
}

/// The routines and ids in the workspace's sources, against which calls and delegations are checked.
pub(super) fn library() -> Result<Library, Failure> {
    let catalog = Catalog::new(Arc::new(settings::sources()?));
    Ok(catalog.library(default_workspace().as_ref()))
}

/// Documents that a workflow refers to but that are missing where a run looks for them.
pub(super) fn missing_documents(
    file: &Utf8Path,
    workflow: Option<&CompiledWorkflow>,
) -> Result<Vec<(ResolveFrom, String)>, Failure> {
    let Some(workflow) = workflow.filter(|workflow| !workflow.references.is_empty()) else {
        return Ok(Vec::new());
    };
    let (sources, workspace) = (settings::sources()?, default_workspace());
    let source = source_of(file, &sources.list(workspace.as_ref()).files);
    let searched = workflow.references.iter().filter(|reference| match reference.resolve_from {
        ResolveFrom::Workspace => workspace.is_some(),
        // A file outside every source has no package yet.
        ResolveFrom::Package => source.package.is_some(),
    });
    let missing = searched
        .filter(|reference| sources.locate(reference, &source, workspace.as_ref()) == Located::Missing);
    Ok(missing.map(|reference| (reference.resolve_from, reference.source.clone())).collect())
}

/// The source that a named file belongs to, as a run sees it.
fn source_of(file: &Utf8Path, candidates: &[CandidateFile]) -> SourceFile {
    let real = |path: &Utf8Path| path.canonicalize_utf8().ok();
    let path = real(file);
    let candidate = candidates
        .iter()
        .find(|candidate| path.is_some() && real(Utf8Path::new(&candidate.location)) == path);
    SourceFile {
        kind: candidate.map_or(Precedence::Project, |candidate| candidate.precedence),
        reference: file.to_string(),
        package: candidate.and_then(|candidate| candidate.package.clone()),
    }
}

/// Our own files may use our namespace; all others are checked as part of a project.
pub(super) fn origin(bytes: &[u8]) -> FileOrigin {
    if is_bundled(bytes) { FileOrigin::Bundled } else { FileOrigin::Project }
}

/// Compiles a text as if it were a file of a source; `None` if it has errors.
pub(crate) fn compiled_text(
    text: &[u8],
    reference: &str,
    precedence: Precedence,
) -> Result<Option<CompiledWorkflow>, Failure> {
    let (bindings, origin) = (bindings(text)?, FileOrigin::of(precedence.source_kind()));
    let library = library()?;
    let input =
        CompileInput { bindings: &bindings, origin, library: &library, ..CompileInput::new(text, reference) };
    Ok(check(input).workflow)
}

/// Compiles a file; prints its problems if there are errors.
pub(super) fn compiled(file: &Utf8Path, format: Format) -> Result<CompiledWorkflow, Failure> {
    let bytes = files::read(file)?;
    let bindings = bindings(&bytes)?;
    let origin = origin(&bytes);
    let library = library()?;
    let checked = check(CompileInput {
        bindings: &bindings,
        origin,
        library: &library,
        ..CompileInput::new(&bytes, file.as_str())
    });
    checked.workflow.ok_or_else(|| {
        match format {
            Format::Text => diagnostics::print(&checked.diagnostics, &bytes),
            Format::Json => output::json(&json!({ "file": file, "diagnostics": checked.diagnostics })),
        }
        Failure::Problems
    })
}

/// `text` names a file, a workflow id, a hash or a run.
pub(super) fn run(text: &str, emit: Emit, format: Format) -> Result<(), Failure> {
    let named = diff::named(text, format)?;
    let workflow = &*named.workflow;
    match emit {
        Emit::Json => {
            output::json(&serde_json::to_value(workflow).map_err(unusable_form)?);
        }
        Emit::Hash => {
            let hash = workflow.hash().map_err(unusable_form)?.to_string();
            match format {
                Format::Text => output::line(&hash),
                Format::Json => output::json(&json!({ "workflowId": workflow.workflow_id, "hash": hash })),
            }
        }
        Emit::Prompts => prompts(workflow, format),
        Emit::Inputs => diff::inputs(&named, format)?,
        Emit::Source => source(text, format)?,
    }
    Ok(())
}

/// The file as written by its author.
fn source(text: &str, format: Format) -> Result<(), Failure> {
    let path = Utf8Path::new(text);
    let (file, source) = if path.is_file() {
        (text.to_owned(), String::from_utf8_lossy(&files::read(path)?).into_owned())
    } else {
        let engine = wiring::read_only_default()?;
        let now = match WorkflowId::parse(text).ok().and_then(|id| engine.current_form(&id).ok()) {
            Some(now) => Some(now),
            None => engine.pinned_run(text)?.now,
        };
        let now = now.ok_or_else(|| {
            Failure::Usage(format!(
                "The file that `{text}` was compiled from is gone. --emit json prints the compiled form."
            ))
        })?;
        (now.reference, now.source)
    };
    match format {
        Format::Text => output::line(source.trim_end()),
        Format::Json => output::json(&json!({ "file": file, "source": source })),
    }
    Ok(())
}

/// The prompt of each step, as an agent first reads it.
fn prompts(workflow: &CompiledWorkflow, format: Format) {
    let prompt = |step: &CompiledStep| {
        let pending = PendingStep { step_id: step.step_id.clone(), loop_path: Vec::new() };
        render_step_shortened(workflow, &pending, &Context::default(), Lifecycle::Start)
    };
    match format {
        Format::Text => {
            for step in &workflow.steps {
                output::toned(Tone::Heading, &format!("{} · {}", step.step_id, step.title));
                output::line(&prompt(step));
                output::line("");
            }
        }
        Format::Json => {
            let shown = |step: &CompiledStep| json!({ "stepId": step.step_id, "title": step.title, "prompt": prompt(step) });
            let steps: Vec<Value> = workflow.steps.iter().map(shown).collect();
            output::json(&json!({ "workflowId": workflow.workflow_id, "steps": steps }));
        }
    }
}
