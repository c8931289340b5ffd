//! The console through the real binary, over HTTP: who is answered, what pages show, what forms change (G94 to G96).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply, with_own_words};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><b>";

/// A home with one workflow whose first step needs an approval and one whose first step asks a question.
fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.gated", "name": "Gated", "description": "Waits for a person.", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "A", "prompt": "Do a.", "requireConfirmation": { "kind": "human_approval" } },
            { "id": "b", "title": "B", "prompt": "Do b." },
        ],
    }));
    home.workflow(&json!({
        "id": "team.asking", "name": "Asking", "description": "Asks a person.", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "A", "prompt": "Do a.", "userDependencies": [{
                "reason": "needs_user_choice", "choiceKind": "scope_boundary", "description": "Which branch is released?",
                "contextKey": "targetBranch" }] },
            { "id": "b", "title": "B", "prompt": "Do b." },
        ],
    }));
    home
}

fn start(client: &mut McpClient, workflow: &str, goal: &str) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": workflow, "goal": goal }))
}

/// Follows the next call of a reply.
fn next(client: &mut McpClient, reply: &ToolReply) -> ToolReply {
    let call = &reply.structured["nextCall"];
    client.call(call["tool"].as_str().unwrap(), with_own_words(&call["arguments"]))
}

fn run_id(reply: &ToolReply) -> String {
    reply.structured["run"]["runId"].as_str().unwrap().to_owned()
}

fn session_id(reply: &ToolReply) -> String {
    reply.structured["run"]["sessionId"].as_str().unwrap().to_owned()
}

/// A started console. It ends with the test.
struct Console {
    child: Child,
    port: u16,
    code: String,
    cookie: String,
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of a hidden field.
    fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let rest = self.body.split(&start).nth(1).unwrap_or_else(|| panic!("no field {name}: {}", self.body));
        rest.split('"').next().unwrap().to_owned()
    }
}

impl Console {
    /// Starts a console that no browser has opened yet.
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["console", "--port", "0", "--no-open"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("Console: http://localhost:").unwrap_or_else(|| panic!("{line}"));
        let (port, code) = address.split_once("/open?code=").unwrap();
        Self { child, port: port.parse().unwrap(), code: code.to_owned(), cookie: String::new() }
    }

    /// A console whose browser was let in.
    fn open(home: &Home) -> Self {
        let mut console = Self::start(home);
        let opened = console.request("GET", &format!("/open?code={}", console.code), &[], "");
        assert_eq!(opened.status, 200, "{opened:?}");
        console.cookie = opened.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        console
    }

    fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Sends a request with exactly these headers.
    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str(&format!("Host: {}\r\n", self.host()));
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!(
                "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[("Cookie", &self.cookie), ("Sec-Fetch-Site", "same-origin")], "")
    }

    /// A page that must be there.
    fn page(&self, path: &str) -> Answer {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        let origin = format!("http://{}", self.host());
        let headers =
            [("Cookie", self.cookie.as_str()), ("Origin", &origin), ("Sec-Fetch-Site", "same-origin")];
        self.request("POST", path, &headers, body)
    }

    /// Sends a form of a run as the page has it.
    fn act(&self, run: &str, action: &str, more: &str) -> Answer {
        let page = self.page(&format!("/run/{run}"));
        let body = format!("token={}&seen={}&from=run{more}", page.field("token"), page.field("seen"));
        self.post(&format!("/run/{run}/{action}"), &body)
    }
}

#[test]
fn a_code_lets_one_browser_in_and_is_used_up() {
    let home = home();
    let console = Console::start(&home);
    let stranger = console.request("GET", "/", &[], "");
    assert_eq!(stranger.status, 401);
    assert!(stranger.body.contains("workrail console"), "it says what to do: {}", stranger.body);
    let wrong = console.request("GET", "/open?code=guess", &[], "");
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    let path = format!("/open?code={}", console.code);
    let opened = console.request("GET", &path, &[], "");
    assert_eq!(opened.status, 200);
    let cookie = opened.header("set-cookie").unwrap();
    let attributes: Vec<&str> = cookie.split("; ").collect();
    assert!(attributes[0].starts_with(&format!("workrail-console-{}=", console.port)), "{cookie}");
    assert_eq!(attributes[1..], ["Path=/", "HttpOnly", "SameSite=Strict"]);
    assert!(!cookie.contains(&console.code), "the cookie is another secret than the code");
    assert_eq!(console.request("GET", &path, &[], "").status, 401, "a code is used once");
    assert_eq!(console.request("GET", "/", &[("Cookie", attributes[0])], "").status, 200);
}

