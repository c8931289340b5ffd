//! What prevents a store from opening, and that no refusal repeats a password.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use workrail_store_pg::{Address, OpenError, Password, PgStore};
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::postgres::{Cluster, ROLE, SUPERUSER};

use support::TestDatabase;

fn refusal(address: &str, password: Option<&Password>) -> OpenError {
    let address = Address::parse(address).unwrap();
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
fn a_newer_schema_is_refused_and_left_alone() {
    let Some(database) = TestDatabase::new() else { return };
    drop(support::open(&database.address()));
    database.cluster.sql(&database.name, "INSERT INTO workrail.schema_version (version) VALUES (99)");
    let address = database.cluster.address(&database.name, ROLE, "here");
    assert_eq!(refusal(&address, None), OpenError::NewerSchema { found: 99, known: 5 });
    let versions = database
        .cluster
        .sql(&database.name, "SELECT string_agg(version::text, ' ') FROM workrail.schema_version");
    assert_eq!(versions, "1 2 3 4 5 99");
}

#[test]
fn stores_opened_at_once_create_the_tables_once() {
    let Some(database) = TestDatabase::new() else { return };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| support::open(&database.address()));
        }
    });
    assert_eq!(database.cluster.sql(&database.name, "SELECT count(*) FROM workrail.schema_version"), "5");
}

#[test]
fn a_role_that_may_not_create_tables_is_told_which_privilege_it_needs() {
    let Some(database) = TestDatabase::new() else { return };
    database.cluster.sql("postgres", "CREATE ROLE reader LOGIN");
    let refused = refusal(&database.cluster.address(&database.name, "reader", "here"), None);
    assert!(matches!(refused, OpenError::Migration { .. }), "{refused:?}");
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
    let parsed = Address::parse(&address).unwrap();
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
