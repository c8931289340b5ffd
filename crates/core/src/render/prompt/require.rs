//! What a step requires, in words: checks, contract, assessments, context keys, notes, people. The templates to fill
//! in are in the call at the end of the reply.

use serde_json::Value;
use workrail_model::approval::RequiredProof;
use workrail_model::assessment::ConsequenceEffect;
use workrail_model::compiled::{
    AssessmentDefinition, CompiledStep, CompiledWorkflow, Confirmation, EditRule, RequiredGrade, Requiredness,
};
use workrail_model::event::Context;
use workrail_model::limits::TITLE_BYTES_MAX;
use workrail_model::name::AssessmentName;
use workrail_model::preferences::Autonomy;
use workrail_model::public_url::PublicUrl;
use workrail_model::reason::NonAssumableChoiceKind;
use workrail_model::snapshot::PendingStep;
use workrail_model::text::truncate_with_marker;

use super::super::limited::{Full, LimitedText};
use super::super::template::fill;
use super::{Lifecycle, RenderMode, bullets};
use crate::agent_site::AgentSite;
use crate::builtins::{ASSESSMENT_KIND, LOOP_CONTROL_KIND, WORKFLOW_DIVERGENCE_KIND};
use crate::condition::ValueScope;
use crate::edits::AllowedEdits;
use crate::interpret::{AskedConfirmation, asked_confirmation, definitions, step_scope, wants};
use crate::secrets::is_secret;
use crate::{builtins, routing, skeleton};

pub(super) fn write(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    context: &Context,
    mode: RenderMode<'_>,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let scope = step_scope(workflow, pending, context);
    if let Some(criteria) = &step.criteria {
        // Braces in a pattern are what is checked, not variables.
        plain("**Your notes are checked:**", &wants(criteria), out)?;
    }
    if let Some(text) = step.edits.as_ref().and_then(|rule| edits(rule, context, mode.site)) {
        out.section(|out| out.push(&text))?;
    }
    if let Some(text) = checks(step, mode.site) {
        out.section(|out| out.push(&text))?;
    }
    if let Some(rule) = &step.evidence {
        out.section(|out| out.push(evidence(rule.min)))?;
    }
    contract(workflow, pending, step, out)?;
    definitions(workflow, step).try_for_each(|definition| assessment(step, definition, &scope, out))?;
    mentioned(workflow, step, mode.lifecycle, out)?;
    filled("**Hints for the output:**", &step.hints, &scope, out)?;
    if let Some(text) = notes(step, mode.lifecycle) {
        out.section(|out| out.push(text))?;
    }
    let heading = match mode.autonomy {
        Autonomy::Guided | Autonomy::FullAutoStopOnUserDeps => "**Only the user can give:**",
        Autonomy::FullAutoNeverStop => {
            "**Only the user can give (not awaited; what is missing is recorded as a gap):**"
        }
    };
    bullets(heading, &step.user_dependencies, out, |dependency, out| {
        fill(&dependency.description, &scope, out)?;
        if let Some(kind) = dependency.choice_kind {
            out.push(&format!(" ({})", not_yours(kind)))?;
        }
        match &dependency.context_key {
            Some(key) => out.push(&format!(" (send the answer as `context.{key}`)")),
            None => Ok(()),
        }
    })?;
    let asked = asked_confirmation(workflow, pending, context);
    let waits = mode.autonomy != Autonomy::FullAutoNeverStop;
    let approves = waits && asked == AskedConfirmation::Approval;
    match (people(asked, mode.autonomy), mode.site) {
        (None, _) => Ok(()),
        (Some(_), AgentSite::Remote { console }) if approves => {
            let text = approval_in_team_console(console, wants_passkey(step));
            out.section(|out| out.push(&text))
        }
        (Some(_), AgentSite::Local) if approves && wants_passkey(step) => {
            out.section(|out| out.push(WITH_PASSKEY))
        }
        (Some(text), AgentSite::Local | AgentSite::Remote { .. }) => out.section(|out| out.push(text)),
    }
}

