//! The text of the pending step, from the compiled workflow and the context alone: same input, same output.
//!
//! Order: banner, role, prompt, requirements, guidance, fragments, functions, metrics. Nothing
//! authored is left out. The layout is version 1; changing it requires a new number, so
//! that started runs keep their text.

mod delegation;
pub(crate) mod functions;
mod require;

use serde_json::Value;
use workrail_model::capability::Capability;
use workrail_model::compiled::{
    CompiledLoop, CompiledStep, CompiledWorkflow, ConditionTest, LoopControl, MetricsDuty, StepKind,
};
use workrail_model::event::Context;
use workrail_model::limits::{RENDERED_STEP_BYTES_MAX, TITLE_BYTES_MAX};
use workrail_model::name::{ConditionId, StepId};
use workrail_model::preferences::Autonomy;
use workrail_model::snapshot::PendingStep;

use super::limited::{Full, LimitedText, Overflow, Values, json_bytes};
use super::template::fill;
use crate::agent_site::AgentSite;
use crate::builtins::LOOP_CONTROL_CONTRACT;
use crate::condition::ValueScope;
use crate::interpret::{holds_or_is_unknown, step_scope};
use crate::progress;
use crate::secrets::is_secret;

/// Why the step is shown. At start and on resume the agent may know nothing yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    Start,
    Advance,
    Rehydrate,
}

/// For whom and when a step's text is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderMode<'a> {
    pub lifecycle: Lifecycle,
    /// The run's autonomy: the text never asks for more than the mode allows.
    pub autonomy: Autonomy,
    /// Where the agent works: the text names no command that does not exist there.
    pub site: &'a AgentSite,
    pub parent: ParentToken,
}

/// What a delegating step's text has in the place of its own bookmark, which it passes to the runs that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentToken {
    /// Words, for readers of the text.
    Placeholder,
    /// The marker that signing a reply replaces.
    Marker,
}

impl From<Lifecycle> for RenderMode<'_> {
    /// The text for a run without a chosen mode, with the store.
    fn from(lifecycle: Lifecycle) -> Self {
        Self {
            lifecycle,
            autonomy: Autonomy::Guided,
            site: &AgentSite::Local,
            parent: ParentToken::Placeholder,
        }
    }
}

/// The possible outcomes of a run, in its metrics.
pub(crate) const METRICS_OUTCOMES: [&str; 4] = ["success", "partial", "abandoned", "error"];

/// A title is shown in lists and headings, which truncate it further.
const TITLE_RENDERED_BYTES_MAX: usize = 2 * TITLE_BYTES_MAX;

/// The step's title with its variables filled in. A value may be of any length: what exceeds the limit of
/// titles is not written at all.
pub fn render_title(workflow: &CompiledWorkflow, pending: &PendingStep, context: &Context) -> String {
    titled(workflow, pending, &step_scope(workflow, pending, context))
}

/// The title as shown in lists and reports: without the values of secret keys (G81).
pub fn title_without_secrets(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
) -> String {
    titled(workflow, pending, &step_scope(workflow, pending, context).withholding(is_secret))
}

fn titled(workflow: &CompiledWorkflow, pending: &PendingStep, scope: &ValueScope<'_>) -> String {
    let Some(step) = workflow.step(&pending.step_id) else { return String::new() };
    let mut out = LimitedText::new(TITLE_RENDERED_BYTES_MAX, Values::Whole, Overflow::Cut);
    // What did not fit is truncated, here and again where the title is shown.
    let _ = fill(&step.title, scope, &mut out);
    out.into_text()
}

/// A step's text that would be over its limit, and the variable that makes it so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the text of step `{step_id}` would have more than {RENDERED_STEP_BYTES_MAX} bytes: `{{{{{variable}}}}}` \
     (context key `{context_key}`) alone adds {variable_bytes} bytes"
)]
pub struct StepTextTooLong {
    pub step_id: StepId,
    pub variable: String,
    /// Where the variable's value comes from; a loop's item comes from the key of its list.
    pub context_key: String,
    /// The variable's share of the text, up to where it ended.
    pub variable_bytes: usize,
    /// A value of the same shape that takes almost no room.
    pub empty_value: Value,
}

/// A longer list keeps none of its items, not even emptied ones.
const EMPTY_ITEMS_MAX: usize = 64;

