//! Whether a recorded position exists in its workflow (G9).
//!
//! Import and `verify` use the same function, so that they agree. A bundle may hold hundreds of thousands of
//! snapshots of a workflow of ten steps: positions that differ only in numbers can be merged first, because
//! each number is only compared with an upper bound. Whether they follow each other is checked in `order`.

use std::fmt;

use workrail_model::name::{LoopId, StepId};
use workrail_model::snapshot::{CompletedSteps, EngineState, Pending};

use super::sequence::{LoopLookup, Positions, SequenceItem};

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

impl fmt::Display for SnapshotProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted => f.write_str("is not started"),
            Self::WaitsAtNothing => f.write_str("waits at no step"),
            Self::At(step) => write!(f, "waits at step `{step}`"),
            Self::Complete => f.write_str("is complete"),
        }
    }
}

/// Where a snapshot is: the waiting step and the position in each loop around it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepPosition {
    pub progress: SnapshotProgress,
    /// From the outermost loop inwards, each with the position in its body.
    pub loops: Vec<(LoopId, u32)>,
}

/// A position with its numbers.
#[derive(Clone, Copy, Debug)]
pub struct RecordedPosition<'a> {
    pub step_position: &'a StepPosition,
    pub numbers: &'a PositionNumbers,
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
    let completed = state.completed().map_or(0, CompletedSteps::count);
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

impl Positions {
    /// Whether the workflow has the position of this state.
    pub fn check_state(&self, state: &EngineState) -> Result<(), PositionError> {
        let (step_position, numbers) = position(state);
        self.check(&step_position, &numbers)
    }

    pub fn check(
        &self,
        step_position: &StepPosition,
        numbers: &PositionNumbers,
    ) -> Result<(), PositionError> {
        match &step_position.progress {
            SnapshotProgress::NotStarted => return Err(PositionError::NotStarted),
            SnapshotProgress::WaitsAtNothing => return Err(PositionError::WaitsAtNothing),
            SnapshotProgress::At(step) if !self.knows_step(step) => {
                return Err(PositionError::UnknownStep { step: step.clone() });
            }
            SnapshotProgress::At(_) | SnapshotProgress::Complete => {}
        }
        let mut around: Option<&SequenceItem> = None;
        for (depth, (loop_id, body_index)) in step_position.loops.iter().enumerate() {
            let misplaced = || PositionError::MisplacedLoop { loop_id: loop_id.clone() };
            let own = match self.sequence_of(loop_id) {
                LoopLookup::Unknown => return Err(PositionError::UnknownLoop { loop_id: loop_id.clone() }),
                LoopLookup::NotInPlan => return Err(misplaced()),
                LoopLookup::At(own) => own,
            };
            let outer = if depth == 0 { self.plan_item_of(own) } else { around };
            let is_here = outer.is_some_and(|item| item.is_loop(own));
            let body = self.sequence(own).filter(|_| is_here).ok_or_else(misplaced)?;
            let iteration = numbers.iterations.get(depth).copied().unwrap_or(0);
            let max_iterations = body.max_iterations();
            // A loop that is entered runs once, whatever its limit.
            if iteration > 0 && iteration >= max_iterations {
                let loop_id = loop_id.clone();
                return Err(PositionError::BeyondIterations { loop_id, iteration, max_iterations });
            }
            around = body.item(*body_index as usize);
            if around.is_none() {
                let (loop_id, body_index, len) = (loop_id.clone(), *body_index, body.len());
                return Err(PositionError::BeyondBody { loop_id, body_index, len });
            }
        }
        self.check_step(step_position, around)?;
        let (completed, possible) = (numbers.completed, self.possible_steps());
        if completed > possible {
            return Err(PositionError::TooManySteps { completed, possible });
        }
        Ok(())
    }

    /// The step waits where the innermost loop is, or in the plan outside loops.
    fn check_step(
        &self,
        step_position: &StepPosition,
        around: Option<&SequenceItem>,
    ) -> Result<(), PositionError> {
        let SnapshotProgress::At(step) = &step_position.progress else { return Ok(()) };
        let is_here = match around {
            None => self.plan_index(step, 0).is_some(),
            Some(item) => item.is_step(step),
        };
        if is_here { Ok(()) } else { Err(PositionError::MisplacedStep { step: step.clone() }) }
    }
}
