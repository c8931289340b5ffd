//! `resume_session` finds work from what a person remembers of it, and its first candidate leads back to it (G39).

use serde_json::{Value, json};
use workrail_engine::request::{ContinueWorkflow, ResumeSession, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::submission::StepOutput;

use crate::scene::{Scene, authored};

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A workflow of two steps.
fn scene() -> Scene {
    let scene = Scene::new();
    let steps = json!([
        { "id": "plan", "title": "Plan it", "prompt": "Plan." },
        { "id": "build", "title": "Build it", "prompt": "Build." },
    ]);
    scene.shelf.put(Precedence::Project, "two.json", &authored("team.two", &json!({ "steps": steps })));
    scene
}

fn start(scene: &Scene, goal: &str) -> Value {
    let request = StartWorkflow {
        workflow_id: "team.two".to_owned(),
        goal: Some(goal.to_owned()),
        ..StartWorkflow::default()
    };
    scene.engine.start_workflow(request).unwrap().into_structured()
}

fn advance(scene: &Scene, reply: &Value, notes: &str, artifacts: Vec<Value>) -> Value {
    let request = ContinueWorkflow {
        ack_token: Some(text(&reply["ackToken"])),
        output: StepOutput { notes_markdown: Some(notes.to_owned()), artifacts },
        ..ContinueWorkflow::default()
    };
    scene.engine.continue_workflow(request).unwrap().into_structured()
}

fn resume(scene: &Scene, query: &str) -> Value {
    let request = ResumeSession { query: Some(query.to_owned()), ..ResumeSession::default() };
    scene.engine.resume_session(request).unwrap().into_structured()
}

fn labels(found: &Value) -> Vec<String> {
    found["candidates"].as_array().unwrap().iter().map(|candidate| text(&candidate["label"])).collect()
}

fn label(reply: &Value) -> String {
    text(&reply["run"]["label"])
}

fn finished(scene: &Scene, goal: &str) -> Value {
    let first = start(scene, goal);
    let second = advance(scene, &first, "Planned.", Vec::new());
    advance(scene, &second, "Built.", Vec::new())
}

#[test]
fn the_timeout_thing_leads_back_to_work_with_one_call() {
    let scene = scene();
    start(&scene, "Fix the flaky login test");
    let meant = start(&scene, "Upload gives up too early");
    advance(&scene, &meant, "Found it: the client's timeouts are in seconds, not ms.", Vec::new());
    finished(&scene, "Timeout of the cache");
    start(&scene, "Rename the delimiter");

    let found = resume(&scene, "the timeout thing");
    assert_eq!(labels(&found)[0], label(&meant), "unfinished before finished: {found:#}");
    assert_eq!(labels(&found).len(), 2, "nothing that does not match: {found:#}");
    assert_eq!(found["candidates"][0]["reason"], "\"timeout\" in the notes");
    // The answer itself holds the step.
    assert_eq!(found["step"]["pending"]["stepId"], "build");
    let shown = text(&found["text"]);
    assert!(shown.contains("Build.") && shown.contains(&text(&found["step"]["ackToken"])), "{shown}");
    let next = advance(&scene, &found["step"], "Built it in milliseconds.", Vec::new());
    assert_eq!(next["isComplete"], true, "one call was enough to continue: {next:#}");

    let found = resume(&scene, "the login thing");
    let call = &found["nextCall"];
    assert_eq!(call, &found["candidates"][0]["nextCall"]);
    let request: ContinueWorkflow = serde_json::from_value(call["arguments"].clone()).unwrap();
    let back = scene.engine.continue_workflow(request).unwrap().into_structured();
    assert_eq!(back["run"]["stepId"], "plan");
    assert!(back["ackToken"].is_string(), "the next call can complete the step: {back:#}");
}

#[test]
fn a_step_is_shown_only_when_it_is_clear_which_run_is_meant() {
    let scene = scene();
    start(&scene, "Rename the parser");
    start(&scene, "Rename the writer");
    for (query, is_clear) in
        [("rename", false), ("rename parser", true), ("nothing of this", false), ("the writer thing", true)]
    {
        let found = resume(&scene, query);
        assert_eq!(found.get("step").is_some(), is_clear, "{query}: {found:#}");
        assert!(found["nextCall"].is_object(), "{query}");
    }
    finished(&scene, "Delete the cache");
    assert!(resume(&scene, "cache").get("step").is_none(), "a finished run has no step");
}

#[test]
fn words_are_found_in_any_order_and_in_different_places() {
    let scene = scene();
    let median = start(&scene, "A bug in the statistics");
    advance(&scene, &median, "It is the median of an even count.", Vec::new());
    let delimiter = start(&scene, "Renaming in the CSV writer");
    advance(&scene, &delimiter, "Plan.", vec![json!({ "kind": "team.plan", "symbol": "csv_delimiter" })]);
    start(&scene, "Something else");

    let found = resume(&scene, "median bug");
    assert_eq!(labels(&found), [label(&median)]);
    assert_eq!(found["candidates"][0]["whyMatched"], json!(["matched_notes", "matched_goal"]));
    let found = resume(&scene, "please rename the delimiter");
    assert_eq!(labels(&found), [label(&delimiter)]);
    assert_eq!(found["candidates"][0]["whyMatched"], json!(["matched_artifacts", "matched_goal"]));
    assert_eq!(found["candidates"][0]["matchedWords"], json!(["rename", "delimiter"]));
    let reason = text(&found["candidates"][0]["reason"]);
    assert!(text(&found["text"]).contains(&reason), "{found:#}");
    insta::assert_snapshot!("words_in_different_places", reason);
}

#[test]
fn more_matching_words_come_before_fewer() {
    let scene = scene();
    let both = finished(&scene, "Retry budget of the importer");
    let one = start(&scene, "Importer reads twice");
    let found = resume(&scene, "retry budget importer yesterday");
    assert_eq!(labels(&found), [label(&both), label(&one)]);
    assert_eq!(found["candidates"][1]["whyMatched"], json!(["matched_some_words"]));
    assert_eq!(found["candidates"][1]["reason"], "1 of 3 words (\"importer\") in the goal");
}

#[test]
fn a_label_finds_its_run_alone_however_it_is_written() {
    let scene = scene();
    let wanted = start(&scene, "Fix the flaky login test");
    start(&scene, "Another one");
    let label = label(&wanted);
    let spaced = label.replace('-', " ");
    for query in [label.clone(), spaced.clone(), spaced.to_uppercase(), format!("continue the {spaced} run")]
    {
        let found = resume(&scene, &query);
        assert_eq!(labels(&found), [label.as_str()], "{query}");
        assert_eq!(found["candidates"][0]["whyMatched"][0], "matched_id", "{query}");
    }
    let request = ResumeSession { run: Some(spaced), ..ResumeSession::default() };
    let found = scene.engine.resume_session(request).unwrap().into_structured();
    assert_eq!(labels(&found), [label.as_str()]);
}

#[test]
fn without_words_unfinished_runs_come_first() {
    let scene = scene();
    let open = start(&scene, "Left in the middle");
    let done = finished(&scene, "Done");
    let found = scene.engine.resume_session(ResumeSession::default()).unwrap().into_structured();
    assert_eq!(labels(&found), [label(&open), label(&done)]);
    assert_eq!(found["candidates"][0]["reason"], "recent");
}
