//! The conformance suite of the ports, unchanged, on PostgreSQL.

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

workrail_testkit::conformance_tests!(match support::TestDatabase::new() {
    Some(database) => database,
    None => return,
});
