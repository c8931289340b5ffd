//! Nothing authored is lost or changed: variables, order, titles and routines arrive as in the file.

use serde_json::{Value, json};
use workrail_core::compile::{CompileInput, Library, check, compile};
use workrail_core::interpret::start;
use workrail_core::render::prompt::{Lifecycle, render_step};
use workrail_model::compiled::{CompiledWorkflow, PromptBlocks};

use crate::driver::context;
use crate::{compiled, plain, workflow};

fn text_of(workflow: &CompiledWorkflow, with: Value) -> String {
    let context = context(with);
    let state = start(workflow, &context).unwrap().state;
    render_step(workflow, state.pending_step().unwrap(), &context, Lifecycle::Start).unwrap()
}

#[test]
fn variables_are_filled_in_wherever_an_agent_reads() {
    let mut source = workflow(json!([{
        "id": "one", "title": "One", "prompt": "Use {{ tool }} on {{files}}, then checkAll.", "agentRole": "You know {{tool}} well.",
        "guidance": ["Call {{tool}} once."], "output": { "hints": ["Name {{tool}}."] },
        "validationCriteria": [{ "type": "contains", "value": "make", "message": "Name {{tool}}." }],
        "assessmentRefs": ["fit"],
        "assessmentConsequences": [{ "when": { "anyEqualsLevel": "low" }, "effect": {
            "kind": "require_followup", "guidance": "Run {{tool}} again." } }],
        "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "irreversible_action",
            "description": "May {{tool}} run?", "contextKey": "mayRun" }],
        "sets": { "done": { "type": "boolean", "description": "whether {{tool}} is done" } },
    }]));
    source["assessments"] = json!([{ "id": "fit", "purpose": "Does {{tool}} fit?", "dimensions": [
        { "id": "fit", "purpose": "How well {{tool}} fits", "levels": ["low", "high"] }] }]);
    source["functionDefinitions"] = json!([{ "name": "checkAll", "definition": "Check with {{tool}}." }]);
    let text = text_of(&compiled(&source), json!({ "tool": "make", "files": [{ "path": "a.rs" }, "b.rs"] }));
    assert!(!text.contains("{{") && !text.contains("[object Object]"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn only_authored_text_is_a_template() {
    let source = workflow(json!([{
        "id": "one", "title": "One", "prompt": "Do.",
        "sets": { "goalText": { "type": "string", "description": "what {{tool}} is for" } },
        "validationCriteria": [{ "type": "regex", "pattern": "{{tool}}", "message": "Name it." }],
    }]));
    let context =
        json!({ "tool": "make", "goalText": "{{other}} {{tool}}", "other": "a value of another key" });
    let text = text_of(&compiled(&source), context);
    // Values are not filled in once more, and a pattern is shown as it is checked.
    insta::assert_snapshot!(text);
}

#[test]
fn a_parallel_step_gives_each_subagent_its_goal_inputs_and_call() {
    let source = workflow(json!([{ "id": "all", "type": "parallel", "title": "All", "parallelDelegations": [
        { "workflowId": "wr.routine-plan-analysis", "goal": "Look at {{plan}}.", "args": { "deliverableName": "{{plan}}.review.md" },
          "contextMapping": { "facts": "facts" } },
        { "workflowId": "wr.routine-ideation" },
    ] }]));
    let text = text_of(&compiled(&source), json!({ "plan": "plan.md", "facts": { "files": 2 } }));
    insta::assert_snapshot!(text);
}

fn blocks(order: [&str; 3]) -> CompiledWorkflow {
    // Written by hand: `json!` sorts its keys.
    let rows: Vec<String> = order.iter().map(|name| format!("\"{name}\": \"the {name}\"")).collect();
    let text = format!(
        r#"{{"id":"project.order","name":"N","description":"D","version":"1.0.0","steps":[
            {{"id":"one","title":"One","promptBlocks":{{"goal":"G","outputRequired":{{{}}}}}}}]}}"#,
        rows.join(",")
    );
    compile(CompileInput::new(text.as_bytes(), "order.json")).unwrap()
}

#[test]
fn required_outputs_keep_the_order_of_the_file_and_it_is_hashed() {
    let authored = blocks(["verdict", "findings", "cost"]);
    assert!(
        authored.steps[0]
            .prompt
            .ends_with("- **verdict**: the verdict\n- **findings**: the findings\n- **cost**: the cost")
    );
    let other = blocks(["findings", "verdict", "cost"]);
    assert_ne!(authored.hash().unwrap(), other.hash().unwrap());
    let again = CompiledWorkflow::parse(&authored.to_canonical().unwrap()).unwrap();
    assert_eq!(again.to_canonical().unwrap(), authored.to_canonical().unwrap());
}

