//! What the engine and the hooks observed, through the real binary and a real repository.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod claims;
mod replayed;
mod scope;
#[path = "../wording/mod.rs"]
mod wording;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply, with_own_words};

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A home whose project is a repository with one commit, and a workflow that plans before it builds.
fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.careful", "name": "Careful", "description": "Plans before it builds.", "version": "1.0.0",
        "steps": [
            { "id": "plan", "title": "Plan", "prompt": "Plan it.", "edits": { "allow": ["docs/**"] } },
            { "id": "build", "title": "Build", "prompt": "Build it." },
        ],
    }));
    home.write(&home.project().join("README.md"), "# Tool\n");
    git(&home, &["init", "-q", "-b", "main"]);
    git(&home, &["add", "."]);
    commit(&home, "one");
    home
}

/// One for the names of filters, unless they are known to be unchanged, and one for the state of the tree.
const GIT_RUNS_MAX: usize = 2;

fn git(home: &Home, arguments: &[&str]) -> String {
    home.git(&home.project(), arguments)
}

fn commit(home: &Home, message: &str) {
    git(home, &["commit", "-q", "-m", message]);
}

fn start(home: &Home, client: &mut McpClient, mode: &str) -> ToolReply {
    start_of(home, client, "team.careful", mode)
}

fn start_of(home: &Home, client: &mut McpClient, workflow: &str, mode: &str) -> ToolReply {
    let workspace = home.project();
    client.call(
        "start_workflow",
        json!({ "workflowId": workflow, "mode": mode, "workspacePath": workspace.to_str().unwrap() }),
    )
}

fn edit(home: &Home, path: &str, text: &str) {
    home.write(&home.project().join(path), text);
}

/// The evidence in a run's log.
fn evidence(home: &Home, run: &str) -> Vec<Value> {
    let log = home.done(&["log", run, "--json"]).json();
    let events = log["events"].as_array().unwrap().iter();
    events.filter(|event| event["kind"] == "evidence_recorded").map(|event| event["data"].clone()).collect()
}

/// The paths that changed since the step began, as last recorded.
fn changed(home: &Home, run: &str) -> Value {
    evidence(home, run).last().unwrap()["evidence"]["changed"]["paths"].clone()
}

/// G106: the tree shows what a shell did around the hook, uncommitted or committed.
#[test]
fn a_forbidden_edit_blocks_until_it_is_undone() {
    let home = home();
    let base = git(&home, &["rev-parse", "HEAD"]);
    let mut client = home.client();
    let first = start(&home, &mut client, "guided");
    let run = first.label();
    edit(&home, "docs/plan.md", "The plan.\n");
    edit(&home, "src/tool.rs", "fn main() {}\n");

    let blocked = client.next(&first);
    let blocker = &blocked.data["blockers"][0];
    assert_eq!(blocker["code"], "EDITS_NOT_ALLOWED", "{}", blocked.data);
    let told = "Since this step began, files changed that it does not allow: src/tool.rs.";
    assert_eq!(blocker["message"], told);
    assert_eq!(changed(&home, &run), json!(["docs/plan.md", "src/tool.rs"]));

    git(&home, &["add", "src"]);
    commit(&home, "too soon");
    let blocked = client.next(&blocked);
    assert_eq!(blocked.data["blockers"][0]["message"], told, "a commit hides nothing");

    git(&home, &["reset", "-q", "--hard", &base]);
    let built = client.next(&blocked);
    assert_eq!(built.step(), "build", "{}", built.data);
    assert_eq!(changed(&home, &run), json!(["docs/plan.md"]));
    let seen = evidence(&home, &run);
    assert!(seen.iter().all(|one| one["grade"] == "checked"), "{seen:?}");
    assert_eq!(seen.last().unwrap()["evidence"]["head"], json!(base));

    // The next step restricts nothing, and starts from the state that the previous one left.
    edit(&home, "src/tool.rs", "fn main() { }\n");
    assert_eq!(client.next(&built).data["isComplete"], true);
    assert_eq!(changed(&home, &run), json!(["src/tool.rs"]));
    let report = home.done(&["report", &run, "--format", "json"]).json();
    let attempts = &report["runs"][0]["nodes"][0]["attempts"];
    assert_eq!(attempts[0]["evidence"][0]["grade"], "checked", "{attempts}");
}

#[test]
fn never_stop_records_a_gap_after_the_agents_tries() {
    let home = home();
    let mut client = home.client();
    let mut at = start(&home, &mut client, "full_auto_never_stop");
    let run = at.label();
    edit(&home, "src/tool.rs", "fn main() {}\n");
    for _ in 0..2 {
        at = client.next(&at);
        assert_eq!(at.data["blockers"][0]["code"], "EDITS_NOT_ALLOWED", "{}", at.data);
    }
    assert_eq!(client.next(&at).step(), "build");
    let log = home.done(&["log", &run, "--json"]).json();
    let mut events = log["events"].as_array().unwrap().iter();
    let gap = events.find(|event| event["kind"] == "gap_recorded").unwrap();
    assert_eq!(
        gap["data"]["reason"],
        json!({ "category": "contract_violation", "detail": "edits_not_allowed" })
    );
}

