//! Every operation of the script fails in every way, once and permanently; then the caller retries.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use workrail_ports::file_system::FsErrorKind;
use workrail_ports::session_store::SessionStore as _;
use workrail_store_fs::sim::{CrashLimits, Fault, FaultKind, FaultMode, SimFs};

use crate::check::{Look, Reach, after_crash};
use crate::crash_states::{OpRange, uninterrupted};
use crate::double_crashes::first_crashes;
use crate::effort::Effort;
use crate::parallel::{self, Findings};
use crate::script::{Minting, Script};
use crate::world::{Failure, Ledger, World, violated};

const KINDS: [FaultKind; 8] = [
    FaultKind::Error(FsErrorKind::Io),
    FaultKind::Error(FsErrorKind::NoSpace),
    FaultKind::Error(FsErrorKind::Quota),
    FaultKind::Error(FsErrorKind::ReadOnly),
    FaultKind::Error(FsErrorKind::PermissionDenied),
    FaultKind::Error(FsErrorKind::TooManyOpenFiles),
    FaultKind::ShortWrite,
    FaultKind::FsyncLies,
];

const MODES: [FaultMode; 2] = [FaultMode::Once, FaultMode::Forever];

/// Power cuts right after a failed call: nothing unsynced survives, plus a few other outcomes.
fn crash_limits(seed: u64) -> CrashLimits {
    CrashLimits { max_exhaustive_names: 2, random_subsets: 1, random_cuts: 0, max_product: 3, seed }
}

/// A disk on which the script is about to run a step.
struct Before {
    sim: SimFs,
    ledger: Ledger,
    range: OpRange,
}

/// A case: which operation fails, and how.
#[derive(Clone, Copy, Debug)]
struct Case {
    fault: Fault,
    retry: Minting,
}

fn cases(op: u64) -> impl Iterator<Item = Case> {
    let retry = if op.is_multiple_of(2) { Minting::First } else { Minting::Again };
    KINDS
        .into_iter()
        .flat_map(move |kind| MODES.map(|mode| Case { fault: Fault { at_op: op, kind, mode }, retry }))
}

/// Calls `work`, and reports a panic as a violation.
fn guarded(work: impl FnOnce() -> Result<(), Failure>) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(Failure::into_text),
        Err(_) => Err("panicked".to_owned()),
    }
}

pub(crate) fn explore(script: &Script, effort: Effort) -> Findings {
    let befores = before_each_step(script);
    let mut findings = parallel::each(befores.len(), |index, findings| {
        let before = &befores[index];
        for op in 0..before.range.end_op - before.range.first_op {
            let mut seen = BTreeSet::new();
            for case in cases(op) {
                let mut met = Met::NoOperation;
                if let Err(what) = guarded(|| fail_step(script, before, case, &mut met, &mut seen)) {
                    findings.record(format!("step {}, {case:?}: {what}", before.ledger.next));
                }
                findings.states += u64::from(met == Met::AnOperation);
            }
        }
    });
    let recovery = explore_recovery(script, effort);
    findings.absorb(recovery);
    // The first opening of a store: the recovery of a crash before anything was done.
    let empty = Before { sim: SimFs::new(), ledger: Ledger::default(), range: uninterrupted(script).1[0] };
    fail_each_op_of_recovery(script, &empty, 0, &mut findings);
    findings
}

/// Whether the fault applies to the operation that it was meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    NoOperation,
    AnOperation,
}

fn before_each_step(script: &Script) -> Vec<Before> {
    let (_, ranges) = uninterrupted(script);
    let sim = SimFs::new();
    let mut world = World::open(script, &sim, "boot", Ledger::default()).expect("a sound disk opens");
    let mut befores = Vec::new();
    for range in &ranges[1..] {
        befores.push(Before { sim: sim.fork(), ledger: world.ledger.clone(), range: *range });
        world.step(Minting::First).expect("nothing fails on a sound disk");
    }
    befores
}

/// A process that has already worked on the session, like the script's own.
fn warmed<'s>(script: &'s Script, before: &Before) -> World<'s> {
    let sim = before.sim.fork();
    let world = World::open(script, &sim, "boot", before.ledger.clone()).expect("a sound disk opens");
    if !world.ledger.log.is_empty() {
        drop(world.store.lock(script.session).expect("a sound session locks"));
    }
    world
}

/// The distinguishable disks that failed calls left.
type Seen = BTreeSet<(u64, String, String)>;

/// Several errors of one operation can leave the same disk. Crashes and other processes depend on the disk alone, so
/// they are tried once for each.
fn is_new(seen: &mut Seen, sim: &SimFs, kind: FaultKind) -> bool {
    let effect = match kind {
        FaultKind::Error(_) => "none".to_owned(),
        FaultKind::ShortWrite | FaultKind::FsyncLies | FaultKind::PowerCut => format!("{kind:?}"),
    };
    seen.insert((sim.digest(), sim.describe_pending(), effect))
}

