//! Shows one session to a person, who then decides to keep or remove it (G25).

use std::collections::BTreeSet;

use serde::Serialize;
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_model::error::ErrorEnvelope;
use workrail_model::health::SessionHealth;
use workrail_model::id::{RunId, SessionId};
use workrail_model::name::WorkflowId;
use workrail_model::preferences::RunStatus;
use workrail_model::team::Act;
use workrail_model::time::Timestamp;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Inspection, Upkeep, UpkeepError};

use super::gc::FileTotals;
use super::status_of;
use crate::{Engine, Store, error};

/// Enough about a session to recognise it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOverview {
    pub session_id: SessionId,
    pub health: SessionHealth,
    pub is_kept: bool,
    /// Of the validated part, if the session is damaged.
    pub events: u64,
    pub last_worked_on: Option<Timestamp>,
    pub runs: Vec<RunOverview>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOverview {
    pub run_id: RunId,
    pub label: String,
    pub workflow_id: WorkflowId,
    pub goal: Option<String>,
    /// Absent if it cannot be determined because content is damaged.
    pub status: Option<RunStatus>,
}

impl<S: Store + Inspection> Engine<S> {
    /// What a session is, damaged or not.
    pub fn overview(&self, session: SessionId) -> Result<SessionOverview, Box<ErrorEnvelope>> {
        let slice = self.store.read(session, None).map_err(|cause| error::upkeep(cause.into()))?;
        let mut facts = SessionState::new(session);
        // As far as it makes sense: a damaged session is shown, too.
        let _ = slice.events.iter().try_for_each(|event| facts.apply(event));
        let runs = facts.runs().map(|run| {
            let tip = facts.preferred_tip(run.run_id);
            let context = tip.and_then(|tip| facts.context_at(tip).ok());
            let goal = context.and_then(|context| context.get("goal")?.as_str().map(str::to_owned));
            RunOverview {
                run_id: run.run_id,
                label: RunLabel::of(run.run_id).to_string(),
                workflow_id: run.workflow_id.clone(),
                goal,
                status: status_of(&facts, run.run_id, &*self.store).ok().flatten(),
            }
        });
        Ok(SessionOverview {
            session_id: session,
            runs: runs.collect(),
            is_kept: self.store.is_kept(session),
            events: slice.cursor.next_event_index.get(),
            last_worked_on: slice.events.iter().filter_map(|event| event.at.as_ref()).max().cloned(),
            health: slice.health,
        })
    }

    /// Whether a person exempted the session from retention.
    pub fn is_kept(&self, session: SessionId) -> bool {
        self.store.is_kept(session)
    }

    /// Those of the sessions that are marked to be kept.
    pub fn kept_sessions(&self, sessions: impl IntoIterator<Item = SessionId>) -> BTreeSet<SessionId> {
        self.store.kept(sessions.into_iter().collect())
    }
}

impl<S: Store + Upkeep> Engine<S> {
    /// The overview for someone who is about to remove the session. First adds a completed write that a killed process
    /// did not commit.
    pub fn overview_for_removal(&self, session: SessionId) -> Result<SessionOverview, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        self.complete_write(session)?;
        self.overview(session)
    }

    /// Makes a completed write at the end of a session a part of its log, as its next writer would (G11).
    fn complete_write(&self, session: SessionId) -> Result<(), Box<ErrorEnvelope>> {
        if let Ok(Some(_)) = self.store.pending_write(session) {
            self.store.lock(session).map_err(error::store)?;
        }
        Ok(())
    }

    /// Exempts a session from retention.
    pub fn keep(&self, session: SessionId) -> Result<(), Box<ErrorEnvelope>> {
        self.permit(Act::Decide)?;
        self.store.keep(session).map_err(error::upkeep)
    }

    pub fn unkeep(&self, session: SessionId) -> Result<(), Box<ErrorEnvelope>> {
        self.permit(Act::Decide)?;
        self.store.unkeep(session).map_err(error::upkeep)
    }

    /// Removes a session that the person has seen as `seen`; its content is removed by the next clean-up.
    pub fn delete(&self, seen: &SessionOverview) -> Result<FileTotals, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        let session = seen.session_id;
        self.complete_write(session)?;
        let judged = match self.store.read(session, None) {
            Err(StoreError::NotFound { .. }) => {
                return Err(error::upkeep(StoreError::NotFound { session }.into()));
            }
            Ok(slice) if slice.health.is_healthy() => {
                if slice.cursor.next_event_index.get() != seen.events {
                    return Err(error::upkeep(UpkeepError::Changed { session }));
                }
                Some(slice.cursor)
            }
            // A session seen as damaged has no end to compare, and nothing can be appended to it.
            Ok(_) | Err(_) if !seen.health.is_healthy() => None,
            // Seen as healthy, it may have been written to since, perhaps by a newer version.
            Ok(_) => return Err(error::upkeep(UpkeepError::Changed { session })),
            Err(cause) => return Err(error::store(cause)),
        };
        let removed = self.store.remove(session, judged.as_ref());
        removed.map(FileTotals::from).map_err(|cause| self.unless_obstructed(session, error::upkeep(cause)))
    }
}
