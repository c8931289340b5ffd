//! Conversations of real hosts, played again: what a host said to its hooks goes to the real hook, the calls of our tools go to
//! the real server, and its shell runs in a real repository.
//!
//! The recordings in `fixtures/hosts` are made by `WORKRAIL_HOST_RECORD=DIR judges/hosts/run HOST`. Only the replies of our own
//! tools are left out there: they are made anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};
use workrail_testkit::volatile;

use super::claims::hook;
use super::{evidence, home, stable};

/// One event of a recording.
struct HostEvent {
    name: String,
    input: Value,
}

/// How a host names what it says about a tool that has ended.
struct HostWords {
    host: &'static str,
    after: &'static [&'static str],
    tool: &'static str,
    arguments: &'static str,
    response: &'static str,
}

const CLAUDE: HostWords = HostWords {
    host: "claude-code",
    after: &["PostToolUse", "PostToolUseFailure"],
    tool: "tool_name",
    arguments: "tool_input",
    response: "tool_response",
};

const OPENCODE: HostWords = HostWords {
    host: "opencode",
    after: &["tool.execute.after"],
    tool: "tool",
    arguments: "args",
    response: "output",
};

struct Replay {
    home: Home,
    client: McpClient,
    words: HostWords,
    last: Option<ToolReply>,
    /// What each event was answered, where that was something.
    answers: Vec<String>,
    /// The codes of blockers and warnings in the replies of our tools.
    replies: Vec<String>,
}

impl Replay {
    fn of(file: &str, words: HostWords) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(file);
        let home = home();
        let project = home.project().to_str().unwrap().to_owned();
        let text = fs::read_to_string(path).unwrap().replace("/place/project", &project);
        let recording: Value = serde_json::from_str(&text).unwrap();
        home.workflow(&recording["workflow"]);
        let client = home.client();
        let mut replay = Self { home, client, words, last: None, answers: Vec::new(), replies: Vec::new() };
        for event in recording["events"].as_array().unwrap() {
            let name = event["event"].as_str().unwrap().to_owned();
            replay.play(HostEvent { name, input: event["input"].clone() });
        }
        replay
    }

    fn play(&mut self, mut event: HostEvent) {
        if self.words.after.contains(&event.name.as_str()) {
            self.do_what_the_tool_did(&mut event.input);
        }
        if let Some(last) = &self.last {
            event.input =
                serde_json::from_str(&event.input.to_string().replace("LABEL", &last.label())).unwrap();
        }
        let answer = hook(&self.home, self.words.host, &event.name, &event.input);
        if answer != json!({}) {
            self.answers.push(format!("{}: {answer:#}", event.name));
        }
    }

    /// The tool's own effect, and the reply in the place where the host has it.
    fn do_what_the_tool_did(&mut self, input: &mut Value) {
        let tool = input[self.words.tool].as_str().unwrap_or_default().to_owned();
        let mut arguments = input[self.words.arguments].clone();
        if let Some(own) = ["start_workflow", "continue_workflow"].iter().find(|own| tool.ends_with(**own)) {
            if let (Some(last), Some(ack)) = (&self.last, arguments.get_mut("ackToken")) {
                *ack = json!(last.string("ackToken"));
            }
            let reply = self.client.call(own, arguments);
            for member in ["blockers", "warnings"] {
                let said = reply.structured[member].as_array().cloned().unwrap_or_default();
                self.replies.extend(said.iter().map(|own| own["code"].as_str().unwrap().to_owned()));
            }
            input[self.words.response] = json!([{ "type": "text", "text": reply.string("text") }]);
            self.last = Some(reply);
        } else if let Some(command) = arguments.get("command").and_then(Value::as_str) {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).current_dir(self.home.project());
            shell.status().unwrap();
        }
    }

    /// What the record holds of it, one line each.
    fn recorded(&self) -> Vec<String> {
        let run = self.last.as_ref().unwrap().label();
        let seen = evidence(&self.home, &run);
        let observed = seen.iter().filter(|own| own["grade"] == "observed");
        observed
            .map(|own| {
                let known = &own["evidence"];
                let about = known.get("command").or(known.get("files")).or(known.get("agent"));
                format!("{} {}", known["kind"].as_str().unwrap(), about.unwrap_or(&Value::Null))
            })
            .collect()
    }

    /// Everything that held, as a snapshot.
    fn held(&self) -> String {
        let run = self.last.as_ref().unwrap().label();
        let text = format!("{}\n\n{}", self.answers.join("\n\n"), self.recorded().join("\n"));
        let text = text.replace(self.home.project().to_str().unwrap(), "[project]").replace(&run, "[run]");
        volatile::replaced(&text, &self.home)
    }

    /// The blockers and warnings of every reply.
    fn said(&self) -> &[String] {
        &self.replies
    }
}

fn assert_held(name: &str, replay: &Replay) {
    stable(|| insta::assert_snapshot!(name, replay.held()));
    assert_eq!(replay.said(), ["EDITS_NOT_ALLOWED", "CLAIM_CONTRADICTED"]);
    assert!(!replay.home.project().join("early.txt").exists());
}

#[test]
fn claude_code_holds_reminds_refuses_and_contradicts() {
    assert_held("claude_code", &Replay::of("claude-code.json", CLAUDE));
}

#[test]
fn codex_holds_reminds_refuses_and_contradicts() {
    assert_held("codex", &Replay::of("codex.json", HostWords { host: "codex", ..CLAUDE }));
}

#[test]
fn opencode_reminds_refuses_and_contradicts() {
    assert_held("opencode", &Replay::of("opencode.json", OPENCODE));
}
