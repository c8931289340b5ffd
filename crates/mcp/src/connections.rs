//! Accepts connections for the HTTP server: a bounded number of them, and none waits forever for its client. Where
//! clients have addresses of their own, none of them holds all connections (G115).

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use crate::metrics::Metrics;
use crate::peers::{PeerSlot, Peers};
use crate::tls::Tls;

/// The maximum number of connections. More wait until one is closed; each holds an open file.
const CONNECTIONS_MAX: usize = 256;

/// How long a client may take to send the head of a request. An idle connection is closed after the same time.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// How long a client may leave a pending answer unread.
const READ_WAIT: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// How long running requests may still take once the server is shutting down.
const END_WAIT: Duration = Duration::from_secs(5);

/// The pause after a failure to accept, usually for lack of open files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// What a listener needs that terminates TLS itself. Its peers are the clients, so connections are counted by address.
#[derive(Debug)]
pub(crate) struct TlsListener {
    tls: Arc<Tls>,
    peers: Peers,
    metrics: Arc<Metrics>,
}

impl TlsListener {
    pub(crate) fn new(tls: Tls, metrics: Arc<Metrics>) -> Self {
        Self { tls: Arc::new(tls), peers: Peers::default(), metrics }
    }
}

/// Serves until `shutdown_signal` resolves and running requests are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    tls_listener: Option<TlsListener>,
    routes: Router,
    shutdown_signal: impl Future<Output = ()>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (end, ending) = watch::channel(());
    let (alive, mut all_ended) = mpsc::channel::<Infallible>(1);
    let mut shutdown_signal = pin!(shutdown_signal);
    loop {
        let (stream, slots) = tokio::select! {
            accepted = accept(&listener, tls_listener.as_ref(), &permits) => accepted,
            () = &mut shutdown_signal => break,
        };
        let connection = OpenConnection { ending: ending.clone(), _slots: slots, _alive: alive.clone() };
        let tls = tls_listener.as_ref().map(|tls_listener| Arc::clone(&tls_listener.tls));
        tokio::spawn(connection.serve(stream, tls, routes.clone()));
    }
    drop((listener, end, alive));
    // A client that never finishes its request must not keep the process.
    let _ = timeout(END_WAIT, all_ended.recv()).await;
}

/// What a connection occupies while it is open.
struct ConnectionSlots {
    _permit: OwnedSemaphorePermit,
    /// `None` where addresses are not counted.
    _of_address: Option<PeerSlot>,
}

/// The next connection to serve, once a slot is free.
async fn accept(
    listener: &TcpListener,
    tls_listener: Option<&TlsListener>,
    permits: &Arc<Semaphore>,
) -> (TcpStream, ConnectionSlots) {
    let (stream, of_address) = loop {
        match listener.accept().await {
            Ok((stream, peer)) => match tls_listener {
                None => break (stream, None),
                Some(tls_listener) => match tls_listener.peers.take(peer.ip()) {
                    Some(slot) => break (stream, Some(slot)),
                    // Closed before it waits for a slot and before any handshake. Strangers do this, so it is counted
                    // and not logged.
                    None => tls_listener.metrics.connection_refused(),
                },
            },
            // The client disconnected before it was accepted.
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    };
    let permit = Arc::clone(permits).acquire_owned().await.expect("the semaphore is never closed");
    (stream, ConnectionSlots { _permit: permit, _of_address: of_address })
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

/// What one connection holds while it is open.
struct OpenConnection {
    ending: watch::Receiver<()>,
    _slots: ConnectionSlots,
    _alive: mpsc::Sender<Infallible>,
}

impl OpenConnection {
    async fn serve(self, stream: TcpStream, tls: Option<Arc<Tls>>, routes: Router) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(READ_WAIT));
        let stream = Box::pin(stream);
        match tls {
            None => self.answer(stream, routes).await,
            Some(tls) => match encrypted(stream, tls).await {
                Ok(stream) => self.answer(stream, routes).await,
                Err(error) => tracing::debug!(%error, "a connection was not encrypted"),
            },
        }
    }

    async fn answer(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, routes: Router) {
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WAIT)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
        let mut serving = pin!(serving);
        let served = tokio::select! {
            served = serving.as_mut() => served,
            // The sender is dropped when the server is ending.
            _ = self.ending.changed() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// The stream after the TLS handshake. A client that takes too long, or does not speak TLS, is disconnected.
async fn encrypted<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    tls: Arc<Tls>,
) -> io::Result<tokio_rustls::server::TlsStream<S>> {
    let accepting = async move {
        let config = spawn_blocking(move || tls.current()).await.map_err(io::Error::other)?;
        TlsAcceptor::from(config).accept(stream).await
    };
    timeout(HANDSHAKE_WAIT, accepting).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
