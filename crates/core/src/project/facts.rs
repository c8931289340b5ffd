//! Facts that are kept as recorded: approvals, divergences, assessments, validations, traces.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use workrail_model::event::{
    ApprovalRecorded, AssessmentConsequenceApplied, AssessmentRecorded, DecisionTraceAppended,
    DivergenceRecorded, EventIndex, EvidenceRecorded, ValidationPerformed,
};
use workrail_model::id::{AttemptId, NodeId, RunId};
use workrail_model::name::StepId;

use super::SessionState;
use super::per_node::PerNode;

/// A payload with its node and its position in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded<T> {
    pub node_id: NodeId,
    pub index: EventIndex,
    pub data: T,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts {
    pub(super) approvals: PerNode<Recorded<ApprovalRecorded>>,
    pub(super) divergences: BTreeMap<RunId, Vec<Recorded<DivergenceRecorded>>>,
    pub(super) assessments: PerNode<Recorded<AssessmentRecorded>>,
    pub(super) consequences: PerNode<Recorded<AssessmentConsequenceApplied>>,
    pub(super) validations: PerNode<Recorded<ValidationPerformed>>,
    pub(super) evidence: PerNode<Recorded<EvidenceRecorded>>,
    /// Not saved with a state: only reports need them, and reports read the whole log. They are more than a third of
    /// what a long run records.
    #[serde(skip)]
    pub(super) traces: PerNode<Recorded<DecisionTraceAppended>>,
}

impl Facts {
    pub(super) fn is_readable(&self) -> bool {
        let Self { approvals, divergences: _, assessments, consequences, validations, evidence, traces } =
            self;
        approvals.is_readable()
            && assessments.is_readable()
            && consequences.is_readable()
            && validations.is_readable()
            && evidence.is_readable()
            && traces.is_readable()
    }
}

impl SessionState {
    /// A person's latest decision on the step's gate at this node.
    pub fn approval(&self, node: NodeId, step: &StepId) -> Option<&Recorded<ApprovalRecorded>> {
        self.of_node(&self.facts.approvals, node).iter().rev().find(|approval| approval.data.step_id == *step)
    }

    /// Every decision by a person at this node, oldest first.
    pub(crate) fn approvals(&self, node: NodeId) -> &[Recorded<ApprovalRecorded>] {
        self.of_node(&self.facts.approvals, node)
    }

    /// The run's recorded divergences, oldest first.
    pub(crate) fn divergences(&self, run: RunId) -> &[Recorded<DivergenceRecorded>] {
        self.facts.divergences.get(&run).map_or(&[], Vec::as_slice)
    }

    /// The assessments accepted in one attempt, oldest first.
    pub(crate) fn assessments(
        &self,
        node: NodeId,
        attempt: AttemptId,
    ) -> impl DoubleEndedIterator<Item = &Recorded<AssessmentRecorded>> {
        let all = self.of_node(&self.facts.assessments, node);
        all.iter().filter(move |record| record.data.attempt_id == attempt)
    }

    /// The consequences of one attempt's assessments, oldest first.
    pub(crate) fn consequences(
        &self,
        node: NodeId,
        attempt: AttemptId,
    ) -> impl DoubleEndedIterator<Item = &Recorded<AssessmentConsequenceApplied>> {
        let all = self.of_node(&self.facts.consequences, node);
        all.iter().filter(move |record| record.data.attempt_id == attempt)
    }

    /// The node's validations over all attempts, oldest first.
    pub(crate) fn validations(&self, node: NodeId) -> &[Recorded<ValidationPerformed>] {
        self.of_node(&self.facts.validations, node)
    }

    /// What is known of the node's work besides what was sent, over all attempts, oldest first.
    pub(crate) fn evidence(&self, node: NodeId) -> &[Recorded<EvidenceRecorded>] {
        self.of_node(&self.facts.evidence, node)
    }

    /// Why the engine chose what it chose at this node, oldest first. Complete only in a state folded from the
    /// whole log.
    pub(crate) fn trace(&self, node: NodeId) -> &[Recorded<DecisionTraceAppended>] {
        self.of_node(&self.facts.traces, node)
    }

    fn of_node<'a, T: DeserializeOwned>(&self, facts: &'a PerNode<T>, node: NodeId) -> &'a [T] {
        self.dag.find(node).map_or(&[], |ix| facts.get(ix))
    }
}
