//! Flips every single bit of a session's files and cuts every file at every length. Each time the damage must be
//! classified correctly, refused, and left untouched (G11, G17, G20).
#![expect(clippy::wildcard_enum_match_arm, reason = "a variant that is not expected fails the test")]

mod support;

use std::thread;

use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::EventIndex;
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::manifest::{Cursor, commit_group};
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::file_system::RelPath;
use workrail_ports::session_store::{SessionReader, SessionStore, StoreError};
use workrail_ports::upkeep::{Inspection, Upkeep};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::history::{PlanParts, Step};

use support::{group_ends, open, session_of, within, write_session};

const SCRIPT: [Step; 5] =
    [Step::Advance, Step::AdvanceWithArtifact, Step::Blocked, Step::Checkpoint, Step::Fork];

/// A simulated disk with one session of several plans.
struct Scene {
    fs: SimFs,
    session: SessionId,
    written: Vec<PlanParts>,
    /// Where each group begins.
    cursors: Vec<Cursor>,
}

impl Scene {
    fn new() -> Self {
        let fs = SimFs::new();
        let written = write_session(&open(fs.clone()), 1, &SCRIPT);
        let session = session_of(&written);
        let bytes = fs.read_raw(&within(session, "manifest.jsonl")).expect("written");
        let cursors = cursors(&written, &group_ends(&bytes), &bytes);
        let scene = Self { session, fs, written, cursors };
        assert!(scene.events_before(scene.written.len()) >= 30, "the session has 30 events at least");
        scene
    }

    fn events_before(&self, group: usize) -> u64 {
        self.written[..group].iter().map(|parts| parts.events.len() as u64).sum()
    }

    fn manifest(&self) -> RelPath {
        within(self.session, "manifest.jsonl")
    }

    fn segment(&self, group: usize) -> RelPath {
        let (first, after) = (self.events_before(group), self.events_before(group + 1));
        within(self.session, &format!("events/{first:08}-{:08}.jsonl", after - 1))
    }

    fn bytes(&self, path: &RelPath) -> Vec<u8> {
        self.fs.read_raw(path).expect("the scene has this file")
    }

    fn content(&self) -> Vec<RelPath> {
        let in_content = |file: &RelPath| {
            ["snapshots/", "blobs/", "workflows/"].iter().any(|dir| file.as_str().starts_with(dir))
        };
        self.fs.all_files().into_iter().filter(in_content).collect()
    }
}

fn cursors(written: &[PlanParts], ends: &[usize], manifest: &[u8]) -> Vec<Cursor> {
    let mut cursors = vec![Cursor::start()];
    for (group, parts) in written.iter().enumerate() {
        let at = cursors[group];
        let bytes = &manifest[ends[group]..ends[group + 1]];
        let records = commit_group(at.next_manifest_index, &parts.events, parts.plan().segment());
        cursors.push(at.after(&records, bytes, parts.events.len() as u64));
    }
    cursors
}

/// The health that must be reported: nothing before the damaged group is doubted, nothing after it is trusted.
fn reason_of(scene: &Scene, health: SessionHealth, group: usize, what: &str) -> CorruptionReason {
    match health {
        SessionHealth::CorruptHead { reason } if group == 0 => reason,
        SessionHealth::CorruptTail { valid_until, reason }
            if group > 0 && valid_until.get() == scene.events_before(group) =>
        {
            reason
        }
        other => panic!("{what}: group {group} is damaged, but health says {other:?}"),
    }
}

/// Reading must report the damage and locking must refuse it, without any attempt to write.
fn observe(store: &LocalStore<SimFs>, fs: &SimFs, scene: &Scene, what: &str) -> SessionHealth {
    observe_from(store, fs, scene, None, what)
}

/// Like `observe`, for a reader that knows the log up to `since`; locking validates all of it.
fn observe_from(
    store: &LocalStore<SimFs>,
    fs: &SimFs,
    scene: &Scene,
    since: Option<&Cursor>,
    what: &str,
) -> SessionHealth {
    let writes = fs.op_count();
    let slice = store.read(scene.session, since).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!slice.health.is_healthy(), "{what}: not seen");
    match store.lock(scene.session) {
        Err(StoreError::Unhealthy { health, .. }) => assert_eq!(health, slice.health, "{what}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: a damaged session was locked"),
    }
    assert_eq!(fs.op_count(), writes, "{what}: something was written");
    slice.health
}

/// Splits positions among threads, each with its own copy of the disk and its own store.
fn in_parallel(scene: &Scene, positions: usize, act: impl Fn(&SimFs, &LocalStore<SimFs>, usize) + Sync) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for number in 0..threads {
            let act = &act;
            scope.spawn(move || {
                let fs = scene.fs.fork();
                let store = open(fs.clone());
                for position in (number..positions).step_by(threads) {
                    act(&fs, &store, position);
                }
            });
        }
    });
}

