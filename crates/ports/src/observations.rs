//! What hosts' hooks saw of a run and no advance has recorded yet (G105). Never the source of truth: a hook drops
//! what it cannot hand over, and losing pending observations does not affect the log.

use workrail_model::evidence::HookObservation;
use workrail_model::id::{RunId, SessionId};

use crate::file_system::FsError;

/// Where hooks leave observations for the run's next advance to record.
pub trait ObservationSpool: Send + Sync {
    /// Leaves an observation. Never waits, and drops what does not fit: a hook must not hold up its host.
    fn leave_observation(
        &self,
        session: SessionId,
        run: RunId,
        seen: &HookObservation,
    ) -> Result<(), FsError>;
    /// The run's pending observations, oldest first; empty if they cannot be read. Skips damaged lines and lines that
    /// no hook can have written. The caller holds the session's lock.
    fn take_observations(&self, session: SessionId, run: RunId) -> Vec<HookObservation>;
    /// Removes the first `recorded` of those taken, once they are in the log. Until then they are taken again.
    fn forget_observations(&self, session: SessionId, run: RunId, recorded: usize) -> Result<(), FsError>;
}
