//! The two ways to access a session: looking at it, and holding it to append (G15, G20, G36).
//!
//! `look` gives a closure the folded state and no way to write. `hold` lends the locked session of a
//! healthy log to one closure; the lock ends with it.

use workrail_core::agent_site::{AgentSite, RunRights};
use workrail_core::project::{self, SessionState};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::SessionId;
use workrail_model::plan::AppendPlan;
use workrail_ports::cache::{ProjectionCache, SessionIndex};
use workrail_ports::environment::Entropy;
use workrail_ports::passkeys::PasskeyReader;
use workrail_ports::pending_preferences::PendingPreferencesReader;
use workrail_ports::session_store::{Appended, LockedSession, SessionReader, StoreError};

use crate::catalog::Catalog;
use crate::content::CachedContent;
use crate::counts::AppendCounters;
use crate::folded::{Folded, FoldedSessions, locked};
use crate::summaries::SummaryCache;
use crate::token::Signer;
use crate::{Engine, EngineEnvironment, Store, error};

/// What a read-only use case may touch.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub sessions: &'a dyn SessionReader,
    pub content: CachedContent<'a>,
    pub pending_preferences: &'a dyn PendingPreferencesReader,
    pub passkeys: &'a dyn PasskeyReader,
    pub entropy: &'a dyn Entropy,
    pub environment: &'a EngineEnvironment,
    pub signer: &'a Signer,
    pub folded: &'a FoldedSessions,
    pub projections: &'a dyn ProjectionCache,
    pub index: &'a dyn SessionIndex,
    pub summary_cache: &'a SummaryCache,
    pub catalog: &'a Catalog,
    pub site: &'a AgentSite,
    /// What the caller's role allows.
    pub rights: RunRights,
}

impl Reading<'_> {
    /// Reads what is new and passes a healthy session to the closure.
    pub(crate) fn look<T>(
        &self,
        session: SessionId,
        use_it: impl FnOnce(&SessionState) -> Result<T, Box<ErrorEnvelope>>,
    ) -> Result<T, Box<ErrorEnvelope>> {
        let entry = self.folded.entry(session);
        let mut folded = locked(&entry);
        self.start_from_cache(session, &mut folded);
        let slice = self.sessions.read(session, folded.since()).map_err(error::store)?;
        if !slice.health.is_healthy() {
            return Err(error::health(session, &slice.health));
        }
        folded.take(&slice).map_err(|cause| error::fold(session, &cause))?;
        let answer = use_it(&folded.state).map_err(|cause| error::naming_runs(cause, &folded.state));
        self.check_readable(&mut folded)?;
        answer
    }

    /// Passes what this process has folded of a session to the closure, without reading what was appended since; `None`
    /// if it has folded nothing. For choices that cost only time when they are wrong.
    pub(crate) fn recall<T>(&self, session: SessionId, use_it: impl FnOnce(&SessionState) -> T) -> Option<T> {
        let entry = self.folded.entry(session);
        let folded = locked(&entry);
        folded.since().is_some().then(|| use_it(&folded.state))
    }

    /// Refuses an answer from a cache that was only partly readable, and drops that cache. Damage never gets this
    /// far, since a cache has a digest.
    fn check_readable(&self, folded: &mut Folded) -> Result<(), Box<ErrorEnvelope>> {
        if folded.state.is_readable() {
            return Ok(());
        }
        let _ = self.projections.invalidate(folded.state.session_id());
        folded.forget();
        Err(error::internal("the saved state of the session could not be read; it was dropped"))
    }

    /// Lets a session that this process has not folded start from its saved state.
    fn start_from_cache(&self, session: SessionId, folded: &mut Folded) {
        if folded.since().is_none()
            && let Some(cached) = self.cached(session)
        {
            *folded = cached;
        }
    }

    /// The folded state that an appender saved for a long session (G18). It is valid only while the log still has the
    /// group at its cursor, which the next read checks.
    pub(crate) fn cached(&self, session: SessionId) -> Option<Folded> {
        Folded::from_cache(session, &self.projections.get(session, project::VERSION)?)
    }
}

