//! The health of all sessions in the store, none left out (G20).

use workrail_model::error::ErrorEnvelope;
use workrail_model::id::SessionId;
use workrail_ports::session_store::StampDepth;

use crate::{Engine, Store, error};

/// A session that cannot continue, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct UnhealthySession {
    pub session: SessionId,
    pub cause: Box<ErrorEnvelope>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreHealth {
    pub sessions: usize,
    pub unhealthy: Vec<UnhealthySession>,
}

impl<S: Store> Engine<S> {
    /// Reads every session with a file written since it was indexed; `progress` receives how many of those are
    /// done. Damage that no file system reports, such as bit rot, is found by `verify`.
    pub fn health(&self, mut progress: impl FnMut(usize, usize)) -> Result<StoreHealth, Box<ErrorEnvelope>> {
        let reading = self.reading();
        let known = reading.summaries_at(StampDepth::Segments, &mut |done, total| {
            progress(
                usize::try_from(done).unwrap_or(usize::MAX),
                usize::try_from(total).unwrap_or(usize::MAX),
            );
        })?;
        let unhealthy: Vec<UnhealthySession> = known
            .unhealthy
            .iter()
            .map(|(session, health)| UnhealthySession {
                session: *session,
                cause: error::health(*session, health),
            })
            .collect();
        Ok(StoreHealth { sessions: known.healthy() + unhealthy.len(), unhealthy })
    }
}
