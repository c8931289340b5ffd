//! Keeping, removing, sweeping and repairing in a database (G24, G25).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::collections::BTreeSet;

use workrail_model::event::{Activity, EventIndex};
use workrail_model::health::SessionHealth;
use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::PendingPreferences;
use workrail_model::plan::AttachmentKind;
use workrail_model::preferences::Mode;
use workrail_ports::archive::SessionArchive;
use workrail_ports::cache::{
    CachedProjection, IfAbsent, IndexKeys, IndexQuery, IndexRecord, IndexedRun, ProjectionCache, SessionIndex,
};
use workrail_ports::pending_preferences::{PendingPreferencesReader, PendingPreferencesStore};
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StoreError};
use workrail_ports::upkeep::{Inspection, Sweep, Upkeep, UpkeepError};
use workrail_store_pg::PgStore;
use workrail_testkit::history::{PlanParts, Step, plans};

use support::{TestDatabase, open};

fn session_of(made: &[PlanParts]) -> SessionId {
    made[0].events[0].session_id
}

fn written(store: &PgStore, seed: u64, steps: &[Step]) -> Vec<PlanParts> {
    let made = plans(seed, steps);
    let mut locked = store.create(session_of(&made)).unwrap();
    made.iter().for_each(|parts| drop(locked.append(parts.plan()).unwrap()));
    made
}

fn content_count(store: &PgStore) -> usize {
    AttachmentKind::ALL.map(|kind| store.contents(kind).unwrap().len()).iter().sum()
}

/// The tables about sessions: those with rows, and the empty ones. Content belongs to no session.
fn session_tables(database: &TestDatabase) -> (BTreeSet<String>, BTreeSet<String>) {
    let named = "SELECT table_name FROM information_schema.columns \
                 WHERE table_schema = 'workrail' AND column_name = 'session'";
    let tables = database.cluster.sql(&database.name, named);
    let has_rows = |table: &String| {
        database.cluster.count(&database.name, &format!("SELECT count(*) FROM workrail.{table}")) > 0
    };
    tables.lines().chain(["session"]).map(str::to_owned).partition(has_rows)
}

#[test]
fn a_kept_session_is_not_removed_and_a_removed_one_leaves_no_row() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let made = written(&store, 1, &[Step::Advance]);
    let session = session_of(&made);
    let cursor = store.read(session, None).unwrap().cursor;
    store.put(session, &CachedProjection { version: 1, cursor, state: b"state".to_vec() }).unwrap();
    let runs = vec![IndexedRun { stage: 2, activity: Activity::new(1) }];
    let keys = IndexKeys { terms: vec![7], runs };
    let (stamp, summary) = (store.stamp(session).unwrap(), b"summary".to_vec());
    store.query_index(1, &IndexQuery::default()).unwrap();
    store.add_to_index(1, &[IndexRecord { session, stamp, cursor, summary, keys }], IfAbsent::Skip);
    let pending = PendingPreferences { preferences: Mode::Guided.preferences(), proof: None };
    store.set_pending_preferences(session, &[(RunId::from_bits([1; 10]), pending)].into()).unwrap();
    // It is indexed, and was never repaired.
    let empty = ["segment_aside", "session_aside", "unindexed"].map(str::to_owned);
    assert_eq!(session_tables(&database).1, BTreeSet::from(empty));

    store.keep(session).unwrap();
    assert!(open(&database.address()).is_kept(session));
    assert_eq!(store.kept(BTreeSet::from([session])), BTreeSet::from([session]));
    assert_eq!(store.remove(session, None), Err(UpkeepError::Kept { session }));
    store.lock(session).unwrap();
    store.unkeep(session).unwrap();
    let weighed = store.weigh(session).unwrap();
    assert_eq!(store.remove(session, Some(&cursor)), Ok(weighed));
    assert_eq!(store.read(session, None), Err(StoreError::NotFound { session }));
    assert_eq!(session_tables(&database).0, BTreeSet::new());
    assert_eq!(store.keep(session), Err(StoreError::NotFound { session }.into()));
    written(&store, 1, &[Step::Advance, Step::Advance]);
}

/// Only what was selected is removed, not what was written since.
#[test]
fn a_session_written_to_since_it_was_selected_is_not_removed() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let made = plans(1, &[Step::Advance]);
    let session = session_of(&made);
    store.create(session).unwrap().append(made[0].plan()).unwrap();
    let judged = store.read(session, None).unwrap().cursor;
    open(&database.address()).lock(session).unwrap().append(made[1].plan()).unwrap();
    assert_eq!(store.remove(session, Some(&judged)), Err(UpkeepError::Changed { session }));
    assert!(store.read(session, None).is_ok());
}

