//! Takes what is unmistakable: the value of a declared key in another spelling (G47).

use serde_json::{Map, Number, Value};
use workrail_model::canonical::value_to_canonical;
use workrail_model::compiled::{AcceptedValues, CompiledStep};
use workrail_model::event::Context;
use workrail_model::reply::{Warning, WarningCode};
use workrail_model::strict_json;

use workrail_model::text::truncate_with_marker;

use super::DecideError;
use super::request::AdvanceRequest;
use crate::routing;
use crate::secrets::is_secret;

/// A value may be long; its beginning is enough to recognise it.
const VALUE_SHOWN_BYTES: usize = 60;

/// The request with declared context values as their step accepts them, and a warning for each that was changed.
pub(super) fn fitted(
    request: &AdvanceRequest,
    step: Option<&CompiledStep>,
) -> Result<(AdvanceRequest, Vec<Warning>), DecideError> {
    let mut fitted = request.clone();
    let mut warnings = Vec::new();
    let mut context: Map<String, Value> = request.context.as_map().clone();
    for (key, duty) in step.into_iter().flat_map(|step| &step.sets) {
        let Some(value) = context.get_mut(key.as_str()) else { continue };
        let Some(meant) = value.as_str().and_then(|text| meant(text.trim(), &duty.accepts)) else { continue };
        if *value == meant {
            continue;
        }
        let message = match is_secret(key.as_str()) {
            true => format!("`context.{key}` was sent in another spelling and adjusted."),
            false => {
                let sent = value.to_string();
                let shown = truncate_with_marker(&sent, VALUE_SHOWN_BYTES);
                let recorded = meant.to_string();
                let recorded = truncate_with_marker(&recorded, VALUE_SHOWN_BYTES);
                format!("`context.{key}` was sent as {shown} and recorded as {recorded}.")
            }
        };
        warnings.push(Warning { code: WarningCode::ArgumentsAdjusted, message });
        *value = meant;
    }
    if !warnings.is_empty() {
        fitted.context = Context::new(context)?;
    }
    Ok((fitted, warnings))
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