/// The shape of a value without its content: a loop over a list still has its passes.
fn emptied(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Array(items)) if items.len() <= EMPTY_ITEMS_MAX => {
            items.iter().map(|item| emptied(Some(item))).collect()
        }
        Some(Value::Array(_)) => Value::Array(Vec::new()),
        Some(Value::Object(_)) => Value::Object(serde_json::Map::new()),
        Some(Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_)) | None => Value::from(""),
    }
}

/// The step's text, or the variable whose value makes it too long. An authored text that is too long by
/// itself is truncated, because no value could help: the compiler refuses it, but an imported workflow may have it.
pub fn render_step<'a>(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
    mode: impl Into<RenderMode<'a>>,
) -> Result<String, StepTextTooLong> {
    let source = StepSource { workflow, pending, context, mode: mode.into(), plan: PlanAround::Included };
    let mut whole = LimitedText::new(RENDERED_STEP_BYTES_MAX, Values::Whole, Overflow::Refuse);
    if source.write(&mut whole).is_ok() {
        return Ok(whole.into_text());
    }
    let mut authored = LimitedText::new(RENDERED_STEP_BYTES_MAX, Values::Nothing, Overflow::Refuse);
    match (whole.largest_share(), source.write(&mut authored)) {
        (Some((variable, variable_bytes)), Ok(())) => {
            let scope = step_scope(workflow, pending, context);
            let context_key = scope.context_key(variable).to_owned();
            Err(StepTextTooLong {
                step_id: pending.step_id.clone(),
                empty_value: emptied(context.get(&context_key)),
                context_key,
                variable: variable.to_owned(),
                variable_bytes,
            })
        }
        (_, Err(Full)) | (None, Ok(())) => {
            let notice = format!(
                "NOTE: this step's text is longer than {RENDERED_STEP_BYTES_MAX} bytes. Values are shortened, and \
                 the end is cut."
            );
            Ok(source.shortened(&notice))
        }
    }
}

/// The step's text for a reader: never refused, so that every run can be continued. If a value
/// makes it too long, values are shown as excerpts and the text says so.
pub fn render_step_shortened<'a>(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
    mode: impl Into<RenderMode<'a>>,
) -> String {
    let mode = mode.into();
    render_step(workflow, pending, context, mode).unwrap_or_else(|too_long| {
        let StepTextTooLong { variable, context_key, .. } = too_long;
        let notice = format!(
            "NOTE: with its values this step's text would have more than {RENDERED_STEP_BYTES_MAX} bytes, most of \
             it from {{{{{variable}}}}}. Values are shortened below. Send a smaller `context.{context_key}` when \
             you complete this step."
        );
        StepSource { workflow, pending, context, mode, plan: PlanAround::Included }.shortened(&notice)
    })
}

/// The steps whose text is too long even if no variable has a value, whatever is shown of them: then no
/// value could make it fit. `SLACK_BYTES` is for what depends on the situation: the loop's banner, the words
/// about notes.
pub(crate) fn too_long_as_authored(workflow: &CompiledWorkflow) -> Vec<&StepId> {
    const SLACK_BYTES: usize = 1024;
    let context = Context::default();
    let scope = ValueScope::new(&context);
    let shared = [&workflow.meta_guidance, &workflow.preconditions, &workflow.clarification_prompts];
    let mut once = LimitedText::new(RENDERED_STEP_BYTES_MAX, Values::Whole, Overflow::Refuse);
    let written = shared
        .into_iter()
        .try_for_each(|lines| bullets("", lines, &mut once, |line, out| fill(line, &scope, out)));
    let banner = workflow.loops.iter().map(|owner| json_bytes(&owner.title)).max().unwrap_or(0);
    let room = match written {
        Err(Full) => 0,
        Ok(()) => RENDERED_STEP_BYTES_MAX.saturating_sub(once.bytes() + banner + SLACK_BYTES),
    };
    let fits = |step: &CompiledStep| {
        let pending = PendingStep { step_id: step.step_id.clone(), loop_path: Vec::new() };
        let mode = RenderMode::from(Lifecycle::Advance);
        let source =
            StepSource { workflow, pending: &pending, context: &context, mode, plan: PlanAround::LeftOut };
        let mut out = LimitedText::new(room, Values::Whole, Overflow::Refuse);
        source.write(&mut out)?;
        // A condition may hide a fragment now and show it later.
        step.fragments.iter().filter(|fragment| fragment.when.is_some()).try_for_each(|fragment| {
            out.push("\n\n")?;
            fill(&fragment.text, &scope, &mut out)
        })
    };
    workflow.steps.iter().filter(|step| fits(step) == Err(Full)).map(|step| &step.step_id).collect()
}

