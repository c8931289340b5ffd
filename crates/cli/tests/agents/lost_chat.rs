//! Agent 6 forgets everything after every step: a few words of its goal lead back to where it was.

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;

use crate::support::{Agent, Seen, home_with, is_on_database, label, plain_workflow};
use crate::wording::assert_text;

/// What the test knows and the agent has forgotten.
struct Forgetful {
    home: Home,
    seen: Seen,
    resumed: usize,
}

impl Forgetful {
    /// A new chat on a new server, which knows only a few words.
    fn resume(&mut self, words: &str) -> ToolReply {
        let mut agent = Agent::of(&self.home);
        let found = agent.done("resume_session", json!({ "query": words }));
        let first = &found.data["candidates"][0];
        assert_eq!(first["nextCall"], found.data["nextCall"]);
        let reply = agent.follow_call(&first["nextCall"]);
        assert!(!reply.is_error, "{}", reply.text);
        assert_eq!(first["label"], label(&reply));
        self.resumed += 1;
        self.seen = self.seen.and(agent.close());
        reply
    }

    /// Completes one step in a separate chat; afterwards only the test knows what was done.
    fn complete(&mut self, at: &ToolReply, notes: &str) -> ToolReply {
        let mut agent = Agent::of(&self.home);
        let reply = agent.complete(at, notes);
        self.seen = self.seen.and(agent.close());
        reply
    }

    /// Resumes and completes until the run ends; returns its last reply.
    fn work_through(&mut self, words: &str, run: &str, steps: std::ops::Range<usize>) -> ToolReply {
        let mut last = None;
        for step in steps {
            let at = self.resume(words);
            assert_eq!(label(&at), run, "{words} means this run: {}", at.text);
            assert_eq!(at.step(), &json!(format!("step-{step}")));
            let told: Vec<Value> = at.data["recap"]["entries"].as_array().cloned().unwrap_or_default();
            let told: Vec<&str> = told.iter().map(|entry| entry["notes"].as_str().unwrap()).collect();
            let done: Vec<String> = (0..step).map(|n| notes(words, n)).collect();
            assert_eq!(told, done, "the recap tells all that was done");
            last = Some(self.complete(&at, &notes(words, step)));
        }
        last.unwrap()
    }
}

fn notes(words: &str, step: usize) -> String {
    format!("finished portion {step} concerning {words}")
}

#[test]
fn figure_agent_6_forgets_everything_after_every_step() {
    let home = home_with(&[plain_workflow("project.long", 6), plain_workflow("project.short", 4)]);
    let mut agent = Agent::of(&home);
    for (workflow, goal) in [
        ("project.long", "paint the garden fence green"),
        ("project.short", "repair the kitchen tap"),
        ("project.long", "paint the garden gate white"),
    ] {
        agent.start(workflow, goal);
    }
    let run = agent.start("project.long", "migrate the billing tables to decimals");
    let outer = label(&run);
    let mut seen = agent.close();
    let mut forgetful = Forgetful { home, seen: Seen::default(), resumed: 0 };
    let words = "billing decimals";
    forgetful.work_through(words, &outer, 0..3);
    // In the middle of a step it starts another workflow inside the run, and forgets that, too.
    let at = forgetful.resume(words);
    let mut agent = Agent::of(&forgetful.home);
    let inner = agent.done(
        "start_workflow",
        json!({ "workflowId": "project.short", "goal": "measure rounding drift", "parent": at.string("stateToken") }),
    );
    assert_eq!(inner.data["otherRuns"][0]["label"], outer, "{}", inner.text);
    seen = seen.and(agent.close());
    let ended = forgetful.work_through("rounding drift", &label(&inner), 0..4);
    assert_eq!(ended.data["isComplete"], true);
    let back = &ended.data["returnTo"];
    assert_eq!(back["label"], outer);
    let mut agent = Agent::of(&forgetful.home);
    let returned = agent.follow_call(&back["nextCall"]);
    assert!(!returned.is_error, "{}", returned.text);
    assert_eq!((label(&returned), returned.step()), (outer.clone(), &json!("step-3")));
    seen = seen.and(agent.close());
    let ended = forgetful.work_through(words, &outer, 3..6);
    assert_eq!(ended.data["isComplete"], true);
    assert!(ended.data.get("returnTo").is_none_or(Value::is_null));
    let mut agent = Agent::of(&forgetful.home);
    let found = agent.done("resume_session", json!({ "query": words }));
    assert_eq!(found.data["candidates"][0]["status"], "complete");
    seen = seen.and(agent.close()).and(forgetful.seen);
    let resumed = forgetful.resumed;
    println!(
        "{}",
        seen.figure(6, &format!("{resumed} times resumed at the right step with all that was done"))
    );
}

/// Broke: `read_run` said that no run has this name, and not that a session could not be read.
#[test]
fn a_run_of_a_damaged_session_is_reported_as_damaged_and_not_unknown() {
    if is_on_database() {
        // This damages files, so it is proven by the suite on data directories.
        return;
    }
    let home = home_with(&[plain_workflow("team.plain", 3)]);
    let mut agent = Agent::of(&home);
    let healthy = agent.start("team.plain", "paint the fence");
    let lost = agent.start("team.plain", "mow the lawn");
    agent.complete(&lost, "Half of the lawn.");
    agent.close();
    let session = lost.data["run"]["sessionId"].as_str().unwrap().to_owned();
    let folder = home.data().join("sessions").join(&session);
    let mut segments: Vec<_> =
        std::fs::read_dir(folder.join("events")).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let damage = |path: &std::path::Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let asked = |arguments: Value| Agent::of(&home).call("resume_session", arguments);
    // Its end is damaged: its beginning still shows which runs it has.
    damage(segments.last().unwrap());
    for by in [json!({ "run": label(&lost) }), json!({ "sessionId": session })] {
        let refused = asked(by);
        assert_eq!(refused.code(), "SESSION_CORRUPT", "{}", refused.text);
        assert!(refused.text.contains(&session), "{}", refused.text);
    }
    // None of it can be read: the run may be in any damaged session.
    damage(segments.first().unwrap());
    std::fs::remove_dir_all(home.data().join("cache")).unwrap();
    let refused = asked(json!({ "run": label(&lost) }));
    assert_eq!(refused.code(), "SESSION_NOT_FOUND", "{}", refused.text);
    assert_text(&home, "run_that_may_be_damaged", &refused.text);
    let run_id = lost.data["run"]["runId"].as_str().unwrap().to_owned();
    for (by, run) in [("label", label(&lost)), ("id", run_id)] {
        let unread = Agent::of(&home).call("read_run", json!({ "run": run }));
        assert_eq!(unread.code(), "SESSION_NOT_FOUND", "{}", unread.text);
        assert_text(&home, &format!("read_run_by_{by}_that_may_be_damaged"), &unread.text);
        assert_eq!(unread.data["details"]["unhealthySessions"], json!(1), "{}", unread.text);
    }
    assert_eq!(asked(json!({ "sessionId": session })).code(), "SESSION_CORRUPT");
    assert!(!asked(json!({ "run": label(&healthy) })).is_error);
}
