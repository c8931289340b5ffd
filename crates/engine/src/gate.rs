//! The two ways to a session: looking at it, and holding it to append (G15, G20, G36).
//!
//! `look` gives a closure the folded state and no way to write. `hold` lends the locked session of a
//! healthy log to one closure; the lock ends with it.

use workrail_core::project::SessionState;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::SessionId;
use workrail_model::plan::AppendPlan;
use workrail_ports::control::WishReader;
use workrail_ports::environment::Entropy;
use workrail_ports::session_store::{Appended, LockedSession, SessionReader, StoreError};

use crate::cards::Cards;
use crate::catalog::Catalog;
use crate::contents::Content;
use crate::folded::{Folded, FoldedSessions, locked};
use crate::token::Signer;
use crate::{Engine, Store, Surroundings, error};

/// What a read-only use case may touch.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub sessions: &'a dyn SessionReader,
    pub content: Content<'a>,
    pub wishes: &'a dyn WishReader,
    pub entropy: &'a dyn Entropy,
    pub around: &'a Surroundings,
    pub signer: &'a Signer,
    pub folded: &'a FoldedSessions,
    pub cards: &'a Cards,
    pub catalog: &'a Catalog,
}

impl Reading<'_> {
    /// Reads what is new and shows the session; only a healthy one.
    pub(crate) fn look<T>(
        &self,
        session: SessionId,
        use_it: impl FnOnce(&SessionState) -> Result<T, Box<ErrorEnvelope>>,
    ) -> Result<T, Box<ErrorEnvelope>> {
        let entry = self.folded.entry(session);
        let mut folded = locked(&entry);
        let slice = self.sessions.read(session, folded.since()).map_err(error::store)?;
        if !slice.health.is_healthy() {
            return Err(error::health(session, &slice.health));
        }
        folded.take(&slice).map_err(|cause| error::fold(session, &cause))?;
        use_it(&folded.state)
    }
}

impl<S: Store> Engine<S> {
    /// Locks the session, folds what is new and lends it to a closure.
    pub(crate) fn hold<T>(
        &self,
        session: SessionId,
        use_it: impl FnOnce(&mut Held<'_, S::Locked<'_>>) -> Result<T, Box<ErrorEnvelope>>,
    ) -> Result<T, Box<ErrorEnvelope>> {
        let mut held = self.store.lock(session).map_err(error::store)?;
        let entry = self.folded.entry(session);
        let mut folded = locked(&entry);
        let slice = held.events_since(folded.since()).map_err(error::store)?;
        folded.take(&slice).map_err(|cause| error::fold(session, &cause))?;
        use_it(&mut Held { session: &mut held, folded: &mut folded })
    }

    /// Appends the first plan of a new session.
    pub(crate) fn create(&self, session: SessionId, plan: AppendPlan) -> Result<(), Box<ErrorEnvelope>> {
        match self.create_once(session, plan)? {
            Creation::Made => Ok(()),
            Creation::Exists => Err(error::store(StoreError::AlreadyExists { session })),
        }
    }

    /// The same for a session whose id the caller derived, which another process may have made first.
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
        Held { session: &mut held, folded: &mut folded }.append(plan)?;
        Ok(Creation::Made)
    }
}

/// Whether a session was made, or was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    Made,
    Exists,
}

/// A session that may be appended to, with its folded state.
#[derive(Debug)]
pub(crate) struct Held<'a, L> {
    session: &'a mut L,
    folded: &'a mut Folded,
}

impl<L: LockedSession> Held<'_, L> {
    pub(crate) fn state(&self) -> &SessionState {
        &self.folded.state
    }

    /// Makes the plan durable, then folds it.
    pub(crate) fn append(&mut self, plan: AppendPlan) -> Result<(), Box<ErrorEnvelope>> {
        let session = self.session.session_id();
        match self.session.append(plan).map_err(error::store)? {
            Appended::Committed { events, cursor } => {
                self.folded.extend(&events, cursor).map_err(|cause| error::fold(session, &cause))
            }
            // Under the lock the folded state is current, so a decision never repeats a recorded plan.
            Appended::AlreadyRecorded => Err(error::internal("a new plan was recorded before")),
        }
    }
}
