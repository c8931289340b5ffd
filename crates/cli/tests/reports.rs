//! `workrail report` and `workrail sessions` through the real program, on healthy and on damaged sessions.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::skipped::skip;

use wording::assert_text;

/// A home with a workflow of two steps.
fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Two steps.", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "First", "prompt": "Do a." }, { "id": "b", "title": "Second", "prompt": "Do b." },
        ],
    }));
    home
}

/// One run with its first step completed; returns the last reply.
fn started(home: &Home, notes: &str) -> ToolReply {
    let mut client = home.client();
    let first =
        client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "the retry budget" }));
    let ack = first.string("ackToken");
    let second =
        client.call("continue_workflow", json!({ "ackToken": ack, "output": { "notesMarkdown": notes } }));
    assert!(!second.is_error, "{}", second.text);
    client.close();
    second
}

/// The output of a command that must succeed.
fn printed(home: &Home, arguments: &[&str]) -> String {
    home.done(arguments).out
}

fn json_of(home: &Home, arguments: &[&str]) -> Value {
    home.done(&[arguments, &["--json"]].concat()).json()
}

fn segments(home: &Home, session: &str) -> Vec<PathBuf> {
    let folder = home.data().join(format!("sessions/{session}/events"));
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn damage(segment: &Path) {
    let mut bytes = fs::read(segment).unwrap();
    bytes[10] ^= 1;
    fs::write(segment, bytes).unwrap();
}

/// A page without its style sheet, one element per line.
fn body_of(html: &str) -> String {
    html.split_once("<body").map(|(_, body)| body.replace("><", ">\n<")).unwrap()
}

fn named(reply: &ToolReply) -> (String, String) {
    let run = &reply.data["run"];
    (run["label"].as_str().unwrap().to_owned(), run["sessionId"].as_str().unwrap().to_owned())
}

#[test]
fn a_report_has_four_formats() {
    let home = home();
    let (label, session) = named(&started(&home, "Measured the *budget*."));
    let text = printed(&home, &["report", &label]);
    assert!(text.starts_with("# A change: the retry budget\n"), "{text}");
    assert_eq!(text, printed(&home, &["report", &label]), "the same store, the same bytes");
    let html = printed(&home, &["report", &session, "--format", "html"]);
    assert!(html.starts_with("<!DOCTYPE html>"), "{html}");
    assert_text(&home, "report_as_a_page", &body_of(&html));
    let value: Value =
        serde_json::from_str(&printed(&home, &["report", &label, "--format", "json"])).unwrap();
    assert_eq!(value, json_of(&home, &["report", &label]));
    assert_eq!((&value["version"], &value["runs"][0]["stepNumber"]), (&json!(1), &json!(2)));

    let file = home.data().join("report.html");
    let path = file.to_str().unwrap();
    let written = json_of(&home, &["report", &label, "--format", "html", "-o", path]);
    assert_eq!(written["bytes"], fs::metadata(&file).unwrap().len());
    let refused = home.run(&["report", &label, "-o", path]);
    assert_eq!(refused.code, 2, "a file that is there is not replaced unasked");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<!DOCTYPE html>"));
    printed(&home, &["report", &label, "-o", path, "--force"]);
    assert!(fs::read_to_string(&file).unwrap().starts_with("# A change"));
}

#[test]
fn a_pdf_is_printed_by_the_users_browser_or_the_error_says_what_is_missing() {
    let home = home();
    let (label, _) = named(&started(&home, "Notes."));
    assert_eq!(home.run(&["report", &label, "--format", "pdf"]).code, 2, "a PDF needs a file");
    let file = home.data().join("report.pdf");
    let arguments = ["report", &label, "--format", "pdf", "-o", file.to_str().unwrap()];
    let nowhere = home.run_with(&arguments, &[("WORKRAIL_BROWSER", "/nowhere/chromium")]);
    assert_eq!(nowhere.code, 1);
    assert!(!file.exists());

    let printed = home.run(&arguments);
    if !has_browser() {
        assert_eq!(printed.code, 1, "{printed:?}");
        skip("printing a report as PDF", "Chromium or Chrome is not installed");
        return;
    }
    assert_eq!(printed.code, 0, "{printed:?}");
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 5_000, "{} bytes", bytes.len());
}

