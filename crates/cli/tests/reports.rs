//! `workrail report` and `workrail sessions` through the real program, on healthy and on damaged sessions.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use workrail_testkit::mcp_client::{McpClient, ToolReply};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

struct Scene {
    data: tempfile::TempDir,
    workflows: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { data: tempfile::tempdir().unwrap(), workflows: tempfile::tempdir().unwrap() };
        let file = json!({
            "id": "team.change", "name": "A change", "description": "Two steps.", "version": "1.0.0",
            "steps": [
                { "id": "a", "title": "First", "prompt": "Do a." }, { "id": "b", "title": "Second", "prompt": "Do b." },
            ],
        });
        fs::write(scene.workflows.path().join("change.json"), file.to_string()).unwrap();
        scene
    }

    fn server(&self) -> McpClient {
        McpClient::start(
            Path::new(PROGRAM),
            self.data.path(),
            &[("WORKFLOW_STORAGE_PATH", self.workflows.path())],
        )
    }

    /// One run whose first step is completed; the last reply.
    fn started(&self, notes: &str) -> ToolReply {
        let mut client = self.server();
        let first =
            client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "the retry budget" }));
        let ack = first.string("ackToken");
        let second = client
            .call("continue_workflow", json!({ "ackToken": ack, "output": { "notesMarkdown": notes } }));
        assert!(!second.is_error, "{}", second.text);
        client.close();
        second
    }

    fn run_with(&self, arguments: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .env_clear()
            .env("WORKRAIL_DATA_DIR", self.data.path())
            .env("HOME", self.data.path());
        command.current_dir(self.workflows.path()).envs(env.iter().copied()).output().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, &[("PATH", "/usr/local/bin:/usr/bin:/bin")])
    }

    /// What a command that must succeed prints.
    fn printed(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.printed(&arguments)).unwrap()
    }

    fn segments(&self, session: &str) -> Vec<PathBuf> {
        let folder = self.data.path().join(format!("sessions/{session}/events"));
        let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    }

    fn damage(&self, segment: &Path) {
        let mut bytes = fs::read(segment).unwrap();
        bytes[10] ^= 1;
        fs::write(segment, bytes).unwrap();
    }
}

fn named(reply: &ToolReply) -> (String, String) {
    let run = &reply.structured["run"];
    (run["label"].as_str().unwrap().to_owned(), run["sessionId"].as_str().unwrap().to_owned())
}

fn code(done: &Output) -> i32 {
    done.status.code().unwrap()
}

#[test]
fn a_report_has_four_formats() {
    let scene = Scene::new();
    let (label, session) = named(&scene.started("Measured the *budget*."));
    let text = scene.printed(&["report", &label]);
    assert!(
        text.starts_with("# A change: the retry budget\n") && text.contains("> Measured the *budget*."),
        "{text}"
    );
    assert_eq!(text, scene.printed(&["report", &label]), "the same store, the same bytes");
    let html = scene.printed(&["report", &session, "--format", "html"]);
    assert!(html.starts_with("<!doctype html>") && html.contains("Measured the <em>budget</em>."));
    let value: Value = serde_json::from_str(&scene.printed(&["report", &label, "--format", "json"])).unwrap();
    assert_eq!(value, scene.json(&["report", &label]));
    assert_eq!((&value["version"], &value["runs"][0]["stepNumber"]), (&json!(1), &json!(2)));

    let file = scene.data.path().join("report.html");
    let path = file.to_str().unwrap();
    let written = scene.json(&["report", &label, "--format", "html", "-o", path]);
    assert_eq!(written["bytes"], fs::metadata(&file).unwrap().len());
    let refused = scene.run(&["report", &label, "-o", path]);
    assert_eq!(code(&refused), 2, "a file that is there is not replaced unasked");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<!doctype html>"));
    scene.printed(&["report", &label, "-o", path, "--force"]);
    assert!(fs::read_to_string(&file).unwrap().starts_with("# A change"));
}

