//! A step that waits for the user asks them through the client, when the settings and the client allow it (G63); through
//! the real binary, with clients that answer, decline, stay silent or cannot be asked.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{reply_data, with_own_words};
use workrail_testkit::wire::{Http, Piped, command, initialize, stateless};

use wording::assert_text;

const ON: &str = "[approvals]\nchat = true\n";

/// A workflow that asks a question, then for an approval, then for both.
fn home(settings: &str) -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    home.write(&home.config(), settings);
    let choice = |key: &str, description: &str| {
        json!({ "reason": "needs_user_choice", "choiceKind": "scope_boundary", "description": description,
                "contextKey": key })
    };
    let approval = json!({ "kind": "human_approval" });
    let step = |id: &str| json!({ "id": id, "title": id.to_uppercase(), "prompt": "Do it." });
    let with = |mut step: Value, member: &str, value: Value| {
        step[member] = value;
        step
    };
    let asks = with(step("ask"), "userDependencies", json!([choice("targetBranch", "Which branch?")]));
    let gate = with(step("gate"), "requireConfirmation", approval.clone());
    let both = with(step("both"), "requireConfirmation", approval);
    let both = with(both, "userDependencies", json!([choice("region", "Which region?")]));
    let both = with(both, "sets", json!({ "region": { "values": ["eu", "us"] } }));
    let secret = json!([{ "reason": "needs_user_secret_or_token", "description": "The key of the registry.",
                          "contextKey": "registry" }]);
    let secret = with(step("secret"), "userDependencies", secret);
    for (id, steps) in [
        ("team.question", json!([asks, step("end")])),
        ("team.gated", json!([gate, step("end")])),
        ("team.both", json!([both, step("end")])),
        ("team.secret", json!([secret, step("end")])),
    ] {
        home.workflow(&json!({
            "id": id, "name": "Waits", "description": "Waits for a person.", "version": "1.0.0", "steps": steps,
        }));
    }
    home
}

/// A client that is asked in the middle of a call.
struct Client {
    server: Piped,
    next_id: u64,
}

impl Client {
    fn open(home: &Home, capabilities: Value) -> Self {
        Self::of(Piped::start(home), capabilities)
    }

    fn of(mut server: Piped, capabilities: Value) -> Self {
        let mut opening = initialize(0, "2025-11-25");
        opening["params"]["capabilities"] = capabilities;
        server.ask(&opening);
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        Self { server, next_id: 0 }
    }

    fn with_forms(home: &Home) -> Self {
        Self::open(home, json!({ "elicitation": {} }))
    }

    fn send(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.next_id += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": self.next_id, "method": "tools/call", "params": params });
        self.server.say(call.to_string());
        self.next_id
    }

    /// Calls a tool that nobody has to be asked about.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.send(tool, arguments);
        let answer = self.server.hear();
        assert_eq!(answer["id"], id, "{answer}");
        reply_data(&answer["result"]).clone()
    }

    /// Makes a call and answers the form that comes; returns the form and the reply.
    fn call_and_answer(&mut self, tool: &str, arguments: &Value, answer: &Value) -> (Value, Value) {
        let id = self.send(tool, arguments);
        let form = self.server.hear();
        assert_eq!(form["method"], "elicitation/create", "{form}");
        self.respond(&form, answer);
        let reply = self.server.hear();
        assert_eq!(reply["id"], id, "{reply}");
        (form["params"].clone(), reply_data(&reply["result"]).clone())
    }

    fn respond(&mut self, form: &Value, answer: &Value) {
        let response = json!({ "jsonrpc": "2.0", "id": form["id"], "result": answer });
        self.server.say(response.to_string());
    }

    /// Starts a workflow; returns the call that submits its first step, without what only the user knows.
    fn submission(&mut self, workflow: &str) -> Value {
        let started = self.call("start_workflow", &json!({ "workflowId": workflow, "goal": "ship 2.0" }));
        submission(&started)
    }

    fn next(&mut self, reply: &Value) -> Value {
        self.call("continue_workflow", &with_own_words(&reply["nextCall"]["arguments"]))
    }
}

