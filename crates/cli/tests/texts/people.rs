//! What people grant: tokens of a team, passkeys, and trust in the commands of a project.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use workrail_model::digest::Sha256;
use workrail_testkit::authenticator::{Authenticator, enrolments};

use crate::stage::Stage;

#[test]
fn team_tokens() {
    let stage = Stage::new();
    stage.say_both(&["team", "token", "list"]);
    stage.say(&["team", "token", "create", "ci-bot", "--role", "agent"]);
    stage.say(&["team", "token", "create", "ada", "--role", "approver", "--expires", "30d", "--json"]);
    stage.say(&["team", "token", "create", "ada", "--role", "owner"]);
    stage.say(&["team", "token", "create", "eve", "--role", "viewer", "--expires", "soon"]);
    stage.say_both(&["team", "token", "list"]);
    let listed = stage.home().done(&["team", "token", "list", "--json"]).json();
    let id = |number: usize| listed["tokens"][number]["id"].as_str().unwrap().to_owned();
    stage.say(&["team", "token", "revoke", &id(0)]);
    stage.say(&["team", "token", "revoke", &id(0)]);
    stage.say(&["team", "token", "revoke", &id(1), "--json"]);
    stage.say(&["team", "token", "revoke", "ada"]);
    stage.say_both(&["team", "token", "revoke", "tok_0000000000000000"]);
    stage.say(&["team", "token", "list"]);
    stage.compare("team_token");
}

#[test]
fn passkeys() {
    let stage = Stage::new();
    stage.say_both(&["store", "passkeys", "show"]);
    stage.say_both(&["store", "passkeys", "reset"]);
    let log = enrolments(&[Authenticator::new(1), Authenticator::new(2)]);
    let last = Sha256::of(log.lines().last().unwrap().as_bytes());
    let write = |name: &str, text: &str| {
        let folder = stage.home().data().join("keys");
        let path = folder.join(name);
        stage.home().write(&path, text);
        std::fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    };
    write("passkeys.jsonl", &log);
    write("passkeys.head", &format!("{last}\n"));
    stage.say_both(&["store", "passkeys", "show"]);
    stage.say_both(&["store", "passkeys", "reset"]);
    stage.type_line(&["store", "passkeys", "reset"], "yes");
    stage.type_line(&["store", "passkeys", "reset"], "reset passkeys");
    stage.say(&["store", "passkeys", "show"]);
    write("passkeys.jsonl", &log.replacen("Device", "Devise", 1));
    stage.say_both(&["store", "passkeys", "show"]);
    stage.compare("store_passkeys");
}

#[test]
fn trust() {
    let stage = Stage::new();
    stage.say_both(&["trust"]);
    stage.say_both(&["trust", "list"]);
    stage.project_file("package.json", "{ \"scripts\": { \"test\": \"node --test\" } }\n");
    stage.say(&["trust", "propose", "--print"]);
    stage.say(&["trust", "propose", "--print", "--json"]);
    stage.say(&["trust", "propose"]);
    stage.say_both(&["trust", "propose"]);
    stage.project_file(".workrail/checks.toml", "[test]\nargv = [\"sh\", \"check.sh\"]\n");
    stage.project_file("check.sh", "true\n");
    stage.home().workflow(&serde_json::json!({
        "id": "team.checked", "name": "Checked", "description": "Runs a check.", "version": "1.0.0",
        "steps": [{ "id": "work", "title": "Work", "prompt": "Do it.", "checks": [{ "command": "test" }] }],
    }));
    stage.say_both(&["trust"]);
    stage.type_line(&["trust"], "yes");
    stage.type_line(&["trust"], "project");
    stage.say_both(&["trust"]);
    stage.say_both(&["trust", "list"]);
    stage.say(&["trust", "revoke", "lint"]);
    stage.say(&["trust", "revoke", "test"]);
    stage.say(&["trust", "revoke", "test", "--json"]);
    stage.compare("trust");
}
