//! Recomputes damaged content from recorded facts (G27). The caller compares digests:
//! a wrong candidate is dropped, never stored.

use serde_json::Value;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::WorkflowHash;
use workrail_model::id::NodeId;
use workrail_model::snapshot::{EngineState, ExecutionSnapshot};

use crate::interpret::{self, Strictness};
use crate::project::SessionState;

/// What is known about a node whose snapshot is lost.
#[derive(Debug)]
pub struct LostSnapshot<'a> {
    pub facts: &'a SessionState,
    pub node: NodeId,
    pub workflow_hash: WorkflowHash,
    pub workflow: &'a CompiledWorkflow,
    /// The state at the node's parent; `None` for a root.
    pub parent: Option<&'a EngineState>,
    /// The artifacts with which the parent was completed.
    pub artifacts: &'a [Value],
}

/// Canonical bytes of snapshots that the node may have had. Its digest says which one it had.
pub fn snapshots(lost: &LostSnapshot<'_>) -> Vec<Vec<u8>> {
    let Ok(context) = lost.facts.context_at(lost.node) else { return Vec::new() };
    // How strict the walk was depends on preferences that may have changed since.
    let selections = [Strictness::Blocking, Strictness::NeverStop].map(|strictness| match lost.parent {
        None => interpret::start_in(strictness, lost.workflow, &context),
        Some(state) => interpret::advance_in(strictness, lost.workflow, state, &context, lost.artifacts),
    });
    let states = selections.into_iter().flatten().map(|selection| selection.state);
    states
        // A checkpoint has the state of its parent.
        .chain(lost.parent.cloned())
        .filter_map(|state| ExecutionSnapshot::new(lost.workflow_hash, state).ok()?.to_canonical().ok())
        .collect()
}
