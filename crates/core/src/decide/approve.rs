//! A decision on a step: one event, never made through the agent's tools (G63).

use workrail_model::approval::{ApprovalDecision, ApprovalOrigin};
use workrail_model::event::{ApprovalRecorded, EventData, Scope};
use workrail_model::id::NodeId;
use workrail_model::name::StepId;
use workrail_model::plan::AppendPlan;

use super::draft::Draft;
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
    pub origin: ApprovalOrigin,
    pub minting: Minting,
}

pub fn approve(command: Approve<'_>) -> Result<AppendPlan, DecideError> {
    let facts = command.facts;
    let node = facts.node(command.node).ok_or(DecideError::Invariant("the node is in the log"))?;
    // The index of the decision before tells this one apart from it.
    let earlier = facts.approval(command.node, &command.step).map_or(0, |found| found.index.get() as u32 + 1);
    let mut draft = Draft::new(facts.session_id(), facts.next_event_index(), command.minting);
    draft.push(
        Scope::Node(node.run_id, node.node_id),
        EventData::ApprovalRecorded(ApprovalRecorded {
            approval_id: derive::approval_id(node.node_id, &command.step, earlier),
            step_id: command.step,
            decision: command.decision,
            channel: command.origin.channel,
            descends_from_server: command.origin.descends_from_server,
            note: None,
        }),
    );
    Ok(draft.plan()?)
}
