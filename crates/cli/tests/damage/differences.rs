//! How two answers differ.

use serde_json::Value;

/// Every object that names this session.
pub(crate) fn parts_of(session: &str, value: &Value) -> Value {
    fn collect(session: &str, value: &Value, found: &mut Vec<Value>) {
        match value {
            Value::Object(members) if members.get("sessionId").is_some_and(|id| id == session) => {
                found.push(value.clone());
            }
            Value::Object(members) => members.values().for_each(|member| collect(session, member, found)),
            Value::Array(items) => items.iter().for_each(|item| collect(session, item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    collect(session, value, &mut found);
    Value::Array(found)
}

/// If a title cannot be read, the step's id in its place is good enough.
pub(crate) fn is_same_but_for_titles(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(left), Value::Object(right)) => {
            let id = right.get("stepId").or_else(|| right.get("id"));
            left.len() == right.len()
                && left.iter().all(|(name, member)| match right.get(name) {
                    Some(other) if name == "title" && Some(other) == id => true,
                    Some(other) => is_same_but_for_titles(member, other),
                    None => false,
                })
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(member, other)| is_same_but_for_titles(member, other))
        }
        _ => old == new,
    }
}

/// The first position where two values differ.
pub(crate) fn first_difference(old: &Value, new: &Value, at: &str) -> String {
    match (old, new) {
        (Value::Object(left), Value::Object(right)) => {
            let mut names = left.keys().chain(right.keys());
            let name = names.find(|name| left.get(*name) != right.get(*name));
            match name {
                Some(name) => first_difference(&old[name], &new[name], &format!("{at}/{name}")),
                None => at.to_owned(),
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let index = (0..left.len()).find(|index| left[*index] != right[*index]).unwrap_or(0);
            first_difference(&left[index], &right[index], &format!("{at}/{index}"))
        }
        _ => format!("{at}: {} became {}", short(&old.to_string()), short(&new.to_string())),
    }
}

/// Enough of a text to recognise it.
pub(crate) fn short(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    flat.chars().take(260).collect()
}
