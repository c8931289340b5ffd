//! Closing a run that will not be finished; agents have no tool argument for this (G65).

use workrail_core::decide::close::{Close, close};
use workrail_core::label::RunLabel;
use workrail_core::reply::recovery::Snapshots as _;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::CloseChannel;
use workrail_model::id::{RunId, SessionId};
use workrail_model::preferences::RunStatus;
use workrail_model::team::Act;

use crate::{Engine, Store, error};

/// A run that was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseOutcome {
    pub session: SessionId,
    pub run: RunId,
    pub label: String,
    /// As recorded.
    pub reason: String,
}

impl<S: Store> Engine<S> {
    /// Records that a person closed the run. It no longer counts as running or as needing a person, and may be
    /// cleaned up like a finished one; the run's next record reopens it.
    pub fn close_run(
        &self,
        session: SessionId,
        run: RunId,
        reason: &str,
        channel: CloseChannel,
    ) -> Result<CloseOutcome, Box<ErrorEnvelope>> {
        self.permit(Act::Decide)?;
        let reason = reason.trim();
        if reason.is_empty() {
            return Err(error::no_reason());
        }
        let recorded = self.hold(session, |held| {
            let facts = held.state();
            let label = RunLabel::of(run).to_string();
            let state = facts.run(run).ok_or_else(|| error::unknown_reference(&label))?;
            if let Some(closed) = &state.closed {
                return Err(error::closed_already(&label, closed.reason.as_str()));
            }
            let tip = facts.preferred_tip(run).and_then(|tip| facts.node(tip));
            let at_tip = tip.and_then(|tip| self.content().state_at(tip));
            // A run whose content cannot be read can be closed as well: it cannot be finished.
            let status = at_tip.and_then(|at_tip| facts.run_status(run, at_tip.is_complete()));
            match status {
                Some(RunStatus::Complete | RunStatus::CompleteWithGaps) => {
                    return Err(error::finished_already(&label));
                }
                Some(RunStatus::InProgress | RunStatus::Blocked | RunStatus::Closed) | None => {}
            }
            let plan = close(Close { facts, run, reason, channel, minting: self.minting(Act::Decide)? })
                .map_err(|cause| error::decide(&cause))?;
            held.append(plan)?;
            let recorded = held.state().run(run).and_then(|run| run.closed.as_ref());
            let reason = recorded.map(|closed| closed.reason.as_str().to_owned()).unwrap_or_default();
            Ok(CloseOutcome { session, run, label, reason })
        });
        recorded.map_err(|refused| error::locked_for_command(session, refused))
    }
}