/// Which files may be edited.
fn edits(rule: &EditRule, context: &Context, site: &AgentSite) -> Option<String> {
    let allowed = AllowedEdits::of(rule, context)?;
    let globs = allowed.globs().take(GLOBS_SHOWN_MAX).collect::<Vec<_>>().join("`, `");
    let more = match allowed.globs().count().saturating_sub(GLOBS_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    const NOT_COMPARED: &str = "Changes are not checked here: this server does not see your files";
    let (when_it_ends, when_the_step_ends) = match site {
        AgentSite::Local => ("Changes are checked when it ends", "Changes are checked when the step ends"),
        AgentSite::Remote { .. } => (NOT_COMPARED, NOT_COMPARED),
    };
    Some(match &allowed.declared {
        _ if globs.is_empty() => {
            format!("**Edits:** change no files of the repository in this step. {when_it_ends}.")
        }
        None => {
            format!("**Edits:** change only files that match `{globs}`{more} in this step. {when_it_ends}.")
        }
        Some(scope) => format!(
            "**Scope:** `{globs}`{more}. {when_the_step_ends}; if more has to change, send the longer list as `context.{}` and \
             say why.",
            scope.key
        ),
    })
}

/// A declared scope may be long.
const GLOBS_SHOWN_MAX: usize = 20;

/// What is run when the step is submitted.
fn checks(step: &CompiledStep, site: &AgentSite) -> Option<String> {
    let names: Vec<String> = step.checks.iter().map(|check| format!("`{}`", check.command)).collect();
    let (what, run) = match names.as_slice() {
        [] => return None,
        [one] => (format!("check {one}"), "It runs"),
        several => (format!("checks {}", several.join(", ")), "They run"),
    };
    Some(match site {
        AgentSite::Local => format!(
            "**Checked:** WorkRail runs the project's {what} when you submit this step. {run} on the files as they are \
             then; if one fails, the step is not complete."
        ),
        AgentSite::Remote { .. } => format!(
            "**Checks:** the project's {what} cannot run on this server, which does not see your files; the record says \
             so. Run them yourself if you can, and report the result in the notes."
        ),
    })
}

/// How well the result must be known.
fn evidence(min: RequiredGrade) -> &'static str {
    match min {
        RequiredGrade::Observed => {
            "**Evidence:** your word is not enough for this step. Do the work with tools that the host's hooks see."
        }
        RequiredGrade::Checked => {
            "**Evidence:** your word is not enough for this step. WorkRail checks the result when you submit it."
        }
    }
}

/// What the rest of the plan requires now: keys that decide, and gates ahead.
pub(super) fn write_ahead(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    context: &Context,
    out: &mut LimitedText,
) -> Result<(), Full> {
    keys(workflow, pending, step, context, out)?;
    match held_back(workflow, pending, context) {
        None => Ok(()),
        Some(text) => out.section(|out| out.push(&text)),
    }
}

/// Tells each earlier step not to do what a later gate asks approval for.
fn held_back(workflow: &CompiledWorkflow, pending: &PendingStep, context: &Context) -> Option<String> {
    let gate = routing::gates_ahead(workflow, pending, context).next()?;
    let title = truncate_with_marker(&gate.title, TITLE_BYTES_MAX);
    Some(format!("**Hold back:** do nothing yet that the later step \"{title}\" asks approval for."))
}

/// The approval text for a gate that requires a passkey.
const WITH_PASSKEY: &str = "**Approval:** submit this step's result; the user then approves exactly that with a \
                            passkey in the console (`workrail console`). Nothing else counts. Do not act on it until \
                            it is approved, and do not change the run's mode to get around it.";

