//! Removes everything too large or not allowed from a call, so that the rest is accepted as it is.
//!
//! Whatever was sent, the call offered instead is small enough to be shown (G70, G73).

use serde_json::{Map, Value, json};
use workrail_model::canonical::value_to_canonical;
use workrail_model::error::{ErrorDetails, Oversize, RefusedArgument};
use workrail_model::event::Context;
use workrail_model::limits::{GOAL_BYTES_MAX, JSON_DEPTH_MAX};
use workrail_model::placeholder;
use workrail_model::reply::NextCall;
use workrail_model::tool::ToolName;

use super::is_nothing;

/// A corrected call is shown in full up to this size; beyond it, long texts are replaced by their length.
const SHOWN_BYTES_MAX: usize = 4096;
/// In the data of the reply, up to this size: following the correction does not lose what was sent.
const WHOLE_BYTES_MAX: usize = 32 * 1024;
const LONG_TEXT_BYTES: usize = 400;
/// How much is kept of a value that was too large.
const KEPT_BYTES_MAX: usize = 2048;
/// How much is kept of the many members of one object or list.
const KEPT_TOGETHER_BYTES_MAX: usize = 1024;
/// Far below the limit: what is kept is wrapped once more before it is checked.
const KEPT_DEPTH_MAX: usize = JSON_DEPTH_MAX / 2;

/// The same call without what the engine found too large or not allowed. `details` is what it measured.
pub fn acceptable(
    tool: ToolName,
    mut arguments: Map<String, Value>,
    details: Option<&ErrorDetails>,
) -> NextCall {
    let usable = |path: &str| path.starts_with('/') && !path.chars().any(char::is_control);
    let is_refused =
        matches!(details, Some(ErrorDetails::Argument { argument: RefusedArgument::WorkspacePath }));
    if is_refused || !arguments.get("workspacePath").and_then(Value::as_str).is_some_and(usable) {
        arguments.remove("workspacePath");
    }
    if arguments.contains_key("parent") {
        arguments.remove("sessionToken");
    }
    if let Some(Value::String(goal)) = arguments.get_mut("goal") {
        goal.truncate(goal.floor_char_boundary(GOAL_BYTES_MAX / 2));
    }
    let sent = arguments.get("context").map_or(0, |context| context.to_string().len());
    if let Some(Value::Object(context)) = arguments.get_mut("context") {
        context.retain(|key, value| !Context::RESERVED_KEYS.contains(&key.as_str()) && is_small(value));
    }
    if let Some(ErrorDetails::MissingContext(wanted) | ErrorDetails::StepTextTooLong { wanted, .. }) = details
    {
        // The goal is also a context value, and overrides one in `context`.
        if wanted.context_key == "goal" {
            arguments.remove("goal");
        }
        let context = arguments.entry("context").or_insert_with(|| json!({}));
        context[&wanted.context_key] = wanted.empty_value.clone();
    }
    if let Some(Value::Object(output)) = arguments.get_mut("output") {
        if let Some(Value::String(notes)) = output.get_mut("notesMarkdown")
            && notes.len() > KEPT_BYTES_MAX
        {
            placeholder::SHORTER_STEP_NOTES.clone_into(notes);
        }
        if let Some(Value::Array(artifacts)) = output.get_mut("artifacts") {
            if let Some(
                ErrorDetails::NotTheAgentsGap { refused, .. } | ErrorDetails::NoSuchGap { refused, .. },
            ) = details
                && refused.refused_artifact < artifacts.len()
            {
                artifacts.remove(refused.refused_artifact);
            }
            artifacts.retain(is_small);
        }
    }
    if tool == ToolName::CheckpointWorkflow && is_nothing(arguments.get("output")) {
        arguments.insert("output".to_owned(), json!({ "notesMarkdown": placeholder::CHECKPOINT_NOTES }));
    }
    for value in arguments.values_mut() {
        with_safe_numbers(value);
    }
    let mut arguments = shortened(arguments);
    let context_bytes = arguments.get("context").map_or(0, |context| context.to_string().len());
    // The context is measured together with what is stored: if that is nearly full, nothing more fits.
    if sent.saturating_sub(context_bytes) < context_excess(details) {
        arguments.remove("context");
    }
    NextCall { tool, arguments }
}

/// By how many bytes the context was too long; 0 if something else was measured.
fn context_excess(details: Option<&ErrorDetails>) -> usize {
    match details {
        Some(ErrorDetails::Oversize(Oversize {
            argument: Some(RefusedArgument::Context),
            measured_bytes,
            max_bytes,
            ..
        })) => measured_bytes.saturating_sub(*max_bytes),
        _ => 0,
    }
}

