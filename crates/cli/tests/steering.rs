//! What a user does at a terminal, and what the environment configures, through the real binary.

mod wording;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A home with a workflow whose first step needs an approval.
fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.gated_workflow();
    home
}

fn start(client: &mut McpClient) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": "team.gated" }))
}

#[test]
fn an_approval_needs_a_terminal_and_the_typed_label() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let label = first.label();
    let blocked = client.next(&first);
    assert_eq!(blocked.data["kind"], "blocked");

    assert_eq!(home.run(&["approve", &label]).code, 2, "an approval needs a terminal");
    assert!(
        home.typed(&["approve", &label], "yes").code != 0,
        "another word than the label approves nothing"
    );
    let still = client.next(&blocked);
    assert_eq!(still.data["kind"], "blocked");

    assert_eq!(home.typed(&["reject", &label, "--reason", "It lacks a test."], &label).code, 0);
    let rejected = client.next(&still);
    assert_eq!(rejected.data["blockers"][0]["code"], "USER_ONLY_DEPENDENCY", "{}", rejected.data);
    assert!(home.typed(&["approve", &label], &label).code == 0);
    let seen = look(&mut client, &rejected);
    assert_eq!(client.call("continue_workflow", seen["nextCall"]["arguments"].clone()).step(), "b", "{seen}");
    assert_eq!(home.run(&["approve", "amber-nobody"]).code, 2);
}

fn look(client: &mut McpClient, at: &ToolReply) -> Value {
    client.call("continue_workflow", json!({ "stateToken": at.string("stateToken") })).data
}

/// G63: an agent that looks again, perhaps in a new chat, learns of the decision instead of waiting for it.
#[test]
fn a_look_after_a_decision_shows_it() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let label = first.label();
    let blocked = client.next(&first);
    assert_eq!(home.typed(&["reject", &label, "--reason", "It lacks a test."], &label).code, 0);
    let blocker = look(&mut client, &blocked)["blockers"][0].clone();
    assert_text(&home, "blocker_after_a_rejection", blocker["message"].as_str().unwrap());
    assert_eq!(home.typed(&["approve", &label], &label).code, 0);
    let seen = look(&mut client, &blocked);
    assert_text(&home, "blocker_after_an_approval", seen["blockers"][0]["message"].as_str().unwrap());
    assert_eq!(client.call("continue_workflow", seen["nextCall"]["arguments"].clone()).step(), "b", "{seen}");
}

/// A home with a workflow that asks a question.
fn asking_home() -> Home {
    let home = home();
    home.workflow(&json!({
        "id": "team.deploy", "name": "Deployment", "description": "Asks where to.", "version": "1.0.0",
        "steps": [{
            "id": "target", "title": "Choose the target", "prompt": "Find out where to deploy.",
            "userDependencies": [{ "reason": "needs_user_choice", "choiceKind": "scope_boundary",
                                   "description": "Which branch is deployed?", "contextKey": "targetBranch" }],
        }],
    }));
    home
}

#[test]
fn without_a_name_the_only_waiting_run_is_meant() {
    let home = asking_home();
    let mut client = home.client();
    let nobody = home.run(&["approve"]);
    assert_eq!(nobody.code, 2, "{nobody:?}");
    assert_text(&home, "no_run_waits_for_an_approval", &nobody.err);
    let first = start(&mut client);
    let blocked = client.next(&first);
    assert_eq!(home.typed(&["approve"], &first.label()).code, 0, "the label is typed all the same");
    assert_eq!(client.next(&blocked).step(), "b");
    let (one, other) = (start(&mut client), start(&mut client));
    client.next(&one);
    client.next(&other);
    let several = home.run(&["reject"]);
    assert_eq!(several.code, 2, "{several:?}");
    for run in [&one, &other] {
        assert!(several.err.contains(&run.label()), "{several:?}");
    }
}

