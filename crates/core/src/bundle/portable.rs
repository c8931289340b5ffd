//! No absolute path leaves a machine in a bundle, and none comes in (G80).
//!
//! WorkRail itself records only one kind of path: where a run's workflow file was found. Paths that authors wrote
//! into prompts and agents into notes are kept as they are.

use serde_json::Value;

use crate::paths::is_absolute;

/// Reduces an absolute path to the file's name; returns whether there was one.
pub fn portable_event(event: &mut Value) -> bool {
    if event.get("kind").and_then(Value::as_str) != Some("run_started") {
        return false;
    }
    let Some(Value::String(reference)) = event.pointer_mut("/data/workflowSourceRef") else { return false };
    if !is_absolute(reference) {
        return false;
    }
    let name = reference.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or("workflow.json");
    *reference = if is_absolute(name) { "workflow.json".to_owned() } else { name.to_owned() };
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_file_name_is_kept_and_its_folder_is_not() {
        let mut event =
            json!({ "kind": "run_started", "data": { "workflowSourceRef": "/home/someone/w.json" } });
        assert!(portable_event(&mut event));
        assert_eq!(event["data"]["workflowSourceRef"], "w.json");
        assert!(!portable_event(&mut event));
        let mut other = json!({ "kind": "context_set", "data": { "workflowSourceRef": "/x" } });
        assert!(!portable_event(&mut other));
    }
}
