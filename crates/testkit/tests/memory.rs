//! The store in memory passes the suite that every store must pass.

use workrail_testkit::memory::MemoryStore;

workrail_testkit::conformance_tests!(MemoryStore::default());

#[test]
fn observations_wait_until_they_are_recorded() {
    workrail_testkit::conformance::observations_wait_until_they_are_recorded(&MemoryStore::default());
}
