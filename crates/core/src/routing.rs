//! Which context keys decide a run's path: read by conditions and loops, or declared by steps (G46).
//!
//! A file that declares nothing still has such keys. An agent that is not told about them skips steps
//! without knowing it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use workrail_model::compiled::{
    AcceptedValues, CompiledLoop, CompiledStep, CompiledWorkflow, ConditionTest, Confirmation, Expr,
    ForCount, GateKind, LoopControl, PlanItem, StepKind,
};
use workrail_model::event::Context;
use workrail_model::name::{ConditionId, LoopId};
use workrail_model::snapshot::PendingStep;

use crate::condition::{ValueScope, comparable_text, holds};
use crate::render::template::{TemplatePart, parts};

/// How conditions and loops read a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reads {
    /// What it is compared with, in the order of the file.
    pub(crate) values: Vec<Value>,
    pub(crate) kind: ReadKind,
    /// For a list: the members of its items that texts inside the loop show.
    pub(crate) members: Vec<String>,
}

/// What kind of value makes sense, as far as its readers show. A later variant is more specific.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadKind {
    #[default]
    Compared,
    Flag,
    Number,
    List,
}

type KeyReads<'a> = BTreeMap<&'a str, Reads>;

/// Every step and loop with the keys that decide about it.
pub(crate) fn readers<'a>(
    steps: &'a [CompiledStep],
    loops: &'a [CompiledLoop],
    test_of: impl Fn(&ConditionId) -> Option<&'a ConditionTest>,
) -> impl Iterator<Item = (&'a str, KeyReads<'a>)> {
    let own: BTreeSet<&str> = loops.iter().flat_map(loop_variables).collect();
    let of_steps = steps.iter().map(|step| (step.step_id.as_str(), conditions_of(step), None));
    let of_loops =
        loops.iter().map(|owner| (owner.loop_id.as_str(), owner.run_condition.iter().collect(), Some(owner)));
    of_steps.chain(of_loops).map(move |(id, conditions, owner): (_, Vec<&ConditionId>, _)| {
        let mut reads = KeyReads::new();
        let controlled = owner.and_then(|owner| condition_of(&owner.control));
        for test in conditions.into_iter().chain(controlled).filter_map(&test_of) {
            read_test(test, &mut reads);
        }
        owner.into_iter().for_each(|owner| read_control(owner, steps, &mut reads));
        reads.retain(|key, _| !own.contains(key));
        (id, reads)
    })
}

fn conditions_of(step: &CompiledStep) -> Vec<&ConditionId> {
    let confirmation = match &step.confirmation {
        Confirmation::Never | Confirmation::Always => None,
        Confirmation::When { condition_id } => Some(condition_id),
        Confirmation::Gate { when, .. } => when.as_ref(),
    };
    let delegations = match &step.kind {
        StepKind::Parallel { delegations } => delegations.as_slice(),
        StepKind::Standard | StepKind::CapabilityProbe { .. } => &[],
    };
    let delegated = delegations.iter().filter_map(|delegation| delegation.run_condition.as_ref());
    step.run_condition.iter().chain(confirmation).chain(delegated).collect()
}

fn condition_of(control: &LoopControl) -> Option<&ConditionId> {
    match control {
        LoopControl::While { condition_id } | LoopControl::Until { condition_id } => Some(condition_id),
        LoopControl::For { .. } | LoopControl::ForEach { .. } => None,
    }
}

fn loop_variables(owner: &CompiledLoop) -> Vec<&str> {
    match &owner.control {
        LoopControl::ForEach { item_var, index_var, .. } => vec![&owner.iteration_var, item_var, index_var],
        LoopControl::While { .. } | LoopControl::Until { .. } | LoopControl::For { .. } => {
            vec![&owner.iteration_var]
        }
    }
}

fn read_control<'a>(owner: &'a CompiledLoop, steps: &[CompiledStep], reads: &mut KeyReads<'a>) {
    match &owner.control {
        LoopControl::For { count: ForCount::FromContext { context_key } } => {
            add(reads, context_key, [], ReadKind::Number);
        }
        LoopControl::ForEach { items, item_var, .. } => {
            add(reads, items, [], ReadKind::List);
            if let Some(own) = reads.get_mut(items.as_str()) {
                own.members = members(owner, item_var, steps);
            }
        }
        LoopControl::While { .. }
        | LoopControl::Until { .. }
        | LoopControl::For { count: ForCount::Fixed { .. } } => {}
    }
}

