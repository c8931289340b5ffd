//! A text that never exceeds its limit: everything is measured before it is copied (G54).
//!
//! Sizes are those of a JSON string, including escapes: that is how a rendered text is stored and sent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use workrail_model::reply::without_markers;

use crate::condition::js_string;

/// The text is full; what did not fit was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// How the values of variables are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Whole,
    /// The beginning of each, within a budget for all of them.
    Excerpts,
    /// Not at all, leaving only what the author wrote.
    Nothing,
}

/// What happens to a part that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    Refuse,
    /// The part is truncated, and the text ends there.
    Cut,
}

/// The maximum length of an excerpt.
const EXCERPT_BYTES_MAX: usize = 200;
/// The limit for all excerpts of one text together.
const EXCERPTS_BYTES_MAX: usize = 64 * 1024;
const EXCERPT_MARK: &str = "[...]";

/// Collects a text up to a limit, and tracks how much of it each variable takes. Only `push_marker` writes a token
/// marker: in all other text NUL is replaced, as it is what markers are recognised by.
#[derive(Debug)]
pub(crate) struct LimitedText {
    text: String,
    bytes: usize,
    max: usize,
    values: Values,
    overflow: Overflow,
    excerpts_left: usize,
    shares: BTreeMap<String, usize>,
}

impl LimitedText {
    pub(crate) fn new(max: usize, values: Values, overflow: Overflow) -> Self {
        Self {
            text: String::new(),
            bytes: 0,
            max,
            values,
            overflow,
            excerpts_left: EXCERPTS_BYTES_MAX,
            shares: BTreeMap::new(),
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The variable that takes the most, and its size. What was refused last counts.
    pub(crate) fn largest_share(&self) -> Option<(&str, usize)> {
        let largest = self.shares.iter().max_by_key(|(_, bytes)| **bytes)?;
        Some((largest.0, *largest.1))
    }

    pub(crate) fn push(&mut self, text: &str) -> Result<(), Full> {
        if let Some(bytes) = json_bytes_within(text, self.max - self.bytes) {
            self.text.push_str(&unmarked(text));
            self.bytes += bytes;
            return Ok(());
        }
        if self.overflow == Overflow::Cut {
            let keep = fitting(text, self.max - self.bytes);
            self.text.push_str(&unmarked(keep));
            self.bytes = self.max;
        }
        Err(Full)
    }

    /// A token marker. It is never cut: half of one would not be replaced by a token.
    pub(crate) fn push_marker(&mut self, marker: &str) -> Result<(), Full> {
        if let Some(bytes) = json_bytes_within(marker, self.max - self.bytes) {
            self.text.push_str(marker);
            self.bytes += bytes;
            return Ok(());
        }
        if self.overflow == Overflow::Cut {
            self.bytes = self.max;
        }
        Err(Full)
    }

    /// A value of the variable `name`: texts and numbers as they are, lists and objects as JSON.
    pub(crate) fn push_value(&mut self, name: &str, value: &Value) -> Result<(), Full> {
        match self.values {
            Values::Nothing => Ok(()),
            Values::Whole => self.push_whole(name, value),
            Values::Excerpts => {
                let budget = EXCERPT_BYTES_MAX.min(self.excerpts_left);
                let mut excerpt = Self::new(budget, Values::Whole, Overflow::Cut);
                let cut = excerpt.push_whole(name, value).is_err();
                self.excerpts_left -= excerpt.bytes.min(self.excerpts_left);
                self.push(&excerpt.text)?;
                if cut { self.push(EXCERPT_MARK) } else { Ok(()) }
            }
        }
    }

    /// A remark about the value of the variable `name`; it counts as part of the value.
    pub(crate) fn push_about(&mut self, name: &str, remark: &str) -> Result<(), Full> {
        self.push_value(name, &Value::from(remark))
    }

    fn push_whole(&mut self, name: &str, value: &Value) -> Result<(), Full> {
        match value {
            Value::Array(_) | Value::Object(_) => self.push_json(name, value),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.push_share(name, &js_string(Some(value)))
            }
        }
    }

    /// Part by part: a value may be far larger than the remaining room.
    fn push_json(&mut self, name: &str, value: &Value) -> Result<(), Full> {
        match value {
            Value::Array(items) => {
                self.push_share(name, "[")?;
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        self.push_share(name, ",")?;
                    }
                    self.push_json(name, item)?;
                }
                self.push_share(name, "]")
            }
            Value::Object(members) => {
                self.push_share(name, "{")?;
                for (position, (key, member)) in members.iter().enumerate() {
                    if position > 0 {
                        self.push_share(name, ",")?;
                    }
                    self.push_share(name, &format!("{}:", Value::from(key.as_str())))?;
                    self.push_json(name, member)?;
                }
                self.push_share(name, "}")
            }
            Value::Null => self.push_share(name, "null"),
            Value::String(text) if text.len() > self.max - self.bytes => self.push_share(name, text),
            Value::String(_) => self.push_share(name, &value.to_string()),
            Value::Bool(_) | Value::Number(_) => self.push_share(name, &js_string(Some(value))),
        }
    }

    fn push_share(&mut self, name: &str, text: &str) -> Result<(), Full> {
        let bytes = json_bytes_within(text, self.max - self.bytes).unwrap_or(text.len());
        match self.shares.get_mut(name) {
            Some(share) => *share = share.saturating_add(bytes),
            None => {
                self.shares.insert(name.to_owned(), bytes);
            }
        }
        self.push(text)
    }

    /// A section separated by an empty line; a blank one leaves nothing.
    pub(crate) fn section(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Full>) -> Result<(), Full> {
        let (before, bytes) = (self.text.len(), self.bytes);
        if before > 0 {
            self.push("\n\n")?;
        }
        let start = self.text.len();
        let written = write(self);
        if written.is_ok() && self.text[start..].trim().is_empty() {
            self.text.truncate(before);
            self.bytes = bytes;
        }
        written
    }
}

