//! A home with workflows and runs, and a transcript of the program's output in it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use workrail_testkit::home::{CommandRun, Home, User};
use workrail_testkit::mcp_client::{McpClient, ToolReply, with_own_words};
use workrail_testkit::volatile;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// What only some commands print, with what replaces it.
const VOLATILE: [(&str, &str); 5] = [
    (r"\btok_[0-9a-z]{16}\.[\w-]{43}", "[token]"),
    (r"\btok_[0-9a-z]{16}\b", "[token id]"),
    (r"\b127\.0\.0\.1:\d+", "127.0.0.1:[port]"),
    (r"\?code=[\w-]+", "?code=[code]"),
    (r"(?m)^\d\d:\d\d:\d\d  ", "[clock]  "),
];

/// One home, and all output in it so far.
pub(crate) struct Stage {
    _folder: tempfile::TempDir,
    home: Home,
    names: RefCell<Vec<(String, String)>>,
    transcript: RefCell<String>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        // Users other than root must be able to reach the home beneath.
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let home = Home::create(Path::new(PROGRAM), &root, User::find());
        let stage = Self { _folder: folder, home, names: RefCell::default(), transcript: RefCell::default() };
        stage.home.workflow(&json!({
            "id": "team.change", "name": "A change", "description": "Change something and check it.", "version": "1.0.0",
            "steps": [
                { "id": "change", "title": "Make the change", "prompt": "Change the code." },
                { "id": "check", "title": "Check the change", "prompt": "Run the tests." },
            ],
        }));
        stage.home.workflow(&json!({
            "id": "team.release", "name": "A release", "description": "Publish, with an approval.", "version": "1.0.0",
            "steps": [
                { "id": "publish", "title": "Publish", "prompt": "Publish it.",
                  "requireConfirmation": { "kind": "human_approval" } },
                { "id": "announce", "title": "Announce", "prompt": "Tell the users." },
            ],
        }));
        stage.home.workflow(&json!({
            "id": "team.report", "name": "A report", "description": "Notes with a rule.", "version": "1.0.0",
            "steps": [
                { "id": "write", "title": "Write the report", "prompt": "Write it.",
                  "validationCriteria": [{ "type": "contains", "value": "Sources", "message": "Name the sources." }] },
                { "id": "send", "title": "Send the report", "prompt": "Send it." },
            ],
        }));
        stage
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// A file of the project, in which commands run.
    pub(crate) fn project_file(&self, name: &str, text: &str) {
        self.home.write(&self.home.project().join(name), text);
    }

    pub(crate) fn server(&self) -> McpClient {
        self.home.server().unwrap()
    }

    /// Gives a reply's run a name that every snapshot shows instead of its label.
    pub(crate) fn name(&self, reply: &ToolReply, name: &str) -> String {
        let label = reply.data["run"]["label"].as_str().unwrap().to_owned();
        self.hide(&label, name);
        label
    }

    /// Shows a name in brackets instead of a text that differs from run to run.
    pub(crate) fn hide(&self, text: &str, name: &str) {
        self.names.borrow_mut().push((text.to_owned(), format!("[{name}]")));
    }

    /// Runs a command and records its output.
    pub(crate) fn say(&self, arguments: &[&str]) {
        self.record(arguments, &self.home.run(arguments));
    }

    /// Runs a command with an environment variable and records its output.
    pub(crate) fn say_with(&self, name: &str, value: &str, arguments: &[&str]) {
        self.record(arguments, &self.home.with(name, value).run(arguments));
    }

    fn record(&self, arguments: &[&str], ran: &CommandRun) {
        let mut said = self.transcript.borrow_mut();
        writeln!(said, "$ workrail {}", arguments.join(" ")).unwrap();
        said.push_str(&ran.out);
        for line in ran.err.lines() {
            writeln!(said, "! {line}").unwrap();
        }
        if ran.code != 0 {
            writeln!(said, "[exit code {}]", ran.code).unwrap();
        }
        said.push('\n');
    }

    /// Starts a command that runs until it is stopped, records its first line and stops it.
    pub(crate) fn say_first_line(&self, arguments: &[&str]) {
        let (output, end) = std::io::pipe().unwrap();
        let mut command = self.home.command(arguments);
        command.stdin(Stdio::null()).stdout(end.try_clone().unwrap()).stderr(end);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        child.wait().unwrap();
        writeln!(self.transcript.borrow_mut(), "$ workrail {}\n{line}[stopped]\n", arguments.join(" "))
            .unwrap();
    }

    /// Runs a command on a screen of this many columns: no line may be wider, and every run of the stage that the
    /// full output names must be named. A call is copied, so it is never wrapped. Where text is cut depends on
    /// labels, so it is not recorded.
    pub(crate) fn fits(&self, arguments: &[&str], columns: usize) {
        let whole = self.home.run(arguments).out;
        let ran = self.home.with("COLUMNS", columns.to_string()).run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        let is_call = |line: &&str| line.trim_start().starts_with('{');
        let too_wide = |line: &&str| line.chars().count() > columns && !is_call(line);
        let wide: Vec<&str> = ran.out.lines().filter(too_wide).collect();
        assert!(wide.is_empty(), "wider than {columns}: {wide:#?}");
        for (label, _) in self.names.borrow().iter().filter(|(label, _)| whole.contains(label.as_str())) {
            assert!(ran.out.contains(label.as_str()), "{label} is missing: {}", ran.out);
        }
    }

    /// Types a line into a command at a terminal and records what the terminal showed.
    pub(crate) fn type_line(&self, arguments: &[&str], line: &str) {
        let ran = self.home.typed(arguments, line);
        let mut said = self.transcript.borrow_mut();
        write!(said, "$ workrail {}\n{}", arguments.join(" "), ran.out.replace('\r', "")).unwrap();
        write!(said, "[exit code {}]\n\n", ran.code).unwrap();
    }

    /// Runs the same command as text and as JSON.
    pub(crate) fn say_both(&self, arguments: &[&str]) {
        self.say(arguments);
        self.say(&[arguments, &["--json"]].concat());
    }

    /// Calls a tool and records the arguments, the text and the structured reply.
    pub(crate) fn call(&self, client: &mut McpClient, tool: &str, arguments: Value) -> ToolReply {
        let reply = client.call(tool, arguments.clone());
        let mut said = self.transcript.borrow_mut();
        let kind = if reply.is_error { "error" } else { "reply" };
        let mut structured = reply.data.clone();
        // Repeats the text.
        structured.as_object_mut().unwrap().remove("text");
        let structured = serde_json::to_string_pretty(&structured).unwrap();
        write!(said, "> {tool} {arguments}\n{}\n\n({kind}, structured) {structured}\n\n", reply.text)
            .unwrap();
        reply
    }

    /// Makes the next call of a reply without recording it.
    pub(crate) fn follow(client: &mut McpClient, reply: &ToolReply) -> ToolReply {
        let call = &reply.data["nextCall"];
        client.call(call["tool"].as_str().unwrap(), with_own_words(&call["arguments"]))
    }

    /// Compares everything recorded since the last time with the snapshot of this name.
    pub(crate) fn compare(&self, name: &str) {
        let mut text = std::mem::take(&mut *self.transcript.borrow_mut());
        for (volatile, stable) in &*self.names.borrow() {
            text = text.replace(volatile.as_str(), stable);
        }
        let text = volatile::replaced(&text, &self.home);
        let mut settings = crate::snapshot::settings();
        for (pattern, stable) in VOLATILE {
            settings.add_filter(pattern, stable);
        }
        settings.bind(|| insta::assert_snapshot!(name, text));
    }
}
