//! Power cuts and failing disks while sessions are removed, swept, kept and repaired (G24, G25).
//!
//! A session being removed is whole or gone at every moment, everything kept is whole with all its content, and
//! repeating the work ends where an undisturbed run ends.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::digest::{BlobRef, SnapshotRef, WorkflowHash};
use workrail_model::event::Event;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::plan::AttachmentKind;
use workrail_ports::content::ContentStore as _;
use workrail_ports::file_system::{FsErrorKind, RelPath};
use workrail_ports::session_store::{
    Appended, LockedSession as _, SessionReader as _, SessionStore as _, StoreError,
};
use workrail_ports::upkeep::{Inspection, Sweep, Upkeep as _, UpkeepError};
use workrail_store_fs::sim::{CrashLimits, Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::history::{self, PlanParts, Step};

use crate::check::with_everything_unsynced_lost;
use crate::crash_states::power_cut;
use crate::effort::Effort;
use crate::parallel::Findings;
use crate::script::references;
use crate::world::{Store, open_store};

/// Two sessions that share content, and some content that nothing refers to.
struct Scene {
    base: SimFs,
    doomed: Vec<PlanParts>,
    spared: Vec<PlanParts>,
}

const STEPS: [Step; 3] = [Step::AdvanceWithArtifact, Step::Blocked, Step::Advance];

fn session(plans: &[PlanParts]) -> SessionId {
    plans[0].events[0].session_id
}

fn events(plans: &[PlanParts]) -> Vec<Event> {
    plans.iter().flat_map(|parts| parts.events.clone()).collect()
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a plain path")
}

fn write(store: &Store, plans: &[PlanParts]) {
    let mut locked = store.create(session(plans)).expect("a fresh session");
    for parts in plans {
        locked.append(parts.plan()).expect("a sound disk");
    }
}

impl Scene {
    fn new() -> Self {
        let sim = SimFs::new();
        let (_, store) = open_store(&sim, "boot", 1).expect("a sound disk opens");
        let doomed = history::plans(21, &STEPS);
        let other = session(&history::plans(22, &[]));
        // The first half of the other's history, so that half of its content is shared.
        let spared: Vec<PlanParts> = doomed[..2].iter().map(|parts| parts.in_session(other)).collect();
        write(&store, &doomed);
        write(&store, &spared);
        drop(store);
        Self { base: with_everything_unsynced_lost(&sim), doomed, spared }
    }
}

fn open(sim: &SimFs) -> Result<Store, String> {
    open_store(sim, "boot after", sim.all_op_count())
        .map(|(_, store)| store)
        .map_err(|error| error.to_string())
}

/// Whether the session is as it was, with everything it refers to; `false` if it is gone.
fn is_whole(store: &Store, plans: &[PlanParts]) -> Result<bool, String> {
    let slice = match store.read(session(plans), None) {
        Err(StoreError::NotFound { .. }) => return Ok(false),
        other => other.map_err(|error| format!("cannot be read: {error}"))?,
    };
    if !slice.health.is_healthy() {
        return Err(format!("health {:?}", slice.health));
    }
    if !slice.events.starts_with(&events(plans)) {
        return Err("other events than were acknowledged".to_owned());
    }
    content_is_there(store, &slice.events)?;
    Ok(true)
}

fn content_is_there(store: &Store, events: &[Event]) -> Result<(), String> {
    for (kind, digest) in events.iter().flat_map(references) {
        let read = match kind {
            AttachmentKind::Snapshot => store.snapshot(SnapshotRef::new(digest)).map(|_| ()),
            AttachmentKind::Blob => store.blob(BlobRef::new(digest)).map(|_| ()),
            AttachmentKind::Workflow => store.workflow(WorkflowHash::new(digest)).map(|_| ()),
        };
        read.map_err(|error| format!("content is gone: {error}"))?;
    }
    Ok(())
}

/// Removes the session and sweeps, like `gc`.
fn clean_up(store: &Store, scene: &Scene) -> Result<(), String> {
    match store.remove(session(&scene.doomed), None) {
        Ok(_) | Err(UpkeepError::Store(StoreError::NotFound { .. })) => {}
        Err(error) => return Err(format!("remove: {error}")),
    }
    store.sweep(Sweep::Real).map(|_| ()).map_err(|error| format!("sweep: {error}"))
}

/// Must hold at every moment, and repeating the work must succeed.
fn check_cleaning(scene: &Scene, image: &SimFs) -> Result<(), String> {
    let store = open(image)?;
    if !is_whole(&store, &scene.spared).map_err(|what| format!("the spared session: {what}"))? {
        return Err("the spared session is gone".to_owned());
    }
    is_whole(&store, &scene.doomed).map_err(|what| format!("the doomed session: {what}"))?;
    drop(store);
    let store = open(image)?;
    clean_up(&store, scene).map_err(|what| format!("again: {what}"))?;
    drop(store);
    for (when, sim) in [("seen", image.clone()), ("durable", with_everything_unsynced_lost(image))] {
        let store = open(&sim)?;
        if !is_whole(&store, &scene.spared).map_err(|what| format!("{when} afterwards: {what}"))? {
            return Err(format!("{when} afterwards: the spared session is gone"));
        }
        if is_whole(&store, &scene.doomed)? {
            return Err(format!("{when} afterwards: the doomed session is back"));
        }
    }
    let left = unexpected_files(scene, image);
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}

/// Files that neither the spared session nor the store itself needs.
fn unexpected_files(scene: &Scene, sim: &SimFs) -> Vec<RelPath> {
    let mut needed = BTreeSet::new();
    for (kind, digest) in events(&scene.spared).iter().flat_map(references) {
        let hex = digest.hex();
        needed.insert(match kind {
            AttachmentKind::Snapshot => format!("snapshots/{hex}.json"),
            AttachmentKind::Blob => format!("blobs/{hex}"),
            AttachmentKind::Workflow => format!("workflows/pinned/{hex}.json"),
        });
    }
    let own = format!("sessions/{}/", session(&scene.spared));
    let fixed =
        |file: &str| file == "store.lock" || file.starts_with("keys/") || file.starts_with("activity");
    let files = sim.all_files().into_iter();
    files
        .filter(|file| {
            let text = file.as_str();
            !needed.contains(text) && !text.starts_with(&own) && !fixed(text)
        })
        .collect()
}

fn limits(effort: Effort, seed: u64) -> CrashLimits {
    let max_product = match effort {
        Effort::Default => 96,
        Effort::Full => 2_000,
    };
    CrashLimits { max_exhaustive_names: 6, random_subsets: 8, random_cuts: 1, max_product, seed }
}

/// Cuts the power at every operation of `act`, and checks every disk that this may leave.
fn cut_everywhere(
    base: &SimFs,
    effort: Effort,
    act: &dyn Fn(&Store) -> Result<(), String>,
    check: &dyn Fn(&SimFs, bool) -> Result<(), String>,
    findings: &mut Findings,
) {
    let mut seen = BTreeSet::new();
    for op in 0.. {
        let cut = base.fork();
        cut.set_fault(power_cut(op));
        let done = open(&cut).and_then(|store| act(&store));
        let acknowledged = done.is_ok();
        let mut judge = |image: &SimFs, how: &str| {
            findings.states += 1;
            if let Err(what) = check(image, acknowledged) {
                findings.record(format!("op {op}, {how}: {what}\n{}", cut.describe_pending()));
            }
        };
        if cut.fault_hits() == 0 {
            if let Err(what) = done {
                findings.record(format!("undisturbed: {what}"));
                return;
            }
            judge(&with_everything_unsynced_lost(&cut), "acknowledged");
            return;
        }
        let killed = cut.fork();
        killed.clear_fault();
        judge(&killed, "killed");
        cut.for_each_crash_image(&limits(effort, op), &mut |choice, image| {
            if seen.insert((image.digest(), acknowledged)) {
                judge(&image, &format!("{choice:?}"));
            }
        });
    }
}

pub(crate) fn cleaning(effort: Effort) -> Findings {
    let scene = Scene::new();
    let mut findings = Findings::default();
    let act = |store: &Store| clean_up(store, &scene);
    cut_everywhere(&scene.base, effort, &act, &|image, _| check_cleaning(&scene, image), &mut findings);
    // A second cut, starting from disks that a first one left.
    let mut firsts = Vec::new();
    for op in (4..).step_by(7) {
        let cut = scene.base.fork();
        cut.set_fault(power_cut(op));
        let _ = open(&cut).and_then(|store| act(&store));
        if cut.fault_hits() == 0 {
            break;
        }
        let few = CrashLimits { max_product: 3, ..limits(effort, op) };
        cut.for_each_crash_image(&few, &mut |_, image| firsts.push(image));
    }
    for first in firsts.iter().step_by(if effort == Effort::Full { 1 } else { 5 }) {
        cut_everywhere(first, effort, &act, &|image, _| check_cleaning(&scene, image), &mut findings);
    }
    findings
}

/// Every operation fails once and permanently; work continues in a session that still exists, and loses nothing.
pub(crate) fn failing_disks() -> Findings {
    let scene = Scene::new();
    let mut findings = Findings::default();
    let kinds = [
        FaultKind::Error(FsErrorKind::Io),
        FaultKind::Error(FsErrorKind::PermissionDenied),
        FaultKind::Error(FsErrorKind::NoSpace),
        FaultKind::FsyncLies,
    ];
    for op in 0.. {
        let before = findings.states;
        for kind in kinds {
            for mode in [FaultMode::Once, FaultMode::Forever] {
                let sim = scene.base.fork();
                let Ok(store) = open(&sim) else { continue };
                sim.set_fault(Fault { at_op: sim.all_op_count() + op, kind, mode });
                let done = clean_up(&store, &scene);
                if sim.fault_hits() == 0 {
                    continue;
                }
                sim.clear_fault();
                findings.states += 1;
                if let Err(what) = go_on(&scene, &sim, &store, done.is_ok()) {
                    findings.record(format!("op {op}, {kind:?} {mode:?}, {done:?}: {what}"));
                }
            }
        }
        if findings.states == before {
            return findings;
        }
    }
    findings
}

fn go_on(scene: &Scene, sim: &SimFs, store: &Store, acknowledged: bool) -> Result<(), String> {
    if !is_whole(store, &scene.spared)? {
        return Err("the spared session is gone".to_owned());
    }
    if is_whole(store, &scene.doomed)? {
        if acknowledged {
            return Err("acknowledged, and the doomed session is still there".to_owned());
        }
        // Work continues in the session that was not removed, and survives a power cut.
        let mut more = scene.doomed.clone();
        let mut history = history::plans(21, &[STEPS[0], STEPS[1], STEPS[2], Step::Advance]);
        more.push(history.pop().expect("one more plan"));
        let mut locked = store.lock(session(&more)).map_err(|error| format!("cannot go on: {error}"))?;
        match locked.append(more[more.len() - 1].plan()) {
            Ok(Appended::Committed { .. }) => {}
            other => return Err(format!("cannot append: {other:?}")),
        }
        drop(locked);
        let mut outcome = Ok(());
        sim.for_each_crash_image(&limits(Effort::Default, 0), &mut |choice, image| {
            let whole = open(&image).and_then(|store| is_whole(&store, &more));
            if outcome.is_ok() && whole != Ok(true) {
                outcome = Err(format!("an acknowledged append is lost by a crash: {whole:?}, {choice:?}"));
            }
        });
        outcome?;
    }
    let mut outcome = Ok(());
    sim.for_each_crash_image(&limits(Effort::Default, 1), &mut |choice, image| {
        if outcome.is_ok()
            && let Err(what) = check_cleaning(scene, &image)
        {
            outcome = Err(format!("a crash right after, {choice:?}: {what}"));
        }
    });
    outcome
}

/// Marks survive once acknowledged, and a marked session is never removed.
pub(crate) fn keeping(effort: Effort) -> Findings {
    let scene = Scene::new();
    let mut findings = Findings::default();
    let id = session(&scene.doomed);
    let keep = |store: &Store| store.keep(id).map_err(|error| error.to_string());
    let check = |image: &SimFs, acknowledged: bool| {
        let store = open(image)?;
        if acknowledged && !store.is_kept(id) {
            return Err("an acknowledged mark is gone".to_owned());
        }
        let marked = store.is_kept(id);
        match store.remove(id, None) {
            Err(UpkeepError::Kept { .. }) if marked => is_whole(&store, &scene.doomed)
                .and_then(|whole| if whole { Ok(()) } else { Err("a kept session is gone".to_owned()) }),
            Ok(_) if !marked => Ok(()),
            other => Err(format!("marked: {marked}, removal: {other:?}")),
        }
    };
    cut_everywhere(&scene.base, effort, &keep, &check, &mut findings);
    let kept = scene.base.fork();
    open(&kept).and_then(|store| keep(&store)).expect("a sound disk");
    let kept = with_everything_unsynced_lost(&kept);
    let unkeep = |store: &Store| store.unkeep(id).map_err(|error| error.to_string());
    let check = |image: &SimFs, acknowledged: bool| {
        let store = open(image)?;
        let whole = is_whole(&store, &scene.doomed)?;
        if whole && (!acknowledged || !store.is_kept(id)) { Ok(()) } else { Err("wrong".to_owned()) }
    };
    cut_everywhere(&kept, effort, &unkeep, &check, &mut findings);
    findings
}

type Damage<'a> = &'a dyn Fn(&SimFs, SessionId, &[PlanParts]);

/// The damage to repair: its position, and the events to keep.
struct Damaged {
    base: SimFs,
    id: SessionId,
    /// The readable part of the damaged session.
    prefix: Vec<Event>,
    /// What a repair keeps: more than that, if only the manifest is damaged.
    kept: Vec<Event>,
    all: Vec<Event>,
    original: BTreeMap<String, Vec<u8>>,
}

impl Damaged {
    fn new(damage: Damage<'_>) -> Self {
        let scene = Scene::new();
        let id = session(&scene.doomed);
        damage(&scene.base, id, &scene.doomed);
        let store = open(&scene.base).expect("a sound disk opens");
        let slice = store.read(id, None).expect("a damaged session is read");
        assert!(matches!(slice.health, SessionHealth::CorruptTail { .. }), "{:?}", slice.health);
        let kept_until = store.diagnose(id, None).expect("it can be repaired").keeps_until.get() as usize;
        drop(store);
        let base = with_everything_unsynced_lost(&scene.base);
        let original = folder(&base, &format!("sessions/{id}/"));
        let kept = events(&scene.doomed)[..kept_until].to_vec();
        // Nothing shows what a missing segment referred to, unless the manifest still pins it.
        let is_there = |parts: &&PlanParts| base.read_raw(&segment(id, parts)).is_some();
        let all = scene.doomed.iter().filter(is_there).flat_map(|parts| parts.events.clone()).collect();
        Self { base, id, prefix: slice.events, kept, all, original }
    }

    fn check(&self, image: &SimFs, acknowledged: bool) -> Result<(), String> {
        let store = open(image)?;
        let slice = store.read(self.id, None).map_err(|error| format!("cannot be read: {error}"))?;
        let expected = if slice.health.is_healthy() { &self.kept } else { &self.prefix };
        if slice.events != *expected {
            return Err(format!("{} events instead of {}", slice.events.len(), expected.len()));
        }
        let as_before = matches!(slice.health, SessionHealth::CorruptTail { .. }) && !acknowledged;
        if !slice.health.is_healthy() && !as_before {
            return Err(format!("health {:?}", slice.health));
        }
        let now = folder(image, &format!("sessions/{}/", self.id));
        if now != self.original && !self.has_backup(image) {
            return Err("something changed, and there is no whole backup".to_owned());
        }
        if slice.health.is_healthy() {
            // Nothing was acknowledged yet: the next writer makes it durable before relying on it.
            drop(store.lock(self.id).map_err(|error| format!("cannot go on: {error}"))?);
        } else {
            store.repair(self.id, None).map_err(|error| format!("again: {error}"))?;
        }
        let (_, swept) = (drop(store), open(image)?);
        swept.sweep(Sweep::Real).map_err(|error| format!("sweep: {error}"))?;
        let store = open(&with_everything_unsynced_lost(image))?;
        let slice = store.read(self.id, None).map_err(|error| format!("afterwards: {error}"))?;
        if !slice.health.is_healthy() || slice.events != self.kept {
            return Err(format!("afterwards: health {:?}, {} events", slice.health, slice.events.len()));
        }
        if !self.has_backup(image) {
            return Err("afterwards there is no whole backup".to_owned());
        }
        content_is_there(&store, &self.all).map_err(|what| format!("the backup's {what}"))?;
        let mut locked = store.lock(self.id).map_err(|error| format!("cannot go on: {error}"))?;
        let next = history::plans(31, &[Step::Advance])[1].in_session(self.id);
        let next = next.moved_to(locked.cursor().next_event_index);
        match locked.append(next.plan()) {
            Ok(Appended::Committed { .. }) => Ok(()),
            other => Err(format!("cannot append: {other:?}")),
        }
    }

    fn has_backup(&self, image: &SimFs) -> bool {
        (1..4).any(|number| folder(image, &format!("backups/{}-{number}/", self.id)) == self.original)
    }
}

/// The files of a folder with their bytes, without the lock file.
fn folder(sim: &SimFs, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let files = sim.all_files().into_iter();
    files
        .filter_map(|file| {
            let name = file.as_str().strip_prefix(prefix)?.to_owned();
            (name != ".lock").then(|| (name, sim.read_raw(&file).unwrap_or_default()))
        })
        .collect()
}

fn segment(id: SessionId, parts: &PlanParts) -> RelPath {
    let (first, last) = (parts.events[0].event_index.get(), parts.next_index().get() - 1);
    path(&format!("sessions/{id}/events/{first:08}-{last:08}.jsonl"))
}

pub(crate) fn repairing(effort: Effort) -> Findings {
    let flipped = |sim: &SimFs, id: SessionId, plans: &[PlanParts]| {
        let file = segment(id, &plans[1]);
        let mut bytes = sim.read_raw(&file).expect("a segment");
        bytes[40] ^= 4;
        sim.write_raw(&file, &bytes);
    };
    let missing = |sim: &SimFs, id: SessionId, plans: &[PlanParts]| sim.remove_raw(&segment(id, &plans[2]));
    let torn_manifest = |sim: &SimFs, id: SessionId, plans: &[PlanParts]| {
        let file = path(&format!("sessions/{id}/manifest.jsonl"));
        let mut bytes = sim.read_raw(&file).expect("a manifest");
        let end = bytes.len();
        bytes[end / 2] ^= 1;
        sim.write_raw(&file, &bytes);
        assert!(plans.len() > 2);
    };
    // A newer segment after a gap must not return as an orphan when the manifest is cut.
    let gap = |sim: &SimFs, id: SessionId, plans: &[PlanParts]| {
        let file = path(&format!("sessions/{id}/manifest.jsonl"));
        let bytes = sim.read_raw(&file).expect("a manifest");
        sim.write_raw(&file, &bytes[..bytes.len() * 2 / 3]);
        sim.remove_raw(&segment(id, &plans[2]));
    };
    let mut findings = Findings::default();
    let damages: [Damage<'_>; 4] = [&flipped, &missing, &torn_manifest, &gap];
    for damage in damages {
        let scene = Damaged::new(damage);
        let act = |store: &Store| store.repair(scene.id, None).map(|_| ()).map_err(|error| error.to_string());
        let check = |image: &SimFs, acknowledged: bool| scene.check(image, acknowledged);
        cut_everywhere(&scene.base, effort, &act, &check, &mut findings);
    }
    findings
}
