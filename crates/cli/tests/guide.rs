//! Runs every command shown on a page of the guide, in the order of the page, on a separate machine.
//!
//! Blocks marked `sh` are run unchanged, `sh terminal` by a user at a terminal who types the run's label, `sh server`
//! as servers that are ended again. `sh` lines of other programs must be listed here.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::with_own_words;
use workrail_testkit::skipped::skip;

/// Commands of other programs that pages may show.
const OTHERS: [&str; 7] = [
    "cargo install --path crates/cli",
    "cargo run -- demo",
    "cargo nextest run",
    "cargo xtask",
    "cargo test",
    "cargo bench",
    "./test",
];

/// The repository that pages name.
const REPOSITORY: &str = "https://example.com/team/workflows.git";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Terminal,
    Server,
}

/// The commands of a page, with their positions.
fn commands(page: &str) -> Vec<(Kind, usize, String)> {
    let mut found = Vec::new();
    let mut kind = None;
    let mut fenced = false;
    for (number, line) in page.lines().enumerate() {
        let line = line.trim();
        if let Some(info) = line.strip_prefix("```") {
            fenced = !fenced;
            kind = match (fenced, info.trim()) {
                (true, "sh") => Some(Kind::Plain),
                (true, "sh terminal") => Some(Kind::Terminal),
                (true, "sh server") => Some(Kind::Server),
                (_, _) => None,
            };
            continue;
        }
        let Some(kind) = kind else { continue };
        let line = line.split(" #").next().unwrap_or(line).trim();
        if !line.is_empty() && !line.starts_with('#') {
            found.push((kind, number + 1, line.to_owned()));
        }
    }
    found
}

/// Splits words like a shell, as far as pages need it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ' ') => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            (_, c) => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// A machine with two open runs: one in the middle, one that waits for the user.
struct Machine {
    home: Home,
    open: String,
    waiting: String,
    session: String,
}