#[test]
fn an_answer_without_a_value_is_asked_for() {
    let home = asking_home();
    let mut client = home.client();
    let first = client.call("start_workflow", json!({ "workflowId": "team.deploy" }));
    let label = first.label();
    let notes =
        json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "Two could be meant." } });
    let blocked = client.call("continue_workflow", notes);
    assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.text);
    let piped = home.run(&["answer", &label]);
    assert_eq!(piped.code, 2, "nobody can be asked: {piped:?}");
    assert!(piped.err.contains(&label), "{piped:?}");
    assert_text(&home, "answer_without_a_value", &piped.err);
    let empty = home.typed(&["answer", &label], "");
    assert_ne!(empty.code, 0, "{empty:?}");
    let asked = home.typed(&["answer"], "release");
    assert_eq!(asked.code, 0, "{asked:?}");
    insta::assert_snapshot!(asked.out.replace(&label, "[run]"));
    let events = home.events(&label, "context_set");
    let answer = events.iter().find_map(|event| event["data"]["context"].get("targetBranch"));
    assert_eq!(answer, Some(&json!("release")), "{events:?}");
}

#[test]
fn an_answer_needs_no_name_either() {
    let home = asking_home();
    let mut client = home.client();
    let first = client.call("start_workflow", json!({ "workflowId": "team.deploy" }));
    let notes =
        json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "Two could be meant." } });
    client.call("continue_workflow", notes);
    home.done(&["answer", "targetBranch=main"]);
    let left = home.run(&["answer", "targetBranch=main"]);
    assert_eq!(left.code, 2, "{left:?}");
    assert_text(&home, "no_run_waits_for_an_answer", &left.err);
}

/// G64: a mode is changed later, pending at first, and recorded.
#[test]
fn a_mode_chosen_later_is_pending_and_then_applied() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    let raise = ["session", "prefs", "set", "full_auto_never_stop", "--run", &run];
    assert_eq!(home.run(&raise).code, 2, "more autonomy needs a terminal");
    assert_ne!(home.typed(&raise, "full_auto_never_stop").code, 0, "the run's label is typed");
    assert_eq!(home.typed(&raise, &run).code, 0);
    // Changes that do not raise autonomy need no terminal.
    home.done(&["session", "prefs", "set", "risk_policy=balanced", "--run", &run]);
    let looked = client.call("continue_workflow", json!({ "stateToken": first.string("stateToken") }));
    assert_eq!(looked.data["warnings"][0]["code"], "PREFERENCES_PENDING");
    let second = client.next(&first);
    assert_eq!(second.step(), "b");
    assert_eq!(second.data["preferences"]["autonomy"], "full_auto_never_stop");
    let changes = home.events(&run, "preferences_changed");
    assert!(changes.iter().any(|change| change["data"]["source"] == "command_line"), "{changes:?}");
}

/// Whether the run's one approval is recorded as coming from below the program that runs the server.
fn recorded_descent(home: &Home, run: &str) -> Value {
    let decisions = home.events(run, "approval_recorded");
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    decisions[0]["data"]["descendsFromServer"].clone()
}

#[test]
fn an_approval_below_the_program_that_runs_a_server_is_recorded_as_such() {
    let home = home();
    // This test starts both the server and the terminal, like a program that runs an agent.
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    let blocked = client.next(&first);
    assert!(home.typed(&["approve", &run], &run).code == 0);
    assert_eq!(client.next(&blocked).step(), "b");
    assert_eq!(recorded_descent(&home, &run), true);
}

#[test]
fn an_approval_without_a_running_server_does_not_claim_to_know_its_origin() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    let blocked = client.next(&first);
    client.close();
    assert!(home.typed(&["approve", &run], &run).code == 0);
    assert_eq!(recorded_descent(&home, &run), Value::Null);
    assert_eq!(home.client().next(&blocked).step(), "b");
}

