//! The field reference of the format as data, from the same declarations that read it.

use super::examples::Examples;
use super::format::{Authored, LIST_MAX, ObjectShape, Shape};
use super::source::Workflow;

/// An object of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// The name, as in `step`; unique.
    pub name: String,
    pub about: &'static str,
    pub fields: Vec<FieldReference>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldReference {
    pub name: &'static str,
    /// Type and bounds in Markdown, with links to other objects.
    pub type_text: String,
    pub is_required: bool,
    pub default: Option<&'static str>,
    pub doc: &'static str,
    /// The field with a value, from a file that compiles; a test fails if it is missing.
    pub example: Option<String>,
}

/// Every object of the format, the workflow first, then in the order of their first use.
pub fn format_reference() -> Vec<ObjectReference> {
    let mut objects: Vec<&'static ObjectShape> = Vec::new();
    collect(&Workflow::shape(), &mut objects);
    let examples = Examples::read();
    objects.into_iter().map(|shape| object(shape, &examples)).collect()
}

fn collect(shape: &Shape, objects: &mut Vec<&'static ObjectShape>) {
    match shape {
        Shape::Object(object) => {
            // Conditions and steps contain themselves.
            if objects.iter().any(|known| known.what == object.what) {
                return;
            }
            objects.push(object);
            for field in object.fields {
                collect(&(field.shape)(), objects);
            }
        }
        Shape::List { item: inner, .. } | Shape::Map(inner) => collect(inner, objects),
        Shape::AnyOf(alternatives) => alternatives.iter().for_each(|inner| collect(inner, objects)),
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

fn object(shape: &'static ObjectShape, examples: &Examples) -> ObjectReference {
    let fields = shape.fields.iter().map(|field| FieldReference {
        name: field.name,
        type_text: type_text(&(field.shape)()),
        is_required: field.required,
        default: field.default,
        doc: field.doc(),
        example: examples.of(shape, field.name).map(str::to_owned),
    });
    ObjectReference { name: object_name(shape), about: shape.about(), fields: fields.collect() }
}

/// "a step" is the object `step`.
fn object_name(shape: &ObjectShape) -> String {
    let articles = ["a ", "an ", "the "];
    let name = articles.iter().find_map(|article| shape.what.strip_prefix(article)).unwrap_or(shape.what);
    name.replace('`', "")
}

fn type_text(shape: &Shape) -> String {
    match shape {
        Shape::Text { min: 0, max } => format!("text, at most {max} characters"),
        Shape::Text { min, max } => format!("text, {min} to {max} characters"),
        Shape::Name { max, rule, .. } => format!("text: {rule}; at most {max} characters"),
        Shape::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Known { open: None, .. } => "text: the id of a built-in".to_owned(),
        Shape::Known { open: Some(_), .. } => "text: the id of a built-in, or of a workflow".to_owned(),
        Shape::Flag => "`true` or `false`".to_owned(),
        Shape::Integer { min, max } => format!("whole number, {min} to {max}"),
        Shape::Number => "number".to_owned(),
        Shape::List { item, min, max, distinct } => {
            let count = match (*min, *max) {
                (0, LIST_MAX) => String::new(),
                (min, LIST_MAX) => format!(" of at least {min}"),
                (0, max) => format!(" of at most {max}"),
                (min, max) => format!(" of {min} to {max}"),
            };
            let distinct = if *distinct { ", all different" } else { "" };
            format!("list{count}{distinct}: {}", type_text(item))
        }
        Shape::Object(object) => {
            let name = object_name(object);
            let anchor: String = name
                .to_lowercase()
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || *c == ' ')
                .map(|c| if c == ' ' { '-' } else { c })
                .collect();
            format!("[{name}](#{anchor})")
        }
        Shape::Map(inner) => format!("object with any keys; each value: {}", type_text(inner)),
        Shape::AnyOf(alternatives) => alternatives.iter().map(type_text).collect::<Vec<_>>().join(" or "),
        Shape::Any => "any JSON value".to_owned(),
    }
}
