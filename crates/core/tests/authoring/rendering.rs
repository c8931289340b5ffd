//! The text of a step: it contains everything authored, in one order, the same every time.

use serde_json::{Value, json};
use workrail_core::agent_site::AgentSite;
use workrail_core::interpret::start;
use workrail_core::render::prompt::{Lifecycle, ParentToken, RenderMode, render_step, render_title};
use workrail_model::preferences::Autonomy;

use crate::driver::{advance, context};
use crate::{compiled, decide, decided, plain, workflow};

fn first_text(source: &Value, with: Value, lifecycle: Lifecycle) -> String {
    let workflow = compiled(source);
    let context = context(with);
    let state = start(&workflow, &context).unwrap().state;
    render_step(&workflow, state.pending_step().unwrap(), &context, lifecycle).unwrap()
}

fn full() -> Value {
    let mut source = workflow(json!([{
        "id": "one", "title": "Look at {{thing}}", "prompt": "Examine {{thing}}; then helper().",
        "agentRole": "A careful reader.", "guidance": ["Read twice."],
        "requireConfirmation": { "var": "thing", "equals": "x" },
        "promptFragments": [
            { "id": "f1", "when": { "var": "thing", "equals": "x" }, "text": "About {{thing}}." },
            { "id": "f2", "when": { "var": "thing", "equals": "y" }, "text": "Not shown." },
        ],
        "validationCriteria": [{ "type": "contains", "value": "Findings", "message": "m" }],
        "output": { "hints": "Ten lines." },
        "functionReferences": ["helper()"],
    }]));
    source["metaGuidance"] = json!(["Stay calm."]);
    source["preconditions"] = json!(["A repository."]);
    source["functionDefinitions"] = json!([
        { "name": "helper", "definition": "Do the helping." }, { "name": "other", "definition": "Hidden other." }]);
    source["metricsProfile"] = json!("research");
    source
}

