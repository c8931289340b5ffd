//! What is skipped and disclosed: modes that wait for no one, loops that end, gaps and what closes them.

use serde_json::{Value, json};
use workrail_engine::request::StartWorkflow;
use workrail_model::discovery::Precedence;
use workrail_model::error::ErrorCode;
use workrail_model::preferences::Mode;

use crate::gates::gated;
use crate::played::{Played, delivering, files, step};
use crate::scene::{Scene, authored};

/// G61: a mistake is requested twice more before the gap is recorded.
#[test]
fn never_stop_returns_a_mistake_twice_and_then_records_one_gap() {
    let typo = |run: &mut Played| {
        run.send(json!({ "notes": "Files: a.rs", "artifacts": [files("X")], "size": "small" }))
    };
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::FullAutoNeverStop);
    assert_eq!(typo(&mut run)["kind"], "blocked");
    assert_eq!(run.send(json!({ "artifacts": [files("M")] }))["run"]["stepId"], "end");
    assert_eq!(run.gaps(), Vec::<String>::new(), "a slip that was corrected leaves nothing behind");

    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::FullAutoNeverStop);
    assert_eq!(
        (typo(&mut run)["kind"].clone(), typo(&mut run)["kind"].clone()),
        (json!("blocked"), json!("blocked"))
    );
    let passed = typo(&mut run);
    assert_eq!(passed["run"]["stepId"], "end");
    assert_eq!(run.gaps(), ["invalid_required_output"]);
    // A later step that delivers it closes the gap.
    let done = run.send(json!({ "notes": "Ended.", "artifacts": [files("H")] }));
    assert_eq!((&done["status"], run.gaps()), (&json!("complete"), vec![]));
}

fn looping() -> Value {
    let decide = step("decide", json!({ "output": { "contractRef": "wr.contracts.loop_control" } }));
    json!([
        { "id": "again", "type": "loop", "title": "Again", "body": [step("work", json!({})), decide, step("tidy", json!({}))],
          "loop": { "type": "while", "maxIterations": 5,
                    "conditionSource": { "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control" } } },
        step("end", json!({})),
    ])
}

#[test]
fn a_loop_whose_decision_never_comes_ends_and_leaves_one_gap() {
    let mut run = Played::start(looping(), Mode::FullAutoNeverStop);
    let mut steps = Vec::new();
    for _ in 0..20 {
        if run.at["isComplete"] == true {
            break;
        }
        steps.push(run.at["run"]["stepId"].as_str().unwrap().to_owned());
        run.send(json!({ "notes": "Worked on." }));
    }
    assert_eq!(steps, ["work", "decide", "decide", "decide", "tidy", "end"]);
    assert_eq!(
        (run.at["status"].as_str(), run.gaps()),
        (Some("complete_with_gaps"), vec!["missing_required_output".to_owned()])
    );
}

/// G61: no reply asks to wait in a mode that does not wait.
#[test]
fn never_stop_waits_for_no_one() {
    let gate = step("gate", json!({ "requireConfirmation": { "kind": "human_approval" } }));
    let mut run = Played::start(json!([gate, step("end", json!({}))]), Mode::FullAutoNeverStop);
    assert!(!run.text().contains("wait for"), "{}", run.text());
    assert_eq!(run.send(json!({ "notes": "Prepared it." }))["run"]["stepId"], "end");
    assert_eq!(run.gaps(), ["needs_user_approval"]);
}

/// G41: another branch that delivers what was missing closes the gap.
#[test]
fn a_fork_that_delivers_what_was_missing_closes_the_gap() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::FullAutoNeverStop);
    let first = run.at.clone();
    for _ in 0..3 {
        run.send(json!({ "notes": "Files: none", "size": "small" }));
    }
    assert_eq!(run.gaps(), ["missing_required_output"]);
    run.at = first;
    run.look();
    run.send(json!({ "notes": "Files: a.rs", "artifacts": [files("L")], "size": "small" }));
    assert_eq!(run.gaps(), Vec::<String>::new());
}

/// G41: the end of a run lists the steps that were skipped because a context key was never set.
#[test]
fn undecided_steps_are_disclosed_when_the_run_ends() {
    let when = json!({ "runCondition": { "var": "path", "equals": "long" } });
    let steps = json!([step("triage", json!({})), step("a", when.clone()), step("b", when)]);
    let mut run = Played::start(steps, Mode::Guided);
    insta::assert_snapshot!("a_key_that_steps_depend_on", run.text());
    let done = run.send(json!({ "notes": "Looked at it." }));
    assert_eq!((&done["isComplete"], &done["status"]), (&json!(true), &json!("complete")));
    assert_eq!(done["warnings"][0]["code"], "CONTEXT_KEY_NEVER_SET");
    insta::assert_snapshot!("undecided_steps_at_the_end", run.text());
    assert_eq!(run.gaps(), ["context_key_never_set"]);
}

/// G41: the end of a run lists the loops that ended at their limit.
#[test]
fn a_loop_that_ended_at_its_limit_is_reported_at_the_end_as_well() {
    let mut steps = looping();
    steps[0]["loop"]["maxIterations"] = json!(1);
    let mut run = Played::start(steps, Mode::Guided);
    run.send(json!({ "notes": "Worked." }));
    run.send(json!({ "artifacts": [{ "kind": "wr.loop_control", "decision": "continue" }] }));
    run.send(json!({ "notes": "Tidied." }));
    insta::assert_snapshot!("after_a_loop_that_ended_at_its_limit", run.text());
    run.send(json!({ "notes": "Ended." }));
    insta::assert_snapshot!("end_after_a_loop_that_ended_at_its_limit", run.text());
}

