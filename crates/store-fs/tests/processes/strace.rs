//! Kills a worker as it enters its Nth system call of a kind, for every N until it completes.

use std::fs;
use std::path::Path;

use workrail_ports::session_store::SessionStore;
use workrail_testkit::strace::may_trace;

use super::kills::{ExpectedLog, Totals};
use super::worker::{Task, acknowledged, opening, store};
use crate::support::{self, unseen_plan};

/// Calls that change something on disk, or decide who may. With a `?`, strace ignores a call that the kernel lacks.
const CALLS: [&str; 10] = [
    "fsync",
    "?rename",
    "?renameat",
    "?renameat2",
    "write",
    "ftruncate",
    "unlinkat",
    "flock",
    "mkdirat",
    "openat",
];

/// A worker opens files more than a hundred times, mostly to reach a folder: the short run takes samples.
const OPENAT_STRIDE: usize = 3;

/// `None` where strace cannot be used.
pub(crate) fn kill_at_every_syscall(every: bool) -> Option<String> {
    if !may_trace() {
        return None;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let template = dir.path().join("template");
    prepare(&template);
    let mut totals = Totals::default();
    let mut by_call = Vec::new();
    for call in CALLS {
        let stride = if call == "openat" && !every { OPENAT_STRIDE } else { 1 };
        let before = totals.kills;
        for when in (1..).step_by(stride) {
            let data = dir.path().join("data");
            copy_tree(&template, &data);
            let finished = run_killed(&data, call, when, &mut totals);
            remove_tree(&data);
            if finished {
                break;
            }
        }
        by_call.push(format!("{} {}", call.trim_start_matches('?'), totals.kills - before));
    }
    Some(format!("{totals} ({})", by_call.join(", ")))
}

/// A session with one plan, the torn tail of another and leftovers of earlier crashes, so that an append has to do
/// everything it can ever have to do.
#[expect(clippy::disallowed_methods, reason = "the tail is torn behind the store's back")]
fn prepare(template: &Path) {
    let store = store(template);
    let first = opening(1);
    let session = first.events[0].session_id;
    let mut locked = store.create(session).expect("a fresh session");
    support::commit(&mut locked, &first);
    support::commit(&mut locked, &unseen_plan(session, first.next_index(), 500_000));
    let folder = template.join("sessions").join(session.to_string());
    let bytes = fs::read(folder.join("manifest.jsonl")).expect("the manifest");
    fs::write(folder.join("manifest.jsonl"), &bytes[..bytes.len() - 100]).expect("ours");
    fs::write(folder.join("manifest.torn"), b"of an earlier crash").expect("ours");
    fs::write(folder.join("events/.tmp-segment"), b"of an earlier crash").expect("ours");
}

/// True if the worker finished before its Nth call.
fn run_killed(data: &Path, call: &str, when: usize, totals: &mut Totals) -> bool {
    let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e"].map(str::to_owned);
    let name = call.trim_start_matches('?');
    let inject = format!("inject={call}:signal=KILL:when={when}");
    let prefix = [&strace[..], &[format!("trace={call}"), "-e".to_owned(), inject]].concat();
    let task = Task { data, seed: 1, sessions: 1, appends: 1 };
    let output = task.command(&prefix).output().expect("strace starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let keys: Vec<String> = text.split_inclusive('\n').filter_map(acknowledged).collect();
    if output.status.success() {
        assert_eq!(keys.len(), 1, "{name} {when}: the worker finished, but acknowledged {keys:?}");
        return true;
    }
    assert!(output.stderr.is_empty(), "{name} {when}: {}", String::from_utf8_lossy(&output.stderr));
    // The second plan was acknowledged, but the manifest lost its end: the next writer rolls it forward (G13).
    let first = opening(1);
    let second = unseen_plan(first.events[0].session_id, first.next_index(), 500_000);
    let mut known = ExpectedLog::with_pending(&first, &second);
    known.check(data, &keys, when as u64, totals);
    false
}

#[expect(clippy::disallowed_methods, reason = "a copy of a whole data directory is no business of the store")]
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a fresh copy");
    fs::set_permissions(to, fs::metadata(from).expect("listed").permissions()).expect("ours");
    for entry in fs::read_dir(from).expect("a directory of the test") {
        let entry = entry.expect("a listed entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a listed entry").is_dir() {
            true => copy_tree(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("a small file")),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a whole data directory is no business of the store")]
fn remove_tree(data: &Path) {
    fs::remove_dir_all(data).expect("ours");
}
