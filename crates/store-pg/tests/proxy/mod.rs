//! A socket between a store and its server, which cuts the next connection that commits, or takes the durability out of
//! every transaction.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

/// The name that clients look for in the folder of a socket.
const SOCKET: &str = ".s.PGSQL.5432";
/// The message of a simple query `COMMIT`.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// What a transaction sets, and what it becomes in the hands of a saboteur: as many bytes.
const DURABLE: &[u8] = b"'synchronous_commit', 'on'";
const SABOTAGED: &[u8] = b"'synchronous_commit','off'";

/// Where the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// With the next bytes of the client, whatever they are.
    BeforeStatement,
    /// COMMIT arrives here and is not passed on.
    BeforeCommit,
    /// COMMIT is passed on, and the answer is not waited for.
    DuringCommit,
    /// The server's answer arrives here and is not passed on.
    AfterCommit,
}

pub(crate) struct Proxy {
    folder: TempDir,
    armed: Arc<Mutex<Option<Cut>>>,
}

/// What the proxy does to the bytes of a client that it passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes {
    AsTheyAre,
    /// Commits are acknowledged before they are on the disk.
    Sabotaged,
}

impl Proxy {
    pub(crate) fn start(server: &Path) -> Self {
        Self::start_with(server, Bytes::AsTheyAre)
    }

    pub(crate) fn start_with(server: &Path, bytes: Bytes) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
        let armed = Arc::new(Mutex::new(None));
        let (server, shared): (PathBuf, _) = (server.join(SOCKET), Arc::clone(&armed));
        // Ends with the process, as the threads of its connections do.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, armed) = (server.clone(), Arc::clone(&shared));
                thread::spawn(move || {
                    if let Ok(server) = UnixStream::connect(server) {
                        serve(&client, &server, &armed, bytes);
                    }
                });
            }
        });
        Self { folder, armed }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Cuts the next connection that gets there.
    pub(crate) fn arm(&self, cut: Cut) {
        *self.armed.lock().unwrap() = Some(cut);
    }
}

/// Passes bytes in both directions until one side ends or the connection is cut.
fn serve(client: &UnixStream, server: &UnixStream, armed: &Mutex<Option<Cut>>, passed: Bytes) {
    let hold_answers = Mutex::new(());
    thread::scope(|scope| {
        let answers = &hold_answers;
        scope.spawn(move || {
            let (mut from, mut to) = (server, client);
            let mut buffer = [0; 65536];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let _passing = answers.lock().unwrap();
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            cut(client, server);
        });
        let (mut from, mut to) = (client, server);
        let mut buffer = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if passed == Bytes::Sabotaged {
                sabotage(&mut buffer[..count]);
            }
            let bytes = &buffer[..count];
            if let Some(how) = takes(armed, bytes) {
                // Held to the end: no answer reaches the client any more.
                let _no_answers = hold_answers.lock().unwrap();
                carry_out(how, bytes, client, server);
                break;
            }
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        cut(client, server);
    });
}

fn sabotage(bytes: &mut [u8]) {
    let found = bytes.windows(DURABLE.len()).position(|window| window == DURABLE);
    if let Some(at) = found {
        bytes[at..at + SABOTAGED.len()].copy_from_slice(SABOTAGED);
    }
}

/// The cut that these bytes meet; each is carried out once.
fn takes(armed: &Mutex<Option<Cut>>, bytes: &[u8]) -> Option<Cut> {
    let mut armed = armed.lock().unwrap();
    let commits = bytes.windows(COMMIT.len()).any(|window| window == COMMIT);
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
            // The other thread has read the answer, or reads it now, and cannot pass it on. The server closes when it has
            // handled what it was sent: only then is the client's side cut.
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
