//! What a person asks of a whole store: checking, cleaning, keeping, removing, repairing, rotating keys
//! (G24, G25, G33). Agents have no tool for these.

mod backup;
mod content;
mod copy;
mod copy_keys;
mod copy_session;
mod gc;
mod keys;
mod repair;
mod sessions;
mod verify;

use workrail_core::project::SessionState;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{RunId, SessionId};
use workrail_model::preferences::RunStatus;
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::upkeep::Inspection;

use crate::{Engine, Store, error};

pub use backup::{
    ChangedSession, CopyProblem, CopySummary, KeysResult, SessionCounts, back_up, find_in_backup, restore,
};
pub use content::{ContentRepair, RestoredContent, UnrestoredContent};
pub use copy::{PasskeysResult, StoreCopyOptions, StoreCopySummary, TargetSessions, copy_store};
pub use gc::{
    AheadOfClock, CleanupPlan, CleanupReport, FileTotals, FreedSpace, RemovedSession, RetainedCounts,
};
pub use keys::{KeyFacts, Keys, NewKeys};
pub use repair::{LostEvents, RepairOutcome, RepairSummary, SegmentLoss};
pub use sessions::{RunOverview, SessionOverview};
pub use verify::{CheckedCounts, Note, SignedRecord, StoreProblem, Verified, VerifyScope};

/// Whether a command only says what it would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMode {
    DryRun,
    Real,
}

/// A run's status. Whether its tip is complete is recorded in a snapshot, which may be damaged.
fn status_of(
    facts: &SessionState,
    run: RunId,
    content: &dyn ContentStore,
) -> Result<Option<RunStatus>, ContentError> {
    let tip = facts.preferred_tip(run).and_then(|tip| facts.node(tip));
    let Some(tip) = tip else { return Ok(None) };
    let is_complete = content.snapshot(tip.snapshot_ref)?.state().is_complete();
    Ok(facts.run_status(run, is_complete))
}

/// Where a store in files has the session, beneath the data directory.
fn session_folder(session: SessionId) -> String {
    format!("sessions/{session}")
}

/// Whether this is the path of the session's folder or of its segments.
fn is_path_of_session(session: SessionId, path: &str) -> bool {
    path.strip_prefix(&session_folder(session)).is_some_and(|rest| matches!(rest, "" | "/events"))
}

impl<S: Store + Inspection> Engine<S> {
    /// A refusal; if something else is in the place of the session's folder or of its segments, it says that instead.
    fn unless_obstructed(&self, session: SessionId, refused: Box<ErrorEnvelope>) -> Box<ErrorEnvelope> {
        let obstacles = self.store.obstacles();
        match obstacles.into_iter().find(|obstacle| is_path_of_session(session, &obstacle.path)) {
            Some(obstacle) => error::obstructed(refused, &obstacle),
            None => refused,
        }
    }
}
