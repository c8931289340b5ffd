//! The walk itself: a cursor over the plan and the bodies of the active loops, moving forward only (G44).

use serde_json::Value;
use workrail_model::compiled::{
    CompiledLoop, CompiledWorkflow, ConditionTest, ForCount, LoopControl, OnLimit, PlanItem,
};
use workrail_model::event::Context;
use workrail_model::name::{ConditionId, LoopId, StepId};
use workrail_model::snapshot::{ActiveLoop, CompletedSteps, EngineState, LoopDecision, Pending, PendingStep};
use workrail_model::step_key::LoopFrame;

use super::scope::overlay;
use super::trace::{ConditionalPart, TraceLog};
use super::{Finding, InterpretError, LoopInput, SelectionAdvisory, StepSelection, Strictness};
use crate::condition::{ValueScope, holds};
use crate::routing;

/// Items examined in one call. Nested loops whose conditions skip everything could otherwise spin for
/// a billion iterations; a body that does real work returns after one item.
pub(crate) const VISITS_MAX: u32 = 100_000;

/// Where the walk is.
pub(super) struct WalkPosition {
    pub(super) stack: Vec<ActiveLoop>,
    pub(super) plan_index: usize,
    pub(super) completed: CompletedSteps,
}

pub(super) struct WorkflowWalk<'a> {
    workflow: &'a CompiledWorkflow,
    context: &'a Context,
    strictness: Strictness,
    position: WalkPosition,
    visits: u32,
    trace: TraceLog,
    advisories: Vec<SelectionAdvisory>,
    waived: Vec<Finding>,
}

/// Whether a loop continues with another iteration, and the reason in words.
struct IterationDecision {
    continues: bool,
    why: String,
    condition_id: Option<ConditionId>,
}

pub(super) fn is_loop(item: &PlanItem, wanted: &LoopId) -> bool {
    match item {
        PlanItem::Step { .. } => false,
        PlanItem::Loop { loop_id } => loop_id == wanted,
    }
}

impl<'a> WorkflowWalk<'a> {
    pub(super) fn new(
        workflow: &'a CompiledWorkflow,
        context: &'a Context,
        strictness: Strictness,
        position: WalkPosition,
    ) -> Self {
        Self {
            workflow,
            context,
            strictness,
            position,
            visits: 0,
            trace: TraceLog::default(),
            advisories: Vec::new(),
            waived: Vec::new(),
        }
    }

    pub(super) fn select(mut self) -> Result<StepSelection, InterpretError> {
        let pending = loop {
            match self.current_item()? {
                CursorItem::Item(PlanItem::Step { step_id }) => {
                    if self.step_runs(step_id)? {
                        break Some(step_id);
                    }
                    self.move_on();
                }
                CursorItem::Item(PlanItem::Loop { loop_id }) => {
                    let looped = self.looped(loop_id)?;
                    if !self.enter(looped)? {
                        self.move_on();
                    }
                }
                CursorItem::BodyEnd(looped) => self.end_iteration(looped)?,
                CursorItem::PlanEnd => break None,
            }
        };
        Ok(self.finish(pending))
    }

    fn finish(mut self, pending: Option<&StepId>) -> StepSelection {
        let WalkPosition { stack, completed, .. } = self.position;
        let state = match pending {
            None => EngineState::Complete { completed },
            Some(step_id) => {
                self.trace.selected(step_id);
                let loop_path = stack
                    .iter()
                    .map(|active| LoopFrame { loop_id: active.loop_id.clone(), iteration: active.iteration })
                    .collect();
                let step = PendingStep { step_id: step_id.clone(), loop_path };
                EngineState::Running { completed, loop_stack: stack, pending: Pending::Some { step } }
            }
        };
        StepSelection { state, trace: self.trace.finish(), advisories: self.advisories, waived: self.waived }
    }

