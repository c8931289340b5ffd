//! Many sessions, long sessions and bad sessions, in new processes: what is kept to save time changes no answer
//! (G18), and one bad session harms no other (G20).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use workrail_testkit::large_store::Template;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
/// A user without rights. Root reads everything, so that permissions prove nothing to it.
const NOBODY: &str = "65534";

struct Scene {
    home: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { home: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.workflows()).unwrap();
        let step = |id: &str| json!({ "id": id, "title": format!("Step {id}"), "prompt": "Do it." });
        let rounds = json!({
            "id": "rounds", "type": "loop", "title": "Rounds",
            "loop": { "type": "for", "count": 500, "maxIterations": 500 }, "body": [step("round")],
        });
        scene.write("team.flow", &json!([step("one"), step("two")]));
        scene.write("team.long", &json!([rounds]));
        scene
    }

    fn workflows(&self) -> PathBuf {
        self.home.path().join("workflows")
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn write(&self, id: &str, steps: &Value) {
        let text = json!({
            "id": id, "name": id, "version": "1.0.0", "description": "A test.", "steps": steps,
        });
        fs::write(self.workflows().join(format!("{id}.json")), text.to_string()).unwrap();
    }

    fn server(&self) -> McpClient {
        let workflows = self.workflows();
        McpClient::start(Path::new(PROGRAM), &self.data(), &[("WORKFLOW_STORAGE_PATH", &workflows)])
    }

    /// A run that completed some steps; its last reply.
    fn run(&self, workflow: &str, goal: &str, steps: usize) -> ToolReply {
        let mut client = self.server();
        let mut reply = client.call("start_workflow", json!({ "workflowId": workflow, "goal": goal }));
        for number in 0..steps {
            reply = client.call("continue_workflow", ack(&reply, &format!("note {number} about {goal}")));
            assert!(!reply.is_error, "{}", reply.text);
        }
        client.close();
        reply
    }

    fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.prepared(Command::new(PROGRAM)).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    fn prepared(&self, mut command: Command) -> Command {
        command.env_clear().env("WORKRAIL_DATA_DIR", self.data()).env("HOME", self.home.path());
        command.env("WORKFLOW_STORAGE_PATH", self.workflows()).stdin(Stdio::null());
        command
    }

    /// Runs a command as a user whom permissions stop.
    fn command_as_nobody(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let root = is_root();
        let mut command = Command::new(if root { "setpriv" } else { PROGRAM });
        if root {
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", PROGRAM]);
        }
        let mut command = self.prepared(command);
        command.env("PATH", "/usr/bin:/bin");
        let output = command.args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    }

    fn session_dir(&self, reply: &ToolReply) -> PathBuf {
        self.data().join("sessions").join(reply.structured["run"]["sessionId"].as_str().unwrap())
    }

    /// What every command that uses the index answers.
    fn answers(&self, label: &str) -> Vec<(Option<i32>, String)> {
        let commands: [&[&str]; 6] = [
            &["session", "list", "--all", "--json"],
            &["resume", "retry", "0000007", "--json"],
            &["resume", "--json"],
            &["show", label, "--json"],
            &["report", label],
            &["show", "amber-nobody"],
        ];
        commands.iter().map(|command| self.command(command)).collect()
    }
}

/// Whether this user is root, asked without a library.
fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout == b"0\n"
}

fn ack(reply: &ToolReply, notes: &str) -> Value {
    json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": notes } })
}

fn label(reply: &ToolReply) -> String {
    reply.structured["run"]["label"].as_str().unwrap().to_owned()
}

/// The index, however it is damaged.
#[test]
fn answers_do_not_depend_on_the_index() {
    let scene = Scene::new();
    let reply = scene.run("team.flow", "retry xxxxxxx", 1);
    let label = label(&reply);
    Template::of(&scene.data()).multiply(&scene.data(), 40, "xxxxxxx");
    let index = scene.data().join("cache/sessions-1.idx");
    assert!(index.is_file(), "appends index their session");
    fs::remove_dir_all(scene.data().join("cache")).unwrap();
    let expected = scene.answers(&label);
    assert!(!index.exists(), "looking creates no index");
    assert!(expected[0].1.contains("0000040") && expected[1].1.contains("0000007"), "{expected:?}");

    // One append creates it, and the next server that resumes adds what is missing: commands that look write nothing.
    let mut client = scene.server();
    client.call("start_workflow", json!({ "workflowId": "team.flow", "goal": "another" }));
    client.call("resume_session", json!({}));
    client.close();
    let expected = scene.answers(&label);
    let bytes = fs::read(&index).unwrap();
    assert!(bytes.len() > 40 * 200, "all sessions are indexed: {} bytes", bytes.len());
    assert_eq!(scene.answers(&label), expected, "from the index");

    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let damages = [
        Vec::new(),
        b"not an index".to_vec(),
        bytes[..bytes.len() / 2].to_vec(),
        flipped(3),
        flipped(bytes.len() / 3),
        [bytes.as_slice(), b"garbage at its end"].concat(),
    ];
    for (number, damaged) in damages.iter().enumerate() {
        fs::write(&index, damaged).unwrap();
        assert_eq!(scene.answers(&label), expected, "damage {number}");
    }
    fs::remove_file(&index).unwrap();
    symlink("/etc/passwd", &index).unwrap();
    assert_eq!(scene.answers(&label), expected, "a link");
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_eq!(scene.answers(&label), expected, "a folder");
    fs::remove_dir(&index).unwrap();
    let huge = fs::File::create(&index).unwrap();
    huge.set_len(3 << 30).unwrap();
    assert_eq!(scene.answers(&label), expected, "huge");
}

