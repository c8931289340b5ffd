//! Context keys that steps declare, and those that conditions read (G46).

use serde_json::{Value, json};
use test_case::test_case;
use workrail_core::compile::{Code, CompileInput, check};
use workrail_core::interpret::{Finding, Submitted, check_output, start};
use workrail_core::render::prompt::{Lifecycle, render_step};
use workrail_model::blocker::{BlockerCode, BlockerPointer};

use crate::driver::context;
use crate::{compiled, plain, workflow};

fn sized() -> Value {
    let mut size = plain("size");
    size["sets"] = json!({
        "taskSize": { "values": ["small", "large"], "description": "How much work it is." },
        "isRisky": { "type": "boolean" },
        "files": { "type": "number" },
        "area": { "type": "string" },
    });
    let mut plan = plain("plan");
    plan["runCondition"] = json!({ "var": "taskSize", "equals": "large" });
    workflow(json!([size, plan]))
}

fn problems(source: &Value) -> Vec<(Code, String)> {
    let bytes = source.to_string();
    let checked = check(CompileInput::new(bytes.as_bytes(), "test.json"));
    checked.diagnostics.problems.iter().map(|problem| (problem.code, problem.message.clone())).collect()
}

const GOOD: &str = r#"{ "taskSize": "Large ", "isRisky": false, "files": 3, "area": "core" }"#;

#[test_case("taskSize", json!("medium"), "small or large, not \"medium\""; "foreign value")]
#[test_case("taskSize", json!(3), "small or large, not 3"; "number for a word")]
#[test_case("isRisky", json!("false"), "true or false, not \"false\""; "text for a flag")]
#[test_case("files", json!("3"), "a number, not \"3\""; "text for a number")]
#[test_case("area", json!("  "), "a text, not"; "blank text")]
#[test_case("taskSize", json!(null), "which was not sent"; "missing")]
fn a_declared_key_is_required_and_checked(key: &str, value: Value, told: &str) {
    let workflow = compiled(&sized());
    let empty = context(json!({}));
    let state = start(&workflow, &empty).unwrap().state;
    let pending = state.pending_step().unwrap();
    let mut values: Value = serde_json::from_str(GOOD).unwrap();
    let submit = |values: &Value| {
        let context = context(values.clone());
        let submitted = Submitted {
            notes: Some("n"),
            artifacts: &[],
            reported: &[],
            context: &context,
            given: &context,
            known: &[],
        };
        check_output(&workflow, pending, submitted).findings
    };
    assert_eq!(submit(&values), []);
    values.as_object_mut().unwrap().retain(|own, _| own != key);
    if !value.is_null() {
        values[key] = value;
    }
    let findings = submit(&values);
    let [Finding { blocker, .. }] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(blocker.code, BlockerCode::MissingContextKey);
    assert!(matches!(&blocker.pointer, BlockerPointer::ContextKey { key: own } if own.as_str() == key));
    assert!(blocker.message.as_str().contains(told), "{}", blocker.message.as_str());
}

#[test]
fn in_a_loop_each_pass_gives_its_own_answer() {
    let mut step = plain("work");
    step["sets"] = json!({ "isGood": { "type": "boolean" } });
    let workflow = compiled(&workflow(json!([
        { "id": "again", "type": "loop", "title": "Again", "body": [step],
          "loop": { "type": "for", "count": 2, "maxIterations": 2 } },
    ])));
    let held = context(json!({ "isGood": true }));
    let state = start(&workflow, &held).unwrap().state;
    let none = context(json!({}));
    let submitted = Submitted {
        notes: Some("n"),
        artifacts: &[],
        reported: &[],
        context: &held,
        given: &none,
        known: &[],
    };
    assert_eq!(check_output(&workflow, state.pending_step().unwrap(), submitted).findings.len(), 1);
}

#[test]
fn keys_are_shown_with_their_values_and_meaning() {
    let workflow = compiled(&sized());
    let empty = context(json!({}));
    let state = start(&workflow, &empty).unwrap().state;
    let text = render_step(&workflow, state.pending_step().unwrap(), &empty, Lifecycle::Advance).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn undeclared_keys_are_named_with_what_they_are_compared_to() {
    let mut second = plain("second");
    second["runCondition"] = json!({ "and": [
        { "var": "size", "in": ["small", "large"] }, { "not": { "var": "isDone" } }, { "var": "count", "gt": 3 },
    ] });
    let each = json!({ "id": "each", "type": "loop", "title": "Each", "body": [plain("inner")],
        "loop": { "type": "forEach", "items": "slices", "itemVar": "slice", "indexVar": "n", "maxIterations": 9 } });
    let workflow = compiled(&workflow(json!([plain("first"), second, each])));
    let known = context(json!({ "isDone": true }));
    let state = start(&workflow, &known).unwrap().state;
    let text = render_step(&workflow, state.pending_step().unwrap(), &known, Lifecycle::Advance).unwrap();
    let told = "**Later steps depend on context keys that are not set yet:** `count` (a number), `size` (compared with \
                `small`, `large`), `slices` (a list).";
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_key_that_nothing_can_have_set_is_a_warning() {
    let mut source = sized();
    source["steps"][1]["runCondition"] = json!({ "var": "sise", "equals": "large" });
    let found = problems(&source);
    assert!(
        found.iter().any(|(code, message)| *code == Code::UnsetContextKey && message.contains("`sise`")),
        "{found:?}"
    );
    source["steps"][0]["prompt"] = json!("Say how large it is: set `sise`.");
    assert!(problems(&source).iter().all(|(code, _)| *code != Code::UnsetContextKey));
}

#[test]
fn a_value_that_a_key_never_has_is_a_warning() {
    let mut source = sized();
    source["steps"][1]["runCondition"] = json!({ "var": "taskSize", "equals": "huge" });
    let found = problems(&source);
    assert!(
        found
            .iter()
            .any(|(code, message)| *code == Code::ForeignContextValue && message.contains("\"huge\"")),
        "{found:?}"
    );
    source["steps"][1]["runCondition"] = json!({ "var": "taskSize", "equals": "LARGE" });
    assert_eq!(problems(&source), []);
}

#[test_case(json!({ "taskSize": {} }); "neither")]
#[test_case(json!({ "taskSize": { "values": ["a"], "type": "string" } }); "both")]
#[test_case(json!({ "task size": { "type": "string" } }); "no key")]
fn an_empty_declaration_is_an_error(sets: Value) {
    let mut source = sized();
    source["steps"][0]["sets"] = sets;
    let found = problems(&source);
    assert!(found.iter().any(|(code, _)| *code == Code::ContextKey), "{found:?}");
}