#[test]
fn a_pdf_is_printed_by_the_users_browser_or_says_what_is_missing() {
    let scene = Scene::new();
    let (label, _) = named(&scene.started("Notes."));
    assert_eq!(code(&scene.run(&["report", &label, "--format", "pdf"])), 2, "a PDF needs a file");
    let file = scene.data.path().join("report.pdf");
    let arguments = ["report", &label, "--format", "pdf", "-o", file.to_str().unwrap()];
    let nowhere = scene.run_with(&arguments, &[("WORKRAIL_BROWSER", "/nowhere/chromium")]);
    assert_eq!(code(&nowhere), 1);
    assert!(String::from_utf8(nowhere.stderr).unwrap().contains("/nowhere/chromium"));
    assert!(!file.exists());

    let printed = scene.run(&arguments);
    let said = String::from_utf8_lossy(&printed.stderr).into_owned();
    if !printed.status.success() && said.contains("install Chromium") {
        println!("skipped: no Chromium or Chrome is here to print a PDF");
        return;
    }
    assert!(printed.status.success(), "{said}");
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 5_000, "{} bytes", bytes.len());
}

#[test]
fn sessions_are_listed_shown_drawn_logged_searched_and_resumed() {
    let scene = Scene::new();
    assert!(scene.printed(&["session", "list"]).starts_with("No sessions yet"));
    let reply = scene.started("Measured the retry budget.\u{1b}[31m");
    let (label, session) = named(&reply);

    let list = scene.printed(&["session", "list"]);
    for shown in [label.as_str(), "team.change", "the retry budget", "in progress", "2/2", &session] {
        assert!(list.contains(shown), "{shown}: {list}");
    }
    assert_eq!(scene.json(&["session", "list"])["runs"][0]["label"], label.as_str());

    let shown = scene.json(&["show", &label]);
    let node = &shown["report"]["runs"][0]["nodes"][0];
    let link = node["link"].as_str().unwrap();
    assert!(link.starts_with(&format!("workrail://session/{session}/node/node_")), "{link}");
    let text = scene.printed(&["show", &session]);
    assert!(text.contains(link) && text.contains("continue_workflow") && !text.contains('\u{1b}'), "{text}");
    let point = scene.printed(&["show", link]);
    assert!(point.contains("Measured the retry budget.") && !point.contains('\u{1b}'), "{point}");
    assert_eq!(&scene.json(&["show", link])["node"], node);

    let tree = scene.printed(&["tree", &label, "--ascii"]);
    assert!(tree.contains("* 1. First") && tree.contains("@ 2. Second - current"), "{tree}");
    assert_eq!(scene.json(&["tree", &label])["runs"][0]["nodes"].as_array().unwrap().len(), 2);

    let log = scene.printed(&["log", &session]);
    let raw: Vec<String> =
        scene.segments(&session).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let recorded: Vec<Value> = raw.concat().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(log.lines().count(), recorded.len());
    assert_eq!(scene.json(&["log", &session])["events"], Value::from(recorded));
    let newest = scene.json(&["log", &session, "--limit", "2"]);
    assert_eq!(newest["events"].as_array().unwrap().len(), 2);

    let hits = scene.json(&["search", "RETRY", "budget"]);
    assert_eq!((&hits["hits"][0]["label"], &hits["hits"][0]["link"]), (&json!(label), &json!(link)));
    assert!(scene.printed(&["search", "nowhere"]).starts_with("No note of 1 sessions"));

    for words in [vec!["retry", "budget"], vec![label.as_str()], vec![session.as_str()], vec![]] {
        let resumed = scene.json(&[&["resume"], words.as_slice()].concat());
        let call = &resumed["candidates"][0]["nextCall"];
        let answer = scene.server().call(call["tool"].as_str().unwrap(), call["arguments"].clone());
        assert_eq!(answer.step(), "b", "{words:?}");
    }
    assert!(scene.printed(&["resume", &label]).contains("Paste into a new chat"));
}

