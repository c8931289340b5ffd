//! What a project chose for the extension points of a workflow.

use std::collections::BTreeMap;

use serde_json::Value;
use workrail_model::strict_json::{self, JsonError};

/// Values by slot: the workspace's bindings for one workflow.
pub type Bindings = BTreeMap<String, String>;

/// Why a bindings file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindingsError {
    #[error("the bindings are not JSON: {0}")]
    Json(#[from] JsonError),
    #[error("the bindings must be an object of slot to text, or of workflow id to such an object")]
    Shape,
    #[error("the value of `{slot}` must be text")]
    Value { slot: String },
}

/// The bindings of one workflow. A file has a section per workflow id, or is one flat map for all.
pub fn bindings_for(bytes: &[u8], workflow_id: &str) -> Result<Bindings, BindingsError> {
    let value = strict_json::parse(bytes)?;
    let members = value.as_object().ok_or(BindingsError::Shape)?;
    let section = match members.get(workflow_id) {
        Some(section) => section.as_object().ok_or(BindingsError::Shape)?,
        None if members.values().all(Value::is_string) => members,
        // Only sections of other workflows: nothing is bound here.
        None => return Ok(Bindings::new()),
    };
    let mut bindings = Bindings::new();
    for (slot, value) in section {
        let text = value.as_str().ok_or_else(|| BindingsError::Value { slot: slot.clone() })?;
        bindings.insert(slot.clone(), text.to_owned());
    }
    Ok(bindings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(br#"{"a.b":{"x":"1"},"c.d":{"x":"2"}}"#, Some("1"); "section")]
    #[test_case(br#"{"x":"3"}"#, Some("3"); "flat")]
    #[test_case(br#"{"c.d":{"x":"2"}}"#, None; "other sections only")]
    fn found(bytes: &[u8], expected: Option<&str>) {
        assert_eq!(bindings_for(bytes, "a.b").unwrap().get("x").map(String::as_str), expected);
    }

    #[test_case(b"[]"; "list")]
    #[test_case(b"{"; "not json")]
    #[test_case(br#"{"a.b":{"x":1}}"#; "number")]
    #[test_case(br#"{"a.b":"x","c":{}}"#; "section is text")]
    fn refused(bytes: &[u8]) {
        assert!(bindings_for(bytes, "a.b").is_err());
    }
}
