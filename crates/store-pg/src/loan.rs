//! Lends the connection that locks a session to the thread that holds the session.
//!
//! A thread that keeps one connection and waits for another can wait forever: a pooler shares few connections among
//! all processes, and each of them may be held by such a thread. So everything that a thread does while its session's
//! transaction is open happens in that transaction. A read leaves it open, and so does a write that belongs to the next
//! append. Any other write commits it, which ends the lock like an append does: a later append locks again, and is refused
//! if another process wrote in between.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::connection::Connection;

/// The connections that locked sessions lend, each to the thread that locked it.
#[derive(Default)]
pub(crate) struct Loans {
    lent: Mutex<Vec<(ThreadId, Arc<Loan>)>>,
}

impl Loans {
    fn all(&self) -> MutexGuard<'_, Vec<(ThreadId, Arc<Loan>)>> {
        // Each change is one push or one removal.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends a connection in an open transaction to this thread.
    pub(crate) fn lend(&self, connection: Option<Connection>) -> Arc<Loan> {
        let loan = Arc::new(Loan(Mutex::new(connection)));
        self.all().push((thread::current().id(), Arc::clone(&loan)));
        loan
    }

    pub(crate) fn end(&self, ended: &Arc<Loan>) {
        self.all().retain(|(_, loan)| !Arc::ptr_eq(loan, ended));
    }

    /// The last loan to this thread whose transaction is open, with its connection.
    pub(crate) fn take(&self) -> Option<(Arc<Loan>, Connection)> {
        let own = thread::current().id();
        let lent = self.all();
        lent.iter().rev().filter(|(id, _)| *id == own).find_map(|(_, loan)| {
            let connection = loan.take()?;
            Some((Arc::clone(loan), connection))
        })
    }
}

/// The connection of one locked session, in an open transaction that holds the session's lock. `None` while it is used,
/// and after the transaction ended.
pub(crate) struct Loan(Mutex<Option<Connection>>);

impl Loan {
    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Option<Connection> {
        self.connection().take()
    }

    pub(crate) fn put(&self, connection: Option<Connection>) {
        *self.connection() = connection;
    }
}
