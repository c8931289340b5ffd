//! The functions a step names, written out: an agent that lost the chat must still know what they mean.

use std::collections::BTreeMap;

use workrail_model::compiled::{CompiledStep, CompiledWorkflow, FunctionDefinition, FunctionScope};
use workrail_model::snapshot::PendingStep;
use workrail_model::text::truncate_with_marker;

/// All definitions of one step together; what does not fit is counted.
const FUNCTIONS_BYTES_MAX: usize = 8192;

pub(super) fn render(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
) -> Option<String> {
    let mut shown = Vec::new();
    let mut bytes = 0;
    let mut omitted = 0;
    for function in referenced(workflow, pending, step) {
        let text = written(function);
        if shown.is_empty() && text.len() > FUNCTIONS_BYTES_MAX {
            shown.push(truncate_with_marker(&text, FUNCTIONS_BYTES_MAX).into_owned());
            bytes = FUNCTIONS_BYTES_MAX;
        } else if bytes + text.len() > FUNCTIONS_BYTES_MAX {
            omitted += 1;
        } else {
            bytes += text.len();
            shown.push(text);
        }
    }
    if shown.is_empty() {
        return None;
    }
    if omitted > 0 {
        shown.push(format!("Omitted {omitted} function definitions."));
    }
    Some(format!("**Functions named in this step:**\n\n{}", shown.join("\n\n")))
}

/// The named functions that are visible, innermost first, then by name; an inner one hides an outer one.
fn referenced<'w>(
    workflow: &'w CompiledWorkflow,
    pending: &PendingStep,
    step: &'w CompiledStep,
) -> Vec<&'w FunctionDefinition> {
    let named = |name: &str| {
        step.function_references.iter().any(|own| own == name)
            || step.function_calls.iter().any(|call| call.name == name)
            || step.prompt.contains(&format!("{name}()"))
    };
    let mut levels: Vec<(FunctionScope, &[FunctionDefinition])> =
        vec![(FunctionScope::Step, &step.functions)];
    for frame in pending.loop_path.iter().rev() {
        if let Some(owner) = workflow.loop_of(&frame.loop_id) {
            levels.push((FunctionScope::Loop, &owner.functions));
        }
    }
    levels.push((FunctionScope::Workflow, &workflow.functions));
    let mut found: Vec<&FunctionDefinition> = Vec::new();
    for (level, functions) in levels {
        let own: BTreeMap<&str, &FunctionDefinition> = functions
            .iter()
            .filter(|function| function.scope.is_none_or(|scope| scope == level) && named(&function.name))
            .map(|function| (function.name.as_str(), function))
            .collect();
        for (name, function) in own {
            if !found.iter().any(|earlier| earlier.name == name) {
                found.push(function);
            }
        }
    }
    found
}

fn written(function: &FunctionDefinition) -> String {
    let parameters: Vec<String> = function
        .parameters
        .iter()
        .map(|own| if own.required { own.name.clone() } else { format!("{}?", own.name) })
        .collect();
    format!("`{}({})`: {}", function.name, parameters.join(", "), function.definition)
}