impl Machine {
    fn new() -> Self {
        // Commands run without the workflows folder that only tests configure.
        let home = Home::new(env!("CARGO_BIN_EXE_workrail")).without("WORKFLOW_STORAGE_PATH");
        let home = home.with("EDITOR", "true");
        let gated = json!({
            "id": "team.release", "name": "Release", "description": "Waits for a person.", "version": "1.0.0",
            "steps": [
                { "id": "a", "title": "A", "prompt": "Do a.", "requireConfirmation": { "kind": "human_approval" },
                  "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "scope_boundary",
                                         "description": "Which branch?", "contextKey": "targetBranch" }] },
                { "id": "b", "title": "B", "prompt": "Do b." },
            ],
        });
        home.write(&home.project().join("workflows/team.release.json"), &gated.to_string());
        let mut machine = Self { home, open: String::new(), waiting: String::new(), session: String::new() };
        let mut client = machine.home.client();
        let goal = json!({ "workflowId": "wr.small_change", "goal": "rename the timeout setting" });
        let first = client.call("start_workflow", goal);
        client.call("continue_workflow", with_own_words(&first.data["nextCall"]["arguments"]));
        let gate = client.call(
            "start_workflow",
            json!({ "workflowId": "team.release", "workspacePath": machine.home.project() }),
        );
        let mut submitted = with_own_words(&gate.data["nextCall"]["arguments"]);
        // The user has not answered yet: a page shows how.
        submitted.as_object_mut().unwrap().remove("context");
        client.call("continue_workflow", submitted);
        client.close();
        let label = |reply: &serde_json::Value| reply["run"]["label"].as_str().unwrap().to_owned();
        machine.open = label(&first.data);
        machine.waiting = label(&gate.data);
        machine.session = first.data["run"]["sessionId"].as_str().unwrap().to_owned();
        machine
    }

    /// A local repository in place of the remote one that pages name.
    fn repository(&self) -> String {
        let folder = self.home.root().join("team-workflows");
        if !folder.exists() {
            fs::create_dir_all(folder.join("flows")).unwrap();
            let file = json!({
                "id": "team.note", "name": "Note", "description": "One step.", "version": "1.0.0",
                "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
            });
            fs::write(folder.join("flows/team.note.json"), file.to_string()).unwrap();
            for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "m"]] {
                self.home.git(&folder, arguments);
            }
        }
        format!("{} --allow-local", folder.to_str().unwrap())
    }

    /// The command with this machine's names in place of the page's.
    fn filled(&self, line: &str) -> String {
        let line = match line.contains(REPOSITORY) {
            true => line.replace(REPOSITORY, &self.repository()),
            false => line.to_owned(),
        };
        line.replace("amber-falcon", &self.open)
            .replace("brisk-otter", &self.waiting)
            .replace("sess_4k7q2m9x1c5v8b3n", &self.session)
    }

    fn run(&self, kind: Kind, line: &str) -> Result<(), String> {
        let line = self.filled(line);
        let (line, _redirected) = line.split_once(" > ").unwrap_or((&line, ""));
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (program, words) = words.split_first().unwrap();
        if *program != "workrail" {
            let known = OTHERS.iter().any(|other| line.starts_with(other));
            return if known { Ok(()) } else { Err("is no command that this test knows".to_owned()) };
        }
        if line.contains("--format pdf") && !has_browser() {
            skip("commands of the guide that print a PDF", "Chromium or Chrome is not installed");
            return Ok(());
        }
        match kind {
            Kind::Plain => self.run_plain(words),
            Kind::Terminal => {
                // A run's label, or the name of a setting that needs confirmation.
                let typed = match words {
                    ["config", "set", key, ..] => key,
                    words => words.last().unwrap(),
                };
                let approved = self.home.typed(words, typed);
                if approved.code == 0 { Ok(()) } else { Err(format!("failed at a terminal: {approved:?}")) }
            }
            Kind::Server => self.serve(words),
        }
    }

    fn run_plain(&self, words: &[&str]) -> Result<(), String> {
        let ran = self.home.run(words);
        if ran.code == 0 {
            return Ok(());
        }
        Err(format!("ended with {}:\n{}{}", ran.code, ran.out, ran.err))
    }

    /// On standard input it ends by itself; over HTTP, or as a console, it is ended once it listens.
    fn serve(&self, words: &[&str]) -> Result<(), String> {
        if words.first() == Some(&"console") {
            return self.serve_console(words);
        }
        if !words.contains(&"--http") {
            return self.run_plain(words);
        }
        let mut command = self.home.command(words);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        if line.contains("listening on") { Ok(()) } else { Err(line) }
    }
}

impl Machine {
    /// Without opening a browser, which the test machine does not have.
    fn serve_console(&self, words: &[&str]) -> Result<(), String> {
        let mut words = words.to_vec();
        if !words.contains(&"--no-open") {
            words.push("--no-open");
        }
        let mut command = self.home.command(&words);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        if line.starts_with("Console: http://localhost:") { Ok(()) } else { Err(line) }
    }
}

fn has_browser() -> bool {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    let folders = ["/usr/bin", "/bin"];
    folders.iter().any(|folder| names.iter().any(|name| Path::new(folder).join(name).exists()))
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // Generated, for contributors, or history: not meant to be typed.
        if path.is_dir() && !["reference", "contributing", "decisions"].contains(&name.as_str()) {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

#[test]
fn figure_every_command_of_the_guide_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut paths);
    paths.sort();
    let (mut count, mut failures) = (0, Vec::new());
    for path in paths {
        let commands = commands(&fs::read_to_string(&path).unwrap());
        if commands.is_empty() {
            continue;
        }
        let machine = Machine::new();
        for (kind, number, line) in commands {
            count += 1;
            if let Err(problem) = machine.run(kind, &line) {
                failures.push(format!("{}:{number}: `{line}` {problem}", path.display()));
            }
        }
    }
    println!("{count} commands of the guide, {} failed", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 30, "the pages were found");
}
