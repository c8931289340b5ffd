//! Reads a session whatever its health: the intact part, marked as incomplete if it is (G20).
//!
//! Nothing here leads to an advance: a caller gets its own copy of the state, and no lock.

use workrail_core::project::SessionState;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::Event;
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::session_store::StoreError;

use crate::error;
use crate::session_access::Reading;

/// The readable part of a session.
#[derive(Debug)]
pub(crate) struct Salvaged {
    pub state: SessionState,
    /// Exactly those that the state was folded from.
    pub events: Vec<Event>,
    pub health: SessionHealth,
}

impl Salvaged {
    /// Refuses a session that cannot be trusted at all.
    pub(crate) fn or_refuse(self) -> Result<Self, Box<ErrorEnvelope>> {
        match self.health {
            SessionHealth::Healthy | SessionHealth::CorruptTail { .. } => Ok(self),
            SessionHealth::CorruptHead { .. } | SessionHealth::UnknownVersion { .. } => {
                Err(error::health(self.state.session_id(), &self.health))
            }
        }
    }
}

impl Reading<'_> {
    /// The validated events of a session, folded.
    pub(crate) fn salvage(&self, session: SessionId) -> Result<Salvaged, Box<ErrorEnvelope>> {
        self.salvage_slice(session).map(|(read, _)| read).map_err(error::store)
    }

    /// The same, with the end of the log.
    pub(crate) fn salvage_slice(&self, session: SessionId) -> Result<(Salvaged, Cursor), StoreError> {
        let slice = self.sessions.read(session, None)?;
        let mut events = slice.events;
        let mut health = slice.health;
        let mut state = SessionState::new(session);
        let mut folded = 0;
        for event in &events {
            // Intact bytes can still contradict each other: that counts as damage from here on, too.
            if let Err(cause) = state.apply(event) {
                let detail = cause.to_string();
                let (valid_until, event_index) = (event.event_index, event.event_index.get());
                let reason = CorruptionReason::Event { segment: "events".to_owned(), event_index, detail };
                health = SessionHealth::CorruptTail { valid_until, reason };
                break;
            }
            folded += 1;
        }
        events.truncate(folded);
        Ok((Salvaged { state, events, health }, slice.cursor))
    }
}

/// The health of a session that the store could not read at all.
pub(crate) fn unreadable(cause: &StoreError) -> SessionHealth {
    let detail = match cause {
        StoreError::Io(cause) | StoreError::Uncertain(cause) => cause.detail.clone(),
        StoreError::NotFound { .. }
        | StoreError::AlreadyExists { .. }
        | StoreError::Locked { .. }
        | StoreError::Busy
        | StoreError::Unhealthy { .. }
        | StoreError::Stale { .. }
        | StoreError::WrongSession { .. }
        | StoreError::DedupeConflict { .. }
        | StoreError::MissingContent(_)
        | StoreError::Unattached { .. } => cause.to_string(),
    };
    SessionHealth::CorruptHead { reason: CorruptionReason::ManifestUnreadable { detail } }
}
