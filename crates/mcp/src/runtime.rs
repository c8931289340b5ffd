//! The runtime behind a transport: one thread for the protocol, a bounded number for calls.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Calls that run at once. More wait their turn; each holds a thread while it works on the store.
const CALLS_MAX: usize = 64;

pub(crate) fn build() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().max_blocking_threads(CALLS_MAX).thread_name("mcp-call").build()
}