#[test]
fn damaged_sessions_are_reported_up_to_the_damage_and_never_hidden() {
    let scene = Scene::new();
    let (label, healthy) = named(&scene.started("Sound."));
    let (tail_label, tail) = named(&scene.started("Half lost."));
    let (_, head) = named(&scene.started("All lost."));
    scene.damage(scene.segments(&tail).last().unwrap());
    scene.damage(&scene.segments(&head)[0]);

    let list = scene.json(&["session", "list"]);
    assert_eq!((&list["sessions"], &list["runs"][0]["label"]), (&json!(3), &json!(label)));
    let damaged: Vec<&str> =
        list["damaged"].as_array().unwrap().iter().map(|row| row["sessionId"].as_str().unwrap()).collect();
    let mut expected = [tail.as_str(), head.as_str()];
    expected.sort_unstable();
    assert_eq!(damaged, expected);
    let text = scene.printed(&["session", "list"]);
    assert!(text.contains("Damaged or unreadable sessions: 2") && text.contains(&healthy), "{text}");

    assert!(scene.printed(&["report", &tail]).contains("> **Damaged session.**"));
    let html = scene.printed(&["report", &tail, "--format", "html"]);
    assert!(html.contains("<div class=\"banner\"><strong>Damaged session.</strong>"));
    assert_eq!(scene.json(&["report", &tail])["health"]["health"], "corrupt_tail");
    for command in ["show", "tree", "log"] {
        for name in [&tail, &tail_label] {
            let text = scene.printed(&[command, name]);
            assert!(text.contains("Damaged session: "), "{text}");
            assert!(!text.contains("To continue in a chat"), "{text}");
        }
    }
    let planned = scene.json(&["store", "repair", &tail_label, "--dry-run"]);
    assert_eq!(planned["outcome"], "would_repair", "{planned}");
    for arguments in [vec!["report", &head], vec!["show", &head], vec!["log", &head]] {
        let refused = scene.run(&[arguments.as_slice(), &["--json"]].concat());
        assert_eq!(code(&refused), 1);
        let error: Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(error["error"]["code"], "SESSION_CORRUPT");
    }
    let hits = scene.json(&["search", "sound"]);
    assert_eq!((&hits["unreadable"], &hits["hits"][0]["sessionId"]), (&json!(1), &json!(healthy)));
}

#[test]
fn a_goal_stays_on_its_line_and_reads_as_it_is_stored() {
    let scene = Scene::new();
    let mut client = scene.server();
    let goal = "tidy\nRun fake-label · done\u{2028}Type yes \u{202e}dlrow";
    let reply = client.call("start_workflow", json!({ "workflowId": "team.change", "goal": goal }));
    client.close();
    let (label, _) = named(&reply);
    let resumed = scene.printed(&["resume", &label]);
    let asked = scene.run(&["session", "delete", &label]);
    assert_eq!(code(&asked), 2, "it asks a person");
    for text in [resumed, String::from_utf8(asked.stdout).unwrap()] {
        let line = text.lines().find(|line| line.contains("tidy")).unwrap();
        assert!(line.contains("Run fake-label · done\u{fffd}Type yes \u{fffd}dlrow"), "{text}");
        assert!(!text.contains(['\u{202e}', '\u{2028}']), "{text}");
    }
}

#[test]
fn a_name_that_nobody_has_is_the_callers_mistake() {
    let scene = Scene::new();
    let (_, session) = named(&scene.started("Notes."));
    let strange = format!("workrail://session/{session}/node/node_0000000000000000");
    for arguments in [
        vec!["report", "amber-nobody"],
        vec!["show", "sess_zzzz"],
        vec!["show", "workrail://elsewhere"],
        vec!["show", &strange],
        vec!["tree", "run_zzzz"],
        vec!["log", "nobody"],
        vec!["search", "?!"],
    ] {
        let refused = scene.run(&arguments);
        assert_eq!(code(&refused), 2, "{arguments:?}: {}", String::from_utf8_lossy(&refused.stderr));
        assert!(refused.stdout.is_empty() && !refused.stderr.is_empty());
    }
}
