//! What hosts' hooks saw of a run and no advance has recorded yet (G105). Never truth: a hook that cannot hand something
//! over drops it, and losing what waits costs the log nothing.

use workrail_model::evidence::HookObservation;
use workrail_model::id::{RunId, SessionId};

use crate::file_system::FsError;

/// Where hooks leave what they saw, for the next advance of the run to record.
pub trait ObservationSpool: Send + Sync {
    /// Leaves an observation. It never waits, and what does not fit is dropped: a hook must not hold up its host.
    fn leave_observation(
        &self,
        session: SessionId,
        run: RunId,
        seen: &HookObservation,
    ) -> Result<(), FsError>;
    /// What waits for the run, oldest first; nothing where it cannot be read. Damaged lines, and lines that no hook can
    /// have written, are left out. The caller holds the session's lock.
    fn take_observations(&self, session: SessionId, run: RunId) -> Vec<HookObservation>;
    /// Forgets the first `recorded` of what was taken, once they are in the log. Until then they are taken again.
    fn forget_observations(&self, session: SessionId, run: RunId, recorded: usize) -> Result<(), FsError>;
}
