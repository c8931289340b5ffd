//! What a new process costs in a large store, and in a long session (G18, G23).
//!
//! Prints a table and fails above the targets. Over many sessions, `resume_session`, `session list` with and without
//! `--all`, and `show` and `report` by label take at most 10 times what `ls -U -s` of the sessions folder takes. A start is measured with
//! and without an idempotency key, in a new process and in one that has started runs before. The first rehydrate of a
//! run with 5,000 completed steps takes at most 3 times that of one with 50.
//!
//! `WORKRAIL_PROOF=full` measures 20,000 sessions and 5,000 steps; without it a sample of both, whose ratios are
//! printed but not checked, because starting a process dominates them.
#![expect(clippy::print_stdout, reason = "a benchmark reports")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use serde_json::json;
use workrail_core::label::RunLabel;
use workrail_model::digest::Sha256;
use workrail_testkit::home::Home;
use workrail_testkit::large_store::SessionTemplate;
use workrail_testkit::proof;

/// The program of this build, or another one that `WORKRAIL_TEST_PROGRAM` names.
fn program() -> PathBuf {
    std::env::var_os("WORKRAIL_TEST_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_workrail").into(), PathBuf::from)
}

const REPETITIONS: usize = 7;
const LISTING_RATIO_MAX: f64 = 10.0;
const REHYDRATE_RATIO_MAX: f64 = 3.0;
const FEW_STEPS: usize = 50;
/// With 20,000 sessions, 180,000 files in all that `gc` has to look at and remove.
const UNUSED_FILES_PER_SESSION: u64 = 9;

