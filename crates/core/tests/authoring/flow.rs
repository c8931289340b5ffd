//! The interpreter: forward only, loops decided between passes, every decision traced (G44).

use serde_json::{Value, json};
use workrail_core::interpret::{InterpretError, SelectionAdvisory, Strictness, advance_in, start};
use workrail_model::blocker::BlockerCode;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::{Context, TraceKind};
use workrail_model::name::StepId;
use workrail_model::snapshot::EngineState;

use crate::driver::{advance, context};
use crate::{compiled, decide, decided, plain, workflow};

fn at(state: &EngineState) -> String {
    state.pending_step().map_or_else(|| "complete".to_owned(), |step| step.key().unwrap().to_string())
}

fn decision(word: &str) -> Value {
    json!({ "kind": "wr.loop_control", "decision": word })
}

/// Walks with one artifact per step, and returns the positions visited.
fn walk(workflow: &CompiledWorkflow, context: &Context, artifacts: &[Value]) -> Vec<String> {
    let mut selection = start(workflow, context).unwrap();
    let mut visited = vec![at(&selection.state)];
    for artifact in artifacts {
        let given: Vec<Value> = if artifact.is_null() { vec![] } else { vec![artifact.clone()] };
        selection = advance(workflow, &selection.state, context, &given).unwrap();
        visited.push(at(&selection.state));
    }
    visited
}

#[test]
fn a_decision_counts_for_the_loop_whose_step_gave_it_and_never_on_entry() {
    let workflow = compiled(&workflow(json!([
        plain("before"),
        decided("first", 3, json!([decide("decide-first")])),
        decided("second", 3, json!([decide("decide-second")])),
        plain("after"),
    ])));
    let stop = decision("stop");
    let visited = walk(&workflow, &context(json!({})), &[stop.clone(), stop.clone(), stop]);
    assert_eq!(visited, ["before", "first@0::decide-first", "second@0::decide-second", "after"]);
}

#[test]
fn a_decision_that_names_another_loop_decides_nothing() {
    let workflow = compiled(&workflow(json!([decided("mine", 2, json!([decide("d")]))])));
    let named = |name: &str| json!({ "kind": "wr.loop_control", "decision": "stop", "loopId": name });
    let empty = context(json!({}));
    assert_eq!(walk(&workflow, &empty, &[named("other")])[1], "mine@1::d");
    assert_eq!(walk(&workflow, &empty, &[named("mine")])[1], "complete");
    assert_eq!(walk(&workflow, &empty, &[named("mine_label")])[1], "complete");
}

#[test]
fn of_two_decisions_in_one_call_the_first_decides() {
    let workflow = compiled(&workflow(json!([decided("mine", 2, json!([decide("d")]))])));
    let empty = context(json!({}));
    let first = start(&workflow, &empty).unwrap();
    let after = |sent: [Value; 2]| at(&advance(&workflow, &first.state, &empty, &sent).unwrap().state);
    assert_eq!(after([decision("stop"), decision("continue")]), "complete");
    assert_eq!(after([decision("continue"), decision("stop")]), "mine@1::d");
}

#[test]
fn a_stop_in_the_middle_of_a_body_ends_the_loop_after_the_pass() {
    let workflow = compiled(&workflow(json!([decided("again", 5, json!([decide("d"), plain("rest")]))])));
    let visited = walk(&workflow, &context(json!({})), &[decision("stop"), Value::Null]);
    assert_eq!(visited, ["again@0::d", "again@0::rest", "complete"]);
}

#[test]
fn the_limit_ends_a_loop_and_is_disclosed() {
    let workflow = compiled(&workflow(json!([decided("again", 2, json!([decide("d")])), plain("after")])));
    let empty = context(json!({}));
    let go = [decision("continue")];
    let first = start(&workflow, &empty).unwrap();
    let second = advance(&workflow, &first.state, &empty, &go).unwrap();
    assert_eq!(at(&second.state), "again@1::d");
    assert_eq!(second.advisories, []);
    let third = advance(&workflow, &second.state, &empty, &go).unwrap();
    assert_eq!(at(&third.state), "after");
    let loop_id = workrail_model::name::LoopId::parse("again").unwrap();
    assert_eq!(third.advisories, [SelectionAdvisory::LoopLimitReached { loop_id, max_iterations: 2 }]);
    let exit = third.trace.iter().find(|entry| entry.kind == TraceKind::ExitedLoop).unwrap();
    assert!(exit.summary.as_str().contains("limit"), "the true reason: {}", exit.summary);
}

