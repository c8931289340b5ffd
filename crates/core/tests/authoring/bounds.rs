//! Everything rendered is bounded before it is written, and nothing recorded grows with a run's length.

use serde_json::{Value, json};
use workrail_core::compile::{CompileInput, check};
use workrail_core::interpret::{Positions, start};
use workrail_core::render::prompt::{Lifecycle, render_step, render_step_shortened, render_title};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::{Context, NodeKind};
use workrail_model::limits::RENDERED_STEP_BYTES_MAX;
use workrail_model::snapshot::{CompletedSteps, EngineState, ExecutionSnapshot, PendingStep};

use crate::driver::{advance, context, follows};
use crate::{compiled, plain, workflow};

/// A step that shows `{{b}}` so often that a long value would take gigabytes.
fn repeating(times: usize) -> Value {
    json!({ "id": "show", "title": "Show {{b}}", "prompt": "{{b}}".repeat(times) })
}

fn first(workflow: &CompiledWorkflow) -> PendingStep {
    PendingStep { step_id: workflow.steps[0].step_id.clone(), loop_path: Vec::new() }
}

fn values(value: Value) -> Context {
    context(json!({ "b": value, "small": "x" }))
}

/// G54: a text over its limit is refused with the step and the variable, or shown with excerpts.
#[test]
fn a_text_over_its_limit_names_the_step_and_the_variable() {
    let workflow = compiled(&workflow(json!([repeating(13_000)])));
    let pending = first(&workflow);
    let deep = (0..40).fold(json!(["x".repeat(1000)]), |inner, _| json!([inner]));
    for value in [json!("x".repeat(200_000)), json!(["\u{1}".repeat(40_000)]), deep, json!(vec![0; 60_000])] {
        let context = values(value);
        let refused = render_step(&workflow, &pending, &context, Lifecycle::Advance).unwrap_err();
        assert_eq!((refused.step_id.as_str(), refused.variable.as_str()), ("show", "b"));
        assert_eq!(refused.context_key, "b");
        let shown = render_step_shortened(&workflow, &pending, &context, Lifecycle::Rehydrate);
        assert!(shown.starts_with("NOTE: ") && shown.contains("`context.b`"), "{}", &shown[..300]);
        assert!(serde_json::to_string(&shown).unwrap().len() <= RENDERED_STEP_BYTES_MAX + 2);
        assert!(render_title(&workflow, &pending, &context).len() <= 1024);
    }
    let text = render_step(&workflow, &pending, &values(json!("small")), Lifecycle::Advance).unwrap();
    assert!(text.starts_with("smallsmall"));
}

#[test]
fn an_item_of_a_loop_is_named_with_the_list_that_it_comes_from() {
    let workflow = compiled(&workflow(json!([{
        "id": "each", "type": "loop", "title": "Each",
        "body": [{ "id": "inner", "title": "Inner", "prompt": "{{thing}}".repeat(6000) }],
        "loop": { "type": "forEach", "items": "things", "itemVar": "thing", "maxIterations": 5 },
    }])));
    let context = context(json!({ "things": ["x".repeat(1000)] }));
    let state = start(&workflow, &context).unwrap().state;
    let refused =
        render_step(&workflow, state.pending_step().unwrap(), &context, Lifecycle::Start).unwrap_err();
    assert_eq!((refused.variable.as_str(), refused.context_key.as_str()), ("thing", "things"));
}

#[test]
fn inputs_of_delegations_count_as_well() {
    let delegation = |number: u32| json!({ "workflowId": "wr.other", "goal": format!("Part {number}."), "contextMapping": { "b": "packet" } });
    let workflow = compiled(&workflow(json!([{
        "id": "out", "title": "Out", "type": "parallel", "parallelDelegations": (0..10).map(delegation).collect::<Vec<_>>(),
    }])));
    let context = values(json!("y".repeat(200_000)));
    let refused = render_step(&workflow, &first(&workflow), &context, Lifecycle::Start).unwrap_err();
    assert_eq!((refused.variable.as_str(), refused.step_id.as_str()), ("b", "out"));
}

#[test]
fn an_imported_text_that_is_too_long_by_itself_is_truncated_and_never_refused() {
    let mut workflow = compiled(&workflow(json!([plain("long")])));
    workflow.steps[0].prompt = format!("{} {{{{b}}}}", "x".repeat(2 * RENDERED_STEP_BYTES_MAX));
    let pending = first(&workflow);
    let text = render_step(&workflow, &pending, &values(json!("v")), Lifecycle::Advance).unwrap();
    assert!(text.starts_with("NOTE: ") && text.len() <= RENDERED_STEP_BYTES_MAX);
}

/// The codes of a file's problems.
fn problems(source: &Value) -> Vec<&'static str> {
    let text = source.to_string();
    let checked = check(CompileInput::new(text.as_bytes(), "test.json"));
    checked.diagnostics.errors().map(|problem| problem.code.as_str()).collect()
}

