//! How an attacker edits a bundle: values are changed, then manifest and digests are recomputed.
#![allow(dead_code, clippy::allow_attributes, reason = "each test binary uses its own part of this")]

use serde_json::{Value, json};
use workrail_model::canonical::value_to_canonical;
use workrail_model::digest::Sha256;
use workrail_model::event::Event;
use workrail_model::manifest::{ManifestIndex, commit_group};

pub(crate) fn digest(value: &Value) -> Option<(String, usize)> {
    let bytes = value_to_canonical(value).ok()?;
    Some((Sha256::of(&bytes).to_string(), bytes.len()))
}

/// Recomputes the integrity entries for the bundle's current contents.
pub(crate) fn reattest(bundle: &mut Value) {
    let mut entries = Vec::new();
    let mut add = |path: String, value: &Value| {
        if let Some((sha256, bytes)) = digest(value) {
            entries.push(json!({ "path": path, "sha256": sha256, "bytes": bytes }));
        }
    };
    for (name, value) in bundle.as_object().unwrap() {
        match name.as_str() {
            "integrity" | "session" => {}
            _ => add(name.clone(), value),
        }
    }
    for (name, value) in bundle["session"].as_object().unwrap() {
        match (name.as_str(), value) {
            ("snapshots" | "pinnedWorkflows" | "blobs", Value::Object(items)) => {
                items.iter().for_each(|(key, item)| add(format!("session/{name}/{key}"), item));
            }
            _ => add(format!("session/{name}"), value),
        }
    }
    bundle["integrity"]["entries"] = Value::from(entries);
}

/// Recomputes the manifest, as one segment; left unchanged if the events are invalid.
pub(crate) fn recommit(bundle: &mut Value) {
    let events: Option<Vec<Event>> = bundle["session"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| Event::from_value(event.clone()).ok())
        .collect();
    let Some(events) = events else { return };
    let mut segment = Vec::new();
    for event in bundle["session"]["events"].as_array().unwrap() {
        let Ok(bytes) = value_to_canonical(event) else { return };
        segment.extend(bytes);
        segment.push(b'\n');
    }
    let group = commit_group(ManifestIndex::ZERO, &events, &segment);
    bundle["session"]["manifest"] = serde_json::to_value(group).unwrap();
}

/// Gives every event the index of its position.
pub(crate) fn renumber(bundle: &mut Value) {
    for (index, event) in bundle["session"]["events"].as_array_mut().unwrap().iter_mut().enumerate() {
        event["eventIndex"] = json!(index);
    }
}

/// The positions of the events of a kind.
pub(crate) fn events_of(bundle: &Value, kind: &str) -> Vec<usize> {
    let events = bundle["session"]["events"].as_array().unwrap().iter().enumerate();
    events.filter(|(_, event)| event["kind"] == kind).map(|(index, _)| index).collect()
}

/// A bundle without what an import changes by design.
pub(crate) fn normalised(mut bundle: Value, session: &str) -> Value {
    let text = bundle.to_string().replace(bundle["session"]["sessionId"].as_str().unwrap(), session);
    bundle = serde_json::from_str(&text).unwrap();
    for member in ["bundleId", "exportedAt", "integrity", "producer", "salvage", "redaction"] {
        bundle.as_object_mut().unwrap().remove(member);
    }
    bundle["session"]["events"][0]["data"].as_object_mut().unwrap().remove("importedFrom");
    for record in bundle["session"]["manifest"].as_array_mut().unwrap() {
        let record = record.as_object_mut().unwrap();
        record.remove("sha256");
        record.remove("bytes");
    }
    let blobs = bundle["session"].as_object_mut().unwrap().remove("blobs").unwrap_or_default();
    let names: Vec<String> =
        blobs.as_object().map(|blobs| blobs.keys().cloned().collect()).unwrap_or_default();
    bundle["session"]["blobs"] = json!(names);
    bundle
}