#[test]
fn a_sweep_removes_the_content_of_removed_sessions_and_nothing_else() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let stays = written(&store, 1, &[Step::AdvanceWithArtifact]);
    let before = content_count(&store);
    let goes = session_of(&written(&store, 2, &[Step::AdvanceWithArtifact]));
    let both = content_count(&store);
    assert!(both > before);

    let dry = store.sweep(Sweep::DryRun { without: &BTreeSet::from([goes]) }).unwrap();
    let total = dry.snapshots.files + dry.blobs.files + dry.workflows.files;
    assert_eq!(total, (both - before) as u64);
    assert_eq!(content_count(&store), both);
    let nothing = store.sweep(Sweep::Real).unwrap();
    assert_eq!(nothing.snapshots.files + nothing.blobs.files, 0, "everything is referred to");

    store.remove(goes, None).unwrap();
    let swept = store.sweep(Sweep::Real).unwrap();
    assert_eq!((swept.snapshots, swept.blobs, swept.workflows), (dry.snapshots, dry.blobs, dry.workflows));
    for piece in stays.iter().flat_map(|parts| &parts.attachments) {
        assert!(SessionArchive::content(&store, piece.kind(), piece.digest()).is_ok());
    }
}

/// A writer that holds a session keeps sweeps out, and a sweep sees what another server wrote since it began.
#[test]
fn a_sweep_waits_for_writers_and_spares_what_they_wrote() {
    let Some(database) = TestDatabase::new() else { return };
    let (store, other) = (open(&database.address()), open(&database.address()));
    let made = plans(1, &[Step::AdvanceWithArtifact]);
    let session = session_of(&made);
    other.create(session).unwrap().append(made[0].plan()).unwrap();
    let mut held = other.lock(session).unwrap();
    assert_eq!(store.may_sweep(), Err(UpkeepError::Busy));
    held.append(made[1].plan()).unwrap();
    drop(held);
    store.sweep(Sweep::Real).unwrap();
    for piece in made.iter().flat_map(|parts| &parts.attachments) {
        assert!(SessionArchive::content(&store, piece.kind(), piece.digest()).is_ok());
    }
}

#[test]
fn a_damaged_session_keeps_all_content() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let made = written(&store, 1, &[Step::AdvanceWithArtifact]);
    let alter = "UPDATE workrail.segment SET events = overlay(events PLACING '\\x58'::bytea FROM 9) WHERE first_event > 0";
    database.cluster.sql(&database.name, alter);
    let refused = store.sweep(Sweep::Real);
    let Err(UpkeepError::InDoubt(doubts)) = refused else { panic!("{refused:?}") };
    assert_eq!(doubts[0].what, session_of(&made).to_string());
    assert_eq!(content_count(&store), made.iter().map(|parts| parts.attachments.len()).sum::<usize>());
}

/// Numbers, records and digests follow from the events, so damage to them alone loses nothing.
#[test]
fn a_repair_rebuilds_everything_derived_from_the_events() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let made = written(&store, 1, &[Step::Advance, Step::Advance]);
    let session = session_of(&made);
    let sound = store.read(session, None).unwrap();
    store.keep(session).unwrap();
    for damage in [
        "UPDATE workrail.segment SET manifest = 'garbage'::bytea WHERE first_event > 0",
        "UPDATE workrail.segment SET chain = 'x'::bytea",
        "UPDATE workrail.session SET next_event = 99",
        "UPDATE workrail.segment SET manifest_bytes = 7",
    ] {
        database.cluster.sql(&database.name, damage);
        let fresh = open(&database.address());
        assert!(!fresh.read(session, None).unwrap().health.is_healthy(), "{damage}");
        let planned = fresh.diagnose(session, None).unwrap();
        assert!(planned.lost.is_empty(), "{damage}: {planned:?}");
        assert_eq!(fresh.repair(session, None).unwrap(), planned, "{damage}");
        assert_eq!(store.read(session, None).unwrap(), sound, "{damage}");
        assert!(store.is_kept(session));
    }
    let refused = store.repair(session, None);
    assert_eq!(refused, Err(UpkeepError::NotRepairable { session, health: SessionHealth::Healthy }));
    let asides = database.cluster.sql(&database.name, "SELECT count(*) FROM workrail.session_aside");
    assert_eq!(asides, "4", "each repair puts the session aside first");
}

