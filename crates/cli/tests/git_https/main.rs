//! Git sources over https with a real server: certificates, the user's credential helpers, and a fix for every cause (G91).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use workrail_testkit::home::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/git_https/server.py");
const WORKFLOW: &str = r#"{"id":"shared.fix","name":"Fix","description":"d","version":"1.0.0","steps":[{"id":"a","title":"A","prompt":"Do."}]}"#;

/// A server that ends with the test, and its certificate.
struct Server {
    child: Child,
    port: u16,
    certificate: PathBuf,
}

impl Server {
    fn start(home: &Home) -> Self {
        let folder = home.root().join("server");
        let work = folder.join("work");
        fs::create_dir_all(work.join("flows")).unwrap();
        fs::write(work.join("flows/fix.json"), WORKFLOW).unwrap();
        let git = |arguments: &[&str]| home.git(&work, arguments);
        git(&["init", "--quiet", "--initial-branch=main"]);
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message=one"]);
        git(&["clone", "--quiet", "--bare", ".", "../repo"]);
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ]);
        openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
        run(openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate).stderr(Stdio::null()));
        let mut python = Command::new("python3");
        python.arg(SERVER).arg(&folder).arg(&certificate).arg(&key);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap(), certificate }
    }

    fn url(&self, name: &str) -> String {
        format!("https://localhost:{}/{name}.git", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

fn add(home: &Home, url: &str, more: &[&str]) {
    home.run(&["workflow", "sources", "remove", "team"]);
    home.done(&[&["workflow", "sources", "add", "git", "team", url], more].concat());
}

/// The reported failure of a fetch.
fn failure(home: &Home) -> (String, String) {
    let ran = home.run(&["workflow", "sources", "sync", "team", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let text = |name: &str| ran.json()["sources"][0][name].as_str().unwrap().to_owned();
    let health = home.run(&["workflow", "sources", "health", "--json"]).json();
    let git = health["sources"].as_array().unwrap().iter().find(|own| own["kind"] == "git").unwrap().clone();
    assert_eq!(git["problems"][0]["fix"], text("fix"), "health says the same");
    (text("problem"), text("fix"))
}

#[test]
fn a_private_repository_is_fetched_with_the_users_own_credential_helper() {
    let home = Home::new(PROGRAM);
    let server = Server::start(&home);
    let trusting = home.with("GIT_SSL_CAINFO", server.certificate.display().to_string());
    add(&trusting, &server.url("private"), &["--folder", "flows"]);
    let (problem, fix) = failure(&trusting);
    assert!(problem.contains("terminal prompts disabled"), "git never asks: {problem}");
    insta::assert_snapshot!(fix);
    let config = home.root().join("home/.gitconfig");
    home.write(&config, "[credential]\n\thelper = \"!f() { echo username=me; echo password=wrong; }; f\"\n");
    let (problem, _) = failure(&trusting);
    assert!(problem.contains("Authentication failed"), "{problem}");
    home.write(&config, "[credential]\n\thelper = \"!f() { echo username=me; echo password=secret; }; f\"\n");
    trusting.done(&["workflow", "sources", "sync", "team"]);
    assert_eq!(trusting.done(&["workflow", "inspect", "shared.fix", "--json"]).json()["name"], "Fix");
    // Only credentials are taken from the user's configuration: this would redirect the fetch.
    let elsewhere =
        "[url \"https://127.0.0.1:1/\"]\n\tinsteadOf = https://localhost\n[core]\n\tfsmonitor = /bin/false\n";
    let helper = fs::read_to_string(&config).unwrap();
    home.write(&config, &format!("{helper}{elsewhere}"));
    trusting.done(&["workflow", "sources", "sync", "team"]);
}

#[test]
fn every_cause_of_a_failed_fetch_has_its_fix() {
    let home = Home::new(PROGRAM);
    let server = Server::start(&home);
    let trusting = home.with("GIT_SSL_CAINFO", server.certificate.display().to_string());
    let mut told = Vec::new();
    let mut tell = |home: &Home, what: &str, url: &str, more: &[&str]| {
        add(home, url, more);
        let (_, fix) = failure(home);
        told.push(format!("{what}: {fix}"));
    };
    tell(&home, "certificate", &server.url("open"), &[]);
    tell(&trusting, "401", &server.url("private"), &[]);
    tell(&trusting, "403", &server.url("forbidden"), &[]);
    tell(&trusting, "404", &server.url("missing"), &[]);
    tell(&trusting, "unknown ref", &server.url("open"), &["--ref", "mian"]);
    tell(&trusting, "folder", &server.url("open"), &["--folder", "flwos"]);
    tell(&trusting, "DNS", "https://no-such-host.invalid/x.git", &[]);
    tell(&trusting, "refused", "https://localhost:1/x.git", &[]);
    insta::assert_snapshot!(told.join("\n"));
}
