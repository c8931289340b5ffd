//! All sessions of the store, what waits first.

use workrail_core::overview::{Finished, SessionRows, SessionsList, arrange, damaged, rows};
use workrail_model::error::ErrorEnvelope;
use workrail_model::health::SessionHealth;

use super::Heard;
use crate::gate::Reading;
use crate::{Engine, Store, error};

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
        let sessions = self.sessions.sessions().map_err(error::store)?;
        let mut found = Vec::with_capacity(sessions.len());
        for (place, session) in (0..).zip(&sessions) {
            heard(place, sessions.len() as u64);
            // One that was deleted in between is none of the list.
            let Ok(read) = self.salvage(*session) else { continue };
            found.push(match read.health {
                SessionHealth::Healthy => {
                    SessionRows::Healthy(rows(&read.state, &read.events, &self.content))
                }
                health @ SessionHealth::CorruptTail { .. } => {
                    SessionRows::Damaged(damaged(*session, health, Some(&read.state)))
                }
                health @ (SessionHealth::CorruptHead { .. } | SessionHealth::UnknownVersion { .. }) => {
                    SessionRows::Damaged(damaged(*session, health, None))
                }
            });
        }
        Ok(arrange(found, finished))
    }
}
