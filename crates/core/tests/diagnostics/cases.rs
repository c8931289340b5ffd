//! A small workflow for every diagnostic code. The tests of the compiler and of the command line share it.

use serde_json::{Value, json};
use workrail_core::compile::Code;

/// A workflow that has no problem at all.
pub(crate) fn good() -> Value {
    json!({
        "id": "project.good", "name": "Good", "description": "Has no problem.", "version": "1.0.0",
        "steps": [{ "id": "one", "title": "One", "prompt": "Do the work." }],
    })
}

pub(crate) fn step(extra: Value) -> Value {
    let mut step = json!({ "id": "one", "title": "One", "prompt": "Do the work." });
    merge(&mut step, extra);
    with_steps(json!([step]))
}

pub(crate) fn with_steps(steps: Value) -> Value {
    let mut workflow = good();
    workflow["steps"] = steps;
    workflow
}

pub(crate) fn top(extra: Value) -> Value {
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

pub(crate) fn looped(settings: Value, body: Value) -> Value {
    with_steps(json!([{ "id": "again", "type": "loop", "title": "Again", "loop": settings, "body": body }]))
}

fn decision() -> Value {
    json!({
        "id": "decide", "title": "Decide", "prompt": "Decide.",
        "outputContract": { "contractRef": "wr.contracts.loop_control" },
    })
}

pub(crate) fn plain(id: &str) -> Value {
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

/// One input for every code.
pub(crate) fn cases() -> Vec<(Code, Vec<u8>)> {
    let text = |value: Value| serde_json::to_vec_pretty(&value).unwrap();
    let artifact = json!({ "type": "while", "maxIterations": 3, "conditionSource": {
        "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control" } });
    let never = json!({ "and": [{ "var": "a", "equals": "x" }, { "var": "a", "equals": "y" }] });
    let mut with_bom = b"\xef\xbb\xbf".to_vec();
    with_bom.extend(text(good()));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100)).into_bytes();
    let with_two_names = String::from_utf8(text(good()))
        .unwrap()
        .replace("  \"name\": \"Good\",", "  \"name\": \"Good\",\n  \"name\": \"Better\",");
    vec![
        (Code::NotUtf8, b"{\"id\": \"\xff\"}".to_vec()),
        (Code::Syntax, b"{ \"id\": }".to_vec()),
        (Code::FileTooLarge, vec![b' '; 1_000_001]),
        (Code::TooDeep, deep),
        (Code::ByteOrderMark, with_bom),
        (Code::DuplicateKey, with_two_names.into_bytes()),
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
