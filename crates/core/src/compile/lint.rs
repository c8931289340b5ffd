//! What is allowed and still probably wrong: conditions that never hold, variables that nothing sets, loops
//! that could spin.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use workrail_model::compiled::{
    CompiledLoop, CompiledStep, ConditionTest, Expr, LoopControl, PlanItem, PromptBlocks,
};
use workrail_model::name::{ConditionId, LoopId};

use super::diagnostic::Code;
use super::path::DocPath;
use super::report::{DraftDiagnostic, Report, shown};
use super::source::Workflow;
use crate::render::template::{Token, tokens};

/// Where each step and loop is in the document.
pub(super) type Places = BTreeMap<String, DocPath>;

pub(super) fn place(places: &Places, id: &str) -> DocPath {
    places.get(id).cloned().unwrap_or_else(|| DocPath::root().key("steps"))
}

pub(super) fn never_holds_test(test: &ConditionTest) -> bool {
    match test {
        ConditionTest::LoopControl { .. } => false,
        ConditionTest::Context { expr } => never_holds(expr),
    }
}

/// Whether no context can make the expression true. Says no when in doubt.
fn never_holds(expr: &Expr) -> bool {
    let structured = |value: &Value| value.is_array() || value.is_object();
    match expr {
        Expr::Malformed => true,
        Expr::Equals { value, .. } => structured(value),
        Expr::In { values, .. } => values.iter().all(structured),
        Expr::And { all } => all.iter().any(never_holds) || contradict(all),
        Expr::Or { any } => any.iter().all(never_holds),
        Expr::Not { inner } => always_holds(inner),
        Expr::Always
        | Expr::Truthy { .. }
        | Expr::NotEquals { .. }
        | Expr::Gt { .. }
        | Expr::Gte { .. }
        | Expr::Lt { .. }
        | Expr::Lte { .. }
        | Expr::Contains { .. } => false,
    }
}

fn always_holds(expr: &Expr) -> bool {
    match expr {
        Expr::Always => true,
        Expr::NotEquals { value, .. } => value.is_array() || value.is_object(),
        Expr::And { all } => all.iter().all(always_holds),
        Expr::Or { any } => any.first().is_some_and(always_holds),
        Expr::Malformed
        | Expr::Truthy { .. }
        | Expr::Equals { .. }
        | Expr::Gt { .. }
        | Expr::Gte { .. }
        | Expr::Lt { .. }
        | Expr::Lte { .. }
        | Expr::Contains { .. }
        | Expr::In { .. }
        | Expr::Not { .. } => false,
    }
}

/// Two texts asked of one variable, or bounds that leave no number.
fn contradict(all: &[Expr]) -> bool {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut bounds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for part in all {
        match part {
            Expr::Equals { var, value: Value::String(text) } => {
                let text = text.trim().to_lowercase();
                if texts.insert(var, text.clone()).is_some_and(|other| other != text) {
                    return true;
                }
            }
            Expr::Gt { var, value } | Expr::Gte { var, value } => {
                let bound = bounds.entry(var).or_insert((f64::NEG_INFINITY, f64::INFINITY));
                bound.0 = bound.0.max(value.as_f64().unwrap_or(f64::NEG_INFINITY));
            }
            Expr::Lt { var, value } | Expr::Lte { var, value } => {
                let bound = bounds.entry(var).or_insert((f64::NEG_INFINITY, f64::INFINITY));
                bound.1 = bound.1.min(value.as_f64().unwrap_or(f64::INFINITY));
            }
            Expr::Always
            | Expr::Malformed
            | Expr::Truthy { .. }
            | Expr::Equals { .. }
            | Expr::NotEquals { .. }
            | Expr::Contains { .. }
            | Expr::In { .. }
            | Expr::And { .. }
            | Expr::Or { .. }
            | Expr::Not { .. } => {}
        }
    }
    bounds.values().any(|(low, high)| low > high)
}

