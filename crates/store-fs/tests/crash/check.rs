//! The invariants of a store after a crash, and the recovery that every caller performs.

use workrail_model::digest::{BlobRef, SnapshotRef, WorkflowHash};
use workrail_model::event::Event;
use workrail_model::plan::AttachmentKind;
use workrail_ports::content::ContentStore as _;
use workrail_ports::file_system::RelPath;
use workrail_ports::session_store::{LockedSession as _, SessionReader as _, SessionStore as _, StoreError};
use workrail_store_fs::sim::{CrashChoice, SimFs};

use crate::script::{Minting, Planned, Script, Step, references};
use crate::world::{Failure, Ledger, World, violated};

/// How far the script continues after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Repeats the interrupted step, and continues to the end of the next append.
    NextAppend,
    End,
}

/// Who accesses the store first after a crash: a reader without a lock, or a writer. Both must work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Reader,
    Writer,
}

/// How many files outside the log one interrupted step and its recovery may leave: the attachments of one plan, a
/// torn tail moved aside, and one temporary of each other kind.
const LEFTOVERS_MAX: usize = 9;

/// The disk after losing everything that was not synced.
pub(crate) fn with_everything_unsynced_lost(sim: &SimFs) -> SimFs {
    sim.crash(&CrashChoice { names: [].into(), writes: Vec::new() })
}

/// Opens the disk after a crash and checks everything; returns what it must keep from now on.
pub(crate) fn after_crash(
    script: &Script,
    acknowledged: &Ledger,
    image: &SimFs,
    look: Look,
    retry: Minting,
    reach: Reach,
) -> Result<Ledger, Failure> {
    let completed = completed_write(script, acknowledged, image);
    let mut world = World::open(script, image, "boot after", acknowledged.clone())?;
    world.check_log(look)?;
    if look == Look::Reader {
        world.check_cache()?;
        world.activity()?;
    }
    let settled = world.ledger.clone();
    world.recover(retry, reach)?;
    world.check_settled()?;
    world.check_rolled_forward(completed)?;
    Ok(settled)
}

/// The process was killed, but the power stayed on: the next process sees everything that was written.
pub(crate) fn after_kill(
    script: &Script,
    acknowledged: &Ledger,
    sim: &SimFs,
    retry: Minting,
) -> Result<(), Failure> {
    let completed = completed_write(script, acknowledged, sim);
    let mut world = World::open(script, sim, "boot", acknowledged.clone())?;
    world.check_log(Look::Reader)?;
    world.activity()?;
    world.recover(retry, Reach::NextAppend)?;
    world.check_settled()?;
    world.check_rolled_forward(completed)
}

/// The write that is complete on disk, committed or not: the append in progress, and how it was minted. Content is
/// durable before its segment, so checking the segment is enough.
fn completed_write(script: &Script, acknowledged: &Ledger, sim: &SimFs) -> Option<(usize, Minting)> {
    let number = acknowledged.log.len();
    if script.steps.get(acknowledged.next) != Some(&Step::Append(number)) {
        return None;
    }
    let is_there = |minting: &Minting| {
        let (path, bytes) = &script.planned(number, *minting).segment;
        sim.read_raw(path).as_ref() == Some(bytes)
    };
    Some(number).zip([Minting::First, Minting::Again].into_iter().find(is_there))
}

