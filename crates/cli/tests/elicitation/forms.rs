//! What a form shows, when it is shown, and how it ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_testkit::mcp_client::{reply_data, warning_codes};
use workrail_testkit::wire::{Piped, command};

use crate::harness::{Client, ON, accept, home, label, recorded, waits};
use crate::wording::assert_text;

#[test]
fn a_submission_too_long_for_a_form_is_not_approved_in_it() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let notes = |bytes: usize| format!("{}the end of it", "Long. ".repeat(bytes))[..bytes].to_owned();
    let many: Value = (0..9).map(|index| (format!("key{index}"), json!("short"))).collect();
    let too_much = [
        json!({ "output": { "notesMarkdown": notes(4097) } }),
        json!({ "context": { "plan": "x".repeat(1024) } }),
        json!({ "context": many }),
    ];
    for more in &too_much {
        let mut submitted = client.submission("team.gated");
        submitted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let blocked = client.call("continue_workflow", &submitted);
        assert_eq!(blocked["blockers"][0]["code"], "USER_ONLY_DEPENDENCY", "{blocked}");
        assert!(waits(&home, label(&blocked)));
    }
    // A submission that fits is shown completely.
    let mut submitted = client.submission("team.gated");
    submitted["output"]["notesMarkdown"] = json!(notes(4096));
    let approve = accept(json!({ "decision": "approve" }));
    let (form, _) = client.call_and_answer("continue_workflow", &submitted, &approve);
    assert!(form["message"].as_str().unwrap().contains(&notes(4096)), "{form}");
    // The question is asked anyway, and the form says where the rest is.
    let mut submitted = client.submission("team.both");
    submitted["output"]["notesMarkdown"] = json!(format!("{} The very end.", notes(4097)));
    let answer = accept(json!({ "region": "eu", "decision": "approve" }));
    let (form, reply) = client.call_and_answer("continue_workflow", &submitted, &answer);
    assert_eq!(form["requestedSchema"]["required"], json!(["region"]), "{form}");
    let report = format!("workrail report {}", label(&reply));
    assert!(form["message"].as_str().unwrap().contains(&report), "{form}");
    assert_eq!(reply["kind"], "blocked", "{reply}");
    assert!(recorded(&home, label(&reply), "approval_recorded").is_empty());
    let report = home.done(&["report", label(&reply), "--json"]).json();
    let attempt = &report["runs"][0]["nodes"][0]["attempts"][0];
    let notes = attempt["outputs"][0]["body"]["markdown"].as_str().unwrap_or_default();
    assert!(notes.ends_with("The very end."), "{report:#}");
}

#[test]
fn a_declined_form_is_not_shown_again_for_the_same_result() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let decline = json!({ "action": "decline" });
    let (_, blocked) = client.call_and_answer("continue_workflow", &submitted, &decline);
    assert_eq!(client.call("continue_workflow", &submitted)["kind"], "blocked");
    let mut same = blocked["nextCall"]["arguments"].clone();
    same.as_object_mut().unwrap().remove("output");
    let blocked = client.call("continue_workflow", &same);
    assert_eq!(blocked["kind"], "blocked", "{blocked}");
    // Another result is asked about.
    let mut other = blocked["nextCall"]["arguments"].clone();
    other["output"] = json!({ "notesMarkdown": "Something else, which nobody has seen before." });
    let approve = accept(json!({ "decision": "approve" }));
    let (_, approved) = client.call_and_answer("continue_workflow", &other, &approve);
    assert_eq!(client.next(&approved)["run"]["stepId"], "end", "{approved}");
}

#[test]
fn two_calls_at_once_show_one_form() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let ids = [client.send("continue_workflow", &submitted), client.send("continue_workflow", &submitted)];
    let heard = [client.server.hear(), client.server.hear()];
    let (forms, replies): (Vec<&Value>, Vec<&Value>) =
        heard.iter().partition(|message| message["method"] == "elicitation/create");
    assert_eq!((forms.len(), replies.len()), (1, 1), "{heard:?}");
    assert_eq!(reply_data(&replies[0]["result"])["kind"], "blocked", "{heard:?}");
    client.respond(forms[0], &accept(json!({ "decision": "approve" })));
    let answered = client.server.hear();
    assert!(answered["id"] != replies[0]["id"] && ids.iter().any(|id| answered["id"] == *id), "{answered}");
    assert_eq!(warning_codes(reply_data(&answered["result"])), ["USER_ANSWERED"], "{answered}");
    assert_eq!(recorded(&home, submitted["run"].as_str().unwrap(), "approval_recorded").len(), 1);
}

