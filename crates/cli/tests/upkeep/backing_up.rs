//! `backup` and `restore`: while agents work, killed at any moment, and with damage (G26).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use workrail_testkit::authenticator::{Authenticator, enrolments};
use workrail_testkit::folder;
use workrail_testkit::home::{CommandRun, Home};
use workrail_testkit::skipped::skip;
use workrail_testkit::strace::may_trace;

use crate::killed::{CALLS, copy_tree, survives};
use crate::scene::{advance, content, finished, home, label, run, session, session_dir, start, unfinished};
use crate::wording::assert_text;

/// A temporary folder whose `backup` folder is the target.
struct Destination {
    folder: tempfile::TempDir,
}

impl Destination {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("backup")
    }

    fn text(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }
}

fn backed_up(home: &Home, place: &Destination) -> Value {
    let said = home.run(&["store", "backup", &place.text(), "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    said.json()["result"].clone()
}

fn verified(data: &Path) -> CommandRun {
    let said = run(data, &["store", "verify", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.json()["notes"], json!([]), "{said:?}");
    said
}

/// Every file of a folder with its bytes, except locks.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_lock = |path: &Path| path.to_string_lossy().ends_with("lock");
    folder::files(folder).into_iter().filter(|(path, _)| !is_lock(path)).collect()
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("events")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn damage(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_backup_is_a_separate_store_and_copies_only_what_is_new() {
    let (home, place) = (home(), Destination::new());
    let (first, open) = (finished(&home), unfinished(&home));
    let made = backed_up(&home, &place);
    assert_eq!((&made["sessions"]["added"], &made["keys"]), (&json!(2), &json!("copied")));
    verified(&place.path());
    assert_eq!(content(&place.path()), content(&home.data()));
    let shown = run(&place.path(), &["show", &label(&first), "--json"]);
    assert_eq!(shown.code, 0, "{shown:?}");

    let again = backed_up(&home, &place);
    assert_eq!(again["sessions"]["unchanged"], json!(2));
    assert_eq!((&again["segmentsCopied"], &again["contentCopied"]), (&json!(0), &json!(0)));

    assert!(!advance(&mut home.client(), &open).is_error);
    assert_eq!(home.run(&["session", "keep", &label(&open)]).code, 0);
    let third = unfinished(&home);
    let before = files(&place.path());
    let more = backed_up(&home, &place);
    let counts = &more["sessions"];
    assert_eq!(
        (&counts["extended"], &counts["added"], &counts["unchanged"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(more["segmentsCopied"], json!(2), "one of the advance, one of the new run");
    verified(&place.path());
    let after = files(&place.path());
    let manifest = PathBuf::from(format!("sessions/{}/manifest.jsonl", session(&open)));
    for (path, bytes) in &before {
        assert!(after.get(path) == Some(bytes) || *path == manifest, "{path:?} was written again");
    }
    assert!(after.contains_key(Path::new(&format!("sessions/{}/keep", session(&open)))));
    assert!(after.contains_key(Path::new(&format!("sessions/{}/manifest.jsonl", session(&third)))));
}

#[test]
fn keys_are_left_out_on_request_and_folders_that_are_not_backups_are_refused() {
    let (home, place) = (home(), Destination::new());
    unfinished(&home);
    home.done(&["store", "backup", &place.text(), "--without-keys"]);
    assert!(!place.path().join("keys/keyring.json").exists());

    let data = home.data().to_str().unwrap().to_owned();
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("my file.txt"), "mine").unwrap();
    for (what, dest) in [
        ("the data directory", data.clone()),
        ("a folder in it", format!("{data}/inside/it")),
        ("the folder that it is in", home.root().to_str().unwrap().to_owned()),
        ("a folder that is no backup", other.path().to_str().unwrap().to_owned()),
    ] {
        let refused = home.run(&["store", "backup", &dest]);
        assert_eq!(refused.code, 2, "{what}: {refused:?}");
    }
    assert_eq!(files(other.path()).len(), 1, "nothing was written");
    fs::write(place.path().join("backup.json"), "{\"kind\":\"workrail_backup\",\"v\":2}").unwrap();
    let newer = home.run(&["store", "backup", &place.text()]);
    assert_eq!(newer.code, 2, "{newer:?}");
}

#[test]
fn a_lost_data_directory_is_restored_completely_with_its_keys() {
    let (home, place) = (home(), Destination::new());
    let (done, open) = (finished(&home), unfinished(&home));
    backed_up(&home, &place);
    let before = files(&home.data());
    let elsewhere = tempfile::tempdir().unwrap();
    let data = elsewhere.path().join("data");
    let planned = run(&data, &["store", "restore", &place.text(), "--dry-run", "--json"]);
    assert_eq!((planned.code, &planned.json()["result"]["sessions"]["added"]), (0, &json!(2)), "{planned:?}");
    assert!(!data.exists(), "a dry run makes nothing");
    let restored = run(&data, &["store", "restore", &place.text(), "--json"]);
    assert_eq!((restored.code, &restored.json()["result"]["keys"]), (0, &json!("copied")), "{restored:?}");
    verified(&data);
    let after = files(&data);
    for (path, bytes) in before.iter().filter(|(path, _)| {
        ["sessions", "snapshots", "blobs", "workflows", "keys"].iter().any(|folder| path.starts_with(folder))
    }) {
        assert_eq!(after.get(path), Some(bytes), "{path:?}");
    }
    // An earlier token works: the keys are the same.
    let mut client = home.with_data(&data).client();
    let next = advance(&mut client, &open);
    assert!(!next.is_error, "{}", next.text);
    drop(client);
    let again = run(&data, &["store", "restore", &place.text(), "--json"]).json();
    let counts = &again["result"]["sessions"];
    assert_eq!((&counts["unchanged"], &counts["skipped"]), (&json!(1), &json!(1)), "newer work here is kept");
    assert_eq!(run(&data, &["show", &label(&done)]).code, 0);
}

#[test]
fn a_restore_replaces_damaged_sessions_and_keeps_different_ones() {
    let (home, place) = (home(), Destination::new());
    let (broken, gone, other) = (finished(&home), finished(&home), unfinished(&home));
    backed_up(&home, &place);
    // One is damaged, one is deleted, one continues differently here and in the backup.
    damage(segments(&session_dir(&home, &broken)).last().unwrap());
    assert_eq!(home.run(&["session", "delete", &session(&gone), "--yes"]).code, 0);
    let elsewhere = tempfile::tempdir().unwrap();
    let twin = elsewhere.path().join("data");
    copy_tree(&home.data(), &twin);
    assert!(!advance(&mut home.client(), &other).is_error);
    assert!(!advance(&mut home.with_data(&twin).client(), &other).is_error);
    // The twin has the damaged session too, which the backup reports; the other one is copied.
    assert_eq!(run(&twin, &["store", "backup", &place.text(), "--json"]).code, 1);

    let planned = home.run(&["store", "restore", &place.text(), "--dry-run", "--json"]);
    let before = files(&home.data());
    assert_eq!(planned.code, 0, "{planned:?}");
    let done = home.run(&["store", "restore", &place.text(), "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let result = &done.json()["result"];
    assert_eq!(planned.json()["result"]["sessions"], result["sessions"], "a dry run says what happens");
    let counts = &result["sessions"];
    assert_eq!(
        (&counts["replaced"], &counts["added"], &counts["skipped"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let changes = result["changes"].as_array().unwrap();
    let change = |id: &str| changes.iter().find(|change| change["sessionId"] == json!(id)).unwrap().clone();
    assert_eq!(change(&session(&other))["change"], json!("skipped"));
    let aside = change(&session(&broken))["keptAside"].as_str().unwrap().to_owned();
    let damaged = files(&home.data().join(&aside));
    let folder = PathBuf::from(format!("sessions/{}", session(&broken)));
    for (path, bytes) in &damaged {
        assert_eq!(before.get(&folder.join(path)), Some(bytes), "the damaged folder is kept whole: {path:?}");
    }
    verified(&home.data());
    let shown = home.run(&["store", "restore", &place.text(), &label(&gone)]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert_eq!(home.run(&["store", "restore", &place.text(), "no-such"]).code, 2);
}

#[test]
fn damaged_content_is_restored_from_the_backup() {
    let (home, place) = (home(), Destination::new());
    finished(&home);
    finished(&home);
    backed_up(&home, &place);
    let names: Vec<_> = content(&home.data()).into_iter().collect();
    let before = files(&home.data());
    damage(&home.data().join(&names[0]));
    fs::remove_file(home.data().join(&names[1])).unwrap();
    assert_eq!(home.run(&["store", "verify"]).code, 1);
    let done = home.run(&["store", "restore", &place.text(), "--json"]);
    assert_eq!((done.code, &done.json()["result"]["repairedContent"]), (0, &json!([names[0]])), "{done:?}");
    verified(&home.data());
    assert_eq!(fs::read(home.data().join(&names[0])).unwrap(), before[Path::new(&names[0])]);
    assert_eq!(fs::read_dir(home.data().join("backups/content")).unwrap().count(), 1);
    assert_eq!(home.run(&["store", "gc"]).code, 0, "what is kept aside does not stop gc");
    // The other way round: --verify detects and repairs a damaged backup.
    damage(&place.path().join(&names[0]));
    let checked = home.run(&["store", "backup", &place.text(), "--verify", "--json"]);
    assert_eq!(checked.json()["result"]["repairedContent"], json!([names[0]]), "{checked:?}");
    verified(&place.path());
}

/// Broke: a restore ended after the sessions, without its report, and a backup left the log out without a word.
#[test]
fn a_passkey_log_that_cannot_be_used_is_a_problem_of_the_copy_and_stops_nothing_else() {
    let (home, place) = (home(), Destination::new());
    let run = finished(&home);
    let log = home.data().join("keys/passkeys.jsonl");
    home.write(&log, &enrolments(&[Authenticator::new(1)]));
    fs::set_permissions(&log, fs::Permissions::from_mode(0o600)).unwrap();
    backed_up(&home, &place);
    let mut said = String::new();
    let mut copied = |command: &str| {
        let ran = home.run(&["store", command, &place.text(), "--json"]);
        let result = ran.json()["result"].clone();
        let problems = result["problems"].as_array().unwrap();
        let [problem] = &problems[..] else { panic!("{ran:?}") };
        assert_eq!((ran.code, &problem["subject"]), (1, &json!("keys/passkeys.jsonl")), "{ran:?}");
        let words = ["problem", "fix"].map(|name| problem[name].as_str().unwrap());
        said += &format!("$ workrail store {command} BACKUP\n{}\n\n", words.join("\n"));
        result
    };
    let sound = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    // A session to restore, and settings, which come after the log.
    fs::remove_dir_all(session_dir(&home, &run)).unwrap();
    fs::write(place.path().join("config.toml"), "[retention]\nttl_days = 30\n").unwrap();
    let restored = copied("restore");
    assert_eq!(restored["sessions"]["added"], json!(1), "{restored}");
    assert!(home.data().join("config.toml").exists());
    let kept = copied("backup");
    assert_eq!(kept["sessions"]["unchanged"], json!(1), "{kept}");
    fs::remove_dir(&log).unwrap();
    let theirs = place.path().join("keys/passkeys.jsonl");
    fs::remove_file(&theirs).unwrap();
    fs::create_dir(&theirs).unwrap();
    copied("restore");
    fs::write(&log, &sound).unwrap();
    copied("backup");
    assert_text(&home, "copies_with_an_unusable_passkey_log", &said);

    fs::remove_dir(&theirs).unwrap();
    backed_up(&home, &place);
    assert_eq!(fs::read(&theirs).unwrap(), sound);
}

#[test]
fn a_longer_copy_in_the_backup_is_never_replaced_by_its_beginning() {
    let (home, place) = (home(), Destination::new());
    let run_here = finished(&home);
    backed_up(&home, &place);
    let whole = files(&place.path().join("sessions").join(session(&run_here)));
    damage(segments(&session_dir(&home, &run_here)).last().unwrap());
    // Its manifest is unchanged: the backup has more than can be trusted here.
    for more in [[].as_slice(), &["--verify"]] {
        let said = home.run(&[&["store", "backup", &place.text(), "--json"], more].concat());
        assert_eq!((said.code, &said.json()["result"]["sessions"]["skipped"]), (1, &json!(1)), "{said:?}");
        assert_eq!(files(&place.path().join("sessions").join(session(&run_here))), whole);
    }
    // Cut by a repair it is healthy, but still only the beginning of what the backup has.
    assert_eq!(home.run(&["store", "repair", &session(&run_here), "--yes"]).code, 0);
    let cut = home.run(&["store", "backup", &place.text(), "--json"]);
    let result = &cut.json()["result"];
    assert_eq!((cut.code, &result["sessions"]["skipped"]), (1, &json!(1)), "{cut:?}");
    assert_eq!(result["problems"][0]["subject"], json!(session(&run_here)), "{cut:?}");
    assert_eq!(files(&place.path().join("sessions").join(session(&run_here))), whole);
    assert_eq!(home.run(&["store", "restore", &place.text(), &session(&run_here)]).code, 0);
    assert_eq!(backed_up(&home, &place)["sessions"]["unchanged"], json!(1));
    verified(&place.path());
}

/// Broke: with a manifest that lost its end, the backup replaced its longer copy, and left out a one-group session.
#[test]
fn a_manifest_that_lost_its_end_does_not_harm_the_backup() {
    for lost in [1, 40] {
        for run_here in [unfinished, finished] {
            let (home, place, later) = (home(), Destination::new(), Destination::new());
            let reply = run_here(&home);
            backed_up(&home, &place);
            let manifest = session_dir(&home, &reply).join("manifest.jsonl");
            let whole = fs::read(&manifest).unwrap();
            fs::write(&manifest, &whole[..whole.len() - lost]).unwrap();
            for place in [&place, &later] {
                let made = backed_up(&home, place);
                assert_eq!(made["sessions"]["total"], json!(1), "{made}");
                let copy = place.path().join("sessions").join(session(&reply)).join("manifest.jsonl");
                assert_eq!(fs::read(&copy).unwrap(), whole, "{lost}");
                verified(&place.path());
            }
        }
    }
}

/// A workflow of many steps, so that one session grows while it is copied.
fn many_steps(home: &Home) {
    let steps: Vec<Value> = (0..400)
        .map(|step| json!({ "id": format!("s{step}"), "title": format!("Step {step}"), "prompt": "Go on." }))
        .collect();
    let workflow = json!({
        "id": "team.many", "name": "Many", "description": "Many steps.", "version": "1.0.0", "steps": steps,
    });
    home.workflow(&workflow);
}

/// Advances a long run and starts short ones until stopped; counts what was acknowledged, in order.
fn work(home: &Home, acknowledged: &AtomicUsize, stop: &AtomicBool) {
    let mut client = home.client();
    let mut long = client.call("start_workflow", json!({ "workflowId": "team.many" }));
    while !stop.load(Ordering::SeqCst) {
        let number = acknowledged.load(Ordering::SeqCst);
        let notes = json!({ "notesMarkdown": format!("note-{number}.") });
        let reply = match number % 4 {
            3 => {
                let short = start(&mut client);
                client.call(
                    "continue_workflow",
                    json!({ "ackToken": short.string("ackToken"), "output": notes }),
                )
            }
            _ if long.data["isComplete"] == json!(true) => break,
            _ => {
                long = client.call(
                    "continue_workflow",
                    json!({ "ackToken": long.string("ackToken"), "output": notes }),
                );
                long.clone()
            }
        };
        assert!(!reply.is_error, "{}", reply.text);
        acknowledged.store(number + 1, Ordering::SeqCst);
    }
}

/// Runs `copy` repeatedly next to a working server; each copy verifies and has everything acknowledged before.
fn while_agents_work(times: usize, mut copy: impl FnMut(&Home, usize) -> PathBuf) -> usize {
    let home = home();
    many_steps(&home);
    let (acknowledged, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| work(&home, &acknowledged, &stop));
        while acknowledged.load(Ordering::SeqCst) < 5 {
            std::thread::yield_now();
        }
        for time in 0..times {
            let before = acknowledged.load(Ordering::SeqCst);
            let made = copy(&home, time);
            verified(&made);
            let logs: String = files(&made.join("sessions"))
                .into_iter()
                .filter(|(path, _)| path.to_string_lossy().contains("/events/"))
                .map(|(_, bytes)| String::from_utf8(bytes).unwrap())
                .collect();
            for number in 0..before {
                assert!(
                    logs.contains(&format!("note-{number}.")),
                    "copy {time} lacks note {number} of {before}"
                );
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    acknowledged.load(Ordering::SeqCst)
}

#[test]
fn figure_backups_while_agents_work() {
    const TIMES: usize = 12;
    let place = Destination::new();
    let advances = while_agents_work(TIMES, |home, _| {
        backed_up(home, &place);
        place.path()
    });
    println!(
        "figure: {TIMES} backups while an agent made {advances} advances: all verified, none lacks an acknowledged advance"
    );
}

/// The order that docs/backup.md gives for a copy without `workrail store backup`.
#[test]
fn a_plain_copy_in_the_documented_order_is_complete() {
    const SCRIPT: &str = r#"
        mkdir -p "$DEST/sessions" && cd "$DATA" || exit 1
        for s in sessions/sess_*; do flock "$s/.lock" cp -a "$s" "$DEST/sessions/" || exit 1; done
        content() { find snapshots blobs workflows keys -type f ! -name '.*' -exec cp -a --parents -t "$DEST" {} +; }
        content || content || content
    "#;
    let places: Vec<_> = (0..5).map(|_| Destination::new()).collect();
    while_agents_work(places.len(), |home, time| {
        let copied = Command::new("flock")
            .args(["-s", home.data().join("store.lock").to_str().unwrap(), "sh", "-c", SCRIPT])
            .env("DATA", home.data())
            .env("DEST", places[time].path())
            .status()
            .unwrap();
        assert!(copied.success());
        places[time].path()
    });
}

#[test]
fn figure_backup_and_restore_killed_at_system_calls() {
    if !may_trace() {
        skip("backup and restore killed at system calls", "strace is not here or may not trace");
        return;
    }
    let (home, place) = (home(), Destination::new());
    let (open, broken) = (unfinished(&home), finished(&home));
    backed_up(&home, &place);
    let old = place.folder.path().join("old");
    copy_tree(&place.path(), &old);
    // The next backup extends one session and adds one; the restore adds, replaces and repairs.
    assert!(!advance(&mut home.client(), &open).is_error);
    unfinished(&home);
    backed_up(&home, &place);
    let hurt = place.folder.path().join("hurt");
    copy_tree(&old, &hurt);
    fs::remove_file(hurt.join("backup.json")).unwrap();
    damage(segments(&hurt.join("sessions").join(session(&broken))).last().unwrap());
    damage(&hurt.join(content(&hurt).first().unwrap()));
    let (from, full) = (home.data(), place.text());
    let work = place.folder.path().join("work");
    let mut kills = 0;
    for is_backup in [true, false] {
        for call in CALLS {
            for when in 1.. {
                copy_tree(if is_backup { &old } else { &hurt }, &work);
                let to = work.to_str().unwrap();
                let arguments = if is_backup { ["store", "backup", to] } else { ["store", "restore", &full] };
                let data = if is_backup { &from } else { &work };
                let unharmed = survives(data, &arguments, call, when);
                kills += usize::from(!unharmed);
                let found = run(&work, &["store", "verify", "--json"]);
                let problems = found.json()["counts"]["problems"].as_u64().unwrap();
                assert!(
                    problems == 0 || !is_backup && problems <= 2,
                    "{arguments:?}, {call} {when}: {found:?}"
                );
                let again = run(data, &arguments);
                assert_eq!(again.code, 0, "{arguments:?}, {call} {when}: {again:?}");
                assert_eq!(run(&work, &["store", "gc"]).code, 0);
                verified(&work);
                let (made, wanted) = (files(&work.join("sessions")), files(&from.join("sessions")));
                for (path, bytes) in
                    wanted.iter().filter(|(path, _)| !path.to_string_lossy().contains("cache"))
                {
                    assert_eq!(made.get(path), Some(bytes), "{arguments:?}, {call} {when}: {path:?}");
                }
                fs::remove_dir_all(&work).unwrap();
                if unharmed {
                    break;
                }
            }
        }
    }
    println!("figure: backup and restore killed at {kills} system calls: 0 copies damaged, 0 sessions lost");
    assert!(kills > 40);
}