/// Calls `check` once per flipped bit; the file is restored afterwards.
fn flip_every_bit(
    scene: &Scene,
    path: &RelPath,
    check: impl Fn(&SimFs, &LocalStore<SimFs>, usize, &[u8]) + Sync,
) -> usize {
    let bytes = scene.bytes(path);
    in_parallel(scene, bytes.len(), |fs, store, at| {
        let mut flipped = bytes.clone();
        for bit in 0..8 {
            flipped[at] = bytes[at] ^ (1 << bit);
            fs.write_raw(path, &flipped);
            check(fs, store, at, &flipped);
        }
        fs.write_raw(path, &bytes);
    });
    bytes.len() * 8
}

fn flip_segments(scene: &Scene) -> usize {
    let mut flips = 0;
    for group in 0..scene.written.len() {
        let path = scene.segment(group);
        flips += flip_every_bit(scene, &path, |fs, store, at, _| {
            let what = format!("byte {at} of {path}");
            let since = Some(&scene.cursors[group]);
            let reason = reason_of(scene, observe_from(store, fs, scene, since, &what), group, &what);
            let segment = format!("events/{}", path.file_name());
            assert_eq!(reason, CorruptionReason::SegmentDigest { segment }, "{what}");
        });
    }
    flips
}

/// Every flipped bit of the manifest is damage, never mistaken for a newer version, because the segment shows what is
/// right. A repair rebuilds the manifest and loses nothing.
fn flip_manifest(scene: &Scene) -> usize {
    let path = scene.manifest();
    let whole = scene.bytes(&path);
    let ends = group_ends(&whole);
    let end = EventIndex::new(scene.events_before(scene.written.len()));
    flip_every_bit(scene, &path, |fs, store, at, flipped| {
        let what = format!("byte {at} of the manifest, now {:#04x}", flipped[at]);
        let group = ends.iter().filter(|end| **end <= at).count() - 1;
        let health = observe_from(store, fs, scene, Some(&scene.cursors[group]), &what);
        match reason_of(scene, health, group, &what) {
            CorruptionReason::ManifestRecord { .. }
            | CorruptionReason::ManifestMismatch { .. }
            | CorruptionReason::ManifestTail { .. }
            | CorruptionReason::SegmentDigest { .. } => {}
            reason => panic!("{what}: {reason}"),
        }
        // One bit per byte only, because a repair reads the whole session again.
        if flipped[at] ^ whole[at] != 1 << (at % 8) {
            return;
        }
        let repair = store.diagnose(scene.session, None).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((Some(repair.keeps_until), repair.lost), (end, Vec::new()), "{what}");
    })
}

/// Reads content by the digest in its name.
fn read_content(store: &LocalStore<SimFs>, path: &RelPath) -> Result<(), ContentError> {
    let name = path.file_name().trim_end_matches(".json");
    let digest = Sha256::from_hex(name).expect("content is named by its digest");
    match path.components().next() {
        Some("snapshots") => store.snapshot(SnapshotRef::new(digest)).map(drop),
        Some("blobs") => store.blob(BlobRef::new(digest)).map(drop),
        _ => store.workflow(WorkflowHash::new(digest)).map(drop),
    }
}

fn flip_content(scene: &Scene) -> usize {
    let mut flips = 0;
    for path in scene.content() {
        assert_eq!(read_content(&open(scene.fs.clone()), &path), Ok(()));
        let damaged = Err(ContentError::Damaged { path: path.to_string() });
        flips += flip_every_bit(scene, &path, |fs, store, at, _| {
            let writes = fs.op_count();
            assert_eq!(read_content(store, &path), damaged, "byte {at}");
            assert_eq!(fs.op_count(), writes, "byte {at} of {path}: something was written");
        });
    }
    flips
}

#[test]
fn figure_bit_flips() {
    let scene = Scene::new();
    let (segments, manifest, content) = (flip_segments(&scene), flip_manifest(&scene), flip_content(&scene));
    println!(
        "figure: bit flips {}, undetected 0 (segments {segments}, manifest {manifest}, content {content})",
        segments + manifest + content
    );
}