/// G54: a file that would exceed its limit during compilation is refused.
#[test]
fn a_file_cannot_make_the_compiler_write_gigabytes() {
    let steps =
        |count: usize| -> Vec<Value> { (0..count).map(|number| plain(&format!("s{number}"))).collect() };
    let mut role = workflow(Value::from(steps(5000)));
    role["agentRole"] = json!("x".repeat(1000));
    assert_eq!(problems(&role), ["workflow-too-large"]);
    let fragments: Vec<Value> =
        (0..10).map(|number| json!({ "id": format!("f{number}"), "text": "{{b}}".repeat(13_000) })).collect();
    let unset = json!({ "id": "one", "title": "One", "prompt": "p", "promptFragments": fragments });
    assert_eq!(problems(&workflow(json!([plain("before"), unset]))), ["step-too-long"]);

    let mut bound = workflow(json!([{
        "id": "one", "title": "One", "prompt": "{{wr.bindings.text}}".repeat(3000),
    }]));
    bound["extensionPoints"] = json!([{ "slotId": "text", "purpose": "p", "default": "d" }]);
    let bindings = [("text".to_owned(), "x".repeat(300_000))].into_iter().collect();
    let text = bound.to_string();
    let checked =
        check(CompileInput { bindings: &bindings, ..CompileInput::new(text.as_bytes(), "test.json") });
    let codes: Vec<&str> = checked.diagnostics.errors().map(|problem| problem.code.as_str()).collect();
    assert_eq!(codes, ["workflow-too-large"]);
}

/// Three nested loops, each step of the innermost a little work: the shape that once got stuck for good.
fn nested(passes: [u32; 3]) -> CompiledWorkflow {
    let counted = |id: &str, count: u32, body: Value| {
        json!({ "id": id, "type": "loop", "title": id, "body": body,
                "loop": { "type": "for", "count": count, "maxIterations": count } })
    };
    let inner = counted("inner", passes[2], json!([plain("read"), plain("write")]));
    let middle = counted("middle", passes[1], json!([inner, plain("review")]));
    compiled(&workflow(json!([counted("outer", passes[0], json!([middle])), plain("end")])))
}

/// G9: a snapshot counts completed steps and does not list them.
#[test]
fn snapshots_stay_small_however_long_a_run_is() {
    let workflow = nested([20, 20, 10]);
    let positions = Positions::of(&workflow);
    let (empty, hash) = (context(json!({})), workflow.hash().unwrap());
    let mut state = start(&workflow, &empty).unwrap().state;
    let (mut steps, mut largest) = (0, 0);
    while !state.is_complete() {
        let snapshot = ExecutionSnapshot::new(hash, state).unwrap();
        largest = largest.max(snapshot.to_canonical().unwrap().len());
        assert_eq!(positions.check_state(snapshot.state()), Ok(()));
        assert_eq!(snapshot.state().completed().map(CompletedSteps::count), Some(steps));
        state = advance(&workflow, snapshot.state(), &empty, &[]).unwrap().state;
        steps += 1;
    }
    assert_eq!(steps, 20 * 20 * (10 * 2 + 1) + 1);
    assert!(largest < 700, "{largest}");
}

#[test]
fn a_run_with_snapshots_in_the_old_form_continues() {
    let workflow = nested([2, 2, 2]);
    let old = json!({
        "v": 1, "kind": "execution_snapshot", "workflowHash": workflow.hash().unwrap(),
        "enginePayload": { "v": 1, "engineState": {
            "kind": "running",
            "completed": { "kind": "set", "values": ["outer@0/middle@0/inner@0::read"] },
            "loopStack": [
                { "loopId": "outer", "iteration": 0, "bodyIndex": 0 },
                { "loopId": "middle", "iteration": 0, "bodyIndex": 0 },
                { "loopId": "inner", "iteration": 0, "bodyIndex": 1 },
            ],
            "pending": { "kind": "some", "step": { "stepId": "write", "loopPath": [
                { "loopId": "outer", "iteration": 0 }, { "loopId": "middle", "iteration": 0 },
                { "loopId": "inner", "iteration": 0 },
            ] } },
        } },
    });
    let snapshot = ExecutionSnapshot::parse(old.to_string().as_bytes()).unwrap();
    assert_eq!(Positions::of(&workflow).check_state(snapshot.state()), Ok(()));
    let next = advance(&workflow, snapshot.state(), &context(json!({})), &[]).unwrap().state;
    assert_eq!(next.pending_step().unwrap().key().unwrap().to_string(), "outer@0/middle@0/inner@1::read");
    assert_eq!(next.completed().map(CompletedSteps::count), Some(2));
}

