//! What clients send and receive, through the real binary: text for the model and data for programs, odd or oversized
//! messages, and prompts.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod http;
#[path = "../wording/mod.rs"]
mod wording;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::reply_data;
use workrail_testkit::wire::{Http, Piped, initialize, start_call, stateless};

use wording::assert_text;

fn new_home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

fn opened(home: &Home) -> Piped {
    let mut server = Piped::start(home);
    server.open();
    server
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

/// The text that a model is shown.
fn text(answer: &Value) -> String {
    let items = answer["result"]["content"].as_array().unwrap();
    items.iter().map(|item| item["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n\n")
}

/// G72: the text is in `content` once, the data in `_meta`, and nothing is structured content.
#[test]
fn a_result_has_its_text_once_and_its_data_separately() {
    let home = new_home();
    let mut server = opened(&home);
    let started = server.ask(&start_call(1));
    let result = &started["result"];
    assert!(result.get("structuredContent").is_none(), "{result}");
    let data = reply_data(result);
    assert_eq!(data["isComplete"], false, "{data}");
    assert_eq!(data["text"], text(&started));
    let prompt = data["pending"]["prompt"].as_str().unwrap();
    assert_eq!(text(&started).matches(prompt).count(), 1, "the prompt is in the text once");

    let refused = server.ask(&call(2, "continue_workflow", &json!({ "ackToken": "no-token" })));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(refused["result"].get("structuredContent").is_none(), "{refused}");
    let data = reply_data(&refused["result"]);
    assert_eq!((&data["code"], &data["text"]), (&json!("TOKEN_INVALID_FORMAT"), &json!(text(&refused))));

    let listed = server.ask(&request(3, "tools/list", &json!({})));
    for tool in listed["result"]["tools"].as_array().unwrap() {
        assert!(tool.get("outputSchema").is_none(), "{tool}");
    }
    assert!(server.close().0.success());
}

/// G72: `structuredContent` and output schemas are served only if the setting is on.
#[test]
fn structured_content_is_sent_on_request_and_does_not_repeat_the_prompt() {
    let home = new_home();
    home.write(&home.config(), "[replies]\nstructured = true\n");
    for home in [home, new_home().with("WORKRAIL_STRUCTURED_REPLIES", "true")] {
        let mut server = opened(&home);
        let listed = server.ask(&request(1, "tools/list", &json!({})));
        let tools = listed["result"]["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == "start_workflow").unwrap();
        for member in ["text", "warnings", "run", "pending", "code", "retry"] {
            assert!(tool["outputSchema"]["properties"][member].is_object(), "{member}: {tool}");
        }
        let started = server.ask(&start_call(2));
        let (data, structured) = (reply_data(&started["result"]), &started["result"]["structuredContent"]);
        assert_eq!((&structured["text"], &structured["run"]), (&data["text"], &data["run"]));
        assert!(data["pending"]["prompt"].is_string(), "{data}");
        assert!(structured["pending"].get("prompt").is_none(), "{structured}");
        assert_eq!(structured["pending"]["stepId"], data["pending"]["stepId"]);
        let refused = server.ask(&call(3, "continue_workflow", &json!({ "ackToken": "no-token" })));
        assert_eq!(&refused["result"]["structuredContent"], reply_data(&refused["result"]));
        assert!(server.close().0.success());
    }
}

/// G72: for hosts that show a model the whole result, a setting leaves the texts out of the data.
#[test]
fn the_data_does_not_repeat_the_text_if_the_setting_is_off() {
    let home = new_home().with("WORKRAIL_TEXT_IN_DATA", "false");
    let mut server = opened(&home);
    let started = server.ask(&start_call(1));
    let data = reply_data(&started["result"]);
    assert!(data.get("text").is_none() && data["pending"].get("prompt").is_none(), "{data}");
    assert!(data["ackToken"].is_string() && !text(&started).is_empty(), "{started}");
    let refused = server.ask(&call(2, "continue_workflow", &json!({ "ackToken": "no-token" })));
    let data = reply_data(&refused["result"]);
    assert_eq!(data["code"], "TOKEN_INVALID_FORMAT", "{data}");
    for member in ["text", "message", "suggestion"] {
        assert!(data.get(member).is_none(), "{member}: {data}");
    }
    assert!(text(&refused).starts_with("TOKEN_INVALID_FORMAT: "), "{refused}");
    assert!(server.close().0.success());
}

/// G74: beyond the size limit, a request is answered under its id.
#[test]
fn a_call_over_the_line_limit_is_answered_under_its_id() {
    let home = new_home();
    let mut server = opened(&home);
    let notes = "n".repeat(5 * 1024 * 1024);
    let params = format!(
        r#"{{"name":"continue_workflow","arguments":{{"id":1,"output":{{"notesMarkdown":"\"id\":3}}{notes}"}}}}}}"#
    );
    // As written by Python, TypeScript and a careless client.
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#),
        format!(r#"{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":7}}"#),
        format!(r#"{{"method":"tools/call", "params":{params}, "id": 7, "jsonrpc":"2.0"}}"#),
    ] {
        server.say(line);
        let answer = server.hear();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)), "{answer}");
        assert_text(&home, "line_that_is_too_long", answer["error"]["message"].as_str().unwrap());
    }
    // A notification is not answered, and an unreadable message is answered without an id.
    server.say(format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"a":"{notes}"}}}}"#));
    server.say(format!("[{notes}"));
    let answer = server.hear();
    assert!(answer.get("id").is_none() && answer["error"]["code"] == -32600, "{answer}");
    assert_eq!(reply_data(&server.ask(&start_call(8))["result"])["isComplete"], false);
    assert!(server.close().0.success());
}

