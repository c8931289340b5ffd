//! `store copy` between a data directory and a database, and upkeep of a database, through the real binary (G24, G25,
//! G117).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod wording;

use serde_json::json;
use workrail_testkit::folder::files;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::team::{Team, advance, label_of, session_of, start};

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

fn alone() -> Home {
    Home::new(PROGRAM)
}

/// A machine with two sessions in its directory; returns the token of one of them.
fn with_sessions() -> (Home, ToolReply) {
    let machine = alone();
    let mut client = machine.client();
    let first = start(&machine, &mut client, "repair the teapot");
    let second = advance(&mut client, &first, "the spout is cracked");
    start(&machine, &mut client, "polish the kettle");
    client.close();
    machine.done(&["session", "keep", &session_of(&second)]);
    (machine, second)
}

fn counted(ran: &serde_json::Value) -> [u64; 5] {
    let result = &ran["result"];
    ["added", "continued", "unchanged", "skipped", "verified"].map(|name| result[name].as_u64().unwrap())
}

/// Tokens stay valid in the database, a second copy brings later writes, and copying back gives the same bytes.
#[test]
fn sessions_move_to_a_database_and_back_with_their_tokens() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let (directory, second) = with_sessions();
    let (data, address) = (directory.data().to_str().unwrap().to_owned(), team.address());
    let copy = |more: &[&str]| {
        let mut arguments = vec!["store", "copy", &data, &address, "--with-keys", "--json"];
        arguments.extend(more);
        directory.done(&arguments).json()
    };
    assert_eq!(counted(&copy(&["--dry-run"])), [2, 0, 0, 0, 0]);
    assert_eq!(counted(&copy(&[])), [2, 0, 0, 0, 2]);
    assert_eq!(counted(&copy(&[])), [0, 0, 2, 0, 2], "run again, it finds everything there");
    // The directory is used for a while longer; the next copy brings the rest.
    let mut client = directory.client();
    let third = advance(&mut client, &second, "glued");
    client.close();
    assert_eq!(counted(&copy(&[])), [0, 1, 1, 0, 2]);

    let machine = team.machine();
    let mut client = machine.client();
    let fourth = advance(&mut client, &third, "dried");
    client.close();
    let session = session_of(&fourth);
    assert_eq!(machine.run(&["session", "delete", &session, "--yes"]).code, 2, "the mark of keep went along");
    let verified = machine.done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");

    let back = directory.home().join("back");
    let shown = directory.done(&["store", "copy", &address, back.to_str().unwrap(), "--with-keys"]);
    insta::assert_snapshot!(team.plain(&shown.out).replace(back.to_str().unwrap(), "FOLDER"));
    let returned = alone().with("WORKRAIL_DATA_DIR", &back);
    let mut client = returned.client();
    advance(&mut client, &fourth, "painted");
    client.close();
    assert_eq!(returned.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
}

/// Temporarily unreadable content is missing from a copy; the next copy adds it.
#[test]
fn a_copy_that_lacks_content_is_completed_by_the_next() {
    let (directory, _) = with_sessions();
    let (data, copied) = (directory.data(), directory.home().join("copied"));
    let copy = || {
        let arguments = ["store", "copy", data.to_str().unwrap(), copied.to_str().unwrap(), "--json"];
        counted(&directory.done(&arguments).json())
    };
    assert_eq!(copy(), [2, 0, 0, 0, 2]);
    let mut snapshots = std::fs::read_dir(copied.join("snapshots")).unwrap();
    std::fs::remove_file(snapshots.next().unwrap().unwrap().path()).unwrap();
    let [added, continued, unchanged, skipped, verified] = copy();
    assert_eq!((added, skipped, verified), (0, 0, 2));
    assert!(continued > 0 && continued + unchanged == 2, "{continued} sessions were brought in again");
    assert_eq!(copy(), [0, 0, 2, 0, 2]);
}

