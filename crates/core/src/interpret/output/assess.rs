//! Assessments: which levels were given, whether they are allowed, and their consequences (G42).

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use workrail_model::assessment::{AssessedDimension, ConsequenceEffect, LevelMatch};
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::compiled::{AssessmentDefinition, CompiledStep, CompiledWorkflow, Dimension};
use workrail_model::name::{AssessmentName, ContractRef};
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::text::BoundedText;

use super::super::Finding;
use super::{AcceptedAssessment, AppliedConsequence, OutputCheck, invalid, output_finding, valid};
use crate::builtins::ASSESSMENT_KIND;
use crate::condition::ValueScope;
use crate::contract::artifact_kind;
use crate::render::template::filled;
use crate::skeleton;

pub(crate) const ASSESSMENT_CONTRACT: &str = "wr.contracts.assessment";

/// More unknown names than this are not worth reading at once.
const UNKNOWN_SHOWN_MAX: usize = 8;

pub(super) fn check(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    artifacts: &[Value],
    check: &mut OutputCheck,
) {
    let submitted: Vec<&Value> =
        artifacts.iter().filter(|artifact| artifact_kind(artifact) == ASSESSMENT_KIND).collect();
    // With an output contract, the contract is what the step requires; an assessment sent with it still counts.
    if step.assessment_refs.is_empty() || (submitted.is_empty() && step.output.is_some()) {
        return;
    }
    let Ok(contract_ref) = ContractRef::parse(ASSESSMENT_CONTRACT) else { return };
    let several = step.assessment_refs.len() > 1;
    let mut missing = Vec::new();
    let mut issues = Vec::new();
    let mut accepted = Vec::new();
    for definition in definitions(workflow, step) {
        let Some(artifact) = artifact_for(&submitted, definition, several) else {
            missing.push(format!("no `{ASSESSMENT_KIND}` artifact for `{}`", definition.id));
            continue;
        };
        match judge(definition, artifact) {
            Ok(assessment) => accepted.push(assessment),
            Err(found) => issues.extend(found),
        }
    }
    if missing.is_empty() && issues.is_empty() {
        check.validations.push(valid(&contract_ref));
        check.assessments = accepted;
        return;
    }
    let violation = if issues.is_empty() {
        ContractViolation::MissingRequiredOutput
    } else {
        ContractViolation::InvalidRequiredOutput
    };
    missing.append(&mut issues);
    let message = format!("The assessment is not complete: {}.", missing.join("; "));
    check.validations.push(invalid(&contract_ref, &missing));
    // All assessments that the step requires: a retry sends them together.
    let shapes = skeleton::assessments(workflow, step);
    check.findings.push(output_finding(violation, &contract_ref, &message, &shapes));
}

/// Whether this artifact is an assessment that the step requires but does not accept.
pub(super) fn is_at_fault(workflow: &CompiledWorkflow, step: &CompiledStep, artifact: &Value) -> bool {
    if artifact_kind(artifact) != ASSESSMENT_KIND || step.assessment_refs.is_empty() {
        return false;
    }
    let several = step.assessment_refs.len() > 1;
    let own = definitions(workflow, step)
        .find(|definition| artifact_for(&[artifact], definition, several).is_some());
    own.is_none_or(|definition| judge(definition, artifact).is_err())
}

/// The assessments that a step requires, each once, however often an imported workflow names it.
pub(crate) fn definitions<'a>(
    workflow: &'a CompiledWorkflow,
    step: &'a CompiledStep,
) -> impl Iterator<Item = &'a AssessmentDefinition> {
    let mut seen = BTreeSet::new();
    step.assessment_refs
        .iter()
        .filter(move |id| seen.insert(id.as_str()))
        .filter_map(|id| workflow.assessment(id))
}

