//! No work is left behind: results of nested runs, unfinished branches and session notes are offered when the work
//! is picked up again (G37, G53).

use serde_json::{Value, json};
use workrail_engine::request::{
    CheckpointWorkflow, ContinueWorkflow, ReadRun, ResumeSession, StartSession, StartWorkflow,
};
use workrail_model::discovery::Precedence;
use workrail_model::submission::StepOutput;

use crate::scene::{Scene, authored};

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn scene() -> Scene {
    let scene = Scene::new();
    let step = |id: &str| json!({ "id": id, "title": format!("Do {id}"), "prompt": "Do it." });
    let steps = json!([step("plan"), step("build"), step("check"), step("report")]);
    scene.shelf.put(Precedence::Project, "outer.json", &authored("team.outer", &json!({ "steps": steps })));
    let steps = json!([step("look"), step("conclude")]);
    scene.shelf.put(Precedence::Project, "inner.json", &authored("team.inner", &json!({ "steps": steps })));
    scene
}

fn start(scene: &Scene, workflow: &str, parent: Option<&Value>) -> Value {
    let request = StartWorkflow {
        workflow_id: workflow.to_owned(),
        parent: parent.map(|reply| text(&reply["stateToken"])),
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

fn follow(scene: &Scene, call: &Value) -> Value {
    let arguments = call["arguments"].clone();
    match call["tool"].as_str().unwrap() {
        "continue_workflow" => {
            let request: ContinueWorkflow = serde_json::from_value(arguments).unwrap();
            scene.engine.continue_workflow(request).unwrap().into_structured()
        }
        "read_run" => {
            let request: ReadRun = serde_json::from_value(arguments).unwrap();
            scene.engine.read_run(&request).unwrap().into_structured()
        }
        other => panic!("{other} is not a call that only looks"),
    }
}

fn look(scene: &Scene, reply: &Value) -> Value {
    let request =
        ContinueWorkflow { state_token: Some(text(&reply["stateToken"])), ..ContinueWorkflow::default() };
    scene.engine.continue_workflow(request).unwrap().into_structured()
}

#[test]
fn the_result_of_a_finished_nested_run_is_in_the_next_reply_of_the_outer_one() {
    let scene = scene();
    let outer = start(&scene, "team.outer", None);
    let inner = start(&scene, "team.inner", Some(&outer));
    assert_eq!(look(&scene, &outer).get("children"), None, "an unfinished one has no result");
    let second = advance(&scene, &inner, "Looked environment.", Vec::new());
    let verdict = json!({ "kind": "team.verdict", "cause": "the cache key lacks the tenant" });
    let ended = advance(&scene, &second, "The cache key is wrong.\nFix: add the tenant.", vec![verdict]);
    let back = follow(&scene, &ended["returnTo"]["nextCall"]);
    let child = &back["children"][0];
    assert_eq!(child["label"], inner["run"]["label"]);
    assert_eq!(child["status"], "complete");
    assert_eq!(child["notes"], "The cache key is wrong.\nFix: add the tenant.");
    assert_eq!(child["artifacts"][0]["kind"], "team.verdict");
    let shown = text(&back["text"]);
    for words in [
        "> The cache key is wrong.",
        "> Fix: add the tenant.",
        "the cache key lacks the tenant",
        "is complete",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(text(&follow(&scene, &child["nextCall"])["text"]).contains("Looked environment."));

    let next = advance(&scene, &back, "Planned with that.", Vec::new());
    assert_eq!(
        next["children"][0]["label"], inner["run"]["label"],
        "an agent that did not look reads it here"
    );
    assert!(text(&next["text"]).contains("> Fix: add the tenant."), "{}", next["text"]);
    assert_eq!(look(&scene, &next).get("children"), None, "it belongs to the step that asked for it");
    let read = ReadRun { run: text(&outer["run"]["label"]), ..ReadRun::default() };
    let overview = text(&scene.engine.read_run(&read).unwrap().into_structured()["text"]);
    assert!(overview.contains("started at step 1: The cache key is wrong."), "{overview}");
}

#[test]
fn a_run_delegated_by_a_parallel_step_is_a_child_run_and_returns_its_result() {
    let scene = scene();
    let steps = json!([
        { "id": "ask", "type": "parallel", "title": "Ask", "parallelDelegations": [
            { "workflowId": "team.inner", "goal": "Look at {{goal}}.", "args": { "family": "security" } }] },
        { "id": "sum", "title": "Sum up", "prompt": "Sum up." },
    ]);
    scene.shelf.put(Precedence::Project, "lead.json", &authored("team.lead", &json!({ "steps": steps })));
    let lead = start(&scene, "team.lead", None);
    let shown = text(&lead["text"]);
    // The call is taken from the text, as a subagent gets it.
    let (_, call) = shown.split_once("- Call: `start_workflow` with ").unwrap_or_else(|| panic!("{shown}"));
    let (_, parent) = call.split_once("\"parent\": \"").unwrap();
    let parent = parent.split('"').next().unwrap().to_owned();
    assert_eq!(parent, text(&lead["stateToken"]), "{shown}");
    let request = StartWorkflow {
        workflow_id: "team.inner".to_owned(),
        parent: Some(parent),
        ..StartWorkflow::default()
    };
    let child = scene.engine.start_workflow(request).unwrap().into_structured();
    let second = advance(&scene, &child, "Looked.", Vec::new());
    let ended = advance(&scene, &second, "One finding: the token is logged.", Vec::new());
    insta::assert_snapshot!("end_of_a_delegated_run", text(&ended["text"]));
    let next = advance(&scene, &lead, "Delegated to one agent, which found one thing.", Vec::new());
    assert_eq!(next["children"][0]["label"], child["run"]["label"]);
    assert!(text(&next["text"]).contains("> One finding: the token is logged."), "{}", next["text"]);
}

/// Broke: the words that stood for the token were replaced wherever they occurred in the step's text.
#[test]
fn only_the_call_of_a_delegation_has_the_token_and_no_value_or_text_becomes_one() {
    const PHRASE: &str = "<stateToken of this step>";
    let scene = scene();
    let goal = format!("Look at {{{{goal}}}}, unlike {PHRASE}.");
    let steps = json!([
        { "id": "ask", "type": "parallel", "title": "Ask {{goal}}", "parallelDelegations": [
            { "workflowId": "team.inner", "goal": goal, "contextMapping": { "facts": "facts" } }] },
    ]);
    scene.shelf.put(Precedence::Project, "lead.json", &authored("team.lead", &json!({ "steps": steps })));
    let marker = "\u{0}state\u{0}";
    let request = StartWorkflow {
        workflow_id: "team.lead".to_owned(),
        goal: Some(format!("{PHRASE} {marker}")),
        context: json!({ "facts": [PHRASE, marker] }).as_object().cloned().unwrap(),
        ..StartWorkflow::default()
    };
    let lead = scene.engine.start_workflow(request).unwrap().into_structured();
    let prompt = text(&lead["pending"]["prompt"]).replace(&text(&lead["stateToken"]), "TOKEN");
    insta::assert_snapshot!(prompt);
    assert!(!text(&lead["pending"]["title"]).contains(&text(&lead["stateToken"])));
}

#[test]
fn a_file_in_a_folder_of_routines_is_injected_and_a_changed_one_changes_what_is_started() {
    let scene = scene();
    let routine = |prompt: &str| {
        authored("team.smoke", &json!({ "steps": [{ "id": "probe", "title": "Probe", "prompt": prompt }] }))
    };
    let steps = json!([{ "id": "call", "title": "Smoke", "templateCall": { "templateId": "team.smoke" } }]);
    scene.shelf.put(Precedence::Project, "lead.json", &authored("team.lead", &json!({ "steps": steps })));
    scene.shelf.put(Precedence::User, "routines/smoke.json", &routine("Probe once."));
    let first = start(&scene, "team.lead", None);
    assert_eq!(first["run"]["stepId"], "call.probe");
    assert!(text(&first["text"]).contains("Probe once."));
    scene.shelf.put(Precedence::User, "routines/smoke.json", &routine("Probe twice."));
    assert!(text(&start(&scene, "team.lead", None)["text"]).contains("Probe twice."));
    assert!(text(&look(&scene, &first)["text"]).contains("Probe once."), "a run keeps what it was pinned to");
}

#[test]
fn every_open_branch_is_offered_including_a_longer_one_that_is_not_the_newest() {
    let scene = scene();
    let first = start(&scene, "team.outer", None);
    let second = advance(&scene, &first, "First plan.", Vec::new());
    let third = advance(&scene, &second, "Built the first.", Vec::new());
    let long = advance(&scene, &third, "Checked the first.", Vec::new());
    assert_eq!(long["run"]["stepNumber"], 4);
    // A shorter branch is the newest.
    let short = advance(&scene, &look(&scene, &first), "Second plan.", Vec::new());
    // And one more, from the middle of the long one.
    let middle = advance(&scene, &look(&scene, &second), "Built it another way.", Vec::new());
    let newest = advance(&scene, &look(&scene, &short), "Built the second.", Vec::new());
    assert_eq!(newest["run"]["stepNumber"], 3);

    let label = text(&first["run"]["label"]);
    let request = ResumeSession { run: Some(label.clone()), ..ResumeSession::default() };
    let found = scene.engine.resume_session(request).unwrap().into_structured();
    let candidate = &found["candidates"][0];
    assert_eq!(candidate["stepNumber"], 3);
    let tips = candidate["openTips"].as_array().unwrap();
    let steps: Vec<&Value> = tips.iter().map(|tip| &tip["stepNumber"]).collect();
    assert_eq!(steps, [4, 3], "the longest first: {found:#}");
    assert_eq!(tips[0]["summary"], "Checked the first.");
    assert_eq!(tips[0]["fromStep"], 1);
    for (tip, expected) in tips.iter().zip([&long, &middle]) {
        let shown = follow(&scene, &tip["nextCall"]);
        assert_eq!(shown["run"]["stepNumber"], expected["run"]["stepNumber"]);
        assert_eq!(shown["run"]["stepId"], expected["run"]["stepId"]);
        let token = tip["nextCall"]["arguments"]["stateToken"].as_str().unwrap();
        assert!(text(&found["text"]).contains(token), "{found:#}");
    }
    let at_tip = follow(&scene, &candidate["nextCall"]);
    let steps: Vec<&Value> =
        at_tip["openTips"].as_array().unwrap().iter().map(|tip| &tip["stepNumber"]).collect();
    assert_eq!(steps, [4, 3]);
    insta::assert_snapshot!("a_tip_with_other_open_branches", text(&at_tip["text"]));

    let read = ReadRun { run: label, ..ReadRun::default() };
    let overview = text(&scene.engine.read_run(&read).unwrap().into_structured()["text"]);
    for tip in tips {
        let token = tip["nextCall"]["arguments"]["stateToken"].as_str().unwrap();
        assert!(overview.contains(token), "{overview}");
    }
}

#[test]
fn session_notes_are_found_and_read_with_a_read_only_call() {
    let scene = scene();
    let open = StartSession { goal: Some("think about caching".to_owned()) };
    let opened = scene.engine.start_session(open).unwrap().into_structured();
    let note = CheckpointWorkflow {
        session_token: Some(text(&opened["sessionToken"])),
        output: StepOutput {
            notes_markdown: Some("Eviction is the hard part.".to_owned()),
            artifacts: Vec::new(),
        },
        ..CheckpointWorkflow::default()
    };
    scene.engine.checkpoint_workflow(note).unwrap();
    let resume = |query: &str| {
        let request = ResumeSession { query: Some(query.to_owned()), ..ResumeSession::default() };
        scene.engine.resume_session(request).unwrap().into_structured()
    };
    let found = resume("the eviction thing");
    assert_eq!(found["nextCall"], json!({ "tool": "read_run", "arguments": { "run": opened["sessionId"] } }));
    let read = follow(&scene, &found["nextCall"]);
    let shown = text(&read["text"]);
    insta::assert_snapshot!("notes_of_a_session", shown);

    // A run in that session: its recap and its search include the notes.
    let inside = StartWorkflow {
        workflow_id: "team.outer".to_owned(),
        session_token: Some(text(&opened["sessionToken"])),
        ..StartWorkflow::default()
    };
    let run = scene.engine.start_workflow(inside).unwrap().into_structured();
    let found = resume("eviction");
    assert_eq!(found["candidates"][0]["label"], run["run"]["label"]);
    assert_eq!(found["candidates"][0]["snippet"], "Eviction is the hard part.");
    let back = follow(&scene, &found["nextCall"]);
    assert!(text(&back["text"]).contains("> Eviction is the hard part."), "{}", back["text"]);
    let query =
        ReadRun { run: text(&run["run"]["label"]), query: Some("eviction".to_owned()), ..ReadRun::default() };
    let hits = text(&scene.engine.read_run(&query).unwrap().into_structured()["text"]);
    assert!(hits.contains("notes of the session: Eviction is the hard part."), "{hits}");
}

#[test]
fn all_notes_of_a_run_can_be_read_at_once() {
    let scene = scene();
    let first = start(&scene, "team.outer", None);
    let second = advance(&scene, &first, "First plan.", Vec::new());
    advance(&scene, &second, "Built it.", vec![json!({ "kind": "team.files", "files": ["a.rs"] })]);
    let request =
        ReadRun { run: text(&first["run"]["label"]), step: Some("all".to_owned()), ..ReadRun::default() };
    let shown = text(&scene.engine.read_run(&request).unwrap().into_structured()["text"]);
    let places: Vec<usize> =
        ["step 1: Do plan", "First plan.", "step 2: Do build", "Built it.", "team.files"]
            .iter()
            .map(|words| shown.find(words).unwrap_or_else(|| panic!("{words}: {shown}")))
            .collect();
    assert!(places.is_sorted(), "{shown}");
}
