//! The published JSON Schema of workflow files, from the same declarations that decode them.
//!
//! Flat enough for editors: no root combinator, definitions by name, a description on every field.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::format::{Authored, ObjectShape, Shape};
use super::source::Workflow;

/// The schema of `schemas/workflow.schema.json`.
pub fn workflow_schema() -> Value {
    let mut writer = SchemaWriter { definitions: BTreeMap::new() };
    let shape = Workflow::shape();
    let mut root =
        if let Shape::Object(object) = &shape { writer.fields(object) } else { writer.shape(&shape) };
    if let Some(members) = root.as_object_mut() {
        members.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        // A name, not an address: editors find the schema in the project.
        members.insert("$id".to_owned(), json!("urn:workrail:schema:workflow"));
        members.insert("title".to_owned(), json!("WorkRail workflow"));
        members.insert("$defs".to_owned(), json!(writer.definitions));
    }
    root
}

struct SchemaWriter {
    definitions: BTreeMap<String, Value>,
}

impl SchemaWriter {
    fn shape(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Text { min, max } => json!({ "type": "string", "minLength": min, "maxLength": max }),
            Shape::Name { max, pattern, .. } => {
                json!({ "type": "string", "pattern": pattern, "maxLength": max })
            }
            Shape::Word(words) => json!({ "type": "string", "enum": words }),
            Shape::Known { names, open: None } => json!({ "type": "string", "enum": names }),
            Shape::Known { names, open: Some(pattern) } => {
                json!({ "type": "string", "anyOf": [{ "enum": names }, { "pattern": pattern }] })
            }
            Shape::Flag => json!({ "type": "boolean" }),
            Shape::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Shape::Number => json!({ "type": "number" }),
            Shape::List { item, min, max, distinct } => {
                let items = self.shape(item);
                json!({
                    "type": "array", "items": items, "minItems": min, "maxItems": max, "uniqueItems": distinct,
                })
            }
            Shape::Object(object) => self.named(object),
            Shape::Map(inner) => {
                let values = self.shape(inner);
                json!({ "type": "object", "additionalProperties": values })
            }
            Shape::AnyOf(alternatives) => {
                let any: Vec<Value> = alternatives.iter().map(|shape| self.shape(shape)).collect();
                json!({ "anyOf": any })
            }
            Shape::Any => json!({}),
        }
    }

    fn named(&mut self, object: &ObjectShape) -> Value {
        let name: String =
            object.what.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if !self.definitions.contains_key(&name) {
            // Reserved before the fields are written: conditions and steps contain themselves.
            self.definitions.insert(name.clone(), Value::Null);
            let fields = self.fields(object);
            self.definitions.insert(name.clone(), fields);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    fn fields(&mut self, object: &ObjectShape) -> Value {
        let mut properties = Map::new();
        for field in object.fields {
            let mut schema = self.shape(&(field.shape)());
            if let Some(members) = schema.as_object_mut() {
                members.insert("description".to_owned(), json!(field.doc()));
            }
            properties.insert(field.name.to_owned(), schema);
        }
        let required: Vec<&str> =
            object.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}