/// Broke: one session that an agent was using in the target ended the whole copy.
#[test]
fn a_session_in_use_in_the_target_is_reported_and_the_others_are_copied() {
    let (directory, second) = with_sessions();
    let (data, copied) = (directory.data(), directory.home().join("copied"));
    let copy =
        || directory.run(&["store", "copy", data.to_str().unwrap(), copied.to_str().unwrap(), "--json"]);
    assert_eq!(counted(&copy().json()), [2, 0, 0, 0, 2]);
    let mut client = directory.client();
    start(&directory, &mut client, "wash the cups");
    client.close();

    let session = session_of(&second);
    let lock = std::fs::File::open(copied.join("sessions").join(&session).join(".lock")).unwrap();
    lock.try_lock().unwrap();
    let ran = copy();
    assert_eq!((ran.code, counted(&ran.json())), (1, [1, 0, 2, 0, 3]));
    let problems = ran.json()["result"]["problems"].clone();
    assert_eq!(
        problems,
        json!([{ "subject": session, "fix": "Copy again when no agent uses it there.",
            "problem": "its mark of `session keep` or its pending modes were not copied: it is in use in the target" }])
    );
    drop(lock);
    let ran = copy();
    assert_eq!((ran.code, counted(&ran.json())), (0, [0, 0, 3, 0, 3]));

    // A session that must be copied anew stays as it is while it is in use.
    let mut client = directory.client();
    advance(&mut client, &second, "glued");
    client.close();
    let lock = std::fs::File::open(copied.join("sessions").join(&session).join(".lock")).unwrap();
    lock.try_lock().unwrap();
    let ran = copy();
    assert_eq!((ran.code, counted(&ran.json())), (1, [0, 0, 2, 1, 2]));
    let problems = ran.json()["result"]["problems"].clone();
    assert_eq!(problems[0]["problem"], "not copied: it is in use in the target");
    drop(lock);
    let ran = copy();
    assert_eq!((ran.code, counted(&ran.json())), (0, [0, 1, 2, 0, 3]));
    assert!(copied.join("sessions").join(&session).join("keep").exists(), "the mark is still there");
}

/// Broke: a session that had grown in the source was deleted from the target before the source was found damaged.
#[test]
fn the_targets_copy_of_a_session_that_is_damaged_in_the_source_is_kept() {
    for damaged in [0, 1, 2] {
        let (directory, second) = with_sessions();
        let (data, copied) = (directory.data(), directory.home().join("copied"));
        let copy =
            || directory.run(&["store", "copy", data.to_str().unwrap(), copied.to_str().unwrap(), "--json"]);
        assert_eq!(counted(&copy().json()), [2, 0, 0, 0, 2]);
        let session = session_of(&second);
        let target = copied.join("sessions").join(&session);
        let before = files(&target);
        let mut client = directory.client();
        advance(&mut client, &second, "glued");
        client.close();
        let events = files(&data.join("sessions").join(&session).join("events"));
        assert_eq!(events.len(), 3, "one each for the start and two steps");
        let segment = events.into_keys().nth(damaged).unwrap();
        std::fs::write(data.join("sessions").join(&session).join("events").join(segment), "{}\n").unwrap();

        let ran = copy();
        assert_eq!((ran.code, counted(&ran.json())), (1, [0, 0, 1, 1, 1]), "segment {damaged}");
        let problems = ran.json()["result"]["problems"].clone();
        assert_eq!(problems[0]["subject"], session.as_str());
        let fix = format!("Run `workrail store repair {session}` on the source, then copy again.");
        assert_eq!(problems[0]["fix"], fix.as_str());
        assert_eq!(files(&target), before, "segment {damaged}: the target's copy is as it was");
    }
}

#[test]
fn a_source_without_keys_is_reported_as_such() {
    let (directory, _) = with_sessions();
    let (data, without_keys) = (directory.data(), directory.home().join("without-keys"));
    directory.done(&["store", "copy", data.to_str().unwrap(), without_keys.to_str().unwrap()]);
    let copy = |target: &str, more: &[&str]| {
        let target = directory.home().join(target);
        let mut arguments = vec!["store", "copy", without_keys.to_str().unwrap(), target.to_str().unwrap()];
        arguments.extend(more);
        directory.done(&arguments)
    };
    let shown = copy("shown", &["--with-keys"]).out;
    assert!(!shown.contains("--with-keys"), "{shown}");
    assert_text(&directory, "copy_of_a_store_without_keys", &shown);
    let wanted = copy("wanted", &["--with-keys", "--json"]).json();
    let result = &wanted["result"];
    assert_eq!(
        (&result["keys"], &result["passkeys"]),
        (&json!("source_has_none"), &json!("source_has_none"))
    );
    assert_eq!(copy("not-wanted", &["--json"]).json()["result"]["keys"], "left_out");
}

