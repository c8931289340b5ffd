//! What a person does to a run, and what the run says about it: approvals, modes, gaps, refusals.

use serde_json::{Map, Value, json};
use workrail_core::report::ContextValues;
use workrail_engine::request::{CheckpointWorkflow, ContinueWorkflow, ResumeSession, StartWorkflow};
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin, Descent};
use workrail_model::discovery::Precedence;
use workrail_model::error::ErrorCode;
use workrail_model::gap::Severity;
use workrail_model::preferences::{Autonomy, Mode, PreferenceChange, Preferences, RiskPolicy};
use workrail_model::submission::StepOutput;

use crate::scene::{Scene, authored};

const ORIGIN: ApprovalOrigin =
    ApprovalOrigin { channel: ApprovalChannel::Terminal, descends_from_server: Descent::Unknown };

fn step(id: &str, more: &Value) -> Value {
    let mut step = json!({ "id": id, "title": format!("Step {id}"), "prompt": format!("Do {id}.") });
    for (key, value) in more.as_object().unwrap() {
        step[key] = value.clone();
    }
    step
}

fn scene(first: &Value) -> Scene {
    let scene = Scene::new();
    let steps = json!([step("a", first), step("b", &json!({}))]);
    let members = json!({ "steps": steps, "recommendedPreferences": { "recommendedAutonomy": "guided" } });
    scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &members));
    scene
}

fn start(scene: &Scene, mode: Option<Mode>, parent: Option<&Value>) -> Value {
    let parent = parent.and_then(|reply| reply["ackToken"].as_str()).map(str::to_owned);
    let request =
        StartWorkflow { workflow_id: "team.run".to_owned(), mode, parent, ..StartWorkflow::default() };
    scene.engine.start_workflow(request).unwrap().into_structured()
}

fn send(scene: &Scene, reply: &Value, context: Value) -> Value {
    let Value::Object(context) = context else { panic!("context is an object") };
    sent(scene, reply, context).unwrap()
}

fn sent(scene: &Scene, reply: &Value, context: Map<String, Value>) -> Result<Value, ErrorCode> {
    let request = ContinueWorkflow {
        ack_token: reply["ackToken"].as_str().map(str::to_owned),
        output: StepOutput { notes_markdown: Some("Did the work.".to_owned()), artifacts: Vec::new() },
        context,
        ..ContinueWorkflow::default()
    };
    scene.engine.continue_workflow(request).map(|reply| reply.into_structured()).map_err(|error| error.code)
}

fn look(scene: &Scene, reply: &Value) -> Value {
    let state_token = reply["stateToken"].as_str().map(str::to_owned);
    let request = ContinueWorkflow { state_token, ..ContinueWorkflow::default() };
    scene.engine.continue_workflow(request).unwrap().into_structured()
}

fn label(reply: &Value) -> &str {
    reply["run"]["label"].as_str().unwrap()
}

fn approve(scene: &Scene, reply: &Value) {
    let waiting = scene.engine.waiting(label(reply)).unwrap();
    scene.engine.approve(label(reply), &waiting, (ApprovalDecision::Approved, None), ORIGIN).unwrap();
}

#[test]
fn a_gate_opens_only_by_a_persons_decision() {
    let gates = [
        json!({ "requireConfirmation": { "kind": "human_approval" } }),
        // Decided by what the refused attempt itself contained.
        json!({ "requireConfirmation": { "kind": "human_approval", "condition": { "var": "risk", "equals": "high" } } }),
        json!({ "userDependencies": [{
            "reason": "needs_user_choice", "choiceKind": "scope_boundary", "description": "Which of both?",
        }] }),
    ];
    for gate in gates {
        let scene = scene(&gate);
        let first = start(&scene, None, None);
        let blocked = send(&scene, &first, json!({ "risk": "high" }));
        assert_eq!(
            (&blocked["kind"], &blocked["nextIntent"]),
            (&json!("blocked"), &json!("await_user_confirmation"))
        );
        let text = blocked["text"].as_str().unwrap();
        assert!(text.contains(&format!("workrail approve {}", label(&first))), "{text}");
        let again = send(&scene, &blocked, json!({}));
        assert_eq!(again["kind"], "blocked", "nothing an agent sends opens it");
        approve(&scene, &first);
        let through = send(&scene, &again, json!({}));
        assert_eq!((&through["kind"], &through["run"]["stepId"]), (&json!("ok"), &json!("b")), "{gate}");
    }
}

