//! Replays conversations of real hosts: a host's hook input goes to the real hook, calls of our tools go to the real
//! server, and its shell runs in a real repository.
//!
//! The recordings in `fixtures/hosts` are made by `WORKRAIL_HOST_RECORD=DIR judges/hosts/run HOST`. They leave out
//! only the replies of our own tools, which are made again here.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use super::claims::hook;
use super::{evidence, home};

/// One event of a recording.
struct HostEvent {
    name: String,
    input: Value,
}

/// A host's field names for a finished tool call.
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
    /// The answers to the events, except empty ones.
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
        if let Some(last) = &self.last {
            event.input =
                serde_json::from_str(&event.input.to_string().replace("LABEL", &last.label())).unwrap();
        }
        if self.words.after.contains(&event.name.as_str()) {
            self.do_what_the_tool_did(&mut event.input);
        }
        let answer = hook(&self.home, self.words.host, &event.name, &event.input);
        if answer != json!({}) {
            self.answers.push(format!("{} {}", event.name, kind_of(&answer)));
        }
    }

    /// Repeats the tool's effect, and puts the reply where the host has it.
    fn do_what_the_tool_did(&mut self, input: &mut Value) {
        let tool = input[self.words.tool].as_str().unwrap_or_default().to_owned();
        let mut arguments = input[self.words.arguments].clone();
        if let Some(own) = ["start_workflow", "continue_workflow"].iter().find(|own| tool.ends_with(**own)) {
            if let (Some(last), Some(ack)) = (&self.last, arguments.get_mut("ackToken")) {
                *ack = json!(last.string("ackToken"));
            }
            let reply = self.client.call(own, arguments);
            for member in ["blockers", "warnings"] {
                let said = reply.data[member].as_array().cloned().unwrap_or_default();
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

    /// The recorded kinds of hook observations, except that the chat was seen.
    fn recorded(&self) -> Vec<String> {
        let run = self.last.as_ref().unwrap().label();
        let seen = evidence(&self.home, &run);
        let observed = seen.iter().filter(|own| own["grade"] == "observed");
        let kinds = observed.map(|own| own["evidence"]["kind"].as_str().unwrap().to_owned());
        kinds.filter(|kind| kind != "chat_watched").collect()
    }
}

/// The effect of an answer, whatever the host calls it.
fn kind_of(answer: &Value) -> &'static str {
    let text = answer.to_string();
    let shapes = [
        ("\"permissionDecision\":\"deny\"", "denied"),
        ("\"deny\":", "denied"),
        ("\"decision\":\"block\"", "held"),
        ("\"prompt\":", "held"),
        ("This chat works on WorkRail run", "given back"),
        ("was started in this folder", "told"),
    ];
    shapes.iter().find(|(shape, _)| text.contains(shape)).map(|(_, kind)| *kind).unwrap()
}

const RECORDED: [&str; 7] = [
    "command_refused",
    "edit_refused",
    "command_run",
    "subagent_started",
    "edit_refused",
    "command_run",
    "command_run",
];

fn assert_held(replay: &Replay, answers: &[&str]) {
    assert_eq!(replay.answers, answers);
    assert_eq!(replay.replies, ["EDITS_NOT_ALLOWED", "CLAIM_CONTRADICTED"]);
    assert_eq!(replay.recorded(), RECORDED);
    assert!(!replay.home.project().join("early.txt").exists());
}

#[test]
fn claude_code_holds_reminds_refuses_and_contradicts() {
    let answers = [
        "PreToolUse denied",
        "PreToolUse denied",
        "PreToolUse denied",
        "Stop held",
        "SessionStart given back",
        "Stop held",
        "SessionStart given back",
        "Stop held",
        "SessionStart given back",
        "SessionStart given back",
        "SessionStart given back",
        "SessionStart told",
    ];
    assert_held(&Replay::of("claude-code.json", CLAUDE), &answers);
}

#[test]
fn codex_holds_reminds_refuses_and_contradicts() {
    let answers = [
        "PreToolUse denied",
        "PreToolUse denied",
        "PreToolUse denied",
        "Stop held",
        "SessionStart given back",
        "Stop held",
        "SessionStart given back",
        "Stop held",
        "SessionStart given back",
        "SessionStart given back",
        "SessionStart told",
    ];
    assert_held(&Replay::of("codex.json", HostWords { host: "codex", ..CLAUDE }), &answers);
}

#[test]
fn opencode_reminds_refuses_and_contradicts() {
    let answers = [
        "tool.execute.before denied",
        "tool.execute.before denied",
        "tool.execute.before denied",
        "session.idle held",
        "chat.system given back",
        "session.idle held",
        "chat.system given back",
        "session.idle held",
        "session.compacting given back",
        "chat.system given back",
        "chat.system given back",
        "chat.system told",
    ];
    assert_held(&Replay::of("opencode.json", OPENCODE), &answers);
}
