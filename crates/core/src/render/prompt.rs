//! The text of the pending step, from the compiled workflow and the context alone: same in, same out.
//!
//! Order: banner, role, prompt, requirements, guidance, fragments, functions, metrics, footer. Nothing
//! authored is left out (decision 29). The layout is version 1; a change of it needs a new number, so
//! that started runs keep reading the same.

mod delegation;
pub(crate) mod functions;
mod require;

use serde_json::Value;
use workrail_model::compiled::{
    CompiledLoop, CompiledStep, CompiledWorkflow, ForCount, LoopControl, MetricsDuty, StepKind,
};
use workrail_model::event::Context;
use workrail_model::snapshot::PendingStep;

use super::template::fill;
use crate::builtins::LOOP_CONTROL_CONTRACT;
use crate::condition::Scope;
use crate::interpret::{condition_holds, step_scope};

/// Why the step is shown. At start and on resume the agent may know nothing yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    Start,
    Advance,
    Rehydrate,
}

/// The step's title with its variables filled in.
pub fn render_title(workflow: &CompiledWorkflow, pending: &PendingStep, context: &Context) -> String {
    let scope = step_scope(workflow, pending, context);
    workflow.step(&pending.step_id).map(|step| fill(&step.title, &scope)).unwrap_or_default()
}

/// The step's text.
pub fn render_step(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
    lifecycle: Lifecycle,
) -> String {
    let Some(step) = workflow.step(&pending.step_id) else { return String::new() };
    let scope = step_scope(workflow, pending, context);
    let parts = [
        banner(workflow, pending, step, context),
        step.agent_role.as_ref().map(|role| format!("Your role in this step: {role}")),
        Some(match &step.kind {
            StepKind::Parallel { delegations } => delegation::render(workflow, delegations, &scope),
            StepKind::Standard | StepKind::CapabilityProbe { .. } => fill(&step.prompt, &scope),
        }),
        require::render(workflow, pending, step, context, lifecycle),
        guidance(workflow, step, &scope, lifecycle),
        fragments(workflow, step, &scope),
        functions::render(workflow, pending, step),
        metrics(step).map(str::to_owned),
        Some(FOOTER.to_owned()),
    ];
    let texts: Vec<String> = parts.into_iter().flatten().filter(|text| !text.trim().is_empty()).collect();
    texts.join("\n\n")
}

const FOOTER: &str = "When this step is done, report it with `continue_workflow`. What comes next is not known before \
                      that call; do not start on it.";

/// A heading with one bullet per line; nothing without lines.
fn bullets(heading: &str, lines: &[String]) -> Option<String> {
    (!lines.is_empty()).then(|| {
        let rows: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
        format!("{heading}\n{}", rows.join("\n"))
    })
}

/// Which pass of the innermost loop this is. The decision step needs no reminder.
fn banner(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    context: &Context,
) -> Option<String> {
    let frame = pending.loop_path.last()?;
    let owner = workflow.loop_of(&frame.loop_id)?;
    if step.output.as_ref().is_some_and(|output| output.contract_ref.as_str() == LOOP_CONTROL_CONTRACT) {
        return None;
    }
    let pass = u64::from(frame.iteration) + 1;
    let (bound, exact) = passes(owner, context);
    let of = if exact { "of" } else { "of at most" };
    let what = if pass == 1 {
        "this step is repeated; the first pass lays the ground"
    } else if pass >= bound {
        "the last pass: verify and finish rather than open new questions"
    } else {
        "build on the earlier passes and look for what they missed"
    };
    Some(format!("> {}: pass {pass} {of} {bound} - {what}.", owner.title))
}

/// How many passes the loop can have, and whether it will have exactly that many.
fn passes(owner: &CompiledLoop, context: &Context) -> (u64, bool) {
    let limit = u64::from(owner.max_iterations);
    let known = match &owner.control {
        LoopControl::While { .. } | LoopControl::Until { .. } => None,
        LoopControl::For { count: ForCount::Fixed { value } } => Some(u64::from(*value)),
        LoopControl::For { count: ForCount::FromContext { context_key } } => {
            context.get(context_key).and_then(Value::as_u64)
        }
        LoopControl::ForEach { items, .. } => {
            context.get(items).and_then(Value::as_array).map(|list| list.len() as u64)
        }
    };
    known.map_or((limit, false), |known| (known.min(limit), true))
}

fn guidance(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    scope: &Scope<'_>,
    lifecycle: Lifecycle,
) -> Option<String> {
    let filled = |lines: &[String]| lines.iter().map(|line| fill(line, scope)).collect::<Vec<_>>();
    let mut parts = Vec::new();
    parts.extend(bullets("**Guidance:**", &filled(&step.guidance)));
    match lifecycle {
        Lifecycle::Advance => {}
        Lifecycle::Start | Lifecycle::Rehydrate => {
            parts.extend(bullets("**Throughout this workflow:**", &filled(&workflow.meta_guidance)));
        }
    }
    if lifecycle == Lifecycle::Start {
        parts.extend(bullets("**Before you begin, make sure that:**", &filled(&workflow.preconditions)));
        parts
            .extend(bullets("**If it is unclear, ask the user:**", &filled(&workflow.clarification_prompts)));
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

fn fragments(workflow: &CompiledWorkflow, step: &CompiledStep, scope: &Scope<'_>) -> Option<String> {
    let shown: Vec<String> = step
        .fragments
        .iter()
        .filter(|fragment| fragment.when.as_ref().is_none_or(|id| condition_holds(workflow, id, scope)))
        .map(|fragment| fill(&fragment.text, scope))
        .collect();
    (!shown.is_empty()).then(|| shown.join("\n\n"))
}

fn metrics(step: &CompiledStep) -> Option<&'static str> {
    match step.metrics {
        MetricsDuty::None => None,
        MetricsDuty::Accumulate => Some(
            "**Metrics:** if you made commits in this step, send `context.metrics_commit_shas` with the whole list \
             of the run's commits so far.",
        ),
        MetricsDuty::Outcome => Some(
            "**Metrics:** this is the last step. Send `context.metrics_outcome`: one of success, partial, \
             abandoned, error.",
        ),
        MetricsDuty::ReviewOutcome => Some(
            "**Metrics:** this is the last step. Send `context.metrics_outcome` (success, partial, abandoned, \
             error) and `context.metrics_pr_numbers` with the change requests you reviewed.",
        ),
        MetricsDuty::CodingOutcome => Some(
            "**Metrics:** this is the last step. Send `context.metrics_outcome` (success, partial, abandoned, \
             error), `context.metrics_commit_shas` with all commits of the run, `context.metrics_pr_numbers`, and \
             `context.metrics_files_changed`, `metrics_lines_added`, `metrics_lines_removed`.",
        ),
    }
}
