//! `context_set`: durable context that follows the branch (G50).

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::canonical::value_to_canonical;
use crate::id::{AttemptId, ContextId, NodeId};
use crate::limits::{CONTEXT_BYTES_MAX, CONTEXT_DEPTH_MAX};
use crate::passkey::PasskeyProof;

/// Why a context is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    #[error("the key {key:?} is reserved")]
    Reserved { key: String },
    #[error("it has {bytes} bytes as JSON; the limit is {CONTEXT_BYTES_MAX} bytes")]
    OverBudget { bytes: usize },
    #[error("nested deeper than {CONTEXT_DEPTH_MAX} levels")]
    TooDeep,
    #[error("{0}")]
    NotCanonical(String),
}

/// A map of context keys within the byte budget, without reserved keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Context(Map<String, Value>);

impl Context {
    /// Keys no caller may set: the first three poison objects in other runtimes, the last is ours.
    pub const RESERVED_KEYS: [&str; 4] = ["__proto__", "constructor", "prototype", "is_autonomous"];

    pub fn new(map: Map<String, Value>) -> Result<Self, ContextError> {
        let context = Self(map);
        context.check()?;
        Ok(context)
    }

    /// Shallow merge: `null` deletes, everything else replaces.
    pub fn merged(&self, delta: &Self) -> Result<Self, ContextError> {
        let mut map = self.0.clone();
        for (key, value) in &delta.0 {
            if value.is_null() {
                map.remove(key);
            } else {
                map.insert(key.clone(), value.clone());
            }
        }
        Self::new(map)
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    fn check(&self) -> Result<(), ContextError> {
        if let Some(key) = self.0.keys().find(|key| Self::RESERVED_KEYS.contains(&key.as_str())) {
            return Err(ContextError::Reserved { key: key.clone() });
        }
        if self.0.values().any(|value| is_deeper(value, CONTEXT_DEPTH_MAX - 1)) {
            return Err(ContextError::TooDeep);
        }
        let bytes = value_to_canonical(&Value::Object(self.0.clone()))
            .map_err(|error| ContextError::NotCanonical(error.to_string()))?
            .len();
        if bytes > CONTEXT_BYTES_MAX {
            return Err(ContextError::OverBudget { bytes });
        }
        Ok(())
    }
}

/// Whether a value has more than `levels` levels of lists and objects; looks no deeper than that.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let inner = |value: &Value| is_deeper(value, levels.saturating_sub(1));
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(inner),
        Value::Object(members) => levels == 0 || members.values().any(inner),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Map::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextSource {
    Initial,
    AgentDelta,
    /// A person answered a question of the step (G63).
    Answer,
    /// The program that runs the agent was asked to show the user a form, and sent this back. A hook of that program can
    /// answer without showing it to anyone (G63).
    ChatAnswer,
    /// Answered in the console, which an agent with a shell can open too (G63).
    ConsoleAnswer,
}

/// The keys that were set; a node's context folds the sets on its own ancestor path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextSet {
    pub context_id: ContextId,
    pub context: Context,
    pub source: ContextSource,
    /// The node from which on the values hold: the child that the advance created, or the root.
    pub node_id: NodeId,
    /// Present when the attempt was blocked: then only its retry chain sees the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<AttemptId>,
    /// What a passkey signed of an answer that was given in the console (G97).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<PasskeyProof>,
}

impl ContextSet {
    pub(super) fn check(&self) -> Result<(), String> {
        self.context.check().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn context(value: Value) -> Context {
        Context::new(value.as_object().unwrap().clone()).unwrap()
    }

    #[test]
    fn nesting_is_limited_so_that_records_stay_readable() {
        let nested = |levels: usize| {
            let value = (1..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
            Context::new(Map::from_iter([("key".to_owned(), value)]))
        };
        assert!(nested(CONTEXT_DEPTH_MAX).is_ok());
        assert_eq!(nested(CONTEXT_DEPTH_MAX + 1), Err(ContextError::TooDeep));
    }

    /// G50: `null` deletes a key.
    #[test]
    fn null_deletes_and_objects_are_replaced() {
        let merged = context(json!({"a": 1, "b": {"x": 1}, "c": 3}))
            .merged(&context(json!({"a": null, "b": {"y": 2}})))
            .unwrap();
        assert_eq!(merged, context(json!({"b": {"y": 2}, "c": 3})));
    }

    /// G50: reserved keys are refused.
    #[test]
    fn reserved_keys_are_refused() {
        for key in Context::RESERVED_KEYS {
            let map = [(key.to_owned(), json!(1))].into_iter().collect();
            assert_eq!(Context::new(map), Err(ContextError::Reserved { key: key.to_owned() }));
        }
    }

    #[test]
    fn the_budget_counts_canonical_bytes_after_the_merge() {
        let half = context(json!({ "a": "x".repeat(200_000) }));
        let error = half.merged(&context(json!({ "b": "x".repeat(100_000) }))).unwrap_err();
        assert_eq!(error, ContextError::OverBudget { bytes: 300_015 });
    }
}
