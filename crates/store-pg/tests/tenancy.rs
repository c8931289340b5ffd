//! Row-level security: under the wrong tenant, or none, every query finds nothing (G103).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use std::ops::ControlFlow;

use postgres::NoTls;
use workrail_model::digest::{BlobRef, SnapshotRef, WorkflowHash};
use workrail_model::id::{RunId, SessionId};
use workrail_model::manifest::Cursor;
use workrail_model::passkey::PendingPreferences;
use workrail_model::plan::AttachmentKind;
use workrail_model::preferences::Preferences;
use workrail_ports::archive::{SessionArchive, SessionImport};
use workrail_ports::cache::{
    CachedProjection, Count, IfAbsent, IndexAnswer, IndexKeys, IndexQuery, IndexRecord, IndexedRun,
    ProjectionCache, SessionIndex,
};
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::control::{PendingPreferencesReader, PendingPreferencesStore};
use workrail_ports::environment::ActivityCounter;
use workrail_ports::keyring::KeyringStore;
use workrail_ports::passkeys::{PasskeyLog, PasskeyReader, StoredPasskeys};
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StampDepth, StoreError};
use workrail_ports::upkeep::{Inspection, Sweep, Upkeep};
use workrail_store_pg::PgStore;
use workrail_testkit::history::{PlanParts, Step, plans};
use workrail_testkit::postgres::ROLE;

use support::{TestDatabase, open};

const RUN: [u8; 10] = [3; 10];

fn pending() -> PendingPreferences {
    PendingPreferences { preferences: Preferences::default(), proof: None }
}

/// Indexes a session, and then appends to its log, so that it must be indexed again.
fn index(store: &PgStore, session: SessionId, cursor: Cursor) {
    let question = question();
    store.query_index(1, &question).unwrap();
    let stamp = store.stamp(session).unwrap();
    let runs = vec![IndexedRun { stage: 2, activity: None }];
    let keys = IndexKeys { terms: vec![7, u64::MAX], runs };
    store.add_to_index(
        1,
        &[IndexRecord { session, stamp, cursor, summary: b"s".to_vec(), keys }],
        IfAbsent::Create,
    );
    let answer = store.query_index(1, &question).unwrap();
    assert_eq!((answer.records.len(), answer.unindexed.len(), answer.runs), (1, 0, 1));
    let mut locked = store.lock(session).unwrap();
    let parts = plans(1, &[Step::AdvanceWithArtifact, Step::Advance]).pop().unwrap();
    locked.append(parts.plan()).unwrap();
}

fn question() -> IndexQuery {
    IndexQuery { sessions: Vec::new(), terms: vec![7], newest: vec![(2, 9)], count: Count::All }
}

/// Writes rows into every table, except for keys moved aside, which need damaged ones.
fn fill(store: &PgStore, made: &[PlanParts]) -> SessionId {
    let session = made[0].events[0].session_id;
    let mut locked = store.create(session).unwrap();
    for parts in made {
        locked.append(parts.plan()).unwrap();
    }
    let cursor = locked.cursor();
    drop(locked);
    // Truncated and rewritten: what a repair moves aside belongs to its tenant, too.
    store.repair(session, Some(made[1].events[0].event_index)).unwrap();
    let mut locked = store.lock(session).unwrap();
    made[1..].iter().for_each(|parts| drop(locked.append(parts.plan()).unwrap()));
    drop(locked);
    store.replace_content(&made[0].attachments[0]).unwrap();
    store.keep(session).unwrap();
    store.load_or_create().unwrap();
    store.next().unwrap();
    store.append_passkey(&StoredPasskeys::default(), b"line\n").unwrap();
    store.replace_passkeys(&store.passkey_log().unwrap(), 0, b"another\n").unwrap();
    store.set_pending_preferences(session, &[(RunId::from_bits(RUN), pending())].into()).unwrap();
    store.put(session, &CachedProjection { version: 1, cursor, state: b"state".to_vec() }).unwrap();
    index(store, session, cursor);
    session
}

