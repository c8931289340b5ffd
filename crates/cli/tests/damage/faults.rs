//! A fault at every system call of every command that touches the data directory (G10, G14, G19, G70).
//!
//! Each command is traced once to number its calls. Then it runs repeatedly on a fresh copy of the store, each time
//! with one call that fails or kills the process. Afterwards the store must be intact, hold everything acknowledged,
//! and the same call must succeed without the fault. `strace` counts the calls of each thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use workrail_testkit::home::{Home, User};
use workrail_testkit::proof;
use workrail_testkit::skipped::skip;

use crate::commands::{About, Call, Command, CommandResult, Effect, End};
use crate::differences::short;
use crate::file_tree::{self, Tree};
use crate::matrix::scratch;
use crate::rows::{ADDED_SOURCE, commands};
use crate::template::{GIT_SOURCE, Template};

/// By default, one in this many faults is tried.
const SAMPLED_ONE_IN: usize = 431;

/// How a call can fail; `KILL` ends the process as it enters the call.
const FAULTS: [(&str, &[&str]); 19] = [
    ("openat", &["EIO", "EMFILE", "EACCES", "EROFS"]),
    ("openat2", &["EIO", "EMFILE", "EACCES", "EROFS", "ENOSPC", "KILL"]),
    ("read", &["EIO"]),
    ("pread64", &["EIO"]),
    ("write", &["EIO", "ENOSPC", "EDQUOT", "KILL"]),
    ("pwrite64", &["EIO", "ENOSPC"]),
    ("fsync", &["EIO", "ENOSPC", "KILL"]),
    ("rename", &["EIO", "ENOSPC", "EACCES", "EROFS", "KILL"]),
    ("renameat", &["EIO", "ENOSPC", "EACCES", "EROFS", "KILL"]),
    ("renameat2", &["EIO", "ENOSPC", "EACCES", "EROFS", "KILL"]),
    ("unlink", &["EIO", "EACCES", "EROFS", "KILL"]),
    ("unlinkat", &["EIO", "EACCES", "EROFS", "KILL"]),
    ("mkdirat", &["EIO", "ENOSPC", "EACCES", "EROFS", "KILL"]),
    ("getdents64", &["EIO", "EACCES"]),
    ("fstat", &["EIO"]),
    ("newfstatat", &["EIO", "EACCES"]),
    ("statx", &["EIO", "EACCES"]),
    ("ftruncate", &["EIO", "ENOSPC", "KILL"]),
    ("flock", &["EIO", "ENOLCK", "KILL"]),
];

#[derive(Debug)]
struct Fault<'a> {
    command: &'a Command,
    call: &'static str,
    when: usize,
    error: &'static str,
}

impl Fault<'_> {
    fn name(&self) -> String {
        format!("{}: {} at {} {}", self.command.name, self.error, self.call, self.when)
    }

    fn injection(&self) -> String {
        let effect = match self.error {
            "KILL" => "signal=KILL".to_owned(),
            error => format!("error={error}"),
        };
        format!("inject={}:{effect}:when={}", self.call, self.when)
    }
}

/// Only traced calls stop the program; descriptors are shown with their files.
const TRACER: [&str; 6] = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-o"];

/// Calls are counted per thread, so a fault may also hit another thread's call: the loader's, or one of the runtime's
/// own. The outcome is then not ours to judge.
fn hit_something_else(log: &Path, home: &Home) -> bool {
    let data = home.data().to_str().unwrap().to_owned();
    let log = fs::read_to_string(log).unwrap_or_default();
    log.lines().any(|line| line.contains("INJECTED") && !line.contains(&data))
}

fn may_trace(home: &Home) -> bool {
    // As the user of the home: tracing may be forbidden for some users only.
    let ran = home.run_in(&[&TRACER[..], &["/dev/null", "-e", "trace=fsync"]].concat(), &["--version"]);
    ran.code == 0
}

/// Each kind of call with the numbers at which it touches the data directory, in any thread.
fn calls(command: &Command, template: &Template, folder: &Path) -> BTreeSet<(usize, usize)> {
    let home = template.home.copy_to(folder);
    let trace = home.home().join("trace");
    let names: Vec<String> = FAULTS.iter().map(|(call, _)| format!("?{call}")).collect();
    let traced = format!("trace={}", names.join(","));
    let answer = command.run_in(&home, &[&TRACER[..], &[trace.to_str().unwrap(), "-e", &traced]].concat());
    assert!(!matches!(answer.end, End::Stopped(_) | End::Broken(_)), "{}: {answer:?}", command.name);
    let (mut counts, mut found) = (BTreeMap::new(), BTreeSet::new());
    let data = home.data().to_str().unwrap().to_owned();
    for line in fs::read_to_string(trace).unwrap().lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((name, _)) = rest.trim_start().split_once('(') else { continue };
        let Some(kind) = FAULTS.iter().position(|(call, _)| *call == name) else { continue };
        let count: &mut usize = counts.entry((thread.to_owned(), kind)).or_default();
        *count += 1;
        if line.contains(&data) {
            found.insert((kind, *count));
        }
    }
    fs::remove_dir_all(folder).unwrap();
    found
}

