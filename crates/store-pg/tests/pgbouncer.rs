//! The same store through PgBouncer in transaction mode, with fewer connections than clients: the conformance suite,
//! unchanged, and load of two tenants on shared connections (G102, G103). Tables are made on a direct one.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::thread;

use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_pg::{DatabaseAddress, PgStore};
use workrail_testkit::conformance::StoreUnderTest;
use workrail_testkit::history::{Step, plans};
use workrail_testkit::pooler::Pooler;

use support::{TestDatabase, open};

const WRITERS_PER_TENANT: u64 = 6;
const APPENDS: usize = 12;

/// A database behind a pooler.
struct Pooled {
    database: TestDatabase,
    pooler: Pooler,
}

impl Pooled {
    /// `None` if PostgreSQL or PgBouncer is not installed.
    fn new() -> Option<Self> {
        let database = TestDatabase::new()?;
        let pooler = Pooler::start(database.cluster)?;
        drop(open(&database.address()));
        Some(Self { database, pooler })
    }

    fn open_as(&self, tenant: &str) -> PgStore {
        let address = self.pooler.address(&self.database.name, tenant);
        open(&DatabaseAddress::parse(&address).expect("the address is valid"))
    }
}

impl StoreUnderTest for Pooled {
    type Store = PgStore;

    fn open(&self) -> PgStore {
        self.open_as(self.database.tenant)
    }
}

workrail_testkit::conformance_tests!(match Pooled::new() {
    Some(pooled) => pooled,
    None => return,
});

/// Every append is recorded once, for its own tenant, and no reader sees a row of the other tenant.
#[test]
fn tenants_that_share_connections_do_not_see_each_other() {
    let Some(pooled) = Pooled::new() else { return };
    let tenants = ["red", "blue"];
    thread::scope(|scope| {
        for (tenant, first) in tenants.into_iter().zip([100, 200]) {
            for seed in first..first + WRITERS_PER_TENANT {
                let pooled = &pooled;
                scope.spawn(move || write(&pooled.open_as(tenant), tenant, seed));
            }
        }
    });
    for (tenant, first) in tenants.into_iter().zip([100, 200]) {
        let store = pooled.open_as(tenant);
        assert_eq!(store.sessions().unwrap().len() as u64, WRITERS_PER_TENANT, "{tenant}");
        for seed in first..first + WRITERS_PER_TENANT {
            let made = plans(seed, &[Step::Advance; APPENDS]);
            let slice = store.read(made[0].events[0].session_id, None).unwrap();
            assert!(slice.health.is_healthy(), "{:?}", slice.health);
            let expected: Vec<_> = made.into_iter().flat_map(|parts| parts.events).collect();
            assert_eq!(slice.events, expected);
        }
    }
}

fn write(store: &PgStore, tenant: &str, seed: u64) {
    let made = plans(seed, &[Step::Advance; APPENDS]);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();
    for parts in &made[1..] {
        loop {
            match store.lock(session).and_then(|mut locked| locked.append(parts.plan())) {
                Ok(Appended::Committed { .. }) => break,
                Err(StoreError::Locked { .. } | StoreError::Busy) => {}
                other => panic!("{tenant}: {other:?}"),
            }
        }
        assert!(store.sessions().unwrap().len() as u64 <= WRITERS_PER_TENANT, "{tenant}");
    }
}
