//! The compiler: one model from two spellings, fixed order, provenance, bounded cost (G21).

use serde_json::{Value, json};
use workrail_core::compile::{
    Bindings, CompileInput, DiagnosticSeverity, EXAMPLE_FILES, FileOrigin, check, compile, format_reference,
    workflow_schema,
};
use workrail_model::compiled::{CompiledWarningCode, CompiledWorkflow, StepProvenance};

use crate::{compiled, decide, decided, plain, workflow};

fn ids(workflow: &CompiledWorkflow) -> Vec<&str> {
    workflow.steps.iter().map(|step| step.step_id.as_str()).collect()
}

#[test]
fn both_spellings_compile_to_the_same_workflow() {
    let old = workflow(json!([
        { "id": "again", "type": "loop", "title": "Again", "body": [decide("d")],
          "loop": { "type": "while", "maxIterations": 3, "conditionSource": {
            "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control", "loopId": "lbl" } } },
        { "id": "t", "title": "T", "templateCall": { "templateId": "wr.templates.routine.ideation" } },
    ]));
    let mut new = workflow(json!([
        { "loopId": "again", "type": "loop", "title": "Again", "maxIterations": 3,
          "while": { "kind": "condition_ref", "conditionId": "go-on" },
          "body": [{ "id": "d", "title": "Decide", "prompt": "Go on or stop?",
                     "output": { "contractRef": "wr.contracts.loop_control" } }] },
        { "id": "t", "title": "T", "type": "template_call", "templateId": "wr.templates.routine.ideation" },
    ]));
    new["conditions"] = json!([{ "id": "go-on", "kind": "loop_control", "loopId": "lbl" }]);
    let (old, new) = (compiled(&old), compiled(&new));
    assert_eq!(old, new);
    assert_eq!(old.hash().unwrap(), new.hash().unwrap());
}

#[test]
fn jsonc_and_json_give_the_same_hash() {
    let plain_text = workflow(json!([plain("a")])).to_string();
    let commented = plain_text.replacen('{', "{ // comment\n", 1).replace("}]", "},]");
    let hash = |text: &str| compile(CompileInput::new(text.as_bytes(), "x")).unwrap().hash().unwrap();
    assert_eq!(hash(&plain_text), hash(&commented));
}

#[test]
fn features_apply_in_the_order_of_their_ids_whatever_the_source_says() {
    let source = |features: Value| {
        let mut source = workflow(json!([{ "id": "a", "title": "A", "promptBlocks": { "goal": "G" } }]));
        source["features"] = features;
        compiled(&source)
    };
    let one = source(json!(["wr.features.subagent_guidance", "wr.features.capabilities"]));
    let two = source(json!([{ "id": "wr.features.capabilities" },
        { "id": "wr.features.subagent_guidance", "config": { "maxParallel": 4 } }]));
    assert_eq!(one.hash().unwrap(), two.hash().unwrap());
    let prompt = &one.steps[0].prompt;
    assert!(prompt.contains("at most 4 subagents"), "settings are filled in: {prompt}");
    assert!(prompt.find("no optional tool").unwrap() < prompt.find("Subagents execute").unwrap());
    assert_eq!(one.refs.len(), 1, "the snippet's text is embedded");
    assert_eq!(one.steps[0].refs[0].content_hash, one.refs[0].content_hash);
}

#[test]
fn prompt_blocks_render_in_fixed_order_and_outputs_by_key() {
    let source = workflow(json!([{ "id": "a", "title": "A", "promptBlocks": {
        "verify": ["V"], "outputRequired": { "zeta": "last", "alpha": "first" }, "procedure": ["P", "Q"],
        "constraints": ["C"], "goal": "G" } }]));
    assert_eq!(
        compiled(&source).steps[0].prompt,
        "## Goal\nG\n\n## Constraints\n- C\n\n## Procedure\n1. P\n2. Q\n\n## Output Required\n- **alpha**: first\n- \
         **zeta**: last\n\n## Verify\n- V"
    );
}