#[test]
fn only_the_users_own_file_enables_it() {
    let home = home("");
    let other = home.root().join("other.toml");
    home.write(&other, ON);
    let by_variable = Piped::start(&home.with("WORKRAIL_CONFIG", &other));
    let by_flag = Piped::of(&mut command(&home, &["--config", other.to_str().unwrap()]));
    for server in [by_variable, by_flag] {
        let mut client = Client::of(server, json!({ "elicitation": {} }));
        let submitted = client.submission("team.gated");
        assert_eq!(client.call("continue_workflow", &submitted)["kind"], "blocked");
    }
}

#[test]
fn the_setting_is_read_when_the_user_is_about_to_be_asked() {
    let home = home("");
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let blocked = client.call("continue_workflow", &submitted);
    home.write(&home.config(), ON);
    let (_, reply) = client.call_and_answer(
        "continue_workflow",
        &blocked["nextCall"]["arguments"],
        &accept(json!({ "decision": "approve" })),
    );
    assert_eq!(client.next(&reply)["run"]["stepId"], "end");
}

#[test]
fn a_client_that_never_answers_gets_the_blocked_reply_without_delaying_other_calls() {
    let home = home("[approvals]\nchat = true\nchat_wait_seconds = 2\n");
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let begun = Instant::now();
    let waiting = client.send("continue_workflow", &submitted);
    let form = client.server.hear();
    assert_eq!(form["method"], "elicitation/create");
    // While the form is open, others can work in the same session: a checkpoint takes its lock.
    let run = submitted["run"].as_str().unwrap();
    let mut other = home.client();
    let resumed = other.call("resume_session", json!({ "query": run, "workspacePath": home.project() }));
    let looked = other.call(
        "continue_workflow",
        json!({ "stateToken": resumed.data["candidates"][0]["nextCall"]["arguments"]["stateToken"] }),
    );
    let checkpoint = json!({
        "checkpointToken": looked.string("checkpointToken"),
        "output": { "notesMarkdown": "Asked the user, and am waiting for them." },
    });
    let saved = other.call("checkpoint_workflow", checkpoint);
    assert!(!saved.is_error, "{}", saved.text);
    // This client is answered as well.
    let started =
        client.call("start_workflow", &json!({ "workflowId": "team.question", "goal": "other work" }));
    assert_eq!(started["isComplete"], false);

    let closed = client.server.hear();
    assert_eq!(
        (&closed["method"], &closed["params"]["requestId"]),
        (&json!("notifications/cancelled"), &form["id"])
    );
    let answer = client.server.hear();
    assert_eq!(answer["id"], waiting, "{answer}");
    let blocked = reply_data(&answer["result"]);
    assert_eq!(blocked["kind"], "blocked", "{blocked}");
    assert!(blocked.get("warnings").is_none(), "{blocked}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    // A late answer records nothing.
    client.respond(&form, &accept(json!({ "decision": "approve" })));
    // The step is still waiting, so the same call asks again.
    let (again, _) = client.call_and_answer("continue_workflow", &submitted, &json!({ "action": "cancel" }));
    assert_eq!(again["message"], form["params"]["message"]);
    assert!(waits(&home, run));
    assert!(recorded(&home, run, "approval_recorded").is_empty());
}

#[test]
fn a_client_that_leaves_while_a_form_is_open_ends_the_server() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    client.send("continue_workflow", &submitted);
    assert_eq!(client.server.hear()["method"], "elicitation/create");
    let begun = Instant::now();
    assert!(client.server.close().0.success());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn a_cancelled_call_closes_its_form_and_records_nothing() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let id = client.send("continue_workflow", &submitted);
    let form = client.server.hear();
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    client.server.say(cancel.to_string());
    let closed = client.server.hear();
    assert_eq!(
        (&closed["method"], &closed["params"]["requestId"]),
        (&json!("notifications/cancelled"), &form["id"])
    );
    client.respond(&form, &accept(json!({ "decision": "approve" })));
    let run = submitted["run"].as_str().unwrap();
    let looked = client.call("read_run", &json!({ "run": run }));
    assert_text(&home, "read_run_after_a_cancelled_form", looked["text"].as_str().unwrap());
    assert!(waits(&home, run));
    assert!(recorded(&home, run, "approval_recorded").is_empty());
}
