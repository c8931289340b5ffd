//! MCP over standard input and output; ends when the client closes its side.

use std::io;
use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::stdio;

use crate::call::Execution;
use crate::server::Server;

/// Serves until standard input ends.
pub fn serve(execution: Arc<dyn Execution>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let running = match Server::new(execution).serve(stdio()).await {
            Ok(running) => running,
            Err(error) => {
                // A client that leaves before or during the handshake is no failure of ours.
                tracing::warn!(%error, "the client did not complete the handshake");
                return Ok(());
            }
        };
        running.waiting().await.map(|_| ()).map_err(io::Error::other)
    })
}
