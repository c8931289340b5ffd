//! The answers' schemas stay flat: some clients reject a whole server over less.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use workrail_model::discovery::{WorkflowInspection, WorkflowList};

fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn no_unions(value: &Value, path: &str) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                assert!(!["$ref", "oneOf", "anyOf", "allOf"].contains(&key.as_str()), "{path}/{key}");
                no_unions(member, &format!("{path}/{key}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| no_unions(item, path)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn answers_have_flat_schemas() {
    no_unions(&schema::<WorkflowList>(), "list");
    no_unions(&schema::<WorkflowInspection>(), "inspection");
}
