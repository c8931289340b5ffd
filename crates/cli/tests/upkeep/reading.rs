//! Reading needs no key, no lock and no write permission, and leaves nothing behind (G16).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use workrail_testkit::home::{CommandRun, Home, NOBODY, User};
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::skipped::skip;

use crate::scene::{PROGRAM, advance, finished, home, label, session, session_dir, start, unfinished};
use crate::wording::assert_text;

fn is_root() -> bool {
    User::find() != User::Ourselves
}

/// A home without root's privileges, on a data directory. Creating one starts two processes, so a test does it once.
fn unprivileged(data: &Path) -> Home {
    Home::new(PROGRAM).given_to(User::find()).with_data(data)
}

/// Every path below a folder, with attributes that show whether it was touched.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, u64, i64)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        if stat.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path, (stat.mode(), stat.len(), stat.mtime_nsec()));
    }
    found
}

/// A copy of a store owned by the unprivileged user, and the home from which that user reads it.
pub(crate) struct Copied {
    folder: tempfile::TempDir,
    reader: Home,
}

impl Copied {
    pub(crate) fn of(home: &Home) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copied = Command::new("cp").arg("-a").arg(home.data()).arg(folder.path().join("data")).status();
        assert!(copied.unwrap().success());
        let reader = unprivileged(&folder.path().join("data"));
        let copy = Self { folder, reader };
        copy.chown(NOBODY);
        copy
    }

    /// Runs the program on the copy, without root's privileges.
    pub(crate) fn run(&self, arguments: &[&str]) -> CommandRun {
        self.reader.run(arguments)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn chown(&self, user: u32) {
        if is_root() {
            let owner = format!("{user}:{user}");
            assert!(
                Command::new("chown")
                    .args(["-R", &owner])
                    .arg(self.folder.path())
                    .status()
                    .unwrap()
                    .success()
            );
        }
    }

    fn chmod(&self, mode: &str) {
        assert!(Command::new("chmod").args(["-R", mode]).arg(self.data()).status().unwrap().success());
    }

    fn keyring(&self) -> PathBuf {
        self.data().join("keys/keyring.json")
    }
}

/// The read-only commands, for a store with this run.
fn reading(run: &ToolReply) -> Vec<Vec<String>> {
    let (label, session) = (label(run), session(run));
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    [
        "store verify".to_owned(),
        "store verify --json".to_owned(),
        "session list --json".to_owned(),
        format!("show {label}"),
        format!("log {label}"),
        format!("tree {label} --ascii"),
        "search shed".to_owned(),
        format!("resume {label}"),
        format!("report {label}"),
        format!("session export {session} -o -"),
        format!("store repair {session} --dry-run"),
        format!("session prefs show --session {label}"),
        "config list".to_owned(),
        "workflow list".to_owned(),
        "workflow inspect wr.small_change".to_owned(),
    ]
    .iter()
    .map(|text| words(text))
    .collect()
}

