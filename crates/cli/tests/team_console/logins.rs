//! Logging in with a token, and being logged out (G125).

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;

use workrail_testkit::page;
use workrail_testkit::postgres::{Cluster, ROLE};

use crate::browser::{Answer, Browser, encoded};
use crate::{HOST, WaitingRun, home, secret, serve, token, waiting_run};

#[test]
fn a_token_logs_a_browser_in_and_revoking_it_logs_it_out() {
    let home = home();
    let server = serve(&home);
    let ada = token(&home, "ada", "approver");
    let nobody = Browser::default();
    let asked = nobody.get(&server, "/workflows");
    assert_eq!(asked.status, 401);
    assert_eq!(asked.field("back"), "/workflows", "the page that was asked for comes after the login");
    assert!(nobody.get(&server, "/assets/console.css").status == 200);
    for bad in ["", "x", &secret(&ada)[..20], &secret(&ada).to_uppercase()] {
        let refused = nobody.log_in(&server, bad);
        assert_eq!((refused.status, refused.header("set-cookie")), (401, None), "{bad}");
    }
    let form = vec![("access-token", secret(&ada).to_owned()), ("back", "/workflows".to_owned())];
    let answer = nobody.post(&server, "/login", &encoded(&form));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/workflows")));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(!cookie.contains(secret(&ada).split_once('.').unwrap().1), "the token itself is in no cookie");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=43200"), "{cookie}");

    let browser = Browser { cookie: cookie.split(';').next().unwrap().to_owned() };
    let page = browser.page(&server, "/");
    assert!(page.body.contains("ada (approver)"));
    let forged = [
        browser.cookie.replace("tok_", "tok_0"),
        format!("{}A", browser.cookie),
        browser.cookie.split_once('=').unwrap().0.to_owned() + "=",
    ];
    for cookie in forged {
        assert_eq!(Browser { cookie: cookie.clone() }.get(&server, "/").status, 401, "{cookie}");
    }
    let out = browser.post(&server, "/logout", &format!("token={}", page.field("token")));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"), "{out:?}");
    // The guide says so: no server keeps a list of logins.
    browser.page(&server, "/");

    home.done(&["team", "token", "revoke", ada["id"].as_str().unwrap()]);
    assert_eq!(browser.get(&server, "/").status, 401, "revoked");
    server.end("TERM");
}

#[test]
fn other_sites_cannot_use_a_login_nor_can_forms_without_its_token() {
    let home = home();
    let server = serve(&home);
    let ada = Browser::logged_in(&server, secret(&token(&home, "ada", "admin")));
    let bob = Browser::logged_in(&server, secret(&token(&home, "bob", "admin")));
    let own = ada.page(&server, "/").field("token");
    let post = |headers: &str, token: &str| {
        ada.send(&server, "POST", "/theme", headers, &format!("token={token}&theme=dark")).status
    };
    let origin = format!("Origin: https://{HOST}\r\n");
    assert_eq!(post(&origin, &own), 303);
    assert_eq!(post("", &own), 403, "no origin");
    assert_eq!(post("Origin: https://evil.example\r\n", &own), 403);
    assert_eq!(post(&format!("Origin: http://{HOST}\r\n"), &own), 403, "another scheme");
    assert_eq!(post(&format!("{origin}Sec-Fetch-Site: cross-site\r\n"), &own), 403);
    assert_eq!(post(&origin, ""), 403);
    assert_eq!(post(&origin, &bob.page(&server, "/").field("token")), 403, "the form of another login");
    let elsewhere = ada.send(&server, "GET", "/", &format!("Host: {}\r\n", server.address), "");
    assert_eq!(elsewhere.status, 403, "two names");
    server.end("TERM");
}

