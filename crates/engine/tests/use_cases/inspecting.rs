//! `inspect_workflow`: metadata, the whole plan, old names, and the answer for unknown ids.

use serde_json::{Value, json};
use workrail_engine::request::StartWorkflow;
use workrail_model::discovery::{
    DISCOVERY_TEXT_BYTES_MAX, DiscoveryWarningCode, InspectMode, PlanEntryKind, Precedence,
};
use workrail_model::error::ErrorCode;

use crate::scene::{Scene, authored, workflow};

const BUG_INVESTIGATION: &str = include_str!("../../../../workflows/wr.bug_investigation.json");

fn bundled() -> Scene {
    let scene = Scene::new();
    scene.shelf.put(Precedence::Bundled, "wr.bug_investigation.json", BUG_INVESTIGATION);
    scene
}

/// What the caller of `start_workflow` reads.
fn start(scene: &Scene, id: &str) -> Value {
    let request = StartWorkflow { workflow_id: id.to_owned(), ..StartWorkflow::default() };
    scene.engine.start_workflow(request).unwrap().into_structured()
}

fn reference(id: &str, source: &str, from: &str) -> Value {
    json!({
        "id": id, "title": format!("Title of {id}"), "source": source, "purpose": "To know the rules.",
        "authoritative": id == "style", "resolveFrom": from,
    })
}

#[test]
fn metadata_says_what_it_is_and_needs() {
    let scene = bundled();
    let body = scene.inspect("wr.bug_investigation", InspectMode::Metadata).unwrap();
    assert!(body.plan.is_empty());
    assert_eq!(body.workflow_hash, scene.start("wr.bug_investigation").unwrap().workflow_hash);
    assert_eq!((body.step_count, body.loop_count), (11, 2));
    insta::assert_snapshot!(body.text);
}

#[test]
fn preview_shows_every_step_in_order() {
    let body = bundled().inspect("wr.bug_investigation", InspectMode::Preview).unwrap();
    let outline: Vec<(&str, &str)> =
        body.plan.iter().map(|entry| (entry.number.as_str(), entry.id.as_str())).collect();
    assert_eq!(
        outline,
        [
            ("1", "triage"),
            ("2", "contain"),
            ("3", "stop-harm"),
            ("4", "reproduce"),
            ("5", "explain-loop"),
            ("5.1", "test-explanation"),
            ("5.2", "decide-cause"),
            ("6", "challenge.challenge"),
            ("7", "agree"),
            ("8", "repair-loop"),
            ("8.1", "repair"),
            ("8.2", "verify"),
            ("9", "report"),
        ]
    );
    for entry in &body.plan {
        assert_eq!(entry.prompt.is_some(), entry.kind != PlanEntryKind::Loop, "{}", entry.id);
    }
    insta::assert_snapshot!(body.text);
}

