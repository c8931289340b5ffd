//! Accepts unambiguous misspellings of a declared key's value or of an artifact's field (G47).

use serde_json::{Map, Number, Value};
use workrail_model::canonical::value_to_canonical;
use workrail_model::compiled::{AcceptedValues, CompiledContract, CompiledStep, CompiledWorkflow};
use workrail_model::event::Context;
use workrail_model::reply::{Warning, WarningCode};
use workrail_model::strict_json;
use workrail_model::submission::Submission;
use workrail_model::text::truncate_with_marker;

use super::DecideError;
use crate::contract;
use crate::routing;
use crate::secrets::is_secret;

/// A value may be long; its beginning is enough to recognise it.
const VALUE_SHOWN_BYTES: usize = 60;

/// What was sent, with declared context values and the required artifact's fields corrected to what the step accepts,
/// and a warning for each change.
pub(super) fn fitted(
    sent: &Submission,
    workflow: &CompiledWorkflow,
    step: Option<&CompiledStep>,
) -> Result<(Submission, Vec<Warning>), DecideError> {
    let mut fitted = sent.clone();
    let mut warnings = Vec::new();
    let mut context: Map<String, Value> = sent.context.as_map().clone();
    for (key, duty) in step.into_iter().flat_map(|step| &step.sets) {
        let Some(value) = context.get_mut(key.as_str()) else { continue };
        let Some(intended) = other_than_sent(value, &duty.accepts) else { continue };
        let message = adjustment_text(value, &intended, key.as_str(), &format!("context.{key}"));
        warnings.push(Warning { code: WarningCode::ArgumentsAdjusted, message });
        *value = intended;
    }
    if !warnings.is_empty() {
        fitted.context = Context::new(context)?;
    }
    let owed = step.and_then(|step| workflow.contract(&step.output.as_ref()?.contract_ref));
    if let Some(CompiledContract { artifact_kind, schema, .. }) = owed {
        let mut adjusted = Adjusted::default();
        let is_owed = |artifact: &&mut Value| contract::artifact_kind(artifact) == artifact_kind;
        for artifact in fitted.output.artifacts.iter_mut().filter(is_owed) {
            fit_fields(artifact, schema, artifact_kind, &mut adjusted);
        }
        warnings.extend(adjusted.into_warnings());
    }
    Ok((fitted, warnings))
}

/// An artifact may have thousands of fields: the first adjusted ones are named, the others counted.
#[derive(Default)]
struct Adjusted {
    messages: Vec<String>,
    more: usize,
}

impl Adjusted {
    const MESSAGES_MAX: usize = 5;

    fn add(&mut self, message: impl FnOnce() -> String) {
        match self.messages.len() < Self::MESSAGES_MAX {
            true => self.messages.push(message()),
            false => self.more += 1,
        }
    }

    fn into_warnings(self) -> impl Iterator<Item = Warning> {
        let more = (self.more > 0).then(|| format!("Adjusted in the same way: {} more.", self.more));
        let messages = self.messages.into_iter().chain(more);
        messages.map(|message| Warning { code: WarningCode::ArgumentsAdjusted, message })
    }
}

/// The value that a text means, if it differs from the text.
fn other_than_sent(value: &Value, accepts: &AcceptedValues) -> Option<Value> {
    intended_value(value.as_str()?.trim(), accepts).filter(|intended| intended != value)
}

/// `name` is the key or field, `path` its path in the call.
fn adjustment_text(sent: &Value, recorded: &Value, name: &str, path: &str) -> String {
    if is_secret(name) {
        return format!("`{path}` was sent in another spelling and adjusted.");
    }
    let (sent, recorded) = (sent.to_string(), recorded.to_string());
    let shown = truncate_with_marker(&sent, VALUE_SHOWN_BYTES);
    let recorded = truncate_with_marker(&recorded, VALUE_SHOWN_BYTES);
    format!("`{path}` was sent as {shown} and recorded as {recorded}.")
}

