//! A command or a tool call: its subject, how it runs, and how its answer is compared.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;
use workrail_model::shell;
use workrail_testkit::home::{CommandRun, Home};
use workrail_testkit::mcp_client::is_refusal;

use crate::template::CHAT;

/// What a command may do to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Looks,
    Writes,
    /// Repairs damage, on command.
    Repairs,
}

/// The subject of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Session(String),
    /// Several sessions, each in its own objects.
    Store,
    /// Nothing in the store.
    Elsewhere,
}

/// What must be unchanged if nothing is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// The whole answer.
    Whole,
    /// Each session's own part of the answer.
    PerSession,
    /// Only that it succeeds.
    Success,
    /// It reports what is wrong, so its answer differs.
    Diagnosis,
}

#[derive(Clone, Debug)]
pub(crate) enum Call {
    Program(Vec<String>),
    /// At a terminal, where this line is typed.
    Typed(Vec<String>, String),
    Tool(&'static str, Value),
    /// An event of Claude Code, with its standard input.
    Hook(&'static str, Value),
}

#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) name: String,
    pub(crate) effect: Effect,
    pub(crate) about: About,
    pub(crate) compare: Compare,
    /// Whether the answer contains tokens, which need keys.
    pub(crate) signs: bool,
    pub(crate) call: Call,
}

/// How a command ended, with its answer in comparable form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CommandResult {
    pub(crate) end: End,
    pub(crate) value: Value,
    /// All output, on every channel.
    pub(crate) output: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// It found problems and named them.
    Problems,
    /// A typed error.
    Refused(String),
    /// The server ended with an error of its own while it was in use.
    Stopped(String),
    /// A panic, a signal, a hang, or an answer of unknown form.
    Broken(String),
}

/// In place of an error code: the server did not start and said why.
pub(crate) const NO_SERVER: &str = "NO_SERVER";

impl Command {
    /// Whether the call carries a token that was signed before the damage.
    pub(crate) fn presents_token(&self) -> bool {
        ["look ", "replay ", "advance ", "checkpoint "].iter().any(|name| self.name.starts_with(name))
    }

    pub(crate) fn run(&self, home: &Home) -> CommandResult {
        self.run_in(home, &[])
    }

    /// Runs it under another program, such as `strace`.
    pub(crate) fn run_in(&self, home: &Home, wrapper: &[&str]) -> CommandResult {
        match &self.call {
            Call::Program(arguments) => run_program(home, wrapper, arguments),
            Call::Typed(arguments, line) => run_typed(home, wrapper, arguments, line),
            Call::Tool(tool, arguments) => run_tool(home, wrapper, tool, arguments),
            Call::Hook(event, input) => run_hook(home, wrapper, event, input),
        }
    }
}

fn run_program(home: &Home, wrapper: &[&str], arguments: &[String]) -> CommandResult {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    answer_of(home, &home.run_in(wrapper, &arguments))
}

/// The shell ignores the program and arguments that follow: they are in the line already.
const TERMINAL: &str = "exec script --quiet --return --echo never --command \"$1\" /dev/null";

/// The terminal shows the questions; the answer is written to a file.
fn run_typed(home: &Home, wrapper: &[&str], arguments: &[String], line: &str) -> CommandResult {
    let file = home.home().join("answer");
    let program = home.program().to_str().unwrap();
    let words = wrapper.iter().copied().chain([program]).chain(arguments.iter().map(String::as_str));
    let command = format!("exec {} >{}", shell::line(words), shell::line([file.to_str().unwrap()]));
    let mut terminal = home.command_in(&["sh", "-c", TERMINAL, "sh", &command], &[]);
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut terminal = terminal.spawn().unwrap();
    // At the end of its input, `script` waits for two seconds, so the keyboard stays until the command has ended.
    let mut keyboard = terminal.stdin.take().unwrap();
    // A command that needs no answer may have ended.
    let _ = writeln!(keyboard, "{line}");
    let ended = terminal.wait_with_output().unwrap();
    drop(keyboard);
    let shown = String::from_utf8_lossy(&ended.stdout).into_owned();
    let out = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(file);
    answer_of(home, &CommandRun { code: ended.status.code().unwrap_or(137), out, err: shown })
}

