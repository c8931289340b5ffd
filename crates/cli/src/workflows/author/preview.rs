//! `workrail workflow preview`: the whole plan as a tree, with conditions, loops, contracts and sizes.

use std::sync::Arc;

use camino::Utf8Path;
use serde_json::json;
use workrail_core::discover::condition_text;
use workrail_engine::catalog::Catalog;
use workrail_host::workspace::default_workspace;
use workrail_model::compiled::{
    CompiledLoop, CompiledStep, CompiledWorkflow, Confirmation, ForCount, LoopControl, PlanItem, StepKind,
};
use workrail_model::name::WorkflowId;

use super::compile;
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::settings;

pub(super) fn run(workflow: &str, format: Format) -> Result<(), Failure> {
    let path = Utf8Path::new(workflow);
    let workflow = if path.is_file() { compile::compiled(path, format)? } else { by_id(workflow)? };
    if format == Format::Json {
        output::json(&json!({
            "workflowId": workflow.workflow_id, "name": workflow.name, "version": workflow.version,
            "description": workflow.description, "plan": workflow.plan, "lines": lines(&workflow),
        }));
        return Ok(());
    }
    output::toned(
        Tone::Heading,
        &format!("{} · {} ({})", workflow.workflow_id, workflow.name, workflow.version),
    );
    output::line(&workflow.description);
    output::line("");
    for line in lines(&workflow) {
        output::line(&line);
    }
    Ok(())
}

fn by_id(text: &str) -> Result<CompiledWorkflow, Failure> {
    let id = WorkflowId::parse(text).map_err(|error| Failure::Usage(format!("{error}; or name a file")))?;
    let catalog = Catalog::new(Arc::new(settings::sources()?));
    let found = catalog.compiled(&id, default_workspace().as_ref());
    let entry = found.map_err(|error| {
        Failure::Usage(format!(
            "{}\n{} A path to a file works too.",
            error.message,
            error.suggestion_for_a_person()
        ))
    })?;
    Ok((*entry.workflow).clone())
}

fn lines(workflow: &CompiledWorkflow) -> Vec<String> {
    let mut lines = Vec::new();
    tree(workflow, &workflow.plan, "", &mut lines);
    lines
}

fn tree(workflow: &CompiledWorkflow, items: &[PlanItem], indent: &str, lines: &mut Vec<String>) {
    for (position, item) in items.iter().enumerate() {
        let last = position + 1 == items.len();
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        match item {
            PlanItem::Step { step_id } => {
                if let Some(step) = workflow.step(step_id) {
                    lines.push(format!("{indent}{branch}{}", step_line(workflow, step)));
                }
            }
            PlanItem::Loop { loop_id } => {
                if let Some(owner) = workflow.loop_by_id(loop_id) {
                    lines.push(format!("{indent}{branch}{}", loop_line(workflow, owner)));
                    tree(workflow, &owner.body, &format!("{indent}{below}"), lines);
                }
            }
        }
    }
}

fn step_line(workflow: &CompiledWorkflow, step: &CompiledStep) -> String {
    let mut line = format!("{} · {}", step.step_id, step.title);
    let mut note = |text: String| line.push_str(&format!("  [{text}]"));
    if let Some(condition) = &step.run_condition {
        note(format!("if {}", condition_text(workflow, condition)));
    }
    match &step.kind {
        StepKind::Standard => {}
        StepKind::Parallel { delegations } => note(format!("{} delegations", delegations.len())),
        StepKind::CapabilityProbe { .. } => note("probe".to_owned()),
    }
    if let Some(output) = &step.output {
        note(format!("delivers {}", output.contract_ref));
    }
    if !step.assessment_refs.is_empty() {
        let names: Vec<_> = step.assessment_refs.iter().map(ToString::to_string).collect();
        note(format!("assesses {}", names.join(", ")));
    }
    if step.confirmation != Confirmation::Never {
        note("asks for approval".to_owned());
    }
    note(format!("{} bytes", step.prompt.len()));
    line
}

fn loop_line(workflow: &CompiledWorkflow, owner: &CompiledLoop) -> String {
    let control = match &owner.control {
        LoopControl::While { condition_id } => format!("while {}", condition_text(workflow, condition_id)),
        LoopControl::Until { condition_id } => format!("until {}", condition_text(workflow, condition_id)),
        LoopControl::For { count: ForCount::Fixed { value } } => format!("{value} times"),
        LoopControl::For { count: ForCount::FromContext { context_key } } => format!("`{context_key}` times"),
        LoopControl::ForEach { items, item_var, .. } => format!("for each {item_var} of `{items}`"),
    };
    let condition = owner.run_condition.as_ref();
    let condition = condition.map_or(String::new(), |id| format!("  [if {}]", condition_text(workflow, id)));
    format!(
        "loop {} · {}: {control}, at most {}{condition}",
        owner.loop_id, owner.title, owner.max_iterations
    )
}
