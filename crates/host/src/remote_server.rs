//! Asks a team's server whether it answers and accepts a token, for `workrail doctor`. Nothing else here makes outgoing
//! connections, and this only to an address that the user has put into a client's file.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use workrail_model::name::PrincipalName;
use workrail_model::public_url::{PublicUrl, Scheme};
use workrail_model::team::Role;

/// Time limit for finding the addresses of a name.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// Time limit for one attempt to connect; a name may have several addresses.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time limit for a whole request, from the lookup of the name to the end of the answer.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);
/// Answers are short; anything beyond this is not read.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteAnswer {
    /// It answers; no token was given, so none was tried.
    WithoutToken,
    /// It accepted the token; this is its version, and whose token it is. Older servers do not say.
    Accepted { version: String, member: Option<TokenOwner> },
    /// The token was not sent: a header cannot hold it.
    UnsendableToken,
    /// It did not accept the token.
    TokenRefused,
    /// It cannot answer now, for example because its store is down or it gets too many requests.
    NotReady { status: u16 },
    /// Something else answered, or it gave an unexpected answer.
    Unexpected { status: u16 },
}

impl RemoteAnswer {
    fn of_other_status(status: u16) -> Self {
        match status {
            429 | 503 => Self::NotReady { status },
            status => Self::Unexpected { status },
        }
    }
}

/// The member whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOwner {
    pub name: PrincipalName,
    pub role: Role,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    #[error("its certificate is not trusted on this machine")]
    UntrustedCertificate,
    #[error("its certificate has expired, or is not valid yet")]
    OutdatedCertificate,
    #[error("its certificate is for another name")]
    OtherName,
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        let tls = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidCertificate(cause)) => {
                let is_outdated = matches!(
                    cause,
                    CertificateError::Expired
                        | CertificateError::ExpiredContext { .. }
                        | CertificateError::NotValidYet
                        | CertificateError::NotValidYetContext { .. }
                );
                let is_for_another_name = matches!(
                    cause,
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
                );
                match (is_outdated, is_for_another_name) {
                    (true, _) => Self::OutdatedCertificate,
                    (false, true) => Self::OtherName,
                    // Whatever else is wrong with it, no trusted authority vouches for it.
                    (false, false) => Self::UntrustedCertificate,
                }
            }
            Some(_) | None => Self::Io(error),
        }
    }
}

/// The server of an address that ends in `/mcp`; `None` for other addresses.
pub fn server_of(address: &str) -> Option<PublicUrl> {
    address.strip_suffix("/mcp")?.parse().ok()
}

/// Asks the server. A token is sent only over TLS or to this machine.
pub fn ask(server: &PublicUrl, token: Option<&str>) -> Result<RemoteAnswer, NoAnswer> {
    let Some(token) = token else {
        let (status, _) = exchange(server, "GET /healthz HTTP/1.1", "", "")?;
        return Ok(match status {
            200 => RemoteAnswer::WithoutToken,
            status => RemoteAnswer::of_other_status(status),
        });
    };
    // A line break would end the header and start another one.
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(RemoteAnswer::UnsendableToken);
    }
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "workrail doctor", "version": env!("CARGO_PKG_VERSION") },
    } });
    let headers = format!(
        "Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n"
    );
    let (status, body) = exchange(server, "POST /mcp HTTP/1.1", &headers, &message.to_string())?;
    Ok(match status {
        200 => {
            let answer: Value = serde_json::from_str(&body).unwrap_or_default();
            let version = answer["result"]["serverInfo"]["version"].as_str().unwrap_or("unknown");
            RemoteAnswer::Accepted {
                version: version.chars().take(100).collect(),
                member: owner(server, token),
            }
        }
        401 => RemoteAnswer::TokenRefused,
        status => RemoteAnswer::of_other_status(status),
    })
}

/// Whose token it is; `None` if the server does not say.
fn owner(server: &PublicUrl, token: &str) -> Option<TokenOwner> {
    let headers = format!("Authorization: Bearer {token}\r\n");
    let (status, body) = exchange(server, "GET /whoami HTTP/1.1", &headers, "").ok()?;
    let identity: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
    let name = PrincipalName::parse(identity["name"].as_str()?).ok()?;
    Some(TokenOwner { name, role: Role::parse(identity["role"].as_str()?)? })
}

