//! Attacks by an agent with a shell on a gate that requires a passkey: none of them counts as a person (G97, G98).

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};
use workrail_testkit::authenticator::{Authenticator, FormFields};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use crate::forge::{events_of, reattest, recommit, renumber};
use crate::harness::{Console, Response, home, next, run_id, session_id, start, warnings_of_doctor};
use crate::passkeys::{decisions, encoded};
use crate::wording::assert_text;

/// A run that waits for a passkey, a console, and a user with an enrolled key.
pub(crate) struct Stage {
    pub(crate) home: Home,
    pub(crate) client: McpClient,
    pub(crate) console: Console,
    pub(crate) key: Authenticator,
    pub(crate) blocked: ToolReply,
    pub(crate) run: String,
}

pub(crate) fn signed_gate(home: &Home) {
    home.workflow(&json!({
        "id": "team.signed", "name": "Signed", "description": "Waits for a passkey.", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "A", "prompt": "Do a.",
              "requireConfirmation": { "kind": "human_approval", "proof": "passkey" } },
            { "id": "b", "title": "B", "prompt": "Do b." },
        ],
    }));
}

pub(crate) fn stage() -> Stage {
    let home = home();
    signed_gate(&home);
    let mut client = home.client();
    let first = start(&mut client, "team.signed", "Release");
    let blocked = next(&mut client, &first);
    let console = Console::open(&home);
    let key = Authenticator::new(1);
    assert_eq!(console.enrol("Laptop", &key, None).status, 303);
    Stage { run: run_id(&first), home, client, console, key, blocked }
}

impl Stage {
    fn path(&self) -> String {
        format!("/run/{}/approve", self.run)
    }

    /// The challenge for approving the run.
    fn asked(&self) -> (FormFields, Value) {
        let form = self.console.run_form(&self.run, &[]);
        let asked = self.console.asked(&self.path(), &form);
        (form, asked)
    }

    fn send(&self, mut form: FormFields, signed: FormFields) -> Response {
        form.extend(signed);
        self.console.post(&self.path(), &encoded(&form))
    }

    /// Another waiting run.
    pub(crate) fn other_run(&mut self) -> String {
        let first = start(&mut self.client, "team.signed", "Another");
        next(&mut self.client, &first);
        run_id(&first)
    }

    /// The gate is unchanged: nothing is recorded, and the agent does not get past it.
    pub(crate) fn is_closed(&mut self, attack: &str) {
        assert_eq!(decisions(&self.home, &self.run), Vec::<Value>::new(), "{attack}");
        let again = next(&mut self.client, &self.blocked);
        assert_eq!(again.data["kind"], "blocked", "{attack}: {}", again.data);
        self.blocked = again;
    }
}

