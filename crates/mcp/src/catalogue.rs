//! The tools: names, titles, descriptions and schemas, all from the types that parse and answer.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;
use workrail_model::reply::ReplyBody;

use crate::arguments::{ContinueArguments, StartArguments};

/// The closed set of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolName {
    StartWorkflow,
    ContinueWorkflow,
}

impl ToolName {
    pub const ALL: [Self; 2] = [Self::StartWorkflow, Self::ContinueWorkflow];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartWorkflow => "start_workflow",
            Self::ContinueWorkflow => "continue_workflow",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    fn title(self) -> &'static str {
        match self {
            Self::StartWorkflow => "Start a workflow",
            Self::ContinueWorkflow => "Continue a workflow",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::StartWorkflow => {
                "Starts a run of a workflow and returns its first step. Do what the step says, then call \
                 `continue_workflow` exactly as `nextCall` shows. You see one step at a time: do not guess \
                 or plan later steps."
            }
            Self::ContinueWorkflow => {
                "With `ackToken`: completes the pending step and returns the next one. Send \
                 `output.notesMarkdown` with what you did in THIS step only (not cumulative): decisions, \
                 files, commands and results. Sending the same `ackToken` again returns the recorded \
                 answer and changes nothing. With `stateToken` alone: returns the pending step again, \
                 without any change; use it after a rewind, a restart or lost context. Copy tokens exactly."
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let base = ToolAnnotations::with_title(self.title()).read_only(false).destructive(false);
        match self {
            Self::StartWorkflow => base.idempotent(false).open_world(false),
            Self::ContinueWorkflow => base.idempotent(true).open_world(false),
        }
    }

    /// The tool as `tools/list` shows it.
    pub fn definition(self) -> Tool {
        let input = match self {
            Self::StartWorkflow => schema_of::<StartArguments>(),
            Self::ContinueWorkflow => schema_of::<ContinueArguments>(),
        };
        Tool::new(self.as_str(), self.description(), Arc::new(input))
            .with_title(self.title())
            .with_annotations(self.annotations())
            .with_raw_output_schema(Arc::new(output_schema()))
    }
}

/// All tools in their one order.
pub fn tools() -> Vec<Tool> {
    ToolName::ALL.into_iter().map(ToolName::definition).collect()
}

/// What clients check `structuredContent` against. Some do so for errors too, so nothing is required
/// here and the error envelope fits as well; the full schema of a reply is in `schemas/mcp`.
fn output_schema() -> JsonObject {
    let mut schema = schema_of::<ReplyBody>();
    schema.remove("required");
    let mut members = JsonObject::new();
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for name in properties.keys() {
            let member = shallow(&properties[name]);
            members.insert(name.clone(), member);
        }
    }
    for name in ["code", "message", "suggestion"] {
        members.insert(name.to_owned(), serde_json::json!({ "type": "string" }));
    }
    members.insert("retry".to_owned(), serde_json::json!({ "type": "object" }));
    let mut flat = JsonObject::new();
    flat.insert("type".to_owned(), Value::from("object"));
    flat.insert("properties".to_owned(), Value::Object(members));
    flat
}

/// One level of a schema: its type alone, where it has exactly one.
fn shallow(schema: &Value) -> Value {
    match schema.get("type") {
        Some(Value::String(kind)) => serde_json::json!({ "type": kind }),
        // `["string","null"]`: optional members are left out, never null.
        Some(Value::Array(kinds)) => {
            let kind = kinds.iter().find(|kind| kind.as_str() != Some("null"));
            kind.map_or_else(|| Value::Object(JsonObject::new()), |kind| serde_json::json!({ "type": kind }))
        }
        _ => serde_json::json!({}),
    }
}

/// A flat schema: no `$ref`, no meta schema, no boolean schemas, `type: object` at the root. Some
/// clients drop the whole server otherwise.
fn schema_of<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    let mut object = schema.as_object().cloned().unwrap_or_default();
    object.insert("type".to_owned(), Value::from("object"));
    let mut value = Value::Object(object);
    replace_boolean_schemas(&mut value);
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}

/// A free JSON member is written `true` by the generator; clients want an object.
fn replace_boolean_schemas(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    for keyword in ["properties", "$defs"] {
        if let Some(Value::Object(properties)) = members.get_mut(keyword) {
            for property in properties.values_mut() {
                if property == &Value::Bool(true) {
                    *property = Value::Object(JsonObject::new());
                }
                replace_boolean_schemas(property);
            }
        }
    }
    if let Some(items) = members.get_mut("items") {
        if items == &Value::Bool(true) {
            *items = Value::Object(JsonObject::new());
        }
        replace_boolean_schemas(items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_forbidden(value: &Value, path: &str) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    assert!(
                        !["$ref", "$schema", "oneOf", "anyOf", "allOf"].contains(&key.as_str()),
                        "{path}/{key}"
                    );
                    no_forbidden(member, &format!("{path}/{key}"));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| no_forbidden(item, path)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn schemas_are_flat_objects() {
        for tool in tools() {
            for schema in [Some(tool.input_schema.clone()), tool.output_schema.clone()].into_iter().flatten()
            {
                assert_eq!(schema.get("type"), Some(&Value::from("object")), "{}", tool.name);
                no_forbidden(&Value::Object((*schema).clone()), &tool.name);
            }
        }
    }

    #[test]
    fn the_whole_list_is_small() {
        let listed = serde_json::to_vec(&tools()).unwrap();
        assert!(listed.len() <= 8 * 1024, "{} bytes", listed.len());
        for tool in tools() {
            assert!(tool.description.as_deref().is_some_and(|text| text.len() <= 2048));
        }
    }

    #[test]
    fn the_tool_set_is_exactly_this() {
        let names: Vec<_> = tools().into_iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, ["start_workflow", "continue_workflow"]);
    }
}