/// The text without anything that could be taken for a marker. It is never larger in JSON, where NUL is an escape.
fn unmarked(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(without_markers(text)),
        false => Cow::Borrowed(text),
    }
}

/// The size of a text inside a JSON string.
pub(crate) fn json_bytes(text: &str) -> usize {
    text.bytes().map(json_bytes_of).sum()
}

/// The same if it is at most `max`. A text that is already too long is not scanned: a value of any length may be
/// written thousands of times.
fn json_bytes_within(text: &str, max: usize) -> Option<usize> {
    (text.len() <= max).then(|| json_bytes(text)).filter(|bytes| *bytes <= max)
}

fn json_bytes_of(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// The longest prefix that takes at most `max` bytes.
fn fitting(text: &str, max: usize) -> &str {
    let mut bytes = 0;
    let end = text.bytes().position(|byte| {
        bytes += json_bytes_of(byte);
        bytes > max
    });
    &text[..text.floor_char_boundary(end.unwrap_or(text.len()))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn whole(max: usize) -> LimitedText {
        LimitedText::new(max, Values::Whole, Overflow::Refuse)
    }

    proptest! {
        #[test]
        fn sizes_are_those_of_json_strings(text: String) {
            prop_assert_eq!(json_bytes(&text), serde_json::to_string(&text).unwrap().len() - 2);
        }

        #[test]
        fn a_text_is_never_larger_than_its_limit(parts: Vec<String>, max in 0_usize..60, cut: bool) {
            let overflow = if cut { Overflow::Cut } else { Overflow::Refuse };
            let mut text = LimitedText::new(max, Values::Whole, overflow);
            let joined: String = parts.concat();
            let fits = parts.iter().try_for_each(|part| text.push(part)).is_ok();
            prop_assert_eq!(fits, json_bytes(&joined) <= max);
            let text = text.into_text();
            prop_assert!(json_bytes(&text) <= max && joined.starts_with(&text));
        }

        #[test]
        fn lists_and_objects_print_as_json(list: Vec<Option<i32>>, key: String, inner: String) {
            let value = json!([list, { key: inner, "b": [true, {}] }]);
            let mut text = whole(1 << 20);
            text.push_value("v", &value).unwrap();
            prop_assert_eq!(text.into_text(), value.to_string());
        }
    }

    #[test]
    fn the_variable_that_takes_the_most_is_known() {
        let mut text = whole(100);
        text.push_value("small", &json!("x")).unwrap();
        for _ in 0..2 {
            text.push_value("often", &json!("x".repeat(40))).unwrap();
        }
        assert_eq!(text.push_value("often", &json!("x".repeat(40))), Err(Full));
        assert_eq!(text.largest_share(), Some(("often", 120)));
    }

    #[test]
    fn excerpts_end_with_their_budget() {
        let mut text = LimitedText::new(1 << 20, Values::Excerpts, Overflow::Refuse);
        let long = json!("x".repeat(5000));
        for _ in 0..1000 {
            text.push_value("v", &long).unwrap();
        }
        let text = text.into_text();
        assert!(text.starts_with(&format!("{}[...]", "x".repeat(200))) && text.ends_with("[...][...]"));
        assert_eq!(text.matches('x').count(), EXCERPTS_BYTES_MAX);
    }
}
