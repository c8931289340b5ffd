//! How far the runs of a session may go: what is in effect, what a person asked for, and asking for it (G60, G64).

use std::collections::BTreeMap;

use serde::Serialize;
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::name::WorkflowId;
use workrail_model::passkey::{PendingPreferences, PreferenceProof};
use workrail_model::preferences::{PreferenceChange, Preferences, RunStatus};
use workrail_model::team::Act;

use crate::find::SessionOrRun;
use crate::{Engine, Store, error};

/// A run and its preferences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPreferences {
    pub session_id: SessionId,
    pub run_id: RunId,
    pub label: String,
    pub workflow_id: WorkflowId,
    pub status: Option<RunStatus>,
    /// In effect at the node where the run continues.
    pub applied: Preferences,
    pub applied_at: NodeId,
    /// Applied by the next completed step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Preferences>,
    /// Why the pending preferences are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_problem: Option<&'static str>,
}

const UNREADABLE_PREFERENCES: &str =
    "The requested preferences cannot be read, so the next step applies no change. Set them again.";

impl<S: Store> Engine<S> {
    /// The preferences of a run, or of all runs of a session, oldest first.
    pub fn preferences_of(&self, found: SessionOrRun) -> Result<Vec<RunPreferences>, Box<ErrorEnvelope>> {
        self.reading().look(found.session, |facts| self.runs_preferences(found, facts))
    }

    fn runs_preferences(
        &self,
        found: SessionOrRun,
        facts: &SessionState,
    ) -> Result<Vec<RunPreferences>, Box<ErrorEnvelope>> {
        let is_unreadable = self
            .store
            .has_unreadable_pending_preferences(facts.session_id(), &|run| facts.run(run).is_some());
        let pending_problem = is_unreadable.then_some(UNREADABLE_PREFERENCES);
        let runs = facts.runs().filter(|run| found.run.is_none_or(|wanted| wanted == run.run_id));
        let preferences = runs.map(|run| {
            let preferences = self.run_preferences(facts, run.run_id)?;
            Ok(RunPreferences { pending_problem, ..preferences })
        });
        preferences.collect()
    }

    fn run_preferences(
        &self,
        facts: &SessionState,
        run: RunId,
    ) -> Result<RunPreferences, Box<ErrorEnvelope>> {
        let state = facts.run(run).ok_or_else(|| error::broken_invariant("a listed run is folded"))?;
        let tip = facts.preferred_tip(run).and_then(|tip| facts.node(tip));
        let tip = tip.ok_or_else(|| error::broken_invariant("a run has a tip"))?;
        let snapshot = self.content().snapshot(tip.snapshot_ref)?;
        let pending = self.store.pending_preferences(facts.session_id(), run);
        Ok(RunPreferences {
            session_id: facts.session_id(),
            run_id: run,
            label: RunLabel::of(run).to_string(),
            workflow_id: state.workflow_id.clone(),
            status: facts.run_status(run, snapshot.state().is_complete()),
            applied: facts.preferences(tip.node_id),
            applied_at: tip.node_id,
            pending: pending.map_err(|cause| error::io(&cause))?.map(|pending| pending.preferences),
            pending_problem: None,
        })
    }

    /// The runs that can continue and whose autonomy the changes would raise above what is in effect or already
    /// requested.
    pub fn raised_by(
        &self,
        found: SessionOrRun,
        changes: &[PreferenceChange],
    ) -> Result<Vec<RunPreferences>, Box<ErrorEnvelope>> {
        let mut runs = self.preferences_of(found)?;
        runs.retain(|run| {
            can_continue(run.status) && changed(run, changes).autonomy > in_effect(run).autonomy
        });
        Ok(runs)
    }

    /// Requests changes on top of what is in effect or already requested. Complete runs are left alone.
    pub fn set_preferences(
        &self,
        found: SessionOrRun,
        changes: &[PreferenceChange],
    ) -> Result<Vec<RunPreferences>, Box<ErrorEnvelope>> {
        self.request_preferences(found, changes, || Ok(None))
    }

    /// The same, with a passkey's signature: `prove` is called once nothing else can refuse the changes.
    pub(crate) fn request_preferences(
        &self,
        found: SessionOrRun,
        changes: &[PreferenceChange],
        prove: impl FnOnce() -> Result<Option<PreferenceProof>, Box<ErrorEnvelope>>,
    ) -> Result<Vec<RunPreferences>, Box<ErrorEnvelope>> {
        self.permit(Act::Decide)?;
        let session = found.session;
        let requested = self.hold(session, |held| {
            let mut open = self.runs_preferences(found, held.state())?;
            open.retain(|run| can_continue(run.status));
            if open.is_empty() {
                return Err(error::no_open_run());
            }
            if !held.state().is_readable() {
                return Err(error::internal("the saved state of the session could not be read"));
            }
            let proof = prove()?;
            let mut pending = BTreeMap::new();
            for run in &mut open {
                let preferences = changed(run, changes);
                // Stored even if it equals what is in effect at the tip: the next completed step may be elsewhere.
                pending.insert(run.run_id, PendingPreferences { preferences, proof: proof.clone() });
                (run.pending, run.pending_problem) = (Some(preferences), None);
            }
            let stored = self.store.set_pending_preferences(session, &pending);
            stored.map_err(|cause| error::io(&cause))?;
            Ok(open)
        });
        requested.map_err(|refused| error::locked_for_command(session, refused))
    }
}

/// Applied by the run's next completed step, unless they are changed.
fn in_effect(run: &RunPreferences) -> Preferences {
    run.pending.unwrap_or(run.applied)
}

fn changed(run: &RunPreferences, changes: &[PreferenceChange]) -> Preferences {
    changes.iter().fold(in_effect(run), |preferences, change| preferences.with(*change))
}

fn can_continue(status: Option<RunStatus>) -> bool {
    match status {
        Some(RunStatus::Complete | RunStatus::CompleteWithGaps) => false,
        // A closed run can be reopened, and then the change applies.
        Some(RunStatus::InProgress | RunStatus::Blocked | RunStatus::Closed) | None => true,
    }
}
