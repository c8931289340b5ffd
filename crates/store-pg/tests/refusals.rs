//! What prevents a store from opening, and that no refusal repeats a password.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_pg::{DatabaseAddress, OpenError, Password, PgStore};
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::history::{Step, plans};
use workrail_testkit::postgres::{Cluster, ROLE, SUPERUSER};
use workrail_testkit::proxy::{Bytes, Proxy};

use support::{TestDatabase, open};

fn refusal(address: &str, password: Option<&Password>) -> OpenError {
    let address = DatabaseAddress::parse(address).unwrap();
    PgStore::open(&address, password, Box::new(SeededEntropy::new(1))).expect_err("the store is refused")
}

#[test]
fn roles_that_bypass_row_level_security_are_refused() {
    let Some(database) = TestDatabase::new() else { return };
    let address = |role: &str| database.cluster.address(&database.name, role, "here");
    let unrestricted = |role: &str| OpenError::Unrestricted { role: role.to_owned() };
    assert_eq!(refusal(&address(SUPERUSER), None), unrestricted(SUPERUSER));
    database.cluster.sql("postgres", "CREATE ROLE bypassing LOGIN BYPASSRLS");
    assert_eq!(refusal(&address("bypassing"), None), unrestricted("bypassing"));
}

#[test]
fn a_server_that_can_lose_acknowledged_work_is_refused() {
    for setting in ["fsync", "full_page_writes"] {
        let Some(cluster) = Cluster::start(&[&format!("{setting}=off")]) else { return };
        let database = cluster.database();
        assert_eq!(
            refusal(&cluster.address(&database, ROLE, "here"), None),
            OpenError::NotDurable { setting }
        );
    }
}

#[test]
fn a_server_before_version_15_is_refused() {
    let Some(database) = TestDatabase::new() else { return };
    let opened = |number, text| {
        let bytes = Bytes::OfVersion(number, text);
        let proxy = Proxy::start_with(database.cluster.socket_folder(), bytes);
        let (folder, name) = (proxy.folder().display(), &database.name);
        let address =
            DatabaseAddress::parse(&format!("postgres://{ROLE}@/{name}?host={folder}&tenant=here")).unwrap();
        PgStore::open(&address, None, Box::new(SeededEntropy::new(1)))
            .map(|store| store.server().version.clone())
    };
    let refused = OpenError::OldServer { version: "14.99".to_owned() };
    assert!(refused.to_string().contains("PostgreSQL 14.99; version 15 or newer"), "{refused}");
    assert_eq!(opened("149999", "14.99"), Err(refused));
    let tables = "SELECT count(*) FROM pg_namespace WHERE nspname = 'workrail'";
    assert_eq!(database.cluster.sql(&database.name, tables), "0", "nothing was created");
    assert_eq!(opened("150000", "15.0"), Ok("15.0".to_owned()));
}

/// As after a failover that the address does not follow.
#[test]
fn a_standby_is_refused_until_it_is_promoted() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let address = cluster.address(&cluster.database(), ROLE, "here");
    let parsed = DatabaseAddress::parse(&address).unwrap();
    let made = plans(1, &[Step::Advance]);
    let session = made[0].events[0].session_id;
    let store = open(&parsed);
    store.create(session).unwrap().append(made[0].plan()).unwrap();

    cluster.restart_as_standby();
    assert_eq!(refusal(&address, None), OpenError::Standby);
    // A store that was opened before reads, and records nothing.
    let refused = store.lock(session).and_then(|mut locked| locked.append(made[1].plan()));
    assert!(matches!(refused, Err(StoreError::Io(_))), "{refused:?}");
    assert_eq!(store.read(session, None).unwrap().events, made[0].events);

    cluster.promote();
    for store in [store, open(&parsed)] {
        let appended = store.lock(session).unwrap().append(made[1].plan()).unwrap();
        assert!(matches!(appended, Appended::Committed { .. } | Appended::AlreadyRecorded), "{appended:?}");
        let recorded = store.read(session, None).unwrap().events;
        assert_eq!(recorded, [made[0].events.clone(), made[1].events.clone()].concat());
    }
}

