//! A power cut at every operation of the script, in every modelled outcome.

use std::collections::BTreeSet;

use workrail_store_fs::sim::{CrashChoice, CrashLimits, Fault, FaultKind, FaultMode, SimFs};

use crate::check::{Look, Reach, after_crash, after_kill};
use crate::effort::Effort;
use crate::parallel::{self, Findings};
use crate::script::{Minting, Script};
use crate::world::{Ledger, World};

/// The operations of one step of an uninterrupted run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpRange {
    pub(crate) first_op: u64,
    pub(crate) end_op: u64,
}

/// Runs the script to its end; the first range is the opening of the store.
pub(crate) fn uninterrupted(script: &Script) -> (SimFs, Vec<OpRange>) {
    let sim = SimFs::new();
    let mut world = World::open(script, &sim, "boot", Ledger::default()).expect("a sound disk opens");
    let mut ranges = vec![OpRange { first_op: 0, end_op: sim.all_op_count() }];
    while world.ledger.next < script.steps.len() {
        let first_op = sim.all_op_count();
        world.step(Minting::First).expect("nothing fails on a sound disk");
        ranges.push(OpRange { first_op, end_op: sim.all_op_count() });
    }
    world.check_settled().expect("an uninterrupted run ends as planned");
    drop(world);
    (sim, ranges)
}

/// Runs the script on a new disk until the fault ends it (or to its end).
pub(crate) fn run_until(script: &Script, fault: Fault) -> (SimFs, Ledger) {
    let sim = SimFs::new();
    sim.set_fault(fault);
    let Ok(mut world) = World::open(script, &sim, "boot", Ledger::default()) else {
        return (sim, Ledger::default());
    };
    while world.ledger.next < script.steps.len() && world.step(Minting::First).is_ok() {}
    (sim, world.ledger)
}

pub(crate) fn power_cut(at_op: u64) -> Fault {
    Fault { at_op, kind: FaultKind::PowerCut, mode: FaultMode::Once }
}

/// A message from which the failure can be reproduced.
pub(crate) fn describe(op: u64, choice: &CrashChoice, cut: &SimFs, step: usize, what: &str) -> String {
    format!("op {op}, step {step}: {what}\n  {choice:?}\n  pending:\n{}", cut.describe_pending())
}

/// One state in this many continues to the end of the script, the others to the next append.
const END_EVERY: u64 = 64;

/// Explores the crash states; a state reached twice in a step counts once.
pub(crate) fn explore(script: &Script, effort: Effort) -> Findings {
    let (_, ranges) = uninterrupted(script);
    parallel::each(ranges.len(), |index, findings| {
        let mut seen = BTreeSet::new();
        let range = ranges[index];
        // One operation beyond the last: everything is done, and nothing else has begun.
        let last = index + 1 == ranges.len();
        for op in range.first_op..range.end_op + u64::from(last) {
            let (cut, ledger) = run_until(script, power_cut(op));
            let killed = cut.fork();
            killed.clear_fault();
            if let Err(failure) = after_kill(script, &ledger, &killed, Minting::Again) {
                findings.record(format!("op {op}, killed in step {}: {}", ledger.next, failure.into_text()));
            }
            let limits = CrashLimits { seed: op, ..effort.crash_limits() };
            cut.for_each_crash_image(&limits, &mut |choice, image| {
                let digest = image.digest();
                if !seen.insert(digest) {
                    return;
                }
                findings.states += 1;
                let retry = if digest & 1 == 0 { Minting::First } else { Minting::Again };
                let look = if digest & 6 == 0 { Look::Reader } else { Look::Writer };
                let reach =
                    if (digest >> 3).is_multiple_of(END_EVERY) { Reach::End } else { Reach::NextAppend };
                if let Err(failure) = after_crash(script, &ledger, &image, look, retry, reach) {
                    let what = format!("{} (retry {retry:?})", failure.into_text());
                    findings.record(describe(op, &choice, &cut, ledger.next, &what));
                }
            });
        }
    })
}
