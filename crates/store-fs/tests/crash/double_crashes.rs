//! A second power cut at every operation of the recovery from the first.

use std::collections::BTreeSet;

use workrail_store_fs::sim::{CrashLimits, SimFs};

use crate::check::{Look, Reach, after_crash};
use crate::crash_states::{OpRange, describe, power_cut, run_until, uninterrupted};
use crate::effort::Effort;
use crate::parallel::{self, Findings};
use crate::script::{Minting, Script};
use crate::world::{Ledger, World};

/// The disk that a first crash left, and what was acknowledged before it.
#[derive(Debug)]
pub(crate) struct FirstCrash {
    pub(crate) op: u64,
    pub(crate) image: SimFs,
    pub(crate) ledger: Ledger,
    rank: u64,
}

/// First crashes of one step, spread evenly over its states: some that tore the manifest, some that did not.
pub(crate) fn first_crashes(script: &Script, range: OpRange, each: usize) -> Vec<FirstCrash> {
    let (mut torn, mut clean) = (Vec::new(), Vec::new());
    for op in range.first_op..range.end_op {
        let (cut, ledger) = run_until(script, power_cut(op));
        let limits = CrashLimits { max_product: 24, seed: op, ..CrashLimits::default() };
        cut.for_each_crash_image(&limits, &mut |_, image| {
            // A digest serves as a random number that is the same in every run.
            let rank = image.digest().wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let list = if is_torn(script, &ledger, &image) { &mut torn } else { &mut clean };
            list.push(FirstCrash { op, image, ledger: ledger.clone(), rank });
        });
        for list in [&mut torn, &mut clean] {
            list.sort_by_key(|crash| crash.rank);
            list.dedup_by_key(|crash| crash.rank);
            list.truncate(each);
        }
    }
    torn.append(&mut clean);
    torn
}

/// Whether the acknowledged groups are followed by bytes that are not a group.
fn is_torn(script: &Script, ledger: &Ledger, image: &SimFs) -> bool {
    let manifest = image.read_raw(&script.manifest()).unwrap_or_default();
    let groups = ledger.log.iter().enumerate().map(|(i, minting)| script.planned(i, *minting).group.len());
    let begun = manifest.get(groups.sum()..).unwrap_or_default();
    !begun.is_empty() && script.planned(ledger.log.len(), Minting::First).group != begun
}

pub(crate) fn explore(script: &Script, effort: Effort) -> Findings {
    let (_, ranges) = uninterrupted(script);
    parallel::each(ranges.len(), |index, findings| {
        for first in first_crashes(script, ranges[index], effort.first_crashes_per_step()) {
            for retry in [Minting::First, Minting::Again] {
                crash_again(script, &first, retry, effort, findings);
            }
        }
    })
}

fn crash_again(script: &Script, first: &FirstCrash, retry: Minting, effort: Effort, findings: &mut Findings) {
    let (look, reach) = (Look::Reader, Reach::NextAppend);
    let settled = match after_crash(script, &first.ledger, &first.image.fork(), look, retry, reach) {
        // The numbers drawn on the copy are not those of the disk itself.
        Ok(settled) => Ledger { activity: first.ledger.activity, ..settled },
        Err(failure) => {
            return findings.record(format!("first crash at op {}: {}", first.op, failure.into_text()));
        }
    };
    let mut seen = BTreeSet::new();
    for op in 0.. {
        let cut = first.image.fork();
        cut.set_fault(power_cut(op));
        let ledger = recover_until_cut(script, &cut, &settled, retry);
        if cut.fault_hits() == 0 {
            return;
        }
        let limits = CrashLimits { seed: op, ..effort.second_crash_limits() };
        let look = if op.is_multiple_of(4) { Look::Reader } else { Look::Writer };
        cut.for_each_crash_image(&limits, &mut |choice, image| {
            if !seen.insert(image.digest()) {
                return;
            }
            findings.states += 1;
            if let Err(failure) = after_crash(script, &ledger, &image, look, retry, reach) {
                let what = format!("second crash: {} (retry {retry:?})", failure.into_text());
                let text = describe(op, &choice, &cut, ledger.next, &what);
                findings.record(format!("first crash at op {}, then {text}", first.op));
            }
        });
    }
}

/// Recovers until the next power cut; returns what was acknowledged by then.
fn recover_until_cut(script: &Script, cut: &SimFs, settled: &Ledger, retry: Minting) -> Ledger {
    match World::open(script, cut, "second boot", settled.clone()) {
        Ok(mut world) => {
            // Fails at the power cut; everything it acknowledged before is in the ledger.
            let _ = world.recover(retry, Reach::NextAppend);
            world.ledger
        }
        Err(_) => settled.clone(),
    }
}
