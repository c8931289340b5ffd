//! Authored workflows from source to completion: compiler, interpreter, output checks, raw input.

#![expect(clippy::unwrap_used, reason = "tests fail loudly")]

mod bounds;
mod compiling;
mod context_keys;
mod delivered;
#[path = "../driver/mod.rs"]
mod driver;
mod flow;
mod output;
mod random;
mod raw;
mod rendering;
mod trial;

use serde_json::{Value, json};
use workrail_core::compile::{CompileInput, compile};
use workrail_model::compiled::CompiledWorkflow;

/// A workflow around some steps.
pub(crate) fn workflow(steps: Value) -> Value {
    json!({
        "id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0", "steps": steps,
    })
}

pub(crate) fn compiled(source: &Value) -> CompiledWorkflow {
    compile(CompileInput::new(source.to_string().as_bytes(), "test.json"))
        .unwrap_or_else(|problems| panic!("{problems}"))
}

pub(crate) fn plain(id: &str) -> Value {
    json!({ "id": id, "title": format!("Title of {id}"), "prompt": format!("Do {id}.") })
}

/// A decision step of a loop.
pub(crate) fn decide(id: &str) -> Value {
    json!({
        "id": id, "title": "Decide", "prompt": "Go on or stop?",
        "outputContract": { "contractRef": "wr.contracts.loop_control" },
    })
}

/// A loop that a decision artifact controls.
pub(crate) fn decided(id: &str, max: u32, body: Value) -> Value {
    json!({
        "id": id, "type": "loop", "title": id, "body": body,
        "loop": { "type": "while", "maxIterations": max, "conditionSource": {
            "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control", "loopId": format!("{id}_label") } },
    })
}
