//! Agents 10 and 12 see only the replies: they fill in the call that each one ends with, in every mode, for every
//! bundled workflow, and are never refused for something they were not told (G46, G47, G56). Agent 10 loses its
//! memory at a random step, agent 12 at every step; it then relies on `read_run` alone.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use workrail_model::placeholder::TRUE_OR_FALSE;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{ToolReply, with_own_words};
use workrail_testkit::proof::is_full;

use crate::support::{Agent, Seen, home_with, is_on_database, label};

const MODES: [&str; 3] = ["guided", "full_auto_stop_on_user_deps", "full_auto_never_stop"];

/// The modes that the workflow at this position is played in: each sample has every mode.
fn modes(position: usize, effort: Effort) -> &'static [&'static str] {
    match effort {
        Effort::Sample => &MODES[position % MODES.len()..][..1],
        Effort::All => &MODES,
    }
}

/// In how many modes each workflow is played.
#[derive(Clone, Copy)]
enum Effort {
    Sample,
    All,
}

impl Effort {
    /// Everything in a full proof only.
    fn sampled() -> Self {
        if is_full() { Self::All } else { Self::Sample }
    }
}

/// With one item per list and loops that end at once, a run of a bundled workflow is far shorter.
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

/// Distinctive facts in the notes of completed step number `number`.
fn facts(number: usize) -> [String; 3] {
    [format!("criterion-{number}-holds"), format!("plan-{number}-first"), format!("src/touched_{number}.rs")]
}

