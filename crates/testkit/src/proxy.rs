//! A socket between a store and its server that cuts the next connection that commits, fails over, removes the
//! durability from every transaction, or makes the server look older.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

/// The name that clients look for in the folder of a socket.
const SOCKET: &str = ".s.PGSQL.5432";
/// The messages of the simple queries `COMMIT` and `ROLLBACK`.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
const ROLLBACK: &[u8] = b"Q\0\0\0\x0dROLLBACK\0";
/// Part of the statement that appends to a session.
const APPEND: &[u8] = b"workrail.append(";

/// The last message of a client that closes its connection.
const GOODBYE: &[u8] = b"X\0\0\0\x04";

/// The setting of a transaction, and its sabotaged form of the same length.
const DURABLE: &[u8] = b"'synchronous_commit', 'on'";
const SABOTAGED: &[u8] = b"'synchronous_commit','off'";

/// How a store asks for the server's version, as a number and as text.
const VERSION_NUMBER: &str = "current_setting('server_version_num')::int4";
const VERSION_TEXT: &str = "current_setting('server_version')";

/// Where the connection is cut. Only a transaction that appends to a session is cut at its COMMIT: a server also commits
/// reads and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// At the client's next bytes, whatever they are.
    BeforeStatement,
    /// COMMIT arrives here and is not forwarded.
    BeforeCommit,
    /// COMMIT is forwarded, but the answer is not awaited.
    DuringCommit,
    /// The server's answer arrives here and is not forwarded.
    AfterCommit,
}

/// A socket in a folder of its own, with a server behind it.
#[derive(Debug)]
pub struct Proxy {
    folder: TempDir,
    armed: Arc<Mutex<Option<Cut>>>,
    failover: Arc<Failover>,
}

/// What happened to the connections of a server that was replaced.
#[derive(Debug, Default)]
struct Failover {
    /// How often the server was replaced.
    count: AtomicUsize,
    /// Connections to an earlier server that a client still used, and lost.
    lost: AtomicUsize,
}

/// How the proxy changes the client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    AsTheyAre,
    /// Commits are acknowledged before they are on the disk.
    Sabotaged,
    /// The server says that it is another version: `server_version_num` and `server_version`.
    OfVersion(&'static str, &'static str),
}

impl Proxy {
    /// Between clients and the server whose socket is in this folder.
    pub fn start(server: &Path) -> Self {
        Self::start_with(server, Bytes::AsTheyAre)
    }

    pub fn start_with(server: &Path, bytes: Bytes) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
        let (armed, failover) = (Arc::new(Mutex::new(None)), Arc::<Failover>::default());
        let (server, shared): (PathBuf, _) =
            (server.join(SOCKET), (Arc::clone(&armed), Arc::clone(&failover)));
        // Ends with the process, as do the threads of its connections.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, (armed, failover)) = (server.clone(), shared.clone());
                thread::spawn(move || {
                    if let Ok(server) = UnixStream::connect(server) {
                        serve(&client, &server, &armed, &failover, bytes);
                    }
                });
            }
        });
        Self { folder, armed, failover }
    }

    /// The folder of the socket, as addresses name it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Cuts the next connection that reaches this point.
    pub fn arm(&self, cut: Cut) {
        *self.armed.lock().expect("no holder of the lock panics") = Some(cut);
    }

    /// Replaces the server: every connection that is open now is cut when its client uses it again.
    pub fn fail_over(&self) {
        self.failover.count.fetch_add(1, Ordering::SeqCst);
    }

    /// How many connections clients lost because they used them after the server was replaced.
    pub fn lost(&self) -> usize {
        self.failover.lost.load(Ordering::SeqCst)
    }
}

/// Forwards bytes in both directions until one side ends or the connection is cut.
fn serve(
    client: &UnixStream,
    server: &UnixStream,
    armed: &Mutex<Option<Cut>>,
    failover: &Failover,
    passed: Bytes,
) {
    let connected_to = failover.count.load(Ordering::SeqCst);
    let hold_answers = Mutex::new(());
    thread::scope(|scope| {
        let answers = &hold_answers;
        scope.spawn(move || {
            let (mut from, mut to) = (server, client);
            let mut buffer = [0; 65536];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let _passing = answers.lock().expect("no holder of the lock panics");
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            cut(client, server);
        });
        let (mut from, mut to) = (client, server);
        let mut buffer = [0; 65536];
        let mut appends = false;
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            change(passed, &mut buffer[..count]);
            let bytes = &buffer[..count];
            if failover.count.load(Ordering::SeqCst) != connected_to {
                // A client that only says goodbye loses nothing.
                failover.lost.fetch_add(usize::from(bytes != GOODBYE), Ordering::SeqCst);
                break;
            }
            appends |= contains(bytes, APPEND);
            if let Some(how) = takes(armed, bytes, appends) {
                // Held to the end: no more answers reach the client.
                let _no_answers = hold_answers.lock().expect("no holder of the lock panics");
                carry_out(how, bytes, client, server);
                break;
            }
            appends &= !contains(bytes, COMMIT) && !contains(bytes, ROLLBACK);
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        cut(client, server);
    });
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn change(how: Bytes, bytes: &mut [u8]) {
    match how {
        Bytes::AsTheyAre => {}
        Bytes::Sabotaged => replace(bytes, DURABLE, SABOTAGED),
        Bytes::OfVersion(number, text) => {
            // Spaces keep the length, which a message begins with.
            replace(bytes, VERSION_NUMBER.as_bytes(), format!("{number:43}").as_bytes());
            replace(bytes, VERSION_TEXT.as_bytes(), format!("{:33}", format!("'{text}'")).as_bytes());
        }
    }
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    if let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

/// The cut that applies to these bytes of a transaction that appends or not; each is carried out once.
fn takes(armed: &Mutex<Option<Cut>>, bytes: &[u8], appends: bool) -> Option<Cut> {
    let mut armed = armed.lock().expect("no holder of the lock panics");
    let commits = appends && contains(bytes, COMMIT);
    match *armed {
        Some(Cut::BeforeStatement) => armed.take(),
        Some(Cut::BeforeCommit | Cut::DuringCommit | Cut::AfterCommit) if commits => armed.take(),
        Some(_) | None => None,
    }
}

fn carry_out(how: Cut, bytes: &[u8], client: &UnixStream, mut server: &UnixStream) {
    match how {
        Cut::BeforeStatement | Cut::BeforeCommit => {}
        Cut::DuringCommit => {
            let _ = server.write_all(bytes);
        }
        Cut::AfterCommit => {
            let _ = server.write_all(bytes);
            // The other thread has read the answer, or is reading it, but cannot forward it. The server closes once
            // it has handled what it was sent: only then is the client's side cut.
            let _ = server.shutdown(Shutdown::Write);
            let mut rest = Vec::new();
            let _ = server.read_to_end(&mut rest);
        }
    }
    cut(client, server);
}

fn cut(client: &UnixStream, server: &UnixStream) {
    for side in [client, server] {
        // It may be cut already.
        let _ = side.shutdown(Shutdown::Both);
    }
}