/// An `xdg-open` that writes its arguments to a pipe that the test reads.
fn opener(home: &Home) -> (Home, PathBuf) {
    let (folder, told) = (home.root().join("bin"), home.root().join("opened"));
    home.write(&folder.join("xdg-open"), &format!("#!/bin/sh\nprintf '%s' \"$1\" > '{}'\n", told.display()));
    fs::set_permissions(folder.join("xdg-open"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new("mkfifo").arg(&told).status().unwrap().success());
    let temporary = home.root().join("tmp");
    fs::create_dir(&temporary).unwrap();
    (home.with("PATH", format!("{}:/usr/bin:/bin", folder.display())).with("TMPDIR", temporary), told)
}

#[test]
fn a_report_opens_in_the_users_browser() {
    let home = home();
    let (label, _) = named(&started(&home, "Raised the budget to 5."));
    let (with_opener, told) = opener(&home);
    let shown = with_opener.done(&["report", &label, "--open", "--json"]).json();
    let opened = PathBuf::from(fs::read_to_string(&told).unwrap());
    assert_eq!(
        (shown["written"].as_str(), shown["opened"].as_bool()),
        (opened.to_str(), Some(true)),
        "{shown}"
    );
    assert!(opened.starts_with(home.root().join("tmp")), "a temporary file: {opened:?}");
    assert_eq!(fs::metadata(&opened).unwrap().permissions().mode() & 0o777, 0o600, "for this user alone");
    let html = fs::read_to_string(&opened).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>"), "{html}");
    assert_text(&home, "report_that_is_opened", &body_of(&html));

    with_opener.done(&["report", &label, "--open", "-o", "own.html"]);
    assert_eq!(fs::read_to_string(&told).unwrap(), "own.html");
    assert_eq!(fs::read_to_string(home.project().join("own.html")).unwrap(), html, "the file that was named");
    assert_eq!(
        with_opener.run(&["report", &label, "--open", "-o", "own.html"]).code,
        2,
        "it is not overwritten"
    );

    let nobody = home.with("PATH", "/nonexistent").run(&["report", &label, "--open", "-o", "unopened.html"]);
    assert_ne!(nobody.code, 0, "{nobody:?}");
    assert_text(&home, "report_that_cannot_be_opened", &nobody.err);
}

#[test]
fn sessions_are_listed_shown_drawn_logged_searched_and_resumed() {
    let home = home();
    assert_eq!(json_of(&home, &["session", "list"])["runs"], json!([]));
    let reply = started(&home, "Measured the retry budget.\u{1b}[31m");
    let (label, session) = named(&reply);

    let list = json_of(&home, &["session", "list"]);
    assert_eq!((&list["runs"][0]["label"], &list["runs"][0]["sessionId"]), (&json!(label), &json!(session)));

    let shown = json_of(&home, &["show", &label]);
    let node = &shown["report"]["runs"][0]["nodes"][0];
    let link = node["link"].as_str().unwrap();
    assert!(link.starts_with(&format!("workrail://session/{session}/node/node_")), "{link}");
    let text = printed(&home, &["show", &session]);
    assert!(text.contains(link) && !text.contains('\u{1b}'), "{text}");
    let point = printed(&home, &["show", link]);
    assert!(!point.contains('\u{1b}'), "{point}");
    assert_eq!(&json_of(&home, &["show", link])["node"], node);

    assert_eq!(json_of(&home, &["tree", &label])["runs"][0]["nodes"].as_array().unwrap().len(), 2);

    let log = printed(&home, &["log", &session]);
    let raw: Vec<String> =
        segments(&home, &session).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let recorded: Vec<Value> = raw.concat().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(log.lines().count(), recorded.len());
    assert_eq!(json_of(&home, &["log", &session])["events"], Value::from(recorded));
    let newest = json_of(&home, &["log", &session, "--limit", "2"]);
    assert_eq!(newest["events"].as_array().unwrap().len(), 2);

    let hits = json_of(&home, &["search", "RETRY", "budget"]);
    assert_eq!((&hits["hits"][0]["label"], &hits["hits"][0]["link"]), (&json!(label), &json!(link)));
    assert_eq!(json_of(&home, &["search", "nowhere"])["hits"], json!([]));

    for words in [vec!["retry", "budget"], vec![label.as_str()], vec![session.as_str()], vec![]] {
        let resumed = json_of(&home, &[&["resume"], words.as_slice()].concat());
        let call = &resumed["candidates"][0]["nextCall"];
        let answer = home.client().call(call["tool"].as_str().unwrap(), call["arguments"].clone());
        assert_eq!(answer.step(), "b", "{words:?}");
    }
}

#[test]
fn damaged_sessions_are_reported_up_to_the_damage_and_never_hidden() {
    let home = home();
    let (label, healthy) = named(&started(&home, "Sound84."));
    let (tail_label, tail) = named(&started(&home, "Half lost."));
    let (_, head) = named(&started(&home, "All lost."));
    damage(segments(&home, &tail).last().unwrap());
    damage(&segments(&home, &head)[0]);

    let list = json_of(&home, &["session", "list"]);
    assert_eq!((&list["sessions"], &list["runs"][0]["label"]), (&json!(3), &json!(label)));
    let damaged: Vec<&str> =
        list["damaged"].as_array().unwrap().iter().map(|row| row["sessionId"].as_str().unwrap()).collect();
    let mut expected = [tail.as_str(), head.as_str()];
    expected.sort_unstable();
    assert_eq!(damaged, expected);
    assert_eq!(json_of(&home, &["report", &tail])["health"]["health"], "corrupt_tail");
    for command in ["show", "tree", "log"] {
        for name in [&tail, &tail_label] {
            home.done(&[command, name]);
        }
    }
    let planned = json_of(&home, &["store", "repair", &tail_label, "--dry-run"]);
    assert_eq!(planned["outcome"], "would_repair", "{planned}");
    for arguments in [vec!["report", &head], vec!["show", &head], vec!["log", &head]] {
        let refused = home.run(&[arguments.as_slice(), &["--json"]].concat());
        assert_eq!(refused.code, 1);
        assert_eq!(refused.json()["error"]["code"], "SESSION_CORRUPT");
    }
    // No word of a label, which would be found as well.
    let hits = json_of(&home, &["search", "sound84"]);
    assert_eq!(hits["hits"][0]["sessionId"], json!(healthy));
    assert_eq!((&hits["unreadable"], &hits["sessions"]), (&json!([head]), &json!(2)), "two were searched");
    assert_text(&home, "search_with_unreadable", &printed(&home, &["search", "nowhere"]));
}

#[test]
fn a_goal_stays_on_one_line_and_reads_as_stored() {
    let home = home();
    let mut client = home.client();
    let goal = "tidy\nRun fake-label · done\u{2028}Type yes \u{202e}dlrow";
    let reply = client.call("start_workflow", json!({ "workflowId": "team.change", "goal": goal }));
    client.close();
    let (label, _) = named(&reply);
    let resumed = printed(&home, &["resume", &label]);
    let asked = home.run(&["session", "delete", &label]);
    assert_eq!(asked.code, 2, "it asks a person");
    assert_text(&home, "hostile_goal_resumed", &resumed);
    assert_text(&home, "hostile_goal_deleted", &asked.out);
}

#[test]
fn an_unknown_name_is_a_usage_error() {
    let home = home();
    let (_, session) = named(&started(&home, "Notes."));
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
        let refused = home.run(&arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.err);
        assert!(refused.out.is_empty() && !refused.err.is_empty());
    }
}

/// Whether a browser is installed where the program looks for one.
fn has_browser() -> bool {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    let folders = ["/usr/bin", "/bin"];
    folders.iter().any(|folder| names.iter().any(|name| Path::new(folder).join(name).exists()))
}
