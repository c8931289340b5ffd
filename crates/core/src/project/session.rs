//! The session's state and the one function that changes it.
//!
//! Each event is checked against the state before anything is changed, so that a refused event leaves
//! no trace.

use serde::{Deserialize, Serialize};
use workrail_model::event::{Activity, Event, EventData, EventIndex, NodeCreated, RunStarted, Scope};
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::time::Timestamp;

use super::FoldError;
use super::advances::Advances;
use super::context::Contexts;
use super::dag::{Dag, EdgeInfo, NodeIx, NodeLinks, NodeState};
use super::facts::{Facts, Recorded};
use super::gaps::Gaps;
use super::modes::Modes;
use super::observations::Observations;
use super::outputs::RecordedOutputs;
use super::run::Runs;

/// Everything that a session's events say, folded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    session_id: SessionId,
    next_index: EventIndex,
    last_activity: Option<Activity>,
    last_at: Option<Timestamp>,
    is_imported: bool,
    pub(super) runs: Runs,
    pub(super) dag: Dag,
    pub(super) advances: Advances,
    pub(super) outputs: RecordedOutputs,
    pub(super) contexts: Contexts,
    pub(super) gaps: Gaps,
    pub(super) modes: Modes,
    pub(super) facts: Facts,
    pub(super) observations: Observations,
}

/// The node that an event is scoped to.
#[derive(Clone, Copy, Debug)]
struct ScopedNode {
    index: EventIndex,
    run: RunId,
    node: NodeId,
    ix: NodeIx,
}

impl ScopedNode {
    fn record<T: Clone>(&self, data: &T) -> Recorded<T> {
        Recorded { node_id: self.node, index: self.index, data: data.clone() }
    }
}

impl SessionState {
    pub fn new(session: SessionId) -> Self {
        Self {
            session_id: session,
            next_index: EventIndex::ZERO,
            last_activity: None,
            last_at: None,
            is_imported: false,
            runs: Runs::default(),
            dag: Dag::default(),
            advances: Advances::default(),
            outputs: RecordedOutputs::default(),
            contexts: Contexts::default(),
            gaps: Gaps::default(),
            modes: Modes::default(),
            facts: Facts::default(),
            observations: Observations::default(),
        }
    }

    pub fn from_events(session: SessionId, events: &[Event]) -> Result<Self, FoldError> {
        let mut state = Self::new(session);
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    pub fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Whether the session was imported from a bundle.
    pub(crate) fn is_imported(&self) -> bool {
        self.is_imported
    }

    /// Whether every fact accessed so far could be read from the cache that the state came from. If not, answers
    /// may be incomplete: the state must be dropped and the log folded again.
    pub fn is_readable(&self) -> bool {
        self.advances.is_readable()
            && self.outputs.is_readable()
            && self.contexts.is_readable()
            && self.modes.is_readable()
            && self.facts.is_readable()
    }

    /// The index that the next event must have.
    pub fn next_event_index(&self) -> EventIndex {
        self.next_index
    }

    /// The store-wide number of the last event that had one; ranks sessions by recency (G7).
    pub(crate) fn last_activity(&self) -> Option<Activity> {
        self.last_activity
    }

    /// The time of the last event that had one; shown, and otherwise used only by retention.
    pub fn last_at(&self) -> Option<&Timestamp> {
        self.last_at.as_ref()
    }

    /// Folds the next event. A refused one changes nothing.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        let index = event.event_index;
        if event.session_id != self.session_id {
            let (expected, found) = (self.session_id, event.session_id);
            return Err(FoldError::WrongSession { index, expected, found });
        }
        if index != self.next_index {
            return Err(FoldError::WrongIndex { index, expected: self.next_index });
        }
        let touched = self.fold(event)?;
        self.next_index = index.plus(1);
        // In a database, servers that race for a session may record their numbers in another order.
        self.last_activity = event.activity.max(self.last_activity);
        if let Some(at) = &event.at {
            self.last_at = Some(at.clone());
        }
        if let Some(run) = event.scope.run().and_then(|run| self.runs.get_mut(run)) {
            run.reopen_or_close(event);
            run.last_activity = event.activity.max(run.last_activity);
            if let Some(at) = &event.at {
                run.last_at = Some(at.clone());
            }
            if let Some(actor) = &event.actor {
                run.last_actor = Some(actor.to_string());
            }
            if touched.is_some() {
                run.touched = touched;
                run.touched_index = Some(index);
            }
        }
        Ok(())
    }

