//! The examples in the field reference: taken from whole workflow files, which the tests compile.
//!
//! A file in `source/examples` is an example of every field it uses. The reference shows the shortest use.

use std::collections::BTreeMap;

use super::document::{self, DocumentNode, Kind};
use super::format::{Authored, ObjectShape, Shape};
use super::report::DiagnosticReport;
use super::source::Workflow;

/// Each file with its name. Add new ones here.
pub const EXAMPLE_FILES: [(&str, &str); 3] = [
    ("hotfix.json", include_str!("source/examples/hotfix.json")),
    ("other_spellings.json", include_str!("source/examples/other_spellings.json")),
    ("release_notes.json", include_str!("source/examples/release_notes.json")),
];

/// The shortest use of each field, by the object's name in a sentence and the field.
#[derive(Debug, Default)]
pub(super) struct Examples {
    shortest: BTreeMap<(&'static str, &'static str), String>,
}

impl Examples {
    pub(super) fn read() -> Self {
        let mut examples = Self::default();
        for (_, text) in EXAMPLE_FILES {
            if let Some(root) = document::parse(text.as_bytes(), &mut DiagnosticReport::default()) {
                examples.collect(&Workflow::shape(), &root);
            }
        }
        examples
    }

    /// The field with its value, as written in a file.
    pub(super) fn of(&self, object: &ObjectShape, field: &'static str) -> Option<&str> {
        self.shortest.get(&(object.what, field)).map(String::as_str)
    }

    fn collect(&mut self, shape: &Shape, node: &DocumentNode) {
        match shape {
            Shape::Object(object) => {
                for field in object.fields {
                    let Some(value) = node.get(field.name) else { continue };
                    self.offer(object.what, field.name, format!("\"{}\": {}", field.name, one_line(value)));
                    self.collect(&(field.shape)(), value);
                }
            }
            Shape::List { item, .. } => node.items().iter().for_each(|inner| self.collect(item, inner)),
            Shape::Map(inner) => {
                node.members().iter().for_each(|member| self.collect(inner, &member.value));
            }
            Shape::AnyOf(alternatives) => {
                if let Some(fitting) = alternatives.iter().find(|alternative| fits(alternative, node)) {
                    self.collect(fitting, node);
                }
            }
            Shape::Text { .. }
            | Shape::Name { .. }
            | Shape::Word(_)
            | Shape::Known { .. }
            | Shape::Flag
            | Shape::Integer { .. }
            | Shape::Number
            | Shape::Any => {}
        }
    }

    fn offer(&mut self, object: &'static str, field: &'static str, text: String) {
        let best = self.shortest.entry((object, field)).or_insert_with(|| text.clone());
        if text.len() < best.len() {
            *best = text;
        }
    }
}

/// Whether the node is this alternative: objects are distinguished by their fields.
fn fits(shape: &Shape, node: &DocumentNode) -> bool {
    match shape {
        Shape::Object(object) => {
            node.is_object()
                && node
                    .members()
                    .iter()
                    .all(|member| object.fields.iter().any(|field| field.name == member.key))
                && object.fields.iter().all(|field| !field.required || node.get(field.name).is_some())
        }
        Shape::AnyOf(alternatives) => alternatives.iter().any(|alternative| fits(alternative, node)),
        Shape::Text { .. }
        | Shape::Name { .. }
        | Shape::Word(_)
        | Shape::Known { .. }
        | Shape::Flag
        | Shape::Integer { .. }
        | Shape::Number
        | Shape::List { .. }
        | Shape::Map(_)
        | Shape::Any => shape.takes(node),
    }
}

/// JSON on one line, in the order of the file.
fn one_line(node: &DocumentNode) -> String {
    match &node.kind {
        Kind::List(items) if items.is_empty() => "[]".to_owned(),
        Kind::Object(members) if members.is_empty() => "{}".to_owned(),
        Kind::List(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        Kind::Object(members) => {
            let pairs =
                members.iter().map(|member| format!("\"{}\": {}", member.key, one_line(&member.value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => node.to_value().to_string(),
    }
}
