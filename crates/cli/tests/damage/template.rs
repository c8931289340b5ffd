//! The store that every cell starts from: built once through the real program, then copied.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};
use workrail_model::digest::Sha256;
use workrail_testkit::authenticator::{Authenticator, enrolments};
use workrail_testkit::home::{Home, User};
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use crate::commands::{About, Call, Command, Compare, Effect, End};
use crate::rows::{INSTALLED_CLIENT, ran, shown};

/// A source of workflows in a git repository.
pub(crate) const GIT_SOURCE: &str = "team";

/// The chat, in a host, that works on the victim.
pub(crate) const CHAT: &str = "chat-of-the-matrix";

/// The program of this build, or another one that `WORKRAIL_TEST_PROGRAM` names.
fn program() -> PathBuf {
    std::env::var_os("WORKRAIL_TEST_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_workrail").into(), PathBuf::from)
}

/// An unfinished run: its names, the tokens of its pending step, and the last call that advanced it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) session: String,
    pub(crate) run: String,
    pub(crate) label: String,
    pub(crate) word: &'static str,
    pub(crate) state: String,
    pub(crate) ack: String,
    pub(crate) checkpoint: String,
    pub(crate) last_call: Value,
}

#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) home: Home,
    /// The session whose files are damaged. It has long notes, an artifact, a checkpoint, pending preferences, a keep mark,
    /// the remains of an interrupted write, and two runs that wait for a person.
    pub(crate) victim: Run,
    /// The label of a run inside the victim that waits for an approval.
    pub(crate) gated: String,
    /// The label of a run inside the victim that waits for an answer.
    pub(crate) asking: String,
    /// Runs the same workflow, so that it shares content with the victim.
    pub(crate) sharing: Run,
    /// Shares nothing with the victim.
    pub(crate) apart: Run,
    /// Finished.
    pub(crate) finished: String,
    pub(crate) finished_label: String,
    /// Was damaged and repaired: its backup is in the store.
    pub(crate) repaired: String,
    /// The id of an access token.
    pub(crate) token: String,
    /// Which sessions refer to a digest.
    pub(crate) referrers: BTreeMap<String, Vec<String>>,
    helps: Mutex<BTreeMap<String, Option<String>>>,
}

fn workflow(id: &str, steps: usize) -> Value {
    let steps: Vec<Value> = (0..steps)
        .map(|n| json!({ "id": format!("step-{n}"), "title": format!("Step {n}"), "prompt": format!("Do part {n}.") }))
        .collect();
    json!({ "id": id, "name": id, "description": "Steps to walk.", "version": "1.0.0", "steps": steps })
}

fn done(client: &mut McpClient, tool: &str, arguments: Value) -> ToolReply {
    let reply = client.call(tool, arguments);
    assert!(!reply.is_error, "{}", reply.text);
    reply
}

/// Starts a run and completes one step with each of these outputs.
fn walk(client: &mut McpClient, workflow: &str, word: &'static str, outputs: &[Value]) -> Run {
    let goal = format!("count the {word}");
    let mut reply = done(client, "start_workflow", json!({ "workflowId": workflow, "goal": goal }));
    let mut last_call = Value::Null;
    for output in outputs {
        last_call = json!({ "ackToken": reply.string("ackToken"), "output": output });
        reply = done(client, "continue_workflow", last_call.clone());
    }
    let token = |name: &str| reply.data[name].as_str().unwrap_or_default().to_owned();
    let run = &reply.data["run"];
    Run {
        session: run["sessionId"].as_str().unwrap().to_owned(),
        run: run["runId"].as_str().unwrap().to_owned(),
        label: run["label"].as_str().unwrap().to_owned(),
        word,
        state: token("stateToken"),
        ack: token("ackToken"),
        checkpoint: token("checkpointToken"),
        last_call,
    }
}

