//! A browser that uses any of several servers under one name.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use workrail_testkit::authenticator::FormFields;
use workrail_testkit::wire::Http;

use crate::HOST;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of a hidden field.
    pub(crate) fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let rest = self.body.split(&start).nth(1).unwrap_or_else(|| panic!("no field {name}: {}", self.body));
        rest.split('"').next().unwrap().to_owned()
    }
}

/// What a browser keeps between pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Browser {
    pub(crate) cookie: String,
}

impl Browser {
    pub(crate) fn logged_in(server: &Http, token: &str) -> Self {
        let mut browser = Self::default();
        let answer = browser.log_in(server, token);
        assert_eq!(answer.status, 303, "{answer:?}");
        browser.cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        browser
    }

    pub(crate) fn log_in(&self, server: &Http, token: &str) -> Answer {
        self.post(server, "/login", &encoded(&vec![("access-token", token.to_owned())]))
    }

    pub(crate) fn send(&self, server: &Http, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = self.open(server, method, path, headers, body);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        Answer { status: status_of(head), head: head.to_owned(), body: body.to_owned() }
    }

    fn open(&self, server: &Http, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nCookie: {}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.cookie,
            body.len()
        )
        .unwrap();
        stream
    }

    pub(crate) fn get(&self, server: &Http, path: &str) -> Answer {
        self.send(server, "GET", path, "Sec-Fetch-Site: same-origin\r\n", "")
    }

    pub(crate) fn page(&self, server: &Http, path: &str) -> Answer {
        let answer = self.get(server, path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer
    }

    pub(crate) fn post(&self, server: &Http, path: &str, body: &str) -> Answer {
        let headers = format!(
            "Origin: https://{HOST}\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        );
        self.send(server, "POST", path, &headers, body)
    }

    /// A form with the token of this login, wherever it is shown.
    pub(crate) fn form(&self, server: &Http, fields: &[(&'static str, &str)]) -> FormFields {
        let mut form: FormFields = vec![("token", self.page(server, "/").field("token"))];
        form.extend(fields.iter().map(|(name, value)| (*name, (*value).to_owned())));
        form
    }

    /// A run's form as its page has it.
    pub(crate) fn run_form(&self, server: &Http, run: &str) -> FormFields {
        let page = self.page(server, &format!("/run/{run}"));
        vec![("token", page.field("token")), ("seen", page.field("seen")), ("back", format!("/run/{run}"))]
    }

    /// A server's challenge for a form.
    pub(crate) fn asked(&self, server: &Http, path: &str, form: &FormFields) -> Value {
        let answer = self.post(server, &format!("/passkeys{path}"), &encoded(form));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }

    /// The stream of a page, once it is open.
    pub(crate) fn live(&self, server: &Http, path: &str) -> BufReader<TcpStream> {
        self.try_live(server, path).unwrap_or_else(|answer| panic!("{path} is not live: {answer:?}"))
    }

    /// The stream of a page once it is open, or the answer of a server that opens none.
    pub(crate) fn try_live(&self, server: &Http, path: &str) -> Result<BufReader<TcpStream>, Answer> {
        let stream = self.open(server, "GET", &format!("/live{path}"), "", "");
        // Longer than anything takes on a busy machine.
        stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "the server answers: {head}");
        }
        if head.contains("text/event-stream") {
            return Ok(stream);
        }
        let mut body = String::new();
        stream.read_to_string(&mut body).unwrap();
        Err(Answer { status: status_of(&head), head, body })
    }
}

fn status_of(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// A form as encoded by a browser.
pub(crate) fn encoded(fields: &FormFields) -> String {
    let escape = |text: &str| {
        let escaped = text.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        });
        escaped.collect::<String>()
    };
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}
