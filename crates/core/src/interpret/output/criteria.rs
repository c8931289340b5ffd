//! Validation criteria: checks on the text of the notes, in bounded time (G43).

use serde_json::Value;
use workrail_model::compiled::{CompiledStep, CompiledWorkflow, Criteria, Rule, RuleCheck};
use workrail_model::name::ContractRef;
use workrail_model::reason::ContractViolation;

use super::super::Finding;
use super::super::gate::condition_holds;
use super::{OutputCheck, invalid, output_finding, valid};
use crate::condition::Scope;
use crate::contract;
use crate::render::template::filled;

pub(crate) const CRITERIA_REF: &str = "wr.validationCriteria";

/// Steps of backtracking before a pattern counts as not matching: well under a tenth of a second.
const BACKTRACK_MAX: usize = 100_000;

pub(super) fn check(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    notes: Option<&str>,
    scope: &Scope<'_>,
    check: &mut OutputCheck,
) {
    let Some(criteria) = &step.criteria else { return };
    let Ok(contract_ref) = ContractRef::parse(CRITERIA_REF) else { return };
    let Some(notes) = notes else {
        // Missing notes are their own finding where notes are required, and waived by a contract.
        if step.output.is_none() && !step.requires_notes() {
            let message = "This step checks its notes, but output.notesMarkdown is missing or blank.";
            check.validations.push(invalid(&contract_ref, &[message.to_owned()]));
            check.findings.push(about_notes(
                ContractViolation::MissingRequiredOutput,
                &contract_ref,
                message,
                criteria,
            ));
        }
        return;
    };
    let mut issues = Vec::new();
    if judge(workflow, criteria, notes, scope, &mut issues) {
        check.validations.push(valid(&contract_ref));
        return;
    }
    if issues.is_empty() {
        issues.push("the notes do not meet the step's validation criteria".to_owned());
    }
    let issues: Vec<String> = issues.iter().map(|issue| filled(issue, scope)).collect();
    let message = format!("The notes do not pass: {}", issues.join("; "));
    check.validations.push(invalid(&contract_ref, &issues));
    check.findings.push(about_notes(
        ContractViolation::InvalidRequiredOutput,
        &contract_ref,
        &message,
        criteria,
    ));
}

/// A finding about the notes: what is wanted of them, and no artifact.
fn about_notes(
    violation: ContractViolation,
    contract_ref: &ContractRef,
    message: &str,
    criteria: &Criteria,
) -> Finding {
    let (reason, mut blocker) = output_finding(violation, contract_ref, message, &[]);
    blocker.suggested_fix = Some(workrail_model::text::BoundedText::clip(&format!(
        "Send output.notesMarkdown again so that: {}",
        wants(criteria).join("; ")
    )));
    (reason, blocker)
}

/// Whether the notes pass; what fails is added to `issues` except under `or` and `not`, where no single
/// rule is to blame.
fn judge(
    workflow: &CompiledWorkflow,
    criteria: &Criteria,
    notes: &str,
    scope: &Scope<'_>,
    issues: &mut Vec<String>,
) -> bool {
    match criteria {
        Criteria::Rule { rule } => {
            let passes = rule.when.as_ref().is_some_and(|id| !condition_holds(workflow, id, scope))
                || rule_passes(&rule.check, notes);
            if !passes {
                issues.push(format!("{}{}", rule.message, near_miss(&rule.check, notes)));
            }
            passes
        }
        Criteria::All { of } => {
            // Every part is judged, so that all that fails is named.
            let failed = of.iter().filter(|part| !judge(workflow, part, notes, scope, issues)).count();
            failed == 0
        }
        Criteria::Any { of } => of.iter().any(|part| judge(workflow, part, notes, scope, &mut Vec::new())),
        Criteria::Not { inner } => !judge(workflow, inner, notes, scope, &mut Vec::new()),
    }
}

