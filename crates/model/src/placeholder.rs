//! The placeholders that replies, errors and suggested calls show where the caller's own words belong.
//!
//! An agent that sends one back has said nothing: it is never taken as notes, an artifact's text or a value of
//! the context (G55). Every placeholder is made here, so that every one is recognised.

use serde_json::Value;

/// In the call that completes a step.
pub const STEP_NOTES: &str = "<what you did in this step>";
/// In a corrected call whose notes were too long.
pub const SHORTER_STEP_NOTES: &str = "<the same in fewer words: what you did in this step>";
/// In the call that makes a checkpoint.
pub const CHECKPOINT_NOTES: &str = "<what is done, what is next>";
/// In the call that adds notes to a session.
pub const SESSION_NOTES: &str = "<what is worth keeping>";

/// In the artifact that closes a gap.
pub const GAP_ID: &str = "<id of the gap>";
pub const GAP_SUMMARY: &str = "<how the gap was closed>";

const FIXED: [&str; 6] =
    [STEP_NOTES, SHORTER_STEP_NOTES, CHECKPOINT_NOTES, SESSION_NOTES, GAP_ID, GAP_SUMMARY];
const LONG_TEXT_START: &str = "<your text of ";
const LONG_TEXT_END: &str = " bytes>";

/// Stands for a text of the caller's that is too long to be repeated.
pub fn long_text(bytes: usize) -> String {
    format!("{LONG_TEXT_START}{bytes}{LONG_TEXT_END}")
}

/// Whether a text is one of our placeholders and nothing else; white space and quotes around it do not count.
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
    let is_long_text = || {
        let bytes = text.strip_prefix(LONG_TEXT_START)?.strip_suffix(LONG_TEXT_END)?;
        Some(!bytes.is_empty() && bytes.bytes().all(|byte| byte.is_ascii_digit()))
    };
    FIXED.contains(&text) || is_long_text() == Some(true)
}

/// The place of the first placeholder inside a value, as `findings[0].text`; empty for the value itself.
pub fn placeholder_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_placeholder(text).then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(position, item)| Some(format!("[{position}]{}", placeholder_in(item)?))),
        Value::Object(members) => members.iter().find_map(|(key, member)| {
            let inner = placeholder_in(member)?;
            Some(format!(".{key}{inner}"))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_placeholder_is_recognised_and_other_words_are_not() {
        for text in FIXED.map(str::to_owned).into_iter().chain([long_text(9005)]) {
            assert!(is_placeholder(&text), "{text}");
            assert!(is_placeholder(&format!(" \"{text}\"\n")), "{text}");
            assert!(!is_placeholder(&format!("{text} and more")), "{text}");
        }
        for text in
            ["", "<br>", "<your text of bytes>", "<your text of many bytes>", "what you did in this step"]
        {
            assert!(!is_placeholder(text), "{text}");
        }
    }

    #[test]
    fn the_place_of_a_placeholder_is_named() {
        let value = json!({ "kind": "x", "findings": [{ "text": "a" }, { "text": long_text(5) }] });
        assert_eq!(placeholder_in(&value).as_deref(), Some(".findings[1].text"));
        assert_eq!(placeholder_in(&json!({ "kind": "x" })), None);
    }
}
