//! Takes what is unmistakable: the value of a declared key or of an artifact's field in another spelling (G47).

use serde_json::{Map, Number, Value};
use workrail_model::canonical::value_to_canonical;
use workrail_model::compiled::{AcceptedValues, CompiledContract, CompiledStep, CompiledWorkflow};
use workrail_model::event::Context;
use workrail_model::reply::{Warning, WarningCode};
use workrail_model::strict_json;

use workrail_model::text::truncate_with_marker;

use super::DecideError;
use super::request::AdvanceRequest;
use crate::contract::kind_of;
use crate::routing;
use crate::secrets::is_secret;

/// A value may be long; its beginning is enough to recognise it.
const VALUE_SHOWN_BYTES: usize = 60;

/// The request with declared context values and the owed artifact's fields as the step accepts them, and a warning for
/// each that was changed.
pub(super) fn fitted(
    request: &AdvanceRequest,
    workflow: &CompiledWorkflow,
    step: Option<&CompiledStep>,
) -> Result<(AdvanceRequest, Vec<Warning>), DecideError> {
    let mut fitted = request.clone();
    let mut warnings = Vec::new();
    let mut context: Map<String, Value> = request.context.as_map().clone();
    for (key, duty) in step.into_iter().flat_map(|step| &step.sets) {
        if let Some(value) = context.get_mut(key.as_str()) {
            warnings.extend(fit(value, &duty.accepts, key.as_str(), &format!("context.{key}")));
        }
    }
    if !warnings.is_empty() {
        fitted.context = Context::new(context)?;
    }
    let owed = step.and_then(|step| workflow.contract(&step.output.as_ref()?.contract_ref));
    if let Some(CompiledContract { artifact_kind, schema, .. }) = owed {
        for artifact in fitted.artifacts.iter_mut().filter(|own| kind_of(own) == artifact_kind) {
            fit_fields(artifact, schema, artifact_kind, &mut warnings);
        }
    }
    Ok((fitted, warnings))
}

/// Puts what a text means in its place. `name` is the key or field, `place` where it stands.
fn fit(value: &mut Value, accepts: &AcceptedValues, name: &str, place: &str) -> Option<Warning> {
    let meant = meant(value.as_str()?.trim(), accepts).filter(|meant| meant != value)?;
    let message = match is_secret(name) {
        true => format!("`{place}` was sent in another spelling and adjusted."),
        false => {
            let sent = value.to_string();
            let shown = truncate_with_marker(&sent, VALUE_SHOWN_BYTES);
            let recorded = meant.to_string();
            let recorded = truncate_with_marker(&recorded, VALUE_SHOWN_BYTES);
            format!("`{place}` was sent as {shown} and recorded as {recorded}.")
        }
    };
    *value = meant;
    Some(Warning { code: WarningCode::ArgumentsAdjusted, message })
}

fn fit_fields(value: &mut Value, schema: &Value, place: &str, warnings: &mut Vec<Warning>) {
    if let Some(accepts) = accepted_by(schema) {
        let name = place.rsplit('.').next().unwrap_or(place);
        warnings.extend(fit(value, &accepts, name, place));
    }
    match value {
        Value::Object(members) => {
            leave_out_empty(members, schema, place, warnings);
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(member) = members.get_mut(name) {
                    fit_fields(member, field, &format!("{place}.{name}"), warnings);
                }
            }
        }
        Value::Array(items) => {
            for (position, item) in items.iter_mut().enumerate() {
                fit_fields(item, &schema["items"], &format!("{place}[{position}]"), warnings);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// An optional text that is sent empty says the same as one that is not sent.
fn leave_out_empty(
    members: &mut Map<String, Value>,
    schema: &Value,
    place: &str,
    warnings: &mut Vec<Warning>,
) {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|own| own == name));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let needs_words = field["minLength"].as_u64().is_some_and(|least| least > 0);
        if needs_words && !is_required(name) && members.get(name).is_some_and(|value| value == "") {
            members.remove(name);
            let message = format!("`{place}.{name}` was sent empty and left out.");
            warnings.push(Warning { code: WarningCode::ArgumentsAdjusted, message });
        }
    }
}

/// What a field takes beside free text.
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

/// A value as a declared key takes it; `None` for one that it does not take.
pub fn accepted(value: &Value, accepts: &AcceptedValues) -> Option<Value> {
    if routing::allows(accepts, value) {
        return Some(value.clone());
    }
    let meant = meant(value.as_str()?.trim(), accepts)?;
    routing::allows(accepts, &meant).then_some(meant)
}

/// The one accepted value that a text can mean.
fn meant(text: &str, accepts: &AcceptedValues) -> Option<Value> {
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
    fn an_artifact_in_another_spelling_is_taken_with_a_warning_for_each_field() {
        let schema = json!({ "type": "object", "properties": {
            "decision": { "enum": ["continue", "stop"] },
            "metadata": { "type": "object", "properties": {
                "confidence": { "type": "integer" }, "reason": { "type": "string" },
            } },
            "checks": { "type": "array", "items": { "type": "object", "properties": {
                "passed": { "type": "boolean" }, "command": { "type": "string", "minLength": 1 },
            } } },
        } });
        let mut artifact = json!({
            "decision": "Stop", "metadata": { "confidence": "95", "reason": "95" },
            "checks": [{ "passed": "true", "command": "" }, { "passed": "perhaps" }], "other": "5",
        });
        let mut warnings = Vec::new();
        fit_fields(&mut artifact, &schema, "wr.x", &mut warnings);
        let messages: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
        insta::assert_snapshot!(format!("{artifact}\n{}", messages.join("\n")), @r#"
        {"checks":[{"passed":true},{"passed":"perhaps"}],"decision":"stop","metadata":{"confidence":95,"reason":"95"},"other":"5"}
        `wr.x.checks[0].command` was sent empty and left out.
        `wr.x.checks[0].passed` was sent as "true" and recorded as true.
        `wr.x.decision` was sent as "Stop" and recorded as "stop".
        `wr.x.metadata.confidence` was sent as "95" and recorded as 95.
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
            assert_eq!(meant(text, &accepts), expected, "{text} for {accepts:?}");
        }
    }
}
