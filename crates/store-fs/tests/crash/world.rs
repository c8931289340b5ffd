//! A process working on a simulated disk, and the acknowledgements it received, which must hold.

use workrail_model::id::SessionId;
use workrail_model::keyring::Keyring;
use workrail_model::manifest::Cursor;
use workrail_ports::cache::{CachedProjection, ProjectionCache as _};
use workrail_ports::environment::ActivityCounter as _;
use workrail_ports::file_system::{FileSystem, FsError};
use workrail_ports::keyring::{KeyringError, KeyringStore as _};
use workrail_ports::session_store::{
    Appended, LockedSession as _, SessionReader as _, SessionStore as _, StoreError,
};
use workrail_store_fs::sim::SimFs;
use workrail_store_fs::{LocalStore, LockedLocalSession};
use workrail_testkit::fixed::SeededEntropy;
use workrail_testkit::history::PlanParts;
use workrail_testkit::monitor::Monitored;

use crate::script::{Minting, Script, Step};

pub(crate) type Disk = Monitored<SimFs>;
pub(crate) type Store = LocalStore<Disk>;

pub(crate) const PROJECTION_VERSION: u32 = 1;

/// Everything that was acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// The plans in the log, and how each was minted.
    pub(crate) log: Vec<Minting>,
    pub(crate) keyring: Option<Keyring>,
    /// The largest activity number that must not repeat.
    pub(crate) activity: u64,
    /// The step that comes next.
    pub(crate) next: usize,
}

impl Ledger {
    /// Bytes of the manifest after each plan, the start included.
    fn manifest_ends(&self, script: &Script) -> Vec<u64> {
        let mut ends = vec![0];
        for (i, minting) in self.log.iter().enumerate() {
            ends.push(ends[i] + script.planned(i, *minting).group.len() as u64);
        }
        ends
    }
}

/// Why a step failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// A typed error: nothing was acknowledged.
    Refused(String),
    /// A result that breaks a guarantee.
    Violated(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(format!("{error:?}"))
    }
}

impl From<KeyringError> for Failure {
    fn from(error: KeyringError) -> Self {
        Self::Refused(format!("{error:?}"))
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        Self::Refused(format!("{error:?}"))
    }
}

impl Failure {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Refused(text) => format!("refused: {text}"),
            Self::Violated(text) => text,
        }
    }
}

pub(crate) fn violated<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Violated(text.into()))
}

pub(crate) struct World<'s> {
    pub(crate) script: &'s Script,
    pub(crate) disk: Disk,
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
}

/// Opens the store of one process; the seed is for its keys.
pub(crate) fn open_store(sim: &SimFs, boot: &str, seed: u64) -> Result<(Disk, Store), FsError> {
    let disk = Monitored::new(sim.clone());
    let store = LocalStore::open(disk.clone(), Box::new(SeededEntropy::new(seed)), boot.to_owned())?;
    Ok((disk, store))
}

/// Locks the session, creating it if it does not exist.
pub(crate) fn lock_or_create<F: FileSystem>(
    store: &LocalStore<F>,
    session: SessionId,
) -> Result<LockedLocalSession<'_, F>, StoreError> {
    match store.lock(session) {
        Err(StoreError::NotFound { .. }) => store.create(session),
        other => other,
    }
}

impl<'s> World<'s> {
    pub(crate) fn open(script: &'s Script, sim: &SimFs, boot: &str, ledger: Ledger) -> Result<Self, FsError> {
        // Another boot or a later time means another process, with other keys.
        let seed = boot.bytes().fold(sim.all_op_count(), |seed, byte| seed * 31 + u64::from(byte));
        let (disk, store) = open_store(sim, boot, seed)?;
        Ok(Self { script, disk, store, ledger })
    }

    pub(crate) fn sim(&self) -> &SimFs {
        self.disk.inner()
    }

    /// Runs the next step and records what was acknowledged.
    pub(crate) fn step(&mut self, minting: Minting) -> Result<(), Failure> {
        let outcome = match self.script.steps[self.ledger.next] {
            Step::LoadKeys => self.load_keys(),
            Step::RotateKeys => self.rotate_keys(),
            Step::Activity => self.activity(),
            Step::Append(number) => self.append(number, minting),
            Step::Cache => self.cache(),
        };
        self.check_order()?;
        match outcome {
            Ok(()) => self.ledger.next += 1,
            // Nothing that a failed call left unsynced was acknowledged.
            Err(_) => self.disk.forget_unacknowledged(),
        }
        outcome
    }