#[test]
fn a_template_call_is_replaced_in_place_and_its_demands_are_kept() {
    let source = workflow(json!([
        plain("before"),
        { "id": "call", "title": "Call", "runCondition": { "var": "x", "equals": 1 }, "requireConfirmation": true,
          "templateCall": { "templateId": "wr.templates.routine.design-review", "args": { "deliverableName": "out.md" } } },
        plain("after"),
    ]));
    let workflow = compiled(&source);
    assert_eq!(ids(&workflow), ["before", "call.understand", "call.challenge", "call.conclude", "after"]);
    assert!(workflow.steps[3].prompt.contains("out.md"));
    assert!(workflow.steps[1..4].iter().all(|step| step.run_condition.is_some()));
    assert_eq!(workflow.steps[3].confirmation, workrail_model::compiled::Confirmation::Always);
    assert!(matches!(workflow.steps[1].provenance, StepProvenance::TemplateInjected { .. }));
}

#[test]
fn bindings_come_from_the_project_or_the_default_and_are_recorded() {
    let mut source = workflow(json!([{ "id": "a", "title": "A", "prompt": "Run {{wr.bindings.tool}}." }]));
    source["extensionPoints"] = json!([{ "slotId": "tool", "purpose": "Which tool", "default": "make" }]);
    let text = source.to_string();
    let with = |bindings: &Bindings| {
        compile(CompileInput { bindings, ..CompileInput::new(text.as_bytes(), "x") }).unwrap()
    };
    let default = with(&Bindings::new());
    let chosen = with(&Bindings::from([("tool".to_owned(), "just".to_owned())]));
    assert_eq!(default.steps[0].prompt, "Run make.");
    assert_eq!(chosen.steps[0].prompt, "Run just.");
    assert_ne!(default.hash().unwrap(), chosen.hash().unwrap());
}

#[test]
fn virtual_steps_follow_their_step_in_the_snapshot() {
    let source = workflow(json!([
        { "id": "a", "title": "A", "prompt": "p", "runCondition": { "var": "x" },
          "verification": { "command": "make test" }, "audit": { "rubric": ["clear"] } },
        { "id": "p", "type": "parallel", "title": "P", "parallelDelegations": [{ "workflowId": "project.child" }],
          "synthesis": { "outputContract": { "contractRef": "wr.contracts.verification_report" } } },
    ]));
    let workflow = compiled(&source);
    assert_eq!(ids(&workflow), ["a", "a__verification", "a__audit", "p", "p__synthesis"]);
    assert_eq!(workflow.steps[1].run_condition, workflow.steps[0].run_condition);
    assert!(workflow.steps[1].prompt.contains("make test"));
    assert_eq!(workflow.contracts.len(), 1);
}

#[test]
fn lists_of_the_snapshot_are_sorted_and_the_stored_form_is_checked() {
    let source =
        workflow(json!([decided("zz", 2, json!([decide("d1")])), decided("aa", 2, json!([decide("d2")])),]));
    let workflow = compiled(&source);
    assert_eq!(workflow.check(), Ok(()));
    let loops: Vec<&str> = workflow.loops.iter().map(|looped| looped.loop_id.as_str()).collect();
    assert_eq!(loops, ["aa", "zz"]);
    let mut value: Value = serde_json::from_slice(&workflow.to_canonical().unwrap()).unwrap();
    value["plan"][0]["loopId"] = json!("nowhere");
    let unknown = CompiledWorkflow::parse(value.to_string().as_bytes()).unwrap_err();
    value["plan"][0]["loopId"] = json!("aa");
    let repeated = CompiledWorkflow::parse(value.to_string().as_bytes()).unwrap_err();
    insta::assert_snapshot!(format!("{unknown}\n{repeated}"));
}