#[test]
fn a_target_with_other_sessions_is_not_changed() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let (directory, _) = with_sessions();
    let machine = team.machine();
    let mut client = machine.client();
    let theirs = session_of(&start(&machine, &mut client, "theirs"));
    client.close();
    let (data, address) = (directory.data().to_str().unwrap().to_owned(), team.address());
    let refused = directory.run(&["store", "copy", &data, &address]);
    assert_eq!(refused.code, 2, "{}", refused.out);
    insta::assert_snapshot!(refused.err.replace(&theirs, "THEIRS"));
    assert_eq!(machine.done(&["session", "list", "--json"]).json()["runs"].as_array().map(Vec::len), Some(1));

    let merged =
        directory.done(&["store", "copy", &data, &address, "--merge", "--with-keys", "--json"]).json();
    assert_eq!(counted(&merged), [2, 0, 0, 0, 2]);
    assert_eq!(merged["result"]["keys"], "target_has_others");
    assert_eq!(machine.done(&["session", "list", "--json"]).json()["runs"].as_array().map(Vec::len), Some(3));

    let folder = directory.home().join("photos");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("cat.png"), b"cat").unwrap();
    assert_eq!(directory.run(&["store", "copy", &address, folder.to_str().unwrap()]).code, 2);
    assert_eq!(directory.run(&["store", "copy", folder.to_str().unwrap(), &address]).code, 2);
    assert_eq!(directory.run(&["store", "copy", &address, &address]).code, 2);
}

/// Following the advice of `verify` about a damaged row repairs it.
#[test]
fn a_damaged_session_in_a_database_is_repaired() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    let first = start(&machine, &mut client, "repair the teapot");
    let session = session_of(&advance(&mut client, &first, "the spout is cracked"));
    client.close();
    let alter = "UPDATE workrail.segment SET events = convert_to(replace(convert_from(events, 'UTF8'), 'cracked', 'CRACKED'), 'UTF8')";
    team.cluster.sql(&team.database, alter);
    assert_eq!(machine.run(&["store", "verify"]).code, 1);
    let planned = machine.done(&["store", "repair", &session, "--dry-run"]);
    let repaired = machine.done(&["store", "repair", &session, "--yes"]);
    let shown = format!("{}---\n{}", planned.out, repaired.out).replace(&session, "SESSION");
    insta::assert_snapshot!(shown);
    assert_eq!(machine.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
    let mut client = machine.client();
    advance(&mut client, &first, "the spout is cracked");
}

/// The page of STORE_CONTENT_DAMAGED says so: a folder of `store copy` restores what cannot be recomputed.
#[test]
fn content_that_a_database_lost_is_restored_from_a_copied_folder() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    let first = start(&machine, &mut client, "repair the teapot");
    advance(&mut client, &first, "the spout is cracked");
    client.close();
    let folder = machine.home().join("copy");
    machine.done(&["store", "copy", &team.address(), folder.to_str().unwrap()]);
    let contents = || team.cluster.count(&team.database, "SELECT count(*) FROM workrail.content");
    let before = contents();
    team.cluster.sql(&team.database, "DELETE FROM workrail.content WHERE kind = 'blob'");
    assert!(contents() < before, "stored replies are blobs");
    assert_eq!(machine.run(&["store", "verify"]).code, 1);
    assert_eq!(machine.run(&["store", "repair", "--all", "--yes"]).code, 1, "they cannot be recomputed");
    machine.done(&["store", "repair", "--all", "--from", folder.to_str().unwrap(), "--yes"]);
    assert_eq!(contents(), before);
    assert_eq!(machine.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
}

#[test]
fn content_is_cleaned_up_and_purged_in_a_database() {
    const SECRET: &str = "hunter2-secret";
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    let first = start(&machine, &mut client, "repair the teapot");
    let session = session_of(&advance(&mut client, &first, &format!("the password is {SECRET}")));
    let kettle = start(&machine, &mut client, "polish the kettle");
    let other = session_of(&advance(&mut client, &kettle, "with a soft cloth"));
    client.close();
    let holding = format!(
        "SELECT (SELECT count(*) FROM workrail.segment WHERE position('{SECRET}'::bytea in events) > 0) \
         + (SELECT count(*) FROM workrail.content WHERE position('{SECRET}'::bytea in bytes) > 0)"
    );
    assert_ne!(team.cluster.sql(&team.database, &holding), "0");
    let purged = machine.done(&["session", "purge", &session, "--text", SECRET, "--yes", "--json"]).json();
    assert_eq!(purged["filesThatStillHoldIt"], json!([]), "{purged}");
    assert_eq!(team.cluster.sql(&team.database, &holding), "0");

    machine.done(&["session", "delete", &other, "--yes"]);
    let pieces = || -> u64 {
        team.cluster.sql(&team.database, "SELECT count(*) FROM workrail.content").parse().unwrap()
    };
    let before = pieces();
    let dry = machine.done(&["store", "gc", "--dry-run", "--json"]).json();
    let cleaned = machine.done(&["store", "gc", "--json"]).json();
    assert_eq!(dry["freed"], cleaned["freed"], "{dry}");
    let after = pieces();
    assert!(after < before, "what only the deleted session had is gone: {before}, {after}, {cleaned}");
    let again = machine.done(&["store", "gc", "--json"]).json();
    assert_eq!(pieces(), after, "what is left is needed: {again}");
    let verified = machine.done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");
    assert_eq!(verified["counts"]["sessions"], 1, "{verified}");
}

