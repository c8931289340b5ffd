//! Replies after a client showed the user a form.

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{reply_data, with_own_words};
use workrail_testkit::wire::{Piped, initialize};

use crate::scene::{Answer, Scene, step};

/// A form that asks for an approval, open in the client.
struct OpenForm {
    home: Home,
    server: Piped,
    form: Value,
    run: String,
}

impl OpenForm {
    fn new() -> Self {
        let scene = Scene::new();
        scene.workflow(step(json!({ "requireConfirmation": { "kind": "human_approval" } })));
        let home = scene.home;
        home.write(&home.config(), "[approvals]\nchat = true\n");
        let mut server = Piped::start(&home);
        let mut opening = initialize(0, "2025-11-25");
        opening["params"]["capabilities"] = json!({ "elicitation": {} });
        server.ask(&opening);
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let started = server.ask(&call(1, "start_workflow", json!({ "workflowId": "team.flow" })));
        let started = reply_data(&started["result"]).clone();
        let submitted = with_own_words(&started["nextCall"]["arguments"]);
        server.say(call(2, "continue_workflow", submitted).to_string());
        let form = server.hear();
        let run = started["run"]["label"].as_str().unwrap().to_owned();
        Self { home, server, form, run }
    }

    fn answered(mut self, decision: &str) -> Answer {
        let result = json!({ "action": "accept", "content": { "decision": decision } });
        let response = json!({ "jsonrpc": "2.0", "id": self.form["id"], "result": result });
        self.server.say(response.to_string());
        let reply = self.server.hear();
        Answer { home: self.home, data: reply_data(&reply["result"]).clone() }
    }
}

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

pub(crate) fn user_answered() -> Answer {
    OpenForm::new().answered("approve")
}

/// The user decides at a terminal while the form is open.
pub(crate) fn user_answer_not_recorded() -> Answer {
    let open = OpenForm::new();
    let approved = open.home.typed(&["approve", &open.run], &open.run);
    assert_eq!(approved.code, 0, "{approved:?}");
    open.answered("reject")
}
