//! Where a run is, in the one numbering used by replies, lists and reports: steps are counted from 1 along the path
//! to the current step, including repetitions in loops.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use workrail_model::compiled::{
    CompiledLoop, CompiledWorkflow, ConditionTest, ForCount, LoopControl, PlanItem,
};
use workrail_model::event::Context;
use workrail_model::name::{ConditionId, StepId};
use workrail_model::reply::LoopPosition;
use workrail_model::snapshot::{CompletedSteps, EngineState, PendingStep};

use crate::condition::ValueScope;
use crate::interpret::{holds_or_is_unknown, step_scope};
use crate::routing;

/// A loop whose end is unknown counts as this many iterations of what is left.
const UNKNOWN_ITERATIONS: u64 = 1;

/// Beyond this the number is meaningless.
const ABOUT_LEFT_MAX: u64 = 10_000;

/// How far a run is at its pending step, shown as `5 · about 4 left · slice 2 of 3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Counted from 1; the same as [`NodeState::step_number`](crate::project::NodeState::step_number) of its node.
    #[serde(rename = "stepNumber")]
    pub number: u64,
    /// How many steps follow, as far as it can be known now.
    pub about_left: u64,
    /// The loops that the step is in, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<LoopPosition>,
}

impl Progress {
    /// `None` if nothing is pending.
    pub fn of(workflow: &CompiledWorkflow, state: &EngineState, context: &Context) -> Option<Self> {
        let pending = state.pending_step()?;
        let counted = Remaining { workflow, context, scope: step_scope(workflow, pending, context) };
        Some(Self {
            number: state.completed().map_or(0, CompletedSteps::count) + 1,
            about_left: counted.after(pending).min(ABOUT_LEFT_MAX),
            loops: loops(workflow, pending, context),
        })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, rest_in_words(Some(self.about_left), &self.loops))
    }
}

/// What follows the number of a step, such as ` · about 4 left · slice 2 of 3`.
pub fn rest_in_words(about_left: Option<u64>, loops: &[LoopPosition]) -> String {
    let left = about_left.filter(|left| *left > 0).map(|left| format!(" · about {left} left"));
    left.into_iter().chain(loops.iter().map(|text| format!(" · {text}"))).collect()
}

/// The loops that a step is in, outermost first.
pub(crate) fn loops(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
) -> Vec<LoopPosition> {
    let texts = pending.loop_path.iter().filter_map(|frame| {
        let owner = workflow.loop_by_id(&frame.loop_id)?;
        let name = match &owner.control {
            LoopControl::ForEach { item_var, .. } => item_var.clone(),
            LoopControl::While { .. } | LoopControl::Until { .. } | LoopControl::For { .. } => {
                owner.loop_id.to_string()
            }
        };
        Some(LoopPosition { name, iteration: u64::from(frame.iteration) + 1, of: iterations(owner, context) })
    });
    texts.collect()
}

/// How often a loop runs, if that does not depend on what happens in it.
pub(crate) fn iterations(owner: &CompiledLoop, context: &Context) -> Option<u64> {
    let wanted = match &owner.control {
        LoopControl::While { .. } | LoopControl::Until { .. } => return None,
        LoopControl::For { count: ForCount::Fixed { value } } => u64::from(*value),
        LoopControl::For { count: ForCount::FromContext { context_key } } => {
            context.get(context_key).and_then(Value::as_u64)?
        }
        LoopControl::ForEach { items, .. } => {
            context.get(items).and_then(Value::as_array).map(|items| items.len() as u64)?
        }
    };
    Some(wanted.min(u64::from(owner.max_iterations)))
}

/// Counts the remaining steps.
struct Remaining<'a> {
    workflow: &'a CompiledWorkflow,
    context: &'a Context,
    scope: ValueScope<'a>,
}

impl Remaining<'_> {
    fn after(&self, pending: &PendingStep) -> u64 {
        let mut left: u64 = 0;
        let mut items = &self.workflow.plan;
        for frame in &pending.loop_path {
            let is_here =
                |item: &PlanItem| matches!(item, PlanItem::Loop { loop_id } if *loop_id == frame.loop_id);
            left = left.saturating_add(self.behind(items, is_here));
            let Some(owner) = self.workflow.loop_by_id(&frame.loop_id) else { return left };
            let done = u64::from(frame.iteration) + 1;
            let more = iterations(owner, self.context).map_or(0, |all| all.saturating_sub(done));
            left = left.saturating_add(more.saturating_mul(self.sum(&owner.body)));
            items = &owner.body;
        }
        let is_here =
            |item: &PlanItem| matches!(item, PlanItem::Step { step_id } if *step_id == pending.step_id);
        left.saturating_add(self.behind(items, is_here))
    }

    /// What follows the current item in its list.
    fn behind(&self, items: &[PlanItem], is_here: impl Fn(&PlanItem) -> bool) -> u64 {
        items.iter().position(is_here).map_or(0, |here| self.sum(&items[here + 1..]))
    }

    fn sum(&self, items: &[PlanItem]) -> u64 {
        items.iter().map(|item| self.size(item)).fold(0, u64::saturating_add)
    }

    fn size(&self, item: &PlanItem) -> u64 {
        match item {
            PlanItem::Step { step_id } => u64::from(self.may_run(step_id)),
            PlanItem::Loop { loop_id } => {
                let Some(owner) = self.workflow.loop_by_id(loop_id) else { return 0 };
                if !self.may_hold(owner.run_condition.as_ref()) {
                    return 0;
                }
                let times = iterations(owner, self.context).unwrap_or(UNKNOWN_ITERATIONS);
                times.saturating_mul(self.sum(&owner.body))
            }
        }
    }

    fn may_run(&self, step: &StepId) -> bool {
        self.workflow.step(step).is_some_and(|step| self.may_hold(step.run_condition.as_ref()))
    }

    /// Whether a condition holds now, or depends on something not yet set.
    fn may_hold(&self, condition: Option<&ConditionId>) -> bool {
        let Some(condition) = condition else { return true };
        holds_or_is_unknown(self.workflow, condition, &self.scope)
            || match self.workflow.condition(condition).map(|found| &found.test) {
                Some(ConditionTest::Context { expr }) => {
                    routing::keys_of(expr).into_iter().any(|key| self.scope.get(key).is_none())
                }
                Some(ConditionTest::LoopControl { .. }) => true,
                None => false,
            }
    }
}