/// With one reference the first assessment is meant; with several, each is found by its id.
fn artifact_for<'a>(
    submitted: &[&'a Value],
    definition: &AssessmentDefinition,
    several: bool,
) -> Option<&'a Value> {
    let id = |artifact: &Value| artifact.get("assessmentId").and_then(Value::as_str).map(str::to_owned);
    if several {
        submitted.iter().copied().find(|artifact| id(artifact).as_deref() == Some(definition.id.as_str()))
    } else {
        submitted.first().copied()
    }
}

fn judge(definition: &AssessmentDefinition, artifact: &Value) -> Result<AcceptedAssessment, Vec<String>> {
    let mut issues = shape_issues(definition, artifact);
    let empty = Map::new();
    let given = artifact.get("dimensions").and_then(Value::as_object).unwrap_or(&empty);
    let unknown = given
        .keys()
        .filter(|name| !definition.dimensions.iter().any(|dimension| dimension.id.as_str() == name.as_str()));
    // An artifact may have a million members; the first wrong ones are enough.
    for name in unknown.take(UNKNOWN_SHOWN_MAX) {
        let known: Vec<&str> = definition.dimensions.iter().map(|dimension| dimension.id.as_str()).collect();
        issues.push(format!("`{name}` is not a dimension of `{}` ({})", definition.id, known.join(", ")));
    }
    let mut dimensions = Vec::new();
    let mut notes = Vec::new();
    for dimension in &definition.dimensions {
        match given.get(dimension.id.as_str()) {
            None if dimension.required => {
                issues.push(format!("the dimension `{}` of `{}` is missing", dimension.id, definition.id));
            }
            None => {}
            Some(value) => match assessed(dimension, value) {
                Ok((level, note)) => {
                    dimensions.push(level);
                    notes.extend(note);
                }
                Err(issue) => issues.push(issue),
            },
        }
    }
    if !issues.is_empty() {
        return Err(issues);
    }
    let summary = artifact.get("summary").and_then(Value::as_str).map(BoundedText::clip);
    Ok(AcceptedAssessment {
        assessment_id: definition.id.clone(),
        dimensions,
        summary,
        normalization_notes: notes,
    })
}

fn shape_issues(definition: &AssessmentDefinition, artifact: &Value) -> Vec<String> {
    let mut issues = Vec::new();
    let dimensions = artifact.get("dimensions").and_then(Value::as_object);
    if dimensions.is_none_or(Map::is_empty) {
        issues.push("`dimensions` must be an object of dimension to level".to_owned());
    }
    match artifact.get("assessmentId") {
        None => {}
        Some(Value::String(id)) if id == definition.id.as_str() => {}
        Some(other) => {
            issues.push(format!("`assessmentId` is {other}, this step asks for `{}`", definition.id))
        }
    }
    let known = ["kind", "assessmentId", "dimensions", "summary"];
    let names = artifact.as_object().into_iter().flat_map(Map::keys);
    for name in names.filter(|name| !known.contains(&name.as_str())).take(UNKNOWN_SHOWN_MAX) {
        issues.push(format!("unknown field `{name}`"));
    }
    issues
}

/// The level as declared, and a note if another spelling of it was accepted.
fn assessed(dimension: &Dimension, value: &Value) -> Result<(AssessedDimension, Option<String>), String> {
    let (level, rationale) = match value {
        Value::String(level) => (level.as_str(), None),
        Value::Object(members) => {
            let level = members.get("level").and_then(Value::as_str);
            let unknown = members.keys().find(|key| !matches!(key.as_str(), "level" | "rationale"));
            if let Some(unknown) = unknown {
                return Err(format!("`{}` has the unknown field `{unknown}`", dimension.id));
            }
            let rationale = members.get("rationale").and_then(Value::as_str);
            (level.ok_or_else(|| format!("`{}` has no `level`", dimension.id))?, rationale)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(format!("`{}` must be a level, or an object with `level`", dimension.id));
        }
    };
    let allowed = || dimension.levels.join(", ");
    let (declared, normalization) = declared_level(dimension, level)
        .ok_or_else(|| format!("`{}` must be one of {}, not {level:?}", dimension.id, allowed()))?;
    let note = (normalization == LevelMatch::Normalized)
        .then(|| format!("{}: {level:?} was accepted as {declared:?}", dimension.id));
    let dimension = AssessedDimension {
        dimension_id: dimension.id.clone(),
        level: BoundedText::clip(declared),
        rationale: rationale.map(BoundedText::clip),
        normalization,
    };
    Ok((dimension, note))
}

