//! Selects the next step: pure, forward only, every decision traced (G44).
//!
//! Advancing marks the pending step complete and moves on. The loop condition is evaluated at entry and
//! between iterations, never in the middle of a body; reaching the limit of a loop is disclosed.

mod gate;
mod order;
mod output;
mod position;
mod scope;
mod sequence;
mod trace;
mod walk;

pub use gate::{
    ApprovalState, AskedConfirmation, AskedProof, asked_confirmation, capability_findings, question_key,
    user_findings,
};
pub(crate) use gate::{decided_since, holds_or_is_unknown};
pub use order::OrderError;
pub use output::CapabilityFact;
pub(crate) use output::{
    ASSESSMENT_CONTRACT, CRITERIA_REF, definitions, is_at_fault, pattern_of, says_nothing, wants,
};
pub use output::{
    AcceptedAssessment, AppliedConsequence, DivergenceFact, OutputCheck, Submitted, UnprovenClaim,
    ValidationFact, check_output,
};
pub use position::{
    PositionError, PositionNumbers, RecordedPosition, SnapshotProgress, StepPosition, position,
};
pub(crate) use scope::step_scope;
pub use sequence::Positions;
pub(crate) use sequence::may_not_run;
pub(crate) use trace::{ConditionalPart, skipped};
pub(crate) use walk::VISITS_MAX;

use serde_json::Value;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::compiled::{CompiledWorkflow, ConditionTest, LoopControl};
use workrail_model::event::{Context, TraceEntry};
use workrail_model::name::{ContextKey, LoopId, StepId};
use workrail_model::reason::{Advisory, ContractViolation, Reason, Unexpected};
use workrail_model::snapshot::{ActiveLoop, CompletedSteps, EngineState, LoopDecision, Pending, PendingStep};
use workrail_model::text::BoundedText;

use crate::builtins::{LOOP_CONTROL_CONTRACT, LOOP_CONTROL_KIND};

/// A reason, and the blocker that explains it to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub reason: Reason,
    pub blocker: Blocker,
}

/// What the interpreter chose, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSelection {
    pub state: EngineState,
    /// At most as many entries as fit one trace event; omitted ones are counted in an entry.
    pub trace: Vec<TraceEntry>,
    /// Facts to disclose that never block.
    pub advisories: Vec<SelectionAdvisory>,
    /// Under never-stop: what would have blocked and is recorded as a gap instead.
    pub waived: Vec<Finding>,
}

/// A fact about a selection, to disclose durably: an advisory reason with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionAdvisory {
    LoopLimitReached { loop_id: LoopId, max_iterations: u32 },
}

impl SelectionAdvisory {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::LoopLimitReached { .. } => Reason::Advisory(Advisory::LoopLimitReached),
        }
    }

    pub(crate) fn summary(&self) -> String {
        match self {
            Self::LoopLimitReached { loop_id, max_iterations } => format!(
                "Loop `{loop_id}` ended at its limit (maxIterations {max_iterations}) before it was done."
            ),
        }
    }
}

/// Whether what is missing stops the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    Blocking,
    NeverStop,
}

/// What a loop reads from the context before its first pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopInput {
    Number,
    List,
    /// Because a prompt of its body reads members of the item.
    Objects,
}

impl std::fmt::Display for LoopInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Number => "a number",
            Self::List => "a list",
            Self::Objects => "a list of objects",
        })
    }
}

/// Why there is no selection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpretError {
    #[error("Loop `{loop_id}` needs {expected} in the context key `{key}`.")]
    MissingContext { loop_id: LoopId, key: String, expected: LoopInput },
    #[error("Loop `{loop_id}` has reached its limit (maxIterations {max_iterations}) and must stop.")]
    LoopLimit { loop_id: LoopId, max_iterations: u32 },
    #[error("Choosing the next step of loop `{loop_id}` takes too long: its conditions skip every step.")]
    TooMuchWork { loop_id: LoopId },
    #[error("the state does not fit the workflow: {detail}")]
    Drift { detail: String },
}