/// Whatever is damaged, a hook exits with 0 and prints one JSON document (G108).
fn run_hook(home: &Home, wrapper: &[&str], event: &str, input: &Value) -> CommandResult {
    let mut input = input.clone();
    input["session_id"] = CHAT.into();
    input["cwd"] = home.project().to_str().into();
    let ran = home.fed_in(wrapper, &["hook", "claude-code", event], input.to_string().as_bytes());
    match ran.code {
        0 => answer_of(home, &ran),
        code => {
            let what = format!("code {code}: {}{}", ran.out, ran.err);
            CommandResult { end: End::Broken(what.clone()), value: Value::Null, output: what }
        }
    }
}

pub(crate) fn answer_of(home: &Home, ran: &CommandRun) -> CommandResult {
    let output = format!("{}\n{}", ran.out, ran.err);
    let value: Option<Value> = serde_json::from_str(&ran.out).ok();
    let end = match (ran.code, &value) {
        _ if ran.err.contains("panicked at") => End::Broken(ran.err.clone()),
        (_, None) => End::Broken(format!("code {}, no JSON document: {output}", ran.code)),
        (0, Some(_)) => End::Done,
        (1..=3, Some(value)) => match value["error"]["code"].as_str() {
            Some(code) => End::Refused(code.to_owned()),
            None => End::Problems,
        },
        (code, Some(_)) => End::Broken(format!("code {code}: {output}")),
    };
    CommandResult { end, value: normal(&value.unwrap_or(Value::Null), home), output }
}

fn run_tool(home: &Home, wrapper: &[&str], tool: &str, arguments: &Value) -> CommandResult {
    let ended = |end: End, output: String| CommandResult { end, value: Value::Null, output };
    let mut server = match home.server_in(wrapper) {
        Ok(server) => server,
        // The oracle decides whether the reason is valid.
        Err(why) if why.is_refusal() => return ended(End::Refused(NO_SERVER.to_owned()), why.to_string()),
        Err(why) => return ended(End::Broken(why.to_string()), why.to_string()),
    };
    let reply = server.try_call(tool, arguments.clone());
    let (status, told) = server.end();
    let failed = |what: String| match is_refusal(status.code(), &told) {
        true => ended(End::Stopped(what.clone()), what),
        false => ended(End::Broken(what.clone()), what),
    };
    match reply {
        Err(why) => failed(format!("{why}: {told}")),
        Ok(_) if told.contains("panicked at") || !status.success() => failed(format!("{status}: {told}")),
        Ok(reply) => {
            let end = match reply.is_error {
                true => End::Refused(reply.data["code"].as_str().unwrap_or("none").to_owned()),
                false => End::Done,
            };
            CommandResult { end, value: normal(&reply.data, home), output: format!("{}\n{told}", reply.text) }
        }
    }
}

/// The answer without what differs between homes and calls: paths and tokens.
fn normal(value: &Value, home: &Home) -> Value {
    match value {
        Value::String(text) => {
            Value::String(without_tokens(&text.replace(home.root().to_str().unwrap(), "<home>")))
        }
        Value::Array(items) => items.iter().map(|item| normal(item, home)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), normal(member, home))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn without_tokens(text: &str) -> String {
    let of_token = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    text.split_inclusive(|letter| !of_token(letter))
        .map(|word| {
            let token = word.trim_end_matches(|letter| !of_token(letter));
            match [".v1.", ".v2."].iter().any(|version| token.contains(version)) {
                true => word.replace(token, "<token>"),
                false => word.to_owned(),
            }
        })
        .collect()
}
