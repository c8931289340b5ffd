//! The access tokens of a team's server in a data directory: their damage has its own error and its own fix (G113).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use workrail_testkit::home::Home;

use crate::scene::{finished, home};
use crate::wording::assert_text;

const FILE: &str = "keys/access-tokens.json";

fn create_token(home: &Home) {
    home.done(&["team", "token", "create", "ada", "--role", "agent", "--json"]);
}

/// What `doctor` says about the tokens.
fn findings(home: &Home) -> Vec<Value> {
    let found = home.run(&["doctor", "--json"]).json()["findings"].as_array().unwrap().clone();
    found.into_iter().filter(|finding| finding["what"].to_string().contains("access tokens")).collect()
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path).unwrap().is_dir() {
        true => fs::remove_dir(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
}

/// Broke: neither `verify` nor `doctor` read them, and every other command advised new signing keys.
#[test]
fn damaged_access_tokens_are_named_with_a_fix_that_helps() {
    let home = home();
    finished(&home);
    create_token(&home);
    let file = home.data().join(FILE);
    let sound = fs::read_to_string(&file).unwrap();
    let elsewhere = home.root().join("elsewhere.json");
    fs::write(&elsewhere, &sound).unwrap();
    let ways: [(&str, &dyn Fn()); 5] = [
        ("cut off", &|| write_private(&file, &sound[..sound.len() / 2])),
        ("a token without a role", &|| write_private(&file, &sound.replace("\"role\"", "\"rule\""))),
        ("a newer version", &|| write_private(&file, &sound.replace("\"v\":1", "\"v\":2"))),
        ("a folder", &|| fs::create_dir(&file).unwrap()),
        ("a link", &|| symlink(&elsewhere, &file).unwrap()),
    ];
    let mut said = String::new();
    for (way, spoil) in ways {
        remove(&file);
        spoil();
        let verified = home.run(&["store", "verify", "--json"]);
        let report = verified.json();
        let problems = report["problems"].as_array().unwrap();
        let [problem] = &problems[..] else { panic!("{way}: {verified:?}") };
        assert_eq!((verified.code, &problem["subject"]), (1, &json!(FILE)), "{way}: {problem}");
        let listed = home.run(&["team", "token", "list", "--json"]);
        let code = &listed.json()["error"]["code"];
        assert_eq!((listed.code, code), (1, &json!("STORE_ACCESS_TOKENS_UNUSABLE")), "{way}: {listed:?}");
        let found = findings(&home);
        let [finding] = &found[..] else { panic!("{way}: {found:?}") };
        assert_eq!((&finding["level"], &finding["what"]), (&json!("problem"), &problem["problem"]), "{way}");
        assert_eq!(finding["fix"], problem["fix"], "{way}");
        let words = ["problem", "fix"].map(|name| problem[name].as_str().unwrap());
        said += &format!("{way}:\n{}\n\n", words.join("\n"));
    }
    assert_text(&home, "damaged_access_tokens", &said);

    // The fix: move the file aside and create tokens again.
    remove(&file);
    create_token(&home);
    assert_eq!(home.run(&["store", "verify"]).code, 0);
    assert_eq!(findings(&home), Vec::<Value>::new());
}

#[test]
fn access_tokens_that_others_can_read_need_permissions_and_no_new_tokens() {
    let home = home();
    finished(&home);
    create_token(&home);
    let file = home.data().join(FILE);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(home.run(&["store", "verify"]).code, 0, "they are not damaged");
    let found = findings(&home);
    let [finding] = &found[..] else { panic!("{found:?}") };
    let words = ["what", "fix"].map(|name| finding[name].as_str().unwrap());
    assert_text(&home, "access_tokens_that_others_can_read", &words.join("\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(findings(&home), Vec::<Value>::new());
    home.done(&["team", "token", "list"]);
}
