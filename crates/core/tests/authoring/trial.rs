//! Scripts that test workflows: the same rules as a run on a server (G45).

use serde_json::{Value, json};
use workrail_core::trial::{Script, TrialReport, try_workflow};

use crate::{compiled, plain, workflow};

fn tried(source: &Value, runs: Value) -> TrialReport {
    let script: Script = serde_json::from_value(json!({ "run": runs })).unwrap();
    try_workflow(&compiled(source), &script)
}

fn looped(control: Value) -> Value {
    workflow(json!([
        plain("first"),
        { "id": "again", "type": "loop", "title": "Again", "loop": control, "body": [plain("inner")] },
    ]))
}

#[test]
fn only_a_loop_that_can_be_skipped_must_be_skipped() {
    let twice = json!([{ "name": "all", "context": { "more": true, "parts": ["a"] }, "step": [
        { "expect": "first" }, { "expect": "inner", "context": { "more": false } } ], "ends": "open" }]);
    let missing = |control: Value| tried(&looped(control), twice.clone()).coverage.missing();
    let fixed = json!({ "type": "for", "count": 1, "maxIterations": 1 });
    assert_eq!(missing(fixed), [""; 0]);
    // Its own body sets what ends it.
    let until =
        json!({ "type": "until", "maxIterations": 2, "condition": { "var": "more", "equals": false } });
    assert_eq!(missing(until), [""; 0]);
    let each = json!({ "type": "forEach", "items": "parts", "itemVar": "part", "maxIterations": 1 });
    let skipped = "loop `again` is never skipped".to_owned();
    assert!(missing(each).contains(&skipped));
}

#[test]
fn notes_of_a_refused_step_are_extended_as_on_a_server() {
    let source = workflow(json!([{
        "id": "one", "title": "One", "prompt": "Do.",
        "validationCriteria": [{ "type": "contains", "value": "Files: a.rs", "message": "Name the files." }],
        "sets": { "size": { "values": ["small", "large"] } },
    }]));
    let report = tried(
        &source,
        json!([{ "name": "retry", "step": [
            { "expect": "one", "notes": "Files: a.rs", "blocked": ["MISSING_CONTEXT_KEY"] },
            { "expect": "one", "notes": "It is a small one.", "context": { "size": "small" } },
        ] }]),
    );
    assert_eq!(report.runs[0].failures, [""; 0]);
}
