//! Row-level security: under the wrong tenant, or none, every query finds nothing (G103).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use postgres::NoTls;
use workrail_model::digest::{BlobRef, SnapshotRef, WorkflowHash};
use workrail_model::event::Activity;
use workrail_model::id::{AccessTokenId, RunId, SessionId};
use workrail_model::keyring::Keyring;
use workrail_model::manifest::Cursor;
use workrail_model::name::PrincipalName;
use workrail_model::passkey::PendingPreferences;
use workrail_model::plan::{AttachmentKind, RawSegment};
use workrail_model::preferences::Preferences;
use workrail_model::team::{AccessSecret, AccessToken, Role};
use workrail_model::time::Timestamp;
use workrail_ports::access::AccessTokens;
use workrail_ports::archive::{SessionArchive, SessionImport, StagedSession};
use workrail_ports::backup::KeysCopy;
use workrail_ports::cache::{
    CachedProjection, Count, IfAbsent, IndexAnswer, IndexKeys, IndexQuery, IndexRecord, IndexedRun,
    ProjectionCache, SessionIndex,
};
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::environment::ActivityCounter;
use workrail_ports::keyring::{KeyringError, KeyringImport, KeyringStore};
use workrail_ports::passkeys::{PasskeyLog, PasskeyReader, StoredPasskeys};
use workrail_ports::pending_preferences::{PendingPreferencesReader, PendingPreferencesStore};
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StampDepth, StoreError};
use workrail_ports::upkeep::{Inspection, Sweep, Upkeep};
use workrail_store_pg::PgStore;
use workrail_testkit::fixed::epoch;
use workrail_testkit::history::{PlanParts, Step, plans};
use workrail_testkit::postgres::ROLE;

use support::{TestDatabase, open};

const RUN: [u8; 10] = [3; 10];
/// Far above what the tests draw.
const IMPORTED_ACTIVITY: u64 = 1_000_000;

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

fn token() -> AccessToken {
    AccessToken {
        id: AccessTokenId::from_bits([5; 10]),
        name: PrincipalName::parse("ada").unwrap(),
        role: Role::Admin,
        digest: AccessSecret::new([6; 32]).digest(),
        created_at: epoch(),
        expires_at: Timestamp::parse("2027-01-01T00:00:00.000Z").unwrap(),
        revoked_at: None,
    }
}

/// Writes rows into every table.
fn fill(database: &TestDatabase, store: &PgStore, made: &[PlanParts]) -> SessionId {
    let session = made[0].events[0].session_id;
    let mut locked = store.create(session).unwrap();
    assert_eq!(locked.session_id(), session);
    for parts in made {
        locked.append(parts.plan()).unwrap();
    }
    let cursor = locked.cursor();
    assert_eq!(locked.events_since(None).unwrap().cursor, cursor);
    drop(locked);
    // Truncated and rewritten: what a repair moves aside belongs to its tenant, too.
    store.repair(session, Some(made[1].events[0].event_index)).unwrap();
    let mut locked = store.lock(session).unwrap();
    made[1..].iter().for_each(|parts| drop(locked.append(parts.plan()).unwrap()));
    drop(locked);
    store.replace_content(&made[0].attachments[0]).unwrap();
    store.keep(session).unwrap();
    store.load_or_create().unwrap();
    // Keys that cannot be used are moved aside.
    let damage =
        format!("UPDATE workrail.keyring SET check_digest = 'x' WHERE tenant = '{}'", database.tenant);
    database.cluster.sql(&database.name, &damage);
    assert!(store.replace().unwrap().moved_to.is_some());
    store.next().unwrap();
    store.raise_activity(Activity::new(IMPORTED_ACTIVITY).unwrap()).unwrap();
    store.append_passkey(&StoredPasskeys::default(), b"line\n").unwrap();
    store.replace_passkeys(&store.passkey_log().unwrap(), 0, b"another\n").unwrap();
    store.add_access_token(&token()).unwrap();
    store.set_pending_preferences(session, &[(RunId::from_bits(RUN), pending())].into()).unwrap();
    store.put(session, &CachedProjection { version: 1, cursor, state: b"state".to_vec() }).unwrap();
    index(store, session, cursor);
    session
}

