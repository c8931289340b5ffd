//! The crash proof of the local store: power cuts, I/O errors and rivals on a simulated disk (G10-G14).

mod backups;
mod check;
mod crash_states;
mod double_crashes;
mod effort;
mod imports;
mod io_errors;
mod parallel;
mod regressions;
mod rng;
mod script;
mod simulation;
mod upkeep;
mod world;

use effort::Effort;
use script::Script;

#[test]
fn figure_crash_states() {
    let effort = Effort::from_environment();
    let script = Script::new();
    let findings = crash_states::explore(&script, effort);
    println!("figure: crash states explored {}, violations {}", findings.states, findings.violations.len());
    findings.assert_none("crash states");
    assert!(findings.states >= effort.crash_states_min());
}

#[test]
fn figure_double_crashes() {
    let effort = Effort::from_environment();
    let findings = double_crashes::explore(&Script::new(), effort);
    println!("figure: double crashes explored {}, violations {}", findings.states, findings.violations.len());
    findings.assert_none("double crashes");
    assert!(findings.states >= effort.double_crashes_min());
}

#[test]
fn figure_io_error_loops() {
    let effort = Effort::from_environment();
    let findings = io_errors::explore(&Script::new(), effort);
    println!("figure: I/O error cases tried {}, violations {}", findings.states, findings.violations.len());
    findings.assert_none("I/O error loops");
}

#[test]
fn figure_interrupted_imports() {
    let findings = imports::explore(Effort::from_environment());
    println!("figure: interrupted imports {}, violations {}", findings.states, findings.violations.len());
    findings.assert_none("interrupted imports");
    assert!(findings.states >= 1_000, "{}", findings.states);
}

#[test]
fn figure_interrupted_backups_and_restores() {
    let findings = backups::explore(Effort::from_environment());
    println!(
        "figure: interrupted backups and restores {}, violations {}",
        findings.states,
        findings.violations.len()
    );
    findings.assert_none("interrupted backups and restores");
    assert!(findings.states >= 500, "{}", findings.states);
}

#[test]
fn figure_seeded_simulations() {
    let seeds = Effort::from_environment().seeds();
    let findings = parallel::each(seeds as usize, |seed, findings| {
        findings.states += 1;
        if let Err(violation) = simulation::run(seed as u64) {
            findings.record(violation);
        }
    });
    println!("figure: seeded simulations run {}, violations {}", findings.states, findings.violations.len());
    findings.assert_none("seeded simulations");
    assert_eq!(findings.states, seeds);
}

#[test]
fn figure_crashes_of_upkeep() {
    let effort = Effort::from_environment();
    let proofs = [
        ("removing and sweeping", upkeep::cleaning(effort)),
        ("keeping", upkeep::keeping(effort)),
        ("repairing", upkeep::repairing(effort)),
        ("removing on a failing disk", upkeep::failing_disks()),
    ];
    for (what, findings) in &proofs {
        println!("figure: {what}: states {}, violations {}", findings.states, findings.violations.len());
    }
    for (what, findings) in &proofs {
        findings.assert_none(what);
        assert!(findings.states > 20, "{what}");
    }
}

#[test]
fn seeds_that_failed_once_hold() {
    for seed in simulation::KEPT_SEEDS {
        simulation::run(seed).expect("a kept seed holds");
    }
}
