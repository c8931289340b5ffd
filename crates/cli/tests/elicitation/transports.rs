//! The stateless revision, HTTP, and enabling the setting.

use serde_json::{Value, json};
use workrail_testkit::mcp_client::{reply_data, warning_codes};
use workrail_testkit::wire::{Http, Piped, stateless};

use crate::harness::{ON, accept, home, label, recorded, submission, waits};

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
fn in_the_stateless_revision_the_result_asks_and_the_call_is_repeated() {
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
        // An answer to another form is not accepted.
        let both = accept(json!({ "region": "eu", "decision": "approve" }));
        let stale = ask(&again(&submitted, &both, &json!("another")))["result"].clone();
        assert_eq!(stale["resultType"], "input_required", "{stale}");
        let answered = ask(&again(&submitted, &both, &asked["requestState"]));
        let reply = reply_data(&answered["result"]).clone();
        assert_eq!(warning_codes(&reply), ["USER_ANSWERED"], "{answered}");
        let next = ask(&stateless_call(4, "continue_workflow", &reply["nextCall"]["arguments"], &json!({})));
        assert_eq!(reply_data(&next["result"])["run"]["stepId"], "end", "{next}");
        let decisions = recorded(&home, label(&reply), "approval_recorded");
        assert_eq!(decisions[0]["channel"], "chat");
        // Declining leaves the step blocked, and the user is not asked again.
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
            assert_eq!(warning_codes(reply_data(&blocked["result"])), expected, "{blocked}");
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
    assert_eq!(warning_codes(reply_data(&answered["result"])), ["USER_ANSWERED"], "{answered}");
    assert!(recorded(&home, both["run"].as_str().unwrap(), "approval_recorded").is_empty());
    assert!(http.end("TERM").success());
}

#[test]
fn enabling_it_needs_a_terminal_and_the_typed_name() {
    let home = home("");
    let on = ["config", "set", "approvals.chat", "true"];
    assert_eq!(home.run(&on).code, 2, "it needs a terminal");
    assert_ne!(home.typed(&on, "yes").code, 0);
    assert_eq!(home.typed(&on, "approvals.chat").code, 0);
    assert_eq!(home.done(&["config", "get", "approvals.chat"]).out.trim(), "true");
    home.done(&["config", "set", "approvals.chat", "false"]);
}
