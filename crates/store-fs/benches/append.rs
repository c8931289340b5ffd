//! What one append costs on the real disk, compared with the same fsyncs done by hand in the same run.
//!
//! The two alternate, so that a busy machine slows both. `cargo bench -p workrail-store-fs --bench append`
#![expect(clippy::print_stdout, reason = "figures are printed")]
#![expect(clippy::disallowed_methods, reason = "the fsyncs by hand are what the store is compared with")]

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use workrail_model::event::{EventData, EventIndex};
use workrail_model::manifest::{ManifestIndex, commit_group, group_bytes};
use workrail_model::plan::{AppendPlan, AttachmentKind};
use workrail_ports::file_system::FileSystem;
use workrail_ports::session_store::{Appended, LockedSession, SessionStore};
use workrail_store_fs::disk::Disk;
use workrail_store_fs::{LocalStore, LockedLocalSession};
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::history::{AdvancePayload, History, PlanParts};
use workrail_testkit::monitor::Monitored;

const APPENDS: usize = 200;
const WARM_UP: usize = 20;

/// What the measured plan carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Six events and one snapshot.
    Snapshot,
    /// The same with its stored reply, as an advance without artifacts is written.
    SnapshotAndReply,
}

impl Shape {
    fn label(self) -> &'static str {
        match self {
            Self::Snapshot => "6 events, 1 snapshot",
            Self::SnapshotAndReply => "6 events, 1 snapshot, 1 reply",
        }
    }

    fn apply(self, mut parts: PlanParts) -> PlanParts {
        if self == Self::Snapshot {
            parts.attachments.retain(|attachment| attachment.kind() == AttachmentKind::Snapshot);
            for event in &mut parts.events {
                if let EventData::AdvanceRecorded(recorded) = &mut event.data {
                    recorded.reply_ref = None;
                }
            }
        }
        assert_eq!(parts.events.len(), 6);
        parts
    }
}

/// Plans from different histories, so that each one brings its own content.
fn plans(shape: Shape) -> impl FnMut(EventIndex) -> PlanParts {
    let session = History::new(1).session();
    let mut seed = 1;
    move |at| {
        seed += 1;
        let mut history = History::new(seed);
        history.start();
        let (parts, _) = history.advance(history.root(), AdvancePayload::NOTES);
        shape.apply(parts).in_session(session).moved_to(at)
    }
}

fn open<F: FileSystem>(fs: F) -> LocalStore<F> {
    LocalStore::open(fs, Box::new(SeededEntropy::new(1)), "bench".to_owned()).expect("the store opens")
}

fn disk(dir: &Path) -> Disk {
    Disk::open(Utf8Path::from_path(dir).expect("a UTF-8 path")).expect("the data directory opens")
}

/// The session with its first plan, locked.
fn begin<F: FileSystem>(store: &LocalStore<F>) -> LockedLocalSession<'_, F> {
    let mut history = History::new(1);
    let mut locked = store.create(history.session()).expect("a fresh session");
    append(&mut locked, history.start().plan());
    locked
}

fn append(locked: &mut impl LockedSession, plan: AppendPlan) {
    match locked.append(plan) {
        Ok(Appended::Committed { .. }) => {}
        other => panic!("not committed: {other:?}"),
    }
}

/// The same files, bytes and fsyncs as the store's, without the store.
struct ByHand {
    dir: PathBuf,
    next: u64,
}

impl ByHand {
    fn new(dir: PathBuf) -> Self {
        for folder in ["snapshots", "blobs", "events"] {
            fs::create_dir_all(dir.join(folder)).expect("ours");
        }
        File::create(dir.join("manifest.jsonl")).expect("ours");
        Self { dir, next: 0 }
    }

