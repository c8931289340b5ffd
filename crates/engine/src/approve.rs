//! A decision on the step that waits for a person; no tool of an agent leads here (G63).

use workrail_core::decide::approve::{Approve, approve};
use workrail_core::interpret::{AskedConfirmation, asked_confirmation};
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_core::render::prompt::render_title;
use workrail_core::resume::RunPlace;
use workrail_model::approval::{ApprovalDecision, ApprovalOrigin};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{NodeId, SessionId};
use workrail_model::name::StepId;

use crate::cards::Named;
use crate::{Engine, Store, error};

/// A step that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub session: SessionId,
    pub node: NodeId,
    pub label: String,
    pub workflow: String,
    pub step: StepId,
    pub title: String,
}

impl<S: Store> Engine<S> {
    /// The step of the labelled run that waits for a person.
    pub fn waiting(&self, label: &str) -> Result<Waiting, Box<ErrorEnvelope>> {
        let (session, place) = self.run_by_label(label)?;
        self.reading().look(session, |facts| self.waiting_in(facts, &place, label))
    }

    fn waiting_in(
        &self,
        facts: &SessionState,
        place: &RunPlace,
        label: &str,
    ) -> Result<Waiting, Box<ErrorEnvelope>> {
        let content = self.content();
        let workflow = content.workflow(place.workflow_hash)?;
        // What was refused for want of a person waits, wherever it is; a gate that nobody ran into, at the tip.
        let refused = facts.nodes(place.run).filter_map(|node| {
            let last = facts.latest_advance(node.node_id).filter(|last| last.waits_for_person())?;
            Some((last.event_index, node))
        });
        let refused = refused.max_by_key(|(index, _)| *index).map(|(_, node)| node);
        let tip = facts.node(place.tip).ok_or_else(|| error::internal("a tip is folded"))?;
        let node = refused.unwrap_or(tip);
        let snapshot = content.snapshot(node.snapshot_ref)?;
        let context = facts.context_at(node.node_id).map_err(|cause| error::context(&cause))?;
        let pending = snapshot.state().pending_step().ok_or_else(|| error::nothing_to_approve(label))?;
        let gate = asked_confirmation(&workflow, pending, &context) == AskedConfirmation::Approval;
        if refused.is_none() && !gate {
            return Err(error::nothing_to_approve(label));
        }
        Ok(Waiting {
            session: facts.session_id(),
            node: node.node_id,
            label: RunLabel::of(place.run).to_string(),
            workflow: workflow.name.clone(),
            step: pending.step_id.clone(),
            title: render_title(&workflow, pending, &context),
        })
    }

    /// Records the decision on the step that the person was shown.
    pub fn approve(
        &self,
        label: &str,
        seen: &Waiting,
        decision: ApprovalDecision,
        origin: ApprovalOrigin,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let (session, place) = self.run_by_label(label)?;
        let recorded = self.hold(session, |held| {
            let facts = held.state();
            // Asked again under the lock: the step that the person saw must be the one that waits.
            if self.waiting_in(facts, &place, label)? != *seen {
                return Err(error::nothing_to_approve(label));
            }
            let (node, step) = (seen.node, seen.step.clone());
            let minting = self.minting()?;
            let plan = approve(Approve { facts, node, step, decision, origin, minting })
                .map_err(|cause| error::decide(&cause))?;
            held.append(plan)
        });
        recorded.map_err(|refused| error::locked_for_command(session, refused))
    }

    fn run_by_label(&self, label: &str) -> Result<(SessionId, RunPlace), Box<ErrorEnvelope>> {
        let parsed =
            RunLabel::parse(&label.trim().to_ascii_lowercase()).map_err(|_| error::unknown_label(label))?;
        match self.reading().named(parsed)? {
            Named::One(found) => Ok(*found),
            Named::Nobody => Err(error::unknown_label(label)),
            Named::Several(count) => Err(error::ambiguous_label(label, count)),
        }
    }
}
