//! Agent 8 runs every real workflow file to its end through the server, in every mode, knowing only what the replies
//! say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{ToolReply, with_own_words};

use crate::support::{Agent, home_with};

const MODES: [&str; 3] = ["guided", "full_auto_stop_on_user_deps", "full_auto_never_stop"];
const CALLS_MAX: usize = 400;
const TRIES_MAX: usize = 6;

/// These have steps that a person must approve (`human_approval`), which no tool of an agent can. The test also plays
/// the person, at a terminal.
const APPROVED_BY_PEOPLE: [&str; 2] = ["user.mr-review", "user.differentiation"];

/// The files are not part of the project; if they are absent there is nothing to prove.
fn corpus() -> Option<Vec<PathBuf>> {
    let default_root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let root = std::env::var_os("WORKRAIL_TEST_CORPUS").map_or(default_root, PathBuf::from);
    if !root.is_dir() {
        println!("skipped: the corpus of workflow files is not next to the workspace");
        return None;
    }
    let (mut files, mut folders) = (Vec::new(), vec![root]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "json" => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    Some(files)
}

/// What the agent answers a step with, besides what the reply's own call shows.
#[derive(Debug, Default)]
struct Answer {
    notes: String,
    context: BTreeMap<String, Value>,
    /// Which level of a dimension is given next: a different one after a follow-up.
    level: usize,
}

impl Answer {
    fn new() -> Self {
        let notes = "Did what the step asks; the result is in the repository, nothing is open. ".to_owned();
        Self { notes, ..Self::default() }
    }

    /// The call that the reply shows, filled in.
    fn call(&self, reply: &ToolReply) -> Value {
        let shown = &reply.data["nextCall"]["arguments"];
        let mut call = with_own_words(shown);
        // Notes are written even if the retry would keep the previous ones: they may be what was wrong.
        call["output"]["notesMarkdown"] = json!(self.notes);
        let artifacts = shown["output"]["artifacts"].as_array().into_iter().flatten().enumerate();
        for (position, artifact) in artifacts {
            for (name, levels) in artifact["dimensions"].as_object().into_iter().flatten() {
                let levels = levels.as_str().unwrap().trim_start_matches("<one of: ").trim_end_matches('>');
                let levels: Vec<&str> = levels.split(" | ").collect();
                let level = levels[(levels.len() - 1 + self.level) % levels.len()];
                call["output"]["artifacts"][position]["dimensions"][name] = json!(level);
            }
        }
        for (key, value) in &self.context {
            call["context"][key] = value.clone();
        }
        call
    }

    /// Does what a blocker says; `false` if only a person can.
    fn improve(&mut self, blocker: &Value) -> bool {
        let fix = blocker["suggestedFix"].as_str().unwrap_or_default();
        match blocker["code"].as_str().unwrap() {
            "USER_ONLY_DEPENDENCY" | "MISSING_CONTEXT_KEY" => {
                let Some(key) = blocker["pointer"]["key"].as_str() else { return false };
                self.context.insert(key.to_owned(), json!([{ "name": "first" }, { "name": "second" }]));
            }
            "ASSESSMENT_FOLLOWUP_REQUIRED" => self.level += 1,
            "MISSING_REQUIRED_OUTPUT" => {}
            "INVALID_REQUIRED_OUTPUT" => self.notes.push_str(&wanted_words(fix)),
            code => panic!("{code} at a corpus file: {blocker}"),
        }
        true
    }
}

/// Words that satisfy a requirement on the notes: what they must contain is quoted.
fn wanted_words(fix: &str) -> String {
    let quoted = fix.split(['`', '"']).skip(1).step_by(2).collect::<Vec<_>>().join(" ");
    let length: usize =
        fix.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).max().unwrap_or(0);
    format!("{quoted} {}", ".".repeat(length.min(4_000)))
}

/// Approves the waiting step as a person does: at a terminal, with the run's label.
fn approve(home: &Home, waiting: &ToolReply) {
    assert_eq!(waiting.data["nextIntent"], "await_user_confirmation");
    let label = waiting.data["run"]["label"].as_str().unwrap();
    let approved = home.typed(&["approve", label], label);
    assert_eq!(approved.code, 0, "{approved:?}: {}", waiting.text);
}