    fn append(&mut self, parts: &PlanParts, segment: &[u8], group: &[u8]) {
        self.next += 1;
        let mut placed = Vec::new();
        for (number, attachment) in parts.attachments.iter().enumerate() {
            let folder = match attachment.kind() {
                AttachmentKind::Snapshot => "snapshots",
                AttachmentKind::Blob | AttachmentKind::Workflow => "blobs",
            };
            let temp = self.dir.join(folder).join(format!(".tmp-{number}"));
            write_synced(&temp, attachment.bytes());
            placed.push((temp, self.dir.join(folder).join(format!("{}-{number}", self.next)), folder));
        }
        for (temp, target, _) in &placed {
            fs::rename(temp, target).expect("ours");
        }
        for (_, _, folder) in &placed {
            sync_dir(&self.dir.join(folder));
        }
        let temp = self.dir.join("events/.tmp-segment");
        write_synced(&temp, segment);
        fs::rename(&temp, self.dir.join(format!("events/{}", self.next))).expect("ours");
        sync_dir(&self.dir.join("events"));
        let mut manifest =
            OpenOptions::new().append(true).open(self.dir.join("manifest.jsonl")).expect("ours");
        manifest.write_all(group).expect("ours");
        manifest.sync_all().expect("ours");
    }
}

fn write_synced(path: &Path, bytes: &[u8]) {
    let mut file = File::create_new(path).expect("ours");
    file.write_all(bytes).expect("ours");
    file.sync_all().expect("ours");
}

fn sync_dir(dir: &Path) {
    File::open(dir).and_then(|dir| dir.sync_all()).expect("ours");
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn nanos(time: &Duration) -> i128 {
    i128::try_from(time.as_nanos()).expect("a benchmark never overflows an i128 of nanoseconds")
}

fn count_fsyncs(dir: &Path, shape: Shape) -> u64 {
    let fs = Monitored::new(disk(dir));
    let store = open(fs.clone());
    let mut locked = begin(&store);
    let mut next = plans(shape);
    let mut most = 0;
    for _ in 0..10 {
        let plan = next(locked.cursor().next_event_index).plan();
        let before = fs.syncs();
        append(&mut locked, plan);
        most = most.max(fs.syncs() - before);
    }
    most
}

fn measure(dir: &Path, shape: Shape) {
    let fsyncs = count_fsyncs(&dir.join("counted"), shape);
    let store = open(disk(&dir.join("store")));
    let mut locked = begin(&store);
    let mut by_hand = ByHand::new(dir.join("by-hand"));
    let mut next = plans(shape);
    let (mut of_store, mut of_hand) = (Vec::new(), Vec::new());
    for turn in 0..WARM_UP + APPENDS {
        let parts = next(locked.cursor().next_event_index);
        let plan = parts.plan();
        let segment = plan.segment().to_vec();
        let records = commit_group(ManifestIndex::new(turn as u64), &parts.events, &segment);
        let group = group_bytes(&records).expect("canonical");
        let mut run_store = Some(plan);
        let mut pair = [Duration::ZERO; 2];
        // The order alternates: the second one finds a warmer disk.
        for who in [turn % 2, 1 - turn % 2] {
            let start = Instant::now();
            match who {
                0 => append(&mut locked, run_store.take().expect("once per turn")),
                _ => by_hand.append(&parts, &segment, &group),
            }
            pair[who] = start.elapsed();
        }
        if turn >= WARM_UP {
            of_store.push(pair[0]);
            of_hand.push(pair[1]);
        }
    }
    // Compared pairwise: the store's overhead on top of its fsyncs, whatever the disk's speed was at the time.
    let mut overheads: Vec<i128> =
        of_store.iter().zip(&of_hand).map(|(store, hand)| nanos(store) - nanos(hand)).collect();
    overheads.sort_unstable();
    let overhead_us = overheads[overheads.len() / 2] / 1000;
    let (store, hand) = (median(&mut of_store), median(&mut of_hand));
    println!("{}", shape.label());
    println!("  append median: {store:?}, by-hand fsyncs median: {hand:?} (N={APPENDS})");
    println!("  append / by-hand fsyncs ratio: {:.2}", store.as_secs_f64() / hand.as_secs_f64());
    println!("  median of the differences, turn by turn: {overhead_us} microseconds");
    println!("  fsyncs per append: {fsyncs}");
}

fn main() {
    // In the build folder, which is on a real disk; the system's temporary folder may be in memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    for (name, shape) in [("snapshot", Shape::Snapshot), ("reply", Shape::SnapshotAndReply)] {
        measure(&dir.path().join(name), shape);
    }
}
