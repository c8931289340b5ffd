//! The leaves of the format: texts, names, closed words, numbers, lists and maps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde_json::Value;

use super::super::diagnostic::Code;
use super::super::document::{DocumentNode, Kind};
use super::super::nearest::suggestion;
use super::super::report::{DraftDiagnostic, shown};
use super::{Authored, FormatReader, Shape};
use crate::builtins;

/// A longer list was not written by hand.
pub(crate) const LIST_MAX: usize = 10_000;

/// Text of `MIN` to `MAX` characters.
pub(crate) struct Text<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> Authored for Text<MIN, MAX> {
    type Value = String;

    fn shape() -> Shape {
        Shape::Text { min: MIN, max: MAX }
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<String> {
        let text = reader.text::<Self>(node)?;
        // The byte length is an upper bound of the characters: most texts need no counting.
        if text.len() > MAX || text.len() < MIN.saturating_mul(4) {
            let count = text.chars().count();
            let problem = reader.problem(Code::TextLength, node);
            if count < MIN {
                reader.report.push(
                    problem
                        .message(format!("the text has {count} characters; the minimum is {MIN}"))
                        .why("an empty text tells the agent nothing")
                        .fix("write the text"),
                );
            } else if count > MAX {
                reader.report.push(
                    problem
                        .message(format!("the text has {count} characters; the maximum is {MAX}"))
                        .why("long texts push the instruction out of the agent's view")
                        .fix(format!("shorten it to {MAX} characters")),
                );
            }
        }
        Some(text.to_owned())
    }
}

fn name(
    node: &DocumentNode,
    reader: &mut FormatReader<'_>,
    shape: &Shape,
    (code, max, rule): (Code, usize, &str),
    allows: fn(&str) -> bool,
) -> Option<String> {
    let Some(text) = node.text() else {
        reader.wrong_type(node, shape);
        return None;
    };
    if text.len() > max || !allows(text) {
        let problem = reader.problem(code, node);
        let message = match text.len() > max {
            true => format!("{:?} has {} characters; the maximum is {max}", shown(text), text.len()),
            false => format!("{:?} is not allowed here", shown(text)),
        };
        let fix = match repaired(text, max, allows) {
            Some(better) => format!("use, for example, {better:?}"),
            None => format!("use {rule}"),
        };
        reader.report.push(problem.message(message).why(format!("expected {rule}")).fix(fix));
    }
    Some(text.to_owned())
}

/// The nearest allowed spelling.
fn repaired(text: &str, max: usize, allows: fn(&str) -> bool) -> Option<String> {
    let with = |between: char| -> String {
        let chars = text.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { between });
        chars.collect()
    };
    let version = text.trim_start_matches(['v', 'V']);
    let candidates = [
        with('-').to_lowercase(),
        with('_'),
        with('_').to_lowercase(),
        version.to_owned(),
        format!("{version}.0"),
        format!("{version}.0.0"),
    ];
    candidates
        .into_iter()
        .find(|candidate| !candidate.is_empty() && candidate.len() <= max && allows(candidate))
}

/// Names: the maximum length, the alphabet as a pattern and in words, and the check.
macro_rules! names {
    ($($name:ident $code:ident: $max:literal, $pattern:literal, $rule:literal, $allows:expr;)+) => {
        $(
            pub(crate) struct $name;

            impl Authored for $name {
                type Value = String;

                fn shape() -> Shape {
                    Shape::Name { max: $max, pattern: $pattern, rule: $rule }
                }

                fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<String> {
                    name(node, reader, &Self::shape(), (Code::$code, $max, $rule), $allows)
                }
            }
        )+

        #[cfg(test)]
        const NAMES: &[(&str, fn(&str) -> bool)] = &[$(($pattern, $allows)),+];
    };
}

names! {
    StepName BadValue: 64, "^[a-z0-9_-]+$", "lowercase letters, digits, `-` and `_`", is_step_name;
    StepIdText StepId: 64, "^[a-z0-9_-]+$", "lowercase letters, digits, `-` and `_`", is_step_name;
    Identifier BadValue: 128, "^[A-Za-z_][A-Za-z0-9_]*$", "a letter or `_`, then letters, digits and `_`", is_identifier;
    LoopVariable BadValue: 128, "^([A-Za-z_][A-Za-z0-9_]*)?$", "a letter or `_`, then letters, digits and `_`", |text| {
        text.is_empty() || is_identifier(text)
    };
    Version BadValue: 128, "^[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]*)?$", "three numbers, as in 1.0.0", is_version;
    Tool BadValue: 128, "^[a-zA-Z][a-zA-Z0-9_:-]*$", "a letter, then letters, digits, `_`, `:` and `-`", |text| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'-'))
    };
    Slot BadValue: 64, "^[a-z][a-z0-9_]*$", "a lowercase letter, then lowercase letters, digits and `_`", |text| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    CheckText BadValue: 64, "^[a-z0-9_-]+$", "lowercase letters, digits, `-` and `_`", is_step_name;
    AssessmentText BadValue: 64, "^[A-Za-z0-9_.-]+$", "letters, digits, `_`, `-` and `.`", |text| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    };
}

