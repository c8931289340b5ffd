//! A run says when its workflow's file has changed since it was started: when it is resumed, shown or reported.

use serde_json::{Value, json};
use workrail_core::report::ContextValues;
use workrail_engine::request::{ContinueWorkflow, ResumeSession, StartWorkflow};
use workrail_model::discovery::Precedence;

use crate::scene::{Scene, authored};

fn put(scene: &Scene, prompt: &str) {
    let steps = json!([{ "id": "only", "title": "Only", "prompt": prompt }]);
    scene.shelf.put(Precedence::Project, "flow.json", &authored("team.flow", &json!({ "steps": steps })));
}

/// How often each view tells of the change: the step, `resume_session`, `show` and the report.
fn told(scene: &Scene, started: &Value) -> [usize; 4] {
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
        count(&workrail_core::report::markdown::render(&report)),
    ]
}

#[test]
fn a_changed_file_is_told_once_in_every_view_and_an_unchanged_one_never() {
    let scene = Scene::new();
    put(&scene, "Do it.");
    let request = StartWorkflow { workflow_id: "team.flow".to_owned(), ..StartWorkflow::default() };
    let started = scene.engine.start_workflow(request).unwrap().into_structured();
    assert_eq!(told(&scene, &started), [0; 4]);
    put(&scene, "Do it differently.");
    assert_eq!(told(&scene, &started), [1; 4]);
    put(&scene, "Do it.");
    assert_eq!(told(&scene, &started), [0; 4], "the same text again is the same workflow");
}