#[test]
fn a_value_that_is_not_allowed_closes_no_gap() {
    let mut run = Played::start(
        json!([delivering(), step("next", json!({})), step("end", json!({}))]),
        Mode::FullAutoNeverStop,
    );
    for _ in 0..3 {
        run.send(json!({ "notes": "Files: a.rs", "artifacts": [files("L")], "size": "huge" }));
    }
    assert_eq!(run.gaps(), ["missing_context_key"]);
    run.send(json!({ "notes": "Went on." }));
    assert_eq!(run.gaps(), ["missing_context_key"], "the foreign value is still there and still foreign");
    let done = run.send(json!({ "notes": "Sized it after all.", "size": "small" }));
    assert_eq!((&done["status"], run.gaps()), (&json!("complete"), vec![]));
}

#[test]
fn an_artifact_closes_a_gap_only_if_it_is_valid_and_not_owed_here() {
    let list = |id: &str| step(id, json!({ "output": { "contractRef": "wr.contracts.changed_files" } }));
    let mut run =
        Played::start(json!([list("a"), list("b"), step("end", json!({}))]), Mode::FullAutoNeverStop);
    for _ in 0..3 {
        run.send(json!({ "notes": "Nothing listed." }));
    }
    run.send(json!({ "artifacts": [files("L")] }));
    assert_eq!(run.gaps(), ["missing_required_output"], "b delivered what b owes");
    run.send(json!({ "notes": "Listed.", "artifacts": [{ "kind": "wr.changed_files" }] }));
    assert_eq!(run.gaps(), ["missing_required_output"], "an invalid list delivers nothing");
}

#[test]
fn under_never_stop_a_mistake_at_a_gate_is_the_only_thing_asked_for() {
    let mut run = Played::start(gated(), Mode::FullAutoNeverStop);
    let blocked = run.send(json!({}));
    let codes: Vec<&Value> = blocked["blockers"].as_array().unwrap().iter().map(|own| &own["code"]).collect();
    assert_eq!(
        (codes, &blocked["nextIntent"]),
        (vec![&json!("MISSING_REQUIRED_NOTES")], &json!("perform_pending_then_continue"))
    );
    assert!(!run.text().contains("wait until") && !run.text().contains("has decided"), "{}", run.text());
    assert_eq!(run.scene.engine.waiting(&run.label()).unwrap_err().code, ErrorCode::ValidationError);
}

#[test]
fn a_missing_capability_is_disclosed_although_its_report_was_kept_from_a_refused_attempt() {
    let scene = Scene::new();
    let sets = json!({ "sets": { "size": { "values": ["small", "large"] } } });
    let members = json!({
        "steps": [step("one", sets), step("end", json!({}))],
        "capabilities": { "preferred": ["web_browsing"] },
    });
    scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &members));
    let request = StartWorkflow { workflow_id: "team.run".to_owned(), ..StartWorkflow::default() };
    let at = scene.engine.start_workflow(request).unwrap().into_structured();
    let mut run = Played { scene, at };
    let report =
        json!({ "kind": "wr.capability_observation", "capability": "web_browsing", "status": "unavailable" });
    let blocked = run.send(json!({ "notes": "Tried.", "artifacts": [report] }));
    assert_eq!(blocked["kind"], "blocked");
    run.send(json!({ "size": "small" }));
    assert!(run.gaps().iter().any(|gap| gap == "capability_degraded"), "{:?}", run.gaps());
}

/// A run of a step whose rating `unready` asks for more, under never-stop.
fn judging() -> Played {
    let scene = Scene::new();
    let members = json!({
        "assessments": [{ "id": "ready", "purpose": "Ready?", "dimensions": [
            { "id": "state", "purpose": "How far?", "levels": ["unready", "ready"] },
            { "id": "way_back", "purpose": "Undone?", "levels": ["unready", "ready"] }] }],
        "steps": [step("judge", json!({
            "assessmentRefs": ["ready"],
            "assessmentConsequences": [{ "when": { "anyEqualsLevel": "unready" },
                "effect": { "kind": "require_followup", "guidance": "Close the worst gap." } }],
        })), step("end", json!({}))],
    });
    scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &members));
    let mode = Some(Mode::FullAutoNeverStop);
    let request = StartWorkflow { workflow_id: "team.run".to_owned(), mode, ..StartWorkflow::default() };
    let at = scene.engine.start_workflow(request).unwrap().into_structured();
    Played { scene, at }
}

#[test]
fn never_stop_asks_once_for_a_second_look_and_then_records_the_judgement() {
    let mut run = judging();
    let unready =
        json!({ "kind": "wr.assessment", "dimensions": { "state": "unready", "way_back": "unready" } });
    let first = run.send(json!({ "notes": "Judged it, not ready.", "artifacts": [unready] }));
    assert_eq!(first["kind"], "blocked");
    let message = first["blockers"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("`state`, `way_back` were assessed as \"unready\""), "{message}");
    let second = run.send(json!({ "artifacts": [unready] }));
    assert_eq!((&second["kind"], &second["run"]["stepId"]), (&json!("ok"), &json!("end")), "{}", run.text());
}

#[test]
fn an_earlier_mistake_does_not_use_up_the_second_look() {
    let mut run = judging();
    assert_eq!(run.send(json!({ "notes": "Judged it, not ready." }))["kind"], "blocked");
    let unready =
        json!({ "kind": "wr.assessment", "dimensions": { "state": "unready", "way_back": "ready" } });
    let asked = run.send(json!({ "artifacts": [unready] }));
    assert_eq!(asked["blockers"][0]["code"], "ASSESSMENT_FOLLOWUP_REQUIRED", "{}", run.text());
    assert_eq!(run.send(json!({ "artifacts": [unready] }))["run"]["stepId"], "end", "{}", run.text());
}