/// G119: a running server on another machine uses rotated keys with its next call.
#[test]
fn a_rotation_of_keys_reaches_running_servers_with_their_next_call() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let (laptop, desktop) = (team.machine(), team.machine());
    let mut client = laptop.client();
    let first = start(&laptop, &mut client, "repair the teapot");
    desktop.done(&["store", "keys", "rotate", "--yes"]);
    let second = advance(&mut client, &first, "the spout is cracked");
    desktop.done(&["store", "keys", "rotate", "--yes"]);
    let third = advance(&mut client, &second, "glued");
    // Signed with a key from two rotations ago, which no server accepts any more.
    let call = json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "again" } });
    assert!(desktop.client().call("continue_workflow", call).is_error);
    let mut there = desktop.client();
    advance(&mut there, &third, "dried");
}

/// G119: with a wrapping key, the rows do not contain the signing keys; without it, no server can sign or replace them.
#[test]
fn signing_keys_are_encrypted_if_a_wrapping_key_is_given() {
    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let Some(team) = Team::new(PROGRAM) else { return };
    let plain = team.machine();
    let mut client = plain.client();
    let first = start(&plain, &mut client, "repair the teapot");
    client.close();
    let keyed = plain.with("WORKRAIL_STORE_KEY", KEY);
    let rotated = keyed.done(&["store", "keys", "rotate", "--yes"]).out;
    assert_text(&keyed, "rotation_that_encrypts_the_keys", &rotated);
    let lengths =
        "SELECT v || ' ' || octet_length(current) || ' ' || octet_length(previous) FROM workrail.keyring";
    assert_eq!(team.cluster.sql(&team.database, lengths), "2 72 72", "nonce, key and tag");
    let mut client = keyed.client();
    let second = advance(&mut client, &first, "the spout is cracked");
    client.close();

    let call = json!({ "ackToken": second.string("ackToken"), "output": { "notesMarkdown": "glued" } });
    assert_eq!(plain.client().call("continue_workflow", call.clone()).code(), "STORE_KEYRING_UNUSABLE");
    let other = plain.with("WORKRAIL_STORE_KEY", KEY.replacen("AA", "BB", 1));
    assert_eq!(other.client().call("continue_workflow", call).code(), "STORE_KEYRING_UNUSABLE");
    assert_ne!(
        plain.run(&["store", "keys", "new", "--yes"]).code,
        0,
        "keys that are not lost are not replaced"
    );
    let doctor = keyed.run(&["doctor", "--json"]).json();
    let findings = doctor["findings"].as_array().unwrap().iter();
    let of_store = findings.filter(|finding| finding["area"] == "store");
    let shown: Vec<&str> = of_store.map(|finding| finding["what"].as_str().unwrap()).collect();
    let version = team.cluster.sql(&team.database, "SHOW server_version");
    let shown = team.plain(&shown.join("\n")).replace(&version, "[version]");
    assert_text(&keyed, "doctor_of_a_store_with_encrypted_keys", &shown);
    let mut client = keyed.client();
    advance(&mut client, &second, "glued");
    let again = keyed.done(&["store", "keys", "rotate", "--yes"]).out;
    assert_text(&keyed, "rotation_of_encrypted_keys", &again);
}