#[test]
fn on_limit_block_blocks_until_told_to_stop() {
    let mut source = workflow(json!([decided("again", 1, json!([decide("d")])), plain("after")]));
    source["steps"][0]["loop"]["onLimit"] = json!("block");
    let workflow = compiled(&source);
    let empty = context(json!({}));
    let first = start(&workflow, &empty).unwrap();
    let error = advance(&workflow, &first.state, &empty, &[decision("continue")]).unwrap_err();
    let finding = error.finding(&StepId::parse("d").unwrap()).unwrap();
    assert_eq!(finding.blocker.code, BlockerCode::LoopLimitReached);
    let stopped = advance(&workflow, &first.state, &empty, &[decision("stop")]).unwrap();
    assert_eq!(at(&stopped.state), "after");
    let passed =
        advance_in(Strictness::NeverStop, &workflow, &first.state, &empty, &[decision("continue")]).unwrap();
    assert_eq!((at(&passed.state).as_str(), passed.waived.len()), ("after", 1));
}

/// The log keeps artifacts in the order of their digests, and a lost snapshot is computed from them.
#[test]
fn the_same_decision_is_followed_whatever_is_recorded_with_it_and_in_whichever_order() {
    let workflow = compiled(&workflow(json!([decided("again", 3, json!([decide("d")])), plain("after")])));
    let empty = context(json!({}));
    let first = start(&workflow, &empty).unwrap();
    let mut elsewhere = decision("stop");
    elsewhere["loopId"] = json!("another");
    for unusable in [decision("maybe"), elsewhere, json!({ "kind": "wr.loop_control" })] {
        for (word, next) in [("continue", "again@1::d"), ("stop", "after")] {
            for artifacts in [[unusable.clone(), decision(word)], [decision(word), unusable.clone()]] {
                let passed =
                    advance_in(Strictness::NeverStop, &workflow, &first.state, &empty, &artifacts).unwrap();
                assert_eq!(at(&passed.state), next, "{artifacts:?}");
            }
        }
    }
}

#[test]
fn a_missing_list_blocks_and_never_stop_skips_it() {
    let workflow = compiled(&workflow(json!([
        plain("before"),
        { "id": "each", "type": "loop", "title": "Each", "body": [plain("inner")],
          "loop": { "type": "forEach", "items": "things", "maxIterations": 5 } },
        plain("after"),
    ])));
    let empty = context(json!({}));
    let first = start(&workflow, &empty).unwrap();
    let error = advance(&workflow, &first.state, &empty, &[]).unwrap_err();
    assert!(matches!(&error, InterpretError::MissingContext { key, .. } if key == "things"), "{error}");
    let finding = error.finding(&StepId::parse("before").unwrap()).unwrap();
    assert_eq!(finding.blocker.code, BlockerCode::MissingContextKey);
    let passed = advance_in(Strictness::NeverStop, &workflow, &first.state, &empty, &[]).unwrap();
    assert_eq!((at(&passed.state).as_str(), passed.waived.len()), ("after", 1));
    let given = advance(&workflow, &first.state, &context(json!({ "things": [1, 2] })), &[]).unwrap();
    assert_eq!(at(&given.state), "each@0::inner");
}

#[test]
fn items_that_prompts_look_into_must_be_objects() {
    let inner = json!({ "id": "inner", "title": "Inner", "prompt": "Look at {{currentItem.name}}." });
    let workflow =
        compiled(&workflow(json!([{ "id": "each", "type": "loop", "title": "Each", "body": [inner],
        "loop": { "type": "forEach", "items": "things", "maxIterations": 5 } }])));
    assert!(start(&workflow, &context(json!({ "things": ["plain"] }))).is_err());
    assert!(start(&workflow, &context(json!({ "things": [{ "name": "x" }] }))).is_ok());
}

/// Broke: only `{{currentItem.name}}` in a prompt counted, so the steps of a list of texts showed no names.
#[test]
fn a_member_with_spaces_around_it_or_in_a_title_needs_objects() {
    for (title, prompt) in [
        ("Inner", "Look at {{currentItem.name}}."),
        ("Inner", "Look at {{ currentItem.name }}."),
        ("Inner {{currentItem.name}}", "Look."),
    ] {
        let inner = json!({ "id": "inner", "title": title, "prompt": prompt });
        let each = json!({ "id": "each", "type": "loop", "title": "Each", "body": [inner],
            "loop": { "type": "forEach", "items": "things", "maxIterations": 5 } });
        let workflow = compiled(&workflow(json!([each])));
        assert!(start(&workflow, &context(json!({ "things": ["plain"] }))).is_err(), "{title}, {prompt}");
    }
}