/// Commands about the victim and about the store; those about its neighbours make the same calls.
pub(crate) fn tried(template: &Template) -> Vec<Command> {
    let mut all = commands(template);
    // Usable keys are not replaced, and the victim's log is what is compared.
    all.retain(|command| {
        command.name != "keys new" && command.name != format!("purge {}", template.victim.word)
    });
    let purged = format!("purge {}", template.apart.word);
    let of_others = ["keep", "keep finished", "delete", &purged];
    all.retain(|command| match &command.about {
        About::Session(session) => {
            *session == template.victim.session || of_others.contains(&command.name.as_str())
        }
        About::Store | About::Elsewhere => true,
    });
    all
}

#[test]
fn figure_faults_at_system_calls() {
    let place = scratch();
    let template = Template::build(&place.path().join("template"), User::find(), 1);
    if !may_trace(&template.home) {
        skip("faults at system calls", "strace is not here or may not trace");
        return;
    }
    let full = proof::is_full();
    let only = std::env::var("WORKRAIL_FAULT_ONLY").unwrap_or_default();
    let commands = tried(&template);
    let mut faults = Vec::new();
    let mut reached = 0;
    for command in &commands {
        for (kind, when) in calls(command, &template, &place.path().join("traced")) {
            let (call, errors) = FAULTS[kind];
            reached += errors.len();
            faults.extend(errors.iter().map(|error| Fault { command, call, when, error }));
        }
    }
    let chosen: Vec<&Fault<'_>> = faults
        .iter()
        .enumerate()
        .filter(|(number, fault)| (full || number % SAMPLED_ONE_IN == 0) && fault.name().contains(&only))
        .map(|(_, fault)| fault)
        .collect();
    let before = file_tree::read(&template.home.data());
    let undisturbed = undisturbed(&template, &commands, &place.path().join("undisturbed"));
    let (next, felt, violations) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            let (chosen, next, felt, violations) = (&chosen, &next, &felt, &violations);
            let folder = place.path().join(format!("worker-{worker}"));
            let trial = Trial { template: &template, before: &before, undisturbed: &undisturbed, folder };
            scope.spawn(move || {
                while let Some(fault) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (end, found) = trial.run_with(fault);
                    felt.fetch_add(usize::from(end != End::Done), Ordering::Relaxed);
                    violations
                        .lock()
                        .unwrap()
                        .extend(found.into_iter().map(|what| format!("{}: {what}", fault.name())));
                }
            });
        }
    });
    let violations = violations.into_inner().unwrap();
    violations.iter().for_each(|violation| println!("violation: {violation}"));
    println!(
        "figure: faults at system calls: {} commands, {reached} faults within reach, {} tried, {} ended the call: {} violations",
        commands.len(),
        chosen.len(),
        felt.into_inner(),
        violations.len()
    );
    assert!(violations.is_empty(), "{} violations, listed above", violations.len());
}

/// The victim's log after each command that advances it, without faults.
fn undisturbed(template: &Template, commands: &[Command], folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut logs = BTreeMap::new();
    for command in commands.iter().filter(|command| advances(command, template)) {
        let home = template.home.copy_to(folder);
        command.run(&home);
        logs.insert(command.name.clone(), recorded(&home, template));
        fs::remove_dir_all(folder).unwrap();
    }
    logs
}

fn advances(command: &Command, template: &Template) -> bool {
    command.effect == Effect::Writes && command.about == About::Session(template.victim.session.clone())
}

struct Trial<'a> {
    template: &'a Template,
    /// The data directory before any command.
    before: &'a Tree,
    undisturbed: &'a BTreeMap<String, Vec<String>>,
    folder: PathBuf,
}

