//! Questions and approvals answered in the chat.

use serde_json::json;
use workrail_testkit::mcp_client::{reply_data, warning_codes};

use crate::harness::{Client, ON, accept, home, label, recorded};
use crate::wording::assert_text;

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
fn an_approval_in_the_chat_covers_what_was_shown_and_says_what_it_proves() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let (form, reply) =
        client.call_and_answer("continue_workflow", &submitted, &accept(json!({ "decision": "approve" })));
    assert_text(&home, "form_with_an_approval", form["message"].as_str().unwrap());
    assert_eq!(form["requestedSchema"]["required"], json!(["decision"]), "the reason is optional");
    assert_eq!(reply["nextIntent"], "perform_pending_then_continue", "{reply}");
    assert!(reply.get("blockers").is_none(), "{reply}");

    // A different submission is not approved, and the user is asked again.
    let mut swapped = reply["nextCall"]["arguments"].clone();
    swapped["output"] = json!({ "notesMarkdown": "Something else, which nobody has seen before." });
    let (_, blocked) = client.call_and_answer("continue_workflow", &swapped, &json!({ "action": "decline" }));
    assert_eq!(
        (&blocked["kind"], &blocked["blockers"][0]["code"]),
        (&json!("blocked"), &json!("USER_ONLY_DEPENDENCY"))
    );
    assert!(!warning_codes(&blocked).contains(&"USER_ANSWERED"), "{blocked}");

    let decisions = recorded(&home, label(&reply), "approval_recorded");
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!((&decisions[0]["channel"], &decisions[0]["decision"]), (&json!("chat"), &json!("approved")));
    assert_text(&home, "log_of_an_approval_in_the_chat", &home.done(&["log", label(&reply)]).out);
    assert_text(&home, "report_of_an_approval_in_the_chat", &home.done(&["report", label(&reply)]).out);
}

#[test]
fn what_was_approved_in_the_chat_continues_without_asking_again() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let (_, reply) =
        client.call_and_answer("continue_workflow", &submitted, &accept(json!({ "decision": "approve" })));
    // Repeating the call returns what was recorded, without asking.
    assert_eq!(client.call("continue_workflow", &submitted)["kind"], "blocked");
    assert_eq!(client.next(&reply)["run"]["stepId"], "end");
}

#[test]
fn a_rejection_reason_in_the_chat_reaches_the_agent() {
    let home = home(ON);
    let mut client = Client::with_forms(&home);
    let submitted = client.submission("team.gated");
    let answer = accept(json!({ "decision": "reject", "reason": "Keep the old table until Monday" }));
    let (_, reply) = client.call_and_answer("continue_workflow", &submitted, &answer);
    assert_text(&home, "reply_after_a_rejection_in_the_chat", reply["text"].as_str().unwrap());
    assert_eq!(reply["blockers"][0]["decision"], "rejected", "{reply}");
    let decisions = recorded(&home, label(&reply), "approval_recorded");
    assert_eq!(
        (&decisions[0]["decision"], &decisions[0]["note"], &decisions[0]["channel"]),
        (&json!("rejected"), &json!("Keep the old table until Monday"), &json!("chat"))
    );
    // The same result is not asked about again: the user has rejected it.
    let mut same = reply["nextCall"]["arguments"].clone();
    same.as_object_mut().unwrap().remove("output");
    let blocked = client.call("continue_workflow", &same);
    assert_eq!(blocked["kind"], "blocked", "{blocked}");
    // Another result is.
    let mut other = blocked["nextCall"]["arguments"].clone();
    other["output"] =
        json!({ "notesMarkdown": "The old table stays until Monday; the new one is next to it." });
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

    // A value that the form does not have is no answer, and without an answer nothing is approved.
    let submitted = client.submission("team.both");
    let answer = accept(json!({ "region": "moon", "decision": "approve" }));
    let (_, blocked) = client.call_and_answer("continue_workflow", &submitted, &answer);
    assert_eq!(blocked["blockers"].as_array().map(Vec::len), Some(2), "{blocked}");
    assert!(recorded(&home, label(&blocked), "approval_recorded").is_empty());
}

#[test]
fn a_declined_closed_or_empty_form_leaves_the_blocked_reply_unchanged() {
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
fn the_user_is_not_asked_without_the_setting_or_the_capability() {
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
fn if_weaker_approvals_are_refused_only_questions_are_asked() {
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
fn an_approval_is_refused_if_the_setting_changed_while_the_form_was_open() {
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
    assert_eq!(warning_codes(blocked), ["USER_ANSWER_NOT_RECORDED"], "{blocked}");
    assert!(recorded(&home, label(blocked), "approval_recorded").is_empty());
}

#[test]
fn an_answer_that_no_longer_applies_is_reported() {
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
    assert_eq!(warning_codes(blocked), ["USER_ANSWER_NOT_RECORDED"], "{blocked}");
    assert_text(&home, "reply_to_an_answer_that_came_too_late", blocked["text"].as_str().unwrap());
    let decisions = recorded(&home, run, "approval_recorded");
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(decisions[0]["decision"], "approved");
}
