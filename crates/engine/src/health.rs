//! How the sessions of the store are: read from beginning to end, none left out (G20).

use workrail_core::project::SessionState;
use workrail_model::error::ErrorEnvelope;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;

use crate::{Engine, Store, error};

/// A session that cannot go on, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Unwell {
    pub session: SessionId,
    pub cause: Box<ErrorEnvelope>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreHealth {
    pub sessions: usize,
    pub unwell: Vec<Unwell>,
}

impl<S: Store> Engine<S> {
    /// Reads every session; `progress` hears how many are done and how many there are.
    pub fn health(&self, mut progress: impl FnMut(usize, usize)) -> Result<StoreHealth, Box<ErrorEnvelope>> {
        let sessions = self.store.sessions().map_err(error::store)?;
        let mut found = StoreHealth { sessions: sessions.len(), unwell: Vec::new() };
        for (position, session) in sessions.iter().enumerate() {
            progress(position, sessions.len());
            if let Err(cause) = self.well(*session) {
                found.unwell.push(Unwell { session: *session, cause });
            }
        }
        Ok(found)
    }

    fn well(&self, session: SessionId) -> Result<(), Box<ErrorEnvelope>> {
        let slice = self.store.read(session, None).map_err(error::store)?;
        match slice.health {
            SessionHealth::Healthy => {
                let folded = SessionState::from_events(session, &slice.events);
                folded.map(drop).map_err(|cause| error::fold(session, &cause))
            }
            SessionHealth::CorruptTail { .. }
            | SessionHealth::CorruptHead { .. }
            | SessionHealth::UnknownVersion { .. } => Err(error::health(session, &slice.health)),
        }
    }
}
