//! Checks the shape of a document: types, lengths, closed sets and unknown fields, all at once (G45).
//!
//! The tables of `fields` drive it; the published JSON Schema comes from the same tables.

use workrail_model::source::{DocPath, Segment};

use super::diagnostic::Code;
use super::document::{Kind, Member, Node};
use super::nearest::suggestion;
use super::report::{Problem, Report};

/// What a value must look like.
#[derive(Debug)]
pub(super) enum Shape {
    Text {
        min: usize,
        max: usize,
    },
    /// Text with an alphabet; the rule is said in words.
    Name {
        max: usize,
        allowed: fn(&str) -> bool,
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
        item: &'static Shape,
        min: usize,
        max: usize,
        unique: bool,
    },
    Object(&'static ObjectShape),
    /// Any keys, one shape of value.
    Map(&'static Shape),
    /// The first alternative that fits the value's type.
    Either(&'static [&'static Shape]),
    /// An object whose shape depends on one of its fields.
    Chosen {
        by: fn(&Node) -> &'static ObjectShape,
        all: &'static [&'static ObjectShape],
    },
    Any,
}

#[derive(Debug)]
pub(super) struct ObjectShape {
    pub(super) what: &'static str,
    pub(super) fields: &'static [Field],
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: &'static Shape,
    pub(super) required: bool,
    pub(super) doc: &'static str,
}

impl Shape {
    fn wanted(&self) -> String {
        match self {
            Self::Text { .. } | Self::Name { .. } | Self::Word(_) => "text".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Integer { .. } => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::List { .. } => "a list".to_owned(),
            Self::Object(_) | Self::Map(_) | Self::Chosen { .. } => "an object".to_owned(),
            Self::Either(alternatives) => {
                let mut words: Vec<String> = alternatives.iter().map(|shape| shape.wanted()).collect();
                words.dedup();
                words.join(" or ")
            }
            Self::Any => "any value".to_owned(),
        }
    }

    fn takes(&self, node: &Node) -> bool {
        match self {
            Self::Text { .. } | Self::Name { .. } | Self::Word(_) => matches!(node.kind, Kind::Text(_)),
            Self::Flag => matches!(node.kind, Kind::Bool(_)),
            Self::Integer { .. } | Self::Number => matches!(node.kind, Kind::Number(_)),
            Self::List { .. } => matches!(node.kind, Kind::List(_)),
            Self::Object(_) | Self::Map(_) | Self::Chosen { .. } => node.is_object(),
            Self::Either(alternatives) => alternatives.iter().any(|shape| shape.takes(node)),
            Self::Any => true,
        }
    }
}

pub(super) fn check(root: &Node, shape: &'static Shape, report: &mut Report) {
    Checker { report, path: Vec::new() }.value(root, shape);
}

struct Checker<'r> {
    report: &'r mut Report,
    path: Vec<Segment>,
}

