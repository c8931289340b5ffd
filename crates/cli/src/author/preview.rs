//! `workrail preview`: the whole plan as a tree, with conditions, loops, contracts and sizes.

use camino::Utf8Path;
use workrail_core::compile::{CompileInput, Origin, check};
use workrail_host::sources::Sources;
use workrail_model::compiled::{
    CompiledLoop, CompiledStep, CompiledWorkflow, ConditionTest, Confirmation, Expr, ForCount, LoopControl,
    PlanItem, StepKind,
};
use workrail_model::event::WorkflowSourceKind;
use workrail_model::name::{ConditionId, WorkflowId};
use workrail_ports::workflow_source::{SourceError, WorkflowSource};

use super::{Stop, compile, report};
use crate::output::{self, Tone};

pub(super) fn run(workflow: &str) -> Result<(), Stop> {
    let path = Utf8Path::new(workflow);
    let workflow = if path.is_file() { compile::compiled(path)? } else { by_id(workflow)? };
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

fn by_id(text: &str) -> Result<CompiledWorkflow, Stop> {
    let call = |message: String| Stop::Call(message);
    let id = WorkflowId::parse(text).map_err(|error| call(format!("{error}; or name a file")))?;
    let source = Sources::from_environment().load(&id).map_err(|error| match &error {
        SourceError::NotFound { known, .. } => {
            let known: Vec<String> = known.iter().map(ToString::to_string).collect();
            call(format!("{error}. Known: {}. A path to a file works too.", known.join(", ")))
        }
        SourceError::Unreadable { .. } => call(error.to_string()),
    })?;
    let origin = match source.kind {
        WorkflowSourceKind::Bundled => Origin::Bundled,
        WorkflowSourceKind::User => Origin::User,
        WorkflowSourceKind::Project => Origin::Project,
        WorkflowSourceKind::Remote | WorkflowSourceKind::Plugin => Origin::Shared,
    };
    let checked = check(CompileInput { origin, ..CompileInput::new(&source.bytes, &source.reference) });
    checked.workflow.ok_or_else(|| {
        report::print(&checked.diagnostics, &source.bytes);
        Stop::Problems
    })
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
                if let Some(owner) = workflow.loop_of(loop_id) {
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
        note(format!("owes {}", output.contract_ref));
    }
    if !step.assessment_refs.is_empty() {
        let names: Vec<_> = step.assessment_refs.iter().map(ToString::to_string).collect();
        note(format!("assesses {}", names.join(", ")));
    }
    if step.confirmation != Confirmation::Never {
        note("asks a person".to_owned());
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

fn condition_text(workflow: &CompiledWorkflow, id: &ConditionId) -> String {
    match workflow.condition(id).map(|condition| &condition.test) {
        None => id.to_string(),
        Some(ConditionTest::LoopControl { .. }) => "the decision step says continue".to_owned(),
        Some(ConditionTest::Context { expr }) => expr_text(expr),
    }
}

fn expr_text(expr: &Expr) -> String {
    let joined = |parts: &[Expr], word: &str| {
        let texts: Vec<String> = parts.iter().map(expr_text).collect();
        format!("({})", texts.join(word))
    };
    match expr {
        Expr::Always => "always".to_owned(),
        Expr::Malformed => "never".to_owned(),
        Expr::Truthy { var } => var.clone(),
        Expr::Equals { var, value } => format!("{var} = {value}"),
        Expr::NotEquals { var, value } => format!("{var} ≠ {value}"),
        Expr::Gt { var, value } => format!("{var} > {value}"),
        Expr::Gte { var, value } => format!("{var} ≥ {value}"),
        Expr::Lt { var, value } => format!("{var} < {value}"),
        Expr::Lte { var, value } => format!("{var} ≤ {value}"),
        Expr::Contains { var, value } => format!("{var} contains {value}"),
        Expr::In { var, values } => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("{var} in [{}]", values.join(", "))
        }
        Expr::And { all } => joined(all, " and "),
        Expr::Or { any } => joined(any, " or "),
        Expr::Not { inner } => format!("not {}", expr_text(inner)),
    }
}
