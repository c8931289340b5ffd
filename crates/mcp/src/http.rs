//! MCP over Streamable HTTP at `/mcp`, on loopback only, without sessions.
//!
//! Order of checks: authentication (G75), size, strict JSON (G3), and only then the SDK.

use std::future::Future;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use rmcp::ServerHandler;
use rmcp::model::{ErrorCode, JsonRpcError};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use workrail_model::loopback::{ListenerNames, LoopbackAddress};

use crate::addressee::{Addressee, Scan};
use crate::batch;
use crate::call::Execution;
use crate::connections;
use crate::loopback::{AdmissionError, AllowList, Authentication};
use crate::message::{self, Ambiguity, MESSAGE_BYTES_MAX, RejectedMessage};
use crate::quota::{BatchQuota, MustWait, too_many_requests};
use crate::runtime;
use crate::server::Server;

/// How long a client may take for the body of a request, once its head has arrived.
const BODY_WAIT: Duration = Duration::from_secs(10);

/// How long the body of a request that announces too many bytes is read for its id.
const REFUSED_BODY_WAIT: Duration = Duration::from_secs(1);

/// How much of an oversized message is scanned for its id.
const SCANNED_BYTES_MAX: usize = 16 * MESSAGE_BYTES_MAX;

/// What ends a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// A signal.
    UntilSignal,
    /// A signal, or the end of standard input, whose other end the client that started the server holds.
    WhileInputIsOpen,
}

/// Serves until its lifetime ends. `listening` gets the address once requests are accepted.
pub fn serve(
    execution: Arc<dyn Execution>,
    address: LoopbackAddress,
    authentication: Authentication,
    lifetime: Lifetime,
    listening: impl FnOnce(&str),
) -> io::Result<()> {
    let server = Server::new(Arc::clone(&execution));
    let server = match &authentication {
        Authentication::Bearer(_) => server,
        // Any user of the machine could approve.
        Authentication::None => server.without_chat_approvals(),
    };
    serve_until(server, address, authentication, lifetime, || execution.stop_work(), listening)
}

/// Like `serve`, for any handler; the conformance fixtures use it, too.
pub fn serve_handler(
    handler: impl ServerHandler + Clone,
    address: LoopbackAddress,
    authentication: Authentication,
    lifetime: Lifetime,
    listening: impl FnOnce(&str),
) -> io::Result<()> {
    serve_until(handler, address, authentication, lifetime, || {}, listening)
}

/// Serves, and calls `stop_work` before it waits for running calls.
fn serve_until(
    handler: impl ServerHandler + Clone,
    address: LoopbackAddress,
    authentication: Authentication,
    lifetime: Lifetime,
    stop_work: impl FnOnce(),
    listening: impl FnOnce(&str),
) -> io::Result<()> {
    runtime::with_sockets()?.block_on(async {
        let signal = shutdown_signal()?;
        let input_ended = input_ended(lifetime)?;
        let listener = TcpListener::bind(address.socket_address()).await?;
        let bound = listener.local_addr()?;
        let routes = routes(handler, AllowList::of(bound, authentication));
        listening(&format!("http://{bound}/mcp"));

        let shutdown_signal = async {
            tokio::select! {
                () = signal => (),
                () = input_ended => tracing::debug!("the client that started this server has left"),
            }
            stop_work();
        };
        connections::serve(listener, None, routes, shutdown_signal).await;
        Ok(())
    })
}

/// Resolves, with an error, when the server ends: endless streams must watch it.
pub type ServerShutdown = watch::Receiver<()>;

/// Serves the routes of another interface under `localhost`, with the limits of this one, until the process receives
/// a termination signal. `listening` gets the address once requests are accepted.
///
/// `localhost` is the loopback address of both families, so both are bound: another program with the same port on the
/// other family would receive this user's secrets.
pub fn serve_localhost(
    address: LoopbackAddress,
    routes: impl FnOnce(SocketAddr, ServerShutdown) -> Router,
    listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let runtime = runtime::with_sockets()?;
    let served = runtime.block_on(async {
        let signal = shutdown_signal()?;
        let (listener, other) = localhost(address).await?;
        let bound = listener.local_addr()?;
        let (end, ending) = watch::channel(());
        let routes = routes(bound, ending.clone());
        listening(bound);

        let ended = |mut ending: ServerShutdown| async move {
            let _ = ending.changed().await;
        };
        let serving = connections::serve(listener, None, routes.clone(), ended(ending.clone()));
        let serving_other = async {
            if let Some(other) = other {
                connections::serve(other, None, routes, ended(ending)).await;
            }
        };
        tokio::join!(serving, serving_other, async {
            signal.await;
            drop(end);
        });
        Ok(())
    });
    // A slow page must not keep the program from ending.
    runtime.shutdown_timeout(BLOCKING_WORK_WAIT);
    served
}

/// How long work on blocking threads may still take once the last connection is closed or given up.
pub(crate) const BLOCKING_WORK_WAIT: Duration = Duration::from_secs(2);

