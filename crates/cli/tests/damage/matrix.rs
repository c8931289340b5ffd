//! Runs the cells: copies the store, damages it, runs the command, asks the oracle, and prints the table.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use workrail_testkit::home::User;
use workrail_testkit::proof;
use workrail_testkit::skipped::skip;

use crate::cell_group::{CellGroup, Violation};
use crate::commands::{Command, CommandResult, Effect, End};
use crate::damages::{self, Damage};
use crate::file_tree;
use crate::files::{OF_LONG_SESSIONS, Target, targets};
use crate::rows::commands;
use crate::template::Template;

/// By default, one in this many cells is tried.
const SAMPLED_ONE_IN: usize = 139;

/// A temporary folder in memory if the machine has one: nothing here is about losing power.
pub(crate) fn scratch() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    let made = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    let made = made.unwrap();
    // Another user works below it.
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).unwrap();
    made
}

/// The same choice on every machine, with a different mix of commands for every pair of target and damage.
fn is_chosen(target: usize, damage: usize, command: usize) -> bool {
    let full = proof::is_full();
    full || (target * 29 + damage * 13 + command * 7).is_multiple_of(SAMPLED_ONE_IN)
}

/// How many checkpoints give a session enough events for its caches.
const CHECKPOINTS_OF_A_LONG_SESSION: usize = 220;

#[test]
fn figure_damage_matrix() {
    try_cells("damage matrix", 1, &|_| true);
}

#[test]
fn figure_damage_matrix_of_a_long_session() {
    let tried = try_cells("damage matrix of a long session", CHECKPOINTS_OF_A_LONG_SESSION, &|target| {
        OF_LONG_SESSIONS.contains(&target.name)
    });
    assert_eq!(tried, OF_LONG_SESSIONS.len(), "kinds of files that only a long session has");
}

/// Tries the cells of some targets and prints the results. Returns the number of targets.
#[expect(clippy::print_stdout, reason = "figures are for people to read")]
fn try_cells(figure: &str, checkpoints: usize, is_wanted: &dyn Fn(&Target) -> bool) -> usize {
    let user = User::find();
    match user {
        User::Nobody => {}
        User::Ourselves => skip("damage: files of another user", "only root can give files away"),
        User::OnlyRoot => skip("damage: permissions, files of another user", "setpriv cannot drop root"),
    }
    let place = scratch();
    let template = Template::build(&place.path().join("template"), user, checkpoints);
    let (mut targets, commands) = (targets(&template), commands(&template));
    targets.retain(is_wanted);
    let baseline = baseline(&template, &commands, place.path());
    let only = std::env::var("WORKRAIL_DAMAGE_ONLY").unwrap_or_default();
    let mut groups = Vec::new();
    for (t, target) in targets.iter().enumerate() {
        for (d, damage) in
            damages::ALL.into_iter().enumerate().filter(|(_, damage)| damage.fits(target, &template.home))
        {
            let name = |command: &Command| format!("{} / {} / {}", target.name, damage.name(), command.name);
            let chosen: Vec<&Command> = commands
                .iter()
                .enumerate()
                .filter(|(c, command)| is_chosen(t, d, *c) && name(command).contains(&only))
                // It searches every byte of every file.
                .filter(|(_, command)| damage != Damage::Huge || !command.name.starts_with("purge"))
                .map(|(_, command)| command)
                .collect();
            if !chosen.is_empty() {
                groups.push((target, damage, chosen));
            }
        }
    }
    let (next, violations) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            let (groups, next, violations, template, baseline) =
                (&groups, &next, &violations, &template, &baseline);
            let folder = place.path().join(format!("worker-{worker}"));
            scope.spawn(move || {
                while let Some((target, damage, chosen)) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let group = CellGroup { template, baseline, target, damage: *damage, folder: &folder };
                    let found = group.run(chosen);
                    violations.lock().unwrap().extend(found);
                }
            });
        }
    });
    let cells: usize = groups.iter().map(|(_, _, chosen)| chosen.len()).sum();
    let violations = violations.into_inner().unwrap();
    print_table(&targets, &groups, &violations);
    println!(
        "figure: {figure}: {} kinds of files, {} kinds of damage, {} commands, {cells} cells tried: {} violations",
        targets.len(),
        damages::ALL.len(),
        commands.len(),
        violations.len()
    );
    assert!(violations.is_empty(), "{} violations, listed above", violations.len());
    targets.len()
}

#[expect(clippy::print_stdout, reason = "figures are for people to read")]
fn print_table(targets: &[Target], groups: &[(&Target, Damage, Vec<&Command>)], violations: &[Violation]) {
    println!("{:<22} {:>8} {:>11}", "file", "cells", "violations");
    for target in targets {
        let cells: usize = groups
            .iter()
            .filter(|(of, _, _)| of.name == target.name)
            .map(|(_, _, chosen)| chosen.len())
            .sum();
        let bad = violations.iter().filter(|violation| violation.target == target.name).count();
        println!("{:<22} {cells:>8} {bad:>11}", target.name);
    }
    for Violation { target, damage, command, what } in violations {
        println!("violation: {target} / {damage} / {command}: {what}");
    }
}

/// The answers of the undamaged store.
fn baseline(template: &Template, commands: &[Command], place: &Path) -> BTreeMap<String, CommandResult> {
    let mut answers = BTreeMap::new();
    for command in commands {
        let home = template.home.copy_to(&place.join("baseline"));
        let before = file_tree::read(&home.data());
        let answer = command.run(&home);
        // There is nothing to repair, which some commands refuse.
        let refused = matches!(answer.end, End::Refused(_)) && command.effect != Effect::Repairs;
        assert!(
            !refused && !matches!(answer.end, End::Stopped(_) | End::Broken(_)),
            "{}: {answer:?}",
            command.name
        );
        if command.effect == Effect::Looks {
            assert_eq!(
                file_tree::differences(&before, &file_tree::read(&home.data())),
                Vec::<String>::new(),
                "{}",
                command.name
            );
        }
        answers.insert(command.name.clone(), answer);
        fs::remove_dir_all(home.root()).unwrap();
    }
    answers
}
