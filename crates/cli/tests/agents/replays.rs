//! Agent 1 sends everything a hundred times, across restarts and crashes, and always gets the same answer.

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;

use crate::support::{Agent, Seen, ack, contents, events, home_with};

const REPLAYS: usize = 100;

struct Repeater {
    home: Home,
    agent: Option<Agent>,
    seen: Seen,
    replays: usize,
}

impl Repeater {
    fn agent(&mut self) -> &mut Agent {
        self.agent.as_mut().unwrap()
    }

    fn restart(&mut self, end: fn(Agent) -> Seen) {
        let ended = end(self.agent.take().unwrap());
        self.seen = self.seen.and(ended);
        self.agent = Some(Agent::of(&self.home));
    }

    /// One call and its hundred repetitions: the same bytes, and nothing written.
    fn hundredfold(&mut self, tool: &str, arguments: &Value) -> ToolReply {
        let first = self.agent().done(tool, arguments.clone());
        // A server indexes after its reply; a search waits for that.
        self.agent().done("resume_session", json!({}));
        let before = contents(&self.home);
        for n in 0..REPLAYS {
            match n {
                33 => self.restart(Agent::close),
                66 => self.restart(Agent::kill),
                _ => {}
            }
            let again = self.agent().done(tool, arguments.clone());
            assert_eq!(again.raw, first.raw, "{tool}, replay {n}");
            self.replays += 1;
        }
        assert!(contents(&self.home) == before, "a replay of {tool} changed the data directory");
        first
    }
}

#[test]
fn figure_agent_1_repeats_everything() {
    let home = home_with(&[]);
    let agent = Agent::of(&home);
    let mut repeater = Repeater { home, agent: Some(agent), seen: Seen::default(), replays: 0 };
    let mut reply = repeater.agent().start("wr.small_change", "say it a hundred times");
    let mut steps = 0;
    while reply.data["isComplete"] != true {
        let step = reply.step().clone();
        let saved = repeater.hundredfold(
            "checkpoint_workflow",
            &json!({
                "checkpointToken": reply.string("checkpointToken"),
                "output": { "notesMarkdown": format!("half of step {steps}") },
            }),
        );
        // A refusal is recorded and repeated like any other answer.
        let refused =
            repeater.hundredfold("continue_workflow", &json!({ "ackToken": saved.string("ackToken") }));
        assert_eq!(refused.data["kind"], "blocked");
        assert_eq!(refused.step(), &step);
        reply = repeater.hundredfold("continue_workflow", &ack(&refused, &format!("all of step {steps}")));
        steps += 1;
    }
    let events = events(&repeater.home);
    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    let advanced = |event: &&Value| event["data"]["outcome"]["kind"] == "advanced";
    let advances = events.iter().filter(|event| event["kind"] == "advance_recorded");
    assert_eq!(advances.clone().filter(advanced).count(), steps, "one advance for each step");
    assert_eq!(advances.count(), 2 * steps, "and one refusal");
    assert_eq!(count("node_created"), 1 + 2 * steps, "the root, the steps and their checkpoints");
    let seen = repeater.agent.take().unwrap().close().and(repeater.seen);
    let replays = repeater.replays;
    println!("{}", seen.figure(1, &format!("{replays} replays equal, {steps} advances for {steps} steps")));
}