#[test]
fn a_label_is_recognised_in_capitals_and_with_a_space() {
    let scene = scene(&json!({ "requireConfirmation": { "kind": "human_approval" } }));
    let first = start(&scene, None, None);
    send(&scene, &first, json!({}));
    let spoken = label(&first).replace('-', " ").to_uppercase();
    assert_eq!(scene.engine.waiting(&spoken).unwrap().label, label(&first));
    let named = |state_token: Option<String>| ContinueWorkflow {
        state_token,
        run: Some(spoken.clone()),
        ..ContinueWorkflow::default()
    };
    let state_token = first["stateToken"].as_str().map(str::to_owned);
    let shown = scene.engine.continue_workflow(named(state_token)).unwrap().into_structured();
    assert_eq!(label(&shown), label(&first));
    let refused = scene.engine.continue_workflow(named(None)).unwrap_err();
    assert_eq!(refused.next_call.unwrap().arguments["run"], label(&first), "it leads back to the run");
}

#[test]
fn a_gate_on_an_earlier_point_can_be_opened_too() {
    let scene = scene(&json!({ "requireConfirmation": { "kind": "human_approval" } }));
    let first = start(&scene, Some(Mode::FullAutoNeverStop), None);
    send(&scene, &first, json!({}));
    request(&scene, &first, Mode::Guided);
    let blocked = send(&scene, &look(&scene, &first), json!({}));
    assert_eq!(blocked["kind"], "blocked");
    approve(&scene, &first);
    assert_eq!(send(&scene, &blocked, json!({}))["run"]["stepId"], "b");
}

fn request(scene: &Scene, reply: &Value, mode: Mode) {
    let Preferences { autonomy, risk_policy } = mode.preferences();
    let changes = [PreferenceChange::Autonomy(autonomy), PreferenceChange::RiskPolicy(risk_policy)];
    let asked = scene.engine.set_preferences(scene.engine.find(label(reply)).unwrap(), &changes).unwrap();
    assert_eq!(asked.iter().map(|run| run.pending).collect::<Vec<_>>(), [Some(mode.preferences())]);
}

#[test]
fn preferences_apply_to_a_whole_session_and_single_keys_leave_the_others() {
    let scene = scene(&json!({}));
    let parent = start(&scene, None, None);
    start(&scene, None, Some(&parent));
    let session = scene.engine.find(parent["run"]["sessionId"].as_str().unwrap()).unwrap();
    let bold = [PreferenceChange::RiskPolicy(RiskPolicy::Aggressive)];
    let asked = scene.engine.set_preferences(session, &bold).unwrap();
    assert_eq!(asked.len(), 2);
    for run in scene.engine.preferences_of(session).unwrap() {
        assert_eq!(run.applied, Preferences::default());
        let pending = run.pending.unwrap();
        assert_eq!((pending.autonomy, pending.risk_policy), (run.applied.autonomy, RiskPolicy::Aggressive));
    }
    let done = send(&scene, &send(&scene, &parent, json!({})), json!({}));
    assert_eq!(done["isComplete"], true);
    let run = scene.engine.find(label(&parent)).unwrap();
    assert_eq!(scene.engine.set_preferences(run, &bold).unwrap_err().code, ErrorCode::ValidationError);
}

#[test]
fn there_is_nothing_to_approve_if_nothing_waits() {
    let scene = scene(&json!({}));
    let first = start(&scene, None, None);
    assert_eq!(scene.engine.waiting(label(&first)).unwrap_err().code, ErrorCode::ValidationError);
    assert_eq!(scene.engine.waiting("amber-nobody").unwrap_err().code, ErrorCode::SessionNotFound);
}

/// G64: a change is shown as pending until a node applies it.
#[test]
fn a_requested_mode_applies_to_one_run_is_shown_as_pending_and_warns_about_high_autonomy() {
    let scene = scene(&json!({}));
    let parent = start(&scene, None, None);
    let child = start(&scene, None, Some(&parent));
    request(&scene, &parent, Mode::FullAutoNeverStop);
    assert_eq!(look(&scene, &parent)["warnings"][0]["code"], "PREFERENCES_PENDING");
    assert!(look(&scene, &child).get("warnings").is_none());
    assert_eq!(send(&scene, &child, json!({}))["preferences"]["autonomy"], "guided");
    let applied = send(&scene, &parent, json!({}));
    assert_eq!(applied["preferences"]["autonomy"], "full_auto_never_stop");
    assert_eq!(applied["warnings"][0]["code"], "PREFERENCES_ABOVE_RECOMMENDATION");
    assert!(look(&scene, &applied).get("warnings").is_none(), "applied is no longer pending");
}

/// G60: without a chosen mode, a run takes the mode of its parent run.
#[test]
fn a_nested_run_has_the_autonomy_of_the_outer_one() {
    let scene = scene(&json!({}));
    let parent = start(&scene, Some(Mode::FullAutoNeverStop), None);
    let child = start(&scene, None, Some(&parent));
    assert_eq!(child["preferences"]["autonomy"], Autonomy::FullAutoNeverStop.as_str());
    assert_eq!(start(&scene, Some(Mode::Guided), Some(&parent))["preferences"]["autonomy"], "guided");
}

