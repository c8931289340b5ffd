//! Which steps and loops were added, removed, moved or changed, in the order of the plan.

use std::collections::{BTreeMap, BTreeSet};

use similar::{Algorithm, DiffOp, capture_diff_slices};
use workrail_model::compiled::{CompiledLoop, CompiledStep, CompiledWorkflow, PlanItem};

use super::{Changes, PartKind, Presence, StepDiff, quoted, step};
use crate::discover::{condition_text, repeats_text};

/// A step or a loop of the plan.
#[derive(Clone, Copy)]
enum PlanPart<'w> {
    Step(&'w CompiledStep),
    Loop(&'w CompiledLoop),
}

struct PlanPartPosition<'w> {
    key: (PartKind, String),
    part: PlanPart<'w>,
    /// The loop that contains it.
    inside: Option<String>,
    /// What precedes it in the same list.
    after: Option<String>,
}

impl PlanPart<'_> {
    fn kind(self) -> PartKind {
        match self {
            Self::Step(_) => PartKind::Step,
            Self::Loop(_) => PartKind::Loop,
        }
    }

    fn id(self) -> String {
        match self {
            Self::Step(step) => step.step_id.to_string(),
            Self::Loop(own) => own.loop_id.to_string(),
        }
    }

    fn title(self) -> String {
        match self {
            Self::Step(step) => step.title.clone(),
            Self::Loop(own) => own.title.clone(),
        }
    }

    /// "step `verify`".
    fn named(self) -> String {
        match self {
            Self::Step(step) => format!("step `{}`", step.step_id),
            Self::Loop(own) => format!("loop `{}`", own.loop_id),
        }
    }
}

pub(super) fn parts(a: &CompiledWorkflow, b: &CompiledWorkflow) -> Vec<StepDiff> {
    let (placed_a, placed_b) = (placed(a), placed(b));
    let by_key = |list: &'_ [PlanPartPosition<'_>]| -> BTreeMap<(PartKind, String), usize> {
        list.iter().enumerate().map(|(position, part)| (part.key.clone(), position)).collect()
    };
    let (known_a, known_b) = (by_key(&placed_a), by_key(&placed_b));
    let keys = |list: &[PlanPartPosition<'_>]| list.iter().map(|part| part.key.clone()).collect::<Vec<_>>();
    let (keys_a, keys_b) = (keys(&placed_a), keys(&placed_b));
    let mut found = Vec::new();
    for operation in capture_diff_slices(Algorithm::Myers, &keys_a, &keys_b) {
        let is_moved = !matches!(operation, DiffOp::Equal { .. });
        for part in &placed_a[operation.old_range()] {
            if !known_b.contains_key(&part.key) {
                found.push(removed(part));
            }
        }
        for part in &placed_b[operation.new_range()] {
            match known_a.get(&part.key).map(|position| &placed_a[*position]) {
                None => found.push(added(b, part)),
                Some(before) => found.extend(changed((a, before), (b, part), is_moved)),
            }
        }
    }
    found
}

fn placed(workflow: &CompiledWorkflow) -> Vec<PlanPartPosition<'_>> {
    let mut found = Vec::new();
    walk(workflow, &workflow.plan, None, &mut found);
    found
}

fn walk<'w>(
    workflow: &'w CompiledWorkflow,
    items: &[PlanItem],
    inside: Option<&str>,
    found: &mut Vec<PlanPartPosition<'w>>,
) {
    let mut after = None;
    for item in items {
        let part = match item {
            PlanItem::Step { step_id } => workflow.step(step_id).map(PlanPart::Step),
            PlanItem::Loop { loop_id } => workflow.loop_by_id(loop_id).map(PlanPart::Loop),
        };
        let Some(part) = part else { continue };
        let key = (part.kind(), part.id());
        found.push(PlanPartPosition { key, part, inside: inside.map(str::to_owned), after: after.take() });
        after = Some(part.named());
        match part {
            PlanPart::Step(_) => {}
            // Each loop occurs only once, so this ends.
            PlanPart::Loop(own) => walk(workflow, &own.body, Some(own.loop_id.as_str()), found),
        }
    }
}

/// "after step `a`", "at the start of loop `b`".
fn position_text(position: &PlanPartPosition<'_>) -> String {
    match (&position.after, &position.inside) {
        (Some(after), _) => format!("after {after}"),
        (None, Some(inside)) => format!("at the start of loop `{inside}`"),
        (None, None) => "at the start".to_owned(),
    }
}