/// The approval text for agents of a team's server.
fn approval_in_team_console(console: &PublicUrl, wants_passkey: bool) -> String {
    let (with, only) = match wants_passkey {
        true => (" with a passkey", " Nothing else counts."),
        false => ("", ""),
    };
    format!(
        "**Approval:** submit this step's result; an approver then approves exactly that{with} in the team's console \
         ({console}).{only} Do not act on it until it is approved, and do not change the run's mode to get around it."
    )
}

/// Whether the workflow itself asks for a passkey.
fn wants_passkey(step: &CompiledStep) -> bool {
    matches!(step.confirmation, Confirmation::Gate { proof: Some(RequiredProof::Passkey), .. })
}

/// What the step requires of people, worded for the mode: in a mode that does not wait, nothing asks to wait.
fn people(asked: AskedConfirmation, autonomy: Autonomy) -> Option<&'static str> {
    match (asked, autonomy) {
        (AskedConfirmation::Nothing, _) => None,
        (AskedConfirmation::Confirmation, Autonomy::Guided) => {
            Some("**Confirmation:** show the user the result and wait for their OK before you continue.")
        }
        (AskedConfirmation::Confirmation, Autonomy::FullAutoStopOnUserDeps | Autonomy::FullAutoNeverStop) => {
            Some(
                "**Confirmation:** not awaited in this mode. Write in the notes what you would have shown the user.",
            )
        }
        (AskedConfirmation::Approval, Autonomy::Guided | Autonomy::FullAutoStopOnUserDeps) => Some(
            "**Approval:** submit this step's result; the user then approves exactly that with `workrail approve`. Do \
             not act on it until it is approved. Do not run that command yourself, and do not change the run's mode to \
             get around it.",
        ),
        (AskedConfirmation::Approval, Autonomy::FullAutoNeverStop) => Some(
            "**Approval:** this step asks for one, but this mode does not wait: the missing approval is recorded as a \
             gap. Do not carry out the action; prepare it and say so in the notes.",
        ),
    }
}

/// The context keys that this step sets, and those that later steps read and that are still unset.
fn keys(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    context: &Context,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let scope = step_scope(workflow, pending, context);
    let lines = step.sets.iter().map(|(key, duty)| {
        let now = match context.get(key.as_str()).filter(|value| !value.is_null()) {
            Some(_) if is_secret(key.as_str()) => "; set".to_owned(),
            Some(value) => format!("; now {}", truncate_with_marker(&value.to_string(), VALUE_SHOWN_BYTES)),
            None => String::new(),
        };
        (format!("`context.{key}` ({}{now})", routing::in_words(&duty.accepts)), duty.description.as_deref())
    });
    // Only the author's text is a template: a value may contain braces of its own.
    bullets("**Set in this step:**", &lines.collect::<Vec<_>>(), out, |(line, meaning), out| {
        out.push(line)?;
        let Some(meaning) = meaning else { return Ok(()) };
        out.push(": ")?;
        fill(meaning, &scope, out)
    })?;
    let open = routing::open_keys(workflow, pending, context);
    if open.is_empty() {
        return Ok(());
    }
    let keys: Vec<String> =
        open.iter().map(|(key, reads)| format!("`{key}` ({})", routing::read_in_words(reads))).collect();
    out.section(|out| {
        out.push(&format!(
            "**Later steps depend on context keys that are not set yet:** {}. Send each in `context` when you know it.",
            keys.join(", ")
        ))
    })
}

/// A context value may be long; its beginning is enough to recognise it.
const VALUE_SHOWN_BYTES: usize = 60;