/// The members of the item that the body's own texts show, as in `{{slice.name}}`.
pub(crate) fn members(owner: &CompiledLoop, item_var: &str, steps: &[CompiledStep]) -> Vec<String> {
    let in_body = |step: &CompiledStep| {
        owner.body.iter().any(|item| matches!(item, PlanItem::Step { step_id } if *step_id == step.step_id))
    };
    let mut found = Vec::new();
    for step in steps.iter().filter(|step| in_body(step)) {
        for part in parts(&step.title).chain(parts(&step.prompt)) {
            let TemplatePart::Variable { path } = part else { continue };
            let member = path.strip_prefix(item_var).and_then(|rest| rest.strip_prefix('.'));
            let member = member.and_then(|rest| rest.split('.').next()).unwrap_or_default();
            if !member.is_empty() && !found.iter().any(|other| other == member) {
                found.push(member.to_owned());
            }
        }
    }
    found
}

fn read_test<'a>(test: &'a ConditionTest, reads: &mut KeyReads<'a>) {
    match test {
        ConditionTest::Context { expr } => read_expr(expr, reads),
        ConditionTest::LoopControl { .. } => {}
    }
}

fn read_expr<'a>(expr: &'a Expr, reads: &mut KeyReads<'a>) {
    match expr {
        Expr::Always | Expr::Malformed => {}
        Expr::Truthy { var } => add(reads, var, [], ReadKind::Flag),
        Expr::Equals { var, value } | Expr::NotEquals { var, value } | Expr::Contains { var, value } => {
            add(reads, var, [value], ReadKind::Compared);
        }
        Expr::Gt { var, .. } | Expr::Gte { var, .. } | Expr::Lt { var, .. } | Expr::Lte { var, .. } => {
            add(reads, var, [], ReadKind::Number);
        }
        Expr::In { var, values } => add(reads, var, values, ReadKind::Compared),
        Expr::And { all: parts } | Expr::Or { any: parts } => {
            parts.iter().for_each(|part| read_expr(part, reads));
        }
        Expr::Not { inner } => read_expr(inner, reads),
    }
}

fn add<'a>(
    reads: &mut KeyReads<'a>,
    key: &'a str,
    values: impl IntoIterator<Item = &'a Value>,
    kind: ReadKind,
) {
    let own = reads.entry(key).or_default();
    own.kind = own.kind.max(kind);
    for value in values {
        if !own.values.contains(value) {
            own.values.push(value.clone());
        }
    }
}

/// The keys that an expression reads.
pub(crate) fn keys_of(expr: &Expr) -> BTreeSet<&str> {
    let mut reads = KeyReads::new();
    read_expr(expr, &mut reads);
    reads.into_keys().collect()
}

/// Keys that later conditions read, that have no value yet and that no step declares.
pub(crate) fn open_keys<'a>(
    workflow: &'a CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
) -> KeyReads<'a> {
    let mut open = KeyReads::new();
    let test_of = |id: &ConditionId| workflow.condition(id).map(|condition| &condition.test);
    let mut readers =
        readers(&workflow.steps, &workflow.loops, test_of).filter(|(_, reads)| !reads.is_empty()).peekable();
    if readers.peek().is_none() {
        return open;
    }
    let (steps, loops) = still_reachable(workflow, pending, context);
    for (id, reads) in readers {
        if !steps.contains(id) && !loops.contains(id) {
            continue;
        }
        for (key, how) in reads {
            let own = open.entry(key).or_default();
            own.kind = own.kind.max(how.kind);
            for member in how.members {
                if !own.members.contains(&member) {
                    own.members.push(member);
                }
            }
            let new: Vec<Value> =
                how.values.into_iter().filter(|value| !own.values.contains(value)).collect();
            own.values.extend(new);
        }
    }
    let declared =
        |key: &str| workflow.steps.iter().any(|step| step.sets.keys().any(|other| other.as_str() == key));
    open.retain(|key, _| {
        let given = context.get(key).is_some_and(|value| !value.is_null());
        !given && !declared(key) && !is_asked_of_user(workflow, key)
    });
    open
}

/// Whether the key holds a user's answer: then the agent must not set it.
fn is_asked_of_user(workflow: &CompiledWorkflow, key: &str) -> bool {
    let dependencies = workflow.steps.iter().flat_map(|step| &step.user_dependencies);
    dependencies.filter_map(|dependency| dependency.context_key.as_ref()).any(|other| other.as_str() == key)
}

