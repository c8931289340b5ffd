//! Recovers the activity number from the sessions, for a store that lost its counter and its reservation.

use workrail_model::event::{Activity, Event};
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_ports::file_system::{FileSystem, FsErrorKind};
use workrail_ports::session_store::{SessionReader, StoreError};

use super::RESERVED_AT_ONCE;
use crate::layout;
use crate::rebuild::{MANIFEST_TAIL_BYTES, last_closed};
use crate::store::LocalStore;

impl<F: FileSystem> LocalStore<F> {
    /// The newest number of all readable sessions. A margin covers unreadable sessions and numbers that no event
    /// carries.
    pub(super) fn newest_activity_of_sessions(&self) -> Result<u64, StoreError> {
        let sessions = self.sessions()?;
        if sessions.is_empty() {
            return Ok(0);
        }
        let mut last = 0_u64;
        for session in sessions {
            last = last.max(self.last_activity(session)?);
        }
        Ok(last.saturating_add(RESERVED_AT_ONCE))
    }

    /// The activity of a session's newest events, read from its last group alone where possible.
    fn last_activity(&self, session: SessionId) -> Result<u64, StoreError> {
        if let Some(last) = self.last_segment_activity(session) {
            return Ok(last);
        }
        match self.read(session, None) {
            Ok(slice) => Ok(newest(&slice.events)),
            // Temporary, and unrelated to this session.
            Err(StoreError::Io(error)) if error.kind == FsErrorKind::TooManyOpenFiles => Err(error.into()),
            // An unreadable session must not block the others.
            Err(_) => Ok(0),
        }
    }

    fn last_segment_activity(&self, session: SessionId) -> Option<u64> {
        let path = layout::manifest(session);
        let len = self.fs().stat(&path).ok()?.len.min(MANIFEST_BYTES_MAX);
        let from = len.saturating_sub(MANIFEST_TAIL_BYTES);
        let tail = self.fs().read(&path, from, MANIFEST_TAIL_BYTES * 2).ok()?;
        let (_, closed) = last_closed(&tail)?;
        let segment = self.fs().read(&layout::in_session(session, &closed)?, 0, SEGMENT_BYTES_MAX).ok()?;
        let events: Option<Vec<Event>> = segment
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| Event::parse(line).ok())
            .collect();
        let activity = newest(&events?);
        (activity > 0).then_some(activity)
    }
}

fn newest(events: &[Event]) -> u64 {
    events.iter().filter_map(|event| event.activity).map(Activity::get).max().unwrap_or(0)
}
