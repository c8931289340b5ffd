//! A fix is a delta: what a refused attempt sent is kept, and the retry sends only what was wrong.

use serde_json::{Value, json};
use workrail_core::report::ContextValues;
use workrail_engine::request::{ReadRun, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::error::ErrorCode;
use workrail_model::limits::NOTES_BYTES_MAX;
use workrail_model::preferences::Mode;

use crate::played::{Played, delivering, files, step};
use crate::scene::{Scene, authored};

#[test]
fn a_fix_sends_only_what_was_wrong() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    let blocked = run.send(json!({ "notes": "Files: a.rs", "artifacts": [files("X")], "size": "huge" }));
    assert_eq!(blocked["kind"], "blocked");
    let asked = blocked["nextCall"]["arguments"].clone();
    assert!(asked["output"].get("notesMarkdown").is_none(), "the notes were good: {asked}");
    assert_eq!(asked["context"], json!({ "size": "<one of: small | large>" }));
    insta::assert_snapshot!("what_a_retry_keeps", run.text());
    // One thing at a time: each retry keeps what the ones before delivered.
    let blocked = run.send(json!({ "artifacts": [files("L")] }));
    assert_eq!(blocked["nextCall"]["arguments"].get("output"), None);
    let next = run.send(json!({ "size": "large" }));
    assert_eq!((&next["kind"], &next["run"]["stepId"]), (&json!("ok"), &json!("end")));
    let shown = run.look();
    assert!(shown["text"].as_str().unwrap().contains("Files: a.rs"), "the notes of the first attempt stand");
}

#[test]
fn an_artifact_that_was_at_fault_is_not_inherited() {
    let mut run = Played::start(json!([step("one", json!({})), step("end", json!({}))]), Mode::Guided);
    let blocked = run.send(json!({ "notes": "Did it.", "artifacts": [
        { "kind": "wr.workflow_divergence", "reason": "boredom", "summary": "s" }, { "kind": "own.table", "rows": 3 }] }));
    assert_eq!(blocked["kind"], "blocked");
    let next = run.send(json!({}));
    assert_eq!(next["run"]["stepId"], "end", "leaving it out is a fix, too");
    let gap = json!({ "notes": "Did it.", "artifacts": [{ "kind": "wr.gap_resolution", "gapId": "gap_0", "summary": "s" }] });
    let blocked = run.send(gap);
    insta::assert_snapshot!("a_gap_that_the_run_does_not_have", blocked["text"].as_str().unwrap());
    assert_eq!(run.send(json!({}))["isComplete"], true);
}

#[test]
fn a_new_chat_continues_a_refused_attempt_with_what_it_sent() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Files: a.rs", "artifacts": [files("L")] }));
    let again = run.look();
    let asked = again["nextCall"]["arguments"].clone();
    assert_eq!(
        (asked.get("output"), &asked["context"]),
        (None, &json!({ "size": "<one of: small | large>" }))
    );
    assert_eq!(run.send(json!({ "size": "small" }))["run"]["stepId"], "end");
}

#[test]
fn empty_phrases_do_not_count_as_notes() {
    for notes in [".", "done", "Done!", "<what you did in this step>", "n/a"] {
        let mut run = Played::start(json!([step("one", json!({}))]), Mode::Guided);
        let blocked = run.send(json!({ "notes": notes }));
        assert_eq!(blocked["blockers"][0]["code"], "MISSING_REQUIRED_NOTES", "{notes}");
        assert_eq!(run.send(json!({ "notes": "Renamed it." }))["isComplete"], true);
    }
}

