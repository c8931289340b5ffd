//! Feeds the loader, the conditions and the prompt renderer broken input for a while.
//!
//! Not a benchmark, but like one it runs by the clock and prints: `WORKRAIL_FUZZ_SECONDS`, 30 by default.
//! Inputs are mutations of real files, from a seed that is printed; a panic, or an input that takes longer
//! than a second, fails the run and is printed in full.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "fuzzing by the clock reads it, and reports"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use workrail_core::compile::{CompileInput, FileOrigin, check};
use workrail_core::interpret;
use workrail_core::render::prompt::{Lifecycle, render_step, render_title};
use workrail_model::digest::Sha256;
use workrail_model::event::Context;

/// The time limit for one input.
const SLOWEST: Duration = Duration::from_secs(1);
/// A run of a mutated workflow is followed this far.
const STEPS_MAX: usize = 40;

const SEEDS: [&str; 4] = [
    include_str!("../../../workflows/wr.small_change.json"),
    include_str!("../../cli/src/workflows/author/template.json"),
    r#"{"id":"a.b","name":"n","description":"d","version":"1.0.0","assessments":[{"id":"ready","purpose":"p",
      "dimensions":[{"id":"c","purpose":"p","levels":["low","high"]}]}],"features":["wr.features.capabilities"],
      "steps":[{"id":"aaa","title":"T {{goal}}","prompt":"Do {{goal.name}} and {{items.length}}","assessmentRefs":["ready"],
      "requireConfirmation":{"kind":"human_approval"},"validationCriteria":[{"type":"regex","pattern":"(?!x)(a+)+$","message":"m"}],
      "promptFragments":[{"id":"f","text":"{{x}}","when":{"or":[{"var":"x","gt":1},{"not":{"var":"y","in":[1,"2",null]}}]}}]},
      {"id":"each","type":"loop","title":"L","loop":{"type":"forEach","items":"items","maxIterations":5},
      "body":[{"id":"bbb","title":"{{currentItem.name}}","prompt":"{{currentIndex}}","runCondition":{"var":"x","contains":"1"}}]}]}"#,
    r#"{"id":"a.c","name":"n","description":"d","version":"1.0.0","capabilities":{"required":["web_browsing"]},
      "steps":[{"id":"ttt","title":"T","templateCall":{"templateId":"wr.templates.routine.ideation","args":{"x":"y"}}},
      {"id":"ppp","type":"parallel","title":"P","parallelDelegations":[{"workflowId":"a.d","contextMapping":{"a":"b"}}]}]}"#,
];

/// A counter hashed: the same seed gives the same inputs everywhere.
struct Random {
    seed: u64,
    counter: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.counter += 1;
        let digest = Sha256::of_parts(&[&self.seed.to_be_bytes(), &self.counter.to_be_bytes()]);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest.as_bytes()[..8]);
        u64::from_be_bytes(bytes)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn main() -> ExitCode {
    let seconds =
        std::env::var("WORKRAIL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let started = Instant::now();
    let mut random = Random { seed: 20_261_115, counter: 0 };
    let (mut inputs, mut compiled, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
    while started.elapsed() < Duration::from_secs(seconds) {
        let (bytes, context) = input(&mut random);
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| exercise(&bytes, &context)));
        let took = began.elapsed();
        let Ok(did_compile) = outcome else {
            println!("PANIC on {:?}\ncontext {context:?}", String::from_utf8_lossy(&bytes));
            return ExitCode::FAILURE;
        };
        if took > SLOWEST {
            println!("HANG: {took:?} on {:?}\ncontext {context:?}", String::from_utf8_lossy(&bytes));
            return ExitCode::FAILURE;
        }
        inputs += 1;
        compiled += u64::from(did_compile);
        slowest = slowest.max(took);
    }
    println!(
        "figure: fuzz of loader, conditions and renderer: {inputs} inputs ({compiled} compiled) in {seconds} s, \
         0 panics, 0 hangs, slowest {slowest:?}"
    );
    ExitCode::SUCCESS
}

/// One mutated file and one random context.
fn input(random: &mut Random) -> (Vec<u8>, Context) {
    let seed = SEEDS[random.below(SEEDS.len())];
    let mut bytes = seed.as_bytes().to_vec();
    if random.below(8) == 0 {
        bytes = (0..random.below(400)).map(|_| random.next() as u8).collect();
    }
    for _ in 0..random.below(6) {
        mutate(&mut bytes, random);
    }
    let map: Map<String, Value> = ["goal", "items", "x", "y", "taskSize"]
        .into_iter()
        .map(|key| (key.to_owned(), value(random, 3)))
        .collect();
    (bytes, Context::new(map).unwrap_or_default())
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    const PIECES: [&str; 12] = [
        "{{",
        "}}",
        "\"",
        "[",
        "{",
        "null",
        "-1e308",
        "\\ud800",
        "\u{202e}",
        "/*",
        "wr.",
        "99999999999999999999",
    ];
    let at = random.below(bytes.len() + 1);
    match random.below(5) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].bytes())),
        3 => {
            let end = (at + random.below(60)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, piece));
        }
        _ => {
            let end = (at + random.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
    }
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(random.next() as i32),
        3 => json!(["", "1", " YES ", "large", "small", "{{goal}}"][random.below(6)]),
        4 => json!(f64::from_bits(random.next() >> 2)),
        5 => Value::Array((0..random.below(4)).map(|_| value(random, depth - 1)).collect()),
        _ => json!({ "name": value(random, depth - 1) }),
    }
}

/// Loads the file and, if it compiles, runs it: every step is rendered, every condition on the way evaluated.
fn exercise(bytes: &[u8], context: &Context) -> bool {
    let input = CompileInput { origin: FileOrigin::Bundled, ..CompileInput::new(bytes, "fuzz.json") };
    let checked = check(input);
    let _ = checked.diagnostics.to_string();
    let Some(workflow) = checked.workflow else { return false };
    let mut selection = interpret::start_in(interpret::Strictness::NeverStop, &workflow, context);
    for _ in 0..STEPS_MAX {
        let Ok(now) = &selection else { break };
        let Some(pending) = now.state.pending_step() else { break };
        let _ = render_title(&workflow, pending, context);
        let _ = render_step(&workflow, pending, context, Lifecycle::Rehydrate);
        let artifacts = [
            json!({ "kind": "wr.loop_control", "decision": "continue" }),
            json!({ "kind": "wr.assessment" }),
        ];
        let _ = interpret::check_output(
            &workflow,
            pending,
            interpret::Submitted {
                notes: Some("aaaaaaaaaaaaaaaaaaaaaaaaaaaa!"),
                artifacts: &artifacts,
                reported: &artifacts,
                context,
                given: context,
                known: &workrail_model::compiled::RequiredGrade::ALL,
            },
        );
        let strictness = interpret::Strictness::NeverStop;
        selection = interpret::advance_in(strictness, &workflow, &now.state, context, &artifacts);
    }
    true
}