#[test]
fn an_approval_next_to_an_http_server_does_not_claim_to_know_its_origin() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    client.next(&first);
    client.close();
    let mut http = home.command(&["mcp", "--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(http.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    let approved = home.typed(&["approve", &run], &run);
    http.kill().unwrap();
    http.wait().unwrap();
    assert_eq!(approved.code, 0, "{approved:?}");
    assert_eq!(recorded_descent(&home, &run), Value::Null);
}

#[test]
fn another_settings_file_does_not_disable_the_protection() {
    let home = home();
    home.write(&home.config(), "[approvals]\nrefuse_descendants = true\n");
    let empty = home.home().join("empty.toml");
    home.write(&empty, "");
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    client.next(&first);
    for refused in [
        home.typed(&["approve", &run], &run),
        home.typed(&["--config", empty.to_str().unwrap(), "approve", &run], &run),
        home.with("WORKRAIL_CONFIG", &empty).typed(&["approve", &run], &run),
    ] {
        assert_eq!(refused.code, 2, "{refused:?}");
    }
    assert!(home.events(&run, "approval_recorded").is_empty());
}

#[test]
fn a_setting_refuses_approvals_below_the_program_that_runs_a_server() {
    let home = home();
    let config = home.home().join("other.toml");
    home.write(&config, "[approvals]\nrefuse_descendants = true\n");
    let with_setting = |arguments: &[&str], line: &str| {
        home.typed(&[&["--config", config.to_str().unwrap()], arguments].concat(), line).code
    };
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    let blocked = client.next(&first);
    assert_ne!(with_setting(&["approve", &run], &run), 0);
    assert_ne!(with_setting(&["session", "prefs", "set", "full_auto_never_stop", "--run", &run], &run), 0);
    let still = client.next(&blocked);
    assert_eq!(still.data["kind"], "blocked", "{}", still.text);
    client.close();
    assert_eq!(with_setting(&["approve", &run], &run), 0, "a terminal of one's own is not refused");
}

#[test]
fn a_refused_decision_names_what_was_refused() {
    let home = home();
    home.write(&home.config(), "[approvals]\nrefuse_descendants = true\n");
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    client.next(&first);
    // This test is the program that started both the server and the terminal.
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let starter = format!("`{}` (process {})", name.trim_end(), std::process::id());
    for command in ["approve", "reject"] {
        let without_terminal = home.run(&[command, &run]);
        assert_eq!(without_terminal.code, 2, "{without_terminal:?}");
        assert_text(&home, &format!("{command}_without_a_terminal"), &without_terminal.err);
        let descendant = home.typed(&[command, &run], &run);
        assert_eq!(descendant.code, 2, "{descendant:?}");
        let shown = descendant.out.replace(&starter, "`[program]` (process [id])");
        assert_text(&home, &format!("{command}_below_the_program_that_runs_a_server"), &shown);
    }
}

#[test]
fn an_approval_in_a_busy_session_is_refused_temporarily() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client);
    let run = first.label();
    client.next(&first);
    let session = first.data["run"]["sessionId"].as_str().unwrap();
    let lock = std::fs::File::open(home.data().join(format!("sessions/{session}/.lock"))).unwrap();
    lock.lock().unwrap();
    let refused = home.typed_with_output_in_file(&["approve", &run, "--json"], &run);
    let error = refused.json()["error"].clone();
    assert_eq!((refused.code, &error["code"]), (3, &json!("SESSION_LOCKED")), "{refused:?}");
    assert_eq!(error["retry"]["kind"], "retryable_after_ms", "{error}");
    drop(lock);
    assert_eq!(home.typed(&["approve", &run], &run).code, 0, "nothing was recorded by the refused one");
}

