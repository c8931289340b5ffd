//! The tools: names, titles, descriptions and schemas, all derived from the types that parse and answer.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;
use workrail_engine::request::{
    CheckpointWorkflow, ContinueWorkflow, InspectWorkflow, ListWorkflows, ReadRun, ResumeSession,
    StartSession, StartWorkflow,
};
use workrail_model::tool::ToolName;

use crate::call::StructuredContent;
use crate::output_schema;

/// Whether the tool takes a folder.
pub(crate) fn takes_workspace(tool: ToolName) -> bool {
    let properties = input_schema(tool).get("properties").and_then(Value::as_object);
    properties.is_some_and(|known| known.contains_key("workspacePath"))
}

fn title(tool: ToolName) -> &'static str {
    match tool {
        ToolName::ListWorkflows => "List workflows",
        ToolName::InspectWorkflow => "Inspect a workflow",
        ToolName::StartWorkflow => "Start a workflow",
        ToolName::ContinueWorkflow => "Continue a workflow",
        ToolName::CheckpointWorkflow => "Save progress",
        ToolName::ResumeSession => "Find work again",
        ToolName::ReadRun => "Read a run",
        ToolName::StartSession => "Open a session",
    }
}

fn description(tool: ToolName) -> &'static str {
    match tool {
        ToolName::ListWorkflows => {
            "Lists the workflows and routines that can be started here, one line each, and every file that cannot \
             be used, with the reason. Narrow it with `query` or `tags`. Changes nothing."
        }
        ToolName::InspectWorkflow => {
            "Shows what a workflow is for and what it needs before you start it; with mode `preview` its whole plan. \
             Changes nothing."
        }
        ToolName::StartWorkflow => {
            "Starts a run of a workflow and returns its first step. Do what the step says, then call \
             `continue_workflow` exactly as the end of the reply shows. You see one step at a time: do not guess \
             or plan later steps."
        }
        ToolName::ContinueWorkflow => {
            "With `ackToken`: completes the pending step and returns the next one. Send \
             `output.notesMarkdown` with what you did in THIS step only (not cumulative): decisions, \
             files, commands and results. Sending the same `ackToken` again returns the recorded \
             answer and changes nothing. With `stateToken` alone: returns the pending step again, \
             without any change; use it after a rewind, a restart or lost context. Copy tokens, `run` and \
             `stepId` exactly from the last reply of that run."
        }
        ToolName::CheckpointWorkflow => {
            "Saves notes and artifacts inside a long step without completing it, so that a rewind or a lost \
             chat does not lose them. Each `checkpointToken` records once; the reply has the next one."
        }
        ToolName::ResumeSession => {
            "Finds earlier runs when you have no token: in a new chat or after lost context. Give a few words \
             of the goal or notes, a run label or an id; without anything, the latest runs. Then make \
             the call shown for the run you mean. Changes nothing."
        }
        ToolName::ReadRun => {
            "Reads what is recorded of a run: an overview (goal, where it is, the gist of every step, context, gaps, \
             branches), a step's notes and artifacts in full, the context, or a search. Use it when you no longer \
             remember what was agreed or done. Changes nothing."
        }
        ToolName::StartSession => {
            "Opens a session that keeps notes before any workflow runs. Returns a `sessionToken` to save notes and to \
             start workflows with."
        }
    }
}

fn annotations(tool: ToolName) -> ToolAnnotations {
    let idempotent = match tool {
        ToolName::StartWorkflow | ToolName::StartSession => false,
        ToolName::ListWorkflows
        | ToolName::InspectWorkflow
        | ToolName::ContinueWorkflow
        | ToolName::CheckpointWorkflow
        | ToolName::ResumeSession
        | ToolName::ReadRun => true,
    };
    ToolAnnotations::with_title(title(tool))
        .read_only(tool.is_read_only())
        .destructive(false)
        .idempotent(idempotent)
        .open_world(false)
}

/// The tool's input schema, which is served and against which every call is checked; made once.
pub(crate) fn input_schema(tool: ToolName) -> &'static JsonObject {
    static MADE: LazyLock<BTreeMap<ToolName, JsonObject>> =
        LazyLock::new(|| ToolName::ALL.into_iter().map(|tool| (tool, made_input_schema(tool))).collect());
    static NONE: LazyLock<JsonObject> = LazyLock::new(JsonObject::new);
    MADE.get(&tool).unwrap_or(&NONE)
}

