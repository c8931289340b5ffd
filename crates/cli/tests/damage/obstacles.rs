//! Something that is not ours at the name of a temporary file, under every command that writes (G10, G17).
//!
//! A command must work, or be refused with an error that leads on. It must not write through a link. Once the obstacle is
//! gone, the store is intact and the same call works.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use workrail_testkit::home::{Home, User};
use workrail_testkit::proof;

use crate::advice;
use crate::commands::{Command, CommandResult, Effect, End};
use crate::coverage::temporary_files;
use crate::damages::{self, Damage};
use crate::differences::short;
use crate::faults::{has_happened, tried};
use crate::files::{Role, Target};
use crate::matrix::scratch;
use crate::template::Template;

/// By default, one in this many is tried.
const SAMPLED_ONE_IN: usize = 83;

const CONTENT: &str = "somebody else's";

struct Obstructed<'a> {
    target: &'a Target,
    damage: Damage,
    command: &'a Command,
}

impl Obstructed<'_> {
    fn name(&self) -> String {
        format!("{} / {} / {}", self.target.path.display(), self.damage.name(), self.command.name)
    }

    fn violations(&self, template: &Template, folder: &Path) -> Vec<String> {
        let _ = fs::remove_dir_all(folder);
        let home = template.home.copy_to(folder);
        let path = home.root().join(&self.target.path);
        home.write(&path, CONTENT);
        self.damage.apply(self.target, &home);
        let answer = self.command.run(&home);
        let mut found: Vec<String> = useless(&answer).into_iter().collect();
        if self.damage == Damage::LinkToOriginal
            && fs::read_to_string(home.home().join("moved")).unwrap() != CONTENT
        {
            found.push("it wrote through the link".to_owned());
        }
        damages::remove(&path);
        let verified = home.run(&["store", "verify", "--json"]);
        if verified.code != 0 {
            found.push(format!("verify: {}", short(&verified.out)));
        }
        if answer.end != End::Done {
            let again = self.command.run(&home);
            if again.end != End::Done && !has_happened(self.command, &home) {
                found.push(format!("the same call again: {:?} {}", again.end, short(&again.output)));
            }
        }
        found
    }
}

/// What is wrong with an answer, whatever is in the way.
fn useless(answer: &CommandResult) -> Option<String> {
    match &answer.end {
        End::Done => None,
        End::Problems => advice_missing(answer),
        End::Refused(code) if code == "none" || code.starts_with("INTERNAL") => {
            Some(format!("{code}: {}", short(&answer.output)))
        }
        End::Refused(_) => advice_missing(answer),
        End::Stopped(what) | End::Broken(what) => Some(format!("broke: {}", short(what))),
    }
}

fn advice_missing(answer: &CommandResult) -> Option<String> {
    let error = answer.value.get("error").unwrap_or(&answer.value);
    let leads_on = error["suggestion"].as_str().is_some_and(|text| !text.is_empty())
        || !advice::of(answer).is_empty()
        || advice::names_a_fix(&answer.output);
    (!leads_on).then(|| format!("without a next step: {}", short(&answer.output)))
}

/// The names of temporary files whose folders the template has.
fn targets(template: &Template) -> Vec<Target> {
    let home: &Home = &template.home;
    let paths =
        temporary_files(&template.victim.session).into_iter().map(|name| Path::new("data").join(name));
    let there = paths.filter(|path| home.root().join(path.parent().unwrap()).is_dir());
    there.map(|path| Target { name: "temporary file", role: Role::Disposable, path, twin: None }).collect()
}

#[test]
fn figure_obstacles_at_temporary_names() {
    let place = scratch();
    let template = Template::build(&place.path().join("template"), User::find(), 1);
    let commands: Vec<Command> =
        tried(&template).into_iter().filter(|command| command.effect != Effect::Looks).collect();
    let targets = targets(&template);
    let user = template.home.user();
    let is_possible = |damage: &Damage| {
        let restricts = matches!(damage, Damage::Unreadable | Damage::ReadOnly);
        (user.respects_permissions() || !restricts) && (user == User::Nobody || *damage != Damage::WrongOwner)
    };
    // Whatever blocks a lock is no plain file that we may write.
    let obstacles: Vec<Damage> =
        damages::ALL.into_iter().filter(|damage| damage.blocks_a_lock() && is_possible(damage)).collect();
    let mut all = Vec::new();
    for target in &targets {
        for &damage in &obstacles {
            all.extend(commands.iter().map(|command| Obstructed { target, damage, command }));
        }
    }
    let one_in = if proof::is_full() { 1 } else { SAMPLED_ONE_IN };
    let chosen: Vec<&Obstructed<'_>> = all.iter().step_by(one_in).collect();
    let (next, violations) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            let (chosen, next, violations, template) = (&chosen, &next, &violations, &template);
            let folder = place.path().join(format!("worker-{worker}"));
            scope.spawn(move || {
                while let Some(one) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = one.violations(template, &folder);
                    let found = found.into_iter().map(|what| format!("{}: {what}", one.name()));
                    violations.lock().unwrap().extend(found);
                }
            });
        }
    });
    let violations = violations.into_inner().unwrap();
    violations.iter().for_each(|violation| println!("violation: {violation}"));
    println!(
        "figure: obstacles at temporary names: {} names, {} kinds, {} commands, {} tried: {} violations",
        targets.len(),
        obstacles.len(),
        commands.len(),
        chosen.len(),
        violations.len()
    );
    assert!(violations.is_empty(), "{} violations, listed above", violations.len());
}
