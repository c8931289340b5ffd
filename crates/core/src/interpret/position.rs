//! Whether a recorded position exists in its workflow (G9).
//!
//! Import and `verify` use the same function, so that they agree. A bundle may hold hundreds of thousands of
//! snapshots of a workflow of ten steps: positions that differ only in numbers can be merged first, because
//! each number is only compared with an upper bound.

use std::collections::BTreeSet;

use workrail_model::compiled::{CompiledWorkflow, PlanItem};
use workrail_model::event::NodeKind;
use workrail_model::name::{LoopId, StepId};
use workrail_model::snapshot::{CompletedSteps, EngineState, Pending};

/// How far a snapshot's run is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotProgress {
    /// No step was selected yet. A node always has one, or is complete.
    NotStarted,
    /// Steps are left, but none is selected: nothing could ever continue the run.
    WaitsAtNothing,
    At(StepId),
    Complete,
}

/// Where a snapshot is: the waiting step and the position in each loop around it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepPosition {
    pub progress: SnapshotProgress,
    /// From the outermost loop inwards, each with the position in its body.
    pub loops: Vec<(LoopId, u32)>,
}

/// The numbers of a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PositionNumbers {
    /// Of each loop, from the outermost inwards.
    pub iterations: Vec<u32>,
    pub completed: u64,
}

impl PositionNumbers {
    /// The larger of each number.
    pub(crate) fn join(&mut self, other: &Self) {
        self.completed = self.completed.max(other.completed);
        for (own, other) in self.iterations.iter_mut().zip(&other.iterations) {
            *own = (*own).max(*other);
        }
    }
}

/// A position that does not exist in its workflow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    #[error("waits at step `{step}`, which its workflow does not have")]
    UnknownStep { step: StepId },
    #[error("is in loop `{loop_id}`, which its workflow does not have")]
    UnknownLoop { loop_id: LoopId },
    #[error("is in loop `{loop_id}`, which is not at that place of its workflow")]
    MisplacedLoop { loop_id: LoopId },
    #[error("is at position {body_index} of loop `{loop_id}`, which has {len}")]
    BeyondBody { loop_id: LoopId, body_index: u32, len: usize },
    #[error("is in iteration {iteration} of loop `{loop_id}`, which ends after {max_iterations}")]
    BeyondIterations { loop_id: LoopId, iteration: u32, max_iterations: u32 },
    #[error("waits at step `{step}`, which is not at that place of its workflow")]
    MisplacedStep { step: StepId },
    #[error("is not started, and nothing could continue it")]
    NotStarted,
    #[error("waits at no step although it is not complete, and nothing could continue it")]
    WaitsAtNothing,
    #[error("counts {completed} completed steps, more than the {possible} that its workflow can have")]
    TooManySteps { completed: u64, possible: u64 },
}

/// The position of a state, in the two parts that are checked.
pub fn position(state: &EngineState) -> (StepPosition, PositionNumbers) {
    let completed = completed_steps(state).unwrap_or(0);
    let stack = match state {
        EngineState::Running { loop_stack, .. } => loop_stack.as_slice(),
        EngineState::Init | EngineState::Complete { .. } => &[],
    };
    let progress = match state {
        EngineState::Init => SnapshotProgress::NotStarted,
        EngineState::Complete { .. } => SnapshotProgress::Complete,
        EngineState::Running { pending: Pending::None, .. } => SnapshotProgress::WaitsAtNothing,
        EngineState::Running { pending: Pending::Some { step }, .. } => {
            SnapshotProgress::At(step.step_id.clone())
        }
    };
    let step_position = StepPosition {
        progress,
        loops: stack.iter().map(|active| (active.loop_id.clone(), active.body_index)).collect(),
    };
    (
        step_position,
        PositionNumbers { iterations: stack.iter().map(|active| active.iteration).collect(), completed },
    )
}

/// Why a node's snapshot contradicts the snapshot of its parent; `None` if it does not. An advance completes a step;
/// a checkpoint completes none.
pub fn contradicts_parent(
    kind: NodeKind,
    completed: Option<u64>,
    completed_by_parent: Option<u64>,
) -> Option<String> {
    let (completed, completed_by_parent) = (completed?, completed_by_parent?);
    let is_possible = match kind {
        // Snapshots of the older form may count several.
        NodeKind::Step => completed > completed_by_parent,
        NodeKind::Checkpoint => completed == completed_by_parent,
    };
    (!is_possible)
        .then(|| format!("counts {completed} completed steps, and its parent's counts {completed_by_parent}"))
}

/// How many completed steps a state counts; `None` if it is not started.
pub fn completed_steps(state: &EngineState) -> Option<u64> {
    state.completed().map(CompletedSteps::count)
}

