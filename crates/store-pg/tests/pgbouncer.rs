//! The same store through PgBouncer in transaction mode, with fewer connections than clients: the conformance suite,
//! unchanged, and load of two tenants on shared connections (G102, G103). Tables are made on a direct one.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::collections::BTreeMap;
use std::thread;

use workrail_model::digest::BlobRef;
use workrail_model::id::RunId;
use workrail_ports::content::ContentStore;
use workrail_ports::environment::ActivityCounter;
use workrail_ports::keyring::KeyringStore;
use workrail_ports::passkeys::{PasskeyLog, PasskeyReader};
use workrail_ports::pending_preferences::{PendingPreferencesReader, PendingPreferencesStore};
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
        Some(Self::with(database, pooler))
    }

    fn with_one_connection() -> Option<Self> {
        let database = TestDatabase::new()?;
        let pooler = Pooler::with_connections(database.cluster, 1)?;
        Some(Self::with(database, pooler))
    }

    fn with(database: TestDatabase, pooler: Pooler) -> Self {
        drop(open(&database.address()));
        Self { database, pooler }
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

/// Everything that a thread does between locking a session and appending to it uses the connection that has the lock:
/// a second one may never become free.
#[test]
fn the_holder_of_a_session_needs_no_second_connection() {
    let Some(pooled) = Pooled::with_one_connection() else { return };
    let store = pooled.open_as("here");
    let made = plans(1, &[Step::Advance; 3]);
    let (session, run) = (made[0].events[0].session_id, RunId::from_bits([7; 10]));
    let keys = store.load_or_create().unwrap();
    store.create(session).unwrap().append(made[0].plan()).unwrap();

    let mut locked = store.lock(session).unwrap();
    assert_eq!(store.pending_preferences(session, run).unwrap(), None);
    assert_eq!(store.peek().unwrap(), Some(keys.clone()));
    let missing = BlobRef::of(b"nowhere");
    assert!(store.blob(missing).is_err(), "a piece that does not exist");
    let first = store.next().unwrap();
    store.append_passkey(&store.passkey_log().unwrap(), b"one\n").unwrap();
    assert_eq!(store.read(session, None).unwrap().events, made[0].events);
    let rival = pooled.database.cluster.count(
        &pooled.database.name,
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'",
    );
    assert!(rival > 0, "reads, numbers and passkeys leave the lock in place");
    locked.append(made[1].plan()).unwrap();
    assert!(store.next().unwrap() > first);
    drop(locked);

    // A write ends the lock like an append. The next append locks again.
    let mut locked = store.lock(session).unwrap();
    store.set_pending_preferences(session, &BTreeMap::new()).unwrap();
    assert_eq!(store.load_or_create().unwrap(), keys);
    locked.append(made[2].plan()).unwrap();
    drop(locked);
    assert!(store.pools().iter().all(|pool| pool.used == 0), "{:?}", store.pools());
}

/// A writer whose lock ended with another write is refused if a different process appended since.
#[test]
fn an_append_after_another_write_is_refused_if_the_session_changed() {
    let Some(pooled) = Pooled::new() else { return };
    let (store, other) = (pooled.open_as("here"), pooled.open_as("here"));
    let made = plans(1, &[Step::Advance; 2]);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();
    let mut locked = store.lock(session).unwrap();
    store.set_pending_preferences(session, &BTreeMap::new()).unwrap();
    let late = plans(1, &[Step::Advance; 2]);
    other.lock(session).unwrap().append(late[1].plan()).unwrap();
    let refused = locked.append(made[2].plan());
    assert!(matches!(refused, Err(StoreError::Stale { .. } | StoreError::Locked { .. })), "{refused:?}");
    drop(locked);
    store.lock(session).unwrap().append(made[2].plan()).unwrap();
}
