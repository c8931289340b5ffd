//! Loops: their bodies, what controls them, and the checks that keep them finite (G44).

use std::collections::BTreeSet;

use workrail_model::compiled::{
    CompiledLoop, CompiledWarningCode, ConditionTest, ForCount, LoopControl, OnLimit, PlanItem,
};
use workrail_model::name::{ConditionId, ContextKey, ContractRef, LoopId};

use super::build::Builder;
use super::diagnostic::Code;
use super::lint;
use super::nearest::suggestion;
use super::path::DocPath;
use super::report::{DraftDiagnostic, shown};
use super::source::{
    AuthoredStep, BodySource, Condition, ConditionBody, ConditionSource, LoopSource, LoopStep,
};
use crate::builtins::LOOP_CONTROL_CONTRACT;
use crate::routing;

/// A loop whose body may still be unknown.
pub(super) struct LoopDraft<'a> {
    loop_id: LoopId,
    step: &'a LoopStep,
    run_condition: Option<ConditionId>,
    body: BodyDraft,
}

enum BodyDraft {
    Named(String),
    Inline(Vec<PlanItem>),
}

/// Claims the loop's id and compiles its body; its control is settled by `finish`.
pub(super) fn open<'a>(builder: &mut Builder<'a>, step: &'a LoopStep) -> Vec<PlanItem> {
    let at = &step.at;
    if step.id.is_empty() {
        builder.report.push(
            DraftDiagnostic::on(Code::MissingField, at)
                .message("a loop has no `id`")
                .why("runs and decisions name the loop by it")
                .fix("add \"id\": \"...\""),
        );
    }
    let claimed = builder.claim(&step.id, at);
    let id = step.id.as_str();
    let run_condition =
        builder.link(step.run_condition.as_ref(), &format!("{id}.loop-run"), &at.key("runCondition"));
    builder.functions.enter(&step.functions);
    let body = match &step.body {
        BodySource::Named(name) => BodyDraft::Named(name.clone()),
        BodySource::Inline(steps) => {
            BodyDraft::Inline(steps.iter().flat_map(|inner| builder.step(inner)).collect())
        }
    };
    builder.functions.leave();
    let Some(loop_id) = claimed.and_then(|id| LoopId::parse(id.as_str()).ok()) else { return Vec::new() };
    if let Some(test) = run_condition.as_ref().and_then(|id| builder.conditions.get(id))
        && lint::never_holds_test(test)
    {
        report_unreachable(builder, id, at);
    }
    builder.loops.push(LoopDraft { loop_id: loop_id.clone(), step, run_condition, body });
    vec![PlanItem::Loop { loop_id }]
}

fn report_unreachable(builder: &mut Builder<'_>, id: &str, at: &DocPath) {
    builder.report.push(
        DraftDiagnostic::on(Code::UnreachableStep, &at.key("runCondition"))
            .message(format!("the loop `{}` never runs: its condition can never hold", shown(id)))
            .why("its steps would be skipped in every run")
            .fix("correct the condition, or remove the loop"),
    );
    builder.warn(CompiledWarningCode::ConditionNeverHolds, id, None);
}

/// Every loop with its body and control, sorted by id.
pub(super) fn finish(builder: &mut Builder<'_>) -> Vec<CompiledLoop> {
    let drafts = std::mem::take(&mut builder.loops);
    let mut loops = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let step = draft.step;
        let body = body(builder, &draft);
        let Some(control) = control(builder, &draft, &body) else { continue };
        loops.push(CompiledLoop {
            title: if step.title.is_empty() { draft.loop_id.to_string() } else { step.title.clone() },
            loop_id: draft.loop_id,
            control,
            max_iterations: step.max_iterations,
            on_limit: step.on_limit,
            iteration_var: step.iteration_var.clone().unwrap_or_else(|| "currentIteration".to_owned()),
            run_condition: draft.run_condition,
            body,
            functions: step.functions.clone(),
        });
    }
    loops.sort_by(|a, b| a.loop_id.cmp(&b.loop_id));
    loops
}

const WRITE_STEPS: &str = "write the steps into the loop: `body` also takes a list of steps";

/// The steps that can be a body: those at the top level that are not loops.
fn body_suggestion(builder: &Builder<'_>, name: &str) -> String {
    let usable = builder.source.steps.iter().filter(|step| match step {
        AuthoredStep::Loop(_) => false,
        AuthoredStep::Standard(_) | AuthoredStep::Parallel(_) => true,
    });
    let usable: Vec<&str> = usable.map(|step| step.id()).collect();
    if usable.is_empty() { WRITE_STEPS.to_owned() } else { suggestion(name, &usable) }
}

