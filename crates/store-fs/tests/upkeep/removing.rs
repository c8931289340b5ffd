//! Removing and keeping sessions (G25).

use workrail_model::id::SessionId;
use workrail_ports::file_system::FsOp;
use workrail_ports::session_store::{SessionReader as _, SessionStore as _, StoreError};
use workrail_ports::upkeep::{Inspection, Upkeep as _, UpkeepError};
use workrail_store_fs::sim::SimFs;

use crate::STEPS;
use crate::support::{append_unseen_plan, open, session_of, within, write_session};

#[test]
fn a_kept_session_is_not_removed_even_if_its_mark_is_in_doubt() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let id = session_of(&write_session(&store, 1, &STEPS));
    store.keep(id).unwrap();
    store.keep(id).unwrap();
    assert!(open(sim.clone()).is_kept(id));
    assert_eq!(store.remove(id, None), Err(UpkeepError::Kept { session: id }));
    store.unkeep(id).unwrap();
    assert!(!store.is_kept(id));
    // Anything in the place of the mark counts as one.
    sim.make_symlink_raw(&within(id, "keep"));
    assert_eq!(store.remove(id, None), Err(UpkeepError::Kept { session: id }));
    sim.remove_raw(&within(id, "keep"));
    let unknown = session_of(&workrail_testkit::history::plans(9, &[]));
    for refused in [store.keep(unknown), store.unkeep(unknown)] {
        assert!(matches!(refused, Err(UpkeepError::Store(StoreError::NotFound { .. }))));
    }
    store.remove(id, None).unwrap();
}

#[test]
fn a_session_used_since_it_was_selected_is_not_removed() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let id = session_of(&write_session(&store, 1, &STEPS));
    let judged = store.read(id, None).unwrap().cursor;
    append_unseen_plan(sim.clone(), id, 5);
    assert_eq!(store.remove(id, Some(&judged)), Err(UpkeepError::Changed { session: id }));
    let held = store.lock(id).unwrap();
    let other = open(sim.clone());
    assert!(matches!(other.remove(id, None), Err(UpkeepError::Store(StoreError::Locked { .. }))));
    drop(held);
    let judged = store.read(id, None).unwrap().cursor;
    assert!(other.remove(id, Some(&judged)).is_ok());
}

#[test]
fn a_process_that_remembers_a_removed_session_does_not_bring_it_back() {
    let sim = SimFs::new();
    let server = open(sim.clone());
    let written = write_session(&server, 1, &STEPS);
    let id = session_of(&written);
    let cursor = server.read(id, None).unwrap().cursor;
    drop(server.lock(id).unwrap());
    open(sim.clone()).remove(id, None).unwrap();
    let gone = |error: StoreError| matches!(error, StoreError::NotFound { .. });
    assert!(server.lock(id).is_err_and(gone));
    assert!(server.read(id, Some(&cursor)).is_err_and(gone));
    assert!(server.sessions().unwrap().is_empty());
    assert!(!sim.all_files().iter().any(|file| file.as_str().starts_with("sessions/")));
}

#[test]
fn sessions_removed_together_get_separate_results_and_one_sync() {
    let sim = SimFs::new();
    let store = open(sim.clone());
    let ids: Vec<SessionId> = (1..6).map(|seed| session_of(&write_session(&store, seed, &STEPS))).collect();
    store.keep(ids[1]).unwrap();
    let stale = store.read(ids[2], None).unwrap().cursor;
    append_unseen_plan(sim.clone(), ids[2], 9);
    let held = open(sim.clone());
    let _writer = held.lock(ids[3]).unwrap();
    let asked: Vec<_> = ids.iter().map(|id| (*id, (*id == ids[2]).then_some(stale))).collect();
    let before = sim.trace().len();
    let answers = store.remove_all(&asked);
    let syncs = sim.trace()[before..].iter().filter(|(op, _)| *op == FsOp::SyncDir).count();
    assert!(answers[0].is_ok() && answers[4].is_ok(), "{answers:?}");
    assert_eq!(answers[1], Err(UpkeepError::Kept { session: ids[1] }));
    assert_eq!(answers[2], Err(UpkeepError::Changed { session: ids[2] }));
    assert!(matches!(answers[3], Err(UpkeepError::Store(StoreError::Locked { .. }))));
    assert_eq!(syncs, 1);
    let mut left = ids[1..4].to_vec();
    left.sort_unstable();
    assert_eq!(store.sessions(), Ok(left));
}
