//! Settings, clients, and the commands that explain.

use crate::stage::Stage;

#[test]
fn config() {
    let stage = Stage::new();
    stage.say_both(&["config", "list"]);
    stage.say_both(&["config", "get", "retention.ttl_days"]);
    stage.say(&["config", "set", "retention.ttl_days", "30"]);
    stage.say(&["config", "set", "retention.ttl_days", "soon"]);
    stage.say(&["config", "set", "retention.ttl_day", "30"]);
    stage.say(&["config", "get", "retention.ttl_days"]);
    stage.say(&["config", "set", "retention.ttl_days"]);
    stage.say(&["config", "set", "retention.ttl_days", "20", "--json"]);
    stage.say_both(&["config", "path"]);
    stage.say(&["config", "edit"]);
    stage.say_with("EDITOR", "true", &["config", "edit"]);
    stage.compare("config");
}

#[test]
fn clients() {
    let stage = Stage::new();
    stage.say_both(&["install", "--list"]);
    stage.say(&["install", "--client", "cursor", "--dry-run"]);
    stage.say_both(&["install", "--client", "cursor"]);
    stage.say(&["install", "--client", "cursor", "--scope", "project"]);
    stage.say_both(&["uninstall", "--client", "cursor"]);
    stage.say(&["uninstall", "--client", "gemini"]);
    stage.compare("setup_clients");
}

#[test]
fn explain_every_code() {
    let stage = Stage::new();
    stage.say(&["explain", "--list"]);
    stage.compare("explain_list");
}

#[test]
fn explain_and_usage() {
    let stage = Stage::new();
    stage.say(&["explain", "token_bad_signature"]);
    stage.say_both(&["explain", "unknown-field"]);
    stage.say(&["explain", "loop_limit_reached"]);
    stage.say(&["explain", "needs_user_choice"]);
    stage.say(&["explain", "unknwon-field"]);
    stage.say(&["explain", "NO_SUCH_CODE"]);
    stage.say(&["verify"]);
    stage.say(&["session", "list", "--no-such"]);
    stage.say(&["session", "list", "--no-such", "--json"]);
    stage.compare("explain_and_usage");
}

#[test]
fn doctor() {
    let stage = Stage::new();
    stage.say_both(&["doctor"]);
    stage.compare("doctor");
}