fn rule_passes(check: &RuleCheck, notes: &str) -> bool {
    match check {
        RuleCheck::Contains { value } => contains(notes, value),
        RuleCheck::Regex { pattern, flags } => {
            pattern_of(pattern, flags).is_ok_and(|regex| regex.is_match(notes).unwrap_or(false))
        }
        RuleCheck::Length { min, max } => {
            let length = notes.encode_utf16().count();
            min.is_none_or(|min| length >= min as usize) && max.is_none_or(|max| length <= max as usize)
        }
        RuleCheck::Schema { schema } => schema_passes(schema, notes),
    }
}

/// Whether the notes have the text. Emphasis is layout: `**Answer**:` and `**Answer:**` are `Answer:`.
fn contains(notes: &str, value: &str) -> bool {
    const EMPHASIS: [char; 2] = ['*', '`'];
    notes.contains(value) || (!value.contains(EMPHASIS) && notes.replace(EMPHASIS, "").contains(value))
}

/// What is nearly right, for the end of the rule's message; nothing where the text is missing altogether.
fn near_miss(check: &RuleCheck, notes: &str) -> String {
    match check {
        RuleCheck::Contains { value } if contains(&notes.to_lowercase(), &value.to_lowercase()) => {
            format!(" The notes have it in a different letter case: write {value:?}.")
        }
        RuleCheck::Contains { .. }
        | RuleCheck::Regex { .. }
        | RuleCheck::Length { .. }
        | RuleCheck::Schema { .. } => String::new(),
    }
}

/// A pattern with JavaScript's flags. Look-around is allowed, so time is bounded by a backtrack limit.
pub(crate) fn pattern_of(pattern: &str, flags: &str) -> Result<fancy_regex::Regex, Box<fancy_regex::Error>> {
    fancy_regex::RegexBuilder::new(pattern)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('s'))
        .backtrack_limit(BACKTRACK_MAX)
        .delegate_size_limit(1 << 20)
        .build()
        .map_err(Box::new)
}

fn schema_passes(schema: &Value, notes: &str) -> bool {
    let Ok(mut value) = serde_json::from_str::<Value>(notes) else { return false };
    let wants_structure = matches!(schema.get("type").and_then(Value::as_str), Some("object" | "array"));
    // Agents quote their JSON once too often; a string that holds the structure is taken for it.
    if wants_structure
        && let Value::String(inner) = &value
        && let Ok(parsed) = serde_json::from_str(inner)
    {
        value = parsed;
    }
    contract::issues(schema, &value).is_empty()
}

/// What the criteria ask for, in words.
pub(crate) fn wants(criteria: &Criteria) -> Vec<String> {
    match criteria {
        Criteria::Rule { rule } => vec![want(rule)],
        Criteria::All { of } => of.iter().flat_map(wants).collect(),
        Criteria::Any { of } => {
            vec![format!("one of these: {}", of.iter().flat_map(wants).collect::<Vec<_>>().join(" / "))]
        }
        Criteria::Not { inner } => vec![format!("not: {}", wants(inner).join("; "))],
    }
}

fn want(rule: &Rule) -> String {
    let checked = match &rule.check {
        RuleCheck::Contains { value } => format!("the notes contain {value:?}"),
        RuleCheck::Regex { pattern, flags } => format!("the notes match /{pattern}/{flags}"),
        RuleCheck::Length { min: Some(min), max: Some(max) } => {
            format!("the notes have {min} to {max} characters")
        }
        RuleCheck::Length { min: Some(min), max: None } => {
            format!("the notes have at least {min} characters")
        }
        RuleCheck::Length { min: None, max: Some(max) } => format!("the notes have at most {max} characters"),
        RuleCheck::Length { min: None, max: None } => "the notes are not empty".to_owned(),
        RuleCheck::Schema { .. } => "the notes are JSON of the given schema".to_owned(),
    };
    if rule.when.is_some() { format!("{checked} (where its condition holds)") } else { checked }
}