impl InterpretError {
    /// The reason and blocker; `None` if the run's own data contradict each other. `step_id` is the
    /// step being completed.
    pub fn finding(&self, step_id: &StepId) -> Option<Finding> {
        let at_step = BlockerPointer::WorkflowStep { step_id: step_id.clone() };
        let (reason, code, pointer, fix) = match self {
            Self::MissingContext { key, expected, .. } => (
                Reason::ContractViolation(ContractViolation::MissingContextKey),
                BlockerCode::MissingContextKey,
                ContextKey::parse(key).map_or(at_step, |key| BlockerPointer::ContextKey { key }),
                format!("Send the call below with `context.{key}` set: {expected}."),
            ),
            Self::LoopLimit { .. } => (
                Reason::Unexpected(Unexpected::LoopLimitReached),
                BlockerCode::LoopLimitReached,
                at_step,
                "Send {\"kind\":\"wr.loop_control\",\"decision\":\"stop\"} in output.artifacts.".to_owned(),
            ),
            Self::TooMuchWork { .. } => (
                Reason::Unexpected(Unexpected::InvariantViolation),
                BlockerCode::InvariantViolation,
                at_step,
                "Tell the user: this run keeps its version of the workflow, so a corrected file does not help it. The author \
                 must lower maxIterations; then start a new run."
                    .to_owned(),
            ),
            Self::Drift { .. } => return None,
        };
        let message = BoundedText::clip(&self.to_string());
        let blocker =
            Blocker { code, pointer, message, suggested_fix: Some(BoundedText::clip(&fix)), decision: None };
        Some(Finding { reason, blocker })
    }
}

/// The first pending step.
pub fn start(workflow: &CompiledWorkflow, context: &Context) -> Result<StepSelection, InterpretError> {
    start_in(Strictness::Blocking, workflow, context)
}

pub fn start_in(
    strictness: Strictness,
    workflow: &CompiledWorkflow,
    context: &Context,
) -> Result<StepSelection, InterpretError> {
    let position =
        walk::WalkPosition { stack: Vec::new(), plan_index: 0, completed: CompletedSteps::default() };
    walk::WorkflowWalk::new(workflow, context, strictness, position).select()
}

/// The step after the pending one, which is marked complete. `artifacts` are what its attempt delivers.
pub fn advance_in(
    strictness: Strictness,
    workflow: &CompiledWorkflow,
    state: &EngineState,
    context: &Context,
    artifacts: &[Value],
) -> Result<StepSelection, InterpretError> {
    let (completed, stack, pending) = match state {
        EngineState::Running { completed, loop_stack, pending: Pending::Some { step } } => {
            (completed.clone(), loop_stack.clone(), step)
        }
        EngineState::Init
        | EngineState::Running { pending: Pending::None, .. }
        | EngineState::Complete { .. } => {
            return Err(InterpretError::Drift { detail: "there is no pending step to complete".to_owned() });
        }
    };
    let position = position_after(workflow, completed, stack, pending, (strictness, artifacts))?;
    walk::WorkflowWalk::new(workflow, context, strictness, position).select()
}