/// Keys and an HTTP secret that cannot be used are moved aside, before anything is signed.
fn replace_unusable_keys(home: &Home) {
    let keys = home.data().join("keys");
    fs::create_dir_all(keys.join("http-secret")).unwrap();
    home.write(&keys.join("keyring.json"), "not a keyring");
    for (path, mode) in
        [(keys.clone(), 0o700), (keys.join("http-secret"), 0o700), (keys.join("keyring.json"), 0o600)]
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        home.give(&path);
    }
    home.done(&["store", "keys", "new", "--yes"]);
    home.done(&["store", "keys", "http-secret", "--new", "--yes"]);
}

/// The client knows the process that sets limits; the server reports its own process id.
fn kill_server(home: &Home) {
    let mut records = fs::read_dir(home.data().join("servers")).unwrap().map(|entry| entry.unwrap().path());
    let record = records.find(|path| path.extension().is_some_and(|ending| ending == "json")).unwrap();
    let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    let process = record["processId"].as_u64().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
}

/// Starts a run inside another and submits its first step, which then waits for a person.
fn waiting_inside(client: &mut McpClient, parent: &Run, workflow: &str) -> String {
    let arguments = json!({ "workflowId": workflow, "goal": format!("ask about {}", parent.word), "parent": parent.state });
    let first = done(client, "start_workflow", arguments);
    let output = json!({ "notesMarkdown": "waits for a person" });
    let blocked =
        done(client, "continue_workflow", json!({ "ackToken": first.string("ackToken"), "output": output }));
    assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.text);
    let run = &first.data["run"];
    assert_eq!(run["sessionId"], parent.session.as_str());
    run["label"].as_str().unwrap().to_owned()
}

impl Template {
    /// `checkpoints` lengthen the victim's log.
    pub(crate) fn build(root: &Path, user: User, checkpoints: usize) -> Self {
        let home = Home::create(&program(), root, user);
        for (id, steps) in [("team.walk", 6), ("team.apart", 4), ("team.short", 1)] {
            home.write(&home.workflows().join(format!("{id}.json")), &workflow(id, steps).to_string());
        }
        home.gated_workflow();
        home.asking_workflow();
        home.write(&home.config(), "[retention]\nttl_days = 30\n");
        replace_unusable_keys(&home);
        let notes = |text: &str| json!({ "notesMarkdown": text });
        let mut client = home.server().unwrap();
        let mut victim = walk(
            &mut client,
            "team.walk",
            "herons",
            &[
                notes("seven herons at the weir"),
                notes(&"a very long note about herons. ".repeat(300)),
                json!({ "notesMarkdown": "with a list", "artifacts": [{ "kind": "team.list", "items": [1, 2, 3] }] }),
            ],
        );
        let gated = waiting_inside(&mut client, &victim, "team.gated");
        let asking = waiting_inside(&mut client, &victim, "team.asking");
        for _ in 0..checkpoints {
            let checkpoint =
                json!({ "checkpointToken": victim.checkpoint, "output": notes("half of the weir") });
            victim.checkpoint =
                done(&mut client, "checkpoint_workflow", checkpoint).string("checkpointToken");
        }
        let sharing = walk(&mut client, "team.walk", "otters", &[notes("two otters")]);
        let apart = walk(&mut client, "team.apart", "swifts", &[notes("a cloud of swifts")]);
        let finished = walk(&mut client, "team.short", "newts", &[notes("three newts")]);
        let repaired = walk(&mut client, "team.short", "toads", &[notes("no toads")]).session;
        client.until_indexed();
        client.close();
        let token = home.done(&["team", "token", "create", "ada", "--role", "agent", "--json"]).json();
        let template = Self {
            home,
            victim,
            gated,
            asking,
            sharing,
            apart,
            finished: finished.session,
            finished_label: finished.label,
            repaired,
            token: token["id"].as_str().unwrap().to_owned(),
            referrers: BTreeMap::new(),
            helps: Mutex::default(),
        };
        template.repair_one();
        template.interrupt_a_write();
        template.request_preferences();
        template.hook();
        // The client has settings of its own, which are backed up.
        template.home.write(&template.home.home().join(".claude/settings.json"), "{\"theme\":\"dark\"}\n");
        template.run(&["install", "--client", INSTALLED_CLIENT, "--yes"]);
        template.enrol();
        template.bundle();
        template.set_up_surroundings();
        template.replace_content();
        template.leave_marks();
        Self { referrers: template.find_referrers(), ..template }
    }