/// G119: on a machine without the right key, the error names the key, and the keys of the others are not replaced.
#[test]
fn keys_that_this_machine_cannot_decrypt_are_replaced_only_by_name() {
    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let Some(team) = Team::new(PROGRAM) else { return };
    let plain = team.machine();
    let keyed = plain.with("WORKRAIL_STORE_KEY", KEY);
    let mut client = keyed.client();
    let first = start(&keyed, &mut client, "repair the teapot");
    client.close();
    let other = plain.with("WORKRAIL_STORE_KEY", KEY.replacen("AA", "BB", 1));
    for machine in [&plain, &other] {
        let refused = machine.run(&["store", "keys", "new", "--yes"]);
        assert_ne!(refused.code, 0, "{}", refused.out);
        let doctor = machine.run(&["doctor"]).out;
        for text in [&refused.err, &doctor] {
            assert!(text.contains("key_file=/PATH") && text.contains("WORKRAIL_STORE_KEY_FILE"), "{text}");
            assert!(!text.contains("keyring.json"), "{text}");
        }
    }
    let mut client = keyed.client();
    advance(&mut client, &first, "the spout is cracked");
    client.close();

    let replaced = other.done(&["store", "keys", "new", "--replace-encrypted", "--yes"]).out;
    assert_text(&other, "replacement_of_encrypted_keys", &replaced);
    assert_eq!(team.cluster.sql(&team.database, "SELECT count(*) FROM workrail.keyring_aside"), "1");
    assert_eq!(keyed.run(&["store", "keys", "show"]).code, 1, "the others lost them");
    assert_eq!(other.run(&["store", "keys", "new", "--replace-encrypted", "--yes"]).code, 2, "usable");
}

/// An ack of the lost period for a step that the backup has is an ack of that step: it adds a branch, and what was done
/// since stays.
#[test]
fn a_token_of_the_lost_period_for_a_kept_step_only_adds_a_branch() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    let first = start(&machine, &mut client, "repair the teapot");
    let dump = team.cluster.dump(&team.database);
    let resumed = client.call("continue_workflow", json!({ "stateToken": first.string("stateToken") }));
    let late = advance(&mut client, &resumed, "the spout is cracked");
    client.close();

    let restored = team.on(team.cluster.restored(&dump));
    let machine = restored.machine();
    let mut client = machine.client();
    let since = advance(&mut client, &first, "the lid is cracked");
    let call = json!({ "ackToken": late.string("ackToken"), "output": { "notesMarkdown": "glued" } });
    assert!(client.call("continue_workflow", call).is_error, "its step is lost");
    advance(&mut client, &resumed, "the handle is cracked");
    advance(&mut client, &since, "riveted");
    client.close();
    let report = machine.done(&["report", &label_of(&first)]).out;
    assert!(report.contains("the lid is cracked") && report.contains("riveted"), "{report}");
    assert_eq!(machine.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
}

/// docs/team.md says so: after a restore, tokens that were revoked since must be revoked again.
#[test]
fn a_token_that_was_revoked_after_a_backup_is_valid_in_its_restored_copy() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let made = machine.done(&["team", "token", "create", "ci-bot", "--role", "agent", "--json"]).json();
    let dump = team.cluster.dump(&team.database);
    let revoked = |machine: &Home| {
        let listed = machine.done(&["team", "token", "list", "--json"]).json();
        listed["tokens"][0]["revokedAt"].is_string()
    };
    machine.done(&["team", "token", "revoke", made["id"].as_str().unwrap()]);
    assert!(revoked(&machine));
    let restored = team.on(team.cluster.restored(&dump)).machine();
    assert!(!revoked(&restored));
    restored.done(&["team", "token", "revoke", made["id"].as_str().unwrap()]);
    assert!(revoked(&restored));
}

/// A restored backup has lost some history: its tokens advance nothing that replaced it.
#[test]
fn tokens_of_a_lost_future_advance_nothing_in_a_restored_backup() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    let first = start(&machine, &mut client, "repair the teapot");
    let second = advance(&mut client, &first, "the spout is cracked");
    let dump = team.cluster.dump(&team.database);
    let lost = advance(&mut client, &second, "glued");
    client.close();

    let restored = team.on(team.cluster.restored(&dump));
    let machine = restored.machine();
    let mut client = machine.client();
    let mut refused = |reply: &ToolReply| {
        let call = json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": "dried" } });
        client.call("continue_workflow", call).is_error
    };
    assert!(refused(&lost), "before anything else happened");
    let mut there = machine.client();
    let instead = advance(&mut there, &second, "riveted");
    assert_ne!(instead.string("ackToken"), lost.string("ackToken"));
    assert!(refused(&lost), "after another step took its place");
    advance(&mut there, &instead, "polished");
    drop(there);
    let events = machine.done(&["report", instead.data["run"]["label"].as_str().unwrap()]).out;
    assert!(events.contains("riveted") && !events.contains("glued") && !events.contains("dried"), "{events}");
    assert_eq!(machine.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
}
