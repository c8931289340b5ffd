//! Agent 2 returns to every point of a run and continues differently: branches stay separate, nothing is lost.

use serde_json::{Value, json};
use workrail_testkit::mcp_client::ToolReply;

use crate::support::{Agent, ack, events_of_kind, home_with};

/// Steps whose prompts show the context of their branch; one exists on a single branch only.
fn workflow() -> Value {
    let part = |n: usize| json!({ "id": format!("part-{n}"), "title": format!("Part {n} of {{{{flavour}}}}"), "prompt": "Work on {{flavour}}." });
    let extra = json!({
        "id": "extra", "title": "Extra", "prompt": "Work on {{flavour}} once more.",
        "runCondition": { "var": "flavour", "equals": "branch-1" },
    });
    let steps = [part(0), part(1), part(2), extra, part(3), part(4)];
    json!({ "id": "project.branching", "name": "Branching", "description": "Goes several ways.", "version": "1.0.0", "steps": steps })
}

/// How many of the newest branches are shown.
const BRANCHES_SHOWN: usize = 3;

struct Point {
    parent: Option<usize>,
    state_token: String,
    title: Option<String>,
    flavour: String,
    /// The notes with which the previous step was completed.
    arrived_by: String,
}

struct Traveller {
    agent: Agent,
    points: Vec<Point>,
}

impl Traveller {
    fn remember(&mut self, parent: Option<usize>, reply: &ToolReply, flavour: &str, notes: &str) -> usize {
        self.points.push(Point {
            parent,
            state_token: reply.string("stateToken"),
            title: reply.data["pending"]["title"].as_str().map(str::to_owned),
            flavour: flavour.to_owned(),
            arrived_by: notes.to_owned(),
        });
        self.points.len() - 1
    }

    /// Completes step after step on one branch, to the end or up to the limit.
    fn go_on(&mut self, mut at: usize, flavour: &str, steps_max: usize) {
        let mut reply = self.agent.look(&self.points[at].state_token.clone());
        for _ in 0..steps_max {
            if reply.data["isComplete"] == true {
                break;
            }
            let notes = format!("{flavour} did {}", reply.step().as_str().unwrap());
            let mut call = ack(&reply, &notes);
            call["context"] = json!({ "flavour": flavour });
            reply = self.agent.done("continue_workflow", call);
            at = self.remember(Some(at), &reply, flavour, &notes);
        }
    }

    /// Title and notes of every completed step up to a point.
    fn path(&self, mut at: usize) -> Vec<(String, String)> {
        let mut path = Vec::new();
        while let Some(parent) = self.points[at].parent {
            path.push((self.points[parent].title.clone().unwrap(), self.points[at].arrived_by.clone()));
            at = parent;
        }
        path.reverse();
        path
    }

    /// The leaf of the branch that begins at a point, its progress, and whether it is the newest of all.
    fn reach(&self, child: usize) -> (usize, u64, bool) {
        let above = |mut at: usize| {
            let mut distance = 1;
            while at != child {
                at = self.points[at].parent?;
                distance += 1;
            }
            Some(distance)
        };
        let newest = self.points.len() - 1;
        // The newest leaf below the child: whatever was created last is a leaf.
        let (leaf, steps) = (0..=newest).rev().find_map(|at| Some((at, above(at)?))).unwrap();
        (leaf, steps, above(newest).is_some())
    }

    /// Everything shown about a point must belong to its own branch.
    fn check(&mut self, at: usize) {
        let reply = self.agent.look(&self.points[at].state_token.clone());
        let point = &self.points[at];
        assert_eq!(reply.data["pending"]["title"].as_str(), point.title.as_deref());
        if let Some(prompt) = reply.data["pending"]["prompt"].as_str() {
            assert!(prompt.contains(&format!("Work on {}", point.flavour)), "{prompt}");
        }
        assert_eq!(recap_entries(&reply.data["recap"]), self.path(at), "{}", reply.text);
        let expected: Vec<Value> = (0..self.points.len())
            .rev()
            .filter(|child| self.points[*child].parent == Some(at))
            .take(BRANCHES_SHOWN)
            .map(|child| {
                let (leaf, steps, preferred) = self.reach(child);
                let current_step = &self.points[leaf].title;
                let mut branch = json!({
                    "preferred": preferred, "steps": steps, "summary": self.points[child].arrived_by,
                    "isComplete": current_step.is_none(),
                });
                if let Some(title) = current_step {
                    branch["currentStep"] = json!(title);
                }
                branch
            })
            .collect();
        let mut branches = reply.data["branches"].as_array().cloned().unwrap_or_default();
        for branch in &mut branches {
            let call =
                branch.as_object_mut().unwrap().remove("nextCall").expect("every branch can be looked at");
            assert_eq!(call["tool"], "continue_workflow");
        }
        assert_eq!(branches, expected, "{}", reply.text);
        // The summary is how the newest branch left this point; what it did beyond that follows.
        let newest = self.path(self.points.len() - 1);
        let is_newest = branches.iter().any(|branch| branch["preferred"] == true);
        let beyond = if is_newest { &newest[self.path(at).len() + 1..] } else { &[] };
        assert_eq!(recap_entries(&reply.data["downstream"]), beyond, "{}", reply.text);
    }
}

fn recap_entries(recap: &Value) -> Vec<(String, String)> {
    let entries = recap["entries"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    entries.map(|entry| (text(&entry["title"]), text(&entry["notes"]))).collect()
}

#[test]
fn figure_agent_2_goes_back_to_every_point() {
    let home = home_with(&[workflow()]);
    let agent = Agent::of(&home);
    let mut traveller = Traveller { agent, points: Vec::new() };
    let start = json!({ "workflowId": "project.branching", "context": { "flavour": "trunk" } });
    let first = traveller.agent.done("start_workflow", start);
    traveller.remember(None, &first, "trunk", "");
    traveller.go_on(0, "trunk", usize::MAX);
    let trunk = traveller.points.len() - 1;
    for point in 0..trunk {
        // One branch stops in the middle.
        traveller.go_on(point, &format!("branch-{point}"), if point == 2 { 1 } else { usize::MAX });
        // Even while branches are still being created, earlier ones do not change.
        traveller.check(point);
    }
    for point in 0..traveller.points.len() {
        traveller.check(point);
    }
    let extra = traveller.points.iter().filter(|point| point.title.as_deref() == Some("Extra")).count();
    assert_eq!(extra, 1, "the condition holds on one branch and on no other");
    let nodes = events_of_kind(&home, "node_created").len();
    assert_eq!(nodes, traveller.points.len(), "every node is one that the agent made");
    let points = traveller.points.len();
    let found = format!("{trunk} rewinds, {} branches, {points} points as they were left", trunk + 1);
    println!("{}", traveller.agent.close().figure(2, &found));
}
