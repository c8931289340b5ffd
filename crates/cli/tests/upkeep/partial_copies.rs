//! `backup` and `restore` with sessions and keys that cannot be used: the rest is copied, and each is reported (G20, G26).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workrail_testkit::home::{CommandRun, Home};
use workrail_testkit::mcp_client::ToolReply;

use crate::reading::Copied;
use crate::scene::{content, finished, home, run, session, session_dir, unfinished};
use crate::wording::assert_text;

fn deny(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
}

fn allow(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// A store with three sessions, owned by a user without privileges, and its backup.
struct Scene {
    home: Home,
    copy: Copied,
    ids: Vec<String>,
    backup: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let home = home();
        let ids = (0..3).map(|_| session(&finished(&home))).collect();
        let copy = Copied::of(&home);
        let backup = copy.data().with_file_name("backup");
        let scene = Self { home, copy, ids, backup };
        assert_eq!(scene.run("backup").code, 0);
        scene
    }

    fn run(&self, command: &str) -> CommandRun {
        self.copy.run(&["store", command, self.backup.to_str().unwrap(), "--json"])
    }

    fn in_store(&self, index: usize) -> PathBuf {
        self.copy.data().join("sessions").join(&self.ids[index])
    }

    fn in_backup(&self, index: usize) -> PathBuf {
        self.backup.join("sessions").join(&self.ids[index])
    }
}

/// The one problem of a copy that did the rest.
fn only_problem(said: &CommandRun) -> Value {
    assert_eq!(said.code, 1, "{said:?}");
    let result = &said.json()["result"];
    assert_eq!(result["problemCount"], 1, "{said:?}");
    result["problems"][0].clone()
}

/// What is wrong, and what to do about it.
fn words(problem: &Value) -> String {
    ["problem", "fix"].map(|name| problem[name].as_str().unwrap()).join("\n")
}

/// Broke: nothing was restored, and the advice was about the other folder.
#[test]
fn an_unreadable_session_of_the_store_does_not_stop_a_restore() {
    let scene = Scene::new();
    for index in [1, 2] {
        fs::remove_dir_all(scene.in_store(index)).unwrap();
    }
    deny(&scene.in_store(0));
    let restored = scene.run("restore");
    allow(&scene.in_store(0));
    let problem = only_problem(&restored);
    assert_eq!(problem["subject"], *scene.ids[0], "{problem}");
    assert_text(&scene.home, "restore_with_an_unreadable_session_of_the_store", &words(&problem));
    assert_eq!(restored.json()["result"]["sessions"]["added"], 2, "{restored:?}");
    assert!(scene.in_store(1).exists() && scene.in_store(2).exists());
}

/// Broke: every later backup failed.
#[test]
fn an_unusable_session_of_the_backup_does_not_stop_a_backup() {
    for (is_denied, name) in
        [(true, "backup_over_an_unreadable_session"), (false, "backup_over_a_link_in_place_of_a_session")]
    {
        let scene = Scene::new();
        fs::remove_dir_all(scene.in_backup(1)).unwrap();
        if is_denied {
            deny(&scene.in_backup(0));
        } else {
            fs::remove_dir_all(scene.in_backup(0)).unwrap();
            std::os::unix::fs::symlink("/", scene.in_backup(0)).unwrap();
        }
        let backed_up = scene.run("backup");
        if is_denied {
            allow(&scene.in_backup(0));
        }
        let problem = only_problem(&backed_up);
        assert_eq!(problem["subject"], *scene.ids[0], "{problem}");
        assert_text(&scene.home, name, &words(&problem));
        assert!(scene.in_backup(1).join("manifest.jsonl").exists());
    }
}

/// Broke: the session was given up, although all its events were there.
#[test]
fn a_session_without_its_manifest_in_the_backup_is_restored_from_its_segments() {
    let home = home();
    let reply = finished(&home);
    let backup = tempfile::tempdir().unwrap();
    let place = backup.path().to_str().unwrap();
    assert_eq!(home.run(&["store", "backup", place]).code, 0);
    let (folder, id) = (session_dir(&home, &reply), session(&reply));
    let events = |home: &Home| home.run(&["log", &id, "--json"]).out;
    let (before, manifest) = (events(&home), fs::read(folder.join("manifest.jsonl")).unwrap());
    fs::remove_dir_all(&folder).unwrap();
    fs::remove_file(backup.path().join("sessions").join(&id).join("manifest.jsonl")).unwrap();

    let restored = home.run(&["store", "restore", place, "--json"]);
    let problem = only_problem(&restored);
    assert_eq!(restored.json()["result"]["sessions"]["added"], 1, "{restored:?}");
    assert_eq!(fs::read(folder.join("manifest.jsonl")).unwrap(), manifest);
    assert_eq!(events(&home), before);
    let repair = format!("WORKRAIL_DATA_DIR=BACKUP workrail store repair {id}");
    assert!(problem["fix"].as_str().unwrap().contains(&repair), "{problem}");
    let repaired = run(backup.path(), &["store", "repair", &id, "--yes"]);
    assert_eq!(repaired.code, 0, "the advice works: {repaired:?}");
    assert_eq!(home.run(&["store", "restore", place]).code, 0);
}

/// Broke: the advice was to use an older backup.
#[test]
fn an_unreadable_manifest_in_the_backup_needs_a_permission() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.in_store(0)).unwrap();
    deny(&scene.in_backup(0).join("manifest.jsonl"));
    let problem = only_problem(&scene.run("restore"));
    assert_text(&scene.home, "restore_of_an_unreadable_manifest", &words(&problem));
    assert!(!scene.in_store(0).exists());
}