/// An open page does not outlive its visitor's permission to see it.
#[test]
fn the_stream_of_an_open_page_ends_with_its_login() {
    let home = home();
    let server = serve(&home);
    let made = token(&home, "ada", "viewer");
    let ada = Browser::logged_in(&server, secret(&made));
    let mut stream = ada.live(&server, "/");
    home.done(&["team", "token", "revoke", made["id"].as_str().unwrap()]);
    waiting_run(&home);
    let mut rest = String::new();
    // It must end on its own; otherwise this read times out.
    stream.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("Release it"), "{rest}");
    server.end("TERM");
}

/// Broke: it asked visitors to try again in a moment.
#[test]
fn a_server_with_damaged_access_tokens_says_who_can_help() {
    let home = home();
    let server = serve(&home);
    let ada = Browser::logged_in(&server, secret(&token(&home, "ada", "viewer")));
    std::fs::write(home.data().join("keys/access-tokens.json"), "{").unwrap();
    let refused = ada.get(&server, "/");
    assert!(refused.status == 503 && !refused.head.contains("retry-after"), "{refused:?}");
    let (_, message) = refused.body.split_once("role=\"alert\">").unwrap();
    let (message, _) = message.split_once("</p>").unwrap();
    assert_eq!(
        message,
        "This server cannot check tokens now. An administrator finds the cause with `workrail doctor` on the machine of \
         the server."
    );
    server.end("TERM");
}

/// Nothing about the server's machine is accessible, whatever the role.
#[test]
fn the_servers_machine_is_not_accessible_through_it() {
    let home = home();
    let server = serve(&home);
    let admin = Browser::logged_in(&server, secret(&token(&home, "root", "admin")));
    for path in ["/settings/sources", "/settings/clients", "/settings/health", "/settings/checks"] {
        let answer = admin.get(&server, path);
        assert_eq!(answer.status, 409, "{path}: {answer:?}");
    }
    let settings = admin.page(&server, "/settings").body;
    assert!(settings.contains("/settings/keys") && !settings.contains("/settings/health"), "{settings}");
    for (path, fields) in [
        ("/settings/set", &[("key", "log.filter"), ("value", "debug")][..]),
        ("/settings/sources/add", &[("kind", "folder"), ("path", "/")]),
        ("/workflows/team.gated/copy", &[("id", "my.copy")]),
        ("/settings/checks/trust", &[("checks", "sha256:0")]),
        ("/settings/checks/revoke", &[("check", "test")]),
    ] {
        let answer = admin.post(&server, path, &encoded(&admin.form(&server, fields)));
        assert_eq!(answer.status, 409, "{path}: {answer:?}");
    }
    assert!(!home.config().exists(), "no settings file was written");
    server.end("TERM");
}

/// One login is valid on all servers of a database, but not in another tenant.
#[test]
fn every_server_of_a_store_accepts_the_login_of_another() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let machine = |tenant: &str| home().with("WORKRAIL_STORE", cluster.address(&database, ROLE, tenant));
    let (one, two, others) = (machine("red"), machine("red"), machine("blue"));
    let (first, second, foreign) = (serve(&one), serve(&two), serve(&others));
    let ada = token(&one, "ada", "approver");
    token(&others, "ada", "approver");
    let browser = Browser::logged_in(&first, secret(&ada));
    let WaitingRun { run, label, .. } = waiting_run(&one);
    for server in [&first, &second] {
        assert!(browser.page(server, "/").body.contains(&label));
    }
    assert_eq!(browser.get(&foreign, "/").status, 401, "a login of another tenant");
    // The page of one server, with the form sent to the other.
    let form = browser.run_form(&first, &run);
    let approved = browser.post(&second, &format!("/run/{run}/approve"), &encoded(&form));
    assert_eq!(approved.status, 303, "{approved:?}");
    one.done(&["team", "token", "revoke", ada["id"].as_str().unwrap()]);
    for server in [&first, &second] {
        assert_eq!(browser.get(server, "/").status, 401);
    }
    for server in [first, second, foreign] {
        server.end("TERM");
    }
}

