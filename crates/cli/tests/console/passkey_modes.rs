//! Ways around a passkey gate without a decision: never-stop modes, other folders, settings or logs (G97, G98).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use workrail_testkit::authenticator::{Authenticator, FormFields};
use workrail_testkit::mcp_client::ToolReply;

use crate::harness::{Console, home, next, run_id, session_id, start, warnings_of_doctor};
use crate::passkey_attacks::{Stage, signed_gate, stage};
use crate::passkeys::{decisions, encoded};
use crate::wording::assert_text;

const NEVER_STOP: &str = "full_auto_never_stop";

fn control(stage: &Stage) -> PathBuf {
    stage.home.data().join("sessions").join(session_id(&stage.blocked)).join("control.json")
}

/// A form that raises the session's mode in the console, signed by the user's key, and its address.
fn signed_mode(stage: &mut Stage) -> (String, FormFields) {
    let path = format!("/session/{}/prefer", session_id(&stage.blocked));
    let token = stage.console.page(&format!("/session/{}", session_id(&stage.blocked))).field("token");
    let mut form: FormFields = vec![("token", token), ("mode", NEVER_STOP.to_owned())];
    form.extend(stage.key.sign(&stage.console.asked(&path, &form), &stage.console.origin()));
    (path, form)
}

fn raise(stage: &mut Stage) {
    let (path, form) = signed_mode(stage);
    let raised = stage.console.post(&path, &encoded(&form));
    assert_eq!(raised.status, 303, "{raised:?}");
}

fn gaps(reply: &ToolReply) -> String {
    reply.data["run"]["gaps"].to_string() + &reply.text
}

#[test]
fn a_mode_without_a_passkey_waits_at_the_gate() {
    let mut stage = stage();
    let mode = json!({ "workflowId": "team.signed", "goal": "Release", "mode": NEVER_STOP });
    let first = stage.client.call("start_workflow", mode);
    assert_eq!(next(&mut stage.client, &first).data["kind"], "blocked", "started in that mode");

    let file = stage.home.config();
    stage.home.write(&file, &format!("[preferences]\nautonomy = \"{NEVER_STOP}\"\n"));
    let first = start(&mut stage.client, "team.signed", "By default");
    assert_eq!(next(&mut stage.client, &first).data["kind"], "blocked", "the default of new runs");
    fs::remove_file(&file).unwrap();

    let label = stage.blocked.data["run"]["label"].as_str().unwrap().to_owned();
    let raised = stage.home.typed(&["session", "prefs", "set", NEVER_STOP, "--session", &label], &label);
    assert_ne!(raised.code, 0, "the workflow asks for a passkey, whatever the settings say: {raised:?}");
    stage.is_closed("a mode raised with a typed label");

    let changed = json!({ "v": 1, "preferences": { &stage.run: { "autonomy": NEVER_STOP, "riskPolicy": "conservative" } } });
    fs::write(control(&stage), changed.to_string()).unwrap();
    stage.is_closed("a mode written into the session's folder");
}

#[test]
fn a_mode_allowed_by_a_passkey_passes_the_gate_and_its_assertion_is_recorded() {
    let mut stage = stage();
    raise(&mut stage);
    let passed = next(&mut stage.client, &stage.blocked);
    assert_eq!(passed.step(), "b", "{}", gaps(&passed));
    let log = stage.home.done(&["log", &stage.run, "--json"]).json();
    let events = log["events"].as_array().unwrap();
    let change = events.iter().find(|event| event["data"]["source"] == "passkey").unwrap();
    assert_eq!(change["data"]["proof"]["key"]["name"], "Laptop");
    assert_eq!(change["data"]["proof"]["session"], session_id(&stage.blocked).as_str());
    let verified = stage.home.done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["signedDecisions"], 1, "{verified}");
    assert_eq!(verified["signed"][0]["what"], "preferences");
    assert_text(&stage.home, "log_of_a_mode_with_a_passkey", &stage.home.done(&["log", &stage.run]).out);
    let report = stage.home.done(&["report", &stage.run]).out;
    assert_text(&stage.home, "report_of_a_mode_with_a_passkey", &report);
}

#[test]
fn a_mode_change_refused_by_a_busy_session_does_not_use_up_the_assertion() {
    let mut stage = stage();
    let (path, form) = signed_mode(&mut stage);
    let lock = stage.home.data().join("sessions").join(session_id(&stage.blocked)).join(".lock");
    let lock = fs::File::open(lock).unwrap();
    lock.lock().unwrap();
    let refused = stage.console.post(&path, &encoded(&form));
    assert_eq!(refused.status, 503, "{refused:?}");
    drop(lock);
    let raised = stage.console.post(&path, &encoded(&form));
    assert_eq!(raised.status, 303, "the same assertion: {raised:?}");
    let again = stage.console.post(&path, &encoded(&form));
    assert_eq!(again.status, 409, "it was used: {again:?}");
}

