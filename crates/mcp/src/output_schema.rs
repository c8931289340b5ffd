//! The output schemas of the tools, served only together with structured content.
//!
//! One level deep: the full schemas are in `schemas/mcp`. Typed clients drop members that a schema does not name, so
//! every member of an answer and of an error is named. Some clients also check errors, so only `text` is required.

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use workrail_model::discovery::{WorkflowInspection, WorkflowList};
use workrail_model::error::ErrorEnvelope;
use workrail_model::read_run::ReadRunBody;
use workrail_model::reply::ReplyBody;
use workrail_model::resume::ResumeBody;
use workrail_model::session::SessionBody;
use workrail_model::tool::ToolName;

use crate::catalogue::schema_of;

pub(crate) fn of(tool: ToolName) -> JsonObject {
    let answer = match tool {
        ToolName::ListWorkflows => schema_of::<WorkflowList>(),
        ToolName::InspectWorkflow => schema_of::<WorkflowInspection>(),
        ToolName::StartWorkflow | ToolName::ContinueWorkflow | ToolName::CheckpointWorkflow => {
            schema_of::<ReplyBody>()
        }
        ToolName::ResumeSession => schema_of::<ResumeBody>(),
        ToolName::ReadRun => schema_of::<ReadRunBody>(),
        ToolName::StartSession => schema_of::<SessionBody>(),
    };
    let mut members = JsonObject::new();
    for schema in [schema_of::<ErrorEnvelope>(), answer] {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            members.insert(name.clone(), shallow(property));
        }
    }
    // Any answer may carry a warning.
    members.insert("warnings".to_owned(), json!({ "type": "array" }));
    members.insert("text".to_owned(), json!({ "type": "string" }));
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), Value::from("object"));
    schema.insert("properties".to_owned(), Value::Object(members));
    schema.insert("required".to_owned(), json!(["text"]));
    schema
}

/// One level of a schema: only its type, if it has exactly one.
fn shallow(schema: &Value) -> Value {
    kind(schema).map_or_else(|| json!({}), |kind| json!({ "type": kind }))
}

/// An optional member is omitted, never null, so the other type is the real one.
fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        Some(_) | None => {
            let choices = ["anyOf", "oneOf"].into_iter().filter_map(|word| schema.get(word)?.as_array());
            choices.flatten().filter_map(kind).find(|kind| *kind != "null")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_typed_clients_need_is_named() {
        let schema = Value::Object(of(ToolName::ContinueWorkflow));
        let properties = &schema["properties"];
        for (member, kind) in [
            ("text", "string"),
            ("warnings", "array"),
            ("run", "object"),
            ("pending", "object"),
            ("nextCall", "object"),
            ("ackToken", "string"),
            ("isComplete", "boolean"),
            ("code", "string"),
            ("retry", "object"),
        ] {
            assert_eq!(properties[member], json!({ "type": kind }), "{member}");
        }
        assert_eq!(schema["required"], json!(["text"]), "an error fits as well");
    }
}
