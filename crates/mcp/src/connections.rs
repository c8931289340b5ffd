//! Accepts connections for the HTTP server: a bounded number of them, and none waits for ever for its client.

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

use crate::tls::Tls;

/// Connections at once. More wait until one is closed; each holds an open file.
const CONNECTIONS_MAX: usize = 256;

/// How long a client may take for the head of a request. A connection without one is closed after the same time.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// How long a client may read nothing of an answer that waits for it.
const READ_WAIT: Duration = Duration::from_secs(10);

/// How long a client may take to agree on the encryption.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// How long running requests may still take once the server is shutting down.
const END_WAIT: Duration = Duration::from_secs(5);

/// When no connection can be accepted, for lack of open files as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves until `told_to_end` resolves and what is under way is answered.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    routes: Router,
    told_to_end: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (end, ending) = watch::channel(());
    let (alive, mut all_ended) = mpsc::channel::<Infallible>(1);
    let mut told_to_end = pin!(told_to_end);
    loop {
        let (stream, place) = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut told_to_end => break,
        };
        let connection = Connection { ending: ending.clone(), _place: place, _alive: alive.clone() };
        tokio::spawn(connection.serve(stream, tls.clone(), routes.clone()));
    }
    drop((listener, end, alive));
    // A client that never finishes its request must not keep the process.
    let _ = timeout(END_WAIT, all_ended.recv()).await;
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    // The semaphore is never closed.
    let place = Arc::clone(places).acquire_owned().await.expect("there are places while the server runs");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // The client left between its connecting and now.
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

/// What one connection holds while it is open.
struct Connection {
    ending: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
    _alive: mpsc::Sender<Infallible>,
}

impl Connection {
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
            // The sender is dropped when the server is to end.
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

/// The stream once both sides agreed on keys. A client that takes too long, or speaks something else, gets nothing.
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
