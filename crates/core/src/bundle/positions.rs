//! The positions of a bundle's snapshots, merged: as many as their workflows have positions, not as many as there
//! are snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use workrail_model::bundle::BundleSection;
use workrail_model::digest::{SnapshotRef, WorkflowHash};
use workrail_model::snapshot::ExecutionSnapshot;

use super::BundleError;
use super::checked::SnapshotSummary;
use crate::interpret::{PositionNumbers, Positions, StepPosition, position};

/// Memory limit for the positions of one bundle. Those of the largest workflow take less.
const POSITIONS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The size of a position besides its names.
const POSITION_BYTES: usize = 160;
const LOOP_BYTES: usize = 96;

#[derive(Clone, Debug, Default)]
pub(super) struct BundlePositions {
    /// Each position with the largest numbers found there, and a snapshot that has it.
    step_positions: BTreeMap<WorkflowHash, BTreeMap<Arc<StepPosition>, (PositionNumbers, SnapshotRef)>>,
    bytes: usize,
}

impl BundlePositions {
    /// Adds the position of a snapshot, and returns what the snapshot is compared with later.
    pub(super) fn add(
        &mut self,
        reference: SnapshotRef,
        snapshot: &ExecutionSnapshot,
    ) -> Result<SnapshotSummary, BundleError> {
        let workflow = snapshot.workflow_hash;
        let (step_position, numbers) = position(snapshot.state());
        let step_positions = self.step_positions.entry(workflow).or_default();
        let known = step_positions.get_key_value(&step_position).map(|(known, _)| Arc::clone(known));
        if let Some(step_position) = known {
            if let Some((largest, _)) = step_positions.get_mut(&step_position) {
                largest.join(&numbers);
            }
            return Ok(SnapshotSummary { workflow, step_position, numbers });
        }
        self.bytes += POSITION_BYTES + step_position.loops.len() * LOOP_BYTES;
        if self.bytes > POSITIONS_BYTES_MAX {
            let what = "adds one position too many: no workflow has that many";
            return Err(BundleError::format(BundleSection::Snapshot(reference), what));
        }
        let step_position = Arc::new(step_position);
        step_positions.insert(Arc::clone(&step_position), (numbers.clone(), reference));
        Ok(SnapshotSummary { workflow, step_position, numbers })
    }

    /// Checks every position that belongs to this workflow.
    pub(super) fn check(&self, hash: WorkflowHash, positions: &Positions) -> Result<(), BundleError> {
        let step_positions = self.step_positions.get(&hash).into_iter().flatten();
        for (step_position, (numbers, reference)) in step_positions {
            positions
                .check(step_position, numbers)
                .map_err(|error| BundleError::format(BundleSection::Snapshot(*reference), error))?;
        }
        Ok(())
    }
}
