//! Local stand-in for the plan builder.
use workrail_model::digest::WorkflowHash;
use workrail_model::event::{
    AdvanceIntent, AdvanceOutcome, AdvanceRecorded, DedupeKey, EdgeCause, EdgeCauseKind, EdgeCreated,
    EdgeKind, Event, EventData, EventIndex, NodeCreated, NodeKind, NodeOutputAppended, OutputChannel,
    OutputPayload, RunStarted, Scope, SessionCreated, WorkflowSourceKind,
};
use workrail_model::id::{AttemptId, EventId, NodeId, OutputId, RunId, SessionId};
use workrail_model::name::WorkflowId;
use workrail_model::plan::{AppendPlan, Attachment};
use workrail_model::snapshot::{EngineState, ExecutionSnapshot};
use workrail_model::text::BoundedText;

#[derive(Clone, Debug)]
pub(crate) struct PlanParts {
    pub(crate) events: Vec<Event>,
    pub(crate) attachments: Vec<Attachment>,
}

impl PlanParts {
    pub(crate) fn plan(&self) -> AppendPlan {
        AppendPlan::new(self.events.clone(), self.attachments.clone()).expect("valid plan")
    }
}

fn bits(tag: u8, number: u64) -> [u8; 10] {
    let mut bits = [tag; 10];
    bits[2..].copy_from_slice(&number.to_be_bytes());
    bits
}

pub(crate) fn history(session: SessionId, count: usize) -> Vec<PlanParts> {
    let run = RunId::from_bits(bits(1, 1));
    let workflow = Attachment::workflow(b"{\"workflow\":1}".repeat(20));
    let mut index = EventIndex::ZERO;
    let mut ids = 0;
    let seed = session.bits()[9];
    let mut plans = Vec::new();
    let mut parent = None;
    for number in 0..count as u64 {
        let node = NodeId::from_bits(bits(2, number));
        let mut attachments = Vec::new();
        let state = EngineState::Init;
        let mut hash = [0; 40];
        hash[..8].copy_from_slice(&(number * 256 + u64::from(seed)).to_be_bytes());
        let snapshot = ExecutionSnapshot::new(WorkflowHash::of(&hash), state).expect("a valid state");
        let snapshot = Attachment::snapshot(snapshot.to_canonical().expect("canonical"));
        let mut datas = Vec::new();
        if number == 0 {
            datas.push((Scope::Session, EventData::SessionCreated(SessionCreated {})));
            datas.push((
                Scope::Run(run),
                EventData::RunStarted(RunStarted {
                    workflow_id: WorkflowId::parse("test-flow").expect("a name"),
                    workflow_hash: workflow.workflow_hash(),
                    workflow_source_kind: WorkflowSourceKind::Bundled,
                    workflow_source_ref: BoundedText::clip("here"),
                    parent: None,
                }),
            ));
            attachments.push(workflow.clone());
        }
        let created = NodeCreated {
            node_kind: NodeKind::Step,
            parent_node_id: parent,
            workflow_hash: workflow.workflow_hash(),
            snapshot_ref: snapshot.snapshot_ref(),
        };
        attachments.push(snapshot);
        if let Some(from) = parent {
            let reply = Attachment::blob(format!("reply {seed} {number}").repeat(30).into_bytes());
            let attempt_id = AttemptId::from_bits(number);
            datas.push((
                Scope::Node(run, from),
                EventData::AdvanceRecorded(AdvanceRecorded {
                    attempt_id,
                    intent: AdvanceIntent::AckPending,
                    outcome: AdvanceOutcome::Advanced { to_node_id: node },
                    request_digest: None,
                    reply_ref: Some(reply.blob_ref()),
                }),
            ));
            attachments.push(reply);
            if number % 3 == 0 {
                let artifact = Attachment::blob(format!("artifact {seed} {number}").repeat(40).into_bytes());
                datas.push((
                    Scope::Node(run, from),
                    EventData::NodeOutputAppended(NodeOutputAppended {
                        output_id: OutputId::from_bits(bits(4, number)),
                        supersedes_output_id: None,
                        output_channel: OutputChannel::Artifact,
                        payload: OutputPayload::ArtifactRef {
                            sha256: artifact.blob_ref(),
                            content_type: BoundedText::clip("text/plain"),
                            byte_length: artifact.bytes().len() as u64,
                        },
                        attempt_id: Some(attempt_id),
                    }),
                ));
                attachments.push(artifact);
            }
            datas.push((Scope::Node(run, node), EventData::NodeCreated(created)));
            let cause = EdgeCause { kind: EdgeCauseKind::AckPending, event_id: EventId::from_bits(bits(3, ids)) };
            datas.push((
                Scope::Run(run),
                EventData::EdgeCreated(EdgeCreated {
                    edge_kind: EdgeKind::AckedStep,
                    from_node_id: from,
                    to_node_id: node,
                    cause,
                }),
            ));
        } else {
            datas.push((Scope::Node(run, node), EventData::NodeCreated(created)));
        }
        let mut events = Vec::new();
        for (scope, data) in datas {
            events.push(Event {
                event_id: EventId::from_bits(bits(3, ids)),
                event_index: index,
                session_id: session,
                scope,
                dedupe_key: DedupeKey::of(session, scope, &data),
                at: None,
                activity: None,
                data,
            });
            ids += 1;
            index = index.plus(1);
        }
        parent = Some(node);
        plans.push(PlanParts { events, attachments });
    }
    plans
}