impl<S: Store> Engine<S> {
    /// Locks the session, folds what is new and lends it to a closure.
    pub(crate) fn hold<T>(
        &self,
        session: SessionId,
        use_it: impl FnOnce(&mut HeldSession<'_, S::Locked<'_>>) -> Result<T, Box<ErrorEnvelope>>,
    ) -> Result<T, Box<ErrorEnvelope>> {
        let mut held =
            self.store.lock(session).inspect_err(|cause| self.counts.failed(cause)).map_err(error::store)?;
        let entry = self.folded.entry(session);
        let mut folded = locked(&entry);
        self.reading().start_from_cache(session, &mut folded);
        let slice = held.events_since(folded.since()).map_err(error::store)?;
        folded.take(&slice).map_err(|cause| error::fold(session, &cause))?;
        let before = folded.cursor;
        let answer =
            use_it(&mut HeldSession { session: &mut held, folded: &mut folded, counts: &self.counts });
        let has_appended = folded.cursor != before;
        match self.reading().check_readable(&mut folded) {
            Ok(()) if has_appended => self.save(&mut folded),
            Err(unreadable) if !has_appended => return Err(unreadable),
            // After an append the answer is valid whatever happens here: the next call folds the log again.
            Ok(()) | Err(_) => {}
        }
        answer.map_err(|cause| error::naming_runs(cause, &folded.state))
    }

    /// Saves what the next process would have to recompute; a failure only costs time (G18). The folded state is written
    /// under the session's lock, so that it replaces nothing newer.
    fn save(&self, folded: &mut Folded) {
        self.index(folded);
        if let Some(projection) = folded.due_for_cache() {
            let _ = self.store.put(folded.state.session_id(), &projection);
        }
    }

    /// Appends the first plan of a new session.
    pub(crate) fn create(&self, session: SessionId, plan: AppendPlan) -> Result<(), Box<ErrorEnvelope>> {
        match self.create_once(session, plan)? {
            Creation::Made => Ok(()),
            Creation::Exists => Err(error::store(StoreError::AlreadyExists { session })),
        }
    }

    /// The same for a session whose id the caller derived, which another process may have created first.
    pub(crate) fn create_once(
        &self,
        session: SessionId,
        plan: AppendPlan,
    ) -> Result<Creation, Box<ErrorEnvelope>> {
        let mut held = match self.store.create(session) {
            Err(StoreError::AlreadyExists { .. }) => return Ok(Creation::Exists),
            created => created.map_err(error::store)?,
        };
        let entry = self.folded.entry(session);
        let mut folded = locked(&entry);
        // The id may have been in use before: what was folded then is another session.
        folded.forget();
        HeldSession { session: &mut held, folded: &mut folded, counts: &self.counts }.append(plan)?;
        self.save(&mut folded);
        Ok(Creation::Made)
    }
}

/// Whether a session was created, or already existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    Made,
    Exists,
}

/// A session that may be appended to, with its folded state.
#[derive(Debug)]
pub(crate) struct HeldSession<'a, L> {
    session: &'a mut L,
    folded: &'a mut Folded,
    counts: &'a AppendCounters,
}

impl<L: LockedSession> HeldSession<'_, L> {
    pub(crate) fn state(&self) -> &SessionState {
        &self.folded.state
    }

    /// Makes the plan durable, then folds it.
    pub(crate) fn append(&mut self, plan: AppendPlan) -> Result<(), Box<ErrorEnvelope>> {
        let session = self.session.session_id();
        // A decision based on a partial state is not recorded; `hold` drops the state.
        if !self.folded.state.is_readable() {
            return Err(error::internal("the saved state of the session could not be read"));
        }
        let appended = self.session.append(plan).inspect_err(|cause| self.counts.failed(cause));
        match appended.map_err(error::store)? {
            Appended::Committed { events, cursor } => {
                self.counts.appended();
                self.folded.extend(&events, cursor).map_err(|cause| error::fold(session, &cause))
            }
            // Under the lock the folded state is current, so a decision never repeats a recorded plan.
            Appended::AlreadyRecorded => Err(error::internal("a new plan was recorded before")),
        }
    }
}