#[test]
fn only_the_users_own_browser_on_the_consoles_own_pages_is_answered() {
    let home = home();
    let console = Console::open(&home);
    let own = format!("http://{}", console.host());
    let (cookie, host) = (console.cookie.clone(), console.host());
    let other_port = cookie.replace(&console.port.to_string(), "1");
    let table = vec![
        ("GET", "a page", vec![("Cookie", cookie.as_str())], 200),
        ("GET", "without the cookie", vec![], 401),
        ("GET", "the cookie of another port", vec![("Cookie", &other_port)], 401),
        ("GET", "a rebound name", vec![("Cookie", &cookie), ("Host", "evil.example")], 403),
        ("GET", "another port", vec![("Cookie", &cookie), ("Host", "localhost:1")], 403),
        ("GET", "a link elsewhere", vec![("Cookie", &cookie), ("Sec-Fetch-Site", "cross-site")], 403),
        ("GET", "a page of another port", vec![("Cookie", &cookie), ("Sec-Fetch-Site", "same-site")], 403),
        ("GET", "a foreign origin", vec![("Cookie", &cookie), ("Origin", "http://evil.example")], 403),
        ("POST", "no origin", vec![("Cookie", &cookie), ("Host", &host)], 403),
        ("POST", "the origin null", vec![("Cookie", &cookie), ("Origin", "null")], 403),
        ("POST", "a foreign page", vec![("Cookie", &cookie), ("Origin", "http://evil.example")], 403),
        ("POST", "no cookie", vec![("Origin", &own)], 401),
        ("POST", "no token in the form", vec![("Cookie", &cookie), ("Origin", &own)], 403),
        ("PUT", "another method", vec![("Cookie", &cookie), ("Origin", &own)], 405),
        ("OPTIONS", "a preflight", vec![("Origin", "http://evil.example")], 403),
    ];
    for path in ["/", "/settings", "/assets/console.js", "/live/"] {
        for (method, what, headers, expected) in &table {
            // The stream of a page does not end by itself.
            if path == "/live/" && *expected == 200 {
                continue;
            }
            let body = if *method == "POST" { "token=guess" } else { "" };
            let answer = console.request(method, path, headers, body);
            assert_eq!(answer.status, *expected, "{method} {path}, {what}: {answer:?}");
            assert!(answer.header("access-control-allow-origin").is_none(), "no CORS: {answer:?}");
        }
    }
}

#[test]
fn nothing_is_loaded_or_run_but_the_consoles_own_files() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    next(&mut client, &first);
    let console = Console::open(&home);
    for path in pages(&first) {
        let answer = console.page(&path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for (header, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(header), Some(value), "{path}");
        }
        assert!(
            !answer.body.contains(" style=\"") && !answer.body.contains("<style"),
            "{path}: no inline style"
        );
        assert_eq!(answer.body.matches("<script").count(), 1, "{path}: one script");
        assert!(
            answer.body.contains("<script type=\"module\" src=\"/assets/console.js\"></script>"),
            "{path}"
        );
        assert!(
            !answer.body.contains("http://") && !answer.body.contains("https://"),
            "{path}: nothing foreign"
        );
    }
}

/// Every page of a home with one run.
fn pages(reply: &ToolReply) -> Vec<String> {
    let (run, session) = (run_id(reply), session_id(reply));
    ["/", "/?status=needs_me", "/?status=running", "/?status=finished", "/?status=damaged", "/search?q=words"]
        .into_iter()
        .chain(["/workflows", "/workflows/team.gated", "/settings", "/logs"])
        .map(str::to_owned)
        .chain([format!("/run/{run}"), format!("/session/{session}")])
        .collect()
}

