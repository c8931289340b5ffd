//! Redaction by key, the text that remains, and what the reader refuses.

use serde_json::{Value, json};
use test_case::test_case;
use workrail_model::config::SECRET_KEYS;

use super::*;

fn patterns(list: &[&str]) -> KeyPatterns {
    KeyPatterns::new(list.iter().map(|pattern| (*pattern).to_owned()))
}

#[test_case("apiKey", true)]
#[test_case("API_KEY", true)]
#[test_case("x-api-key", true)]
#[test_case("dbPassword", true)]
#[test_case("GITHUB_TOKEN", true)]
#[test_case("client secret", true)]
#[test_case("Authorization", true)]
#[test_case("author", false)]
#[test_case("key", false)]
#[test_case("goal", false)]
fn default_patterns(key: &str, expected: bool) {
    assert_eq!(patterns(&SECRET_KEYS).matches(key), expected);
}

#[test_case("go*", "goal", true)]
#[test_case("go", "goal", false)]
#[test_case("*al", "goal", true)]
#[test_case("g*a*", "goal", true)]
#[test_case("*", "anything", true)]
#[test_case("a*a", "a", false; "a star takes nothing twice")]
fn own_patterns(pattern: &str, key: &str, expected: bool) {
    assert_eq!(patterns(&[pattern]).matches(key), expected);
}

fn context(context: Value) -> Value {
    json!({ "kind": "context_set", "data": { "context": context } })
}

fn redactor(values: Value) -> Redactor {
    let mut scan = RedactionScan::new(patterns(&SECRET_KEYS));
    scan.see(&context(values));
    scan.into_redactor()
}

#[test]
fn nested_values_are_dropped_and_named() {
    let mut event = context(json!({
        "db": { "password": "p", "host": "h" }, "list": [{ "token": 1 }, { "token": 2 }], "apiKey": null, "goal": "g",
    }));
    let mut redactor = redactor(event["data"]["context"].clone());
    redactor.event(&mut event);
    assert_eq!(event["data"]["context"], json!({ "db": { "host": "h" }, "list": [{}, {}], "goal": "g" }));
    let removed: Vec<(&str, u64)> =
        redactor.removed().iter().map(|(key, count)| (key.as_str(), *count)).collect();
    assert_eq!(removed, [("apiKey", 1), ("db.password", 1), ("list.token", 2)]);
}

#[test]
fn replies_lose_the_value_in_every_rendered_form() {
    let secret = "line one of \"it\"\nsecond line";
    let redactor = redactor(json!({ "password": secret, "token": "pin", "secret": 1234 }));
    let reply = json!({
        "parts": [
            format!("Run x. Use {secret}."), "  second line, indented", "{\"v\":\"line one of \\\"it\\\"\\nsecond line\"}",
            "line one of [TRUNCATED]", "pin and spin, 1234 and 12345", "\u{0}state\u{0}",
        ],
        "body": { "run": { "label": "pin" }, "stateToken": "\u{0}state\u{0}", "pending": { "prompt": secret } },
    });
    let bytes = workrail_model::canonical::to_canonical(&reply).unwrap();
    let changed: Value = serde_json::from_slice(&redactor.reply(&bytes).unwrap()).unwrap();
    assert_eq!(
        changed,
        json!({
            "parts": [
                "Run x. Use [redacted].", "  [redacted], indented", "{\"v\":\"[redacted]\"}",
                "[redacted][TRUNCATED]", "[redacted] and spin, [redacted] and 12345", "\u{0}state\u{0}",
            ],
            "body": { "run": { "label": "pin" }, "stateToken": "\u{0}state\u{0}", "pending": { "prompt": "[redacted]" } },
        })
    );
    assert_eq!(redactor.reply(b"{\"parts\":[\"nothing\"]}"), None);
}

#[test]
fn a_long_number_is_replaced_even_next_to_letters() {
    let redactor = redactor(json!({ "token": "4929123456781234", "secret": 1234 }));
    let changed = redactor.reply(b"{\"parts\":[\"card4929123456781234x, a1234\"]}").unwrap();
    assert_eq!(changed, b"{\"parts\":[\"card[redacted]x, a1234\"]}");
}

#[test]
fn context_that_is_kept_does_not_repeat_what_was_dropped() {
    let mut event = context(json!({
        "token": "tok-98765", "secret": 123_456, "list": ["tok-98765"], "number": 123_456, "goal": "g", "few": 1,
    }));
    let mut redactor = redactor(event["data"]["context"].clone());
    redactor.event(&mut event);
    let kept = json!({ "list": ["[redacted]"], "number": "[redacted]", "goal": "g", "few": 1 });
    assert_eq!(event["data"]["context"], kept);
    assert_eq!(redactor.messages_changed(), 1);
}

