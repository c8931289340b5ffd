//! Queries of the index: which sessions hold a term, which are newest, and which are not indexed (G127).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use workrail_model::event::Activity;
use workrail_model::id::SessionId;
use workrail_ports::cache::{
    Count, IfAbsent, IndexAnswer, IndexKeys, IndexQuery, IndexRecord, IndexedRun, SessionIndex,
};
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore};
use workrail_ports::upkeep::Upkeep;
use workrail_store_pg::PgStore;
use workrail_testkit::history::{PlanParts, Step, plans};

use support::{TestDatabase, open};

const VERSION: u32 = 4;

fn session_of(made: &[PlanParts]) -> SessionId {
    made[0].events[0].session_id
}

/// A session with one plan.
fn started(store: &PgStore, seed: u64) -> Vec<PlanParts> {
    let made = plans(seed, &[Step::Advance, Step::Advance]);
    store.create(session_of(&made)).unwrap().append(made[0].plan()).unwrap();
    made
}

fn record(store: &PgStore, session: SessionId, terms: &[u64], activity: u64) -> IndexRecord {
    let runs = vec![IndexedRun { stage: 2, activity: Activity::new(activity) }];
    IndexRecord {
        session,
        stamp: store.stamp(session).unwrap(),
        cursor: store.read(session, None).unwrap().cursor,
        summary: format!("{terms:?}").into_bytes(),
        keys: IndexKeys { terms: terms.to_vec(), runs },
    }
}

fn ask(store: &PgStore, terms: &[u64], newest: usize) -> IndexAnswer {
    let newest = if newest == 0 { Vec::new() } else { vec![(2, newest)] };
    let question = IndexQuery { sessions: Vec::new(), terms: terms.to_vec(), newest, count: Count::All };
    store.query_index(VERSION, &question).unwrap()
}

fn found(answer: &IndexAnswer) -> Vec<SessionId> {
    let mut sessions: Vec<SessionId> = answer.records.iter().map(|record| record.session).collect();
    sessions.sort();
    sessions
}

fn sorted(mut sessions: Vec<SessionId>) -> Vec<SessionId> {
    sessions.sort();
    sessions
}

#[test]
fn records_are_found_by_terms_and_by_order() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    assert_eq!(ask(&store, &[1], 9), IndexAnswer::default());
    let sessions: Vec<SessionId> = (1..=3).map(|seed| session_of(&started(&store, seed))).collect();
    assert_eq!(ask(&store, &[1], 9).unindexed, sorted(sessions.clone()));
    let terms: [&[u64]; 3] = [&[1, 7], &[2, 7], &[3, u64::MAX]];
    let records: Vec<IndexRecord> = (10..)
        .zip(&sessions)
        .zip(terms)
        .map(|((at, session), terms)| record(&store, *session, terms, at))
        .collect();
    store.add_to_index(VERSION, &records, IfAbsent::Skip);
    let answer = ask(&store, &[7], 0);
    assert_eq!((found(&answer), answer.sessions, answer.runs), (sorted(sessions[..2].to_vec()), 3, 3));
    assert_eq!(answer.unindexed, []);
    assert_eq!(found(&ask(&store, &[u64::MAX, 99], 0)), [sessions[2]]);
    assert_eq!(found(&ask(&store, &[], 2)), sorted(sessions[1..].to_vec()), "the newest of the stage");
    let by_id = IndexQuery { sessions: vec![sessions[0]], ..IndexQuery::default() };
    let answer = store.query_index(VERSION, &by_id).unwrap();
    assert_eq!((found(&answer), answer.runs), (vec![sessions[0]], 0), "nobody counted");

    // Summarised again with other terms: the old ones no longer find it.
    store.lock(sessions[0]).unwrap().append(plans(1, &[Step::Advance])[1].plan()).unwrap();
    store.add_to_index(VERSION, &[record(&store, sessions[0], &[5], 20)], IfAbsent::Skip);
    assert_eq!(found(&ask(&store, &[1], 0)), []);
    assert_eq!(found(&ask(&store, &[5], 1)), [sessions[0]], "it is the newest now");
}

