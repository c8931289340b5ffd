//! Power cuts and failing disks during the update of a backup, and during a restore (G26).
//!
//! The target is a consistent store in every crash state, keeps what it had, and is complete after another run.

use std::collections::BTreeSet;

use workrail_model::digest::{BlobRef, SnapshotRef, WorkflowHash};
use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::plan::AttachmentKind;
use workrail_ports::backup::{BackupOptions, Replicate as _, RestoreOptions};
use workrail_ports::content::ContentStore as _;
use workrail_ports::file_system::{FsErrorKind, RelPath};
use workrail_ports::session_store::{LockedSession as _, SessionReader as _, SessionStore as _, StoreError};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::{CrashLimits, Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::history::{self, PlanParts, Step};
use workrail_testkit::monitor::Monitored;

use crate::check::with_everything_unsynced_lost;
use crate::effort::Effort;
use crate::parallel::{self, Findings};
use crate::script::references;
use crate::world::{Store, open_store};

const STEPS: [Step; 3] = [Step::AdvanceWithArtifact, Step::Blocked, Step::Advance];

/// A store, and a target that holds an earlier state of it.
struct Scene {
    source: SimFs,
    target: SimFs,
    /// The session that the target has in part, how many of its events it has, and a session that it lacks.
    known: Vec<PlanParts>,
    known_events: usize,
    absent: Vec<PlanParts>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Backup,
    Restore,
}

fn session(plans: &[PlanParts]) -> SessionId {
    plans[0].events[0].session_id
}

fn events(plans: &[PlanParts]) -> Vec<Event> {
    plans.iter().flat_map(|parts| parts.events.clone()).collect()
}

/// Opened without creating anything: a backup's folder may be empty.
fn as_is(sim: &SimFs) -> (Monitored<SimFs>, Store) {
    let disk = Monitored::new(sim.clone());
    let store = LocalStore::read_only(disk.clone(), Box::new(SeededEntropy::new(3)), "boot".to_owned());
    (disk, store)
}

fn append(store: &Store, plans: &[PlanParts], from: usize) {
    let mut locked = match store.lock(session(plans)) {
        Err(StoreError::NotFound { .. }) => store.create(session(plans)),
        locked => locked,
    }
    .expect("a sound disk");
    for parts in &plans[from..] {
        locked.append(parts.plan()).expect("a sound disk");
    }
}

/// Runs the work on the target; the error is what a caller would see.
fn work(kind: Work, source: &SimFs, target: &SimFs) -> Result<(), String> {
    let ((_, from), (disk, to)) = (as_is(source), as_is(target));
    let done = match kind {
        Work::Backup => {
            from.back_up_to(&to, BackupOptions { with_keys: true, check_all: false }, &mut |_, _| {})
        }
        Work::Restore => {
            to.restore_from(&from, RestoreOptions { only: None, dry_run: false }, &mut |_, _| {})
        }
    };
    let broken = disk.violations();
    assert!(broken.is_empty(), "write order: {broken:?}");
    match done {
        Ok(report) if report.unusable.is_empty() => Ok(()),
        Ok(report) => Err(format!("not copied: {:?}", report.unusable)),
        Err(error) => Err(error.to_string()),
    }
}

impl Scene {
    fn new(kind: Work) -> Self {
        let (source, target) = (SimFs::new(), SimFs::new());
        let (known, absent) = (history::plans(31, &STEPS), history::plans(32, &STEPS[..1]));
        let (_, store) = open_store(&source, "boot", 1).expect("a sound disk opens");
        append(&store, &known[..2], 0);
        work(Work::Backup, &source, &target).expect("a sound disk");
        let known_events = events(&known[..2]).len();
        append(&store, &known, 2);
        append(&store, &absent, 0);
        drop(store);
        if kind == Work::Restore {
            // The restore target is damaged: the last segment has a changed byte, and a snapshot is missing.
            let damaged =
                target.all_files().into_iter().filter(|path| path.as_str().contains("/events/")).max();
            let path = damaged.expect("a segment is there");
            let mut bytes = target.read_raw(&path).expect("it is there");
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
            target.write_raw(&path, &bytes);
            let snapshot =
                target.all_files().into_iter().find(|path| path.as_str().starts_with("snapshots/"));
            target.remove_raw(&snapshot.expect("a snapshot is there"));
        }
        let target = with_everything_unsynced_lost(&target);
        Self { source, target, known, known_events, absent }
    }

    /// Whatever the target shows of a session is a prefix of its history, with all its content.
    fn shows(&self, store: &Store, plans: &[PlanParts], kind: Work) -> Result<usize, String> {
        let slice = match store.read(session(plans), None) {
            Err(StoreError::NotFound { .. }) => return Ok(0),
            read => read.map_err(|error| format!("cannot be read: {error}"))?,
        };
        if !events(plans).starts_with(&slice.events) {
            return Err("other events than the source has".to_owned());
        }
        if !slice.health.is_healthy() {
            return if kind == Work::Restore { Ok(0) } else { Err(format!("health {:?}", slice.health)) };
        }
        for (kind, digest) in slice.events.iter().flat_map(references) {
            match kind {
                AttachmentKind::Snapshot => store.snapshot(SnapshotRef::new(digest)).map(|_| ()),
                AttachmentKind::Blob => store.blob(BlobRef::new(digest)).map(|_| ()),
                AttachmentKind::Workflow => store.workflow(WorkflowHash::new(digest)).map(|_| ()),
            }
            .map_err(|error| format!("content is gone: {error}"))?;
        }
        Ok(slice.events.len())
    }

    /// Must hold in every crash state.
    fn holds(&self, image: &SimFs, kind: Work) -> Result<(), String> {
        let (_, store) = open_store(image, "boot after", 2).map_err(|error| error.to_string())?;
        let shown = self.shows(&store, &self.known, kind)?;
        if kind == Work::Backup && shown < self.known_events {
            return Err(format!("{shown} of {} events that were backed up before", self.known_events));
        }
        self.shows(&store, &self.absent, kind).map(|_| ())
    }

    fn is_complete(&self, image: &SimFs, kind: Work) -> Result<(), String> {
        let (_, store) = open_store(image, "boot after", 2).map_err(|error| error.to_string())?;
        for plans in [&self.known, &self.absent] {
            let shown = self.shows(&store, plans, kind)?;
            if shown != events(plans).len() {
                return Err(format!("{shown} of {} events", events(plans).len()));
            }
        }
        match kind == Work::Restore && !image.all_files().iter().any(is_kept_aside) {
            true => Err("the damaged session was not kept".to_owned()),
            false => Ok(()),
        }
    }

    /// Another run must end where an undisturbed one ends.
    fn recovers(&self, image: &SimFs, kind: Work) -> Result<(), String> {
        work(kind, &self.source, image)?;
        self.is_complete(image, kind)?;
        self.is_complete(&with_everything_unsynced_lost(image), kind)
    }
}

fn is_kept_aside(path: &RelPath) -> bool {
    path.as_str().starts_with("backups/sess_")
}

fn limits(effort: Effort, op: u64) -> CrashLimits {
    let max_product = match effort {
        Effort::Default => 12,
        Effort::Full => 400,
    };
    CrashLimits { max_exhaustive_names: 4, random_subsets: 4, random_cuts: 2, max_product, seed: op }
}

fn power_cuts(effort: Effort, kind: Work) -> Findings {
    let scene = Scene::new(kind);
    let sound = scene.target.fork();
    let before = sound.all_op_count();
    work(kind, &scene.source, &sound).expect("nothing fails on a sound disk");
    scene.is_complete(&sound, kind).expect("a sound disk");
    let ops = sound.all_op_count() - before;
    parallel::each(ops as usize + 1, |op, findings| {
        let sim = scene.target.fork();
        let at_op = before + op as u64;
        sim.set_fault(Fault { at_op, kind: FaultKind::PowerCut, mode: FaultMode::Once });
        let acknowledged = work(kind, &scene.source, &sim).is_ok();
        let mut seen = BTreeSet::new();
        sim.for_each_crash_image(&limits(effort, at_op), &mut |choice, image| {
            if !seen.insert(image.digest()) {
                return;
            }
            findings.states += 1;
            let held = if acknowledged { scene.is_complete(&image, kind) } else { scene.holds(&image, kind) };
            if let Err(what) = held.and_then(|()| scene.recovers(&image, kind)) {
                findings.record(format!("{kind:?}, op {op}: {what}, {choice:?}"));
            }
        });
        let killed = sim.fork();
        killed.clear_fault();
        findings.states += 1;
        if let Err(what) = scene.holds(&killed, kind).and_then(|()| scene.recovers(&killed, kind)) {
            findings.record(format!("{kind:?}, op {op}, killed: {what}"));
        }
    })
}

fn io_errors(kind: Work) -> Findings {
    let scene = Scene::new(kind);
    let sound = scene.target.fork();
    let before = sound.all_op_count();
    work(kind, &scene.source, &sound).expect("nothing fails on a sound disk");
    let ops = sound.all_op_count() - before;
    let kinds = [
        FaultKind::Error(FsErrorKind::Io),
        FaultKind::Error(FsErrorKind::NoSpace),
        FaultKind::ShortWrite,
        FaultKind::FsyncLies,
    ];
    parallel::each(ops as usize * kinds.len(), |case, findings| {
        let (op, fault) = (case as u64 / kinds.len() as u64, kinds[case % kinds.len()]);
        let sim = scene.target.fork();
        sim.set_fault(Fault { at_op: before + op, kind: fault, mode: FaultMode::Once });
        let _ = work(kind, &scene.source, &sim);
        sim.clear_fault();
        findings.states += 1;
        if let Err(what) = scene.holds(&sim, kind).and_then(|()| scene.recovers(&sim, kind)) {
            findings.record(format!("{kind:?}, op {op}, {fault:?}: {what}"));
        }
    })
}

pub(crate) fn explore(effort: Effort) -> Findings {
    let mut findings = Findings::default();
    for kind in [Work::Backup, Work::Restore] {
        findings.absorb(power_cuts(effort, kind));
        findings.absorb(io_errors(kind));
    }
    findings
}
