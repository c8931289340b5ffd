//! Decisions signed by a passkey: what is recorded, what it proves, and what does not count (G97, G98).

use serde_json::Value;
use workrail_testkit::authenticator::{Authenticator, FormFields};
use workrail_testkit::home::Home;

use crate::harness::{Console, Response, home, next, next_without_answer, run_id, session_id, start};
use crate::wording::assert_text;

impl Console {
    pub(crate) fn origin(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// The challenge for a form, without sending the form itself.
    pub(crate) fn asked(&self, path: &str, fields: &FormFields) -> Value {
        let answer = self.post(&format!("/passkeys{path}"), &encoded(fields));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Enrols a key, confirmed by an enrolled one if there is any.
    pub(crate) fn enrol(
        &self,
        name: &str,
        new: &Authenticator,
        enrolled: Option<&mut Authenticator>,
    ) -> Response {
        self.enrol_in_place_of(name, new, enrolled, "")
    }

    pub(crate) fn enrol_in_place_of(
        &self,
        name: &str,
        new: &Authenticator,
        enrolled: Option<&mut Authenticator>,
        replaces: &str,
    ) -> Response {
        let token = self.page("/settings/passkeys").field("token");
        let mut form: FormFields =
            vec![("token", token), ("name", name.to_owned()), ("replaces", replaces.to_owned())];
        form.extend(new.make(&self.asked("/settings/passkeys/new", &form), &self.origin()));
        let asked = self.asked("/settings/passkeys/enrol", &form);
        if let Some(enrolled) = enrolled {
            form.extend(enrolled.sign(&asked, &self.origin()));
        }
        self.post("/settings/passkeys/enrol", &encoded(&form))
    }

    /// A run's form as its page has it.
    pub(crate) fn run_form(&self, run: &str, more: &[(&'static str, &str)]) -> FormFields {
        let page = self.page(&format!("/run/{run}"));
        let mut form: FormFields = vec![
            ("token", page.field("token")),
            ("seen", page.field("seen")),
            ("back", format!("/run/{run}")),
        ];
        form.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        form
    }

    /// Sends a run's form signed by a passkey.
    pub(crate) fn act_signed(
        &self,
        run: &str,
        action: &str,
        more: &[(&'static str, &str)],
        key: &mut Authenticator,
    ) -> Response {
        let mut form = self.run_form(run, more);
        let path = format!("/run/{run}/{action}");
        form.extend(key.sign(&self.asked(&path, &form), &self.origin()));
        self.post(&path, &encoded(&form))
    }
}

/// A form as encoded by a browser.
pub(crate) fn encoded(fields: &FormFields) -> String {
    let escape = |text: &str| {
        let escaped = text.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        });
        escaped.collect::<String>()
    };
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The decisions in a run's log.
pub(crate) fn decisions(home: &Home, run: &str) -> Vec<Value> {
    let log = home.done(&["log", run, "--json"]).json();
    let events = log["events"].as_array().unwrap().iter();
    events.filter(|event| event["kind"] == "approval_recorded").cloned().collect()
}

#[test]
fn an_approval_with_a_passkey_keeps_its_assertion_and_can_be_verified_offline() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release the retry budget");
    let blocked = next(&mut client, &first);
    let run = run_id(&first);
    let console = Console::open(&home);
    let mut key = Authenticator::new(1);
    assert_text(&home, "console_without_passkeys", &console.page("/settings/passkeys").words());
    let enrolled = console.enrol("Laptop", &key, None);
    assert_eq!(enrolled.header("location"), Some("/settings/passkeys?done=enrolled"), "{enrolled:?}");
    assert_text(&home, "console_run_with_a_passkey", &console.page(&format!("/run/{run}")).words());

    let approved = console.act_signed(&run, "approve", &[], &mut key);
    assert_eq!(approved.status, 303, "{approved:?}");
    let recorded = decisions(&home, &run);
    assert_eq!(recorded[0]["data"]["channel"], "passkey");
    assert_eq!(recorded[0]["data"]["proof"]["key"]["name"], "Laptop");
    assert_eq!(recorded[0]["data"]["proof"]["signed"]["origin"], console.origin());
    assert_eq!(next(&mut client, &blocked).step(), "b", "the agent continues");

    let verified = home.done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["signedDecisions"], 1, "{verified}");
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");
}

#[test]
fn a_rejection_and_an_answer_are_signed_as_well() {
    let home = home();
    let mut client = home.client();
    let console = Console::open(&home);
    let mut key = Authenticator::new(1);
    assert_eq!(console.enrol("Laptop", &key, None).status, 303);

    let gated = start(&mut client, "team.gated", "Release");
    let blocked = next(&mut client, &gated);
    let reason = [("reason", "Keep the old table until Monday")];
    assert_eq!(console.act_signed(&run_id(&gated), "reject", &reason, &mut key).status, 303);
    assert_text(&home, "reply_after_a_signed_rejection", &next(&mut client, &blocked).text);

    let asking = start(&mut client, "team.asking", "Release");
    let blocked = next_without_answer(&mut client, &asking);
    let answer = [("answer.targetBranch", "main")];
    let answered = console.act_signed(&run_id(&asking), "answer", &answer, &mut key);
    assert_eq!(answered.status, 303, "{answered:?}");
    assert_eq!(next_without_answer(&mut client, &blocked).step(), "b");
    let log = home.done(&["log", &run_id(&asking), "--json"]).json();
    let events = log["events"].as_array().unwrap();
    let set = events.iter().find(|event| event["data"]["source"] == "console_answer").unwrap();
    assert_eq!(set["data"]["proof"]["key"]["name"], "Laptop");

    let verified = home.done(&["store", "verify", "--json"]).json();
    assert_eq!(
        (&verified["counts"]["signedDecisions"], &verified["counts"]["problems"]),
        (&2.into(), &0.into())
    );
}

#[test]
fn raising_autonomy_needs_a_passkey() {
    let home = home();
    let mut client = home.client();
    let gated = start(&mut client, "team.gated", "Release");
    let session = session_id(&gated);
    let console = Console::open(&home);
    let mut key = Authenticator::new(1);
    assert_eq!(console.enrol("Laptop", &key, None).status, 303);
    let path = format!("/session/{session}/prefer");
    let token = console.page(&format!("/session/{session}")).field("token");
    let mut form: FormFields = vec![("token", token), ("mode", "full_auto_never_stop".to_owned())];
    let unsigned = console.post(&path, &encoded(&form));
    assert_eq!(unsigned.status, 409, "{unsigned:?}");
    let asked = console.asked(&path, &form);
    form[1].1 = "guided".to_owned();
    let other = console.asked(&path, &form);
    let mut forged = form.clone();
    forged[1].1 = "full_auto_never_stop".to_owned();
    forged.extend(key.sign(&other, &console.origin()));
    assert_eq!(console.post(&path, &encoded(&forged)).status, 409, "signed for another mode");
    form[1].1 = "full_auto_never_stop".to_owned();
    form.extend(key.sign(&asked, &console.origin()));
    let raised = console.post(&path, &encoded(&form));
    assert_eq!(raised.status, 303, "{raised:?}");
    let shown = home.done(&["session", "prefs", "show", "--session", &session, "--json"]).json();
    assert_eq!(shown["runs"][0]["pending"]["autonomy"], "full_auto_never_stop", "{shown}");
}

#[test]
fn weakening_the_setting_needs_a_passkey() {
    let home = home();
    let console = Console::open(&home);
    let mut key = Authenticator::new(1);
    assert_eq!(console.enrol("Laptop", &key, None).status, 303);
    home.done(&["config", "set", "approvals.require", "passkey"]);
    let token = console.page("/settings").field("token");
    let mut form: FormFields =
        vec![("token", token), ("key", "approvals.require".to_owned()), ("value", "terminal".to_owned())];
    assert_eq!(console.post("/settings/set", &encoded(&form)).status, 409);
    assert_eq!(home.done(&["config", "get", "approvals.require"]).out.trim(), "passkey");
    form.extend(key.sign(&console.asked("/settings/set", &form), &console.origin()));
    let weakened = console.post("/settings/set", &encoded(&form));
    assert_eq!(weakened.status, 303, "{weakened:?}");
    assert_eq!(home.done(&["config", "get", "approvals.require"]).out.trim(), "terminal");
}

#[test]
fn a_required_but_unenrolled_passkey_leads_to_the_console() {
    let home = home();
    home.done(&["config", "set", "approvals.require", "passkey"]);
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let blocked = next(&mut client, &first);
    assert_eq!(blocked.data["kind"], "blocked");
    assert_text(&home, "reply_that_needs_a_passkey", &blocked.text);
    assert_text(&home, "status_that_needs_a_passkey", &home.done(&["status"]).out);
    let console = Console::open(&home);
    let page = console.page(&format!("/run/{}", run_id(&first)));
    assert_text(&home, "console_run_that_needs_a_passkey", &page.words());
}

#[test]
fn a_repository_can_require_passkeys() {
    let home = home();
    home.git(&home.project(), &["init", "--quiet"]);
    home.done(&["config", "set", "approvals.require_in", home.project().to_str().unwrap()]);
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let blocked = next(&mut client, &first);
    assert_text(&home, "reply_in_a_repository_with_passkeys", &blocked.text);
    let label = blocked.data["run"]["label"].as_str().unwrap();
    let approved = home.typed(&["approve", label], label);
    assert_ne!(approved.code, 0, "{approved:?}");
}
