//! A compiled plan in words: every step in order, its loop, its conditions and what it requires.

use workrail_model::approval::RequiredProof;
use workrail_model::compiled::{
    CompiledLoop, CompiledStep, CompiledWorkflow, ConditionTest, Confirmation, Expr, ForCount, GateKind,
    LoopControl, OnLimit, PlanItem, Requiredness, StepKind,
};
use workrail_model::discovery::{PlanEntry, PlanEntryKind};
use workrail_model::name::ConditionId;

use super::one_line;

/// A title or a condition in a line of the outline.
const PART_BYTES_MAX: usize = 200;

/// Every step and loop, in the order of execution; a loop precedes its body.
pub fn plan(workflow: &CompiledWorkflow) -> Vec<PlanEntry> {
    let mut entries = Vec::new();
    walk(workflow, &workflow.plan, None, "", &mut entries);
    entries
}

fn walk(
    workflow: &CompiledWorkflow,
    items: &[PlanItem],
    inside: Option<&CompiledLoop>,
    prefix: &str,
    entries: &mut Vec<PlanEntry>,
) {
    for (position, item) in items.iter().enumerate() {
        let number = format!("{prefix}{}", position + 1);
        match item {
            PlanItem::Step { step_id } => {
                if let Some(step) = workflow.step(step_id) {
                    entries.push(step_entry(workflow, step, inside, number));
                }
            }
            PlanItem::Loop { loop_id } => {
                if let Some(looped) = workflow.loop_by_id(loop_id) {
                    let below = format!("{number}.");
                    entries.push(loop_entry(workflow, looped, inside, number));
                    // Each loop occurs only once, so this ends.
                    walk(workflow, &looped.body, Some(looped), &below, entries);
                }
            }
        }
    }
}

fn step_entry(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    inside: Option<&CompiledLoop>,
    number: String,
) -> PlanEntry {
    let (kind, delegates_to) = match &step.kind {
        StepKind::Standard => (PlanEntryKind::Step, Vec::new()),
        StepKind::CapabilityProbe { .. } => (PlanEntryKind::CapabilityProbe, Vec::new()),
        StepKind::Parallel { delegations } => (
            PlanEntryKind::Parallel,
            delegations.iter().map(|delegation| delegation.workflow_id.clone()).collect(),
        ),
    };
    PlanEntry {
        number,
        kind,
        id: step.step_id.to_string(),
        title: step.title.clone(),
        inside_loop: inside.map(|looped| looped.loop_id.to_string()),
        runs_if: step.run_condition.as_ref().map(|id| condition_text(workflow, id)),
        repeats: None,
        contract: step.output.as_ref().map(|output| match output.presence {
            Requiredness::Required => output.contract_ref.to_string(),
            Requiredness::Optional => format!("{} (optional)", output.contract_ref),
        }),
        confirmation: confirmation_text(workflow, &step.confirmation),
        user_dependencies: step
            .user_dependencies
            .iter()
            .map(|dependency| dependency.description.clone())
            .collect(),
        assessments: step.assessment_refs.iter().map(ToString::to_string).collect(),
        checks: step.checks.iter().map(|check| check.command.to_string()).collect(),
        delegates_to,
        notes_required: step.requires_notes(),
        prompt: Some(step.prompt.clone()),
    }
}

fn loop_entry(
    workflow: &CompiledWorkflow,
    looped: &CompiledLoop,
    inside: Option<&CompiledLoop>,
    number: String,
) -> PlanEntry {
    PlanEntry {
        number,
        kind: PlanEntryKind::Loop,
        id: looped.loop_id.to_string(),
        title: looped.title.clone(),
        inside_loop: inside.map(|outer| outer.loop_id.to_string()),
        runs_if: looped.run_condition.as_ref().map(|id| condition_text(workflow, id)),
        repeats: Some(repeats_text(workflow, looped)),
        contract: None,
        confirmation: None,
        user_dependencies: Vec::new(),
        assessments: Vec::new(),
        checks: Vec::new(),
        delegates_to: Vec::new(),
        notes_required: false,
        prompt: None,
    }
}