/// Runs to the end; returns the last reply and how often a person had to approve.
fn run(home: &Home, agent: &mut Agent, id: &str, mode: &str) -> (ToolReply, usize) {
    let mut approvals = 0;
    let context = json!({ "items": ["a", "b", "c"], "status": "pending", "attempts": 0 });
    let start =
        json!({ "workflowId": id, "mode": mode, "goal": format!("{id} in {mode}"), "context": context });
    let mut reply = agent.done("start_workflow", start);
    for _ in 0..CALLS_MAX {
        if reply.data["isComplete"] == true {
            return (reply, approvals);
        }
        let step = reply.step().clone();
        let mut answer = Answer::new();
        for attempt in 0.. {
            let call = answer.call(&reply);
            reply = agent.done("continue_workflow", call);
            if reply.data["kind"] != "blocked" {
                break;
            }
            assert!(attempt < TRIES_MAX, "{id} in {mode}, {step}: {}", reply.text);
            let blockers = reply.data["blockers"].as_array().cloned().unwrap();
            let helped = blockers.iter().map(|blocker| answer.improve(blocker)).collect::<Vec<_>>();
            // If other things are missing besides an approval, those are fixed first.
            if !helped.contains(&true) {
                approve(home, &reply);
                approvals += 1;
            }
        }
    }
    panic!("{id} in {mode} does not end")
}

#[test]
fn figure_agent_8_runs_the_corpus_to_its_end() {
    let Some(files) = corpus() else { return };
    let home = home_with(&[]);
    let mut ids = BTreeSet::new();
    for file in &files {
        let mut workflow: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        // `wr.` belongs to the bundled source (G90); as a user's own, the same file runs.
        let id = workflow["id"].as_str().unwrap().to_owned();
        let id = id.strip_prefix("wr.").map_or(id.clone(), |rest| format!("user.{rest}"));
        workflow["id"] = json!(id);
        home.write(&home.workflows().join(file.file_name().unwrap()), &workflow.to_string());
        ids.insert(id);
    }
    assert_eq!(ids.len(), 24);
    let mut agent = Agent::of(&home);
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for mode in MODES {
        for id in &ids {
            let (last, approvals) = run(&home, &mut agent, id, mode);
            let found = agent.done("resume_session", json!({ "run": last.data["run"]["label"] }));
            let status = found.data["candidates"][0]["status"].as_str().unwrap().to_owned();
            let expected: &[&str] = match mode {
                "full_auto_never_stop" => &["complete", "complete_with_gaps"],
                _ => &["complete"],
            };
            assert!(expected.contains(&status.as_str()), "{id} in {mode} is {status}: {}", last.text);
            let waits = mode != "full_auto_never_stop" && APPROVED_BY_PEOPLE.contains(&id.as_str());
            assert_eq!(approvals > 0, waits, "{id} in {mode} was approved {approvals} times");
            *ends.entry(format!("{mode} {status}")).or_default() += 1;
        }
    }
    let found: Vec<String> = ends.iter().map(|(end, count)| format!("{end} {count}")).collect();
    println!("{}", agent.close().figure(8, &found.join(", ")));
}

/// The agent sends no context of its own, and so takes the careful path everywhere, which needs no approval. Every
/// reply is within its budget, as the agent checks.
#[test]
fn the_library_runs_to_completion_in_every_mode() {
    let home = home_with(&[]);
    let mut agent = Agent::of(&home);
    let ids: BTreeSet<String> = workrail_host::sources::bundled()
        .map(|(file, _)| file.trim_end_matches(".json").to_owned())
        .collect();
    let listed = agent.done("list_workflows", json!({}));
    let shown = listed.data["workflows"].as_array().unwrap();
    assert_eq!((shown.len(), &listed.data["isGrouped"]), (ids.len(), &json!(false)), "{}", listed.text);
    for mode in MODES {
        for id in &ids {
            let (last, approvals) = run(&home, &mut agent, id, mode);
            assert_eq!((last.data["isComplete"].as_bool(), approvals), (Some(true), 0), "{id} in {mode}");
        }
    }
}
