//! The folder of a call: the client's root, the folder that the session was started in, or the server's own.

mod wording;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::reply_data;
use workrail_testkit::wire::Piped;

use wording::assert_text;

fn flow(prompt: &str) -> String {
    let step = |id: &str| json!({ "id": id, "title": id, "prompt": prompt });
    let steps = json!([step("one"), step("two"), step("three")]);
    json!({ "id": "team.flow", "name": "Flow", "description": "A flow.", "version": "1.0.0", "steps": steps })
        .to_string()
}

/// A server in a folder without workflows, for a client whose first root is `root`.
struct Rooted {
    server: Piped,
    root: String,
    id: u64,
}

impl Rooted {
    fn of(home: &Home, root: &str) -> Self {
        let mut server = Piped::start(&home.without("CLAUDE_PROJECT_DIR"));
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "roots": {} },
            "clientInfo": { "name": "test", "version": "0" },
        });
        server.ask(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        Self { server, root: root.to_owned(), id: 0 }
    }

    /// Calls a tool, answering the server's request for the roots if it comes.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.id += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params });
        self.server.say(call.to_string());
        loop {
            let said = self.server.hear();
            if said["method"] == "roots/list" {
                let roots = json!({ "roots": [{ "uri": format!("file://{}", self.root) }] });
                self.server.say(json!({ "jsonrpc": "2.0", "id": said["id"], "result": roots }).to_string());
            } else if said["id"] == self.id {
                return reply_data(&said["result"]).clone();
            }
        }
    }

    fn lists_flow(&mut self) -> (bool, bool) {
        let listed = self.call("list_workflows", &json!({}));
        let warnings = listed["warnings"].as_array().into_iter().flatten();
        let assumed = warnings.filter(|warning| warning["code"] == "WORKSPACE_ASSUMED").count() == 1;
        let mut workflows = listed["workflows"].as_array().into_iter().flatten();
        (workflows.any(|workflow| workflow["workflowId"] == "team.flow"), assumed)
    }
}

#[test]
fn a_root_is_used_if_it_is_a_folder_and_otherwise_the_reply_says_so() {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    let elsewhere = home.root().join("elsewhere");
    home.write(&elsewhere.join(".workrail/workflows/flow.json"), &flow("Do it."));
    let mut rooted = Rooted::of(&home, elsewhere.to_str().unwrap());
    assert_eq!(rooted.lists_flow(), (true, false));
    // As for a client on another machine or outside a container.
    let mut lost = Rooted::of(&home, "/no/such/folder/anywhere");
    assert_eq!(lost.lists_flow(), (false, true));
    let started = lost.call("start_workflow", &json!({ "workflowId": "wr.small_change", "goal": "try it" }));
    assert_eq!(started["isComplete"], false, "{started}");
    let ack = json!({ "ackToken": started["ackToken"], "output": { "notesMarkdown": "Read three files." } });
    assert_eq!(lost.call("continue_workflow", &ack)["isComplete"], false);
}

#[test]
fn an_advance_reports_a_changed_file_in_the_folder_of_the_sessions_start() {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    let elsewhere = home.root().join("elsewhere");
    let file = elsewhere.join(".workrail/workflows/flow.json");
    home.write(&file, &flow("Do it."));
    let mut client = home.client();
    let arguments =
        json!({ "workflowId": "team.flow", "goal": "try it", "workspacePath": elsewhere.to_str().unwrap() });
    let started = client.call("start_workflow", arguments);
    let mut ack = started.data["nextCall"]["arguments"].clone();
    ack["output"] = json!({ "notesMarkdown": "Did the first part of it." });
    home.write(&file, &flow("Do it differently."));
    // The call names no folder, and the server is elsewhere.
    let reply = client.call("continue_workflow", ack);
    assert_text(&home, "reply_after_the_file_changed", &reply.text);
}
