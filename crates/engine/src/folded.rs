//! A process's cache of folded sessions, and how far each reaches (G23).
//!
//! A call reads only what was appended since, so its cost follows the work requested and not the
//! stored history.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use workrail_core::project::{self, FoldError, SessionState};
use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::limits::CACHE_BYTES_MAX;
use workrail_model::manifest::Cursor;
use workrail_ports::cache::CachedProjection;
use workrail_ports::session_store::SessionSlice;

/// Sessions kept folded at once; beyond this the least recently used one is dropped and read again.
const SESSIONS_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("a literal above zero");

#[derive(Debug)]
pub(crate) struct FoldedSessions {
    sessions: Mutex<LruCache<SessionId, Arc<Mutex<Folded>>>>,
}

impl Default for FoldedSessions {
    fn default() -> Self {
        Self { sessions: Mutex::new(LruCache::new(SESSIONS_MAX)) }
    }
}

/// One session's folded state.
#[derive(Debug)]
pub(crate) struct Folded {
    pub state: SessionState,
    pub cursor: Cursor,
    /// The length of the log when the state was last cached.
    cached_events: u64,
    /// The state no longer fits the cache. An earlier saved state still avoids most of the fold.
    too_large: bool,
}

/// Shorter sessions are folded faster than a cached state is read.
const CACHED_EVENTS_MIN: u64 = 512;
/// The cache is rewritten when this share of the log is not in it: writing stays a constant fraction of the cost of
/// appending, and what a new process must fold a constant fraction of the log.
const UNCACHED_PART_MAX: u64 = 128;
/// Fewer events than this are folded faster than a state is written.
const UNCACHED_EVENTS_MIN: u64 = 128;
/// What a cache can hold besides its header.
const STATE_BYTES_MAX: u64 = CACHE_BYTES_MAX - 4096;

impl Folded {
    fn new(session: SessionId) -> Self {
        Self {
            state: SessionState::new(session),
            cursor: Cursor::start(),
            cached_events: 0,
            too_large: false,
        }
    }

    /// A state from the cache, if it belongs to this session.
    pub(crate) fn from_cache(session: SessionId, cached: &CachedProjection) -> Option<Self> {
        let state: SessionState = serde_json::from_slice(&cached.state).ok()?;
        let cached_events = state.next_event_index().get();
        let fits =
            state.session_id() == session && state.next_event_index() == cached.cursor.next_event_index;
        fits.then_some(Self { state, cursor: cached.cursor, cached_events, too_large: false })
    }

    /// The state to be cached, if the cache is far behind.
    pub(crate) fn due_for_cache(&mut self) -> Option<CachedProjection> {
        let events = self.state.next_event_index().get();
        let step = UNCACHED_EVENTS_MIN.max(events / UNCACHED_PART_MAX);
        if self.too_large || events < CACHED_EVENTS_MIN || events.saturating_sub(self.cached_events) < step {
            return None;
        }
        self.cached_events = events;
        let fits = |state: &Vec<u8>| state.len() as u64 <= STATE_BYTES_MAX;
        let state = serde_json::to_vec(&self.state).ok().filter(fits);
        self.too_large = state.is_none();
        Some(CachedProjection { version: project::VERSION, cursor: self.cursor, state: state? })
    }

    /// Starts over: the next use folds the log from its beginning.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.state.session_id());
    }

    /// The cursor from which to read.
    pub(crate) fn since(&self) -> Option<&Cursor> {
        (self.cursor != Cursor::start()).then_some(&self.cursor)
    }

    /// Folds what the store returned; a log that does not continue is folded from the start.
    pub(crate) fn take(&mut self, slice: &SessionSlice) -> Result<(), FoldError> {
        if !slice.continues {
            *self = Self::new(self.state.session_id());
        }
        self.extend(&slice.events, slice.cursor)
    }

    /// Folds the following events; on an error everything is dropped, so that no half-folded state remains.
    pub(crate) fn extend(&mut self, events: &[Event], cursor: Cursor) -> Result<(), FoldError> {
        for event in events {
            if let Err(error) = self.state.apply(event) {
                self.forget();
                return Err(error);
            }
        }
        self.cursor = cursor;
        Ok(())
    }
}

impl FoldedSessions {
    /// The session's entry; empty if it was not cached.
    pub(crate) fn entry(&self, session: SessionId) -> Arc<Mutex<Folded>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(sessions.get_or_insert(session, || Arc::new(Mutex::new(Folded::new(session)))))
    }
}

/// Locks an entry. A panic while it was held may have left it half-folded; then it starts over.
pub(crate) fn locked(entry: &Mutex<Folded>) -> MutexGuard<'_, Folded> {
    entry.lock().unwrap_or_else(|poisoned| {
        let mut guard = poisoned.into_inner();
        *guard = Folded::new(guard.state.session_id());
        entry.clear_poison();
        guard
    })
}
