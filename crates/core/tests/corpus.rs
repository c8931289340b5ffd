//! Every real workflow file loads, compiles to a stable hash and runs to completion, unchanged (G21).

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test reads the files next to the workspace and fails loudly"
)]

mod driver;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workrail_core::compile::{CompileInput, FileOrigin, compile as compile_workflow};
use workrail_model::compiled::{CompiledWorkflow, ConditionTest, Expr, ForCount, LoopControl};

/// The files are not part of the project; without them there is nothing to test.
fn corpus() -> Option<Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    if !root.is_dir() {
        println!("skipped: the corpus of workflow files is not next to the workspace");
        return None;
    }
    let mut files = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    Some(files)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// What a file's loops and conditions need besides what the compiled form shows.
fn fixture(file: &str) -> Value {
    match file {
        "simple-polling.json" => json!({ "status": "pending", "attempts": 0 }),
        "simple-batch.json" => json!({ "items": ["a", "b", "c"] }),
        _ => json!({}),
    }
}

fn merged(base: &Value, over: &Value) -> Value {
    let mut merged = base.clone();
    for (key, value) in over.as_object().unwrap() {
        merged[key] = value.clone();
    }
    merged
}

fn compile(bytes: &[u8], file: &str) -> CompiledWorkflow {
    let input = CompileInput { origin: FileOrigin::Bundled, ..CompileInput::new(bytes, file) };
    compile_workflow(input).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Lists and counts for the loops, so that their bodies run.
fn loop_fixture(workflow: &CompiledWorkflow) -> Value {
    let mut fixture = json!({});
    for owner in &workflow.loops {
        match &owner.control {
            LoopControl::ForEach { items, .. } => {
                fixture[items] = json!([{ "name": "first" }, { "name": "second" }]);
            }
            LoopControl::For { count: ForCount::FromContext { context_key } } => {
                fixture[context_key] = json!(2)
            }
            LoopControl::For { .. } | LoopControl::While { .. } | LoopControl::Until { .. } => {}
        }
    }
    fixture
}

/// Adds a value that makes the first test on each variable hold.
fn steering_fixture(workflow: &CompiledWorkflow, fixture: &mut Value) {
    for condition in &workflow.conditions {
        if let ConditionTest::Context { expr } = &condition.test {
            steer(expr, fixture);
        }
    }
}

fn steer(expr: &Expr, fixture: &mut Value) {
    let mut set = |var: &String, value: Value| {
        if fixture.get(var).is_none() {
            fixture[var] = value;
        }
    };
    match expr {
        Expr::Equals { var, value }
        | Expr::Gte { var, value }
        | Expr::Lte { var, value }
        | Expr::Contains { var, value } => set(var, value.clone()),
        Expr::In { var, values } => set(var, values.first().cloned().unwrap_or(Value::Null)),
        Expr::Gt { var, value } => set(var, json!(value.as_f64().unwrap_or(0.0) + 1.0)),
        Expr::Lt { var, value } => set(var, json!(value.as_f64().unwrap_or(0.0) - 1.0)),
        Expr::Truthy { var } => set(var, json!(true)),
        Expr::And { all } => all.iter().for_each(|part| steer(part, fixture)),
        Expr::Or { any } => any.iter().for_each(|part| steer(part, fixture)),
        Expr::Not { .. } | Expr::NotEquals { .. } | Expr::Always | Expr::Malformed => {}
    }
}

/// Writes the value with its keys in another order; lists keep theirs.
fn shuffled(value: &Value, seed: u64, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            let turn = (seed as usize) % members.len().max(1);
            members.rotate_left(turn);
            if seed % 2 == 1 {
                members.reverse();
            }
            out.push('{');
            for (position, (key, member)) in members.into_iter().enumerate() {
                let comma = if position > 0 { "," } else { "" };
                out.push_str(&format!("{comma}{}:", json!(key)));
                if key == "outputRequired" {
                    // Readers see this order, so it is hashed.
                    out.push_str(&member.to_string());
                } else {
                    shuffled(member, seed / 2 + 1, out);
                }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                out.push_str(if position > 0 { "," } else { "" });
                shuffled(item, seed + position as u64, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string())
        }
    }
}

fn hash_is_stable(bytes: &[u8], file: &str, workflow: &CompiledWorkflow) {
    let hash = workflow.hash().unwrap();
    assert_eq!(compile(bytes, file).hash().unwrap(), hash, "{file}: twice");
    assert_eq!(compile(bytes, "another/place.json").hash().unwrap(), hash, "{file}: elsewhere");
    let value: Value = serde_json::from_slice(bytes).unwrap();
    // `Value` sorts its keys, so the order that is hashed is that of the text without shuffling.
    let sorted = compile(value.to_string().as_bytes(), file).hash().unwrap();
    for seed in 1..6 {
        let mut text = String::new();
        shuffled(&value, seed, &mut text);
        assert_eq!(compile(text.as_bytes(), file).hash().unwrap(), sorted, "{file}: seed {seed}");
    }
    let commented = format!("// a comment\n{}\n/* and another */", String::from_utf8_lossy(bytes));
    assert_eq!(compile(commented.as_bytes(), file).hash().unwrap(), hash, "{file}: JSONC");
    let read = CompiledWorkflow::parse(&workflow.to_canonical().unwrap()).unwrap();
    assert_eq!(&read, workflow, "{file}: the stored form is the whole workflow");
}

#[test]
fn figure_corpus() {
    let Some(files) = corpus() else { return };
    let mut passed = 0;
    let mut hashes = BTreeSet::new();
    for path in &files {
        let file = name(path);
        let bytes = std::fs::read(path).unwrap();
        let workflow = compile(&bytes, &file);
        hash_is_stable(&bytes, &file, &workflow);
        hashes.insert(workflow.hash().unwrap().to_string());
        let base = merged(&loop_fixture(&workflow), &fixture(&file));
        let plain = driver::run(&workflow, &driver::context(base.clone()), 500);
        let mut steered = base;
        steering_fixture(&workflow, &mut steered);
        let other = driver::run(&workflow, &driver::context(steered), 500);
        assert!(!plain.steps.is_empty() && !other.steps.is_empty(), "{file}");
        passed += 1;
    }
    assert_eq!(hashes.len(), files.len(), "different files have different hashes");
    println!("figure: corpus {passed}/{}", files.len());
    assert_eq!(files.len(), 24);
}

#[test]
fn a_string_body_sees_its_loop_variables() {
    let Some(files) = corpus() else { return };
    let Some(path) = files.iter().find(|path| name(path) == "simple-batch.json") else { return };
    let workflow = compile(&std::fs::read(path).unwrap(), "simple-batch.json");
    let run = driver::run(&workflow, &driver::context(json!({ "items": ["a", "b"] })), 50);
    assert_eq!(
        run.steps,
        [
            "load-data",
            "process-items@0::process-single-item",
            "process-items@1::process-single-item",
            "summarize"
        ]
    );
}
