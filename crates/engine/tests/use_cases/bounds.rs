//! Long runs and large values through the engine: nothing grows with a run's length, and no run gets stuck for good.

use serde_json::{Value, json};
use workrail_engine::request::{CheckpointWorkflow, ContinueWorkflow, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::id::SessionId;
use workrail_model::placeholder;
use workrail_model::plan::AttachmentKind;
use workrail_model::submission::StepOutput;
use workrail_ports::archive::SessionArchive;
use workrail_ports::session_store::SessionReader;

use crate::scene::{Scene, authored};

const LARGE: usize = 200_000;

fn step(id: &str, prompt: &str) -> Value {
    json!({ "id": id, "title": format!("Title of {id}"), "prompt": prompt })
}

fn scene(steps: Value) -> Scene {
    let scene = Scene::new();
    scene.shelf.put(Precedence::Project, "test.json", &authored("team.test", &json!({ "steps": steps })));
    scene
}

/// A step in the middle shows `{{b}}` thousands of times.
fn hostile() -> Scene {
    scene(json!([step("begin", "Begin."), step("show", &"{{b}}".repeat(13_000)), step("end", "End.")]))
}

fn start(scene: &Scene, context: Value) -> Result<Value, Box<ErrorEnvelope>> {
    let context = context.as_object().cloned().unwrap();
    let request = StartWorkflow { workflow_id: "team.test".to_owned(), context, ..StartWorkflow::default() };
    scene.engine.start_workflow(request).map(|reply| reply.into_structured())
}

fn send(scene: &Scene, at: &Value, notes: Option<&str>, context: Value) -> Result<Value, Box<ErrorEnvelope>> {
    let request = ContinueWorkflow {
        ack_token: at["ackToken"].as_str().map(str::to_owned),
        output: StepOutput { notes_markdown: notes.map(str::to_owned), artifacts: Vec::new() },
        context: context.as_object().cloned().unwrap(),
        ..ContinueWorkflow::default()
    };
    scene.engine.continue_workflow(request).map(|reply| reply.into_structured())
}

fn session(reply: &Value) -> SessionId {
    SessionId::parse(reply["run"]["sessionId"].as_str().unwrap()).unwrap()
}

fn events(scene: &Scene, reply: &Value) -> u64 {
    scene.store.read(session(reply), None).unwrap().cursor.next_event_index.get()
}

fn refused(answer: Result<Value, Box<ErrorEnvelope>>) -> ErrorEnvelope {
    let error = answer.unwrap_err();
    assert_eq!(error.code, ErrorCode::ValidationError, "{error:?}");
    *error
}

/// G54: the advance that sends the value is refused, and nothing is recorded.
#[test]
fn a_value_that_makes_the_next_step_too_long_is_refused_before_anything_is_recorded() {
    let scene = hostile();
    let first = start(&scene, json!({})).unwrap();
    let before = events(&scene, &first);
    let large = json!({ "b": "x".repeat(LARGE) });
    let error = refused(send(&scene, &first, Some("Did the work."), large.clone()));
    assert!(error.message.contains("`show`") && error.message.contains("{{b}}"), "{}", error.message);
    assert!(error.suggestion.contains("`context.b`"), "{}", error.suggestion);
    assert_eq!(json!(error.details)["stepId"], "show");
    assert_eq!(events(&scene, &first), before);

    // The same ack works with a smaller value, and the run ends.
    let second = send(&scene, &first, Some("Did the work."), json!({ "b": "small" })).unwrap();
    assert_eq!(second["run"]["stepId"], "show");
    // A refusal for another reason does not record the large value either.
    let error = refused(send(&scene, &second, None, large));
    assert!(error.message.contains("`show`"), "{}", error.message);
    let third = send(&scene, &second, Some("shown"), json!({})).unwrap();
    assert_eq!(send(&scene, &third, Some("ended"), json!({})).unwrap()["isComplete"], true);
}

#[test]
fn a_start_whose_first_step_would_be_too_long_makes_no_session() {
    let scene = scene(json!([step("show", &"{{b}}".repeat(13_000))]));
    let error = refused(start(&scene, json!({ "b": "x".repeat(LARGE) })));
    assert!(error.message.contains("`show`") && error.message.contains("{{b}}"), "{}", error.message);
    assert_eq!(scene.store.sessions().unwrap(), []);
}

#[test]
fn a_large_value_for_a_step_that_does_not_show_it_is_fine() {
    let scene = hostile();
    let first = start(&scene, json!({})).unwrap();
    let second = send(&scene, &first, Some("Did the work."), json!({ "b": "small" })).unwrap();
    let third = send(&scene, &second, Some("shown"), json!({ "b": "x".repeat(LARGE) })).unwrap();
    assert_eq!(third["run"]["stepId"], "end");
}

#[test]
fn a_value_sent_now_is_refused_with_an_empty_replacement() {
    for (value, empty) in [
        (json!("x".repeat(LARGE)), json!("")),
        (json!(["x".repeat(LARGE / 2), "y".repeat(LARGE / 3)]), json!(["", ""])),
    ] {
        let scene = hostile();
        let first = start(&scene, json!({})).unwrap();
        let error = refused(send(&scene, &first, Some("Did the work."), json!({ "b": value })));
        let details = json!(error.details);
        assert_eq!((&details["contextKey"], &details["emptyValue"]), (&json!("b"), &empty));
        let second = send(&scene, &first, Some("Did the work."), json!({ "b": empty })).unwrap();
        assert_eq!(second["run"]["stepId"], "show");
    }
}

/// G54: the advance that reaches the step did not send the value.
#[test]
fn a_value_recorded_earlier_never_stops_a_run() {
    for sent in [json!({}), json!({ "other": "small" })] {
        let scene = hostile();
        let first = start(&scene, json!({ "b": "x".repeat(LARGE) })).unwrap();
        let second = send(&scene, &first, Some("Did the work."), sent.clone()).unwrap();
        assert_eq!(second["run"]["stepId"], "show", "{sent}");
        let text = second["text"].as_str().unwrap();
        assert!(text.contains("Values are shortened below"), "{}", &text[..500]);
        // The step's own refusal is shown as well, and the step can be completed.
        let again = send(&scene, &second, None, sent).unwrap();
        assert_eq!(again["run"]["stepId"], "show");
        let third = send(&scene, &again, Some("Did the work."), json!({ "b": "" })).unwrap();
        assert_ne!(third["run"]["stepId"], "show");
    }
}

#[test]
fn notes_that_contain_tags_are_accepted() {
    let scene = scene(json!([step("one", "Do."), step("two", "Do more.")]));
    let first = start(&scene, json!({})).unwrap();
    let notes = "Replaced <id> by <how>, see `<what you did in this step>`.";
    assert_eq!(send(&scene, &first, Some(notes), json!({})).unwrap()["kind"], "ok");
}

/// G55: a placeholder is never recorded as notes, even decorated.
#[test]
fn our_own_placeholders_do_not_count_as_notes() {
    let scene = scene(json!([step("one", "Do."), step("two", "Do more.")]));
    let first = start(&scene, json!({})).unwrap();
    let shown = first["nextCall"]["arguments"]["output"]["notesMarkdown"].as_str().unwrap().to_owned();
    let decorated =
        [format!("**{shown}**."), shown.replace('<', "&lt;").replace('>', "&gt;"), "`<how>`".to_owned()];
    let plain = [shown.clone(), placeholder::long_text(9005), placeholder::SHORTER_STEP_NOTES.to_owned()];
    for notes in plain.iter().chain(&decorated) {
        let blocked = send(&scene, &first, Some(notes.as_str()), json!({}));
        // Each is a different payload for the same ack: the first refusal is replayed.
        let blocked = blocked.unwrap();
        assert_eq!(blocked["kind"], "blocked", "{notes}");
        assert_eq!(blocked["blockers"][0]["code"], "MISSING_REQUIRED_NOTES");
        assert!(blocked["blockers"][0]["message"].as_str().unwrap().contains("placeholder"));
    }
    let nothing_kept = scene.store.read(session(&first), None).unwrap().events;
    assert!(nothing_kept.iter().all(|event| !format!("{event:?}").contains("NodeOutputAppended")));

    let request = CheckpointWorkflow {
        checkpoint_token: first["checkpointToken"].as_str().map(str::to_owned),
        output: StepOutput {
            notes_markdown: Some(placeholder::CHECKPOINT_NOTES.to_owned()),
            artifacts: Vec::new(),
        },
        ..CheckpointWorkflow::default()
    };
    refused(scene.engine.checkpoint_workflow(request).map(|reply| reply.into_structured()));
}

/// G55: nor as part of an artifact or of the context.
#[test]
fn a_placeholder_inside_an_artifact_or_the_context_is_refused_with_its_place() {
    let scene = scene(json!([step("one", "Do."), step("two", "Do more.")]));
    let first = start(&scene, json!({})).unwrap();
    let before = events(&scene, &first);
    let text = placeholder::long_text(12);
    let error = refused(send(&scene, &first, Some("n"), json!({ "plan": { "text": text } })));
    assert!(error.message.contains("`context.plan.text`"), "{}", error.message);
    let request = ContinueWorkflow {
        ack_token: first["ackToken"].as_str().map(str::to_owned),
        output: StepOutput {
            notes_markdown: Some("n".to_owned()),
            artifacts: vec![json!({ "kind": "x" }), json!({ "kind": "y", "items": [text] })],
        },
        ..ContinueWorkflow::default()
    };
    let error = refused(scene.engine.continue_workflow(request).map(|reply| reply.into_structured()));
    assert!(error.message.contains("`output.artifacts[1].items[0]`"), "{}", error.message);
    assert_eq!(events(&scene, &first), before);
}

/// Three nested loops: a run of this shape once got stuck for good at step 3,868.
#[test]
fn a_run_through_nested_loops_ends_and_its_snapshots_stay_small() {
    let counted = |id: &str, count: u32, body: Value| {
        json!({ "id": id, "type": "loop", "title": id, "body": body,
                "loop": { "type": "for", "count": count, "maxIterations": count } })
    };
    let inner = counted("inner", 10, json!([step("read", "Read."), step("write", "Write.")]));
    let scene = scene(json!([counted("outer", 15, json!([counted("middle", 14, json!([inner]))]))]));
    let mut at = start(&scene, json!({})).unwrap();
    let mut steps = 0_u64;
    while at["isComplete"] != true {
        assert_eq!(at["run"]["stepNumber"], steps + 1);
        at = send(&scene, &at, Some("Did the work."), json!({})).unwrap();
        steps += 1;
    }
    assert_eq!(steps, 15 * 14 * 10 * 2);
    let events = scene.store.read(session(&at), None).unwrap().events;
    let sizes = events.iter().filter_map(|event| event.data.snapshot_ref()).map(|reference| {
        SessionArchive::content(&scene.store, AttachmentKind::Snapshot, reference.digest()).unwrap().len()
    });
    let largest = sizes.max().unwrap();
    assert!(largest < 700, "the largest snapshot has {largest} bytes");
}
