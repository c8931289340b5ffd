//! Checks arguments as clients and models send them. Unmistakable ones are accepted with a note; others are answered
//! with what is wrong, where, and a call that can be sent unchanged (G70).
//!
//! The checks come from the served schema, so that what is documented is what is accepted.

use serde_json::{Map, Value, json};
use workrail_engine::next_call;
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::nearest::nearest;
use workrail_model::placeholder::placeholder_in;
use workrail_model::reply::NextCall;
use workrail_model::strict_json;
use workrail_model::tool::ToolName;

use crate::catalogue::input_schema;

/// Listing more mistakes than this teaches nothing.
const SENTENCES_MAX: usize = 8;

/// Where models put the result of a step when they forget `output`.
const OUTPUT_MEMBERS: [&str; 4] = ["notesMarkdown", "notes", "notes_markdown", "artifacts"];

struct ArgumentCheck {
    problems: Vec<String>,
    /// What was understood despite another form, and what was ignored.
    adjusted: Vec<String>,
    tool: ToolName,
}

/// Arguments that match the tool's schema.
#[derive(Debug)]
pub(crate) struct FittedArguments {
    pub(crate) arguments: Map<String, Value>,
    /// What was changed to make them match, for the caller.
    pub(crate) note: Option<String>,
}

/// The first few of many sentences, and how many there are in total.
fn first_few(all: &[String]) -> String {
    let mut text = all.iter().take(SENTENCES_MAX).cloned().collect::<Vec<_>>().join("; ");
    if all.len() > SENTENCES_MAX {
        text.push_str(&format!("; and {} more", all.len() - SENTENCES_MAX));
    }
    text
}

/// The arguments if they match the tool's schema; otherwise an error that shows how they would.
pub(crate) fn checked(
    tool: ToolName,
    arguments: Map<String, Value>,
) -> Result<FittedArguments, Box<ErrorEnvelope>> {
    let schema = input_schema(tool);
    let mut check = ArgumentCheck { problems: Vec::new(), adjusted: Vec::new(), tool };
    let arguments = check.with_output_in_place(schema, arguments);
    let fitted = check.object("", schema, arguments);
    if check.problems.is_empty() {
        let note = (!check.adjusted.is_empty()).then(|| format!("{}.", first_few(&check.adjusted)));
        return Ok(FittedArguments { arguments: fitted, note });
    }
    let problems = first_few(&check.problems);
    let message = format!("Invalid arguments for {}: {problems}. Nothing was recorded.", check.tool);
    let has_required = required(schema).all(|name| fitted.contains_key(name));
    let next = next_call::corrected(tool, fitted, has_required);
    Err(Box::new(ErrorEnvelope {
        code: ErrorCode::ValidationError,
        message,
        retry: Retry::RetryableImmediate,
        suggestion: how_to_correct(tool, &next).to_owned(),
        suggestion_for_people: None,
        in_team: None,
        next_call: Some(next),
        details: None,
    }))
}

fn how_to_correct(tool: ToolName, next: &NextCall) -> &'static str {
    if next.tool != tool {
        return "Find the run with the call below, then send your call again with its token.";
    }
    match placeholder_in(&Value::Object(next.arguments.clone())) {
        Some(_) => {
            "Correct the arguments and send the call below. Replace each placeholder in it with your own text."
        }
        None => {
            "Correct the arguments and send the call again. The call below is yours without the invalid arguments; add them \
             corrected."
        }
    }
}

