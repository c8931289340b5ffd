//! A run says that its workflow's file has changed since the start whenever it is
//! continued, resumed, shown or reported.

use serde_json::{Value, json};
use workrail_core::report::{ContextValues, Times};
use workrail_engine::request::{ContinueWorkflow, ResumeSession, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::submission::StepOutput;

use crate::scene::{Scene, authored};

fn put(scene: &Scene, prompt: &str) {
    let steps = json!([{ "id": "only", "title": "Only", "prompt": prompt }]);
    scene.shelf.put(Precedence::Project, "flow.json", &authored("team.flow", &json!({ "steps": steps })));
}

/// How often each view mentions the change: the step, `resume_session`, `show` and the report.
fn drift_warnings(scene: &Scene, started: &Value) -> [usize; 4] {
    let count = |text: &str| text.matches("has changed since this run was started").count();
    let look = ContinueWorkflow {
        state_token: started["stateToken"].as_str().map(str::to_owned),
        ..ContinueWorkflow::default()
    };
    let looked = scene.engine.continue_workflow(look).unwrap().into_structured();
    let request = ResumeSession { query: Some("nothing like it".to_owned()), ..ResumeSession::default() };
    let found = scene.engine.resume_session(request).unwrap().into_structured();
    let about = scene.engine.find(started["run"]["label"].as_str().unwrap()).unwrap();
    let shown = scene.engine.show_session(about).unwrap();
    let report = scene.engine.report(about, ContextValues::NotShown).unwrap();
    [
        count(looked["text"].as_str().unwrap()),
        count(found["text"].as_str().unwrap()),
        count(&shown.report.remarks.join("\n")),
        count(&workrail_core::report::markdown::render(&report, Times::UTC)),
    ]
}

#[test]
fn a_changed_file_is_mentioned_once_in_every_view_and_an_unchanged_one_never() {
    let scene = Scene::new();
    put(&scene, "Do it.");
    let request = StartWorkflow { workflow_id: "team.flow".to_owned(), ..StartWorkflow::default() };
    let started = scene.engine.start_workflow(request).unwrap().into_structured();
    assert_eq!(drift_warnings(&scene, &started), [0; 4]);
    put(&scene, "Do it differently.");
    assert_eq!(drift_warnings(&scene, &started), [1; 4]);
    put(&scene, "Do it.");
    assert_eq!(drift_warnings(&scene, &started), [0; 4], "the same text again is the same workflow");
}

#[test]
fn an_advance_mentions_the_change_once() {
    let scene = Scene::new();
    let put = |prompt: &str| {
        let step = |id: &str| json!({ "id": id, "title": id, "prompt": prompt });
        let steps = json!([step("one"), step("two"), step("three")]);
        scene.shelf.put(Precedence::Project, "flow.json", &authored("team.flow", &json!({ "steps": steps })));
    };
    put("Do it.");
    let request = StartWorkflow { workflow_id: "team.flow".to_owned(), ..StartWorkflow::default() };
    let mut at = scene.engine.start_workflow(request).unwrap().into_structured();
    put("Do it differently.");
    let mut told = Vec::new();
    for _ in 0..2 {
        let request = ContinueWorkflow {
            ack_token: at["ackToken"].as_str().map(str::to_owned),
            output: StepOutput { notes_markdown: Some("Did it.".to_owned()), artifacts: Vec::new() },
            ..ContinueWorkflow::default()
        };
        at = scene.engine.continue_workflow(request).unwrap().into_structured();
        let codes = at["warnings"].as_array().into_iter().flatten().map(|warning| warning["code"].as_str());
        told.push(codes.flatten().any(|code| code == "PINNED_WORKFLOW_DIFFERS"));
    }
    assert_eq!(told, [true, false]);
}