#[test]
fn what_agents_write_is_shown_as_text_on_every_page() {
    let home = home();
    home.workflow(&json!({
        "id": "team.hostile", "name": format!("Name {HOSTILE}"), "description": HOSTILE, "version": "1.0.0",
        "steps": [
            { "id": "a", "title": format!("Title {HOSTILE}"), "prompt": HOSTILE,
              "requireConfirmation": { "kind": "human_approval" } },
        ],
    }));
    let mut client = home.client();
    let first = start(&mut client, "team.hostile", &format!("Goal words {HOSTILE}"));
    let mut call = with_own_words(&first.structured["nextCall"]["arguments"]);
    call["output"]["notesMarkdown"] =
        Value::from(format!("Notes words {HOSTILE}\n\n[x](javascript:alert(3))"));
    call["output"]["artifacts"] = json!([{ "kind": "team.odd", "value": HOSTILE }]);
    call["context"] = json!({ "odd": HOSTILE });
    let blocked = client.call("continue_workflow", call);
    assert_eq!(blocked.structured["kind"], "blocked", "{}", blocked.structured);
    let console = Console::open(&home);
    let mut paths = pages(&first);
    paths.extend([
        "/workflows/team.hostile".to_owned(),
        format!("/?q={}", "%3Cscript%3Ealert(1)%3C%2Fscript%3E"),
        format!("/workflows?q={}", "%22%3E%3Cscript%3Ealert(1)"),
        format!("/search?q={}", "%22%3E%3Cscript%3Ealert(1)"),
    ]);
    for path in paths {
        let body = console.page(&path).body;
        for active in ["<script>", "<img", "onerror=alert(2)>", "javascript:alert(3)\"", "'><b>"] {
            assert!(!body.contains(active), "{path} has {active}: {body}");
        }
    }
    let run = console.page(&format!("/run/{}", run_id(&first))).body;
    for shown in ["Goal words &lt;script&gt;", "Title &lt;script&gt;", "Notes words &lt;script&gt;"] {
        assert!(run.contains(shown), "{shown}: {run}");
    }
    assert!(console.page("/").body.contains("Notes words &lt;script&gt;"), "the first page has it in full");
    assert!(console.page("/workflows").body.contains("Name &lt;script&gt;"));
}

#[test]
fn the_first_page_says_what_needs_me_and_a_form_approves_it() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release the retry budget");
    let blocked = next(&mut client, &first);
    let console = Console::open(&home);
    let page = console.page("/");
    let needs = page.body.split("id=\"needs\"").nth(1).unwrap().split("</section>").next().unwrap();
    for shown in
        ["Release the retry budget", "Words of my own.", "waits for a person", ">Approve<", ">Reject<"]
    {
        assert!(needs.contains(shown), "{shown}: {needs}");
    }
    let approved = console.post(
        &format!("/run/{}/approve", run_id(&first)),
        &format!("token={}&seen={}&from=now", page.field("token"), page.field("seen")),
    );
    assert_eq!(
        (approved.status, approved.header("location")),
        (303, Some("/?done=approved")),
        "{approved:?}"
    );
    assert!(console.page("/?done=approved").body.contains("Approved."));
    assert_eq!(next(&mut client, &blocked).step(), "b", "the agent goes on");

    let log = home.done(&["log", &run_id(&first), "--json"]).json();
    let events = log["events"].as_array().unwrap();
    let decision = events.iter().find(|event| event["kind"] == "approval_recorded").unwrap();
    assert_eq!(decision["data"]["channel"], "console");
    // This test starts the server and the console alike, as a program that runs an agent does.
    assert_eq!(decision["data"]["descendsFromServer"], true);
    assert!(console.page(&format!("/run/{}", run_id(&first))).body.contains("Run"), "still there");
}

#[test]
fn a_rejection_takes_its_reason_to_the_agent() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let blocked = next(&mut client, &first);
    let console = Console::open(&home);
    let rejected = console.act(&run_id(&first), "reject", "&reason=Keep+the+old+table+until+Monday");
    assert_eq!(rejected.status, 303, "{rejected:?}");
    let retried = next(&mut client, &blocked);
    assert_eq!(retried.structured["kind"], "blocked");
    assert!(retried.text.contains("Keep the old table until Monday"), "{}", retried.text);
}

#[test]
fn a_question_is_answered() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.asking", "Release");
    let blocked = next_without_answer(&mut client, &first);
    assert_eq!(blocked.structured["kind"], "blocked", "{}", blocked.structured);
    let console = Console::open(&home);
    assert!(console.page("/").body.contains("Which branch is released?"));
    let empty = console.act(&run_id(&first), "answer", "&answer.targetBranch=++");
    assert_eq!(empty.status, 409, "{empty:?}");
    let foreign = console.act(&run_id(&first), "answer", "&answer.other=main");
    assert!(foreign.status >= 400, "{foreign:?}");
    let answered = console.act(&run_id(&first), "answer", "&answer.targetBranch=main");
    assert_eq!(answered.status, 303, "{answered:?}");
    assert_eq!(next_without_answer(&mut client, &blocked).step(), "b");
}

