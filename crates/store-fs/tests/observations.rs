//! What hooks store next to the log: bounded, tolerant of damage, removed with its session (G105).

mod support;

use workrail_model::id::{RunId, SessionId};
use workrail_model::limits::OBSERVATIONS_BYTES_MAX;
use workrail_ports::observations::ObservationSpool as _;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::conformance;

use support::{open, path};

fn ids() -> (SessionId, RunId) {
    (SessionId::from_bits([1; 10]), RunId::from_bits([2; 10]))
}

#[test]
fn observations_wait_until_they_are_recorded() {
    conformance::observations_wait_until_they_are_recorded(&open(SimFs::new()));
}

#[test]
fn a_hook_drops_what_exceeds_the_limit() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let (session, run) = ids();
    let long = conformance::observation(&"x".repeat(1000));
    for _ in 0..OBSERVATIONS_BYTES_MAX / 1000 {
        store.leave_observation(session, run, &long).expect("it is left or dropped");
    }
    let written = fs.read_raw(&path(&format!("observed/{session}-{run}.jsonl"))).expect("the file");
    assert!(written.len() as u64 <= OBSERVATIONS_BYTES_MAX);
    assert!(written.ends_with(b"\n"));
}

#[test]
fn damaged_lines_and_lines_no_hook_can_have_written_are_skipped() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let (session, run) = ids();
    store.leave_observation(session, run, &conformance::observation("a")).expect("it is left");
    let file = path(&format!("observed/{session}-{run}.jsonl"));
    let mut bytes = fs.read_raw(&file).expect("the file");
    bytes.extend_from_slice(
        br#"{"seenAt":"2026-01-02T03:04:05.678Z","host":"x","evidence":{"kind":"workspace_not_seen","reason":"timed_out"}}"#,
    );
    bytes.extend_from_slice(b"\nno json\n{\"seenAt\":");
    fs.write_raw(&file, &bytes);
    assert_eq!(store.take_observations(session, run), [conformance::observation("a")]);
}
