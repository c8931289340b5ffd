//! A client that shows forms, and workflows that ask.

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{reply_data, with_own_words};
use workrail_testkit::wire::{Piped, initialize};

pub(crate) const ON: &str = "[approvals]\nchat = true\n";

/// Workflows that ask a question, for an approval, and for both.
pub(crate) fn home(settings: &str) -> Home {
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

/// A client that can be asked in the middle of a call.
pub(crate) struct Client {
    pub(crate) server: Piped,
    pub(crate) next_id: u64,
}

impl Client {
    pub(crate) fn open(home: &Home, capabilities: Value) -> Self {
        Self::of(Piped::start(home), capabilities)
    }

    pub(crate) fn of(mut server: Piped, capabilities: Value) -> Self {
        let mut opening = initialize(0, "2025-11-25");
        opening["params"]["capabilities"] = capabilities;
        server.ask(&opening);
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        Self { server, next_id: 0 }
    }

    pub(crate) fn with_forms(home: &Home) -> Self {
        Self::open(home, json!({ "elicitation": {} }))
    }

    pub(crate) fn send(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.next_id += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": self.next_id, "method": "tools/call", "params": params });
        self.server.say(call.to_string());
        self.next_id
    }

    /// Calls a tool for which the user is not asked.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.send(tool, arguments);
        let answer = self.server.hear();
        assert_eq!(answer["id"], id, "{answer}");
        reply_data(&answer["result"]).clone()
    }

    /// Makes a call and answers the form that appears; returns the form and the reply.
    pub(crate) fn call_and_answer(
        &mut self,
        tool: &str,
        arguments: &Value,
        answer: &Value,
    ) -> (Value, Value) {
        let id = self.send(tool, arguments);
        let form = self.server.hear();
        assert_eq!(form["method"], "elicitation/create", "{form}");
        self.respond(&form, answer);
        let reply = self.server.hear();
        assert_eq!(reply["id"], id, "{reply}");
        (form["params"].clone(), reply_data(&reply["result"]).clone())
    }

    pub(crate) fn respond(&mut self, form: &Value, answer: &Value) {
        let response = json!({ "jsonrpc": "2.0", "id": form["id"], "result": answer });
        self.server.say(response.to_string());
    }

    /// Starts a workflow; returns the call that submits its first step, without what only the user knows.
    pub(crate) fn submission(&mut self, workflow: &str) -> Value {
        let started = self.call("start_workflow", &json!({ "workflowId": workflow, "goal": "ship 2.0" }));
        submission(&started)
    }

    pub(crate) fn next(&mut self, reply: &Value) -> Value {
        self.call("continue_workflow", &with_own_words(&reply["nextCall"]["arguments"]))
    }
}

pub(crate) fn submission(started: &Value) -> Value {
    let mut arguments = with_own_words(&started["nextCall"]["arguments"]);
    arguments.as_object_mut().unwrap().remove("context");
    arguments
}

pub(crate) fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

pub(crate) fn label(reply: &Value) -> &str {
    reply["run"]["label"].as_str().unwrap()
}

pub(crate) fn recorded(home: &Home, run: &str, kind: &str) -> Vec<Value> {
    home.events(run, kind).into_iter().map(|mut event| event["data"].take()).collect()
}

/// Whether the run waits for the user, according to its report.
pub(crate) fn waits(home: &Home, run: &str) -> bool {
    let report = home.done(&["report", run, "--json"]).json();
    report["runs"][0]["waitsForPerson"].as_bool().unwrap()
}
