//! Every kind of reply as an agent reads it, recorded in full: a change of wording shows up in review.

use serde_json::{Value, json};
use workrail_engine::Reply;
use workrail_engine::request::{
    CheckpointWorkflow, ContinueWorkflow, ResumeSession, StartSession, StartWorkflow,
};
use workrail_model::discovery::Precedence;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{EventData, TraceKind};
use workrail_model::id::SessionId;
use workrail_model::preferences::Mode;
use workrail_model::submission::StepOutput;
use workrail_ports::session_store::SessionReader;

use crate::scene::{Scene, authored};

/// A scene with one workflow that contains some of everything.
fn scene() -> Scene {
    let scene = Scene::new();
    let file = authored(
        "team.release",
        &json!({
            "recommendedPreferences": { "recommendedAutonomy": "guided" },
            "metaGuidance": ["Say what you assume."],
            "references": [
                { "id": "style", "title": "Style guide", "source": "docs/style.md", "purpose": "How we write", "authoritative": true },
                { "id": "gone", "title": "Old notes", "source": "notes.md", "purpose": "History", "authoritative": false },
            ],
            "steps": [
                { "id": "plan", "title": "Plan it", "prompt": "Write the plan for {{goal}}." },
                { "id": "check", "title": "Check it", "prompt": "Check the plan.", "requireConfirmation": true },
                { "id": "ship", "title": "Ship it", "prompt": "Ship." },
            ],
        }),
    );
    scene.shelf.put(Precedence::Project, "release.json", &file);
    scene.shelf.put(Precedence::Project, "legacy.json", &authored("small", &json!({})));
    scene
}

fn start(scene: &Scene, id: &str) -> Value {
    started(
        scene,
        StartWorkflow {
            workflow_id: id.to_owned(),
            goal: Some("the June release".to_owned()),
            ..StartWorkflow::default()
        },
    )
}

fn started(scene: &Scene, request: StartWorkflow) -> Value {
    scene.engine.start_workflow(request).unwrap().into_structured()
}

fn token(reply: &Value, member: &str) -> Option<String> {
    reply[member].as_str().map(str::to_owned)
}

fn ack(reply: &Value, notes: &str) -> ContinueWorkflow {
    ContinueWorkflow {
        ack_token: token(reply, "ackToken"),
        output: StepOutput {
            notes_markdown: (!notes.is_empty()).then(|| notes.to_owned()),
            artifacts: Vec::new(),
        },
        ..ContinueWorkflow::default()
    }
}

fn advance(scene: &Scene, reply: &Value, notes: &str) -> Value {
    scene.engine.continue_workflow(ack(reply, notes)).unwrap().into_structured()
}

fn look(scene: &Scene, reply: &Value) -> Value {
    let request = ContinueWorkflow { state_token: token(reply, "stateToken"), ..ContinueWorkflow::default() };
    scene.engine.continue_workflow(request).unwrap().into_structured()
}

fn text(reply: &Value) -> &str {
    reply["text"].as_str().unwrap()
}

fn refused(error: &ErrorEnvelope) -> String {
    format!("{}: {}\n{}\n{:?}", error.code.as_str(), error.message, error.suggestion, error.next_call)
}

#[test]
fn a_start_shows_the_step_the_references_and_what_to_know() {
    let scene = scene();
    insta::assert_snapshot!(text(&start(&scene, "team.release")));
}

