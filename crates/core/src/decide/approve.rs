//! A person's decision on a step: one event, never made through the agent's tools (G63).

use workrail_model::approval::{ApprovalDecision, ApprovalOrigin};
use workrail_model::digest::Sha256;
use workrail_model::event::{ApprovalRecorded, Context, ContextSet, ContextSource, EventData, Scope};
use workrail_model::id::NodeId;
use workrail_model::limits::SUMMARY_BYTES_MAX;
use workrail_model::name::StepId;
use workrail_model::passkey::PasskeyProof;
use workrail_model::plan::AppendPlan;
use workrail_model::text::BoundedText;

use super::draft::PlanDraft;
use super::{DecideError, Minting};
use crate::derive;
use crate::project::SessionState;

/// A decision to be recorded on the node where the step is pending.
#[derive(Debug)]
pub struct Approve<'a> {
    pub facts: &'a SessionState,
    pub node: NodeId,
    pub step: StepId,
    pub decision: ApprovalDecision,
    /// What was submitted and shown.
    pub submitted: Sha256,
    /// Why, in the person's words.
    pub reason: Option<&'a str>,
    pub origin: ApprovalOrigin,
    /// A passkey's signature; the channel says whether there is one.
    pub proof: Option<PasskeyProof>,
    pub minting: Minting,
}

/// A person's words as recorded.
pub fn recorded_reason(reason: &str) -> BoundedText<SUMMARY_BYTES_MAX> {
    BoundedText::clip(reason)
}

pub fn approve(command: Approve<'_>) -> Result<AppendPlan, DecideError> {
    let facts = command.facts;
    let node = facts.node(command.node).ok_or(DecideError::Invariant("the node is in the log"))?;
    // The index of the previous decision distinguishes this one from it.
    let after = facts.approval(command.node, &command.step).map_or(0, |found| found.index.get() as u32 + 1);
    let mut draft = PlanDraft::new(facts.session_id(), facts.next_event_index(), command.minting);
    draft.push(
        Scope::Node(node.run_id, node.node_id),
        EventData::ApprovalRecorded(ApprovalRecorded {
            approval_id: derive::approval_id(node.node_id, &command.step, after),
            step_id: command.step,
            decision: command.decision,
            channel: command.origin.channel,
            descends_from_server: command.origin.descends_from_server,
            submitted: Some(command.submitted),
            note: command.reason.map(recorded_reason),
            proof: command.proof,
        }),
    );
    Ok(draft.plan()?)
}

/// A person's answer to a question of the step that waits at a node.
#[derive(Debug)]
pub struct GiveAnswer<'a> {
    pub facts: &'a SessionState,
    pub node: NodeId,
    pub values: Context,
    pub channel: AnswerChannel,
    /// A passkey's signature on it.
    pub proof: Option<PasskeyProof>,
    pub minting: Minting,
}

/// How an answer was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerChannel {
    /// `workrail answer`.
    CommandLine,
    /// A form that the agent's program was asked to show.
    Chat,
    /// A form in the console.
    Console,
}

/// The values apply from this node on, whichever chat completes the step.
pub fn answer(command: GiveAnswer<'_>) -> Result<AppendPlan, DecideError> {
    let facts = command.facts;
    let node = facts.node(command.node).ok_or(DecideError::Invariant("the node is in the log"))?;
    // Together with the new values, the context must stay within its limits.
    facts.context_at(command.node)?.merged(&command.values)?;
    let mut draft = PlanDraft::new(facts.session_id(), facts.next_event_index(), command.minting);
    draft.push(
        Scope::Run(node.run_id),
        EventData::ContextSet(ContextSet {
            context_id: derive::answer_id(node.node_id, facts.next_event_index()),
            context: command.values,
            source: match command.channel {
                AnswerChannel::CommandLine => ContextSource::Answer,
                AnswerChannel::Chat => ContextSource::ChatAnswer,
                AnswerChannel::Console => ContextSource::ConsoleAnswer,
            },
            node_id: node.node_id,
            attempt_id: None,
            proof: command.proof,
        }),
    );
    Ok(draft.plan()?)
}