#[test]
fn required_outputs_of_a_run_pinned_earlier_are_still_read() {
    let old = json!({ "goal": "G", "outputRequired": { "b": "2", "a": "1" } });
    let read: PromptBlocks = serde_json::from_value(old.clone()).unwrap();
    assert_eq!(read.output_required.rows().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    assert_eq!(serde_json::to_value(&read).unwrap(), old);
}

#[test]
fn a_template_call_keeps_its_title() {
    let call = |id: &str| {
        let source = workflow(
            json!([{ "id": "call", "title": "Phase 2: check", "templateCall": { "templateId": id } }]),
        );
        compiled(&source).steps.iter().map(|step| step.title.clone()).collect::<Vec<_>>()
    };
    assert_eq!(call("wr.templates.routine.plan-analysis"), ["Phase 2: check"]);
    assert_eq!(
        call("wr.templates.routine.feature-implementation"),
        ["Phase 2: check: Implement the slice", "Phase 2: check: Prove the slice"]
    );
}

#[test]
fn functions_named_in_prose_are_delivered_and_common_words_are_not() {
    let mut source = workflow(json!([plain("one")]));
    source["steps"][0]["prompt"] = json!("Review the change, then updateLog and the `review` function.");
    source["steps"].as_array_mut().unwrap().push(plain("two"));
    source["steps"][1]["prompt"] = json!("Review everything.");
    source["functionDefinitions"] = json!([
        { "name": "updateLog", "definition": "Add a line to the log." }, { "name": "review", "definition": "Read it twice." }]);
    let workflow = compiled(&source);
    let text = text_of(&workflow, json!({}));
    assert!(text.contains("Add a line to the log.") && text.contains("Read it twice."), "{text}");
    source["steps"].as_array_mut().unwrap().remove(0);
    assert!(!text_of(&compiled(&source), json!({})).contains("Read it twice."));
}

#[test]
fn ask_for_files_adds_the_request() {
    let mut step = plain("one");
    step["askForFiles"] = json!(true);
    insta::assert_snapshot!(text_of(&compiled(&workflow(json!([step]))), json!({})));
}

#[test]
fn a_disabled_capability_is_mentioned() {
    let mut source = workflow(json!([plain("one")]));
    source["capabilities"] = json!({ "disabled": ["web_browsing"] });
    insta::assert_snapshot!(text_of(&compiled(&source), json!({})));
}

fn with_routine(routine: &Value, call: Value) -> workrail_core::compile::Checked {
    let source = workflow(
        json!([{ "id": "call", "title": "Smoke", "runCondition": { "var": "size", "not_equals": "small" },
        "guidance": ["Set size to small or large first."], "templateCall": call }]),
    );
    let library = Library::EMPTY.with_routine("team.routine-smoke", routine.to_string().into_bytes());
    check(CompileInput { library: &library, ..CompileInput::new(source.to_string().as_bytes(), "test.json") })
}

fn routine() -> Value {
    let mut routine = workflow(json!([
        { "id": "start", "title": "Start {service}", "prompt": "Start {service} and keep { a: b }." },
        { "id": "probe", "title": "Probe", "promptBlocks": { "goal": "Probe {service}." }, "runCondition": { "var": "up", "equals": true } },
    ]));
    routine["id"] = json!("team.routine-smoke");
    routine["metaGuidance"] = json!(["Stop on the first error; set up to true when it answers."]);
    routine
}

#[test]
fn the_steps_of_a_routine_replace_the_call() {
    let call = json!({ "templateId": "team.routine-smoke", "args": { "service": "billing" } });
    let checked = with_routine(&routine(), call);
    let workflow = checked.workflow.unwrap_or_else(|| panic!("{}", checked.diagnostics));
    let steps: Vec<(&str, &str, &str)> = workflow
        .steps
        .iter()
        .map(|step| (step.step_id.as_str(), step.title.as_str(), step.prompt.as_str()))
        .collect();
    assert_eq!(
        steps,
        [
            ("call.start", "Smoke: Start billing", "Start billing and keep { a: b }."),
            ("call.probe", "Smoke: Probe", "## Goal\nProbe billing."),
        ]
    );
    assert_eq!(workflow.steps[0].guidance.len(), 2);
    assert_eq!(checked.diagnostics.to_string(), "");
}

#[test]
fn a_routine_that_cannot_be_injected_says_why() {
    let missing =
        with_routine(&routine(), json!({ "templateId": "team.routine-smoke", "args": { "servise": "x" } }));
    let mut looped = routine();
    looped["steps"][0] = json!({ "id": "l", "type": "loop", "title": "L", "loop": { "type": "for", "count": 2, "maxIterations": 2 },
        "body": [plain("inner")] });
    let looped = with_routine(&looped, json!({ "templateId": "team.routine-smoke" }));
    let mut broken = routine();
    broken["steps"][0]["title"] = json!(3);
    let broken = with_routine(&broken, json!({ "templateId": "team.routine-smoke" }));
    insta::assert_snapshot!([missing, looped, broken].map(|own| own.diagnostics.to_string()).join("\n"));
}

#[test]
fn a_named_condition_of_the_call_never_replaces_the_condition_of_a_step() {
    let mut source = workflow(json!([{ "id": "call", "title": "Smoke", "guidance": ["Set size first."],
        "runCondition": { "kind": "condition_ref", "conditionId": "is-large" },
        "templateCall": { "templateId": "team.routine-smoke", "args": { "service": "billing" } } }]));
    source["conditions"] =
        json!([{ "id": "is-large", "kind": "context", "condition": { "var": "size", "equals": "large" } }]);
    let library = Library::EMPTY.with_routine("team.routine-smoke", routine().to_string().into_bytes());
    let text = source.to_string();
    let checked =
        check(CompileInput { library: &library, ..CompileInput::new(text.as_bytes(), "test.json") });
    assert!(checked.workflow.is_none());
    insta::assert_snapshot!(checked.diagnostics, @r"
    test.json: error[unknown-template] 1:317: the routine `team.routine-smoke` cannot be injected: it has a condition of its own (step `probe`), and the call names one (at `steps[0].templateCall.templateId`)
      why: the steps of a routine take the place of the calling step, one after the other
      fix: write the condition of the call inline
    ");
}