#[test]
fn compiler_warnings_are_in_the_snapshot() {
    let source = workflow(json!([{ "id": "l", "type": "loop", "title": "L", "body": "b",
        "loop": { "type": "while", "maxIterations": 2, "condition": { "var": "go" } } }, plain("b")]));
    let codes: Vec<CompiledWarningCode> =
        compiled(&source).compiled_warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, [CompiledWarningCode::LoopControlledByContext]);
}

#[test]
fn the_reserved_namespace_is_for_bundled_files() {
    let mut source = workflow(json!([plain("a")]));
    source["id"] = json!("wr.mine");
    let text = source.to_string();
    let with = |origin| compile(CompileInput { origin, ..CompileInput::new(text.as_bytes(), "x") }).is_ok();
    assert!(with(FileOrigin::Bundled));
    assert!(!with(FileOrigin::User) && !with(FileOrigin::Project) && !with(FileOrigin::Shared));
}

#[test]
fn a_file_with_many_steps_compiles_and_a_prompt_that_is_too_long_does_not() {
    let many: Vec<Value> =
        (0..9_000).map(|n| json!({ "id": format!("s{n}"), "title": "T", "prompt": "P" })).collect();
    let checked = check(CompileInput::new(workflow(json!(many)).to_string().as_bytes(), "x"));
    assert_eq!(checked.workflow.unwrap().steps.len(), 9_000);
    let huge = workflow(json!([{ "id": "a", "title": "A", "prompt": "x".repeat(990_000) }]));
    assert!(check(CompileInput::new(huge.to_string().as_bytes(), "x")).workflow.is_none());
}

#[test]
fn the_published_schema_accepts_what_the_compiler_accepts() {
    let schema = workflow_schema();
    assert_eq!(schema["type"], "object");
    let source = workflow(json!([plain("a"), decided("l", 2, json!([decide("d")]))]));
    assert_eq!(workrail_core::contract::issues(&schema, &source), Vec::<String>::new());
    let mut wrong = source;
    wrong["steps"][0]["promt"] = json!("x");
    assert!(!workrail_core::contract::issues(&schema, &wrong).is_empty());
}

#[test]
fn every_field_of_the_format_is_explained_in_sentences() {
    let mut names = std::collections::BTreeSet::new();
    for object in format_reference() {
        assert!(object.about.ends_with('.'), "{}", object.name);
        for field in &object.fields {
            assert!(field.doc.ends_with('.'), "{}.{}: {:?}", object.name, field.name, field.doc);
        }
        assert!(names.insert(object.name.clone()), "two objects are called {}", object.name);
    }
}

#[test]
fn every_example_of_the_reference_is_part_of_a_file_that_compiles() {
    for (name, text) in EXAMPLE_FILES {
        let checked = check(CompileInput::new(text.as_bytes(), name));
        let problems: Vec<String> = checked
            .diagnostics
            .problems
            .iter()
            .filter(|problem| problem.severity != DiagnosticSeverity::Hint)
            .map(|problem| format!("{}: {}", problem.path, problem.message))
            .collect();
        assert_eq!(problems, Vec::<String>::new(), "{name}");
        let uncommented: Vec<&str> =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let source = serde_json::from_str(&uncommented.concat()).unwrap();
        let issues = workrail_core::contract::issues(&workflow_schema(), &source);
        assert_eq!(issues, Vec::<String>::new(), "{name} and the schema");
    }
}

#[test]
fn every_field_of_the_reference_has_an_example() {
    let mut missing = Vec::new();
    for object in format_reference() {
        let without = object.fields.iter().filter(|field| field.example.is_none());
        missing.extend(without.map(|field| format!("`{}` of {}", field.name, object.name)));
    }
    assert!(
        missing.is_empty(),
        "no example uses {}. Use each of them in one of the workflows in crates/core/src/compile/source/examples, with a \
         short value that says what the field is for, then run `cargo xtask gen`.",
        missing.join(", ")
    );
}