    /// Checks and folds the payload; returns the node it touches.
    fn fold(&mut self, event: &Event) -> Result<Option<NodeIx>, FoldError> {
        let index = event.event_index;
        match &event.data {
            EventData::SessionCreated(created) => {
                self.is_imported = created.imported_from.is_some();
                Ok(None)
            }
            EventData::RunStarted(started) => self.start_run(event, started).map(|()| None),
            EventData::NodeCreated(created) => self.create_node(event, created).map(Some),
            EventData::EdgeCreated(edge) => {
                let to = self.dag.check_edge(index, self.scoped_run(event)?, edge)?;
                let attempt = self.advances.take_awaited(edge.to_node_id);
                self.dag.set_edge(to, EdgeInfo { kind: edge.edge_kind, cause: edge.cause, index, attempt });
                Ok(Some(to))
            }
            EventData::ContextSet(set) => {
                let run = self.scoped_run(event)?;
                let ix = self.node_of_run(index, run, set.node_id)?;
                self.contexts.set(&self.dag, index, ix, set);
                Ok(Some(ix))
            }
            EventData::ObservationRecorded(observed) => {
                let run = event.scope.run().map(|_| self.scoped_run(event)).transpose()?;
                let node = run.zip(event.scope.node());
                let touched = node.map(|(run, node)| self.node_of_run(index, run, node)).transpose()?;
                self.observations.record(index, observed);
                Ok(touched)
            }
            EventData::NodeOutputAppended(output) if event.scope == Scope::Session => {
                self.outputs.append_to_session(index, output).map(|()| None)
            }
            EventData::AdvanceRecorded(_)
            | EventData::NodeOutputAppended(_)
            | EventData::PreferencesChanged(_)
            | EventData::CapabilityObserved(_)
            | EventData::GapRecorded(_)
            | EventData::DivergenceRecorded(_)
            | EventData::DecisionTraceAppended(_)
            | EventData::ValidationPerformed(_)
            | EventData::AssessmentRecorded(_)
            | EventData::AssessmentConsequenceApplied(_)
            | EventData::ApprovalRecorded(_)
            | EventData::EvidenceRecorded(_)
            | EventData::RunClosed(_) => {
                let at = self.scoped_node(event)?;
                self.fold_on_node(at, &event.data)?;
                Ok(Some(at.ix))
            }
        }
    }

    fn fold_on_node(&mut self, at: ScopedNode, data: &EventData) -> Result<(), FoldError> {
        let ScopedNode { index, ix, .. } = at;
        match data {
            EventData::AdvanceRecorded(advance) => {
                return self.advances.record(&mut self.dag, index, ix, advance);
            }
            EventData::NodeOutputAppended(output) => return self.outputs.append(index, ix, output),
            EventData::GapRecorded(gap) => return self.gaps.record(index, at.run, at.node, gap),
            EventData::PreferencesChanged(change) => self.modes.change(&self.dag, ix, at.record(change)),
            EventData::CapabilityObserved(observed) => self.modes.observe(&self.dag, index, ix, observed),
            EventData::DivergenceRecorded(data) => {
                self.facts.divergences.entry(at.run).or_default().push(at.record(data));
            }
            EventData::DecisionTraceAppended(data) => self.facts.traces.push(ix, at.record(data)),
            EventData::ValidationPerformed(data) => self.facts.validations.push(ix, at.record(data)),
            EventData::AssessmentRecorded(data) => self.facts.assessments.push(ix, at.record(data)),
            EventData::AssessmentConsequenceApplied(data) => {
                self.facts.consequences.push(ix, at.record(data))
            }
            EventData::ApprovalRecorded(data) => self.facts.approvals.push(ix, at.record(data)),
            EventData::EvidenceRecorded(data) => self.facts.evidence.push(ix, at.record(data)),
            // About the run as a whole: handled by `apply`.
            EventData::RunClosed(_) => {}
            // Not about one existing node: handled by `fold`.
            EventData::SessionCreated(_)
            | EventData::ObservationRecorded(_)
            | EventData::RunStarted(_)
            | EventData::NodeCreated(_)
            | EventData::EdgeCreated(_)
            | EventData::ContextSet(_) => {}
        }
        Ok(())
    }