/// Broke: new keys replaced the backup's copy of the lost ones, without a word.
#[test]
fn a_backup_keeps_keys_that_the_store_lost() {
    let home = home();
    unfinished(&home);
    let backup = tempfile::tempdir().unwrap();
    let place = backup.path().to_str().unwrap();
    let keyring = home.data().join("keys/keyring.json");
    let lost = fs::read(&keyring).unwrap();
    assert_eq!(home.run(&["store", "backup", place]).code, 0);

    fs::remove_file(&keyring).unwrap();
    let said = home.run(&["store", "backup", place]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_text(&home, "backup_of_a_store_that_lost_its_keys", &said.out.replace(place, "BACKUP"));

    assert_eq!(home.run(&["store", "keys", "new", "--yes"]).code, 0);
    let said = home.run(&["store", "backup", place]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("keys/keyring.replaced-1"), "{said:?}");
    assert_eq!(fs::read(backup.path().join("keys/keyring.replaced-1")).unwrap(), lost);
    assert_eq!(fs::read(backup.path().join("keys/keyring.json")).unwrap(), fs::read(&keyring).unwrap());
    let verified = run(backup.path(), &["store", "verify", "--json"]);
    assert_eq!(verified.json()["notes"].as_array().map(Vec::len), Some(0), "{verified:?}");

    // A rotated keyring still has the old key.
    assert_eq!(home.run(&["store", "keys", "rotate", "--yes"]).code, 0);
    let said = home.run(&["store", "backup", place]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!backup.path().join("keys/keyring.replaced-2").exists());

    // After the next rotation, the backup's older key is in no keyring of the store.
    let older = fs::read(backup.path().join("keys/keyring.json")).unwrap();
    assert_eq!(home.run(&["store", "keys", "rotate", "--yes"]).code, 0);
    assert_eq!(home.run(&["store", "backup", place]).code, 0);
    assert_eq!(fs::read(backup.path().join("keys/keyring.replaced-2")).unwrap(), older);

    // A disk that gives its own permissions to every file does not make the same keys look like others.
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(backup.path().join("keys/keyring.json"), open).unwrap();
    assert_eq!(home.run(&["store", "backup", place]).code, 0);
    assert!(!backup.path().join("keys/keyring.replaced-3").exists());
}

/// Broke: a backup without usable keys looked complete.
#[test]
fn a_backup_reports_keys_that_cannot_be_used() {
    let home = home();
    unfinished(&home);
    let keyring = home.data().join("keys/keyring.json");
    let sound = fs::read(&keyring).unwrap();
    for is_lost in [true, false] {
        let backup = tempfile::tempdir().unwrap();
        match is_lost {
            true => fs::remove_file(&keyring).unwrap(),
            false => fs::write(&keyring, "{}").unwrap(),
        }
        let said = home.run(&["store", "backup", backup.path().to_str().unwrap(), "--json"]);
        assert_eq!(only_problem(&said)["subject"], "keys/keyring.json", "{said:?}");
        assert_eq!(content(backup.path()), content(&home.data()), "the rest is copied");
        fs::write(&keyring, &sound).unwrap();
        fs::set_permissions(&keyring, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// A copy of a folder with everything in it.
fn copied(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

/// Completes the run's step with these notes.
fn advanced(home: &Home, reply: &ToolReply, notes: &str) {
    let mut client = home.client();
    let output = json!({ "notesMarkdown": notes });
    let call = json!({ "ackToken": reply.string("ackToken"), "output": output });
    let done = client.call("continue_workflow", call);
    assert!(!done.is_error, "{}", done.text);
    client.close();
}

/// Broke: the restore replaced a completed write that the next writer would have committed, without a word.
#[test]
fn a_restore_keeps_a_completed_write_that_waits_to_be_committed() {
    for is_in_backup in [true, false] {
        let home = home();
        let reply = unfinished(&home);
        let (folder, id) = (session_dir(&home, &reply), session(&reply));
        let scratch = tempfile::tempdir().unwrap();
        let (before, backup) = (scratch.path().join("before"), scratch.path().join("backup"));
        let place = backup.to_str().unwrap();
        copied(&home.data(), &before);
        let committed = fs::read(folder.join("manifest.jsonl")).unwrap();
        advanced(&home, &reply, "The roof was mended.");
        assert_eq!(home.run(&["store", "backup", place]).code, 0);
        if !is_in_backup {
            fs::remove_dir_all(home.data()).unwrap();
            copied(&before, &home.data());
            advanced(&home, &reply, "The shed was painted.");
        }
        // Power was lost between the segment and the manifest.
        fs::write(folder.join("manifest.jsonl"), &committed).unwrap();

        let restored = home.run(&["store", "restore", place, "--json"]);
        if is_in_backup {
            assert_eq!(restored.json()["result"]["sessions"]["extended"], 1, "{restored:?}");
        } else {
            // As for every session with another history: it is left, and named.
            assert_eq!(restored.code, 0, "{restored:?}");
            let change = &restored.json()["result"]["changes"][0];
            assert_eq!(change["sessionId"], *id, "{change}");
            assert_text(&home, "restore_of_a_session_with_another_history", change["why"].as_str().unwrap());
        }
        // The next writer commits it.
        assert_eq!(home.run(&["store", "repair", &id, "--yes"]).code, 0);
        let log = home.run(&["report", &id]).out;
        let kept = if is_in_backup { "The roof was mended." } else { "The shed was painted." };
        assert!(log.contains(kept), "{log}");
        let verified = home.run(&["store", "verify", "--json"]);
        assert_eq!(verified.code, 0, "{verified:?}");
    }
}
