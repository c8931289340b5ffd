//! Follows docs/team.md from its first command to its last: a private PostgreSQL, two servers, two clients, tokens,
//! copying, backup and restore.
//!
//! Every line behind `$ ` runs in a shell as it is written, except for the names of this machine's database, servers,
//! run and tokens. What cannot run here is named in `NOT_RUN`.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{reply_data, with_own_words};
use workrail_testkit::postgres::{Cluster, SUPERUSER};
use workrail_testkit::skipped::skip;
use workrail_testkit::wire::Http;

/// Commands that install a database, open an interactive shell in it, or name a database on another machine.
const NOT_RUN: [&str; 5] = [
    "sudo apt install postgresql",
    "sudo -u postgres psql",
    "docker run",
    "docker exec",
    "workrail config set store 'postgres://workrail@db.example.com/",
];

/// The chapters that have commands.
const TEN_MINUTES: &str = "Ten minutes: two servers, two clients";
const CHAPTERS: [&str; 7] = [
    TEN_MINUTES,
    "Set it up",
    "Copy your sessions",
    "Encrypt the signing keys",
    "One server for agents anywhere",
    "Names and roles",
    "Back up, restore, upgrade",
];

/// A command or an SQL block of the page.
#[derive(Debug)]
struct Block {
    line: usize,
    language: String,
    text: String,
}

/// The blocks below a heading of the second level, with continued lines joined.
fn chapter(page: &str, heading: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut is_inside, mut language) = (false, None);
    for (number, line) in page.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            is_inside = title == heading;
        } else if let Some(info) = line.strip_prefix("```") {
            language = (language.is_none() && is_inside).then(|| info.to_owned());
        } else if let Some(language) = &language {
            let is_command = line.starts_with("$ ");
            let text = line.strip_prefix("$ ").unwrap_or(line).to_owned();
            match blocks.last_mut() {
                Some(Block { text: command, .. }) if command.ends_with('\\') => {
                    command.pop();
                    command.push_str(line.trim_start());
                }
                _ if is_command || language == "sql" => {
                    blocks.push(Block { line: number + 1, language: language.clone(), text });
                }
                // What a command prints.
                _ => {}
            }
        }
    }
    assert!(!blocks.is_empty(), "the page has the chapter {heading}");
    blocks
}

/// A machine of the page's reader: a home, a database, and the servers that were started.
struct Reader {
    home: Home,
    cluster: Cluster,
    database: String,
    ports: [u16; 3],
    /// Set by `export`.
    exported: BTreeMap<String, String>,
    servers: Vec<Http>,
    /// By name.
    tokens: BTreeMap<String, String>,
    label: String,
    count: usize,
}

impl Reader {
    fn new() -> Option<Self> {
        for tool in ["bash", "curl", "openssl"] {
            if Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_err() {
                skip("the team guide", &format!("{tool} is not installed"));
                return None;
            }
        }
        let (cluster, database) = Cluster::start_with_passwords()?;
        let home = Home::new(env!("CARGO_BIN_EXE_workrail")).without("WORKRAIL_DATA_DIR");
        let bin = home.root().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(home.program(), bin.join("workrail")).unwrap();
        let path = format!("{}:{}:/usr/bin:/bin", bin.display(), cluster.programs_folder().display());
        Some(Self {
            home: home.with("PATH", path),
            cluster,
            database,
            ports: free_ports(),
            exported: BTreeMap::new(),
            servers: Vec::new(),
            tokens: BTreeMap::new(),
            label: String::new(),
            count: 0,
        })
    }

    fn follow(&mut self, blocks: &[Block]) {
        for block in blocks {
            if NOT_RUN.iter().any(|prefix| block.text.starts_with(prefix)) {
                continue;
            }
            self.count += 1;
            match block.language.as_str() {
                "sql" => drop(self.cluster.sql("postgres", &block.text)),
                "console" => self.run(block),
                other => panic!("line {}: blocks in {other} are not known", block.line),
            }
        }
    }

