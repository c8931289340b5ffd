//! A step has the same number wherever a user or an agent reads about it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};
use workrail_testkit::page;

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// The number of each point of the run, by node.
type Numbers = BTreeMap<String, String>;

fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.walk", "name": "Walk", "description": "Goes round.", "version": "1.0.0",
        "steps": [
            { "id": "begin", "title": "Begin", "prompt": "Begin." },
            { "id": "extra", "title": "Extra", "prompt": "Do more.",
              "runCondition": { "var": "size", "equals": "large" } },
            { "id": "rounds", "type": "loop", "title": "Rounds",
              "loop": { "type": "for", "count": 2, "maxIterations": 2 },
              "body": [{ "id": "round", "title": "Round", "prompt": "Go round." }] },
            { "id": "end", "title": "End", "prompt": "End." },
        ],
    }));
    home
}

fn completed(client: &mut McpClient, reply: &ToolReply, notes: &str) -> ToolReply {
    let arguments = json!({
        "ackToken": reply.data["ackToken"], "output": { "notesMarkdown": notes }, "context": { "size": "small" },
    });
    client.call("continue_workflow", arguments)
}

/// The number of the pending step in a reply, in its data and in its first line.
fn replied(reply: &ToolReply) -> String {
    let number = reply.data["run"]["stepNumber"].to_string();
    let first = reply.text.lines().next().unwrap();
    assert!(
        first.contains(&format!(" · step {number} ")) || first.contains(&format!(" · step {number}:")),
        "{first}"
    );
    number
}

/// A run with a skipped step, a loop, an abandoned branch and a blocked attempt on both; and the replies' numbers.
fn walked(client: &mut McpClient) -> (ToolReply, Vec<String>) {
    let first = client.call("start_workflow", json!({ "workflowId": "team.walk", "goal": "walk" }));
    let second = completed(client, &first, "began");
    let third = completed(client, &second, "went round once");
    let refused = client.call("continue_workflow", json!({ "ackToken": third.data["ackToken"] }));
    assert_eq!(refused.data["kind"], "blocked", "{}", refused.text);
    let look = json!({ "run": first.data["run"]["label"], "stateToken": second.data["stateToken"] });
    let again = client.call("continue_workflow", look);
    let other = completed(client, &again, "went round in another way");
    let refused_again = client.call("continue_workflow", json!({ "ackToken": other.data["ackToken"] }));
    assert_eq!(refused_again.data["kind"], "blocked", "{}", refused_again.text);
    let last = completed(client, &refused_again, "went round twice");
    let told = [&first, &second, &third, &refused, &again, &other, &refused_again, &last];
    let numbers = told.map(replied).to_vec();
    (last, numbers)
}

/// The text between two others.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.split_once(start)?.1.split_once(end).map(|(found, _)| found)
}

/// `    3b. Round (...)` and, in the next line, a link to the node.
fn of_show(text: &str) -> Numbers {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.windows(2).filter_map(|pair| {
        let node = pair[1].trim().strip_prefix("workrail://session/")?.split("/node/").nth(1)?;
        Some((node.to_owned(), pair[0].trim().split_once(". ")?.0.to_owned()))
    });
    pairs.collect()
}

/// `● 3b. Round (...)  [node_...]`.
fn of_tree(text: &str) -> Numbers {
    let lines = text.lines().filter_map(|line| {
        let node = between(line, "[", "]").filter(|own| own.starts_with("node_"))?;
        let number = line.split_once(". ")?.0.rsplit(' ').next()?;
        Some((node.to_owned(), number.to_owned()))
    });
    lines.collect()
}

/// `#### 3b. Round` and the point below it.
fn of_markdown(text: &str) -> Numbers {
    let sections = text.split("\n#### ").skip(1).map(|section| {
        let node = between(section, "/node/", "`").unwrap();
        (node.to_owned(), section.split_once(". ").unwrap().0.to_owned())
    });
    sections.collect()
}

/// `<section class="node" id="node_..."> ... <span class="no">3b</span>`.
fn of_html(text: &str) -> Numbers {
    let sections = text.split("<section class=\"node").skip(1).map(|section| {
        let node = between(section, "id=\"", "\"").unwrap();
        (node.to_owned(), between(section, "<span class=\"no\">", "</span>").unwrap().to_owned())
    });
    sections.collect()
}