/// G30: a repeated call returns what was recorded, without looking again.
#[test]
fn a_repeated_call_returns_the_recorded_facts_whatever_the_tree_is_now() {
    let home = home();
    let mut client = home.client();
    let first = start(&home, &mut client, "guided");
    let built = client.next(&first);
    let before = evidence(&home, &first.label());
    edit(&home, "src/tool.rs", "fn main() {}\n");
    let again = client.next(&first);
    assert_eq!((again.step(), again.string("ackToken")), (built.step(), built.string("ackToken")));
    assert_eq!(evidence(&home, &first.label()), before);
}

/// The same home with a `git` that counts its runs, and how often it ran so far.
fn with_counted_git(home: &Home) -> (Home, impl Fn() -> usize) {
    let (folder, runs) = (home.root().join("bin"), home.root().join("runs"));
    let own = std::env::var("PATH").unwrap();
    let git = own.split(':').map(|folder| Path::new(folder).join("git")).find(|file| file.is_file()).unwrap();
    let script = format!("#!/bin/sh\necho run >> '{}'\nexec '{}' \"$@\"\n", runs.display(), git.display());
    home.write(&folder.join("git"), &script);
    std::fs::set_permissions(folder.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let counted = home.with("PATH", format!("{}:{own}", folder.display()));
    (counted, move || std::fs::read_to_string(&runs).unwrap_or_default().lines().count())
}

/// G104: looking at a repository starts git a fixed number of times, however much has changed in it.
#[test]
fn the_runs_of_git_do_not_grow_with_the_repository() {
    let runs = |edited: usize| {
        let home = home();
        let (counted, count) = with_counted_git(&home);
        let mut client = counted.client();
        let first = start(&home, &mut client, "guided");
        let started = count();
        for file in 0..edited {
            edit(&home, &format!("docs/{}/{file}.md", file % 10), "A line.\n");
        }
        assert_eq!(client.next(&first).step(), "build");
        let changed = evidence(&home, &first.label()).len();
        assert!(changed > 0, "the edited files were seen");
        [started, count() - started]
    };
    for edited in [1, 400] {
        let counted = runs(edited);
        assert!(counted.iter().all(|count| (1..=GIT_RUNS_MAX).contains(count)), "{edited}: {counted:?}");
    }
}

/// G104: a repeated call does not look at the repository a second time.
#[test]
fn a_repeated_call_does_not_run_git() {
    let home = home();
    let (observed, count) = with_counted_git(&home);
    let mut client = observed.client();
    let first = start(&home, &mut client, "guided");
    let arguments = with_own_words(&first.data["nextCall"]["arguments"]);
    let once = client.call("continue_workflow", arguments.clone());
    assert_eq!(once.step(), "build", "{}", once.data);
    let before = count();
    assert!(before > 0, "git was run");
    let again = client.call("continue_workflow", arguments.clone());
    assert_eq!((&again.data, count()), (&once.data, before));
    let by_another = observed.client().call("continue_workflow", arguments);
    assert_eq!((by_another.data, count()), (once.data, before));
}

/// G104: observing a repository runs nothing that it configures.
#[test]
fn observing_runs_nothing_that_the_repository_configures() {
    let home = home();
    let mark = home.project().parent().unwrap().join("ran");
    let script = format!("touch {}; cat", mark.display());
    git(&home, &["config", "filter.evil.clean", &script]);
    git(&home, &["config", "filter.evil.required", "true"]);
    git(&home, &["config", "core.fsmonitor", &format!("touch {}", mark.display())]);
    edit(&home, ".gitattributes", "* filter=evil\n");
    edit(&home, "README.md", "# Another\n");
    let mut client = home.client();
    let first = start(&home, &mut client, "guided");
    client.next(&first);
    assert_eq!(evidence(&home, &first.label()).len(), 2);
    assert!(!Path::new(&mark).exists(), "a configured program ran");
}

#[test]
fn outside_a_repository_nothing_is_observed() {
    let home = home();
    std::fs::remove_dir_all(home.project().join(".git")).unwrap();
    let mut client = home.client();
    let first = start(&home, &mut client, "guided");
    edit(&home, "src/tool.rs", "fn main() {}\n");
    assert_eq!(client.next(&first).step(), "build");
    assert_eq!(evidence(&home, &first.label()), [] as [Value; 0]);
}

/// G105: a hook's observation is recorded with the step it belongs to.
#[test]
fn a_hooks_observation_is_recorded_with_the_step() {
    let home = home();
    let mut client = home.client();
    let first = start(&home, &mut client, "guided");
    let session = first.data["run"]["sessionId"].as_str().unwrap();
    let run = first.data["run"]["runId"].as_str().unwrap();
    let line = json!({
        "seenAt": "2026-01-02T03:04:05.678Z", "host": "claude-code", "output": "3 passed",
        "evidence": { "kind": "command_run", "command": "cargo test", "exitCode": 0, "durationMs": 1200 },
    });
    let waiting = home.data().join("observed").join(format!("{session}-{run}.jsonl"));
    home.write(&waiting, &format!("{line}\n"));
    assert_eq!(client.next(&first).step(), "build");
    assert!(!waiting.exists());
    let seen = evidence(&home, &first.label());
    let observed = seen.iter().find(|one| one["grade"] == "observed").unwrap();
    assert_eq!(observed["evidence"]["command"], "cargo test");
    assert_text(&home, "log_with_an_observed_command", &home.done(&["log", &first.label()]).out);
    home.done(&["store", "verify"]);

    // A bundle includes it, with its content.
    let bundle = home.root().join("run.bundle");
    home.done(&["session", "export", &first.label(), "-o", bundle.to_str().unwrap()]);
    let other = Home::new(PROGRAM);
    other.done(&["session", "import", bundle.to_str().unwrap()]);
    assert_eq!(evidence(&other, &first.label()), seen);
    other.done(&["store", "verify"]);
}

/// G47: notes that were not what was wrong are kept when the evidence follows.
#[test]
fn notes_of_an_attempt_that_lacked_evidence_are_kept() {
    let home = home();
    home.workflow(&json!({
        "id": "team.proven", "name": "Proven", "description": "Needs evidence.", "version": "1.0.0",
        "steps": [
            { "id": "work", "title": "Work", "prompt": "Do it.", "evidence": { "min": "observed" } },
            { "id": "report", "title": "Report", "prompt": "Report it." },
        ],
    }));
    let mut client = home.client();
    let first = start_of(&home, &mut client, "team.proven", "guided");
    let sent = |ack: &str, notes: &str| json!({ "ackToken": ack, "output": { "notesMarkdown": notes } });
    let refused = client.call("continue_workflow", sent(&first.string("ackToken"), "The first finding."));
    assert_eq!(refused.data["blockers"][0]["code"], "EVIDENCE_MISSING", "{}", refused.data);
    edit(&home, "src/tool.rs", "fn main() {}\n");
    let next = client.call("continue_workflow", sent(&refused.string("ackToken"), "The second finding."));
    assert_eq!(next.step(), "report", "{}", next.data);
    let read = client.call("read_run", json!({ "run": first.label(), "step": "work" }));
    let text = read.string("text");
    assert!(text.contains("The first finding.") && text.contains("The second finding."), "{text}");
}

/// G107: leaving notes out avoids the evidence that a criterion asks for only where the criterion does not apply.
#[test]
fn a_criterion_that_does_not_apply_asks_for_nothing() {
    for (strict, expected) in [(true, json!("MISSING_REQUIRED_OUTPUT")), (false, Value::Null)] {
        let home = home();
        home.workflow(&json!({
            "id": "team.proven", "name": "Proven", "description": "Needs evidence.", "version": "1.0.0",
            "steps": [
                { "id": "work", "title": "Work", "prompt": "Do it.",
                  "outputContract": { "contractRef": "wr.contracts.verification_report" },
                  "validationCriteria": { "type": "contains", "value": "Tests: passed", "message": "Run the tests.",
                                          "condition": { "var": "strict", "equals": true },
                                          "evidence": { "min": "observed" } } },
                { "id": "report", "title": "Report", "prompt": "Report it." },
            ],
        }));
        let mut client = home.client();
        let first = start_of(&home, &mut client, "team.proven", "guided");
        let mut sent = with_own_words(&first.data["nextCall"]["arguments"]);
        sent["output"].as_object_mut().unwrap().remove("notesMarkdown");
        sent["context"] = json!({ "strict": strict });
        let reply = client.call("continue_workflow", sent);
        assert_eq!(reply.data["blockers"][0]["code"], expected, "{}", reply.data);
        assert_eq!(reply.step() == "report", !strict, "{}", reply.data);
    }
}

/// G104: a filter that cannot be turned off by its name does not run either.
#[test]
fn a_filter_with_an_unusual_name_does_not_run() {
    let home = home();
    let ran = home.project().parent().unwrap().join("ran");
    let config = home.project().join(".git/config");
    let text = std::fs::read_to_string(&config).unwrap();
    home.write(&config, &format!("{text}[filter \"a=b\"]\n  clean = \"touch {}; cat\"\n", ran.display()));
    edit(&home, ".gitattributes", "* filter=a=b\n");
    edit(&home, "README.md", "# Other\n");
    let mut client = home.client();
    let first = start(&home, &mut client, "guided");
    assert_eq!(client.next(&first).step(), "build");
    assert!(!ran.exists(), "the filter ran");
}