    fn run(&mut self, block: &Block) {
        let line = self.with_names_of_this_machine(&block.text);
        if let Some(variable) = line.strip_prefix("export ") {
            let (name, value) = variable.split_once('=').unwrap();
            let token = self.tokens.get("ci-bot").map_or("", String::as_str);
            let value = value.replace("tok_...", token);
            self.exported.insert(name.to_owned(), value.replace('~', self.home.home().to_str().unwrap()));
            return;
        }
        if line.starts_with("workrail serve ") {
            let line = format!("exec {}", line.trim_end_matches('&'));
            self.servers.push(Http::of_command(self.shell(&line).stdin(Stdio::null())));
            return;
        }
        // The reader types the password, and confirms the rotation.
        let line = match line.as_str() {
            "install -m 600 /dev/stdin ~/.config/workrail/store-password" => format!("{line} <<< '...'"),
            "workrail store keys rotate" => format!("{line} --yes"),
            _ => line,
        };
        let ran = self.shell(&line).stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "docs/team.md:{}: `{line}`: {}", block.line, text_of(&ran));
        if let Some(name) = line.strip_prefix("workrail team token create ") {
            self.tokens.insert(name.split(' ').next().unwrap().to_owned(), printed.trim().to_owned());
        }
    }

    /// A command in the project's folder. `sudo -u postgres` makes it one of the database's superuser.
    fn shell(&self, line: &str) -> Command {
        let sudo = format!(
            "sudo() {{ shift 2; PGHOST='{}' PGUSER={SUPERUSER} \"$@\"; }}; ",
            self.cluster.socket_folder().display()
        );
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &format!("{sudo}{line}")]);
        shell.env_clear().envs(self.home.variables()).envs(&self.exported).current_dir(self.home.project());
        shell
    }

    fn with_names_of_this_machine(&self, line: &str) -> String {
        let [first, second, third] = self.ports.map(|port| port.to_string());
        let home = self.home.home();
        let mut line = line
            .replace("@localhost/", &format!("@{}/", self.database))
            .replace("/home/me/", &format!("{}/", home.display()))
            .replace("https://workrail.example.com", &format!("https://localhost:{first}"))
            .replace("0.0.0.0:443", &format!("127.0.0.1:{third}"))
            .replace("10.0.0.5:8080", &format!("127.0.0.1:{second}"))
            .replace("fullchain.pem", "cert.pem")
            .replace("privkey.pem", "key.pem")
            .replace("8443", &first)
            .replace("8444", &second)
            .replace("amber-falcon", &self.label);
        if line.contains("tok_a7pgws9t9jhg9wjr") {
            let listed = self.shell("workrail team token list --json").output().unwrap();
            let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
            let id = listed["tokens"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}"));
            line = line.replace("tok_a7pgws9t9jhg9wjr", id);
        }
        line
    }

    /// What a command prints that must succeed.
    fn printed(&self, line: &str) -> String {
        let ran = self.shell(line).stdin(Stdio::null()).output().unwrap();
        assert!(ran.status.success(), "`{line}`: {}", text_of(&ran));
        String::from_utf8(ran.stdout).unwrap()
    }
}

fn text_of(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

/// Below the range from which the system takes ports of its own, and unlike the page's ports.
fn free_ports() -> [u16; 3] {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + u16::try_from(std::process::id() % 4_000).unwrap() * 4;
    std::array::from_fn(|_| {
        loop {
            let port = start + TAKEN.fetch_add(1, Ordering::Relaxed);
            if !port.to_string().contains("844") && TcpListener::bind(("127.0.0.1", port)).is_ok() {
                break port;
            }
        }
    })
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/team.md")).unwrap()
}

/// One call of a tool through a server, as a client with a token makes it.
fn call(reader: &Reader, server: usize, tool: &str, arguments: &Value) -> Value {
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    });
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2025-06-18",
        "Authorization: Bearer $WORKRAIL_TOKEN",
    ];
    let headers: Vec<String> = headers.iter().map(|header| format!("-H \"{header}\"")).collect();
    fs::write(reader.home.project().join("message.json"), message.to_string()).unwrap();
    let port = reader.ports[server];
    let line = format!(
        "curl -sS --cacert cert.pem {} --data @message.json https://localhost:{port}/mcp",
        headers.join(" ")
    );
    let printed = reader.printed(&line);
    let answer: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    reply_data(&answer["result"]).clone()
}

