//! A log under construction: assigns indexes and ids to events, and knows the form of whole plans.
//!
//! Unlike the histories of the testkit, which contain only what the core decides: the fold is also tested on logs
//! that no decision writes, such as a record after its edge, a context that is set late, or an event that contradicts
//! the log.

use serde_json::Value;
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, Descent};
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer, BlockerReport};
use workrail_model::capability::{
    Capability, CapabilityStatus, Claim, ClaimDetail, Claimant, EnforcementGrade, Provenance,
};
use workrail_model::digest::{Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{
    Activity, AdvanceIntent, AdvanceOutcome, AdvanceRecorded, ApprovalRecorded, CapabilityObserved,
    Confidence, Context, ContextSet, ContextSource, DedupeKey, EdgeCause, EdgeCauseKind, EdgeCreated,
    EdgeKind, Event, EventData, EventIndex, GapRecorded, NodeCreated, NodeKind, NodeOutputAppended,
    ObservationKey, ObservationRecorded, ObservationValue, OutputPayload, ParentLink, PreferencesChanged,
    RunStarted, Scope, SessionCreated, WorkflowSourceKind,
};
use workrail_model::gap::{Resolution, Severity};
use workrail_model::id::{
    ApprovalId, AttemptId, CapObsId, ChangeId, ContextId, EventId, GapId, NodeId, OutputId, RunId, SessionId,
};
use workrail_model::name::{StepId, WorkflowId};
use workrail_model::preferences::{PreferenceChange, PreferenceSource, Preferences};
use workrail_model::reason::Reason;
use workrail_model::text::BoundedText;
use workrail_model::time::Timestamp;

use crate::project::SessionState;

#[derive(Clone, Debug)]
pub(super) struct EventLog {
    pub(super) events: Vec<Event>,
    minted: u64,
}

/// The position of an advance's record among the events of its plan; both orders are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordPosition {
    First,
    Last,
}

pub(super) fn session() -> SessionId {
    SessionId::from_bits([7; 10])
}

pub(super) fn workflow() -> WorkflowHash {
    WorkflowHash::of(b"workflow")
}

pub(super) fn context(value: Value) -> Context {
    Context::new(value.as_object().unwrap().clone()).unwrap()
}

pub(super) fn step() -> StepId {
    StepId::parse("step").unwrap()
}

impl EventLog {
    pub(super) fn new() -> Self {
        let mut log = Self { events: Vec::new(), minted: 0 };
        log.push(Scope::Session, EventData::SessionCreated(SessionCreated::default()));
        log
    }

    pub(super) fn state(&self) -> SessionState {
        SessionState::from_events(session(), &self.events).unwrap()
    }

    /// Scattered, so that ids do not sort in order of creation.
    pub(super) fn bits(&mut self) -> [u8; 10] {
        self.minted += 1;
        let mut bits = [0; 10];
        bits.copy_from_slice(&Sha256::of(&self.minted.to_be_bytes()).as_bytes()[..10]);
        bits
    }

    pub(super) fn attempt(&mut self) -> AttemptId {
        let bits = self.bits();
        AttemptId::from_bits(u64::from_be_bytes([0, 0, 0, bits[0], bits[1], bits[2], bits[3], bits[4]]))
    }

    pub(super) fn event(&mut self, scope: Scope, data: EventData) -> Event {
        let index = self.events.len() as u64;
        let event = Event {
            event_id: EventId::from_bits(self.bits()),
            event_index: EventIndex::new(index).unwrap(),
            session_id: session(),
            scope,
            dedupe_key: DedupeKey::of(session(), scope, &data),
            at: index.is_multiple_of(3).then(|| Timestamp::parse("2026-01-31T23:59:59.999Z").unwrap()),
            activity: index.is_multiple_of(2).then(|| Activity::new(1000 + index).unwrap()),
            actor: None,
            data,
        };
        event.check().unwrap();
        event
    }

    pub(super) fn push(&mut self, scope: Scope, data: EventData) -> EventIndex {
        let event = self.event(scope, data);
        let index = event.event_index;
        self.events.push(event);
        index
    }

    pub(super) fn open_run(&mut self, parent: Option<ParentLink>) -> RunId {
        let run = RunId::from_bits(self.bits());
        self.push(
            Scope::Run(run),
            EventData::RunStarted(RunStarted {
                workflow_id: WorkflowId::parse("test.workflow").unwrap(),
                workflow_hash: workflow(),
                workflow_source_kind: WorkflowSourceKind::Project,
                workflow_source_ref: BoundedText::clip("workflows/test.json"),
                workflow_source_digest: None,
                parent,
                keyed: None,
            }),
        );
        run
    }

