//! Lends the connection that locks a session to the thread that holds the session.
//!
//! A thread that keeps one connection and waits for another can wait forever: a pooler shares few connections among
//! all processes, and each of them may be held by such a thread. So everything that a thread does while its session's
//! transaction is open happens in that transaction. A read leaves it open. A write commits it, which ends the lock like
//! an append does: a later append locks again, and is refused if another process wrote in between.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use workrail_model::event::Activity;

use crate::connection::Connection;

/// The connections that locked sessions lend, each to the thread that locked it.
#[derive(Default)]
pub(crate) struct Loans {
    lent: Mutex<Vec<(ThreadId, Arc<Loan>)>>,
    /// Activity numbers of threads that are about to lock a session, at most one for each.
    reserved: Mutex<Vec<(ThreadId, Activity)>>,
}

impl Loans {
    fn all(&self) -> MutexGuard<'_, Vec<(ThreadId, Arc<Loan>)>> {
        // Each change is one push or one removal.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the number that was reserved for the session that this thread locks now.
    pub(crate) fn take_reserved(&self) -> Option<Activity> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let own = thread::current().id();
        let at = reserved.iter().position(|(id, _)| *id == own)?;
        Some(reserved.swap_remove(at).1)
    }

    pub(crate) fn reserve(&self, number: Option<Activity>) {
        let own = thread::current().id();
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.retain(|(id, _)| *id != own);
        reserved.extend(number.map(|number| (own, number)));
    }

    /// Lends a connection in an open transaction to this thread.
    pub(crate) fn lend(&self, connection: Option<Connection>, number: Option<Activity>) -> Arc<Loan> {
        let loan = Arc::new(Loan(Mutex::new(LoanState { connection, number })));
        self.all().push((thread::current().id(), Arc::clone(&loan)));
        loan
    }

    pub(crate) fn end(&self, ended: &Arc<Loan>) {
        self.all().retain(|(_, loan)| !Arc::ptr_eq(loan, ended));
    }

    /// The last loan to this thread whose transaction is open, with its connection.
    pub(crate) fn take(&self) -> Option<(Arc<Loan>, Connection)> {
        self.of_this_thread().into_iter().rev().find_map(|loan| {
            let connection = loan.take()?;
            Some((loan, connection))
        })
    }

    /// The activity number that was reserved for this thread, while its session's transaction is open.
    pub(crate) fn take_number(&self) -> Option<Activity> {
        self.of_this_thread().into_iter().rev().find_map(|loan| loan.take_number())
    }

    fn of_this_thread(&self) -> Vec<Arc<Loan>> {
        let own = thread::current().id();
        self.all().iter().filter(|(id, _)| *id == own).map(|(_, loan)| Arc::clone(loan)).collect()
    }
}

/// The connection of one locked session.
pub(crate) struct Loan(Mutex<LoanState>);

struct LoanState {
    /// In an open transaction that holds the session's lock. `None` while it is used, and after the transaction ended.
    connection: Option<Connection>,
    /// Reserved before the session was locked: the counter's row must not stay locked until the append.
    number: Option<Activity>,
}

impl Loan {
    fn state(&self) -> MutexGuard<'_, LoanState> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Option<Connection> {
        self.state().connection.take()
    }

    pub(crate) fn put(&self, connection: Option<Connection>) {
        self.state().connection = connection;
    }

    fn take_number(&self) -> Option<Activity> {
        let mut state = self.state();
        state.connection.is_some().then(|| state.number.take()).flatten()
    }
}