    fn start_run(&mut self, event: &Event, started: &RunStarted) -> Result<(), FoldError> {
        let index = event.event_index;
        let run = event.scope.run().ok_or(FoldError::WrongScope { index, kind: event.kind() })?;
        if self.runs.get(run).is_some() {
            return Err(FoldError::DuplicateRun { index, run });
        }
        if let Some(parent) = started.parent {
            if self.runs.get(parent.run_id).is_none() {
                return Err(FoldError::UnknownRun { index, run: parent.run_id });
            }
            self.node_of_run(index, parent.run_id, parent.node_id)?;
        }
        self.runs.start(run, index, started);
        Ok(())
    }

    fn create_node(&mut self, event: &Event, created: &NodeCreated) -> Result<NodeIx, FoldError> {
        let index = event.event_index;
        let run_id = self.scoped_run(event)?;
        let node = event.scope.node().ok_or(FoldError::WrongScope { index, kind: event.kind() })?;
        let run = self.runs.get(run_id).ok_or(FoldError::UnknownRun { index, run: run_id })?;
        if self.dag.find(node).is_some() {
            return Err(FoldError::DuplicateNode { index, node });
        }
        if created.workflow_hash != run.workflow_hash {
            let (expected, found) = (run.workflow_hash, created.workflow_hash);
            return Err(FoldError::WorkflowHash { index, run: run_id, expected, found });
        }
        let parent_ix = match created.parent_node_id {
            None if run.root.is_some() => return Err(FoldError::SecondRoot { index, run: run_id, node }),
            None => None,
            Some(parent) => {
                let ix = self.dag.find(parent).ok_or(FoldError::UnknownNode { index, node: parent })?;
                if self.dag.node(ix).run_id != run_id {
                    return Err(FoldError::ParentOfAnotherRun { index, run: run_id, parent });
                }
                Some(ix)
            }
        };
        self.advances.check_node(index, node, created.parent_node_id, created.node_kind)?;
        let ix = self.dag.insert(NodeState {
            node_id: node,
            run_id,
            kind: created.node_kind,
            parent: created.parent_node_id,
            snapshot_ref: created.snapshot_ref,
            created_index: index,
            created_by: event.event_id,
            edge: None,
            checkpoint: created.checkpoint,
            children: Vec::new(),
            depth: 0,
            step_number: 0,
            links: NodeLinks::default(),
        });
        self.contexts.node_created(parent_ix);
        self.modes.node_created(parent_ix);
        if let Some(run) = self.runs.get_mut(run_id).filter(|_| parent_ix.is_none()) {
            run.root = Some(node);
        }
        Ok(ix)
    }

    fn scoped_run(&self, event: &Event) -> Result<RunId, FoldError> {
        let index = event.event_index;
        let run = event.scope.run().ok_or(FoldError::WrongScope { index, kind: event.kind() })?;
        self.runs.get(run).map(|_| run).ok_or(FoldError::UnknownRun { index, run })
    }

    fn scoped_node(&self, event: &Event) -> Result<ScopedNode, FoldError> {
        let index = event.event_index;
        let run = self.scoped_run(event)?;
        let node = event.scope.node().ok_or(FoldError::WrongScope { index, kind: event.kind() })?;
        Ok(ScopedNode { index, run, node, ix: self.node_of_run(index, run, node)? })
    }

    fn node_of_run(&self, index: EventIndex, run: RunId, node: NodeId) -> Result<NodeIx, FoldError> {
        let ix = self.dag.find(node).ok_or(FoldError::UnknownNode { index, node })?;
        if self.dag.node(ix).run_id != run {
            return Err(FoldError::NodeOfAnotherRun { index, run, node });
        }
        Ok(ix)
    }
}