/// The points of a drawn path and their link targets.
fn of_path(page: &str) -> Numbers {
    let path = between(page, "aria-label=\"The path of the run\"", "</svg>").unwrap();
    let points = path.split("<a href=\"").skip(1).filter_map(|point| {
        let node = between(point, "node=", "&")?;
        Some((node.to_owned(), between(point, "<tspan class=\"number\">", "</tspan>")?.to_owned()))
    });
    points.collect()
}

/// The log names each node by its number; the recorded events say which node an event is about.
fn of_log(text: &str, recorded: &Value, label: &str) -> Numbers {
    let events = recorded["events"].as_array().unwrap();
    let lines = text.lines().zip(events).filter_map(|(line, event)| {
        let node = event["scope"]["nodeId"].as_str()?;
        let number = line.split_once(&format!("{label} "))?.1.split_once(". ")?.0;
        Some((node.to_owned(), number.to_owned()))
    });
    lines.collect()
}

/// Pages of a console, which is then ended.
fn pages(home: &Home, paths: &[String]) -> Vec<String> {
    let mut command = home.command(&["console", "--port", "0", "--no-open"]);
    let mut console = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(console.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("Console: http://").unwrap();
    let (host, open) = address.split_once('/').unwrap();
    let port: u16 = host.split_once(':').unwrap().1.parse().unwrap();
    let get = |path: &str, cookie: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let opened = get(&format!("/{open}"), "");
    let cookie = between(&opened.to_lowercase(), "set-cookie: ", ";").map(|own| own.len()).unwrap();
    let start = opened.to_lowercase().find("set-cookie: ").unwrap() + "set-cookie: ".len();
    let cookie = opened[start..start + cookie].to_owned();
    let found = paths.iter().map(|path| get(path, &cookie)).collect();
    console.kill().unwrap();
    console.wait().unwrap();
    found
}

#[test]
fn a_step_has_the_same_number_everywhere() {
    let home = home();
    let mut client = home.client();
    let (last, replies) = walked(&mut client);
    assert_eq!(replies, ["1", "2", "3", "3", "2", "3", "3", "4"]);
    let run = &last.data["run"];
    let [label, run_id, session] = ["label", "runId", "sessionId"].map(|name| run[name].as_str().unwrap());

    let json = home.done(&["show", label, "--json"]).json();
    let nodes = json["report"]["runs"][0]["nodes"].as_array().unwrap();
    let text = |node: &Value, name: &str| node[name].as_str().unwrap().to_owned();
    let numbers: Numbers = nodes.iter().map(|node| (text(node, "nodeId"), text(node, "point"))).collect();
    let mut named: Vec<&String> = numbers.values().collect();
    named.sort();
    assert_eq!(named, ["1", "2", "3", "3b", "4"]);

    assert_eq!(of_show(&home.done(&["show", label]).out), numbers, "show");
    assert_eq!(of_tree(&home.done(&["tree", label, "--all"]).out), numbers, "tree");
    assert_eq!(of_markdown(&home.done(&["report", label]).out), numbers, "report");
    assert_eq!(of_html(&home.done(&["report", label, "--format", "html"]).out), numbers, "report as HTML");
    let log = home.done(&["log", label]).out;
    assert_eq!(of_log(&log, &home.done(&["log", label, "--json"]).json(), label), numbers, "log");

    // Where only the current step is shown, it has the number from the last reply.
    for (name, command) in
        [("list", &["session", "list"][..]), ("status", &["status"]), ("resume", &["resume", label])]
    {
        assert_text(&home, &format!("numbering_{name}"), &home.done(command).out);
    }
    let paths = [format!("/run/{run_id}?open=all"), format!("/session/{session}"), "/".to_owned()];
    let [run_page, session_page, now]: [String; 3] = pages(&home, &paths).try_into().unwrap();
    assert_eq!(of_path(&run_page), numbers, "the path in the console: {run_page}");
    for (name, page) in [("run", &run_page), ("session", &session_page), ("now", &now)] {
        assert_text(&home, &format!("numbering_console_{name}"), &page::words(page));
    }

    // Agents read the branch on which the run continues.
    let read = client.call("read_run", json!({ "run": label })).text;
    for line in ["1. Begin", "2. Round", "3. Round", "4. End", "Now at step 4"] {
        assert!(read.contains(&format!("\n{line}")), "{line}: {read}");
    }
}
