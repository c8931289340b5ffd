//! Removes a text from everything in a session, including what agents wrote: a secret that was recorded (G85).
//!
//! Unlike redaction by key, this looks for the text itself, in events, notes, artifacts and stored replies. Apart from
//! the digests of what was sent, what passkeys signed of them and the records of idempotency keys, it changes nothing else.

use serde_json::{Value, json};
use workrail_model::canonical::value_to_canonical;
use workrail_model::event::{DedupeKey, Event};
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::strict_json;

use super::redact::drop_members;

/// Replaces the text.
const REPLACEMENT: &str = "[removed]";

/// Replaces a text that this replacement could bring back, such as `moved`: the first of these that it does not contain,
/// four times.
const OTHER_REPLACEMENTS: &str = "*_~";

/// A shorter text is part of many words that should not be lost.
const TEXT_CHARS_MIN: usize = 4;

/// A text to be removed.
#[derive(Clone)]
pub struct Purge {
    /// As typed, and as escaped in JSON that is stored as text; the longest first.
    forms: Vec<String>,
    replacement: String,
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

/// A replacement that cannot contain any of these forms, not even together with the text around it.
fn replacement(forms: &[String]) -> String {
    let ends_like = |a: &str, b: &str| a.char_indices().any(|(at, _)| b.starts_with(&a[at..]));
    let brings_back = |form: &String| {
        let (own, form) = (REPLACEMENT, form.as_str());
        own.contains(form) || form.contains(own) || ends_like(own, form) || ends_like(form, own)
    };
    if !forms.iter().any(brings_back) {
        return REPLACEMENT.to_owned();
    }
    // A text is finite, so some character is not in it.
    let mut others = OTHER_REPLACEMENTS.chars().chain('\u{2580}'..);
    let unused = others.find(|c| !forms.iter().any(|form| form.contains(*c)));
    unused.unwrap_or_default().to_string().repeat(4)
}

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
        let replacement = replacement(&forms);
        Ok(Self { forms, replacement })
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
        // Digests that cover what was sent, and what a passkey signed of them: a short text could be guessed from them.
        for pointer in ["/data", "/data/checkpoint"] {
            drop_members(event, pointer, &["requestDigest", "submitted"]);
        }
        let kind = event.get("kind").and_then(Value::as_str).map(str::to_owned);
        match kind.as_deref() {
            Some("approval_recorded") => drop_members(event, "/data", &["proof"]),
            // A key starts its run under ids that are derived from it, which the copy has not.
            Some("run_started") => drop_members(event, "/data", &["keyed"]),
            Some(_) | None => {}
        }
        let before = event.clone();
        if let Some(data) = event.get_mut("data") {
            self.clean(data, &|text| self.replaced(text));
        }
        // The replacement may exceed a length limit: then the whole text is removed.
        if *event != before && Event::from_value(event.clone()).is_err() {
            *event = before.clone();
            if let Some(data) = event.get_mut("data") {
                let whole = |text: &str| self.is_in(text.as_bytes()).then(|| self.replacement.clone());
                self.clean(data, &whole);
            }
        }
        // An answer that was changed is no longer what was signed.
        if *event != before && kind.as_deref() == Some("context_set") {
            drop_members(event, "/data", &["proof"]);
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
            changed = replaced_bytes(&changed, form.as_bytes(), self.replacement.as_bytes());
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
                    *value = Value::from(self.replacement.as_str());
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The text without the secret; `None` if it does not contain it.
    fn replaced(&self, text: &str) -> Option<String> {
        let mut changed = text.to_owned();
        for form in &self.forms {
            changed = changed.replace(form.as_str(), &self.replacement);
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
            text.replace_range(marker_at - bytes..marker_at, &self.replacement);
        }
        text
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn replaced_bytes(bytes: &[u8], needle: &[u8], replacement: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = find(rest, needle) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(replacement);
        rest = &rest[at + needle.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use test_case::test_case;
    use workrail_model::digest::Sha256;
    use workrail_testkit::history::{AdvancePayload, History};

    use super::*;

    const SECRET: &str = "hunter2\"quoted";

    fn purge() -> Purge {
        Purge::new(SECRET).unwrap()
    }

    #[test]
    fn a_short_text_is_refused() {
        assert_eq!(Purge::new(" ab ").err(), Some(TooShort));
    }

    /// The replacement must not bring back what it replaces.
    #[test_case("moved", "a moved b", "a **** b"; "a part of it")]
    #[test_case("a[remov", "aa[remov", "a****"; "a part of it with the text before")]
    #[test_case("]*_~", "x]*_~", "x\u{2580}\u{2580}\u{2580}\u{2580}"; "the other replacements")]
    #[test_case("hunter2", "a hunter2 b", "a [removed] b"; "any other text")]
    fn a_replacement_never_contains_the_text(secret: &str, before: &str, after: &str) {
        let purge = Purge::new(secret).unwrap();
        for text in [before.to_owned(), json!({ "text": before }).to_string()] {
            let content = purge.content(text.as_bytes()).unwrap();
            assert!(!purge.is_in(&content), "{secret}");
        }
        assert_eq!(purge.content(before.as_bytes()).unwrap(), after.as_bytes());
    }

    /// A short text could be guessed from a digest of what was submitted, and from what a passkey signed of it.
    #[test]
    fn a_valid_log_without_digests_of_what_was_sent_is_left() {
        let mut dropped = BTreeSet::new();
        for mut event in log() {
            assert_eq!(Event::from_value(event.clone()).map(|_| ()), Ok(()), "{event}");
            let before = event.clone();
            purge().event(&mut event);
            assert_eq!(Event::from_value(event.clone()).map(|_| ()), Ok(()), "{event}");
            dropped.extend(missing(&before["data"], &event["data"], before["kind"].as_str().unwrap()));
        }
        let expected = [
            "advance_recorded.requestDigest",
            "advance_recorded.submitted",
            "approval_recorded.proof",
            "approval_recorded.submitted",
            "context_set.proof",
            "node_created.checkpoint.requestDigest",
            "run_started.keyed",
        ];
        assert_eq!(dropped.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        let mut answered = answer("other");
        purge().event(&mut answered);
        assert_eq!(answered, answer("other"), "nothing was removed");
    }

    /// A log with everything that holds a digest of what was sent.
    fn log() -> Vec<Value> {
        let mut history = History::new(1);
        let start = history.start();
        let root = history.root();
        let refused = history.blocked(root);
        let saved = history.checkpoint(root).0;
        let advanced = history.advance(root, AdvancePayload::NOTES).0;
        let plans = [start, refused, saved, advanced];
        let events = plans.iter().flat_map(|plan| &plan.events);
        let mut log: Vec<Value> =
            events.map(|event| serde_json::from_slice(&event.to_canonical().unwrap()).unwrap()).collect();
        let digest = Sha256::of(b"sent");
        for event in &mut log {
            match event["kind"].as_str() {
                Some("run_started") => {
                    event["data"]["keyed"] =
                        json!({ "requestDigest": digest, "keyDigest": digest, "replyRef": digest });
                }
                Some("advance_recorded") => event["data"]["submitted"] = json!(digest),
                Some(_) | None => {}
            }
        }
        log.extend([approval(), answer(SECRET)]);
        log
    }

    fn event(kind: &str, scope: Value, data: Value) -> Value {
        json!({
            "v": 1, "eventId": "evt_0000000000000000", "eventIndex": 9, "sessionId": "sess_0000000000000000",
            "kind": kind, "scope": scope, "dedupeKey": "k:1", "data": data,
        })
    }

    fn proof() -> Value {
        let assertion = json!({
            "credentialId": "AA", "authenticatorData": "AA", "clientDataJSON": "AA", "signature": "AA",
        });
        json!({
            "signed": { "assertion": assertion, "nonce": "AA", "origin": "http://localhost:1" },
            "run": "run_0000000000000000",
            "key": { "name": "Laptop", "publicKey": "AA", "enrolment": Sha256::of(b"enrolment") },
        })
    }

    fn approval() -> Value {
        let scope = json!({ "runId": "run_0000000000000000", "nodeId": "node_0000000000000001" });
        let data = json!({
            "approvalId": "appr_0000000000000000", "stepId": "gate", "decision": "approved", "channel": "passkey",
            "submitted": Sha256::of(b"sent"), "proof": proof(),
        });
        event("approval_recorded", scope, data)
    }

    /// A person's answer, signed with a passkey.
    fn answer(pin: &str) -> Value {
        let data = json!({
            "contextId": "ctx_0000000000000000", "context": { "pin": pin }, "source": "console_answer",
            "nodeId": "node_0000000000000001", "proof": proof(),
        });
        event("context_set", json!({ "runId": "run_0000000000000000" }), data)
    }

    /// The paths of members that are gone.
    fn missing(before: &Value, after: &Value, path: &str) -> Vec<String> {
        let members = before.as_object().into_iter().flatten();
        let gone = |(name, value): (&String, &Value)| match after.get(name) {
            None => vec![format!("{path}.{name}")],
            Some(after) => missing(value, after, &format!("{path}.{name}")),
        };
        members.flat_map(gone).collect()
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