#[test]
fn a_complete_run_names_its_gaps_and_its_way_back_every_time() {
    let scene = scene(&json!({ "requireConfirmation": { "kind": "human_approval" } }));
    let parent = start(&scene, Some(Mode::FullAutoNeverStop), None);
    let child = start(&scene, None, Some(&parent));
    let done = send(&scene, &send(&scene, &child, json!({})), json!({}));
    for (shown, reply) in [("ended", &done), ("looked_at", &look(&scene, &done))] {
        assert_eq!((&reply["isComplete"], &reply["status"]), (&json!(true), &json!("complete_with_gaps")));
        insta::assert_snapshot!(format!("nested_run_with_a_gap_{shown}"), reply["text"].as_str().unwrap());
        assert_eq!(reply["returnTo"]["label"], parent["run"]["label"]);
    }
}

/// Runs the scene to its end in the mode that never stops; its last reply, and the id of the gap it names.
fn finished_with_a_gap(scene: &Scene) -> (Value, String) {
    let mut done = start(scene, Some(Mode::FullAutoNeverStop), None);
    while done["isComplete"] != true {
        done = send(scene, &done, json!({}));
    }
    let text = done["text"].as_str().unwrap();
    let id = text.split_whitespace().find(|word| word.starts_with("gap_")).unwrap().trim_end_matches(':');
    let id = id.to_owned();
    (done, id)
}

fn closing(done: &Value, gap: &str) -> CheckpointWorkflow {
    let artifact = json!({ "kind": "wr.gap_resolution", "gapId": gap, "summary": "The user agreed." });
    CheckpointWorkflow {
        checkpoint_token: done["checkpointToken"].as_str().map(str::to_owned),
        output: StepOutput { notes_markdown: None, artifacts: vec![artifact] },
        ..CheckpointWorkflow::default()
    }
}

/// G41: a gap is resolved by a later record that links to it.
#[test]
fn a_gap_is_closed_by_a_link_and_stays_visible() {
    let scene = scene(&json!({ "output": { "contractRef": "wr.contracts.changed_files" } }));
    let (done, gap) = finished_with_a_gap(&scene);
    assert!(done["text"].as_str().unwrap().contains("wr.gap_resolution"), "{}", done["text"]);
    scene.engine.checkpoint_workflow(closing(&done, &gap)).unwrap();
    assert_eq!(look(&scene, &done)["status"], "complete");
}

#[test]
fn an_agent_cannot_close_the_gap_of_what_only_the_user_could_give() {
    let choice = json!([{
        "reason": "needs_user_choice", "choiceKind": "scope_boundary", "description": "Which of both?",
    }]);
    for gate in [
        json!({ "requireConfirmation": { "kind": "human_approval" } }),
        json!({ "userDependencies": choice }),
    ] {
        let scene = scene(&gate);
        let (done, gap) = finished_with_a_gap(&scene);
        assert!(!done["text"].as_str().unwrap().contains("wr.gap_resolution"), "{}", done["text"]);
        let refused = scene.engine.checkpoint_workflow(closing(&done, &gap)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::ValidationError);
        assert!(refused.message.contains(&gap), "{refused:?}");
        insta::assert_snapshot!("what_only_the_user_can_close", refused.suggestion);
        assert_eq!(look(&scene, &done)["status"], "complete_with_gaps");
    }
}

#[test]
fn a_step_cannot_close_the_gap_of_a_missing_approval_either() {
    let scene = scene(&json!({ "requireConfirmation": { "kind": "human_approval" } }));
    let (_, gap) = finished_with_a_gap(&scene);
    let first = start(&scene, Some(Mode::FullAutoNeverStop), None);
    let second = send(&scene, &first, json!({}));
    let run = scene.engine.find(label(&first)).unwrap();
    let report = scene.engine.report(run, ContextValues::NotShown).unwrap();
    let own = report.runs[0].gaps.iter().find(|gap| gap.severity == Severity::Critical).unwrap();
    let own = own.gap_id.to_string();
    let ending = |gap: &str| ContinueWorkflow {
        ack_token: second["ackToken"].as_str().map(str::to_owned),
        output: StepOutput {
            notes_markdown: Some("Did the work.".to_owned()),
            ..closing(&second, gap).output
        },
        ..ContinueWorkflow::default()
    };
    let refused = scene.engine.continue_workflow(ending(&own)).unwrap_err();
    assert_eq!(json!(refused.details)["refusedArtifact"], 0);
    // Another run's gap does not concern this one, and the reply says so; the refused attempt has left no trace.
    let blocked = scene.engine.continue_workflow(ending(&gap)).unwrap().into_structured();
    assert_eq!(blocked["blockers"][0]["code"], "INVALID_REQUIRED_OUTPUT");
    assert!(blocked["text"].as_str().unwrap().contains(&own), "{}", blocked["text"]);
    assert_eq!(send(&scene, &blocked, json!({}))["status"], "complete_with_gaps");
}

