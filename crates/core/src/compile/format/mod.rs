//! How the authored format is declared: once per object, in `source`.
//!
//! A declaration yields the Rust struct, the decoder with its diagnostics (G45), the JSON Schema and the rows
//! of the field reference, so none of them can differ from the others. A decoder reports every problem of a
//! value and still returns what is usable, so that later checks can find more.

mod leaf;
mod object;
mod reader;

pub(super) use leaf::{
    Any, AssessmentText, ContractName, Distinct, EnumWord, FeatureName, Flag, Identifier, Integer, LIST_MAX,
    List, LoopVariable, Map, Number, Ordered, RoutineOrTemplate, Slot, SnippetName, StepIdText, StepName,
    Text, Tool, Version,
};
pub(super) use object::{FieldShape, ObjectShape, authored, either};
pub(super) use reader::FormatReader;

use super::document::{DocumentNode, Kind};

/// A part of the format: its shape and how it is decoded.
pub(super) trait Authored {
    type Value;

    fn shape() -> Shape;

    /// The value, or `None` if the node cannot be used; every problem is reported.
    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self::Value>;

    /// The substitute for a required field whose absence was reported; `None` if there is none.
    fn substitute() -> Option<Self::Value> {
        None
    }
}

/// The shape of a value.
#[derive(Debug)]
pub(super) enum Shape {
    /// Limits in characters.
    Text {
        min: usize,
        max: usize,
    },
    /// Text with an alphabet.
    Name {
        max: usize,
        pattern: &'static str,
        rule: &'static str,
    },
    Word(&'static [&'static str]),
    /// A name from a list that the compiler checks with its own diagnostic; `open` ones may also be names declared in
    /// files.
    Known {
        names: Vec<&'static str>,
        open: Option<&'static str>,
    },
    Flag,
    Integer {
        min: u64,
        max: u64,
    },
    Number,
    List {
        item: Box<Shape>,
        min: usize,
        max: usize,
        distinct: bool,
    },
    Object(&'static ObjectShape),
    /// Any keys, one shape of value.
    Map(Box<Shape>),
    AnyOf(Vec<Shape>),
    Any,
}

impl Shape {
    /// What to write, in words.
    pub(super) fn wanted(&self) -> String {
        match self {
            Self::Text { .. } | Self::Name { .. } | Self::Word(_) | Self::Known { .. } => "text".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Integer { .. } => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::List { .. } => "a list".to_owned(),
            Self::Object(_) | Self::Map(_) => "an object".to_owned(),
            Self::AnyOf(alternatives) => {
                let mut words: Vec<String> = alternatives.iter().map(Self::wanted).collect();
                words.dedup();
                words.join(" or ")
            }
            Self::Any => "any value".to_owned(),
        }
    }

    /// The first fields of an object, for the end of a sentence; empty if the type says enough.
    pub(super) fn example(&self) -> String {
        match self {
            Self::Object(object) => {
                let needed = object.fields.iter().filter(|field| field.required);
                let mut names: Vec<&str> = needed.map(|field| field.name).collect();
                if names.is_empty() {
                    names = object.fields.iter().take(2).map(|field| field.name).collect();
                }
                let fields: Vec<String> = names.iter().map(|name| format!("\"{name}\": ...")).collect();
                format!(": {{ {} }}", fields.join(", "))
            }
            Self::Map(_) => ": { \"name\": ... }".to_owned(),
            Self::AnyOf(alternatives) => {
                alternatives.iter().map(Self::example).find(|example| !example.is_empty()).unwrap_or_default()
            }
            Self::List { item, .. } => format!(": [{}]", item.placeholder()),
            Self::Text { .. }
            | Self::Name { .. }
            | Self::Word(_)
            | Self::Known { .. }
            | Self::Flag
            | Self::Integer { .. }
            | Self::Number
            | Self::Any => String::new(),
        }
    }

    /// A placeholder for a value that is still to be written.
    pub(super) fn placeholder(&self) -> String {
        match self {
            Self::Text { .. } | Self::Name { .. } | Self::Word(_) | Self::Known { .. } => {
                "\"...\"".to_owned()
            }
            Self::Flag => "true or false".to_owned(),
            Self::Integer { .. } => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::List { .. } => "[ ... ]".to_owned(),
            Self::Object(_) | Self::Map(_) => "{ ... }".to_owned(),
            Self::AnyOf(alternatives) => {
                let mut forms: Vec<String> = alternatives.iter().map(Self::placeholder).collect();
                forms.dedup();
                forms.join(" or ")
            }
            Self::Any => "a value".to_owned(),
        }
    }

    /// Whether the node has the right JSON type.
    pub(super) fn takes(&self, node: &DocumentNode) -> bool {
        match self {
            Self::Text { .. } | Self::Name { .. } | Self::Word(_) | Self::Known { .. } => {
                node.text().is_some()
            }
            Self::Flag => matches!(node.kind, Kind::Bool(_)),
            Self::Integer { .. } | Self::Number => matches!(node.kind, Kind::Number(_)),
            Self::List { .. } => matches!(node.kind, Kind::List(_)),
            Self::Object(_) | Self::Map(_) => node.is_object(),
            Self::AnyOf(alternatives) => alternatives.iter().any(|shape| shape.takes(node)),
            Self::Any => true,
        }
    }
}