#[test]
fn an_unusable_id_is_answered_and_not_dropped() {
    let home = new_home();
    let mut server = opened(&home);
    let http = Http::start(&home);
    for id in ["null", "1.5", "true", "{}"] {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        server.say(&message);
        let answer = server.hear();
        assert!(answer.get("id").is_none() && answer["error"]["code"] == -32600, "{id}: {answer}");
        let answer = http.post("", &message);
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32600)), "{id}");
    }
    assert!(server.close().0.success());
    assert!(http.end("TERM").success());
}

/// Three requests, one of them refused, and a notification.
fn batch() -> String {
    json!([
        request(1, "tools/list", &json!({})),
        { "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": 1, "progress": 1 } },
        start_call(2),
        { "jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {} },
    ])
    .to_string()
}

fn check_batch(answers: &Value) {
    let mut answers = answers.as_array().unwrap_or_else(|| panic!("{answers}")).clone();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64()).collect();
    assert_eq!(ids, [Some(1), Some(2), Some(3)]);
    assert!(answers[0]["result"]["tools"].is_array());
    assert_eq!(reply_data(&answers[1]["result"])["isComplete"], false);
    assert_eq!(answers[2]["error"]["code"], -32600);
}

/// G74: every request of a batch is answered.
#[test]
fn a_batch_is_answered_by_one_array() {
    let home = new_home();
    let mut server = Piped::start(&home);
    assert_eq!(server.ask(&initialize(0, "2025-03-26"))["result"]["protocolVersion"], "2025-03-26");
    server.say(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#);
    server.say(batch());
    check_batch(&server.hear());
    server.say("[]");
    assert_eq!(server.hear()["error"]["code"], -32600);
    assert!(server.close().0.success());

    let http = Http::start(&home);
    let header = "MCP-Protocol-Version: 2025-03-26\r\n";
    check_batch(&http.post(header, &batch()).json());
    let noted = http.post(header, r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#);
    assert_eq!((noted.status, noted.body.as_str()), (202, ""));
    assert_eq!(http.post(header, "[]").status, 400);
    // Broke: a request was not answered if the headers were wrong and an earlier element was answered.
    let wrong =
        http.post("MCP-Protocol-Version: 1999-01-01\r\n", r#"[7,{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    let answers = wrong.json();
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&json!(1), &json!(-32600)), "{answers}");
    assert!(http.end("TERM").success());
}

#[test]
fn without_roots_a_call_without_a_folder_says_which_folder_was_used() {
    let named = new_home();
    let home = named.without("CLAUDE_PROJECT_DIR");
    let http = Http::start(&home);
    let warned = |answer: &Value| {
        let warnings = reply_data(&answer["result"])["warnings"].as_array().cloned().unwrap_or_default();
        let warning = warnings.iter().find(|warning| warning["code"] == "WORKSPACE_ASSUMED");
        let message = warning.map(|warning| warning["message"].as_str().unwrap().to_owned());
        // The agent reads the same text.
        assert_eq!(message.as_ref().is_some_and(|message| text(answer).contains(message)), warning.is_some());
        warning.is_some()
    };
    let here = home.project().to_str().unwrap().to_owned();
    for tool in ["list_workflows", "start_workflow", "resume_session"] {
        let mut arguments = json!({});
        if tool == "start_workflow" {
            arguments["workflowId"] = json!("wr.small_change");
        }
        let answer = http.post("", &call(1, tool, &arguments).to_string()).json();
        assert!(warned(&answer) && text(&answer).contains(&here), "{tool}: {answer}");
        arguments["workspacePath"] = json!(here);
        assert!(!warned(&http.post("", &call(1, tool, &arguments).to_string()).json()), "{tool}");
    }
    assert!(http.end("TERM").success());

    let list = json!({ "name": "list_workflows", "arguments": {} });
    let mut server = Piped::start(&home);
    assert!(warned(&server.ask(&stateless(1, "tools/call", list.clone()))));
    server.close();
    // A client that starts a server over pipes does so in its working folder, and a named project needs no note.
    assert!(!warned(&opened(&home).ask(&call(1, "list_workflows", &json!({})))));
    assert!(!warned(&Piped::start(&named).ask(&stateless(1, "tools/call", list))));
}

#[test]
fn stateless_results_name_the_server_and_their_lifetime() {
    let home = new_home();
    let mut server = Piped::start(&home);
    let started = server.ask(&stateless(1, "tools/call", start_call(1)["params"].clone()));
    let label = &reply_data(&started["result"])["run"]["label"];
    let run = json!({ "uri": format!("workrail://run/{}", label.as_str().unwrap()) });
    let get = json!({ "name": "wr.small_change", "arguments": {} });
    let complete = json!({ "ref": { "type": "ref/prompt", "name": "resume" }, "argument": { "name": "run", "value": "" } });
    let complete_resource = json!({
        "ref": { "type": "ref/resource", "uri": "workrail://run/{run}" }, "argument": { "name": "run", "value": "" },
    });
    let list = json!({ "name": "list_workflows", "arguments": {} });
    for (method, params, ttl) in [
        ("server/discover", json!({}), Some(3_600_000)),
        ("tools/list", json!({}), Some(3_600_000)),
        ("prompts/list", json!({}), Some(0)),
        ("prompts/get", get, None),
        ("completion/complete", complete, None),
        ("completion/complete", complete_resource, None),
        ("resources/list", json!({}), Some(0)),
        ("resources/templates/list", json!({}), Some(0)),
        ("resources/read", run, Some(0)),
        ("tools/call", list, None),
    ] {
        let answer = server.ask(&stateless(1, method, params));
        let result = &answer["result"];
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "workrail",
            "{method}: {answer}"
        );
        assert_eq!(result["ttlMs"].as_u64(), ttl, "{method}: {answer}");
    }
    assert!(server.close().0.success());
    let mut server = opened(&home);
    let listed = server.ask(&request(1, "tools/list", &json!({})));
    assert!(listed["result"].get("_meta").is_none() && listed["result"].get("ttlMs").is_none());
}

