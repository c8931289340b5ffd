//! Bugs that the proofs found, each as a test that says what went wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use workrail_ports::environment::ActivityCounter as _;
use workrail_ports::file_system::{FsErrorKind, FsOp, RelPath};
use workrail_ports::keyring::KeyringStore as _;
use workrail_ports::session_store::{LockedSession as _, SessionReader as _, SessionStore as _, StoreError};
use workrail_store_fs::sim::{CrashLimits, Fate, Fault, FaultKind, FaultMode, SimFs};

use crate::check::{Look, check_raw_log, with_everything_unsynced_lost};
use crate::crash_states::{power_cut, run_until};
use crate::script::{Minting, Script, Step};
use crate::world::{Failure, Ledger, World, open_store};

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

/// The position of an append among the steps.
fn append(script: &Script, number: usize) -> usize {
    script.steps.iter().position(|step| *step == Step::Append(number)).unwrap()
}

/// A disk on which the script is about to run `step`.
fn before(script: &Script, step: usize) -> (SimFs, Ledger) {
    let sim = SimFs::new();
    let mut world = World::open(script, &sim, "boot", Ledger::default()).unwrap();
    world.run_to(step).unwrap();
    (sim, world.ledger)
}

/// Opens a store on `sim` and makes exactly the named operation of its next step fail.
fn failed<'s>(
    script: &'s Script,
    (sim, ledger): &(SimFs, Ledger),
    (kind, mode): (FaultKind, FaultMode),
    (op, path): (FsOp, &RelPath),
) -> World<'s> {
    let named = format!("op: {op:?}, path: {path:?}");
    for offset in 0..100 {
        let sim = sim.fork();
        let mut world = World::open(script, &sim, "boot", ledger.clone()).unwrap();
        sim.set_fault(Fault { at_op: sim.all_op_count() + offset, kind, mode });
        let outcome = world.step(Minting::First);
        sim.clear_fault();
        if let Err(Failure::Refused(text)) = outcome
            && text.contains(&named)
        {
            return world;
        }
    }
    panic!("no operation of the step is {named}");
}

const LIES_ONCE: (FaultKind, FaultMode) = (FaultKind::FsyncLies, FaultMode::Once);
const LIES_ON: (FaultKind, FaultMode) = (FaultKind::FsyncLies, FaultMode::Forever);

/// The same process repeats the step; then the power is cut.
fn retried_step_is_durable(mut world: World<'_>) {
    world.step(Minting::First).unwrap();
    world.check_durable().unwrap();
}

/// A process that does not know what failed repeats the step; then the power is cut.
fn step_of_another_process_is_durable(world: &World<'_>) {
    let mut other = World::open(world.script, &world.sim().fork(), "boot", world.ledger.clone()).unwrap();
    other.check_log(Look::Reader).unwrap();
    other.step(Minting::Again).unwrap();
    other.check_durable().unwrap();
}

/// Listing relied on the length of the manifest, so a first append that tore it left a session that was listed but
/// could not be read.
#[test]
fn a_session_whose_first_append_was_torn_is_not_listed() {
    let script = Script::new();
    let torn = (0..200).find_map(|op| {
        let (cut, ledger) = run_until(&script, power_cut(op));
        let mut found = None;
        cut.for_each_crash_image(&CrashLimits::default(), &mut |choice, image| {
            let tore = |fate: &Fate| matches!(fate, Fate::Prefix(_));
            let manifest = image.read_raw(&script.manifest()).unwrap_or_default();
            if !manifest.is_empty() && choice.writes.iter().any(|(_, fates)| fates.iter().any(tore)) {
                found = Some(image);
            }
        });
        found.filter(|_| ledger.log.is_empty())
    });
    let (_, store) = open_store(&torn.expect("an append can be torn"), "boot", 0).unwrap();
    assert_eq!(store.sessions(), Ok(Vec::new()));
    assert!(matches!(store.read(script.session, None), Err(StoreError::NotFound { .. })));
}

/// A retry found its content by name, synced it again and relied on it; but the failed sync had lost the name, and no
/// later sync brought it to the disk.
#[test]
fn content_whose_name_was_lost_is_written_again() {
    let script = Script::new();
    let disk = before(&script, append(&script, 3));
    for folder in ["snapshots", "blobs"] {
        let failed = failed(&script, &disk, LIES_ONCE, (FsOp::SyncDir, &path(folder)));
        step_of_another_process_is_durable(&failed);
        retried_step_is_durable(failed);
    }
}

/// The same, for the folders of a new session.
#[test]
fn a_session_folder_whose_name_was_lost_is_created_again() {
    let script = Script::new();
    let disk = before(&script, append(&script, 0));
    for folder in [path("sessions"), path(&format!("sessions/{}", script.session))] {
        let failed = failed(&script, &disk, LIES_ONCE, (FsOp::SyncDir, &folder));
        step_of_another_process_is_durable(&failed);
        retried_step_is_durable(failed);
    }
}