/// The templates of artifacts that the step's own words ask for besides what it requires; a divergence is offered once.
fn mentioned(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    lifecycle: Lifecycle,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let owed = step.output.as_ref().and_then(|output| workflow.contract(&output.contract_ref));
    let is_owed = |kind: &str| owed.is_some_and(|contract| contract.artifact_kind == kind);
    let is_named =
        |kind: &str| step.prompt.contains(kind) || step.guidance.iter().any(|line| line.contains(kind));
    let named = builtins::contracts().iter().filter(|contract| {
        let kind = contract.artifact_kind;
        kind != ASSESSMENT_KIND && is_named(kind) && !is_owed(kind)
    });
    let lines: Vec<String> = named
        .map(|contract| format!("`{}`: `{}`", contract.artifact_kind, skeleton::of_schema(&contract.schema)))
        .collect();
    plain("**Shapes of the artifacts named above (output.artifacts):**", &lines, out)?;
    if lifecycle != Lifecycle::Start || is_named(WORKFLOW_DIVERGENCE_KIND) {
        return Ok(());
    }
    let Some(contract) =
        builtins::contracts().iter().find(|contract| contract.artifact_kind == WORKFLOW_DIVERGENCE_KIND)
    else {
        return Ok(());
    };
    out.section(|out| {
        out.push(&format!(
            "If you depart from a step's instructions on purpose, say so with the artifact `{}`.",
            skeleton::of_schema(&contract.schema)
        ))
    })
}

/// Why a choice is not the agent's to make.
fn not_yours(kind: NonAssumableChoiceKind) -> &'static str {
    match kind {
        NonAssumableChoiceKind::PreferenceTradeoff => "the user's choice: it is a matter of preference",
        NonAssumableChoiceKind::ScopeBoundary => "the user's choice: it sets what belongs to the work",
        NonAssumableChoiceKind::IrreversibleAction => "the user's choice: it cannot be undone",
        NonAssumableChoiceKind::ExternalSideEffect => {
            "the user's choice: it has effects outside of the workspace"
        }
        NonAssumableChoiceKind::PolicyOrCompliance => "the user's choice: a policy is concerned",
    }
}

/// Authored lines, with their variables filled in.
fn filled(
    heading: &str,
    lines: &[String],
    scope: &ValueScope<'_>,
    out: &mut LimitedText,
) -> Result<(), Full> {
    bullets(heading, lines, out, |line, out| fill(line, scope, out))
}

fn plain(heading: &str, lines: &[String], out: &mut LimitedText) -> Result<(), Full> {
    bullets(heading, lines, out, |line, out| out.push(line))
}

fn contract(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let Some(output) = &step.output else { return Ok(()) };
    let Some(contract) = workflow.contract(&output.contract_ref) else { return Ok(()) };
    let must = match output.presence {
        Requiredness::Required => "This step must deliver",
        Requiredness::Optional => "This step may deliver",
    };
    let mut lines =
        vec![format!("{must} an artifact of kind `{}`: {}", contract.artifact_kind, contract.purpose)];
    let in_the_call = skeleton::artifact(step, contract);
    let mut may = optional_fields(&contract.schema);
    may.retain(|(name, _)| in_the_call.get(name).is_none());
    let may: Vec<String> = may.into_iter().map(|(_, shown)| shown).collect();
    if !may.is_empty() {
        lines.push(format!("Optional fields; omit what you do not have: {}", may.join("; ")));
    }
    let limits = list_limits(&contract.schema, "");
    if !limits.is_empty() {
        lines.push(format!("Item limits: {}", limits.join(", ")));
    }
    if contract.artifact_kind == LOOP_CONTROL_KIND
        && let Some(frame) = pending.loop_path.last()
    {
        lines.push(format!(
            "`continue` repeats the loop (its `loopId` is `{}`), `stop` ends it; this is pass {} of at most {}",
            frame.loop_id,
            u64::from(frame.iteration) + 1,
            workflow.loop_by_id(&frame.loop_id).map_or(0, |owner| owner.max_iterations)
        ));
    }
    let heading = match output.presence {
        Requiredness::Required => "**Output required (its shape is in the call below):**",
        Requiredness::Optional => {
            lines.push(format!("Shape: `{}`", skeleton::artifact(step, contract)));
            "**Output:**"
        }
    };
    plain(heading, &lines, out)
}