/// Starts a run as an agent of this machine.
fn start_locally(reader: &Reader, goal: &str) -> Value {
    let mut home = reader.home.clone();
    for (name, value) in &reader.exported {
        home = home.with(name, value);
    }
    let mut client = home.client();
    let started = client.call("start_workflow", json!({ "workflowId": "wr.small_change", "goal": goal }));
    client.close();
    started.data
}

fn label(reply: &Value) -> String {
    reply["run"]["label"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

#[test]
fn figure_ten_minutes_of_the_team_guide() {
    let Some(mut reader) = Reader::new() else { return };
    // The page says so for a certificate that was made for a trial.
    reader.exported.insert("SSL_CERT_FILE".to_owned(), "cert.pem".to_owned());
    reader.follow(&chapter(&page(), TEN_MINUTES));
    println!("{} commands of the ten minutes of the team guide", reader.count);
    assert!(reader.count >= 13, "{}", reader.count);
    // A run that starts through one server continues through the other, under the token's name.
    let started =
        call(&reader, 0, "start_workflow", &json!({ "workflowId": "wr.small_change", "goal": "g" }));
    let next = with_own_words(&started["nextCall"]["arguments"]);
    let advanced = call(&reader, 1, "continue_workflow", &next);
    assert_eq!((&started["run"]["stepNumber"], &advanced["run"]["stepNumber"]), (&json!(1), &json!(2)));
    let log = reader.printed(&format!("workrail log {} --json", label(&started)));
    assert!(log.contains("\"ci-bot\""), "{log}");
}

#[test]
fn figure_the_rest_of_the_team_guide() {
    let Some(mut reader) = Reader::new() else { return };
    let page = page();
    let before = label(&start_locally(&reader, "before the database"));
    let setting_up = chapter(&page, "Set it up");
    let first_look = setting_up.iter().position(|block| block.text == "workrail session list").unwrap();
    reader.follow(&setting_up[..first_look]);
    reader.follow(&chapter(&page, "Copy your sessions"));
    reader.label = label(&start_locally(&reader, "in the database"));
    reader.follow(&setting_up[first_look..]);
    reader.follow(&chapter(&page, "Encrypt the signing keys"));
    reader.run(&Block { line: 0, language: String::new(), text: certificate(&page) });
    reader.follow(&chapter(&page, "One server for agents anywhere"));
    reader.follow(&chapter(&page, "Names and roles"));
    reader.follow(&chapter(&page, "Back up, restore, upgrade"));
    println!("{} commands of the other chapters of the team guide", reader.count);
    assert!(reader.count >= 20, "{}", reader.count);
    let address = reader.with_names_of_this_machine("postgres://workrail@localhost/workrail_restored");
    let restored = reader.printed(&format!("workrail session list --store {address}"));
    for label in [before, reader.label.clone()] {
        assert!(restored.contains(&label), "{label}: {restored}");
    }
}

#[test]
fn the_unit_of_the_guide_starts_a_server_with_options_that_exist() {
    let page = page();
    let (_, unit) = page.split_once("\nExecStart=/usr/local/bin/workrail ").unwrap();
    let command = unit.replace("\\\n", " ");
    let mut arguments: Vec<&str> = command.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(arguments[0], "serve");
    // An unknown option is refused before the help is shown.
    arguments.push("--help");
    assert_eq!(Home::new(env!("CARGO_BIN_EXE_workrail")).run(&arguments).code, 0, "{arguments:?}");
    arguments.insert(1, "--listen-on");
    assert_eq!(Home::new(env!("CARGO_BIN_EXE_workrail")).run(&arguments).code, 2, "{arguments:?}");
}

/// The command that makes the certificate of a trial.
fn certificate(page: &str) -> String {
    let ten = chapter(page, TEN_MINUTES);
    ten.into_iter().find(|block| block.text.starts_with("openssl req")).unwrap().text
}

#[test]
fn every_chapter_with_commands_is_followed() {
    let page = page();
    let mut heading = "";
    let mut with_commands = Vec::new();
    for line in page.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        if line.starts_with("$ ") && with_commands.last() != Some(&heading) {
            with_commands.push(heading);
        }
    }
    assert_eq!(with_commands, CHAPTERS);
}
