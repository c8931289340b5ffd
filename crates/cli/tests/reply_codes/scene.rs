//! A server in a fresh home, and one run of a small workflow.

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// What an agent got, and the home that it came from.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) home: Home,
    pub(crate) data: Value,
}

pub(crate) struct Scene {
    pub(crate) home: Home,
    pub(crate) client: McpClient,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of(Home::new(PROGRAM))
    }

    pub(crate) fn of(home: Home) -> Self {
        let client = home.client();
        Self { home, client }
    }

    /// A scene whose project is a repository with one commit and a check `test`, a script.
    pub(crate) fn in_repository(script: &str) -> Self {
        let home = Home::new(PROGRAM);
        home.write(&home.project().join("README.md"), "# Tool\n");
        home.write(&home.project().join("check.sh"), script);
        home.write(&home.project().join(".workrail/checks.toml"), "[test]\nargv = [\"sh\", \"check.sh\"]\n");
        for arguments in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-q", "-m", "one"]] {
            home.git(&home.project(), arguments);
        }
        Self::of(home)
    }

    pub(crate) fn edit(&self, path: &str, text: &str) {
        self.home.write(&self.home.project().join(path), text);
    }

    /// Writes the workflow `team.flow` with these members in place of the usual ones.
    pub(crate) fn workflow(&self, members: Value) {
        let mut workflow = json!({
            "id": "team.flow", "name": "Flow", "description": "A small flow.", "version": "1.0.0",
            "steps": [work(json!({})), end()],
        });
        merge(&mut workflow, members);
        self.home.workflow(&workflow);
    }

    /// Starts `team.flow` with these members.
    pub(crate) fn start(&mut self, members: Value) -> ToolReply {
        self.start_in("guided", members)
    }

    /// The same with a mode.
    pub(crate) fn start_in(&mut self, mode: &str, members: Value) -> ToolReply {
        self.workflow(members);
        let started = self
            .client
            .call("start_workflow", json!({ "workflowId": "team.flow", "goal": "ship 2.0", "mode": mode }));
        assert!(!started.is_error, "{}", started.text);
        started
    }

    /// Completes the step of a reply with notes and more: `artifacts`, `context`.
    pub(crate) fn send(&mut self, reply: &ToolReply, more: Value) -> ToolReply {
        let mut arguments =
            json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": "Did the work." } });
        if let Some(artifacts) = more.get("artifacts") {
            arguments["output"]["artifacts"] = artifacts.clone();
        }
        if let Some(context) = more.get("context") {
            arguments["context"] = context.clone();
        }
        self.client.call("continue_workflow", arguments)
    }

    /// Shows the step of a reply again.
    pub(crate) fn look(&mut self, reply: &ToolReply) -> ToolReply {
        self.client.call("continue_workflow", json!({ "stateToken": reply.string("stateToken") }))
    }

    pub(crate) fn answer(self, reply: ToolReply) -> Answer {
        Answer { home: self.home, data: reply.data }
    }
}

/// The first step, with these members added.
pub(crate) fn work(extra: Value) -> Value {
    let mut step = json!({ "id": "work", "title": "Work", "prompt": "Do the work." });
    merge(&mut step, extra);
    step
}

/// The last step, which asks for nothing.
pub(crate) fn end() -> Value {
    json!({ "id": "end", "title": "Report", "prompt": "Report it." })
}

/// The members of a workflow that is the first step, with these members, and the last.
pub(crate) fn step(extra: Value) -> Value {
    json!({ "steps": [work(extra), end()] })
}

/// The members of a workflow with a loop of one round, decided by its only step, and what happens at the limit.
pub(crate) fn one_round(on_limit: &str) -> Value {
    let decide = work(json!({ "outputContract": { "contractRef": "wr.contracts.loop_control" } }));
    json!({ "steps": [
        { "id": "again", "type": "loop", "title": "Again", "body": [decide],
          "loop": { "type": "while", "maxIterations": 1, "onLimit": on_limit } },
        end(),
    ] })
}

/// The artifact that asks for another round.
pub(crate) fn another_round() -> Value {
    json!({ "artifacts": [{ "kind": "wr.loop_control", "decision": "continue" }] })
}

/// The artifact that reports whether the agent can browse.
pub(crate) fn browsing(status: &str) -> Value {
    json!({ "artifacts": [{
        "kind": "wr.capability_observation", "capability": "web_browsing", "status": status,
        "attempt": { "result": "failure", "failureCode": "tool_missing" },
    }] })
}

fn merge(into: &mut Value, extra: Value) {
    into.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
}
