//! Every kind of problem is found, placed and explained (G45).

#![expect(clippy::unwrap_used, reason = "tests fail loudly")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use test_case::test_case;
use workrail_core::compile::{Checked, Code, CompileInput, Severity, check};

/// A workflow that has no problem at all.
fn good() -> Value {
    json!({
        "id": "project.good", "name": "Good", "description": "Has no problem.", "version": "1.0.0",
        "steps": [{ "id": "one", "title": "One", "prompt": "Do the work." }],
    })
}

fn step(extra: Value) -> Value {
    let mut step = json!({ "id": "one", "title": "One", "prompt": "Do the work." });
    merge(&mut step, extra);
    with_steps(json!([step]))
}

fn with_steps(steps: Value) -> Value {
    let mut workflow = good();
    workflow["steps"] = steps;
    workflow
}

fn top(extra: Value) -> Value {
    let mut workflow = good();
    merge(&mut workflow, extra);
    workflow
}

fn merge(into: &mut Value, extra: Value) {
    for (key, value) in extra.as_object().unwrap() {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            into[key] = value.clone();
        }
    }
}

fn looped(settings: Value, body: Value) -> Value {
    with_steps(json!([{ "id": "again", "type": "loop", "title": "Again", "loop": settings, "body": body }]))
}

fn decision() -> Value {
    json!({
        "id": "decide", "title": "Decide", "prompt": "Decide.",
        "outputContract": { "contractRef": "wr.contracts.loop_control" },
    })
}

fn plain(id: &str) -> Value {
    json!({ "id": id, "title": "Plain", "prompt": "Do it." })
}

fn assessed(extra: Value) -> Value {
    let mut workflow = step(json!({ "assessmentRefs": ["ready"] }));
    workflow["assessments"] = json!([{
        "id": "ready", "purpose": "Ready?",
        "dimensions": [{ "id": "confidence", "purpose": "How sure?", "levels": ["low", "high"] }],
    }]);
    merge(&mut workflow["steps"][0], extra);
    workflow
}

fn checked(text: &[u8]) -> Checked {
    check(CompileInput::new(text, "test.json"))
}