/// Whether a condition cannot hold, whatever values the unset keys get.
fn is_ruled_out(workflow: &CompiledWorkflow, condition: Option<&ConditionId>, context: &Context) -> bool {
    let test = condition.and_then(|id| workflow.condition(id)).map(|condition| &condition.test);
    let Some(ConditionTest::Context { expr }) = test else { return false };
    !possible(expr, &ValueScope::new(context)).holds
}

/// Which results a condition can have, whatever values the unset keys get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Possible {
    holds: bool,
    fails: bool,
}

fn possible(expr: &Expr, scope: &ValueScope<'_>) -> Possible {
    match expr {
        Expr::And { all } => {
            let parts: Vec<Possible> = all.iter().map(|part| possible(part, scope)).collect();
            Possible {
                holds: parts.iter().all(|part| part.holds),
                fails: parts.iter().any(|part| part.fails),
            }
        }
        Expr::Or { any } => {
            let parts: Vec<Possible> = any.iter().map(|part| possible(part, scope)).collect();
            Possible {
                holds: parts.iter().any(|part| part.holds),
                fails: parts.iter().all(|part| part.fails),
            }
        }
        Expr::Not { inner } => {
            let Possible { holds, fails } = possible(inner, scope);
            Possible { holds: fails, fails: holds }
        }
        Expr::Always
        | Expr::Malformed
        | Expr::Truthy { .. }
        | Expr::Equals { .. }
        | Expr::NotEquals { .. }
        | Expr::Contains { .. }
        | Expr::Gt { .. }
        | Expr::Gte { .. }
        | Expr::Lt { .. }
        | Expr::Lte { .. }
        | Expr::In { .. } => match keys_of(expr).into_iter().all(|key| scope.get(key).is_some()) {
            true => {
                let holds = holds(expr, scope);
                Possible { holds, fails: !holds }
            }
            false => Possible { holds: true, fails: true },
        },
    }
}

/// Whether every key that a test reads is among these.
pub(crate) fn reads_only(test: &ConditionTest, keys: &BTreeSet<&str>) -> bool {
    let mut reads = KeyReads::new();
    read_test(test, &mut reads);
    reads.keys().all(|key| keys.contains(key))
}

/// Later steps that wait for an approval, unless they are already known to be skipped.
pub(crate) fn gates_ahead<'a>(
    workflow: &'a CompiledWorkflow,
    pending: &PendingStep,
    context: &'a Context,
) -> impl Iterator<Item = &'a CompiledStep> {
    let is_gate = |step: &CompiledStep| match &step.confirmation {
        Confirmation::Gate { gate, .. } => *gate == GateKind::HumanApproval,
        Confirmation::Never | Confirmation::Always | Confirmation::When { .. } => false,
    };
    let others = workflow.steps.iter().filter(|step| step.step_id != pending.step_id);
    let gates: Vec<&CompiledStep> = others.filter(|step| is_gate(step)).collect();
    // Most workflows have none, and every reply asks.
    let ahead =
        if gates.is_empty() { BTreeSet::new() } else { still_reachable(workflow, pending, context).0 };
    let may_run = move |step: &CompiledStep| !is_ruled_out(workflow, step.run_condition.as_ref(), context);
    gates.into_iter().filter(move |step| ahead.contains(step.step_id.as_str()) && may_run(step))
}

/// The ids of the steps and loops that the run may still reach: what follows in the plan, and everything in a
/// loop around the step, which may repeat.
fn still_reachable<'a>(
    workflow: &'a CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let (mut steps, mut loops) = (BTreeSet::new(), BTreeSet::new());
    let outermost = pending.loop_path.first().map(|frame| &frame.loop_id);
    let is_here = |item: &PlanItem| match item {
        PlanItem::Step { step_id } => outermost.is_none() && *step_id == pending.step_id,
        PlanItem::Loop { loop_id } => Some(loop_id) == outermost,
    };
    let here = workflow.plan.iter().position(is_here).unwrap_or(0);
    let from = if outermost.is_some() { here } else { here + 1 };
    let mut queue: Vec<&PlanItem> = workflow.plan.iter().skip(from).collect();
    while let Some(item) = queue.pop() {
        match item {
            PlanItem::Step { step_id } => {
                steps.insert(step_id.as_str());
            }
            PlanItem::Loop { loop_id } => {
                let is_around = pending.loop_path.iter().any(|frame| frame.loop_id == *loop_id);
                let is_out = !is_around && is_ruled_out(workflow, run_condition(workflow, loop_id), context);
                if !is_out && loops.insert(loop_id.as_str()) {
                    queue.extend(workflow.loop_by_id(loop_id).into_iter().flat_map(|owner| &owner.body));
                }
            }
        }
    }
    (steps, loops)
}

