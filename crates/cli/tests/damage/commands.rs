//! Every command of the program and every tool of the server, with its subject and how its answer is compared.

use serde_json::{Value, json};
use workrail_testkit::home::{CommandRun, Home};

use crate::template::{CHAT, Run, Template};

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
    /// A panic, a signal, a hang, or an answer of unknown form.
    Broken(String),
}

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
            Call::Tool(tool, arguments) => run_tool(home, wrapper, tool, arguments),
            Call::Hook(event, input) => run_hook(home, wrapper, event, input),
        }
    }
}

fn run_program(home: &Home, wrapper: &[&str], arguments: &[String]) -> CommandResult {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    answer_of(home, &home.run_in(wrapper, &arguments))
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
    let broken =
        |what: String| CommandResult { end: End::Broken(what.clone()), value: Value::Null, output: what };
    let mut server = match home.server_in(wrapper) {
        Ok(server) => server,
        // A server that cannot start says why: the oracle decides whether the reason is valid.
        Err(why)
            if why.contains("panicked at")
                || !why.contains("cannot serve") && !why.contains("config.toml") =>
        {
            return broken(why);
        }
        Err(why) => {
            return CommandResult {
                end: End::Refused("NO_SERVER".to_owned()),
                value: Value::Null,
                output: why,
            };
        }
    };
    let reply = server.try_call(tool, arguments.clone());
    let (status, told) = server.end();
    match reply {
        Err(why) => broken(format!("{why}: {told}")),
        Ok(_) if told.contains("panicked at") || !status.success() => broken(format!("{status}: {told}")),
        Ok(reply) => {
            let end = match reply.is_error {
                true => End::Refused(reply.structured["code"].as_str().unwrap_or("none").to_owned()),
                false => End::Done,
            };
            CommandResult {
                end,
                value: normal(&reply.structured, home),
                output: format!("{}\n{told}", reply.text),
            }
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

/// All commands, with those about a session for each of them.
pub(crate) fn commands(template: &Template) -> Vec<Command> {
    let mut all = Vec::new();
    for run in [&template.victim, &template.sharing, &template.apart] {
        all.extend(about_one(run));
    }
    all.extend(about_all(template));
    all.extend(next_steps(template));
    all.extend(in_hosts(template));
    all
}

/// What hosts run between two calls, and what is configured in them.
fn in_hosts(template: &Template) -> Vec<Command> {
    use Effect::{Looks, Writes};
    let hook = |name: &str, event, input| Command {
        name: name.to_owned(),
        effect: Writes,
        about: About::Elsewhere,
        compare: Compare::Success,
        signs: false,
        call: Call::Hook(event, input),
    };
    let change =
        |name, arguments: &[&str]| program(name, Writes, About::Elsewhere, Compare::Success, arguments);
    vec![
        hook("hook, turn ends", "Stop", json!({ "stop_hook_active": false, "background_tasks": [] })),
        hook("hook, chat resumed", "SessionStart", json!({ "source": "resume" })),
        hook("hook, step shown", "PostToolUse", shown(&template.victim)),
        hook("hook, command run", "PostToolUse", ran("cargo check")),
        program("install list", Looks, About::Elsewhere, Compare::Success, &["install", "--list"]),
        change("install", &["install", "--client", "gemini", "--yes"]),
        change("uninstall", &["uninstall", "--client", INSTALLED_CLIENT, "--yes"]),
    ]
}

/// What Claude Code reports after one of our tools returned the pending step of a run.
pub(crate) fn shown(run: &Run) -> Value {
    let text = json!([{ "type": "text", "text": format!("stateToken: {}", run.state) }]);
    json!({ "tool_name": "mcp__workrail__continue_workflow", "tool_response": text })
}

/// What it reports after a command of the agent.
pub(crate) fn ran(command: &str) -> Value {
    let response = json!({ "stdout": "", "stderr": "", "interrupted": false });
    json!({ "tool_name": "Bash", "tool_input": { "command": command }, "tool_response": response })
}

/// Configured in the template.
pub(crate) const INSTALLED_CLIENT: &str = "claude-code";

/// Commands that errors and `doctor` recommend.
fn next_steps(template: &Template) -> Vec<Command> {
    let has = |arguments: &[&str]| template.home.run(&[arguments, &["--help"]].concat()).code == 0;
    let mut found = Vec::new();
    if has(&["store", "restore"]) {
        let step = |name, effect, arguments: &[&str]| {
            program(name, effect, About::Store, Compare::Diagnosis, arguments)
        };
        found.push(step("restore", Effect::Repairs, &["store", "restore", "../backup"]));
        found.push(step("restore dry run", Effect::Looks, &["store", "restore", "../backup", "--dry-run"]));
        found.push(step("backup", Effect::Writes, &["store", "backup", "../another-backup"]));
        found.push(step("copy", Effect::Writes, &["store", "copy", "../data", "../another-store"]));
    }
    if has(&["store", "keys", "new"]) {
        let arguments = ["store", "keys", "new", "--yes"];
        found.push(program("keys new", Effect::Repairs, About::Elsewhere, Compare::Diagnosis, &arguments));
    }
    let new_secret = ["store", "keys", "http-secret", "--new", "--yes"];
    found.push(program(
        "new http secret",
        Effect::Repairs,
        About::Elsewhere,
        Compare::Diagnosis,
        &new_secret,
    ));
    found
}

fn program(name: &str, effect: Effect, about: About, compare: Compare, arguments: &[&str]) -> Command {
    let mut arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    arguments.push("--json".to_owned());
    let signs = ["resume", "show"].iter().any(|word| name.contains(word));
    Command { name: name.to_owned(), effect, about, compare, signs, call: Call::Program(arguments) }
}

fn tool(
    name: &str,
    effect: Effect,
    about: About,
    compare: Compare,
    tool: &'static str,
    arguments: Value,
) -> Command {
    let signs = !["workflow", "list", "inspect"].iter().any(|word| name.starts_with(word));
    Command { name: name.to_owned(), effect, about, compare, signs, call: Call::Tool(tool, arguments) }
}

fn about_one(run: &Run) -> Vec<Command> {
    use Compare::{Diagnosis, Success, Whole};
    use Effect::{Looks, Repairs, Writes};
    let session = run.session.as_str();
    let about = || About::Session(session.to_owned());
    let named = |name: &str| format!("{name} {}", run.word);
    let say = |name: &str, effect, compare, arguments: &[&str]| {
        program(&named(name), effect, about(), compare, arguments)
    };
    let ask = |name: &str, effect, compare, called, arguments| {
        tool(&named(name), effect, about(), compare, called, arguments)
    };
    let output = json!({ "notesMarkdown": "counted again" });
    vec![
        say("sessions show", Looks, Whole, &["show", session]),
        say("sessions show by label", Looks, Whole, &["show", &run.label]),
        say("sessions log", Looks, Whole, &["log", session]),
        say("sessions tree", Looks, Whole, &["tree", session]),
        say("report", Looks, Whole, &["report", session]),
        say("report by label", Looks, Whole, &["report", &run.label]),
        say("export", Looks, Success, &["session", "export", session, "-o", "../out.json", "--force"]),
        say("prefs show", Looks, Whole, &["session", "prefs", "show", "--session", session]),
        say("verify one", Looks, Diagnosis, &["store", "verify", session]),
        say("repair dry run", Looks, Diagnosis, &["store", "repair", session, "--dry-run"]),
        ask("look", Looks, Whole, "continue_workflow", json!({ "stateToken": run.state })),
        ask("replay", Looks, Whole, "continue_workflow", run.last_call.clone()),
        ask("read run", Looks, Whole, "read_run", json!({ "run": run.label })),
        // It offers other runs too, each in its own object.
        Command {
            about: About::Store,
            ..ask(
                "resume by label",
                Looks,
                Compare::PerSession,
                "resume_session",
                json!({ "run": run.label }),
            )
        },
        ask(
            "advance",
            Writes,
            Success,
            "continue_workflow",
            json!({ "ackToken": run.ack, "output": output }),
        ),
        ask(
            "checkpoint",
            Writes,
            Success,
            "checkpoint_workflow",
            json!({ "checkpointToken": run.checkpoint, "output": output }),
        ),
        say("repair", Repairs, Diagnosis, &["store", "repair", session, "--yes"]),
    ]
}

fn about_all(template: &Template) -> Vec<Command> {
    use About::{Elsewhere, Store};
    use Compare::{Diagnosis, PerSession, Success, Whole};
    use Effect::{Looks, Writes};
    let bundle = template.bundle_path();
    let bundle = format!("../home/{}", bundle.file_name().unwrap().to_string_lossy());
    vec![
        program("status", Looks, Store, PerSession, &["status"]),
        program("sessions list", Looks, Store, PerSession, &["session", "list", "--all"]),
        program("sessions search", Looks, Store, PerSession, &["search", "the"]),
        program("sessions resume", Looks, Store, PerSession, &["resume", "swifts"]),
        program("verify", Looks, Store, Diagnosis, &["store", "verify"]),
        program("doctor", Looks, Store, Diagnosis, &["doctor"]),
        program("gc dry run", Looks, Store, Success, &["store", "gc", "--dry-run"]),
        program("keys", Looks, Elsewhere, Diagnosis, &["store", "keys", "show"]),
        program("http secret", Looks, Elsewhere, Diagnosis, &["store", "keys", "http-secret"]),
        program("passkeys", Looks, Elsewhere, Whole, &["store", "passkeys", "show"]),
        program("prefs show", Looks, Elsewhere, Whole, &["session", "prefs", "show"]),
        program("list", Looks, Elsewhere, Whole, &["workflow", "list"]),
        program("inspect", Looks, Elsewhere, Whole, &["workflow", "inspect", "team.walk"]),
        program("config", Looks, Elsewhere, Success, &["config", "list"]),
        tool("list tool", Looks, Elsewhere, Whole, "list_workflows", json!({})),
        tool(
            "inspect tool",
            Looks,
            Elsewhere,
            Whole,
            "inspect_workflow",
            json!({ "workflowId": "team.apart" }),
        ),
        tool("resume by words", Looks, Store, PerSession, "resume_session", json!({ "query": "swifts" })),
        tool("resume by nothing", Looks, Store, PerSession, "resume_session", json!({})),
        tool(
            "start",
            Writes,
            Elsewhere,
            Success,
            "start_workflow",
            json!({ "workflowId": "team.apart", "goal": "new" }),
        ),
        tool(
            "start the same",
            Writes,
            Elsewhere,
            Success,
            "start_workflow",
            json!({ "workflowId": "team.walk" }),
        ),
        program("import", Writes, Elsewhere, Success, &["session", "import", &bundle]),
        program("gc", Writes, Store, Success, &["store", "gc"]),
        program(
            "keep",
            Writes,
            About::Session(template.apart.session.clone()),
            Success,
            &["session", "keep", &template.apart.session],
        ),
        // The mark is not part of the session: it can be removed from a damaged one, too.
        program("unkeep", Writes, Elsewhere, Success, &["session", "unkeep", &template.victim.session]),
        program(
            "delete",
            Writes,
            About::Session(template.apart.session.clone()),
            Success,
            &["session", "delete", &template.apart.session, "--yes"],
        ),
    ]
}