/// Such as a database that is being moved. The standby check does not see it.
#[test]
fn a_database_that_is_set_to_read_only_acknowledges_nothing() {
    let Some(database) = TestDatabase::new() else { return };
    let made = plans(1, &[Step::Advance]);
    let session = made[0].events[0].session_id;
    open(&database.address()).create(session).unwrap().append(made[0].plan()).unwrap();
    let read_only = |value: &str| {
        let sql = format!("ALTER DATABASE {} SET default_transaction_read_only = {value}", database.name);
        database.cluster.sql("postgres", &sql);
    };
    read_only("on");
    let store = open(&database.address());
    let refused = store.lock(session).and_then(|mut locked| locked.append(made[1].plan()));
    assert!(matches!(refused, Err(StoreError::Io(_))), "{refused:?}");
    assert_eq!(store.read(session, None).unwrap().events, made[0].events);
    read_only("off");
    let appended = open(&database.address()).lock(session).unwrap().append(made[1].plan()).unwrap();
    assert!(matches!(appended, Appended::Committed { .. }), "{appended:?}");
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let Some(database) = TestDatabase::new() else { return };
    drop(open(&database.address()));
    database.cluster.sql(&database.name, "INSERT INTO workrail.schema_version (version) VALUES (99)");
    let address = database.cluster.address(&database.name, ROLE, "here");
    assert_eq!(refusal(&address, None), OpenError::NewerSchema { found: 99, known: 6 });
    let versions = database
        .cluster
        .sql(&database.name, "SELECT string_agg(version::text, ' ') FROM workrail.schema_version");
    assert_eq!(versions, "1 2 3 4 5 6 99");
}

#[test]
fn stores_opened_at_once_create_the_tables_once() {
    let Some(database) = TestDatabase::new() else { return };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| open(&database.address()));
        }
    });
    assert_eq!(database.cluster.sql(&database.name, "SELECT count(*) FROM workrail.schema_version"), "6");
}

#[test]
fn a_role_that_may_not_create_tables_is_refused() {
    let Some(database) = TestDatabase::new() else { return };
    database.cluster.sql("postgres", "CREATE ROLE reader LOGIN");
    let refused = refusal(&database.cluster.address(&database.name, "reader", "here"), None);
    assert!(matches!(refused, OpenError::Migration { .. }), "{refused:?}");
}

/// A backup that was restored as another role.
#[test]
fn a_schema_of_another_role_is_refused_with_its_owner() {
    let Some(database) = TestDatabase::new() else { return };
    drop(open(&database.address()));
    database.cluster.sql("postgres", "CREATE ROLE stranger LOGIN");
    let refused = refusal(&database.cluster.address(&database.name, "stranger", "here"), None);
    let expected = OpenError::ForeignSchema { owner: ROLE.to_owned(), role: "stranger".to_owned() };
    assert_eq!(refused, expected);
}

#[test]
fn a_missing_password_leads_to_where_it_can_be_given() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let database = cluster.database();
    cluster.sql("postgres", &format!("ALTER ROLE {ROLE} PASSWORD 'right-7f3a'"));
    cluster.require_passwords();
    let refused = refusal(&cluster.address(&database, ROLE, "here"), None);
    assert_eq!(refused, OpenError::NoPassword);
    assert!(refused.fix().contains("WORKRAIL_STORE_PASSWORD_FILE"), "{refused}");
}

/// With a wrong password, and without a server.
#[test]
fn no_refusal_repeats_the_password() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let database = cluster.database();
    cluster.sql("postgres", &format!("ALTER ROLE {ROLE} PASSWORD 'right-7f3a'"));
    cluster.require_passwords();
    let address = cluster.address(&database, ROLE, "here");
    let password = Password::new("wrong-91c2".to_owned());
    let refused = refusal(&address, Some(&password));
    assert!(matches!(refused, OpenError::Unreachable { .. }), "{refused:?}");
    let parsed = DatabaseAddress::parse(&address).unwrap();
    let right = Password::new("right-7f3a".to_owned());
    let store = PgStore::open(&parsed, Some(&right), Box::new(SeededEntropy::new(1))).unwrap();
    let nowhere = refusal("postgres://agent@/team?host=/nowhere", Some(&password));
    for text in [
        format!("{refused} {refused:?}"),
        format!("{nowhere} {nowhere:?}"),
        format!("{store:?} {parsed} {parsed:?}"),
    ] {
        assert!(!text.contains("91c2") && !text.contains("7f3a"), "{text}");
    }
}
