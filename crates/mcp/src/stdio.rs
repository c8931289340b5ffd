//! MCP of both eras over standard input and output (G74); ends when the client closes either of them.

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
    serve_then(Server::new(Arc::clone(&execution)), || execution.stop_work())
}

/// Like `serve`, for any handler; the conformance fixtures use it, too.
pub fn serve_handler(handler: impl ServerHandler + Clone) -> io::Result<()> {
    serve_then(handler, || {})
}

/// Serves, then calls `stop_work` before it waits for running calls.
fn serve_then(handler: impl ServerHandler + Clone, stop_work: impl FnOnce()) -> io::Result<()> {
    // The runtime is dropped afterwards: a running call finishes before the process ends.
    runtime::without_sockets()?.block_on(async {
        let lines = Lines::start(io::stdin(), io::stdout())?;
        let served = serve_lines(handler, &lines).await;
        stop_work();
        served?;
        // Unwritten answers are lost calls, unless the client disconnected.
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
                // A client that disconnects before its first request is not our failure.
                tracing::debug!(%error, "the client left before its first request");
                return Ok(());
            }
        }
    }
}

/// The SDK gives up after a stray notification or a failed handshake, but the next message may be valid.
fn may_still_open(error: &ServerInitializeError) -> bool {
    matches!(
        error,
        ServerInitializeError::ExpectedInitializeRequest(_) | ServerInitializeError::InitializeFailed(_)
    )
}
