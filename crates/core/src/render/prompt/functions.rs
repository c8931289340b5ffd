//! The functions a step names, written out: an agent that lost the chat must still know what they mean.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::compiled::{CompiledStep, CompiledWorkflow, FunctionDefinition, FunctionScope};
use workrail_model::snapshot::PendingStep;
use workrail_model::text::truncate_with_marker;

/// The limit for all definitions of one step; those that do not fit are counted.
const FUNCTIONS_BYTES_MAX: usize = 8192;

pub(super) fn render(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
) -> Option<String> {
    let functions = referenced(workflow, pending, step);
    within(&functions, FUNCTIONS_BYTES_MAX).map(|text| format!("**Functions named in this step:**\n\n{text}"))
}

/// The functions that other steps name and the pending one does not: recovered notes may mention them.
pub(crate) fn of_others(
    workflow: &CompiledWorkflow,
    pending: Option<&PendingStep>,
    others: &[PendingStep],
    bytes_max: usize,
) -> Option<String> {
    let named = |at: &PendingStep| {
        workflow.step(&at.step_id).map(|step| referenced(workflow, at, step)).unwrap_or_default()
    };
    let mut known: BTreeSet<&str> =
        pending.map(named).unwrap_or_default().iter().map(|function| function.name.as_str()).collect();
    let mut functions: Vec<&FunctionDefinition> = Vec::new();
    for function in others.iter().flat_map(named) {
        if known.insert(&function.name) {
            functions.push(function);
        }
    }
    within(&functions, bytes_max)
}

/// Definitions written out, as many as fit; the others are counted.
fn within(functions: &[&FunctionDefinition], bytes_max: usize) -> Option<String> {
    let mut shown = Vec::new();
    let mut bytes = 0;
    let mut omitted = 0;
    for function in functions {
        let text = written(function);
        if shown.is_empty() && text.len() > bytes_max {
            shown.push(truncate_with_marker(&text, bytes_max).into_owned());
            bytes = bytes_max;
        } else if bytes + text.len() > bytes_max {
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
    Some(shown.join("\n\n"))
}

/// The named functions that are visible, innermost first, then by name; an inner one hides an outer one.
fn referenced<'w>(
    workflow: &'w CompiledWorkflow,
    pending: &PendingStep,
    step: &'w CompiledStep,
) -> Vec<&'w FunctionDefinition> {
    let mut levels: Vec<(FunctionScope, &[FunctionDefinition])> =
        vec![(FunctionScope::Step, &step.functions)];
    for frame in pending.loop_path.iter().rev() {
        if let Some(owner) = workflow.loop_by_id(&frame.loop_id) {
            levels.push((FunctionScope::Loop, &owner.functions));
        }
    }
    levels.push((FunctionScope::Workflow, &workflow.functions));
    let named = names_in(step, levels.iter().flat_map(|(_, functions)| functions.iter()));
    let mut found: Vec<&FunctionDefinition> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (level, functions) in levels {
        let own: BTreeMap<&str, &FunctionDefinition> = functions
            .iter()
            .filter(|function| function.scope.is_none_or(|scope| scope == level))
            .filter(|function| named.contains(function.name.as_str()))
            .map(|function| (function.name.as_str(), function))
            .collect();
        found.extend(own.into_iter().filter(|(name, _)| seen.insert(*name)).map(|(_, function)| function));
    }
    found
}

/// The names that the step refers to, calls, or contains in its texts. Each text is read once, however many functions
/// there are. A name that is also a common word counts only with parentheses or in backticks.
fn names_in<'s>(
    step: &'s CompiledStep,
    visible: impl Iterator<Item = &'s FunctionDefinition> + Clone,
) -> BTreeSet<&'s str> {
    let references = step.function_references.iter().map(String::as_str);
    let calls = step.function_calls.iter().map(|call| call.name.as_str());
    let mut named: BTreeSet<&str> = references.chain(calls).collect();
    let names: BTreeSet<&str> = visible.map(|function| function.name.as_str()).collect();
    if names.is_empty() {
        return named;
    }
    let guidance = step.guidance.iter().map(String::as_str);
    let fragments = step.fragments.iter().map(|fragment| fragment.text.as_str());
    for text in [step.prompt.as_str()].into_iter().chain(guidance).chain(fragments) {
        named.extend(names_of(text, &names));
    }
    named
}

/// The known names that a text contains as whole words.
fn names_of<'s>(text: &'s str, names: &BTreeSet<&'s str>) -> Vec<&'s str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let before = rest[..start].chars().next_back();
        let word = &rest[start..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let after = word[end..].chars().next();
        let is_marked = after == Some('(') || (before == Some('`') && after == Some('`'));
        if let Some(name) = names.get(&word[..end])
            && (is_marked || is_unmistakable(name))
        {
            found.push(*name);
        }
        rest = &word[end..];
    }
    found
}

/// Whether a name cannot be a word of a sentence.
fn is_unmistakable(name: &str) -> bool {
    name.chars().skip(1).any(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
}

fn written(function: &FunctionDefinition) -> String {
    let parameters: Vec<String> = function
        .parameters
        .iter()
        .map(
            |parameter| {
                if parameter.required { parameter.name.clone() } else { format!("{}?", parameter.name) }
            },
        )
        .collect();
    format!("`{}({})`: {}", function.name, parameters.join(", "), function.definition)
}
