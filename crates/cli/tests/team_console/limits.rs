//! What one member uses at once is bounded, and others are served all the same (G125).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use workrail_testkit::wire::Http;

use crate::browser::Browser;
use crate::{HOST, home, secret, serve, token};

/// Longer than anything takes on a busy machine.
const WAIT: Duration = Duration::from_secs(40);

#[test]
fn a_member_has_so_many_live_pages_and_others_their_own() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ada", "viewer");
    let ada = Browser::logged_in(&server, secret(&made));
    let bob = Browser::logged_in(&server, secret(&token(&home, "bob", "viewer")));
    let mut open: Vec<_> = (0..16).map(|_| ada.live(&server, "/")).collect();
    // A second browser with the same token is the same member.
    for browser in [&ada, &Browser::logged_in(&server, secret(&made))] {
        let refused = browser.try_live(&server, "/").unwrap_err();
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{refused:?}");
        assert_eq!(
            refused.body,
            "16 pages opened with your token are live, the most allowed at once. Close one of them, or reload this \
             page to see what changed.\n"
        );
    }
    let counted = server.exchange(
        &format!("GET /metrics HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {}\r\n", secret(&made)),
        b"",
    );
    assert!(counted.body.contains("workrail_refused_total{reason=\"quota\"} 2\n"), "{}", counted.body);
    ada.page(&server, "/");
    drop(bob.live(&server, "/"));

    drop(open.pop());
    // The server learns a moment later that the page was closed.
    let closed = Instant::now();
    while let Err(refused) = ada.try_live(&server, "/") {
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(closed.elapsed() < WAIT, "the page that was closed is still counted");
    }
    drop(open);
    server.end("TERM");
}

#[test]
fn a_member_has_so_many_requests_at_once_and_others_their_own() {
    let home = home();
    let server = serve(&home);
    let ada = Browser::logged_in(&server, secret(&token(&home, "ada", "admin")));
    let bob = Browser::logged_in(&server, secret(&token(&home, "bob", "viewer")));
    let form_token = ada.page(&server, "/").field("token");
    let mut under_way: Vec<_> = (0..16).map(|_| begin_import(&server, &ada, &form_token)).collect();

    let refused = ada.get(&server, "/");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{refused:?}");
    assert_eq!(
        refused.body,
        "16 requests with your token are in progress, the most allowed at once. Nothing was changed. Try again when \
         one of them is answered.\n"
    );
    bob.page(&server, "/");

    // One that is answered makes room.
    let mut last = under_way.pop().unwrap();
    last.get_mut().write_all(b"x").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 409"), "one letter is no bundle: {answer}");
    ada.page(&server, "/");
    drop(under_way);
    server.end("TERM");
}

/// Sends a request up to its body, and returns once the server waits for that.
fn begin_import(server: &Http, browser: &Browser, form_token: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    write!(
        stream,
        "POST /import HTTP/1.1\r\nHost: {HOST}\r\nOrigin: https://{HOST}\r\nCookie: {}\r\n\
         X-WorkRail-Token: {form_token}\r\nExpect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\n",
        browser.cookie
    )
    .unwrap();
    let mut stream = BufReader::new(stream);
    for expected in ["HTTP/1.1 100 Continue\r\n", "\r\n"] {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, expected);
    }
    stream
}
