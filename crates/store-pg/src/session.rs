//! A locked session: a transaction that holds the session's lock, over a log found healthy (G15).
//!
//! The lock ends with the transaction, so a writer that dies, or loses its connection, leaves none behind. An append
//! ends the transaction; a later append under the same witness locks again, and is refused if another process wrote
//! in between: the head moves only from where the writer last saw it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use workrail_model::digest::Sha256;
use workrail_model::event::Event;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::LOCK_WAIT_MS_MAX;
use workrail_model::manifest::Cursor;
use workrail_model::plan::AppendPlan;
use workrail_ports::file_system::{FsError, FsOp};
use workrail_ports::session_store::{Appended, LockedSession, SessionSlice, SessionStore, StoreError};

use crate::append;
use crate::error::StatementError;
use crate::loan::Loan;
use crate::log::{self, LoadedSegments, Position, ReadRange};
use crate::open::PgStore;
use crate::transaction::{Purpose, Transaction};

/// How many logs' validated ends are remembered. A forgotten log is validated again from its beginning.
const VALIDATED_MAX: usize = 4096;

impl PgStore {
    fn validated(&self) -> MutexGuard<'_, BTreeMap<SessionId, Position>> {
        self.validated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread's turn to lock the session, among the threads of the process.
    fn take_turn(&self, session: SessionId) -> Result<ProcessLock<'_>, StoreError> {
        let deadline = Instant::now() + Duration::from_millis(LOCK_WAIT_MS_MAX);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held.contains(&session) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Locked { session });
            }
            held = self.released.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        held.insert(session);
        Ok(ProcessLock { store: self, session })
    }

    /// A transaction that holds the session's lock in the database, and the store's lock, shared.
    pub(crate) fn lock_in_database(&self, session: SessionId) -> Result<Transaction<'_>, StoreError> {
        let failed = |failed: StatementError| failed.of_session(FsOp::Lock, session);
        // Two sessions with the same key would only wait for each other. The store's lock keeps sweeps out.
        let key = lock_key(b"workrail/session-lock", &[self.tenant.as_str(), "/", &session.to_string()]);
        let store = self.store_lock_key();
        let both = format!("SELECT pg_advisory_xact_lock({key}), pg_advisory_xact_lock_shared({store})");
        Transaction::begin_with(&self.writers, &self.tenant, Purpose::Writing, &both).map_err(failed)
    }

    /// The key of the lock that writers share, and that a sweep takes exclusively.
    pub(crate) fn store_lock_key(&self) -> i64 {
        lock_key(b"workrail/store-lock", &[self.tenant.as_str()])
    }

    /// Drops what this process remembers about a removed or rewritten session.
    pub(crate) fn forget(&self, session: SessionId) {
        self.validated().remove(&session);
    }

    /// Locks a session and validates the part that this process has not seen. The flag says whether the session exists.
    fn admit(&self, session: SessionId) -> Result<(LockedPgSession<'_>, bool), StoreError> {
        let turn = self.take_turn(session)?;
        let mut transaction = self.lock_in_database(session)?;
        let base = self.validated().get(&session).copied().unwrap_or_else(Position::start);
        let since = (base != Position::start()).then_some(base.cursor);
        let loaded = log::load(&mut transaction, session, since.as_ref(), ReadRange::ToTheEnd)
            .map_err(|failed| failed.of_session(FsOp::Read, session))?;
        let exists = loaded.is_some();
        let loaded = loaded.unwrap_or_else(|| LoadedSegments {
            segments: Vec::new(),
            position: Position::start(),
            continues: true,
            health: SessionHealth::Healthy,
        });
        if !loaded.health.is_healthy() {
            return Err(StoreError::Unhealthy { session, health: loaded.health });
        }
        let base = if loaded.continues && exists { base.cursor } else { Cursor::start() };
        let head = loaded.position;
        let locked = LockedPgSession {
            store: self,
            session,
            loan: self.loans.lend(transaction.suspended()),
            turn,
            head,
            base,
            new_events: loaded.into_events(),
            failed: None,
        };
        Ok((locked, exists))
    }
}

fn lock_key(purpose: &[u8], names: &[&str]) -> i64 {
    let names = names.concat();
    let digest = Sha256::of_parts(&[purpose, names.as_bytes()]);
    let mut word = [0; 8];
    word.copy_from_slice(&digest.as_bytes()[..8]);
    i64::from_be_bytes(word)
}

/// Held while a thread of this process has the session.
struct ProcessLock<'a> {
    store: &'a PgStore,
    session: SessionId,
}

impl Drop for ProcessLock<'_> {
    fn drop(&mut self) {
        self.store.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
        self.store.released.notify_all();
    }
}

