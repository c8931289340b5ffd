//! JSON Schemas (draft 2020-12) of all durable formats, and of reports, derived from their Rust types.

use anyhow::{Context as _, Result};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use workrail_core::compare::Comparison;
use workrail_core::report::Report;
use workrail_model::bundle::Bundle;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::Event;
use workrail_model::manifest::ManifestRecord;
use workrail_model::snapshot::ExecutionSnapshot;

use crate::generated_file::{GeneratedFile, MARK};

pub(super) fn generated_files() -> Result<Vec<GeneratedFile>> {
    [
        ("bundle", of::<Bundle>("An exported session.")?),
        ("compiled-workflow", of::<CompiledWorkflow>("A compiled workflow, pinned under its hash.")?),
        ("error-envelope", of::<ErrorEnvelope>("An error, as every edge shows it.")?),
        ("execution-snapshot", of::<ExecutionSnapshot>("The state that rehydrates a node.")?),
        ("session-event", of::<Event>("One line of a session's event segments.")?),
        ("session-manifest-record", of::<ManifestRecord>("One line of a session's manifest.")?),
    ]
    .into_iter()
    .map(|(name, schema)| GeneratedFile::of_json(&format!("schemas/durable/{name}.json"), &schema))
    .chain([report(), comparison()])
    .collect()
}

/// What `workrail report --format json` prints: a view, not durable, with its own version.
fn report() -> Result<GeneratedFile> {
    let schema = of::<Report>("What was done in a session or a run.")?;
    GeneratedFile::of_json("schemas/report.json", &schema)
}

/// What `workrail compare --json` prints: a view, like a report.
fn comparison() -> Result<GeneratedFile> {
    let schema = of::<Comparison>("Two branches, attempts or runs side by side.")?;
    GeneratedFile::of_json("schemas/comparison.json", &schema)
}

/// The schema of one type, with our mark and a description of the record.
pub(super) fn of<T: JsonSchema>(description: &str) -> Result<Value> {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    let map = schema.as_object_mut().context("a root schema is an object")?;
    map.insert("$comment".to_owned(), Value::from(MARK));
    map.insert("description".to_owned(), Value::from(description));
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_first_key_and_the_dialect_is_named() {
        for GeneratedFile { path, content } in generated_files().unwrap() {
            assert!(content.starts_with(&format!("{{\n  \"$comment\": \"{MARK}\",\n")), "{path}");
            let schema: Value = serde_json::from_str(&content).unwrap();
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{path}");
        }
    }

    #[test]
    fn every_reference_resolves() {
        fn walk(value: &Value, root: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(reference)) = map.get("$ref") {
                        let pointer = reference.strip_prefix('#').expect("references stay in the file");
                        assert!(root.pointer(pointer).is_some(), "{reference}");
                    }
                    map.values().for_each(|value| walk(value, root));
                }
                Value::Array(values) => values.iter().for_each(|value| walk(value, root)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        for GeneratedFile { content, .. } in generated_files().unwrap() {
            let schema: Value = serde_json::from_str(&content).unwrap();
            walk(&schema, &schema);
        }
    }
}
