//! A run of 100,000 steps through the real binary and the real store (`WORKRAIL_PROOF=full`; otherwise a few
//! hundred): it completes, and its snapshots do not grow.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::proof;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

fn counted(id: &str, count: u32, body: Value) -> Value {
    json!({ "id": id, "type": "loop", "title": id, "body": body,
            "loop": { "type": "for", "count": count, "maxIterations": count } })
}

/// Three nested loops, which once got stuck at step 3,868.
fn nested([outer, middle, inner]: [u32; 3]) -> Value {
    let step = |id: &str| json!({ "id": id, "title": id, "prompt": "Do it." });
    let inner = counted("inner", inner, json!([step("read"), step("write")]));
    json!({
        "id": "team.nested", "name": "Nested", "description": "d", "version": "1.0.0",
        "steps": [counted("outer", outer, json!([counted("middle", middle, json!([inner, step("review")]))]))],
    })
}

#[test]
fn figure_a_run_of_100_000_steps() {
    let full = proof::is_full();
    let [outer, middle, inner] = if full { [50, 50, 20] } else { [3, 4, 10] };
    let expected = u64::from(outer * middle * (2 * inner + 1));
    let home = Home::new(PROGRAM);
    home.workflow(&nested([outer, middle, inner]));
    let mut client = home.client();
    let mut at = client.call("start_workflow", json!({ "workflowId": "team.nested" }));
    let mut steps = 0;
    while at.data["isComplete"] != true {
        assert!(!at.is_error, "step {steps}: {}", at.text);
        assert_eq!(at.data["run"]["stepNumber"], steps + 1);
        let call =
            json!({ "ackToken": at.string("ackToken"), "output": { "notesMarkdown": "Did the work." } });
        at = client.call("continue_workflow", call);
        steps += 1;
        if steps == expected / 2 {
            // Another process continues the run.
            client.close();
            client = home.client();
        }
    }
    assert_eq!(steps, expected);
    client.close();
    let session = at.data["run"]["sessionId"].as_str().unwrap();
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    let snapshots = fs::read_dir(home.data().join("snapshots")).unwrap();
    let largest = snapshots.map(|entry| size(&entry.unwrap().path())).max().unwrap();
    let manifest = size(&home.data().join(format!("sessions/{session}/manifest.jsonl")));
    println!(
        "figure: {steps} steps; the largest snapshot has {largest} bytes, the manifest {} bytes a step",
        manifest / steps
    );
    assert!(largest < 800, "{largest}");
}
