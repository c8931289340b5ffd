//! What is allowed but probably wrong: conditions that never hold, variables that nothing sets, loops
//! that could spin.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use workrail_model::compiled::{CompiledLoop, CompiledStep, ConditionTest, Expr, LoopControl, PlanItem};
use workrail_model::event::Context;
use workrail_model::name::{ConditionId, LoopId};
use workrail_model::nearest::nearest;

use super::diagnostic::Code;
use super::mentions::{has_word, mentioned, shared_texts, shown_texts};
use super::path::DocPath;
use super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::source::Workflow;
use crate::condition::{ValueScope, comparable_text, holds};
use crate::interpret::VISITS_MAX;
use crate::render::template::{TemplatePart, parts};
use crate::routing;

/// Where each step and loop is in the document.
pub(super) type StepPaths = BTreeMap<String, DocPath>;

pub(super) fn path_of(paths: &StepPaths, id: &str) -> DocPath {
    paths.get(id).cloned().unwrap_or_else(|| DocPath::root().key("steps"))
}

pub(super) fn never_holds_test(test: &ConditionTest) -> bool {
    match test {
        ConditionTest::LoopControl { .. } => false,
        ConditionTest::Context { expr } => never_holds(expr),
    }
}

/// Whether no context can make the expression true. Returns false when in doubt.
fn never_holds(expr: &Expr) -> bool {
    let structured = |value: &Value| value.is_array() || value.is_object();
    match expr {
        Expr::Malformed => true,
        Expr::Equals { value, .. } => structured(value),
        Expr::In { values, .. } => values.iter().all(structured),
        Expr::And { all } => all.iter().any(never_holds) || contradict(all.iter()),
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

/// Two texts required of one variable, a text both required and excluded, or bounds that leave no number.
fn contradict<'e>(all: impl Iterator<Item = &'e Expr>) -> bool {
    let mut parts: Vec<&Expr> = all.collect();
    let mut next = 0;
    while let Some(part) = parts.get(next).copied() {
        if let Expr::And { all } = part {
            parts.extend(all);
        }
        next += 1;
    }
    let excluded: BTreeSet<(&str, String)> = parts.iter().filter_map(|part| excludes(part)).collect();
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut bounds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for part in parts {
        match part {
            Expr::Equals { var, value: value @ (Value::Bool(_) | Value::Number(_)) }
                if excluded.contains(&(var.as_str(), value.to_string())) =>
            {
                return true;
            }
            Expr::Equals { var, value: Value::String(text) } => {
                let text = comparable_text(text);
                if excluded.contains(&(var.as_str(), text.clone())) {
                    return true;
                }
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

/// The variable and the value that a part excludes, normalised as for comparison.
fn excludes(part: &Expr) -> Option<(&str, String)> {
    let (var, value) = if let Expr::NotEquals { var, value } = part {
        (var, value)
    } else if let Expr::Not { inner } = part
        && let Expr::Equals { var, value } = &**inner
    {
        (var, value)
    } else {
        return None;
    };
    match value {
        Value::String(text) => Some((var, comparable_text(text))),
        Value::Bool(_) | Value::Number(_) => Some((var, value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Steps at the beginning of a `while` loop's body whose condition cannot hold while the loop's does.
pub(super) fn contradicted_bodies(
    steps: &[CompiledStep],
    loops: &[CompiledLoop],
    conditions: &BTreeMap<ConditionId, ConditionTest>,
    paths: &StepPaths,
    report: &mut DiagnosticReport,
) {
    let expr = |id: &ConditionId| match conditions.get(id) {
        Some(ConditionTest::Context { expr }) => Some(expr),
        Some(ConditionTest::LoopControl { .. }) | None => None,
    };
    for owner in loops {
        let LoopControl::While { condition_id } = &owner.control else { continue };
        let Some(enters) = expr(condition_id) else { continue };
        for item in &owner.body {
            let PlanItem::Step { step_id } = item else { break };
            let own = steps
                .iter()
                .find(|step| step.step_id == *step_id)
                .and_then(|step| step.run_condition.as_ref());
            let Some(runs) = own.and_then(expr) else { break };
            if !contradict([enters, runs].into_iter()) || never_holds(enters) || never_holds(runs) {
                break;
            }
            report.push(
                DraftDiagnostic::on(
                    Code::UnreachableStep,
                    &path_of(paths, step_id.as_str()).key("runCondition"),
                )
                .message(format!(
                    "`{step_id}` never runs: its condition contradicts that of the loop `{}`",
                    owner.loop_id
                ))
                .why("a pass begins only while the loop's condition holds, and then this one does not")
                .fix("correct one of the two conditions"),
            );
        }
    }
}

/// Nested loops whose passes multiply beyond what one call may examine.
pub(super) fn loop_cost(
    plan: &[PlanItem],
    loops: &[CompiledLoop],
    paths: &StepPaths,
    report: &mut DiagnosticReport,
) {
    let by_id: BTreeMap<&LoopId, &CompiledLoop> =
        loops.iter().map(|looped| (&looped.loop_id, looped)).collect();
    let mut queue: Vec<(&PlanItem, u64)> = plan.iter().map(|item| (item, 1)).collect();
    while let Some((item, passes)) = queue.pop() {
        let owner = match item {
            PlanItem::Step { .. } => continue,
            PlanItem::Loop { loop_id } => by_id.get(loop_id),
        };
        let Some(owner) = owner else { continue };
        let passes = passes.saturating_mul(u64::from(owner.max_iterations));
        if passes > u64::from(VISITS_MAX) {
            report.push(
                DraftDiagnostic::on(Code::LoopCost, &path_of(paths, owner.loop_id.as_str()))
                    .message(format!("the loop `{}` may make {passes} passes", owner.loop_id))
                    .why("when conditions skip its steps, choosing the next step takes too long and fails")
                    .fix("lower maxIterations of the nested loops"),
            );
            continue;
        }
        queue.extend(owner.body.iter().map(|inner| (inner, passes)));
    }
}

/// Variables in prompts, and keys in conditions, that nothing in the workflow mentions.
pub(super) fn variables(
    source: &Workflow,
    steps: &[CompiledStep],
    loops: &[CompiledLoop],
    conditions: &BTreeMap<ConditionId, ConditionTest>,
    paths: &StepPaths,
    report: &mut DiagnosticReport,
) {
    let mut wanted: Vec<(&CompiledStep, &str, &str)> = Vec::new();
    for step in steps {
        for (field, text) in shown_texts(step).filter(|(_, text)| text.contains("{{")) {
            for part in parts(text) {
                match part {
                    TemplatePart::Text(plain) => unclosed(step, field, plain, paths, report),
                    TemplatePart::Variable { path } => {
                        wanted.push((step, field, path.split('.').next().unwrap_or(path)));
                    }
                    TemplatePart::Other { source } => not_a_variable(step, field, source, paths, report),
                }
            }
        }
    }
    let read = routing::readers(steps, loops, |id| conditions.get(id));
    let mut sought: BTreeSet<&str> = read.flat_map(|(_, reads)| reads.into_keys()).collect();
    sought.extend(wanted.iter().map(|(_, _, root)| *root));
    let mut known = mentioned(source, steps, loops, &sought);
    super::sets::lint(steps, loops, conditions, &known, paths, report);
    set_later(source, steps, loops, conditions, paths, report);
    for owner in loops {
        match &owner.control {
            LoopControl::ForEach { items, .. } => {
                known.found.insert(items);
            }
            LoopControl::While { .. } | LoopControl::Until { .. } | LoopControl::For { .. } => {}
        }
    }
    let mut reported = BTreeSet::new();
    for (step, field, root) in wanted {
        if !known.has(root) && reported.insert(root) {
            let near = nearest(root, known.names());
            report.push(
                DraftDiagnostic::on(Code::UnsetVariable, &path_of(paths, step.step_id.as_str()).key(field))
                    .message(format!("`{}` shows {{{{{root}}}}}, which nothing else mentions", step.step_id))
                    .why("if it is not set, the agent reads [unset] there")
                    .fix(match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!(
                            "tell an earlier step to set the context key `{root}`, or correct the name"
                        ),
                    }),
            );
        }
    }
}

/// Keys first mentioned after the only step that reads them, where a missing value decides.
fn set_later(
    source: &Workflow,
    steps: &[CompiledStep],
    loops: &[CompiledLoop],
    conditions: &BTreeMap<ConditionId, ConditionTest>,
    paths: &StepPaths,
    report: &mut DiagnosticReport,
) {
    let nothing = Context::default();
    let in_loop: BTreeSet<&str> = loops.iter().flat_map(|owner| &owner.body).map(PlanItem::id).collect();
    let general: String = shared_texts(source).collect::<Vec<_>>().join(" ");
    for (position, step) in steps.iter().enumerate() {
        let test = step.run_condition.as_ref().and_then(|id| conditions.get(id));
        let Some(ConditionTest::Context { expr }) = test else { continue };
        // Skipped while nothing is set: a condition that waits for a value must find one. Loops come back.
        if in_loop.contains(step.step_id.as_str()) || holds(expr, &ValueScope::new(&nothing)) {
            continue;
        }
        let sets = |step: &&CompiledStep, key: &str| step.sets.keys().any(|other| other.as_str() == key);
        for key in routing::keys_of(expr) {
            let names = |step: &&CompiledStep| sets(step, key) || announces(step, key);
            let later = steps
                .iter()
                .skip(position)
                .filter(|other| other.step_id != step.step_id)
                .find(|step| sets(step, key));
            let Some(later) = later else { continue };
            if has_word(&general, key)
                || steps.iter().take(position).any(|step| names(&step))
                || key == "goal"
            {
                continue;
            }
            report.push(
                DraftDiagnostic::on(
                    Code::KeySetLater,
                    &path_of(paths, step.step_id.as_str()).key("runCondition"),
                )
                .message(format!(
                    "`{}` depends on `{}`, which is only set later, by `{}`",
                    step.step_id,
                    shown(key),
                    later.step_id
                ))
                .why("when the run reaches this step the key has no value, so the step is skipped")
                .fix("move the step after the one that sets the key, or let an earlier step set it"),
            );
        }
    }
}

fn announces(step: &CompiledStep, key: &str) -> bool {
    let blocks = step.prompt_blocks.as_ref();
    let outputs = blocks.into_iter().flat_map(|blocks| blocks.output_required.names());
    let asked = step
        .user_dependencies
        .iter()
        .filter_map(|dependency| dependency.context_key.as_ref())
        .map(|key| key.as_str());
    let texts = shown_texts(step).map(|(_, text)| text);
    texts.chain(outputs).chain(asked).any(|text| has_word(text, key))
}

fn unclosed(step: &CompiledStep, field: &str, text: &str, paths: &StepPaths, report: &mut DiagnosticReport) {
    let Some(start) = text.find("{{") else { return };
    let beginning: String = text[start..].chars().take(24).collect();
    report.push(
        DraftDiagnostic::on(Code::UnclosedVariable, &path_of(paths, step.step_id.as_str()).key(field))
            .message(format!("`{}` has {{{{ without }}}}: {:?}", step.step_id, beginning))
            .why("nothing is filled in; the agent reads the braces")
            .fix("close it as in {{name}}, or write a single brace"),
    );
}

fn not_a_variable(
    step: &CompiledStep,
    field: &str,
    source: &str,
    paths: &StepPaths,
    report: &mut DiagnosticReport,
) {
    report.push(
        DraftDiagnostic::on(Code::NotAVariable, &path_of(paths, step.step_id.as_str()).key(field))
            .message(format!("`{}` contains `{}`, which is shown unchanged", step.step_id, shown(source)))
            .why("only names and dots are filled in; there are no expressions")
            .fix("use a plain {{name}}, and let a step compute the value"),
    );
}
