//! The text of a parallel step: what to delegate to other agents, and what to do with the answers.

use std::collections::BTreeMap;

use serde_json::Value;
use workrail_model::compiled::{CompiledWorkflow, Delegation};
use workrail_model::reply::STATE_TOKEN_MARKER;
use workrail_model::tool::ToolName;

use super::super::limited::{Full, LimitedText};
use super::super::template::fill;
use super::{ParentToken, RenderMode};
use crate::condition::ValueScope;
use crate::interpret::holds_or_is_unknown;

pub(super) fn write(
    workflow: &CompiledWorkflow,
    delegations: &[Delegation],
    scope: &ValueScope<'_>,
    mode: RenderMode<'_>,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let active: Vec<&Delegation> = delegations
        .iter()
        .filter(|delegation| {
            delegation.run_condition.as_ref().is_none_or(|id| holds_or_is_unknown(workflow, id, scope))
        })
        .collect();
    if active.is_empty() {
        return out.push("None of this step's delegations applies here. Say so in the notes and continue.");
    }
    let (task, calls) = match active.len() {
        1 => ("this task to a subagent".to_owned(), "Start it"),
        count => (format!("these {count} tasks to subagents, in parallel"), "Start them all in one response"),
    };
    out.push(&format!(
        "Hand {task}. {calls} with your environment's subagent tool (`Task` in many). Each subagent begins with the \
         call given below, which makes its run part of this one, follows that run to its end, and reports its result. \
         Do not make those calls yourself while subagents are available. Without such a tool, do the work yourself, \
         one task after the other, and say so in the notes."
    ))?;
    for (index, own) in active.iter().enumerate() {
        out.push("\n\n")?;
        section(index + 1, own, scope, mode.parent, out)?;
    }
    out.push(
        "\n\n1. Give every subagent its goal and exactly its call. One without WorkRail's tools gets the goal and the \
         inputs instead.\n2. Wait for all of them and read every answer. Results of finished runs are also shown when \
         you continue.\n3. Report in the notes what each one found, and what failed.",
    )
}

fn section(
    number: usize,
    own: &Delegation,
    scope: &ValueScope<'_>,
    parent: ParentToken,
    out: &mut LimitedText,
) -> Result<(), Full> {
    out.push(&format!("### {number}. Workflow `{}`\n- Goal: ", own.workflow_id))?;
    match (&own.goal, own.args.get("familyName")) {
        (Some(goal), _) => fill(goal, scope, out)?,
        (None, Some(family)) => {
            out.push("Cover the family `")?;
            fill(family, scope, out)?;
            out.push("`.")?;
        }
        (None, None) => out.push(&format!("Run `{}` with the inputs below.", own.workflow_id))?,
    }
    if let Some(tier) = own.model_tier {
        out.push("\n- Model: ")?;
        out.push(tier.as_str())?;
    }
    if !own.allowed_tools.is_empty() {
        out.push("\n- Tools to keep to: ")?;
        out.push(&own.allowed_tools.join(", "))?;
    }
    let inputs = inputs(own, scope);
    if !inputs.is_empty() {
        out.push("\n- Inputs:")?;
    }
    for (name, input) in inputs {
        out.push(&format!("\n  - `{name}`: "))?;
        match input {
            DelegationInput::Value { variable, value } => out.push_value(variable, value)?,
            DelegationInput::Argument(text) => fill(text, scope, out)?,
        }
    }
    let tool = ToolName::StartWorkflow;
    out.push(&format!(
        "\n- Call: `{tool}` with {{\"workflowId\": \"{}\", \"goal\": <its goal>, \"parent\": \"",
        own.workflow_id
    ))?;
    match parent {
        ParentToken::Placeholder => out.push("<stateToken of this step>")?,
        ParentToken::Marker => out.push_marker(STATE_TOKEN_MARKER)?,
    }
    let names: Vec<String> = inputs_of(own).map(|name| format!("\"{name}\": <its input>")).collect();
    let context =
        if names.is_empty() { String::new() } else { format!(", \"context\": {{{}}}", names.join(", ")) };
    out.push(&format!("\"{context}}}"))
}

fn inputs_of(delegation: &Delegation) -> impl Iterator<Item = &str> {
    let mapped = delegation.context_mapping.values().filter(|name| !delegation.args.contains_key(*name));
    mapped.chain(delegation.args.keys()).map(String::as_str)
}

enum DelegationInput<'a> {
    Value { variable: &'a str, value: &'a Value },
    Argument(&'a str),
}

/// Mapped context values, overridden by the arguments.
fn inputs<'a>(
    delegation: &'a Delegation,
    scope: &'a ValueScope<'_>,
) -> BTreeMap<&'a str, DelegationInput<'a>> {
    let mut inputs = BTreeMap::new();
    for (parent, child) in &delegation.context_mapping {
        if let Some(value) = scope.get(parent).filter(|value| !value.is_null()) {
            inputs.insert(child.as_str(), DelegationInput::Value { variable: parent, value });
        }
    }
    inputs.extend(
        delegation.args.iter().map(|(name, value)| (name.as_str(), DelegationInput::Argument(value))),
    );
    inputs
}
