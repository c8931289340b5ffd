//! Removes a text that must not be kept from a session, through the real binary (G85).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
/// With a quote in it, so that it looks different inside JSON.
const SECRET: &str = r#"sk-live-4f"9c2e7a"#;

fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Change something.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }, { "id": "b", "title": "B", "prompt": "Do b." }],
    }));
    home
}

/// A run with the secret in its goal, its notes, an artifact, the context and long notes.
fn leaking(client: &mut McpClient) -> ToolReply {
    let goal = format!("rotate {SECRET}");
    let first = client.call("start_workflow", json!({ "workflowId": "team.change", "goal": goal }));
    let long = format!("{}{SECRET} {}", "word ".repeat(2000), "more ".repeat(2000));
    let second = client.call(
        "continue_workflow",
        json!({
            "ackToken": first.string("ackToken"),
            "output": {
                "notesMarkdown": format!("The key is {SECRET}. {long}"),
                "artifacts": [{ "kind": "finding", "text": format!("leaked: {SECRET}"), "line": 7 }],
            },
            "context": { "apiKey": SECRET },
        }),
    );
    assert_eq!(second.step(), "b", "{}", second.text);
    second
}

fn label(reply: &ToolReply) -> String {
    reply.data["run"]["label"].as_str().unwrap().to_owned()
}

/// The files beneath a folder that contain the secret, plain or inside JSON.
fn holding(folder: &Path) -> Vec<PathBuf> {
    let escaped = SECRET.replace('"', "\\\"");
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            if text.contains(SECRET) || text.contains(&escaped) {
                found.push(path);
            }
        }
    }
    found
}

fn purge(home: &Home, run: &str) -> Value {
    let done = home.run(&["session", "purge", run, "--text", SECRET, "--yes", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    done.json()
}

#[test]
fn afterwards_no_file_contains_the_text_and_the_run_continues() {
    let home = home();
    let mut client = home.client();
    let run = label(&leaking(&mut client));
    client.close();
    home.done(&["session", "list"]);
    home.done(&["session", "keep", &run]);
    assert!(holding(&home.data()).len() > 2, "the secret is in several files");

    let done = purge(&home, &run);
    assert_eq!(holding(&home.data()), Vec::<PathBuf>::new());
    assert_eq!(done["filesThatStillHoldIt"], json!([]));
    let new = done["runs"][0].as_str().unwrap();
    assert_eq!(home.run(&["show", &run]).code, 2, "the old session is gone");
    let report = home.done(&["report", new]).out.replace('\\', "");
    assert_text(&home, "report_after_a_purge", &report);
    let list = home.done(&["session", "list", "--json"]).json();
    assert_eq!((list["runs"].as_array().unwrap().len(), &list["runs"][0]["isKept"]), (1, &json!(true)));
    home.done(&["store", "verify"]);
    let mut client = home.client();
    let resumed = client.call("resume_session", json!({ "run": new }));
    assert_eq!(resumed.data["candidates"][0]["stepId"], "b", "{}", resumed.text);
}

/// Broke: the digest that a checkpoint keeps of what was sent could not be removed, so the purge failed.
#[test]
fn a_session_with_checkpoints_is_purged_and_continues() {
    let home = home();
    let mut client = home.client();
    let second = leaking(&mut client);
    let save = |reply: &ToolReply, notes: &str| {
        let token = reply.string("checkpointToken");
        json!({ "checkpointToken": token, "output": { "notesMarkdown": notes } })
    };
    let saved = client.call("checkpoint_workflow", save(&second, &format!("so far {SECRET}")));
    assert!(!saved.is_error, "{}", saved.text);
    client.close();
    let done = purge(&home, &label(&second));
    assert_eq!(holding(&home.data()), Vec::<PathBuf>::new());
    home.done(&["store", "verify"]);
    let new = done["runs"][0].as_str().unwrap();
    let made = home.events(new, "node_created");
    let checkpoint = &made.iter().find(|event| event["data"]["nodeKind"] == "checkpoint").unwrap()["data"];
    assert!(checkpoint["checkpoint"]["replyRef"].is_string(), "{checkpoint}");
    let log = home.done(&["log", new, "--json"]).out;
    assert!(log.contains("so far [removed]") && !log.contains("requestDigest"), "{log}");
    // The copy can be saved and completed.
    let mut client = home.client();
    let resumed = client.call("resume_session", json!({ "run": new }));
    let call = &resumed.data["candidates"][0]["nextCall"];
    let shown = client.call(call["tool"].as_str().unwrap(), call["arguments"].clone());
    let saved = client.call("checkpoint_workflow", save(&shown, "and further"));
    assert!(!saved.is_error, "{}", saved.text);
    let last = client.next(&shown);
    assert_eq!(last.data["isComplete"], true, "{}", last.text);
}

/// The copy has other ids than those that a key leads to, so its record of the key would answer nothing.
#[test]
fn a_purged_copy_keeps_no_digest_of_an_idempotency_key() {
    let home = home();
    let mut client = home.client();
    let goal = format!("rotate {SECRET}");
    let start = json!({ "workflowId": "team.change", "goal": goal, "idempotencyKey": "1234" });
    let run = label(&client.call("start_workflow", start.clone()));
    client.close();
    let recorded = |run: &str| home.events(run, "run_started")[0]["data"]["keyed"].clone();
    assert!(recorded(&run)["keyDigest"].is_string());
    let done = purge(&home, &run);
    let new = done["runs"][0].as_str().unwrap();
    assert_eq!(recorded(new), Value::Null);
    home.done(&["store", "verify"]);
    let other = label(&home.client().call("start_workflow", start));
    assert_ne!(other, new, "the key starts another run");
}

/// Broke: a text in the output of a check could not be purged, because its event kept the digest of the old output.
#[test]
fn the_recorded_output_of_a_check_is_purged_and_can_be_imported_again() {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.checked", "name": "Checked", "description": "Runs a check.", "version": "1.0.0",
        "steps": [{ "id": "work", "title": "Work", "prompt": "Do it.", "checks": [{ "command": "test" }] }],
    }));
    let project = home.project();
    home.write(&project.join("check.sh"), "cat output\nexit 1\n");
    // Longer than what the event itself shows.
    home.write(&project.join("output"), &format!("key: {SECRET}\n{}", "more output\n".repeat(2000)));
    home.write(&project.join(".workrail/checks.toml"), "[test]\nargv = [\"sh\", \"check.sh\"]\n");
    home.git(&project, &["init", "--quiet"]);
    home.git(&project, &["add", "."]);
    home.git(&project, &["commit", "--quiet", "--message", "first"]);
    assert_eq!(home.typed(&["trust"], "project").code, 0);
    let mut client = home.client();
    let first =
        client.call("start_workflow", json!({ "workflowId": "team.checked", "workspacePath": project }));
    let refused = client.next(&first);
    assert_eq!(refused.data["blockers"][0]["code"], "CHECK_FAILED", "{}", refused.text);
    client.close();
    assert_ne!(holding(&home.data()), Vec::<PathBuf>::new(), "the output was recorded");

    let done = purge(&home, &label(&first));
    assert_eq!(holding(&home.data()), Vec::<PathBuf>::new());
    home.done(&["store", "verify"]);
    let bundle = home.root().join("copy.json");
    let bundle = bundle.to_str().unwrap();
    home.done(&["session", "export", done["runs"][0].as_str().unwrap(), "-o", bundle]);
    let elsewhere = Home::new(PROGRAM);
    let imported = elsewhere.done(&["session", "import", bundle, "--json"]).json();
    elsewhere.done(&["store", "verify"]);
    let run = imported["runs"][0]["label"].as_str().unwrap();
    let evidence = elsewhere.events(run, "evidence_recorded");
    let check = evidence.iter().find(|event| event["data"]["evidence"]["kind"] == "check_run").unwrap();
    let digest = check["data"]["evidence"]["outcome"]["outputRef"].as_str().unwrap();
    let blob = elsewhere.data().join("blobs").join(digest.trim_start_matches("sha256:"));
    let text = std::fs::read_to_string(blob).unwrap();
    assert!(text.starts_with("key: [removed]\nmore output\n"), "{text}");
}

