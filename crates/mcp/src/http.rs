//! MCP over Streamable HTTP at `/mcp`, on loopback only, without sessions.
//!
//! Order of checks: who asks (G75), how much, is it strict JSON (G3), and only then the SDK.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::ServerHandler;
use rmcp::model::JsonRpcError;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::call::Execution;
use crate::loopback::{AdmissionError, AllowList, Authentication, LoopbackAddress};
use crate::message::{self, MESSAGE_BYTES_MAX, Refused};
use crate::runtime;
use crate::server::Server;

/// How long requests that are under way may take once the server is told to end.
const END_WAIT: Duration = Duration::from_secs(5);

/// Whether clients of the handshake era get a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// Every request represents itself: a restart of the server is invisible to clients.
    None,
    /// For a handler that asks its client something during a call.
    Kept,
}

/// Serves until the process is told to end. `listening` gets the address once requests are accepted.
pub fn serve(
    execution: Arc<dyn Execution>,
    address: LoopbackAddress,
    authentication: Authentication,
    listening: impl FnOnce(&str),
) -> io::Result<()> {
    serve_handler(Server::new(execution), Sessions::None, address, authentication, listening)
}

/// The same for any handler; the fixtures of the conformance suite are served by it, too.
pub fn serve_handler(
    handler: impl ServerHandler + Clone,
    sessions: Sessions,
    address: LoopbackAddress,
    authentication: Authentication,
    listening: impl FnOnce(&str),
) -> io::Result<()> {
    runtime::with_sockets()?.block_on(async {
        let told_to_end = told_to_end()?;
        let listener = TcpListener::bind(address.socket_address()).await?;
        let bound = listener.local_addr()?;
        let routes = routes(handler, sessions, AllowList::of(bound, authentication));
        listening(&format!("http://{bound}/mcp"));

        let (end, ended) = oneshot::channel::<()>();
        let serving = axum::serve(listener, routes).with_graceful_shutdown(async {
            let _ = ended.await;
        });
        let mut serving = pin!(serving.into_future());
        tokio::select! {
            result = &mut serving => return result,
            () = told_to_end => drop(end),
        }
        // A client that never finishes its request must not keep the process.
        timeout(END_WAIT, serving).await.unwrap_or(Ok(()))
    })
}

/// Everything behind the check of who asks: the outer router has no routes, so nothing is matched before.
fn routes(handler: impl ServerHandler + Clone, sessions: Sessions, allowed: AllowList) -> Router {
    let allowed = Arc::new(allowed);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(sessions == Sessions::Kept)
        .with_json_response(true)
        .with_max_request_body_bytes(MESSAGE_BYTES_MAX)
        // Checked by us already; the SDK is told the same, so that neither depends on the other.
        .with_allowed_hosts(allowed.hosts.clone())
        .with_allowed_origins(allowed.origins.clone())
        .enforce_origin_validation();
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let known = Router::new().route_service("/mcp", service).layer(from_fn(strict));
    Router::new().fallback_service(known).layer(from_fn_with_state(allowed, admit))
}

async fn admit(State(allowed): State<Arc<AllowList>>, mut request: Request, next: Next) -> Response {
    match allowed.admit(request.uri(), request.headers()) {
        Ok(()) => {
            // Nothing behind this needs the secret, so nothing behind it can log it.
            request.headers_mut().remove(header::AUTHORIZATION);
            next.run(request).await
        }
        Err(stranger) => {
            tracing::warn!(?stranger, "a request was refused");
            let reason = stranger.reason();
            match stranger {
                AdmissionError::Host | AdmissionError::Origin => {
                    (StatusCode::FORBIDDEN, reason).into_response()
                }
                AdmissionError::Secret => {
                    let scheme = [(header::WWW_AUTHENTICATE, "Bearer realm=\"workrail\"")];
                    (StatusCode::UNAUTHORIZED, scheme, reason).into_response()
                }
            }
        }
    }
}

async fn strict(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, MESSAGE_BYTES_MAX).await else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, message::too_long());
    };
    match message::check(&bytes) {
        // Written again: what the SDK reads is what was checked.
        Ok((message, ambiguity)) => {
            parts.headers.remove(header::CONTENT_LENGTH);
            if let Some(ambiguity) = ambiguity {
                parts.extensions.insert(ambiguity);
            }
            next.run(Request::from_parts(parts, Body::from(message.to_string()))).await
        }
        Err(refused) => refusal(StatusCode::BAD_REQUEST, refused),
    }
}

/// The reason in the body, as JSON-RPC where there is an answer to give.
fn refusal(status: StatusCode, refused: Refused) -> Response {
    tracing::warn!(reason = refused.reason, "a message was refused");
    let body = refused.answer.and_then(|answer: JsonRpcError| serde_json::to_vec(&answer).ok());
    match body {
        Some(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        None => (status, format!("Bad Request: {}\n", refused.reason)).into_response(),
    }
}

/// Resolves when the process is asked to end; from now on, and not from the first poll.
#[cfg(unix)]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    })
}

#[cfg(not(unix))]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