/// Nested loops whose passes multiply beyond what one call may look at.
pub(super) fn loop_cost(plan: &[PlanItem], loops: &[CompiledLoop], places: &Places, report: &mut Report) {
    const PASSES_ADVISED: u64 = 100_000;
    let by_id: BTreeMap<&LoopId, &CompiledLoop> = loops.iter().map(|own| (&own.loop_id, own)).collect();
    let mut queue: Vec<(&PlanItem, u64)> = plan.iter().map(|item| (item, 1)).collect();
    while let Some((item, passes)) = queue.pop() {
        let owner = match item {
            PlanItem::Step { .. } => continue,
            PlanItem::Loop { loop_id } => by_id.get(loop_id),
        };
        let Some(owner) = owner else { continue };
        let passes = passes.saturating_mul(u64::from(owner.max_iterations));
        if passes > PASSES_ADVISED {
            report.push(
                DraftDiagnostic::on(Code::LoopCost, &place(places, owner.loop_id.as_str()))
                    .message(format!("the loop `{}` may make {passes} passes", owner.loop_id))
                    .why("when conditions skip its steps, choosing the next step takes too long and fails")
                    .fix("lower maxIterations of the nested loops"),
            );
            continue;
        }
        queue.extend(owner.body.iter().map(|inner| (inner, passes)));
    }
}

/// Variables that prompts show, and keys that conditions read, which nothing in the workflow mentions.
pub(super) fn variables(
    source: &Workflow,
    steps: &[CompiledStep],
    loops: &[CompiledLoop],
    conditions: &BTreeMap<ConditionId, ConditionTest>,
    places: &Places,
    report: &mut Report,
) {
    let mut wanted: Vec<(&CompiledStep, &str)> = Vec::new();
    for step in steps {
        for text in shown_texts(step).filter(|text| text.contains("{{")) {
            for token in tokens(text) {
                match token {
                    Token::Text(_) => {}
                    Token::Variable { path } => {
                        wanted.push((step, path.split('.').next().unwrap_or(path)));
                    }
                    Token::Other { source } => not_a_variable(step, source, places, report),
                }
            }
        }
    }
    let known = mentioned(source, steps, loops);
    super::sets::lint(steps, loops, conditions, &known, places, report);
    let mut said = BTreeSet::new();
    for (step, root) in wanted {
        if !known.contains(root) && said.insert(root) {
            report.push(
                DraftDiagnostic::on(Code::UnsetVariable, &place(places, step.step_id.as_str()))
                    .message(format!("`{}` shows {{{{{root}}}}}, which nothing else mentions", step.step_id))
                    .why("if it is not set, the agent reads [unset] there")
                    .fix(format!(
                        "tell an earlier step to set the context key `{root}`, or correct the name"
                    )),
            );
        }
    }
}

fn not_a_variable(step: &CompiledStep, source: &str, places: &Places, report: &mut Report) {
    report.push(
        DraftDiagnostic::on(Code::NotAVariable, &place(places, step.step_id.as_str()))
            .message(format!("`{}` contains `{}`, which is shown unchanged", step.step_id, shown(source)))
            .why("only names and dots are filled in; there are no expressions")
            .fix("use a plain {{name}}, and let a step compute the value"),
    );
}

fn shown_texts(step: &CompiledStep) -> impl Iterator<Item = &str> {
    let fragments = step.fragments.iter().map(|fragment| fragment.text.as_str());
    [step.title.as_str(), step.prompt.as_str()].into_iter().chain(fragments)
}

/// Every word outside of `{{}}`, every key that a condition reads, every loop variable.
fn mentioned<'a>(
    source: &'a Workflow,
    steps: &'a [CompiledStep],
    loops: &'a [CompiledLoop],
) -> BTreeSet<&'a str> {
    let mut known: BTreeSet<&str> = BTreeSet::from(["goal"]);
    for owner in loops {
        known.insert(&owner.iteration_var);
        match &owner.control {
            LoopControl::While { .. } | LoopControl::Until { .. } | LoopControl::For { .. } => {}
            LoopControl::ForEach { items, item_var, index_var } => {
                known.extend([items.as_str(), item_var, index_var]);
            }
        }
    }
    let mut add = |text: &'a str| {
        for token in tokens(text) {
            match token {
                Token::Text(plain) | Token::Other { source: plain } => known.extend(words(plain)),
                Token::Variable { .. } => {}
            }
        }
    };
    for step in steps {
        shown_texts(step).for_each(&mut add);
        step.guidance.iter().map(String::as_str).for_each(&mut add);
        if let Some(PromptBlocks { output_required, .. }) = &step.prompt_blocks {
            output_required.keys().map(String::as_str).for_each(&mut add);
        }
        for dependency in &step.user_dependencies {
            dependency.context_key.iter().map(|key| key.as_str()).for_each(&mut add);
        }
        step.sets.keys().map(|key| key.as_str()).for_each(&mut add);
    }
    let texts = source.meta_guidance.iter().chain(&source.preconditions).chain(&source.clarification_prompts);
    texts.map(String::as_str).for_each(&mut add);
    known
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}