#[test]
fn untrusted_text_cannot_control_or_reorder_the_output() {
    let home = new_home();
    let mut server = opened(&home);
    let goal = "tidy \u{1b}[31m up \u{202e}dlrow\u{7}";
    let started =
        server.ask(&call(1, "start_workflow", &json!({ "workflowId": "wr.small_change", "goal": goal })));
    let mut ask = reply_data(&started["result"])["nextCall"]["arguments"].clone();
    ask["output"]["notesMarkdown"] = json!("done \u{9b}2J \u{2066}quietly");
    let answers = [
        server.ask(&call(2, "continue_workflow", &ask)),
        server.ask(&call(3, "resume_session", &json!({ "query": "tidy" }))),
        server.ask(&call(4, "read_run", &json!({ "run": ask["run"] }))),
        server.ask(&call(5, "start_workflow", &json!({ "workflowId": "wr.no\u{202e}pe", "goal": goal }))),
        started,
    ];
    for answer in answers {
        let shown = text(&answer);
        let harmful = |c: char| (c.is_control() && !"\n\t".contains(c)) || "\u{202e}\u{2066}".contains(c);
        assert!(!shown.contains(harmful), "{shown:?}");
        assert_eq!(reply_data(&answer["result"])["text"], shown);
    }
    assert!(server.close().0.success());
}