#[test_case(json!({ "hasPassword": true, "token": false }), false; "a digest would tell yes from no")]
#[test_case(json!({ "goal": "g" }), true; "nothing was dropped")]
fn the_digest_of_a_request_is_dropped_with_what_it_covers(values: Value, stays: bool) {
    let mut event = json!({ "kind": "advance_recorded", "data": { "requestDigest": "sha256:00" } });
    redactor(values).event(&mut event);
    assert_eq!(event["data"].get("requestDigest").is_some(), stays);
}

/// Short values could be guessed from a digest of what was submitted, and from what a passkey signed of it (G81).
#[test_case(json!({ "token": "1234" }), true, false; "the step sent what is dropped, or something else")]
#[test_case(json!({ "token": "1234" }), false, true; "the step sent no context")]
#[test_case(json!({ "goal": "g" }), true, true; "nothing was dropped")]
fn the_digest_of_what_was_submitted_is_dropped_with_what_it_covers(
    values: Value,
    sent_context: bool,
    stays: bool,
) {
    let mut scan = RedactionScan::new(patterns(&SECRET_KEYS));
    scan.see(&context(values));
    if sent_context {
        let data = json!({ "context": { "size": "large" }, "nodeId": "node_a", "attemptId": "attempt_a" });
        scan.see(&json!({ "kind": "context_set", "data": data }));
    }
    let mut redactor = scan.into_redactor();
    let data = json!({ "submitted": "sha256:00", "proof": {}, "decision": "approved" });
    for (kind, names) in
        [("advance_recorded", &["submitted"][..]), ("approval_recorded", &["submitted", "proof"])]
    {
        let mut event = json!({ "kind": kind, "scope": { "nodeId": "node_a" }, "data": data });
        redactor.event(&mut event);
        for name in names {
            assert_eq!(event["data"].get(*name).is_some(), stays, "{kind} {name}");
        }
        assert_eq!(event["data"]["decision"], "approved");
    }
}

#[test]
fn the_signature_of_an_answer_is_dropped_with_the_answer() {
    let mut redactor = redactor(json!({ "token": "1234" }));
    for (values, stays) in [(json!({ "token": "1234" }), false), (json!({ "branch": "main" }), true)] {
        let mut event = json!({ "kind": "context_set", "data": { "context": values, "proof": {} } });
        redactor.event(&mut event);
        assert_eq!(event["data"].get("proof").is_some(), stays);
    }
}

fn refusal(text: &str) -> (Option<BundleErrorKind>, String) {
    let error = read_intact(&mut std::io::Cursor::new(text.as_bytes())).map(|_| ()).unwrap_err();
    (error.kind(), error.to_string())
}

#[test_case("", "EOF"; "nothing")]
#[test_case("[]", "a bundle, which is a JSON object"; "a list")]
#[test_case("{\"session\":{\"events\":[],\"events\":[]}}", "duplicate key"; "a part twice")]
#[test_case("{\"bundleId\":\"a\",\"bundleId\":\"a\"}", "duplicate key"; "a member twice")]
#[test_case("{\"session\":{\"blobs\":{\"../x\":{}}}}", "is not a digest"; "a path for a digest")]
#[test_case("{\"session\":{\"events\":[{\"a\":1,\"a\":1}]}}", "duplicate key"; "inside an item")]
#[test_case("{\"session\":{\"events\":[1e400]}}", "number out of range"; "a number beyond all")]
#[test_case("{\"producer\":9007199254740993}", "beyond 2^53-1"; "a number that is rounded")]
#[test_case("{\"producer\":\"\\ud800\"}", "hex escape"; "half a character")]
fn refused_by_the_reader(text: &str, what: &str) {
    let (kind, said) = refusal(text);
    assert_eq!(kind, Some(BundleErrorKind::InvalidFormat), "{said}");
    assert!(said.contains(what), "{said}");
}

#[test]
fn no_item_is_longer_or_denser_than_it_may_be() {
    let long = format!("{{\"producer\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
    assert!(refusal(&long).1.contains("too long"));
    let dense = format!("{{\"session\":{{\"events\":[[{}0]]}}}}", "0,".repeat(600_000));
    assert!(refusal(&dense).1.contains("too many values"));
    let deep = format!("{{\"session\":{{\"events\":[{}", "[".repeat(100_000));
    assert_eq!(refusal(&deep).0, Some(BundleErrorKind::InvalidFormat));
    let key = format!("{{\"{}\":1}}", "k".repeat(2 * 1024 * 1024));
    assert!(refusal(&key).1.contains("too long"));
}

#[test]
fn a_later_version_is_distinguished_from_nonsense_wherever_it_is() {
    assert_eq!(
        refusal("{\"session\":7,\"bundleSchemaVersion\":2}").0,
        Some(BundleErrorKind::UnsupportedVersion)
    );
    assert_eq!(
        refusal("{\"producer\":1,\"bundleSchemaVersion\":2}").0,
        Some(BundleErrorKind::UnsupportedVersion)
    );
}
