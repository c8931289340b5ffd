//! Saving work without advancing: a node and an edge attached to the step, once per token (G38).

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::{
    CheckpointRecord, Context, EdgeCause, EdgeCauseKind, EdgeCreated, EdgeKind, EventData, EventIndex,
    NodeCreated, NodeKind, Scope, SessionCreated,
};
use workrail_model::gap::Resolution;
use workrail_model::id::{AttemptId, NodeId, OutputId, SessionId};
use workrail_model::plan::{AppendPlan, Attachment};
use workrail_model::snapshot::ExecutionSnapshot;
use workrail_model::submission::StepOutput;
use workrail_model::tool::ToolSet;

use super::advance::Decided;
use super::draft::PlanDraft;
use super::outputs::{self, OutputTarget};
use super::{DecideError, Minting, close, disclose};
use crate::agent_site::{AgentSite, RunRights};
use crate::project::{NodeState, SessionState};
use crate::reply::{LongText, ReplyInput, ReplyMoment, StepExtras};
use crate::{derive, reply};

/// A checkpoint to be decided. It has no context: a checkpoint changes no decision.
#[derive(Debug)]
pub struct Checkpoint<'a> {
    pub facts: &'a SessionState,
    pub node: NodeId,
    pub attempt: AttemptId,
    pub snapshot: &'a ExecutionSnapshot,
    pub workflow: &'a CompiledWorkflow,
    pub output: &'a StepOutput,
    pub minting: Minting,
}

/// A checkpoint that was already recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCheckpoint {
    pub node: NodeId,
    pub record: CheckpointRecord,
    pub input_differs: bool,
}

/// What was already recorded for this token, if anything; answered without deciding again (G30).
pub fn recorded(
    facts: &SessionState,
    node: NodeId,
    attempt: AttemptId,
    output: &StepOutput,
) -> Result<Option<RecordedCheckpoint>, DecideError> {
    let id = derive::checkpoint_node_id(node, attempt);
    let Some(made) = facts.node(id) else { return Ok(None) };
    let record = made.checkpoint.ok_or(DecideError::Invariant("a checkpoint has the record of its call"))?;
    let digest = output.digest_with(&Context::default())?;
    let input_differs = record.request_digest.is_some_and(|recorded| recorded != digest);
    Ok(Some(RecordedCheckpoint { node: id, record, input_differs }))
}