fn body(builder: &mut Builder<'_>, draft: &LoopDraft<'_>) -> Vec<PlanItem> {
    let name = match &draft.body {
        BodyDraft::Inline(items) => return items.clone(),
        BodyDraft::Named(name) => name,
    };
    let items = builder.named_bodies.get(name).cloned().unwrap_or_default();
    let holds_a_loop = items.iter().any(|item| match item {
        PlanItem::Loop { .. } => true,
        PlanItem::Step { .. } => false,
    });
    if items.is_empty() || holds_a_loop {
        let (message, fix) = if name == draft.loop_id.as_str() {
            (format!("the loop `{name}` names itself as its body"), WRITE_STEPS.to_owned())
        } else if holds_a_loop {
            (format!("the body `{name}` is itself a loop"), "write the inner loop into the body".to_owned())
        } else {
            (format!("there is no step `{}` to use as the body", shown(name)), body_suggestion(builder, name))
        };
        builder.report.push(
            DraftDiagnostic::on(Code::LoopBody, &draft.step.at.key("body"))
                .message(message)
                .why("the body is another step at the top level, or the steps written into the loop")
                .fix(fix),
        );
        return Vec::new();
    }
    items
}

fn control(builder: &mut Builder<'_>, draft: &LoopDraft<'_>, body: &[PlanItem]) -> Option<LoopControl> {
    Some(match &draft.step.control {
        LoopSource::Unknown => return None,
        LoopSource::While { source } => {
            LoopControl::While { condition_id: condition(builder, draft, source, body)? }
        }
        LoopSource::Until { source } => {
            LoopControl::Until { condition_id: condition(builder, draft, source, body)? }
        }
        LoopSource::ForFixed { count } => LoopControl::For { count: ForCount::Fixed { value: *count } },
        LoopSource::ForContext { context_key } => {
            LoopControl::For { count: ForCount::FromContext { context_key: context_key.clone() } }
        }
        LoopSource::ForEach { items, item_var, index_var } => LoopControl::ForEach {
            items: items.clone(),
            item_var: item_var.clone().unwrap_or_else(|| "currentItem".to_owned()),
            index_var: index_var.clone().unwrap_or_else(|| "currentIndex".to_owned()),
        },
    })
}

fn condition(
    builder: &mut Builder<'_>,
    draft: &LoopDraft<'_>,
    source: &ConditionSource,
    body: &[PlanItem],
) -> Option<ConditionId> {
    let at = &draft.step.at;
    let decision = decision_position(builder, body);
    let name = format!("{}.loop", draft.loop_id);
    match source {
        ConditionSource::Artifact { contract_ref, label } => {
            artifact(builder, draft, contract_ref, label.clone(), decision, body)
        }
        ConditionSource::Condition(Condition::Named(id)) => {
            let named = builder.source.conditions.iter().find(|named| named.id == *id);
            match named.map(|named| named.test.clone()) {
                Some(ConditionBody::LoopControl { contract_ref, label }) => {
                    builder.condition_used(id);
                    check_artifact(builder, draft, &contract_ref, decision, body)?;
                    // Each loop has its own label, so each has its own condition.
                    loop_control(builder, &name, &contract_ref, label)
                }
                Some(ConditionBody::Context(_)) | None => {
                    let linked = builder.link(Some(&Condition::Named(id.clone())), &name, at);
                    let test = linked.as_ref().and_then(|id| builder.conditions.get(id)).cloned();
                    by_context(builder, draft, test.as_ref(), body);
                    linked
                }
            }
        }
        // A decision step in the body decides; a condition as well could only contradict it.
        ConditionSource::Condition(Condition::Expr(_)) if decision.is_some() && !draft.step.is_explicit => {
            builder.report.push(
                DraftDiagnostic::on(Code::ConditionIgnoredPart, &at.key("loop").key("condition"))
                    .message(format!("the condition of the loop `{}` is ignored: a step of its body decides", draft.loop_id))
                    .why("a step with the contract wr.contracts.loop_control says whether the loop continues")
                    .fix("remove the condition, or the contract; to keep the condition, write it into `conditionSource`"),
            );
            artifact(builder, draft, LOOP_CONTROL_CONTRACT, None, decision, body)
        }
        ConditionSource::Condition(Condition::Expr(expr)) => {
            let id = ConditionId::parse(&name).ok()?;
            let test = ConditionTest::Context { expr: expr.clone() };
            by_context(builder, draft, Some(&test), body);
            if lint::never_holds_test(&test) && matches!(draft.step.control, LoopSource::While { .. }) {
                builder.report.push(
                    DraftDiagnostic::on(Code::ConditionNeverHolds, &at.key("loop").key("condition"))
                        .message(format!("the condition of the loop `{}` can never hold", draft.loop_id))
                        .why("the loop would never run")
                        .fix("correct the condition"),
                );
                builder.warn(CompiledWarningCode::ConditionNeverHolds, draft.loop_id.as_str(), None);
            }
            builder.conditions.insert(id.clone(), test);
            Some(id)
        }
        ConditionSource::Derived if decision.is_some() => {
            artifact(builder, draft, LOOP_CONTROL_CONTRACT, None, decision, body)
        }
        ConditionSource::Derived => {
            builder.report.push(
                DraftDiagnostic::on(Code::LoopControl, at)
                    .message(format!("nothing decides whether the loop `{}` continues", draft.loop_id))
                    .why("a while or until loop needs a condition or a decision step")
                    .fix(
                        "end the body with a step that has \
                         \"outputContract\": { \"contractRef\": \"wr.contracts.loop_control\" }",
                    ),
            );
            None
        }
    }
}

