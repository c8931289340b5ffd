//! `gc`, `delete` and `repair` killed as they enter a system call that changes the disk (G24, G25).

use std::fs;
use std::path::Path;

use serde_json::json;
use workrail_testkit::home::Home;
use workrail_testkit::skipped::skip;
use workrail_testkit::strace::may_trace;

use crate::scene::{PROGRAM, finished, home, run, session, session_dir, unfinished};

/// With a `?`, strace ignores a call that the kernel lacks.
pub(crate) const CALLS: [&str; 5] = ["?renameat", "?renameat2", "unlinkat", "fsync", "mkdirat"];

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Runs a command that is killed at the Nth call of a kind; returns whether it completed unharmed.
pub(crate) fn survives(data: &Path, arguments: &[&str], call: &str, when: usize) -> bool {
    let (traced, injected) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={when}"));
    let tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &traced, "-e", &injected];
    Home::new(PROGRAM).with_data(data).run_in(&tracer, arguments).code == 0
}

#[test]
fn figure_upkeep_killed_at_system_calls() {
    if !may_trace() {
        skip("upkeep killed at system calls", "strace is not here or may not trace");
        return;
    }
    let home = home();
    let (old, open, broken) = (finished(&home), unfinished(&home), finished(&home));
    let template = home.data();
    let events = session_dir(&home, &broken).join("events");
    let mut segments: Vec<_> = fs::read_dir(events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let last = segments.pop().unwrap();
    let sound = fs::read(&last).unwrap();
    let (id, doomed, damaged) = (session(&open), session(&old), session(&broken));
    let commands: [(&[&str], bool); 3] = [
        (&["store", "gc", "--ttl", "0d"], false),
        (&["session", "delete", &doomed, "--yes"], false),
        (&["store", "repair", &damaged, "--yes"], true),
    ];
    let (mut kills, place) = (0, tempfile::tempdir().unwrap());
    let data = place.path().join("data");
    for (arguments, is_damaged) in commands {
        fs::write(&last, if is_damaged { &sound[..sound.len() - 9] } else { &sound[..] }).unwrap();
        for call in CALLS {
            for when in 1.. {
                copy_tree(&template, &data);
                let unharmed = survives(&data, arguments, call, when);
                kills += usize::from(!unharmed);
                check(&data, &id, &damaged, is_damaged, &format!("{arguments:?}, {call} {when}"));
                // Once more, to its end.
                let again = run(&data, arguments);
                assert!(again.code == 0 || (arguments[0] == "session" && again.code == 2), "{again:?}");
                let cleaned = run(&data, &["store", "gc", "--ttl", "0d"]);
                assert_eq!(cleaned.code, 0, "{arguments:?}, {call} {when}: {cleaned:?}");
                let verified = run(&data, &["store", "verify", "--json"]);
                assert_eq!(verified.code, 0, "{verified:?}");
                assert_eq!(verified.json()["notes"], json!([]), "{arguments:?}, {call} {when}");
                fs::remove_dir_all(&data).unwrap();
                if unharmed {
                    break;
                }
            }
        }
    }
    println!("figure: upkeep killed at {kills} system calls: 0 sessions lost or in part");
    assert!(kills > 20);
}

/// Nothing that should be kept is harmed; what was damaged still is, or is repaired.
fn check(data: &Path, stays: &str, damaged: &str, is_damaged: bool, what: &str) {
    let verified = run(data, &["store", "verify", stays, "--json"]);
    assert_eq!(verified.code, 0, "{what}: {verified:?}");
    let all = run(data, &["store", "verify", "--json"]).json();
    for problem in all["problems"].as_array().unwrap() {
        assert!(is_damaged && problem["subject"] == json!(damaged), "{what}: {problem}");
    }
    if is_damaged && all["problems"] == json!([]) {
        assert!(data.join(format!("backups/{damaged}-1/manifest.jsonl")).exists(), "{what}: no backup");
    }
}