#[test]
fn a_segment_cut_at_any_length_or_grown_is_corruption() {
    let scene = Scene::new();
    for group in 0..scene.written.len() {
        let path = scene.segment(group);
        let bytes = scene.bytes(&path);
        let segment = format!("events/{}", path.file_name());
        in_parallel(&scene, bytes.len(), |fs, store, len| {
            let what = format!("{path} cut to {len}");
            fs.write_raw(&path, &bytes[..len]);
            let reason = reason_of(&scene, observe(store, fs, &scene, &what), group, &what);
            assert_eq!(reason, CorruptionReason::SegmentDigest { segment: segment.clone() }, "{what}");
            fs.write_raw(&path, &bytes);
        });
        let fs = scene.fs.fork();
        for byte in [0, b'\n', b' ', b'}', 0xff] {
            let what = format!("{path} with {byte:#04x} behind it");
            fs.write_raw(&path, &[&bytes[..], &[byte]].concat());
            reason_of(&scene, observe(&open(fs.clone()), &fs, &scene, &what), group, &what);
        }
    }
}

#[test]
fn content_cut_at_any_length_or_grown_is_damaged() {
    let scene = Scene::new();
    for path in scene.content() {
        let bytes = scene.bytes(&path);
        let damaged = Err(ContentError::Damaged { path: path.to_string() });
        in_parallel(&scene, bytes.len(), |fs, store, len| {
            fs.write_raw(&path, &bytes[..len]);
            assert_eq!(read_content(store, &path), damaged, "cut to {len}");
            fs.write_raw(&path, &bytes);
        });
        let fs = scene.fs.fork();
        fs.write_raw(&path, &[&bytes[..], b"\n"].concat());
        assert_eq!(read_content(&open(fs), &path), damaged);
    }
}

/// Losing only the last group looks like an interrupted append, which the next writer rolls forward. Losing more is
/// damage, which a repair undoes.
#[test]
fn a_manifest_cut_at_any_length_shows_its_complete_groups_and_loses_nothing() {
    let scene = Scene::new();
    let path = scene.manifest();
    let bytes = scene.bytes(&path);
    let ends = group_ends(&bytes);
    let last = scene.written.len() - 1;
    in_parallel(&scene, bytes.len(), |fs, store, len| {
        let what = format!("manifest cut to {len}");
        fs.write_raw(&path, &bytes[..len]);
        let group = ends.iter().filter(|end| **end <= len).count() - 1;
        if group < last {
            reason_of(&scene, observe(store, fs, &scene, &what), group, &what);
            assert_eq!(store.pending_write(scene.session), Ok(None), "{what}");
            let disk = fs.fork();
            let repaired = open(disk.clone()).repair(scene.session, None).expect(&what);
            assert!(repaired.lost.is_empty() && repaired.events_rebuilt > 0, "{what}: {repaired:?}");
            assert_eq!(disk.read_raw(&path).as_ref(), Some(&bytes), "{what}");
        } else {
            let slice = store.read(scene.session, None).expect("readable");
            assert_eq!(slice.health, SessionHealth::Healthy, "{what}");
            assert_eq!(slice.events.len() as u64, scene.events_before(last), "{what}");
            let pending = store.pending_write(scene.session).expect(&what).expect(&what);
            assert_eq!(pending.events, scene.written[last].events.len() as u64, "{what}");
            let disk = fs.fork();
            drop(open(disk.clone()).lock(scene.session).expect(&what));
            assert_eq!(disk.read_raw(&path).as_ref(), Some(&bytes), "{what}");
        }
        fs.write_raw(&path, &bytes);
    });
}

/// Replaces the manifest and says which group is damaged.
fn check_manifest(scene: &Scene, manifest: &[u8], group: usize, what: &str) {
    let fs = scene.fs.fork();
    fs.write_raw(&scene.manifest(), manifest);
    reason_of(scene, observe(&open(fs.clone()), &fs, scene, what), group, what);
}

#[test]
fn rearranged_manifests_are_corruption() {
    let scene = Scene::new();
    let whole = scene.bytes(&scene.manifest());
    let ends = group_ends(&whole);
    let groups: Vec<&[u8]> = ends.windows(2).map(|pair| &whole[pair[0]..pair[1]]).collect();
    let count = groups.len();

    for byte in 0..=u8::MAX {
        let what = format!("{byte:#04x} behind the last group");
        check_manifest(&scene, &[&whole[..], &[byte]].concat(), count, &what);
    }
    for (group, lines) in groups.iter().enumerate() {
        check_manifest(&scene, &[&whole[..], lines].concat(), count, "a group once more at the end");
        let twice = [&whole[..ends[group + 1]], lines, &whole[ends[group + 1]..]].concat();
        check_manifest(&scene, &twice, group + 1, "a group twice in a row");
        if group + 1 < count {
            let without = [&whole[..ends[group]], &whole[ends[group + 1]..]].concat();
            check_manifest(&scene, &without, group, "a group removed");
            let exchanged =
                [&whole[..ends[group]], groups[group + 1], lines, &whole[ends[group + 2]..]].concat();
            check_manifest(&scene, &exchanged, group, "two groups exchanged");
        }
        reorder_lines(&scene, &whole, (ends[group], ends[group + 1]), group);
    }
}

