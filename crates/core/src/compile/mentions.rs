//! Which words the texts of a workflow contain: a name outside `{{}}` tells an agent about a key, too.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use workrail_model::assessment::ConsequenceEffect;
use workrail_model::compiled::{CompiledLoop, CompiledStep, Delegation, LoopControl, PromptBlocks, StepKind};

use super::source::Workflow;
use crate::condition::comparable_text;
use crate::render::template::{TemplatePart, parts};

/// The texts of a step in which variables are filled, each with its field.
pub(super) fn shown_texts(step: &CompiledStep) -> impl Iterator<Item = (&'static str, &str)> {
    let prompt = if step.prompt_blocks.is_some() { "promptBlocks" } else { "prompt" };
    let fragments = step.fragments.iter().map(|fragment| ("promptFragments", fragment.text.as_str()));
    let role = step.agent_role.iter().map(|role| ("agentRole", role.as_str()));
    let guidance = step.guidance.iter().map(|text| ("guidance", text.as_str()));
    let hints = step.hints.iter().map(|hint| ("output", hint.as_str()));
    let consequences = step.consequences.iter().map(|consequence| {
        let ConsequenceEffect::RequireFollowup { guidance } = &consequence.effect;
        ("assessmentConsequences", guidance.as_str())
    });
    let asked =
        step.user_dependencies.iter().map(|dependency| ("userDependencies", dependency.description.as_str()));
    let delegations: &[Delegation] = match &step.kind {
        StepKind::Parallel { delegations } => delegations,
        StepKind::Standard | StepKind::CapabilityProbe { .. } => &[],
    };
    let delegated = delegations.iter().flat_map(|delegation| {
        delegation
            .goal
            .iter()
            .chain(delegation.args.values())
            .map(|text| ("parallelDelegations", text.as_str()))
    });
    [("title", step.title.as_str()), (prompt, step.prompt.as_str())]
        .into_iter()
        .chain(fragments)
        .chain(role)
        .chain(guidance)
        .chain(hints)
        .chain(consequences)
        .chain(asked)
        .chain(delegated)
}

/// The texts of the workflow itself.
pub(super) fn shared_texts(source: &Workflow) -> impl Iterator<Item = &str> {
    let lists = source.meta_guidance.iter().chain(&source.preconditions).chain(&source.clarification_prompts);
    lists.map(String::as_str)
}

/// What the texts of a workflow mention. One pass looks for the names that a check needs; everything else is only
/// needed to explain a problem, and is collected then.
pub(super) struct Mentions<'a> {
    /// The requested names that are mentioned, and those that the workflow sets itself.
    pub(super) found: BTreeSet<&'a str>,
    texts: Vec<&'a str>,
    key_like: OnceCell<BTreeSet<&'a str>>,
    /// Every text, normalised as for comparison.
    lower_case: OnceCell<String>,
}

impl<'a> Mentions<'a> {
    /// Whether the name is mentioned; it must be one of the requested names.
    pub(super) fn has(&self, name: &str) -> bool {
        self.found.contains(name)
    }

    /// The words that look like keys and not like prose.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let all =
            self.key_like.get_or_init(|| self.texts.iter().flat_map(|text| prose_words(text)).collect());
        all.iter().chain(self.found.difference(all)).copied().filter(|word| {
            let mut rest = word.chars().skip(1);
            word.len() > 2 && rest.any(|c| c.is_ascii_uppercase() || c == '_')
        })
    }

    /// Whether any text contains the value.
    pub(super) fn announce(&self, value: &str) -> bool {
        self.lower_case.get_or_init(|| self.texts.join("\n").to_lowercase()).contains(&comparable_text(value))
    }
}

/// Which of the sought names are a word outside `{{}}`, a key that a step sets, or a loop variable.
pub(super) fn mentioned<'a>(
    source: &'a Workflow,
    steps: &'a [CompiledStep],
    loops: &'a [CompiledLoop],
    sought: &BTreeSet<&str>,
) -> Mentions<'a> {
    let mut found: BTreeSet<&str> = BTreeSet::from(["goal"]);
    for owner in loops {
        found.insert(&owner.iteration_var);
        match &owner.control {
            LoopControl::While { .. } | LoopControl::Until { .. } | LoopControl::For { .. } => {}
            LoopControl::ForEach { item_var, index_var, .. } => {
                found.extend([item_var.as_str(), index_var]);
            }
        }
    }
    let texts = all_texts(source, steps);
    for text in &texts {
        found.extend(prose_words(text).filter(|word| sought.contains(word)));
    }
    Mentions { found, texts, key_like: OnceCell::new(), lower_case: OnceCell::new() }
}

/// Every text that could tell an agent about a key or a value.
fn all_texts<'a>(source: &'a Workflow, steps: &'a [CompiledStep]) -> Vec<&'a str> {
    let mut texts = Vec::new();
    for step in steps {
        texts.extend(shown_texts(step).map(|(_, text)| text));
        if let Some(PromptBlocks { output_required, .. }) = &step.prompt_blocks {
            texts.extend(output_required.names());
        }
        let asked = step.user_dependencies.iter().filter_map(|dependency| dependency.context_key.as_ref());
        texts.extend(asked.chain(step.sets.keys()).map(|key| key.as_str()));
        texts.extend(step.functions.iter().map(|function| function.definition.as_str()));
    }
    texts.extend(shared_texts(source));
    texts.extend(source.functions.iter().map(|function| function.definition.as_str()));
    for assessment in &source.assessments {
        texts.push(assessment.purpose.as_str());
        texts
            .extend(assessment.dimensions.iter().flat_map(|dimension| &dimension.levels).map(String::as_str));
    }
    texts
}

/// The words of a text without the variables in it.
fn prose_words(text: &str) -> impl Iterator<Item = &str> {
    let (plain, mixed) = if text.contains("{{") { ("", text) } else { (text, "") };
    let around = parts(mixed).filter_map(|part| match part {
        TemplatePart::Text(plain) | TemplatePart::Other { source: plain } => Some(plain),
        TemplatePart::Variable { .. } => None,
    });
    words(plain).chain(around.flat_map(words))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

pub(super) fn has_word(text: &str, word: &str) -> bool {
    words(text).any(|other| other == word)
}