/// The witness: created only here, ends with the lock.
pub struct LockedPgSession<'a> {
    store: &'a PgStore,
    session: SessionId,
    /// The connection of the transaction that holds the lock. It has none after an append, until the next one.
    loan: Arc<Loan>,
    #[expect(dead_code, reason = "held for its drop, which lets the next thread in")]
    turn: ProcessLock<'a>,
    head: Position,
    /// Where `new_events` starts.
    base: Cursor,
    new_events: Vec<Event>,
    /// The first failure: nothing more is attempted on this witness.
    failed: Option<FsError>,
}

impl fmt::Debug for LockedPgSession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedPgSession").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<'a> LockedPgSession<'a> {
    /// The transaction that holds the lock, begun again after an append.
    fn locked_transaction(&self) -> Result<Transaction<'a>, StoreError> {
        match self.loan.take() {
            Some(connection) => Ok(Transaction::resumed(&self.store.writers, connection)),
            None => self.store.lock_in_database(self.session),
        }
    }

    fn try_append(&mut self, plan: &AppendPlan) -> Result<Option<Position>, StoreError> {
        let mut transaction = self.locked_transaction()?;
        match append::prepare(&mut transaction, &self.head, plan) {
            Ok(Some(write)) => return write.commit(transaction).map(Some),
            // A statement failed, and the transaction with it.
            Err(error @ (StoreError::Io(_) | StoreError::Locked { .. } | StoreError::Busy)) => {
                return Err(error);
            }
            // Refused or repeated: nothing was written, so the lock is kept.
            Err(error) => {
                self.loan.put(transaction.suspended());
                return Err(error);
            }
            Ok(None) => self.loan.put(transaction.suspended()),
        }
        Ok(None)
    }
}

impl LockedSession for LockedPgSession<'_> {
    fn session_id(&self) -> SessionId {
        self.session
    }

    fn cursor(&self) -> Cursor {
        self.head.cursor
    }

    fn events_since(&self, since: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
        let (cursor, health) = (self.head.cursor, SessionHealth::Healthy);
        if since == Some(&cursor) {
            return Ok(SessionSlice { events: Vec::new(), continues: true, cursor, health });
        }
        if since.copied().unwrap_or_else(Cursor::start) == self.base {
            return Ok(SessionSlice { events: self.new_events.clone(), continues: true, cursor, health });
        }
        let mut transaction = self.locked_transaction()?;
        let loaded = log::load(&mut transaction, self.session, since, ReadRange::ToTheEnd);
        self.loan.put(transaction.suspended());
        let loaded = loaded.map_err(|failed| failed.of_session(FsOp::Read, self.session))?;
        loaded.map(LoadedSegments::into_slice).ok_or(StoreError::NotFound { session: self.session })
    }

    fn append(&mut self, plan: AppendPlan) -> Result<Appended, StoreError> {
        if let Some(error) = &self.failed {
            return Err(error.clone().into());
        }
        if plan.session_id() != self.session {
            return Err(StoreError::WrongSession { expected: self.session, found: plan.session_id() });
        }
        let appended = self.try_append(&plan).inspect_err(|error| {
            if let StoreError::Io(cause) | StoreError::Uncertain(cause) = error {
                self.failed = Some(cause.clone());
            }
        })?;
        let Some(head) = appended else { return Ok(Appended::AlreadyRecorded) };
        self.head = head;
        self.new_events.extend_from_slice(plan.events());
        Ok(Appended::Committed { events: plan.into_events(), cursor: head.cursor })
    }
}

impl Drop for LockedPgSession<'_> {
    fn drop(&mut self) {
        self.store.loans.end(&self.loan);
        // Rolled back before the next thread is let in.
        drop(self.loan.take().map(|connection| Transaction::resumed(&self.store.writers, connection)));
        let mut validated = self.store.validated();
        // After a failure the log is read again: memory may be wrong about what was recorded.
        if self.failed.is_some() || self.head == Position::start() {
            validated.remove(&self.session);
            return;
        }
        if validated.len() >= VALIDATED_MAX && !validated.contains_key(&self.session) {
            validated.clear();
        }
        validated.insert(self.session, self.head);
    }
}

impl SessionStore for PgStore {
    type Locked<'a> = LockedPgSession<'a>;

    fn create(&self, session: SessionId) -> Result<LockedPgSession<'_>, StoreError> {
        match self.admit(session)? {
            (_, true) => Err(StoreError::AlreadyExists { session }),
            (locked, false) => Ok(locked),
        }
    }

    fn lock(&self, session: SessionId) -> Result<LockedPgSession<'_>, StoreError> {
        match self.admit(session)? {
            (locked, true) => Ok(locked),
            (_, false) => Err(StoreError::NotFound { session }),
        }
    }
}