#[test]
fn a_repair_cuts_altered_events_off_and_moves_them_aside() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let made = written(&store, 1, &[Step::Advance, Step::Advance]);
    let session = session_of(&made);
    let from = made[2].events[0].event_index;
    let first = i64::try_from(from.get()).unwrap();
    let alter = format!(
        "UPDATE workrail.segment SET events = convert_to(replace(convert_from(events, 'UTF8'), 'evt_', 'EVT_'), 'UTF8') \
         WHERE first_event = {first}"
    );
    database.cluster.sql(&database.name, &alter);
    let repaired = store.repair(session, None).unwrap();
    assert_eq!(repaired.keeps_until, from);
    assert_eq!(repaired.lost.len(), 1);
    assert_eq!(repaired.backup, format!("workrail.segment_aside, number 1 of sessions/{session}"));
    let slice = store.read(session, None).unwrap();
    assert!(slice.health.is_healthy());
    assert_eq!(slice.cursor.next_event_index, from);
    let aside =
        "SELECT count(*) FROM workrail.segment_aside WHERE convert_from(events, 'UTF8') LIKE '%EVT\\_%'";
    assert_eq!(database.cluster.sql(&database.name, aside), "1");
    // The same plan is recorded again, because its keys were removed with it.
    store.lock(session).unwrap().append(made[2].plan()).unwrap();
    assert_eq!(open(&database.address()).read(session, None).unwrap().cursor.next_event_index, end(&made));
}

/// Acknowledged events whose row is gone are named, also when a later row still exists.
#[test]
fn a_repair_names_events_whose_rows_are_gone() {
    let Some(database) = TestDatabase::new() else { return };
    for (deleted, survivors) in [(3, 0), (2, 1)] {
        let store = open(&database.address());
        let seed = deleted as u64;
        let made = written(&store, seed, &[Step::Advance; 3]);
        let session = session_of(&made);
        let (first, next) = (made[deleted].events[0].event_index.get(), end(&made[..=deleted]).get());
        let sql =
            format!("DELETE FROM workrail.segment WHERE session = '{session}' AND first_event = {first}");
        database.cluster.sql(&database.name, &sql);
        let planned = open(&database.address()).diagnose(session, None).unwrap();
        assert_eq!(planned.keeps_until.get(), first);
        let (gone, stored): (Vec<_>, Vec<_>) = planned.lost.iter().partition(|segment| !segment.exists);
        assert_eq!(gone.len(), 1, "{planned:?}");
        assert_eq!(gone[0].indexes, Some((first, next - 1)));
        assert_eq!(stored.len(), survivors, "{planned:?}");
    }
}

fn end(made: &[PlanParts]) -> EventIndex {
    EventIndex::new(made.iter().map(|parts| parts.events.len() as u64).sum()).unwrap()
}

/// Broke: the rows were searched table by table with a cursor that the open transaction of the session kept.
#[test]
fn a_thread_that_holds_a_session_can_search_all_rows() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let session = session_of(&written(&store, 1, &[Step::Advance]));
    let expected = store.rows_with(None, &|_| true).unwrap();
    assert!(expected.iter().any(|row| row.location.starts_with("workrail.content ")), "{expected:?}");
    let held = store.lock(session).unwrap();
    assert_eq!(store.rows_with(None, &|_| true), Ok(expected));
    drop(held);
}

/// Broke: the bytes were compared, so a request that was stored with other bytes stayed and was applied again.
#[test]
fn an_applied_request_is_cleared_however_it_was_written() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    let session = session_of(&written(&store, 1, &[]));
    let run = RunId::from_bits([1; 10]);
    let preferences = Mode::Guided.preferences();
    let asked = PendingPreferences { preferences, proof: None };
    store.set_pending_preferences(session, &[(run, asked.clone())].into()).unwrap();
    let rewrite =
        "UPDATE workrail.wish SET preferences = convert_to(' ' || convert_from(preferences, 'UTF8'), 'UTF8')";
    database.cluster.sql(&database.name, rewrite);
    assert_eq!(store.pending_preferences(session, run), Ok(Some(asked.clone())));
    store.clear_pending_preferences(session, run, &asked).unwrap();
    assert_eq!(store.pending_preferences(session, run), Ok(None));
}