fn artifact(
    builder: &mut Builder<'_>,
    draft: &LoopDraft<'_>,
    contract_ref: &str,
    label: Option<String>,
    decision: Option<usize>,
    body: &[PlanItem],
) -> Option<ConditionId> {
    check_artifact(builder, draft, contract_ref, decision, body)?;
    loop_control(builder, &format!("{}.loop", draft.loop_id), contract_ref, label)
}

fn loop_control(
    builder: &mut Builder<'_>,
    name: &str,
    contract_ref: &str,
    label: Option<String>,
) -> Option<ConditionId> {
    let id = ConditionId::parse(name).ok()?;
    let contract_ref = ContractRef::parse(contract_ref).ok()?;
    builder.conditions.insert(id.clone(), ConditionTest::LoopControl { contract_ref, label });
    Some(id)
}

fn check_artifact(
    builder: &mut Builder<'_>,
    draft: &LoopDraft<'_>,
    contract_ref: &str,
    decision: Option<usize>,
    body: &[PlanItem],
) -> Option<()> {
    let at = &draft.step.at;
    let loop_id = &draft.loop_id;
    if contract_ref != LOOP_CONTROL_CONTRACT {
        builder.report.push(
            DraftDiagnostic::on(Code::LoopControl, &at.key("loop").key("conditionSource").key("contractRef"))
                .message(format!("`{}` cannot decide a loop", shown(contract_ref)))
                .why("only the loop control artifact says continue or stop")
                .fix(format!("use \"contractRef\": \"{LOOP_CONTROL_CONTRACT}\"")),
        );
        return None;
    }
    builder.contract(contract_ref, at);
    match decision {
        None => {
            let blocks = draft.step.on_limit == OnLimit::Block;
            let code = if blocks { Code::LoopControl } else { Code::LoopWithoutDecision };
            builder.report.push(
                DraftDiagnostic::on(code, &at.key("body"))
                    .message(format!("no step of the loop `{loop_id}` delivers its decision"))
                    .why("a missing decision never ends a loop, so it always runs to its limit")
                    .fix("end the body with a step whose outputContract is wr.contracts.loop_control"),
            );
            builder.warn(CompiledWarningCode::LoopWithoutDecisionStep, loop_id.as_str(), None);
        }
        Some(position) if position + 1 < body.len() => {
            builder.report.push(
                DraftDiagnostic::on(Code::LoopDecisionNotLast, &at.key("body").index(position))
                    .message(format!("the decision of the loop `{loop_id}` is not its last step"))
                    .why("the steps after it still run: a loop ends between passes, never inside one")
                    .fix("move the decision step to the end of the body"),
            );
        }
        Some(_) => {}
    }
    Some(())
}

/// Records that values decide the loop, unless every pass must set all of them: then none can be forgotten.
fn by_context(
    builder: &mut Builder<'_>,
    draft: &LoopDraft<'_>,
    test: Option<&ConditionTest>,
    body: &[PlanItem],
) {
    let declared = body.iter().filter_map(|item| match item {
        PlanItem::Step { step_id } => builder.declared.get(step_id),
        PlanItem::Loop { .. } => None,
    });
    let set: BTreeSet<&str> = declared.flatten().map(ContextKey::as_str).collect();
    if test.is_some_and(|test| routing::reads_only(test, &set)) {
        return;
    }
    builder.report.push(
        DraftDiagnostic::on(Code::LoopByContext, &draft.step.at.key("loop"))
            .message(format!("the loop `{}` is decided by context values", draft.loop_id))
            .why("if the agent forgets to set a value, the loop ends too early or runs too long, unnoticed")
            .fix("prefer a decision step with wr.contracts.loop_control"),
    );
    builder.warn(CompiledWarningCode::LoopControlledByContext, draft.loop_id.as_str(), None);
}

/// Where in the body the decision step is.
fn decision_position(builder: &Builder<'_>, body: &[PlanItem]) -> Option<usize> {
    body.iter().rposition(|item| match item {
        PlanItem::Loop { .. } => false,
        PlanItem::Step { step_id } => builder.deciders.contains(step_id),
    })
}
