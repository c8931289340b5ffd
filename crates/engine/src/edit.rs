//! Editing a workflow's file: found by an opaque key, checked as it is typed. Writes nothing (G36).
//!
//! A key is a digest of where a source found the file. It is looked up among the sources' current files, so no text
//! in a request can name another file (G100).

use workrail_core::compile::{Bindings, CompileInput, FileOrigin, authored_id, bindings_for, check, step_at};
use workrail_core::discover::{plan, prompt_lines};
use workrail_core::render::prompt::{Lifecycle, render_step_shortened};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::discovery::{PlanEntry, Precedence};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::Context;
use workrail_model::name::WorkflowId;
use workrail_model::snapshot::PendingStep;
use workrail_ports::workflow_source::CandidateFile;

use crate::versions::StepPreview;
use crate::{Engine, Store, error};

pub use workrail_core::builtins::{Insertion, InsertionKind, insertions};
pub use workrail_core::compare::text_lines;
pub use workrail_core::compile::{Code, Diagnostic, DiagnosticSeverity, Diagnostics};
pub use workrail_core::trial::TrialReport;

/// A workflow file in a source, usable or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInSource {
    pub key: Sha256,
    pub source_kind: Precedence,
    /// Relative to its folder.
    pub reference: String,
    pub is_editable: bool,
}

/// A file with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowFile {
    pub about: FileInSource,
    pub text: String,
    pub digest: Sha256,
    /// The id it claims; absent in a file that cannot be parsed.
    pub workflow_id: Option<WorkflowId>,
}

/// What the compiler reports about a text.
#[derive(Clone, Debug)]
pub struct CheckedText {
    pub diagnostics: Diagnostics,
    pub workflow_id: Option<WorkflowId>,
    /// Absent if there are errors.
    pub compiled: Option<CompiledText>,
    /// The id of the step at the given position.
    pub step: Option<String>,
}

#[derive(Clone, Debug)]
pub struct CompiledText {
    pub hash: Option<WorkflowHash>,
    pub plan: Vec<PlanEntry>,
    pub steps: Vec<StepPreview>,
}

impl CheckedText {
    pub fn errors(&self) -> usize {
        self.diagnostics
            .problems
            .iter()
            .filter(|problem| problem.severity == DiagnosticSeverity::Error)
            .count()
    }
}

/// Identifies a file of a source; stable when other sources are added or removed.
pub fn file_key(file: &CandidateFile) -> Sha256 {
    // Spelled out, because addresses of the console contain the key: a renamed variant must not change it.
    let source = match file.precedence {
        Precedence::Bundled => "Bundled",
        Precedence::Plugin => "Plugin",
        Precedence::User => "User",
        Precedence::Custom => "Custom",
        Precedence::Git => "Git",
        Precedence::Project => "Project",
    };
    Sha256::of_parts(&[source.as_bytes(), file.location.as_bytes()])
}

fn described(file: &CandidateFile) -> FileInSource {
    FileInSource {
        key: file_key(file),
        source_kind: file.precedence,
        reference: file.reference.clone(),
        is_editable: file.precedence.is_editable(),
    }
}

impl<S: Store> Engine<S> {
    /// Every file in a source, usable or not.
    pub fn workflow_files(&self) -> Vec<FileInSource> {
        self.catalog.files(self.environment.workspace.as_ref()).iter().map(described).collect()
    }

    /// The file that a workflow id refers to now.
    pub fn file_of_workflow(&self, id: &WorkflowId) -> Result<FileInSource, Box<ErrorEnvelope>> {
        self.catalog.file_of(id, self.environment.workspace.as_ref()).map(|file| described(&file))
    }

    pub fn workflow_file(&self, key: Sha256) -> Result<WorkflowFile, Box<ErrorEnvelope>> {
        let (file, bytes) = self.catalog.file(key, self.environment.workspace.as_ref())?;
        Ok(WorkflowFile {
            about: described(&file),
            digest: Sha256::of(&bytes),
            workflow_id: authored_id(&bytes),
            text: String::from_utf8(bytes).map_err(|_| error::not_text(&file.reference))?,
        })
    }

    /// Compiles a text as if it were the file's, with the workspace's bindings. `cursor` is its position in the
    /// text, in bytes.
    pub fn check_workflow(
        &self,
        about: &FileInSource,
        text: &str,
        cursor: Option<usize>,
    ) -> Result<CheckedText, Box<ErrorEnvelope>> {
        let bytes = text.as_bytes();
        let workflow_id = authored_id(bytes);
        let bindings = self.bindings_of(workflow_id.as_ref())?;
        let origin = FileOrigin::of(about.source_kind.source_kind());
        let library = self.catalog.library(self.environment.workspace.as_ref());
        let checked = check(CompileInput {
            bindings: &bindings,
            origin,
            library: &library,
            ..CompileInput::new(bytes, &about.reference)
        });
        let compiled = checked.workflow.map(|workflow| CompiledText {
            hash: workflow.hash().ok(),
            plan: plan(&workflow),
            steps: previews(&workflow),
        });
        let step = cursor.and_then(|cursor| step_at(bytes, cursor));
        Ok(CheckedText { diagnostics: checked.diagnostics, workflow_id, compiled, step })
    }

    fn bindings_of(&self, id: Option<&WorkflowId>) -> Result<Bindings, Box<ErrorEnvelope>> {
        let found = self.environment.workflows.bindings(self.environment.workspace.as_ref());
        let (Some(file), Some(id)) = (found.map_err(|cause| error::source(&cause))?, id) else {
            return Ok(Bindings::new());
        };
        bindings_for(&file.bytes, id.as_str()).map_err(|cause| error::bindings(&file.reference, &cause))
    }
}

/// Each step's prompt as an agent would first read it.
pub(crate) fn previews(workflow: &CompiledWorkflow) -> Vec<StepPreview> {
    let steps = workflow.steps.iter().map(|step| {
        let pending = PendingStep { step_id: step.step_id.clone(), loop_path: Vec::new() };
        StepPreview {
            step_id: step.step_id.to_string(),
            lines: prompt_lines(workflow, step),
            rendered: render_step_shortened(workflow, &pending, &Context::default(), Lifecycle::Start),
        }
    });
    steps.collect()
}