/// The positions of a workflow, prepared for many checks.
#[derive(Debug)]
pub struct Positions<'a> {
    workflow: &'a CompiledWorkflow,
    /// Steps in the plan outside loops.
    top_steps: BTreeSet<&'a StepId>,
    top_loops: BTreeSet<&'a LoopId>,
    possible_steps: u64,
}

impl<'a> Positions<'a> {
    pub fn of(workflow: &'a CompiledWorkflow) -> Self {
        let (mut top_steps, mut top_loops) = (BTreeSet::new(), BTreeSet::new());
        for item in &workflow.plan {
            match item {
                PlanItem::Step { step_id } => top_steps.insert(step_id),
                PlanItem::Loop { loop_id } => top_loops.insert(loop_id),
            };
        }
        Self { workflow, top_steps, top_loops, possible_steps: possible_steps(workflow) }
    }

    /// Whether the workflow has the position of this state.
    pub fn check_state(&self, state: &EngineState) -> Result<(), PositionError> {
        let (step_position, progress) = position(state);
        self.check(&step_position, &progress)
    }

    pub(crate) fn check(
        &self,
        step_position: &StepPosition,
        progress: &PositionNumbers,
    ) -> Result<(), PositionError> {
        let workflow = self.workflow;
        match &step_position.progress {
            SnapshotProgress::NotStarted => return Err(PositionError::NotStarted),
            SnapshotProgress::WaitsAtNothing => return Err(PositionError::WaitsAtNothing),
            SnapshotProgress::At(step) if workflow.step(step).is_none() => {
                return Err(PositionError::UnknownStep { step: step.clone() });
            }
            SnapshotProgress::At(_) | SnapshotProgress::Complete => {}
        }
        let mut around: Option<&PlanItem> = None;
        for (position, (loop_id, body_index)) in step_position.loops.iter().enumerate() {
            let owner = workflow
                .loop_by_id(loop_id)
                .ok_or_else(|| PositionError::UnknownLoop { loop_id: loop_id.clone() })?;
            let is_here = match (position, around) {
                (0, _) => self.top_loops.contains(loop_id),
                (_, item) => item.is_some_and(|item| super::walk::is_loop(item, loop_id)),
            };
            if !is_here {
                return Err(PositionError::MisplacedLoop { loop_id: loop_id.clone() });
            }
            let iteration = progress.iterations.get(position).copied().unwrap_or(0);
            // A loop that is entered runs once, whatever its limit.
            if iteration > 0 && iteration >= owner.max_iterations {
                let (loop_id, max_iterations) = (loop_id.clone(), owner.max_iterations);
                return Err(PositionError::BeyondIterations { loop_id, iteration, max_iterations });
            }
            around = owner.body.get(*body_index as usize);
            if around.is_none() {
                let (loop_id, body_index, len) = (loop_id.clone(), *body_index, owner.body.len());
                return Err(PositionError::BeyondBody { loop_id, body_index, len });
            }
        }
        self.check_step(step_position, around)?;
        let (completed, possible) = (progress.completed, self.possible_steps);
        if completed > possible {
            return Err(PositionError::TooManySteps { completed, possible });
        }
        Ok(())
    }

    /// The step waits where the innermost loop is, or in the plan outside loops.
    fn check_step(
        &self,
        step_position: &StepPosition,
        around: Option<&PlanItem>,
    ) -> Result<(), PositionError> {
        let SnapshotProgress::At(step) = &step_position.progress else { return Ok(()) };
        let is_here = match around {
            None => self.top_steps.contains(step),
            Some(PlanItem::Step { step_id }) => step_id == step,
            Some(PlanItem::Loop { .. }) => false,
        };
        if is_here { Ok(()) } else { Err(PositionError::MisplacedStep { step: step.clone() }) }
    }
}

/// The maximum number of step instances that any run of the workflow can complete.
fn possible_steps(workflow: &CompiledWorkflow) -> u64 {
    let mut steps: u64 = 0;
    // A loop occurs only once, so every item is visited once.
    let mut queue: Vec<(&PlanItem, u64)> = workflow.plan.iter().map(|item| (item, 1)).collect();
    while let Some((item, passes)) = queue.pop() {
        match item {
            PlanItem::Step { .. } => steps = steps.saturating_add(passes),
            PlanItem::Loop { loop_id } => {
                let Some(owner) = workflow.loop_by_id(loop_id) else { continue };
                let passes = passes.saturating_mul(u64::from(owner.max_iterations.max(1)));
                queue.extend(owner.body.iter().map(|inner| (inner, passes)));
            }
        }
    }
    steps
}
