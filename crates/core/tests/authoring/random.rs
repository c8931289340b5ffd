//! Random valid workflows always end, never panic, and their states survive storage at every step (G44).

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{compiled, driver, workflow};

#[derive(Clone, Debug)]
enum Shape {
    Plain { condition: Option<u8>, confirm: bool },
    Decided { max: u32, condition: Option<u8>, body: Vec<Shape>, decides: bool },
    Counted { count: u32, max: u32, body: Vec<Shape> },
    Listed { max: u32, body: Vec<Shape> },
    While { until: bool, bound: u32, max: u32, body: Vec<Shape> },
    Parallel,
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let leaf = prop_oneof![
        4 => (proptest::option::of(0u8..8), any::<bool>()).prop_map(|(condition, confirm)| Shape::Plain { condition, confirm }),
        1 => Just(Shape::Parallel),
    ];
    let tree = leaf.prop_recursive(3, 24, 4, |inner| {
        let body = proptest::collection::vec(inner, 1..4);
        prop_oneof![
            (1u32..4, proptest::option::of(0u8..8), body.clone(), any::<bool>())
                .prop_map(|(max, condition, body, decides)| Shape::Decided { max, condition, body, decides }),
            (1u32..4, 1u32..4, body.clone()).prop_map(|(count, max, body)| Shape::Counted {
                count,
                max,
                body
            }),
            (1u32..4, body.clone()).prop_map(|(max, body)| Shape::Listed { max, body }),
            (any::<bool>(), 0u32..4, 1u32..4, body).prop_map(|(until, bound, max, body)| Shape::While {
                until,
                bound,
                max,
                body
            }),
        ]
    });
    proptest::collection::vec(tree, 1..6)
}

/// Conditions over four variables that the random context may or may not set.
fn condition(seed: u8) -> Value {
    let var = ["a", "b", "c", "currentIteration"][usize::from(seed % 4)];
    match seed {
        0 | 1 => json!({ "var": var, "equals": true }),
        2 => json!({ "var": var, "not_equals": "x" }),
        3 => json!({ "var": var, "lte": 1 }),
        4 => json!({ "or": [{ "var": var }, { "not": { "var": "b", "contains": "y" } }] }),
        5 => json!({ "and": [{ "var": var, "in": [1, "2", true] }, {}] }),
        _ => json!({ "var": var, "gt": 0 }),
    }
}

fn written(shape: &Shape, next: &mut u32) -> Value {
    *next += 1;
    let id = format!("s{next}");
    let mut steps = |body: &[Shape]| body.iter().map(|inner| written(inner, next)).collect::<Vec<_>>();
    match shape {
        Shape::Plain { condition: seed, confirm } => {
            let mut step =
                json!({ "id": id, "title": "T", "prompt": "Do {{a}}.", "requireConfirmation": confirm });
            if let Some(seed) = seed {
                step["runCondition"] = condition(*seed);
            }
            step
        }
        Shape::Parallel => json!({ "id": id, "type": "parallel", "title": "P",
            "parallelDelegations": [{ "workflowId": "project.child", "runCondition": condition(0) }] }),
        Shape::Decided { max, condition: seed, body, decides } => {
            let mut body = steps(body);
            if *decides {
                body.push(json!({ "id": format!("{id}-d"), "title": "D", "prompt": "p",
                    "outputContract": { "contractRef": "wr.contracts.loop_control" } }));
            }
            let mut step = json!({ "id": id, "type": "loop", "title": "L", "body": body, "loop": {
                "type": "while", "maxIterations": max,
                "conditionSource": { "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control" } } });
            if let Some(seed) = seed {
                step["runCondition"] = condition(*seed);
            }
            step
        }
        Shape::Counted { count, max, body } => {
            json!({ "id": id, "type": "loop", "title": "L", "body": steps(body),
            "loop": { "type": "for", "count": count, "maxIterations": max } })
        }
        Shape::Listed { max, body } => json!({ "id": id, "type": "loop", "title": "L", "body": steps(body),
            "loop": { "type": "forEach", "items": "list", "maxIterations": max } }),
        Shape::While { until, bound, max, body } => {
            json!({ "id": id, "type": "loop", "title": "L", "body": steps(body),
            "loop": { "type": if *until { "until" } else { "while" }, "maxIterations": max,
                      "condition": { "var": "currentIteration", "lte": bound } } })
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_workflows_end_and_their_states_round_trip(
        shapes in shapes(),
        a in proptest::option::of(any::<bool>()),
        b in proptest::option::of("[xy2 ]{0,3}"),
        c in proptest::option::of(-1i64..3),
        list in proptest::collection::vec(any::<bool>(), 0..4),
    ) {
        let mut next = 0;
        let steps: Vec<Value> = shapes.iter().map(|shape| written(shape, &mut next)).collect();
        let source = workflow(json!(steps));
        let workflow = compiled(&source);
        prop_assert_eq!(workflow.check(), Ok(()));
        let mut context = json!({ "list": list });
        for (key, value) in [("a", json!(a)), ("b", json!(b)), ("c", json!(c))] {
            if !value.is_null() {
                context[key] = value;
            }
        }
        // Four levels of at most three passes over at most five steps each.
        let run = driver::run(&workflow, &driver::context(context), 5_000);
        let distinct: std::collections::BTreeSet<&String> = run.steps.iter().collect();
        prop_assert_eq!(distinct.len(), run.steps.len(), "no step instance runs twice");
    }
}