fn fail_step(
    script: &Script,
    before: &Before,
    case: Case,
    met: &mut Met,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let mut world = warmed(script, before);
    let sim = world.sim().clone();
    sim.set_fault(Fault { at_op: sim.all_op_count() + case.fault.at_op, ..case.fault });
    let outcome = world.step(Minting::First);
    if sim.fault_hits() == 0 {
        return Ok(());
    }
    *met = Met::AnOperation;
    sim.clear_fault();
    match outcome {
        Err(Failure::Violated(text)) => return violated(text),
        // An error that may be ignored must not have lost anything.
        Ok(()) => world.check_durable()?,
        Err(Failure::Refused(_)) => {}
    }
    if is_new(seen, &sim, case.fault.kind) {
        crash_now(script, &world.ledger, &sim, case)?;
        let mut other = World::open(script, &sim.fork(), "boot", world.ledger.clone())?;
        carry_on(&mut other, case.retry, "another process")?;
    }
    carry_on(&mut world, case.retry, "the same process")
}

/// Repeats the interrupted step and continues to the next append; all of it must be durable.
fn carry_on(world: &mut World<'_>, retry: Minting, who: &str) -> Result<(), Failure> {
    let named = |failure: Failure| Failure::Violated(format!("{who}: {}", failure.into_text()));
    world.check_log(Look::Writer).map_err(named)?;
    world.recover(retry, Reach::NextAppend).map_err(named)?;
    world.check_settled().map_err(named)
}

/// A power cut right after the failed call.
fn crash_now(script: &Script, ledger: &Ledger, sim: &SimFs, case: Case) -> Result<(), Failure> {
    let mut outcome = Ok(());
    sim.for_each_crash_image(&crash_limits(case.fault.at_op), &mut |choice, image| {
        if outcome.is_ok()
            && let Err(failure) =
                after_crash(script, ledger, &image, Look::Writer, case.retry, Reach::NextAppend)
        {
            outcome = violated(format!("a crash right after, {choice:?}: {}", failure.into_text()));
        }
    });
    outcome
}

/// Does the same for every operation of the recovery from a few crashes.
fn explore_recovery(script: &Script, effort: Effort) -> Findings {
    let (_, ranges) = uninterrupted(script);
    let every = ranges.len() / effort.faulty_recoveries();
    parallel::each(effort.faulty_recoveries(), |index, findings| {
        for first in first_crashes(script, ranges[1 + index * every], 1) {
            let ledger = first.ledger.clone();
            let mut settled = World::open(script, &first.image.fork(), "boot after", ledger)
                .expect("the disk after a crash opens");
            settled.check_log(Look::Reader).expect("crash states hold");
            let base = Before { sim: first.image, ledger: settled.ledger, range: ranges[0] };
            fail_each_op_of_recovery(script, &base, first.op, findings);
        }
    })
}

fn fail_each_op_of_recovery(script: &Script, base: &Before, crash_op: u64, findings: &mut Findings) {
    for op in 0.. {
        let mut seen = BTreeSet::new();
        let before = findings.states;
        for case in cases(op) {
            let mut met = Met::NoOperation;
            if let Err(what) = guarded(|| fail_recovery(script, base, case, &mut met, &mut seen)) {
                findings.record(format!("recovery from a crash at op {crash_op}, {case:?}: {what}"));
            }
            findings.states += u64::from(met == Met::AnOperation);
        }
        if findings.states == before {
            return;
        }
    }
}

fn fail_recovery(
    script: &Script,
    base: &Before,
    case: Case,
    met: &mut Met,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let ledger = base.ledger.clone();
    let sim = base.sim.fork();
    sim.set_fault(case.fault);
    let (ledger, outcome) = match World::open(script, &sim, "boot after", ledger.clone()) {
        Ok(mut world) => {
            let outcome = world.recover(case.retry, Reach::NextAppend);
            (world.ledger, outcome)
        }
        Err(error) => (ledger, Err(error.into())),
    };
    if sim.fault_hits() == 0 {
        return Ok(());
    }
    *met = Met::AnOperation;
    sim.clear_fault();
    if let Err(Failure::Violated(text)) = outcome {
        return violated(text);
    }
    if !is_new(seen, &sim, case.fault.kind) {
        return Ok(());
    }
    crash_now(script, &ledger, &sim, case)?;
    let mut world = World::open(script, &sim, "boot after", ledger)?;
    carry_on(&mut world, case.retry, "the process after a failed recovery")
}