fn required(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn is_token(path: &str) -> bool {
    path.ends_with("Token") || path == "parent"
}

/// Free text can be made from almost anything; a token, an id or a path cannot.
fn is_prose(path: &str) -> bool {
    path == "goal" || path == "query" || path.starts_with("tags[") || path.ends_with("notesMarkdown")
}

impl ArgumentCheck {
    fn object(
        &mut self,
        path: &str,
        schema: &Map<String, Value>,
        given: Map<String, Value>,
    ) -> Map<String, Value> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return given };
        let is_blank = |name: &str, value: &Value| {
            // Clients with strict schemas fill in every property: null and "" mean absent.
            value.is_null()
                || value.as_str().is_some_and(str::is_empty) && !required(schema).any(|other| other == name)
        };
        let mut fitted = Map::new();
        // Exact names first, so that another spelling never replaces them.
        let (exact, other): (Vec<_>, Vec<_>) =
            given.into_iter().partition(|(name, _)| properties.contains_key(name));
        for (name, value) in exact {
            if !is_blank(&name, &value)
                && let Some(value) = self.value(&child_path(path, &name), &properties[&name], value)
            {
                fitted.insert(name, value);
            }
        }
        for (sent, value) in other {
            let Some(name) = self.unknown(path, &sent, properties) else { continue };
            if is_blank(&name, &value) {
                continue;
            }
            let Some(value) = self.value(&child_path(path, &name), &properties[&name], value) else {
                continue;
            };
            if fitted.get(&name).is_some_and(|taken| *taken != value) {
                self.problems.push(format!(
                    "`{}` and `{}` say different things; send only `{name}`",
                    child_path(path, &shown(&sent)),
                    child_path(path, &name)
                ));
            } else {
                fitted.insert(name, value);
            }
        }
        for name in required(schema) {
            if !fitted.contains_key(name) {
                self.problems.push(format!("`{}` is missing", child_path(path, name)));
            }
        }
        fitted
    }

    /// Notes and artifacts outside `output` belong in it: nothing else has these names.
    fn with_output_in_place(
        &mut self,
        schema: &Map<String, Value>,
        mut given: Map<String, Value>,
    ) -> Map<String, Value> {
        let takes_output = schema.get("properties").is_some_and(|known| known.get("output").is_some());
        let is_nothing = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
        if !takes_output
            || !OUTPUT_MEMBERS.iter().any(|name| given.get(*name).is_some_and(|v| !is_nothing(v)))
        {
            return given;
        }
        let mut output = match given.remove("output").unwrap_or_default() {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            wrong @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                match self.wrong_type("output", &Value::Null, "object", wrong) {
                    Some(Value::Object(members)) => members,
                    Some(_) | None => Map::new(),
                }
            }
        };
        for name in OUTPUT_MEMBERS {
            let Some(value) = given.remove(name).filter(|value| !is_nothing(value)) else { continue };
            let member = if name == "artifacts" { name } else { "notesMarkdown" };
            if output.get(member).is_some_and(|present| !is_nothing(present) && *present != value) {
                self.problems.push(format!(
                    "`{name}` was sent twice, next to `output` and in it; send it once, in `output`"
                ));
            } else {
                self.adjusted.push(format!("`{name}` belongs in `output` and was moved there"));
                output.insert(member.to_owned(), value);
            }
        }
        given.insert("output".to_owned(), Value::Object(output));
        given
    }

    /// The property that an unknown name means. A name that only resembles a property is a problem, because its
    /// content would be lost; any other is ignored.
    fn unknown(&mut self, path: &str, name: &str, properties: &Map<String, Value>) -> Option<String> {
        let shown = child_path(path, &shown(name));
        let known = || properties.keys().map(String::as_str);
        if let Some(same) = same_name(name, known()) {
            self.adjusted.push(format!("`{shown}` was taken as `{same}`"));
            return Some(same);
        }
        let close = closest(name, known());
        match &close {
            Some(close) => {
                self.problems.push(format!("unknown argument `{shown}` (did you mean `{close}`?)"));
            }
            None => self.adjusted.push(format!("the unknown argument `{shown}` was ignored")),
        }
        close
    }

    fn value(&mut self, path: &str, schema: &Value, given: Value) -> Option<Value> {
        let wanted = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return self.choice(path, choices, given);
        }
        match (wanted, given) {
            ("object", Value::Object(members)) => match schema.as_object() {
                Some(schema) => Some(Value::Object(self.object(path, schema, members))),
                None => Some(Value::Object(members)),
            },
            ("array", Value::Array(items)) => Some(Value::Array(self.items(path, schema, items))),
            ("string", text @ Value::String(_)) | ("", text) => Some(text),
            ("integer", number @ Value::Number(_)) if number.is_u64() => Some(number),
            ("boolean", switch @ Value::Bool(_)) => Some(switch),
            (wanted, given) => self.wrong_type(path, schema, wanted, given),
        }
    }

    fn items(&mut self, path: &str, schema: &Value, items: Vec<Value>) -> Vec<Value> {
        let Some(each) = schema.get("items") else { return items };
        let fitted = items.into_iter().enumerate();
        fitted.filter_map(|(position, item)| self.value(&format!("{path}[{position}]"), each, item)).collect()
    }

    fn choice(&mut self, path: &str, choices: &[Value], given: Value) -> Option<Value> {
        if choices.contains(&given) {
            return Some(given);
        }
        let names: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
        let close = given.as_str().and_then(|text| closest(text, names.iter().copied()));
        let hint = close.as_ref().map_or_else(String::new, |close| format!(", did you mean `{close}`?"));
        self.problems.push(format!("`{path}` must be one of {}{hint}", names.join(", ")));
        close.map(Value::from)
    }

    /// A value of the wrong type; usually JSON written as text, or a single item instead of a list.
    fn wrong_type(&mut self, path: &str, schema: &Value, wanted: &str, given: Value) -> Option<Value> {
        let found = type_name(&given);
        // Steps are shown with their numbers.
        if wanted == "string" && path == "step" && given.is_u64() {
            self.adjusted.push("the number in `step` was taken as text".to_owned());
            return Some(Value::from(given.to_string()));
        }
        if wanted == "string" && !is_prose(path) {
            let what = if is_token(path) { "a token string, exactly as it was returned" } else { "a string" };
            self.problems.push(format!("`{path}` must be {what}, not a value of type {found}"));
            return None;
        }
        match (wanted, given) {
            ("object" | "array", Value::String(text)) => {
                let inner = strict_json::parse(text.as_bytes());
                match inner {
                    Ok(inner) if type_name(&inner) == wanted => {
                        self.adjusted.push(format!("`{path}` was sent as a string and was read as JSON"));
                        self.value(path, schema, inner)
                    }
                    // Plain words where `output` expects an object are the notes.
                    Err(_) if path == "output" && !text.trim_start().starts_with(['{', '[']) => {
                        self.adjusted
                            .push("the text in `output` was taken as its `notesMarkdown`".to_owned());
                        Some(json!({ "notesMarkdown": text }))
                    }
                    Err(error) if text.trim_start().starts_with(['{', '[']) => {
                        self.problems.push(format!(
                            "`{path}` is a string with invalid JSON ({error}); send the {wanted} itself"
                        ));
                        rescued_text(path, text)
                    }
                    Ok(_) | Err(_) => {
                        self.problems.push(format!("`{path}` must be of type {wanted}, not a string"));
                        rescued_text(path, text)
                    }
                }
            }
            ("integer" | "boolean", Value::String(text))
                if strict_json::parse(text.as_bytes()).is_ok_and(|plain| {
                    if wanted == "integer" { plain.is_u64() } else { plain.is_boolean() }
                }) =>
            {
                self.adjusted.push(format!("`{path}` was sent as a string and was read as JSON"));
                strict_json::parse(text.as_bytes()).ok()
            }
            ("array", item @ Value::Object(_)) => {
                self.adjusted.push(format!("the {found} in `{path}` was taken as a list of one"));
                Some(Value::Array(self.items(path, schema, vec![item])))
            }
            ("string", plain @ (Value::Number(_) | Value::Bool(_))) => {
                self.problems.push(format!("`{path}` must be a string, not a {found}"));
                Some(Value::from(plain.to_string()))
            }
            ("string", Value::Array(lines)) if lines.iter().all(Value::is_string) => {
                self.adjusted.push(format!("the lines in `{path}` were joined"));
                let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
                Some(Value::from(lines.join("\n")))
            }
            ("string", other) => {
                self.problems.push(format!("`{path}` must be a string, not a value of type {found}"));
                Some(Value::from(other.to_string()))
            }
            (wanted, _) => {
                self.problems.push(format!("`{path}` must be of type {wanted}, not {found}"));
                None
            }
        }
    }
}

