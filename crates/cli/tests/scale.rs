//! Many sessions, long sessions and bad sessions, in new processes: caches change no answer (G18), and a bad session
//! harms no other (G20).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_testkit::home::{CommandRun, Home, User};
use workrail_testkit::large_store::SessionTemplate;
use workrail_testkit::mcp_client::ToolReply;

/// A home with a workflow of two steps and one of many.
fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    let step = |id: &str| json!({ "id": id, "title": format!("Step {id}"), "prompt": "Do it." });
    let rounds = json!({
        "id": "rounds", "type": "loop", "title": "Rounds",
        "loop": { "type": "for", "count": 500, "maxIterations": 500 }, "body": [step("round")],
    });
    for (id, steps) in [("team.flow", json!([step("one"), step("two")])), ("team.long", json!([rounds]))] {
        home.workflow(&json!({
            "id": id, "name": id, "version": "1.0.0", "description": "A test.", "steps": steps,
        }));
    }
    home
}

/// A run with some completed steps; returns its last reply.
fn run(home: &Home, workflow: &str, goal: &str, steps: usize) -> ToolReply {
    let mut client = home.client();
    let mut reply = client.call("start_workflow", json!({ "workflowId": workflow, "goal": goal }));
    for number in 0..steps {
        reply = client.call("continue_workflow", reply.ack(&format!("note {number} about {goal}")));
        assert!(!reply.is_error, "{}", reply.text);
    }
    client.close();
    reply
}

fn session_dir(home: &Home, reply: &ToolReply) -> PathBuf {
    home.data().join("sessions").join(session(reply))
}

/// What every command that uses the index answers.
fn answers(home: &Home, label: &str) -> Vec<(i32, String)> {
    let commands: [&[&str]; 6] = [
        &["session", "list", "--all", "--json"],
        &["resume", "retry", "0000007", "--json"],
        &["resume", "--json"],
        &["show", label, "--json"],
        &["report", label],
        &["show", "amber-nobody"],
    ];
    let answer = |ran: CommandRun| (ran.code, ran.out);
    commands.iter().map(|command| answer(home.run(command))).collect()
}

fn session(reply: &ToolReply) -> String {
    reply.data["run"]["sessionId"].as_str().unwrap().to_owned()
}

fn label(reply: &ToolReply) -> String {
    reply.data["run"]["label"].as_str().unwrap().to_owned()
}

/// The server does it between calls, without a search or its end to make it.
#[test]
fn a_server_indexes_what_it_recorded_while_it_waits_for_the_next_call() {
    // Far more than it takes, even on a busy machine.
    const WITHIN: Duration = Duration::from_secs(60);
    let home = home();
    let mut client = home.client();
    let begun = client.call("start_workflow", json!({ "workflowId": "team.flow", "goal": "wait" }));
    client.call("continue_workflow", begun.ack("the first step is done"));
    let deadline = Instant::now() + WITHIN;
    // The index names the step at which a run continues.
    while !is_indexed(&home, "Step two") {
        assert!(Instant::now() < deadline, "the step was never indexed");
        std::thread::sleep(Duration::from_millis(10));
    }
    client.close();
}

/// Broke: a reply with reports of progress was sent after the indexing, since the reports ended with it.
#[test]
fn a_reply_with_progress_does_not_wait_for_the_indexing() {
    // On a busy machine, we may look too late now and then, but not always.
    const TRIES: usize = 50;
    let home = home();
    let mut client = home.client();
    let is_answered_first = |number: usize| {
        let goal = format!("goal{number}");
        let arguments = json!({ "workflowId": "team.flow", "goal": goal });
        let meta = json!({ "progressToken": number });
        client.request(
            "tools/call",
            json!({ "name": "start_workflow", "arguments": arguments, "_meta": meta }),
        );
        !is_indexed(&home, &goal)
    };
    assert!((0..TRIES).any(is_answered_first), "every reply came after the indexing");
    client.close();
}

