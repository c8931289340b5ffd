//! Checks are trusted in the console with a passkey, and only exactly as they were shown (G121).

use serde_json::{Value, json};
use workrail_testkit::authenticator::{Authenticator, FormFields};
use workrail_testkit::home::Home;

use crate::harness::{Console, Response, home};
use crate::passkeys::encoded;
use crate::wording::assert_text;

const PAGE: &str = "/settings/checks";
const TRUST: &str = "/settings/checks/trust";

/// A home whose project defines one of the two checks that a workflow names.
fn with_checks() -> Home {
    let home = home();
    home.workflow(&json!({
        "id": "team.checked", "name": "Checked", "description": "Runs checks.", "version": "1.0.0",
        "steps": [{ "id": "work", "title": "Work", "prompt": "Do it.",
                    "checks": [{ "command": "test" }, { "command": "lint" }] }],
    }));
    define(&home, "make test");
    home
}

fn define(home: &Home, script: &str) {
    let text = format!("[test]\nargv = [\"sh\", \"-c\", \"{script}\"]\n");
    home.write(&home.project().join(".workrail/checks.toml"), &text);
}

fn trusted(home: &Home) -> Vec<Value> {
    home.done(&["trust", "list", "--json"]).json()["trusted"].as_array().unwrap().clone()
}

/// The form as the page has it.
fn form(console: &Console) -> FormFields {
    let page = console.page(PAGE);
    vec![("token", page.field("token")), ("checks", page.field("checks"))]
}

fn signed(console: &Console, form: &FormFields, key: &mut Authenticator) -> FormFields {
    let mut all = form.clone();
    all.extend(key.sign(&console.asked(TRUST, form), &console.origin()));
    all
}

fn sent(console: &Console, form: &FormFields) -> Response {
    console.post(TRUST, &encoded(form))
}

#[test]
fn a_passkey_trusts_what_the_page_shows_and_revoking_needs_none() {
    let home = with_checks();
    let console = Console::open(&home);
    assert_text(&home, "console_checks_without_a_passkey", &console.page(PAGE).words());
    let mut key = Authenticator::new(1);
    assert_eq!(console.enrol("Laptop", &key, None).status, 303);
    assert_text(&home, "console_checks", &console.page(PAGE).words());
    let done = sent(&console, &signed(&console, &form(&console), &mut key));
    assert_eq!(done.header("location"), Some("/settings/checks?done=trusted"), "{done:?}");
    let own = trusted(&home);
    assert_eq!(own.len(), 1, "lint is not defined: {own:?}");
    assert_eq!(own[0]["command"]["argv"], json!(["sh", "-c", "make test"]));
    assert_text(&home, "console_checks_trusted", &console.page(PAGE).words());
    let token = console.page(PAGE).field("token");
    let revoked = console
        .post("/settings/checks/revoke", &encoded(&vec![("token", token), ("check", "test".to_owned())]));
    assert_eq!(revoked.header("location"), Some("/settings/checks?done=revoked"), "{revoked:?}");
    assert_eq!(trusted(&home), Vec::<Value>::new());
}

/// Whatever is not the assertion of an enrolled key about exactly these commands trusts nothing.
#[test]
fn nothing_else_is_trusted() {
    let home = with_checks();
    let console = Console::open(&home);
    let mut key = Authenticator::new(1);
    let mut stranger = Authenticator::new(2);
    assert_eq!(console.enrol("Laptop", &key, None).status, 303);
    let shown = form(&console);
    let refused = sent(&console, &shown);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_text(&home, "console_trusts_nothing_without_a_signature", &refused.words());
    let foreign = sent(&console, &signed(&console, &shown, &mut stranger));
    assert_ne!(foreign.status, 303, "a key that is not enrolled: {foreign:?}");
    let mut other = signed(&console, &shown, &mut key);
    other[1].1 = format!("sha256:{}", "0".repeat(64));
    assert_ne!(sent(&console, &other).status, 303, "signed for other commands");
    let agreed = signed(&console, &shown, &mut key);
    define(&home, "make evil");
    let changed = sent(&console, &agreed);
    assert_eq!(changed.status, 409, "{changed:?}");
    assert_text(&home, "console_trusts_nothing_that_changed", &changed.words());
    define(&home, "make test");
    assert_ne!(sent(&console, &agreed).status, 303, "an assertion is used once");
    assert_eq!(trusted(&home), Vec::<Value>::new());
}