fn fit_fields(value: &mut Value, schema: &Value, path: &str, adjusted: &mut Adjusted) {
    if let Some(intended) = accepted_by(schema).and_then(|accepts| other_than_sent(value, &accepts)) {
        let name = path.rsplit('.').next().unwrap_or(path);
        adjusted.add(|| adjustment_text(value, &intended, name, path));
        *value = intended;
    }
    match value {
        Value::Object(members) => {
            leave_out_empty(members, schema, path, adjusted);
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(member) = members.get_mut(name) {
                    fit_fields(member, field, &format!("{path}.{name}"), adjusted);
                }
            }
        }
        Value::Array(items) => {
            for (position, item) in items.iter_mut().enumerate() {
                fit_fields(item, &schema["items"], &format!("{path}[{position}]"), adjusted);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes an optional text that is empty although that is not allowed: it means the same as an absent one.
fn leave_out_empty(members: &mut Map<String, Value>, schema: &Value, path: &str, adjusted: &mut Adjusted) {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let is_empty = members.get(name).is_some_and(|value| value == "");
        if is_empty && !is_required(name) && refuses_empty(field) {
            members.remove(name);
            adjusted.add(|| format!("`{path}.{name}` was sent empty and left out."));
        }
    }
}

fn refuses_empty(field: &Value) -> bool {
    let has_words = field["minLength"].as_u64().is_some_and(|least| least > 0);
    let is_closed = field["enum"].as_array().is_some_and(|values| values.iter().all(|value| value != ""));
    has_words || is_closed || field["type"] == "string" && field["pattern"].is_string()
}

/// What a field accepts, if that is not free text.
fn accepted_by(schema: &Value) -> Option<AcceptedValues> {
    if let Some(options) = schema["enum"].as_array() {
        let values = options.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        return Some(AcceptedValues::OneOf { values });
    }
    match schema["type"].as_str()? {
        "boolean" => Some(AcceptedValues::Boolean),
        "integer" | "number" => Some(AcceptedValues::Number),
        "array" => Some(AcceptedValues::List { members: Vec::new() }),
        _ => None,
    }
}

/// A value as accepted by a declared key; `None` if it is not accepted.
pub fn accepted(value: &Value, accepts: &AcceptedValues) -> Option<Value> {
    if routing::allows(accepts, value) {
        return Some(value.clone());
    }
    let intended = intended_value(value.as_str()?.trim(), accepts)?;
    routing::allows(accepts, &intended).then_some(intended)
}

/// The one accepted value that a text can mean.
fn intended_value(text: &str, accepts: &AcceptedValues) -> Option<Value> {
    match accepts {
        AcceptedValues::OneOf { values } => {
            let alike = values.iter().filter(|value| value.eq_ignore_ascii_case(text));
            let alike: Vec<&String> = alike.collect();
            if let [only] = alike[..] { Some(Value::from(only.as_str())) } else { None }
        }
        AcceptedValues::Boolean if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        AcceptedValues::Boolean if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        // A number that cannot be recorded exactly is left as it is and refused by the step.
        AcceptedValues::Number => {
            let number = text.parse::<Number>().ok().map(Value::Number)?;
            value_to_canonical(&number).is_ok().then_some(number)
        }
        AcceptedValues::List { .. } => {
            let list = strict_json::parse(text.as_bytes()).ok().filter(Value::is_array)?;
            value_to_canonical(&list).is_ok().then_some(list)
        }
        AcceptedValues::Boolean | AcceptedValues::Text => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_artifact_in_another_spelling_is_accepted_with_a_warning_for_each_field() {
        let schema = json!({ "type": "object", "properties": {
            "decision": { "enum": ["continue", "stop"] },
            "metadata": { "type": "object", "properties": {
                "confidence": { "type": "integer" }, "reason": { "type": "string" },
            } },
            "checks": { "type": "array", "items": { "type": "object", "properties": {
                "passed": { "type": "boolean" }, "command": { "type": "string", "minLength": 1 },
            } } },
            "loopId": { "type": "string", "pattern": "^[a-z]+$" },
        } });
        let mut artifact = json!({
            "decision": "Stop", "loopId": "", "metadata": { "confidence": "95", "reason": "95" },
            "checks": [{ "passed": "true", "command": "" }, { "passed": "perhaps" }, { "passed": "TRUE" }], "other": "5",
        });
        let mut adjusted = Adjusted::default();
        fit_fields(&mut artifact, &schema, "wr.x", &mut adjusted);
        let messages: Vec<String> = adjusted.into_warnings().map(|warning| warning.message).collect();
        insta::assert_snapshot!(format!("{artifact}\n{}", messages.join("\n")), @r#"
        {"checks":[{"passed":true},{"passed":"perhaps"},{"passed":true}],"decision":"stop","metadata":{"confidence":95,"reason":"95"},"other":"5"}
        `wr.x.loopId` was sent empty and left out.
        `wr.x.checks[0].command` was sent empty and left out.
        `wr.x.checks[0].passed` was sent as "true" and recorded as true.
        `wr.x.checks[2].passed` was sent as "TRUE" and recorded as true.
        `wr.x.decision` was sent as "Stop" and recorded as "stop".
        Adjusted in the same way: 1 more.
        "#);
    }

    #[test]
    fn a_text_means_the_one_value_that_it_spells() {
        let sizes = AcceptedValues::OneOf { values: vec!["small".to_owned(), "large".to_owned()] };
        let both = AcceptedValues::OneOf { values: vec!["A".to_owned(), "a".to_owned()] };
        let cases = [
            ("true", AcceptedValues::Boolean, Some(json!(true))),
            ("False", AcceptedValues::Boolean, Some(json!(false))),
            ("yes", AcceptedValues::Boolean, None),
            ("3", AcceptedValues::Number, Some(json!(3))),
            ("0.5", AcceptedValues::Number, Some(json!(0.5))),
            ("three", AcceptedValues::Number, None),
            ("9007199254740993", AcceptedValues::Number, None),
            ("Small", sizes.clone(), Some(json!("small"))),
            ("smal", sizes, None),
            ("a", both, None),
            ("true", AcceptedValues::Text, None),
            ("[1]", AcceptedValues::List { members: Vec::new() }, Some(json!([1]))),
            ("1", AcceptedValues::List { members: Vec::new() }, None),
            (r#"[{"a":1,"a":2}]"#, AcceptedValues::List { members: Vec::new() }, None),
        ];
        for (text, accepts, expected) in cases {
            assert_eq!(intended_value(text, &accepts), expected, "{text} for {accepts:?}");
        }
    }
}
