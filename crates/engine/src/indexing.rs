//! Keeps the index up to date with what this process appends (G18): with the append, or after the reply.
//!
//! The index may lag: readers recognise a session that has changed since and read it themselves. So a server answers
//! first, and nobody waits for the words of a session to be collected.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use workrail_core::summary::{self, Completeness, SessionSummary};
use workrail_model::id::SessionId;
use workrail_ports::cache::{IfAbsent, IndexRecord};

use crate::folded::{Folded, locked};
use crate::summaries::record;
use crate::{Engine, Store};

/// Appenders index sessions up to this length. Summarising a longer one processes the words of hundreds of notes: the
/// next reader indexes it.
const INDEXED_EVENTS_MAX: u64 = 96;

/// How many sessions are added to the index at once.
const SESSIONS_PER_WRITE: usize = 16;

/// When a session that was appended to is added to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexTiming {
    WithAppend,
    AfterReply,
}

/// Sessions that wait to be added to the index.
#[derive(Debug, Default)]
pub(crate) struct UnindexedSessions {
    waiting: Mutex<BTreeSet<SessionId>>,
    /// Held while some are added, so that a search in this process can wait for them.
    adding: Mutex<()>,
}

impl UnindexedSessions {
    /// A poisoned lock is fine: a set of ids is never half changed.
    fn waiting(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Engine<S> {
    /// For a server: what it appends is indexed when it calls `index_appended`, after the reply.
    pub fn indexing_after_replies(self) -> Self {
        Self { index_timing: IndexTiming::AfterReply, ..self }
    }

    /// Whether something waits for `index_appended`.
    pub fn has_unindexed(&self) -> bool {
        !self.unindexed.waiting().is_empty()
    }

    /// Adds to the index what replies did not wait for. A failure only costs the next reader time.
    pub fn index_appended(&self) {
        let _adding = self.unindexed.adding.lock().unwrap_or_else(PoisonError::into_inner);
        self.index_waiting();
    }

    /// Like `index_appended`, unless another thread is doing it: that one also adds what came meanwhile, and a thread that
    /// answers calls is not blocked.
    pub fn index_appended_unless_busy(&self) {
        match self.unindexed.adding.try_lock() {
            Ok(_adding) => self.index_waiting(),
            Err(TryLockError::Poisoned(poisoned)) => {
                let _adding = poisoned.into_inner();
                self.index_waiting();
            }
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Adds a few at a time: a database locks their marks until they are written.
    fn index_waiting(&self) {
        loop {
            let few: Vec<SessionId> = {
                let mut waiting = self.unindexed.waiting();
                (0..SESSIONS_PER_WRITE).map_while(|_| waiting.pop_first()).collect()
            };
            if few.is_empty() {
                return;
            }
            let records: Vec<IndexRecord> =
                few.into_iter().filter_map(|session| self.late_index_record(session)).collect();
            if !records.is_empty() {
                self.store.add_to_index(summary::VERSION, &records, IfAbsent::Create);
            }
        }
    }

    /// `None` also if the log is no longer the one that was folded: the lock was released since, and a stamp must not
    /// vouch for another log (G18).
    fn late_index_record(&self, session: SessionId) -> Option<IndexRecord> {
        let entry = self.folded.entry(session);
        let folded = locked(&entry);
        // A session that has left the cache is indexed by the next reader.
        let cursor = folded.since()?;
        let record = self.index_record(&folded)?;
        let slice = self.store.read(session, Some(cursor)).ok()?;
        let is_unchanged = slice.health.is_healthy() && slice.continues && slice.events.is_empty();
        is_unchanged.then_some(record)
    }

    pub(crate) fn index(&self, folded: &Folded) {
        match self.index_timing {
            IndexTiming::AfterReply => {
                self.unindexed.waiting().insert(folded.state.session_id());
            }
            IndexTiming::WithAppend => {
                if let Some(record) = self.index_record(folded) {
                    self.store.add_to_index(summary::VERSION, &[record], IfAbsent::Create);
                }
            }
        }
    }

    /// `None` if the session is too long, if other processes have appended to it since, or if content is missing.
    fn index_record(&self, folded: &Folded) -> Option<IndexRecord> {
        let session = folded.state.session_id();
        if folded.state.next_event_index().get() > INDEXED_EVENTS_MAX {
            return None;
        }
        let stamp = self.store.stamp(session)?;
        let (summary, completeness) = SessionSummary::of(&folded.state, &self.content());
        match completeness {
            Completeness::Complete => record(session, stamp, folded.cursor, &summary),
            Completeness::ContentMissing => None,
        }
    }
}