fn submission(started: &Value) -> Value {
    let mut arguments = with_own_words(&started["nextCall"]["arguments"]);
    arguments.as_object_mut().unwrap().remove("context");
    arguments
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

fn label(reply: &Value) -> &str {
    reply["run"]["label"].as_str().unwrap()
}

fn recorded(home: &Home, run: &str, kind: &str) -> Vec<Value> {
    let log = home.done(&["log", run, "--json"]).json();
    let events = log["events"].as_array().unwrap().iter();
    events.filter(|event| event["kind"] == kind).map(|event| event["data"].clone()).collect()
}

/// Whether the run waits for a person, as its report has it.
fn waits(home: &Home, run: &str) -> bool {
    let report = home.done(&["report", run, "--json"]).json();
    report["runs"][0]["waitsForPerson"].as_bool().unwrap()
}

/// The codes of the warnings of a reply.
fn warnings(reply: &Value) -> Vec<&str> {
    let warnings = reply["warnings"].as_array();
    warnings.into_iter().flatten().map(|warning| warning["code"].as_str().unwrap()).collect()
}

#[test]
fn a_question_is_answered_in_the_chat_and_recorded_as_such() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.question");
    let answer = accept(json!({ "targetBranch": "main" }));
    let (form, reply) = client.call_and_answer("continue_workflow", &submitted, &answer);
    assert_eq!(form["requestedSchema"]["required"], json!(["targetBranch"]), "{form}");
    assert_eq!(form["requestedSchema"]["properties"]["targetBranch"]["type"], "string");
    assert_text(&home, "form_with_a_question", form["message"].as_str().unwrap());

    assert_eq!(reply["warnings"][0]["code"], "USER_ANSWERED", "{reply}");
    assert_text(&home, "reply_after_an_answer_in_the_chat", reply["text"].as_str().unwrap());
    assert!(reply["nextCall"]["arguments"].get("context").is_none(), "{reply}");
    assert_eq!(client.next(&reply)["run"]["stepId"], "end");
    let set = recorded(&home, label(&reply), "context_set");
    assert!(set.iter().any(|set| set["source"] == "chat_answer"), "{set:?}");
    assert_text(&home, "log_of_an_answer_in_the_chat", &home.done(&["log", label(&reply)]).out);
}

#[test]
fn an_approval_in_the_chat_is_for_what_was_shown_and_says_what_it_proves() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let (form, reply) =
        client.call_and_answer("continue_workflow", &submitted, &accept(json!({ "decision": "approve" })));
    assert_text(&home, "form_with_an_approval", form["message"].as_str().unwrap());
    assert_eq!(form["requestedSchema"]["required"], json!(["decision"]), "the reason is optional");
    assert_eq!(reply["nextIntent"], "perform_pending_then_continue", "{reply}");
    assert!(reply.get("blockers").is_none(), "{reply}");

    // Something else is not approved, and the user is asked again.
    let mut swapped = reply["nextCall"]["arguments"].clone();
    swapped["output"] = json!({ "notesMarkdown": "Something else, which nobody has seen before." });
    let (_, blocked) = client.call_and_answer("continue_workflow", &swapped, &json!({ "action": "decline" }));
    assert_eq!(
        (&blocked["kind"], &blocked["blockers"][0]["code"]),
        (&json!("blocked"), &json!("USER_ONLY_DEPENDENCY"))
    );
    assert!(!warnings(&blocked).contains(&"USER_ANSWERED"), "{blocked}");

    let decisions = recorded(&home, label(&reply), "approval_recorded");
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!((&decisions[0]["channel"], &decisions[0]["decision"]), (&json!("chat"), &json!("approved")));
    assert_text(&home, "log_of_an_approval_in_the_chat", &home.done(&["log", label(&reply)]).out);
    assert_text(&home, "report_of_an_approval_in_the_chat", &home.done(&["report", label(&reply)]).out);
}

#[test]
fn what_was_approved_in_the_chat_continues_and_is_not_asked_for_again() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let (_, reply) =
        client.call_and_answer("continue_workflow", &submitted, &accept(json!({ "decision": "approve" })));
    // The same call again returns what was recorded, and asks nobody.
    assert_eq!(client.call("continue_workflow", &submitted)["kind"], "blocked");
    assert_eq!(client.next(&reply)["run"]["stepId"], "end");
}