fn made_input_schema(tool: ToolName) -> JsonObject {
    match tool {
        ToolName::ListWorkflows => schema_of::<ListWorkflows>(),
        ToolName::InspectWorkflow => schema_of::<InspectWorkflow>(),
        ToolName::StartWorkflow => schema_of::<StartWorkflow>(),
        ToolName::ContinueWorkflow => schema_of::<ContinueWorkflow>(),
        ToolName::CheckpointWorkflow => schema_of::<CheckpointWorkflow>(),
        ToolName::ResumeSession => schema_of::<ResumeSession>(),
        ToolName::ReadRun => schema_of::<ReadRun>(),
        ToolName::StartSession => schema_of::<StartSession>(),
    }
}

/// The tool as `tools/list` shows it, with an output schema only where structured content follows (G72).
fn definition(tool: ToolName, structured_content: StructuredContent) -> Tool {
    let definition = Tool::new(tool.as_str(), description(tool), Arc::new(input_schema(tool).clone()))
        .with_title(title(tool))
        .with_annotations(annotations(tool));
    match structured_content {
        StructuredContent::Omitted => definition,
        StructuredContent::Served => definition.with_raw_output_schema(Arc::new(output_schema::of(tool))),
    }
}

/// The enabled tools, in their fixed order.
pub fn tools(offered: impl Fn(ToolName) -> bool, structured_content: StructuredContent) -> Vec<Tool> {
    let offered = ToolName::ALL.into_iter().filter(|tool| offered(*tool));
    offered.map(|tool| definition(tool, structured_content)).collect()
}

/// A flat schema: no `$ref`, no meta schema, no boolean schemas, `type: object` at the root. Otherwise some clients
/// drop the whole server.
pub(crate) fn schema_of<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    let mut object = schema.as_object().cloned().unwrap_or_default();
    object.insert("type".to_owned(), Value::from("object"));
    let mut value = Value::Object(object);
    simplify(&mut value);
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}

/// Removes generated parts that clients misread or do not need: `true` for a free member instead of an object,
/// defaults of arguments, and rules for additional members.
fn simplify(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    members.retain(|keyword, value| match keyword.as_str() {
        "default" => false,
        // A widely used converter crashes on `false`; the call itself answers unknown members.
        "additionalProperties" => !value.is_boolean(),
        "format" | "minimum" => false,
        _ => true,
    });
    for keyword in ["properties", "$defs"] {
        if let Some(Value::Object(properties)) = members.get_mut(keyword) {
            for property in properties.values_mut() {
                if property == &Value::Bool(true) {
                    *property = Value::Object(JsonObject::new());
                }
                simplify(property);
            }
        }
    }
    if let Some(items) = members.get_mut("items") {
        if items == &Value::Bool(true) {
            *items = Value::Object(JsonObject::new());
        }
        simplify(items);
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

    /// G74: the schemas are flat.
    #[test]
    fn schemas_are_flat_objects() {
        for tool in tools(|_| true, StructuredContent::Served) {
            let output = tool.output_schema.expect("structured content has a schema");
            for schema in [tool.input_schema, output] {
                assert_eq!(schema.get("type"), Some(&Value::from("object")), "{}", tool.name);
                no_forbidden(&Value::Object((*schema).clone()), &tool.name);
            }
        }
    }

    #[test]
    fn the_whole_list_is_small() {
        let listed = serde_json::to_vec(&tools(|_| true, StructuredContent::Omitted)).unwrap();
        assert!(listed.len() <= 8 * 1024, "{} bytes", listed.len());
        for tool in tools(|_| true, StructuredContent::Omitted) {
            assert!(tool.description.as_deref().is_some_and(|text| text.len() <= 2048));
        }
    }

    #[test]
    fn the_tool_set_is_exactly_this() {
        let names: Vec<_> = tools(|_| true, StructuredContent::Omitted)
            .into_iter()
            .map(|tool| tool.name.to_string())
            .collect();
        assert_eq!(
            names,
            [
                "list_workflows",
                "inspect_workflow",
                "start_workflow",
                "continue_workflow",
                "checkpoint_workflow",
                "resume_session",
                "read_run",
                "start_session"
            ]
        );
    }
}
