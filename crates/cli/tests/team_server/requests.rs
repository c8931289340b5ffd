//! Single requests to a team's server: whom they name, how long they are, and where they end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::json;
use workrail_testkit::team::{secret, serve, token};
use workrail_testkit::wire::{Http, stateless};

use crate::{home, stateless_headers};

/// G115: a listener that other machines can reach must have a public name (`team_limits`), and then these are its rules,
/// whatever address it listens on.
#[test]
fn a_request_must_name_the_public_address_and_come_from_no_other_page() {
    let home = home();
    let all = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--public-url",
        "https://workrail.example.com",
        "--behind-proxy",
    ];
    let server = Http::of_command(home.command(&all).stdin(Stdio::null()));
    let port = server.address.rsplit_once(':').unwrap().1.to_owned();
    let made = token(&home, "ada", "agent");
    let message = stateless(1, "tools/list", json!({}));
    let body = message.to_string();
    let post = |host: &str, more: &str| {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n\
             Accept: application/json, text/event-stream\r\n{}{more}",
            secret(&made),
            stateless_headers(&message)
        );
        server.exchange(&head, body.as_bytes()).status
    };
    let name = "workrail.example.com";
    assert_eq!(post(name, ""), 200);
    assert_eq!(post(&format!("{name}:443"), ""), 200);
    assert_eq!(post(name, "Origin: https://workrail.example.com\r\n"), 200);
    let own = ["127.0.0.1", "0.0.0.0", "localhost", "[::1]", "[::]"].map(|host| format!("{host}:{port}"));
    let foreign =
        ["localhost", "workrail.example.com.evil.example", "workrail.example.com:80", ""].map(str::to_owned);
    for host in own.iter().chain(&foreign) {
        assert_eq!(post(host, ""), 403, "{host}");
    }
    assert_eq!(post(name, "Host: evil.example\r\n"), 403, "two names");
    let pages = ["https://evil.example", "http://workrail.example.com", "null"].map(str::to_owned);
    for origin in own.iter().map(|host| format!("http://{host}")).chain(pages) {
        assert_eq!(post(name, &format!("Origin: {origin}\r\n")), 403, "{origin}");
    }
    server.end("TERM");
}

/// Broke: the server waited for a body that it would refuse, and then called it late.
#[test]
fn a_body_that_is_announced_as_too_long_is_not_waited_for() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ada", "agent");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: 50000000\r\n\r\n{{",
        server.address,
        secret(&made)
    )
    .unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(String::from_utf8_lossy(&status), "HTTP/1.1 413");
    server.end("TERM");
}

/// G115: a server that stops finishes the requests in progress.
#[test]
fn a_request_in_progress_is_answered_by_a_server_that_was_told_to_stop() {
    let home = home();
    let mut server = serve(&home);
    let made = token(&home, "ada", "agent");
    let message = stateless(1, "tools/list", json!({}));
    let body = message.to_string();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n\
         Accept: application/json, text/event-stream\r\nExpect: 100-continue\r\n{}Content-Length: {}\r\n\r\n",
        server.address,
        secret(&made),
        stateless_headers(&message),
        body.len()
    )
    .unwrap();
    // The server asks for the body: the request has begun.
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(String::from_utf8_lossy(&interim), "HTTP/1.1 100 Continue\r\n\r\n");
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    while TcpStream::connect(&server.address).is_ok() {
        std::thread::yield_now();
    }
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(server.child.wait().unwrap().success());
}

/// Two lengths, or a length and chunks, are how one request is smuggled in another: what follows is read as the body by
/// a proxy, and as a request by the server.
#[test]
fn no_request_is_smuggled_in_another() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ada", "agent");
    let body = stateless(1, "tools/list", json!({})).to_string();
    // Needs no token, so it is answered wherever it is taken for a request.
    let inner = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address);
    let answers = |lengths: &str, rest: &str| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let headers = stateless_headers(&stateless(1, "tools/list", json!({})));
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nAuthorization: Bearer {}\r\n{headers}{lengths}\r\n{rest}",
            server.address,
            secret(&made)
        )
        .unwrap();
        let mut answer = Vec::new();
        // The server may reset the connection after its answer.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let count = |answer: &str| answer.matches("HTTP/1.1 ").count();
    let honest = answers(&format!("Content-Length: {}\r\n", body.len()), &format!("{body}{inner}"));
    assert_eq!(count(&honest), 2, "two requests are answered twice: {honest}");
    assert!(honest.starts_with("HTTP/1.1 200"), "{honest}");

    let (own, both) = (body.len(), body.len() + inner.len());
    let chunked = format!("{own:x}\r\n{body}\r\n0\r\n\r\n{inner}");
    let plain = format!("{body}{inner}");
    for (lengths, rest) in [
        (format!("Content-Length: {own}\r\nContent-Length: {both}\r\n"), &plain),
        (format!("Content-Length: {both}\r\nContent-Length: {own}\r\n"), &plain),
        (format!("Content-Length: {own}, {both}\r\n"), &plain),
        (format!("Content-Length: +{own}\r\n"), &plain),
        (format!("Content-Length: {both}\r\nTransfer-Encoding: chunked\r\n"), &chunked),
        (format!("Transfer-Encoding: chunked\r\nContent-Length: {own}\r\n"), &chunked),
        ("Transfer-Encoding: xchunked\r\n".to_owned(), &chunked),
        (format!("Transfer-Encoding: identity, chunked\r\nContent-Length: {own}\r\n"), &chunked),
    ] {
        let answer = answers(&lengths, rest);
        assert!(count(&answer) <= 1, "{lengths:?}: {answer}");
    }
    server.end("TERM");
}