fn is_step_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_version(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    parts.len() == 3
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'))
}

impl Authored for workrail_model::name::AssessmentName {
    type Value = Self;

    fn shape() -> Shape {
        AssessmentText::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        Self::parse(&AssessmentText::decode(node, reader)?).ok()
    }
}

impl Authored for workrail_model::name::CheckName {
    type Value = Self;

    fn shape() -> Shape {
        CheckText::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        Self::parse(&CheckText::decode(node, reader)?).ok()
    }
}

/// A word of a closed set: an enum whose variants serde reads.
pub(crate) struct EnumWord<T>(PhantomData<T>);

impl<T: DeserializeOwned> Authored for EnumWord<T> {
    type Value = T;

    fn shape() -> Shape {
        Shape::Word(words::<T>())
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<T> {
        let text = reader.text::<Self>(node)?;
        let word: StrDeserializer<'_, UnknownWord> = text.into_deserializer();
        T::deserialize(word)
            .map_err(|UnknownWord(words)| {
                let problem = reader.problem(Code::BadValue, node);
                reader.report.push(
                    problem
                        .message(format!("{:?} is not one of the allowed words", shown(text)))
                        .why("this is a closed set; another word would have no effect")
                        .fix(suggestion(text, words)),
                );
            })
            .ok()
    }
}

/// The words that an enum accepts: serde lists them when it rejects another one.
fn words<T: DeserializeOwned>() -> &'static [&'static str] {
    let nothing: StrDeserializer<'_, UnknownWord> = "".into_deserializer();
    T::deserialize(nothing).err().map_or(&[], |UnknownWord(words)| words)
}

#[derive(Debug)]
struct UnknownWord(&'static [&'static str]);

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for UnknownWord {}

impl serde::de::Error for UnknownWord {
    fn custom<M: fmt::Display>(_: M) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self(expected)
    }
}

pub(crate) struct Flag;

impl Authored for Flag {
    type Value = bool;

    fn shape() -> Shape {
        Shape::Flag
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<bool> {
        reader.has_type::<Self>(node);
        node.flag()
    }
}

/// A whole number from `MIN` to `MAX`.
pub(crate) struct Integer<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Authored for Integer<MIN, MAX> {
    type Value = u32;

    fn shape() -> Shape {
        Shape::Integer { min: MIN, max: MAX }
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<u32> {
        reader.has_type::<Self>(node);
        let number = node.number()?;
        let whole = number.as_f64().filter(|number| number.fract() == 0.0);
        if !whole.is_some_and(|number| number >= MIN as f64 && number <= MAX as f64) {
            let problem = reader.problem(Code::NumberRange, node);
            reader.report.push(
                problem
                    .message(format!("{number} is out of range"))
                    .why("bounds keep runs finite")
                    .fix(format!("use a whole number from {MIN} to {MAX}")),
            );
        }
        // A number out of range has already been reported; the cast saturates.
        whole.filter(|number| *number >= 0.0).map(|number| number as u32)
    }
}

/// Any number, as written.
pub(crate) struct Number;

impl Authored for Number {
    type Value = Value;

    fn shape() -> Shape {
        Shape::Number
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Value> {
        reader.has_type::<Self>(node).then(|| node.to_value())
    }
}

pub(crate) struct Any;

impl Authored for Any {
    type Value = Value;

    fn shape() -> Shape {
        Shape::Any
    }

