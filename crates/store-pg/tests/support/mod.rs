//! Stores in a database created for the test.

use workrail_store_pg::{DatabaseAddress, PgStore};
use workrail_testkit::conformance::StoreUnderTest;
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::postgres::{Cluster, ROLE};

/// A fresh database, and the tenant whose rows are visible.
#[derive(Clone, Debug)]
pub(crate) struct TestDatabase {
    pub(crate) cluster: &'static Cluster,
    pub(crate) name: String,
    pub(crate) tenant: &'static str,
}

impl TestDatabase {
    /// `None` if PostgreSQL is not installed.
    pub(crate) fn new() -> Option<Self> {
        let cluster = Cluster::shared()?;
        Some(Self { cluster, name: cluster.database(), tenant: "here" })
    }

    pub(crate) fn address(&self) -> DatabaseAddress {
        DatabaseAddress::parse(&self.cluster.address(&self.name, ROLE, self.tenant))
            .expect("the address is valid")
    }

    pub(crate) fn of_tenant(&self, tenant: &'static str) -> Self {
        Self { tenant, ..self.clone() }
    }
}

pub(crate) fn open(address: &DatabaseAddress) -> PgStore {
    PgStore::open(address, None, Box::new(entropy())).unwrap_or_else(|error| panic!("{error}"))
}

/// Different in every store, like the system's entropy.
fn entropy() -> SeededEntropy {
    static SEED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    SeededEntropy::new(SEED.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

impl StoreUnderTest for TestDatabase {
    type Store = PgStore;

    fn open(&self) -> PgStore {
        open(&self.address())
    }
}
