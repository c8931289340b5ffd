//! A home with workflows and runs, and a transcript of what the program says in it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use workrail_core::label::RunLabel;
use workrail_testkit::home::{Home, User};
use workrail_testkit::mcp_client::{McpClient, ToolReply, with_own_words};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// What differs from run to run, and the name that stands for it. The order matters: longer forms come first.
const VOLATILE: [(&str, &str); 16] = [
    (r"\b(st|ack|chk)\.v\d\.(\[[^\]]+\]|[^.\s]+)\.[0-9a-z]{20,}", "[$1 token]"),
    (r"sha256:[0-9a-f]{64}", "[sha256]"),
    (r"\b[0-9a-f]{64}\b", "[digest]"),
    (r"\b(session|run|node)_[0-9a-z]{9,}", "[$1]"),
    (r"\bsess_[0-9a-z]{9,}", "[session]"),
    (r"\b(evt|gap|attempt|out|trace|bundle|snap)_[0-9a-z]{9,}", "[$1]"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z)?", "[time]"),
    (r"\d{4}-\d\d-\d\d\b", "[day]"),
    (r"\b\d+(\.\d+)? (ms|s|seconds?|minutes?)\b", "[span]"),
    (r"\b\d+(\.\d+)? (bytes|B|KB|MB|KiB|MiB|GiB)\b", "[size]"),
    (r#""(\w*[bB]ytes|pid|elapsedMs)": \d+"#, "\"$1\": 0"),
    (r"\(([0-9a-f]{7,40})\)", "([commit])"),
    (r"\b[0-9a-f]{16}\b", "[fingerprint]"),
    (r"git version [\d.]+", "git version [version]"),
    // Columns are as wide as their widest label.
    (r"(\S) {2,}", "$1  "),
    (r"(?m)[ \t]+$", ""),
];

/// One home, and everything that was said in it so far.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    home: Home,
    names: RefCell<Vec<(String, String)>>,
    transcript: RefCell<String>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        // Other users than root must reach the home beneath.
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let home = Home::create(Path::new(PROGRAM), &root, User::find());
        let stage = Self { folder, home, names: RefCell::default(), transcript: RefCell::default() };
        stage.workflow(&json!({
            "id": "team.change", "name": "A change", "description": "Change something and check it.", "version": "1.0.0",
            "steps": [
                { "id": "change", "title": "Make the change", "prompt": "Change the code." },
                { "id": "check", "title": "Check the change", "prompt": "Run the tests." },
            ],
        }));
        stage.workflow(&json!({
            "id": "team.release", "name": "A release", "description": "Publish, with an approval.", "version": "1.0.0",
            "steps": [
                { "id": "publish", "title": "Publish", "prompt": "Publish it.",
                  "requireConfirmation": { "kind": "human_approval" } },
                { "id": "announce", "title": "Announce", "prompt": "Tell the users." },
            ],
        }));
        stage.workflow(&json!({
            "id": "team.report", "name": "A report", "description": "Notes with a rule.", "version": "1.0.0",
            "steps": [
                { "id": "write", "title": "Write the report", "prompt": "Write it.",
                  "validationCriteria": [{ "type": "contains", "value": "Sources", "message": "Name the sources." }] },
                { "id": "send", "title": "Send the report", "prompt": "Send it." },
            ],
        }));
        stage
    }

    pub(crate) fn workflow(&self, source: &Value) {
        let file = self.home.workflows().join(format!("{}.json", source["id"].as_str().unwrap()));
        self.home.write(&file, &serde_json::to_string_pretty(source).unwrap());
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// A file of the project, where commands run.
    pub(crate) fn project_file(&self, name: &str, text: &str) {
        self.home.write(&self.home.project().join(name), text);
    }

    pub(crate) fn server(&self) -> McpClient {
        self.home.server().unwrap()
    }

    /// Gives the run of a reply a name that every snapshot shows instead of its label.
    pub(crate) fn name(&self, reply: &ToolReply, name: &str) -> String {
        let label = reply.structured["run"]["label"].as_str().unwrap().to_owned();
        self.names.borrow_mut().push((label.clone(), format!("[{name}]")));
        label
    }

    /// Runs a command and writes down what it said.
    pub(crate) fn say(&self, arguments: &[&str]) {
        let ran = self.home.run(arguments);
        let mut said = self.transcript.borrow_mut();
        write!(said, "$ workrail {}\n", arguments.join(" ")).unwrap();
        said.push_str(&ran.out);
        for line in ran.err.lines() {
            write!(said, "! {line}\n").unwrap();
        }
        if ran.code != 0 {
            write!(said, "[exit code {}]\n", ran.code).unwrap();
        }
        said.push('\n');
    }

    /// The same command as text and as JSON.
    pub(crate) fn say_both(&self, arguments: &[&str]) {
        self.say(arguments);
        self.say(&[arguments, &["--json"]].concat());
    }

    /// Calls a tool and writes down the arguments, the text and the structured reply.
    pub(crate) fn call(&self, client: &mut McpClient, tool: &str, arguments: Value) -> ToolReply {
        let reply = client.call(tool, arguments.clone());
        let mut said = self.transcript.borrow_mut();
        let kind = if reply.is_error { "error" } else { "reply" };
        let mut structured = reply.structured.clone();
        // The same text again.
        structured.as_object_mut().unwrap().remove("text");
        let structured = serde_json::to_string_pretty(&structured).unwrap();
        write!(said, "> {tool} {arguments}\n{}\n\n({kind}, structured) {structured}\n\n", reply.text)
            .unwrap();
        reply
    }

    /// Follows the next call of a reply without writing it down.
    pub(crate) fn follow(client: &mut McpClient, reply: &ToolReply) -> ToolReply {
        let call = &reply.structured["nextCall"];
        client.call(call["tool"].as_str().unwrap(), with_own_words(&call["arguments"]))
    }

    /// Compares everything that was said since the last time with the snapshot of this name.
    pub(crate) fn compare(&self, name: &str) {
        let mut text = std::mem::take(&mut *self.transcript.borrow_mut());
        for (volatile, stable) in &*self.names.borrow() {
            text = text.replace(volatile.as_str(), stable);
        }
        text = without_labels(&text);
        text = text.replace(PROGRAM, "[program]");
        text = text.replace(&*self.home.root().to_string_lossy(), "[root]");
        text = text.replace(&*self.folder.path().to_string_lossy(), "[folder]");
        text = text.replace(env!("CARGO_PKG_VERSION"), "[version]");
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        for (pattern, stable) in VOLATILE {
            settings.add_filter(pattern, stable);
        }
        settings.bind(|| insta::assert_snapshot!(name, text));
    }
}

/// Labels of runs that no test named: imported copies get ids of their own.
fn without_labels(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
    let mut done = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        done.push_str(before);
        done.push_str(if RunLabel::parse(word).is_ok() { "[new run]" } else { word });
        rest = after;
    }
    done.push_str(rest);
    done
}
