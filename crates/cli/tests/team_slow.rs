//! Slow clients of a team's server: each is disconnected, and nobody waits for them (G74, G115, G116).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs::{self, Permissions};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpSocket;
use workrail_testkit::home::Home;
use workrail_testkit::team::{access_token, call_server, serve, serve_with, tool_request};
use workrail_testkit::tls::Authority;
use workrail_testkit::wire::Http;

/// Between two bytes of a client that is slow but never silent.
const PAUSE: Duration = Duration::from_millis(200);
/// The server waits for at most 10 seconds; the rest is for a busy machine.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// Sends bytes one at a time until the server answers or closes; returns its answer. The server's silence is the pause.
fn drip(mut stream: TcpStream, bytes: impl Iterator<Item = u8>) -> String {
    stream.set_read_timeout(Some(PAUSE)).unwrap();
    let begun = Instant::now();
    let mut answer = Vec::new();
    for byte in bytes {
        assert!(begun.elapsed() < ENDED_WITHIN, "still connected after {:?}", begun.elapsed());
        let mut part = [0; 512];
        let is_closed = stream.write_all(&[byte]).is_err();
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if is_silence(&error) && !is_closed => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn is_silence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads until the server closes.
fn closed(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(ENDED_WITHIN)).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if is_silence(&error) => panic!("still connected"),
        // A reset connection has ended as well.
        Ok(_) | Err(_) => answer,
    }
}

/// A connection that takes little before it must be read.
fn with_small_buffer(server: &Http) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        socket.connect(server.address.parse().unwrap()).await
    });
    let stream = connected.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Sends requests without reading an answer until the server closes the connection.
fn never_read(mut stream: TcpStream, request: &str) -> ErrorKind {
    stream.set_write_timeout(Some(ENDED_WITHIN)).unwrap();
    loop {
        // The answers fill the reader's buffers, and then the requests fill the server's.
        if let Err(error) = stream.write_all(request.as_bytes()) {
            return error.kind();
        }
    }
}

fn request(server: &Http, token: &str) -> String {
    let (headers, body) = tool_request(token, "list_workflows", &json!({}));
    let head = head(server, &headers);
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn head(server: &Http, headers: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}",
        server.address
    )
}

/// Each client is connected and has sent something before others are served.
#[test]
fn slow_clients_are_disconnected_while_others_are_served() {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    let server = serve(&home);
    let (slow, token) = (access_token(&home, "slow", "agent"), access_token(&home, "ada", "agent"));
    let (headers, _) = tool_request(&slow, "list_workflows", &json!({}));
    let (head, whole) = (head(&server, &headers), request(&server, &slow));
    let connect = |sent: &str| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    };
    let of_head = connect(&format!("{head}X-Slow: "));
    let of_body = connect(&format!("{head}Content-Length: 100000\r\n\r\n{{"));
    let strangers = connect("G");
    let unread = with_small_buffer(&server);
    let ended = AtomicUsize::new(0);
    let done = |answer| {
        ended.fetch_add(1, Ordering::SeqCst);
        answer
    };
    let [of_head, of_body, strangers] = thread::scope(|scope| {
        let dripping = [
            scope.spawn(|| done(drip(of_head, std::iter::repeat(b' ')))),
            scope.spawn(|| done(drip(of_body, std::iter::repeat(b' ')))),
            scope.spawn(|| done(drip(strangers, std::iter::repeat(b'G')))),
        ];
        let flooding = scope.spawn(|| never_read(unread, &whole));
        for _ in 0..5 {
            let listed = call_server(&server, &token, "list_workflows", &json!({}));
            assert!(!listed.is_error, "{}", listed.text);
        }
        assert_eq!(
            ended.load(Ordering::SeqCst),
            0,
            "others were served while the slow clients were connected"
        );
        let refused = flooding.join().unwrap();
        assert!(matches!(refused, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{refused}");
        dripping.map(|client| client.join().unwrap())
    });
    assert!(of_head.is_empty() || of_head.starts_with("HTTP/1.1 408"), "{of_head}");
    assert!(of_body.starts_with("HTTP/1.1 408"), "{of_body}");
    assert!(strangers.is_empty() || strangers.starts_with("HTTP/1.1 4"), "{strangers}");
    assert!(!call_server(&server, &token, "list_workflows", &json!({})).is_error);
    assert!(server.end("TERM").success());
}

/// G116
#[test]
fn a_handshake_that_never_ends_is_given_up_while_others_are_served() {
    let (home, authority) = (Home::new(env!("CARGO_BIN_EXE_workrail")), Authority::new("ours"));
    let identity = authority.sign("localhost");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (cert, key) = (file("cert.pem", &identity.certificate), file("key.pem", &identity.key));
    let server = serve_with(&home, &["--tls-cert", &cert, "--tls-key", &key]);
    let connect = |sent: &[u8]| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(sent).unwrap();
        stream
    };
    // A record of the handshake with 512 bytes, and a ClientHello in it of 508, whose rest comes slowly or never.
    let begin: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let (silent, begun, slow) = (connect(&[]), connect(begin), connect(begin));
    let probe = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address);
    let ended = AtomicUsize::new(0);
    thread::scope(|scope| {
        let waiting = [silent, begun].map(|stream| {
            scope.spawn(|| {
                let answer = closed(stream);
                ended.fetch_add(1, Ordering::SeqCst);
                answer
            })
        });
        let dripping = scope.spawn(|| drip(slow, std::iter::repeat(0)));
        for _ in 0..5 {
            let answer = authority.exchange(&server.address, "localhost", &probe).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        }
        assert_eq!(ended.load(Ordering::SeqCst), 0, "others were served while the handshakes waited");
        for client in waiting {
            assert_eq!(client.join().unwrap(), b"", "closed without a word");
        }
        assert_eq!(dripping.join().unwrap(), "", "closed without a word");
    });
    assert!(server.end("TERM").success());
}