/// The text that lists the references of a workflow with many of them, of which every second one exists.
fn references_of(count: usize, purpose: &str) -> Vec<String> {
    let scene = Scene::new();
    let references: Vec<Value> = (0..count)
        .map(|n| {
            let folder = if n % 2 == 0 { "gone" } else { "docs" };
            json!({ "id": format!("r{n}"), "title": format!("Document {n}"), "source": format!("{folder}/{n}.md"),
                "purpose": purpose, "authoritative": false })
        })
        .collect();
    let file = authored("team.many", &json!({ "references": references }));
    scene.shelf.put(Precedence::Project, "many.json", &file);
    let reply = start(&scene, "team.many");
    let lines = text(&reply).lines().skip_while(|line| !line.starts_with("References of this workflow"));
    lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn references_that_resolve_come_first_and_all_are_named() {
    insta::assert_snapshot!(references_of(4, "How we write").join("\n"));
}

#[test]
fn references_take_less_room_each_before_one_is_left_out() {
    let few = references_of(10, &"long purpose ".repeat(8));
    assert_eq!(few.len(), 11, "each is named");
    assert!(few[1].starts_with("- Document 1 (docs/1.md)") && !few.concat().contains("purpose"), "{few:#?}");
    let ids = references_of(90, "p");
    assert_eq!((ids.len(), ids[1].as_str(), ids[46].as_str()), (91, "- r1", "- r0 [unresolved]"));
    let many = references_of(400, "p");
    assert!(many.join("\n").len() <= 1_280, "{}", many.join("\n").len());
    let more = many.last().unwrap();
    assert_eq!(more, &format!("- and {} more (inspect_workflow lists all)", 400 - (many.len() - 2)));
}

#[test]
fn an_artifact_of_an_unknown_kind_is_recorded_with_a_warning_that_names_the_nearest() {
    let scene = scene();
    let begun = start(&scene, "team.release");
    let mut sent = ack(&begun, "The plan is in plan.md, with the three risks.");
    sent.output.artifacts = vec![
        json!({ "kind": "wr.verification_reprot", "result": "passed" }),
        json!({ "kind": "team.own", "anything": 1 }),
    ];
    let reply = scene.engine.continue_workflow(sent).unwrap().into_structured();
    assert_eq!(
        reply["warnings"],
        json!([{
            "code": "UNKNOWN_ARTIFACT_KIND",
            "message": "There is no artifact kind `wr.verification_reprot`: it was recorded, but no step reads it. Did you mean \
                        `wr.verification_report`?",
        }])
    );
}

#[test]
fn a_start_beyond_the_recommendation_and_under_a_legacy_id_warns() {
    let scene = scene();
    let request = StartWorkflow {
        workflow_id: "team.release".to_owned(),
        mode: Some(Mode::FullAutoNeverStop),
        ..StartWorkflow::default()
    };
    insta::assert_snapshot!(text(&started(&scene, request)));
    insta::assert_snapshot!("legacy_start", text(&start(&scene, "small")));
}

#[test]
fn an_advance_shows_the_next_step_and_nothing_old() {
    let scene = scene();
    let first = start(&scene, "team.release");
    let second = advance(&scene, &first, "The plan is in docs/plan.md.");
    assert_eq!(second["nextIntent"], "await_user_confirmation");
    assert!(second.get("recap").is_none() && second.get("references").is_none());
    insta::assert_snapshot!(text(&second));
}

/// G40: a refusal says what would pass, and can be retried any number of times.
#[test]
fn a_refusal_says_what_would_pass_and_after_five_offers_a_way_out() {
    let scene = scene();
    let first = start(&scene, "team.release");
    let mut reply = advance(&scene, &first, "The plan.");
    for _ in 0..5 {
        reply = advance(&scene, &reply, "");
        assert_eq!(reply["kind"], "blocked");
    }
    insta::assert_snapshot!(text(&reply));
}

#[test]
fn looking_at_a_tip_recounts_what_was_done() {
    let scene = scene();
    let first = start(&scene, "team.release");
    let second = advance(&scene, &first, "The plan:\n- cut the branch\n- write the notes");
    insta::assert_snapshot!(text(&look(&scene, &second)));
}

/// The fork entries of the traces of a run, in the order of the log.
fn forks(scene: &Scene, reply: &Value) -> Vec<String> {
    let session = SessionId::parse(reply["run"]["sessionId"].as_str().unwrap()).unwrap();
    let events = scene.store.read(session, None).unwrap().events;
    let traces = events.into_iter().filter_map(|event| {
        if let EventData::DecisionTraceAppended(trace) = event.data { Some(trace.entries) } else { None }
    });
    let entries = traces.flatten().filter(|entry| entry.kind == TraceKind::DetectedNonTipAdvance);
    entries.map(|entry| entry.summary.to_string()).collect()
}

#[test]
fn a_fork_leaves_a_trace_entry_that_says_why() {
    let scene = scene();
    let first = start(&scene, "team.release");
    // Two chats at one point: the second one asked for its own token and completed the step first.
    let other = look(&scene, &first);
    advance(&scene, &other, "The plan of the other chat.");
    assert_eq!(forks(&scene, &first), Vec::<String>::new());
    advance(&scene, &first, "The plan of this chat.");
    let met = forks(&scene, &first);
    assert_eq!(met.len(), 1, "{met:?}");
    advance(&scene, &look(&scene, &first), "A third plan.");
    let asked = forks(&scene, &first);
    assert_eq!((asked.len(), &asked[0]), (2, &met[0]), "{asked:?}");
    insta::assert_snapshot!("traces_of_forks", asked.join("\n"));
}

#[test]
fn looking_back_tells_of_the_ways_taken_from_there() {
    let scene = scene();
    let first = start(&scene, "team.release");
    let second = advance(&scene, &first, "First plan.");
    let third = advance(&scene, &second, "Checked the first plan.");
    advance(&scene, &third, "Shipped.");
    let again = look(&scene, &first);
    let forked = advance(&scene, &again, "Second plan.");
    insta::assert_snapshot!("forked_advance", text(&forked));
    insta::assert_snapshot!(text(&look(&scene, &first)));
}

/// G38: it is stored once, and the step is completed by the same ack as before.
#[test]
fn a_checkpoint_is_short_and_leaves_the_step() {
    let scene = scene();
    let first = start(&scene, "team.release");
    let request = CheckpointWorkflow {
        checkpoint_token: token(&first, "checkpointToken"),
        output: StepOutput { notes_markdown: Some("Half of the plan.".to_owned()), artifacts: Vec::new() },
        ..CheckpointWorkflow::default()
    };
    let saved = scene.engine.checkpoint_workflow(request.clone()).unwrap().into_structured();
    assert_eq!(saved["ackToken"], first["ackToken"], "the step is completed by the same ack as before");
    assert_ne!(saved["checkpointToken"], first["checkpointToken"]);
    let again = scene.engine.checkpoint_workflow(request.clone()).unwrap().into_structured();
    assert_eq!(again, saved);
    let other = CheckpointWorkflow {
        output: StepOutput { notes_markdown: Some("Other.".to_owned()), artifacts: Vec::new() },
        ..request
    };
    let differs = scene.engine.checkpoint_workflow(other).unwrap().into_structured();
    assert_eq!(differs["warnings"][0]["code"], "REPLAY_INPUT_DIFFERS");
    insta::assert_snapshot!(text(&saved));
    insta::assert_snapshot!("checkpoint_in_the_recap", text(&look(&scene, &first)));
}

/// A first step that is too old for the newest notes is kept next to them: if it is complete, nothing was shortened.
#[test]
fn notes_are_called_shortened_only_where_they_are() {
    let recap_after = |first: usize, second: usize| {
        let scene = scene();
        let start = start(&scene, "team.release");
        let after = advance(&scene, &start, &"plan ".repeat(first / 5));
        let after = advance(&scene, &after, &"check ".repeat(second / 6));
        look(&scene, &after)
    };
    let is_said = |reply: &Value| text(reply).contains("notes are shortened");
    let whole = recap_after(800, 900);
    assert_eq!(whole["recap"]["kept"].as_array().map(Vec::len), Some(1), "{whole}");
    assert!(!is_said(&whole) && whole["recap"]["truncated"] != true, "{whole}");
    let cut = recap_after(1_000, 900);
    assert!(is_said(&cut) && cut["recap"]["truncated"] == true, "{cut}");
}

#[test]
fn never_stopping_discloses_what_was_skipped() {
    let scene = scene();
    let request = StartWorkflow {
        workflow_id: "team.release".to_owned(),
        mode: Some(Mode::FullAutoNeverStop),
        ..StartWorkflow::default()
    };
    let first = started(&scene, request);
    let refused = advance(&scene, &first, "");
    assert_eq!(refused["kind"], "blocked", "what the agent can supply is asked for again, twice");
    let refused = advance(&scene, &refused, "");
    let second = advance(&scene, &refused, "");
    assert_eq!(second["kind"], "ok");
    insta::assert_snapshot!(text(&second));
}

#[test]
fn a_nested_run_leads_back_when_it_ends() {
    let scene = scene();
    let outer = start(&scene, "team.release");
    let request = StartWorkflow {
        workflow_id: "small".to_owned(),
        parent: token(&outer, "ackToken"),
        ..StartWorkflow::default()
    };
    let inner = started(&scene, request);
    assert_eq!(inner["run"]["sessionId"], outer["run"]["sessionId"]);
    let done = advance(&scene, &inner, "Did the work.");
    insta::assert_snapshot!(text(&done));
    let back = &done["returnTo"]["nextCall"];
    assert_eq!(back["tool"], "continue_workflow");
    let request = ContinueWorkflow {
        state_token: token(&back["arguments"], "stateToken"),
        run: token(&back["arguments"], "run"),
        ..ContinueWorkflow::default()
    };
    let again = scene.engine.continue_workflow(request).unwrap().into_structured();
    assert_eq!(again["run"]["label"], outer["run"]["label"]);
}

#[test]
fn the_same_ack_with_other_words_says_so_first() {
    let scene = scene();
    let first = start(&scene, "team.release");
    advance(&scene, &first, "One.");
    let differs = advance(&scene, &first, "Two.");
    insta::assert_snapshot!(text(&differs).lines().next().unwrap());
    assert!(differs["forkAckToken"].is_string());
}

#[test]
fn resuming_lists_candidates_with_their_reasons() {
    let scene = scene();
    let first = start(&scene, "team.release");
    advance(&scene, &first, "Wrote the plan for the June release.");
    start(&scene, "small");
    let request = ResumeSession { query: Some("plan june".to_owned()), ..ResumeSession::default() };
    let found = scene.engine.resume_session(request).unwrap().into_structured();
    insta::assert_snapshot!(text(&found));
}

#[test]
fn a_session_without_a_run_holds_notes_and_is_found() {
    let scene = scene();
    let open = StartSession { goal: Some("think about caching".to_owned()) };
    let opened = scene.engine.start_session(open).unwrap().into_structured();
    let note = |words: &str| CheckpointWorkflow {
        session_token: token(&opened, "sessionToken"),
        output: StepOutput { notes_markdown: Some(words.to_owned()), artifacts: Vec::new() },
        ..CheckpointWorkflow::default()
    };
    let noted = scene.engine.checkpoint_workflow(note("Eviction is the hard part.")).unwrap();
    assert_eq!(scene.engine.checkpoint_workflow(note("Eviction is the hard part.")).unwrap(), noted);
    insta::assert_snapshot!(text(&opened));
    let request = ResumeSession { query: Some("eviction".to_owned()), ..ResumeSession::default() };
    let found = scene.engine.resume_session(request).unwrap().into_structured();
    insta::assert_snapshot!("notes_only_candidate", text(&found));
    let inside = StartWorkflow {
        workflow_id: "small".to_owned(),
        session_token: token(&opened, "sessionToken"),
        ..StartWorkflow::default()
    };
    assert_eq!(started(&scene, inside)["run"]["sessionId"], opened["sessionId"]);
}

#[test]
fn a_session_records_what_is_new_next_to_notes_that_it_already_has() {
    let scene = scene();
    let open = StartSession { goal: Some("think about caching".to_owned()) };
    let opened = scene.engine.start_session(open).unwrap().into_structured();
    let session = SessionId::parse(opened["sessionId"].as_str().unwrap()).unwrap();
    let outputs_after = |notes: &str, artifacts: &[Value]| {
        let request = CheckpointWorkflow {
            session_token: token(&opened, "sessionToken"),
            output: StepOutput { notes_markdown: Some(notes.to_owned()), artifacts: artifacts.to_vec() },
            ..CheckpointWorkflow::default()
        };
        scene.engine.checkpoint_workflow(request).unwrap();
        let events = scene.store.read(session, None).unwrap().events;
        events.iter().filter(|event| matches!(event.data, EventData::NodeOutputAppended(_))).count()
    };
    let measured = |hits: u32| json!({ "kind": "own.measurement", "hits": hits });
    assert_eq!(outputs_after("Eviction is the hard part.", &[]), 2, "the goal and the note");
    assert_eq!(outputs_after("Eviction is the hard part.", &[measured(1)]), 3, "a new artifact");
    assert_eq!(
        outputs_after("Size is the easy part.", &[measured(1), measured(2)]),
        5,
        "the note and the second artifact"
    );
    assert_eq!(outputs_after("Eviction is the hard part.", &[measured(2)]), 5, "nothing is new");
}

#[test]
fn refusals_of_tokens_lead_back() {
    let scene = scene();
    let one = start(&scene, "team.release");
    let two = start(&scene, "small");
    let call = |ack: Option<String>, run: Option<String>| {
        let request = ContinueWorkflow { ack_token: ack, run, ..ContinueWorkflow::default() };
        refused(&scene.engine.continue_workflow(request).unwrap_err())
    };
    let ack = token(&one, "ackToken").unwrap();
    insta::assert_snapshot!("cut", call(Some(ack[..ack.len() - 1].to_owned()), None));
    let other = token(&two["run"], "label");
    insta::assert_snapshot!("mixed_up", call(Some(ack.clone()), other));
    insta::assert_snapshot!("wrong_kind", call(token(&one, "stateToken"), None));
    insta::assert_snapshot!("nothing_left", call(Some("gibberish".to_owned()), None));
}

#[test]
fn both_channels_are_the_same_words() {
    let scene = scene();
    let reply: Reply = scene
        .engine
        .start_workflow(StartWorkflow { workflow_id: "team.release".to_owned(), ..StartWorkflow::default() })
        .unwrap();
    let joined = reply.parts().join("\n\n");
    assert!(reply.parts().len() >= 3, "step, references, next call");
    assert_eq!(reply.into_structured()["text"], joined);
}
