//! The client's working folder, obtained from the client if it supports roots.
//!
//! Asked once and remembered until the client reports a change. A client that supports roots but does not answer
//! counts as having none: no call waits for it twice.

#![expect(
    deprecated,
    reason = "the next revision drops roots; clients of the handshake era still offer them"
)]

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{Peer, RoleServer};
use tokio::sync::Mutex;
use tokio::time::timeout;

const ANSWER_WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default)]
pub(crate) struct ClientRoots {
    known: Arc<Mutex<RootsAnswer>>,
}

#[derive(Debug, Default)]
enum RootsAnswer {
    #[default]
    NotAsked,
    /// The path of the first folder, if the client has one.
    First(Option<String>),
}

impl ClientRoots {
    /// The absolute path of the client's first folder.
    pub(crate) async fn first(&self, peer: &Peer<RoleServer>) -> Option<String> {
        let offers = peer.peer_info().is_some_and(|info| info.capabilities.roots.is_some());
        if !offers {
            return None;
        }
        let mut known = self.known.lock().await;
        if let RootsAnswer::First(first) = &*known {
            return first.clone();
        }
        let answered = timeout(ANSWER_WAIT, peer.list_roots()).await;
        let roots = answered.ok().and_then(Result::ok).map(|answer| answer.roots).unwrap_or_default();
        let first = roots.iter().find_map(|root| path_of(&root.uri));
        *known = RootsAnswer::First(first.clone());
        first
    }

    pub(crate) async fn forget(&self) {
        *self.known.lock().await = RootsAnswer::NotAsked;
    }
}

/// The path of a `file://` URI on this machine; escapes are decoded, anything else is not a path.
fn path_of(uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file://").map(|rest| rest.strip_prefix("localhost").unwrap_or(rest))?;
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let plain = match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            plain => plain,
        };
        bytes.push(plain);
    }
    let path = String::from_utf8(bytes).ok()?;
    (!path.chars().any(char::is_control)).then_some(path)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::path_of;

    #[test_case("file:///home/a%20b", Some("/home/a b"); "escapes are decoded")]
    #[test_case("file://localhost/srv", Some("/srv"); "this machine by name")]
    #[test_case("file://other/srv", None; "another machine")]
    #[test_case("https://example.org/", None; "no file")]
    #[test_case("file:///a%0", None; "a cut escape")]
    #[test_case("file:///a%00", None; "a control character")]
    fn uris(uri: &str, expected: Option<&str>) {
        assert_eq!(path_of(uri).as_deref(), expected);
    }
}