/// One input for every code.
fn cases() -> Vec<(Code, Vec<u8>)> {
    let text = |value: Value| value.to_string().into_bytes();
    let artifact = json!({ "type": "while", "maxIterations": 3, "conditionSource": {
        "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control" } });
    let never = json!({ "and": [{ "var": "a", "equals": "x" }, { "var": "a", "equals": "y" }] });
    let mut with_bom = b"\xef\xbb\xbf".to_vec();
    with_bom.extend(text(good()));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100)).into_bytes();
    vec![
        (Code::NotUtf8, b"{\"id\": \"\xff\"}".to_vec()),
        (Code::Syntax, b"{ \"id\": }".to_vec()),
        (Code::FileTooLarge, vec![b' '; 1_000_001]),
        (Code::TooDeep, deep),
        (Code::ByteOrderMark, with_bom),
        (Code::DuplicateKey, b"{\"id\":\"a.b\",\"id\":\"a.c\"}".to_vec()),
        (Code::BadNumber, b"{\"id\": 123456789012345678901234567890}".to_vec()),
        (Code::UnknownField, text(step(json!({ "promt": "x" })))),
        (Code::MissingField, text(top(json!({ "name": null })))),
        (Code::WrongType, text(top(json!({ "name": 3 })))),
        (Code::BadValue, text(top(json!({ "metricsProfile": "codign" })))),
        (Code::TextLength, text(top(json!({ "name": "" })))),
        (
            Code::NumberRange,
            text(looped(json!({ "type": "for", "count": 2, "maxIterations": 0 }), json!([plain("b")]))),
        ),
        (Code::ListLength, text(top(json!({ "steps": [] })))),
        (Code::RepeatedItem, text(top(json!({ "metaGuidance": ["a", "a"] })))),
        (
            Code::ConflictingFields,
            text(step(json!({
                "outputContract": { "contractRef": "wr.contracts.loop_control" },
                "output": { "contractRef": "wr.contracts.loop_control" },
            }))),
        ),
        (Code::WorkflowId, text(top(json!({ "id": "Bad Id" })))),
        (Code::ReservedNamespace, text(top(json!({ "id": "wr.mine" })))),
        (Code::LegacyId, text(top(json!({ "id": "old-name" })))),
        (Code::StepId, text(with_steps(json!([{ "id": "a@b", "title": "T", "prompt": "P" }])))),
        (Code::DuplicateId, text(with_steps(json!([plain("same"), plain("same")])))),
        (Code::PromptSource, text(step(json!({ "prompt": null })))),
        (Code::EmptyPromptBlocks, text(step(json!({ "prompt": null, "promptBlocks": { "goal": " " } })))),
        (
            Code::StepTooLong,
            text(step(json!({ "promptFragments": (0..10)
                .map(|number| json!({ "id": format!("f{number}"), "text": "{{b}}".repeat(13_000) }))
                .collect::<Vec<_>>() }))),
        ),
        (
            Code::WorkflowTooLarge,
            text(top(json!({
                "agentRole": "x".repeat(1000),
                "steps": (0..5000).map(|number| plain(&format!("s{number}"))).collect::<Vec<_>>(),
            }))),
        ),
        (Code::PromptOverBudget, text(step(json!({ "prompt": "x".repeat(9000) })))),
        (Code::UnknownFeature, text(top(json!({ "features": ["wr.features.capabilites"] })))),
        (
            Code::FeatureConfig,
            text(top(json!({ "features": [
            { "id": "wr.features.subagent_guidance", "config": { "maxParallel": 99 } }] }))),
        ),
        (Code::FeatureWithoutEffect, text(top(json!({ "features": ["wr.features.capabilities"] })))),
        (
            Code::UnknownRef,
            text(step(json!({ "prompt": null, "promptBlocks": {
            "goal": [{ "kind": "ref", "refId": "wr.refs.nothing" }] } }))),
        ),
        (
            Code::RefBudget,
            text(step(json!({ "prompt": null, "promptBlocks": { "constraints":
            vec![json!([{ "kind": "ref", "refId": "wr.refs.adversarial_challenge_rules" }]); 20] } }))),
        ),
        (
            Code::UnknownTemplate,
            text(step(json!({ "prompt": null,
            "templateCall": { "templateId": "wr.templates.routine.design-reveiw" } }))),
        ),
        (
            Code::TemplateArg,
            text(step(json!({ "prompt": null,
            "templateCall": { "templateId": "wr.templates.routine.design-review" } }))),
        ),
        (
            Code::TemplateArgUnused,
            text(step(json!({ "prompt": null, "templateCall": {
            "templateId": "wr.templates.routine.feedback-resolution", "args": { "x": "y" } } }))),
        ),
        (
            Code::UnknownContract,
            text(step(json!({ "outputContract": { "contractRef": "wr.contracts.loop" } }))),
        ),
        (Code::UnknownBinding, text(step(json!({ "prompt": "Use {{wr.bindings.tool}}." })))),
        (
            Code::BindingUnused,
            text(top(json!({ "extensionPoints": [
            { "slotId": "tool", "purpose": "Which tool", "default": "make" }] }))),
        ),
        (Code::UnresolvedToken, text(step(json!({ "prompt": "Read {{wr.refs.x}}." })))),
        (Code::Capability, text(top(json!({ "capabilities": { "required": ["web_browsign"] } })))),
        (Code::UnknownAssessment, text(assessed(json!({ "assessmentRefs": ["redy"] })))),
        (
            Code::AssessmentLevel,
            text(assessed(json!({ "assessmentConsequences": [{
            "when": { "anyEqualsLevel": "lo" }, "effect": { "kind": "require_followup", "guidance": "g" } }] }))),
        ),
        (Code::AssessmentUnused, text(assessed(json!({ "assessmentRefs": null })))),
        (
            Code::Consequence,
            text(step(json!({ "assessmentConsequences": [{
            "when": { "anyEqualsLevel": "low" }, "effect": { "kind": "require_followup", "guidance": "g" } }] }))),
        ),
        (Code::UnknownFunction, text(step(json!({ "functionCalls": [{ "name": "nothing" }] })))),
        (
            Code::FunctionCall,
            text(step(json!({
                "functionDefinitions": [{ "name": "f", "definition": "Do f.", "parameters": [
                    { "name": "a", "type": "string", "required": true }] }],
                "functionCalls": [{ "name": "f", "args": { "a": 3 } }],
            }))),
        ),
        (Code::FunctionReference, text(step(json!({ "functionReferences": ["nothing()"] })))),
        (
            Code::FunctionUnused,
            text(top(json!({ "functionDefinitions": [
            { "name": "neverNamed", "definition": "Nothing." }] }))),
        ),
        (
            Code::UnknownCondition,
            text(step(json!({ "runCondition": { "kind": "condition_ref", "conditionId": "c" } }))),
        ),
        (
            Code::ConditionUnused,
            text(top(json!({ "conditions": [
            { "id": "c", "kind": "context", "condition": { "var": "a" } }] }))),
        ),
        (
            Code::ConditionIgnoredPart,
            text(step(json!({ "runCondition": { "var": "a", "equals": 1, "gt": 2 } }))),
        ),
        (
            Code::ConditionNeverHolds,
            text(looped(
                json!({ "type": "while", "maxIterations": 3, "condition": never }),
                json!([plain("b")]),
            )),
        ),
        (Code::UnreachableStep, text(step(json!({ "runCondition": never })))),
        (Code::BadGlob, text(step(json!({ "edits": { "allow": ["/etc/**"] } })))),
        (Code::ContextKey, text(step(json!({ "sets": { "size": {} } })))),
        (
            Code::UnsetContextKey,
            text(with_steps(json!([plain("a"), { "id": "b", "title": "B", "prompt": "P",
                "runCondition": { "var": "sise", "equals": "large" } }]))),
        ),
        (
            Code::ForeignContextValue,
            text(with_steps(json!([
                { "id": "a", "title": "A", "prompt": "P", "sets": { "size": { "values": ["small"] } } },
                { "id": "b", "title": "B", "prompt": "P", "runCondition": { "var": "size", "equals": "large" } },
            ]))),
        ),
        (Code::LoopBody, text(looped(artifact.clone(), json!("nowhere")))),
        (
            Code::LoopControl,
            text(looped(json!({ "type": "while", "maxIterations": 3 }), json!([plain("b")]))),
        ),
        (Code::LoopWithoutDecision, text(looped(artifact.clone(), json!([plain("b")])))),
        (
            Code::LoopByContext,
            text(looped(
                json!({ "type": "until", "maxIterations": 3, "condition": { "var": "a" } }),
                json!([plain("b")]),
            )),
        ),
        (Code::LoopDecisionNotLast, text(looped(artifact, json!([decision(), plain("b")])))),
        (
            Code::LoopCost,
            text(looped(
                json!({ "type": "for", "count": 1000, "maxIterations": 1000 }),
                json!([{
            "id": "inner", "type": "loop", "title": "Inner",
            "loop": { "type": "for", "count": 1000, "maxIterations": 1000 }, "body": [plain("b")] }]),
            )),
        ),
        (
            Code::FragmentUnused,
            text(step(json!({ "promptFragments": [{ "id": "f", "text": "t", "when": never }] }))),
        ),
        (Code::UnsetVariable, text(step(json!({ "prompt": "Show {{nobodySetsThis}}." })))),
        (Code::NotAVariable, text(step(json!({ "prompt": "Show {{a + 1}}." })))),
        (
            Code::BadPattern,
            text(step(json!({ "validationCriteria": [
            { "type": "regex", "pattern": "(", "message": "m" }] }))),
        ),
        (
            Code::BadSchema,
            text(step(json!({ "validationCriteria": [
            { "type": "schema", "schema": { "type": "nothing" }, "message": "m" }] }))),
        ),
        (
            Code::UserDependency,
            text(step(json!({ "userDependencies": [
            { "reason": "needs_user_choice", "description": "Which one?" }] }))),
        ),
        (
            Code::DelegationTarget,
            text(with_steps(json!([{ "id": "p", "type": "parallel", "title": "P",
            "parallelDelegations": [{ "workflowId": "wr.routine-nothing" }] }]))),
        ),
        (
            Code::KeySetLater,
            text(with_steps(json!([
                { "id": "a", "title": "A", "prompt": "P", "runCondition": { "var": "size", "equals": "large" } },
                { "id": "b", "title": "B", "prompt": "P", "sets": { "size": { "values": ["large"] } } },
            ]))),
        ),
        (
            Code::UnannouncedValue,
            text(with_steps(json!([
                { "id": "a", "title": "A", "prompt": "Set size." },
                { "id": "b", "title": "B", "prompt": "P", "runCondition": { "var": "size", "equals": "large" } },
            ]))),
        ),
        (Code::UnclosedVariable, text(step(json!({ "prompt": "Show {{name." })))),
        (
            Code::ReferenceSource,
            text(top(json!({ "references": [{ "id": "r", "title": "R", "source": "../r.md", "purpose": "p",
                "authoritative": true }] }))),
        ),
        (Code::NoEffect, text(step(json!({ "hasValidation": true })))),
        (
            Code::Delegation,
            text(with_steps(json!([{ "id": "p", "type": "parallel", "title": "P",
            "parallelDelegations": [{ "workflowId": "project.good" }] }]))),
        ),
    ]
}

