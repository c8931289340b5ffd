//! Commands about one run.

use serde_json::json;

use crate::stage::Stage;

/// A run with a completed step, a rewind that created a second branch, and one that waits for an approval.
fn with_runs() -> (Stage, String, String) {
    let stage = Stage::new();
    let mut client = stage.server();
    let first = client
        .call("start_workflow", json!({ "workflowId": "team.change", "goal": "give retries a budget" }));
    let label = stage.name(&first, "change run");
    let notes =
        |text: &str| json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": text } });
    client.call("continue_workflow", notes("Retries now stop after three attempts."));
    let looked = client.call("continue_workflow", json!({ "stateToken": first.string("stateToken") }));
    let again = json!({
        "ackToken": looked.string("ackToken"),
        "output": { "notesMarkdown": "Retries now stop after ten seconds." },
    });
    client.call("continue_workflow", again);
    let gated = client.call("start_workflow", json!({ "workflowId": "team.release", "goal": "publish 2.0" }));
    let waiting = stage.name(&gated, "release run");
    Stage::follow(&mut client, &gated);
    client.close();
    (stage, label, waiting)
}

#[test]
fn show() {
    let (stage, label, waiting) = with_runs();
    stage.say_both(&["show", &label]);
    stage.say(&["show", &waiting]);
    stage.say_both(&["show", "no-such"]);
    stage.compare("show");
}

/// What is asked of the user, why a run is blocked, and that a finished one does not continue.
#[test]
fn show_says_what_a_run_needs() {
    let (stage, _, waiting) = with_runs();
    let mut client = stage.server();
    let blocked =
        client.call("start_workflow", json!({ "workflowId": "team.report", "goal": "explain the outage" }));
    let refused = stage.name(&blocked, "blocked run");
    let notes = json!({ "notesMarkdown": "It was the cache." });
    client.call("continue_workflow", json!({ "ackToken": blocked.string("ackToken"), "output": notes }));
    let mut done = client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "rename it" }));
    let finished = stage.name(&done, "finished run");
    for _ in 0..2 {
        done = Stage::follow(&mut client, &done);
    }
    client.close();
    stage.say(&["show", &waiting]);
    stage.say(&["show", &refused]);
    stage.say(&["show", &finished]);
    stage.home().done(&["close", &refused, "--reason", "the report is not needed"]);
    stage.say(&["show", &refused]);
    stage.say(&["tree", &refused]);
    stage.say(&["close", &refused, "--reason", "again"]);
    stage.say(&["close", &finished, "--reason", "over"]);
    stage.compare("show_what_a_run_needs");
}

#[test]
fn log() {
    let (stage, label, _) = with_runs();
    stage.say_both(&["log", &label, "--limit", "4"]);
    stage.compare("log");
}

#[test]
fn tree() {
    let (stage, label, _) = with_runs();
    stage.say(&["tree", &label, "--ascii"]);
    stage.say_both(&["tree", &label]);
    stage.compare("tree");
}

#[test]
fn search() {
    let (stage, _, _) = with_runs();
    stage.say_both(&["search", "retries", "seconds"]);
    stage.say(&["search", "release"]);
    stage.say(&["search", "publish", "2"]);
    stage.say(&["search", "nothing-like-this"]);
    stage.compare("search");
}

#[test]
fn resume() {
    let (stage, label, _) = with_runs();
    stage.say_both(&["resume", "retries", "budget"]);
    stage.say(&["resume", &label]);
    stage.say(&["resume", "unrelated", "words"]);
    stage.compare("resume");
}

#[test]
fn report() {
    let (stage, label, _) = with_runs();
    stage.say(&["report", &label]);
    stage.say(&["report", &label, "--json"]);
    stage.say(&["report", &label, "-o", "report.md"]);
    stage.say(&["report", &label, "-o", "report.md"]);
    stage.compare("report");
}

#[test]
fn approve_and_reject() {
    let (stage, label, waiting) = with_runs();
    stage.say_both(&["approve", &waiting]);
    stage.say_both(&["reject", &label]);
    stage.compare("approve_and_reject");
}