#[test]
fn a_rejection_in_the_chat_reaches_the_agent_with_its_reason() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let answer = accept(json!({ "decision": "reject", "reason": "Keep the old table until Monday" }));
    let (_, reply) = client.call_and_answer("continue_workflow", &submitted, &answer);
    assert_text(&home, "reply_after_a_rejection_in_the_chat", reply["text"].as_str().unwrap());
    let decisions = recorded(&home, label(&reply), "approval_recorded");
    assert_eq!(
        (&decisions[0]["decision"], &decisions[0]["note"], &decisions[0]["channel"]),
        (&json!("rejected"), &json!("Keep the old table until Monday"), &json!("chat"))
    );
    // The same result again is not asked about again: the user has rejected it.
    let mut same = reply["nextCall"]["arguments"].clone();
    same.as_object_mut().unwrap().remove("output");
    let blocked = client.call("continue_workflow", &same);
    assert_eq!(blocked["kind"], "blocked", "{blocked}");
    // Another result is.
    let mut other = blocked["nextCall"]["arguments"].clone();
    other["output"] =
        json!({ "notesMarkdown": "The old table stays until Monday; the new one is beside it." });
    let (_, approved) =
        client.call_and_answer("continue_workflow", &other, &accept(json!({ "decision": "approve" })));
    assert_eq!(client.next(&approved)["run"]["stepId"], "end", "{approved}");
}

#[test]
fn a_question_and_an_approval_are_one_form() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.both");
    let answer = accept(json!({ "region": "eu", "decision": "approve" }));
    let (form, reply) = client.call_and_answer("continue_workflow", &submitted, &answer);
    assert_eq!(form["requestedSchema"]["properties"]["region"]["enum"], json!(["eu", "us"]), "{form}");
    assert!(reply.get("blockers").is_none(), "{reply}");
    assert_eq!(client.next(&reply)["run"]["stepId"], "end");

    // A value that the form does not have is no answer, and without the answer nothing is approved.
    let submitted = client.submission("team.both");
    let answer = accept(json!({ "region": "moon", "decision": "approve" }));
    let (_, blocked) = client.call_and_answer("continue_workflow", &submitted, &answer);
    assert_eq!(blocked["blockers"].as_array().map(Vec::len), Some(2), "{blocked}");
    assert!(recorded(&home, label(&blocked), "approval_recorded").is_empty());
}

#[test]
fn a_form_that_is_declined_closed_or_empty_leaves_the_blocked_reply_as_it_is() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    for answer in [
        json!({ "action": "decline" }),
        json!({ "action": "cancel" }),
        json!({ "action": "accept" }),
        accept(json!({ "decision": "maybe" })),
        accept(json!({ "reason": "none" })),
    ] {
        let submitted = client.submission("team.gated");
        let (_, blocked) = client.call_and_answer("continue_workflow", &submitted, &answer);
        assert_eq!(
            (&blocked["kind"], &blocked["nextIntent"]),
            (&json!("blocked"), &json!("await_user_confirmation"))
        );
        assert!(blocked.get("warnings").is_none(), "{answer}: {blocked}");
        assert!(recorded(&home, label(&blocked), "approval_recorded").is_empty(), "{answer}");
    }
}

#[test]
fn nobody_is_asked_without_the_setting_or_the_capability() {
    for (settings, capabilities) in [
        ("", json!({ "elicitation": {} })),
        ("[approvals]\nchat = false\n", json!({ "elicitation": { "form": {} } })),
        (ON, json!({})),
        (ON, json!({ "elicitation": { "url": {} } })),
    ] {
        let home = home(settings);
        let mut client = Client::open(&home, capabilities.clone());
        let submitted = client.submission("team.gated");
        let blocked = client.call("continue_workflow", &submitted);
        assert_eq!(blocked["kind"], "blocked", "{settings:?} {capabilities}");
    }
}

