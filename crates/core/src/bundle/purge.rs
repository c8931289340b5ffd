//! Removes a text from everything in a session, including what agents wrote: a secret that was recorded (G85).
//!
//! Unlike redaction by key, this looks for the text itself, in events, notes, artifacts and stored replies. It changes
//! nothing else, so a session without the text is exported unchanged.

use serde_json::{Value, json};
use workrail_model::canonical::value_to_canonical;
use workrail_model::event::{DedupeKey, Event};
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::strict_json;

/// Replaces the text.
const REPLACEMENT: &str = "[removed]";

/// A shorter text is part of many words that should not be lost.
const TEXT_CHARS_MIN: usize = 4;

/// A text to be removed.
#[derive(Clone)]
pub struct Purge {
    /// As typed, and as escaped in JSON that is stored as text; the longest first.
    forms: Vec<String>,
}

impl std::fmt::Debug for Purge {
    /// Omits the text, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Purge").finish_non_exhaustive()
    }
}

/// The text is too short to be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text has fewer than {TEXT_CHARS_MIN} characters; it would be part of many words")]
pub struct TooShort;

impl Purge {
    pub fn new(text: &str) -> Result<Self, TooShort> {
        let text = text.trim_matches(['\r', '\n']);
        if text.trim().chars().count() < TEXT_CHARS_MIN {
            return Err(TooShort);
        }
        let mut forms = vec![text.to_owned()];
        // Escaped once, and once more for JSON inside a JSON string.
        for _ in 0..2 {
            let last = forms.last().cloned().unwrap_or_default();
            let quoted = Value::from(last.as_str()).to_string();
            forms.push(quoted[1..quoted.len() - 1].to_owned());
        }
        forms.dedup();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Ok(Self { forms })
    }

    /// Whether bytes contain the text in any of its forms.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| find(bytes, form.as_bytes()).is_some())
    }

    /// The length of the longest form in bytes. Chunks of a file must overlap by this much.
    pub fn longest(&self) -> usize {
        self.forms.iter().map(String::len).max().unwrap_or_default()
    }

    /// Removes the text from an event.
    pub fn event(&self, event: &mut Value) {
        for pointer in ["/data", "/data/keyed", "/data/checkpoint"] {
            if let Some(Value::Object(data)) = event.pointer_mut(pointer) {
                // The digest covers what was sent: a short text could be guessed from it.
                data.remove("requestDigest");
            }
        }
        let before = event.clone();
        if let Some(data) = event.get_mut("data") {
            self.clean(data, &|text| self.replaced(text));
        }
        // The replacement may exceed a length limit: then the whole text is removed.
        if *event != before && Event::from_value(event.clone()).is_err() {
            *event = before.clone();
            if let Some(data) = event.get_mut("data") {
                let whole = |text: &str| self.is_in(text.as_bytes()).then(|| REPLACEMENT.to_owned());
                self.clean(data, &whole);
            }
        }
        // The dedupe key of some events is derived from their content.
        if *event != before
            && let Ok(cleaned) = Event::from_value(event.clone())
            && let Some(key) = event.get_mut("dedupeKey")
        {
            *key = json!(DedupeKey::of(cleaned.session_id, cleaned.scope, &cleaned.data));
        }
    }

    /// The content without the text; `None` if it does not contain it.
    pub fn content(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if let Ok(mut value @ (Value::Object(_) | Value::Array(_))) = strict_json::parse(bytes) {
            let before = value.clone();
            self.clean(&mut value, &|text| self.replaced(text));
            // A text truncated inside the secret contains only its beginning.
            if value == before && !self.is_in(bytes) {
                return None;
            }
            if let Ok(changed) = value_to_canonical(&value)
                && !self.is_in(&changed)
            {
                return Some(changed);
            }
        }
        if !self.is_in(bytes) {
            return std::str::from_utf8(bytes)
                .ok()
                .and_then(|text| self.replaced(text))
                .map(String::into_bytes);
        }
        let mut changed = bytes.to_vec();
        for form in &self.forms {
            changed = replaced_bytes(&changed, form.as_bytes());
        }
        Some(changed)
    }

    /// Changes every text in a value. A member whose name contains the text is dropped.
    fn clean(&self, value: &mut Value, change: &dyn Fn(&str) -> Option<String>) {
        match value {
            Value::String(text) => {
                if let Some(changed) = change(text) {
                    *text = changed;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean(item, change)),
            Value::Object(members) => {
                members.retain(|name, _| !self.is_in(name.as_bytes()));
                members.values_mut().for_each(|member| self.clean(member, change));
            }
            Value::Number(_) => {
                // A number that is the secret, such as a PIN, is replaced by the text.
                if self.is_in(value.to_string().as_bytes()) {
                    *value = Value::from(REPLACEMENT);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The text without the secret; `None` if it does not contain it.
    fn replaced(&self, text: &str) -> Option<String> {
        let mut changed = text.to_owned();
        for form in &self.forms {
            changed = changed.replace(form.as_str(), REPLACEMENT);
        }
        let changed = self.without_cut(changed);
        (changed != text).then_some(changed)
    }

    /// A truncated text may end inside the secret.
    fn without_cut(&self, mut text: String) -> String {
        let Some(marker_at) = text.find(TRUNCATION_MARKER) else { return text };
        let part = self.forms.iter().filter_map(|form| {
            let ends = form.char_indices().skip(TEXT_CHARS_MIN).map(|(end, _)| end);
            ends.filter(|end| text[..marker_at].ends_with(&form[..*end])).max()
        });
        if let Some(bytes) = part.max() {
            text.replace_range(marker_at - bytes..marker_at, REPLACEMENT);
        }
        text
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn replaced_bytes(bytes: &[u8], needle: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = find(rest, needle) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(REPLACEMENT.as_bytes());
        rest = &rest[at + needle.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET: &str = "hunter2\"quoted";

    fn purge() -> Purge {
        Purge::new(SECRET).unwrap()
    }

    #[test]
    fn a_short_text_is_refused() {
        assert_eq!(Purge::new(" ab ").err(), Some(TooShort));
    }

    #[test]
    fn the_text_is_found_plain_and_inside_json() {
        let inner = json!({ "key": SECRET }).to_string();
        for bytes in [SECRET.to_owned(), inner.clone(), json!({ "text": inner }).to_string()] {
            assert!(purge().is_in(bytes.as_bytes()), "{bytes}");
        }
        assert!(!purge().is_in(b"hunter3"));
    }

    #[test]
    fn content_keeps_everything_except_the_text() {
        let artifact = json!({ "kind": "note", "value": format!("use {SECRET} here"), "n": 7 });
        let bytes = value_to_canonical(&artifact).unwrap();
        let changed: Value = serde_json::from_slice(&purge().content(&bytes).unwrap()).unwrap();
        assert_eq!(changed, json!({ "kind": "note", "value": "use [removed] here", "n": 7 }));
        assert_eq!(purge().content(b"{}"), None);
        let plain = format!("a {SECRET} b");
        assert_eq!(purge().content(plain.as_bytes()).unwrap(), b"a [removed] b");
    }

    #[test]
    fn a_text_truncated_inside_the_secret_loses_its_beginning_too() {
        let cut = format!("the key is {}{TRUNCATION_MARKER}", &SECRET[..7]);
        let expected = format!("the key is [removed]{TRUNCATION_MARKER}");
        assert_eq!(purge().replaced(&cut), Some(expected));
    }
}
