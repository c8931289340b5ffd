//! Finds the step at a position in a file's text.

use super::document::{self, DocumentNode};
use super::report::DiagnosticReport;

/// The id of the innermost step around a byte position; `None` outside steps and in text that is not JSON.
pub fn step_at(bytes: &[u8], cursor: usize) -> Option<String> {
    let root = document::parse(bytes, &mut DiagnosticReport::default())?;
    let mut found = None;
    let mut around = within(root.get("steps")?, cursor);
    while let Some(step) = around {
        found = step.get("id").and_then(DocumentNode::text).map(str::to_owned).or(found);
        around = step.get("body").and_then(|body| within(body, cursor));
    }
    found
}

fn within(list: &DocumentNode, cursor: usize) -> Option<&DocumentNode> {
    list.items().iter().find(|item| (item.span.start..=item.span.end).contains(&cursor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_belongs_to_the_innermost_step() {
        let text = r#"{ "id": "x", "steps": [{ "id": "a" }, { "id": "l", "body": [{ "id": "b", "prompt": "p" }] }] }"#;
        let at = |mark: &str| step_at(text.as_bytes(), text.find(mark).unwrap());
        assert_eq!(at("\"a\"").as_deref(), Some("a"));
        assert_eq!(at("\"l\"").as_deref(), Some("l"));
        assert_eq!(at("\"p\"").as_deref(), Some("b"));
        assert_eq!(at("\"x\""), None);
        assert_eq!(step_at(b"{ \"steps\": [{", 12), None);
    }
}
