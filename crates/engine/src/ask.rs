//! What a blocked call waits for, so that an edge can ask the user through the agent's program (G63).
//!
//! No lock is held while the user is asked: when their answer is recorded, what they were shown is compared again
//! under the lock. Such an answer is recorded as coming from the chat, since hooks of that program could give it,
//! too.

use workrail_core::decide::approve::AnswerChannel;
use workrail_core::interpret::AskedProof;
use workrail_core::project::AdvanceRecord;
use workrail_core::reply::answered::UserReply;
use workrail_core::token::NodeFacts;
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin, Descent};
use workrail_model::blocker::{Blocker, BlockerCode};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{AdvanceOutcome, Context};
use workrail_model::id::{AttemptId, NodeId, SessionId};

use crate::approve::{AnswerTo, DecisionProof, RunRef, WaitingStep};
use crate::{Engine, Store, error};

/// An attempt that was refused only for lack of what the user must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptAwaitingUser {
    session: SessionId,
    at: NodeFacts,
    attempt: AttemptId,
}

impl AttemptAwaitingUser {
    /// `None` if the agent has to send something else as well: the user would not be asked about the final submission.
    pub(crate) fn of(session: SessionId, at: NodeFacts, record: &AdvanceRecord) -> Option<Self> {
        let AdvanceOutcome::Blocked { blockers } = &record.outcome else { return None };
        let blockers = blockers.blockers();
        let is_for_user = |blocker: &Blocker| blocker.code == BlockerCode::UserOnlyDependency;
        // A key that the step declares and also asks the user for is missing twice; one answer fills both.
        let is_asked = |missing: &Blocker| {
            missing.code == BlockerCode::MissingContextKey
                && blockers.iter().any(|blocker| is_for_user(blocker) && blocker.pointer == missing.pointer)
        };
        let all = blockers.iter().all(|blocker| is_for_user(blocker) || is_asked(blocker));
        (all && !blockers.is_empty()).then_some(Self { session, at, attempt: record.attempt })
    }

    fn run(&self) -> RunRef {
        RunRef { session: self.session, run: self.at.run, workflow: self.at.workflow }
    }

    fn node(&self) -> NodeId {
        self.at.node
    }
}

impl<S: Store> Engine<S> {
    /// What to ask the user about this attempt; `None` if it is not the newest one or was already decided on.
    pub fn waiting_for_user(
        &self,
        asked: &AttemptAwaitingUser,
    ) -> Result<Option<WaitingStep>, Box<ErrorEnvelope>> {
        self.reading().look(asked.session, |facts| {
            let is_newest =
                facts.latest_advance(asked.node()).is_some_and(|last| last.attempt == asked.attempt);
            if !is_newest {
                return Ok(None);
            }
            let waiting = self.waiting_in(facts, asked.run())?;
            let is_decided = waiting.earlier.as_ref().is_some_and(|earlier| earlier.is_for_this);
            // A decision that only a passkey can make is not asked for in the chat (G97).
            let is_askable = !waiting.asks_approval || waiting.proof == AskedProof::Any;
            Ok(Some(waiting).filter(|waiting| waiting.node == asked.node() && !is_decided && is_askable))
        })
    }

    /// Records what came through the agent's program, about exactly what the program was asked to show.
    pub fn record_from_chat(
        &self,
        asked: &AttemptAwaitingUser,
        seen: &WaitingStep,
        answer: &UserReply,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let run = asked.run();
        let decided = match answer {
            UserReply::Answered(values) => {
                let values = Context::new(values.clone()).map_err(|cause| error::context(&cause))?;
                let to = AnswerTo::Shown { seen, through: AnswerChannel::Chat };
                return self.answer_in(run, to, values).map(drop);
            }
            UserReply::Approved => (ApprovalDecision::Approved, None),
            UserReply::Rejected { reason } => (ApprovalDecision::Rejected, reason.as_deref()),
        };
        // The answering process is unknown, and the channel already says that this proves nothing.
        let origin =
            ApprovalOrigin { channel: ApprovalChannel::Chat, descends_from_server: Descent::Unknown };
        self.approve_in(run, seen, decided, DecisionProof::Unproven(origin))
    }
}
