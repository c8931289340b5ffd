//! What differs between two versions of a step.

use workrail_model::compiled::{
    CompiledStep, CompiledWorkflow, Confirmation, ContextDuty, EditRule, NotesRule, OutputRequirement,
    Requiredness, StepKind,
};

use super::flow::only_in;
use super::{Changes, Presence, quoted};
use crate::compare::{DiffLine, text_lines};
use crate::discover::{condition_text, confirmation_text};
use crate::routing::in_words;

/// Adds every difference, and returns the prompt's lines.
pub(super) fn changes(
    (a, before): (&CompiledWorkflow, &CompiledStep),
    (b, own): (&CompiledWorkflow, &CompiledStep),
    named: &str,
    changes: &mut Changes,
) -> Vec<DiffLine> {
    let CompiledStep {
        // The two are paired by it.
        step_id: _,
        title,
        prompt,
        kind,
        prompt_blocks,
        fragments,
        agent_role,
        model_tier,
        guidance,
        hints,
        run_condition,
        confirmation,
        notes,
        output,
        criteria,
        assessment_refs,
        consequences,
        user_dependencies,
        // Compared key by key below.
        sets: _,
        edits,
        checks,
        evidence,
        functions,
        function_references,
        function_calls,
        metrics,
        provenance,
        refs,
    } = own;
    changes.of("title", &before.title, title, || {
        format!("{named} is now titled {} (was: {})", quoted(title), quoted(&before.title))
    });
    let condition = |workflow: &CompiledWorkflow, step: &CompiledStep| {
        step.run_condition.as_ref().map(|id| condition_text(workflow, id))
    };
    let (was, is) = (condition(a, before), run_condition.as_ref().map(|id| condition_text(b, id)));
    changes.of("runCondition", &was, &is, || runs_if(named, was.as_deref(), is.as_deref()));
    changes.of("output", &before.output, output, || artifact(named, before.output.as_ref(), output.as_ref()));
    changes.of("notes", &before.notes, notes, || match notes {
        NotesRule::Required => format!("{named} now requires notes"),
        NotesRule::Optional => format!("{named} no longer requires notes"),
    });
    changes.of("criteria", &before.criteria, criteria, || match (&before.criteria, criteria) {
        (None, _) => format!("{named} now checks its notes"),
        (_, None) => format!("{named} no longer checks its notes"),
        (Some(_), Some(_)) => format!("{named} checks its notes in another way"),
    });
    asked((a, &before.confirmation), (b, confirmation), named, changes);
    context(before, own, named, changes);
    changes.of("edits", &before.edits, edits, || match edits {
        None => format!("{named} no longer restricts edits"),
        Some(rule) => format!("{named} now allows {}", allowed_edits(rule)),
    });
    changes.by_name(
        "checks",
        (&before.checks, checks),
        |item| item.command.to_string(),
        |presence, name| match presence {
            Presence::OnlyB => format!("{named} now runs the check `{name}`"),
            Presence::OnlyA => format!("{named} no longer runs the check `{name}`"),
            Presence::Both => format!("{named} runs the check `{name}` in another way"),
        },
    );
    changes.of("evidence", &before.evidence, evidence, || match evidence {
        None => format!("{named} no longer asks for evidence"),
        Some(rule) => format!("{named} now asks for evidence that is at least `{}`", rule.min.as_str()),
    });
    changes.by_name(
        "userDependencies",
        (&before.user_dependencies, user_dependencies),
        |item| item.description.clone(),
        |presence, text| match presence {
            Presence::OnlyB => format!("{named} now needs from the user: {}", quoted(text)),
            Presence::OnlyA => format!("{named} no longer needs from the user: {}", quoted(text)),
            Presence::Both => format!("{named} needs from the user in another way: {}", quoted(text)),
        },
    );
    let names = |own: &[workrail_model::name::AssessmentName]| {
        own.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (was, is) = (names(&before.assessment_refs), names(assessment_refs));
    for name in only_in(&is, &was) {
        changes.push(
            "assessmentRefs",
            &None,
            &Some(&name),
            format!("{named} now gives the assessment `{name}`"),
        );
    }
    for name in only_in(&was, &is) {
        let words = format!("{named} no longer gives the assessment `{name}`");
        changes.push("assessmentRefs", &Some(&name), &None, words);
    }
    changes.of("consequences", &before.consequences, consequences, || {
        format!("{named} has other consequences of its assessments")
    });
    delegated((&before.kind, kind), named, changes);
    changes.by_name(
        "fragments",
        (&before.fragments, fragments),
        |item| item.id.clone(),
        |presence, id| match presence {
            Presence::OnlyB => format!("{named} has a new prompt fragment `{id}`"),
            Presence::OnlyA => format!("{named} lost the prompt fragment `{id}`"),
            Presence::Both => format!("{named} has another text or condition in the prompt fragment `{id}`"),
        },
    );
    changes.of("agentRole", &before.agent_role, agent_role, || match agent_role {
        Some(role) => format!("{named} now gives the agent the role {}", quoted(role)),
        None => format!("{named} no longer gives the agent a role"),
    });
    changes
        .of("modelTier", &before.model_tier, model_tier, || format!("{named} asks for another model tier"));
    changes.of("guidance", &before.guidance, guidance, || format!("{named} gives other guidance"));
    changes.of("hints", &before.hints, hints, || format!("{named} gives other hints on its output"));
    changes.by_name(
        "functions",
        (&before.functions, functions),
        |item| item.name.clone(),
        |presence, name| function(named, presence, name),
    );
    changes.of("functionReferences", &before.function_references, function_references, || {
        format!("{named} uses other functions")
    });
    changes.of("functionCalls", &before.function_calls, function_calls, || {
        format!("{named} calls functions in another way")
    });
    changes.of("metrics", &before.metrics, metrics, || format!("{named} reports other metrics"));
    changes.of("provenance", &before.provenance, provenance, || {
        format!("{named} has another origin (author, template or feature)")
    });
    changes.of("refs", &before.refs, refs, || format!("{named} includes other snippets"));
    let lines = text_lines(&before.prompt, prompt);
    if before.prompt == *prompt {
        changes.of("promptBlocks", &before.prompt_blocks, prompt_blocks, || {
            format!("{named} has the same prompt from other blocks")
        });
    } else {
        let count = |is: fn(&DiffLine) -> bool| lines.iter().filter(|line| is(line)).count();
        let added = count(|line| matches!(line, DiffLine::B { .. }));
        let removed = count(|line| matches!(line, DiffLine::A { .. }));
        let words = match lines.contains(&DiffLine::OnlyLineEnds) {
            true => format!("{named} has a prompt with other line ends"),
            false => format!("{named} has a different prompt (+{added} -{removed} lines)"),
        };
        changes.push("prompt", &None::<String>, &None, words);
    }
    lines
}

/// What a new step asks for.
pub(super) fn demands(workflow: &CompiledWorkflow, own: &CompiledStep, named: &str, changes: &mut Changes) {
    if let Some(id) = &own.run_condition {
        let text = condition_text(workflow, id);
        changes.push("runCondition", &None, &Some(&text), runs_if(named, None, Some(&text)));
    }
    if own.output.is_some() {
        changes.push("output", &None, &own.output, artifact(named, None, own.output.as_ref()));
    }
    let asks = confirmation_text(workflow, &own.confirmation);
    if let Some(text) = &asks {
        changes.push("confirmation", &None, &Some(&own.confirmation), format!("{named}: {text}"));
    }
}

pub(super) fn runs_if(named: &str, was: Option<&str>, is: Option<&str>) -> String {
    match (was, is) {
        (None, Some(is)) => format!("{named} now runs only if {is}"),
        (Some(was), None) => format!("{named} now always runs (was: only if {was})"),
        (Some(was), Some(is)) => format!("{named} now runs only if {is} (was: {was})"),
        (None, None) => format!("{named} always runs"),
    }
}

pub(super) fn function(named: &str, presence: Presence, name: &str) -> String {
    match presence {
        Presence::OnlyB => format!("{named} declares the new function `{name}`"),
        Presence::OnlyA => format!("{named} no longer declares the function `{name}`"),
        Presence::Both => format!("{named} declares the function `{name}` in another way"),
    }
}

fn artifact(named: &str, was: Option<&OutputRequirement>, is: Option<&OutputRequirement>) -> String {
    let now = |requirement: &OutputRequirement| match requirement.presence {
        Requiredness::Required => format!("now requires an artifact (`{}`)", requirement.contract_ref),
        Requiredness::Optional => format!("now takes an optional artifact (`{}`)", requirement.contract_ref),
    };
    match (was, is) {
        (_, None) => {
            let contract =
                was.map_or(String::new(), |requirement| format!(" (`{}`)", requirement.contract_ref));
            format!("{named} no longer requires an artifact{contract}")
        }
        (Some(was), Some(is)) if was.contract_ref != is.contract_ref => {
            format!("{named} {} instead of `{}`", now(is), was.contract_ref)
        }
        (_, Some(is)) => format!("{named} {}", now(is)),
    }
}

fn asked(
    (a, was): (&CompiledWorkflow, &Confirmation),
    (b, is): (&CompiledWorkflow, &Confirmation),
    named: &str,
    changes: &mut Changes,
) {
    let (text_a, text_b) = (confirmation_text(a, was), confirmation_text(b, is));
    changes.of("confirmation", &text_a, &text_b, || match (&text_a, &text_b) {
        (_, Some(now)) => format!("before the run continues after {named}, {now}"),
        (Some(before), None) => format!("the run continues after {named} without asking (was: {before})"),
        (None, None) => format!("{named} asks nobody"),
    });
}

/// Context keys that the step sets.
fn context(before: &CompiledStep, own: &CompiledStep, named: &str, changes: &mut Changes) {
    let takes = |duty: &ContextDuty| in_words(&duty.accepts);
    for (key, duty) in &own.sets {
        match before.sets.get(key) {
            None => {
                let words = format!("{named} now sets the context key `{key}` ({})", takes(duty));
                changes.push("sets", &None, &Some(duty), words);
            }
            Some(was) => changes.of("sets", was, duty, || match takes(was) == takes(duty) {
                true => format!("{named} describes the context key `{key}` in other words"),
                false => format!("{named} now sets `{key}` to {} (was: {})", takes(duty), takes(was)),
            }),
        }
    }
    for (key, was) in before.sets.iter().filter(|(key, _)| !own.sets.contains_key(*key)) {
        changes.push("sets", &Some(was), &None, format!("{named} no longer sets the context key `{key}`"));
    }
}

fn delegated((was, is): (&StepKind, &StepKind), named: &str, changes: &mut Changes) {
    match (was, is) {
        (StepKind::Parallel { delegations: was }, StepKind::Parallel { delegations: is }) => {
            changes.by_name(
                "kind",
                (was, is),
                |item| item.workflow_id.clone(),
                |presence, id| match presence {
                    Presence::OnlyB => format!("{named} now delegates to `{id}`"),
                    Presence::OnlyA => format!("{named} no longer delegates to `{id}`"),
                    Presence::Both => format!("{named} delegates to `{id}` in another way"),
                },
            );
        }
        (
            StepKind::Standard | StepKind::Parallel { .. } | StepKind::CapabilityProbe { .. },
            StepKind::Standard | StepKind::Parallel { .. } | StepKind::CapabilityProbe { .. },
        ) => changes.of("kind", was, is, || format!("{named} is another kind of step")),
    }
}

fn allowed_edits(rule: &EditRule) -> String {
    let own = rule.allow.join(", ");
    match (&rule.scope, own.is_empty()) {
        (None, true) => "no edits".to_owned(),
        (None, false) => format!("only edits of {own}"),
        (Some(key), true) => format!("only edits of the files in `context.{key}`"),
        (Some(key), false) => format!("only edits of {own} and of the files in `context.{key}`"),
    }
}
