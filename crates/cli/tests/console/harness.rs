//! A started console and requests to it.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply, with_own_words};
use workrail_testkit::page;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
pub(crate) const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><b>";

/// A home with one workflow whose first step needs an approval and one whose first step asks a question.
pub(crate) fn home() -> Home {
    let home = Home::new(PROGRAM);
    home.gated_workflow();
    home.workflow(&json!({
        "id": "team.asking", "name": "Asking", "description": "Asks a person.", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "A", "prompt": "Do a.", "userDependencies": [{
                "reason": "needs_user_choice", "choiceKind": "scope_boundary", "description": "Which branch is released?",
                "contextKey": "targetBranch" }] },
            { "id": "b", "title": "B", "prompt": "Do b." },
        ],
    }));
    home.workflow(&json!({
        "id": "team.plain", "name": "Plain", "description": "Needs nobody.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    }));
    home
}

/// A live stream, line by line.
pub(crate) struct Live(BufReader<TcpStream>);

impl Live {
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
        line
    }

    /// Reads up to the first message that matches.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.line();
            let message = line.strip_prefix("data: ").and_then(|data| serde_json::from_str(data).ok());
            if let Some(message) = message.filter(|message| fits(message)) {
                return message;
            }
        }
    }

    /// Reads up to the first matching new version of a part, and returns its HTML.
    pub(crate) fn part(&mut self, id: &str, fits: impl Fn(&str) -> bool) -> String {
        let found = self.until(|message| message["id"] == id && message["html"].as_str().is_some_and(&fits));
        found["html"].as_str().unwrap().to_owned()
    }

    /// Reads up to the first matching list of a page's parts.
    pub(crate) fn order(&mut self, fits: impl Fn(&[Value]) -> bool) {
        self.until(|message| message["order"].as_array().is_some_and(|parts| fits(parts)));
    }
}

pub(crate) fn start(client: &mut McpClient, workflow: &str, goal: &str) -> ToolReply {
    client.call("start_workflow", json!({ "workflowId": workflow, "goal": goal }))
}

/// Makes the next call of a reply.
pub(crate) fn next(client: &mut McpClient, reply: &ToolReply) -> ToolReply {
    client.next(reply)
}

pub(crate) fn run_id(reply: &ToolReply) -> String {
    reply.data["run"]["runId"].as_str().unwrap().to_owned()
}

pub(crate) fn session_id(reply: &ToolReply) -> String {
    reply.data["run"]["sessionId"].as_str().unwrap().to_owned()
}

/// A started console. It ends with the test.
pub(crate) struct Console {
    pub(crate) child: Child,
    /// The process of a console that outlived the shell that started it.
    left_behind: Option<String>,
    pub(crate) port: u16,
    pub(crate) code: String,
    pub(crate) cookie: String,
}

impl Drop for Console {
    fn drop(&mut self) {
        match &self.left_behind {
            Some(process) => drop(Command::new("kill").arg(process).status()),
            None => drop(self.child.kill()),
        }
        let _ = self.child.wait();
    }
}

fn first_line(out: &mut impl BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line
}