#[test]
fn the_environment_sets_mode_tokens_and_tools() {
    let home = home();
    let names = |client: &mut McpClient| -> Vec<String> {
        let listed = client.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut looking = home.with("WORKRAIL_ENABLE_V2_TOOLS", "false").client();
    assert_eq!(names(&mut looking), ["list_workflows", "inspect_workflow", "resume_session", "read_run"]);
    let mut fewer =
        home.with("WORKRAIL_ENABLE_CHECKPOINT", "off").with("WORKRAIL_ENABLE_RESUME", "off").client();
    assert_eq!(
        names(&mut fewer),
        ["list_workflows", "inspect_workflow", "start_workflow", "continue_workflow", "read_run"]
    );
    let mut more = home.with("WORKRAIL_ENABLE_START_SESSION", "true").client();
    assert!(names(&mut more).contains(&"start_session".to_owned()));

    let free = home.with("WORKRAIL_DEFAULT_MODE", "full_auto_never_stop");
    let mut long = free.with("WORKRAIL_TOKEN_ENCODING", "v1").client();
    let first = start(&mut long);
    assert!(first.string("ackToken").starts_with("ack.v1."));
    assert_eq!(first.data["preferences"]["autonomy"], Value::from("full_auto_never_stop"));
    let mut short = home.client();
    let second = short.next(&first);
    assert_eq!(second.step(), "b", "both encodings are always accepted");
    assert!(second.string("ackToken").starts_with("ack.v2."));
}

#[test]
fn disabled_tools_are_named_nowhere() {
    let home = home();
    let mut whole = home.client();
    let open = start(&mut whole);
    let without = |names: &[&str], said: &str| {
        for name in names {
            assert!(!said.contains(name), "{name}: {said}");
        }
    };

    let off = ["checkpoint_workflow", "resume_session", "start_session", "checkpointToken"];
    let fewer = home.with("WORKRAIL_ENABLE_CHECKPOINT", "off").with("WORKRAIL_ENABLE_RESUME", "off");
    let mut client = fewer.client();
    let started = start(&mut client);
    let blocked = client.next(&started);
    let replies = [
        client.call("list_workflows", json!({})),
        client.call("inspect_workflow", json!({ "workflowId": "team.gated" })),
        client.call("continue_workflow", json!({ "stateToken": started.string("stateToken") })),
        client.call("continue_workflow", json!({ "ackToken": "ack.v2.no-such.thing" })),
        client.call("continue_workflow", json!({})),
        client.call("read_run", json!({ "run": started.label() })),
        client.call("read_run", json!({ "run": "no-such" })),
        client.call("start_workflow", json!({ "workflowId": "team.gatd" })),
    ];
    for reply in replies.iter().chain([&started, &blocked]) {
        without(&off, &reply.text);
        without(&off, &reply.data.to_string());
    }
    without(&off, client.initialized()["result"]["instructions"].as_str().unwrap());

    let off = ["checkpoint_workflow", "resume_session", "checkpointToken"];
    let mut client = fewer.with("WORKRAIL_ENABLE_START_SESSION", "on").client();
    let session = client.call("start_session", json!({ "goal": "tidy up" }));
    let replies = [
        client.call("continue_workflow", json!({})),
        client.call("read_run", json!({ "run": session.string("sessionId") })),
        client.call("read_run", json!({ "run": "no-such" })),
    ];
    for reply in replies.iter().chain([&session]) {
        without(&off, &reply.text);
        without(&off, &reply.data.to_string());
    }

    let off = ["start_workflow", "continue_workflow", "checkpoint_workflow", "start_session"];
    let mut client = home.with("WORKRAIL_ENABLE_V2_TOOLS", "false").client();
    let replies = [
        client.call("list_workflows", json!({})),
        client.call("list_workflows", json!({ "query": "gated" })),
        client.call("inspect_workflow", json!({ "workflowId": "team.gated", "mode": "preview" })),
        client.call("inspect_workflow", json!({ "workflowId": "team.gatd" })),
        client.call("resume_session", json!({ "query": "gated" })),
        client.call("resume_session", json!({ "run": open.label() })),
        client.call("read_run", json!({ "run": open.label() })),
    ];
    for reply in &replies {
        without(&off, &reply.text);
        without(&off, &reply.data.to_string());
    }
    without(&off, client.initialized()["result"]["instructions"].as_str().unwrap());
}

#[test]
fn a_server_does_not_start_with_an_invalid_environment_variable() {
    let home = home();
    let started = home.run_with(&["mcp"], &[("WORKRAIL_DEFAULT_MODE", "fast")]);
    assert_eq!((started.code, started.out.as_str()), (2, ""), "{started:?}");
}
