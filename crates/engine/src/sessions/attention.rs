//! Why a run is stuck, in full: what a person must decide or answer, or why the last attempt was refused.

use serde_json::Value;
use workrail_core::label::RunLabel;
use workrail_core::render::prompt::{
    Lifecycle, ParentToken, RenderMode, render_step_shortened, title_without_secrets,
};
use workrail_core::report::SubmittedArtifact;
use workrail_model::blocker::Blocker;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::AdvanceOutcome;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::preferences::RunStatus;

use crate::approve::RunRef;
use crate::{Engine, Store, WaitingStep, error};

/// What a run needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Attention {
    /// A decision or an answer by a person.
    Person(Box<WaitingStep>),
    /// Another attempt by the agent: the last one was refused for these reasons.
    Agent { step: String, blockers: Vec<Blocker> },
}

impl<S: Store> Engine<S> {
    /// What the run needs; `None` if it is in progress, finished or closed. A run needs something exactly when lists
    /// call it blocked: a refused attempt that has since been decided on or answered needs nothing more.
    pub fn attention(&self, session: SessionId, run: RunId) -> Result<Option<Attention>, Box<ErrorEnvelope>> {
        let label = RunLabel::of(run).to_string();
        self.reading().look(session, |facts| {
            let state = facts.run(run).ok_or_else(|| error::unknown_reference(&label))?;
            if state.closed.is_some() {
                return Ok(None);
            }
            let Some(tip) = facts.preferred_tip(run).and_then(|tip| facts.node(tip)) else { return Ok(None) };
            let content = self.content();
            let snapshot = content.snapshot(tip.snapshot_ref)?;
            if facts.run_status(run, snapshot.state().is_complete()) != Some(RunStatus::Blocked) {
                return Ok(None);
            }
            if facts.waits_for_person(tip.node_id) {
                let run_ref = RunRef { session, run, workflow: state.workflow_hash };
                let found = self.waiting_in(facts, run_ref)?;
                return Ok(Some(Attention::Person(Box::new(found))));
            }
            let Some(AdvanceOutcome::Blocked { blockers }) =
                facts.latest_advance(tip.node_id).map(|last| &last.outcome)
            else {
                return Ok(None);
            };
            let workflow = content.workflow(state.workflow_hash)?;
            let context = facts.context_at(tip.node_id).map_err(|cause| error::context(&cause))?;
            let pending = snapshot.state().pending_step();
            let step = pending.map(|pending| title_without_secrets(&workflow, pending, &context));
            let blockers = blockers.blockers().to_vec();
            Ok(Some(Attention::Agent { step: step.unwrap_or_default(), blockers }))
        })
    }

    /// Artifacts submitted in a run, shown according to the contracts of its pinned workflow.
    pub fn submitted_artifacts(
        &self,
        session: SessionId,
        run: RunId,
        artifacts: &[Value],
    ) -> Result<Vec<SubmittedArtifact>, Box<ErrorEnvelope>> {
        let hash = self.reading().look(session, |facts| {
            let state = facts.run(run).ok_or_else(|| error::unknown_reference(&run.to_string()))?;
            Ok(state.workflow_hash)
        })?;
        let workflow = self.content().workflow(hash)?;
        Ok(artifacts.iter().map(|artifact| SubmittedArtifact::of(&workflow, artifact)).collect())
    }

    /// The text of the step at a point as given to the agent; `None` if the workflow is complete.
    pub fn step_text(&self, session: SessionId, node: NodeId) -> Result<Option<String>, Box<ErrorEnvelope>> {
        let reading = self.reading();
        let read = reading.salvage(session)?.or_refuse()?;
        let facts = &read.state;
        let found = facts.node(node).ok_or_else(|| error::unknown_reference(&node.to_string()))?;
        let run =
            facts.run(found.run_id).ok_or_else(|| error::broken_invariant("a node belongs to a run"))?;
        let workflow = reading.content.workflow(run.workflow_hash)?;
        let snapshot = reading.content.snapshot(found.snapshot_ref)?;
        let context = facts.context_at(node).map_err(|cause| error::context(&cause))?;
        let autonomy = facts.preferences(node).autonomy;
        let parent = ParentToken::Placeholder;
        let mode = RenderMode { lifecycle: Lifecycle::Advance, autonomy, site: &self.site, parent };
        let pending = snapshot.state().pending_step();
        Ok(pending.map(|pending| render_step_shortened(&workflow, pending, &context, mode)))
    }

    /// A number that changes when something in the store may have changed. It costs a few `stat` calls, however many
    /// sessions there are; `None` if the store has no cheap way to tell.
    pub fn change_stamp(&self) -> Option<u64> {
        self.store.change_stamp()
    }
}