/// Each attack sends a form to the real console; the user's key is used only for what the attack names.
type Attack = (&'static str, fn(&mut Stage) -> Response);

const ATTACKS: &[Attack] = &[
    ("a form that nobody signed", |stage| {
        let (form, _) = stage.asked();
        stage.send(form, Vec::new())
    }),
    ("a signature of another decision", |stage| {
        let form = stage.console.run_form(&stage.run, &[]);
        let asked = stage.console.asked(&format!("/run/{}/reject", stage.run), &form);
        let signed = stage.key.sign(&asked, &stage.console.origin());
        stage.send(form, signed)
    }),
    ("a signature with another reason", |stage| {
        let (form, asked) = stage.asked();
        let signed = stage.key.sign(&asked, &stage.console.origin());
        stage.send([form, vec![("reason", "And delete the backups".to_owned())]].concat(), signed)
    }),
    ("a signature of another run", |stage| {
        let other = stage.other_run();
        let form = stage.console.run_form(&other, &[]);
        let asked = stage.console.asked(&format!("/run/{other}/approve"), &form);
        let signed = stage.key.sign(&asked, &stage.console.origin());
        let (form, _) = stage.asked();
        stage.send(form, signed)
    }),
    ("a signature of what was submitted before", |stage| {
        let (form, asked) = stage.asked();
        let signed = stage.key.sign(&asked, &stage.console.origin());
        let mut arguments = stage.blocked.data["nextCall"]["arguments"].clone();
        arguments["output"] = json!({ "notesMarkdown": "Something else entirely, and worse." });
        stage.blocked = stage.client.call("continue_workflow", arguments);
        stage.send(form, signed)
    }),
    ("a page of another site", |stage| {
        let (form, asked) = stage.asked();
        let signed = stage.key.sign(&asked, "http://evil.example");
        stage.send(form, signed)
    }),
    ("a page of another port", |stage| {
        let (form, asked) = stage.asked();
        let origin = format!("http://localhost:{}", stage.console.port.wrapping_add(1));
        let signed = stage.key.sign(&asked, &origin);
        stage.send(form, signed)
    }),
    ("a page under another name of this machine", |stage| {
        let (form, asked) = stage.asked();
        let signed = stage.key.sign(&asked, &format!("http://127.0.0.1:{}", stage.console.port));
        stage.send(form, signed)
    }),
    ("a fake console on another port", |stage| {
        // A console of the same store: it asks for the right thing, but the signature is for its own origin.
        let fake = Console::open(&stage.home);
        let form = fake.run_form(&stage.run, &[]);
        let asked = fake.asked(&stage.path(), &form);
        let signed = stage.key.sign(&asked, &fake.origin());
        let (form, _) = stage.asked();
        stage.send(form, signed)
    }),
    ("a fake console that passes the true challenge on", |stage| {
        let (form, asked) = stage.asked();
        let fake = Console::open(&stage.home);
        let signed = stage.key.sign(&asked, &fake.origin());
        stage.send(form, signed)
    }),
    ("a key that is not enrolled", |stage| {
        let (form, asked) = stage.asked();
        let signed = Authenticator::new(9).sign(&asked, &stage.console.origin());
        stage.send(form, signed)
    }),
    ("another key under the name of the enrolled one", |stage| {
        let (form, asked) = stage.asked();
        let signed = Authenticator::posing_as(9, &stage.key).sign(&asked, &stage.console.origin());
        stage.send(form, signed)
    }),
    ("an authenticator that verified nobody", |stage| {
        let (form, asked) = stage.asked();
        stage.key.verifies_user = false;
        let signed = stage.key.sign(&asked, &stage.console.origin());
        stage.key.verifies_user = true;
        stage.send(form, signed)
    }),
    ("a signature for another relying party", |stage| {
        let (form, asked) = stage.asked();
        stage.key.relying_party = "evil.example".to_owned();
        let signed = stage.key.sign(&asked, &stage.console.origin());
        stage.key.relying_party = "localhost".to_owned();
        stage.send(form, signed)
    }),
    ("a challenge that the console never gave", |stage| {
        let (form, mut asked) = stage.asked();
        asked["nonce"] = json!("A".repeat(43));
        let signed = stage.key.sign(&asked, &stage.console.origin());
        stage.send(form, signed)
    }),
    ("a signature that was changed", |stage| {
        let (form, asked) = stage.asked();
        let mut signed = stage.key.sign(&asked, &stage.console.origin());
        let last = &mut signed.last_mut().unwrap().1;
        let place = last.len() - 2..last.len() - 1;
        let changed = if &last[place.clone()] == "A" { "B" } else { "A" };
        last.replace_range(place, changed);
        stage.send(form, signed)
    }),
    ("a counter that went back", |stage| {
        let other = stage.other_run();
        stage.key.counter = 40;
        let used = stage.console.act_signed(&other, "approve", &[], &mut stage.key);
        assert_eq!(used.status, 303, "{used:?}");
        stage.key.counter = 7;
        let (form, asked) = stage.asked();
        let signed = stage.key.sign(&asked, &stage.console.origin());
        stage.send(form, signed)
    }),
    ("a key that was removed", |stage| {
        stage.key.counter = 100;
        let mut second = Authenticator::new(2);
        let console = &stage.console;
        assert_eq!(console.enrol("Phone", &second, Some(&mut stage.key)).status, 303);
        let token = console.page("/settings/passkeys").field("token");
        let mut form: FormFields = vec![("token", token), ("credential", stage.key.credential())];
        form.extend(second.sign(&console.asked("/settings/passkeys/remove", &form), &console.origin()));
        assert_eq!(console.post("/settings/passkeys/remove", &encoded(&form)).status, 303);
        let (form, asked) = stage.asked();
        let signed = stage.key.sign(&asked, &stage.console.origin());
        stage.send(form, signed)
    }),
    ("a further key that no enrolled key agreed to", |stage| {
        let mut own = Authenticator::new(9);
        let enrolled = stage.console.enrol("Agent", &own, None);
        assert!(enrolled.status >= 400, "{enrolled:?}");
        let mut copy = own.clone();
        let enrolled = stage.console.enrol("Agent", &own, Some(&mut copy));
        assert!(enrolled.status >= 400, "its own word: {enrolled:?}");
        let (form, asked) = stage.asked();
        let signed = own.sign(&asked, &stage.console.origin());
        stage.send(form, signed)
    }),
];

#[test]
fn no_attack_on_the_console_opens_the_gate() {
    let mut stage = stage();
    for (attack, run) in ATTACKS {
        // The next attack needs the key that an attack removes.
        if *attack == "a further key that no enrolled key agreed to" {
            stage = self::stage();
        }
        let answer = run(&mut stage);
        assert!((400..500).contains(&answer.status), "{attack}: {answer:?}");
        stage.is_closed(attack);
    }
    let approved = stage.console.act_signed(&stage.run, "approve", &[], &mut stage.key);
    assert_eq!(approved.status, 303, "the person can: {approved:?}");
    assert_eq!(next(&mut stage.client, &stage.blocked).step(), "b");
}

#[test]
fn an_assertion_is_accepted_once() {
    let mut stage = stage();
    let (form, asked) = stage.asked();
    let signed = stage.key.sign(&asked, &stage.console.origin());
    assert_eq!(stage.send(form.clone(), signed.clone()).status, 303);
    let replayed = stage.send(form, signed.clone());
    assert!((400..500).contains(&replayed.status), "{replayed:?}");
    // The same assertion again, for a different submission by the agent.
    let mut arguments = stage.blocked.data["nextCall"]["arguments"].clone();
    arguments["output"] = json!({ "notesMarkdown": "Something else entirely, and worse." });
    stage.blocked = stage.client.call("continue_workflow", arguments);
    assert_eq!(stage.blocked.data["kind"], "blocked", "what was approved is something else");
    let replayed = stage.send(stage.console.run_form(&stage.run, &[]), signed);
    assert!((400..500).contains(&replayed.status), "{replayed:?}");
    assert_eq!(decisions(&stage.home, &stage.run).len(), 1);
    assert_eq!(next(&mut stage.client, &stage.blocked).data["kind"], "blocked");
}

#[test]
fn no_command_of_an_agent_with_a_shell_opens_the_gate() {
    let mut stage = stage();
    stage.home.done(&["config", "set", "approvals.require", "passkey"]);
    let run = stage.run.clone();
    let label = stage.blocked.data["run"]["label"].as_str().unwrap().to_owned();
    let commands: [(&[&str], &str); 7] = [
        (&["approve", &label], &label),
        (&["approve", &run, "--json"], &label),
        (&["reject", &label, "--reason", "no"], &label),
        (&["config", "set", "approvals.require", "terminal"], "approvals.require"),
        (&["config", "set", "approvals.require"], "approvals.require"),
        (&["session", "prefs", "set", "full_auto_never_stop", "--session", &label], &label),
        (&["session", "prefs", "set", "full_auto_never_stop"], "full_auto_never_stop"),
    ];
    let mut said = Vec::new();
    for (arguments, typed) in commands {
        let ran = stage.home.typed(arguments, typed);
        assert_ne!(ran.code, 0, "{arguments:?}: {ran:?}");
        let named = arguments.iter().map(|word| if *word == run { "RUN" } else { word });
        said.push(format!("$ workrail {}\n{}", named.collect::<Vec<_>>().join(" "), ran.out));
        stage.is_closed(&arguments.join(" "));
    }
    assert_text(&stage.home, "commands_that_open_no_gate", &said.join("\n"));
    // Another settings file does not lower it.
    let other = stage.home.root().join("other.toml");
    stage.home.write(&other, "[approvals]\nrequire = \"terminal\"\n");
    let ran = stage.home.typed(&["--config", other.to_str().unwrap(), "approve", &label], &label);
    assert_ne!(ran.code, 0, "{ran:?}");
    stage.is_closed("another settings file");
}

#[test]
fn a_reset_stays_visible_forever() {
    let mut stage = stage();
    let without = stage.home.run(&["store", "passkeys", "reset"]);
    assert_ne!(without.code, 0, "it needs a terminal: {without:?}");
    let (form, asked) = stage.asked();
    let reset = stage.home.typed(&["store", "passkeys", "reset"], "reset passkeys");
    assert_eq!(reset.code, 0, "{reset:?}");
    let signed = stage.key.sign(&asked, &stage.console.origin());
    assert!(stage.send(form, signed).status >= 400, "the old key is over");
    stage.is_closed("a key that was reset");

    let mut fresh = Authenticator::new(3);
    assert_eq!(stage.console.enrol("New", &fresh, None).status, 303);
    assert_eq!(stage.console.act_signed(&stage.run, "approve", &[], &mut fresh).status, 303);
    assert_eq!(decisions(&stage.home, &stage.run)[0]["data"]["proof"]["key"]["resets"], 1);
    for (name, shown) in [
        ("verify", stage.home.done(&["store", "verify"]).out),
        ("doctor", warnings_of_doctor(&stage.home)),
        ("console", stage.console.page("/settings/passkeys").words()),
        ("log", stage.home.done(&["log", &stage.run]).out),
        ("report", stage.home.done(&["report", &stage.run]).out),
    ] {
        assert_text(&stage.home, &format!("{name}_after_a_reset_of_passkeys"), &shown);
    }
}

#[test]
fn a_changed_passkey_log_is_damage_and_no_key_is_trusted() {
    let mut stage = stage();
    let path = stage.home.data().join("keys/passkeys.jsonl");
    let log = fs::read_to_string(&path).unwrap();
    for (change, changed) in [
        ("renamed", log.replace("Laptop", "Laptoq")),
        ("joined", log.replace('\n', "")),
        ("doubled", format!("{log}{log}")),
        ("cut", log[1..].to_owned()),
    ] {
        fs::write(&path, &changed).unwrap();
        let verified = stage.home.run(&["store", "verify", "--json"]).json();
        // No later line names the first line's digest, so only its name can be changed.
        if change != "renamed" {
            assert_eq!(verified["problems"][0]["subject"], "keys/passkeys.jsonl", "{verified}");
            let doctor = warnings_of_doctor(&stage.home);
            assert_text(&stage.home, &format!("doctor_with_a_passkey_log_that_was_{change}"), &doctor);
            stage.is_closed("a damaged log");
        }
    }
    fs::write(&path, &log).unwrap();
    assert_eq!(stage.home.run(&["store", "verify"]).code, 0);
}

/// Exports, changes the bundle as an attacker does, and imports it into a new home.
fn forged(stage: &Stage, forge: impl FnOnce(&mut Value)) -> (Home, Value) {
    let file = stage.home.project().join("bundle.json");
    stage.home.done(&[
        "session",
        "export",
        &session_id(&stage.blocked),
        "-o",
        file.to_str().unwrap(),
        "--force",
    ]);
    let mut bundle: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    forge(&mut bundle);
    renumber(&mut bundle);
    recommit(&mut bundle);
    reattest(&mut bundle);
    let elsewhere = home();
    signed_gate(&elsewhere);
    let path = elsewhere.project().join("bundle.json");
    elsewhere.write(&path, &bundle.to_string());
    elsewhere.done(&["session", "import", path.to_str().unwrap()]);
    let verified = elsewhere.run(&["store", "verify", "--json"]).json();
    (elsewhere, verified)
}

/// Whether an agent gets past the gate of the imported run.
fn is_open(home: &Home, run: &str) -> bool {
    let mut client = home.client();
    let found = client.call("resume_session", json!({ "run": run }));
    let shown = next(&mut client, &found);
    let sent = next(&mut client, &shown);
    sent.data["kind"] != "blocked"
}

#[test]
fn a_decision_is_exported_with_its_key_and_is_foreign_elsewhere() {
    let mut stage = stage();
    let label = stage.blocked.data["run"]["label"].as_str().unwrap().to_owned();
    assert_eq!(stage.console.act_signed(&stage.run, "approve", &[], &mut stage.key).status, 303);
    let (elsewhere, verified) = forged(&stage, |_| {});
    assert_eq!(verified["counts"]["foreignDecisions"], 1, "{verified}");
    assert_eq!(verified["counts"]["signedDecisions"], 0, "{verified}");
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");
    // The auditor compares the key with the one that the user shows.
    let own = stage.home.done(&["store", "passkeys", "show", "--json"]).json();
    assert_eq!(verified["signed"][0]["fingerprint"], own["passkeys"][0]["fingerprint"], "{verified}");
    assert_eq!(
        (&verified["signed"][0]["what"], &verified["signed"][0]["isForeign"]),
        (&json!("approved"), &json!(true))
    );
    let report = elsewhere.done(&["report", &label, "--format", "json"]).json();
    assert!(report.to_string().contains(r#""signature":{"state":"foreign"}"#), "{report}");
    assert_text(&elsewhere, "log_with_a_key_of_another_store", &elsewhere.done(&["log", &label]).out);
    assert!(!is_open(&elsewhere, &label), "whose key it was, this store cannot know");
}

#[test]
fn a_second_copy_in_the_same_store_is_verifiable_and_opens_nothing() {
    let mut stage = stage();
    assert_eq!(stage.console.act_signed(&stage.run, "approve", &[], &mut stage.key).status, 303);
    let file = stage.home.project().join("bundle.json");
    let file = file.to_str().unwrap();
    stage.home.done(&["session", "export", &session_id(&stage.blocked), "-o", file]);
    let copied = stage.home.done(&["session", "import", file, "--as-new", "--json"]).json();
    let verified = stage.home.done(&["store", "verify", "--json"]).json();
    let counts = &verified["counts"];
    assert_eq!(
        (&counts["signedDecisions"], &counts["foreignDecisions"]),
        (&json!(1), &json!(1)),
        "{verified}"
    );
    let session = copied["sessionId"].as_str().or(copied["session"]["sessionId"].as_str());
    let session = session.unwrap_or_else(|| panic!("{copied}"));
    let shown = stage.home.done(&["show", session, "--json"]).json();
    let label = shown["report"]["runs"][0]["label"].as_str().or(shown["runs"][0]["label"].as_str());
    assert!(
        !is_open(&stage.home, label.unwrap_or_else(|| panic!("{shown}"))),
        "it was signed for the other copy"
    );
}

/// Alters a signed approval in a bundle.
type Forgery = (&'static str, fn(&mut Value));

const FORGERIES: &[Forgery] = &[
    ("another decision", |event| {
        event["data"]["decision"] = json!("rejected");
    }),
    ("another reason", |event| {
        event["data"]["note"] = json!("And delete the backups");
    }),
    ("other outputs", |event| {
        event["data"]["submitted"] = json!(format!("sha256:{}", "5".repeat(64)));
    }),
    ("another nonce", |event| {
        event["data"]["proof"]["signed"]["nonce"] = json!("A".repeat(43));
    }),
    ("another origin", |event| {
        event["data"]["proof"]["signed"]["origin"] = json!("http://localhost:1");
    }),
    ("another public key", |event| {
        let key = event["data"]["proof"]["key"]["publicKey"].as_str().unwrap().replace('A', "B");
        event["data"]["proof"]["key"]["publicKey"] = json!(key);
    }),
    ("no signature worth the name", |event| {
        event["data"]["proof"]["signed"]["assertion"]["signature"] = json!("MAYCAQECAQE");
    }),
];

#[test]
fn a_bundle_with_a_forged_approval_is_reported_and_opens_nothing() {
    let mut stage = stage();
    let label = stage.blocked.data["run"]["label"].as_str().unwrap().to_owned();
    assert_eq!(stage.console.act_signed(&stage.run, "approve", &[], &mut stage.key).status, 303);
    let (genuine, _) = forged(&stage, |_| {});
    let mut said = String::new();
    for (forgery, change) in FORGERIES {
        let (elsewhere, verified) = forged(&stage, |bundle| {
            let at = events_of(bundle, "approval_recorded")[0];
            change(&mut bundle["session"]["events"][at]);
        });
        assert_eq!(verified["counts"]["problems"], 1, "{forgery}: {verified}");
        let problem = verified["problems"][0]["problem"].as_str().unwrap();
        writeln!(said, "{forgery}\n  verify: {problem}").unwrap();
        for command in ["report", "log"] {
            let shown = |home: &Home| home.done(&[command, &label]).out;
            let (before, after) = (shown(&genuine), shown(&elsewhere));
            let changed: Vec<&str> =
                after.lines().filter(|line| !before.lines().any(|own| own == *line)).map(str::trim).collect();
            assert!(!changed.is_empty(), "{forgery}: {command} does not show it");
            writeln!(said, "  {command}: {}", changed.join("\n    ")).unwrap();
        }
        assert!(!is_open(&elsewhere, &label), "{forgery}");
    }
    assert_text(&stage.home, "forged_approvals", &said);
    let (elsewhere, _) = forged(&stage, |bundle| {
        let at = events_of(bundle, "approval_recorded")[0];
        let data = bundle["session"]["events"][at]["data"].as_object_mut().unwrap();
        data.remove("proof");
        data.insert("channel".to_owned(), json!("terminal"));
    });
    assert!(!is_open(&elsewhere, &label), "an approval by label is none here");
}