#[test]
fn a_loop_that_runs_zero_times_is_traced() {
    let workflow = compiled(&workflow(json!([
        { "id": "each", "type": "loop", "title": "Each", "body": [plain("inner")],
          "loop": { "type": "forEach", "items": "things", "maxIterations": 5 } },
        plain("after"),
    ])));
    let selection = start(&workflow, &context(json!({ "things": [] }))).unwrap();
    let kinds: Vec<TraceKind> = selection.trace.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [TraceKind::EvaluatedCondition, TraceKind::ExitedLoop, TraceKind::SelectedNextStep]);
    assert_eq!(at(&selection.state), "after");
}

#[test]
fn a_skipped_step_is_not_picked_up_later() {
    let workflow = compiled(&workflow(json!([
        plain("one"),
        { "id": "two", "title": "Two", "prompt": "x", "runCondition": { "var": "late", "equals": true } },
        plain("three"),
    ])));
    let first = start(&workflow, &context(json!({}))).unwrap();
    let third = advance(&workflow, &first.state, &context(json!({})), &[]).unwrap();
    assert_eq!(at(&third.state), "three");
    let end = advance(&workflow, &third.state, &context(json!({ "late": true })), &[]).unwrap();
    assert!(end.state.is_complete(), "no jump back");
}

#[test]
fn nested_loops_run_and_see_both_variables() {
    let workflow = compiled(&workflow(json!([
        { "id": "outer", "type": "loop", "title": "Outer", "loop": { "type": "for", "count": 2, "maxIterations": 5 },
          "body": [
            plain("a"),
            { "id": "inner", "type": "loop", "title": "Inner", "body": [plain("b")],
              "loop": { "type": "for", "count": "n", "maxIterations": 5 } },
          ] },
    ])));
    let visited = walk(&workflow, &context(json!({ "n": 2 })), &vec![Value::Null; 6]);
    assert_eq!(
        visited,
        [
            "outer@0::a",
            "outer@0/inner@0::b",
            "outer@0/inner@1::b",
            "outer@1::a",
            "outer@1/inner@0::b",
            "outer@1/inner@1::b",
            "complete"
        ]
    );
}

#[test]
fn while_and_until_read_the_context_between_passes_only() {
    let body = json!([plain("a"), plain("b")]);
    let settings = |kind: &str| {
        json!({ "type": kind, "maxIterations": 9,
                "condition": { "var": "currentIteration", "lte": 2 } })
    };
    let source = |kind: &str| {
        workflow(json!([{ "id": "l", "type": "loop", "title": "L", "loop": settings(kind), "body": body }]))
    };
    let empty = context(json!({}));
    let while_loop = compiled(&source("while"));
    let visited = walk(&while_loop, &empty, &vec![Value::Null; 4]);
    assert_eq!(visited, ["l@0::a", "l@0::b", "l@1::a", "l@1::b", "complete"]);
    assert_eq!(walk(&compiled(&source("until")), &empty, &[]), ["complete"]);
}

#[test]
fn loops_whose_conditions_skip_everything_end_in_bounded_time() {
    let skipped =
        json!({ "id": "s", "title": "S", "prompt": "x", "runCondition": { "var": "x", "equals": 1 } });
    let nested = |id: &str, body: Value| {
        json!({ "id": id, "type": "loop", "title": id, "body": body,
                "loop": { "type": "for", "count": 1000, "maxIterations": 1000 } })
    };
    let inner = nested("c", json!([skipped]));
    let source = workflow(json!([nested("a", json!([nested("b", json!([inner]))]))]));
    let error = start(&compiled(&source), &context(json!({}))).unwrap_err();
    assert!(matches!(error, InterpretError::TooMuchWork { .. }));
}

#[test]
fn an_empty_condition_always_holds_and_the_first_step_is_tested_too() {
    let mut first = plain("one");
    first["runCondition"] = json!({ "var": "go", "equals": true });
    let mut second = plain("two");
    second["runCondition"] = json!({});
    let workflow = compiled(&workflow(json!([first, second])));
    assert_eq!(walk(&workflow, &context(json!({})), &[]), ["two"]);
    assert_eq!(walk(&workflow, &context(json!({ "go": "yes" })), &[]), ["one"]);
}
