//! The examples of `FORMAT.md` are what the store reads and writes, byte for byte.

mod support;

use workrail_model::digest::Sha256;
use workrail_model::event::Event;
use workrail_model::health::SessionHealth;
use workrail_model::manifest::{Cursor, ManifestIndex, ManifestRecord, commit_group, group_bytes};
use workrail_model::snapshot::ExecutionSnapshot;
use workrail_ports::cache::{CachedProjection, ProjectionCache};
use workrail_ports::environment::ActivityCounter;
use workrail_ports::keyring::KeyringStore;
use workrail_ports::session_store::SessionReader;
use workrail_store_fs::sim::SimFs;

use support::{open, path, within};

const FORMAT: &str = include_str!("../FORMAT.md");

/// The text of the one fenced block with this info string, line ends included.
fn example(info: &str) -> &'static str {
    let fence = format!("```{info}\n");
    let start =
        FORMAT.find(&fence).unwrap_or_else(|| panic!("FORMAT.md has an example `{info}`")) + fence.len();
    assert!(!FORMAT[start..].contains(&fence), "`{info}` is there once");
    let len = FORMAT[start..].find("```").expect("the block ends");
    &FORMAT[start..start + len]
}

fn events() -> Vec<Event> {
    let parse = |line: &str| Event::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
    example("jsonl segment").lines().map(parse).collect()
}

fn records() -> Vec<ManifestRecord> {
    let parse =
        |line: &str| ManifestRecord::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
    example("jsonl manifest").lines().map(parse).collect()
}

#[test]
fn the_segment_is_canonical() {
    for (event, line) in events().iter().zip(example("jsonl segment").lines()) {
        assert_eq!(String::from_utf8(event.to_canonical().unwrap()).unwrap(), line);
    }
}

#[test]
fn the_group_follows_from_the_segment() {
    let segment = example("jsonl segment").as_bytes();
    let group = commit_group(ManifestIndex::ZERO, &events(), segment);
    assert_eq!(records(), group);
    assert_eq!(group_bytes(&group).unwrap(), example("jsonl manifest").as_bytes());
}

#[test]
fn the_snapshot_is_canonical_and_has_the_pinned_digest() {
    // Content has no line end; the fence needs one.
    let bytes = example("json snapshot").trim_end().as_bytes();
    assert_eq!(ExecutionSnapshot::parse(bytes).unwrap().to_canonical().unwrap(), bytes);
    let digest = Sha256::of(bytes);
    let pinned = records().into_iter().any(|record| {
        matches!(record, ManifestRecord::SnapshotPinned { snapshot_ref, .. } if snapshot_ref.digest() == digest)
    });
    assert!(pinned, "{digest} is pinned");
}

#[test]
fn a_store_made_of_the_examples_is_healthy() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let (events, records) = (events(), records());
    let session = events[0].session_id;
    let Some(ManifestRecord::SegmentClosed { segment_rel_path, .. }) = records.first() else {
        panic!("a group begins with its segment");
    };
    fs.write_raw(&within(session, segment_rel_path), example("jsonl segment").as_bytes());
    fs.write_raw(&within(session, "manifest.jsonl"), example("jsonl manifest").as_bytes());
    let slice = store.read(session, None).unwrap();
    assert_eq!((slice.health, slice.events), (SessionHealth::Healthy, events));
}

#[test]
fn the_keyring_is_read_and_written_as_documented() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let file = path("keys/keyring.json");
    fs.write_raw(&file, example("json keyring").as_bytes());
    let keyring = store.load_or_create().unwrap();
    let previous = keyring.previous.clone().unwrap();
    // For the same keys the store writes the same bytes: first the older key alone, then rotated.
    let rotated = store.rotate().unwrap();
    assert_eq!(rotated.previous, Some(keyring.current));
    assert_ne!(previous, rotated.current);
    let shape = |text: &str| -> Vec<usize> { text.split('"').map(str::len).collect() };
    let written = String::from_utf8(fs.read_raw(&file).unwrap()).unwrap();
    assert_eq!(shape(&written), shape(example("json keyring")));
}

#[test]
fn the_activity_counter_is_read_and_written_as_documented() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let text = example("json activity").trim_end().replace("3f1c9a52-6a43-4c6e-9d0b-5f0d8a1f7e11", "boot-1");
    fs.write_raw(&path("activity"), text.as_bytes());
    assert_eq!(store.next().unwrap().get(), 42);
    let written = String::from_utf8(fs.read_raw(&path("activity")).unwrap()).unwrap();
    assert_eq!(written, format!("{text}."));
}

#[test]
fn the_activity_reservation_is_read_and_written_as_documented() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let text = example("json reservation").trim_end();
    fs.write_raw(&path("activity.reserved"), text.as_bytes());
    assert_eq!(store.next().unwrap().get(), 2087, "numbers continue behind the reservation");
    let written = String::from_utf8(fs.read_raw(&path("activity.reserved")).unwrap()).unwrap();
    let shape = |text: &str| -> Vec<usize> { text.split('"').map(str::len).collect() };
    assert_eq!(shape(&written), shape(text));
    assert!(written.contains("\"reserved\":4135,"), "{written}");
}

#[test]
fn the_cache_is_written_as_documented() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let text = example("text cache").trim_end();
    let (header, state) = text.split_once('\n').unwrap();
    let header: serde_json::Value = serde_json::from_str(header).unwrap();
    let cursor: Cursor = serde_json::from_value(header["cursor"].clone()).unwrap();
    let session = events()[0].session_id;
    let projection = CachedProjection { version: 1, cursor, state: state.as_bytes().to_vec() };
    fs.make_dir_raw(&path(&format!("sessions/{session}")));
    store.put(session, &projection).unwrap();
    let written = fs.read_raw(&path(&format!("sessions/{session}/cache/projection"))).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), text);
}

/// The tree lists every path that the layout can produce.
#[test]
fn the_tree_names_every_file() {
    let tree = example("text layout");
    for name in [
        "sessions/",
        "sess_<16>/",
        ".lock",
        "manifest.jsonl",
        "manifest.torn",
        ".tmp-manifest",
        ".suspect",
        "control.json",
        ".tmp-control",
        "events/",
        ".tmp-segment",
        "cache/",
        "projection",
        ".tmp-projection",
        "keys ",
        ".tmp-keys",
        "sessions-<version>.idx",
        ".tmp-index",
        "index.lock",
        "snapshots/",
        "blobs/",
        "workflows/",
        "pinned/",
        "keys/",
        "keyring.json",
        ".tmp-keyring",
        "keyring.unusable-1",
        "keyring.replaced-1",
        "http-secret",
        "activity",
        "activity.lock",
        "activity.reserved",
        ".tmp-activity",
        "store.lock",
        "observed/",
        "backup.json",
        ".tmp-backup",
        "backup.lock",
        "config.toml",
        ".tmp-settings",
    ] {
        assert!(tree.contains(name), "{name}");
    }
}