#[test]
fn other_sessions_with_the_text_are_named() {
    let home = home();
    let mut client = home.client();
    let run = label(&leaking(&mut client));
    let other = label(&leaking(&mut client));
    client.close();
    let done = home.run(&["session", "purge", &run, "--text", SECRET, "--yes", "--json"]);
    assert_eq!(done.code, 1, "something is left: {done:?}");
    assert_eq!(done.json()["otherSessions"][0]["runs"], json!([other]));
    purge(&home, &other);
    assert_eq!(holding(&home.data()), Vec::<PathBuf>::new());
}

#[test]
fn purging_needs_an_exact_name_a_confirmation_and_the_text() {
    let home = home();
    let mut client = home.client();
    let run = label(&leaking(&mut client));
    client.close();
    let before = holding(&home.data());
    let near = &run[..run.len() - 1];
    for refused in [
        home.run(&["session", "purge", near, "--text", SECRET, "--yes"]),
        home.run(&["session", "purge", &run, "--text", "abc", "--yes"]),
        home.run(&["session", "purge", &run, "--text", "never recorded", "--yes"]),
        home.run(&["session", "purge", &run, "--text", SECRET]),
        home.typed(&["session", "purge", &run, "--text", SECRET], "yes"),
    ] {
        assert_ne!(refused.code, 0, "{refused:?}");
    }
    assert_eq!(holding(&home.data()), before);
    let typed = home.typed(&["session", "purge", &run, "--text", SECRET], &run);
    assert_eq!(typed.code, 0, "{typed:?}");
    assert_eq!(holding(&home.data()), Vec::<PathBuf>::new());
}