fn draft(position: &PlanPartPosition<'_>, presence: Presence, changes: Changes) -> StepDiff {
    StepDiff {
        id: position.part.id(),
        title: position.part.title(),
        kind: position.part.kind(),
        presence,
        changes: changes.found,
        prompt: Vec::new(),
    }
}

fn removed(position: &PlanPartPosition<'_>) -> StepDiff {
    let mut changes = Changes::new();
    let words = format!("{} ({}) was removed", position.part.named(), quoted(&position.part.title()));
    changes.push("plan", &Some(position.part.id()), &None, words);
    draft(position, Presence::OnlyA, changes)
}

fn added(workflow: &CompiledWorkflow, position: &PlanPartPosition<'_>) -> StepDiff {
    let mut changes = Changes::new();
    let named = position.part.named();
    let words = format!("{named} ({}) is new, {}", quoted(&position.part.title()), position_text(position));
    changes.push("plan", &None, &Some(position.part.id()), words);
    match position.part {
        PlanPart::Step(part) => step::demands(workflow, part, &named, &mut changes),
        PlanPart::Loop(part) => {
            let words = format!("{named} repeats {}", repeats_text(workflow, part));
            changes.push("control", &None, &Some(&part.control), words);
        }
    }
    draft(position, Presence::OnlyB, changes)
}

fn changed(
    (a, before): (&CompiledWorkflow, &PlanPartPosition<'_>),
    (b, own): (&CompiledWorkflow, &PlanPartPosition<'_>),
    is_moved: bool,
) -> Option<StepDiff> {
    let named = own.part.named();
    let mut changes = Changes::new();
    if is_moved || before.inside != own.inside {
        let from = (&before.inside, &before.after);
        changes.push(
            "plan",
            &from,
            &(&own.inside, &own.after),
            format!("{named} moved: it is now {}", position_text(own)),
        );
    }
    let mut prompt = Vec::new();
    match (before.part, own.part) {
        (PlanPart::Step(before), PlanPart::Step(own)) => {
            prompt = step::changes((a, before), (b, own), &named, &mut changes);
        }
        (PlanPart::Loop(before), PlanPart::Loop(own)) => {
            loop_changes((a, before), (b, own), &named, &mut changes)
        }
        // The kind is part of the key.
        (PlanPart::Step(_), PlanPart::Loop(_)) | (PlanPart::Loop(_), PlanPart::Step(_)) => {}
    }
    (!changes.found.is_empty()).then(|| StepDiff { prompt, ..draft(own, Presence::Both, changes) })
}

fn loop_changes(
    (a, before): (&CompiledWorkflow, &CompiledLoop),
    (b, own): (&CompiledWorkflow, &CompiledLoop),
    named: &str,
    changes: &mut Changes,
) {
    let CompiledLoop {
        // The ids are the same; the parts of the body are compared one by one.
        loop_id: _,
        body: _,
        title,
        control: _,
        max_iterations: _,
        on_limit: _,
        iteration_var,
        run_condition,
        functions,
    } = own;
    changes.of("title", &before.title, title, || format!("{named} is now titled {}", quoted(title)));
    let (was, is) = (repeats_text(a, before), repeats_text(b, own));
    changes.of("control", &was, &is, || format!("{named} now repeats {is} (was: {was})"));
    changes.of("iterationVar", &before.iteration_var, iteration_var, || {
        format!("{named} now counts its passes in `{iteration_var}` (was: `{}`)", before.iteration_var)
    });
    let text = |workflow: &CompiledWorkflow, own: &CompiledLoop| {
        own.run_condition.as_ref().map(|id| condition_text(workflow, id))
    };
    let (was, is) = (text(a, before), run_condition.as_ref().map(|id| condition_text(b, id)));
    changes.of("runCondition", &was, &is, || step::runs_if(named, was.as_deref(), is.as_deref()));
    changes.by_name(
        "functions",
        (&before.functions, functions),
        |item| item.name.clone(),
        |presence, name| step::function(named, presence, name),
    );
}

/// Names that only the first list has.
pub(super) fn only_in(of: &[String], other: &[String]) -> Vec<String> {
    let known: BTreeSet<&String> = other.iter().collect();
    of.iter().filter(|item| !known.contains(item)).cloned().collect()
}