/// Follows the next call without the context that an agent could make up an answer in.
fn next_without_answer(client: &mut McpClient, reply: &ToolReply) -> ToolReply {
    let mut arguments = with_own_words(&reply.structured["nextCall"]["arguments"]);
    arguments.as_object_mut().unwrap().remove("context");
    client.call("continue_workflow", arguments)
}

#[test]
fn a_form_decides_only_on_what_it_showed() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let blocked = next(&mut client, &first);
    let console = Console::open(&home);
    let run = run_id(&first);
    let old = console.page(&format!("/run/{run}"));
    let form = format!("token={}&seen={}&from=run", old.field("token"), old.field("seen"));
    let mut call = with_own_words(&blocked.structured["nextCall"]["arguments"]);
    call["output"] = json!({ "notesMarkdown": "Something else entirely." });
    client.call("continue_workflow", call);
    let late = console.post(&format!("/run/{run}/approve"), &form);
    assert_eq!(late.status, 409, "{late:?}");
    assert!(late.body.contains("Nothing was recorded"), "{late:?}");
    let log = home.done(&["log", &run, "--json"]).json();
    let events = log["events"].as_array().unwrap();
    assert!(events.iter().all(|event| event["kind"] != "approval_recorded"));
}

#[test]
fn damaged_sessions_are_shown_with_what_is_wrong() {
    let home = home();
    let mut client = home.client();
    let (tail, head) = (start(&mut client, "team.gated", "Tail"), start(&mut client, "team.gated", "Head"));
    next(&mut client, &tail);
    client.close();
    let events = home.data().join("sessions").join(session_id(&tail)).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(&events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    std::fs::write(segments.last().unwrap(), "damaged\n").unwrap();
    let manifest = home.data().join("sessions").join(session_id(&head)).join("manifest.jsonl");
    std::fs::write(manifest, "damaged\n").unwrap();
    let console = Console::open(&home);
    let now = console.page("/").body;
    for session in [session_id(&tail), session_id(&head)] {
        assert!(now.contains(&format!("/session/{session}")), "{now}");
        let page = console.page(&format!("/session/{session}")).body;
        assert!(page.contains("Damaged session."), "{page}");
    }
    let run = console.page(&format!("/run/{}", run_id(&tail))).body;
    assert!(
        run.contains("Damaged session.") && !run.contains("/approve"),
        "nothing can be decided there: {run}"
    );
    assert_eq!(console.get(&format!("/run/{}", run_id(&head))).status, 404);
}

#[test]
fn no_address_leads_to_a_file_or_a_page_that_is_not_there() {
    let home = home();
    let console = Console::open(&home);
    for path in [
        "/../../etc/passwd",
        "/assets/../../Cargo.toml",
        "/assets/other.js",
        "/session/..%2F..%2Fkeys",
        "/session/sess_0000000000000000/../../keys/http-secret",
        "/run/%2e%2e",
        "/workflows/..%2f..%2fx",
        "/live/nothing",
    ] {
        let answer = console.get(path);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
}

#[test]
fn reports_and_bundles_are_downloaded() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    next(&mut client, &first);
    let console = Console::open(&home);
    let session = session_id(&first);
    for (name, holds) in [
        ("bundle.json", "bundleId"),
        ("report.html", "<!DOCTYPE html>"),
        ("report.md", "# "),
        ("report.json", "runs"),
    ] {
        let file = console.page(&format!("/session/{session}/{name}"));
        assert!(file.body.contains(holds), "{name}: {}", file.body);
        assert_eq!(
            file.header("content-disposition"),
            Some(format!("attachment; filename=\"{session}.{name}\"").as_str())
        );
    }
}

#[test]
fn a_session_is_kept_deleted_and_imported_again() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let session = session_id(&first);
    let console = Console::open(&home);
    let bundle = console.page(&format!("/session/{session}/bundle.json")).body;
    let page = console.page(&format!("/session/{session}"));
    let token = format!("token={}", page.field("token"));
    let post = |action: &str, more: &str| {
        console.post(&format!("/session/{session}/{action}"), &format!("{token}{more}"))
    };
    assert_eq!(post("keep", "").status, 303);
    assert!(console.page(&format!("/session/{session}")).body.contains("/unkeep"));
    assert_eq!(post("unkeep", "").status, 303);

    let events = page.field("events");
    assert_eq!(post("delete", &format!("&events={events}&typed=yes")).status, 409, "the label is typed");
    assert_eq!(post("delete", &format!("&events=1&typed={session}")).status, 409, "what was seen is deleted");
    assert_eq!(console.get(&format!("/session/{session}")).status, 200, "nothing was deleted");
    assert_eq!(post("delete", &format!("&events={events}&typed={session}")).status, 303);
    assert_eq!(console.get(&format!("/session/{session}")).status, 404);

    let own = format!("http://{}", console.host());
    let secret = page.field("token");
    let headers = [("Cookie", console.cookie.as_str()), ("Origin", &own), ("x-workrail-token", &secret)];
    assert_eq!(console.request("POST", "/import", &headers[..2], &bundle).status, 403, "without the token");
    let damaged = console.request("POST", "/import", &headers, "{}");
    assert_eq!(damaged.status, 409, "{damaged:?}");
    let imported = console.request("POST", "/import", &headers, &bundle);
    assert_eq!((imported.status, imported.body), (200, format!("/session/{session}?done=imported")));
    assert_eq!(console.get(&format!("/session/{session}")).status, 200);
}

