//! A refused step is corrected by what was wrong alone, and never-stop asks the agent twice (G46, G47, G61, G63).

use serde_json::{Map, Value, json};
use workrail_core::report::{ContextValues, GapStanding};
use workrail_engine::request::{ContinueWorkflow, Output, ReadRun, StartWorkflow};
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin, Descent};
use workrail_model::discovery::Precedence;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::Context;
use workrail_model::limits::NOTES_BYTES_MAX;
use workrail_model::preferences::Mode;

use crate::scene::{Scene, authored};

const ORIGIN: ApprovalOrigin =
    ApprovalOrigin { channel: ApprovalChannel::Terminal, descends_from_server: Descent::Unknown };

/// A run of one workflow. The tests say what its agent sends.
struct Played {
    scene: Scene,
    at: Value,
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object") };
    map
}

impl Played {
    fn start(steps: Value, mode: Mode) -> Self {
        let scene = Scene::new();
        scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &json!({ "steps": steps })));
        let request = StartWorkflow {
            workflow_id: "team.run".to_owned(),
            mode: Some(mode),
            ..StartWorkflow::default()
        };
        let at = scene.engine.start_workflow(request).unwrap().into_structured();
        Self { scene, at }
    }

    fn try_send(&self, from: &Value, sent: Value) -> Result<Value, Box<ErrorEnvelope>> {
        let mut sent = object(sent);
        let artifacts = sent.remove("artifacts").map(|list| list.as_array().unwrap().clone());
        let notes = sent.remove("notes").map(|notes| notes.as_str().unwrap().to_owned());
        let request = ContinueWorkflow {
            ack_token: from["ackToken"].as_str().map(str::to_owned),
            output: Output { notes_markdown: notes, artifacts: artifacts.unwrap_or_default() },
            context: sent,
            ..ContinueWorkflow::default()
        };
        self.scene.engine.continue_workflow(request).map(|reply| reply.into_structured())
    }

    /// Sends; what is neither `notes` nor `artifacts` is context.
    fn send(&mut self, sent: Value) -> Value {
        self.at = self.try_send(&self.at, sent).unwrap();
        self.at.clone()
    }

    fn look(&mut self) -> Value {
        let state_token = self.at["stateToken"].as_str().map(str::to_owned);
        let request = ContinueWorkflow { state_token, ..ContinueWorkflow::default() };
        self.at = self.scene.engine.continue_workflow(request).unwrap().into_structured();
        self.at.clone()
    }

    fn label(&self) -> String {
        self.at["run"]["label"].as_str().unwrap().to_owned()
    }

    fn text(&self) -> &str {
        self.at["text"].as_str().unwrap()
    }

    fn decide(&self, decision: ApprovalDecision, reason: Option<&str>) {
        let waiting = self.scene.engine.waiting(&self.label()).unwrap();
        self.scene.engine.approve(&self.label(), &waiting, (decision, reason), ORIGIN).unwrap();
    }

    fn stage(&self) -> String {
        let found = self.scene.engine.find(&self.label()).unwrap();
        let report = self.scene.engine.report(found, ContextValues::NotShown).unwrap();
        workrail_core::report::words::status(&report.runs[0])
    }

    /// The open gaps of the run, as `reason detail`.
    fn gaps(&self) -> Vec<String> {
        let found = self.scene.engine.find(&self.label()).unwrap();
        let report = self.scene.engine.report(found, ContextValues::NotShown).unwrap();
        let open = report.runs[0].gaps.iter().filter(|gap| gap.state == GapStanding::Open);
        open.map(|gap| serde_json::to_value(gap.reason).unwrap()["detail"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn step(id: &str, more: Value) -> Value {
    let mut step = object(json!({ "id": id, "title": format!("Step {id}"), "prompt": format!("Do {id}.") }));
    step.extend(object(more));
    Value::Object(step)
}

fn delivering() -> Value {
    step(
        "list",
        json!({
            "output": { "contractRef": "wr.contracts.changed_files" },
            "validationCriteria": [{ "type": "contains", "value": "Files", "message": "Name the files." }],
            "sets": { "size": { "values": ["small", "large"] } },
        }),
    )
}

fn files(risk: &str) -> Value {
    json!({ "kind": "wr.changed_files", "changedFiles": [{ "path": "a.rs", "summary": "Adds a check", "risk": risk }] })
}

#[test]
fn the_next_call_is_the_whole_skeleton_and_nothing_in_it_passes_as_it_is() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    let arguments = run.at["nextCall"]["arguments"].clone();
    assert_eq!(
        arguments["output"]["artifacts"],
        json!([{ "kind": "wr.changed_files", "changedFiles": [
            { "path": "<your text, at most 300 characters>", "summary": "<your text, at most 300 characters>",
                "risk": "<one of: L | M | H>" }] }])
    );
    assert_eq!(arguments["context"], json!({ "size": "<one of: small | large>" }));
    let sent =
        json!({ "notes": "Files: a.rs", "artifacts": arguments["output"]["artifacts"], "size": "small" });
    let refused = run.try_send(&run.at, sent).unwrap_err();
    assert!(refused.message.contains("changedFiles[0].path"), "{refused:?}");
    let done = run.send(json!({ "notes": "Files: a.rs", "artifacts": [files("L")], "size": "small" }));
    assert_eq!(done["run"]["stepId"], "end");
}

#[test]
fn a_fix_sends_only_what_was_wrong() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    let blocked = run.send(json!({ "notes": "Files: a.rs", "artifacts": [files("X")], "size": "huge" }));
    assert_eq!(blocked["kind"], "blocked");
    let asked = blocked["nextCall"]["arguments"].clone();
    assert!(asked["output"].get("notesMarkdown").is_none(), "the notes were good: {asked}");
    assert_eq!(asked["context"], json!({ "size": "<one of: small | large>" }));
    assert!(run.text().contains("is kept"), "{}", run.text());
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
    assert!(blocked["text"].as_str().unwrap().contains("has no open gap"), "{}", blocked["text"]);
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
fn words_that_say_nothing_are_no_notes() {
    for notes in [".", "done", "Done!", "<what you did in this step>", "n/a"] {
        let mut run = Played::start(json!([step("one", json!({}))]), Mode::Guided);
        let blocked = run.send(json!({ "notes": notes }));
        assert_eq!(blocked["blockers"][0]["code"], "MISSING_REQUIRED_NOTES", "{notes}");
        assert_eq!(run.send(json!({ "notes": "Renamed it." }))["isComplete"], true);
    }
}

#[test]
fn never_stop_gives_a_slip_back_twice_and_then_records_one_gap() {
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

#[test]
fn nobody_is_waited_for_under_never_stop() {
    let gate = step("gate", json!({ "requireConfirmation": { "kind": "human_approval" } }));
    let mut run = Played::start(json!([gate, step("end", json!({}))]), Mode::FullAutoNeverStop);
    assert!(!run.text().contains("wait for"), "{}", run.text());
    assert_eq!(run.send(json!({ "notes": "Prepared it." }))["run"]["stepId"], "end");
    assert_eq!(run.gaps(), ["needs_user_approval"]);
}

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

fn gated() -> Value {
    json!([
        step("gate", json!({ "requireConfirmation": { "kind": "human_approval" } })),
        step("act", json!({}))
    ])
}

#[test]
fn an_approval_is_for_what_was_shown_and_for_nothing_else() {
    let mut run = Played::start(gated(), Mode::Guided);
    assert_eq!(run.scene.engine.waiting(&run.label()).unwrap_err().code, ErrorCode::ValidationError);
    run.send(json!({ "notes": "Will run: git branch -d perf" }));
    let shown = run.scene.engine.waiting(&run.label()).unwrap();
    assert_eq!(shown.notes.as_deref(), Some("Will run: git branch -d perf"));
    run.decide(ApprovalDecision::Approved, None);
    let swapped = run.send(json!({ "notes": "Will run: dropdb production" }));
    assert_eq!(swapped["kind"], "blocked");
    assert!(swapped["text"].as_str().unwrap().contains("was about something else"), "{}", swapped["text"]);
    for context in
        [json!({ "target": "production" }), json!({ "artifacts": [{ "kind": "own.plan", "drop": true }] })]
    {
        assert_eq!(run.send(context)["kind"], "blocked");
    }
    run.decide(ApprovalDecision::Approved, None);
    assert_eq!(
        run.send(json!({}))["run"]["stepId"],
        "act",
        "what was submitted is kept, and only that is approved"
    );
}

#[test]
fn what_was_approved_goes_through_from_a_new_chat() {
    let mut run = Played::start(gated(), Mode::Guided);
    run.send(json!({ "notes": "Will tag 1.2.0." }));
    run.decide(ApprovalDecision::Approved, None);
    let again = run.look();
    assert_eq!(again["nextCall"]["arguments"].get("output"), None, "{}", again["nextCall"]);
    assert_eq!(run.send(json!({}))["run"]["stepId"], "act");
}

#[test]
fn a_decision_that_was_made_while_the_agent_changed_its_mind_is_refused() {
    let mut run = Played::start(gated(), Mode::Guided);
    run.send(json!({ "notes": "Will tag 1.2.0." }));
    let seen = run.scene.engine.waiting(&run.label()).unwrap();
    run.send(json!({ "notes": "Will tag 2.0.0." }));
    let approved = (ApprovalDecision::Approved, None);
    let refused = run.scene.engine.approve(&run.label(), &seen, approved, ORIGIN).unwrap_err();
    assert!(refused.message.contains("has changed since it was shown"), "{refused:?}");
    assert_eq!(run.send(json!({}))["kind"], "blocked");
}

#[test]
fn a_rejection_reaches_the_agent_with_its_reason_and_nobody_waits_any_more() {
    let mut run = Played::start(gated(), Mode::Guided);
    run.send(json!({ "notes": "Will tag 1.2.0." }));
    assert_eq!(run.stage(), "waits for a person");
    run.decide(ApprovalDecision::Rejected, Some("Not on a Friday."));
    assert_eq!(run.stage(), "in progress");
    let same = run.send(json!({}));
    assert!(same["text"].as_str().unwrap().contains("Not on a Friday."), "{}", same["text"]);
    let changed = run.send(json!({ "notes": "Will tag 1.2.0 on Monday." }));
    assert_eq!((&changed["kind"], run.stage().as_str()), (&json!("blocked"), "waits for a person"));
    let waiting = run.scene.engine.waiting(&run.label()).unwrap();
    let earlier = waiting.earlier.unwrap();
    assert_eq!((earlier.decision, earlier.is_for_this), (ApprovalDecision::Rejected, false));
    run.decide(ApprovalDecision::Approved, None);
    assert_eq!(run.send(json!({}))["run"]["stepId"], "act");
}

#[test]
fn a_question_is_answered_and_not_approved() {
    let asks = json!({ "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "scope_boundary",
        "description": "Which branch?", "contextKey": "branch" }] });
    let mut run = Played::start(json!([step("ask", asks), step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Asked." }));
    let waiting = run.scene.engine.waiting(&run.label()).unwrap();
    let approved = (ApprovalDecision::Approved, None);
    let refused = run.scene.engine.approve(&run.label(), &waiting, approved, ORIGIN).unwrap_err();
    assert!(refused.suggestion.contains("workrail answer"), "{refused:?}");
    let values = |value: Value| Context::new(object(value)).unwrap();
    let unknown =
        run.scene.engine.give_answer(&run.label(), values(json!({ "brunch": "main" }))).unwrap_err();
    assert!(unknown.suggestion.contains("branch=VALUE"), "{unknown:?}");
    run.scene.engine.give_answer(&run.label(), values(json!({ "branch": "main" }))).unwrap();
    assert_eq!(run.stage(), "in progress");
    assert_eq!(run.send(json!({}))["run"]["stepId"], "end");
    let shown = run.look();
    assert!(shown["text"].as_str().unwrap().contains("Asked."), "{}", shown["text"]);
}

#[test]
fn steps_that_nobody_decided_about_are_disclosed_when_the_run_ends() {
    let when = json!({ "runCondition": { "var": "path", "equals": "long" } });
    let steps = json!([step("triage", json!({})), step("a", when.clone()), step("b", when)]);
    let mut run = Played::start(steps, Mode::Guided);
    assert!(run.text().contains("`path` (compared with long)"), "{}", run.text());
    let done = run.send(json!({ "notes": "Looked at it." }));
    assert_eq!((&done["isComplete"], &done["status"]), (&json!(true), &json!("complete")));
    assert_eq!(done["warnings"][0]["code"], "CONTEXT_KEY_NEVER_SET");
    assert!(run.text().contains("`context.path` was never set, so these steps were passed over: `a`, `b`."));
    assert_eq!(run.gaps(), ["context_key_never_set"]);
}

#[test]
fn a_loop_over_a_key_that_nobody_set_leads_on() {
    let each = json!({ "id": "each", "type": "loop", "title": "Each", "body": [step("inner", json!({}))],
        "loop": { "type": "forEach", "items": "slices", "itemVar": "slice", "indexVar": "n", "maxIterations": 9 } });
    let scene = Scene::new();
    scene.shelf.put(
        Precedence::Project,
        "run.json",
        &authored("team.run", &json!({ "steps": [each.clone()] })),
    );
    let start = |context: Value| {
        let request = StartWorkflow {
            workflow_id: "team.run".to_owned(),
            context: object(context),
            ..StartWorkflow::default()
        };
        scene.engine.start_workflow(request)
    };
    let refused = start(json!({})).unwrap_err();
    assert_eq!(refused.code, ErrorCode::ValidationError);
    assert_eq!(refused.details.as_ref().unwrap()["contextKey"], "slices");
    assert_eq!(start(json!({ "slices": ["a"] })).unwrap().into_structured()["run"]["stepId"], "inner");

    let mut run = Played::start(json!([step("plan", json!({})), each.clone()]), Mode::Guided);
    let blocked = run.send(json!({ "notes": "Planned two slices." }));
    assert_eq!(blocked["blockers"][0]["code"], "MISSING_CONTEXT_KEY");
    assert_eq!(run.send(json!({ "slices": ["a", "b"] }))["run"]["stepId"], "inner");
}

#[test]
fn a_later_run_joins_the_session_of_an_earlier_one_by_its_label_and_keeps_its_mode() {
    let run = Played::start(json!([step("one", json!({}))]), Mode::FullAutoStopOnUserDeps);
    for label in [run.label(), run.label().replace('-', " ").to_uppercase()] {
        let request = StartWorkflow {
            workflow_id: "team.run".to_owned(),
            session_token: Some(label),
            ..StartWorkflow::default()
        };
        let second = run.scene.engine.start_workflow(request).unwrap().into_structured();
        assert_eq!(second["run"]["sessionId"], run.at["run"]["sessionId"]);
        assert_eq!(second["preferences"]["autonomy"], "full_auto_stop_on_user_deps");
        assert!(second.get("returnTo").is_none());
    }
    let request = StartWorkflow {
        workflow_id: "team.run".to_owned(),
        session_token: Some("amber-falcon".to_owned()),
        ..StartWorkflow::default()
    };
    assert_eq!(run.scene.engine.start_workflow(request).unwrap_err().code, ErrorCode::SessionNotFound);
}

#[test]
fn a_loop_that_ended_at_its_limit_is_told_at_the_end_as_well() {
    let mut steps = looping();
    steps[0]["loop"]["maxIterations"] = json!(1);
    let mut run = Played::start(steps, Mode::Guided);
    run.send(json!({ "notes": "Worked." }));
    run.send(json!({ "artifacts": [{ "kind": "wr.loop_control", "decision": "continue" }] }));
    run.send(json!({ "notes": "Tidied." }));
    assert!(run.text().contains("Loop `again` ended at its limit"), "{}", run.text());
    run.send(json!({ "notes": "Ended." }));
    assert!(
        run.text().contains("Tell the user as well:\n- Loop `again` ended at its limit"),
        "{}",
        run.text()
    );
}

#[test]
fn every_step_before_a_gate_says_to_hold_the_act_back() {
    let gate = json!({ "requireConfirmation": { "kind": "human_approval" },
                       "runCondition": { "var": "acts", "equals": true } });
    let sets = json!({ "sets": { "acts": { "type": "boolean" } } });
    let steps =
        json!([step("size", sets), step("work", json!({})), step("gate", gate), step("act", json!({}))]);
    let mut run = Played::start(steps.clone(), Mode::Guided);
    assert!(run.text().contains("**Hold back:**"), "{}", run.text());
    run.send(json!({ "notes": "Sized.", "acts": true }));
    assert!(run.text().contains("the later step \"Step gate\""), "{}", run.text());
    let mut run = Played::start(steps, Mode::Guided);
    run.send(json!({ "notes": "Sized.", "acts": false }));
    assert!(!run.text().contains("**Hold back:**"), "{}", run.text());
}

#[test]
fn a_foreign_value_that_was_passed_over_closes_no_gap() {
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
fn a_corrected_assessment_takes_the_place_of_the_one_before() {
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

#[test]
fn artifacts_of_an_agents_own_kind_are_kept_beside_new_ones() {
    let mut run = Played::start(json!([step("find", json!({})), step("end", json!({}))]), Mode::Guided);
    let finding = |n: u32| json!({ "kind": "own.finding", "n": n });
    run.send(json!({ "artifacts": [finding(1), finding(2)] }));
    run.send(json!({ "notes": "Found three.", "artifacts": [finding(3)] }));
    let found = run.scene.engine.find(&run.label()).unwrap();
    let report = run.scene.engine.report(found, ContextValues::NotShown).unwrap();
    assert_eq!(report.runs[0].counts.artifacts, 5, "two of the refused attempt, three of the completed step");
}

#[test]
fn under_never_stop_a_slip_at_a_gate_is_the_only_thing_asked_for() {
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
fn a_person_is_asked_once_everything_else_is_there() {
    let mut run = Played::start(gated(), Mode::Guided);
    let blocked = run.send(json!({ "target": "staging" }));
    assert_eq!(blocked["blockers"][0]["code"], "MISSING_REQUIRED_NOTES");
    assert!(run.scene.engine.waiting(&run.label()).is_err(), "nothing complete was submitted yet");
    run.send(json!({ "notes": "Will deploy.", "apiToken": "sk-live" }));
    let waiting = run.scene.engine.waiting(&run.label()).unwrap();
    assert_eq!(Value::Object(waiting.context), json!({ "target": "staging", "apiToken": "[withheld]" }));
    run.decide(ApprovalDecision::Approved, None);
    assert_eq!(run.send(json!({}))["run"]["stepId"], "act");
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
fn words_that_say_nothing_do_not_replace_kept_notes() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Files: a.rs, all read.", "size": "small" }));
    let next = run.send(json!({ "notes": "see above", "artifacts": [files("L")] }));
    assert_eq!(next["run"]["stepId"], "end");
    assert!(run.look()["text"].as_str().unwrap().contains("Files: a.rs, all read."));
}

#[test]
fn an_approval_is_never_given_through_a_value() {
    let asks = json!({ "userDependencies": [{ "reason": "needs_user_approval", "description": "Deploy?", "contextKey": "ok" }] });
    let mut run = Played::start(json!([step("ask", asks), step("end", json!({}))]), Mode::Guided);
    assert_eq!(run.send(json!({ "notes": "Ready.", "ok": true }))["kind"], "blocked");
    run.decide(ApprovalDecision::Approved, None);
    assert_eq!(run.send(json!({}))["run"]["stepId"], "end");
}

#[test]
fn an_answer_holds_over_what_was_sent_before_it() {
    let asks = json!({ "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "scope_boundary",
        "description": "Which branch?", "contextKey": "branch" }], "requireConfirmation": { "kind": "human_approval" } });
    let mut run = Played::start(json!([step("ask", asks), step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Asked.", "branch": null }));
    let waiting = run.scene.engine.waiting(&run.label()).unwrap();
    let approved = (ApprovalDecision::Approved, None);
    assert!(
        run.scene.engine.approve(&run.label(), &waiting, approved, ORIGIN).is_err(),
        "the answer comes first"
    );
    let values = |value: Value| Context::new(object(value)).unwrap();
    assert!(run.scene.engine.give_answer(&run.label(), values(json!({ "branch": null }))).is_err());
    run.scene.engine.give_answer(&run.label(), values(json!({ "branch": "main" }))).unwrap();
    assert_eq!(run.send(json!({}))["blockers"][0]["pointer"]["kind"], "workflow_step", "{}", run.text());
    run.decide(ApprovalDecision::Approved, None);
    assert_eq!(run.send(json!({}))["run"]["stepId"], "end");
}

#[test]
fn notes_of_a_retry_are_added_to_good_ones_and_replace_refused_ones() {
    let mut run = Played::start(json!([delivering(), step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Nothing named.", "artifacts": [files("X")], "size": "small" }));
    // The criterion refused those: the next ones take their place.
    run.send(json!({ "notes": "Files: a.rs, by reading." }));
    // Now only the artifact is wrong, and a word about it is added.
    run.send(json!({ "notes": "Risk corrected.", "artifacts": [files("L")] }));
    let shown = run.look();
    let text = shown["text"].as_str().unwrap();
    assert!(text.contains("> Files: a.rs, by reading.\n> \n> Risk corrected."), "{text}");
    assert!(!text.contains("Nothing named."), "{text}");
}

#[test]
fn notes_that_would_be_too_long_together_are_refused_and_nothing_is_lost() {
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

#[test]
fn a_declared_value_in_another_spelling_is_taken_and_said() {
    let sets = json!({ "sets": {
        "harm": { "type": "boolean" }, "count": { "type": "number" }, "size": { "values": ["small", "large"] } } });
    let asks = json!({ "runCondition": { "var": "harm", "equals": false } });
    let mut run = Played::start(json!([step("one", sets), step("calm", asks)]), Mode::Guided);
    let next = run.send(json!({ "notes": "Looked.", "harm": "false", "count": " 3", "size": "Large" }));
    assert_eq!((&next["kind"], &next["run"]["stepId"]), (&json!("ok"), &json!("calm")));
    assert!(
        run.text().contains("`context.harm` was sent as \"false\" and recorded as false."),
        "{}",
        run.text()
    );
    assert_eq!(next["warnings"].as_array().unwrap().len(), 3, "{}", next["warnings"]);
}

#[test]
fn the_step_is_shown_again_only_after_several_refusals() {
    let mut run = Played::start(json!([delivering()]), Mode::Guided);
    let shown: Vec<bool> = (0..4)
        .map(|_| {
            run.send(json!({ "notes": "Files: a.rs" }));
            run.text().contains("Do list.")
        })
        .collect();
    assert_eq!(shown, [false, false, true, true]);
    assert!(run.at["pending"]["prompt"].as_str().unwrap().contains("Do list."), "the data always has it");
}

#[test]
fn an_assessment_says_before_it_is_made_which_level_asks_for_more() {
    let scene = Scene::new();
    let members = json!({
        "assessments": [{ "id": "cause", "purpose": "Known?", "dimensions": [
            { "id": "control", "purpose": "How far?", "levels": ["none", "full"] }] }],
        "steps": [step("judge", json!({
            "assessmentRefs": ["cause"],
            "assessmentConsequences": [{ "when": { "anyEqualsLevel": "none" },
                "effect": { "kind": "require_followup", "guidance": "Try again." } }],
        }))],
    });
    scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &members));
    let request = StartWorkflow { workflow_id: "team.run".to_owned(), ..StartWorkflow::default() };
    let at = scene.engine.start_workflow(request).unwrap().into_structured();
    let text = at["text"].as_str().unwrap();
    assert!(text.contains("With `none` the step is not complete: Try again."), "{text}");
}

#[test]
fn the_call_of_every_step_has_a_place_for_notes_and_for_fields_that_the_step_names() {
    let decides = step(
        "decide",
        json!({ "prompt": "Decide. Give the reason in `summary`.", "output": { "contractRef": "wr.contracts.loop_control" } }),
    );
    let body = json!([decides]);
    let looped = json!({ "id": "again", "type": "loop", "title": "Again", "body": body,
        "loop": { "type": "while", "maxIterations": 2 } });
    let run = Played::start(json!([looped]), Mode::Guided);
    let output = &run.at["nextCall"]["arguments"]["output"];
    assert_eq!(output["notesMarkdown"], "<what you did in this step>");
    assert_eq!(output["artifacts"][0]["summary"], "<your text, at most 1024 characters>");
}

#[test]
fn an_unknown_field_is_refused_with_the_fields_that_there_are() {
    let mut run = Played::start(json!([delivering()]), Mode::Guided);
    let mut artifact = files("L");
    artifact["changedFiles"][0]["lines"] = json!(3);
    run.send(json!({ "notes": "Files: a.rs", "artifacts": [artifact], "size": "small" }));
    assert!(
        run.text().contains("unknown field `lines`; the fields are `path`, `risk`, `summary`")
            || run.text().contains("unknown field `lines`; the fields are `path`, `summary`, `risk`"),
        "{}",
        run.text()
    );
}

#[test]
fn an_answer_in_a_loop_satisfies_a_key_that_the_step_also_declares() {
    let asks = step(
        "ask",
        json!({
            "sets": { "branch": { "values": ["main", "next"] } },
            "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "scope_boundary",
                "description": "Which branch?", "contextKey": "branch" }],
        }),
    );
    let looped = json!({ "id": "twice", "type": "loop", "title": "Twice", "body": [asks],
        "loop": { "type": "for", "count": 2, "maxIterations": 2 } });
    let mut run = Played::start(json!([looped, step("end", json!({}))]), Mode::Guided);
    assert_eq!(run.send(json!({ "notes": "Asked." }))["kind"], "blocked");
    let answer = Context::new(object(json!({ "branch": "next" }))).unwrap();
    run.scene.engine.give_answer(&run.label(), answer).unwrap();
    assert_eq!(run.send(json!({}))["run"]["stepId"], "ask");
    let again = run.send(json!({ "notes": "The second pass." }));
    assert_eq!(again["kind"], "blocked", "the answer of an earlier pass is not this pass's");
    assert_eq!(run.send(json!({ "branch": "main" }))["run"]["stepId"], "end");
}

#[test]
fn a_question_does_not_replace_the_notes_beside_it() {
    let asks = json!({ "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "scope_boundary",
        "description": "Which branch?", "contextKey": "branch" }] });
    let mut run = Played::start(json!([step("ask", asks), step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Compared both branches." }));
    run.send(json!({ "notes": "The user chose main.", "branch": "main" }));
    let shown = run.look();
    let text = shown["text"].as_str().unwrap();
    assert!(text.contains("Compared both branches.") && text.contains("The user chose main."), "{text}");
}

#[test]
fn what_was_approved_can_be_sent_again_as_it_was() {
    let gate = step(
        "list",
        json!({
            "output": { "contractRef": "wr.contracts.changed_files" },
            "requireConfirmation": { "kind": "human_approval" },
        }),
    );
    let mut run = Played::start(json!([gate, step("end", json!({}))]), Mode::Guided);
    run.send(json!({ "notes": "Looked." }));
    let whole = json!({ "notes": "Listed.", "artifacts": [files("L")] });
    assert_eq!(run.send(whole.clone())["kind"], "blocked");
    run.decide(ApprovalDecision::Approved, None);
    assert_eq!(run.send(whole)["run"]["stepId"], "end");
}

#[test]
fn an_adjusted_value_is_said_where_the_step_is_refused_and_a_secret_is_not_repeated() {
    let sets = json!({ "sets": { "accessToken": { "type": "number" }, "size": { "values": ["small"] } } });
    let mut run = Played::start(json!([step("one", sets)]), Mode::Guided);
    let blocked = run.send(json!({ "accessToken": "123456", "size": "Small" }));
    assert_eq!(blocked["kind"], "blocked");
    assert!(run.text().contains("`context.size` was sent as \"Small\""), "{}", run.text());
    assert!(!run.text().contains("123456"), "{}", run.text());
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

#[test]
fn a_correction_shows_the_shape_of_an_optional_field_that_was_sent() {
    let owes = json!({ "outputContract": { "contractRef": "wr.contracts.coding_handoff" } });
    let mut run = Played::start(json!([step("hand", owes)]), Mode::Guided);
    let shape = r#"[{"actual":"<your text, at most 200 characters>","assumed":"<your text, at most 200 characters>"}]"#;
    assert!(
        run.text().contains(&format!("`correctedAssumptions` as `{shape}`, at most 6")),
        "{}",
        run.text()
    );
    let sent = json!({ "kind": "wr.coding_handoff", "version": 1, "keyDecisions": ["one"], "knownLimitations": [],
        "testsAdded": [], "filesChanged": [], "correctedAssumptions": ["a text"] });
    let refused = run.send(json!({ "notes": "Handed over, all of it.", "artifacts": [sent] }));
    assert_eq!(refused["kind"], "blocked");
    let fix = refused["blockers"][0]["suggestedFix"].as_str().unwrap();
    assert!(fix.contains(&format!(r#""correctedAssumptions":{shape}"#)), "{fix}");
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
fn another_slip_before_it_takes_the_second_look_away_from_nobody() {
    let mut run = judging();
    assert_eq!(run.send(json!({ "notes": "Judged it, not ready." }))["kind"], "blocked");
    let unready =
        json!({ "kind": "wr.assessment", "dimensions": { "state": "unready", "way_back": "ready" } });
    let asked = run.send(json!({ "artifacts": [unready] }));
    assert_eq!(asked["blockers"][0]["code"], "ASSESSMENT_FOLLOWUP_REQUIRED", "{}", run.text());
    assert_eq!(run.send(json!({ "artifacts": [unready] }))["run"]["stepId"], "end", "{}", run.text());
}
