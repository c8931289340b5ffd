//! MCP of both eras over standard input and output (G74); ends when the client closes its side, whichever
//! side that is.

use std::io;
use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;

use crate::call::Execution;
use crate::lines::Lines;
use crate::runtime;
use crate::server::Server;

/// Serves until standard input ends or standard output is closed.
pub fn serve(execution: Arc<dyn Execution>) -> io::Result<()> {
    serve_until(Server::new(Arc::clone(&execution)), || execution.ending())
}

/// The same for any handler; the fixtures of the conformance suite are served by it, too.
pub fn serve_handler(handler: impl ServerHandler + Clone) -> io::Result<()> {
    serve_until(handler, || {})
}

/// Serves, then says that it is over before calls that are under way are waited for.
fn serve_until(handler: impl ServerHandler + Clone, ending: impl FnOnce()) -> io::Result<()> {
    // The runtime is dropped after it: a call that is under way finishes before the process ends.
    runtime::without_sockets()?.block_on(async {
        let lines = Lines::start(io::stdin(), io::stdout())?;
        let served = serve_lines(handler, &lines).await;
        ending();
        served?;
        // Answers that were not written are lost calls, unless the client left by itself.
        lines.write_failure().map_or(Ok(()), Err)
    })
}

async fn serve_lines(handler: impl ServerHandler + Clone, lines: &Lines) -> io::Result<()> {
    loop {
        match handler.clone().serve(lines.clone()).await {
            Ok(running) => return running.waiting().await.map(|_| ()).map_err(io::Error::other),
            Err(error) if may_still_open(&error) => {
                tracing::debug!(%error, "not an opening message; waiting for one");
            }
            Err(error) => {
                // A client that leaves before the first request is not a failure of ours.
                tracing::debug!(%error, "the client left before its first request");
                return Ok(());
            }
        }
    }
}

/// The SDK gives up at a stray notification or a failed handshake; the next message may be a good one.
fn may_still_open(error: &ServerInitializeError) -> bool {
    matches!(
        error,
        ServerInitializeError::ExpectedInitializeRequest(_) | ServerInitializeError::InitializeFailed(_)
    )
}
