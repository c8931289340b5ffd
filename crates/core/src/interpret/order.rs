//! Whether a snapshot can follow the snapshot of its node's parent (G9).
//!
//! The walk moves forward only (G44): an advance completes one step, and everything else on the way to the next one was
//! skipped by a condition or belongs to a loop that may end there. What a condition said at the time is not computed
//! again: its values may have been redacted, and a decision may be in content that is not at hand. So nothing that the
//! engine records is refused, and a check costs the depth of the loops, whatever the length of the run.

use workrail_model::event::NodeKind;
use workrail_model::name::{LoopId, StepId};

use super::position::{RecordedPosition, SnapshotProgress};
use super::sequence::{LoopLookup, Positions, StepSequence};

/// Why a snapshot cannot follow its parent's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error("{own}, although step `{passed}` before it is neither completed nor skipped by a condition")]
    PassedStep { own: SnapshotProgress, passed: StepId },
    #[error("{own}, although loop `{loop_id}` before it has iterations left")]
    LoopNotDone { own: SnapshotProgress, loop_id: LoopId },
    #[error("is in iteration {iteration} of loop `{loop_id}`, which runs {count} times")]
    LoopDone { loop_id: LoopId, iteration: u32, count: u32 },
    #[error("{own}, which does not come after {parent}, where its parent is")]
    NotAfterParent { own: SnapshotProgress, parent: String },
    #[error("continues a run that is complete at its parent")]
    AfterTheEnd,
    #[error("is not at the position of its parent, although it is a checkpoint and completes no step")]
    MovedCheckpoint,
    #[error("counts {completed} completed steps, and its parent's counts {by_parent}")]
    Miscounted { completed: u64, by_parent: u64 },
    #[error("counts {completed} completed steps, although it is the first of its run")]
    CountedBeforeStart { completed: u64 },
}

/// One level of a position: the plan, or the body of a loop inside the level before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathLevel {
    sequence: usize,
    iteration: u32,
    index: usize,
}

impl PathLevel {
    fn is_same_pass(&self, other: &Self) -> bool {
        self.sequence == other.sequence && self.iteration == other.iteration
    }
}

impl Positions {
    /// Whether a node at `own` can follow its parent; `None` for the first node of a run. Positions that the workflow
    /// does not have are reported by [`Positions::check`] and accepted here.
    pub fn check_order(
        &self,
        kind: NodeKind,
        own: RecordedPosition<'_>,
        parent: Option<RecordedPosition<'_>>,
    ) -> Result<(), OrderError> {
        let is_waiting = |position: RecordedPosition<'_>| match &position.step_position.progress {
            SnapshotProgress::NotStarted | SnapshotProgress::WaitsAtNothing => false,
            SnapshotProgress::At(_) | SnapshotProgress::Complete => true,
        };
        if !is_waiting(own) || !parent.is_none_or(is_waiting) {
            return Ok(());
        }
        check_count(kind, own, parent)?;
        match (kind, parent) {
            (NodeKind::Checkpoint, Some(parent)) => {
                let is_same = own.step_position == parent.step_position
                    && own.numbers.iterations == parent.numbers.iterations;
                if is_same { Ok(()) } else { Err(OrderError::MovedCheckpoint) }
            }
            (NodeKind::Step, Some(parent)) => match self.path_after(parent)? {
                Some(start) => self.check_path(&start, own, Some(parent)),
                None => Ok(()),
            },
            (NodeKind::Step | NodeKind::Checkpoint, None) => {
                self.check_path(&[PathLevel { sequence: 0, iteration: 0, index: 0 }], own, None)
            }
        }
    }

    /// Where the walk continues after the step that the parent waits at.
    fn path_after(&self, parent: RecordedPosition<'_>) -> Result<Option<Vec<PathLevel>>, OrderError> {
        let SnapshotProgress::At(step) = &parent.step_position.progress else {
            return Err(OrderError::AfterTheEnd);
        };
        let Some(mut path) = self.path(parent, self.first_plan_index(step)) else { return Ok(None) };
        if let Some(innermost) = path.last_mut() {
            innermost.index += 1;
        }
        Ok(Some(path))
    }

    /// The levels of a position; outside loops, the plan's index is given. `None` if the workflow has no such position.
    fn path(&self, position: RecordedPosition<'_>, plan_index: Option<usize>) -> Option<Vec<PathLevel>> {
        let mut path = Vec::with_capacity(position.step_position.loops.len() + 1);
        let mut plan = PathLevel { sequence: 0, iteration: 0, index: plan_index.unwrap_or(0) };
        let iterations = position.numbers.iterations.iter();
        for ((loop_id, body_index), iteration) in position.step_position.loops.iter().zip(iterations) {
            let sequence = match self.sequence_of(loop_id) {
                LoopLookup::At(sequence) => sequence,
                LoopLookup::Unknown | LoopLookup::NotInPlan => return None,
            };
            if path.is_empty() {
                plan.index = self.sequence(sequence)?.within()?.1;
                path.push(plan);
            }
            path.push(PathLevel { sequence, iteration: *iteration, index: *body_index as usize });
        }
        if path.is_empty() {
            plan_index?;
            path.push(plan);
        }
        Some(path)
    }

    /// Whether a walk that is at `start` may stop next at `own`.
    fn check_path(
        &self,
        start: &[PathLevel],
        own: RecordedPosition<'_>,
        parent: Option<RecordedPosition<'_>>,
    ) -> Result<(), OrderError> {
        let progress = &own.step_position.progress;
        let not_after = || OrderError::NotAfterParent {
            own: progress.clone(),
            parent: parent.map_or_else(|| "the start".to_owned(), described),
        };
        let from = start.first().map_or(0, |plan| plan.index);
        let plan_index = match progress {
            // A step that is also inside a loop may come again in the plan: its next place counts.
            SnapshotProgress::At(step) => self.plan_index(step, from).or_else(|| self.plan_index(step, 0)),
            SnapshotProgress::Complete => Some(self.plan().len()),
            SnapshotProgress::NotStarted | SnapshotProgress::WaitsAtNothing => None,
        };
        let Some(target) = self.path(own, plan_index) else { return Ok(()) };
        let passage = Passage { positions: self, own: progress };
        // Levels that both are in, in the same iteration of each loop; the plan is always one.
        let shared = start.iter().zip(&target).take_while(|(one, other)| one.is_same_pass(other)).count();
        let Some(level) = shared.checked_sub(1) else { return Ok(()) };
        let left = &start[shared..];
        if let (Some(was), Some(now)) = (left.first(), target.get(shared))
            && was.sequence == now.sequence
        {
            let more = now.iteration.checked_sub(was.iteration).and_then(|more| more.checked_sub(1));
            let passed = more.ok_or_else(not_after)?;
            passage.finish_bodies(left, LoopEnd::Stay)?;
            return passage.enter(&target[shared..], passed);
        }
        let next = start[level].index + usize::from(!left.is_empty());
        let until = target[level].index;
        if until < next {
            return Err(not_after());
        }
        passage.finish_bodies(left, LoopEnd::Leave)?;
        passage.skip(start[level].sequence, next, until)?;
        match target.get(shared) {
            Some(inner) => passage.enter(&target[shared..], inner.iteration),
            None => Ok(()),
        }
    }
}