#[test]
fn a_corrected_assessment_replaces_the_previous_one() {
    let scene = Scene::new();
    let members = json!({
        "assessments": [{ "id": "cause", "purpose": "Known?", "dimensions": [
            { "id": "control", "purpose": "How far?", "levels": ["none", "full"] }] }],
        "steps": [step("judge", json!({
            "assessmentRefs": ["cause"],
            "assessmentConsequences": [{ "when": { "anyEqualsLevel": "none" },
                "effect": { "kind": "require_followup", "guidance": "Try again." } }],
        })), step("end", json!({}))],
    });
    scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &members));
    let request = StartWorkflow { workflow_id: "team.run".to_owned(), ..StartWorkflow::default() };
    let at = scene.engine.start_workflow(request).unwrap().into_structured();
    let mut run = Played { scene, at };
    let rated = |level: &str, id: Option<&str>| {
        let mut artifact = json!({ "kind": "wr.assessment", "dimensions": { "control": level } });
        id.into_iter().for_each(|id| artifact["assessmentId"] = json!(id));
        artifact
    };
    let blocked = run.send(json!({ "notes": "Looked.", "artifacts": [rated("none", Some("cause"))] }));
    assert_eq!(blocked["blockers"][0]["code"], "ASSESSMENT_FOLLOWUP_REQUIRED");
    let next = run.send(json!({ "notes": "Tried again.", "artifacts": [rated("full", None)] }));
    assert_eq!(next["run"]["stepId"], "end", "{}", next["text"]);
}

/// A loop with this label and one step, which decides about it and sets a value; then a last step.
fn deciding_loop(label: &str) -> Value {
    let decide = step(
        "decide",
        json!({
            "output": { "contractRef": "wr.contracts.loop_control" },
            "sets": { "size": { "values": ["small", "large"] } },
        }),
    );
    json!([
        { "id": "again", "type": "loop", "title": "Again", "body": [decide],
          "loop": { "type": "while", "maxIterations": 5, "conditionSource": {
              "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control", "loopId": label } } },
        step("end", json!({})),
    ])
}

#[test]
fn a_loop_decision_of_a_retry_replaces_the_previous_one_however_it_names_the_loop() {
    let steps = deciding_loop("rounds");
    let decision =
        |word: &str, name: &str| json!({ "kind": "wr.loop_control", "decision": word, "loopId": name });
    for (old, new, next) in [("continue", "stop", "end"), ("stop", "continue", "decide")] {
        // At once, and after the retry was refused, too: what it replaced is not inherited.
        for retries in [
            vec![json!({ "artifacts": [decision(new, "rounds")], "size": "small" })],
            vec![json!({ "artifacts": [decision(new, "rounds")] }), json!({ "size": "small" })],
        ] {
            let mut run = Played::start(steps.clone(), Mode::Guided);
            assert_eq!(run.send(json!({ "artifacts": [decision(old, "again")] }))["kind"], "blocked");
            for retry in retries {
                run.send(retry);
            }
            let reached = (&run.at["kind"], &run.at["run"]["stepId"]);
            assert_eq!(reached, (&json!("ok"), &json!(next)), "{}", run.text());
        }
    }
}

/// Broke: recorded artifacts are ordered by their digests, so after a refused call its second decision could win.
#[test]
fn of_two_loop_decisions_in_one_call_the_first_also_counts_after_a_retry() {
    let steps = deciding_loop("again");
    let decision = |word: &str| json!({ "kind": "wr.loop_control", "decision": word });
    for (first, second, next) in [("continue", "stop", "decide"), ("stop", "continue", "end")] {
        let mut run = Played::start(steps.clone(), Mode::Guided);
        let both = json!([decision(first), decision(second)]);
        assert_eq!(run.send(json!({ "artifacts": both }))["kind"], "blocked");
        run.send(json!({ "size": "small" }));
        let reached = (&run.at["kind"], &run.at["run"]["stepId"]);
        assert_eq!(reached, (&json!("ok"), &json!(next)), "{}", run.text());
    }
}

