//! Kills a worker at a moment that depends on a seed and on the machine; what it acknowledged must stay.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::Path;

use workrail_model::digest::Sha256;
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StoreError};
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_testkit::history::PlanParts;

use super::worker::{Task, opening, store};
use crate::support::{self, unseen_plan};

/// A new session is used after this many kills, so that reading it again each time stays cheap.
const KILLS_PER_SESSION: u64 = 20;

/// Pseudo-random numbers that depend only on the seed.
struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.drawn += 1;
        let digest = Sha256::of_parts(&[&self.seed.to_be_bytes(), &self.drawn.to_be_bytes()]);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest.as_bytes()[..8]);
        u64::from_be_bytes(bytes) % limit
    }
}

/// Spends a little time, so that the kill does not always hit the beginning of an append.
fn dawdle(steps: u64) {
    for step in 0..steps {
        black_box(Sha256::of(&step.to_be_bytes()));
    }
}

/// Kills this many workers, one after the other, and checks the session after each.
pub(crate) fn at_random(kills: u64, seed: u64) -> String {
    let mut draw = Draw { seed, drawn: 0 };
    let mut totals = Totals::default();
    for first in (0..kills).step_by(KILLS_PER_SESSION as usize) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut known = ExpectedLog::default();
        for kill in first..kills.min(first + KILLS_PER_SESSION) {
            let task = Task { data: dir.path(), seed: kill, sessions: 1, appends: 10_000 };
            let mut worker = task.spawn();
            let mut acknowledged: Vec<String> =
                (0..draw.below(4)).filter_map(|_| worker.next_key()).collect();
            dawdle(draw.below(60_000));
            acknowledged.extend(worker.kill());
            known.check(dir.path(), &acknowledged, kill, &mut totals);
        }
    }
    totals.to_string()
}

/// What came of all kills.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) kills: usize,
    acknowledged: usize,
    unacknowledged: usize,
    rolled_forward: usize,
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kills, acknowledged, unacknowledged, rolled_forward } = self;
        write!(f, "{kills} kills, 0 of {acknowledged} acknowledged plans lost, ")?;
        write!(f, "{unacknowledged} times one plan more than acknowledged ")?;
        write!(f, "({rolled_forward} of them rolled forward), 0 unhealthy")
    }
}

/// What is known to be in one session's log.
#[derive(Debug, Default)]
pub(crate) struct ExpectedLog {
    keys: BTreeSet<String>,
    /// Keys of plans that only a writer rolls forward.
    pending: BTreeSet<String>,
    plans: usize,
}

impl ExpectedLog {
    /// A session with its opening, and a plan whose group the manifest lost: a writer rolls it forward.
    pub(crate) fn with_pending(opening: &PlanParts, pending: &PlanParts) -> Self {
        let key = |plan: &PlanParts| plan.events[0].dedupe_key.to_string();
        Self { keys: [key(opening)].into(), pending: [key(pending)].into(), plans: 2 }
    }

    /// The session after a kill: healthy, with everything acknowledged and at most one more plan; and the next append
    /// works.
    pub(crate) fn check(&mut self, data: &Path, acknowledged: &[String], kill: u64, totals: &mut Totals) {
        self.keys.extend(acknowledged.iter().cloned());
        let store = store(data);
        let shown = self.read(&store, kill);
        match store.lock(opening(1).events[0].session_id) {
            Ok(_) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => panic!("kill {kill}: {error} ({error:?})"),
        }
        // A completed write was rolled forward by the next process that took the lock.
        self.keys.append(&mut self.pending);
        let plans = self.read(&store, kill);
        totals.rolled_forward += plans - shown;
        let more = plans - self.plans - acknowledged.len();
        assert!(more <= 1, "kill {kill}: {more} plans more than acknowledged");
        self.plans = plans;
        totals.kills += 1;
        totals.acknowledged += acknowledged.len();
        totals.unacknowledged += more;
        if plans > 0 {
            self.append(&store, kill);
            assert_eq!(self.read(&store, kill), self.plans);
        }
    }

    /// The number of plans in the log, each of which must be complete.
    fn read(&self, store: &LocalStore<Disk>, kill: u64) -> usize {
        let first = opening(1);
        let events = match store.read(first.events[0].session_id, None) {
            Ok(slice) => {
                assert!(slice.health.is_healthy(), "kill {kill}: {:?}", slice.health);
                slice.events
            }
            Err(StoreError::NotFound { .. }) => Vec::new(),
            Err(error) => panic!("kill {kill}: {error} ({error:?})"),
        };
        let keys: BTreeSet<String> = events.iter().map(|event| event.dedupe_key.to_string()).collect();
        let lost: Vec<&String> = self.keys.iter().filter(|key| !keys.contains(*key)).collect();
        assert!(lost.is_empty(), "kill {kill}: acknowledged, but lost: {lost:?}");
        // After the opening, every plan has six events.
        let Some(rest) = events.len().checked_sub(first.events.len()) else { return 0 };
        assert_eq!(rest % 6, 0, "kill {kill}: only part of a plan exists");
        rest / 6 + 1
    }

    fn append(&mut self, store: &LocalStore<Disk>, kill: u64) {
        let session = opening(1).events[0].session_id;
        let mut locked =
            store.lock(session).unwrap_or_else(|error| panic!("kill {kill}: {error} ({error:?})"));
        let parts = unseen_plan(session, locked.cursor().next_event_index, 100_000 + kill);
        support::commit(&mut locked, &parts);
        self.keys.insert(parts.events[0].dedupe_key.to_string());
        self.plans += 1;
    }
}
