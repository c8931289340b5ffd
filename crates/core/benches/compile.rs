//! What compiling costs compared to parsing the same JSON, and whether it grows with the number of steps.
//!
//! A plain main: the two ratios are figures with targets, not a distribution to analyse.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads files and the clock, and reports"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_core::compile::{CompileInput, FileOrigin, compile};

fn main() {
    match largest_corpus_file() {
        Some(bytes) => {
            let parsed = fastest(|| {
                black_box(serde_json::from_slice::<Value>(black_box(&bytes)).expect("the file is JSON"));
            });
            let compiled = fastest(|| run(&bytes));
            let ratio = compiled.as_secs_f64() / parsed.as_secs_f64();
            println!("figure: compile/parse {ratio:.1}x (target <= 20; {compiled:?} against {parsed:?})");
        }
        None => println!("skipped: the corpus of workflow files is not next to the workspace"),
    }
    let (few, many) = (generated(100), generated(1_000));
    let per_step = |bytes: &[u8], steps: f64| fastest(|| run(bytes)).as_secs_f64() / steps;
    let ratio = per_step(&many, 1_000.0) / per_step(&few, 100.0);
    println!("figure: per-step 1000/100 {ratio:.2}x (target <= 1.3)");
}

fn run(bytes: &[u8]) {
    let input =
        CompileInput { origin: FileOrigin::Bundled, ..CompileInput::new(black_box(bytes), "bench.json") };
    black_box(compile(input).expect("the file compiles"));
}

/// The minimum of many rounds: noise only adds.
fn fastest(mut work: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    let until = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < until {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed());
    }
    best
}

fn largest_corpus_file() -> Option<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let files = std::fs::read_dir(root).ok()?.filter_map(|entry| std::fs::read(entry.ok()?.path()).ok());
    files.filter(|bytes| bytes.first() == Some(&b'{')).max_by_key(Vec::len)
}

/// Steps of the kinds found in real files: prompts, blocks, conditions, loops.
fn generated(steps: u32) -> Vec<u8> {
    let steps: Vec<Value> = (0..steps)
        .map(|n| match n % 4 {
            0 => json!({ "id": format!("s{n}"), "title": "Plain", "prompt": "Do the work that {{goal}} asks for." }),
            1 => json!({ "id": format!("s{n}"), "title": "Blocks", "promptBlocks": {
                "goal": "Reach the goal.", "constraints": ["One.", "Two."], "procedure": ["First.", "Second."],
                "outputRequired": { "notesMarkdown": "What was done." }, "verify": ["It holds."] } }),
            2 => json!({ "id": format!("s{n}"), "title": "Conditional", "prompt": "Do it.",
                "runCondition": { "or": [{ "var": "a", "equals": "x" }, { "var": "b", "not_equals": "y" }] } }),
            _ => json!({ "id": format!("s{n}"), "type": "loop", "title": "Loop",
                "loop": { "type": "for", "count": 2, "maxIterations": 3 },
                "body": [{ "id": format!("b{n}"), "title": "Body", "prompt": "Again." }] }),
        })
        .collect();
    json!({ "id": "bench.generated", "name": "Bench", "description": "Generated.", "version": "1.0.0", "steps": steps })
        .to_string()
        .into_bytes()
}
