//! The runtime behind a transport: one thread for the protocol, a bounded number for calls.

use std::io;
use std::os::unix::net::UnixStream;

use tokio::runtime::{Builder, Runtime};

/// The maximum number of concurrent calls. More wait their turn; each holds a thread while it works on the store.
const CALLS_MAX: usize = 64;

/// For a transport with its own threads: no sockets and no signals, so it opens no files.
pub(crate) fn without_sockets() -> io::Result<Runtime> {
    builder().enable_time().build()
}

/// For a transport over sockets.
pub(crate) fn with_sockets() -> io::Result<Runtime> {
    check_open_files()?;
    builder().enable_all().build()
}

fn builder() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.max_blocking_threads(CALLS_MAX).thread_name("mcp-call");
    builder
}

/// A runtime with signals panics if it cannot open its files, so that is tried first: a few for its drivers, and some for
/// the listener and the calls.
pub fn check_open_files() -> io::Result<()> {
    const PAIRS: usize = 8;
    let opened: io::Result<Vec<_>> = (0..PAIRS).map(|_| UnixStream::pair()).collect();
    opened.map(drop)
}
