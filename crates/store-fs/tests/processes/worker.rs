//! A worker process: it reads its task from the environment and prints what was acknowledged.

use std::env;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use camino::Utf8PathBuf;
use workrail_model::id::SessionId;
use workrail_ports::session_store::{Appended, LockedSession, SessionStore, StoreError};
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_testkit::history::{self, PlanParts};

use crate::support::{self, Stream};

const DATA: &str = "WORKRAIL_TEST_WORKER_DATA";
const SEED: &str = "WORKRAIL_TEST_WORKER_SEED";
const SESSIONS: &str = "WORKRAIL_TEST_WORKER_SESSIONS";
const APPENDS: &str = "WORKRAIL_TEST_WORKER_APPENDS";

/// What a worker reads from its environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) data: &'a Path,
    /// Distinguishes this worker's appends from those of the others.
    pub(crate) seed: u64,
    /// It visits the sessions of the histories with seeds 1 to this number, in turn.
    pub(crate) sessions: u64,
    /// Appends per session.
    pub(crate) appends: u64,
}

impl Task<'_> {
    /// The command that runs this test binary as the worker, behind `prefix` if there is one.
    pub(crate) fn command(&self, prefix: &[String]) -> Command {
        let exe = env::current_exe().expect("a test binary knows its path");
        let mut words = prefix.iter().map(String::as_str).chain([exe.to_str().expect("a UTF-8 path")]);
        let mut command = Command::new(words.next().expect("one word at least"));
        command.args(words).args(["--exact", "worker_entry", "--nocapture", "--test-threads=1"]);
        command.env(DATA, self.data).env(SEED, self.seed.to_string());
        command.env(SESSIONS, self.sessions.to_string()).env(APPENDS, self.appends.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn spawn(&self) -> Worker {
        let mut child = self.command(&[]).spawn().expect("the worker starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        Worker { child, output }
    }
}

/// A running worker and its output so far.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// The next acknowledged key; `None` when the output has ended.
    pub(crate) fn next_key(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).expect("UTF-8 output") == 0 {
                return None;
            }
            if let Some(key) = acknowledged(&line) {
                return Some(key);
            }
        }
    }

    /// Kills it with SIGKILL and returns what it had acknowledged before.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it is ours to kill");
        let rest = std::iter::from_fn(|| self.next_key()).collect();
        self.child.wait().expect("it is ours to wait for");
        rest
    }

    /// Waits for it to exit successfully; returns all keys that were not read yet.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let keys = std::iter::from_fn(|| self.next_key()).collect();
        let output = self.child.wait_with_output().expect("it is ours to wait for");
        assert!(output.status.success(), "a worker failed: {}", String::from_utf8_lossy(&output.stderr));
        keys
    }
}

/// The key in a line of a worker's output. The test harness writes to the same lines.
pub(crate) fn acknowledged(line: &str) -> Option<String> {
    // A killed process may leave half a line: a key counts only when its line has ended.
    let (_, key) = line.strip_suffix('\n')?.split_once("acknowledged ")?;
    Some(key.to_owned())
}

pub(crate) fn store(data: &Path) -> LocalStore<Disk> {
    let root = Utf8PathBuf::from_path_buf(data.to_owned()).expect("temporary paths are UTF-8");
    support::open(Disk::open(&root).expect("the data directory opens"))
}

/// The first plan of the session with this number.
pub(crate) fn opening(number: u64) -> PlanParts {
    history::plans(number, &[]).swap_remove(0)
}

pub(crate) fn run_if_asked() {
    let Ok(data) = env::var(DATA) else { return };
    let number = |name: &str| -> u64 {
        env::var(name).ok().and_then(|text| text.parse().ok()).expect("the variable holds a number")
    };
    let task = Task {
        data: Path::new(&data),
        seed: number(SEED),
        sessions: number(SESSIONS),
        appends: number(APPENDS),
    };
    work(task);
}

fn work(task: Task<'_>) {
    let store = store(task.data);
    let mut stream = Stream::new(task.seed);
    for round in 0..task.appends {
        for visit in 0..task.sessions {
            // Each worker starts with another session, so that they meet in every order.
            let first = opening(1 + (visit + round + task.seed) % task.sessions);
            append_next(&store, &first, &mut stream);
        }
    }
}

/// Appends the worker's next plan to the session, after the session's opening if there is none yet.
fn append_next(store: &LocalStore<Disk>, first: &PlanParts, stream: &mut Stream) {
    let session = first.events[0].session_id;
    let mut locked = lock_or_create(store, session);
    if locked.cursor().next_event_index == first.events[0].event_index {
        append(&mut locked, first);
    }
    let parts = stream.next(session, locked.cursor().next_event_index);
    append(&mut locked, &parts);
}

fn lock_or_create(
    store: &LocalStore<Disk>,
    session: SessionId,
) -> workrail_store_fs::LockedLocalSession<'_, Disk> {
    loop {
        match store.lock(session) {
            Ok(locked) => return locked,
            Err(StoreError::Locked { .. }) => {}
            Err(StoreError::NotFound { .. }) => match store.create(session) {
                Ok(locked) => return locked,
                Err(StoreError::Locked { .. } | StoreError::AlreadyExists { .. }) => {}
                Err(error) => panic!("create: {error} ({error:?})"),
            },
            Err(error) => panic!("lock: {error} ({error:?})"),
        }
    }
}

fn append(locked: &mut impl LockedSession, parts: &PlanParts) {
    match locked.append(parts.plan()) {
        Ok(Appended::Committed { .. }) => {
            // Once this process has printed the line, the plan must be durable.
            let line = format!("acknowledged {}\n", parts.events[0].dedupe_key);
            io::stdout().write_all(line.as_bytes()).expect("the parent listens");
        }
        Ok(Appended::AlreadyRecorded) => panic!("no two workers append the same plan"),
        Err(error) => panic!("append: {error} ({error:?})"),
    }
}