impl Trial<'_> {
    /// Runs a command with its fault: returns how it ended, and what is wrong then or afterwards.
    fn run_with(&self, fault: &Fault<'_>) -> (End, Vec<String>) {
        let _ = fs::remove_dir_all(&self.folder);
        let home = self.template.home.copy_to(&self.folder);
        let trace = format!("trace={}", fault.call);
        let injection = fault.injection();
        let log = home.home().join("trace");
        let wrapper = [&TRACER[..], &[log.to_str().unwrap(), "-e", &trace, "-e", &injection]].concat();
        let answer = fault.command.run_in(&home, &wrapper);
        let mut found = Vec::new();
        if !hit_something_else(&log, &home) {
            found.extend(broken(fault, &answer));
        }
        let differences = file_tree::differences(self.before, &file_tree::read(&home.data()));
        match fault.command.effect {
            // The store is unchanged, so everything else is known.
            Effect::Looks if differences.is_empty() => {}
            Effect::Looks => found.push(format!("a look wrote: {}", differences.join(", "))),
            Effect::Writes | Effect::Repairs => found.extend(self.afterwards(fault, &answer, &home)),
        }
        (answer.end, found)
    }

    /// The store must be intact, have everything acknowledged, and the same call must succeed.
    fn afterwards(&self, fault: &Fault<'_>, answer: &CommandResult, home: &Home) -> Vec<String> {
        let mut found = Vec::new();
        let before = kinds_of(self.template.events(&self.template.victim.session).iter());
        let after = recorded(home, self.template);
        if !after.starts_with(&before) {
            found.push(format!("of {} events {} are left", before.len(), after.len()));
        }
        let expected = self.undisturbed.get(&fault.command.name);
        if answer.end == End::Done && expected.is_some_and(|expected| *expected != after) {
            found.push("acknowledged and not recorded".to_owned());
        }
        let verified = home.run(&["store", "verify", "--json"]);
        if verified.code != 0 {
            found.push(format!("verify: {}", short(&verified.out)));
        }
        let again = fault.command.run(home);
        let is_recorded = expected.is_some_and(|expected| *expected == after);
        if again.end != End::Done && !is_recorded && !has_happened(fault.command, home) {
            found.push(format!("the same call again: {:?} {}", again.end, short(&again.output)));
        }
        let retried = recorded(home, self.template);
        // A person's decision is recorded each time it is given; a tool call is replayed.
        let is_replayed = matches!(fault.command.call, Call::Tool(..));
        let is_as_expected =
            |expected: &Vec<String>| retried == *expected || !is_replayed && retried.starts_with(expected);
        if expected.is_some_and(|expected| !is_as_expected(expected)) {
            found.push(format!("after the retry the log has {} events: {retried:?}", retried.len()));
        }
        found
    }
}

/// Whether a call that cannot be repeated has had its effect, although its answer was an error.
pub(crate) fn has_happened(command: &Command, home: &Home) -> bool {
    match (command.name.split(' ').next(), &command.about) {
        (Some("purge" | "delete"), About::Session(session)) => {
            home.run(&["show", session, "--json"]).code != 0
        }
        (Some("passkeys"), _) => {
            let shown = home.run(&["store", "passkeys", "show", "--json"]);
            shown.code == 0 && !shown.out.contains("\"state\": \"enrolled\"")
        }
        (Some("sources"), _) => {
            let names = |source: &str| {
                let configured = home.run(&["config", "get", "sources.git", "--json"]);
                configured.code == 0 && configured.out.contains(source)
            };
            match command.name.as_str() {
                "sources add git" => names(ADDED_SOURCE),
                "sources remove" => !names(GIT_SOURCE),
                _ => false,
            }
        }
        _ => false,
    }
}

/// A fault must lead to a typed error, or to an answer that does not need the call.
fn broken(fault: &Fault<'_>, answer: &CommandResult) -> Option<String> {
    let End::Broken(what) = &answer.end else {
        let is_useless =
            matches!(&answer.end, End::Refused(code) if code == "none" || code.starts_with("INTERNAL"));
        return is_useless.then(|| format!("{:?}: {}", answer.end, short(&answer.output)));
    };
    let is_expected = fault.error == "KILL" && !what.contains("panicked at");
    (!is_expected).then(|| format!("broke: {}", short(what)))
}

/// Without evidence: what a hook saw, or the state of the folder, is recorded only if it can be read (G104).
fn kinds_of<'a>(events: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let kinds = events.map(|event| event["kind"].as_str().unwrap_or_default().to_owned());
    kinds.filter(|kind| kind != "evidence_recorded").collect()
}

/// The kinds of the events that the log of the victim shows.
fn recorded(home: &Home, template: &Template) -> Vec<String> {
    let log = home.run(&["log", &template.victim.session, "--json"]);
    let log: Value = serde_json::from_str(&log.out).unwrap_or_default();
    kinds_of(log["events"].as_array().into_iter().flatten())
}
