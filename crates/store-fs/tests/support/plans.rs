//! Small deterministic plans for the store's own tests: an opening, and advances of six events each.

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{
    Activity, AdvanceIntent, AdvanceOutcome, AdvanceRecorded, Confidence, Context, ContextSet, ContextSource,
    DedupeKey, EdgeCause, EdgeCauseKind, EdgeCreated, EdgeKind, Event, EventData, EventIndex, NodeCreated,
    NodeKind, NodeOutputAppended, ObservationKey, ObservationRecorded, ObservationValue, OutputChannel,
    OutputPayload, RunStarted, Scope, SessionCreated, WorkflowSourceKind,
};
use workrail_model::id::{AttemptId, ContextId, EventId, NodeId, OutputId, RunId, SessionId};
use workrail_model::name::{StepId, WorkflowId};
use workrail_model::plan::{AppendPlan, Attachment};
use workrail_model::snapshot::{CompletedSteps, EngineState, ExecutionSnapshot, Pending, PendingStep};
use workrail_model::text::BoundedText;

/// What a plan is made of; unlike the plan it may be used again.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) events: Vec<Event>,
    pub(crate) attachments: Vec<Attachment>,
}

impl Parts {
    pub(crate) fn plan(&self) -> AppendPlan {
        AppendPlan::new(self.events.clone(), self.attachments.clone()).expect("the builder makes valid plans")
    }

    /// The key by which a process names the whole plan.
    pub(crate) fn key(&self) -> String {
        self.events[0].dedupe_key.to_string()
    }
}

/// What an advance carries beside its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    Blob,
    Context,
}

fn bits(label: &str, session: SessionId, salt: u64) -> [u8; 10] {
    let digest = Sha256::of_parts(&[label.as_bytes(), session.to_string().as_bytes(), &salt.to_be_bytes()]);
    let mut bits = [0; 10];
    bits.copy_from_slice(&digest.as_bytes()[..10]);
    bits
}

pub(crate) fn session(number: u64) -> SessionId {
    let mut bits = [0; 10];
    bits[2..].copy_from_slice(&number.to_be_bytes());
    SessionId::from_bits(bits)
}

fn run(session: SessionId) -> RunId {
    RunId::from_bits(bits("run", session, 0))
}

fn node(session: SessionId, salt: u64) -> NodeId {
    NodeId::from_bits(bits("node", session, salt))
}

pub(crate) fn workflow_bytes() -> Vec<u8> {
    let text = r#"{"schemaVersion":1,"renderVersion":1,"workflowId":"test.small","name":"Small",
        "description":"One step.","version":"1.0.0","metricsProfile":"none",
        "recommended":{},"capabilities":{},"features":[],"contracts":[],"refs":[],"references":[],
        "assessments":[],"functions":[],"bindings":[],"conditions":[],"loops":[],
        "plan":[],"steps":[],"compiledWarnings":[]}"#;
    CompiledWorkflow::parse(text.as_bytes()).expect("a small workflow").to_canonical().expect("canonical")
}

fn snapshot(salt: u64) -> Attachment {
    let step_id = StepId::parse(&format!("step-{salt}")).expect("a step id");
    let state = EngineState::Running {
        completed: CompletedSteps::default(),
        loop_stack: Vec::new(),
        pending: Pending::Some { step: PendingStep { step_id, loop_path: Vec::new() } },
    };
    let snapshot = ExecutionSnapshot::new(WorkflowHash::of(&workflow_bytes()), state).expect("a valid state");
    Attachment::snapshot(snapshot.to_canonical().expect("canonical"))
}

struct Builder {
    session: SessionId,
    next: EventIndex,
    salt: u64,
    events: Vec<Event>,
}

impl Builder {
    fn push(&mut self, scope: Scope, data: EventData) -> EventId {
        let label = format!("event {}", self.events.len());
        let event_id = EventId::from_bits(bits(&label, self.session, self.salt));
        self.events.push(Event {
            event_id,
            event_index: self.next.plus(self.events.len() as u64),
            session_id: self.session,
            scope,
            dedupe_key: DedupeKey::of(self.session, scope, &data),
            at: None,
            activity: Activity::new(self.salt + 1),
            data,
        });
        event_id
    }

