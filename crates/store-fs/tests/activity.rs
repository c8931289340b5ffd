//! Activity numbers after reboots, next to damaged sessions, and when their own files are lost (G7).

mod support;

use workrail_ports::environment::ActivityCounter;
use workrail_ports::file_system::{FsErrorKind, FsOp, LockMode};
use workrail_ports::session_store::{SessionReader, StoreError};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::{Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::history::Step;

use support::{open, path, session_of, within, write_session};

fn boot(fs: &SimFs, boot: &str) -> LocalStore<SimFs> {
    LocalStore::open(fs.clone(), Box::new(SeededEntropy::new(1)), boot.to_owned()).expect("the store opens")
}

#[test]
fn numbers_never_repeat_across_power_cuts_and_reboots() {
    let mut fs = SimFs::new();
    let mut last = 0;
    for round in 0..12 {
        let store = boot(&fs, &format!("boot {round}"));
        for _ in 0..round * 300 {
            let number = store.next().unwrap().get();
            assert!(number > last, "{number} after {last}");
            last = number;
        }
        // Only what was synced survives.
        fs = fs.crash(&workrail_store_fs::sim::CrashChoice { names: [].into(), writes: Vec::new() });
    }
}

/// Broke: the counter was rebuilt from all sessions, so that one unreadable session stopped every start after a reboot.
#[test]
fn a_reboot_reads_no_session() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let sessions: Vec<_> =
        (1..4).map(|seed| session_of(&write_session(&store, seed, &[Step::Advance]))).collect();
    let before = store.next().unwrap();
    for session in &sessions {
        fs.set_unreadable(&within(*session, "manifest.jsonl"));
    }
    let rebooted = boot(&fs, "boot-2");
    let seen = fs.trace().len();
    assert!(rebooted.next().unwrap() > before);
    let trace = fs.trace();
    let touched: Vec<_> =
        trace[seen..].iter().filter(|(_, path)| path.as_str().starts_with("sessions")).collect();
    assert!(touched.is_empty(), "{touched:?}");
}

#[test]
fn a_lost_or_damaged_reservation_is_rebuilt_from_the_readable_sessions() {
    let damages: [&dyn Fn(&SimFs); 4] = [
        &|fs| fs.remove_raw(&path("activity.reserved")),
        &|fs| fs.write_raw(&path("activity.reserved"), b""),
        &|fs| {
            let text = String::from_utf8(fs.read_raw(&path("activity.reserved")).unwrap()).unwrap();
            fs.write_raw(
                &path("activity.reserved"),
                text.replacen("\"reserved\":", "\"reserved\":1", 1).as_bytes(),
            );
        },
        &|fs| fs.set_unreadable(&path("activity.reserved")),
    ];
    for damage in damages {
        let fs = SimFs::new();
        let store = open(fs.clone());
        let first = session_of(&write_session(&store, 1, &[Step::Advance]));
        let second = write_session(&store, 2, &[Step::Advance]);
        let recorded = support::events_of(&second).iter().filter_map(|event| event.activity).max();
        store.next().unwrap();
        fs.set_unreadable(&within(first, "manifest.jsonl"));
        damage(&fs);
        let rebooted = boot(&fs, "boot-2");
        assert!(Some(rebooted.next().unwrap()) > recorded);
        assert_eq!(rebooted.sessions().unwrap().len(), 2, "the unreadable one is listed all the same");
    }
}

#[test]
fn numbers_are_reserved_two_thousand_at_a_time() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    store.next().unwrap();
    let seen = fs.trace().len();
    for _ in 0..4 * 2048 {
        store.next().unwrap();
    }
    let syncs =
        fs.trace()[seen..].iter().filter(|(op, _)| matches!(op, FsOp::SyncFile | FsOp::SyncDir)).count();
    assert!((1..=8).contains(&syncs), "{syncs} syncs for 8,192 numbers");
}

#[test]
fn waiting_too_long_for_the_counter_reports_a_busy_store() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let held = workrail_ports::file_system::FileSystem::lock(
        &fs,
        &path("activity.lock"),
        LockMode::Exclusive,
        Default::default(),
    );
    assert_eq!(store.next(), Err(StoreError::Busy));
    drop(held);
    assert!(store.next().is_ok());
}

#[test]
fn running_out_of_file_handles_neither_loses_nor_repeats_a_number() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let mut last = store.next().unwrap();
    for op in 0..8 {
        let kind = FaultKind::Error(FsErrorKind::TooManyOpenFiles);
        fs.set_fault(Fault { at_op: fs.all_op_count() + op, kind, mode: FaultMode::Once });
        if let Ok(number) = store.next() {
            assert!(number > last);
            last = number;
        }
        fs.clear_fault();
        let number = store.next().unwrap();
        assert!(number > last);
        last = number;
    }
}

/// The console checks it several times a second (G96).
#[test]
fn the_store_fingerprint_changes_with_every_number_and_session_without_reading_sessions() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let mut stamps = vec![store.change_stamp().unwrap()];
    for seed in 1..4 {
        write_session(&store, seed, &[Step::Advance]);
        stamps.push(store.change_stamp().unwrap());
        store.next().unwrap();
        stamps.push(store.change_stamp().unwrap());
    }
    assert!(stamps.windows(2).all(|pair| pair[0] != pair[1]), "{stamps:?}");
    assert_eq!(store.change_stamp(), store.change_stamp(), "nothing changed in between");
    let seen = fs.trace().len();
    store.change_stamp().unwrap();
    assert!(fs.trace().len() - seen <= 3, "a few looks, however many sessions there are");
}