#[test]
fn another_tenant_finds_nothing_by_any_query() {
    let Some(database) = TestDatabase::new() else { return };
    let made = plans(1, &[Step::AdvanceWithArtifact]);
    let session = fill(&database, &open(&database.address()), &made);

    let other = open(&database.of_tenant("elsewhere").address());
    // Tenants draw from one sequence, and an import of one raises no number of another.
    assert!(other.newest_activity().is_ok_and(|activity| activity.get() < IMPORTED_ACTIVITY));
    sessions_are_not_found(&other, session);
    content_is_not_found(&other, &made);
    assert_eq!(other.rows_with(None, &|_| true), Ok(Vec::new()));
    assert_eq!(other.get(session, 1), None);
    assert_eq!(other.index_records(1, &|_| true), Vec::new());
    assert_eq!(other.query_index(1, &question()), Some(IndexAnswer::default()));
    let of_id = IndexQuery { sessions: vec![session], ..question() };
    assert_eq!(other.query_index(1, &of_id), Some(IndexAnswer::default()));
    assert_eq!(other.pending_preferences(session, RunId::from_bits(RUN)), Ok(None));
    assert!(!other.has_unreadable_pending_preferences(session, &|_| false));
    assert_eq!(other.passkey_log(), Ok(StoredPasskeys::default()));
    assert_eq!((other.peek(), other.has_wrapped_keys()), (Ok(None), Ok(None)));
    assert_eq!(other.access_tokens(), Ok(Vec::new()));
    assert_eq!(other.access_token(token().id), Ok(None));
}

fn sessions_are_not_found(other: &PgStore, session: SessionId) {
    assert_eq!(other.sessions(), Ok(Vec::new()));
    assert_eq!(other.stamped_sessions(StampDepth::Segments), Ok(Vec::new()));
    assert_eq!((other.stamp(session), other.stamps(&[session])), (None, vec![None]));
    assert_eq!(other.read(session, None), Err(StoreError::NotFound { session }));
    assert_eq!(other.lock(session).err(), Some(StoreError::NotFound { session }));
    assert_eq!(
        other.segments(session, None, &mut |_| ControlFlow::Continue(())).err(),
        Some(StoreError::NotFound { session })
    );
    assert_eq!(other.is_taken(session), Ok(false));
    assert_eq!(other.segment_count(session), Ok(0));
    assert!(!other.is_kept(session));
    assert_eq!(other.kept([session].into()), BTreeSet::new());
    assert!(other.weigh(session).is_err() && other.diagnose(session, None).is_err());
    assert_eq!(other.foreign_folders(), Ok(Vec::new()));
    assert_eq!((other.obstacles(), other.strays(9)), (Vec::new(), Ok((Vec::new(), 0))));
    assert_eq!((other.pending_writes(), other.pending_write(session)), (Ok(Vec::new()), Ok(None)));
    assert!(!other.has_lost_sessions());
}

fn content_is_not_found(other: &PgStore, made: &[PlanParts]) {
    for attachment in made.iter().flat_map(|parts| &parts.attachments) {
        let (kind, digest) = (attachment.kind(), attachment.digest());
        let found = match kind {
            AttachmentKind::Snapshot => other.snapshot(SnapshotRef::new(digest)).err(),
            AttachmentKind::Blob => other.blob(BlobRef::new(digest)).err(),
            AttachmentKind::Workflow => other.workflow(WorkflowHash::new(digest)).err(),
        };
        assert!(matches!(found, Some(ContentError::Missing { .. })), "{found:?}");
        assert!(matches!(other.content(kind, digest), Err(ContentError::Missing { .. })));
        assert_eq!(other.contents(kind), Ok(Vec::new()));
    }
}

/// The rows of a tenant in every table, as the superuser sees them.
fn rows_of(database: &TestDatabase) -> BTreeMap<String, String> {
    let tables = database.cluster.sql(
        &database.name,
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'workrail' AND column_name = 'tenant'",
    );
    let rows = |table: &str| {
        let tenant = database.tenant;
        let sql = format!("SELECT t::text FROM workrail.{table} t WHERE tenant = '{tenant}' ORDER BY 1");
        database.cluster.sql(&database.name, &sql)
    };
    tables.lines().map(|table| (table.to_owned(), rows(table))).collect()
}

/// Asserts that the tenant's rows are what they were. Tables whose rows differ are named, without the rows.
fn assert_unchanged(database: &TestDatabase, before: &BTreeMap<String, String>, by: &str) {
    let after = rows_of(database);
    let differ: Vec<&String> = after.keys().filter(|table| after.get(*table) != before.get(*table)).collect();
    assert_eq!(differ, <[&String; 0]>::default(), "changed by {by}");
    assert_eq!(after.len(), before.len());
}

#[test]
fn another_tenant_changes_nothing_by_any_method() {
    let Some(database) = TestDatabase::new() else { return };
    let made = plans(1, &[Step::AdvanceWithArtifact]);
    let own = open(&database.address());
    let session = fill(&database, &own, &made);
    let keys = own.load_or_create().unwrap();
    let mut segments = Vec::new();
    let mut collect = |segment| {
        segments.push(segment);
        ControlFlow::Continue(())
    };
    own.segments(session, None, &mut collect).unwrap();
    let before = rows_of(&database);
    assert!(
        before.len() >= 15 && before.values().all(|rows| !rows.is_empty()),
        "every table has rows: {before:?}"
    );

    let elsewhere = database.of_tenant("elsewhere");
    let other = open(&elsewhere.address());
    without_rows(&other, session, &keys);
    assert_unchanged(&database, &before, "a tenant without rows");
    // The same ids and the same content as the first tenant.
    import(&other, session, &made, &segments);
    assert_unchanged(&database, &before, "an import");
    other.remove_all(&[(session, None)]).pop().unwrap().unwrap();
    fill(&elsewhere, &other, &made);
    assert_unchanged(&database, &before, "the same writes");
    with_rows(&other, session);
    assert_unchanged(&database, &before, "changes to the same ids");
    assert_eq!(own.access_token(token().id), Ok(Some(token())), "not revoked");
    assert_eq!(own.load_or_create(), Ok(keys));
}