/// A free port may be taken on the other family; then another one is tried.
const PORTS_TRIED_MAX: usize = 16;

/// Listeners on the address and on the same port of `::1`, if this machine has it.
async fn localhost(address: LoopbackAddress) -> io::Result<(TcpListener, Option<TcpListener>)> {
    for _ in 0..PORTS_TRIED_MAX {
        let listener = TcpListener::bind(address.socket_address()).await?;
        let port = listener.local_addr()?.port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
            Ok(other) => return Ok((listener, Some(other))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if address.socket_address().port() != 0 {
                    return Err(error);
                }
            }
            // This machine lacks that address family.
            Err(_) => return Ok((listener, None)),
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrInUse))
}

/// Resolves when the client that started this server is gone. Its input is ignored.
fn input_ended(lifetime: Lifetime) -> io::Result<impl Future<Output = ()>> {
    let (ended, has_ended) = oneshot::channel::<()>();
    match lifetime {
        Lifetime::UntilSignal => {}
        Lifetime::WhileInputIsOpen => {
            // A thread that the runtime does not own: a read that never returns must not keep the process.
            thread::Builder::new().name("mcp-input".to_owned()).spawn(move || {
                let _ = io::copy(&mut io::stdin(), &mut io::sink());
                let _ = ended.send(());
            })?;
        }
    }
    Ok(async {
        // Without a thread the sender is dropped, and nothing ends the server.
        if has_ended.await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// Everything behind the authentication: the outer router has no routes, so nothing is matched before.
fn routes(handler: impl ServerHandler + Clone, allowed: AllowList) -> Router {
    let known = mcp_route(handler, &allowed.names);
    Router::new().fallback_service(known).layer(from_fn_with_state(Arc::new(allowed), admit))
}

/// The endpoint at `/mcp`, for admitted requests.
pub(crate) fn mcp_route(handler: impl ServerHandler + Clone, names: &ListenerNames) -> Router {
    let config = StreamableHttpServerConfig::default()
        // Every request is independent: clients do not notice a restart of the server.
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MESSAGE_BYTES_MAX)
        // Already checked by us; the SDK gets the same rule, so that neither depends on the other.
        .with_allowed_hosts(names.hosts.clone())
        .with_allowed_origins(names.origins.clone())
        .enforce_origin_validation();
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    Router::new().route_service("/mcp", service).layer(from_fn(check_message))
}

async fn admit(State(allowed): State<Arc<AllowList>>, mut request: Request, next: Next) -> Response {
    match allowed.admit(request.uri(), request.headers()) {
        Ok(()) => {
            // Nothing after this needs the secret, so nothing after this can log it.
            request.headers_mut().remove(header::AUTHORIZATION);
            next.run(request).await
        }
        Err(refusal) => {
            tracing::warn!(?refusal, "a request was refused");
            let reason = refusal.reason();
            match refusal {
                AdmissionError::Host | AdmissionError::Origin => {
                    (StatusCode::FORBIDDEN, reason).into_response()
                }
                AdmissionError::Secret => unauthorized(reason),
            }
        }
    }
}

pub(crate) fn unauthorized(reason: &'static str) -> Response {
    let scheme = [(header::WWW_AUTHENTICATE, "Bearer realm=\"workrail\"")];
    (StatusCode::UNAUTHORIZED, scheme, reason).into_response()
}

async fn check_message(mut request: Request, next: Next) -> Response {
    unify_media_types(request.headers_mut());
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let is_too_long = declared_bytes(&parts.headers).is_some_and(|bytes| bytes > MESSAGE_BYTES_MAX as u64);
    let wait = if is_too_long { REFUSED_BODY_WAIT } else { BODY_WAIT };
    let bytes = match timeout(wait, read_body(body)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(BodyError::TooLong(addressee))) => {
            return refusal_response(StatusCode::PAYLOAD_TOO_LARGE, message::too_long(addressee));
        }
        Ok(Err(BodyError::Broken)) => {
            return (StatusCode::BAD_REQUEST, "Bad Request: the body broke off\n").into_response();
        }
        Err(_) if is_too_long => {
            return refusal_response(StatusCode::PAYLOAD_TOO_LARGE, message::too_long(Addressee::Unknown));
        }
        Err(_) => {
            let reason = "Request Timeout: the body did not arrive in time\n";
            return (StatusCode::REQUEST_TIMEOUT, [(header::CONNECTION, "close")], reason).into_response();
        }
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    match batch::elements(&bytes) {
        None => {}
        Some(Err(refused)) => return refusal_response(StatusCode::BAD_REQUEST, refused),
        Some(Ok(elements)) => {
            // Messages beyond the limit of a batch are refused, not carried out.
            let messages = elements.len().min(batch::MESSAGES_MAX);
            let quota = parts.extensions.remove::<BatchQuota>();
            if let Some(Err(MustWait(wait))) = quota.map(|quota| quota.take(messages, Instant::now())) {
                return too_many_requests(wait);
            }
            return answer_batch(&parts, &elements, &next).await;
        }
    }
    match message::check(&bytes) {
        Ok(checked) => next.run(checked_request(parts, checked)).await,
        Err(refused) => refusal_response(StatusCode::BAD_REQUEST, refused),
    }
}

/// The length that the client announces.
fn declared_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Why there is no body to read.
enum BodyError {
    TooLong(Addressee),
    /// The client disconnected, or framed it wrongly.
    Broken,
}

/// The body; an oversized one is not kept, except for the id to answer.
async fn read_body(mut body: Body) -> Result<Vec<u8>, BodyError> {
    let mut received = Vec::new();
    let mut too_long: Option<Scan> = None;
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        bytes += piece.len();
        if bytes > SCANNED_BYTES_MAX {
            return Err(BodyError::TooLong(Addressee::Unknown));
        }
        match &mut too_long {
            Some(scan) => scan.feed(&piece),
            None => received.extend_from_slice(&piece),
        }
        if received.len() > MESSAGE_BYTES_MAX {
            too_long.get_or_insert_default().feed(&std::mem::take(&mut received));
        }
    }
    match too_long {
        Some(scan) => Err(BodyError::TooLong(scan.finish())),
        None => Ok(received),
    }
}

/// Serialised again, so that the SDK reads exactly what was checked.
fn checked_request(mut parts: Parts, (message, ambiguity): (Value, Option<Ambiguity>)) -> Request {
    if let Some(ambiguity) = ambiguity {
        parts.extensions.insert(ambiguity);
    }
    Request::from_parts(parts, Body::from(message.to_string()))
}

/// Answers the messages of a batch one after the other.
async fn answer_batch(parts: &Parts, elements: &[Box<RawValue>], next: &Next) -> Response {
    let mut answers = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        match batch::element(index, element.get().as_bytes()) {
            Ok((mut message, ambiguity)) => {
                // The SDK would stream progress before the answer, and one document has no room for it.
                if let Some(Value::Object(meta)) = message.pointer_mut("/params/_meta") {
                    meta.remove("progressToken");
                }
                let id = message.get("id").cloned();
                let request = checked_request(parts.clone(), (message, ambiguity));
                let (head, body) = next.clone().run(request).await.into_parts();
                // Our own answer, already in memory.
                let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
                match id {
                    _ if body.starts_with(b"{") => answers.push(body.to_vec()),
                    _ if head.status.is_success() => {}
                    // About the headers, which most often are wrong for every message.
                    _ if answers.is_empty() => return Response::from_parts(head, Body::from(body)),
                    Some(id) => answers.push(plain_refusal(&id, &body).to_string().into_bytes()),
                    None => {}
                }
            }
            Err(RejectedMessage { answer, reason }) => {
                tracing::warn!(reason, "a message of a batch was refused");
                answers.extend(answer.and_then(|answer| serde_json::to_vec(&answer).ok()));
            }
        }
    }
    match answers.is_empty() {
        true => StatusCode::ACCEPTED.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], batch::array(&answers)).into_response(),
    }
}