pub fn checkpoint(command: Checkpoint<'_>) -> Result<Decided, DecideError> {
    let Checkpoint { facts, node, attempt, snapshot, workflow, output, minting } = command;
    refuse_empty(output)?;
    outputs::check_output(output)?;
    let digest = output.digest_with(&Context::default())?;
    let at = facts.node(node).ok_or(DecideError::Invariant("the node is in the log"))?;
    disclose::check_resolutions(facts, at.run_id, &output.artifacts)?;
    disclose::check_named_gaps(facts, at.run_id, &output.artifacts)?;
    let made = derive::checkpoint_node_id(node, attempt);
    let context = facts.context_at(node)?;
    let resolved = disclose::resolutions(facts, at.run_id, node, attempt, &output.artifacts);
    let closes =
        |id| resolved.iter().any(|gap| gap.resolution == Resolution::Resolves { resolves_gap_id: id });
    let open_gaps = disclose::open_gaps(facts, at.run_id).into_iter().filter(|gap| !closes(gap.gap_id));
    let body = reply::render(&ReplyInput {
        facts,
        run: at.run_id,
        workflow,
        state: snapshot.state(),
        context: &context,
        preferences: facts.preferences(node),
        moment: ReplyMoment::Checkpointed,
        long_text: LongText::Shorten,
        // A server that accepts checkpoints offers them.
        tools: ToolSet::ALL,
        // A checkpoint shows neither the step nor a blocker.
        site: &AgentSite::Local,
        rights: RunRights::Work,
        extras: StepExtras {
            return_to: disclose::return_to(facts, at.run_id, snapshot.state()),
            open_gaps: if snapshot.state().is_complete() { open_gaps.collect() } else { Vec::new() },
            warnings: close::reopened(facts, node).into_iter().collect(),
            ..StepExtras::default()
        },
    })?;
    let stored = Attachment::blob(body.to_canonical()?);
    let on_made = Scope::Node(at.run_id, made);

    let mut draft = PlanDraft::new(facts.session_id(), facts.next_event_index(), minting);
    let snapshot_ref = draft.attach_snapshot(snapshot)?;
    let event_id = draft.push(
        on_made,
        EventData::NodeCreated(NodeCreated {
            node_kind: NodeKind::Checkpoint,
            parent_node_id: Some(node),
            workflow_hash: snapshot.workflow_hash,
            snapshot_ref,
            checkpoint: Some(CheckpointRecord {
                attempt_id: attempt,
                request_digest: Some(digest),
                reply_ref: stored.blob_ref(),
            }),
        }),
    );
    draft.attach(stored);
    let edge = EdgeCreated {
        edge_kind: EdgeKind::Checkpoint,
        from_node_id: node,
        to_node_id: made,
        cause: EdgeCause { kind: EdgeCauseKind::CheckpointCreated, event_id },
    };
    draft.push(Scope::Run(at.run_id), EventData::EdgeCreated(edge));
    OutputTarget { facts, node: made, attempt, retried: &[] }.push(&mut draft, on_made, output)?;
    for gap in resolved {
        draft.push_once(on_made, EventData::GapRecorded(gap));
    }
    let plan = draft.plan()?;
    Ok(Decided { plan, reply: body, new_snapshot: None })
}

fn refuse_empty(output: &StepOutput) -> Result<(), DecideError> {
    if output.own_notes().is_some() || !output.artifacts.is_empty() {
        Ok(())
    } else {
        Err(DecideError::EmptyCheckpoint)
    }
}

/// The attempt whose ack completes the step, whichever checkpoint of the chain is given: saving in
/// between must not turn a retried ack into a fork.
pub fn ack_attempt(facts: &SessionState, node: NodeId, attempt: AttemptId) -> AttemptId {
    let checkpoints: Vec<&NodeState> = facts
        .node(node)
        .into_iter()
        .flat_map(|at| at.children.iter())
        .filter_map(|child| facts.node(*child))
        .filter(|child| child.kind == NodeKind::Checkpoint)
        .collect();
    let mut current = attempt;
    // Each was made before the one it leads to, so newest first follows the chain in one pass.
    for made in checkpoints.iter().rev() {
        let leads_here =
            |record: &CheckpointRecord| derive::next_attempt(record.attempt_id, made.node_id) == current;
        if let Some(record) = made.checkpoint.filter(leads_here) {
            current = record.attempt_id;
        }
    }
    current
}

/// A session that can hold notes before or without any run.
pub fn open_session(
    session: SessionId,
    output: &StepOutput,
    minting: Minting,
) -> Result<AppendPlan, DecideError> {
    outputs::check_output(output)?;
    let mut draft = PlanDraft::new(session, EventIndex::ZERO, minting);
    draft.push(Scope::Session, EventData::SessionCreated(SessionCreated::default()));
    outputs::push_session_notes(&mut draft, session, output, |_| false)?;
    Ok(draft.plan()?)
}

/// Notes on the session itself; `None` if all of them are already recorded.
pub fn session_notes(
    facts: &SessionState,
    output: &StepOutput,
    minting: Minting,
) -> Result<Option<AppendPlan>, DecideError> {
    refuse_empty(output)?;
    outputs::check_output(output)?;
    let mut draft = PlanDraft::new(facts.session_id(), facts.next_event_index(), minting);
    let is_known = |id: OutputId| facts.session_outputs().iter().any(|recorded| recorded.id == id);
    outputs::push_session_notes(&mut draft, facts.session_id(), output, is_known)?;
    Ok(if draft.is_empty() { None } else { Some(draft.plan()?) })
}