#[test]
fn decisions_at_a_terminal() {
    let (stage, _, waiting) = with_runs();
    stage.type_line(&["approve", &waiting], "yes");
    stage.type_line(&["reject", &waiting], &waiting);
    stage.type_line(&["session", "prefs", "set", "full_auto_never_stop", "--run", &waiting], &waiting);
    stage.type_line(&["approve", &waiting], &waiting);
    stage.say(&["log", &waiting, "--limit", "3"]);
    stage.say(&["report", &waiting]);
    stage.compare("decisions_at_a_terminal");
}

#[test]
fn answer() {
    let stage = Stage::new();
    stage.home().asking_workflow();
    stage.say_both(&["answer"]);
    let mut client = stage.server();
    let mut ask = |name: &str| {
        let first =
            client.call("start_workflow", json!({ "workflowId": "team.asking", "goal": "release 2.0" }));
        let label = stage.name(&first, name);
        let notes = json!({ "notesMarkdown": "Two branches could be meant." });
        client.call("continue_workflow", json!({ "ackToken": first.string("ackToken"), "output": notes }));
        label
    };
    let (first, second) = (ask("first run"), ask("second run"));
    stage.say_both(&["answer"]);
    stage.say(&["answer", &first]);
    stage.say(&["answer", &first, "main"]);
    stage.say_both(&["answer", &first, "targetBranch=main"]);
    stage.type_line(&["answer", &first], "main");
    stage.type_line(&["answer", &second, "targetBranch=release"], &second);
    stage.say(&["answer", &first, "targetBranch=main"]);
    stage.compare("answer");
}

#[test]
fn close() {
    let (stage, label, waiting) = with_runs();
    stage.say(&["close", &label]);
    stage.say(&["close", &label, "--reason", "the importer replaces it"]);
    stage.say(&["close", &waiting, "--reason", "the importer replaces it", "--json"]);
    stage.say_both(&["close", "no-such", "--reason", "over"]);
    stage.compare("close");
}

#[test]
fn watch() {
    let stage = Stage::new();
    let mut client = stage.server();
    let first = client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "rename it" }));
    stage.name(&first, "change run");
    client.close();
    stage.say_first_line(&["watch"]);
    stage.say_first_line(&["watch", "--json"]);
    stage.compare("watch");
}

/// Branches, attempts and runs side by side, with artifacts, context and a gap.
#[test]
fn compare() {
    let (stage, label, waiting) = with_runs();
    let mut client = stage.server();
    let own =
        client.call("start_workflow", json!({ "workflowId": "team.report", "goal": "explain the outage" }));
    let report = stage.name(&own, "report run");
    let submitted = |text: &str, severity: &str| {
        json!({
            "notesMarkdown": text,
            "artifacts": [{ "kind": "team.outage", "severity": severity, "causes": ["cache"] }],
        })
    };
    let refused = client.call(
        "continue_workflow",
        json!({ "ackToken": own.string("ackToken"), "output": submitted("It was the cache.\nIt was full.", "low") }),
    );
    client.call(
        "continue_workflow",
        json!({
            "ackToken": refused.data["retryAckToken"].as_str().unwrap_or(&refused.string("ackToken")),
            "context": { "team": "storage" },
            "output": submitted("Sources: the log.\nIt was full.", "high"),
        }),
    );
    client.close();
    stage.say(&["compare", &label, "@b"]);
    stage.say(&["compare", &format!("{report}@1:1"), "@1:2"]);
    stage.say(&["compare", &label, &report, "--context"]);
    stage.say(&["compare", &format!("{label}@1"), &format!("{waiting}@1"), "--json"]);
    stage.say_both(&["compare", &label, "@c"]);
    stage.say(&["compare", &label, "@1:7"]);
    stage.say(&["compare", &label, "@?"]);
    stage.say(&["compare", &label, "@9"]);
    stage.say(&["compare", "no-such", &label]);
    stage.fits(&["compare", &report, &label], 80);
    stage.compare("compare");
}