/// What a step's text is made of.
#[derive(Clone, Copy)]
struct StepSource<'a> {
    workflow: &'a CompiledWorkflow,
    pending: &'a PendingStep,
    context: &'a Context,
    mode: RenderMode<'a>,
    plan: PlanAround,
}

/// Whether the text mentions the requirements of later steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlanAround {
    Included,
    /// When every step of a workflow is measured: examining the whole plan for each would take too long.
    LeftOut,
}

impl StepSource<'_> {
    fn write(&self, out: &mut LimitedText) -> Result<(), Full> {
        let Self { workflow, pending, context, mode, plan } = *self;
        let Some(step) = workflow.step(&pending.step_id) else { return Ok(()) };
        let scope = step_scope(workflow, pending, context);
        out.section(|out| banner(workflow, pending, step, context, &scope, out))?;
        if let Some(role) = &step.agent_role {
            out.section(|out| {
                out.push("Your role in this step: ")?;
                fill(role, &scope, out)
            })?;
        }
        out.section(|out| match &step.kind {
            StepKind::Parallel { delegations } => delegation::write(workflow, delegations, &scope, mode, out),
            StepKind::Standard | StepKind::CapabilityProbe { .. } => fill(&step.prompt, &scope, out),
        })?;
        require::write(workflow, pending, step, context, mode, out)?;
        if plan == PlanAround::Included {
            require::write_ahead(workflow, pending, step, context, out)?;
        }
        guidance(workflow, step, &scope, mode, out)?;
        out.section(|out| fragments(workflow, step, &scope, out))?;
        if let Some(text) = functions::render(workflow, pending, step) {
            out.section(|out| fill(&text, &scope, out))?;
        }
        match metrics(step) {
            None => Ok(()),
            Some(text) => out.section(|out| out.push(text)),
        }
    }

    /// The text with excerpts of its values, truncated if it is still too long.
    fn shortened(&self, notice: &str) -> String {
        let mut out = LimitedText::new(RENDERED_STEP_BYTES_MAX, Values::Excerpts, Overflow::Cut);
        // The limit may cut off the end, as the notice says.
        let _ = out.push(notice).and_then(|()| self.write(&mut out));
        out.into_text()
    }
}

/// A heading with one bullet per line; nothing without lines.
fn bullets<T>(
    heading: &str,
    lines: &[T],
    out: &mut LimitedText,
    mut write: impl FnMut(&T, &mut LimitedText) -> Result<(), Full>,
) -> Result<(), Full> {
    if lines.is_empty() {
        return Ok(());
    }
    out.section(|out| {
        out.push(heading)?;
        lines.iter().try_for_each(|line| {
            out.push("\n- ")?;
            write(line, out)
        })
    })
}

/// Which pass of the innermost loop this is. The decision step needs no reminder.
fn banner(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    context: &Context,
    scope: &ValueScope<'_>,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let Some(frame) = pending.loop_path.last() else { return Ok(()) };
    let Some(owner) = workflow.loop_by_id(&frame.loop_id) else { return Ok(()) };
    if step.output.as_ref().is_some_and(|output| output.contract_ref.as_str() == LOOP_CONTROL_CONTRACT) {
        return Ok(());
    }
    let pass = u64::from(frame.iteration) + 1;
    let (bound, exact) = passes(owner, context);
    let of = if exact { "of" } else { "of at most" };
    out.push("> ")?;
    fill(&owner.title, scope, out)?;
    out.push(&format!(": pass {pass} {of} {bound}"))?;
    out.push(match &owner.control {
        // Each pass is about another item: none of them refines an earlier one.
        LoopControl::For { .. } | LoopControl::ForEach { .. } => ".",
        LoopControl::While { condition_id } | LoopControl::Until { condition_id }
            if pass == 1 || !is_refinement(workflow, condition_id) =>
        {
            "."
        }
        LoopControl::While { .. } | LoopControl::Until { .. } if pass >= bound => {
            ", the last one: verify and finish rather than open new questions."
        }
        LoopControl::While { .. } | LoopControl::Until { .. } => {
            ": build on the earlier passes and look for what they missed."
        }
    })
}

