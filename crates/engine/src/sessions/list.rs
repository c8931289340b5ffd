//! All sessions of the store, what waits first.

use workrail_core::overview::{Finished, SessionRows, SessionsList, arrange, damaged};
use workrail_model::error::ErrorEnvelope;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_ports::session_store::StampDepth;

use super::Heard;
use crate::cards::SessionSummaries;
use crate::gate::Reading;
use crate::{Engine, Store};

/// Of the sessions that come first, every segment is looked at; of the others the manifest alone. More than this nobody
/// reads, and looking at all segments would cost more than the rest of the list.
const LOOKED_AT_CLOSELY: usize = 500;

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
        let mut known = self.cards_at(StampDepth::Manifest, heard)?;
        let list = self.arranged(&known, finished);
        let first: Vec<SessionId> =
            list.runs.iter().take(LOOKED_AT_CLOSELY).map(|row| row.session_id).collect();
        match self.drop_damaged(&mut known, &first) {
            true => Ok(self.arranged(&known, finished)),
            false => Ok(list),
        }
    }

    fn arranged(&self, known: &SessionSummaries, finished: Finished) -> SessionsList {
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
        arrange(healthy.chain(unhealthy), finished)
    }
}