#[test]
fn a_change_by_another_process_reaches_an_open_page() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let console = Console::open(&home);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, console.port)).unwrap();
    let request =
        format!("GET /live/ HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", console.host(), console.cookie);
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut until = |wanted: &str| {
        let found = lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains(wanted));
        found.unwrap_or_else(|| panic!("no {wanted}"))
    };
    until("text/event-stream");
    // The whole page comes first, because this request names no part that it has.
    until("\"id\":\"done\"");
    next(&mut client, &first);
    let sent = until("\"id\":\"needs\"");
    assert!(sent.contains("/approve") && sent.contains("Words of my own."), "{sent}");
}

#[test]
fn a_part_that_becomes_what_it_was_is_sent_again() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let console = Console::open(&home);
    let page = console.page("/");
    let parts = page.body.split("data-seen=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let has = parts.collect::<Vec<_>>().join(",");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, console.port)).unwrap();
    let (host, cookie) = (console.host(), &console.cookie);
    let request = format!("GET /live/?has={has} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut needs = || {
        let found = lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("\"id\":\"needs\""));
        found.unwrap()
    };
    next(&mut client, &first);
    assert!(needs().contains("/approve"));
    let page = console.page("/");
    let form = format!("token={}&seen={}&from=now", page.field("token"), page.field("seen"));
    assert_eq!(console.post(&format!("/run/{}/approve", run_id(&first)), &form).status, 303);
    assert!(!needs().contains("/approve"), "nothing waits any more, as when the page was loaded");
}

#[test]
fn filters_are_in_the_address_and_lists_have_pages() {
    let home = home();
    let mut client = home.client();
    for number in 0..25 {
        let first = start(&mut client, "team.gated", &format!("Goal number {number}."));
        next(&mut client, &first);
    }
    start(&mut client, "team.asking", "The running one");
    let console = Console::open(&home);
    let cards = |path: &str| console.page(path).body.matches("<article class=\"card\"").count();
    assert_eq!(cards("/"), 20, "the first page is bounded");
    assert_eq!(cards("/?status=needs_me"), 20);
    assert_eq!(cards("/?status=needs_me&page=2"), 5);
    assert_eq!(cards("/?status=needs_me&page=99"), 5, "a page beyond the last is the last");
    assert_eq!(cards("/?q=number+24."), 1);
    assert_eq!(cards("/?workflow=team.asking"), 0);
    assert!(console.page("/?workflow=team.asking").body.contains("The running one"));
    assert!(!console.page("/?q=number+24.").body.contains("The running one"));
}

#[test]
fn the_theme_is_a_form_that_leads_back() {
    let home = home();
    let console = Console::open(&home);
    let page = console.page("/settings");
    let set = console.post("/theme", &format!("token={}&theme=dark&back=%2Fsettings", page.field("token")));
    assert_eq!((set.status, set.header("location")), (303, Some("/settings")));
    let theme = set.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let cookies = format!("{}; {theme}", console.cookie);
    let dark = console.request("GET", "/", &[("Cookie", &cookies)], "");
    assert!(dark.body.contains("data-theme=\"dark\""), "{}", dark.body);
    let away = console.post("/theme", &format!("token={}&back=%2F%2Fevil.example", page.field("token")));
    assert_eq!(away.header("location"), Some("/"), "never to another site");
}