#[test]
fn another_tenant_finds_nothing_by_any_query() {
    let Some(database) = TestDatabase::new() else { return };
    let made = plans(1, &[Step::AdvanceWithArtifact]);
    let own = open(&database.address());
    let session = fill(&own, &made);
    let before = own.read(session, None).unwrap();
    let keys = own.load_or_create().unwrap();

    let other = open(&database.of_tenant("elsewhere").address());
    assert_eq!(other.sessions(), Ok(Vec::new()));
    assert_eq!(other.stamped_sessions(StampDepth::Segments), Ok(Vec::new()));
    assert_eq!(other.stamp(session), None);
    assert_eq!(other.read(session, None), Err(StoreError::NotFound { session }));
    assert_eq!(other.lock(session).err(), Some(StoreError::NotFound { session }));
    assert_eq!(
        other.segments(session, None, &mut |_| ControlFlow::Continue(())).err(),
        Some(StoreError::NotFound { session })
    );
    assert_eq!(other.is_taken(session), Ok(false));
    assert_eq!(other.segment_count(session), Ok(0));
    for attachment in made.iter().flat_map(|parts| &parts.attachments) {
        let digest = attachment.digest();
        let found = match attachment.kind() {
            AttachmentKind::Snapshot => other.snapshot(SnapshotRef::new(digest)).err(),
            AttachmentKind::Blob => other.blob(BlobRef::new(digest)).err(),
            AttachmentKind::Workflow => other.workflow(WorkflowHash::new(digest)).err(),
        };
        assert!(matches!(found, Some(ContentError::Missing { .. })), "{found:?}");
        assert_eq!(other.contents(attachment.kind()), Ok(Vec::new()));
    }
    assert_eq!(other.get(session, 1), None);
    assert_eq!(other.index_records(1, &|_| true), Vec::new());
    assert_eq!(other.query_index(1, &question()), Some(IndexAnswer::default()));
    let of_id = IndexQuery { sessions: vec![session], ..question() };
    assert_eq!(other.query_index(1, &of_id), Some(IndexAnswer::default()));
    assert_eq!(other.stamps(&[session]), [None]);
    assert_eq!(other.pending_preferences(session, RunId::from_bits(RUN)), Ok(None));
    assert!(!other.has_unreadable_pending_preferences(session, &|_| false));
    assert_eq!(other.passkey_log(), Ok(StoredPasskeys::default()));
    assert_eq!(other.peek(), Ok(None));
    assert_eq!(other.newest_activity().map(|activity| activity.get()), Ok(0));
    assert!(!other.is_kept(session));
    assert!(
        other.weigh(session).is_err() && other.keep(session).is_err() && other.remove(session, None).is_err()
    );
    assert!(other.diagnose(session, None).is_err() && other.repair(session, None).is_err());
    assert_eq!(other.sweep(Sweep::Real).unwrap(), Default::default());
    assert_eq!(other.rows_with(None, &|_| true), Ok(Vec::new()));

    // Repeats every change that touches rows by the same ids: the first tenant keeps everything.
    fill(&other, &made);
    other.rotate().unwrap();
    other.clear_pending_preferences(session, RunId::from_bits(RUN), &pending()).unwrap();
    other.invalidate(session).unwrap();
    other.unkeep(session).unwrap();
    other.remove(session, None).unwrap();
    other.sweep(Sweep::Real).unwrap();
    assert!(own.is_kept(session));
    assert_eq!(own.read(session, None).unwrap(), before);
    assert_eq!(own.load_or_create().unwrap(), keys);
    assert!(own.get(session, 1).is_some());
    let answer = own.query_index(1, &question()).unwrap();
    assert_eq!((answer.records.len(), answer.unindexed.as_slice(), answer.runs), (1, &[session][..], 1));
    assert_eq!(own.pending_preferences(session, RunId::from_bits(RUN)), Ok(Some(pending())));
}

#[test]
fn a_transaction_without_a_tenant_sees_no_row_and_adds_none() {
    let Some(database) = TestDatabase::new() else { return };
    fill(&open(&database.address()), &plans(1, &[Step::AdvanceWithArtifact]));
    let token = "INSERT INTO workrail.access_token VALUES ('here', 'tok', 'ada', 'agent', 'x', 'x', 'x')";
    database.cluster.sql(&database.name, token);
    let sql = "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity FROM pg_class c \
               JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'workrail' AND c.relkind = 'r'";
    let mut client = postgres::Config::new()
        .host_path(database.cluster.socket_folder())
        .user(ROLE)
        .dbname(&database.name)
        .connect(NoTls)
        .unwrap();
    let tables = client.query(sql, &[]).unwrap();
    assert!(tables.len() >= 16, "{}", tables.len());
    for table in tables {
        let (name, is_forced): (String, bool) = (table.get(0), table.get(1));
        // Holds only the schema's version.
        if name == "schema_version" {
            continue;
        }
        assert!(is_forced, "{name}");
        let count = client.query_one(&format!("SELECT count(*) FROM workrail.{name}"), &[]).unwrap();
        assert_eq!(count.get::<_, i64>(0), 0, "{name}");
        let all = database.cluster.sql(&database.name, &format!("SELECT count(*) FROM workrail.{name}"));
        assert!(all != "0" || name == "keyring_aside", "{name} holds rows that were not seen");
    }
    let stolen = client.execute("INSERT INTO workrail.activity (tenant, number) VALUES ('here', 1)", &[]);
    assert!(stolen.is_err());
}
