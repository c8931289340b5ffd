//! Commands about the whole store, its keys, passkeys and access tokens, and about nothing in it.

use serde_json::json;

use super::{program, tool, typed};
use crate::commands::{About, Command, Compare, Effect};
use crate::template::Template;

pub(super) fn reading(template: &Template) -> Vec<Command> {
    use About::{Elsewhere, Store};
    use Compare::{Diagnosis, PerSession, Success, Whole};
    let look = |name: &str, about, compare, arguments: &[&str]| {
        program(name, Effect::Looks, about, compare, arguments)
    };
    vec![
        look("status", Store, PerSession, &["status"]),
        look("sessions list", Store, PerSession, &["session", "list", "--all"]),
        look("sessions search", Store, PerSession, &["search", "the"]),
        look("sessions resume", Store, PerSession, &["resume", template.apart.word]),
        look("verify", Store, Diagnosis, &["store", "verify"]),
        look("doctor", Store, Diagnosis, &["doctor"]),
        look("gc dry run", Store, Success, &["store", "gc", "--dry-run"]),
        look("keys", Elsewhere, Diagnosis, &["store", "keys", "show"]),
        look("http secret", Elsewhere, Diagnosis, &["store", "keys", "http-secret"]),
        look("passkeys", Elsewhere, Whole, &["store", "passkeys", "show"]),
        look("tokens", Elsewhere, Whole, &["team", "token", "list"]),
        look("prefs show", Elsewhere, Whole, &["session", "prefs", "show"]),
        look("list", Elsewhere, Whole, &["workflow", "list"]),
        look("inspect", Elsewhere, Whole, &["workflow", "inspect", "team.walk"]),
        look("config", Elsewhere, Success, &["config", "list"]),
        look("config get", Elsewhere, Success, &["config", "get", "retention.ttl_days"]),
        look("config path", Elsewhere, Success, &["config", "path"]),
    ]
}

pub(super) fn tools() -> Vec<Command> {
    use About::{Elsewhere, Store};
    use Compare::{PerSession, Success, Whole};
    use Effect::{Looks, Writes};
    let resume = |name: &str, arguments| tool(name, Looks, Store, PerSession, "resume_session", arguments);
    let start = |name: &str, arguments| tool(name, Writes, Elsewhere, Success, "start_workflow", arguments);
    let inspected = json!({ "workflowId": "team.apart" });
    vec![
        tool("list tool", Looks, Elsewhere, Whole, "list_workflows", json!({})),
        tool("inspect tool", Looks, Elsewhere, Whole, "inspect_workflow", inspected),
        resume("resume by words", json!({ "query": "swifts" })),
        resume("resume by nothing", json!({})),
        start("start", json!({ "workflowId": "team.apart", "goal": "new" })),
        start("start the same", json!({ "workflowId": "team.walk" })),
    ]
}

pub(super) fn writing(template: &Template) -> Vec<Command> {
    use About::{Elsewhere, Session, Store};
    let write = |name: &str, about, arguments: &[&str]| {
        program(name, Effect::Writes, about, Compare::Success, arguments)
    };
    let bundle = template.bundle_path();
    let bundle = format!("../home/{}", bundle.file_name().unwrap().to_string_lossy());
    let (victim, apart) = (template.victim.session.as_str(), template.apart.session.as_str());
    vec![
        write("import", Elsewhere, &["session", "import", &bundle]),
        write("gc", Store, &["store", "gc"]),
        write("keep", Session(apart.to_owned()), &["session", "keep", apart]),
        // A sync failed in its folder.
        write("keep finished", Session(template.finished.clone()), &["session", "keep", &template.finished]),
        // The mark is not part of the session: it can be removed from a damaged one, too.
        write("unkeep", Elsewhere, &["session", "unkeep", victim]),
        write("delete", Session(apart.to_owned()), &["session", "delete", apart, "--yes"]),
    ]
}

/// Commands that errors and `doctor` recommend.
pub(super) fn next_steps() -> Vec<Command> {
    use About::{Elsewhere, Store};
    use Compare::Diagnosis;
    use Effect::{Looks, Repairs, Writes};
    let new_secret = ["store", "keys", "http-secret", "--new", "--yes"];
    vec![
        program("restore", Repairs, Store, Diagnosis, &["store", "restore", "../backup"]),
        program("restore dry run", Looks, Store, Diagnosis, &["store", "restore", "../backup", "--dry-run"]),
        program("backup", Writes, Store, Diagnosis, &["store", "backup", "../another-backup"]),
        program("backup again", Writes, Store, Diagnosis, &["store", "backup", "../backup"]),
        program("copy", Writes, Store, Diagnosis, &["store", "copy", "../data", "../another-store"]),
        program("keys new", Repairs, Elsewhere, Diagnosis, &["store", "keys", "new", "--yes"]),
        program("new http secret", Repairs, Elsewhere, Diagnosis, &new_secret),
        typed("passkeys reset", Repairs, Elsewhere, &["store", "passkeys", "reset"], "reset passkeys"),
    ]
}

pub(super) fn access(template: &Template) -> Vec<Command> {
    let write = |name: &str, arguments: &[&str]| {
        program(name, Effect::Writes, About::Elsewhere, Compare::Success, arguments)
    };
    vec![
        write("rotate keys", &["store", "keys", "rotate", "--yes"]),
        write("token create", &["team", "token", "create", "ci-bot", "--role", "viewer"]),
        write("token revoke", &["team", "token", "revoke", &template.token]),
    ]
}