/// Keeps the sent text in the suggested call.
fn rescued_text(path: &str, text: String) -> Option<Value> {
    (path == "output").then(|| json!({ "notesMarkdown": text }))
}

/// A name for display.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(60).collect()
}

/// A name without word separators, in lower case.
pub(crate) fn plain(name: &str) -> String {
    name.replace(['_', '-', ' '], "").to_ascii_lowercase()
}

/// The known name that is equal except for separators and case, or the only one that begins like it: `ack_token`,
/// `notes` for `notesMarkdown`.
fn same_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let wanted = plain(name);
    let known: Vec<(String, &str)> = known.map(|other| (plain(other), other)).collect();
    if let Some((_, same)) = known.iter().find(|(other, _)| *other == wanted) {
        return Some((*same).to_owned());
    }
    let mut longer = known.iter().filter(|(other, _)| wanted.len() >= 4 && other.starts_with(&wanted));
    match (longer.next(), longer.next()) {
        (Some((_, only)), None) => Some((*only).to_owned()),
        _ => None,
    }
}

/// The known name closest to a wrong one, if any is close. Word separators do not count.
fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let wanted = plain(name);
    let known: Vec<(String, &str)> = known.map(|other| (plain(other), other)).collect();
    let near = nearest(&wanted, known.iter().map(|(other, _)| other.as_str()))?;
    known.iter().find(|(other, _)| other == near).map(|(_, other)| (*other).to_owned())
}