/// Facts of the step, and what its checks require of notes, according to the reply.
fn notes_for(text: &str, number: usize) -> String {
    let [criterion, plan, file] = facts(number);
    let mut notes = format!("Read three files. Criteria: {criterion}. Plan: {plan}. Files touched: {file}. ");
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
fn filled(reply: &ToolReply, number: usize) -> Value {
    let shown = &reply.data["nextCall"]["arguments"];
    let mut arguments = with_own_words(shown);
    // Takes the longer path, on which an approval is needed.
    for (key, value) in shown["context"].as_object().into_iter().flatten() {
        if value == TRUE_OR_FALSE {
            arguments["context"][key] = json!(true);
        }
    }
    if let Some(notes) = arguments.pointer_mut("/output/notesMarkdown") {
        *notes = Value::from(notes_for(&reply.text, number));
    }
    arguments
}

/// When the chat is lost, along with its server.
#[derive(Clone, Copy)]
enum ChatLoss {
    BeforeCall(usize),
    BeforeEveryCall,
}

impl ChatLoss {
    fn now(self, call: usize) -> bool {
        match self {
            Self::BeforeCall(number) => call == number,
            Self::BeforeEveryCall => true,
        }
    }
}

#[derive(Default)]
struct PlayedRuns {
    seen: Seen,
    steps: usize,
    approvals: usize,
    forgotten: usize,
    /// Calls of `read_run`, and questions answered from their results.
    read: usize,
    answered: usize,
    /// Bytes of step replies, and how many of them are neither the author's text nor the next call.
    bytes: usize,
    boilerplate: usize,
    distinct: BTreeSet<String>,
}

impl PlayedRuns {
    /// Works through one run and loses the chat during it.
    fn run(&mut self, home: &Home, workflow: &str, mode: &str, lost: ChatLoss) {
        let goal = format!("try {workflow} in the mode {mode}");
        let mut agent = Agent::of(home);
        let mut at =
            agent.done("start_workflow", json!({ "workflowId": workflow, "goal": goal, "mode": mode }));
        let mut call = 0;
        while at.data["isComplete"] != true {
            assert!(call < CALLS_MAX, "{workflow} in {mode} does not end: {}", at.text);
            if lost.now(call) {
                (agent, at) = self.recovered(home, agent, &goal);
                self.remember(&mut agent, &at, &goal, call);
            }
            self.weigh(&at);
            let next = agent.done("continue_workflow", filled(&at, call));
            let blocked = next.data["kind"] == "blocked";
            at = if blocked {
                if lost.now(call) {
                    (agent, _) = self.recovered(home, agent, &goal);
                }
                self.decided(home, &mut agent, &next, mode, call)
            } else {
                next
            };
            call += 1;
        }
        self.steps += call;
        self.remember(&mut agent, &at, &goal, call);
        self.seen = self.seen.and(agent.close());
    }

    /// The server is killed; a new chat that knows a few words recovers with one search and the call that it
    /// suggests.
    fn recovered(&mut self, home: &Home, agent: Agent, goal: &str) -> (Agent, ToolReply) {
        self.seen = self.seen.and(agent.kill());
        self.forgotten += 1;
        let mut agent = Agent::of(home);
        let found = agent.done("resume_session", json!({ "query": goal }));
        let at = agent.follow(&found);
        (agent, at)
    }

    /// The one refusal that a reply cannot prevent: a person must decide on the submission.
    fn decided(
        &mut self,
        home: &Home,
        agent: &mut Agent,
        blocked: &ToolReply,
        mode: &str,
        number: usize,
    ) -> ToolReply {
        let codes: Vec<&Value> =
            blocked.data["blockers"].as_array().unwrap().iter().map(|blocker| &blocker["code"]).collect();
        let told = format!("refused in {mode} for what the reply before could have told: {}", blocked.text);
        assert_eq!(codes, ["USER_ONLY_DEPENDENCY"], "{told}");
        assert_ne!(mode, "full_auto_never_stop", "{told}");
        // By its id: among the runs of all workflows and modes, two may share a label.
        let run = blocked.data["run"]["runId"].as_str().unwrap();
        let ran = home.typed(&["approve", run], &label(blocked));
        assert_eq!(ran.code, 0, "{ran:?}");
        self.approvals += 1;
        // Whether or not the chat was lost since: the record shows what was submitted and how to continue.
        let waiting = agent.done("continue_workflow", json!({ "stateToken": blocked.string("stateToken") }));
        agent.done("continue_workflow", filled(&waiting, number))
    }

    fn weigh(&mut self, reply: &ToolReply) {
        let authored = reply.data["pending"]["prompt"].as_str().unwrap_or_default();
        let call = reply.data["nextCall"]["arguments"].to_string();
        let recap = reply.data.get("recap").map_or(0, |recap| recap.to_string().len());
        self.bytes += reply.text.len();
        self.boilerplate += reply.text.len().saturating_sub(authored.len() + call.len() + recap);
        self.distinct.insert(reply.data["run"]["stepId"].as_str().unwrap_or_default().to_owned());
    }

    /// After everything is forgotten, the record alone answers: goal, criteria, plan, files touched. A token names
    /// the run, because two of so many runs may share a label.
    fn remember(&mut self, agent: &mut Agent, at: &ToolReply, goal: &str, completed: usize) {
        let run = at.string("stateToken");
        let overview = self.read(agent, json!({ "run": run }));
        assert!(overview.contains(goal), "the goal is missing in: {overview}");
        self.answered += 1;
        let Some(latest) = completed.checked_sub(1) else { return };
        let [first_criterion, ..] = facts(0);
        let [_, latest_plan, _] = facts(latest);
        let first = self.read(agent, json!({ "run": run, "step": "1" }));
        assert!(first.contains(&first_criterion), "{first_criterion} is missing in: {first}");
        let plans = self.read(agent, json!({ "run": run, "query": "plan" }));
        assert!(plans.contains(&latest_plan), "{latest_plan} is missing in: {plans}");
        let all = self.read(agent, json!({ "run": run, "step": "all" }));
        for [_, _, file] in (0..completed).map(facts) {
            assert!(all.contains(&file), "{file} is missing in: {all}");
        }
        self.answered += 3;
    }

    /// All pages of an answer.
    fn read(&mut self, agent: &mut Agent, arguments: Value) -> String {
        let mut page = agent.done("read_run", arguments);
        let mut text = page.text.clone();
        self.read += 1;
        while page.data["page"] != page.data["pages"] {
            page = agent.follow(&page);
            text.push_str(&page.text);
            self.read += 1;
        }
        text
    }
}

#[test]
fn figure_agent_10_works_through_every_bundled_workflow_from_the_replies_alone() {
    let home = home_with(&[]);
    let mut played = PlayedRuns::default();
    let workflows = bundled();
    // Each run forgets at another step: the numbers are scattered but reproducible.
    let mut scattered: u64 = 13;
    // Sessions in a database differ in their store alone.
    let effort = if is_on_database() { Effort::sampled() } else { Effort::All };
    for (position, workflow) in workflows.iter().enumerate() {
        for mode in modes(position, effort) {
            scattered = scattered.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let call = 1 + (scattered >> 60) as usize % 6;
            played.run(&home, workflow, mode, ChatLoss::BeforeCall(call));
        }
    }
    let PlayedRuns { seen, steps, approvals, forgotten, bytes, boilerplate, distinct, .. } = played;
    let share = 100 * boilerplate / bytes;
    let found = format!(
        "{} workflows, each in {} modes, {steps} steps ({} different), {approvals} approvals, memory cut {forgotten} times, 0 \
         refusals that a reply could have prevented; a step reply has {} bytes on average, {share}% of it neither \
         the step's text nor the call to make",
        workflows.len(),
        modes(0, effort).len(),
        distinct.len(),
        bytes / steps,
    );
    println!("{}", seen.figure(10, &found));
}

#[test]
fn figure_agent_12_forgets_at_every_step_of_every_bundled_workflow() {
    let mut played = PlayedRuns::default();
    for (position, workflow) in bundled().iter().enumerate() {
        // The agent knows its run by the label only, and of many runs in one store two may have the same.
        let home = home_with(&[]);
        for mode in modes(position, Effort::sampled()) {
            played.run(&home, workflow, mode, ChatLoss::BeforeEveryCall);
        }
    }
    let PlayedRuns { seen, steps, approvals, forgotten, read, answered, distinct, .. } = played;
    let found = format!(
        "{steps} steps ({} different), each workflow in {} modes, {approvals} approvals, memory cut {forgotten} times; \
         {answered} questions about goal, criteria, plan and files touched answered from {read} calls of `read_run`, 0 \
         wrong; 0 refusals that a reply could have prevented",
        distinct.len(),
        modes(0, Effort::sampled()).len(),
    );
    println!("{}", seen.figure(12, &found));
}