#[test]
fn looking_at_a_refused_step_says_what_it_still_needs() {
    let scene = scene(&json!({ "requireConfirmation": { "kind": "human_approval" } }));
    let first = start(&scene, None, None);
    send(&scene, &first, json!({}));
    let again = look(&scene, &first);
    assert_eq!(again["blockers"][0]["code"], "USER_ONLY_DEPENDENCY");
    insta::assert_snapshot!("a_refused_step_looked_at", again["text"].as_str().unwrap());
}

#[test]
fn words_that_look_like_a_label_are_still_searched() {
    let scene = scene(&json!({}));
    let request = StartWorkflow {
        workflow_id: "team.run".to_owned(),
        goal: Some("rework the amber-falcon importer".to_owned()),
        ..StartWorkflow::default()
    };
    scene.engine.start_workflow(request).unwrap();
    let search = |query: &str| {
        let request = ResumeSession { query: Some(query.to_owned()), ..ResumeSession::default() };
        scene.engine.resume_session(request).unwrap().into_structured()
    };
    assert_eq!(search("amber-falcon importer")["candidates"][0]["whyMatched"], json!(["matched_goal"]));
    let unrelated = search("zebra migration");
    assert!(
        unrelated["text"].as_str().unwrap().starts_with("No run matches these words."),
        "{}",
        unrelated["text"]
    );
}

#[test]
fn a_change_of_context_that_cannot_be_recorded_is_refused_and_not_cut() {
    let scene = scene(&json!({}));
    let many: Map<String, Value> = (0..20_000).map(|n| (format!("k{n:05}"), json!(1))).collect();
    let request = StartWorkflow {
        workflow_id: "team.run".to_owned(),
        context: many.clone(),
        ..StartWorkflow::default()
    };
    let first = scene.engine.start_workflow(request).unwrap().into_structured();
    let ack = first["ackToken"].as_str().map(str::to_owned);
    let removed: Map<String, Value> =
        many.keys().take(15_000).map(|key| (key.clone(), Value::Null)).collect();
    // Refused for lack of notes, so that the removal is kept for the retry.
    let request = ContinueWorkflow { ack_token: ack, context: removed, ..ContinueWorkflow::default() };
    let blocked = scene.engine.continue_workflow(request).unwrap().into_structured();
    assert_eq!(blocked["kind"], "blocked");
    let more = Map::from_iter([("big".to_owned(), json!("x".repeat(190_000)))]);
    assert_eq!(sent(&scene, &blocked, more), Err(ErrorCode::ValidationError));
    assert_eq!(sent(&scene, &blocked, Map::new()).unwrap()["kind"], "ok");
}

#[test]
fn a_changed_file_is_mentioned_and_changes_no_run() {
    let scene = scene(&json!({}));
    let first = start(&scene, None, None);
    assert!(look(&scene, &first).get("warnings").is_none());
    let changed = json!({ "steps": [{ "id": "other", "title": "Other", "prompt": "Do something else." }] });
    scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &changed));
    let again = look(&scene, &first);
    assert_eq!(again["warnings"][0]["code"], "PINNED_WORKFLOW_DIFFERS");
    assert_eq!(again["run"]["stepId"], "a");
    assert_eq!(send(&scene, &first, json!({}))["run"]["stepId"], "b");
    // A broken or missing file matters only to the next start.
    scene.shelf.put(Precedence::Project, "run.json", "{");
    assert!(look(&scene, &first).get("warnings").is_none());
}

#[test]
fn a_title_never_carries_a_whole_variable() {
    let scene = Scene::new();
    let steps = json!([{ "id": "a", "title": "Fix {{thing}}", "prompt": "Do it." }]);
    scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &json!({ "steps": steps })));
    let request = StartWorkflow {
        workflow_id: "team.run".to_owned(),
        context: Map::from_iter([("thing".to_owned(), json!("y".repeat(120_000)))]),
        ..StartWorkflow::default()
    };
    let reply = scene.engine.start_workflow(request).unwrap().into_structured();
    assert!(reply["text"].as_str().unwrap().len() < 4_000);
    let found = scene.engine.resume_session(ResumeSession::default()).unwrap().into_structured();
    assert!(found["text"].as_str().unwrap().len() < 4_000);
}