fn declared_level<'a>(dimension: &'a Dimension, level: &str) -> Option<(&'a str, LevelMatch)> {
    if let Some(exact) = dimension.levels.iter().find(|declared| *declared == level) {
        return Some((exact, LevelMatch::Exact));
    }
    let folded = level.trim().to_lowercase();
    let mut near = dimension.levels.iter().filter(|declared| declared.trim().to_lowercase() == folded);
    let only = near.next()?;
    near.next().is_none().then_some((only, LevelMatch::Normalized))
}

/// Applies each consequence whose level was given, only if every assessment was accepted.
pub(super) fn apply_consequences(step: &CompiledStep, scope: &ValueScope<'_>, check: &mut OutputCheck) {
    for consequence in &step.consequences {
        let scoped =
            |id: &AssessmentName| consequence.for_assessment.as_ref().is_none_or(|wanted| wanted == id);
        let own = check.assessments.iter().filter(|assessment| scoped(&assessment.assessment_id));
        let hits: Vec<_> = own
            .flat_map(|assessment| assessment.dimensions.iter().map(move |dimension| (assessment, dimension)))
            .filter(|(_, dimension)| dimension.level == consequence.any_equals_level)
            .map(|(assessment, dimension)| (assessment.assessment_id.clone(), dimension.dimension_id.clone()))
            .collect();
        let names: Vec<String> = hits.iter().map(|(_, dimension)| format!("`{dimension}`")).collect();
        let Some((assessment_id, dimension_id)) = hits.into_iter().next() else { continue };
        let applied = AppliedConsequence {
            assessment_id,
            dimension_id,
            level: consequence.any_equals_level.clone(),
            effect: consequence.effect.clone(),
        };
        check.findings.push(followup(&applied, &names, scope));
        check.consequences.push(applied);
    }
}

/// The author's guidance followed by the instruction to assess again, which authors often write themselves.
fn with_reassessment(guidance: &str) -> String {
    const OWN_ENDINGS: [&str; 2] = ["Then rate again.", "Then assess again."];
    let own = OWN_ENDINGS.iter().find_map(|ending| guidance.trim_end().strip_suffix(ending));
    let is_said = own.is_none() && (guidance.contains("rate again") || guidance.contains("assess again"));
    let guidance = own.unwrap_or(guidance).trim_end();
    if is_said {
        format!("{guidance} Then resubmit.")
    } else {
        format!("{guidance} Then assess again and resubmit.")
    }
}

/// Names every dimension that was given the level; the pointer has room for only the first.
fn followup(applied: &AppliedConsequence, names: &[String], scope: &ValueScope<'_>) -> Finding {
    let ConsequenceEffect::RequireFollowup { guidance } = &applied.effect;
    let guidance = filled(guidance.as_str(), scope);
    let blocker = Blocker {
        code: BlockerCode::AssessmentFollowupRequired,
        pointer: BlockerPointer::AssessmentDimension {
            assessment_id: applied.assessment_id.clone(),
            dimension_id: applied.dimension_id.clone(),
        },
        message: BoundedText::clip(&format!(
            "{} {} assessed as {:?}, which asks for more work in this step.",
            names.join(", "),
            if names.len() == 1 { "was" } else { "were" },
            applied.level.as_str()
        )),
        suggested_fix: Some(BoundedText::clip(&with_reassessment(&guidance))),
        decision: None,
    };
    Finding { reason: Reason::ContractViolation(ContractViolation::AssessmentFollowupRequired), blocker }
}
