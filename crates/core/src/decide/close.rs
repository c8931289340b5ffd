//! Closing a run that will not be finished: one event, never made through the agent's tools (G65).

use workrail_model::event::{CloseChannel, EventData, RunClosed, Scope};
use workrail_model::id::{NodeId, RunId};
use workrail_model::plan::AppendPlan;
use workrail_model::reply::{Warning, WarningCode, without_markers};
use workrail_model::text::BoundedText;

use super::draft::PlanDraft;
use super::{DecideError, Minting};
use crate::derive;
use crate::project::{RunState, SessionState};

/// A closing to be recorded where the run would continue.
#[derive(Debug)]
pub struct Close<'a> {
    pub facts: &'a SessionState,
    pub run: RunId,
    /// Why, in the person's words.
    pub reason: &'a str,
    pub channel: CloseChannel,
    pub minting: Minting,
}

pub fn close(command: Close<'_>) -> Result<AppendPlan, DecideError> {
    let Close { facts, run, reason, channel, minting } = command;
    let closings = facts.run(run).ok_or(DecideError::Invariant("the run is in the log"))?.closings;
    let tip = facts.preferred_tip(run).ok_or(DecideError::Invariant("a run has a first point"))?;
    let mut draft = PlanDraft::new(facts.session_id(), facts.next_event_index(), minting);
    draft.push(
        Scope::Node(run, tip),
        EventData::RunClosed(RunClosed {
            closure_id: derive::closure_id(run, closings),
            reason: BoundedText::clip(reason),
            channel,
        }),
    );
    Ok(draft.plan()?)
}

/// Tells the caller in the reply that a call at this node reopens the run.
pub(super) fn reopened(facts: &SessionState, node: NodeId) -> Option<Warning> {
    let closed = facts.run(facts.node(node)?.run_id)?.closed.as_ref()?;
    let message = format!("A person had closed this run ({}); this call reopened it.", closed.reason);
    Some(Warning { code: WarningCode::RunReopened, message: without_markers(&message) })
}

/// The warning that a run is closed, for replies that only show it.
pub fn closed_warning(run: &RunState) -> Option<Warning> {
    let closed = run.closed.as_ref()?;
    let message = format!(
        "A person closed this run ({}). Any attempt or checkpoint reopens it; ask the user first.",
        closed.reason
    );
    Some(Warning { code: WarningCode::RunClosed, message: without_markers(&message) })
}
