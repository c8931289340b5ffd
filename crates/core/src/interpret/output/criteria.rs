//! Validation criteria: checks on the text of the notes, in bounded time (G43), and what they claim without evidence (G107).

use serde_json::Value;
use workrail_model::compiled::{CompiledStep, CompiledWorkflow, Criteria, RequiredGrade, Rule, RuleCheck};
use workrail_model::name::ContractRef;
use workrail_model::reason::ContractViolation;

use super::super::Finding;
use super::super::gate::holds_or_is_unknown;
use super::{OutputCheck, UnprovenClaim, invalid, output_finding, valid};
use crate::condition::ValueScope;
use crate::contract;
use crate::render::template::filled;

pub(crate) const CRITERIA_REF: &str = "wr.validationCriteria";

/// Steps of backtracking before a pattern counts as not matching: well under a tenth of a second.
const BACKTRACK_MAX: usize = 100_000;

/// The text that criteria are about, and the grades of evidence that its step has.
#[derive(Clone, Copy)]
pub(super) struct Notes<'a> {
    pub(super) text: Option<&'a str>,
    pub(super) known: &'a [RequiredGrade],
}

pub(super) fn check(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    notes: Notes<'_>,
    scope: &ValueScope<'_>,
    check: &mut OutputCheck,
) {
    let Some(criteria) = &step.criteria else { return };
    let Ok(contract_ref) = ContractRef::parse(CRITERIA_REF) else { return };
    let Notes { text: Some(text), known } = notes else {
        // Missing notes are their own finding where notes are required, and waived by a contract.
        // Evidence is asked for what the notes claim, so leaving them out does not avoid it.
        if !step.requires_notes() && (step.output.is_none() || asks_for_evidence(workflow, criteria, scope)) {
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
    let judge = Judge { workflow, scope, text, known };
    let mut issues = match judge.criteria(criteria) {
        CriteriaOutcome::Passes => {
            check.validations.push(valid(&contract_ref));
            return;
        }
        CriteriaOutcome::LacksEvidence(claims) => {
            check.unproven.extend(claims.into_iter().map(|claim| claim.filled(scope)));
            return;
        }
        CriteriaOutcome::Fails { issues, claims } => {
            // Named although the text fails, too: no claim is hidden behind another mistake.
            check.unproven.extend(claims.into_iter().map(|claim| claim.filled(scope)));
            issues
        }
    };
    if issues.is_empty() {
        issues.push("the notes do not meet the step's validation criteria".to_owned());
    }
    let message = format!("The notes do not pass: {}", issues.join("; "));
    check.validations.push(invalid(&contract_ref, &issues));
    check.findings.push(about_notes(
        ContractViolation::InvalidRequiredOutput,
        &contract_ref,
        &message,
        criteria,
    ));
}

/// A finding about the notes: what they must contain, and no artifact.
fn about_notes(
    violation: ContractViolation,
    contract_ref: &ContractRef,
    message: &str,
    criteria: &Criteria,
) -> Finding {
    let mut finding = output_finding(violation, contract_ref, message, &[]);
    finding.blocker.suggested_fix = Some(workrail_model::text::BoundedText::clip(&format!(
        "Send output.notesMarkdown again. Required: {}",
        wants(criteria).join("; ")
    )));
    finding
}

/// What criteria say about notes.
enum CriteriaOutcome {
    Passes,
    /// The text is right, and what it claims is not known well enough.
    LacksEvidence(Vec<UnprovenClaim>),
    /// With the messages of the rules that are to blame; under `or` and `not`, no single rule is. What other rules accept may
    /// still lack evidence.
    Fails {
        issues: Vec<String>,
        claims: Vec<UnprovenClaim>,
    },
}

impl CriteriaOutcome {
    fn fails(issues: Vec<String>) -> Self {
        Self::Fails { issues, claims: Vec::new() }
    }
}

impl UnprovenClaim {
    fn filled(self, scope: &ValueScope<'_>) -> Self {
        Self { message: filled(&self.message, scope), ..self }
    }
}

fn asks_for_evidence(workflow: &CompiledWorkflow, criteria: &Criteria, scope: &ValueScope<'_>) -> bool {
    match criteria {
        Criteria::Rule { rule } => rule.evidence.is_some() && applies(workflow, rule, scope),
        Criteria::All { of } | Criteria::Any { of } => {
            of.iter().any(|part| asks_for_evidence(workflow, part, scope))
        }
        Criteria::Not { inner } => asks_for_evidence(workflow, inner, scope),
    }
}

/// Whether the rule's condition holds.
fn applies(workflow: &CompiledWorkflow, rule: &Rule, scope: &ValueScope<'_>) -> bool {
    rule.when.as_ref().is_none_or(|id| holds_or_is_unknown(workflow, id, scope))
}

struct Judge<'a> {
    workflow: &'a CompiledWorkflow,
    scope: &'a ValueScope<'a>,
    text: &'a str,
    known: &'a [RequiredGrade],
}

impl Judge<'_> {
    fn criteria(&self, criteria: &Criteria) -> CriteriaOutcome {
        match criteria {
            Criteria::Rule { rule } => self.rule(rule),
            Criteria::All { of } => self.all(of),
            Criteria::Any { of } => self.any(of),
            Criteria::Not { inner } => match self.criteria(inner) {
                CriteriaOutcome::Fails { .. } => CriteriaOutcome::Passes,
                CriteriaOutcome::Passes | CriteriaOutcome::LacksEvidence(_) => {
                    CriteriaOutcome::fails(Vec::new())
                }
            },
        }
    }

    fn rule(&self, rule: &Rule) -> CriteriaOutcome {
        if !applies(self.workflow, rule, self.scope) {
            return CriteriaOutcome::Passes;
        }
        if !rule_passes(&rule.check, self.text) {
            // What the rule wants is quoted as it is checked.
            let message = filled(&rule.message, self.scope);
            return CriteriaOutcome::fails(vec![message + &near_miss(&rule.check, self.text)]);
        }
        match rule.evidence {
            Some(evidence) if !self.known.contains(&evidence.min) => {
                let message = rule.message.clone();
                CriteriaOutcome::LacksEvidence(vec![UnprovenClaim { message, min: evidence.min }])
            }
            Some(_) | None => CriteriaOutcome::Passes,
        }
    }

    /// Every part is judged, so that everything that fails is named.
    fn all(&self, parts: &[Criteria]) -> CriteriaOutcome {
        let (mut issues, mut claims, mut fails) = (Vec::new(), Vec::new(), false);
        for part in parts {
            match self.criteria(part) {
                CriteriaOutcome::Passes => {}
                CriteriaOutcome::LacksEvidence(own) => claims.extend(own),
                CriteriaOutcome::Fails { issues: own, claims: more } => {
                    fails = true;
                    issues.extend(own);
                    claims.extend(more);
                }
            }
        }
        match (fails, claims.is_empty()) {
            (true, _) => CriteriaOutcome::Fails { issues, claims },
            (false, false) => CriteriaOutcome::LacksEvidence(claims),
            (false, true) => CriteriaOutcome::Passes,
        }
    }

    fn any(&self, parts: &[Criteria]) -> CriteriaOutcome {
        let mut best = CriteriaOutcome::fails(Vec::new());
        for part in parts {
            match self.criteria(part) {
                CriteriaOutcome::Passes => return CriteriaOutcome::Passes,
                // The first one is the one that the agent is asked about.
                lacking @ CriteriaOutcome::LacksEvidence(_)
                    if matches!(best, CriteriaOutcome::Fails { .. }) =>
                {
                    best = lacking
                }
                CriteriaOutcome::LacksEvidence(_) | CriteriaOutcome::Fails { .. } => {}
            }
        }
        best
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

/// Whether the notes contain the text. Emphasis is layout: `**Answer**:` and `**Answer:**` are `Answer:`.
fn contains(notes: &str, value: &str) -> bool {
    const EMPHASIS: [char; 2] = ['*', '`'];
    notes.contains(value) || (!value.contains(EMPHASIS) && notes.replace(EMPHASIS, "").contains(value))
}

/// What is almost right, for the end of the rule's message; empty if the text is missing altogether.
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
    // Agents sometimes quote their JSON once too often; a string that contains the structure is accepted.
    if wants_structure
        && let Value::String(inner) = &value
        && let Ok(parsed) = serde_json::from_str(inner)
    {
        value = parsed;
    }
    contract::issues(schema, &value).is_empty()
}

/// What the criteria require, in words.
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
    let evidence = match rule.evidence.map(|evidence| evidence.min) {
        None => "",
        Some(RequiredGrade::Observed) => ", and a hook saw the work or WorkRail saw files change",
        Some(RequiredGrade::Checked) => ", and the checks of this step passed",
    };
    let condition = if rule.when.is_some() { " (where its condition holds)" } else { "" };
    format!("{checked}{evidence}{condition}")
}

#[cfg(test)]
mod tests {
    use fancy_regex::{Error, RuntimeError};

    use super::*;

    #[test]
    fn a_catastrophic_pattern_is_given_up_after_a_fixed_number_of_steps() {
        let regex = pattern_of("^(?:(?=a)a|(?=a)a)+b$", "").expect("the pattern is valid");
        let given_up = regex.is_match(&"a".repeat(20_000)).expect_err("it takes more steps than the limit");
        assert!(matches!(given_up, Error::RuntimeError(RuntimeError::BacktrackLimitExceeded)), "{given_up}");
    }
}