fn child_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
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

    #[test_case(json!({ "ackToken": "a", "output": "{\"notesMarkdown\":\"n\"}" }), json!({ "notesMarkdown": "n" }); "json in a string")]
    #[test_case(json!({ "ackToken": "a", "output": "plain words" }), json!({ "notesMarkdown": "plain words" }); "words instead of output")]
    #[test_case(json!({ "ackToken": "a", "output": { "notes": "n" } }), json!({ "notesMarkdown": "n" }); "a shorter name")]
    #[test_case(json!({ "ack_token": "a", "output": { "notes_markdown": "n" } }), json!({ "notesMarkdown": "n" }); "snake case")]
    #[test_case(json!({ "acktoken": "a", "notesMarkdown": "n" }), json!({ "notesMarkdown": "n" }); "one level too high")]
    #[test_case(json!({ "ackToken": "a", "notes": "n", "output": { "artifacts": [] } }), json!({ "notesMarkdown": "n", "artifacts": [] }); "next to an output")]
    #[test_case(json!({ "ackToken": "a", "output": { "artifacts": { "kind": "x" } } }), json!({ "artifacts": [{ "kind": "x" }] }); "one artifact")]
    #[test_case(json!({ "ackToken": "a", "output": { "artifacts": ["{\"kind\":\"x\"}"] } }), json!({ "artifacts": [{ "kind": "x" }] }); "artifact as text")]
    #[test_case(json!({ "ackToken": "a", "output": { "notesMarkdown": ["a", "b"] } }), json!({ "notesMarkdown": "a\nb" }); "lines")]
    #[test_case(json!({ "ackToken": "a", "notes": "n", "output": "{\"artifacts\":[]}" }), json!({ "notesMarkdown": "n", "artifacts": [] }); "next to an output in a string")]
    fn unmistakable_arguments_are_accepted_with_a_note(arguments: Value, output: Value) {
        let fitted = checked(ToolName::ContinueWorkflow, given(arguments)).unwrap();
        assert_eq!(Value::Object(fitted.arguments), json!({ "ackToken": "a", "output": output }));
        assert!(fitted.note.is_some());
    }

    #[test]
    fn the_number_of_a_step_is_accepted_with_a_note() {
        let fitted = checked(ToolName::ReadRun, given(json!({ "run": "r", "step": 2 }))).unwrap();
        assert_eq!(Value::Object(fitted.arguments), json!({ "run": "r", "step": "2" }));
        assert!(fitted.note.is_some());
    }

    #[test_case(json!({ "ackToken": "a", "context": "[1]" }), "must be of type object"; "another type in a string")]
    #[test_case(json!({ "ackToken": "a", "context": "{\"a\":1,\"a\":2}" }), "duplicate key"; "two values in a string")]
    #[test_case(json!({ "ackToken": "a", "output": "{\"notesMarkdown\":\"n\",}" }), "invalid JSON"; "broken json")]
    #[test_case(json!({ "ackToken": "a", "output": "null" }), "must be of type object"; "json that is no object")]
    #[test_case(json!({ "ackToken": "a", "output": { "notes": "short", "notesMarkdown": "long" } }), "say different things"; "two notes")]
    #[test_case(json!({ "ackToken": "a", "notesMarkdown": "x", "output": { "notesMarkdown": "y" } }), "send it once"; "notes inside and outside")]
    #[test_case(json!({ "ackToken": "a", "notes": "x", "output": [1] }), "must be of type object"; "notes next to a list")]
    #[test_case(json!({ "ackToken": "a", "outptu": { "notesMarkdown": "n" } }), "did you mean `output`"; "a typing error")]
    fn other_arguments_are_corrected_and_the_correction_is_valid(arguments: Value, expected: &str) {
        let error = checked(ToolName::ContinueWorkflow, given(arguments)).unwrap_err();
        assert!(error.message.contains(expected), "{}", error.message);
        let call = error.next_call.unwrap();
        assert_eq!(call.tool, ToolName::ContinueWorkflow);
        assert!(checked(ToolName::ContinueWorkflow, call.arguments.clone()).is_ok(), "{call:?}");
        assert!(call.arguments.contains_key("ackToken"));
    }

    #[test_case(ToolName::ContinueWorkflow, json!({ "ackToken": "a", "context": "[1]", "output": { "notesMarkdown": "Vec<u8>, a < b" } }), false; "angle brackets in notes")]
    #[test_case(ToolName::CheckpointWorkflow, json!({ "checkpointToken": "c", "output": [1] }), true; "no notes")]
    fn placeholders_are_mentioned_only_if_the_call_has_one(tool: ToolName, arguments: Value, expected: bool) {
        let error = checked(tool, given(arguments)).unwrap_err();
        assert_eq!(error.suggestion.contains("placeholder"), expected, "{}", error.suggestion);
    }

    #[test]
    fn a_hosts_own_argument_is_ignored_with_a_note() {
        let fitted =
            checked(ToolName::ContinueWorkflow, given(json!({ "ackToken": "a", "wait_for_previous": true })));
        let fitted = fitted.unwrap();
        assert_eq!(Value::Object(fitted.arguments), json!({ "ackToken": "a" }));
        assert_eq!(fitted.note.unwrap(), "the unknown argument `wait_for_previous` was ignored.");
    }

    #[test]
    fn an_empty_optional_text_means_absent() {
        let sent =
            json!({ "ackToken": "a", "continueToken": "", "run": "", "output": { "notesMarkdown": "" } });
        let fitted = checked(ToolName::ContinueWorkflow, given(sent)).unwrap();
        assert_eq!(Value::Object(fitted.arguments), json!({ "ackToken": "a", "output": {} }));
        assert!(
            checked(ToolName::StartWorkflow, given(json!({ "workflowId": "" }))).is_ok(),
            "it is required"
        );
    }

    #[test]
    fn a_missing_workflow_leads_to_the_list() {
        let error = checked(ToolName::StartWorkflow, Map::new()).unwrap_err();
        assert_eq!(error.next_call.unwrap().tool, ToolName::ListWorkflows);
    }

    #[test]
    fn null_means_absent() {
        let fitted =
            checked(ToolName::ContinueWorkflow, given(json!({ "ackToken": "a", "context": null }))).unwrap();
        assert_eq!(Value::Object(fitted.arguments), json!({ "ackToken": "a" }));
    }

    #[test]
    fn a_wrong_mode_names_the_right_ones() {
        let arguments = json!({ "workflowId": "w", "mode": "full_auto_neverstop" });
        let error = checked(ToolName::StartWorkflow, given(arguments)).unwrap_err();
        assert!(error.message.contains("did you mean `full_auto_never_stop`"), "{}", error.message);
        assert_eq!(error.next_call.unwrap().arguments["mode"], "full_auto_never_stop");
    }

    #[test_case(json!({ "ackToken": 7, "run": "amber-falcon" }), json!({ "query": "amber-falcon" }); "number")]
    #[test_case(json!({ "ackToken": ["a"] }), json!({}); "list")]
    fn a_token_is_never_invented(arguments: Value, expected: Value) {
        let call = checked(ToolName::ContinueWorkflow, given(arguments)).unwrap_err().next_call.unwrap();
        assert_eq!((call.tool, Value::Object(call.arguments)), (ToolName::ResumeSession, expected));
    }
}
