//! `read_run` is an agent's memory: everything agreed and done can be read without the chat (G56).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use workrail_engine::next_call;
use workrail_engine::request::{ContinueWorkflow, ReadRun, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::error::ErrorEnvelope;
use workrail_model::submission::StepOutput;
use workrail_model::tool::ToolName;

use crate::scene::{Scene, authored};

struct Run {
    scene: Scene,
    label: String,
    /// The replies so far, the first step first.
    replies: Vec<Value>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn request() -> StartWorkflow {
    StartWorkflow {
        workflow_id: "team.memory".to_owned(),
        goal: Some("Fix the timeout of the upload".to_owned()),
        context: json!({ "slices": ["parser", "writer"], "size": "small" }).as_object().unwrap().clone(),
        ..StartWorkflow::default()
    }
}

impl Run {
    /// Four steps, of which the second is done for each slice.
    fn start() -> Self {
        let scene = Scene::new();
        let steps = json!([
            { "id": "criteria", "title": "Agree on criteria", "prompt": "Agree." },
            { "id": "slices", "type": "loop", "title": "Slices",
              "loop": { "type": "forEach", "items": "slices", "itemVar": "slice", "maxIterations": 5 },
              "body": [{ "id": "build", "title": "Build {{slice}}", "prompt": "Build it." }] },
            { "id": "large-only", "title": "For large work", "prompt": "More.",
              "runCondition": { "var": "size", "equals": "large" } },
            { "id": "report", "title": "Report", "prompt": "Report." },
        ]);
        scene.shelf.put(
            Precedence::Project,
            "memory.json",
            &authored("team.memory", &json!({ "steps": steps })),
        );
        let reply = scene.engine.start_workflow(request()).unwrap().into_structured();
        Self { scene, label: text(&reply["run"]["label"]), replies: vec![reply] }
    }

    fn advance(&mut self, from: usize, notes: &str, artifacts: Vec<Value>) {
        let reply = self.scene.engine.continue_workflow(ContinueWorkflow {
            ack_token: Some(text(&self.replies[from]["ackToken"])),
            output: StepOutput { notes_markdown: Some(notes.to_owned()), artifacts },
            ..ContinueWorkflow::default()
        });
        self.replies.push(reply.unwrap().into_structured());
    }

    fn read(&self, request: ReadRun) -> Result<Value, Box<ErrorEnvelope>> {
        self.scene.engine.read_run(&request).map(|reply| reply.into_structured())
    }

    fn overview(&self, run: &str) -> Value {
        self.read(ReadRun { run: run.to_owned(), ..ReadRun::default() }).unwrap()
    }

    fn step(&self, step: &str, page: Option<u64>) -> Result<Value, Box<ErrorEnvelope>> {
        let step = Some(step.to_owned());
        self.read(ReadRun { run: self.label.clone(), step, page, ..ReadRun::default() })
    }
}

/// Three steps are done; the second slice is pending.
fn at_the_second_slice() -> Run {
    let mut run = Run::start();
    let long = format!("Criteria: {} uploads finish within 5 s. LAST WORDS", "x ".repeat(4000));
    run.advance(0, &long, vec![json!({ "kind": "team.plan", "files": ["upload.rs"] })]);
    run.advance(1, "Built the parser.", Vec::new());
    run
}

#[test]
fn the_overview_tells_goal_place_steps_and_context() {
    let run = at_the_second_slice();
    let told = text(&run.overview(&run.label)["text"]).replace(&run.label, "[label]");
    let (told, _) = told.split_once("{\"run\":\"[label]\",\"stateToken\"").expect("the call that leads back");
    insta::assert_snapshot!(told);
}

#[test]
fn a_run_is_named_by_label_id_or_any_of_its_tokens() {
    let run = at_the_second_slice();
    let expected = run.overview(&run.label)["text"].clone();
    let now = run.replies.last().unwrap();
    let spaced = run.label.replace('-', " ").to_uppercase();
    assert_eq!(run.overview(&spaced)["text"], expected);
    // A token of the first step works as well: the whole run is read.
    let first = text(&run.replies[0]["stateToken"]);
    for name in [text(&now["run"]["runId"]), text(&now["stateToken"]), text(&now["ackToken"]), first] {
        // The example of a call names the run as the caller did.
        let example = |name: &str| format!("such as {{\"run\":\"{name}\",");
        let told = text(&run.overview(&name)["text"]).replacen(&example(&name), &example(&run.label), 1);
        assert_eq!(told, expected, "{name}");
    }
}

/// Regression: the calls in a reply named the run by its label, which is not enough if two runs share it.
#[test]
fn a_run_that_shares_its_label_is_read_by_its_token_to_the_last_page() {
    let mut run = Run::start();
    let mut started = BTreeMap::new();
    // The entropy is seeded, so these are the same runs every time.
    let twin = (0..2_000).find_map(|_| {
        let reply = run.scene.engine.start_workflow(request()).unwrap().into_structured();
        started.insert(text(&reply["run"]["label"]), reply)
    });
    let twin = twin.expect("two of so many runs share a label");
    run.label = text(&twin["run"]["label"]);
    run.replies = vec![twin];
    run.advance(0, &format!("{} LAST WORDS", "x ".repeat(6000)), Vec::new());

    let refused = run.step("1", None).unwrap_err();
    assert_eq!(refused.next_call.unwrap().arguments, *json!({ "query": run.label }).as_object().unwrap());

    let token = text(&run.replies[1]["stateToken"]);
    let page = |page| {
        let step = Some("1".to_owned());
        run.read(ReadRun { run: token.clone(), step, page, ..ReadRun::default() }).unwrap()
    };
    assert_eq!(page(None)["nextCall"]["arguments"], json!({ "run": token, "step": "1", "page": 2 }));
    assert!(text(&page(Some(2))["text"]).contains("LAST WORDS"));
    let missing = run.read(ReadRun { run: token.clone(), step: Some("9".to_owned()), ..ReadRun::default() });
    let overview = missing.unwrap_err().next_call.unwrap();
    assert_eq!(overview.arguments, *json!({ "run": token }).as_object().unwrap());
}

#[test]
fn a_step_is_read_whole_and_in_pages() {
    let run = at_the_second_slice();
    let first = run.step("1", None).unwrap();
    let second = run.step("criteria", Some(2)).unwrap();
    assert_eq!((first["page"].clone(), first["pages"].clone()), (json!(1), json!(2)));
    assert_eq!(first["nextCall"]["arguments"], json!({ "run": run.label, "step": "1", "page": 2 }));
    let all = format!("{}{}", text(&first["text"]), text(&second["text"]));
    for part in ["Criteria: ", "LAST WORDS", "## Artifact team.plan", "upload.rs"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert_eq!(second["nextCall"]["tool"], "continue_workflow");
}

/// Broke: a step called `session` was never found by its id, and one called `7` only among seven steps.
#[test]
fn a_step_is_read_by_an_id_that_is_a_word_or_a_number() {
    let scene = Scene::new();
    let step = |id: &str| json!({ "id": id, "title": format!("Do {id}"), "prompt": "Do it." });
    let steps = json!([step("session"), step("7"), step("1")]);
    scene.shelf.put(Precedence::Project, "memory.json", &authored("team.memory", &json!({ "steps": steps })));
    let reply = scene.engine.start_workflow(request()).unwrap().into_structured();
    let mut run = Run { scene, label: text(&reply["run"]["label"]), replies: vec![reply] };
    run.advance(0, "Did the first.", Vec::new());
    run.advance(1, "Did the second.", Vec::new());
    let shown = |asked: &str| text(&run.step(asked, None).unwrap()["text"]);
    let (first, second, third) = ("step 1: Do session", "step 2: Do 7", "step 3: Do 1");
    for (asked, step) in [("session", first), ("7", second), ("1", first), ("3", third)] {
        assert!(shown(asked).contains(step), "{asked}: {}", shown(asked));
    }
    assert!(run.step("8", None).is_err());
}

#[test]
fn a_refused_step_that_is_pending_is_not_called_complete() {
    let run = Run::start();
    let sent = |token: &Value, notes: Option<&str>, slices: Value| {
        let output = StepOutput { notes_markdown: notes.map(str::to_owned), artifacts: Vec::new() };
        let context = json!({ "slices": slices }).as_object().unwrap().clone();
        let ack_token = Some(text(token));
        let request = ContinueWorkflow { ack_token, output, context, ..ContinueWorkflow::default() };
        run.scene.engine.continue_workflow(request).unwrap().into_structured()
    };
    let refused = sent(&run.replies[0]["ackToken"], None, json!("parser"));
    assert_eq!(refused["kind"], "blocked", "{refused}");
    let shown = text(&run.step("1", None).unwrap()["text"]);
    insta::assert_snapshot!("a_refused_step", shown);
    let advanced = sent(&refused["ackToken"], Some("Agreed with the user."), json!(["parser"]));
    assert_eq!(advanced["kind"], "ok", "{advanced}");
    let shown = text(&run.step("1", None).unwrap()["text"]);
    insta::assert_snapshot!("a_step_that_was_refused_first", shown);
}

#[test]
fn words_are_found_in_notes_artifacts_and_context() {
    let run = at_the_second_slice();
    let find = |query: &str| {
        let query = Some(query.to_owned());
        text(&run.read(ReadRun { run: run.label.clone(), query, ..ReadRun::default() }).unwrap()["text"])
    };
    // The fourth has another form of a word, and the fifth a small word, which counts inside a run.
    let queries = ["last words", "upload.rs", "writer", "the uploads", "the last", "absent"];
    let shown = queries.map(|query| format!("##### {query}\n{}", find(query)));
    insta::assert_snapshot!("words_found_in_a_run", shown.join("\n\n"));
    let none =
        run.read(ReadRun { run: run.label.clone(), query: Some("!?".to_owned()), ..ReadRun::default() });
    assert_eq!(none.unwrap_err().code.as_str(), "VALIDATION_ERROR");
}

#[test]
fn every_open_branch_is_offered_with_the_call_that_shows_it() {
    let mut run = at_the_second_slice();
    // The first slice again, from its own bookmark: a second branch, on which the run continues.
    let again = run.scene.engine.continue_workflow(ContinueWorkflow {
        state_token: Some(text(&run.replies[1]["stateToken"])),
        ..ContinueWorkflow::default()
    });
    run.replies.push(again.unwrap().into_structured());
    run.advance(3, "Built the parser in another way.", Vec::new());
    let told = text(&run.overview(&run.label)["text"]);
    assert!(told.contains("Built the parser in another way"), "{told}");
    let branch = told.lines().find(|line| line.starts_with("- from step 2, at Build writer")).expect(&told);
    let call: Value = serde_json::from_str(&branch[branch.find('{').unwrap()..]).unwrap();
    let shown = run.scene.engine.continue_workflow(ContinueWorkflow {
        state_token: Some(text(&call["stateToken"])),
        run: Some(text(&call["run"])),
        ..ContinueWorkflow::default()
    });
    assert_eq!(shown.unwrap().into_structured()["recap"]["entries"][1]["notes"], "Built the parser.");
}

#[test]
fn another_branch_is_read_by_its_token_and_is_not_called_an_earlier_step() {
    let mut run = at_the_second_slice();
    let again = run.scene.engine.continue_workflow(ContinueWorkflow {
        state_token: Some(text(&run.replies[1]["stateToken"])),
        ..ContinueWorkflow::default()
    });
    run.replies.push(again.unwrap().into_structured());
    insta::assert_snapshot!("an_earlier_step_by_its_token", text(&run.replies[3]["text"]));
    run.advance(3, "Built the parser in another way.", Vec::new());
    let old = text(&run.replies[2]["stateToken"]);
    let step = Some("2".to_owned());
    let read = run.read(ReadRun { run: old.clone(), step, ..ReadRun::default() }).unwrap();
    assert!(text(&read["text"]).contains("Built the parser."), "{read}");
    let looked = run
        .scene
        .engine
        .continue_workflow(ContinueWorkflow { state_token: Some(old), ..ContinueWorkflow::default() });
    let told = text(&looked.unwrap().into_structured()["text"]);
    insta::assert_snapshot!("another_branch_by_its_token", told);
}

/// Regression: a marker in an agent's notes was signed, and an unclosed one cut off what followed.
#[test]
fn recorded_text_is_never_taken_for_a_marker() {
    let mut run = Run::start();
    run.advance(0, "a \u{0}state@3\u{0} b \u{0}state@ THE END", Vec::new());
    for told in [run.overview(&run.label), run.step("1", None).unwrap()] {
        let told = text(&told["text"]);
        assert!(told.contains("THE END") && told.contains("state@3"), "{told}");
    }
}

#[test]
fn what_cannot_be_read_suggests_the_next_call() {
    let run = at_the_second_slice();
    let missing = run.step("9", None).unwrap_err();
    assert_eq!(missing.next_call.unwrap().arguments, *json!({ "run": run.label }).as_object().unwrap());
    for name in ["amber-falcon", "run_0000000000000000", "st.v2.cut"] {
        let error = run.read(ReadRun { run: name.to_owned(), ..ReadRun::default() }).unwrap_err();
        let sent = json!({ "run": name }).as_object().unwrap().clone();
        let next = error.next_call.clone().or_else(|| next_call::after(&error, ToolName::ReadRun, sent));
        assert_eq!(next.unwrap().tool, ToolName::ResumeSession, "{name}");
    }
}

#[test]
fn a_step_says_where_it_is() {
    let run = at_the_second_slice();
    let heading = |reply: &Value| text(&reply["text"]).lines().next().unwrap().to_owned();
    let places: Vec<String> =
        run.replies.iter().map(|reply| heading(reply).split_once("step ").unwrap().1.to_owned()).collect();
    assert_eq!(
        places,
        [
            "1 · about 3 left: Agree on criteria",
            "2 · about 2 left · slice 1 of 2: Build parser",
            "3 · about 1 left · slice 2 of 2: Build writer",
        ]
    );
}