/// Every change of a tenant that has no rows yet.
fn without_rows(other: &PgStore, session: SessionId, keys: &Keyring) {
    assert!(other.keep(session).is_err() && other.unkeep(session).is_err());
    assert!(other.remove(session, None).is_err() && other.repair(session, None).is_err());
    other.may_sweep().unwrap();
    assert_eq!(other.sweep(Sweep::DryRun { without: &[].into() }).unwrap(), Default::default());
    assert_eq!(other.sweep(Sweep::Real).unwrap(), Default::default());
    assert_eq!(other.revoke_access_token(token().id, &epoch()), Ok(false));
    other.clear_pending_preferences(session, RunId::from_bits(RUN), &pending()).unwrap();
    other.invalidate(session).unwrap();
    other.raise_activity(Activity::new(99).unwrap()).unwrap();
    assert_eq!(other.adopt(keys), Ok(KeysCopy::Copied));
    assert!(matches!(other.replace(), Err(KeyringError::Usable { .. })));
    assert!(matches!(other.replace_encrypted(), Err(KeyringError::Usable { .. })));
}

fn import(other: &PgStore, session: SessionId, made: &[PlanParts], segments: &[RawSegment]) {
    let mut staged = other.stage(session).unwrap();
    for attachment in made.iter().flat_map(|parts| &parts.attachments) {
        staged.content(attachment).unwrap();
    }
    segments.iter().for_each(|segment| staged.segment(segment).unwrap());
    staged.publish().unwrap();
}

/// Every change of a tenant that has rows under the same ids.
fn with_rows(other: &PgStore, session: SessionId) {
    other.rotate().unwrap();
    assert_eq!(other.revoke_access_token(token().id, &epoch()), Ok(true));
    other.clear_pending_preferences(session, RunId::from_bits(RUN), &pending()).unwrap();
    other.invalidate(session).unwrap();
    other.unkeep(session).unwrap();
    other.remove(session, None).unwrap();
    other.sweep(Sweep::Real).unwrap();
}

/// Reads and writes no rows of a tenant.
const WITHOUT_QUERIES: &str = "fmt drop open with_wrapping_key server pools change_stamp location";

/// The methods of the store and of what it hands out, as the source has them.
fn methods_of_the_store() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path());
    let mut found = BTreeSet::new();
    for file in files.filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let mut start = None;
        for line in fs::read_to_string(file).unwrap().lines() {
            match line {
                "}" => start = None,
                "impl PgStore {" => start = Some("    pub fn "),
                header if header.starts_with("impl ") => {
                    let of_store = ["PgStore", "LockedPgSession<'_>", "StagedPgImport<'_>"];
                    let is_port = of_store.iter().any(|name| header.ends_with(&format!(" for {name} {{")));
                    start = is_port.then_some("    fn ");
                }
                _ => {}
            }
            if let Some(rest) = start.and_then(|start| line.strip_prefix(start)) {
                found.insert(rest.split(['(', '<']).next().unwrap().to_owned());
            }
        }
    }
    found
}

/// Whoever adds a method to the store calls it above under another tenant.
#[test]
fn every_method_of_the_store_is_tried_under_another_tenant() {
    let tried = include_str!("tenancy.rs");
    let exempt: Vec<&str> = WITHOUT_QUERIES.split_whitespace().collect();
    let methods = methods_of_the_store();
    assert!(methods.len() > 60 && exempt.iter().all(|name| methods.contains(*name)), "{methods:?}");
    let is_tried = |name: &str| {
        let receivers = ["other", "store", "locked", "staged"];
        receivers.iter().any(|receiver| tried.contains(&format!("{receiver}.{name}(")))
    };
    let missing: Vec<&String> =
        methods.iter().filter(|name| !exempt.contains(&name.as_str()) && !is_tried(name)).collect();
    assert_eq!(missing, <[&String; 0]>::default());
}

#[test]
fn a_transaction_without_a_tenant_sees_no_row_and_adds_none() {
    let Some(database) = TestDatabase::new() else { return };
    fill(&database, &open(&database.address()), &plans(1, &[Step::AdvanceWithArtifact]));
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
        assert_ne!(all, "0", "{name} holds rows that were not seen");
    }
    let stolen = client.execute("INSERT INTO workrail.activity (tenant, base) VALUES ('here', 1)", &[]);
    assert!(stolen.is_err());
}
