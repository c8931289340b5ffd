//! All sessions of the store, what waits first.

use workrail_core::overview::{Finished, SessionRows, SessionsList, arrange, damaged};
use workrail_model::error::ErrorEnvelope;
use workrail_model::health::SessionHealth;
use workrail_ports::session_store::StampDepth;

use super::Heard;
use crate::gate::Reading;
use crate::{Engine, Store};

impl<S: Store> Engine<S> {
    /// One row per run, and every damaged session with its health.
    pub fn sessions(&self, finished: Finished, heard: Heard<'_>) -> Result<SessionsList, Box<ErrorEnvelope>> {
        self.reading().list_sessions(finished, heard)
    }
}

impl Reading<'_> {
    fn list_sessions(
        &self,
        finished: Finished,
        heard: Heard<'_>,
    ) -> Result<SessionsList, Box<ErrorEnvelope>> {
        let known = self.cards_at(StampDepth::Segments, heard)?;
        let healthy = known.rows().map(|rows| SessionRows::Healthy(rows.to_vec()));
        let unhealthy = known.unhealthy.iter().map(|(session, health)| {
            // Only what comes before the damage may be named.
            let read = match health {
                SessionHealth::CorruptTail { .. } => self.salvage(*session).ok(),
                SessionHealth::Healthy
                | SessionHealth::CorruptHead { .. }
                | SessionHealth::UnknownVersion { .. } => None,
            };
            let facts = read.as_ref().map(|read| &read.state);
            SessionRows::Damaged(damaged(*session, health.clone(), facts))
        });
        Ok(arrange(healthy.chain(unhealthy), finished))
    }
}
