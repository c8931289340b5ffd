//! The workflow that histories run.

use serde_json::{Value, json};
use workrail_model::compiled::{CompiledWorkflow, RENDER_VERSION};

/// Steps per round. A history continues round after round, so that its snapshots stay small and yet all differ.
const STEPS: u32 = 8;
const LOOP: &str = "rounds";

/// A compiled workflow of eight steps in a loop, named after the seed so that two histories pin different ones.
/// Parsed rather than built, so that it passes the same checks as one from a disk.
pub(super) fn workflow(seed: u64) -> CompiledWorkflow {
    let step = |number: u32| {
        json!({
            "stepId": format!("step-{number}"),
            "title": format!("Step {number}"),
            "prompt": format!("Do what step {number} asks and say what you found."),
            "kind": { "kind": "standard" },
            "confirmation": { "kind": "never" },
            "notes": "required",
            "metrics": "none",
            "provenance": { "source": "authored" },
        })
    };
    let body = |number: u32| json!({ "kind": "step", "stepId": format!("step-{number}") });
    let rounds = json!({
        "loopId": LOOP,
        "title": "Rounds",
        "control": { "kind": "for", "count": { "kind": "fixed", "value": 1_000_000 } },
        "maxIterations": 1_000_000,
        "onLimit": "advance",
        "iterationVar": "currentIteration",
        "body": (0..STEPS).map(body).collect::<Vec<Value>>(),
    });
    let compiled = json!({
        "schemaVersion": 1,
        "renderVersion": RENDER_VERSION,
        "workflowId": format!("testkit.history-{seed}"),
        "name": "History",
        "description": "Steps that a test takes.",
        "version": "1.0.0",
        "metricsProfile": "none",
        "recommended": {},
        "capabilities": {},
        "features": [], "contracts": [], "refs": [], "references": [], "assessments": [],
        "functions": [], "bindings": [], "conditions": [], "compiledWarnings": [],
        "loops": [rounds],
        "plan": [{ "kind": "loop", "loopId": LOOP }],
        "steps": (0..STEPS).map(step).collect::<Vec<Value>>(),
    });
    let workflow = CompiledWorkflow::parse(compiled.to_string().as_bytes());
    workflow.unwrap_or_else(|error| panic!("the history's workflow is valid: {error}"))
}