/// Whether an agent decides on another pass: then a pass refines the one before. A loop that is ended by a value
/// repeats until the value is right.
fn is_refinement(workflow: &CompiledWorkflow, condition: &ConditionId) -> bool {
    workflow
        .condition(condition)
        .is_some_and(|condition| matches!(condition.test, ConditionTest::LoopControl { .. }))
}

/// How many passes the loop can have, and whether it will have exactly that many.
fn passes(owner: &CompiledLoop, context: &Context) -> (u64, bool) {
    let known = progress::iterations(owner, context);
    (known.unwrap_or(u64::from(owner.max_iterations)), known.is_some())
}

fn guidance(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    scope: &ValueScope<'_>,
    mode: RenderMode<'_>,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let lifecycle = mode.lifecycle;
    let mut filled =
        |heading, lines: &[String]| bullets(heading, lines, out, |line, out| fill(line, scope, out));
    filled("**Guidance:**", &step.guidance)?;
    match lifecycle {
        Lifecycle::Advance => {}
        Lifecycle::Start | Lifecycle::Rehydrate => {
            let disabled =
                workflow.capabilities.disabled.iter().map(|capability| switched_off(*capability).to_owned());
            let lines: Vec<String> = workflow.meta_guidance.iter().cloned().chain(disabled).collect();
            filled("**Throughout this workflow:**", &lines)?;
        }
    }
    if lifecycle == Lifecycle::Start {
        filled(
            "**Before you begin, check these. Write in the notes which do not hold and how you handle that:**",
            &workflow.preconditions,
        )?;
        let unclear = match mode.autonomy {
            Autonomy::Guided => "**If it is unclear, ask the user:**",
            Autonomy::FullAutoStopOnUserDeps | Autonomy::FullAutoNeverStop => {
                "**If it is unclear, decide and write the assumption in the notes:**"
            }
        };
        filled(unclear, &workflow.clarification_prompts)?;
    }
    Ok(())
}

/// What a workflow that disables a capability tells its agent.
fn switched_off(capability: Capability) -> &'static str {
    match capability {
        Capability::Delegation => "Do not use subagents: this workflow switches delegation off.",
        Capability::WebBrowsing => "Do not read pages of the web: this workflow switches web browsing off.",
    }
}

fn fragments(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    scope: &ValueScope<'_>,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let shown = step
        .fragments
        .iter()
        .filter(|fragment| fragment.when.as_ref().is_none_or(|id| holds_or_is_unknown(workflow, id, scope)));
    for (position, fragment) in shown.enumerate() {
        if position > 0 {
            out.push("\n\n")?;
        }
        fill(&fragment.text, scope, out)?;
    }
    Ok(())
}

/// Whether a step's own words are about commits. The outcome asks for all of them at the end.
fn may_commit(step: &CompiledStep) -> bool {
    let mentions = |text: &str| text.to_ascii_lowercase().contains("commit");
    mentions(&step.title) || mentions(&step.prompt) || step.guidance.iter().any(|line| mentions(line))
}

fn metrics(step: &CompiledStep) -> Option<&'static str> {
    match step.metrics {
        MetricsDuty::None => None,
        MetricsDuty::Accumulate if !may_commit(step) => None,
        MetricsDuty::Accumulate => Some(
            "**Metrics:** if you made commits in this step, send `context.metrics_commit_shas`, a list with the \
             hashes of all commits of the run so far.",
        ),
        MetricsDuty::Outcome => Some(
            "**Metrics:** this is the last step. Send `context.metrics_outcome`: one of success, partial, \
             abandoned, error.",
        ),
        MetricsDuty::ReviewOutcome => Some(
            "**Metrics:** this is the last step. Send `context.metrics_outcome` and, where there are any, \
             `context.metrics_pr_numbers`, the list of the change requests you reviewed.",
        ),
        MetricsDuty::CodingOutcome => Some(
            "**Metrics:** this is the last step. Send `context.metrics_outcome` and what applies of the lists \
             `metrics_commit_shas` (all commits of the run) and `metrics_pr_numbers` and the numbers \
             `metrics_files_changed`, `metrics_lines_added` and `metrics_lines_removed`, all in `context`.",
        ),
    }
}