/// An answer without JSON, as the answer to one request of a batch.
fn plain_refusal(id: &Value, body: &[u8]) -> Value {
    let message = String::from_utf8_lossy(body).trim().to_owned();
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": ErrorCode::INVALID_REQUEST.0, "message": message } })
}

/// Media types are case-insensitive, and a request that accepts anything accepts ours. The SDK compares bytes.
fn unify_media_types(headers: &mut HeaderMap) {
    const OURS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
    if let Some(sent) = headers.get(header::CONTENT_TYPE).and_then(|sent| sent.to_str().ok()) {
        // Lowercasing keeps a header's text valid.
        if let Ok(lower) = sent.to_ascii_lowercase().parse() {
            headers.insert(header::CONTENT_TYPE, lower);
        }
    }
    let sent: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|sent| sent.to_str().ok()).collect();
    let accepted = sent.join(", ").to_ascii_lowercase();
    let accepts_anything = accepted.split([',', ';']).any(|range| range.trim() == "*/*");
    let unified = if accepted.is_empty() || accepts_anything { Ok(OURS) } else { accepted.parse() };
    if let Ok(unified) = unified {
        headers.insert(header::ACCEPT, unified);
    }
}

/// The reason in the body, as JSON-RPC if an answer is allowed.
fn refusal_response(status: StatusCode, refused: RejectedMessage) -> Response {
    tracing::warn!(reason = refused.reason, "a message was refused");
    let body = refused.answer.and_then(|answer: JsonRpcError| serde_json::to_vec(&answer).ok());
    match body {
        Some(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        None => (status, format!("Bad Request: {}\n", refused.reason)).into_response(),
    }
}

/// Resolves when the process is asked to end; listens from now on, not from the first poll.
pub(crate) fn shutdown_signal() -> io::Result<impl Future<Output = ()>> {
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