    /// A run with its root.
    pub(super) fn start_run(&mut self) -> (RunId, NodeId) {
        let run = self.open_run(None);
        let root = self.node(run, None, NodeKind::Step);
        (run, root)
    }

    pub(super) fn node_data(parent: Option<NodeId>, kind: NodeKind) -> EventData {
        EventData::NodeCreated(NodeCreated {
            node_kind: kind,
            parent_node_id: parent,
            workflow_hash: workflow(),
            snapshot_ref: SnapshotRef::of(b"snapshot"),
            checkpoint: None,
        })
    }

    pub(super) fn node(&mut self, run: RunId, parent: Option<NodeId>, kind: NodeKind) -> NodeId {
        let node = NodeId::from_bits(self.bits());
        self.push(Scope::Node(run, node), Self::node_data(parent, kind));
        node
    }

    pub(super) fn edge_data(&self, from: NodeId, to: NodeId, kind: EdgeKind) -> EventData {
        let cause = match kind {
            EdgeKind::AckedStep => EdgeCauseKind::AckPending,
            EdgeKind::Checkpoint => EdgeCauseKind::CheckpointCreated,
        };
        EventData::EdgeCreated(EdgeCreated {
            edge_kind: kind,
            from_node_id: from,
            to_node_id: to,
            cause: EdgeCause { kind: cause, event_id: self.events[0].event_id },
        })
    }

    pub(super) fn edge(&mut self, run: RunId, from: NodeId, to: NodeId, kind: EdgeKind) {
        let data = self.edge_data(from, to, kind);
        self.push(Scope::Run(run), data);
    }

    pub(super) fn advanced_data(attempt: AttemptId, to: NodeId) -> EventData {
        Self::advance_data(attempt, AdvanceOutcome::Advanced { to_node_id: to })
    }

    fn advance_data(attempt: AttemptId, outcome: AdvanceOutcome) -> EventData {
        EventData::AdvanceRecorded(AdvanceRecorded {
            attempt_id: attempt,
            intent: AdvanceIntent::AckPending,
            outcome,
            request_digest: Some(Sha256::of(attempt.body().as_bytes())),
            reply_ref: None,
            submitted: None,
        })
    }

    /// A whole advance without outputs: node, edge and record.
    pub(super) fn advance(&mut self, run: RunId, from: NodeId, attempt: AttemptId) -> NodeId {
        self.advance_in_order(run, from, attempt, RecordPosition::Last)
    }

    pub(super) fn advance_in_order(
        &mut self,
        run: RunId,
        from: NodeId,
        attempt: AttemptId,
        record_at: RecordPosition,
    ) -> NodeId {
        let to = NodeId::from_bits(self.bits());
        let record = Self::advanced_data(attempt, to);
        if record_at == RecordPosition::First {
            self.push(Scope::Node(run, from), record.clone());
        }
        self.push(Scope::Node(run, to), Self::node_data(Some(from), NodeKind::Step));
        self.edge(run, from, to, EdgeKind::AckedStep);
        if record_at == RecordPosition::Last {
            self.push(Scope::Node(run, from), record);
        }
        to
    }

    pub(super) fn block(&mut self, run: RunId, node: NodeId, attempt: AttemptId) {
        let blocker = Blocker {
            code: BlockerCode::MissingRequiredNotes,
            pointer: BlockerPointer::WorkflowStep { step_id: step() },
            message: BoundedText::clip("notes are missing"),
            suggested_fix: None,
            decision: None,
        };
        let blockers = BlockerReport::new(vec![blocker]).unwrap();
        self.push(Scope::Node(run, node), Self::advance_data(attempt, AdvanceOutcome::Blocked { blockers }));
    }

    pub(super) fn checkpoint(&mut self, run: RunId, node: NodeId) -> NodeId {
        let checkpoint = self.node(run, Some(node), NodeKind::Checkpoint);
        self.edge(run, node, checkpoint, EdgeKind::Checkpoint);
        checkpoint
    }

    pub(super) fn output_data(
        &mut self,
        payload: OutputPayload,
        attempt: Option<AttemptId>,
        supersedes: Option<OutputId>,
    ) -> (OutputId, EventData) {
        let output_id = OutputId::from_bits(self.bits());
        let data = EventData::NodeOutputAppended(NodeOutputAppended {
            output_id,
            supersedes_output_id: supersedes,
            output_channel: payload.channel(),
            payload,
            attempt_id: attempt,
        });
        (output_id, data)
    }