/// How many items each required list takes, including nested ones: the call shows one item of each.
fn list_limits(schema: &Value, inside: &str) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let of_field = |name: &str| {
        let field = &schema["properties"][name];
        let path = format!("{inside}{name}");
        let own = field["maxItems"].as_u64().map(|most| format!("`{path}` {most}"));
        let (inner, location) = match field["type"] == "array" {
            true => (&field["items"], format!("{path}[].")),
            false => (field, format!("{path}.")),
        };
        own.into_iter().chain(list_limits(inner, &location)).collect::<Vec<_>>()
    };
    required.flat_map(of_field).collect()
}

/// Includes those inside required lists and objects, as `checks[].command`; each with its shape.
fn optional_fields(schema: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect_optional(schema, "", &mut found);
    found
}

fn collect_optional(schema: &Value, inside: &str, found: &mut Vec<(String, String)>) {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if !is_required(name) {
            let path = format!("{inside}{name}");
            let shown = format!("`{path}`{}", optional_shape(field));
            found.push((path, shown));
        } else if field["type"] == "array" {
            collect_optional(&field["items"], &format!("{inside}{name}[]."), found);
        } else {
            collect_optional(field, &format!("{inside}{name}."), found);
        }
    }
}

fn optional_shape(field: &Value) -> String {
    let is_text = field["type"] == "string" && field.get("enum").is_none();
    let shape = match field["maxLength"].as_u64() {
        Some(most) if is_text => format!(" (text, at most {most} characters)"),
        None if is_text => " (text)".to_owned(),
        Some(_) | None => format!(" as `{}`", skeleton::of_schema(field)),
    };
    match field["maxItems"].as_u64() {
        Some(most) => format!("{shape}, at most {most}"),
        None => shape,
    }
}

fn assessment(
    step: &CompiledStep,
    definition: &AssessmentDefinition,
    scope: &ValueScope<'_>,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let mut lines = vec![format!("Judge: {}", definition.purpose)];
    for dimension in &definition.dimensions {
        let levels = dimension.levels.join(" | ");
        let optional = if dimension.required { "" } else { ", optional" };
        lines.push(format!("`{}` ({levels}{optional}): {}", dimension.id, dimension.purpose));
    }
    let is_own = |wanted: &Option<AssessmentName>| wanted.as_ref().is_none_or(|id| *id == definition.id);
    for consequence in step.consequences.iter().filter(|consequence| is_own(&consequence.for_assessment)) {
        let ConsequenceEffect::RequireFollowup { guidance } = &consequence.effect;
        // Stated before it is assessed: in a refusal it would come too late.
        lines.push(format!("With `{}` the step is not complete: {guidance}", consequence.any_equals_level));
    }
    lines.push(
        "A level may also be {\"level\": ..., \"rationale\": ...}; a rationale is cut at 512 bytes"
            .to_owned(),
    );
    filled(
        &format!("**Assessment required ({}; its shape is in the call below):**", definition.id),
        &lines,
        scope,
        out,
    )
}

fn notes(step: &CompiledStep, lifecycle: Lifecycle) -> Option<&'static str> {
    if !step.requires_notes() {
        let owes_artifacts = step.output.is_some() || !step.assessment_refs.is_empty();
        return (owes_artifacts && step.criteria.is_none())
            .then_some("**Notes:** optional; put what this step asks for besides the artifact there.");
    }
    Some(match lifecycle {
        Lifecycle::Start | Lifecycle::Rehydrate => {
            "**Notes required:** send `output.notesMarkdown`. They are the durable record that people read: what you \
             did in this step and which decisions you took, what you produced (files, commands, numbers), what is \
             open. This step only, not the ones before; 10 to 30 lines of Markdown."
        }
        Lifecycle::Advance => {
            "**Notes required:** send `output.notesMarkdown` about this step: done, produced, open."
        }
    })
}
