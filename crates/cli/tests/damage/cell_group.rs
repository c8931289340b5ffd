//! All chosen commands on one file with one kind of damage: a fresh copy for each command that writes, and what the
//! oracle says of every answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use workrail_testkit::home::Home;

use crate::advice::{self, Advice};
use crate::commands::{About, Call, Command, CommandResult, Compare, Effect, End};
use crate::damages::{Damage, FOREIGN};
use crate::differences::short;
use crate::file_tree::{self, Tree};
use crate::files::{Role, Target};
use crate::oracle::Case;
use crate::template::Template;

#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) target: &'static str,
    pub(crate) damage: String,
    pub(crate) command: String,
    pub(crate) what: String,
}

fn remove(path: &Path) {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
}

/// Whether it has what hooks observed for a session.
fn is_observed_of(path: &Path, session: &str) -> bool {
    path.starts_with("observed") && path.file_name().unwrap().to_string_lossy().starts_with(session)
}

/// All chosen commands on one target with one damage.
pub(crate) struct CellGroup<'a> {
    pub(crate) template: &'a Template,
    pub(crate) baseline: &'a BTreeMap<String, CommandResult>,
    pub(crate) target: &'a Target,
    pub(crate) damage: Damage,
    pub(crate) folder: &'a Path,
}

impl<'a> CellGroup<'a> {
    fn damaged(&self) -> Home {
        self.damaged_in(self.folder)
    }

    fn damaged_in(&self, folder: &Path) -> Home {
        let _ = fs::remove_dir_all(folder);
        let home = self.template.home.copy_to(folder);
        self.damage.apply(self.target, &home);
        home
    }

    pub(crate) fn run(&self, chosen: &[&Command]) -> Vec<Violation> {
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
        let before = file_tree::read(&home.data());
        let answer = command.run(home);
        let after = file_tree::read(&home.data());
        self.show(command, &answer);
        let mut found = case.judge(command, &answer);
        if command.name.starts_with("export") && answer.end == End::Done {
            let taken = home.run(&["session", "import", "../out.json", "--dry-run", "--json"]);
            if taken.code != 0 {
                found.push(format!("the exported file is refused: {}", short(&taken.out)));
            }
        }
        let differences = file_tree::differences(&before, &after);
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
        if case.is_gone() && (command.name == "gc" || command.name.starts_with("purge")) {
            return Vec::new();
        }
        let mut found = self.taken_away(command, home, before, after);
        if self.target.role == Role::Source && command.name == "sources sync" && answer.end == End::Done {
            found.extend(self.is_served(home));
        }
        let ours = command.about == About::Session(self.template.victim.session.clone());
        // A purged session has another id.
        let is_replaced = command.name.starts_with("purge");
        if case.pending && ours && answer.end == End::Done && !is_replaced {
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
            if file_tree::is_derived(path)
                || file_tree::is_working_file(path)
                || after.get(path) == Some(entry)
            {
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
            let collects = command.name == "gc" || command.name.starts_with("purge");
            let is_garbage = collects && digest.len() == 64 && !self.template.referrers.contains_key(digest);
            if !(is_restored || has_grown || is_applied || is_garbage) || name == FOREIGN && !is_applied {
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
            "delete" => path.starts_with(apart) || is_observed_of(path, &self.template.apart.session),
            "purge" => self.is_purged(command, path),
            "prefs" => path.ends_with("control.json"),
            "rotate" => path.ends_with("keys/keyring.json"),
            "token" => path.ends_with("keys/access-tokens.json"),
            "install" | "uninstall" => path.starts_with("clients"),
            _ => false,
        }
    }

    /// The session itself, and content that no other session refers to.
    fn is_purged(&self, command: &Command, path: &Path) -> bool {
        let About::Session(session) = &command.about else { return false };
        let name = path.file_name().unwrap().to_string_lossy();
        let referrers = self.template.referrers.get(name.trim_end_matches(".json"));
        path.starts_with(Path::new("sessions").join(session))
            || is_observed_of(path, session)
            || referrers.is_some_and(|all| all.iter().all(|of| of == session))
    }

    /// After a fetch, the workflows of all sources are served as before.
    fn is_served(&self, home: &Home) -> Option<String> {
        let health = home.run(&["workflow", "sources", "health", "--json"]);
        (health.code != 0)
            .then(|| format!("after the fetch, the sources are not healthy: {}", short(&health.out)))
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
        let file = self.target.path.file_name().unwrap().to_string_lossy();
        if end == End::Refused("STORE_IO".to_owned()) && answer.output.contains(&*file) {
            // It cannot be copied to a backup; the error says to move it elsewhere.
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
            // What cannot be read may be intact: only the person can say whether to give it up.
            "passkeys reset" => {
                let is_readable = !self.damage.blocks_a_lock() && self.damage != Damage::Huge;
                self.target.role == Role::Passkeys && is_readable
            }
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
            Ok(reply) if !reply.is_error => reply.data["nextCall"]["arguments"].clone(),
            Ok(reply) => return Some(format!("after the repair, resume says: {}", short(&reply.text))),
            Err(why) => return Some(format!("after the repair, resume breaks: {}", short(&why))),
        };
        server.close();
        let looked = resume("continue_workflow", next);
        (looked.end != End::Done)
            .then(|| format!("after the repair, the next call says: {}", short(&looked.output)))
    }
}
