//! Arguments that do not fit, and the same arguments as they would: what is wrong, where, and a call that
//! can be sent as it is (G70).
//!
//! The checks come from the served schema, so that what is taught is what is taken.

use serde_json::{Map, Value, json};
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::limits::SAFE_INTEGER_MAX;
use workrail_model::reply::NextCall;

use crate::catalogue::ToolName;

/// A corrected call is shown whole up to this size; beyond it, long texts are named instead.
const SHOWN_BYTES_MAX: usize = 4096;
const LONG_TEXT_BYTES: usize = 400;
/// What is left of a value that was too large to be taken.
const KEPT_BYTES_MAX: usize = 2048;
/// More than this many slips teach nothing.
const PROBLEMS_MAX: usize = 8;

const RESERVED_CONTEXT_KEYS: [&str; 4] = ["__proto__", "constructor", "prototype", "is_autonomous"];

struct Checking<'a> {
    problems: Vec<String>,
    tool: &'a str,
}

/// The arguments when they fit the tool's schema; otherwise the error that shows how they would.
pub(crate) fn checked(
    tool: ToolName,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, Box<ErrorEnvelope>> {
    let schema = tool.input_schema();
    let mut checking = Checking { problems: Vec::new(), tool: tool.as_str() };
    let fitted = checking.object("", schema, arguments);
    if checking.problems.is_empty() {
        return Ok(fitted);
    }
    let more = checking.problems.len().saturating_sub(PROBLEMS_MAX);
    checking.problems.truncate(PROBLEMS_MAX);
    let mut message = format!("The arguments of {} do not fit: ", checking.tool);
    message.push_str(&checking.problems.join("; "));
    if more > 0 {
        message.push_str(&format!("; and {more} more"));
    }
    message.push_str(". Nothing was recorded.");
    let complete = required(schema).all(|name| fitted.contains_key(name));
    let next_call = if complete {
        NextCall { tool: tool.as_str().to_owned(), arguments: shortened(fitted) }
    } else {
        NextCall::new("list_workflows", [])
    };
    Err(Box::new(ErrorEnvelope {
        code: ErrorCode::ValidationError,
        message,
        retry: Retry::RetryableImmediate,
        suggestion: "Send the call as corrected below; keep your own texts where they are only named."
            .to_owned(),
        next_call: Some(next_call),
        details: None,
    }))
}

fn required(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

impl Checking<'_> {
    fn object(
        &mut self,
        place: &str,
        schema: &Map<String, Value>,
        given: Map<String, Value>,
    ) -> Map<String, Value> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return given };
        let mut fitted = Map::new();
        for (name, value) in given {
            let known = properties
                .get(&name)
                .map(|_| name.clone())
                .or_else(|| self.unknown(place, &name, properties));
            let Some(name) = known else { continue };
            // An absent value and a null one say the same; clients fill in null.
            if value.is_null() || fitted.contains_key(&name) {
                continue;
            }
            let inner = path(place, &name);
            if let Some(value) = self.value(&inner, &properties[&name], value) {
                fitted.insert(name, value);
            }
        }
        for name in required(schema) {
            if !fitted.contains_key(name) {
                self.problems.push(format!("`{}` is missing", path(place, name)));
            }
        }
        fitted
    }

    /// The property that an unknown name was probably meant to be.
    fn unknown(&mut self, place: &str, name: &str, properties: &Map<String, Value>) -> Option<String> {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
        let close = closest(name, properties.keys().map(String::as_str));
        self.problems.push(match &close {
            Some(close) => format!("`{}` is not known, did you mean `{close}`?", path(place, &shown)),
            None => format!("`{}` is not known", path(place, &shown)),
        });
        close
    }

    fn value(&mut self, place: &str, schema: &Value, given: Value) -> Option<Value> {
        let wanted = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return self.choice(place, choices, given);
        }
        match (wanted, given) {
            ("object", Value::Object(members)) => match schema.as_object() {
                Some(schema) => Some(Value::Object(self.object(place, schema, members))),
                None => Some(Value::Object(members)),
            },
            ("array", Value::Array(items)) => Some(Value::Array(self.items(place, schema, items))),
            ("string", text @ Value::String(_)) | ("", text) => Some(text),
            (wanted, given) => self.misfit(place, schema, wanted, given),
        }
    }

    fn items(&mut self, place: &str, schema: &Value, items: Vec<Value>) -> Vec<Value> {
        let Some(each) = schema.get("items") else { return items };
        let fitted = items.into_iter().enumerate();
        fitted
            .filter_map(|(position, item)| self.value(&format!("{place}[{position}]"), each, item))
            .collect()
    }

    fn choice(&mut self, place: &str, choices: &[Value], given: Value) -> Option<Value> {
        if choices.contains(&given) {
            return Some(given);
        }
        let names: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
        let close = given.as_str().and_then(|text| closest(text, names.iter().copied()));
        let hint = close.as_ref().map_or_else(String::new, |close| format!(", did you mean `{close}`?"));
        self.problems.push(format!("`{place}` must be one of {}{hint}", names.join(", ")));
        close.map(Value::from)
    }

    /// A value of the wrong type; most are JSON written as text, or a single item without its list.
    fn misfit(&mut self, place: &str, schema: &Value, wanted: &str, given: Value) -> Option<Value> {
        let found = type_name(&given);
        match (wanted, given) {
            ("object" | "array", Value::String(text)) => {
                let inner =
                    serde_json::from_str::<Value>(&text).ok().filter(|inner| type_name(inner) == wanted);
                match inner {
                    Some(inner) => {
                        self.problems
                            .push(format!("`{place}` is JSON inside a string, send the {wanted} itself"));
                        self.value(place, schema, inner)
                    }
                    None => {
                        self.problems.push(format!("`{place}` must be of type {wanted}, it is a string"));
                        self.rescued_text(place, text)
                    }
                }
            }
            ("array", item @ Value::Object(_)) => {
                self.problems
                    .push(format!("`{place}` must be a list, it is one {found}: put it into a list"));
                Some(Value::Array(self.items(place, schema, vec![item])))
            }
            ("string", plain @ (Value::Number(_) | Value::Bool(_))) => {
                self.problems.push(format!("`{place}` must be a string, it is a {found}"));
                Some(Value::from(plain.to_string()))
            }
            ("string", Value::Array(lines)) if lines.iter().all(Value::is_string) => {
                self.problems.push(format!("`{place}` must be one string, it is a list of them"));
                let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
                Some(Value::from(lines.join("\n")))
            }
            ("string", other) => {
                self.problems.push(format!("`{place}` must be a string, it is of type {found}"));
                Some(Value::from(other.to_string()))
            }
            (wanted, _) => {
                self.problems.push(format!("`{place}` must be of type {wanted}, it is of type {found}"));
                None
            }
        }
    }

    /// Words where `output` wants an object are the notes.
    fn rescued_text(&self, place: &str, text: String) -> Option<Value> {
        (place == "output").then(|| json!({ "notesMarkdown": text }))
    }
}

