//! What a step owes, in words and with examples: checks, contract, assessments, notes, people.

use serde_json::Value;
use workrail_model::compiled::{AssessmentDefinition, CompiledStep, CompiledWorkflow, Requiredness};
use workrail_model::event::Context;
use workrail_model::snapshot::PendingStep;

use super::super::limited::{Full, LimitedText};
use super::{Lifecycle, bullets};
use crate::interpret::{AskedConfirmation, asked_confirmation, definitions, example, shown_example, wants};

pub(super) fn write(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    context: &Context,
    lifecycle: Lifecycle,
    out: &mut LimitedText,
) -> Result<(), Full> {
    if let Some(criteria) = &step.criteria {
        plain("**Your notes are checked:**", &wants(criteria), out)?;
    }
    contract(workflow, pending, step, out)?;
    let several = step.assessment_refs.len() > 1;
    definitions(workflow, step).try_for_each(|definition| assessment(definition, several, out))?;
    plain("**Hints for the output:**", &step.hints, out)?;
    if let Some(text) = notes(step, lifecycle) {
        out.section(|out| out.push(text))?;
    }
    bullets("**Only the user can give:**", &step.user_dependencies, out, |dependency, out| {
        out.push(&dependency.description)?;
        match &dependency.context_key {
            Some(key) => out.push(&format!(" (send the answer as `context.{key}`)")),
            None => Ok(()),
        }
    })?;
    match asked_confirmation(workflow, pending, context) {
        AskedConfirmation::Nothing => Ok(()),
        AskedConfirmation::Confirmation => out.section(|out| {
            out.push(
                "**Confirmation:** show the user the result and wait for their word before you continue.",
            )
        }),
        AskedConfirmation::Approval => out.section(|out| {
            out.push(
                "**Approval:** the user must approve this step with `workrail approve`. Do not run that command \
                 yourself, and do not change the run's mode to get around it.",
            )
        }),
    }
}

fn plain(heading: &str, lines: &[String], out: &mut LimitedText) -> Result<(), Full> {
    bullets(heading, lines, out, |line, out| out.push(line))
}

fn contract(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let Some(output) = &step.output else { return Ok(()) };
    let Some(contract) = workflow.contract(&output.contract_ref) else { return Ok(()) };
    let must = match output.presence {
        Requiredness::Required => "This step must deliver",
        Requiredness::Optional => "This step may deliver",
    };
    let mut lines = vec![
        format!("{must} an artifact of kind `{}`: {}", contract.artifact_kind, contract.purpose),
        format!("Fields: {}", fields(&contract.schema)),
    ];
    if contract.artifact_kind == "wr.loop_control"
        && let Some(frame) = pending.loop_path.last()
    {
        lines.push(format!(
            "`continue` repeats the loop, `stop` ends it; this is pass {} of at most {}",
            u64::from(frame.iteration) + 1,
            workflow.loop_of(&frame.loop_id).map_or(0, |owner| owner.max_iterations)
        ));
    }
    let example = shown_example(step, contract);
    lines.push(format!("Example: `{{\"output\":{{\"artifacts\":[{example}]}}}}`"));
    plain("**Output required:**", &lines, out)
}

/// Required fields first, then the others with a question mark.
fn fields(schema: &Value) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object();
    let (must, may): (Vec<&String>, Vec<&String>) =
        properties.into_iter().flat_map(|map| map.keys()).partition(|name| required.contains(&name.as_str()));
    let must = must.into_iter().map(|name| format!("`{name}`"));
    let may = may.into_iter().map(|name| format!("`{name}` (optional)"));
    must.chain(may).collect::<Vec<_>>().join(", ")
}

fn assessment(definition: &AssessmentDefinition, several: bool, out: &mut LimitedText) -> Result<(), Full> {
    let mut lines = vec![format!("Judge: {}", definition.purpose)];
    for dimension in &definition.dimensions {
        let levels = dimension.levels.join(" | ");
        let optional = if dimension.required { "" } else { ", optional" };
        lines.push(format!("`{}` ({levels}{optional}): {}", dimension.id, dimension.purpose));
    }
    if several {
        lines.push(format!(
            "Send one artifact for this assessment, with `assessmentId` \"{}\"",
            definition.id
        ));
    }
    let example = example(definition, several);
    lines.push(format!("Example: `{{\"output\":{{\"artifacts\":[{example}]}}}}`; a level may also be {{\"level\", \"rationale\"}}"));
    plain(&format!("**Assessment required ({}):**", definition.id), &lines, out)
}

fn notes(step: &CompiledStep, lifecycle: Lifecycle) -> Option<&'static str> {
    if !step.requires_notes() {
        return None;
    }
    Some(match lifecycle {
        Lifecycle::Start | Lifecycle::Rehydrate => {
            "**Notes required:** send `output.notesMarkdown`. They are the durable record that people read: what you \
             did in this step and which decisions you took, what you produced (files, commands, numbers), what is \
             open. This step only, not the ones before; 10 to 30 lines of Markdown."
        }
        Lifecycle::Advance => {
            "**Notes required:** send `output.notesMarkdown` about this step: done, produced, open."
        }
    })
}