#[test]
fn a_passkeys_consent_to_a_mode_is_applied_once() {
    let mut stage = stage();
    raise(&mut stage);
    let agreed = fs::read(control(&stage)).unwrap();
    let passed = next(&mut stage.client, &stage.blocked);
    assert_eq!(passed.step(), "b");
    // The user takes the mode back; another program restores the old file.
    stage.home.done(&["session", "prefs", "set", "guided", "--session", &stage.run]);
    let again = stage.client.call(
        "start_workflow",
        json!({
            "workflowId": "team.signed", "goal": "Again", "sessionId": session_id(&stage.blocked),
        }),
    );
    let second = if again.is_error { start(&mut stage.client, "team.signed", "Again") } else { again };
    let (run, folder) = (run_id(&second), session_id(&second));
    let mut changed: Value = serde_json::from_slice(&agreed).unwrap();
    for part in ["preferences", "proofs"] {
        let moved = changed[part].as_object_mut().unwrap().remove(&stage.run).unwrap();
        changed[part][&run] = moved;
    }
    fs::write(stage.home.data().join("sessions").join(folder).join("control.json"), changed.to_string())
        .unwrap();
    assert_eq!(next(&mut stage.client, &second).data["kind"], "blocked", "signed for another session");
}

#[test]
fn a_repository_requires_passkeys_whatever_the_agent_does_with_its_folder() {
    let home = home();
    home.git(&home.project(), &["init", "--quiet"]);
    let elsewhere = home.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    home.git(&elsewhere, &["init", "--quiet"]);
    home.done(&["config", "set", "approvals.require_in", home.project().to_str().unwrap()]);
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let blocked = next(&mut client, &first);
    let label = blocked.data["run"]["label"].as_str().unwrap().to_owned();

    fs::rename(home.project().join(".git"), home.root().join("git")).unwrap();
    let approved = home.typed(&["approve", &label], &label);
    assert_ne!(approved.code, 0, "without its .git: {approved:?}");
    fs::rename(home.root().join("git"), home.project().join(".git")).unwrap();

    // Another server, which does not know where the run was started, is given another repository.
    let mut other = home.client();
    let mut arguments = blocked.data["nextCall"]["arguments"].clone();
    arguments["workspacePath"] = json!(elsewhere.to_str().unwrap());
    let again = other.call("continue_workflow", arguments);
    assert_eq!(again.data["kind"], "blocked");
    let approved = home.typed(&["approve", &label], &label);
    assert_ne!(approved.code, 0, "worked on elsewhere: {approved:?}");
}

#[test]
fn another_data_directory_does_not_lower_the_setting() {
    let stage = stage();
    stage.home.done(&["config", "set", "approvals.require", "passkey"]);
    let empty = stage.home.with_data(&stage.home.root().join("empty"));
    let set = empty.typed(&["config", "set", "approvals.require", "terminal"], "approvals.require");
    assert_ne!(set.code, 0, "{set:?}");
    assert_eq!(stage.home.done(&["config", "get", "approvals.require"]).out.trim(), "passkey");
}

#[test]
fn a_deleted_truncated_or_replaced_log_is_damage_and_recoverable() {
    let mut stage = stage();
    let other = stage.other_run();
    assert_eq!(stage.console.act_signed(&other, "approve", &[], &mut stage.key).status, 303);
    let path = stage.home.data().join("keys/passkeys.jsonl");
    let log = fs::read_to_string(&path).unwrap();
    let first = format!("{}\n", log.lines().next().unwrap());
    for (attack, left) in [("deleted", None), ("cut off", Some(&first))] {
        match left {
            None => fs::remove_file(&path).unwrap(),
            Some(left) => {
                stage.home.write(&path, left);
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            }
        }
        let verified = stage.home.run(&["store", "verify", "--json"]).json();
        assert_eq!(verified["problems"][0]["subject"], "keys/passkeys.jsonl", "{attack}: {verified}");
        let name = attack.replace(' ', "_");
        let doctor = warnings_of_doctor(&stage.home);
        assert_text(&stage.home, &format!("doctor_with_a_passkey_log_that_was_{name}"), &doctor);
        let page = stage.console.page(&format!("/run/{}", stage.run));
        assert_text(&stage.home, &format!("console_run_with_a_passkey_log_that_was_{name}"), &page.words());
        // No one can enrol a first key again.
        let form: FormFields = vec![(
            "token",
            stage.console.page(&format!("/session/{}", session_id(&stage.blocked))).field("token"),
        )];
        let refused = stage.console.post("/passkeys/settings/passkeys/new", &encoded(&form));
        assert!((400..500).contains(&refused.status), "{attack}: {refused:?}");
        stage.is_closed(attack);
    }
    // Without a backup: given up at a terminal, keeping the intact part.
    fs::write(&path, format!("{log}hello\n")).unwrap();
    let reset = stage.home.typed(&["store", "passkeys", "reset"], "reset passkeys");
    assert_eq!(reset.code, 0, "{reset:?}");
    let verified = stage.home.done(&["store", "verify", "--json"]).json();
    assert_eq!(
        verified["counts"]["signedDecisions"], 1,
        "the earlier decision can still be checked: {verified}"
    );
    assert_text(&stage.home, "doctor_after_a_reset_of_damaged_passkeys", &warnings_of_doctor(&stage.home));
    let aside = fs::read_dir(stage.home.data().join("keys")).unwrap();
    let aside = aside
        .filter(|own| own.as_ref().unwrap().file_name().to_str().unwrap().starts_with("passkeys.damaged-"));
    assert_eq!(aside.count(), 1);
    let mut fresh = Authenticator::new(3);
    assert_eq!(stage.console.enrol("New", &fresh, None).status, 303);
    assert_eq!(stage.console.act_signed(&stage.run, "approve", &[], &mut fresh).status, 303);
    assert_eq!(decisions(&stage.home, &stage.run)[0]["data"]["proof"]["key"]["resets"], 1);
    assert_eq!(next(&mut stage.client, &stage.blocked).step(), "b");
}