#[test]
fn a_damaged_session_is_not_replaced_by_a_copy_of_its_beginning() {
    let home = home();
    let mut client = home.client();
    let reply = leaking(&mut client);
    let run = label(&reply);
    client.close();
    let session = home.done(&["session", "list", "--json"]).json()["runs"][0]["sessionId"].clone();
    let events = home.data().join("sessions").join(session.as_str().unwrap()).join("events");
    let mut segments: Vec<PathBuf> =
        std::fs::read_dir(events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    std::fs::write(segments.last().unwrap(), "{}\n").unwrap();
    let before = holding(&home.data());
    let refused = home.run(&["session", "purge", &run, "--text", SECRET, "--yes"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_text(&home, "purge_of_a_damaged_session", &refused.err);
    assert_eq!(holding(&home.data()), before, "nothing was changed");
}

/// Broke: the useless copy stayed.
#[test]
fn a_session_whose_mark_cannot_be_removed_is_not_replaced() {
    let home = home();
    let mut client = home.client();
    let run = label(&leaking(&mut client));
    client.close();
    let sessions = || home.done(&["session", "list", "--json"]).json()["runs"].clone();
    let before = sessions();
    let session = before[0]["sessionId"].as_str().unwrap().to_owned();
    std::fs::create_dir(home.data().join("sessions").join(&session).join("keep")).unwrap();
    let marked = sessions();
    let refused = home.run(&["session", "purge", &run, "--text", SECRET, "--yes", "--json"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(sessions(), marked);
}

#[test]
fn a_session_written_to_meanwhile_is_not_replaced() {
    let home = home();
    let mut client = home.client();
    let second = leaking(&mut client);
    let run = label(&second);
    home.done(&["session", "keep", &run]);
    let mut terminal = home.at_a_terminal(&["session", "purge", &run, "--text", SECRET]);
    let (mut keyboard, mut screen) = (terminal.stdin.take().unwrap(), terminal.stdout.take().unwrap());
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("without the text:") {
        let mut byte = [0];
        screen.read_exact(&mut byte).unwrap();
        shown.push(byte[0]);
    }
    // The copy exists. Now an agent completes a step.
    let arguments =
        json!({ "ackToken": second.string("ackToken"), "output": { "notesMarkdown": "finished b" } });
    let last = client.call("continue_workflow", arguments);
    assert_eq!(last.data["isComplete"], true, "{}", last.text);
    client.until_indexed();
    writeln!(keyboard, "{run}").unwrap();
    let mut rest = String::new();
    screen.read_to_string(&mut rest).unwrap();
    assert_ne!(terminal.wait().unwrap().code(), Some(0), "{rest}");

    let list = home.done(&["session", "list", "--all", "--json"]).json();
    let runs = list["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["label"]), (1, &json!(run)), "no copy is left: {list}");
    assert_eq!(runs[0]["isKept"], true, "it is kept as it was");
    let report = home.done(&["report", &run, "--json"]).json();
    let nodes = report["runs"][0]["nodes"].as_array().unwrap();
    let notes: Vec<&Value> =
        nodes.iter().map(|node| &node["attempts"][0]["outputs"][0]["body"]["markdown"]).collect();
    assert!(notes.contains(&&json!("finished b")), "what was written is there: {report:#}");
    home.done(&["store", "verify"]);
    purge(&home, &run);
    assert_eq!(holding(&home.data()), Vec::<PathBuf>::new());
}

#[test]
fn a_text_in_a_branch_name_or_a_path_is_removed() {
    const HIDDEN: &str = "acme-merger";
    let home = home();
    let flow = json!({
        "id": "team.hidden", "name": "Hidden", "description": "In a folder.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    });
    home.write(&home.project().join(format!("workflows/{HIDDEN}/team.hidden.json")), &flow.to_string());
    let git = |words: &[&str]| home.git(&home.project(), words);
    git(&["init", "--quiet", "--initial-branch", &format!("prepare-{HIDDEN}")]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let mut client = home.client();
    let started = client
        .call("start_workflow", json!({ "workflowId": "team.hidden", "workspacePath": home.project() }));
    let run = label(&started);
    let session = started.data["run"]["sessionId"].as_str().unwrap().to_owned();
    client.close();
    let files = |folder: &Path| -> Vec<String> {
        let mut command = Command::new("grep");
        let found =
            command.args(["--recursive", "--files-with-matches", HIDDEN]).arg(folder).output().unwrap();
        String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    let log = home.done(&["log", &session, "--json"]).out;
    assert!(log.contains(&format!("prepare-{HIDDEN}")), "the branch was recorded: {log}");
    assert!(log.contains(&format!("{HIDDEN}/team.hidden.json")), "the path was recorded: {log}");
    let done = home.run(&["session", "purge", &run, "--text", HIDDEN, "--yes", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(files(&home.data()), Vec::<String>::new());
    home.done(&["store", "verify"]);
    let new = done.json()["runs"][0].as_str().unwrap().to_owned();
    assert_eq!(
        home.client().call("resume_session", json!({ "run": new })).data["candidates"][0]["stepId"],
        "a"
    );
}
