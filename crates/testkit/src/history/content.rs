//! The workflow that histories run, and the snapshots of its steps.

use serde_json::{Value, json};
use workrail_model::compiled::{CompiledWorkflow, RENDER_VERSION};
use workrail_model::digest::WorkflowHash;
use workrail_model::name::{LoopId, StepId};
use workrail_model::plan::Attachment;
use workrail_model::snapshot::{
    ActiveLoop, CompletedSteps, EngineState, ExecutionSnapshot, Pending, PendingStep,
};
use workrail_model::step_key::LoopFrame;

/// Steps per round. A history continues round after round, so that one of any length has bounded
/// snapshots which nevertheless all differ.
const STEPS: u32 = 8;
const LOOP: &str = "rounds";

/// A compiled workflow of eight steps in a loop, named after the seed so that two histories pin
/// different ones. Read, not built, so that it passes the same checks as one from a disk.
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
    let place = |number: u32| json!({ "kind": "step", "stepId": format!("step-{number}") });
    let rounds = json!({
        "loopId": LOOP,
        "title": "Rounds",
        "control": { "kind": "for", "count": { "kind": "fixed", "value": 1_000_000 } },
        "maxIterations": 1_000_000,
        "onLimit": "advance",
        "iterationVar": "currentIteration",
        "body": (0..STEPS).map(place).collect::<Vec<Value>>(),
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

pub(super) fn workflow_attachment(workflow: &CompiledWorkflow) -> Attachment {
    // Strings and small numbers: the workflow above has a canonical form.
    Attachment::workflow(workflow.to_canonical().expect("the history's workflow is canonical"))
}

/// The step that waits at `depth` advances from the root.
pub(super) fn step_id(depth: u32) -> StepId {
    // Letters, a hyphen and digits.
    StepId::parse(&format!("step-{}", depth % STEPS)).expect("a valid step id")
}

/// The snapshot of a node at `depth` advances from the root.
pub(super) fn snapshot(workflow: WorkflowHash, depth: u32) -> Attachment {
    // A literal in the alphabet of loop ids.
    let loop_id = LoopId::parse(LOOP).expect("a valid loop id");
    let (iteration, body_index) = (depth / STEPS, depth % STEPS);
    let frame = LoopFrame { loop_id: loop_id.clone(), iteration };
    let completed = CompletedSteps::new(u64::from(depth));
    let step = PendingStep { step_id: step_id(depth), loop_path: vec![frame] };
    let state = EngineState::Running {
        completed,
        loop_stack: vec![ActiveLoop { loop_id, iteration, body_index, decision: None }],
        pending: Pending::Some { step },
    };
    // The pending step is behind the completed ones, and its path is the stack.
    let snapshot = ExecutionSnapshot::new(workflow, state).expect("a possible state");
    // Strings and small numbers.
    Attachment::snapshot(snapshot.to_canonical().expect("a snapshot is canonical"))
}
