//! How the authored format is declared: once per object, in `source`.
//!
//! A declaration gives the Rust struct, the decoder with its diagnostics (G45), the JSON Schema and the rows
//! of the field reference, so none of them can differ from the others. A decoder reports every problem of a
//! value and still returns what is usable, so that later checks can find more.

mod leaf;
mod object;
mod reader;

pub(super) use leaf::{
    Any, AssessmentText, Distinct, Flag, Identifier, Integer, LIST_MAX, List, LoopVariable, Map, Number,
    Slot, StepName, Text, Tool, Version, Word,
};
pub(super) use object::{Field, ObjectShape, authored, either};
pub(super) use reader::Reader;

use super::document::{Kind, Node};

/// A part of the format: what it looks like and how it is read.
pub(super) trait Authored {
    type Value;

    fn shape() -> Shape;

    /// The value, or `None` if the node cannot be used; every problem is reported.
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self::Value>;

    /// What an object continues with after a missing required field was reported; `None` if it cannot.
    fn substitute() -> Option<Self::Value> {
        None
    }
}

/// What a value looks like.
#[derive(Debug)]
pub(super) enum Shape {
    /// Bounds in characters.
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
            Self::Text { .. } | Self::Name { .. } | Self::Word(_) => "text".to_owned(),
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

    /// Whether the node has the right JSON type.
    pub(super) fn takes(&self, node: &Node) -> bool {
        match self {
            Self::Text { .. } | Self::Name { .. } | Self::Word(_) => node.text().is_some(),
            Self::Flag => matches!(node.kind, Kind::Bool(_)),
            Self::Integer { .. } | Self::Number => matches!(node.kind, Kind::Number(_)),
            Self::List { .. } => matches!(node.kind, Kind::List(_)),
            Self::Object(_) | Self::Map(_) => node.is_object(),
            Self::AnyOf(alternatives) => alternatives.iter().any(|shape| shape.takes(node)),
            Self::Any => true,
        }
    }
}
