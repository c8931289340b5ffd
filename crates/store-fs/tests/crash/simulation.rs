//! Seeded simulations: several writers on a few sessions, with random faults and power cuts, checked against an
//! in-memory model of what was acknowledged.

use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::keyring::Keyring;
use workrail_ports::environment::ActivityCounter as _;
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::KeyringStore as _;
use workrail_ports::session_store::{
    Appended, LockedSession as _, SessionReader as _, SessionStore as _, StoreError,
};
use workrail_store_fs::sim::{CrashLimits, Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::history::{self, PlanParts, Step};

use crate::rng::Rng;
use crate::script::{Minting, minted_again};
use crate::world::{Disk, Failure, Store, lock_or_create, open_store, violated};

const ACTIONS: usize = 30;
/// The plans of each session after its start; few, because every reader reads all of them.
const PLANS: [Step; 6] =
    [Step::Blocked, Step::Advance, Step::Checkpoint, Step::AdvanceWithArtifact, Step::Fork, Step::Blocked];

/// The expected state of one session.
struct Session {
    id: SessionId,
    /// Each plan as two callers would mint it.
    plans: Vec<[PlanParts; 2]>,
    /// The acknowledged log.
    log: Vec<Minting>,
    /// Failed appends at the end of the log, which may or may not have been recorded.
    attempted: Vec<Minting>,
}

impl Session {
    fn new(seed: u64, number: u8) -> Self {
        let mint = |parts: PlanParts| [parts.clone(), minted_again(parts)];
        let plans: Vec<_> =
            history::plans(seed * 4 + u64::from(number), &PLANS).into_iter().map(mint).collect();
        Self { id: plans[0][0].events[0].session_id, plans, log: Vec::new(), attempted: Vec::new() }
    }

    fn events(&self, number: usize, minting: Minting) -> &[Event] {
        &self.parts(number, minting).events
    }

    fn parts(&self, number: usize, minting: Minting) -> &PlanParts {
        let [first, again] = &self.plans[number];
        match minting {
            Minting::First => first,
            Minting::Again => again,
        }
    }

    /// Which log these events are: the acknowledged one, or the same with one attempted append.
    fn recognise(&self, events: &[Event]) -> Result<Vec<Minting>, Failure> {
        let mut rest = events;
        for (number, minting) in self.log.iter().enumerate() {
            match rest.strip_prefix(self.events(number, *minting)) {
                Some(after) => rest = after,
                None => return violated(format!("acknowledged plan {number} of {} is gone", self.id)),
            }
        }
        let mut seen = self.log.clone();
        if rest.is_empty() {
            return Ok(seen);
        }
        let number = self.log.len();
        match self.attempted.iter().find(|minting| self.events(number, **minting) == rest) {
            Some(minting) => seen.push(*minting),
            None => return violated(format!("{} holds events that nobody appended", self.id)),
        }
        Ok(seen)
    }
}

struct Writer {
    disk: Disk,
    store: Store,
}

struct Simulation {
    rng: Rng,
    sim: SimFs,
    boot: u64,
    writers: Vec<Writer>,
    sessions: Vec<Session>,
    /// Acknowledged keys; `None` before the first.
    keyring: Option<Keyring>,
    /// The largest activity number that was handed out.
    activity: u64,
    /// Seeds the keys, so that every process has its own.
    opened: u64,
}

/// Seeds that failed once.
///
/// 806: a failed sync removed the segments folder, and the session could not be locked again.
pub(crate) const KEPT_SEEDS: [u64; 1] = [806];

/// Runs one seed to the end.
pub(crate) fn run(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let count = 1 + rng.below(3) as u8;
    let sessions = (0..count).map(|number| Session::new(seed, number)).collect();
    let (writers, keyring) = (Vec::new(), None);
    let mut simulation =
        Simulation { rng, sim: SimFs::new(), boot: 0, writers, sessions, keyring, activity: 0, opened: 0 };
    let outcome = simulation.run();
    outcome.map_err(|failure| format!("seed {seed}: {}", failure.into_text()))
}

impl Simulation {
    fn run(&mut self) -> Result<(), Failure> {
        for _ in 0..2 + self.rng.below(3) {
            let writer = self.open()?;
            self.writers.push(writer);
        }
        for action in 0..ACTIONS {
            self.act()
                .map_err(|failure| Failure::Violated(format!("action {action}: {}", failure.into_text())))?;
            self.check_order()?;
        }
        self.power_cut()?;
        (0..self.sessions.len()).try_for_each(|session| self.look(0, session))
    }

    fn open(&mut self) -> Result<Writer, Failure> {
        self.opened += 1;
        let (disk, store) = open_store(&self.sim, &format!("boot {}", self.boot), self.opened)?;
        Ok(Writer { disk, store })
    }

    fn act(&mut self) -> Result<(), Failure> {
        let writer = self.rng.below(self.writers.len());
        let session = self.rng.below(self.sessions.len());
        match self.rng.below(20) {
            0..8 => self.append(writer, session),
            8..13 => self.with_fault(writer, session),
            13 => self.kill(writer, session),
            14 => self.power_cut(),
            15 => self.replay(writer, session),
            16 => self.number(writer),
            17 => self.keys(writer),
            _ => self.look(writer, session),
        }
    }

    fn check_order(&self) -> Result<(), Failure> {
        let broken: Vec<String> = self.writers.iter().flat_map(|writer| writer.disk.violations()).collect();
        if broken.is_empty() { Ok(()) } else { violated(format!("write order: {}", broken.join("; "))) }
    }

    /// An append with an armed fault.
    fn with_fault(&mut self, writer: usize, session: usize) -> Result<(), Failure> {
        let kind = match self.rng.below(8) {
            0 => FaultKind::Error(FsErrorKind::Io),
            1 => FaultKind::Error(FsErrorKind::NoSpace),
            2 => FaultKind::Error(FsErrorKind::TooManyOpenFiles),
            3 | 4 => FaultKind::ShortWrite,
            _ => FaultKind::FsyncLies,
        };
        let mode = if self.rng.one_in(3) { FaultMode::Forever } else { FaultMode::Once };
        let at_op = self.sim.all_op_count() + self.rng.below(40) as u64;
        self.sim.set_fault(Fault { at_op, kind, mode });
        let outcome = self.append(writer, session);
        self.sim.clear_fault();
        match outcome {
            Err(Failure::Refused(_)) => {
                self.writers[writer].disk.forget_unacknowledged();
                Ok(())
            }
            other => other,
        }
    }

    /// The process dies in the middle of an append; the power stays on.
    fn kill(&mut self, writer: usize, session: usize) -> Result<(), Failure> {
        let at_op = self.sim.all_op_count() + self.rng.below(40) as u64;
        self.sim.set_fault(Fault { at_op, kind: FaultKind::PowerCut, mode: FaultMode::Once });
        let outcome = self.append(writer, session);
        self.sim.clear_fault();
        if let Err(Failure::Violated(text)) = outcome {
            return violated(text);
        }
        self.writers[writer] = self.open()?;
        Ok(())
    }

    /// A power cut: everything unsynced survives, survives in part, or is lost.
    fn power_cut(&mut self) -> Result<(), Failure> {
        let limits = CrashLimits {
            max_exhaustive_names: 2,
            random_subsets: 4,
            random_cuts: 1,
            max_product: 12,
            seed: self.rng.next(),
        };
        let mut images = self.sim.crash_images(&limits);
        let pick = self.rng.below(images.len());
        self.sim = images.swap_remove(pick);
        self.boot += 1;
        for writer in 0..self.writers.len() {
            self.writers[writer] = self.open()?;
        }
        Ok(())
    }

    /// Reads without a lock.
    fn look(&mut self, writer: usize, session: usize) -> Result<(), Failure> {
        let (store, session) = (&self.writers[writer].store, &self.sessions[session]);
        match store.read(session.id, None) {
            Ok(slice) if slice.health.is_healthy() => session.recognise(&slice.events).map(|_| ()),
            Ok(slice) => violated(format!("{} is {:?}", session.id, slice.health)),
            Err(StoreError::NotFound { .. }) if session.log.is_empty() => Ok(()),
            Err(error) => violated(format!("{} cannot be read: {error}", session.id)),
        }
    }

    /// Locks, settles pending writes, and appends the next plan while the others find the session locked.
    fn append(&mut self, writer: usize, session: usize) -> Result<(), Failure> {
        let again = self.rng.one_in(2);
        let rival = self.rng.below(self.writers.len());
        let minting = if again { Minting::Again } else { Minting::First };
        let (store, session) = (&self.writers[writer].store, &mut self.sessions[session]);
        let mut locked = lock_or_create(store, session.id)?;
        let slice = locked.events_since(None)?;
        // Under the lock, everything present was made durable: it is acknowledged from now on.
        session.log = session.recognise(&slice.events)?;
        session.attempted.clear();
        if rival != writer
            && let Ok(_) = self.writers[rival].store.lock(session.id)
        {
            return violated(format!("two writers hold {}", session.id));
        }
        let number = session.log.len();
        if number == session.plans.len() {
            return Ok(());
        }
        match locked.append(session.parts(number, minting).plan()) {
            Ok(Appended::Committed { .. }) => {
                session.log.push(minting);
                Ok(())
            }
            Ok(Appended::AlreadyRecorded) => violated("news was taken for a repetition"),
            Err(error) => {
                session.attempted.push(minting);
                Err(error.into())
            }
        }
    }

    /// Repeats an old plan: nothing happens.
    fn replay(&mut self, writer: usize, session: usize) -> Result<(), Failure> {
        self.append(writer, session)?;
        let session = &self.sessions[session];
        let old = self.rng.below(session.log.len());
        let mut locked = self.writers[writer].store.lock(session.id)?;
        match locked.append(session.parts(old, Minting::Again).plan())? {
            Appended::AlreadyRecorded => Ok(()),
            Appended::Committed { .. } => violated(format!("plan {old} was committed twice")),
        }
    }

    fn number(&mut self, writer: usize) -> Result<(), Failure> {
        let number = self.writers[writer].store.next()?.get();
        if number <= self.activity {
            return violated(format!("activity {number} came after {}", self.activity));
        }
        self.activity = number;
        Ok(())
    }

    fn keys(&mut self, writer: usize) -> Result<(), Failure> {
        let store = &self.writers[writer].store;
        let keyring = store.load_or_create()?;
        if self.keyring.as_ref().is_some_and(|known| *known != keyring) {
            return violated("an acknowledged keyring is gone");
        }
        self.keyring = Some(if self.rng.one_in(3) { store.rotate()? } else { keyring });
        Ok(())
    }
}
