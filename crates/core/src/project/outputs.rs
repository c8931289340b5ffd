//! Notes and artifacts: what is current on a node, and what a branch contributes.
//!
//! Two forks of one node never mix their notes (G51): along a path, a node contributes only the outputs
//! of the attempt that made the edge to the next node of this path. Checkpoints are shared: they belong to
//! the step, not to the attempt that later completed it.

use serde::{Deserialize, Serialize};
use workrail_model::event::{EventIndex, NodeKind, NodeOutputAppended, OutputChannel, OutputPayload};
use workrail_model::id::{AttemptId, NodeId, OutputId};

use super::dag::NodeIx;
use super::per_node::PerNode;
use super::{FoldError, NodeState, SessionState};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputState {
    pub id: OutputId,
    pub channel: OutputChannel,
    pub payload: OutputPayload,
    /// The attempt that produced it; absent for outputs that apply to every branch.
    pub attempt: Option<AttemptId>,
    pub index: EventIndex,
    /// A later output of the node corrects this one.
    pub superseded: bool,
}

/// An output and the node it is attached to: a step of the path, or a checkpoint of such a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathOutput<'a> {
    pub node: &'a NodeState,
    pub output: &'a OutputState,
}

/// A step of a path with its outputs there.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep<'a> {
    pub node: &'a NodeState,
    pub outputs: Vec<PathOutput<'a>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedOutputs {
    of_nodes: PerNode<OutputState>,
    /// Notes that belong to no run, oldest first.
    of_session: Vec<OutputState>,
}

fn state(index: EventIndex, appended: &NodeOutputAppended) -> OutputState {
    OutputState {
        id: appended.output_id,
        channel: appended.output_channel,
        payload: appended.payload.clone(),
        attempt: appended.attempt_id,
        index,
        superseded: false,
    }
}

impl RecordedOutputs {
    pub(super) fn is_readable(&self) -> bool {
        self.of_nodes.is_readable()
    }

    pub(super) fn append(
        &mut self,
        index: EventIndex,
        ix: NodeIx,
        appended: &NodeOutputAppended,
    ) -> Result<(), FoldError> {
        if let Some(output) = appended.supersedes_output_id {
            // A correction comes only a few outputs after what it corrects, so the search is short.
            let Some(old) = self.of_nodes.get_mut(ix).iter_mut().rev().find(|old| old.id == output) else {
                return Err(self.not_on_node(index, output));
            };
            if old.channel != appended.output_channel {
                return Err(FoldError::OutputOfAnotherChannel { index, output });
            }
            old.superseded = true;
        }
        self.of_nodes.push(ix, state(index, appended));
        Ok(())
    }

    /// Session notes are never corrected, so nothing is looked up.
    pub(super) fn append_to_session(
        &mut self,
        index: EventIndex,
        appended: &NodeOutputAppended,
    ) -> Result<(), FoldError> {
        if let Some(output) = appended.supersedes_output_id {
            return Err(FoldError::UnknownOutput { index, output });
        }
        self.of_session.push(state(index, appended));
        Ok(())
    }

    /// Only a refused event, which ends the fold, pays for this search.
    fn not_on_node(&self, index: EventIndex, output: OutputId) -> FoldError {
        let elsewhere = self.of_nodes.iter().any(|(_, outputs)| outputs.iter().any(|old| old.id == output));
        if elsewhere {
            FoldError::OutputOfAnotherNode { index, output }
        } else {
            FoldError::UnknownOutput { index, output }
        }
    }
}

impl SessionState {
    /// All outputs of the node, oldest first, superseded ones included.
    pub fn outputs(&self, node: NodeId) -> &[OutputState] {
        self.dag.find(node).map_or(&[], |ix| self.outputs.of_nodes.get(ix))
    }

    /// What was recorded for the session itself, outside any run, oldest first.
    pub(crate) fn session_outputs(&self) -> &[OutputState] {
        &self.outputs.of_session
    }

    /// Outputs that are not superseded; with an attempt, only its own and those of no attempt.
    pub(crate) fn current_outputs(
        &self,
        node: NodeId,
        attempt: Option<AttemptId>,
    ) -> impl DoubleEndedIterator<Item = &OutputState> {
        let wanted = move |output: &OutputState| {
            !output.superseded && (attempt.is_none() || output.attempt.is_none() || output.attempt == attempt)
        };
        self.outputs(node).iter().filter(move |output| wanted(output))
    }

    /// The outputs of the node's branch up to the node, oldest first.
    #[cfg(test)]
    pub(crate) fn path_outputs(&self, node: NodeId) -> Vec<PathOutput<'_>> {
        let mut found: Vec<PathOutput<'_>> = self.path_steps(node).flat_map(|step| step.outputs).collect();
        found.sort_by_key(|entry| entry.output.index);
        found
    }

    /// The steps of the node's path from the node to the root, each with its outputs, oldest first.
    ///
    /// Every step of the path to the root contributes the current outputs of the attempt that led on to
    /// the next node of the path, those without an attempt, and those of its checkpoints (G51).
    /// The step at the end was not completed on this path: it contributes no attempt's outputs.
    ///
    /// Lazy, so that a reader who wants the newest few does not pay for the whole history (G23).
    pub(crate) fn path_steps(&self, node: NodeId) -> impl Iterator<Item = PathStep<'_>> {
        // The path's checkpoints below the current step, with the attempt that led on from each.
        let mut below: Vec<(NodeId, Option<AttemptId>)> = Vec::new();
        let mut led_to_previous: Option<AttemptId> = None;
        self.ancestors(node).filter_map(move |at| {
            let led_on = std::mem::replace(&mut led_to_previous, at.edge.and_then(|edge| edge.attempt));
            let is_step = at.kind == NodeKind::Step || at.parent.is_none();
            if !is_step {
                below.push((at.node_id, led_on));
                return None;
            }
            let mut outputs = Vec::new();
            self.collect_outputs(at, |attempt| Some(attempt) == led_on, &mut outputs);
            for checkpoint in at.links.checkpoints.iter().map(|ix| self.dag.node(*ix)) {
                let id = checkpoint.node_id;
                let checkpoint_led_on =
                    below.iter().find(|(checkpoint, _)| *checkpoint == id).and_then(|(_, attempt)| *attempt);
                // The checkpoint's own outputs come from an attempt without an advance.
                let own = |attempt| self.advance(id, attempt).is_none() || Some(attempt) == checkpoint_led_on;
                self.collect_outputs(checkpoint, own, &mut outputs);
            }
            below.clear();
            outputs.sort_by_key(|entry| entry.output.index);
            Some(PathStep { node: at, outputs })
        })
    }

    /// The outputs on the path to a node, the newest first.
    pub(crate) fn newest_outputs(&self, node: NodeId) -> impl Iterator<Item = &OutputState> {
        self.path_steps(node).flat_map(|step| step.outputs.into_iter().rev()).map(|entry| entry.output)
    }

    fn collect_outputs<'a>(
        &'a self,
        node: &'a NodeState,
        wanted: impl Fn(AttemptId) -> bool,
        found: &mut Vec<PathOutput<'a>>,
    ) {
        let current = self.outputs(node.node_id).iter().filter(|output| !output.superseded);
        let visible = current.filter(|output| output.attempt.is_none_or(&wanted));
        found.extend(visible.map(|output| PathOutput { node, output }));
    }
}