fn call(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn reading_a_missing_data_directory_finds_nothing_and_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let home = unprivileged(&folder.path().join("data"));
    let quiet: [&[&str]; 10] = [
        &["store", "verify"],
        &["store", "verify", "--all", "--json"],
        &["session", "list"],
        &["search", "shed"],
        &["resume"],
        &["store", "keys", "show"],
        &["config", "list"],
        &["doctor"],
        &["workflow", "list"],
        &["workflow", "inspect", "wr.small_change"],
    ];
    for arguments in quiet {
        let said = home.run(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
    }
    let unknown: [&[&str]; 9] = [
        &["show", "amber-falcon"],
        &["log", "amber-falcon"],
        &["tree", "amber-falcon"],
        &["report", "amber-falcon"],
        &["session", "export", "amber-falcon", "-o", "-"],
        &["store", "repair", "sess_a7pgws9t9jhg9wjr", "--dry-run"],
        &["store", "keys", "new", "--yes"],
        &["store", "keys", "rotate", "--yes"],
        &["store", "keys", "http-secret"],
    ];
    for arguments in unknown {
        let said = home.run(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {said:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "something was created");
}

#[test]
fn reading_works_on_a_read_only_copy() {
    let home = home();
    let run = finished(&home);
    unfinished(&home);
    let copy = Copied::of(&home);
    copy.chmod("a-w");
    let before = tree(&copy.data());
    for words in reading(&run).iter().chain(&[vec!["store".to_owned(), "keys".to_owned(), "show".to_owned()]])
    {
        let said = copy.run(&call(words));
        assert_eq!(said.code, 0, "{words:?}: {said:?}");
    }
    // Reading works, but no run can be started or continued there.
    let said = copy.run(&["doctor", "--json"]).json();
    let problems: Vec<&Value> =
        said["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "problem").collect();
    assert_eq!(problems.len(), 1, "{said}");
    let [what, fix] = ["what", "fix"].map(|name| problems[0][name].as_str().unwrap());
    let text = format!("{what}\n{fix}").replace(copy.data().to_str().unwrap(), "DATA");
    assert_text(&home, "doctor_of_a_read_only_copy", &text);
    assert_eq!(tree(&copy.data()), before, "something was written");
    copy.chmod("u+w");
}

#[test]
fn reading_needs_no_usable_keyring() {
    let home = home();
    let run = unfinished(&home);
    type Spoil = fn(&Copied);
    let ways: [(&str, Spoil); 7] = [
        ("missing", |copy| fs::remove_file(copy.keyring()).unwrap()),
        ("empty", |copy| fs::write(copy.keyring(), "").unwrap()),
        ("damaged", |copy| fs::write(copy.keyring(), "{\"v\":1,\"current\":\"AA").unwrap()),
        ("unreadable", |copy| {
            fs::set_permissions(copy.keyring(), fs::Permissions::from_mode(0o000)).unwrap();
        }),
        ("readable by others", |copy| {
            fs::set_permissions(copy.keyring(), fs::Permissions::from_mode(0o644)).unwrap();
        }),
        ("a folder", |copy| {
            fs::remove_file(copy.keyring()).unwrap();
            fs::create_dir(copy.keyring()).unwrap();
        }),
        ("a closed folder of keys", |copy| {
            fs::set_permissions(copy.data().join("keys"), fs::Permissions::from_mode(0o000)).unwrap();
        }),
    ];
    for (way, spoil) in ways {
        let copy = Copied::of(&home);
        spoil(&copy);
        // Lost or damaged keys are a problem of the store; permissions are not.
        let is_loss = ["missing", "empty", "damaged", "a folder"].contains(&way);
        for words in reading(&run) {
            let said = copy.run(&call(&words));
            let is_verify = words.iter().any(|word| word == "verify");
            assert_eq!(said.code, i32::from(is_verify && is_loss), "{way}: {words:?}: {said:?}");
            assert!(!(is_verify && is_loss) || said.out.contains("keys/keyring.json"), "{way}: {said:?}");
        }
        let resumed = copy.run(&["resume", "--json"]).json();
        assert_eq!(resumed["keyring"]["error"]["code"], "STORE_KEYRING_UNUSABLE", "{way}: {resumed}");
        assert_eq!(resumed["candidates"][0]["label"], json!(label(&run)), "{way}");
        assert!(resumed["candidates"][0].get("nextCall").is_none(), "{way}: {resumed}");
        let shown = copy.run(&["store", "keys", "show", "--json"]);
        assert_eq!(
            (shown.code, &shown.json()["error"]["code"]),
            (1, &json!("STORE_KEYRING_UNUSABLE")),
            "{way}: {shown:?}"
        );
        assert_eq!(copy.run(&["doctor"]).code, 1, "{way}");
        fs::set_permissions(copy.data().join("keys"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn keys_of_another_user_are_refused_and_reading_still_works() {
    if !is_root() {
        skip("keys of another user", "only root can give files away");
        return;
    }
    let home = home();
    let run = unfinished(&home);
    let copy = Copied::of(&home);
    for words in reading(&run) {
        let said = crate::scene::run(&copy.data(), &call(&words));
        assert_eq!(said.code, 0, "{words:?}: {said:?}");
    }
    let shown = crate::scene::run(&copy.data(), &["store", "keys", "show", "--json"]).json();
    assert_eq!(shown["error"]["code"], "STORE_KEYRING_UNUSABLE", "{shown}");
}

#[test]
fn a_damaged_session_is_repaired_without_keys() {
    let home = home();
    let run = unfinished(&home);
    let manifest = session_dir(&home, &run).join("manifest.jsonl");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, format!("{text}{{}}\n")).unwrap();
    fs::write(home.data().join("keys/keyring.json"), "").unwrap();
    let done = home.run(&["store", "repair", &session(&run), "--yes", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(fs::read(home.data().join("keys/keyring.json")).unwrap(), b"");
}

#[test]
fn a_lost_keyring_is_an_error_until_new_keys_are_requested() {
    for (way, text) in [("missing", None), ("empty", Some("")), ("damaged", Some("{\"v\":1}"))] {
        let home = home();
        let mut server = home.client();
        let first = start(&mut server);
        let keyring = home.data().join("keys/keyring.json");
        match text {
            None => fs::remove_file(&keyring).unwrap(),
            Some(text) => fs::write(&keyring, text).unwrap(),
        }
        let state = json!({ "stateToken": first.string("stateToken") });
        let mut later = home.client();
        for client in [&mut server, &mut later] {
            for (tool, arguments) in [
                ("start_workflow", json!({ "workflowId": "team.one" })),
                ("continue_workflow", state.clone()),
                ("resume_session", json!({})),
            ] {
                let refused = client.call(tool, arguments);
                assert_eq!(refused.code(), "STORE_KEYRING_UNUSABLE", "{way} {tool}: {}", refused.text);
            }
        }
        assert_eq!(
            fs::read_to_string(&keyring).ok().as_deref(),
            text,
            "{way}: the keyring was replaced silently"
        );
        assert_eq!(home.run(&["store", "keys", "rotate", "--yes"]).code, 1, "{way}");
        assert_eq!(home.run(&["store", "keys", "new"]).code, 2, "{way}: new keys ask a person");
        assert!(home.typed(&["store", "keys", "new"], "no").code != 0, "{way}");

        let made = home.run(&["store", "keys", "new", "--yes", "--json"]);
        assert_eq!(made.code, 0, "{way}: {made:?}");
        match text {
            None => assert_eq!(made.json()["movedTo"], Value::Null),
            Some(text) => {
                let aside = home.data().join(made.json()["movedTo"].as_str().unwrap());
                assert_eq!(fs::read_to_string(aside).unwrap(), text, "{way}");
            }
        }
        assert_eq!(
            home.run(&["store", "keys", "new", "--yes"]).code,
            2,
            "{way}: usable keys are not replaced"
        );
        assert_eq!(home.run(&["store", "verify"]).code, 0, "{way}: the file that was moved aside is known");
        // A server that was running all the time continues with the new keys.
        assert_eq!(server.call("continue_workflow", state.clone()).code(), "TOKEN_BAD_SIGNATURE", "{way}");
        let found = server.call("resume_session", json!({}));
        let next = &found.data["candidates"][0]["nextCall"]["arguments"];
        let looked = server.call("continue_workflow", next.clone());
        assert!(!looked.is_error, "{way}: {}", looked.text);
        assert!(!advance(&mut server, &looked).is_error, "{way}");
    }
}

#[test]
fn a_server_creates_keys_with_the_first_run_and_not_before() {
    let home = home();
    let mut server = home.client();
    let keyring = home.data().join("keys/keyring.json");
    server.call("list_workflows", json!({}));
    let looked = server.call("continue_workflow", json!({ "stateToken": "st.v2.amber-falcon.x" }));
    assert!(looked.is_error);
    assert!(!server.call("resume_session", json!({})).is_error);
    assert!(!keyring.exists(), "looking made keys");
    start(&mut server);
    assert_eq!(fs::metadata(&keyring).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn an_import_into_a_new_store_creates_its_keys() {
    let home = home();
    let run = unfinished(&home);
    let bundle = home.data().join("run.bundle.json");
    let bundle = bundle.to_str().unwrap();
    assert_eq!(home.run(&["session", "export", &session(&run), "-o", bundle]).code, 0);
    let other = crate::scene::home();
    assert_eq!(other.run(&["session", "import", bundle, "--dry-run"]).code, 0);
    assert_eq!(fs::read_dir(other.data()).unwrap().count(), 0, "a dry run made something");
    assert_eq!(other.run(&["session", "import", bundle]).code, 0);
    let found = other.client().call("resume_session", json!({}));
    assert!(!found.is_error, "{}", found.text);
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error_and_not_a_panic() {
    let home = home();
    let run = finished(&home);
    home.run(&["doctor"]);
    let more: [&[&str]; 7] = [
        &["--help"],
        &["--version"],
        &["store", "keys", "show"],
        &["doctor"],
        &["setup", "completions", "bash"],
        &["explain", "STORE_BUSY"],
        &["config", "list", "--json"],
    ];
    let more = more.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect());
    for words in reading(&run).into_iter().chain(more) {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = home.command(&call(&words));
        let ended = command.stdin(Stdio::null()).stdout(full).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {said}");
        assert!(!said.contains("panicked"), "{words:?}: {said}");
    }
}
