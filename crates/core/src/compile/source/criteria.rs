//! What a step's output is checked by: validation criteria, assessments' consequences, user dependencies.

use serde_json::Value;
use workrail_model::compiled::{EvidenceRule, RuleCheck};
use workrail_model::reason::{NonAssumableChoiceKind, UserOnlyDependencyReason};

use super::super::diagnostic::Code;
use super::super::document::DocumentNode;
use super::super::format::{
    Any, Authored, EnumWord, FormatReader, Integer, List, Shape, Text, authored, either,
};
use super::super::report::DraftDiagnostic;
use super::checks::EvidenceSource;
use super::condition::Condition;
use super::words::{EffectKind, RuleType};
use crate::contract::schema_problem;
use crate::interpret::pattern_of;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CriteriaSource {
    Rule(RuleSource),
    All(Vec<CriteriaSource>),
    Any(Vec<CriteriaSource>),
    Not(Box<CriteriaSource>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleSource {
    pub(crate) check: RuleCheck,
    pub(crate) message: String,
    pub(crate) when: Option<Condition>,
    pub(crate) evidence: Option<EvidenceRule>,
}

authored! {
    /// One check on the notes of a step.
    struct RuleFields "a validation rule" {
        /// How the notes are checked.
        kind "type": EnumWord<RuleType>, required;
        /// What the agent reads if the check fails.
        message "message": Text<1, 1024>, required;
        /// For `contains`: the text that the notes must contain, as written. Emphasis in the notes does not count:
        /// `**Answer**:` contains `Answer:`.
        value "value": Any, optional;
        /// For `regex`: the pattern that must match somewhere in the notes.
        pattern "pattern": Text<1, 4096>, optional;
        /// For `regex`: `i` ignores case, `m` lets `^` and `$` match at lines, `s` lets `.` match line ends. The
        /// other flags of JavaScript are accepted and have no effect.
        flags "flags": Text<0, 8>, optional;
        /// For `length`: the fewest characters.
        min "min": Integer<0, 1_000_000>, optional;
        /// For `length`: the most characters.
        max "max": Integer<0, 1_000_000>, optional;
        /// For `schema`: the JSON Schema that the notes, read as JSON, must match.
        schema "schema": Any, optional;
        /// The rule applies only if this holds.
        condition "condition": Condition, optional;
        /// How well what the rule looks for must be known: notes that only claim it do not pass. Under `or`, a part without
        /// `evidence` is another way to pass. Not possible under `not`.
        evidence "evidence": EvidenceSource, optional;
    }
}

authored! {
    /// Several checks as one. A composition has exactly one of these fields.
    struct Composition "a composition of rules" {
        /// All of these must pass.
        and "and": List<Criterion>, optional;
        /// One of these must pass.
        or "or": List<Criterion>, optional;
        /// This must not pass.
        not "not": Criterion, optional;
    }
}

/// A list of checks, or one.
pub(crate) struct CriteriaField;

either! {
    CriteriaField -> CriteriaSource {
        List<Criterion> => CriteriaSource::All,
        Criterion => |criterion| criterion,
    }
}

/// A rule or a composition.
pub(crate) struct Criterion;

impl Authored for Criterion {
    type Value = CriteriaSource;

    fn shape() -> Shape {
        Shape::AnyOf(vec![RuleFields::shape(), Composition::shape()])
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<CriteriaSource> {
        if !["and", "or", "not"].iter().any(|key| node.get(key).is_some()) {
            return RuleFields::decode(node, reader)?.source(reader);
        }
        let Composition { and, or, not } = Composition::decode(node, reader)?;
        if usize::from(and.is_some()) + usize::from(or.is_some()) + usize::from(not.is_some()) > 1 {
            reader.report.push(
                DraftDiagnostic::on(Code::ConflictingFields, &reader.at())
                    .message("a composition has more than one of `and`, `or`, `not`")
                    .why("it would be unclear how they combine")
                    .fix("nest one inside the other"),
            );
        }
        if not.as_ref().is_some_and(CriteriaSource::asks_for_evidence) {
            reader.report.push(
                DraftDiagnostic::on(Code::ConflictingFields, &reader.at().key("not"))
                    .message("a rule under `not` cannot ask for `evidence`")
                    .why("there is no evidence for what the notes must not say")
                    .fix("remove `evidence`, or move the rule out of `not`"),
            );
        }
        let and = and.map(CriteriaSource::All);
        let or = or.map(CriteriaSource::Any);
        and.or(or).or(not.map(|inner| CriteriaSource::Not(Box::new(inner))))
    }
}

impl CriteriaSource {
    fn asks_for_evidence(&self) -> bool {
        match self {
            Self::Rule(rule) => rule.evidence.is_some(),
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::asks_for_evidence),
            Self::Not(inner) => inner.asks_for_evidence(),
        }
    }
}

impl RuleFields {
    fn source(self, reader: &mut FormatReader<'_>) -> Option<CriteriaSource> {
        let check = match self.kind {
            RuleType::Contains => {
                let text = match self.value {
                    Some(Value::String(text)) => Some(text),
                    Some(_) | None => None,
                };
                RuleCheck::Contains { value: needed(text, "value", reader)? }
            }
            RuleType::Regex => {
                let pattern = needed(self.pattern, "pattern", reader)?;
                let flags = self.flags.unwrap_or_default();
                check_pattern(&pattern, &flags, reader);
                RuleCheck::Regex { pattern, flags }
            }
            RuleType::Length => {
                check_bounds(self.min, self.max, reader);
                RuleCheck::Length { min: self.min, max: self.max }
            }
            RuleType::Schema => {
                let Some(schema) = self.schema else {
                    missing("schema", "as a JSON Schema", "{ \"type\": \"object\" }", reader);
                    return None;
                };
                if let Some(problem) = schema_problem(&schema) {
                    reader.report.push(
                        DraftDiagnostic::on(Code::BadSchema, &reader.at().key("schema"))
                            .message(format!("this JSON Schema cannot be used: {problem}"))
                            .why("the rule could never pass")
                            .fix("correct the schema"),
                    );
                }
                RuleCheck::Schema { schema }
            }
        };
        let evidence = self.evidence.map(|source| EvidenceRule { min: source.min });
        Some(CriteriaSource::Rule(RuleSource {
            check,
            message: self.message,
            when: self.condition,
            evidence,
        }))
    }
}

fn needed(found: Option<String>, key: &str, reader: &mut FormatReader<'_>) -> Option<String> {
    if found.is_none() && !reader.report.is_broken(&reader.at().key(key)) {
        missing(key, "as text", "\"...\"", reader);
    }
    found
}

fn missing(key: &str, form: &str, example: &str, reader: &mut FormatReader<'_>) {
    reader.report.push(
        DraftDiagnostic::on(Code::MissingField, &reader.at())
            .message(format!("a rule of this type needs `{key}` {form}"))
            .why("without it there is nothing to check")
            .fix(format!("add \"{key}\": {example}")),
    );
}

fn check_bounds(min: Option<u32>, max: Option<u32>, reader: &mut FormatReader<'_>) {
    match (min, max) {
        (Some(min), Some(max)) if min > max => reader.report.push(
            DraftDiagnostic::on(Code::NumberRange, &reader.at().key("min"))
                .message(format!("`min` is {min} and `max` is {max}: no notes can pass"))
                .why("the step could never be completed")
                .fix("swap the two, or correct one of them"),
        ),
        (None, None) => reader.report.push(
            DraftDiagnostic::on(Code::NoEffect, &reader.at())
                .message("this rule has neither `min` nor `max`")
                .why("every text passes it")
                .fix("add \"min\": 100, or remove the rule"),
        ),
        (Some(_) | None, _) => {}
    }
}

fn check_pattern(pattern: &str, flags: &str, reader: &mut FormatReader<'_>) {
    let at = reader.at();
    if let Some(unknown) = flags.chars().find(|flag| !"dgimsuvy".contains(*flag)) {
        reader.report.push(
            DraftDiagnostic::on(Code::BadPattern, &at.key("flags"))
                .message(format!("unknown flag `{unknown}`"))
                .why("flags change what a pattern matches")
                .fix("use i (ignore case), m (lines), s (dot matches line ends)"),
        );
    }
    if let Err(error) = pattern_of(pattern, flags) {
        reader.report.push(
            DraftDiagnostic::on(Code::BadPattern, &at.key("pattern"))
                .message(format!("the pattern cannot be read: {error}"))
                .why("the rule could never pass")
                .fix("correct the regular expression"),
        );
    }
}

authored! {
    /// What happens if an assessment gives a certain level.
    struct ConsequenceSource "an assessment consequence" {
        /// The level that has the consequence.
        when "when": ConsequenceWhen, required;
        /// What happens.
        effect "effect": Effect, required;
    }
}

authored! {
    /// The level that has the consequence.
    struct ConsequenceWhen "a consequence's `when`" {
        /// The consequence applies if any dimension has this level.
        any_equals_level "anyEqualsLevel": Text<1, 64>, required;
        /// Looks at this assessment only; it must be one of the step's `assessmentRefs`.
        for_assessment "forAssessment": Text<1, 64>, optional;
    }
}

authored! {
    /// What happens.
    struct Effect "an effect" {
        /// `require_followup`: the step is blocked until the agent has followed the guidance and assessed again.
        _kind "kind": EnumWord<EffectKind>, required;
        /// What the agent does before it assesses again.
        guidance "guidance": Text<1, 512>, required;
    }
}

authored! {
    /// Something that only the user can provide. The step is blocked until the user has provided it; in
    /// `full_auto_never_stop` it is recorded as a gap instead.
    struct UserDependencySource "a user dependency" {
        /// Why only the user can provide it.
        reason "reason": EnumWord<UserOnlyDependencyReason>, required;
        /// With `needs_user_choice`, and only then: why the agent must not choose.
        choice_kind "choiceKind": EnumWord<NonAssumableChoiceKind>, optional;
        /// What is needed, in words for the user.
        description "description": Text<1, 512>, required;
        /// The context key that holds the answer. Without it, a person approves instead.
        context_key "contextKey": Text<1, 128>, optional;
    }
}