#[test]
fn a_secret_is_never_asked_for_in_the_chat() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.secret");
    assert_eq!(client.call("continue_workflow", &submitted)["kind"], "blocked");
}

#[test]
fn where_weaker_approvals_are_refused_only_questions_are_asked() {
    let home = home("[approvals]\nchat = true\nrefuse_descendants = true\n");
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    assert_eq!(client.call("continue_workflow", &submitted)["kind"], "blocked");
    let submitted = client.submission("team.both");
    let (form, reply) = client.call_and_answer(
        "continue_workflow",
        &submitted,
        &accept(json!({ "region": "eu", "decision": "approve" })),
    );
    assert!(form["requestedSchema"]["properties"].get("decision").is_none(), "{form}");
    let still = client.next(&reply);
    assert_eq!((&still["kind"], &still["run"]["stepId"]), (&json!("blocked"), &json!("both")), "{still}");
    assert!(recorded(&home, label(&reply), "approval_recorded").is_empty());
}

#[test]
fn an_approval_is_not_taken_once_it_is_refused_while_the_form_is_open() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    client.send("continue_workflow", &submitted);
    let form = client.server.hear();
    home.done(&["config", "set", "approvals.refuse_descendants", "true"]);
    client.respond(&form, &accept(json!({ "decision": "approve" })));
    let answer = client.server.hear();
    let blocked = reply_data(&answer["result"]);
    assert_eq!(blocked["kind"], "blocked", "{blocked}");
    assert_eq!(warnings(blocked), ["USER_ANSWER_NOT_RECORDED"], "{blocked}");
    assert!(recorded(&home, label(blocked), "approval_recorded").is_empty());
}

#[test]
fn an_answer_that_no_longer_applies_is_not_lost_without_a_word() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    client.send("continue_workflow", &submitted);
    let form = client.server.hear();
    let run = submitted["run"].as_str().unwrap();
    assert_eq!(home.typed(&["approve", run], run).code, 0);
    client.respond(&form, &accept(json!({ "decision": "reject" })));
    let answer = client.server.hear();
    let blocked = reply_data(&answer["result"]);
    assert_eq!(warnings(blocked), ["USER_ANSWER_NOT_RECORDED"], "{blocked}");
    assert_text(&home, "reply_to_an_answer_that_came_too_late", blocked["text"].as_str().unwrap());
    let decisions = recorded(&home, run, "approval_recorded");
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(decisions[0]["decision"], "approved");
}

#[test]
fn what_a_form_cannot_show_whole_is_not_approved_in_it() {
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
    // What fits is shown to its end.
    let mut submitted = client.submission("team.gated");
    submitted["output"]["notesMarkdown"] = json!(notes(4096));
    let approve = accept(json!({ "decision": "approve" }));
    let (form, _) = client.call_and_answer("continue_workflow", &submitted, &approve);
    assert!(form["message"].as_str().unwrap().contains(&notes(4096)), "{form}");
    // The question is asked all the same, and the form says where the rest is.
    let mut submitted = client.submission("team.both");
    submitted["output"]["notesMarkdown"] = json!(format!("{} The very end.", notes(4097)));
    let answer = accept(json!({ "region": "eu", "decision": "approve" }));
    let (form, reply) = client.call_and_answer("continue_workflow", &submitted, &answer);
    assert_eq!(form["requestedSchema"]["required"], json!(["region"]), "{form}");
    let report = format!("workrail report {}", label(&reply));
    assert!(form["message"].as_str().unwrap().contains(&report), "{form}");
    assert_eq!(reply["kind"], "blocked", "{reply}");
    assert!(recorded(&home, label(&reply), "approval_recorded").is_empty());
    assert!(home.done(&["report", label(&reply)]).out.contains("The very end."));
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
    assert_eq!(warnings(reply_data(&answered["result"])), ["USER_ANSWERED"], "{answered}");
    assert_eq!(recorded(&home, submitted["run"].as_str().unwrap(), "approval_recorded").len(), 1);
}