/// Sends one request; returns the status and body of the answer.
fn exchange(server: &PublicUrl, line: &str, headers: &str, body: &str) -> io::Result<(u16, String)> {
    let host = server.host();
    let request = format!(
        "{line}\r\nHost: {host}:{}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        server.port(),
        body.len()
    );
    let stream = connect(server, Instant::now() + EXCHANGE_MAX)?;
    let answer = match server.scheme() {
        Scheme::Http => answer(stream, &request)?,
        Scheme::Https => answer(StreamOwned::new(encryption(host)?, stream), &request)?,
    };
    let unreadable = || io::Error::other("it does not speak HTTP");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(unreadable)?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    Ok((status.ok_or_else(unreadable)?, body.to_owned()))
}

fn connect(server: &PublicUrl, deadline: Instant) -> io::Result<TimedStream> {
    let host = server.host().trim_matches(['[', ']']);
    let mut last = io::Error::other("the name has no address");
    for address in addresses(host, server.port())? {
        match TcpStream::connect_timeout(&address, left(deadline)?.min(CONNECT_MAX)) {
            Ok(stream) => return Ok(TimedStream { stream, deadline }),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The system's lookup has no time limit that we could set, so it is left behind when it takes too long.
fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let (sender, found) = mpsc::channel();
    let host = host.to_owned();
    thread::Builder::new().spawn(move || {
        let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // The receiver may have stopped waiting.
        let _ = sender.send(addresses);
    })?;
    found.recv_timeout(LOOKUP_MAX).map_err(|_| too_slow())?
}

/// A connection that is given up at its deadline, however slowly the other side sends.
struct TimedStream {
    stream: TcpStream,
    deadline: Instant,
}

/// The time until a deadline; an error once it has passed.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(too_slow()) } else { Ok(left) }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it takes too long to answer")
}

/// The system reports the end of a time limit as a resource that is not available.
fn named(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { too_slow() } else { error }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(buffer).map_err(named)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn encryption(host: &str) -> io::Result<ClientConnection> {
    let mut roots = RootCertStore::empty();
    // One unreadable certificate among many does not matter here.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?;
    ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)
}

fn answer(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes) {
        // A server that closes the connection without a TLS close has still answered.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof || bytes.is_empty() => return Err(error),
        Ok(_) | Err(_) => {}
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Broke: each read had five seconds of its own, so a byte every few seconds kept `doctor` waiting for days.
    #[test]
    fn an_answer_that_drips_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server: PublicUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let dripping = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Until the other side has given up.
            while stream.write_all(b"x").is_ok() {}
        });
        let mut stream = connect(&server, Instant::now() + Duration::from_millis(100)).unwrap();
        let error = loop {
            if let Err(error) = stream.read_exact(&mut [0]) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(stream);
        dripping.join().unwrap();
    }

    /// Answers one request with this status.
    fn answer_with(status: u16, token: Option<&str>) -> RemoteAnswer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server: PublicUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let answering = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // A connection that is closed with unread bytes is reset, so all of the request is read.
            let mut request = Vec::new();
            while !is_whole(&request) {
                let mut part = [0; 1024];
                let count = stream.read(&mut part).unwrap();
                request.extend_from_slice(&part[..count]);
            }
            write!(stream, "HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        let answer = ask(&server, token).unwrap();
        answering.join().unwrap();
        answer
    }

    /// Whether a request is complete: its body is a JSON object, or it has none.
    fn is_whole(request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request);
        text.split_once("\r\n\r\n").is_some_and(|(_, body)| match text.starts_with("POST") {
            true => serde_json::from_str::<Value>(body).is_ok(),
            false => true,
        })
    }

    #[test]
    fn a_server_that_cannot_answer_now_is_not_taken_for_another_program() {
        for status in [429, 503] {
            assert_eq!(answer_with(status, Some("token")), RemoteAnswer::NotReady { status });
            assert_eq!(answer_with(status, None), RemoteAnswer::NotReady { status });
        }
        assert_eq!(answer_with(502, Some("token")), RemoteAnswer::Unexpected { status: 502 });
        assert_eq!(answer_with(401, Some("token")), RemoteAnswer::TokenRefused);
        assert_eq!(answer_with(200, None), RemoteAnswer::WithoutToken);
    }
}
