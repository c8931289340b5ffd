//! Text with a byte limit: refused if over it, or truncated with the canonical marker (G4).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{SUMMARY_BYTES_MAX, TRUNCATION_MARKER};

/// A text that exceeds its limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text has {bytes} UTF-8 bytes, at most {max} are allowed")]
pub struct OverBudget {
    pub bytes: usize,
    pub max: usize,
}

/// Truncates `text` to at most `max` bytes on a character boundary, including the marker, if it is longer.
///
/// A limit smaller than the marker keeps no text: the marker itself is then truncated.
pub fn truncate_with_marker(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let keep = text.floor_char_boundary(max.saturating_sub(TRUNCATION_MARKER.len()));
    let marker = &TRUNCATION_MARKER[..TRUNCATION_MARKER.len().min(max)];
    Cow::Owned(format!("{}{marker}", &text[..keep]))
}

/// Part of a text that may be long or hostile, for a message that should stay short.
pub fn quoted_in_part(text: &str) -> String {
    truncate_with_marker(text, SUMMARY_BYTES_MAX).into_owned()
}

/// Shortens `text` to at most `max` bytes by cutting its middle: reports often end with what is still open.
pub fn truncate_in_the_middle(text: &str, max: usize) -> Cow<'_, str> {
    let room = max.saturating_sub(TRUNCATION_MARKER.len() + 2);
    if text.len() <= max || room == 0 {
        return truncate_with_marker(text, max);
    }
    let head = text.floor_char_boundary(room * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - (room - head));
    Cow::Owned(format!("{}{TRUNCATION_MARKER}\n\n{}", &text[..head], &text[tail..]))
}

/// Whether a character controls a terminal, reorders a line or hides in it: controls, direction marks, overrides and
/// isolates, separators other than newlines, and zero-width characters. Joiners are allowed: scripts and emoji need
/// them.
pub fn is_harmful(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'
        | '\u{2066}'..='\u{2069}'
        | '\u{feff}' => true,
        other => other.is_control(),
    }
}

/// Text for people and models to read: every harmful character is replaced (G76).
pub fn clean(text: &str) -> String {
    if !text.chars().any(is_harmful) {
        return text.to_owned();
    }
    text.replace("\r\n", "\n").chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

/// Text of at most `MAX` UTF-8 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct BoundedText<const MAX: usize>(String);

impl<const MAX: usize> BoundedText<MAX> {
    /// Refuses text over the limit.
    pub fn new(text: impl Into<String>) -> Result<Self, OverBudget> {
        let text = text.into();
        if text.len() > MAX {
            return Err(OverBudget { bytes: text.len(), max: MAX });
        }
        Ok(Self(text))
    }

    /// Truncates text over the limit, with the canonical marker.
    pub fn clip(text: &str) -> Self {
        Self(truncate_with_marker(text, MAX).into_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Display for BoundedText<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize> fmt::Debug for BoundedText<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for BoundedText<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl<const MAX: usize> JsonSchema for BoundedText<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": format!("At most {MAX} UTF-8 bytes.") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_unchanged() {
        assert_eq!(truncate_with_marker("abc", 3), "abc");
    }

    /// G4: shortened text fits its limit including the marker.
    #[test]
    fn truncated_text_ends_with_the_marker_and_fits() {
        let cut = truncate_with_marker("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 20);
        assert_eq!(cut, "aaaaaaa\n\n[TRUNCATED]");
        assert_eq!(cut.len(), 20);
    }

    /// G4: shortening never splits a character.
    #[test]
    fn a_multi_byte_character_is_never_split() {
        let cut = truncate_with_marker("ääääääääääääääääääää", 18);
        assert_eq!(cut, "ää\n\n[TRUNCATED]");
    }

    #[test]
    fn a_limit_below_the_marker_truncates_the_marker() {
        assert_eq!(truncate_with_marker("abcdefgh", 4), "\n\n[T");
    }

    #[test]
    fn harmful_characters_are_replaced_and_joiners_stay() {
        let table = [
            ("a\tb\r\nc", "a\tb\nc"),
            ("\u{1b}[31mred\r", "\u{fffd}[31mred\u{fffd}"),
            ("\u{202e}\u{2066}\u{feff}\u{9b}", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            ("👩\u{200d}🚀 ن\u{200c}", "👩\u{200d}🚀 ن\u{200c}"),
        ];
        for (text, expected) in table {
            assert_eq!(clean(text), expected);
        }
    }

    /// G4: limits count UTF-8 bytes.
    #[test]
    fn bounded_text_counts_bytes_not_characters() {
        assert_eq!(BoundedText::<3>::new("ää"), Err(OverBudget { bytes: 4, max: 3 }));
    }
}