    fn current_item(&mut self) -> Result<CursorItem<'a>, InterpretError> {
        self.visits += 1;
        let Some(active) = self.position.stack.last() else {
            return Ok(self
                .workflow
                .plan
                .get(self.position.plan_index)
                .map_or(CursorItem::PlanEnd, CursorItem::Item));
        };
        if self.visits > VISITS_MAX {
            return Err(InterpretError::TooMuchWork { loop_id: active.loop_id.clone() });
        }
        let looped = self.looped(&active.loop_id)?;
        Ok(looped.body.get(active.body_index as usize).map_or(CursorItem::BodyEnd(looped), CursorItem::Item))
    }

    fn move_on(&mut self) {
        match self.position.stack.last_mut() {
            None => self.position.plan_index += 1,
            Some(active) => active.body_index = active.body_index.saturating_add(1),
        }
    }

    fn looped(&self, loop_id: &LoopId) -> Result<&'a CompiledLoop, InterpretError> {
        let detail = || format!("loop `{loop_id}` is not in the workflow");
        self.workflow.loop_by_id(loop_id).ok_or_else(|| InterpretError::Drift { detail: detail() })
    }

    fn scope(&self) -> Result<ValueScope<'a>, InterpretError> {
        let mut scope = ValueScope::new(self.context);
        for active in &self.position.stack {
            overlay(&mut scope, self.looped(&active.loop_id)?, active.iteration, self.context);
        }
        Ok(scope)
    }

    fn condition_holds(&self, id: &ConditionId, scope: &ValueScope<'_>) -> Result<bool, InterpretError> {
        let detail = || format!("condition `{id}` is not in the workflow");
        let condition =
            self.workflow.condition(id).ok_or_else(|| InterpretError::Drift { detail: detail() })?;
        Ok(match &condition.test {
            ConditionTest::Context { expr } => holds(expr, scope),
            // A decision artifact exists only inside its loop; elsewhere nothing was decided.
            ConditionTest::LoopControl { .. } => true,
        })
    }

    fn runs(
        &mut self,
        condition: Option<&ConditionId>,
        part: ConditionalPart<'_>,
    ) -> Result<bool, InterpretError> {
        let Some(id) = condition else { return Ok(true) };
        let holds = self.condition_holds(id, &self.scope()?)?;
        self.trace.run_condition(id, part, holds);
        Ok(holds)
    }

    fn step_runs(&mut self, step_id: &StepId) -> Result<bool, InterpretError> {
        let detail = || format!("step `{step_id}` is not in the workflow");
        let step = self.workflow.step(step_id).ok_or_else(|| InterpretError::Drift { detail: detail() })?;
        self.runs(step.run_condition.as_ref(), ConditionalPart::Step(step_id))
    }

    /// Pushes the loop if it runs at all. A loop that runs zero times is traced as well.
    fn enter(&mut self, looped: &'a CompiledLoop) -> Result<bool, InterpretError> {
        if !self.runs(looped.run_condition.as_ref(), ConditionalPart::Loop(&looped.loop_id))? {
            return Ok(false);
        }
        let decision = self.decide_iteration(looped, 0, None)?;
        self.trace.loop_condition(&looped.loop_id, 0, decision.condition_id.as_ref(), &decision.why);
        if !decision.continues {
            self.trace.exited(&looped.loop_id, 0, &decision.why);
            return Ok(false);
        }
        self.trace.entered(&looped.loop_id);
        self.position.stack.push(ActiveLoop {
            loop_id: looped.loop_id.clone(),
            iteration: 0,
            body_index: 0,
            decision: None,
        });
        Ok(true)
    }

    /// The body is done: start another iteration, or leave the loop.
    fn end_iteration(&mut self, looped: &'a CompiledLoop) -> Result<(), InterpretError> {
        let Some(active) = self.position.stack.pop() else { return Ok(()) };
        let next = active.iteration.saturating_add(1);
        let decision = self.decide_iteration(looped, next, active.decision)?;
        self.trace.loop_condition(&looped.loop_id, next, decision.condition_id.as_ref(), &decision.why);
        if decision.continues && next < looped.max_iterations {
            let loop_id = active.loop_id;
            self.position.stack.push(ActiveLoop { loop_id, iteration: next, body_index: 0, decision: None });
            return Ok(());
        }
        if decision.continues {
            self.limit_reached(looped)?;
            let why = format!("its limit is reached (maxIterations {})", looped.max_iterations);
            self.trace.exited(&looped.loop_id, next, &why);
        } else {
            self.trace.exited(&looped.loop_id, next, &decision.why);
        }
        self.move_on();
        Ok(())
    }

    fn limit_reached(&mut self, looped: &CompiledLoop) -> Result<(), InterpretError> {
        let loop_id = looped.loop_id.clone();
        let max_iterations = looped.max_iterations;
        match looped.on_limit {
            OnLimit::Advance => {
                self.advisories.push(SelectionAdvisory::LoopLimitReached { loop_id, max_iterations });
                Ok(())
            }
            OnLimit::Block => {
                self.stop_or_pass(InterpretError::LoopLimit { loop_id, max_iterations }, looped)
            }
        }
    }

    /// What blocks is an error in blocking modes; under never-stop it is recorded and skipped.
    fn stop_or_pass(&mut self, error: InterpretError, looped: &CompiledLoop) -> Result<(), InterpretError> {
        match self.strictness {
            Strictness::Blocking => Err(error),
            Strictness::NeverStop => {
                // A loop id is a valid step id: its alphabet is smaller.
                if let Ok(step_id) = StepId::parse(looped.loop_id.as_str()) {
                    self.waived.extend(error.finding(&step_id));
                }
                Ok(())
            }
        }
    }

    /// Whether iteration `next` should run. The limit is not checked here.
    fn decide_iteration(
        &mut self,
        looped: &'a CompiledLoop,
        next: u32,
        decision: Option<LoopDecision>,
    ) -> Result<IterationDecision, InterpretError> {
        match &looped.control {
            LoopControl::While { condition_id } => {
                self.conditional(looped, next, decision, condition_id, true)
            }
            LoopControl::Until { condition_id } => {
                self.conditional(looped, next, decision, condition_id, false)
            }
            LoopControl::For { count } => self.counted(looped, next, count),
            LoopControl::ForEach { items, item_var, .. } => self.listed(looped, next, items, item_var),
        }
    }

    fn conditional(
        &mut self,
        looped: &'a CompiledLoop,
        next: u32,
        decision: Option<LoopDecision>,
        condition_id: &ConditionId,
        wanted: bool,
    ) -> Result<IterationDecision, InterpretError> {
        let condition = self.workflow.condition(condition_id).map(|condition| &condition.test);
        let condition_id = Some(condition_id.clone());
        let (continues, why) = match condition {
            Some(ConditionTest::Context { expr }) => {
                let mut scope = self.scope()?;
                overlay(&mut scope, looped, next, self.context);
                let held = holds(expr, &scope);
                (held == wanted, format!("its condition is {held}"))
            }
            Some(ConditionTest::LoopControl { .. }) if next == 0 => {
                (true, "the first iteration needs no decision".to_owned())
            }
            Some(ConditionTest::LoopControl { .. }) => match decision {
                Some(LoopDecision::Stop) => (false, "the decision was stop".to_owned()),
                Some(LoopDecision::AssumedStop) => {
                    (false, "no decision was given, however often it was asked for, so it ends".to_owned())
                }
                Some(LoopDecision::Continue) => (true, "the decision was continue".to_owned()),
                // A missing decision is never an exit; the limit bounds it.
                None => (true, "no decision was given, which does not end a loop".to_owned()),
            },
            None => {
                let detail = format!("loop `{}` has no condition", looped.loop_id);
                return Err(InterpretError::Drift { detail });
            }
        };
        Ok(IterationDecision { continues, why, condition_id })
    }

    fn counted(
        &mut self,
        looped: &CompiledLoop,
        next: u32,
        count: &ForCount,
    ) -> Result<IterationDecision, InterpretError> {
        let bound = match count {
            ForCount::Fixed { value } => f64::from(*value),
            ForCount::FromContext { context_key } => {
                match self.context.get(context_key).filter(|value| value.is_number()).and_then(Value::as_f64)
                {
                    Some(bound) => bound,
                    None => {
                        self.missing(looped, context_key, LoopInput::Number)?;
                        0.0
                    }
                }
            }
        };
        let why = format!("{next} of {bound} iterations are done");
        Ok(IterationDecision { continues: f64::from(next) < bound, why, condition_id: None })
    }

    fn listed(
        &mut self,
        looped: &CompiledLoop,
        next: u32,
        items: &str,
        item_var: &str,
    ) -> Result<IterationDecision, InterpretError> {
        let len = match self.context.get(items) {
            Some(Value::Array(list)) => {
                let plain = list.first().is_some_and(|first| !first.is_object());
                let members = || routing::members(looped, item_var, &self.workflow.steps);
                if next == 0 && plain && !members().is_empty() {
                    self.missing(looped, items, LoopInput::Objects)?;
                    0
                } else {
                    list.len()
                }
            }
            Some(_) | None => {
                self.missing(looped, items, LoopInput::List)?;
                0
            }
        };
        let why = format!("{next} of {len} items of `{items}` are done");
        Ok(IterationDecision { continues: (next as usize) < len, why, condition_id: None })
    }

    fn missing(
        &mut self,
        looped: &CompiledLoop,
        key: &str,
        expected: LoopInput,
    ) -> Result<(), InterpretError> {
        let error =
            InterpretError::MissingContext { loop_id: looped.loop_id.clone(), key: key.to_owned(), expected };
        self.stop_or_pass(error, looped)
    }
}

/// What is at the cursor.
enum CursorItem<'a> {
    Item(&'a PlanItem),
    BodyEnd(&'a CompiledLoop),
    PlanEnd,
}