    fn decode(node: &DocumentNode, _: &mut FormatReader<'_>) -> Option<Value> {
        Some(node.to_value())
    }
}

/// `MIN` to `MAX` items.
pub(crate) struct List<T, const MIN: usize = 0, const MAX: usize = LIST_MAX, const DISTINCT: bool = false>(
    PhantomData<T>,
);

/// A list whose items are all different.
pub(crate) type Distinct<T, const MIN: usize = 0, const MAX: usize = LIST_MAX> = List<T, MIN, MAX, true>;

impl<T: Authored, const MIN: usize, const MAX: usize, const DISTINCT: bool> Authored
    for List<T, MIN, MAX, DISTINCT>
{
    type Value = Vec<T::Value>;

    fn shape() -> Shape {
        Shape::List { item: Box::new(T::shape()), min: MIN, max: MAX, distinct: DISTINCT }
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self::Value> {
        let items = node.items();
        if !matches!(node.kind, Kind::List(_)) {
            reader.wrong_type(node, &Self::shape());
        } else if items.len() < MIN || items.len() > MAX {
            let problem = reader.problem(Code::ListLength, node);
            reader.report.push(
                problem
                    .message(match items.len() < MIN {
                        true => format!("the list has {}; the minimum is {MIN}", counted(items.len())),
                        false => format!("the list has {}; the maximum is {MAX}", counted(items.len())),
                    })
                    .why(match items.len() < MIN {
                        true => "with fewer there is nothing to work with or to choose from",
                        false => "nobody reads a longer list as a whole",
                    })
                    .fix(match items.len() < MIN {
                        true => format!("add {}", counted(MIN - items.len())),
                        false => format!("remove {}", counted(items.len() - MAX)),
                    }),
            );
        }
        let mut seen = BTreeSet::new();
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            values.extend(reader.item::<T>(index, item));
            if DISTINCT && !seen.insert(item.to_value().to_string()) {
                reader.report.push(
                    DraftDiagnostic::both(Code::RepeatedItem, item.span, reader.at().index(index))
                        .message("this item occurs twice in the list")
                        .why("the items of this list must be different; a repetition is usually a mistake")
                        .fix("remove one of them"),
                );
            }
        }
        Some(values)
    }

    fn substitute() -> Option<Self::Value> {
        Some(Vec::new())
    }
}

fn counted(items: usize) -> String {
    if items == 1 { "1 item".to_owned() } else { format!("{items} items") }
}

/// An object with any keys, in the order written.
pub(crate) struct Ordered<T>(PhantomData<T>);

impl<T: Authored> Authored for Ordered<T> {
    type Value = Vec<(String, T::Value)>;

    fn shape() -> Shape {
        Shape::Map(Box::new(T::shape()))
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self::Value> {
        reader.has_type::<Self>(node).then(|| {
            let members = node.members().iter();
            members
                .filter_map(|member| {
                    Some((member.key.clone(), reader.member::<T>(&member.key, &member.value)?))
                })
                .collect()
        })
    }
}

/// Names of builtins: the schema lists them, and unknown ones have their own diagnostic.
macro_rules! known {
    ($($name:ident: $names:expr, $open:expr;)+) => {
        $(
            pub(crate) struct $name;

            impl Authored for $name {
                type Value = String;

                fn shape() -> Shape {
                    Shape::Known { names: $names, open: $open }
                }

                fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<String> {
                    Text::<1, 128>::decode(node, reader)
                }
            }
        )+
    };
}

known! {
    ContractName: builtins::contracts().iter().map(|contract| contract.id).collect(), None;
    FeatureName: builtins::features().iter().map(|feature| feature.id).collect(), None;
    SnippetName: builtins::snippets().iter().map(|snippet| snippet.id).collect(), None;
    // File names never start with `wr.`.
    RoutineOrTemplate: builtins::templates()
            .iter()
            .map(|template| template.id)
            .chain(builtins::routines().iter().map(|routine| routine.workflow_id.as_str()))
            .collect(),
        Some("^(?!wr\\.)[a-z][a-z0-9_-]*(\\.[a-z][a-z0-9_-]*)?$");
}

/// An object with any keys.
pub(crate) struct Map<T>(PhantomData<T>);

impl<T: Authored> Authored for Map<T> {
    type Value = BTreeMap<String, T::Value>;

    fn shape() -> Shape {
        Shape::Map(Box::new(T::shape()))
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self::Value> {
        reader.has_type::<Self>(node).then(|| {
            let members = node.members().iter();
            members
                .filter_map(|member| {
                    Some((member.key.clone(), reader.member::<T>(&member.key, &member.value)?))
                })
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use workrail_model::compiled::{MetricsProfile, OnLimit};

    #[test]
    fn the_words_of_an_enum_are_those_it_accepts() {
        assert_eq!(words::<OnLimit>(), ["advance", "block"]);
        assert_eq!(words::<MetricsProfile>(), ["coding", "review", "research", "design", "ticket", "none"]);
    }

    proptest! {
        #[test]
        fn the_pattern_of_a_name_agrees_with_its_check(text in "[a-zA-Z0-9_.:+ -]{0,8}|[0-9.]{3,7}[-+]?[a-z.]{0,3}") {
            for (pattern, allows) in NAMES {
                let regex = fancy_regex::Regex::new(pattern).unwrap();
                prop_assert_eq!(regex.is_match(&text).unwrap(), allows(&text), "{} {:?}", pattern, text);
            }
        }
    }
}
