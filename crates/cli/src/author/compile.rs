//! `workrail compile`: the compiled form, its hash, or the prompts.

use camino::Utf8Path;
use workrail_core::compile::{CompileInput, check};
use workrail_core::render::prompt::{Lifecycle, render_step};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::Context;
use workrail_model::snapshot::PendingStep;

use super::{Emit, Stop, files, report};
use crate::output::{self, Tone};

/// Compiles a file; prints its problems when there are errors.
pub(super) fn compiled(file: &Utf8Path) -> Result<CompiledWorkflow, Stop> {
    let bytes = files::read(file)?;
    let checked = check(CompileInput::new(&bytes, file.as_str()));
    checked.workflow.ok_or_else(|| {
        report::print(&checked.diagnostics, &bytes);
        Stop::Problems
    })
}

pub(super) fn run(file: &Utf8Path, emit: Emit) -> Result<(), Stop> {
    let workflow = compiled(file)?;
    let internal = |error: &dyn std::fmt::Display| Stop::Call(format!("the compiled form is unusable: {error}"));
    match emit {
        Emit::Json => {
            output::json(&serde_json::to_value(&workflow).map_err(|error| internal(&error))?);
        }
        Emit::Hash => output::line(&workflow.hash().map_err(|error| internal(&error))?.to_string()),
        Emit::Prompts => {
            for step in &workflow.steps {
                let pending = PendingStep { step_id: step.step_id.clone(), loop_path: Vec::new() };
                output::toned(Tone::Heading, &format!("{} · {}", step.step_id, step.title));
                output::line(&render_step(&workflow, &pending, &Context::default(), Lifecycle::Start));
                output::line("");
            }
        }
    }
    Ok(())
}