    /// Checks for violations that the order monitor saw.
    pub(crate) fn check_order(&self) -> Result<(), Failure> {
        let broken = self.disk.violations();
        if broken.is_empty() { Ok(()) } else { violated(format!("write order: {}", broken.join("; "))) }
    }

    /// Runs steps until the script is at `end`.
    pub(crate) fn run_to(&mut self, end: usize) -> Result<(), Failure> {
        while self.ledger.next < end {
            self.step(Minting::First)?;
        }
        Ok(())
    }

    fn append(&mut self, number: usize, minting: Minting) -> Result<(), Failure> {
        let parts: &PlanParts = &self.script.planned(number, minting).parts;
        let mut locked = lock_or_create(&self.store, self.script.session)?;
        let appended = locked.append(parts.plan())?;
        drop(locked);
        match appended {
            Appended::Committed { events, .. } => {
                if self.ledger.log.len() != number {
                    return violated(format!("plan {number} was committed again"));
                }
                if events != parts.events {
                    return violated(format!("plan {number} was acknowledged with other events"));
                }
                self.ledger.log.push(minting);
            }
            // An interrupted write was rolled forward as it was originally minted.
            Appended::AlreadyRecorded if self.ledger.log.len() <= number => {
                let minting = self.recorded_minting(number)?;
                self.ledger.log.push(minting);
            }
            Appended::AlreadyRecorded => {}
        }
        self.ledger.activity = self.ledger.activity.max(self.script.planned(number, minting).activity());
        Ok(())
    }

    /// How the last plan of the log was minted.
    fn recorded_minting(&self, number: usize) -> Result<Minting, Failure> {
        let slice = self.store.read(self.script.session, None)?;
        if !slice.health.is_healthy() {
            // The read failed, not the append: unreadable events show neither minting.
            return Err(Failure::Refused(format!("plan {number} cannot be looked at: {:?}", slice.health)));
        }
        let events = slice.events;
        let minted =
            |minting: &Minting| events.ends_with(&self.script.planned(number, *minting).parts.events);
        let minting = [Minting::First, Minting::Again].into_iter().find(minted);
        minting.ok_or_else(|| Failure::Violated(format!("plan {number} was recorded in part")))
    }

    /// The keys in use stay accepted, whatever was interrupted.
    pub(crate) fn load_keys(&mut self) -> Result<(), Failure> {
        let keyring = self.store.load_or_create()?;
        let rotating = self.script.steps.get(self.ledger.next) == Some(&Step::RotateKeys);
        if let Some(known) = &self.ledger.keyring {
            let rotated = rotating && keyring.previous.as_ref() == Some(&known.current);
            if keyring != *known && !rotated {
                return violated("an acknowledged keyring is gone");
            }
        }
        self.ledger.keyring = Some(keyring);
        Ok(())
    }

    fn rotate_keys(&mut self) -> Result<(), Failure> {
        let keyring = self.store.rotate()?;
        if self.ledger.keyring.as_ref().is_some_and(|known| known.current == keyring.current) {
            return violated("a rotation gave the key that was in use");
        }
        self.ledger.keyring = Some(keyring);
        Ok(())
    }

    pub(crate) fn activity(&mut self) -> Result<(), Failure> {
        let number = self.store.next()?.get();
        if number <= self.ledger.activity {
            return violated(format!("activity {number} came after {}", self.ledger.activity));
        }
        self.ledger.activity = number;
        Ok(())
    }

    fn cache(&mut self) -> Result<(), Failure> {
        let cursor = self.store.lock(self.script.session)?.cursor();
        self.store.put(self.script.session, &projection(cursor))?;
        Ok(())
    }

    /// A cache is empty, or holds the state of an acknowledged log.
    pub(crate) fn check_cache(&self) -> Result<(), Failure> {
        let Some(cached) = self.store.get(self.script.session, PROJECTION_VERSION) else { return Ok(()) };
        let ends = self.ledger.manifest_ends(self.script);
        if cached != projection(cached.cursor) || !ends.contains(&cached.cursor.manifest_bytes) {
            return violated("the cache holds what was never put there");
        }
        Ok(())
    }
}

fn projection(cursor: Cursor) -> CachedProjection {
    let state = format!("state at {}", cursor.manifest_bytes).repeat(20).into_bytes();
    CachedProjection { version: PROJECTION_VERSION, cursor, state }
}
