//! Deletions that can still be undone: a session is deleted a few seconds after the request (G95).
//!
//! Until then nothing has changed. A console that ends before then deletes nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use workrail_engine::upkeep::SessionOverview;
use workrail_model::id::SessionId;

/// How long a deletion can be undone.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(8);

/// A requested deletion.
#[derive(Clone, Debug)]
pub(crate) struct HeldDeletion {
    pub(crate) session: SessionId,
    /// The session's name for users.
    pub(crate) name: String,
    pub(crate) state: HeldState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeldState {
    /// It can still be undone.
    Held,
    /// It is being carried out.
    Deleting,
    /// It was tried and refused, for this reason; the session still exists.
    Refused(String),
}

#[derive(Debug)]
struct HeldEntry {
    ticket: u64,
    seen: SessionOverview,
    state: HeldState,
}

#[derive(Debug, Default)]
pub(crate) struct HeldDeletions {
    entries: Mutex<HeldEntries>,
}

#[derive(Debug, Default)]
struct HeldEntries {
    last_ticket: u64,
    by_session: BTreeMap<SessionId, HeldEntry>,
}

impl HeldDeletions {
    fn entries(&self) -> MutexGuard<'_, HeldEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a deletion; the ticket distinguishes it from one requested again after an undo.
    pub(crate) fn hold(&self, seen: SessionOverview) -> u64 {
        let mut entries = self.entries();
        entries.last_ticket += 1;
        let ticket = entries.last_ticket;
        entries.by_session.insert(seen.session_id, HeldEntry { ticket, seen, state: HeldState::Held });
        ticket
    }

    /// The deletion that is now due and can no longer be undone; `None` if it was undone.
    pub(crate) fn due(&self, session: SessionId, ticket: u64) -> Option<SessionOverview> {
        let mut entries = self.entries();
        let entry = entries.by_session.get_mut(&session).filter(|entry| entry.ticket == ticket)?;
        if entry.state != HeldState::Held {
            return None;
        }
        entry.state = HeldState::Deleting;
        Some(entry.seen.clone())
    }

    /// Records how it ended.
    pub(crate) fn ended(&self, session: SessionId, ticket: u64, refused: Option<String>) {
        let mut entries = self.entries();
        let is_same_request = entries.by_session.get(&session).is_some_and(|entry| entry.ticket == ticket);
        match (is_same_request, refused) {
            (false, _) => {}
            (true, None) => {
                entries.by_session.remove(&session);
            }
            (true, Some(reason)) => {
                if let Some(entry) = entries.by_session.get_mut(&session) {
                    entry.state = HeldState::Refused(reason);
                }
            }
        }
    }

    /// Undoes a deletion, or dismisses its refusal. Returns whether there was one that had not begun.
    pub(crate) fn undo(&self, session: SessionId) -> bool {
        let mut entries = self.entries();
        let begun = entries.by_session.get(&session).is_some_and(|entry| entry.state == HeldState::Deleting);
        !begun && entries.by_session.remove(&session).is_some()
    }

    pub(crate) fn is_held(&self, session: SessionId) -> bool {
        self.entries().by_session.get(&session).is_some_and(|entry| entry.state == HeldState::Held)
    }

    pub(crate) fn list(&self) -> Vec<HeldDeletion> {
        let entries = self.entries();
        let listed = entries.by_session.iter().map(|(session, entry)| {
            let labels: Vec<&str> = entry.seen.runs.iter().map(|run| run.label.as_str()).collect();
            let name = if labels.is_empty() { session.to_string() } else { labels.join(", ") };
            HeldDeletion { session: *session, name, state: entry.state.clone() }
        });
        listed.collect()
    }
}

#[cfg(test)]
mod tests {
    use workrail_model::health::SessionHealth;

    use super::*;

    fn seen() -> SessionOverview {
        SessionOverview {
            session_id: SessionId::from_bits([1; 10]),
            health: SessionHealth::Healthy,
            is_kept: false,
            events: 3,
            last_worked_on: None,
            runs: Vec::new(),
        }
    }

    #[test]
    fn an_undone_deletion_is_not_carried_out_and_can_be_requested_again() {
        let (held, session) = (HeldDeletions::default(), seen().session_id);
        let first = held.hold(seen());
        assert!(held.is_held(session) && held.undo(session) && !held.is_held(session));
        assert!(held.due(session, first).is_none(), "the timer of what was undone finds nothing");
        let second = held.hold(seen());
        assert!(held.due(session, first).is_none(), "an older timer does not delete what is held now");
        assert!(held.due(session, second).is_some());
        assert!(!held.undo(session), "it is too late once it is carried out");
        held.ended(session, second, Some("in use".to_owned()));
        assert_eq!(held.list()[0].state, HeldState::Refused("in use".to_owned()));
        assert!(held.due(session, second).is_none());
    }
}