/// Marks the pending step complete, keeps its loop decision and moves the cursor past it.
fn position_after(
    workflow: &CompiledWorkflow,
    mut completed: CompletedSteps,
    mut stack: Vec<ActiveLoop>,
    pending: &PendingStep,
    (strictness, artifacts): (Strictness, &[Value]),
) -> Result<walk::WalkPosition, InterpretError> {
    let drift = |detail: String| InterpretError::Drift { detail };
    completed.add_one();
    let mut plan_index = workflow
        .position(&pending.step_id)
        .ok_or_else(|| drift(format!("step `{}` is not in the workflow", pending.step_id)))?;
    if let Some(outermost) = stack.first() {
        // A step may be the body of several loops: the loop on the stack says which one.
        plan_index = workflow
            .plan
            .iter()
            .position(|item| walk::is_loop(item, &outermost.loop_id))
            .ok_or_else(|| drift(format!("loop `{}` is not in the workflow", outermost.loop_id)))?;
    }
    match stack.last_mut() {
        None => plan_index += 1,
        Some(active) => {
            let given = decision_of(workflow, &active.loop_id, artifacts);
            // An endless default would cost more than a loop that ends early and says so.
            let assumed = (strictness == Strictness::NeverStop && owes_decision(workflow, &pending.step_id))
                .then_some(LoopDecision::AssumedStop);
            if let Some(decision) = given.or(assumed) {
                active.decision = Some(decision);
            }
            active.body_index = active.body_index.saturating_add(1);
        }
    }
    Ok(walk::WalkPosition { stack, plan_index, completed })
}

fn owes_decision(workflow: &CompiledWorkflow, step: &StepId) -> bool {
    let output = workflow.step(step).and_then(|step| step.output.as_ref());
    output.is_some_and(|output| output.contract_ref.as_str() == LOOP_CONTROL_CONTRACT)
}

/// Whether an artifact, alone, decides about the loop that the pending step is in.
pub(crate) fn decides_about_own_loop(
    workflow: &CompiledWorkflow,
    state: &EngineState,
    artifact: &Value,
) -> bool {
    let EngineState::Running { loop_stack, .. } = state else { return false };
    loop_stack
        .last()
        .and_then(|active| decision_of(workflow, &active.loop_id, std::slice::from_ref(artifact)))
        .is_some()
}

/// The first decision among the artifacts that is for this loop: one without a `loopId`, or with the loop's own id or
/// label. Anything else is not a decision, and never an exit. A contract checks the first artifact of its kind, which may
/// be none: then that blocks. What is not a decision is skipped here, because the log does not keep the order of
/// artifacts, and a retry or a repair must follow the same decision (G27).
fn decision_of(workflow: &CompiledWorkflow, loop_id: &LoopId, artifacts: &[Value]) -> Option<LoopDecision> {
    let names = loop_names(workflow, loop_id)?;
    artifacts.iter().find_map(|artifact| {
        if artifact.get("kind").and_then(Value::as_str) != Some(LOOP_CONTROL_KIND) {
            return None;
        }
        match artifact.get("loopId") {
            None => {}
            Some(Value::String(named)) if names.include(named) => {}
            Some(_) => return None,
        }
        match artifact.get("decision").and_then(Value::as_str) {
            Some("continue") => Some(LoopDecision::Continue),
            Some("stop") => Some(LoopDecision::Stop),
            Some(_) | None => None,
        }
    })
}

/// What an artifact may call the loop that it controls.
struct LoopNames<'a> {
    id: &'a LoopId,
    label: Option<&'a str>,
}

impl<'a> LoopNames<'a> {
    fn include(&self, name: &str) -> bool {
        name == self.id.as_str() || Some(name) == self.label
    }

    /// The name that authors use.
    fn shown(&self) -> &'a str {
        self.label.unwrap_or(self.id.as_str())
    }
}

/// `None` if no artifact controls the loop.
fn loop_names<'a>(workflow: &'a CompiledWorkflow, loop_id: &'a LoopId) -> Option<LoopNames<'a>> {
    let condition_id = match &workflow.loop_by_id(loop_id)?.control {
        LoopControl::While { condition_id } | LoopControl::Until { condition_id } => condition_id,
        LoopControl::For { .. } | LoopControl::ForEach { .. } => return None,
    };
    match &workflow.condition(condition_id)?.test {
        ConditionTest::LoopControl { label, .. } => Some(LoopNames { id: loop_id, label: label.as_deref() }),
        ConditionTest::Context { .. } => None,
    }
}
