//! Checks of steps, through the real binary and a real repository: what runs, what does not, and what is recorded.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod running;
mod trusting;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A project that is a repository, with a script as its check `test` and a workflow whose first step runs it.
struct Project {
    home: Home,
}

impl Project {
    /// `step` is merged into the first step of the workflow.
    fn new(step: &Value, script: &str) -> Self {
        let home = Home::new(PROGRAM);
        let own = Self { home };
        own.workflow("1.0.0", step);
        own.home.write(&own.path("check.sh"), script);
        own.home.write(&own.path(".workrail/checks.toml"), "[test]\nargv = [\"sh\", \"check.sh\"]\n");
        own.home.write(&own.path(".gitignore"), "scratch/\n");
        fs::create_dir(own.path("scratch")).unwrap();
        own.git(&["init", "-q", "-b", "main"]);
        own.git(&["add", "."]);
        own.git(&["commit", "-q", "-m", "one"]);
        own
    }

    /// The same, trusted.
    fn trusted(step: &Value, script: &str) -> Self {
        let own = Self::new(step, script);
        own.trust();
        own
    }

    fn workflow(&self, version: &str, step: &Value) {
        let mut first = json!({
            "id": "work", "title": "Work", "prompt": "Do it.", "checks": [{ "command": "test" }],
        });
        for (key, value) in step.as_object().unwrap() {
            first[key] = value.clone();
        }
        self.home.workflow(&json!({
            "id": "team.checked", "name": "Checked", "description": "Runs a check.", "version": version,
            "steps": [first, { "id": "report", "title": "Report", "prompt": "Report it." }],
        }));
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.project().join(path)
    }

    fn git(&self, arguments: &[&str]) {
        self.home.git(&self.home.project(), arguments);
    }

    fn trust(&self) {
        let trusted = self.home.typed(&["trust"], "project");
        assert_eq!(trusted.code, 0, "{trusted:?}");
    }

    fn start(&self, client: &mut McpClient, mode: &str) -> ToolReply {
        let workspace = self.home.project();
        client.call(
            "start_workflow",
            json!({ "workflowId": "team.checked", "mode": mode, "workspacePath": workspace.to_str().unwrap() }),
        )
    }

    /// How often the script ran: it appends a line each time.
    fn runs(&self) -> usize {
        fs::read_to_string(self.path("scratch/runs")).unwrap_or_default().lines().count()
    }

    /// The checks in the log of a run, oldest first.
    fn recorded(&self, run: &str) -> Vec<Value> {
        let events = self.home.events(run, "evidence_recorded").into_iter();
        let evidence = events.map(|mut event| event["data"].take());
        evidence.filter(|data| data["evidence"]["kind"] == "check_run").collect()
    }

    /// The outcomes of a run's checks: their results, or why they were not run.
    fn outcomes(&self, run: &str) -> Vec<String> {
        let recorded = self.recorded(run).into_iter().map(|data| {
            assert_eq!(data["grade"], "checked", "{data}");
            let outcome = &data["evidence"]["outcome"];
            let reason = outcome["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{}{reason}", outcome["result"].as_str().unwrap())
        });
        recorded.collect()
    }
}

const PASSES: &str = "echo run >> scratch/runs\necho all good\n";
const FAILS: &str = "echo run >> scratch/runs\necho 'assertion failed: 1 == 2'\nexit 101\n";

/// The codes of a reply's blockers.
fn blockers(reply: &ToolReply) -> Vec<String> {
    let blockers = reply.data["blockers"].as_array().cloned().unwrap_or_default();
    blockers.iter().map(|blocker| blocker["code"].as_str().unwrap().to_owned()).collect()
}