/// A manifest that is replaced by another of the same length is read again.
#[test]
fn a_replaced_session_is_noticed() {
    let scene = Scene::new();
    let (one, two) = (scene.run("team.flow", "first", 1), scene.run("team.flow", "other", 1));
    let (from, to) = (scene.session_dir(&one), scene.session_dir(&two));
    assert_eq!(
        fs::metadata(from.join("manifest.jsonl")).unwrap().len(),
        fs::metadata(to.join("manifest.jsonl")).unwrap().len()
    );
    scene.command(&["session", "list"]);
    fs::copy(from.join("manifest.jsonl"), to.join("manifest.jsonl")).unwrap();
    let (_, listed) = scene.command(&["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["damaged"].as_array().unwrap().len(), 1, "{listed}");
}

/// What is saved of a long session, whole, damaged and gone.
#[test]
fn a_long_session_is_the_same_with_and_without_what_was_saved_of_it() {
    let scene = Scene::new();
    let reply = scene.run("team.long", "long work", 130);
    let cache = scene.session_dir(&reply).join("cache");
    assert!(cache.join("projection").is_file() && cache.join("keys").is_file());
    let look = || {
        let mut client = scene.server();
        let state = json!({ "stateToken": reply.string("stateToken") });
        let mut looked = client.call("continue_workflow", state).structured;
        client.close();
        // Looking mints a fresh ack.
        for fresh in ["ackToken", "nextCall", "text", "checkpointToken"] {
            looked.as_object_mut().unwrap().remove(fresh);
        }
        looked
    };
    let expected = look();
    assert_eq!(expected["run"]["stepId"], json!("round"));
    for file in ["projection", "keys"] {
        let bytes = fs::read(cache.join(file)).unwrap();
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        fs::write(cache.join(file), flipped).unwrap();
        assert_eq!(look(), expected, "damaged {file}");
        fs::write(cache.join(file), bytes).unwrap();
    }
    // A new process advances from what was saved, and another one without it.
    let mut client = scene.server();
    let advanced = client.call("continue_workflow", ack(&reply, "the next note"));
    assert!(!advanced.is_error, "{}", advanced.text);
    client.close();
    fs::remove_dir_all(&cache).unwrap();
    let mut client = scene.server();
    let replayed = client.call("continue_workflow", ack(&reply, "the next note"));
    assert_eq!(
        replayed.raw.replace(&replay_id(&replayed), ""),
        advanced.raw.replace(&replay_id(&advanced), "")
    );
    let again = client.call("continue_workflow", ack(&advanced, "and one more"));
    assert!(!again.is_error, "{}", again.text);
    client.close();
    assert_eq!(scene.command(&["store", "verify"]).0, Some(0));
}

fn replay_id(reply: &ToolReply) -> String {
    let response: Value = serde_json::from_str(&reply.raw).unwrap_or_default();
    format!("\"id\":{}", response["id"])
}

/// One session that nobody may read.
#[test]
fn an_unreadable_session_is_listed_and_harms_no_other() {
    let scene = Scene::new();
    let (good, bad) = (scene.run("team.flow", "good work", 1), scene.run("team.flow", "bad luck", 1));
    let finished = scene.run("team.flow", "finished work", 2);
    let owned = [scene.home.path().to_owned()];
    if is_root() {
        let done = Command::new("chown").arg("-R").arg(format!("{NOBODY}:{NOBODY}")).args(owned).status();
        assert!(done.unwrap().success());
    }
    fs::set_permissions(scene.session_dir(&bad), fs::Permissions::from_mode(0o000)).unwrap();
    let bad_id = bad.structured["run"]["sessionId"].as_str().unwrap().to_owned();

    let (code, list) = scene.command_as_nobody(&["session", "list"]);
    assert_eq!(code, Some(0), "{list}");
    assert!(list.contains(&label(&good)) && list.contains(&bad_id), "{list}");
    let row = list.lines().find(|line| line.contains(&bad_id)).unwrap_or_default();
    assert!(row.contains("may not be read") && row.contains("Permission denied"), "{list}");
    let (code, found) = scene.command_as_nobody(&["resume", "good", "work"]);
    assert_eq!(code, Some(0), "{found}");
    assert!(found.contains(&label(&good)), "{found}");
    for command in [vec!["show"], vec!["report"]] {
        let (code, shown) = scene.command_as_nobody(&[command, vec![&label(&good)]].concat());
        assert_eq!(code, Some(0), "{shown}");
    }
    let (code, found) = scene.command_as_nobody(&["search", "note"]);
    assert_eq!(code, Some(0), "{found}");
    let (code, verified) = scene.command_as_nobody(&["store", "verify"]);
    assert_eq!(code, Some(1), "{verified}");
    assert!(verified.contains(&bad_id) && verified.contains("permissions"), "{verified}");
    let (_, checked) = scene.command_as_nobody(&["doctor"]);
    assert!(checked.contains(&bad_id) && checked.contains("2 of 3"), "{checked}");
    let (code, cleaned) = scene.command_as_nobody(&["store", "gc", "--ttl", "0d"]);
    assert_eq!(code, Some(1), "{cleaned}");
    assert!(cleaned.contains(&bad_id) && cleaned.contains("no content was removed"), "{cleaned}");
    assert!(!scene.session_dir(&finished).exists(), "an old session goes all the same");
    fs::set_permissions(scene.session_dir(&bad), fs::Permissions::from_mode(0o700)).unwrap();
    let (code, verified) = scene.command_as_nobody(&["store", "verify"]);
    assert_eq!(code, Some(0), "nothing that it needs was removed: {verified}");
}