/// Changes a running state in place.
fn forged(state: &EngineState, change: impl FnOnce(&mut Value)) -> EngineState {
    let mut value = serde_json::to_value(state).unwrap();
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_position_that_the_workflow_lacks_is_found() {
    let workflow = nested([2, 2, 2]);
    let positions = Positions::of(&workflow);
    let state = start(&workflow, &context(json!({}))).unwrap().state;
    let problem = |change: &dyn Fn(&mut Value)| {
        positions.check_state(&forged(&state, change)).map_err(|error| error.to_string()).unwrap_err()
    };
    let step = |id: &'static str| move |value: &mut Value| value["pending"]["step"]["stepId"] = json!(id);
    let problems = [
        ("an unknown step", problem(&step("gone"))),
        ("a step outside these loops", problem(&step("review"))),
        ("an unknown loop", problem(&|value| value["loopStack"][1]["loopId"] = json!("other"))),
        ("a loop elsewhere", problem(&|value| value["loopStack"][0]["loopId"] = json!("inner"))),
        ("a position beyond the body", problem(&|value| value["loopStack"][2]["bodyIndex"] = json!(2))),
        ("an iteration beyond the limit", problem(&|value| value["loopStack"][0]["iteration"] = json!(2))),
        ("no loops", problem(&|value| value["loopStack"] = json!([]))),
        ("too many completed steps", problem(&|value| value["completed"]["steps"] = json!(22))),
    ];
    let shown = problems.map(|(position, problem)| format!("{position}: {problem}"));
    insta::assert_snapshot!("positions_that_the_workflow_lacks", shown.join("\n"));
}

/// A step that may be skipped.
fn conditional(id: &str) -> Value {
    json!({ "id": id, "title": id, "prompt": "p", "runCondition": { "var": "wanted", "equals": true } })
}

/// Every state that a run of the workflow passes, from its first to its end.
fn states(workflow: &CompiledWorkflow, values: &Context) -> Vec<EngineState> {
    let mut states = vec![start(workflow, values).unwrap().state];
    while !states[states.len() - 1].is_complete() {
        let next = advance(workflow, &states[states.len() - 1], values, &[]).unwrap().state;
        states.push(next);
    }
    states
}

/// The same position with another number of completed steps.
fn counting(state: &EngineState, steps: usize) -> EngineState {
    forged(state, |value| value["completed"]["steps"] = json!(steps))
}

/// G9: after each state of a run without conditions, only the next one is accepted.
#[test]
fn without_conditions_only_the_next_position_can_follow() {
    let workflow = nested([2, 2, 2]);
    let positions = Positions::of(&workflow);
    let states = states(&workflow, &context(json!({})));
    assert_eq!(states.len(), 22);
    for (at, own) in states.iter().enumerate() {
        for (parent_at, parent) in states.iter().enumerate() {
            let claimed = counting(own, parent_at + 1);
            let said = follows(&positions, NodeKind::Step, &claimed, Some(parent));
            assert_eq!(said.is_ok(), at == parent_at + 1, "{parent_at} to {at}: {said:?}");
        }
        let said = follows(&positions, NodeKind::Step, &counting(own, 0), None);
        assert_eq!(said.is_ok(), at == 0, "start to {at}: {said:?}");
        let said = follows(&positions, NodeKind::Checkpoint, own, Some(&states[0]));
        assert_eq!(said.is_ok(), at == 0, "checkpoint at {at}: {said:?}");
    }
}

/// G9: what a condition may skip may be missing, whatever the values were; everything else may not.
#[test]
fn only_what_a_condition_may_skip_can_be_passed() {
    let repeated = |id: &str, control: Value, body: Value| json!({ "id": id, "type": "loop", "title": id, "body": body, "loop": control });
    let each = json!({ "type": "forEach", "items": "things", "maxIterations": 5 });
    let twice = json!({ "type": "for", "count": 2, "maxIterations": 5 });
    let workflow = compiled(&workflow(json!([
        plain("a"),
        conditional("b"),
        repeated("each", each, json!([plain("c")])),
        repeated("twice", twice.clone(), json!([conditional("d"), conditional("e")])),
        plain("f"),
        repeated("again", twice, json!([plain("g"), conditional("h")])),
        plain("i"),
    ])));
    let positions = Positions::of(&workflow);
    let things = json!({ "wanted": true, "things": [1, 2] });
    let states = states(&workflow, &context(things));
    let name = |state: &EngineState| match state.pending_step() {
        Some(step) => step.key().unwrap().to_string(),
        None => "end".to_owned(),
    };
    let mut table = String::new();
    for (at, parent) in states.iter().enumerate() {
        let after = |own: &&EngineState| {
            follows(&positions, NodeKind::Step, &counting(own, at + 1), Some(parent)).is_ok()
        };
        let followers: Vec<String> = states.iter().filter(after).map(name).collect();
        table.push_str(&format!("{}: {}\n", name(parent), followers.join(" ")));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn every_position_of_a_long_run_follows_its_parent_and_the_first_one() {
    let steps: Vec<Value> = (0..5000).map(|number| conditional(&format!("s{number}"))).collect();
    let workflow = compiled(&workflow(Value::from(steps)));
    let positions = Positions::of(&workflow);
    let states = states(&workflow, &context(json!({ "wanted": true })));
    for (at, own) in states.iter().enumerate().skip(1) {
        assert_eq!(follows(&positions, NodeKind::Step, own, Some(&states[at - 1])), Ok(()));
        // From the first state, everything between was skipped.
        assert_eq!(follows(&positions, NodeKind::Step, &counting(own, 1), Some(&states[0])), Ok(()));
    }
}