    pub(super) fn notes(
        &mut self,
        run: RunId,
        node: NodeId,
        text: &str,
        attempt: Option<AttemptId>,
    ) -> OutputId {
        self.corrected_notes(run, node, text, attempt, None)
    }

    pub(super) fn corrected_notes(
        &mut self,
        run: RunId,
        node: NodeId,
        text: &str,
        attempt: Option<AttemptId>,
        supersedes: Option<OutputId>,
    ) -> OutputId {
        let (id, data) = self.output_data(notes_payload(text), attempt, supersedes);
        self.push(Scope::Node(run, node), data);
        id
    }

    pub(super) fn set_context(
        &mut self,
        run: RunId,
        node: NodeId,
        context: Context,
        attempt: Option<AttemptId>,
    ) {
        let context_id = ContextId::from_bits(self.bits());
        let source = ContextSource::AgentDelta;
        let set = ContextSet { context_id, context, source, node_id: node, attempt_id: attempt, proof: None };
        self.push(Scope::Run(run), EventData::ContextSet(set));
    }

    pub(super) fn gap_data(
        &mut self,
        severity: Severity,
        reason: Reason,
        resolves: Option<GapId>,
    ) -> (GapId, EventData) {
        let gap_id = GapId::from_bits(self.bits());
        let resolution = match resolves {
            None => Resolution::Unresolved,
            Some(resolves_gap_id) => Resolution::Resolves { resolves_gap_id },
        };
        let summary = BoundedText::clip("gap");
        let data = GapRecorded {
            gap_id,
            severity,
            reason,
            summary,
            resolution,
            cause: None,
            evidence_refs: Vec::new(),
        };
        (gap_id, EventData::GapRecorded(data))
    }

    pub(super) fn gap(&mut self, run: RunId, node: NodeId, severity: Severity, reason: Reason) -> GapId {
        let (id, data) = self.gap_data(severity, reason, None);
        self.push(Scope::Node(run, node), data);
        id
    }

    pub(super) fn resolve(
        &mut self,
        run: RunId,
        node: NodeId,
        severity: Severity,
        reason: Reason,
        gap: GapId,
    ) {
        let (_, data) = self.gap_data(severity, reason, Some(gap));
        self.push(Scope::Node(run, node), data);
    }

    pub(super) fn prefer(&mut self, run: RunId, node: NodeId, effective: Preferences) {
        let change_id = ChangeId::from_bits(self.bits());
        let delta = vec![PreferenceChange::Autonomy(effective.autonomy)];
        let change =
            PreferencesChanged { change_id, source: PreferenceSource::User, delta, effective, proof: None };
        self.push(Scope::Node(run, node), EventData::PreferencesChanged(change));
    }

    pub(super) fn observe_capability(
        &mut self,
        run: RunId,
        node: NodeId,
        capability: Capability,
        status: CapabilityStatus,
    ) {
        let detail = ClaimDetail { claimed_by: Claimant::Agent, claim: Claim::Available };
        let provenance = Provenance::ManualClaim { enforcement_grade: EnforcementGrade::Weak, detail };
        let cap_obs_id = CapObsId::from_bits(self.bits());
        let data = CapabilityObserved { cap_obs_id, capability, status, provenance };
        self.push(Scope::Node(run, node), EventData::CapabilityObserved(data));
    }

    pub(super) fn observe(&mut self, scope: Scope, key: ObservationKey, value: &str) {
        let observation = ObservationRecorded {
            key,
            value: ObservationValue::ShortString(BoundedText::clip(value)),
            confidence: Confidence::High,
            occurrence: Some(self.events.len() as u32),
        };
        self.push(scope, EventData::ObservationRecorded(observation));
    }

    pub(super) fn approve(&mut self, run: RunId, node: NodeId, step_id: StepId, decision: ApprovalDecision) {
        let approval = ApprovalRecorded {
            approval_id: ApprovalId::from_bits(self.bits()),
            step_id,
            decision,
            channel: ApprovalChannel::Terminal,
            descends_from_server: Descent::Unknown,
            submitted: None,
            note: None,
            proof: None,
        };
        self.push(Scope::Node(run, node), EventData::ApprovalRecorded(approval));
    }
}

pub(super) fn notes_payload(text: &str) -> OutputPayload {
    OutputPayload::Notes { notes_markdown: BoundedText::clip(text), full_text_ref: None }
}

pub(super) fn artifact_payload() -> OutputPayload {
    OutputPayload::ArtifactRef {
        sha256: workrail_model::digest::BlobRef::of(b"artifact"),
        content_type: BoundedText::clip("application/json"),
        byte_length: 8,
    }
}