    fn run(&self, arguments: &[&str]) {
        let ran = self.home.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    }

    /// The help of a command or group of commands; `None` if the program has no such command.
    pub(crate) fn help(&self, path: &[&str]) -> Option<String> {
        let mut known = self.helps.lock().unwrap();
        let asked = || {
            let ran = self.home.run(&[path, &["--help"]].concat());
            (ran.code == 0).then_some(ran.out)
        };
        known.entry(path.join(" ")).or_insert_with(asked).clone()
    }

    /// The next writer completes it and moves its remains aside.
    fn interrupt_a_write(&self) {
        let manifest = self.home.data().join("sessions").join(&self.victim.session).join("manifest.jsonl");
        let whole = fs::read(&manifest).unwrap();
        fs::write(&manifest, &whole[..whole.len() - 9]).unwrap();
        let mut client = self.home.server().unwrap();
        done(&mut client, "continue_workflow", self.victim.last_call.clone());
        // A killed server leaves its registration behind.
        kill_server(&self.home);
        drop(client);
        assert!(fs::read(&manifest).unwrap() == whole, "the write was completed");
    }

    /// Checks that a person trusts, and a source in a git repository.
    fn set_up_surroundings(&self) {
        let home = &self.home;
        let step =
            json!({ "id": "work", "title": "Work", "prompt": "Do it.", "checks": [{ "command": "test" }] });
        home.workflow(&json!({
            "id": "team.checked", "name": "Checked", "description": "Runs a check.", "version": "1.0.0", "steps": [step],
        }));
        home.write(&home.project().join(".workrail/checks.toml"), "[test]\nargv = [\"true\"]\n");
        let trusted = home.typed(&["trust"], "project");
        assert_eq!(trusted.code, 0, "{trusted:?}");
        let plugin = r#"{"manifestVersion":1,"name":"acme","workflows":["p.json"]}"#;
        home.write(&home.root().join("plugin/workrail-plugin.json"), plugin);
        home.write(&home.root().join("plugin/p.json"), &workflow("acme.p", 1).to_string());
        let repository = self.repository();
        home.write(&repository.join("fetched.json"), &workflow("team.fetched", 1).to_string());
        home.git(&repository, &["init", "-q"]);
        home.git(&repository, &["add", "."]);
        home.git(&repository, &["commit", "-q", "-m", "one"]);
        let source = ["workflow", "sources", "add", "git", GIT_SOURCE, repository.to_str().unwrap()];
        // Nothing is fetched in the background.
        self.run(&[&source[..], &["--allow-local", "--sync-hours", "0"]].concat());
        self.run(&["workflow", "sources", "sync", GIT_SOURCE]);
    }

    /// The repository of the source. The copies of this home fetch from it, too.
    pub(crate) fn repository(&self) -> PathBuf {
        self.home.root().join("repository")
    }

    /// Damaged content is replaced from a backup, and kept.
    fn replace_content(&self) {
        // Some keep their settings in the data directory.
        self.home.write(&self.home.data().join("config.toml"), "[retention]\nttl_days = 30\n");
        self.run(&["store", "backup", "../backup"]);
        let of_apart = self.events(&self.apart.session);
        let mut digests = of_apart.iter().filter_map(|event| event["data"]["snapshotRef"].as_str());
        let digest = digests.next().unwrap().trim_start_matches("sha256:");
        let snapshot = self.home.data().join(format!("snapshots/{digest}.json"));
        let whole = fs::read(&snapshot).unwrap();
        fs::write(&snapshot, &whole[1..]).unwrap();
        self.run(&["store", "restore", "../backup"]);
        assert!(fs::read(&snapshot).unwrap() == whole, "the content was restored");
    }