fn is_indexed(home: &Home, text: &str) -> bool {
    let files = fs::read_dir(home.data().join("cache")).into_iter().flatten().flatten();
    let mut indexes = files.map(|file| file.path()).filter(|path| path.extension() == Some("idx".as_ref()));
    indexes.any(|index| fs::read(index).is_ok_and(|bytes| contains(&bytes, text.as_bytes())))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// However the index is damaged.
#[test]
fn answers_are_independent_of_the_index() {
    let home = home();
    let reply = run(&home, "team.flow", "retry ooooooo", 1);
    let label = label(&reply);
    SessionTemplate::of(&home.data()).multiply(&home.data(), 40, "ooooooo");
    let mut cached = fs::read_dir(home.data().join("cache")).unwrap().map(|entry| entry.unwrap().path());
    let is_index = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "idx");
    let index = cached.find(is_index).expect("an append indexes its session");
    fs::remove_dir_all(home.data().join("cache")).unwrap();
    let expected = answers(&home, &label);
    assert!(!index.exists(), "looking creates no index");
    let listed: Value = serde_json::from_str(&expected[0].1).unwrap();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 41, "{listed:#}");

    // One append creates it, and the next server that resumes adds what is missing: read-only commands write nothing.
    let mut client = home.client();
    client.call("start_workflow", json!({ "workflowId": "team.flow", "goal": "another" }));
    client.call("resume_session", json!({}));
    client.close();
    let expected = answers(&home, &label);
    let bytes = fs::read(&index).unwrap();
    assert!(bytes.len() > 40 * 200, "all sessions are indexed: {} bytes", bytes.len());
    assert_eq!(answers(&home, &label), expected, "from the index");

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
        assert_eq!(answers(&home, &label), expected, "damage {number}");
    }
    fs::remove_file(&index).unwrap();
    symlink("/etc/passwd", &index).unwrap();
    assert_eq!(answers(&home, &label), expected, "a link");
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_eq!(answers(&home, &label), expected, "a folder");
    fs::remove_dir(&index).unwrap();
    let huge = fs::File::create(&index).unwrap();
    huge.set_len(3 << 30).unwrap();
    assert_eq!(answers(&home, &label), expected, "huge");
}

/// A manifest that is replaced by another of the same length is read again.
#[test]
fn a_replaced_session_is_noticed() {
    let home = home();
    let (one, two) = (run(&home, "team.flow", "first", 1), run(&home, "team.flow", "other", 1));
    let (from, to) = (session_dir(&home, &one), session_dir(&home, &two));
    assert_eq!(
        fs::metadata(from.join("manifest.jsonl")).unwrap().len(),
        fs::metadata(to.join("manifest.jsonl")).unwrap().len()
    );
    home.done(&["session", "list"]);
    fs::copy(from.join("manifest.jsonl"), to.join("manifest.jsonl")).unwrap();
    let listed = home.run(&["session", "list", "--json"]).json();
    assert_eq!(listed["damaged"].as_array().unwrap().len(), 1, "{listed}");
}

