//! Compiles an authored workflow into the self-contained form that runs (G21, G45).
//!
//! The order is fixed: parse, decode, expand templates, fill bindings, apply features in
//! the order of their ids, resolve snippets, render prompt blocks, inject probes and virtual steps, embed
//! contracts, link conditions and loops, lint. Nothing depends on the machine, the directory or the order
//! of keys; all problems are reported at once.

mod at;
mod bindings;
mod blocks;
mod build;
mod check;
mod diagnostic;
mod document;
mod examples;
mod expand;
mod format;
mod functions;
mod identity;
mod library;
mod lint;
mod loops;
mod mentions;
mod nearest;
mod path;
mod reference;
mod report;
mod routine;
mod schema;
mod sets;
mod source;
mod syntax;

pub use at::step_at;
pub use bindings::{Bindings, BindingsError, bindings_for};
pub use diagnostic::{Code, Diagnostic, DiagnosticSeverity, Diagnostics, SourceSpan};
pub(crate) use document::parse_options;
pub use examples::EXAMPLE_FILES;
#[cfg(test)]
pub(crate) use expand::argument_names;
pub use identity::FileOrigin;
pub(crate) use identity::suggested_id;
pub use library::Library;
pub use reference::{FieldReference, ObjectReference, format_reference};
pub use schema::workflow_schema;

use std::collections::BTreeMap;

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::name::WorkflowId;

use report::DiagnosticReport;

#[derive(Clone, Copy, Debug)]
pub struct CompileInput<'a> {
    pub bytes: &'a [u8],
    /// The name to show, not a path to open.
    pub file: &'a str,
    pub bindings: &'a Bindings,
    pub origin: FileOrigin,
    pub library: &'a Library,
}

impl<'a> CompileInput<'a> {
    /// A file of the project, without bindings.
    pub fn new(bytes: &'a [u8], file: &'a str) -> Self {
        static NONE: Bindings = BTreeMap::new();
        static ALONE: Library = Library::EMPTY;
        Self { bytes, file, bindings: &NONE, origin: FileOrigin::Project, library: &ALONE }
    }
}

/// A file with everything the compiler reports about it.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Absent exactly if there are errors.
    pub workflow: Option<CompiledWorkflow>,
    /// Errors, warnings and hints.
    pub diagnostics: Diagnostics,
}

/// The compiled workflow, or every problem of the file.
pub fn compile(input: CompileInput<'_>) -> Result<CompiledWorkflow, Diagnostics> {
    let checked = check(input);
    checked.workflow.ok_or(checked.diagnostics)
}

/// Compiles and keeps the warnings and hints as well.
pub fn check(input: CompileInput<'_>) -> Checked {
    let mut report = DiagnosticReport::default();
    let Some(root) = document::parse(input.bytes, &mut report) else {
        return Checked { workflow: None, diagnostics: report.finish(input.file, None) };
    };
    let source = source::workflow(&root, &mut report);
    let workflow = build::workflow(&source, &input, &mut report);
    let workflow = workflow.filter(|_| !report.has_errors());
    Checked { workflow, diagnostics: report.finish(input.file, Some(&root)) }
}

/// The `id` that a file claims, even if the rest of it is wrong: ownership of an id is decided before
/// the file is validated.
pub fn authored_id(bytes: &[u8]) -> Option<WorkflowId> {
    let root = document::parse(bytes, &mut DiagnosticReport::default())?;
    WorkflowId::parse(root.get("id")?.text()?).ok()
}