impl Console {
    /// Starts a console that no browser has opened yet.
    pub(crate) fn start(home: &Home) -> Self {
        let mut command = home.command(&["console", "--port", "0", "--no-open"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let line = first_line(&mut BufReader::new(child.stdout.take().unwrap()));
        Self::at(&line, child, None)
    }

    /// A console that a shell put into the background, opened once the shell has ended.
    pub(crate) fn open_behind_a_shell(home: &Home) -> Self {
        let script = "\"$0\" \"$@\" 2> /dev/null & echo $!; read -r line";
        let mut command = home.command_in(&["sh", "-c", script], &["console", "--port", "0", "--no-open"]);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(shell.stdout.take().unwrap());
        let process = first_line(&mut out).trim().to_owned();
        let line = first_line(&mut out);
        writeln!(shell.stdin.take().unwrap()).unwrap();
        shell.wait().unwrap();
        Self::at(&line, shell, Some(process)).let_in()
    }

    fn at(line: &str, child: Child, left_behind: Option<String>) -> Self {
        let address =
            line.trim().strip_prefix("Console: http://localhost:").unwrap_or_else(|| panic!("{line}"));
        let (port, code) = address.split_once("/open?code=").unwrap();
        let (port, code) = (port.parse().unwrap(), code.to_owned());
        Self { child, left_behind, port, code, cookie: String::new() }
    }

    /// A console with an admitted browser.
    pub(crate) fn open(home: &Home) -> Self {
        Self::start(home).let_in()
    }

    fn let_in(self) -> Self {
        let mut console = self;
        let opened = console.request("GET", &format!("/open?code={}", console.code), &[], "");
        assert_eq!(opened.status, 200, "{opened:?}");
        console.cookie = opened.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        console
    }

    pub(crate) fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Sends a request with exactly these headers.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
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
        Response { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// The stream of a page, from its beginning.
    pub(crate) fn live(&self, address: &str) -> Live {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let (host, cookie) = (self.host(), &self.cookie);
        let request = format!("GET /live{address} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
        (&stream).write_all(request.as_bytes()).unwrap();
        // Longer than anything takes on a busy machine.
        stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        let mut live = Live(BufReader::new(stream));
        while !live.line().contains("text/event-stream") {}
        live
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[("Cookie", &self.cookie), ("Sec-Fetch-Site", "same-origin")], "")
    }

    /// A page that must exist.
    pub(crate) fn page(&self, path: &str) -> Response {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Response {
        let origin = format!("http://{}", self.host());
        let headers =
            [("Cookie", self.cookie.as_str()), ("Origin", &origin), ("Sec-Fetch-Site", "same-origin")];
        self.request("POST", path, &headers, body)
    }

    /// Sends a run's form as its page has it.
    pub(crate) fn act(&self, run: &str, action: &str, more: &str) -> Response {
        let page = self.page(&format!("/run/{run}"));
        let body =
            format!("token={}&seen={}&back=%2Frun%2F{run}{more}", page.field("token"), page.field("seen"));
        self.post(&format!("/run/{run}/{action}"), &body)
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// What a user reads on it.
    pub(crate) fn words(&self) -> String {
        page::words(&self.body)
    }

    /// What a user reads in one of its parts.
    pub(crate) fn part(&self, id: &str) -> String {
        page::part(&self.body, id)
    }

    /// The targets of its forms, except those that every page has.
    pub(crate) fn actions(&self) -> Vec<String> {
        actions(&self.body)
    }

    /// The value of a hidden field.
    pub(crate) fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let rest = self.body.split(&start).nth(1).unwrap_or_else(|| panic!("no field {name}: {}", self.body));
        rest.split('"').next().unwrap().to_owned()
    }
}

/// The targets of a page's forms, except those that every page has.
pub(crate) fn actions(html: &str) -> Vec<String> {
    let forms = html.split("<form ").skip(1).filter(|form| form.contains("method=\"post\""));
    let actions = forms.filter_map(|form| form.split("action=\"").nth(1)?.split('"').next());
    actions.filter(|action| *action != "/theme").map(str::to_owned).collect()
}

/// Whether a page has a form with this target.
pub(crate) fn offers(html: &str, action: &str) -> bool {
    actions(html).iter().any(|other| other.ends_with(&format!("/{action}")))
}

/// Every page of a home with one run.
pub(crate) fn pages(reply: &ToolReply) -> Vec<String> {
    let (run, session) = (run_id(reply), session_id(reply));
    ["/", "/?status=needs_me", "/?status=running", "/?status=finished", "/?status=damaged", "/search?q=words"]
        .into_iter()
        .chain(["/?status=blocked", "/?tag=coding", "/?workspace=here"])
        .chain(["/workflows", "/workflows?tag=coding", "/workflows/team.gated", "/logs"])
        .chain(["/settings", "/settings/sources", "/settings/cleanup", "/settings/keys"])
        .chain(["/settings/clients", "/settings/health"])
        .map(str::to_owned)
        .chain([format!("/run/{run}"), format!("/run/{run}?open=all"), format!("/session/{session}")])
        .collect()
}

/// Everything that `doctor` warns about, each with what to do.
pub(crate) fn warnings_of_doctor(home: &Home) -> String {
    let findings = home.run(&["doctor", "--json"]).json()["findings"].as_array().unwrap().clone();
    let said = findings.iter().filter(|finding| finding["level"] != "ok").map(|finding| {
        let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        format!("{}: {}\n  {}\n", part("level"), part("what"), part("fix"))
    });
    said.collect()
}

/// Makes the next call without the context that could contain the answer.
pub(crate) fn next_without_answer(client: &mut McpClient, reply: &ToolReply) -> ToolReply {
    let mut arguments = with_own_words(&reply.data["nextCall"]["arguments"]);
    arguments.as_object_mut().unwrap().remove("context");
    client.call("continue_workflow", arguments)
}
