//! The positions of a bundle's snapshots, merged: as many as their workflows have positions, not as many as there
//! are snapshots.

use std::collections::BTreeMap;

use workrail_model::bundle::BundleSection;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{SnapshotRef, WorkflowHash};
use workrail_model::snapshot::ExecutionSnapshot;

use super::BundleError;
use crate::interpret::{PositionNumbers, Positions, StepPosition, position};

/// Memory limit for the positions of one bundle. Those of the largest workflow take less.
const POSITIONS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The size of a position besides its names.
const POSITION_BYTES: usize = 160;
const LOOP_BYTES: usize = 96;

#[derive(Clone, Debug, Default)]
pub(super) struct BundlePositions {
    /// Each position with the largest numbers found there, and a snapshot that has it.
    step_positions: BTreeMap<WorkflowHash, BTreeMap<StepPosition, (PositionNumbers, SnapshotRef)>>,
    bytes: usize,
}

impl BundlePositions {
    pub(super) fn add(
        &mut self,
        reference: SnapshotRef,
        snapshot: &ExecutionSnapshot,
    ) -> Result<(), BundleError> {
        let (step_position, progress) = position(snapshot.state());
        let step_positions = self.step_positions.entry(snapshot.workflow_hash).or_default();
        if let Some((known, _)) = step_positions.get_mut(&step_position) {
            known.join(&progress);
            return Ok(());
        }
        self.bytes += POSITION_BYTES + step_position.loops.len() * LOOP_BYTES;
        if self.bytes > POSITIONS_BYTES_MAX {
            let what = "adds one position too many: no workflow has that many";
            return Err(BundleError::format(BundleSection::Snapshot(reference), what));
        }
        step_positions.insert(step_position, (progress, reference));
        Ok(())
    }

    /// Checks every position that belongs to this workflow.
    pub(super) fn check(&self, hash: WorkflowHash, workflow: &CompiledWorkflow) -> Result<(), BundleError> {
        let positions = Positions::of(workflow);
        let step_positions = self.step_positions.get(&hash).into_iter().flatten();
        for (step_position, (progress, reference)) in step_positions {
            positions
                .check(step_position, progress)
                .map_err(|error| BundleError::format(BundleSection::Snapshot(*reference), error))?;
        }
        Ok(())
    }
}
