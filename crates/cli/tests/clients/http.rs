//! How an HTTP server handles clients that are slow, numerous or gone.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use workrail_testkit::wire::{Http, command, start_call};

use crate::{new_home, request};

#[test]
fn media_types_are_case_insensitive_and_wildcards_are_accepted() {
    let home = new_home();
    let http = Http::start(&home);
    let message = start_call(1).to_string();
    for (content_type, accept, status) in [
        ("Application/JSON; charset=UTF-8", "Accept: Application/Json, Text/Event-Stream\r\n", 200),
        ("application/json", "Accept: application/json\r\nAccept: text/event-stream\r\n", 200),
        ("application/json", "Accept: */*\r\n", 200),
        ("application/json", "", 200),
        ("application/json", "Accept: image/png\r\n", 406),
        ("text/plain", "Accept: */*\r\n", 415),
    ] {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {{address}}\r\nContent-Type: {content_type}\r\n{accept}{}",
            http.authorization
        );
        for body in [message.clone(), format!("[{message}]")] {
            let answer = http.exchange(&head, body.as_bytes());
            assert_eq!(answer.status, status, "{content_type} {accept}: {}", answer.body);
        }
    }
    assert!(http.end("TERM").success());
}

/// G74: the wait for a request has a limit.
#[test]
fn a_client_that_does_not_finish_its_request_is_disconnected() {
    let home = new_home();
    let http = Http::start(&home);
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\n{}", http.address, http.authorization);
    let body = request(1, "tools/list", &json!({})).to_string();
    let whole = format!(
        "{head}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut streams: Vec<TcpStream> =
        [String::new(), head.clone(), format!("{head}Content-Length: 100\r\n\r\n{{"), whole]
            .iter()
            .map(|sent| {
                let mut stream = TcpStream::connect(&http.address).unwrap();
                stream.write_all(sent.as_bytes()).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                stream
            })
            .collect();
    let mut answers = streams.iter_mut().map(|stream| {
        let mut answer = String::new();
        match stream.read_to_string(&mut answer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("still connected: {answer}")
            }
            // A reset connection has ended as well.
            Ok(_) | Err(_) => answer,
        }
    });
    let [silent, half_a_head, half_a_body, answered] = [(); 4].map(|()| answers.next().unwrap());
    assert_eq!(silent, "");
    assert!(half_a_head.is_empty() || half_a_head.starts_with("HTTP/1.1 408"), "{half_a_head}");
    assert!(half_a_body.starts_with("HTTP/1.1 408"), "{half_a_body}");
    assert!(
        answered.starts_with("HTTP/1.1 200"),
        "answered, and closed because nothing followed: {answered}"
    );
    assert_eq!(http.post("", &start_call(1).to_string()).status, 200);
    assert!(http.end("TERM").success());
}

/// G74: the wait for a reader has a limit.
#[test]
fn a_client_that_does_not_read_its_answer_is_disconnected() {
    let home = new_home();
    let http = Http::start(&home);
    let mut stream = TcpStream::connect(&http.address).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let body = request(1, "tools/list", &json!({})).to_string();
    let asked = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        http.address,
        http.authorization,
        body.len(),
    );
    // The answers fill the reader's buffers, and then the requests fill the server's.
    let ended = loop {
        if let Err(error) = stream.write_all(asked.as_bytes()) {
            break error.kind();
        }
    };
    assert!(matches!(ended, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{ended}");
    assert!(http.end("TERM").success());
}

#[test]
fn connections_are_bounded_and_the_next_one_waits() {
    let home = new_home();
    let http = Http::start(&home);
    let idle: Vec<TcpStream> = (0..256).map(|_| TcpStream::connect(&http.address).unwrap()).collect();
    let mut next = TcpStream::connect(&http.address).unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: {}\r\n{}", http.address, http.authorization);
    write!(next, "{head}Connection: close\r\n\r\n").unwrap();
    next.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let waited = next.read(&mut [0]).unwrap_err();
    assert!(matches!(waited.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{waited}");
    drop(idle);
    next.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = String::new();
    next.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(http.end("TERM").success());
}

#[test]
fn an_http_server_started_by_a_client_ends_with_it() {
    let home = new_home();
    let mut http =
        Http::of_command(command(&home, &["--http", "127.0.0.1:0", "--no-auth"]).stdin(Stdio::piped()));
    assert_eq!(http.post("", &start_call(1).to_string()).status, 200);
    // The client's end of the pipe is closed when the client ends, however it ends.
    drop(http.child.stdin.take());
    assert!(http.child.wait().unwrap().success());

    let (held, end) = std::io::pipe().unwrap();
    drop(end);
    let closed = Http::of_command(command(&home, &["--http", "127.0.0.1:0", "--no-auth"]).stdin(held));
    assert_eq!(
        closed.post("", &start_call(1).to_string()).status,
        200,
        "a closed pipe was not held by anybody"
    );
    assert!(closed.end("TERM").success());
}
