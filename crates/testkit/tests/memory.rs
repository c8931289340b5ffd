//! The store in memory passes the suite that every store must pass.

use workrail_testkit::memory::MemoryStore;

workrail_testkit::conformance_tests!(MemoryStore::default());
