//! Runs the cells: copies the store, damages it, runs the command, asks the oracle, and prints the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use workrail_testkit::home::{Home, User};
use workrail_testkit::skipped::skip;

use crate::advice::{self, Advice};
use crate::commands::{About, Call, Command, CommandResult, Compare, Effect, End, commands};
use crate::damages::{self, Damage, FOREIGN};
use crate::differences::short;
use crate::files::{Role, Target, targets};
use crate::oracle::Case;
use crate::template::Template;
use crate::tree::{self, Tree};

/// By default, one in this many cells is tried.
const SAMPLED_ONE_IN: usize = 61;

#[derive(Debug)]
struct Violation {
    target: &'static str,
    damage: String,
    command: String,
    what: String,
}

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
    let full = std::env::var("WORKRAIL_PROOF").is_ok_and(|level| level == "full");
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
    let of_long_sessions = ["session cache", "cached projection", "cached keys"];
    let tried = try_cells("damage matrix of a long session", CHECKPOINTS_OF_A_LONG_SESSION, &|target| {
        of_long_sessions.contains(&target.name)
    });
    assert_eq!(tried, of_long_sessions.len(), "kinds of files that only a long session has");
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
                    let group = Group { template, baseline, target, damage: *damage, folder: &folder };
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
        let before = tree::read(&home.data());
        let answer = command.run(&home);
        // There is nothing to repair, which some commands refuse.
        let refused = matches!(answer.end, End::Refused(_)) && command.effect != Effect::Repairs;
        assert!(!refused && !matches!(answer.end, End::Broken(_)), "{}: {answer:?}", command.name);
        if command.effect == Effect::Looks {
            assert_eq!(
                tree::differences(&before, &tree::read(&home.data())),
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

fn remove(path: &Path) {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
}

/// All chosen commands on one target with one damage.
struct Group<'a> {
    template: &'a Template,
    baseline: &'a BTreeMap<String, CommandResult>,
    target: &'a Target,
    damage: Damage,
    folder: &'a Path,
}

impl<'a> Group<'a> {
    fn damaged(&self) -> Home {
        self.damaged_in(self.folder)
    }

    fn damaged_in(&self, folder: &Path) -> Home {
        let _ = fs::remove_dir_all(folder);
        let home = self.template.home.copy_to(folder);
        self.damage.apply(self.target, &home);
        home
    }

    fn run(&self, chosen: &[&Command]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut home = None;
        let mut followed = BTreeSet::new();
        for command in chosen {
            let reusable = home.take().filter(|_| command.effect == Effect::Looks);
            let on = reusable.unwrap_or_else(|| self.damaged());
            let case = Case::new(self.template, self.baseline, self.target, self.damage, &on);
            let (mut found, unchanged, advised) = self.cell(&case, command, &on);
            let new = advised.into_iter().filter(|advice| followed.insert(advice.clone()));
            found.extend(new.filter_map(|advice| self.follow(&advice)));
            violations.extend(found.into_iter().map(|what| Violation {
                target: self.target.name,
                damage: self.damage.name(),
                command: command.name.clone(),
                what,
            }));
            home = unchanged.then_some(on);
        }
        let _ = fs::remove_dir_all(self.folder);
        violations
    }

    /// Prints an answer if only part of the matrix is run.
    #[expect(clippy::print_stdout, reason = "answers are for people to read")]
    fn show(&self, command: &Command, answer: &CommandResult) {
        if std::env::var_os("WORKRAIL_DAMAGE_SHOW").is_some() {
            let (target, damage) = (self.target.name, self.damage.name());
            println!(
                "cell: {target} / {damage} / {}: {:?}: {}",
                command.name,
                answer.end,
                short(&answer.output)
            );
        }
    }

    /// Whether something of another kind is in the place of the target.
    fn is_obstacle(&self, home: &Home) -> bool {
        let kind = |home: &Home| {
            fs::symlink_metadata(home.root().join(&self.target.path)).map(|found| found.file_type())
        };
        kind(home).is_ok_and(|now| kind(&self.template.home).is_ok_and(|then| now != then))
    }

    /// What is wrong with a recommended command, on a store with the same damage.
    fn follow(&self, advice: &Advice) -> Option<String> {
        let Some(help) = self.template.help(&advice.path()) else {
            return Some(format!("names a command that does not exist: {}", advice.line()));
        };
        let folder = self.folder.with_extension("advised");
        let home = self.damaged_in(&folder);
        let mut answer = advice.follow(&help, self.template, &home);
        // Some advice is to move the obstacle away first.
        if answer.as_ref().is_some_and(|answer| matches!(answer.end, End::Refused(_)))
            && self.is_obstacle(&home)
        {
            remove(&home.root().join(&self.target.path));
            answer = advice.follow(&help, self.template, &home);
        }
        let _ = fs::remove_dir_all(folder);
        let answer = answer.filter(|answer| !advice.leads_on(answer))?;
        Some(format!("recommends `{}`, which does not help: {}", advice.line(), short(&answer.output)))
    }

    /// What is wrong in one cell, whether the store is unchanged, and what the answer recommends.
    fn cell(&self, case: &Case<'_>, command: &Command, home: &Home) -> (Vec<String>, bool, Vec<Advice>) {
        let before = tree::read(&home.data());
        let answer = command.run(home);
        let after = tree::read(&home.data());
        self.show(command, &answer);
        let mut found = case.judge(command, &answer);
        if command.name.starts_with("export") && answer.end == End::Done {
            let taken = home.run(&["session", "import", "../out.json", "--dry-run", "--json"]);
            if taken.code != 0 {
                found.push(format!("the exported file is refused: {}", short(&taken.out)));
            }
        }
        let differences = tree::differences(&before, &after);
        match command.effect {
            Effect::Looks if differences.is_empty() => {}
            Effect::Looks => {
                // A replay is a writer, which rolls a completed write forward.
                let is_replay = command.name.starts_with("replay");
                let rolled = is_replay && case.pending;
                // It takes the session's lock, and creates it if it is missing.
                let locked = is_replay && differences.iter().all(|name| name.ends_with("/.lock created"));
                // A server creates the folders that it needs.
                let made = self.target.role == Role::Base
                    && self.damage == Damage::Missing
                    && matches!(command.call, Call::Tool(..))
                    && differences.iter().all(|difference| difference.ends_with(" created"));
                if !rolled && !locked && !made {
                    found.push(format!("a look wrote: {}", differences.join(", ")));
                }
            }
            Effect::Writes => {
                found.extend(self.after_writing(case, command, &answer, home, (&before, &after)))
            }
            Effect::Repairs => {
                found.extend(self.after_repair(case, command, &answer, home, (&before, &after)))
            }
        }
        let unchanged = command.effect == Effect::Looks && differences.is_empty();
        // What the command says in every store is no advice about this one.
        let usual = advice::of(&self.baseline[&command.name]);
        let advised = advice::of(&answer).into_iter().filter(|advice| !usual.contains(advice)).collect();
        (found, unchanged, advised)
    }

    /// A writer removes nothing; once the damaged file is restored, the store is what it was.
    fn after_writing(
        &self,
        case: &Case<'_>,
        command: &Command,
        answer: &CommandResult,
        home: &Home,
        (before, after): (&Tree, &Tree),
    ) -> Vec<String> {
        // Content without sessions looks like what deleted sessions leave.
        if case.is_gone() && command.name == "gc" {
            return Vec::new();
        }
        let mut found = self.taken_away(command, home, before, after);
        let ours = command.about == About::Session(self.template.victim.session.clone());
        if case.pending && ours && answer.end == End::Done {
            found.extend(
                self.events_at_least(home, self.template.events(&self.template.victim.session).len()),
            );
        }
        let truth = matches!(self.target.role, Role::Log | Role::Content) && case.harms;
        if !truth || (ours && answer.end == End::Done) {
            return found;
        }
        self.damage.undo(self.target, self.template, home);
        let verified = home.run(&["store", "verify", "--json"]);
        if verified.code != 0 {
            found.push(format!("with the file back in place, verify says: {}", short(&verified.out)));
        }
        let name = format!("sessions show {}", self.template.victim.word);
        let show =
            Call::Program(["show", &self.template.victim.session, "--json"].map(str::to_owned).to_vec());
        let show = Command { name: name.clone(), call: show, ..command.clone() }.run(home);
        if show.value != self.baseline[&name].value {
            found.push("with the file back in place, the session is not what it was".to_owned());
        }
        found
    }

    /// Files that were removed or changed without a reason.
    fn taken_away(&self, command: &Command, home: &Home, before: &Tree, after: &Tree) -> Vec<String> {
        let mut found = Vec::new();
        for (path, entry) in before {
            if tree::is_derived(path) || tree::is_working_file(path) || after.get(path) == Some(entry) {
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy();
            let original = self.template.home.data().join(path);
            let now = fs::read(home.data().join(path)).ok();
            let was = fs::read(&original).ok();
            let is_restored = now.is_some() && now == was;
            let has_grown = name == "manifest.jsonl"
                && now.as_ref().zip(was.as_ref()).is_some_and(|(now, was)| now.starts_with(was));
            let is_applied = self.is_applied(command, path);
            let digest = name.trim_end_matches(".json");
            let is_garbage =
                command.name == "gc" && digest.len() == 64 && !self.template.referrers.contains_key(digest);
            if !(is_restored || has_grown || is_applied || is_garbage) || name == FOREIGN {
                found.push(format!("{} was changed or removed", path.display()));
            }
        }
        found
    }

    /// Whether this command is meant to remove it.
    fn is_applied(&self, command: &Command, path: &Path) -> bool {
        let apart = Path::new("sessions").join(&self.template.apart.session);
        match command.name.split(' ').next().unwrap_or_default() {
            // Observations are moved into the log with the step.
            "advance" => path.ends_with("control.json") || path.starts_with("observed"),
            "hook," => path.starts_with("observed"),
            "unkeep" => path.ends_with("keep"),
            "delete" => path.starts_with(apart),
            "install" | "uninstall" => path.starts_with("clients"),
            _ => false,
        }
    }

    fn events_at_least(&self, home: &Home, expected: usize) -> Option<String> {
        let log = home.run(&["log", &self.template.victim.session, "--json"]);
        let log: Value = serde_json::from_str(&log.out).unwrap_or_default();
        let events = log["events"].as_array().map_or(0, Vec::len);
        (events < expected).then(|| format!("{events} events of {expected} are left"))
    }

    /// A repaired session verifies, has kept what could be kept, and continues.
    fn after_repair(
        &self,
        case: &Case<'_>,
        command: &Command,
        answer: &CommandResult,
        home: &Home,
        (before, after): (&Tree, &Tree),
    ) -> Vec<String> {
        let session = match &command.about {
            About::Session(session) => session,
            About::Store => return self.after_restore(case, answer, home),
            About::Elsewhere => return self.after_new_keys(case, command, answer, home),
        };
        if case.is_sound(session) {
            return self.taken_away(command, home, before, after);
        }
        let Some(expected) = case.events_safe() else {
            let is_done = answer.end == End::Done;
            return if is_done { self.taken_away(command, home, before, after) } else { Vec::new() };
        };
        let path = home.root().join(&self.target.path);
        let mut end = answer.end.clone();
        if end != End::Done && answer.output.contains("cannot be copied to a backup") {
            // The error says to move it elsewhere.
            remove(&path);
            end = command.run(home).end;
        }
        if end != End::Done {
            return vec![format!("could be repaired and was not: {}", short(&answer.output))];
        }
        let mut found = Vec::new();
        let verified = home.run(&["store", "verify", session, "--json"]);
        if verified.code != 0 {
            found.push(format!("after the repair, verify says: {}", short(&verified.out)));
        }
        if *session == self.template.victim.session {
            found.extend(self.events_at_least(home, expected));
        }
        found.extend(self.continues(home, session));
        found
    }

    /// With the backup everything is as it was, as far as permissions allow.
    fn after_restore(&self, case: &Case<'_>, answer: &CommandResult, home: &Home) -> Vec<String> {
        let is_lost_folder = self.target.role == Role::Base && case.is_emptied();
        let truth = matches!(self.target.role, Role::Log | Role::Content) && case.harms || is_lost_folder;
        if !truth || case.is_forbidden() {
            return Vec::new();
        }
        if answer.end != End::Done {
            return vec![format!("could be restored and was not: {}", short(&answer.output))];
        }
        let mut found = Vec::new();
        let verified = home.run(&["store", "verify", "--json"]);
        if verified.code != 0 {
            found.push(format!("after the restore, verify says: {}", short(&verified.out)));
        }
        let victim = &self.template.victim;
        found.extend(self.events_at_least(home, self.template.events(&victim.session).len()));
        found.extend(self.continues(home, &victim.session));
        found
    }

    /// With new keys every run can be found again.
    fn after_new_keys(
        &self,
        case: &Case<'_>,
        command: &Command,
        answer: &CommandResult,
        home: &Home,
    ) -> Vec<String> {
        let replaceable = match command.name.as_str() {
            "new http secret" => self.target.role == Role::HttpSecret,
            _ if self.target.name == "keys folder" => matches!(self.damage, Damage::Missing | Damage::Empty),
            _ => self.target.name == "keyring" && case.harms && !case.has_usable_keys,
        };
        match (replaceable, &answer.end) {
            (false, _) => Vec::new(),
            (true, End::Done) => self.continues(home, &self.template.victim.session).into_iter().collect(),
            (true, _) => vec![format!("new keys were not made: {}", short(&answer.output))],
        }
    }

    /// A new chat finds the run by its label and reads its step.
    fn continues(&self, home: &Home, session: &str) -> Option<String> {
        let template = self.template;
        let run = [&template.victim, &template.sharing, &template.apart]
            .into_iter()
            .find(|run| run.session == session)?;
        let resume = |tool, arguments: Value| {
            let call = Call::Tool(tool, arguments);
            let command = Command {
                name: "resume".to_owned(),
                effect: Effect::Looks,
                about: About::Store,
                compare: Compare::Success,
                signs: true,
                call,
            };
            command.run(home)
        };
        let mut server = home.server().ok()?;
        let found = server.try_call("resume_session", json!({ "run": run.label }));
        let next = match found {
            Ok(reply) if !reply.is_error => reply.structured["nextCall"]["arguments"].clone(),
            Ok(reply) => return Some(format!("after the repair, resume says: {}", short(&reply.text))),
            Err(why) => return Some(format!("after the repair, resume breaks: {}", short(&why))),
        };
        server.close();
        let looked = resume("continue_workflow", next);
        (looked.end != End::Done)
            .then(|| format!("after the repair, the next call says: {}", short(&looked.output)))
    }
}