/// Steps and loops of the plan that were skipped because a deciding key was never set. Asked when
/// a run is complete. A condition that fails whatever an absent key becomes was decided without it.
pub(crate) fn never_decided<'a>(
    workflow: &'a CompiledWorkflow,
    context: &Context,
) -> Vec<(&'a str, Vec<&'a str>)> {
    let scope = ValueScope::new(context);
    let skipped = |condition: Option<&'a ConditionId>| -> Option<Vec<&'a str>> {
        let ConditionTest::Context { expr } = &workflow.condition(condition?)?.test else { return None };
        let is_absent = |key: &&str| context.get(key).is_none() && !is_asked_of_user(workflow, key);
        let absent: Vec<&str> = keys_of(expr).into_iter().filter(is_absent).collect();
        let is_undecided = !absent.is_empty() && !holds(expr, &scope) && possible(expr, &scope).holds;
        is_undecided.then_some(absent)
    };
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for item in &workflow.plan {
        let (id, condition) = match item {
            PlanItem::Step { step_id } => {
                (step_id.as_str(), workflow.step(step_id).and_then(|step| step.run_condition.as_ref()))
            }
            PlanItem::Loop { loop_id } => (loop_id.as_str(), run_condition(workflow, loop_id)),
        };
        for key in skipped(condition).unwrap_or_default() {
            found.entry(key).or_default().push(id);
        }
    }
    found.into_iter().collect()
}

fn run_condition<'a>(workflow: &'a CompiledWorkflow, loop_id: &LoopId) -> Option<&'a ConditionId> {
    workflow.loop_by_id(loop_id).and_then(|owner| owner.run_condition.as_ref())
}

/// Whether the key accepts a value. Case and surrounding space do not count, as in conditions.
pub(crate) fn allows(accepts: &AcceptedValues, value: &Value) -> bool {
    match (accepts, value) {
        (AcceptedValues::OneOf { values }, Value::String(text)) => {
            values.iter().any(|allowed| comparable_text(allowed) == comparable_text(text.trim()))
        }
        (AcceptedValues::Boolean, Value::Bool(_)) | (AcceptedValues::Number, Value::Number(_)) => true,
        (AcceptedValues::Text, Value::String(text)) => !text.trim().is_empty(),
        (AcceptedValues::List { members }, Value::Array(items)) => {
            let has = |item: &Value, name: &String| item.get(name).is_some_and(|value| !value.is_null());
            items.iter().all(|item| members.iter().all(|name| has(item, name)))
        }
        (
            AcceptedValues::OneOf { .. }
            | AcceptedValues::Boolean
            | AcceptedValues::Number
            | AcceptedValues::Text
            | AcceptedValues::List { .. },
            _,
        ) => false,
    }
}

/// Whether a loop that reads the key can be controlled by this value.
pub(crate) fn can_control(owner: &CompiledLoop, key: &str, value: &Value) -> bool {
    match &owner.control {
        LoopControl::ForEach { items, .. } => items != key || value.is_array(),
        LoopControl::For { count: ForCount::FromContext { context_key } } => {
            context_key != key || value.is_number()
        }
        LoopControl::For { count: ForCount::Fixed { .. } }
        | LoopControl::While { .. }
        | LoopControl::Until { .. } => true,
    }
}

/// Such as `small, medium or large`.
pub(crate) fn in_words(accepts: &AcceptedValues) -> String {
    match accepts {
        AcceptedValues::OneOf { values } => one_of(values),
        AcceptedValues::Boolean => "true or false".to_owned(),
        AcceptedValues::Number => "a number".to_owned(),
        AcceptedValues::Text => "a text".to_owned(),
        AcceptedValues::List { members } => list_in_words(members),
    }
}

fn list_in_words(members: &[String]) -> String {
    match members {
        [] => "a list".to_owned(),
        members => format!("a list of objects with {}", members.join(", ")),
    }
}

/// Such as ``compared with `small`, `large` ``.
pub(crate) fn read_in_words(reads: &Reads) -> String {
    match reads.kind {
        ReadKind::List => list_in_words(&reads.members),
        ReadKind::Number => "a number".to_owned(),
        ReadKind::Flag | ReadKind::Compared if reads.values.iter().all(Value::is_boolean) => {
            "true or false".to_owned()
        }
        ReadKind::Flag | ReadKind::Compared => {
            let values: Vec<String> =
                reads.values.iter().map(|value| format!("`{}`", shown(value))).collect();
            format!("compared with {}", values.join(", "))
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

fn one_of(values: &[String]) -> String {
    match values {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
