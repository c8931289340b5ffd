//! Context keys that steps declare to set (G46), and conditions that read keys which no step can have set.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use workrail_model::compiled::{AcceptedValues, CompiledLoop, CompiledStep, ConditionTest, ContextDuty};
use workrail_model::name::{ConditionId, ContextKey};
use workrail_model::nearest::nearest;

use super::diagnostic::Code;
use super::lint::StepPaths;
use super::mentions::Mentions;
use super::path::DocPath;
use super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::source::{ContextDutySource, ContextType, StandardStep};
use crate::routing::{self, Reads};

/// The keys that a step sets; problems with them are reported.
pub(super) fn compile(
    step: &StandardStep,
    report: &mut DiagnosticReport,
) -> BTreeMap<ContextKey, ContextDuty> {
    let at = step.at.key("sets");
    let duties = step.sets.iter().filter_map(|(key, source)| {
        let at = at.key(key);
        let accepts = accepts(source, &at, report);
        let Ok(key) = ContextKey::parse(key).inspect_err(|error| {
            report.push(
                DraftDiagnostic::on(Code::ContextKey, &at)
                    .message(format!("{:?} is not a valid context key", shown(key)))
                    .why(format!("a context key has {}", error.rule))
                    .fix("use a name such as `riskLevel`"),
            );
        }) else {
            return None;
        };
        Some((key, ContextDuty { accepts: accepts?, description: source.description.clone() }))
    });
    duties.collect()
}

fn accepts(
    source: &ContextDutySource,
    at: &DocPath,
    report: &mut DiagnosticReport,
) -> Option<AcceptedValues> {
    let is_list = source.value_type == Some(ContextType::List);
    if source.members.is_some() && !is_list {
        report.push(
            DraftDiagnostic::on(Code::ContextKey, at)
                .message("only a key of the type `list` has `members`")
                .why("they say what each item of the list has")
                .fix("write {\"type\": \"list\", \"members\": [\"name\", \"goal\"]} or remove `members`"),
        );
        return None;
    }
    match (&source.values, source.value_type) {
        (Some(values), None) => Some(AcceptedValues::OneOf { values: values.clone() }),
        (None, Some(ContextType::Boolean)) => Some(AcceptedValues::Boolean),
        (None, Some(ContextType::Number)) => Some(AcceptedValues::Number),
        (None, Some(ContextType::String)) => Some(AcceptedValues::Text),
        (None, Some(ContextType::List)) => {
            Some(AcceptedValues::List { members: source.members.clone().unwrap_or_default() })
        }
        (None, None) if ["values", "type"].iter().any(|field| report.is_broken(&at.key(field))) => None,
        (Some(_), Some(_)) | (None, None) => {
            report.push(
                DraftDiagnostic::on(Code::ContextKey, at)
                    .message("a key has either `values` or `type`")
                    .why("the agent is shown which values the key takes, and others are refused")
                    .fix("write {\"values\": [\"small\", \"large\"]} or {\"type\": \"boolean\"}"),
            );
            None
        }
    }
}

/// Conditions that read a key which nothing sets or mentions, or compare it with a value that it never has.
pub(super) fn lint(
    steps: &[CompiledStep],
    loops: &[CompiledLoop],
    conditions: &BTreeMap<ConditionId, ConditionTest>,
    mentioned: &Mentions<'_>,
    paths: &StepPaths,
    report: &mut DiagnosticReport,
) {
    let mut declared: BTreeMap<&str, Vec<&AcceptedValues>> = BTreeMap::new();
    for (key, duty) in steps.iter().flat_map(|step| &step.sets) {
        declared.entry(key.as_str()).or_default().push(&duty.accepts);
    }
    let mut reported = BTreeSet::new();
    for (owner, reads) in routing::readers(steps, loops, |id| conditions.get(id)) {
        for (key, how) in reads {
            let at = decided_at(owner, steps, paths);
            match declared.get(key) {
                None if !mentioned.has(key) => {
                    if reported.insert(key.to_owned()) {
                        let near = nearest(key, declared.keys().copied().chain(mentioned.names()));
                        report.push(unset(key, owner, near, &at));
                    }
                }
                None => {
                    for value in how.values.iter().filter_map(Value::as_str) {
                        if !mentioned.announce(value) && reported.insert(format!("{key}={value}")) {
                            report.push(unannounced(key, value, &at));
                        }
                    }
                }
                Some(accepts) => {
                    for value in foreign(accepts, &how) {
                        if reported.insert(format!("{key}={value}")) {
                            report.push(not_a_value(key, &value, accepts, &at));
                        }
                    }
                }
            }
        }
    }
}

/// The condition of a step, or how a loop repeats.
fn decided_at(owner: &str, steps: &[CompiledStep], paths: &StepPaths) -> DocPath {
    let at = super::lint::path_of(paths, owner);
    match steps.iter().find(|step| step.step_id.as_str() == owner) {
        Some(step) if step.run_condition.is_some() => at.key("runCondition"),
        Some(_) => at,
        None => at.key("loop"),
    }
}

fn unannounced(key: &str, value: &str, at: &DocPath) -> DraftDiagnostic {
    DraftDiagnostic::on(Code::UnannouncedValue, at)
        .message(format!("`{}` is compared with {:?}, a value that no step mentions", shown(key), shown(value)))
        .why("an agent sets only values that it knows about, so this never holds")
        .fix(format!(
            "tell the step that sets `{0}` about this value, best with \"sets\": {{\"{0}\": {{\"values\": [...]}}}}, or \
             correct it",
            shown(key)
        ))
}

fn unset(key: &str, owner: &str, near: Option<&str>, at: &DocPath) -> DraftDiagnostic {
    DraftDiagnostic::on(Code::UnsetContextKey, at)
        .message(format!(
            "`{owner}` depends on the context key `{}`, which nothing sets or mentions",
            shown(key)
        ))
        .why("no agent can know that it should set it, so the condition never changes")
        .fix(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "add \"sets\": {{\"{}\": ...}} to the step that decides it, or correct the name",
                shown(key)
            ),
        })
}

fn not_a_value(key: &str, value: &str, accepts: &[&AcceptedValues], at: &DocPath) -> DraftDiagnostic {
    let allowed: Vec<String> = accepts.iter().map(|values| routing::in_words(values)).collect();
    DraftDiagnostic::on(Code::ForeignContextValue, at)
        .message(format!("`{}` is compared with {value}, a value that it never has", shown(key)))
        .why(format!("the step that sets it allows only: {}", allowed.join("; ")))
        .fix("correct the value here or in `sets`")
}

/// The compared values that no declaration of the key allows.
fn foreign(accepts: &[&AcceptedValues], how: &Reads) -> Vec<String> {
    let allowed = |value: &Value| accepts.iter().any(|accepts| routing::allows(accepts, value));
    how.values.iter().filter(|value| !value.is_null() && !allowed(value)).map(Value::to_string).collect()
}