#[test]
fn everything_authored_is_in_the_text_in_one_order() {
    let text = first_text(&full(), json!({ "thing": "x" }), Lifecycle::Start);
    let order = [
        "Your role in this step: A careful reader.",
        "Examine x; then helper().",
        "**Your notes are checked:**\n- the notes contain \"Findings\"",
        "**Hints for the output:**\n- Ten lines.",
        "**Notes required:**",
        "**Confirmation:**",
        "**Guidance:**\n- Read twice.",
        "**Throughout this workflow:**\n- Stay calm.",
        "**Before you begin, check these. Write in the notes which do not hold and how you handle that:**\n- A repository.",
        "About x.",
        "`helper()`: Do the helping.",
        "**Metrics:** this is the last step.",
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is not in:\n{text}")))
        .collect();
    assert!(places.is_sorted(), "{places:?}\n{text}");
    assert!(!text.contains("Not shown.") && !text.contains("Hidden other."));
}

#[test]
fn thousands_of_functions_in_a_long_prompt_are_found_in_one_pass() {
    let functions: Vec<Value> =
        (0..9_000).map(|n| json!({ "name": format!("fn{n}"), "definition": format!("Does {n}.") })).collect();
    let mut source = workflow(json!([plain("a"), plain("b")]));
    let filler = "Read the files (all of them) and call helper() where it helps.\n".repeat(900);
    source["steps"][0]["prompt"] = json!(format!("{filler}Then call fn8999(), xfn17() and fn12 ()."));
    source["functionDefinitions"] = json!(functions);
    let text = first_text(&source, json!({}), Lifecycle::Start);
    let (_, named) = text.split_once("**Functions named in this step:**").unwrap();
    // A name counts as a whole word.
    for expected in ["`fn8999()`: Does 8999.", "`fn12()`: Does 12."] {
        assert!(named.contains(expected), "{named}");
    }
    assert!(!named.contains("`fn17()`") && !named.contains("`fn7()`"), "{named}");
}

#[test]
fn an_advance_is_shorter_than_a_start_or_a_resume() {
    let at = |lifecycle| first_text(&full(), json!({ "thing": "x" }), lifecycle);
    assert!(!at(Lifecycle::Advance).contains("Stay calm."));
    assert!(at(Lifecycle::Rehydrate).contains("Stay calm."));
    assert!(at(Lifecycle::Rehydrate).contains("Do the helping."));
}

#[test]
fn an_unset_variable_is_mentioned() {
    let text = first_text(&full(), json!({}), Lifecycle::Advance);
    assert!(text.contains("Examine [unset: thing];"), "{text}");
}

#[test]
fn loops_say_which_pass_it_is_and_what_the_decision_means() {
    let workflow = compiled(&workflow(json!([decided("again", 3, json!([plain("work"), decide("d")]))])));
    let empty = context(json!({}));
    let first = start(&workflow, &empty).unwrap().state;
    let begun = render_step(&workflow, first.pending_step().unwrap(), &empty, Lifecycle::Start).unwrap();
    let second = advance(&workflow, &first, &empty, &[]).unwrap().state;
    let asks = render_step(&workflow, second.pending_step().unwrap(), &empty, Lifecycle::Advance).unwrap();
    insta::assert_snapshot!(format!("{begun}\n\n#####\n\n{asks}"));
}

#[test]
fn people_are_waited_for_only_where_the_mode_waits() {
    let asks = |confirmation: Value, autonomy| {
        let mut step = plain("one");
        step["requireConfirmation"] = confirmation;
        let workflow = compiled(&workflow(json!([step])));
        let empty = context(json!({}));
        let state = start(&workflow, &empty).unwrap().state;
        let (lifecycle, parent) = (Lifecycle::Advance, ParentToken::Placeholder);
        let mode = RenderMode { lifecycle, autonomy, site: &AgentSite::Local, parent };
        render_step(&workflow, state.pending_step().unwrap(), &empty, mode).unwrap()
    };
    let gate = || json!({ "kind": "human_approval" });
    let modes = [Autonomy::Guided, Autonomy::FullAutoStopOnUserDeps, Autonomy::FullAutoNeverStop];
    let shown = modes.map(|autonomy| {
        let (confirmation, gate) = (asks(json!(true), autonomy), asks(gate(), autonomy));
        format!(
            "##### {}\n\n{confirmation}\n\n##### {}, a gate\n\n{gate}",
            autonomy.as_str(),
            autonomy.as_str()
        )
    });
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn loop_variables_are_filled_in_prompts_and_titles() {
    let workflow = compiled(&workflow(json!([
        { "id": "each", "type": "loop", "title": "Each", "body": "inner",
          "loop": { "type": "forEach", "items": "things", "itemVar": "thing", "indexVar": "n", "maxIterations": 9 } },
        { "id": "inner", "title": "Thing {{n}}", "prompt": "Do {{thing}} in pass {{currentIteration}}." },
    ])));
    let context = context(json!({ "things": ["a", "b"] }));
    let first = start(&workflow, &context).unwrap().state;
    let second = advance(&workflow, &first, &context, &[]).unwrap().state;
    let pending = second.pending_step().unwrap();
    assert_eq!(render_title(&workflow, pending, &context), "Thing 1");
    let text = render_step(&workflow, pending, &context, Lifecycle::Advance).unwrap();
    assert!(text.contains("> Each: pass 2 of 2.\n"), "an item is not a refinement: {text}");
    assert!(text.contains("Do b in pass 2."), "{text}");
}

#[test]
fn a_parallel_step_lists_what_applies() {
    let source = workflow(json!([{ "id": "p", "type": "parallel", "title": "P", "parallelDelegations": [
        { "workflowId": "project.child", "runCondition": { "var": "families", "contains": "safety" },
          "contextMapping": { "packet": "facts" }, "args": { "familyName": "safety" }, "modelTier": "mid" },
        { "workflowId": "project.other", "runCondition": { "var": "families", "contains": "speed" } },
    ] }]));
    let one = first_text(&source, json!({ "families": ["safety"], "packet": "P1" }), Lifecycle::Start);
    let none = first_text(&source, json!({}), Lifecycle::Start);
    insta::assert_snapshot!(format!("{one}\n\n#####\n\n{none}"));
}

/// The layout of version 1 in full: a change here is a new render version, so that started runs keep their text.
#[test]
fn the_whole_layout_is_recorded() {
    insta::assert_snapshot!("start", first_text(&full(), json!({ "thing": "x" }), Lifecycle::Start));
    insta::assert_snapshot!("advance", first_text(&full(), json!({ "thing": "x" }), Lifecycle::Advance));
    insta::assert_snapshot!("rehydrate", first_text(&full(), json!({}), Lifecycle::Rehydrate));
}

#[test]
fn the_layout_of_contracts_assessments_loops_and_delegations_is_recorded() {
    let mut source = workflow(json!([
        { "id": "judge", "title": "Judge", "prompt": "Judge it.", "assessmentRefs": ["ready"] },
        { "id": "again", "type": "loop", "title": "Again", "loop": { "type": "while", "maxIterations": 3 },
          "body": [plain("work"), decide("stop-or-go")] },
        { "id": "fan", "type": "parallel", "title": "Fan out", "parallelDelegations": [
            { "workflowId": "team.one", "goal": "Look left.", "args": { "side": "left" } }] },
    ]));
    source["assessments"] = json!([{ "id": "ready", "purpose": "Is it ready?", "dimensions": [
        { "id": "confidence", "purpose": "How sure?", "levels": ["low", "high"] }] }]);
    let workflow = compiled(&source);
    let context = context(json!({}));
    let assessment = json!({
        "kind": "wr.assessment", "assessmentId": "ready", "dimensions": { "confidence": "high" },
    });
    let again = json!({ "kind": "wr.loop_control", "decision": "continue" });
    let stop = json!({ "kind": "wr.loop_control", "decision": "stop" });
    let mut state = start(&workflow, &context).unwrap().state;
    let mut texts = Vec::new();
    for sent in [vec![assessment], vec![], vec![again], vec![], vec![stop], vec![]] {
        let pending = state.pending_step().unwrap();
        let title = render_title(&workflow, pending, &context);
        texts.push(format!(
            "##### {title}\n{}",
            render_step(&workflow, pending, &context, Lifecycle::Advance).unwrap()
        ));
        state = advance(&workflow, &state, &context, &sent).unwrap().state;
    }
    insta::assert_snapshot!("kinds", texts.join("\n\n"));
}

/// The identity of bundled workflows: it changes only if their text does, and is the same on every machine.
#[test]
fn bundled_workflows_have_recorded_hashes() {
    let source = include_bytes!("../../../../workflows/wr.small_change.json");
    let input = workrail_core::compile::CompileInput {
        origin: workrail_core::compile::FileOrigin::Bundled,
        ..workrail_core::compile::CompileInput::new(source, "wr.small_change.json")
    };
    let workflow = workrail_core::compile::compile(input).unwrap();
    insta::assert_snapshot!("wr_small_change_hash", workflow.hash().unwrap().to_string());
}