/// Strangers who log in while the store hangs take few lookups, and each gets an answer.
#[test]
fn strangers_who_log_in_while_the_store_hangs_are_sent_away_and_counted() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let home = home().with("WORKRAIL_STORE", cluster.address(&cluster.database(), ROLE, "red"));
    let server = serve(&home);
    let ada = token(&home, "ada", "viewer");
    let browser = Browser::logged_in(&server, secret(&ada));
    // Well formed, so that the store is asked: not every character can be the last one.
    let (front, last) = secret(&ada).split_at(secret(&ada).len() - 1);
    let numbered = |n: usize| format!("{}{n:02}{last}", &front[..front.len() - 2]);
    let forged = (0..).map(numbered).filter(|forged| forged != secret(&ada)).take(24);
    cluster.freeze();
    let answers: Vec<Answer> = thread::scope(|scope| {
        let (sender, answered) = channel();
        for token in forged {
            let (sender, server) = (sender.clone(), &server);
            scope.spawn(move || sender.send(Browser::default().log_in(server, &token)).unwrap());
        }
        drop(sender);
        // The first that is sent away; the others may be looked up.
        let first = answered.recv().unwrap();
        cluster.thaw();
        std::iter::once(first).chain(answered).collect()
    });
    let sent_away: Vec<_> =
        answers.iter().filter(|answer| answer.header("retry-after") == Some("1")).collect();
    assert!(!sent_away.is_empty(), "{answers:?}");
    for answer in &sent_away {
        assert_eq!(answer.status, 503);
    }
    let shown: BTreeSet<String> = sent_away.iter().map(|answer| page::words(&answer.body)).collect();
    insta::assert_snapshot!("too_many_visitors", Vec::from_iter(shown).join("\n\n"));
    for answer in answers.iter().filter(|answer| answer.header("retry-after") != Some("1")) {
        assert!([401, 503].contains(&answer.status), "{answer:?}");
    }
    browser.page(&server, "/");
    let bearer = format!("Authorization: Bearer {}\r\n", secret(&ada));
    let metrics = browser.send(&server, "GET", "/metrics", &bearer, "");
    let counted = format!("workrail_refused_total{{reason=\"unknown_tokens\"}} {}\n", sent_away.len());
    assert!(metrics.body.contains(&counted), "{counted} in {}", metrics.body);
    server.end("TERM");
}

/// The user of a machine also has a console on the team's database, with the printed code.
#[test]
fn a_machines_own_console_works_on_a_database() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let home = home().with("WORKRAIL_STORE", cluster.address(&database, ROLE, "red"));
    let WaitingRun { run, label, .. } = waiting_run(&home);
    let mut command = home.command(&["console", "--port", "0", "--no-open"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (port, code) = line
        .trim()
        .strip_prefix("Console: http://localhost:")
        .and_then(|rest| rest.split_once("/open?code="))
        .unwrap_or_else(|| panic!("{line}"));
    let ask = |path: &str, headers: &str, body: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let method = if body.is_empty() { "GET" } else { "POST" };
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let opened = ask(&format!("/open?code={code}"), "", "");
    let cookie = opened.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert!(ask("/", &cookie, "").contains(&label));
    let page = ask(&format!("/run/{run}"), &cookie, "");
    let field = |name: &str| {
        let rest = page.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let form = format!("token={}&seen={}", field("token"), field("seen"));
    let approved =
        ask(&format!("/run/{run}/approve"), &format!("{cookie}Origin: http://localhost:{port}\r\n"), &form);
    assert!(approved.starts_with("HTTP/1.1 303"), "{approved}");
    child.kill().unwrap();
    child.wait().unwrap();
    let log = home.done(&["log", &run, "--json"]).json();
    let decided =
        log["events"].as_array().unwrap().iter().find(|event| event["kind"] == "approval_recorded").unwrap();
    assert_eq!(
        decided["actor"]["role"],
        serde_json::Value::Null,
        "the user of the machine has no role: {decided}"
    );
    assert!(decided["actor"]["name"].is_string(), "{decided}");
}