fn is_small(value: &Value) -> bool {
    depth(value) <= KEPT_DEPTH_MAX && value.to_string().len() <= KEPT_BYTES_MAX
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Integers that a double cannot hold become strings.
fn with_safe_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if value_to_canonical(&Value::Number(number.clone())).is_err() {
                *value = Value::from(number.to_string());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_safe_numbers),
        Value::Object(members) => members.values_mut().for_each(with_safe_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A call that loses none of the caller's words if it can be sent back at all.
pub(crate) fn whole_or_shortened(arguments: Map<String, Value>) -> Map<String, Value> {
    if Value::Object(arguments.clone()).to_string().len() <= WHOLE_BYTES_MAX {
        arguments
    } else {
        shortened(arguments)
    }
}

/// A call that is small enough to be shown: long texts are replaced by their length, and of many members only the
/// first are kept.
pub fn shortened(arguments: Map<String, Value>) -> Map<String, Value> {
    let mut value = Value::Object(arguments);
    if value.to_string().len() > SHOWN_BYTES_MAX {
        name_long_texts(&mut value);
    }
    if value.to_string().len() > SHOWN_BYTES_MAX
        && let Value::Object(arguments) = &mut value
    {
        arguments.values_mut().for_each(keep_first);
    }
    match value {
        Value::Object(arguments) => arguments,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn name_long_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > LONG_TEXT_BYTES => {
            *text = placeholder::long_text(text.len());
        }
        Value::Array(items) => items.iter_mut().for_each(name_long_texts),
        Value::Object(members) => members.values_mut().for_each(name_long_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Keeps whole members from the front while they fit together.
fn keep_first(value: &mut Value) {
    let mut room = KEPT_TOGETHER_BYTES_MAX;
    let mut fits = |bytes: usize| {
        let left = room.checked_sub(bytes);
        room = left.unwrap_or(0);
        left.is_some()
    };
    match value {
        Value::Array(items) => items.retain(|item| fits(item.to_string().len())),
        Value::Object(members) => members.retain(|key, member| fits(key.len() + member.to_string().len())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workrail_model::error::{RefusedArtifact, SizeMethod, WantedValue};

    fn given(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn oversized_values_are_left_out_of_the_next_call() {
        let arguments = json!({
            "ackToken": "a",
            "context": { "small": 1, "large": "x".repeat(300_000), "__proto__": 1, "big": 9_007_199_254_740_993_u64 },
            "output": { "notesMarkdown": "y".repeat(1_000_000), "artifacts": [{ "kind": "k" }] },
        });
        let call = acceptable(ToolName::ContinueWorkflow, given(arguments), None);
        assert_eq!(call.arguments["context"], json!({ "small": 1, "big": "9007199254740993" }));
        assert!(Value::Object(call.arguments).to_string().len() < 4096);
    }

    #[test]
    fn many_small_members_are_not_all_echoed() {
        let context: Map<String, Value> = (0..20_000).map(|n| (format!("key-{n}"), json!("value"))).collect();
        let call = acceptable(ToolName::ContinueWorkflow, given(json!({ "context": context })), None);
        assert!(!call.arguments["context"].as_object().unwrap().is_empty());
        assert!(Value::Object(call.arguments).to_string().len() < 4096);
    }

    #[test]
    fn an_artifact_that_may_not_be_sent_is_left_out() {
        let no_such_gap = |position| ErrorDetails::NoSuchGap {
            refused: RefusedArtifact { argument: RefusedArgument::Output, refused_artifact: position },
            open_gaps: Vec::new(),
        };
        let arguments =
            given(json!({ "ackToken": "a", "output": { "artifacts": [{ "kind": "a" }, { "kind": "b" }] } }));
        let call = acceptable(ToolName::ContinueWorkflow, arguments, Some(&no_such_gap(1)));
        assert_eq!(call.arguments["output"]["artifacts"], json!([{ "kind": "a" }]));
        let arguments =
            given(json!({ "checkpointToken": "c", "output": { "artifacts": [{ "kind": "a" }] } }));
        let call = acceptable(ToolName::CheckpointWorkflow, arguments, Some(&no_such_gap(0)));
        assert_eq!(call.arguments["output"]["notesMarkdown"], placeholder::CHECKPOINT_NOTES);
    }

    #[test]
    fn a_value_too_large_to_show_is_emptied_wherever_it_comes_from() {
        let wanted = |key: &str, empty_value| {
            let context_key = key.to_owned();
            ErrorDetails::MissingContext(WantedValue {
                argument: RefusedArgument::Context,
                context_key,
                empty_value,
            })
        };
        let details = wanted("b", json!([""]));
        for context in [json!({}), json!({ "context": { "b": "x", "c": 1 } })] {
            let mut arguments = given(context.clone());
            arguments.insert("ackToken".to_owned(), json!("a"));
            let call = acceptable(ToolName::ContinueWorkflow, arguments, Some(&details));
            assert_eq!(call.arguments["context"]["b"], json!([""]));
            assert_eq!(call.arguments["context"].get("c"), context["context"].get("c"));
        }
        let details = wanted("goal", json!(""));
        let arguments = given(json!({ "workflowId": "w", "goal": "g" }));
        let call = acceptable(ToolName::StartWorkflow, arguments, Some(&details));
        assert_eq!(Value::Object(call.arguments), json!({ "workflowId": "w", "context": { "goal": "" } }));
    }

    #[test]
    fn a_context_that_cannot_grow_is_left_out() {
        let details = ErrorDetails::Oversize(Oversize {
            argument: Some(RefusedArgument::Context),
            measured_bytes: 262_150,
            max_bytes: 262_144,
            method: SizeMethod::MergedCanonicalJson,
        });
        let arguments = given(json!({ "ackToken": "a", "context": { "small": 1 } }));
        let call = acceptable(ToolName::ContinueWorkflow, arguments, Some(&details));
        assert_eq!(Value::Object(call.arguments), json!({ "ackToken": "a" }));
    }
}