/// The same call without what the engine found too large or not allowed; it passes as it is.
pub(crate) fn acceptable(tool: ToolName, mut arguments: Map<String, Value>) -> NextCall {
    let usable = |path: &str| path.starts_with('/') && !path.chars().any(char::is_control);
    if !arguments.get("workspacePath").and_then(Value::as_str).is_some_and(usable) {
        arguments.remove("workspacePath");
    }
    if let Some(Value::Object(context)) = arguments.get_mut("context") {
        context.retain(|key, value| {
            !RESERVED_CONTEXT_KEYS.contains(&key.as_str()) && value.to_string().len() <= KEPT_BYTES_MAX
        });
    }
    if let Some(Value::Object(output)) = arguments.get_mut("output") {
        if let Some(Value::String(notes)) = output.get_mut("notesMarkdown")
            && notes.len() > KEPT_BYTES_MAX
        {
            *notes = "<the same in fewer words: what you did in this step>".to_owned();
        }
        if let Some(Value::Array(artifacts)) = output.get_mut("artifacts") {
            artifacts.retain(|artifact| artifact.to_string().len() <= KEPT_BYTES_MAX);
        }
    }
    for value in arguments.values_mut() {
        with_safe_numbers(value);
    }
    NextCall { tool: tool.as_str().to_owned(), arguments: shortened(arguments) }
}