/// If restoring the manifest failed as well, only the process that saw it knew: another one took the page cache for
/// the disk and reported the append as recorded.
#[test]
fn another_process_does_not_trust_a_manifest_whose_sync_failed() {
    let script = Script::new();
    for number in [0, 5] {
        let disk = before(&script, append(&script, number));
        let failed = failed(&script, &disk, LIES_ON, (FsOp::SyncFile, &script.manifest()));
        step_of_another_process_is_durable(&failed);
    }
}

/// Restoring the manifest of a first append removed it, which could not be repeated: the process that had failed once
/// could never append to that session again.
#[test]
fn a_first_append_whose_sync_failed_can_be_retried() {
    let script = Script::new();
    let disk = before(&script, append(&script, 0));
    retried_step_is_durable(failed(&script, &disk, LIES_ON, (FsOp::SyncFile, &script.manifest())));
}

/// A process that could not restore the manifest later truncated it to its old length, removing what other processes
/// had appended meanwhile.
#[test]
fn a_failed_process_does_not_undo_appends_of_others() {
    let script = Script::new();
    let disk = before(&script, append(&script, 5));
    let mut failed = failed(&script, &disk, LIES_ON, (FsOp::SyncFile, &script.manifest()));
    let mut other = World::open(&script, failed.sim(), "boot", failed.ledger.clone()).unwrap();
    other.check_log(Look::Writer).unwrap();
    other.step(Minting::First).unwrap();
    other.step(Minting::First).unwrap();
    failed.ledger = other.ledger.clone();
    failed.step(Minting::First).unwrap();
    failed.check_durable().unwrap();
}

/// Keys whose name was lost were synced again and handed out, but were gone after the next power cut.
#[test]
fn keys_are_written_again_after_a_failed_sync() {
    let script = Script::new();
    let disk = (SimFs::new(), Ledger::default());
    let failed = failed(&script, &disk, LIES_ONCE, (FsOp::SyncDir, &path("keys")));
    let (_, store) = open_store(failed.sim(), "boot", 9).unwrap();
    let keyring = store.load_or_create().unwrap();
    let image = with_everything_unsynced_lost(failed.sim());
    let (_, store) = open_store(&image, "boot after", 10).unwrap();
    assert_eq!(store.load_or_create().unwrap(), keyring);
}

/// An unreadable counter was rebuilt from the events, which do not know the numbers handed out since.
#[test]
fn activity_numbers_do_not_repeat_when_the_counter_cannot_be_read() {
    let sim = SimFs::new();
    let (_, store) = open_store(&sim, "boot", 0).unwrap();
    let first = store.next().unwrap();
    for offset in 0..10 {
        let kind = FaultKind::Error(FsErrorKind::TooManyOpenFiles);
        sim.set_fault(Fault { at_op: sim.all_op_count() + offset, kind, mode: FaultMode::Once });
        let number = store.next();
        sim.clear_fault();
        assert!(number.is_err() || number.is_ok_and(|number| number > first));
    }
}

/// The segments folder was removed after a failed sync, and then the session could be neither locked nor created.
#[test]
fn a_session_without_a_segments_folder_is_created_again() {
    let script = Script::new();
    let disk = before(&script, append(&script, 0));
    let (sim, ledger) = &disk;
    sim.write_raw(&script.manifest(), b"");
    let mut world = World::open(&script, sim, "boot", ledger.clone()).unwrap();
    world.step(Minting::First).unwrap();
    check_raw_log(&script, &world.ledger, sim).unwrap();
}

/// A torn tail was reported as corruption if its segment was unreadable for a moment.
#[test]
fn a_read_error_does_not_make_a_torn_tail_corruption() {
    let script = Script::new();
    let (sim, ledger) = before(&script, append(&script, 3));
    let planned = script.planned(3, Minting::First);
    let mut manifest = sim.read_raw(&script.manifest()).unwrap();
    manifest.extend_from_slice(&planned.group[..planned.group.len() / 2]);
    sim.write_raw(&script.manifest(), &manifest);
    for (path, bytes) in planned.references.iter().chain([&planned.segment]) {
        sim.write_raw(path, bytes);
    }
    for offset in 0..40 {
        let sim = sim.fork();
        let (_, store) = open_store(&sim, "boot", 0).unwrap();
        let kind = FaultKind::Error(FsErrorKind::Io);
        sim.set_fault(Fault { at_op: sim.all_op_count() + offset, kind, mode: FaultMode::Once });
        match store.lock(script.session) {
            Ok(locked) => assert!(locked.cursor().next_event_index.get() > ledger.log.len() as u64),
            Err(error) => assert!(matches!(error, StoreError::Io(_)), "{error:?}"),
        }
    }
}
