//! The values that a step inside loops sees: the context overlaid with the loops' variables.

use serde_json::Value;
use workrail_model::compiled::{CompiledLoop, CompiledWorkflow, LoopControl};
use workrail_model::event::Context;
use workrail_model::snapshot::PendingStep;

use crate::condition::ValueScope;

/// The scope of a pending step; inner loops hide outer ones.
pub(crate) fn step_scope<'a>(
    workflow: &'a CompiledWorkflow,
    step: &PendingStep,
    context: &'a Context,
) -> ValueScope<'a> {
    let mut scope = ValueScope::new(context);
    for frame in &step.loop_path {
        if let Some(looped) = workflow.loop_by_id(&frame.loop_id) {
            overlay(&mut scope, looped, frame.iteration, context);
        }
    }
    scope
}

/// Overlays the scope with one loop's variables. Lists are read from the context of the current call.
pub(super) fn overlay<'a>(
    scope: &mut ValueScope<'a>,
    looped: &'a CompiledLoop,
    iteration: u32,
    context: &'a Context,
) {
    scope.set(&looped.iteration_var, Value::from(u64::from(iteration) + 1));
    match &looped.control {
        LoopControl::While { .. } | LoopControl::Until { .. } | LoopControl::For { .. } => {}
        LoopControl::ForEach { items, item_var, index_var } => {
            let item = context.get(items).and_then(|list| list.get(iteration as usize));
            scope.set_item(item_var, item, items);
            scope.set(index_var, Value::from(iteration));
        }
    }
}