/// Integers that a double cannot hold become strings.
fn with_safe_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let safe =
                number.as_i64().map_or(number.as_u64().is_none(), |n| n.unsigned_abs() <= SAFE_INTEGER_MAX);
            if !safe {
                *value = Value::from(number.to_string());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_safe_numbers),
        Value::Object(members) => members.values_mut().for_each(with_safe_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A call that is small enough to be shown: long texts are named by their length.
fn shortened(arguments: Map<String, Value>) -> Map<String, Value> {
    let mut value = Value::Object(arguments);
    if value.to_string().len() > SHOWN_BYTES_MAX {
        name_long_texts(&mut value);
    }
    match value {
        Value::Object(arguments) => arguments,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn name_long_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > LONG_TEXT_BYTES => {
            *text = format!("<your text of {} bytes>", text.len());
        }
        Value::Array(items) => items.iter_mut().for_each(name_long_texts),
        Value::Object(members) => members.values_mut().for_each(name_long_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The known name that a wrong one is closest to, if any is close.
pub(crate) fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let plain = |text: &str| text.replace(['_', '-', ' '], "").to_ascii_lowercase();
    let wanted = plain(name);
    let scored = known.map(|other| (strsim::damerau_levenshtein(&wanted, &plain(other)), other));
    let best = scored.min_by_key(|(distance, other)| (*distance, *other));
    // A third of the letters may be wrong: beyond that it is another word.
    best.filter(|(distance, other)| *distance * 3 <= other.len()).map(|(_, other)| other.to_owned())
}

fn path(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_case::test_case;

    use super::*;

    fn given(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test_case(json!({ "ackToken": "a", "output": "{\"notesMarkdown\":\"n\"}" }), "JSON inside a string"; "json in a string")]
    #[test_case(json!({ "ackToken": "a", "output": "plain words" }), "must be of type object"; "words instead of output")]
    #[test_case(json!({ "ackToken": "a", "context": "[1]" }), "must be of type object"; "another type in a string")]
    #[test_case(json!({ "acktoken": "a" }), "did you mean `ackToken`"; "case")]
    #[test_case(json!({ "ack_token": "a" }), "did you mean `ackToken`"; "snake case")]
    #[test_case(json!({ "ackToken": "a", "output": { "notes": "n" } }), "`output.notes` is not known"; "nested unknown")]
    #[test_case(json!({ "ackToken": 7 }), "must be a string"; "number")]
    #[test_case(json!({ "ackToken": "a", "output": { "artifacts": { "kind": "x" } } }), "must be a list"; "one artifact")]
    #[test_case(json!({ "ackToken": "a", "output": { "artifacts": ["{\"kind\":\"x\"}"] } }), "JSON inside a string"; "artifact as text")]
    #[test_case(json!({ "ackToken": "a", "output": { "notesMarkdown": ["a", "b"] } }), "list of them"; "lines")]
    fn what_does_not_fit_is_corrected_and_the_correction_fits(arguments: Value, expected: &str) {
        let error = checked(ToolName::ContinueWorkflow, given(arguments)).unwrap_err();
        assert!(error.message.contains(expected), "{}", error.message);
        let call = error.next_call.unwrap();
        assert_eq!(call.tool, "continue_workflow");
        assert!(checked(ToolName::ContinueWorkflow, call.arguments.clone()).is_ok(), "{call:?}");
        assert!(call.arguments.contains_key("ackToken"));
    }

    #[test]
    fn a_missing_workflow_leads_to_the_list() {
        let error = checked(ToolName::StartWorkflow, Map::new()).unwrap_err();
        assert_eq!(error.next_call.unwrap().tool, "list_workflows");
    }

    #[test]
    fn null_is_the_same_as_nothing() {
        let fitted =
            checked(ToolName::ContinueWorkflow, given(json!({ "ackToken": "a", "context": null }))).unwrap();
        assert_eq!(Value::Object(fitted), json!({ "ackToken": "a" }));
    }

    #[test]
    fn a_wrong_mode_names_the_right_ones() {
        let arguments = json!({ "workflowId": "w", "mode": "full_auto_neverstop" });
        let error = checked(ToolName::StartWorkflow, given(arguments)).unwrap_err();
        assert!(error.message.contains("did you mean `full_auto_never_stop`"), "{}", error.message);
        assert_eq!(error.next_call.unwrap().arguments["mode"], "full_auto_never_stop");
    }

    #[test]
    fn what_is_too_large_is_left_out_of_the_next_call() {
        let arguments = json!({
            "ackToken": "a",
            "context": { "small": 1, "large": "x".repeat(300_000), "__proto__": 1, "big": 9_007_199_254_740_993_u64 },
            "output": { "notesMarkdown": "y".repeat(1_000_000), "artifacts": [{ "kind": "k" }] },
        });
        let call = acceptable(ToolName::ContinueWorkflow, given(arguments));
        assert_eq!(call.arguments["context"], json!({ "small": 1, "big": "9007199254740993" }));
        assert!(Value::Object(call.arguments).to_string().len() < 4096);
    }
}