#[test]
fn a_backup_without_keys_keeps_decisions_verifiable_and_restores_a_lost_log() {
    let mut stage = stage();
    assert_eq!(stage.console.act_signed(&stage.run, "approve", &[], &mut stage.key).status, 303);
    let backup = stage.home.root().join("backup");
    let backup = backup.to_str().unwrap();
    stage.home.done(&["store", "backup", backup, "--without-keys"]);
    // A new machine.
    let fresh = home();
    fresh.done(&["store", "restore", backup]);
    let verified = fresh.run(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["signedDecisions"], 1, "{verified}");
    // The keys that the backup lacks are the only problem.
    assert_eq!(verified["counts"]["problems"], 1, "{verified}");
    assert_eq!(verified["problems"][0]["subject"], "keys/keyring.json", "{verified}");
    // The same machine, which lost only the log. Its keys prove that the backup is its own.
    stage.home.done(&["store", "backup", backup]);
    fs::remove_file(stage.home.data().join("keys/passkeys.jsonl")).unwrap();
    assert_ne!(stage.home.run(&["store", "verify"]).code, 0);
    stage.home.done(&["store", "restore", backup]);
    let verified = stage.home.done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["signedDecisions"], 1, "{verified}");
    // A store with its own keys does not start to trust another store's passkeys.
    let other = home();
    signed_gate(&other);
    start(&mut other.client(), "team.signed", "Its own");
    other.run(&["store", "restore", backup]);
    let keys = other.done(&["store", "passkeys", "show", "--json"]).json();
    assert_eq!(keys["passkeys"], json!([]));
}

#[test]
fn what_only_a_passkey_decides_is_shown_in_full_at_any_length() {
    let mut stage = stage();
    let mut arguments = stage.blocked.data["nextCall"]["arguments"].clone();
    let end = "and this is the end of it.";
    arguments["output"] = json!({ "notesMarkdown": format!("{} {end}", "A long plan. ".repeat(8000)) });
    stage.blocked = stage.client.call("continue_workflow", arguments);
    assert_eq!(stage.blocked.data["kind"], "blocked");
    assert!(stage.console.page(&format!("/run/{}", stage.run)).body.contains(end));
    assert_eq!(stage.console.act_signed(&stage.run, "approve", &[], &mut stage.key).status, 303);
}

#[test]
fn of_two_simultaneous_decisions_in_two_consoles_one_is_recorded() {
    let mut stage = stage();
    let second = Console::open(&stage.home);
    let prepared: Vec<(&Console, FormFields)> = [&stage.console, &second]
        .into_iter()
        .map(|console| {
            let mut form = console.run_form(&stage.run, &[]);
            let asked = console.asked(&format!("/run/{}/approve", stage.run), &form);
            form.extend(stage.key.sign(&asked, &console.origin()));
            (console, form)
        })
        .collect();
    let path = format!("/run/{}/approve", stage.run);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let sent: Vec<_> = prepared
            .iter()
            .map(|(console, form)| {
                let path = &path;
                scope.spawn(move || console.post(path, &encoded(form)).status)
            })
            .collect();
        sent.into_iter().map(|own| own.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 303).count(), 1, "{statuses:?}");
    assert_eq!(decisions(&stage.home, &stage.run).len(), 1);
    let verified = stage.home.done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");
}
