//! Repeated starts: one key is one run, whatever session it is in (G30).

use serde_json::{Value, json};
use workrail_engine::request::{ContinueWorkflow, ResumeSession, StartSession, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::tool::ToolName;
use workrail_ports::session_store::SessionReader;

use crate::scene::{Scene, authored, workflow};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.shelf.put(Precedence::Project, "run.json", &workflow("team.run"));
    scene
}

fn keyed(key: &str) -> StartWorkflow {
    StartWorkflow {
        workflow_id: "team.run".to_owned(),
        idempotency_key: Some(key.to_owned()),
        ..StartWorkflow::default()
    }
}

fn start(scene: &Scene, request: StartWorkflow) -> Result<Value, Box<ErrorEnvelope>> {
    scene.engine.start_workflow(request).map(|reply| reply.into_structured())
}

fn token(reply: &Value, member: &str) -> Option<String> {
    reply[member].as_str().map(str::to_owned)
}

#[test]
fn a_key_that_started_a_run_starts_none_in_another_session() {
    let scene = scene();
    let parent = start(&scene, keyed("parent")).unwrap();
    let notes = scene.engine.start_session(StartSession::default()).unwrap().into_structured();
    let inside = |key| StartWorkflow { parent: token(&parent, "ackToken"), ..keyed(key) };
    let in_session = |key| StartWorkflow { session_token: token(&notes, "sessionToken"), ..keyed(key) };
    let first = start(&scene, keyed("new")).unwrap();
    let second = start(&scene, inside("inside")).unwrap();
    let third = start(&scene, in_session("in_session")).unwrap();
    let elsewhere = [
        (&first, inside("new")),
        (&first, in_session("new")),
        (&second, keyed("inside")),
        (&second, in_session("inside")),
        (&third, keyed("in_session")),
        (&third, inside("in_session")),
    ];
    let before = scene.store.sessions().unwrap();
    for (started, request) in elsewhere {
        let refused = start(&scene, request.clone()).unwrap_err();
        assert_eq!(refused.code, ErrorCode::ValidationError, "{request:?}");
        assert_eq!(json!(refused.details)["run"], started["run"]["label"], "{request:?}");
        // A process with empty caches refuses it, too.
        assert!(scene.reopened().start_workflow(request).is_err());
    }
    assert_eq!(scene.store.sessions().unwrap(), before);
}

#[test]
fn titles_in_lists_and_offers_redact_secrets() {
    let scene = Scene::new();
    let steps = json!([
        { "id": "a", "title": "Log in with {{api_token}} on {{branch}}", "prompt": "Do it." },
        { "id": "b", "title": "Again with {{api_token}}", "prompt": "Do it." },
    ]);
    scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &json!({ "steps": steps })));
    let context = json!({ "api_token": "s3cr3t-value", "branch": "main" });
    let request = StartWorkflow {
        workflow_id: "team.run".to_owned(),
        context: context.as_object().cloned().unwrap(),
        ..StartWorkflow::default()
    };
    let first = start(&scene, request).unwrap();
    assert!(first["text"].as_str().unwrap().contains("s3cr3t-value"), "the agent that works on it sees it");
    let seen = |scene: &Scene| {
        let session = scene.engine.find(first["run"]["sessionId"].as_str().unwrap()).unwrap();
        let resumed = scene.engine.resume_session(ResumeSession::default()).unwrap().into_structured();
        let listed =
            scene.engine.sessions(&workrail_core::overview::ListQuery::default(), &mut |_, _| {}).unwrap();
        let shown = scene.engine.show_session(session).unwrap();
        [resumed.to_string(), serde_json::to_string(&listed).unwrap(), serde_json::to_string(&shown).unwrap()]
    };
    for text in seen(&scene) {
        assert!(!text.contains("s3cr3t-value") && text.contains("[withheld] on main"), "{text}");
    }
    let request = ContinueWorkflow {
        ack_token: token(&first, "ackToken"),
        output: workrail_model::submission::StepOutput {
            notes_markdown: Some("Logged in.".to_owned()),
            artifacts: Vec::new(),
        },
        ..ContinueWorkflow::default()
    };
    scene.engine.continue_workflow(request).unwrap();
    for text in seen(&scene) {
        assert!(!text.contains("s3cr3t-value") && text.contains("Again with [withheld]"), "{text}");
    }
}

#[test]
fn a_folder_that_does_not_exist_is_refused_with_the_call_without_it() {
    let scene = Scene::new();
    scene.shelf.put(Precedence::Project, "flow.json", &workflow("team.flow"));
    let request = StartWorkflow {
        workflow_id: "team.flow".to_owned(),
        workspace_path: Some("/nowhere/at/all".to_owned()),
        ..StartWorkflow::default()
    };
    let refused = scene.engine.start_workflow(request).unwrap_err();
    insta::assert_snapshot!("a_folder_that_does_not_exist", refused.message);
    let sent = json!({ "workflowId": "team.flow", "workspacePath": "/nowhere/at/all" });
    let sent = sent.as_object().unwrap().clone();
    let next = workrail_engine::next_call::after(&refused, ToolName::StartWorkflow, sent).unwrap();
    assert_eq!(json!(next.arguments), json!({ "workflowId": "team.flow" }));
}