pub(crate) fn repeats_text(workflow: &CompiledWorkflow, looped: &CompiledLoop) -> String {
    let decides = |id: &ConditionId| {
        let test = workflow.condition(id).map(|condition| &condition.test);
        matches!(test, Some(ConditionTest::LoopControl { .. }))
    };
    let control = match &looped.control {
        // The decision says continue or stop: both kinds of loop read it the same way.
        LoopControl::While { condition_id } | LoopControl::Until { condition_id }
            if decides(condition_id) =>
        {
            "while its decision step says continue".to_owned()
        }
        LoopControl::While { condition_id } => format!("while {}", condition_text(workflow, condition_id)),
        LoopControl::Until { condition_id } => format!("until {}", condition_text(workflow, condition_id)),
        LoopControl::For { count: ForCount::Fixed { value } } => format!("{value} times"),
        LoopControl::For { count: ForCount::FromContext { context_key } } => format!("`{context_key}` times"),
        LoopControl::ForEach { items, item_var, .. } => format!("for each {item_var} of `{items}`"),
    };
    let limit = match looped.on_limit {
        OnLimit::Advance => "then continues and records it",
        OnLimit::Block => "then blocks the run",
    };
    format!("{control}; at most {}, {limit}", looped.max_iterations)
}

pub(crate) fn confirmation_text(workflow: &CompiledWorkflow, confirmation: &Confirmation) -> Option<String> {
    match confirmation {
        Confirmation::Never => None,
        Confirmation::Always => Some("the user confirms".to_owned()),
        Confirmation::When { condition_id } => {
            Some(format!("the user confirms if {}", condition_text(workflow, condition_id)))
        }
        Confirmation::Gate { gate, when, proof } => {
            let who = match (gate, proof) {
                (GateKind::HumanApproval, Some(RequiredProof::Passkey)) => {
                    "a person approves with a passkey, not the agent"
                }
                (GateKind::HumanApproval, Some(RequiredProof::Terminal) | None) => {
                    "a person approves, not the agent"
                }
                (GateKind::CoordinatorEval, _) => "a coordinator evaluates",
            };
            Some(match when {
                None => who.to_owned(),
                Some(id) => format!("{who} if {}", condition_text(workflow, id)),
            })
        }
    }
}

/// One line of the outline: number, id and title, then in brackets what is special about the entry.
pub(super) fn line(entry: &PlanEntry) -> String {
    let short = |text: &str| one_line(text, PART_BYTES_MAX);
    let indent = "   ".repeat(entry.number.matches('.').count());
    let prefix = match entry.kind {
        PlanEntryKind::Loop => "loop ",
        PlanEntryKind::Step | PlanEntryKind::Parallel | PlanEntryKind::CapabilityProbe => "",
    };
    let mut text = format!("{indent}{} {prefix}{} · {}", entry.number, entry.id, short(&entry.title));
    let mut note = |note: String| {
        text.push_str(" [");
        text.push_str(&note);
        text.push(']');
    };
    if let Some(condition) = &entry.runs_if {
        note(format!("if {}", short(condition)));
    }
    if let Some(repeats) = &entry.repeats {
        note(short(repeats));
    }
    match entry.kind {
        PlanEntryKind::Step | PlanEntryKind::Loop => {}
        PlanEntryKind::Parallel => note(format!("in parallel: {}", short(&entry.delegates_to.join(", ")))),
        PlanEntryKind::CapabilityProbe => note("probe".to_owned()),
    }
    if let Some(contract) = &entry.contract {
        note(format!("delivers {contract}"));
    }
    if !entry.assessments.is_empty() {
        note(format!("assesses {}", short(&entry.assessments.join(", "))));
    }
    if !entry.checks.is_empty() {
        note(format!("runs checks: {}", short(&entry.checks.join(", "))));
    }
    if let Some(confirmation) = &entry.confirmation {
        note(short(confirmation));
    }
    for dependency in &entry.user_dependencies {
        note(format!("needs the user: {}", short(dependency)));
    }
    text
}

/// A condition as people write it.
pub fn condition_text(workflow: &CompiledWorkflow, id: &ConditionId) -> String {
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