fn main() -> ExitCode {
    let full = proof::is_full();
    let (sessions, steps) = if full { (20_000, 5_000) } else { (1_000, 500) };
    let large = large_store(sessions);
    let long = long_session(steps);
    if large <= LISTING_RATIO_MAX && long <= REHYDRATE_RATIO_MAX || !full {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A home with a workflow of three steps.
fn home() -> Home {
    let home = Home::new(program());
    let step = |id: &str| json!({ "id": id, "title": format!("Step {id}"), "prompt": "Do it." });
    write(&home, "bench.flow", &json!([step("one"), step("two"), step("three")]));
    home
}

fn write(home: &Home, id: &str, steps: &serde_json::Value) {
    home.workflow(&json!({
        "id": id, "name": "Bench", "version": "1.0.0", "description": "Measured.", "steps": steps,
    }));
}

/// A run that completed its first steps; returns the last state token.
fn run(home: &Home, workflow: &str, steps: usize) -> String {
    let mut client = home.client();
    let goal = "Give the login form ooooooo a retry budget";
    let mut reply = client.call("start_workflow", json!({ "workflowId": workflow, "goal": goal }));
    for step in 0..steps {
        assert!(!reply.is_error, "{}", reply.text);
        let notes = format!("Step {step} of ooooooo: the parser, the lexer and their tests were changed.");
        let output = json!({ "notesMarkdown": notes });
        let ack = reply.string("ackToken");
        reply = client.call("continue_workflow", json!({ "ackToken": ack, "output": output }));
    }
    assert!(!reply.is_error, "{}", reply.text);
    client.close();
    reply.string("stateToken")
}

fn timed(command: &mut Command) -> Duration {
    let begin = Instant::now();
    let done = command.output().expect("the program runs");
    let taken = begin.elapsed();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    taken
}

type Measure<'a> = Box<dyn Fn() -> Duration + 'a>;

/// The median time of each. They alternate, so that a machine that is busy for a while slows all alike.
fn middles<const N: usize>(measures: &[Measure<'_>; N]) -> [Duration; N] {
    let rounds: Vec<[Duration; N]> =
        (0..REPETITIONS).map(|_| std::array::from_fn(|at| measures[at]())).collect();
    std::array::from_fn(|at| {
        let mut times: Vec<Duration> = rounds.iter().map(|round| round[at]).collect();
        times.sort_unstable();
        times[times.len() / 2]
    })
}

/// The worst ratio to a plain listing.
fn large_store(sessions: u64) -> f64 {
    let home = home();
    let state = run(&home, "bench.flow", 2);
    let data = home.data();
    let runs = SessionTemplate::of(&data).multiply(&data, sessions - 1, "ooooooo");
    // Of so many runs, some share a label.
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for (_, run) in &runs {
        *named.entry(RunLabel::of(*run).to_string()).or_default() += 1;
    }
    let is_unique = |(label, count): &(String, usize)| *count == 1 && !state.contains(label.as_str());
    let (label, _) = named.into_iter().find(is_unique).expect("some label names one run");
    let first = timed(&mut home.command(&["session", "list"]));
    println!("{sessions} sessions; a listing without an index: {first:.0?}");
    let folder = data.join("sessions");
    let resume = || {
        let begin = Instant::now();
        let mut client = home.client();
        let found = client.call("resume_session", json!({ "query": "login 0000500" }));
        assert!(!found.is_error, "{}", found.text);
        client.close();
        begin.elapsed()
    };
    println!("a first resume_session, which builds the index: {:.0?}", resume());
    let ran = |arguments: Vec<&str>| timed(&mut home.command(&arguments));
    let [listing, rows @ ..] = middles(&[
        Box::new(|| timed(Command::new("ls").args(["-U", "-s"]).arg(&folder))),
        Box::new(resume),
        Box::new(|| ran(vec!["session", "list"])),
        Box::new(|| ran(vec!["session", "list", "--all"])),
        Box::new(|| ran(vec!["show", &label])),
        Box::new(|| ran(vec!["report", &label])),
    ]);
    println!("{:<28} {listing:>10.1?}", "ls -U -s");
    let names = ["resume_session", "session list", "session list --all", "show LABEL", "report LABEL"];
    let mut worst: f64 = 0.0;
    for (name, taken) in names.into_iter().zip(rows) {
        let ratio = taken.as_secs_f64() / listing.as_secs_f64();
        worst = worst.max(ratio);
        println!("{name:<28} {taken:>10.1?}  {ratio:>6.1} times (at most {LISTING_RATIO_MAX})");
    }
    starts(&home);
    println!("{:<28} {:>10.1?}", "doctor", timed(&mut home.command(&["doctor"])));
    println!("{:<28} {:>10.1?}", "store verify", timed(&mut home.command(&["store", "verify"])));
    sweep(&home, sessions * UNUSED_FILES_PER_SESSION);
    worst
}

/// The first start of a process, and a later one, with and without a key.
fn starts(home: &Home) {
    let next_key = Cell::new(0);
    let start = |is_keyed: bool, starts: usize| {
        let mut call = json!({ "workflowId": "bench.flow", "goal": "Measure a start" });
        let mut client = home.client();
        let mut last = Duration::ZERO;
        for _ in 0..starts {
            if is_keyed {
                next_key.set(next_key.get() + 1);
                call["idempotencyKey"] = json!(format!("key-{}", next_key.get()));
            }
            let begin = Instant::now();
            let started = client.call("start_workflow", call.clone());
            last = begin.elapsed();
            assert!(!started.is_error, "{}", started.text);
        }
        client.close();
        last
    };
    let measures: [Measure<'_>; 4] = [
        Box::new(|| start(false, 1)),
        Box::new(|| start(true, 1)),
        Box::new(|| start(false, 2)),
        Box::new(|| start(true, 2)),
    ];
    let names = ["first start", "first start with a key", "a later start", "a later start with a key"];
    for (name, taken) in names.into_iter().zip(middles(&measures)) {
        println!("{name:<28} {taken:>10.1?}");
    }
}

/// Removes content that no session needs, compared with `rm` of as many files.
fn sweep(home: &Home, files: u64) {
    let (blobs, others) = (home.data().join("blobs"), home.home().join("others"));
    std::fs::create_dir(&others).expect("a new folder");
    for number in 0..files {
        let text = number.to_string();
        let name = Sha256::of(text.as_bytes()).hex();
        for folder in [&blobs, &others] {
            std::fs::write(folder.join(&name), &text).expect("a file is written");
        }
    }
    let removed = timed(Command::new("rm").arg("-r").arg(&others));
    let swept = timed(&mut home.command(&["store", "gc"]));
    let left = std::fs::read_dir(&blobs).expect("a folder").count();
    assert!(left < 10, "{left} files are left");
    let ratio = swept.as_secs_f64() / removed.as_secs_f64();
    println!("sweeping {files} files: {swept:.1?}; rm: {removed:.1?}: {ratio:.1} times");
}

/// The first rehydrate of a long run in a new process, compared with that of a short one.
fn long_session(steps: usize) -> f64 {
    let played = |steps: usize| {
        let home = home();
        let round = json!({ "id": "round", "title": "Round", "prompt": "Do the next one." });
        let repeated = |id: &str, count: usize, body: serde_json::Value| {
            let times = json!({ "type": "for", "count": count, "maxIterations": count });
            json!({ "id": id, "type": "loop", "title": "Rounds", "loop": times, "body": [body] })
        };
        // A single loop may not have so many rounds.
        let inner = repeated("inner", 100, round);
        write(&home, "bench.long", &json!([repeated("outer", steps / 100 + 1, inner)]));
        let state = run(&home, "bench.long", steps);
        (home, state)
    };
    let (short, long) = (played(FEW_STEPS), played(steps));
    let rehydrate = |(home, state): &(Home, String)| {
        let mut client = home.client();
        let begin = Instant::now();
        let looked = client.call("continue_workflow", json!({ "stateToken": state }));
        let taken = begin.elapsed();
        assert!(!looked.is_error, "{}", looked.text);
        client.close();
        taken
    };
    let [few, many] = middles(&[Box::new(|| rehydrate(&short)), Box::new(|| rehydrate(&long))]);
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    println!("first rehydrate at {FEW_STEPS} steps: {few:.1?}, at {steps}: {many:.1?}");
    println!("{:<28} {ratio:>6.1} times (at most {REHYDRATE_RATIO_MAX})", "ratio");
    ratio
}