fn reorder_lines(scene: &Scene, whole: &[u8], (start, end): (usize, usize), group: usize) {
    let lines: Vec<&[u8]> = whole[start..end].split_inclusive(|byte| *byte == b'\n').collect();
    for at in 1..lines.len() {
        let mut reordered = lines.clone();
        reordered.swap(at - 1, at);
        let manifest = [&whole[..start], &reordered.concat()[..], &whole[end..]].concat();
        check_manifest(scene, &manifest, group, "two lines exchanged");
        let without = [&lines[..at], &lines[at + 1..]].concat().concat();
        // A last group without its pin is one whole line short: an interrupted write, if nothing follows.
        if group + 1 < scene.written.len() || at + 1 < lines.len() {
            let manifest = [&whole[..start], &without[..], &whole[end..]].concat();
            check_manifest(scene, &manifest, group, "a line removed");
        }
    }
}

#[test]
fn exchanged_segments_and_files_of_another_session_are_corruption() {
    let scene = Scene::new();
    let (one, other) = (scene.bytes(&scene.segment(1)), scene.bytes(&scene.segment(4)));
    let fs = scene.fs.fork();
    fs.write_raw(&scene.segment(1), &other);
    fs.write_raw(&scene.segment(4), &one);
    reason_of(&scene, observe(&open(fs.clone()), &fs, &scene, "segments exchanged"), 1, "segments exchanged");

    let fs = scene.fs.fork();
    let elsewhere = session_of(&write_session(&open(fs.clone()), 2, &SCRIPT));
    for group in 0..scene.written.len() {
        let fs = fs.fork();
        let name = scene.segment(group).file_name().to_owned();
        let foreign = fs.read_raw(&within(elsewhere, &format!("events/{name}"))).expect("the same shape");
        fs.write_raw(&scene.segment(group), &foreign);
        let health = observe(&open(fs.clone()), &fs, &scene, "a foreign segment");
        reason_of(&scene, health, group, "a foreign segment");
    }

    let (ours, theirs) = (scene.manifest(), within(elsewhere, "manifest.jsonl"));
    let (our_bytes, their_bytes) = (scene.bytes(&ours), fs.read_raw(&theirs).expect("the other session"));
    fs.write_raw(&ours, &their_bytes);
    fs.write_raw(&theirs, &our_bytes);
    let health = observe(&open(fs.clone()), &fs, &scene, "manifests exchanged");
    reason_of(&scene, health, 0, "manifests exchanged");
    let health = open(fs).read(elsewhere, None).expect("readable").health;
    assert!(matches!(health, SessionHealth::CorruptHead { .. }), "{health:?}");
}

/// Every way in which the last group can be incomplete: cut, cut and filled with NUL, or starting with NUL.
fn torn_tails(group: &[u8]) -> Vec<Vec<u8>> {
    let mut tails = Vec::new();
    for cut in 0..group.len() {
        tails.push(group[..cut].to_vec());
        let mut filled = vec![0; group.len()];
        filled[..cut].copy_from_slice(&group[..cut]);
        tails.push(filled);
        let mut begun = group.to_vec();
        begun[..=cut].fill(0);
        tails.push(begun);
    }
    tails
}

#[test]
fn a_torn_tail_is_ignored_by_readers_and_rolled_forward_by_the_next_writer() {
    let scene = Scene::new();
    let whole = scene.bytes(&scene.manifest());
    let ends = group_ends(&whole);
    let last = scene.written.len() - 1;
    let kept = &whole[..ends[last]];
    let tails = torn_tails(&whole[ends[last]..]);
    let before = support::events_of(&scene.written[..last]);
    let all = support::events_of(&scene.written);
    in_parallel(&scene, tails.len(), |disk, _, number| {
        let fs = disk.fork();
        let tail = &tails[number];
        fs.write_raw(&scene.manifest(), &[kept, tail].concat());
        let slice = open(fs.clone()).read(scene.session, None).expect("readable");
        assert_eq!(slice.health, SessionHealth::Healthy, "tail {number}");
        assert_eq!(slice.events, before, "tail {number}");

        let added = support::append_unseen_plan(fs.clone(), scene.session, number as u64 % 3);
        let aside = fs.read_raw(&within(scene.session, "manifest.torn")).unwrap_or_default();
        assert_eq!(&aside, tail, "tail {number}");
        let slice = open(fs).read(scene.session, None).expect("readable");
        assert_eq!(slice.health, SessionHealth::Healthy, "tail {number}");
        assert_eq!(slice.events, [&all[..], &added.events].concat(), "tail {number}");
        assert_eq!(EventIndex::new(all.len() as u64), Some(added.events[0].event_index));
    });
}