#[test]
fn a_changed_log_is_unindexed_until_its_newest_state_is_summarised() {
    let Some(database) = TestDatabase::new() else { return };
    let (store, other) = (open(&database.address()), open(&database.address()));
    ask(&store, &[], 0);
    let made = started(&store, 1);
    let session = session_of(&made);
    let old = record(&store, session, &[1], 1);
    other.lock(session).unwrap().append(made[1].plan()).unwrap();
    // A summary of an outdated state is better than none, and the session stays marked.
    store.add_to_index(VERSION, std::slice::from_ref(&old), IfAbsent::Skip);
    assert_eq!(ask(&store, &[1], 0).unindexed, [session]);
    let new = record(&other, session, &[2], 2);
    other.add_to_index(VERSION, &[new], IfAbsent::Skip);
    assert_eq!(ask(&store, &[2], 0).unindexed, []);
    // A late summary of an old state overwrites nothing.
    store.add_to_index(VERSION, &[old], IfAbsent::Skip);
    assert_eq!(found(&ask(&store, &[2], 0)), [session]);
    assert_eq!(found(&ask(&store, &[1], 0)), []);

    let tampered = "UPDATE workrail.session SET chain = '\\x00'";
    database.cluster.sql(&database.name, tampered);
    assert_eq!(ask(&store, &[], 0).unindexed, [session], "by hand, too");
}

#[test]
fn a_newer_version_reindexes_everything_and_an_older_server_reads_all() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    ask(&store, &[], 0);
    let session = session_of(&started(&store, 1));
    store.add_to_index(VERSION, &[record(&store, session, &[1], 1)], IfAbsent::Skip);
    let question = IndexQuery { terms: vec![1], ..IndexQuery::default() };
    let newer = store.query_index(VERSION + 1, &question).unwrap();
    assert_eq!((found(&newer), newer.unindexed), (Vec::new(), vec![session]));
    assert_eq!(store.query_index(VERSION, &question), None);
    // What an older server adds is visible only to itself.
    store.add_to_index(VERSION, &[record(&store, session, &[1], 1)], IfAbsent::Skip);
    assert_eq!(store.index_records(VERSION, &|_| true).len(), 1);
    let newer = store.query_index(VERSION + 1, &question).unwrap();
    assert_eq!((found(&newer), newer.unindexed), (Vec::new(), vec![session]));
}

#[test]
fn for_common_terms_the_sessions_that_hold_most_of_them_are_found() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    ask(&store, &[], 0);
    let session = session_of(&started(&store, 1));
    store.add_to_index(VERSION, &[record(&store, session, &[1, 2], 1)], IfAbsent::Skip);
    let others = "INSERT INTO workrail.indexed_term \
                  SELECT 'here', 1 + n % 2, 'sess_' || lpad(n::text, 16, '0') FROM generate_series(1, 1000) n";
    database.cluster.sql(&database.name, others);
    assert_eq!(found(&ask(&store, &[1, 2], 0)), [session]);
}

#[test]
fn nothing_of_a_removed_session_stays_in_the_index() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    ask(&store, &[], 0);
    let made = started(&store, 1);
    let session = session_of(&made);
    store.add_to_index(VERSION, &[record(&store, session, &[1, 2], 1)], IfAbsent::Skip);
    store.lock(session).unwrap().append(made[1].plan()).unwrap();
    store.remove(session, None).unwrap();
    for table in ["unindexed", "indexed_run", "indexed_term", "session_summary"] {
        let left = database.cluster.sql(&database.name, &format!("SELECT count(*) FROM workrail.{table}"));
        assert_eq!(left, "0", "{table}");
    }
    assert_eq!(ask(&store, &[1], 9), IndexAnswer::default());
}

/// The marks and the terms are read before a newer server clears the index, the summaries after it.
#[test]
fn an_index_that_a_newer_server_raises_meanwhile_is_not_used() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    ask(&store, &[], 0);
    let session = session_of(&started(&store, 1));
    store.add_to_index(VERSION, &[record(&store, session, &[1], 1)], IfAbsent::Skip);
    let locks = "FROM pg_locks WHERE relation = 'workrail.session_summary'::regclass AND mode LIKE 'Access%'";
    let raise = format!(
        "BEGIN; LOCK TABLE workrail.session_summary; \
         DO $$ BEGIN FOR tries IN 1..1000 LOOP \
             EXIT WHEN EXISTS (SELECT {locks} AND NOT granted); PERFORM pg_sleep(0.01); \
         END LOOP; END $$; \
         UPDATE workrail.index_version SET version = {}; DELETE FROM workrail.indexed_term; COMMIT",
        VERSION + 1
    );
    let question = IndexQuery { terms: vec![1], ..IndexQuery::default() };
    assert!(store.query_index(VERSION, &question).is_some());
    std::thread::scope(|scope| {
        let raising = scope.spawn(|| database.cluster.sql(&database.name, &raise));
        let granted = format!("SELECT count(*) {locks} AND granted");
        while !raising.is_finished() && database.cluster.count(&database.name, &granted) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(store.query_index(VERSION, &question), None);
        raising.join().unwrap();
    });
}
