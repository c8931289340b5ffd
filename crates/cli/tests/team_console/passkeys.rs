//! Passkeys of a team: under its public name, each with an owner, and valid on every server (G126).

use serde_json::Value;
use workrail_testkit::authenticator::Authenticator;
use workrail_testkit::home::Home;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::wire::Http;

use crate::browser::{Answer, Browser, encoded};
use crate::{HOST, WaitingRun, home, secret, serve, token, waiting_run};

fn origin() -> String {
    format!("https://{HOST}")
}

/// Enrols a key; the challenge comes from one server and the response goes to another.
fn enrol(browser: &Browser, (first, second): (&Http, &Http), name: &str, key: &Authenticator) -> Answer {
    let mut form = browser.form(first, &[("name", name)]);
    form.extend(key.make(&browser.asked(first, "/settings/passkeys/new", &form), &origin()));
    browser.post(second, "/settings/passkeys/enrol", &encoded(&form))
}

/// Decides with a key; the challenge comes from one server and the response goes to another.
fn approve(browser: &Browser, (first, second): (&Http, &Http), run: &str, key: &mut Authenticator) -> Answer {
    let path = format!("/run/{run}/approve");
    let mut form = browser.run_form(first, run);
    form.extend(key.sign(&browser.asked(first, &path, &form), &origin()));
    browser.post(second, &path, &encoded(&form))
}

fn decisions(home: &Home, run: &str) -> Vec<Value> {
    let log = home.done(&["log", run, "--json"]).json();
    let events = log["events"].as_array().unwrap().iter();
    events.filter(|event| event["kind"] == "approval_recorded").cloned().collect()
}

#[test]
fn an_approval_begun_on_one_server_is_finished_on_another_and_can_be_verified_offline() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let machine = || home().with("WORKRAIL_STORE", cluster.address(&database, ROLE, "red"));
    let (one, two) = (machine(), machine());
    let (first, second) = (serve(&one), serve(&two));
    let ada = Browser::logged_in(&first, secret(&token(&one, "ada", "approver")));
    let mut key = Authenticator::new(1).under(HOST);
    let enrolled = enrol(&ada, (&first, &second), "Laptop", &key);
    assert_eq!(enrolled.header("location"), Some("/settings/passkeys?done=enrolled"), "{enrolled:?}");
    let WaitingRun { run, .. } = waiting_run(&one);
    let approved = approve(&ada, (&second, &first), &run, &mut key);
    assert_eq!(approved.status, 303, "{approved:?}");
    let decided = &decisions(&two, &run)[0];
    assert_eq!(decided["data"]["channel"], "passkey");
    assert_eq!(decided["actor"]["name"], "ada");
    assert_eq!(decided["data"]["proof"]["signed"]["origin"], origin());
    let verified = two.done(&["store", "verify", "--json"]).json();
    assert_eq!(
        (&verified["counts"]["signedDecisions"], &verified["counts"]["problems"]),
        (&1.into(), &0.into())
    );
    first.end("TERM");
    second.end("TERM");
}

#[test]
fn a_signature_is_accepted_only_once_by_all_servers() {
    let home = home();
    let (first, second) = (serve(&home), serve(&home));
    let ada = Browser::logged_in(&first, secret(&token(&home, "ada", "approver")));
    let mut key = Authenticator::new(1).under(HOST);
    enrol(&ada, (&first, &first), "Laptop", &key);
    let WaitingRun { run, .. } = waiting_run(&home);
    let path = format!("/run/{run}/approve");
    let mut form = ada.run_form(&first, &run);
    form.extend(key.sign(&ada.asked(&first, &path, &form), &origin()));
    assert_eq!(ada.post(&first, &path, &encoded(&form)).status, 303);
    assert_ne!(ada.post(&second, &path, &encoded(&form)).status, 303, "replayed");
    // A nonce that no server of this store drew.
    let WaitingRun { run, .. } = waiting_run(&home);
    let path = format!("/run/{run}/approve");
    let mut form = ada.run_form(&first, &run);
    let mut asked = ada.asked(&first, &path, &form);
    asked["nonce"] = "A".repeat(43).into();
    form.extend(key.sign(&asked, &origin()));
    assert_eq!(ada.post(&first, &path, &encoded(&form)).status, 409);
    assert_eq!(decisions(&home, &run), Vec::<Value>::new());
    first.end("TERM");
    second.end("TERM");
}

#[test]
fn a_passkey_counts_only_for_its_owner() {
    let home = home();
    let server = serve(&home);
    let both = (&server, &server);
    let browser = |name: &str, role: &str| Browser::logged_in(&server, secret(&token(&home, name, role)));
    let (ada, bob, agent) = (browser("ada", "approver"), browser("bob", "approver"), browser("ci", "agent"));
    let (mut adas, mut bobs) = (Authenticator::new(1).under(HOST), Authenticator::new(2).under(HOST));
    assert_eq!(
        enrol(&agent, both, "Robot", &Authenticator::new(3).under(HOST)).status,
        403,
        "no agent enrols"
    );
    assert_eq!(enrol(&ada, both, "Laptop", &adas).status, 303);
    assert_eq!(enrol(&bob, both, "Phone", &bobs).status, 303, "each person's first one");
    let second = Authenticator::new(4).under(HOST);
    assert_ne!(enrol(&ada, both, "Tablet", &second).status, 303, "a further one needs the first");
    let WaitingRun { run, .. } = waiting_run(&home);
    assert_ne!(approve(&bob, both, &run, &mut adas).status, 303, "somebody else's key");
    assert_eq!(decisions(&home, &run), Vec::<Value>::new());
    assert_eq!(approve(&bob, both, &run, &mut bobs).status, 303);
    assert_eq!(decisions(&home, &run)[0]["actor"]["name"], "bob");
    let shown = ada.page(&server, "/settings/passkeys").body;
    assert!(shown.contains("ada: Laptop") && shown.contains("bob: Phone"), "{shown}");
    server.end("TERM");
}

#[test]
fn a_key_of_another_address_is_not_accepted() {
    let home = home();
    let server = serve(&home);
    let ada = Browser::logged_in(&server, secret(&token(&home, "ada", "approver")));
    let elsewhere = Authenticator::new(1).under("evil.example");
    assert_ne!(enrol(&ada, (&server, &server), "Laptop", &elsewhere).status, 303);
    server.end("TERM");
}