    fn node_created(&mut self, node: NodeId, parent: Option<NodeId>, snapshot_ref: SnapshotRef) {
        let data = EventData::NodeCreated(NodeCreated {
            node_kind: NodeKind::Step,
            parent_node_id: parent,
            workflow_hash: WorkflowHash::of(&workflow_bytes()),
            snapshot_ref,
        });
        self.push(Scope::Node(run(self.session), node), data);
    }
}

/// The first plan of a session: it exists, runs a workflow and stands at its root.
pub(crate) fn opening(session: SessionId) -> Parts {
    let workflow = Attachment::workflow(workflow_bytes());
    let root = snapshot(0);
    let mut builder = Builder { session, next: EventIndex::ZERO, salt: 0, events: Vec::new() };
    builder.push(Scope::Session, EventData::SessionCreated(SessionCreated {}));
    let started = RunStarted {
        workflow_id: WorkflowId::parse("test.small").expect("a workflow id"),
        workflow_hash: workflow.workflow_hash(),
        workflow_source_kind: WorkflowSourceKind::Bundled,
        workflow_source_ref: BoundedText::clip("test"),
        parent: None,
    };
    builder.push(Scope::Run(run(session)), EventData::RunStarted(started));
    builder.node_created(node(session, 0), None, root.snapshot_ref());
    Parts { events: builder.events, attachments: vec![workflow, root] }
}

/// Six events with one snapshot, from the root to a new node. Different salts give different plans;
/// the same salt at the same index gives the same bytes.
pub(crate) fn advance(session: SessionId, next: EventIndex, salt: u64, extra: Extra) -> Parts {
    let mut builder = Builder { session, next, salt, events: Vec::new() };
    let (root, child) = (node(session, 0), node(session, salt));
    let attempt_id = AttemptId::from_bits(salt);
    let at_root = Scope::Node(run(session), root);
    let mut attachments = vec![snapshot(salt)];
    let notes = OutputPayload::Notes {
        notes_markdown: BoundedText::clip(&format!("did step {salt}")),
        full_text_ref: None,
    };
    builder.push(at_root, output(session, salt, "notes", notes, attempt_id));
    let advanced = AdvanceRecorded {
        attempt_id,
        intent: AdvanceIntent::AckPending,
        outcome: AdvanceOutcome::Advanced { to_node_id: child },
        request_digest: None,
        reply_ref: None,
    };
    let cause = builder.push(at_root, EventData::AdvanceRecorded(advanced));
    builder.node_created(child, Some(root), attachments[0].snapshot_ref());
    let edge = EdgeCreated {
        edge_kind: EdgeKind::AckedStep,
        from_node_id: root,
        to_node_id: child,
        cause: EdgeCause { kind: EdgeCauseKind::IntentionalFork, event_id: cause },
    };
    builder.push(Scope::Run(run(session)), EventData::EdgeCreated(edge));
    match extra {
        Extra::Blob => {
            let blob = Attachment::blob(format!("artifact {salt}\n").into_bytes());
            let payload = OutputPayload::ArtifactRef {
                sha256: blob.blob_ref(),
                content_type: BoundedText::clip("text/plain"),
                byte_length: blob.bytes().len() as u64,
            };
            builder.push(at_root, output(session, salt, "artifact", payload, attempt_id));
            attachments.push(blob);
        }
        Extra::Context => {
            let set = ContextSet {
                context_id: ContextId::from_bits(bits("context", session, salt)),
                context: Context::default(),
                source: ContextSource::AgentDelta,
                node_id: child,
                attempt_id: None,
            };
            builder.push(Scope::Run(run(session)), EventData::ContextSet(set));
        }
    }
    let observed = ObservationRecorded {
        key: ObservationKey::GitBranch,
        value: ObservationValue::ShortString(BoundedText::clip(&format!("branch-{salt}"))),
        confidence: Confidence::High,
        occurrence: None,
    };
    builder.push(Scope::Session, EventData::ObservationRecorded(observed));
    Parts { events: builder.events, attachments }
}

fn output(
    session: SessionId,
    salt: u64,
    label: &str,
    payload: OutputPayload,
    attempt_id: AttemptId,
) -> EventData {
    EventData::NodeOutputAppended(NodeOutputAppended {
        output_id: OutputId::from_bits(bits(label, session, salt)),
        supersedes_output_id: None,
        output_channel: match &payload {
            OutputPayload::Notes { .. } => OutputChannel::Recap,
            OutputPayload::ArtifactRef { .. } => OutputChannel::Artifact,
        },
        payload,
        attempt_id: Some(attempt_id),
    })
}
