//! A step has one number: replies, lists, reports, graphs, `read_run` and `resume_session` count alike.

use serde_json::{Value, json};
use workrail_core::overview::ListQuery;
use workrail_core::report::ContextValues;
use workrail_engine::request::{CheckpointWorkflow, ContinueWorkflow, ReadRun, ResumeSession, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::submission::StepOutput;

use crate::scene::{Scene, authored};

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Plan, then each slice is built and checked, then a report.
fn start() -> (Scene, Value) {
    let scene = Scene::new();
    let steps = json!([
        { "id": "plan", "title": "Plan", "prompt": "Plan." },
        { "id": "slices", "type": "loop", "title": "Slices",
          "loop": { "type": "forEach", "items": "slices", "itemVar": "slice", "maxIterations": 5 },
          "body": [
              { "id": "build", "title": "Build {{slice}}", "prompt": "Build." },
              { "id": "check", "title": "Check {{slice}}", "prompt": "Check." },
          ] },
        { "id": "report", "title": "Report", "prompt": "Report." },
    ]);
    scene.shelf.put(Precedence::Project, "loop.json", &authored("team.loop", &json!({ "steps": steps })));
    let request = StartWorkflow {
        workflow_id: "team.loop".to_owned(),
        goal: Some("Count the steps".to_owned()),
        context: json!({ "slices": ["parser", "writer"] }).as_object().unwrap().clone(),
        ..StartWorkflow::default()
    };
    let reply = scene.engine.start_workflow(request).unwrap().into_structured();
    (scene, reply)
}

fn advance(scene: &Scene, reply: &Value, notes: &str) -> Value {
    let request = ContinueWorkflow {
        ack_token: Some(text(&reply["ackToken"])),
        output: StepOutput { notes_markdown: Some(notes.to_owned()), artifacts: Vec::new() },
        ..ContinueWorkflow::default()
    };
    scene.engine.continue_workflow(request).unwrap().into_structured()
}

fn checkpoint(scene: &Scene, reply: &Value) -> Value {
    let request = CheckpointWorkflow {
        checkpoint_token: Some(text(&reply["checkpointToken"])),
        output: StepOutput { notes_markdown: Some("Half of it.".to_owned()), artifacts: Vec::new() },
        ..CheckpointWorkflow::default()
    };
    scene.engine.checkpoint_workflow(request).unwrap().into_structured()
}

/// What every view says about where the run is.
fn assert_all_say(scene: &Scene, reply: &Value, place: &str) {
    let label = text(&reply["run"]["label"]);
    assert!(text(&reply["text"]).contains(&format!("step {place}: ")), "reply: {}", reply["text"]);
    let list = scene.engine.sessions(&ListQuery::default(), &mut |_, _| {}).unwrap();
    assert_eq!(list.runs[0].step.as_ref().unwrap().progress.to_string(), place, "list");
    let about = scene.engine.find(&label).unwrap();
    let report = scene.engine.report(about, ContextValues::NotShown).unwrap();
    assert_eq!(report.runs[0].progress.as_ref().unwrap().to_string(), place, "report");
    let tip = report.runs[0].nodes.iter().find(|node| Some(node.node_id) == report.runs[0].tip).unwrap();
    assert_eq!(json!(tip.step_number), reply["run"]["stepNumber"], "graph");
    assert_eq!(tip.point.to_string(), tip.step_number.to_string(), "graph");
    let read = ReadRun { run: label.clone(), ..ReadRun::default() };
    let read = scene.engine.read_run(&read).unwrap().into_structured();
    assert!(text(&read["text"]).contains(&format!("Now at step {place}: ")), "read_run: {}", read["text"]);
    let request = ResumeSession { run: Some(label), ..ResumeSession::default() };
    let found = scene.engine.resume_session(request).unwrap().into_structured();
    assert!(text(&found["text"]).contains(&format!("step {place}: ")), "resume: {}", found["text"]);
    for member in ["stepNumber", "aboutLeft"] {
        assert_eq!(found["candidates"][0][member], reply["run"][member], "resume, {member}");
    }
}

#[test]
fn all_views_count_the_steps_alike() {
    let (scene, mut reply) = start();
    let places = [
        "1 · about 5 left",
        "2 · about 4 left · slice 1 of 2",
        "3 · about 3 left · slice 1 of 2",
        "4 · about 2 left · slice 2 of 2",
        "5 · about 1 left · slice 2 of 2",
        "6",
    ];
    for (number, place) in places.iter().enumerate() {
        assert_all_say(&scene, &reply, place);
        // A checkpoint is not a step, even if the next advance starts from it.
        if number == 2 {
            let saved = checkpoint(&scene, &reply);
            assert_eq!(saved["run"]["stepNumber"], reply["run"]["stepNumber"]);
            let look = ContinueWorkflow {
                state_token: Some(text(&saved["stateToken"])),
                ..ContinueWorkflow::default()
            };
            reply = scene.engine.continue_workflow(look).unwrap().into_structured();
            assert_eq!(reply["run"]["stepNumber"], 3);
        }
        reply = advance(&scene, &reply, &format!("Did step {}.", number + 1));
    }
    assert_eq!(reply["isComplete"], true);
}

#[test]
fn points_of_other_branches_have_the_letter_of_the_branch_and_checkpoints_a_number() {
    let (scene, first) = start();
    let second = advance(&scene, &first, "One plan.");
    checkpoint(&scene, &second);
    advance(&scene, &second, "Built.");
    let look =
        ContinueWorkflow { state_token: Some(text(&first["stateToken"])), ..ContinueWorkflow::default() };
    let again = scene.engine.continue_workflow(look).unwrap().into_structured();
    advance(&scene, &again, "Another plan.");
    let about = scene.engine.find(&text(&first["run"]["label"])).unwrap();
    let report = scene.engine.report(about, ContextValues::NotShown).unwrap();
    let points: Vec<String> = report.runs[0].nodes.iter().map(|node| node.point.to_string()).collect();
    assert_eq!(points, ["1", "2b", "2b+1", "3b", "2"]);
    let branches: Vec<(String, String)> = report.runs[0]
        .branches
        .iter()
        .map(|branch| {
            let from = branch.from.as_ref().map(ToString::to_string);
            (from.unwrap_or_default(), branch.last.to_string())
        })
        .collect();
    assert_eq!(branches, [(String::new(), "2".to_owned()), ("1".to_owned(), "3b".to_owned())]);
}
