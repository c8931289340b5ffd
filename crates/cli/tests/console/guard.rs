//! Which requests are answered, and what pages may load and run (G94).

use serde_json::{Value, json};
use workrail_testkit::mcp_client::with_own_words;

use crate::harness::{Console, HOSTILE, home, next, pages, run_id, session_id, start};
use crate::wording::assert_text;

#[test]
fn a_code_admits_one_browser_and_is_used_up() {
    let home = home();
    let console = Console::start(&home);
    let stranger = console.request("GET", "/", &[], "");
    assert_eq!(stranger.status, 401);
    assert_text(&home, "console_for_a_stranger", &stranger.words());
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
fn only_the_users_own_browser_on_the_consoles_own_pages_is_admitted() {
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
    for path in
        ["/", "/settings", "/settings/keys", "/workflows/wr.small_change", "/assets/console.js", "/live/"]
    {
        for (method, what, headers, expected) in &table {
            // The stream of a page does not end on its own.
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
fn every_form_needs_the_token_and_the_consoles_own_page() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let (run, session) = (run_id(&first), session_id(&first));
    let console = Console::open(&home);
    let own = format!("http://{}", console.host());
    let token = console.page("/").field("token");
    let of_run = ["approve", "reject", "answer", "close"].map(|action| format!("/run/{run}/{action}"));
    let of_session = ["keep", "unkeep", "delete", "undo", "delete-now", "prefer"];
    let of_session = of_session.map(|action| format!("/session/{session}/{action}"));
    let others = ["/theme", "/import", "/settings/set", "/settings/cleanup", "/settings/keys/rotate"];
    let checks = ["trust", "revoke"].map(|action| format!("/settings/checks/{action}"));
    let sources = ["add", "remove", "sync"].map(|action| format!("/settings/sources/{action}"));
    let paths =
        of_run.into_iter().chain(of_session).chain(others.map(str::to_owned)).chain(sources).chain(checks);
    for path in paths.chain(["/workflows/wr.small_change/copy".to_owned()]) {
        let cookie = ("Cookie", console.cookie.as_str());
        for (what, headers, body) in [
            ("no token", vec![cookie, ("Origin", own.as_str())], "typed=delete".to_owned()),
            ("a foreign page", vec![cookie, ("Origin", "http://evil.example")], format!("token={token}")),
            ("no cookie", vec![("Origin", own.as_str())], format!("token={token}")),
        ] {
            let answer = console.request("POST", &path, &headers, &body);
            assert!(matches!(answer.status, 401 | 403), "{path}, {what}: {answer:?}");
        }
    }
    assert_eq!(console.get(&format!("/session/{session}")).status, 200, "nothing happened");
}

#[test]
fn another_local_page_cannot_lock_the_user_out_with_a_cookie() {
    let home = home();
    let console = Console::open(&home);
    let tossed = format!("workrail-console-{}=x; {}", console.port, console.cookie);
    assert_eq!(console.request("GET", "/", &[("Cookie", &tossed)], "").status, 200);
}

#[test]
fn a_link_from_another_site_leads_to_a_page_with_a_link() {
    let home = home();
    let console = Console::open(&home);
    let headers = [("Cookie", console.cookie.as_str()), ("Sec-Fetch-Site", "cross-site")];
    let refused = console.request("GET", "/settings?x=%22%3E", &headers, "");
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("<a href=\"/settings\">Open the page</a>"), "{}", refused.body);
    let nowhere = console.request("GET", "//evil.example/", &headers, "");
    assert!(!nowhere.body.contains("evil"), "{}", nowhere.body);
}

#[test]
fn only_the_consoles_own_files_are_loaded_or_run() {
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

#[test]
fn an_agents_text_is_shown_as_text_on_every_page() {
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
    let mut call = with_own_words(&first.data["nextCall"]["arguments"]);
    call["output"]["notesMarkdown"] =
        Value::from(format!("Notes words {HOSTILE}\n\n[x](javascript:alert(3))"));
    call["output"]["artifacts"] = json!([{ "kind": "team.odd", "value": HOSTILE }]);
    call["context"] = json!({ "odd": HOSTILE });
    let blocked = client.call("continue_workflow", call);
    assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.data);
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
fn no_address_leads_to_a_file_or_a_missing_page() {
    let home = home();
    let console = Console::open(&home);
    for path in [
        "/../../etc/passwd",
        "/assets/../../Cargo.toml",
        "/assets/other.js",
        "/session/..%2F..%2Fkeys",
        "/session/sess_0000000000000000/../../keys/http-secret",
        "/run/%2e%2e",
        "/settings/..%2Fkeys",
        "/settings/keys/../../keys/keyring.json",
        "/livexyz/settings",
        "/assets/..%2F..%2Fkeys%2Fkeyring.json",
        "/workflows/..%2f..%2fx",
        "/live/nothing",
    ] {
        let answer = console.get(path);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
}