#[test]
fn references_are_looked_for_and_bindings_are_shown() {
    let scene = Scene::new();
    let members = json!({
        "references": [
            reference("style", "docs/style.md", "workspace"),
            reference("spec", "docs/spec.md", "package"),
            reference("gone", "old/gone.md", "workspace"),
        ],
        "extensionPoints": [{ "slotId": "checker", "purpose": "Who checks.", "default": "nobody" }],
        "steps": [{
            "id": "only", "title": "Only", "prompt": "Ask {{wr.bindings.checker}}.",
            "runCondition": { "and": [{ "var": "size", "equals": "large" }, { "var": "go" }] },
            "userDependencies": [{
                "reason": "needs_user_choice", "choiceKind": "scope_boundary", "description": "Which one?",
                "contextKey": "which",
            }],
        }],
    });
    scene.shelf.put(Precedence::Project, "workflows/x.json", &authored("old-one", &members));
    scene.shelf.bind(r#"{"checker":"the owner"}"#);
    let body = scene.inspect("old-one", InspectMode::Preview).unwrap();
    let codes: Vec<DiscoveryWarningCode> = body.warnings.iter().map(|warning| warning.code).collect();
    assert!(codes.contains(&DiscoveryWarningCode::LegacyWorkflowId));
    assert!(codes.contains(&DiscoveryWarningCode::ReferenceUnresolved));
    assert_eq!(body.suggested_id.as_deref(), Some("project.old_one"));
    insta::assert_snapshot!(body.text);
}

#[test]
fn compiler_warnings_are_shown() {
    let scene = Scene::new();
    let members = json!({
        "steps": [
            { "id": "again", "type": "loop", "title": "Again", "body": "part",
              "loop": { "type": "while", "maxIterations": 2, "condition": { "var": "go" } } },
            { "id": "part", "title": "Part", "prompt": "Do it; set go." },
        ],
        "features": ["wr.features.capabilities"],
    });
    scene.shelf.put(Precedence::Project, "loop.json", &authored("team.loop", &members));
    let body = scene.inspect("team.loop", InspectMode::Metadata).unwrap();
    let told: Vec<&str> = body.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(body.warnings.iter().all(|warning| warning.code == DiscoveryWarningCode::CompilerWarning));
    // The diagnostic about the feature has the place and the fix, and the kept warning does not repeat it.
    assert_eq!(told.len(), 2, "{told:?}");
    insta::assert_snapshot!("compiler_warnings", told.join("\n"));
    assert!(body.text.contains(told[1]), "{}", body.text);
}

#[test]
fn an_old_name_finds_the_bundled_workflow_and_says_so() {
    for old in ["bug-investigation", "bug-investigation-agentic", "wr.bug-investigation"] {
        let scene = bundled();
        let body = scene.inspect(old, InspectMode::Metadata).unwrap();
        assert_eq!(body.canonical_id.as_deref(), Some("wr.bug_investigation"));
        assert_eq!(body.warnings[0].code, DiscoveryWarningCode::AliasUsed);
        let started = start(&scene, old);
        assert_eq!(started["run"]["workflowId"], "wr.bug_investigation");
        assert_eq!(started["warnings"][0]["code"], "ALIAS_USED");
        assert!(started["warnings"][0]["message"].as_str().unwrap().contains(old), "{started}");
        assert!(started["text"].as_str().unwrap().contains("use `wr.bug_investigation`"), "{started}");
    }
}

#[test]
fn a_file_with_an_old_name_comes_before_the_alias() {
    let scene = bundled();
    scene.shelf.put(Precedence::Project, "own.json", &workflow("bug-investigation"));
    let body = scene.inspect("bug-investigation", InspectMode::Metadata).unwrap();
    assert_eq!((body.workflow_id.as_str(), body.canonical_id), ("bug-investigation", None));
    let started = start(&scene, "bug-investigation");
    assert_eq!(started["run"]["workflowId"], "bug-investigation");
    assert!(!started["warnings"].to_string().contains("ALIAS_USED"), "{started}");
}

#[test]
fn an_unknown_id_gets_the_nearest_one_and_a_bounded_list() {
    let scene = bundled();
    for number in 0..50 {
        scene.shelf.put(Precedence::User, &format!("{number}.json"), &workflow(&format!("team.f{number}")));
    }
    for (asked, near) in
        [("wr.bug_investigaton", "wr.bug_investigation"), ("team.bug_investigation", "wr.bug_investigation")]
    {
        let error = scene.inspect(asked, InspectMode::Metadata).unwrap_err();
        assert_eq!(error.code, ErrorCode::WorkflowNotFound);
        assert!(error.suggestion.contains(&format!("Did you mean `{near}`?")), "{}", error.suggestion);
        let known = json!(error.details)["known"].as_array().unwrap().clone();
        assert_eq!((known.len(), known[0].as_str()), (20, Some(near)));
    }
    let stranger = scene.inspect("zzz.qqqqqqqqqqqq", InspectMode::Metadata).unwrap_err();
    assert!(stranger.suggestion.starts_with("Known: team.f0, "), "{}", stranger.suggestion);
    let bad = scene.inspect("../../etc", InspectMode::Metadata).unwrap_err();
    assert_eq!(bad.code, ErrorCode::ValidationError);
}

#[test]
fn a_long_plan_is_cut_in_the_text_and_whole_in_the_data() {
    let scene = Scene::new();
    let steps: Vec<_> = (0..300)
        .map(|number| json!({ "id": format!("step-{number}"), "title": "A title that takes its room", "prompt": "x" }))
        .collect();
    let long: Vec<String> = (0..60).map(|number| format!("{number} {}", "condition ".repeat(20))).collect();
    let members = json!({ "steps": steps, "preconditions": long });
    scene.shelf.put(Precedence::User, "x.json", &authored("team.long", &members));
    let body = scene.inspect("team.long", InspectMode::Preview).unwrap();
    assert_eq!(body.plan.len(), 300);
    assert!(body.text.len() <= DISCOVERY_TEXT_BYTES_MAX, "{}", body.text.len());
    assert!(body.text.contains("lines are left out of this text"));
    let last = body.text.lines().next_back().unwrap();
    assert!(last.starts_with("Next: start_workflow {\"workflowId\":\"team.long\"}. Add `goal`"), "{last}");
}
