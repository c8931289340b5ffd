//! The text of a parallel step: what to hand to other agents, and what to do with the answers.

use std::collections::BTreeMap;

use workrail_model::compiled::{CompiledWorkflow, Delegation};

use crate::condition::{Scope, js_string};
use crate::interpret::condition_holds;

pub(super) fn render(workflow: &CompiledWorkflow, delegations: &[Delegation], scope: &Scope<'_>) -> String {
    let active: Vec<&Delegation> = delegations
        .iter()
        .filter(|own| own.run_condition.as_ref().is_none_or(|id| condition_holds(workflow, id, scope)))
        .collect();
    if active.is_empty() {
        return "None of this step's delegations applies here. There is nothing to hand out: say so in the notes and \
                continue."
            .to_owned();
    }
    let mut parts = vec![format!(
        "Hand the following {} to sub-agents, in parallel where you can; without sub-agents do them one after the \
         other yourself.",
        if active.len() == 1 { "task".to_owned() } else { format!("{} tasks", active.len()) }
    )];
    for (index, own) in active.iter().enumerate() {
        parts.push(section(index + 1, own, scope));
    }
    parts.push(
        "1. Start every task with exactly these inputs.\n2. Wait for all of them and read every answer.\n3. Report in \
         the notes what each one found, and what failed."
            .to_owned(),
    );
    parts.join("\n\n")
}

fn section(number: usize, own: &Delegation, scope: &Scope<'_>) -> String {
    let mut lines = vec![format!("### {number}. Workflow `{}`", own.workflow_id)];
    let goal = own.goal.clone().unwrap_or_else(|| match own.args.get("familyName") {
        Some(family) => format!("Cover the family `{family}`."),
        None => format!("Run `{}` with the inputs below.", own.workflow_id),
    });
    lines.push(format!("- Goal: {goal}"));
    if let Some(tier) = own.model_tier
        && let Ok(name) = serde_json::to_value(tier)
    {
        lines.push(format!("- Model: {}", js_string(Some(&name))));
    }
    if !own.allowed_tools.is_empty() {
        lines.push(format!("- Tools to keep to: {}", own.allowed_tools.join(", ")));
    }
    let inputs = inputs(own, scope);
    if !inputs.is_empty() {
        lines.push("- Inputs:".to_owned());
        lines.extend(inputs.iter().map(|(name, value)| format!("  - `{name}`: {value}")));
    }
    lines.join("\n")
}

/// Mapped context values, covered by the arguments.
fn inputs(own: &Delegation, scope: &Scope<'_>) -> BTreeMap<String, String> {
    let mut inputs = BTreeMap::new();
    for (parent, child) in &own.context_mapping {
        if let Some(value) = scope.get(parent).filter(|value| !value.is_null()) {
            inputs.insert(child.clone(), js_string(Some(value)).into_owned());
        }
    }
    inputs.extend(own.args.iter().map(|(name, value)| (name.clone(), value.clone())));
    inputs
}