#[test]
fn every_workflow_is_a_prompt_and_so_is_resume() {
    let home = new_home();
    let mut server = opened(&home);
    let listed = server.ask(&request(1, "prompts/list", &json!({})));
    let prompts = listed["result"]["prompts"].as_array().unwrap();
    let workflows = server.ask(&call(2, "list_workflows", &json!({})));
    let workflows = reply_data(&workflows["result"])["workflows"].as_array().unwrap().clone();
    let mut expected: Vec<&Value> = workflows
        .iter()
        .filter(|workflow| workflow["kind"] == "workflow")
        .map(|workflow| &workflow["workflowId"])
        .collect();
    expected.insert(0, &prompts[0]["name"]);
    assert_eq!(prompts[0]["name"], "resume");
    assert_eq!(prompts.iter().map(|prompt| &prompt["name"]).collect::<Vec<_>>(), expected);

    let get = |server: &mut Piped, name: &str, arguments: Value| {
        server.ask(&request(3, "prompts/get", &json!({ "name": name, "arguments": arguments })))
    };
    let shown =
        |answer: &Value| answer["result"]["messages"][0]["content"]["text"].as_str().unwrap().to_owned();
    let got = get(&mut server, "wr.small_change", json!({ "goal": "fix \"it\"", "mode": "guided" }));
    assert_eq!(got["result"]["messages"][0]["role"], "user");
    let arguments = json!({ "workflowId": "wr.small_change", "goal": "fix \"it\"", "mode": "guided" });
    assert!(shown(&got).contains(&arguments.to_string()), "{got}");
    let started = server.ask(&call(4, "start_workflow", &arguments));
    let label = reply_data(&started["result"])["run"]["label"].as_str().unwrap().to_owned();

    let got = get(&mut server, "resume", json!({ "run": label }));
    assert!(shown(&got).contains(&json!({ "query": label }).to_string()), "{got}");
    assert_text(&home, "prompt_to_resume", &shown(&get(&mut server, "resume", json!({}))));
    for (name, arguments) in [
        ("wr.nope", json!({})),
        ("wr.small_change", json!({ "mode": "fast" })),
        ("wr.small_change", json!({ "goal": 1 })),
    ] {
        let refused = get(&mut server, name, arguments);
        assert_eq!(refused["error"]["code"], -32602, "{name}: {refused}");
    }
    assert_eq!(home.data().join("sessions").read_dir().unwrap().count(), 1, "a prompt changes nothing");

    let mut complete = |prompt: &str, argument: &str, value: &str| {
        let params = json!({ "ref": { "type": "ref/prompt", "name": prompt },
                             "argument": { "name": argument, "value": value } });
        let answer = server.ask(&request(5, "completion/complete", &params));
        answer["result"]["completion"]["values"].clone()
    };
    assert_eq!(complete("resume", "run", ""), json!([label]));
    assert_eq!(complete("resume", "run", &label[..3]), json!([label]));
    assert_eq!(complete("resume", "run", "fix"), json!([label]), "words of the goal find it");
    assert_eq!(complete("resume", "run", "zzzz"), json!([]));
    assert_eq!(complete("wr.small_change", "mode", "g"), json!(["guided"]));
    assert_eq!(complete("wr.small_change", "goal", "g"), json!([]));
}

#[test]
fn prompts_depend_on_the_enabled_tools() {
    let names = |home: &Home| -> Vec<String> {
        let listed = opened(home).ask(&request(1, "prompts/list", &json!({})));
        let prompts = listed["result"]["prompts"].as_array().unwrap().clone();
        prompts.iter().map(|prompt| prompt["name"].as_str().unwrap().to_owned()).collect()
    };
    let home = new_home();
    assert_eq!(names(&home.with("WORKRAIL_ENABLE_V2_TOOLS", "false")), ["resume"]);
    assert!(!names(&home.with("WORKRAIL_ENABLE_RESUME", "false")).contains(&"resume".to_owned()));
}
