//! Raw input of any kind gives diagnostics or an answer, never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use workrail_core::compile::{CompileInput, check};
use workrail_core::condition::{ValueScope, holds};
use workrail_core::render::prompt::{Lifecycle, render_step};
use workrail_model::canonical::value_to_canonical;
use workrail_model::compiled::Expr;

use crate::{compiled, driver, plain, workflow};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_000i64..1_000).prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("finite", |number| serde_json::Number::from_f64(number).map(Value::Number))
            .prop_filter("canonical", |number| value_to_canonical(number).is_ok()),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-zA-Z_]{0,6}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A value of the format's own vocabulary, mostly in the wrong place.
fn vocabulary() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("id"),
        Just("type"),
        Just("loop"),
        Just("body"),
        Just("steps"),
        Just("prompt"),
        Just("promptBlocks"),
        Just("runCondition"),
        Just("and"),
        Just("or"),
        Just("not"),
        Just("var"),
        Just("equals"),
        Just("in"),
        Just("outputContract"),
        Just("contractRef"),
        Just("templateCall"),
        Just("templateId"),
        Just("features"),
        Just("assessments"),
        Just("validationCriteria"),
        Just("requireConfirmation"),
        Just("kind"),
        Just("while"),
        Just("forEach"),
        Just("wr.contracts.loop_control"),
        Just("condition_ref"),
        Just("conditionId"),
        Just("title"),
    ];
    let leaf = prop_oneof![
        word.clone().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (0u8..9).prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..6).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

fn expr() -> impl Strategy<Value = Expr> {
    let var = || "[a-c]";
    let leaf = prop_oneof![
        Just(Expr::Always),
        Just(Expr::Malformed),
        var().prop_map(|var| Expr::Truthy { var }),
        (var(), any_json()).prop_map(|(var, value)| Expr::Equals { var, value }),
        (var(), any_json()).prop_map(|(var, value)| Expr::NotEquals { var, value }),
        (var(), any_json()).prop_map(|(var, value)| Expr::Gt { var, value }),
        (var(), any_json()).prop_map(|(var, value)| Expr::Contains { var, value }),
        (var(), proptest::collection::vec(any_json(), 0..3))
            .prop_map(|(var, values)| Expr::In { var, values }),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|all| Expr::And { all }),
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|any| Expr::Or { any }),
            inner.prop_map(|inner| Expr::Not { inner: Box::new(inner) }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn raw_bytes_are_compiled_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let checked = check(CompileInput::new(&bytes, "raw"));
        prop_assert_eq!(checked.workflow.is_none(), checked.diagnostics.errors().next().is_some());
    }

    #[test]
    fn broken_text_is_compiled_or_refused(cut in 0usize..400, byte in any::<u8>()) {
        let mut text = workflow(json!([plain("a"), plain("b")])).to_string().into_bytes();
        let at = cut % text.len();
        text[at] = byte;
        check(CompileInput::new(&text, "raw"));
        text.truncate(at);
        check(CompileInput::new(&text, "raw"));
    }

    #[test]
    fn misplaced_vocabulary_is_diagnosed(steps in proptest::collection::vec(vocabulary(), 0..4), extra in vocabulary()) {
        let mut source = workflow(json!(steps));
        source["conditions"] = extra;
        let checked = check(CompileInput::new(source.to_string().as_bytes(), "raw"));
        for problem in &checked.diagnostics.problems {
            prop_assert!(problem.line >= 1 && !problem.message.is_empty());
        }
    }

    #[test]
    fn conditions_are_total_and_deterministic(expr in expr(), a in any_json(), b in any_json()) {
        let context = driver::context(json!({ "a": a, "b": b }));
        prop_assert_eq!(holds(&expr, &ValueScope::new(&context)), holds(&expr, &ValueScope::new(&context)));
    }

    #[test]
    fn any_prompt_renders(prompt in "[{}a-c.\\[\\] \u{e9}\u{1f600}wr]{1,60}", a in any_json(), b in any_json()) {
        // Prompts with the reserved token are refused at compile time, which is tested elsewhere.
        prop_assume!(!prompt.contains("{{wr.") && !prompt.trim().is_empty());
        let workflow = compiled(&workflow(json!([{ "id": "s", "title": "T", "prompt": prompt }])));
        let context = driver::context(json!({ "a": a, "b": b }));
        let state = workrail_core::interpret::start(&workflow, &context).unwrap().state;
        let pending = state.pending_step().unwrap();
        for lifecycle in [Lifecycle::Start, Lifecycle::Advance, Lifecycle::Rehydrate] {
            prop_assert!(!render_step(&workflow, pending, &context, lifecycle).unwrap().is_empty());
        }
    }
}