#[test]
fn a_correct_workflow_has_no_problem() {
    let checked = checked(good().to_string().as_bytes());
    assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
    assert!(checked.workflow.is_some());
}

#[test]
fn every_code_is_found_placed_and_explained() {
    let mut page = String::new();
    let mut seen = BTreeSet::new();
    for (code, text) in cases() {
        let checked = checked(&text);
        let found = checked.diagnostics.problems.iter().find(|problem| problem.code == code);
        let Some(problem) = found else { panic!("{code} was not found:\n{}", checked.diagnostics) };
        writeln!(page, "{problem}").unwrap();
        seen.insert(code);
    }
    let missing: Vec<&Code> = Code::ALL.iter().filter(|code| !seen.contains(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    insta::assert_snapshot!(page);
}

#[test]
fn only_errors_keep_a_workflow_from_compiling() {
    for (code, text) in cases() {
        let checked = checked(&text);
        let compiles = code.severity() != Severity::Error;
        assert_eq!(checked.workflow.is_some(), compiles, "{code}:\n{}", checked.diagnostics);
    }
}

#[test]
fn a_value_that_cannot_be_used_is_reported_once() {
    let cases = [
        step(json!({ "runCondition": { "kind": "nothing" } })),
        step(json!({ "runCondition": 3 })),
        step(json!({ "audit": "please" })),
        step(json!({ "requireConfirmation": { "kind": "nobody" } })),
        looped(json!({ "type": "whlie", "maxIterations": 3 }), json!([plain("b")])),
        looped(json!("while"), json!([plain("b")])),
        top(json!({ "conditions": [3] })),
        top(json!({ "assessments": [{ "id": "a", "purpose": "p", "dimensions": 3 }] })),
    ];
    for source in cases {
        let checked = checked(source.to_string().as_bytes());
        let errors: Vec<Code> = checked.diagnostics.errors().map(|problem| problem.code).collect();
        assert!(
            matches!(errors[..], [Code::WrongType | Code::BadValue] | [Code::MissingField, Code::BadValue]),
            "{source}\n{}",
            checked.diagnostics
        );
    }
}

#[test]
fn all_problems_are_reported_at_once_with_their_places() {
    let text = br#"{
  "id": "project.many",
  "name": 3,
  "description": "d",
  "version": "1",
  "steps": [
    { "id": "one", "title": "One", "promt": "x" },
    { "id": "one", "title": "Two", "prompt": "y", "runCondition": { "var": "a", "equal": 1 } }
  ]
}"#;
    let checked = checked(text);
    let found: Vec<(Code, usize, usize, String)> = checked
        .diagnostics
        .errors()
        .map(|problem| (problem.code, problem.line, problem.column, problem.path.clone()))
        .collect();
    assert_eq!(
        found,
        [
            (Code::WrongType, 3, 11, "name".to_owned()),
            (Code::BadValue, 5, 14, "version".to_owned()),
            (Code::UnknownField, 7, 36, "steps[0].promt".to_owned()),
            (Code::DuplicateId, 8, 7, "steps[1].id".to_owned()),
            (Code::UnknownField, 8, 81, "steps[1].runCondition.equal".to_owned()),
        ]
    );
    let fixes: Vec<&str> = checked.diagnostics.errors().map(|problem| problem.fix.as_str()).collect();
    assert!(fixes.contains(&"did you mean `prompt`?"), "{fixes:?}");
    assert!(fixes.contains(&"did you mean `equals`?"), "{fixes:?}");
}

#[test_case("old-name", "user.old_name")]
fn legacy_ids_say_what_they_should_become(id: &str, expected: &str) {
    let text = top(json!({ "id": id })).to_string();
    let input = CompileInput {
        origin: workrail_core::compile::FileOrigin::User,
        ..CompileInput::new(text.as_bytes(), "test.json")
    };
    let checked = check(input);
    let problem = checked.diagnostics.problems.iter().find(|problem| problem.code == Code::LegacyId).unwrap();
    assert!(problem.fix.contains(expected), "{}", problem.fix);
}

#[test]
fn ten_thousand_bad_steps_are_bounded() {
    let bad: Vec<Value> = (0..10_000).map(|_| json!({ "id": "BAD", "promt": 1 })).collect();
    let checked = checked(with_steps(json!(bad)).to_string().as_bytes());
    assert_eq!(checked.diagnostics.problems.len(), 200);
    assert!(checked.diagnostics.left_out > 10_000);
}

#[test]
fn lines_are_counted_alike_with_windows_line_ends() {
    let checked = checked(b"{\r\n  \"id\": 3\r\n}");
    let problem = checked.diagnostics.errors().find(|problem| problem.code == Code::WrongType).unwrap();
    assert_eq!((problem.line, problem.column), (2, 9));
}