/// A decision about another loop is none about this one.
#[test]
fn a_decision_about_another_loop_does_not_hide_the_one_that_is_meant() {
    let inner = json!({
        "id": "inner", "type": "loop", "title": "Inner", "body": [step("work", json!({}))],
        "loop": { "type": "while", "maxIterations": 5, "conditionSource": {
            "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control", "loopId": "inner" } },
    });
    let mut run = Played::start(json!([inner, step("end", json!({}))]), Mode::Guided);
    let decision = |name: &str| json!({ "kind": "wr.loop_control", "decision": "stop", "loopId": name });
    run.send(json!({ "notes": "Worked.", "artifacts": [decision("outer"), decision("inner")] }));
    assert_eq!(run.at["run"]["stepId"], "end", "{}", run.text());
}

#[test]
fn artifacts_of_an_agents_own_kind_are_kept_next_to_new_ones() {
    let mut run = Played::start(json!([step("find", json!({})), step("end", json!({}))]), Mode::Guided);
    let finding = |n: u32| json!({ "kind": "own.finding", "n": n });
    run.send(json!({ "artifacts": [finding(1), finding(2)] }));
    run.send(json!({ "notes": "Found three.", "artifacts": [finding(3)] }));
    let found = run.scene.engine.find(&run.label()).unwrap();
    let report = run.scene.engine.report(found, ContextValues::NotShown).unwrap();
    assert_eq!(report.runs[0].counts.artifacts, 5, "two of the refused attempt, three of the completed step");
}

#[test]
fn criteria_ask_for_notes_again_and_a_bad_artifact_does_not() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    let blocked = run.send(json!({ "notes": "Listed them.", "artifacts": [files("L")], "size": "small" }));
    assert_eq!(
        blocked["nextCall"]["arguments"]["output"],
        json!({ "notesMarkdown": "<what you did in this step>" })
    );
    run.send(json!({ "notes": "Files: a.rs" }));
    let blocked = run.send(json!({ "notes": "Ended.", "artifacts": ["a table"] }));
    assert_eq!(blocked["nextCall"]["arguments"].get("output"), None, "the notes were good");
}

#[test]
fn empty_phrases_do_not_replace_kept_notes() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Files: a.rs, all read.", "size": "small" }));
    let next = run.send(json!({ "notes": "see above", "artifacts": [files("L")] }));
    assert_eq!(next["run"]["stepId"], "end");
    assert!(run.look()["text"].as_str().unwrap().contains("Files: a.rs, all read."));
}

#[test]
fn notes_of_a_retry_are_added_to_good_ones_and_replace_refused_ones() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Nothing named.", "artifacts": [files("X")], "size": "small" }));
    // The criterion refused these notes: the next ones replace them.
    run.send(json!({ "notes": "Files: a.rs, by reading." }));
    // Now only the artifact is wrong, and a sentence about it is added.
    run.send(json!({ "notes": "Risk corrected.", "artifacts": [files("L")] }));
    let shown = run.look();
    let text = shown["text"].as_str().unwrap();
    assert!(text.contains("> Files: a.rs, by reading.\n> \n> Risk corrected."), "{text}");
    assert!(!text.contains("Nothing named."), "{text}");
}

#[test]
fn notes_that_are_too_long_together_are_refused_and_nothing_is_lost() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    let kept = format!("Files: a.rs. {}", "a".repeat(NOTES_BYTES_MAX / 2));
    run.send(json!({ "notes": kept, "size": "small" }));
    let more = json!({ "notes": "b".repeat(NOTES_BYTES_MAX / 2), "artifacts": [files("L")] });
    let refused = run.try_send(&run.at, more).unwrap_err();
    assert_eq!(refused.code, ErrorCode::ValidationError, "{refused:?}");
    assert!(refused.message.contains("262144"), "{}", refused.message);
    let next = run.send(json!({ "notes": "And b.rs.", "artifacts": [files("L")] }));
    assert_eq!(next["run"]["stepId"], "end");
    let first = ReadRun { run: run.label(), step: Some("1".to_owned()), ..ReadRun::default() };
    let notes = run.scene.engine.read_run(&first);
    assert!(notes.unwrap().into_structured()["text"].as_str().unwrap().contains("Files: a.rs. aaa"));
}