#[test]
fn only_the_users_own_file_switches_it_on() {
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
fn the_setting_is_read_when_somebody_is_to_be_asked() {
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
fn a_client_that_never_answers_gets_the_blocked_reply_and_holds_up_no_other_call() {
    let home = home("[approvals]\nchat = true\nchat_wait_seconds = 2\n");
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let begun = Instant::now();
    let waiting = client.send("continue_workflow", &submitted);
    let form = client.server.hear();
    assert_eq!(form["method"], "elicitation/create");
    // While the form is open, others work in the same session: a checkpoint takes its lock.
    let run = submitted["run"].as_str().unwrap();
    let mut other = home.client();
    let resumed = other.call("resume_session", json!({ "query": run, "workspacePath": home.project() }));
    let looked = other.call(
        "continue_workflow",
        json!({ "stateToken": resumed.structured["candidates"][0]["nextCall"]["arguments"]["stateToken"] }),
    );
    let checkpoint = json!({
        "checkpointToken": looked.string("checkpointToken"),
        "output": { "notesMarkdown": "Asked the user, and am waiting for them." },
    });
    let saved = other.call("checkpoint_workflow", checkpoint);
    assert!(!saved.is_error, "{}", saved.text);
    // And this client is answered as well.
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
    // An answer that comes too late records nothing.
    client.respond(&form, &accept(json!({ "decision": "approve" })));
    // The step still waits, so the same call asks again.
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
fn a_call_that_the_client_cancels_closes_its_form_and_records_nothing() {
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
    assert!(looked["text"].as_str().unwrap().contains("ship 2.0"), "{looked}");
    assert!(waits(&home, run));
    assert!(recorded(&home, run, "approval_recorded").is_empty());
}

/// A call of the stateless revision from a client that shows forms.
fn stateless_call(id: u64, tool: &str, arguments: &Value, more: &Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": arguments });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut call = stateless(id, "tools/call", params);
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "elicitation": { "form": {} } });
    call
}

#[test]
fn in_the_stateless_revision_the_result_asks_and_the_call_comes_again() {
    let home = home(ON);
    let http = Http::start(&home);
    let mut server = Piped::start(&home);
    let headers = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n";
    let mut over_stdio = |message: &Value| server.ask(message);
    let over_http = |message: &Value| {
        let name = message["params"]["name"].as_str().unwrap();
        http.post(&format!("{headers}Mcp-Name: {name}\r\n"), &message.to_string()).json()
    };
    let asks: [&mut dyn FnMut(&Value) -> Value; 2] = [&mut over_stdio, &mut { over_http }];
    for ask in asks {
        let start = json!({ "workflowId": "team.both", "goal": "ship", "workspacePath": home.project() });
        let mut submission = || {
            let started = ask(&stateless_call(1, "start_workflow", &start, &json!({})));
            submission(reply_data(&started["result"]))
        };
        let (submitted, declined) = (submission(), submission());
        let asked = ask(&stateless_call(2, "continue_workflow", &submitted, &json!({})))["result"].clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        assert_eq!(asked["inputRequests"]["user"]["method"], "elicitation/create", "{asked}");
        let again = |submitted: &Value, answer: &Value, state: &Value| {
            let more = json!({ "inputResponses": { "user": answer }, "requestState": state });
            stateless_call(3, "continue_workflow", submitted, &more)
        };
        // While the form is open, the same call does not open another.
        let second = ask(&stateless_call(2, "continue_workflow", &submitted, &json!({})));
        assert_eq!(reply_data(&second["result"])["kind"], "blocked", "{second}");
        // An answer to another form is not taken.
        let both = accept(json!({ "region": "eu", "decision": "approve" }));
        let stale = ask(&again(&submitted, &both, &json!("another")))["result"].clone();
        assert_eq!(stale["resultType"], "input_required", "{stale}");
        let answered = ask(&again(&submitted, &both, &asked["requestState"]));
        let reply = reply_data(&answered["result"]).clone();
        assert_eq!(warnings(&reply), ["USER_ANSWERED"], "{answered}");
        let next = ask(&stateless_call(4, "continue_workflow", &reply["nextCall"]["arguments"], &json!({})));
        assert_eq!(reply_data(&next["result"])["run"]["stepId"], "end", "{next}");
        let decisions = recorded(&home, label(&reply), "approval_recorded");
        assert_eq!(decisions[0]["channel"], "chat");
        // Declining leaves the step blocked, and nobody is asked again.
        let asked = ask(&stateless_call(5, "continue_workflow", &declined, &json!({})))["result"].clone();
        let decline = json!({ "action": "decline" });
        let unrecorded = ["USER_ANSWER_NOT_RECORDED"].as_slice();
        for (call, expected) in [
            (again(&declined, &decline, &asked["requestState"]), [].as_slice()),
            (again(&declined, &both, &asked["requestState"]), unrecorded),
            (stateless_call(6, "continue_workflow", &declined, &json!({})), &[]),
        ] {
            let blocked = ask(&call);
            assert_eq!(reply_data(&blocked["result"])["kind"], "blocked", "{blocked}");
            assert_eq!(warnings(reply_data(&blocked["result"])), expected, "{blocked}");
        }
        assert!(waits(&home, declined["run"].as_str().unwrap()));
    }
    assert!(server.close().0.success());
    assert!(http.end("TERM").success());
}

#[test]
fn earlier_revisions_have_no_result_that_asks() {
    let home = home(ON);
    let http = Http::start(&home);
    let ask = |mut message: Value| {
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-11-25");
        http.post("Mcp-Protocol-Version: 2025-11-25\r\n", &message.to_string()).json()
    };
    let start = json!({ "workflowId": "team.gated", "goal": "ship", "workspacePath": home.project() });
    let started = ask(stateless_call(1, "start_workflow", &start, &json!({})));
    let submitted = submission(reply_data(&started["result"]));
    let blocked = ask(stateless_call(2, "continue_workflow", &submitted, &json!({})));
    assert_eq!(reply_data(&blocked["result"])["kind"], "blocked", "{blocked}");
    assert!(http.end("TERM").success());
}

#[test]
fn a_server_without_authentication_asks_questions_and_no_approvals() {
    let home = home(ON);
    let http = Http::of(&home, &["--http", "127.0.0.1:0", "--no-auth"]);
    let ask = |message: Value| {
        let name = message["params"]["name"].as_str().unwrap();
        let headers = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n";
        http.post(&format!("{headers}Mcp-Name: {name}\r\n"), &message.to_string()).json()
    };
    let submitted = |workflow: &str| {
        let start = json!({ "workflowId": workflow, "goal": "ship", "workspacePath": home.project() });
        submission(reply_data(&ask(stateless_call(1, "start_workflow", &start, &json!({})))["result"]))
    };
    let gated = ask(stateless_call(2, "continue_workflow", &submitted("team.gated"), &json!({})));
    assert_eq!(reply_data(&gated["result"])["kind"], "blocked", "{gated}");
    let both = submitted("team.both");
    let asked = ask(stateless_call(3, "continue_workflow", &both, &json!({})))["result"].clone();
    let schema = &asked["inputRequests"]["user"]["params"]["requestedSchema"];
    assert_eq!(schema["required"], json!(["region"]), "{asked}");
    let answer = accept(json!({ "region": "eu", "decision": "approve" }));
    let more = json!({ "inputResponses": { "user": answer }, "requestState": asked["requestState"] });
    let answered = ask(stateless_call(4, "continue_workflow", &both, &more));
    assert_eq!(warnings(reply_data(&answered["result"])), ["USER_ANSWERED"], "{answered}");
    assert!(recorded(&home, both["run"].as_str().unwrap(), "approval_recorded").is_empty());
    assert!(http.end("TERM").success());
}

#[test]
fn switching_it_on_needs_a_terminal_and_the_typed_name() {
    let home = home("");
    let on = ["config", "set", "approvals.chat", "true"];
    assert_eq!(home.run(&on).code, 1, "it needs a terminal");
    assert_ne!(home.typed(&on, "yes").code, 0);
    assert_eq!(home.typed(&on, "approvals.chat").code, 0);
    assert_eq!(home.done(&["config", "get", "approvals.chat"]).out.trim(), "true");
    home.done(&["config", "set", "approvals.chat", "false"]);
}