    /// What only a failed sync or a killed process leaves.
    fn leave_marks(&self) {
        let data = self.home.data();
        let observed =
            |run: &Run, ending: &str| data.join(format!("observed/{}-{}.{ending}", run.session, run.run));
        let lines = fs::read_to_string(observed(&self.victim, "jsonl")).unwrap();
        self.home.write(&observed(&self.apart, "taken"), &lines);
        self.home.write(&data.join("sessions").join(&self.finished).join(".suspect"), "");
        self.home.write(&data.join("cache/index.lock"), "");
    }

    fn repair_one(&self) {
        let last = self.segments(&self.repaired).pop().unwrap();
        let bytes = fs::read(&last).unwrap();
        fs::write(&last, &bytes[..bytes.len() - 9]).unwrap();
        self.run(&["store", "repair", &self.repaired, "--yes"]);
    }

    fn request_preferences(&self) {
        self.run(&["session", "keep", &self.victim.session]);
        self.run(&["session", "prefs", "set", "risk_policy=balanced", "--session", &self.victim.session]);
    }

    /// A chat that works on the victim, and a command that its host observed.
    fn hook(&self) {
        for input in [shown(&self.victim), ran("cargo test")] {
            let call = Call::Hook("PostToolUse", input);
            let hook = Command {
                name: "hook".to_owned(),
                effect: Effect::Writes,
                about: About::Elsewhere,
                compare: Compare::Success,
                signs: false,
                call,
            };
            assert_eq!(hook.run(&self.home).end, End::Done);
        }
    }

    /// Passkeys of two devices, the second after a reset, so that the log has lines before its last. An earlier log was
    /// damaged and set aside.
    fn enrol(&self) {
        self.write_passkeys(&enrolments(&[Authenticator::new(3)]).replacen("enrolled", "enrolleD", 1));
        let reset = self.home.typed(&["store", "passkeys", "reset"], "reset passkeys");
        assert_eq!(reset.code, 0, "{reset:?}");
        self.write_passkeys(&enrolments(&[Authenticator::new(1), Authenticator::new(2)]));
    }

    fn write_passkeys(&self, log: &str) {
        let last = log.lines().last().unwrap();
        for (name, text) in [
            ("passkeys.jsonl", log.to_owned()),
            ("passkeys.head", format!("{}\n", Sha256::of(last.as_bytes()))),
        ] {
            let path = self.home.data().join("keys").join(name);
            self.home.write(&path, &text);
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    /// A session of another store, in a file.
    fn bundle(&self) {
        let other = Home::create(&program(), &self.home.root().join("elsewhere"), self.home.user());
        other.write(&other.workflows().join("team.json"), &workflow("team.guest", 3).to_string());
        let mut client = other.server().unwrap();
        let output = json!({ "notesMarkdown": "a guest" });
        let guest = walk(&mut client, "team.guest", "geese", &[output]);
        client.close();
        let exported =
            other.run(&["session", "export", &guest.session, "-o", self.bundle_path().to_str().unwrap()]);
        assert_eq!(exported.code, 0, "{exported:?}");
        // An import leaves its lock, but no trace of a session that was deleted since.
        self.home.write(&self.home.data().join("import.lock"), "");
    }

    pub(crate) fn bundle_path(&self) -> PathBuf {
        self.home.home().join("guest.bundle.json")
    }

    pub(crate) fn sessions(&self) -> [&str; 5] {
        [&self.victim.session, &self.sharing.session, &self.apart.session, &self.finished, &self.repaired]
    }

    /// The segments of a session, in order.
    pub(crate) fn segments(&self, session: &str) -> Vec<PathBuf> {
        let folder = self.home.data().join("sessions").join(session).join("events");
        let mut found: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    }

    pub(crate) fn events(&self, session: &str) -> Vec<Value> {
        let segments = self.segments(session);
        let texts = segments.iter().map(|segment| fs::read_to_string(segment).unwrap());
        let lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn find_referrers(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for session in self.sessions() {
            for event in self.events(session) {
                let text = event.to_string();
                for (at, _) in text.match_indices("sha256:") {
                    let sessions = found.entry(text[at + 7..at + 71].to_owned()).or_default();
                    if !sessions.iter().any(|known| known == session) {
                        sessions.push(session.to_owned());
                    }
                }
            }
        }
        found
    }
}
