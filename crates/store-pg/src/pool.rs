//! A bounded set of connections. A caller waits a bounded time for a free one.

use std::fmt;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::{Connection, Endpoint, TimeLimits};
use crate::error::StatementError;

/// How long a call waits for a free connection.
const WAIT_MAX: Duration = Duration::from_secs(10);

pub(crate) struct Pool {
    endpoint: Endpoint,
    limits: TimeLimits,
    size: usize,
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<Connection>,
    /// Connections in use, or being made.
    used: usize,
    /// How often a caller had to wait.
    waits: u64,
}

/// The current use of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// What its connections are for.
    pub name: &'static str,
    /// The maximum number of connections.
    pub size: usize,
    pub used: usize,
    /// How often a caller had to wait since the pool was opened.
    pub waits: u64,
}

/// Whether a connection was used before: if so, the server may have closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionOrigin {
    Fresh,
    Idle,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Pool {
    pub(crate) fn new(endpoint: Endpoint, limits: TimeLimits, size: usize) -> Self {
        Self { endpoint, limits, size, state: Mutex::default(), returned: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        // A panic while it was held cannot have left it half-changed: each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for the exclusive use of the caller; returned with `put` or `discard`.
    pub(crate) fn take(&self) -> Result<(Connection, ConnectionOrigin), StatementError> {
        let deadline = Instant::now() + WAIT_MAX;
        let mut state = self.state();
        let mut has_waited = false;
        loop {
            if let Some(client) = state.idle.pop() {
                state.used += 1;
                return Ok((client, ConnectionOrigin::Idle));
            }
            if state.used < self.size {
                state.used += 1;
                break;
            }
            if !has_waited {
                (has_waited, state.waits) = (true, state.waits + 1);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StatementError::Busy);
            }
            state = self.returned.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        match Connection::open(&self.endpoint, self.limits.answer()) {
            Ok(client) => Ok((client, ConnectionOrigin::Fresh)),
            Err(error) => {
                self.discard();
                Err(error)
            }
        }
    }

    pub(crate) fn in_use(&self, name: &'static str) -> PoolUse {
        let state = self.state();
        PoolUse { name, size: self.size, used: state.used, waits: state.waits }
    }

    pub(crate) fn limits(&self) -> TimeLimits {
        self.limits
    }

    /// Adds a connection that was made elsewhere.
    pub(crate) fn adopt(&self, client: Connection) {
        self.state().idle.push(client);
    }

    /// Returns a connection without an open transaction.
    pub(crate) fn put(&self, client: Connection) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(1);
        state.idle.push(client);
        drop(state);
        self.returned.notify_one();
    }

    /// Closes every idle connection.
    pub(crate) fn drop_idle(&self) {
        // Closed without the lock: others need not wait for it.
        let idle = mem::take(&mut self.state().idle);
        drop(idle);
    }

    /// Frees the slot of a lost connection.
    pub(crate) fn discard(&self) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(1);
        drop(state);
        self.returned.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let idle = mem::take(&mut self.state().idle);
        if idle.is_empty() {
            return;
        }
        // Closing a connection blocks on its own runtime, which panics in async code, and the last handle on a store
        // may be dropped there. If closing fails, the connection is closed all the same; without a thread to spare, here.
        if let Ok(closing) = thread::Builder::new().spawn(move || drop(idle)) {
            let _ = closing.join();
        }
    }
}
