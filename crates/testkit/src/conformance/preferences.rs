//! Preferences that a person set are kept until an advance has applied exactly these (G64).

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::PendingPreferences;
use workrail_model::preferences::{Autonomy, Mode, PreferenceChange, RiskPolicy};
use workrail_ports::pending_preferences::{PendingPreferencesReader, PendingPreferencesStore};
use workrail_ports::session_store::{SessionStore, StoreError};

use super::{StoreUnderTest, create, ok, session_of};
use crate::history::plans;

fn pending(mode: Mode) -> PendingPreferences {
    PendingPreferences { preferences: mode.preferences(), proof: None }
}

fn stored(
    store: &impl PendingPreferencesReader,
    session: SessionId,
    run: RunId,
) -> Option<PendingPreferences> {
    store
        .pending_preferences(session, run)
        .unwrap_or_else(|error| panic!("pending preferences are readable: {error}"))
}

fn set(store: &impl PendingPreferencesStore, session: SessionId, pending: &[(RunId, PendingPreferences)]) {
    store
        .set_pending_preferences(session, &pending.iter().cloned().collect())
        .unwrap_or_else(|error| panic!("pending preferences are set: {error}"));
}

fn clear(store: &impl PendingPreferencesStore, session: SessionId, run: RunId, applied: &PendingPreferences) {
    store
        .clear_pending_preferences(session, run, applied)
        .unwrap_or_else(|error| panic!("applied preferences are cleared: {error}"));
}

/// Broke: an advance cleared what was stored, not what it had applied. A change in between was lost, even one that
/// asked for less autonomy.
pub fn preferences_set_again_after_they_were_read_survive_the_clear(subject: &impl StoreUnderTest) {
    let (store, other) = (subject.open(), subject.open());
    let made = plans(1, &[]);
    let session = session_of(&made[0]);
    create(&store, &made[0]);
    let (run, another_run) = (RunId::from_bits([1; 10]), RunId::from_bits([2; 10]));
    let (bold, careful) = (pending(Mode::FullAutoNeverStop), pending(Mode::Guided));
    set(&other, session, &[(run, bold.clone()), (another_run, bold.clone())]);
    assert_eq!(stored(&store, session, run), Some(bold.clone()));
    set(&other, session, &[(run, careful.clone())]);

    // An advance clears them while it holds the session.
    let held = ok(store.lock(session));
    clear(&store, session, run, &bold);
    assert_eq!(stored(&other, session, run), Some(careful.clone()));
    clear(&store, session, run, &careful);
    assert_eq!(stored(&other, session, run), None);
    assert_eq!(stored(&other, session, another_run), Some(bold.clone()), "each run has its own");
    clear(&store, session, run, &careful);
    clear(&store, session, another_run, &bold);
    drop(held);
    assert_eq!(stored(&subject.open(), session, another_run), None);
}

/// Broke: the file of all runs was rewritten without a lock, so one process dropped what another had just stored.
pub fn preferences_of_many_runs_set_at_once_are_all_kept(subject: &impl StoreUnderTest) {
    const WRITERS: u8 = 4;
    const RUNS_EACH: u8 = 5;
    let store = subject.open();
    let made = plans(1, &[]);
    let session = session_of(&made[0]);
    create(&store, &made[0]);

    let begin = Barrier::new(usize::from(WRITERS));
    let stores: Vec<_> = (0..WRITERS).map(|_| subject.open()).collect();
    thread::scope(|scope| {
        for (writer, store) in (0..WRITERS).zip(&stores) {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                for number in 0..RUNS_EACH {
                    let run = RunId::from_bits([writer * RUNS_EACH + number; 10]);
                    change_in_turn(store, session, run, |_| pending(Mode::Guided));
                }
            });
        }
    });

    for number in 0..WRITERS * RUNS_EACH {
        let found = stored(&store, session, RunId::from_bits([number; 10]));
        assert_eq!(found, Some(pending(Mode::Guided)), "run {number}");
    }
}

/// Broke: what a run had was read in one step and replaced in another, so of two people one lost the change.
pub fn changes_of_two_people_at_once_are_both_kept(subject: &impl StoreUnderTest) {
    const ROUNDS: u8 = 10;
    let store = subject.open();
    let made = plans(1, &[]);
    let session = session_of(&made[0]);
    create(&store, &made[0]);

    let changes = [
        PreferenceChange::Autonomy(Autonomy::FullAutoNeverStop),
        PreferenceChange::RiskPolicy(RiskPolicy::Aggressive),
    ];
    let both = changes.iter().fold(Mode::Guided.preferences(), |all, change| all.with(*change));
    let stores: Vec<_> = changes.iter().map(|_| subject.open()).collect();
    for round in 0..ROUNDS {
        let run = RunId::from_bits([round; 10]);
        let begin = Barrier::new(changes.len());
        thread::scope(|scope| {
            for (change, store) in changes.iter().zip(&stores) {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    change_in_turn(store, session, run, |earlier| {
                        let earlier = earlier.unwrap_or(pending(Mode::Guided)).preferences;
                        PendingPreferences { preferences: earlier.with(*change), proof: None }
                    });
                });
            }
        });
        let found = stored(&store, session, run);
        assert_eq!(found.map(|found| found.preferences), Some(both), "round {round}");
    }
}

/// Locks the session as soon as no other thread has it, and replaces what the run has.
fn change_in_turn<S: SessionStore + PendingPreferencesStore>(
    store: &S,
    session: SessionId,
    run: RunId,
    change: impl Fn(Option<PendingPreferences>) -> PendingPreferences,
) {
    // Far more than any turn needs: a lock that is never released fails the test instead of hanging it.
    const WITHIN: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        match store.lock(session) {
            Ok(_held) => {
                let changed = change(stored(store, session, run));
                return set(store, session, &[(run, changed)]);
            }
            Err(StoreError::Locked { .. }) => thread::yield_now(),
            Err(error) => panic!("the store refused: {error}"),
        }
    }
    panic!("the lock was never free");
}