impl Checker<'_> {
    fn problem(&self, code: Code, node: &Node) -> Problem {
        Problem::both(code, node.span, DocPath::new(self.path.clone()))
    }

    fn value(&mut self, node: &Node, shape: &'static Shape) {
        if !shape.takes(node) {
            let problem = self.problem(Code::WrongType, node);
            self.report.push(
                problem
                    .message(format!("expected {}, found {}", shape.wanted(), node.type_name()))
                    .why("a value of another type would be ignored or misread")
                    .fix(format!("write {} here", shape.wanted())),
            );
            return;
        }
        match (shape, &node.kind) {
            (Shape::Either(alternatives), _) => {
                if let Some(chosen) = alternatives.iter().find(|shape| shape.takes(node)) {
                    self.value(node, chosen);
                }
            }
            (Shape::Text { min, max }, Kind::Text(text)) => self.length(node, text, *min, *max),
            (Shape::Name { max, allowed, rule, .. }, Kind::Text(text)) => {
                if text.len() > *max || !allowed(text) {
                    let problem = self.problem(Code::BadValue, node);
                    self.report.push(problem
                        .message(format!("{:?} is not allowed here", shown(text)))
                        .why("names become part of keys and tokens, where other characters would be ambiguous")
                        .fix(format!("use {rule}, at most {max} characters")));
                }
            }
            (Shape::Word(words), Kind::Text(text)) => self.word(node, text, words),
            (Shape::Integer { min, max }, Kind::Number(number)) => {
                let fits = number.as_f64().is_some_and(|number| {
                    number.fract() == 0.0 && number >= *min as f64 && number <= *max as f64
                });
                if !fits {
                    let problem = self.problem(Code::NumberRange, node);
                    self.report.push(
                        problem
                            .message(format!("{number} is outside of what is allowed"))
                            .why("bounds keep runs finite")
                            .fix(format!("use a whole number from {min} to {max}")),
                    );
                }
            }
            (Shape::List { item, min, max, unique }, Kind::List(items)) => {
                self.list(node, items, item, *min, *max, *unique);
            }
            (Shape::Map(inner), Kind::Object(members)) => {
                for member in members {
                    self.path.push(Segment::Key(member.key.clone()));
                    self.value(&member.value, inner);
                    self.path.pop();
                }
            }
            (Shape::Object(object), Kind::Object(members)) => self.object(node, members, object),
            (Shape::Chosen { by, .. }, Kind::Object(members)) => self.object(node, members, by(node)),
            (Shape::Any | Shape::Flag | Shape::Number, _)
            | (
                Shape::Text { .. }
                | Shape::Name { .. }
                | Shape::Word(_)
                | Shape::Integer { .. }
                | Shape::List { .. }
                | Shape::Map(_)
                | Shape::Object(_)
                | Shape::Chosen { .. },
                _,
            ) => {}
        }
    }

    fn length(&mut self, node: &Node, text: &str, min: usize, max: usize) {
        // Bytes bound characters from above: most texts need no counting.
        if text.len() <= max && text.len() >= min.saturating_mul(4) {
            return;
        }
        let count = text.chars().count();
        if count >= min && count <= max {
            return;
        }
        let problem = self.problem(Code::TextLength, node);
        self.report.push(
            problem
                .message(if count < min {
                    format!("the text has {count} characters, at least {min} are needed")
                } else {
                    format!("the text has {count} characters, at most {max} are allowed")
                })
                .why(if count < min {
                    "an empty text tells the agent nothing"
                } else {
                    "long texts push the instruction out of the agent's view"
                })
                .fix(if count < min {
                    "write the text".to_owned()
                } else {
                    format!("shorten it to {max} characters")
                }),
        );
    }

    fn word(&mut self, node: &Node, text: &str, words: &'static [&'static str]) {
        if !words.contains(&text) {
            let problem = self.problem(Code::BadValue, node);
            self.report.push(
                problem
                    .message(format!("{:?} is not one of the allowed words", shown(text)))
                    .why("this is a closed set; another word would have no effect")
                    .fix(suggestion(text, words)),
            );
        }
    }

    fn list(
        &mut self,
        node: &Node,
        items: &[Node],
        item: &'static Shape,
        min: usize,
        max: usize,
        unique: bool,
    ) {
        if items.len() < min || items.len() > max {
            let problem = self.problem(Code::ListLength, node);
            self.report.push(
                problem
                    .message(format!("the list has {} items", items.len()))
                    .why("the format bounds this list")
                    .fix(format!("give {min} to {max} items")),
            );
        }
        let mut seen = std::collections::BTreeSet::new();
        for (index, inner) in items.iter().enumerate() {
            self.path.push(Segment::Index(index));
            self.value(inner, item);
            if unique && !seen.insert(inner.to_value().to_string()) {
                let problem = self.problem(Code::RepeatedItem, inner);
                self.report.push(
                    problem
                        .message("this item stands in the list twice")
                        .why("items of this list are distinct; a repetition is usually a slip")
                        .fix("remove one of them"),
                );
            }
            self.path.pop();
        }
    }

    fn object(&mut self, node: &Node, members: &[Member], object: &'static ObjectShape) {
        for member in members {
            let Some(field) = object.fields.iter().find(|field| field.name == member.key) else {
                self.unknown(member, object);
                continue;
            };
            self.path.push(Segment::Key(member.key.clone()));
            self.value(&member.value, field.shape);
            self.path.pop();
        }
        for field in object.fields {
            if field.required && !members.iter().any(|member| member.key == field.name) {
                let span = super::Span { start: node.span.start, end: node.span.start + 1 };
                let problem = Problem::both(Code::MissingField, span, DocPath::new(self.path.clone()));
                self.report.push(
                    problem
                        .message(format!("{} has no `{}`", object.what, field.name))
                        .why(field.doc)
                        .fix(format!("add \"{}\": {}", field.name, field.shape.wanted())),
                );
            }
        }
    }

    fn unknown(&mut self, member: &Member, object: &'static ObjectShape) {
        let mut path = self.path.clone();
        path.push(Segment::Key(member.key.clone()));
        let known: Vec<&str> = object.fields.iter().map(|field| field.name).collect();
        self.report.push(
            Problem::both(Code::UnknownField, member.key_span, DocPath::new(path))
                .message(format!("{} has no field `{}`", object.what, shown(&member.key)))
                .why("an unknown field would silently do nothing")
                .fix(suggestion(&member.key, &known)),
        );
    }
}

/// A text short enough to repeat in a message.
pub(super) fn shown(text: &str) -> String {
    if text.len() <= 60 { text.to_owned() } else { format!("{}...", &text[..text.floor_char_boundary(57)]) }
}
