//! Agent 10 sees only the replies: it fills in the call that each one ends with, in every mode, for every bundled
//! workflow, loses its memory at a random step, and is never refused for something that it was not told (G46, G47, G56).

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use workrail_model::placeholder::TRUE_OR_FALSE;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{ToolReply, with_own_words};

use crate::support::{Agent, Seen, home_with, label};

const MODES: [&str; 3] = ["guided", "full_auto_stop_on_user_deps", "full_auto_never_stop"];
/// A run of a bundled workflow with one item per list and loops that end at once is far shorter.
const CALLS_MAX: usize = 120;

fn bundled() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut ids: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
    ids.sort();
    assert!(ids.len() >= 13, "{ids:?}");
    ids
}

/// What a step's checks ask of notes, as the reply tells it.
fn notes_for(text: &str, step: &str) -> String {
    let mut notes = format!("Worked on `{step}`: read three files, changed one, nothing is open. ");
    let checks = text.split("**Your notes are checked:**").nth(1).unwrap_or_default();
    for line in checks.lines().skip(1).take_while(|line| line.starts_with("- ")) {
        notes.extend(line.split('"').skip(1).step_by(2).map(|word| format!("{word} ")));
    }
    while notes.len() < 600 {
        notes.push_str("The command ended with 0 and printed what was expected. ");
    }
    notes
}

/// The next call of a reply, filled in from the reply alone.
fn filled(reply: &ToolReply) -> Value {
    let shown = &reply.structured["nextCall"]["arguments"];
    let mut arguments = with_own_words(shown);
    // The longer way: what asks for an approval is wanted.
    for (key, value) in shown["context"].as_object().into_iter().flatten() {
        if value == TRUE_OR_FALSE {
            arguments["context"][key] = json!(true);
        }
    }
    if let Some(notes) = arguments.pointer_mut("/output/notesMarkdown") {
        *notes = Value::from(notes_for(&reply.text, reply.structured["run"]["stepId"].as_str().unwrap()));
    }
    arguments
}

#[derive(Default)]
struct Played {
    seen: Seen,
    steps: usize,
    approvals: usize,
    forgotten: usize,
    /// Bytes of step replies, and of them what is neither the author's text nor the call to make.
    bytes: usize,
    boilerplate: usize,
    distinct: BTreeSet<String>,
}

impl Played {
    /// Works through one run; before call number `cut` the chat is lost.
    fn run(&mut self, home: &Home, workflow: &str, mode: &str, cut: usize) {
        let goal = format!("try {workflow} in the mode {mode}");
        let mut agent = Agent::of(home);
        let mut at =
            agent.done("start_workflow", json!({ "workflowId": workflow, "goal": goal, "mode": mode }));
        for call in 0..CALLS_MAX {
            if at.structured["isComplete"] == true {
                break;
            }
            assert!(call + 1 < CALLS_MAX, "{workflow} in {mode} does not end: {}", at.text);
            if call == cut {
                self.seen = self.seen.and(agent.kill());
                agent = Agent::of(home);
                at = recovered(&mut agent, &goal);
                self.forgotten += 1;
            }
            self.weigh(&at);
            let next = agent.done("continue_workflow", filled(&at));
            at = match next.structured["kind"].as_str() {
                Some("blocked") => self.decided(home, &mut agent, &next, mode),
                _ => next,
            };
            self.steps += 1;
        }
        self.check_memory(&mut agent, &at, &goal);
        self.seen = self.seen.and(agent.close());
    }

    /// The one refusal that a reply cannot prevent: a person decides on what was submitted.
    fn decided(&mut self, home: &Home, agent: &mut Agent, blocked: &ToolReply, mode: &str) -> ToolReply {
        let codes: Vec<&Value> = blocked.structured["blockers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|blocker| &blocker["code"])
            .collect();
        let told = format!("refused in {mode} for what the reply before could have told: {}", blocked.text);
        assert_eq!(codes, ["USER_ONLY_DEPENDENCY"], "{told}");
        assert_ne!(mode, "full_auto_never_stop", "{told}");
        let label = label(blocked);
        let ran = home.typed(&["approve", &label], &label);
        assert_eq!(ran.code, 0, "{ran:?}");
        self.approvals += 1;
        agent.done("continue_workflow", filled(blocked))
    }

    fn weigh(&mut self, reply: &ToolReply) {
        let authored = reply.structured["pending"]["prompt"].as_str().unwrap_or_default();
        let call = reply.structured["nextCall"]["arguments"].to_string();
        let recap = reply.structured.get("recap").map_or(0, |recap| recap.to_string().len());
        self.bytes += reply.text.len();
        self.boilerplate += reply.text.len().saturating_sub(authored.len() + call.len() + recap);
        self.distinct.insert(reply.structured["run"]["stepId"].as_str().unwrap_or_default().to_owned());
    }

    /// After everything is forgotten, the record alone answers what the work was about.
    fn check_memory(&self, agent: &mut Agent, last: &ToolReply, goal: &str) {
        let run = label(last);
        let overview = agent.done("read_run", json!({ "run": run }));
        assert!(overview.text.contains(goal), "{}", overview.text);
        let first = agent.done("read_run", json!({ "run": run, "step": "1" }));
        assert!(
            first.text.contains("read three files") || first.text.contains("Words of my own"),
            "{}",
            first.text
        );
    }
}

/// A new chat that knows a few words finds its way back with one call that searches and the call that it offers.
fn recovered(agent: &mut Agent, goal: &str) -> ToolReply {
    let found = agent.done("resume_session", json!({ "query": goal }));
    agent.follow(&found)
}

#[test]
fn figure_agent_10_works_through_every_bundled_workflow_from_the_replies_alone() {
    let home = home_with(&[]);
    let mut played = Played::default();
    let workflows = bundled();
    // Each run forgets at another step: the numbers are scattered and the same every time.
    let mut scattered: u64 = 13;
    for workflow in &workflows {
        for mode in MODES {
            scattered = scattered.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            played.run(&home, workflow, mode, 1 + (scattered >> 60) as usize % 6);
        }
    }
    let Played { seen, steps, approvals, forgotten, bytes, boilerplate, distinct } = played;
    let share = 100 * boilerplate / bytes;
    let found = format!(
        "{} workflows in {} modes, {steps} steps ({} different), {approvals} approvals, memory cut {forgotten} times, 0 \
         refusals that a reply could have prevented; a step reply has {} bytes on average, {share}% of it neither \
         the step's text nor the call to make",
        workflows.len(),
        MODES.len(),
        distinct.len(),
        bytes / steps,
    );
    println!("{}", seen.figure(10, &found));
}
