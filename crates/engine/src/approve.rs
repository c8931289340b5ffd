//! A person's decision on the step that waits for it; no tool of an agent leads here (G63).

use workrail_core::decide::approve::{Approve, approve};
use workrail_core::interpret::{AskedConfirmation, asked_confirmation};
use workrail_core::label::RunLabel;
use workrail_model::approval::{ApprovalChannel, ApprovalDecision};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::SessionId;
use workrail_model::name::StepId;
use workrail_model::preferences::Preferences;

use crate::cards::Named;
use crate::{Engine, Store, error};

/// A step that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub session: SessionId,
    pub label: String,
    pub workflow: String,
    pub step: StepId,
    pub title: String,
}

impl<S: Store> Engine<S> {
    /// The step of the labelled run that asks for an approval.
    pub fn waiting(&self, label: &str) -> Result<Waiting, Box<ErrorEnvelope>> {
        let (session, place) = self.run_by_label(label)?;
        let content = self.content();
        self.reading().look(session, |facts| {
            let node = facts.node(place.tip).ok_or_else(|| error::internal("a tip is folded"))?;
            let snapshot = content.snapshot(node.snapshot_ref)?;
            let workflow = content.workflow(place.workflow_hash)?;
            let context = facts.context_at(place.tip).map_err(|cause| error::context(&cause))?;
            let pending = snapshot.state().pending_step().ok_or_else(|| error::nothing_to_approve(label))?;
            if asked_confirmation(&workflow, pending, &context) != AskedConfirmation::Approval {
                return Err(error::nothing_to_approve(label));
            }
            Ok(Waiting {
                session,
                label: RunLabel::of(place.run).to_string(),
                workflow: workflow.name.clone(),
                step: pending.step_id.clone(),
                title: workrail_core::render::prompt::render_title(&workflow, pending, &context),
            })
        })
    }

    /// Records the decision on the step that waits.
    pub fn approve(
        &self,
        label: &str,
        decision: ApprovalDecision,
        channel: ApprovalChannel,
    ) -> Result<Waiting, Box<ErrorEnvelope>> {
        let waiting = self.waiting(label)?;
        let (session, place) = self.run_by_label(label)?;
        self.hold(session, |held| {
            let facts = held.state();
            // Asked again under the lock: the step that the person saw must be the one that waits.
            if facts.preferred_tip(place.run) != Some(place.tip) {
                return Err(error::nothing_to_approve(label));
            }
            let step = waiting.step.clone();
            let minting = self.minting()?;
            let plan = approve(Approve { facts, node: place.tip, step, decision, channel, minting })
                .map_err(|cause| error::decide(&cause))?;
            held.append(plan)
        })?;
        Ok(waiting)
    }

    /// Asks for other preferences; the next advance of the session applies them (G64).
    pub fn wish_preferences(&self, label: &str, wish: Preferences) -> Result<SessionId, Box<ErrorEnvelope>> {
        let (session, _) = self.run_by_label(label)?;
        self.store.wish_preferences(session, wish).map_err(|cause| error::io(&cause))?;
        Ok(session)
    }

    fn run_by_label(
        &self,
        label: &str,
    ) -> Result<(SessionId, workrail_core::resume::RunPlace), Box<ErrorEnvelope>> {
        let parsed =
            RunLabel::parse(&label.trim().to_ascii_lowercase()).map_err(|_| error::unknown_label(label))?;
        match self.reading().named(parsed)? {
            Named::One(found) => Ok(*found),
            Named::Nobody => Err(error::unknown_label(label)),
            Named::Several(count) => Err(error::ambiguous_label(label, count)),
        }
    }
}