impl World<'_> {
    /// Every acknowledged append must be present and healthy, plus at most the interrupted one as a whole. Anything
    /// seen counts as acknowledged from now on.
    pub(crate) fn check_log(&mut self, look: Look) -> Result<(), Failure> {
        let events = self.events(look)?;
        if look == Look::Reader {
            let listed = self.store.sessions()?.contains(&self.script.session);
            if listed != events.is_some() {
                return violated(format!("listed: {listed}, but events: {}", events.is_some()));
            }
        }
        let events = match events {
            Some(events) => events,
            None if self.ledger.log.is_empty() => return Ok(()),
            None => return violated("the session is gone"),
        };
        let mut rest = events.as_slice();
        for (number, minting) in self.ledger.log.iter().enumerate() {
            let expected = &self.script.planned(number, *minting).parts.events;
            match rest.strip_prefix(expected.as_slice()) {
                Some(after) => rest = after,
                None => return violated(format!("acknowledged plan {number} is not there as it was")),
            }
        }
        if !rest.is_empty() {
            let minting = self.interrupted_append(rest)?;
            self.ledger.log.push(minting);
        }
        let last = self.ledger.log.len() - 1;
        self.check_references(last)?;
        check_raw_log(self.script, &self.ledger, self.sim())
    }

    /// The events of the session, which must be healthy; `None` if there is none.
    fn events(&self, look: Look) -> Result<Option<Vec<Event>>, Failure> {
        let session = self.script.session;
        let slice = match look {
            Look::Reader => self.store.read(session, None),
            Look::Writer => self.store.lock(session).and_then(|locked| locked.events_since(None)),
        };
        match slice {
            Ok(slice) if slice.health.is_healthy() => Ok(Some(slice.events)),
            Ok(slice) => violated(format!("health after a pure crash: {:?}", slice.health)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => violated(format!("the session cannot be read: {error:?}")),
        }
    }

    /// Which minting of the append in progress these events are.
    fn interrupted_append(&self, events: &[Event]) -> Result<Minting, Failure> {
        let number = self.ledger.log.len();
        if self.script.steps.get(self.ledger.next) != Some(&Step::Append(number)) {
            return violated("there are events of an append that nobody began");
        }
        [Minting::First, Minting::Again]
            .into_iter()
            .find(|minting| self.script.planned(number, *minting).parts.events == events)
            .ok_or_else(|| Failure::Violated(format!("only part of plan {number} exists")))
    }

    /// Reads everything that a plan refers to, as a user of the store does.
    fn check_references(&self, number: usize) -> Result<(), Failure> {
        let planned = self.script.planned(number, self.ledger.log[number]);
        for (kind, digest) in planned.parts.events.iter().flat_map(references) {
            let read = match kind {
                AttachmentKind::Snapshot => self.store.snapshot(SnapshotRef::new(digest)).map(|_| ()),
                AttachmentKind::Blob => self.store.blob(BlobRef::new(digest)).map(|_| ()),
                AttachmentKind::Workflow => self.store.workflow(WorkflowHash::new(digest)).map(|_| ()),
            };
            if let Err(error) = read {
                return violated(format!("plan {number} refers to what cannot be read: {error}"));
            }
        }
        Ok(())
    }

    /// Repeats the interrupted step and continues; everything must succeed.
    pub(crate) fn recover(&mut self, retry: Minting, reach: Reach) -> Result<(), Failure> {
        if self.ledger.keyring.is_some() {
            self.load_keys()?;
        }
        let steps = self.script.steps.len();
        if self.ledger.next < steps {
            self.step(retry)?;
        }
        let rest = &self.script.steps[self.ledger.next..];
        let next_append = rest.iter().position(|step| matches!(step, Step::Append(_)));
        let end = match (reach, next_append) {
            (Reach::NextAppend, Some(position)) => self.ledger.next + position + 1,
            (Reach::NextAppend, None) | (Reach::End, _) => steps,
        };
        self.run_to(end)
    }

    /// The log ends in exactly the expected bytes, leftovers do not pile up, and a power cut loses nothing.
    pub(crate) fn check_settled(&self) -> Result<(), Failure> {
        check_exact_log(self.script, &self.ledger, self.sim())?;
        let leftovers = leftovers(self.script, &self.ledger, self.sim());
        if leftovers.len() > LEFTOVERS_MAX {
            return violated(format!("leftovers pile up: {leftovers:?}"));
        }
        self.check_durable()
    }

    /// A completed write is never overwritten: the log holds it as it was minted.
    fn check_rolled_forward(&self, completed: Option<(usize, Minting)>) -> Result<(), Failure> {
        match completed {
            Some((number, minting)) if self.ledger.log.get(number) != Some(&minting) => {
                violated(format!("the completed write of plan {number} was not rolled forward"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Everything acknowledged must be present even if only synced bytes and names survive.
    pub(crate) fn check_durable(&self) -> Result<(), Failure> {
        self.check_order()?;
        let image = with_everything_unsynced_lost(self.sim());
        check_raw_log(self.script, &self.ledger, &image).map_err(|failure| {
            Failure::Violated(format!("acknowledged, but not durable: {}", failure.into_text()))
        })?;
        let keyring = path("keys/keyring.json");
        if self.ledger.keyring.is_some() && image.read_raw(&keyring) != self.sim().read_raw(&keyring) {
            return violated("the keyring was acknowledged, but is not durable");
        }
        Ok(())
    }
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a plain path")
}

/// The plans of the log as written.
fn planned<'s>(script: &'s Script, ledger: &'s Ledger) -> impl Iterator<Item = &'s Planned> {
    ledger.log.iter().enumerate().map(|(number, minting)| script.planned(number, *minting))
}

/// Every byte of every plan in the log is on the disk; the manifest may have a torn tail.
pub(crate) fn check_raw_log(script: &Script, ledger: &Ledger, sim: &SimFs) -> Result<(), Failure> {
    let groups: Vec<u8> = planned(script, ledger).flat_map(|it| it.group.iter().copied()).collect();
    let manifest = sim.read_raw(&script.manifest()).unwrap_or_default();
    if !manifest.starts_with(&groups) {
        return violated("the manifest does not start with the acknowledged groups");
    }
    for planned in planned(script, ledger) {
        for (path, bytes) in planned.references.iter().chain([&planned.segment]) {
            if sim.read_raw(path).as_ref() != Some(bytes) {
                return violated(format!("`{path}` is not there as it was"));
            }
        }
    }
    Ok(())
}

/// The manifest and the segments are those of an uninterrupted run, with no other files next to them.
pub(crate) fn check_exact_log(script: &Script, ledger: &Ledger, sim: &SimFs) -> Result<(), Failure> {
    check_raw_log(script, ledger, sim)?;
    let len: usize = planned(script, ledger).map(|it| it.group.len()).sum();
    let manifest = sim.read_raw(&script.manifest()).unwrap_or_default();
    if manifest.len() != len {
        return violated(format!("the manifest has {} bytes behind its last group", manifest.len() - len));
    }
    let events = script.in_session("events");
    let segments = sim.all_files().into_iter().filter(|file| file.parent().as_ref() == Some(&events)).count();
    if segments != ledger.log.len() {
        return violated(format!("there are {segments} files for {} segments", ledger.log.len()));
    }
    Ok(())
}

/// Files that are neither truth nor fixed names of the layout.
fn leftovers(script: &Script, ledger: &Ledger, sim: &SimFs) -> Vec<RelPath> {
    let mut known: Vec<RelPath> =
        ["keys/keyring.json", "keys/.lock", "store.lock", "activity", "activity.lock", "activity.reserved"]
            .into_iter()
            .map(path)
            .chain(["manifest.jsonl", ".lock", "cache/projection"].map(|name| script.in_session(name)))
            .collect();
    for planned in planned(script, ledger) {
        known.extend(planned.references.iter().chain([&planned.segment]).map(|(path, _)| path.clone()));
    }
    known.sort_unstable();
    sim.all_files().into_iter().filter(|file| known.binary_search(file).is_err()).collect()
}