/// What happens to the outermost loop at the end of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopEnd {
    /// Another iteration follows.
    Stay,
    Leave,
}

/// What a walk to a position passes on its way.
struct Passage<'a> {
    positions: &'a Positions,
    own: &'a SnapshotProgress,
}

impl Passage<'_> {
    fn sequence(&self, level: PathLevel) -> Option<&StepSequence> {
        self.positions.sequence(level.sequence)
    }

    /// The items from `start` to before `end` may all be skipped.
    fn skip(&self, sequence: usize, start: usize, end: usize) -> Result<(), OrderError> {
        let Some(found) = self.positions.sequence(sequence) else { return Ok(()) };
        let required = found.next_required(start);
        match self.positions.first_step(found, required).filter(|_| required < end) {
            Some(step) => Err(OrderError::PassedStep { own: self.own.clone(), passed: step.clone() }),
            None => Ok(()),
        }
    }

    /// From inside loops to the end of the outermost one's body.
    fn finish_bodies(&self, levels: &[PathLevel], outermost: LoopEnd) -> Result<(), OrderError> {
        for (depth, level) in levels.iter().enumerate().rev() {
            let Some(body) = self.sequence(*level) else { return Ok(()) };
            // The innermost level is already past its step; the others are at the loop that was left.
            let is_innermost = depth + 1 == levels.len();
            let next = if is_innermost { level.index } else { level.index + 1 };
            self.skip(level.sequence, next, body.len())?;
            let leaves = depth > 0 || outermost == LoopEnd::Leave;
            if let Some(loop_id) = body.loop_id().filter(|_| leaves && !body.may_end_after(level.iteration)) {
                return Err(OrderError::LoopNotDone { own: self.own.clone(), loop_id: loop_id.clone() });
            }
        }
        Ok(())
    }

    /// Into loops. In the outermost, `passed` iterations had no step; in the others, all before the current one.
    fn enter(&self, levels: &[PathLevel], passed: u32) -> Result<(), OrderError> {
        let mut passed = passed;
        for (depth, level) in levels.iter().enumerate() {
            let Some(body) = self.sequence(*level) else { return Ok(()) };
            if let (Some(loop_id), Some(count)) = (body.loop_id(), body.fixed_count())
                && level.iteration >= count
            {
                let (loop_id, iteration) = (loop_id.clone(), level.iteration);
                return Err(OrderError::LoopDone { loop_id, iteration, count });
            }
            if passed > 0 {
                self.skip(level.sequence, 0, body.len())?;
            }
            self.skip(level.sequence, 0, level.index)?;
            passed = levels.get(depth + 1).map_or(0, |inner| inner.iteration);
        }
        Ok(())
    }
}

/// An advance completes one step, a checkpoint none.
fn check_count(
    kind: NodeKind,
    own: RecordedPosition<'_>,
    parent: Option<RecordedPosition<'_>>,
) -> Result<(), OrderError> {
    let completed = own.numbers.completed;
    let Some(parent) = parent else {
        return if completed == 0 { Ok(()) } else { Err(OrderError::CountedBeforeStart { completed }) };
    };
    let by_parent = parent.numbers.completed;
    let expected = match kind {
        NodeKind::Step => by_parent.saturating_add(1),
        NodeKind::Checkpoint => by_parent,
    };
    if completed == expected { Ok(()) } else { Err(OrderError::Miscounted { completed, by_parent }) }
}

/// A parent's position, such as "step `b` in iteration 1 of loop `rounds`".
fn described(position: RecordedPosition<'_>) -> String {
    let step = match &position.step_position.progress {
        SnapshotProgress::At(step) => format!("step `{step}`"),
        SnapshotProgress::Complete => "the end".to_owned(),
        SnapshotProgress::NotStarted | SnapshotProgress::WaitsAtNothing => "no step".to_owned(),
    };
    let loops = position.step_position.loops.iter().zip(&position.numbers.iterations).rev();
    let around: String = loops
        .map(|((loop_id, _), iteration)| format!(" in iteration {iteration} of loop `{loop_id}`"))
        .collect();
    step + &around
}