/// The caches of a long session: intact, damaged and gone.
#[test]
fn a_long_session_is_the_same_with_and_without_its_caches() {
    let home = home();
    let reply = run(&home, "team.long", "long work", 130);
    let cache = session_dir(&home, &reply).join("cache");
    assert!(cache.join("projection").is_file() && cache.join("keys").is_file());
    let look = || {
        let mut client = home.client();
        let state = json!({ "stateToken": reply.string("stateToken") });
        let mut looked = client.call("continue_workflow", state).data;
        client.close();
        // Every look at a step mints a fresh ack.
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
    // A new process advances from the caches, and another one without them.
    let mut client = home.client();
    let advanced = client.call("continue_workflow", reply.ack("the next note"));
    assert!(!advanced.is_error, "{}", advanced.text);
    client.close();
    fs::remove_dir_all(&cache).unwrap();
    let mut client = home.client();
    let replayed = client.call("continue_workflow", reply.ack("the next note"));
    assert_eq!(replayed.raw, advanced.raw, "a replay is the record");
    let again = client.call("continue_workflow", advanced.ack("and one more"));
    assert!(!again.is_error, "{}", again.text);
    client.close();
    assert_eq!(home.run(&["store", "verify"]).code, 0);
}

/// One session that this user may not read.
#[test]
fn an_unreadable_session_is_listed_and_harms_no_other() {
    let home = home();
    let (good, bad) = (run(&home, "team.flow", "good work", 1), run(&home, "team.flow", "bad luck", 1));
    let finished = run(&home, "team.flow", "finished work", 2);
    let bad_id = session(&bad);
    // Root may read everything, so permissions prove nothing as root.
    let home = home.given_to(User::find());
    fs::set_permissions(session_dir(&home, &bad), fs::Permissions::from_mode(0o000)).unwrap();

    let list = home.done(&["session", "list", "--json"]).json();
    let labels = list["runs"].as_array().unwrap().iter().map(|run| &run["label"]);
    assert!(labels.eq([&json!(label(&good)), &json!(label(&finished))]), "{list:#}");
    assert_eq!(list["damaged"][0]["sessionId"], json!(bad_id), "{list:#}");
    let found = home.done(&["resume", "good", "work", "--json"]).json();
    assert_eq!(found["candidates"][0]["label"], json!(label(&good)), "{found:#}");
    for command in ["show", "report"] {
        home.done(&[command, &label(&good)]);
    }
    home.done(&["search", "note"]);
    let verified = home.run(&["store", "verify", "--json"]);
    assert_eq!(
        (verified.code, &verified.json()["problems"][0]["subject"]),
        (1, &json!(bad_id)),
        "{verified:?}"
    );
    assert_eq!(home.run(&["doctor"]).code, 1);
    let cleaned = home.run(&["store", "gc", "--ttl", "0d", "--json"]);
    let report = cleaned.json();
    assert_eq!((cleaned.code, &report["safeMode"]["code"]), (1, &json!("STORE_SAFE_MODE")), "{cleaned:?}");
    assert_eq!(report["safeMode"]["details"][0]["subject"], json!(bad_id), "{cleaned:?}");
    assert!(!session_dir(&home, &finished).exists(), "an old session goes all the same");
    fs::set_permissions(session_dir(&home, &bad), fs::Permissions::from_mode(0o700)).unwrap();
    // Nothing that it needs was removed.
    home.done(&["store", "verify"]);
}

fn newest_activity(home: &Home, reply: &ToolReply) -> u64 {
    let segments = fs::read_dir(session_dir(home, reply).join("events")).unwrap();
    let texts = segments.map(|segment| fs::read_to_string(segment.unwrap().path()).unwrap());
    let text: String = texts.collect();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter_map(|event| event["activity"].as_u64()).max().unwrap()
}

/// After a reboot `activity` counts for an earlier boot; without its reservation, the newest number is looked for in the
/// sessions.
#[test]
fn an_unreadable_session_stops_no_other_after_a_reboot_that_lost_the_counter() {
    let home = home();
    let (good, bad) = (run(&home, "team.flow", "good work", 1), run(&home, "team.flow", "bad luck", 1));
    let newest = newest_activity(&home, &good);
    let home = home.given_to(User::find());
    for name in ["activity", "activity.reserved"] {
        fs::remove_file(home.data().join(name)).unwrap();
    }
    // Root may read everything, so permissions prove nothing as root.
    fs::set_permissions(session_dir(&home, &bad), fs::Permissions::from_mode(0o000)).unwrap();
    let mut client = home.client();
    let started = client.call("start_workflow", json!({ "workflowId": "team.flow", "goal": "new work" }));
    assert!(!started.is_error, "{}", started.text);
    let advanced = client.call("continue_workflow", good.ack("the second note"));
    assert!(!advanced.is_error, "{}", advanced.text);
    client.close();
    assert!(newest_activity(&home, &good) > newest, "numbers only grow");
    fs::set_permissions(session_dir(&home, &bad), fs::Permissions::from_mode(0o700)).unwrap();
    home.done(&["store", "verify"]);
}
