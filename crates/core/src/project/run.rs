//! The runs of a session, in the order of their start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::event::{
    Activity, CloseChannel, Event, EventData, EventIndex, KeyedStart, ParentLink, RunStarted,
    WorkflowSourceKind,
};
use workrail_model::id::{NodeId, RunId};
use workrail_model::limits::SUMMARY_BYTES_MAX;
use workrail_model::name::WorkflowId;
use workrail_model::text::BoundedText;
use workrail_model::time::Timestamp;

use super::SessionState;
use super::dag::NodeIx;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    /// What is executed; the source only says where it came from.
    pub workflow_hash: WorkflowHash,
    pub source_kind: WorkflowSourceKind,
    pub source_ref: BoundedText<512>,
    /// Absent for a run that was started before digests were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_digest: Option<Sha256>,
    /// The step of another run inside which this one was started.
    pub parent: Option<ParentLink>,
    /// Used to answer a repeated start with the same idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyed: Option<KeyedStart>,
    pub root: Option<NodeId>,
    pub started_at_index: EventIndex,
    /// The store-wide number of the last event of this run that had one.
    pub last_activity: Option<Activity>,
    /// The time of the last event of this run that had one; shown, never compared.
    pub last_at: Option<Timestamp>,
    /// Who caused the last event of this run that names somebody (G114).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_actor: Option<String>,
    /// Set if a person closed it and nothing of it was recorded since (G65).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closing>,
    /// How often it was closed, including times it was reopened.
    #[serde(default)]
    pub(crate) closings: u32,
    /// The last event that touched a node of this run, and the node; the preferred tip is derived from it.
    pub(super) touched_index: Option<EventIndex>,
    pub(super) touched: Option<NodeIx>,
}

/// A person's decision that a run will not be finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Closing {
    pub reason: BoundedText<SUMMARY_BYTES_MAX>,
    pub channel: CloseChannel,
    pub at: Option<Timestamp>,
}

impl RunState {
    /// Handles an event of this run: anything recorded after a closing reopens it, except observations, which say
    /// nothing about the run itself.
    pub(super) fn reopen_or_close(&mut self, event: &Event) {
        match &event.data {
            EventData::RunClosed(closed) => {
                self.closings = self.closings.saturating_add(1);
                let (reason, channel) = (closed.reason.clone(), closed.channel);
                self.closed = Some(Closing { reason, channel, at: event.at.clone() });
            }
            EventData::ObservationRecorded(_) => {}
            EventData::SessionCreated(_)
            | EventData::RunStarted(_)
            | EventData::NodeCreated(_)
            | EventData::EdgeCreated(_)
            | EventData::AdvanceRecorded(_)
            | EventData::NodeOutputAppended(_)
            | EventData::PreferencesChanged(_)
            | EventData::CapabilityObserved(_)
            | EventData::GapRecorded(_)
            | EventData::DivergenceRecorded(_)
            | EventData::DecisionTraceAppended(_)
            | EventData::ContextSet(_)
            | EventData::ValidationPerformed(_)
            | EventData::AssessmentRecorded(_)
            | EventData::AssessmentConsequenceApplied(_)
            | EventData::ApprovalRecorded(_)
            | EventData::EvidenceRecorded(_) => self.closed = None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Vec<RunState>")]
pub(super) struct Runs {
    states: Vec<RunState>,
    ids: BTreeMap<RunId, usize>,
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.states.serialize(serializer)
    }
}

impl From<Vec<RunState>> for Runs {
    fn from(states: Vec<RunState>) -> Self {
        let ids = states.iter().enumerate().map(|(position, run)| (run.run_id, position)).collect();
        Self { states, ids }
    }
}

impl Runs {
    pub(super) fn get(&self, id: RunId) -> Option<&RunState> {
        self.ids.get(&id).and_then(|position| self.states.get(*position))
    }

    pub(super) fn get_mut(&mut self, id: RunId) -> Option<&mut RunState> {
        self.ids.get(&id).and_then(|position| self.states.get_mut(*position))
    }

    pub(super) fn start(&mut self, id: RunId, index: EventIndex, started: &RunStarted) {
        self.ids.insert(id, self.states.len());
        self.states.push(RunState {
            run_id: id,
            workflow_id: started.workflow_id.clone(),
            workflow_hash: started.workflow_hash,
            source_kind: started.workflow_source_kind,
            source_ref: started.workflow_source_ref.clone(),
            source_digest: started.workflow_source_digest,
            parent: started.parent,
            keyed: started.keyed,
            root: None,
            started_at_index: index,
            last_activity: None,
            last_at: None,
            last_actor: None,
            closed: None,
            closings: 0,
            touched_index: None,
            touched: None,
        });
    }
}

impl SessionState {
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &RunState> + ExactSizeIterator {
        self.runs.states.iter()
    }

    pub fn run(&self, id: RunId) -> Option<&RunState> {
        self.runs.get(id)
    }
}
