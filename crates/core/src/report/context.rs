//! What a report shows of the context: keys always, short values on request, secrets never.
//!
//! A report is made to be shared, and context is where an agent puts what a user typed.

use serde_json::Value;
use workrail_model::event::Context;

use super::{ContextEntry, ContextValue};
use crate::secrets::is_secret;

/// Whether values are shown at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextValues {
    #[default]
    NotShown,
    Short,
}

/// Longer values are payload, not routing state.
const VALUE_BYTES_MAX: usize = 80;

pub(super) fn entries(context: &Context, values: ContextValues) -> Vec<ContextEntry> {
    // The goal is shown with the run.
    let is_shown = |(key, _): &(&String, &Value)| key.as_str() != "goal";
    let entry =
        |(key, value): (&String, &Value)| ContextEntry { key: key.clone(), value: seen(key, value, values) };
    context.as_map().iter().filter(is_shown).map(entry).collect()
}

/// What is shown of one value.
pub(crate) fn seen(key: &str, value: &Value, values: ContextValues) -> ContextValue {
    if is_secret(key) {
        return ContextValue::Withheld;
    }
    let hidden_bytes = match value {
        Value::String(text) => Some(text.len()).filter(|bytes| *bytes > VALUE_BYTES_MAX),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
        // Lists and objects are payload however short they are.
        Value::Array(_) | Value::Object(_) => Some(value.to_string().len()),
    };
    match (values, hidden_bytes) {
        (ContextValues::NotShown, _) => ContextValue::NotShown,
        (ContextValues::Short, Some(bytes)) => ContextValue::TooLong { bytes: bytes as u64 },
        (ContextValues::Short, None) => ContextValue::Shown { value: value.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_is_withheld_even_if_values_are_requested() {
        let map = json!({
            "api_Key": "k", "authToken": "t", "DB_PASSWORD": "p", "branch": "main", "files": ["a"], "tries": 3,
            "essay": "x".repeat(81),
        });
        let context = Context::new(map.as_object().unwrap().clone()).unwrap();
        let shown: Vec<(String, ContextValue)> = entries(&context, ContextValues::Short)
            .into_iter()
            .map(|entry| (entry.key, entry.value))
            .collect();
        let expected = [
            ("DB_PASSWORD", ContextValue::Withheld),
            ("api_Key", ContextValue::Withheld),
            ("authToken", ContextValue::Withheld),
            ("branch", ContextValue::Shown { value: json!("main") }),
            ("essay", ContextValue::TooLong { bytes: 81 }),
            ("files", ContextValue::TooLong { bytes: 5 }),
            ("tries", ContextValue::Shown { value: json!(3) }),
        ];
        assert_eq!(shown, expected.map(|(key, value)| (key.to_owned(), value)));
        let hidden = entries(&context, ContextValues::NotShown);
        assert!(hidden.iter().all(|entry| !matches!(entry.value, ContextValue::Shown { .. })));
    }

    /// Broke: every short list and object had 81 bytes.
    #[test]
    fn a_hidden_value_has_its_own_length() {
        for (value, bytes) in [(json!([]), 2), (json!({ "a": 1 }), 7), (json!("x".repeat(100)), 100)] {
            let expected = ContextValue::TooLong { bytes };
            assert_eq!(seen("value", &value, ContextValues::Short), expected, "{value}");
        }
    }
}
