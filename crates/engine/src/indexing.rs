//! Adding sessions that were appended to to the index (G18): with the append, or after the reply.
//!
//! The index may lag: readers recognise a session that has changed since and read it themselves. So a server answers
//! first, and nobody waits for the words of a session to be collected.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use workrail_core::summary::{self, Completeness, SessionSummary};
use workrail_model::id::SessionId;
use workrail_ports::cache::{IfAbsent, IndexRecord};

use crate::cards::record;
use crate::folded::{Folded, locked};
use crate::{Engine, Store};

/// Appenders index sessions up to this length. Summarising a longer one processes the words of hundreds of notes: the
/// next reader indexes it.
const INDEXED_EVENTS_MAX: u64 = 96;

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
    /// The same for servers: what they append is indexed when they call `index_appended`, after the reply.
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
        let waiting = std::mem::take(&mut *self.unindexed.waiting());
        let records: Vec<IndexRecord> = waiting
            .into_iter()
            .filter_map(|session| {
                let entry = self.folded.entry(session);
                let folded = locked(&entry);
                // A session that has left the cache is indexed by the next reader.
                folded.since()?;
                self.index_record(&folded)
            })
            .collect();
        if !records.is_empty() {
            self.store.add_to_index(summary::VERSION, &records, IfAbsent::Create);
        }
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
