//! Secrets of a team are never shown: the key that encrypts the signing keys, and access tokens (G103, G113, G119).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::team::{
    Team, access_token, advance, call_server, secret, session_of, start, token, tool_request,
};
use workrail_testkit::wire::{Http, initialize};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The text that would show the key: any half of it.
fn key_parts(key: &str) -> Vec<String> {
    let text = key.trim_end_matches('=');
    let (first, second) = text.split_at(text.len() / 2);
    let bytes = (0..32).map(|byte: u8| format!("{byte:02x}")).collect::<String>();
    let listed = (8..16).map(|byte: u8| byte.to_string()).collect::<Vec<_>>().join(", ");
    vec![first.to_owned(), second.to_owned(), bytes[16..48].to_owned(), listed]
}

/// Both parts of a token are unguessable, but only the part after the dot is secret.
fn secret_part(token: &str) -> &str {
    token.split_once('.').unwrap().1
}

fn assert_hidden(texts: &[String], secrets: &[String]) {
    for text in texts {
        for secret in secrets {
            assert!(!text.contains(secret.as_str()), "{secret} in {text}");
        }
    }
}

/// What commands print that say something about the store, its keys or its sessions.
fn shown_by_commands(machine: &Home) -> Vec<String> {
    let commands: [&[&str]; 10] = [
        &["doctor"],
        &["doctor", "--json"],
        &["config", "list"],
        &["config", "list", "--json"],
        &["session", "list", "--json"],
        &["store", "verify"],
        &["store", "keys", "show"],
        &["store", "keys", "new"],
        &["team", "token", "list", "--json"],
        &["store", "gc", "--dry-run"],
    ];
    commands.iter().flat_map(|arguments| <[String; 2]>::from(printed(machine, arguments))).collect()
}

fn printed(machine: &Home, arguments: &[&str]) -> (String, String) {
    let ran = machine.run(arguments);
    (ran.out, ran.err)
}

fn exported(machine: &Home, session: &str) -> String {
    let path = machine.project().join("exported.json");
    machine.done(&["session", "export", session, "-o", path.to_str().unwrap(), "--force"]);
    fs::read_to_string(path).unwrap()
}

/// The text of every file beneath a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.flat_map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()],
    });
    texts.collect()
}

fn private_file(machine: &Home, name: &str, text: &str) -> String {
    let path = machine.home().join(name);
    machine.write(&path, text);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// G119: from the environment and from private files; right, wrong and malformed.
#[test]
fn the_key_of_the_signing_keys_is_used_and_never_shown() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let plain = team.machine().with("WORKRAIL_LOG", "trace");
    let by_variable = plain.with("WORKRAIL_STORE_KEY", KEY);
    let file = private_file(&plain, "store-key", &format!("{KEY}\n"));
    let by_address = plain.with("WORKRAIL_STORE", format!("{}&key_file={file}", team.address()));
    let by_file = plain.with("WORKRAIL_STORE_KEY_FILE", &file);

    let mut client = by_variable.server().unwrap();
    let mut reply = start(&plain, &mut client, "repair the teapot");
    let session = session_of(&reply);
    let (_, mut shown) = {
        let (status, log) = client.end();
        (status, vec![log])
    };
    for machine in [&by_variable, &by_address, &by_file] {
        let mut client = machine.server().unwrap();
        reply = advance(&mut client, &reply, "the spout is cracked");
        shown.extend([reply.raw.clone(), client.end().1]);
        shown.push(exported(machine, &session));
        shown.extend(shown_by_commands(machine));
    }
    assert!(shown.iter().any(|text| text.contains("TRACE")), "nothing was logged");

    let other = KEY.replacen("CQoL", "CQoM", 1);
    let bad = [
        plain.with("WORKRAIL_STORE_KEY", &other),
        plain.with("WORKRAIL_STORE_KEY", format!("{KEY}{KEY}")),
        plain.with("WORKRAIL_STORE_KEY", &KEY[..30]),
        plain.with("WORKRAIL_STORE_KEY_FILE", private_file(&plain, "other", &other)),
        plain.with("WORKRAIL_STORE_KEY_FILE", private_file(&plain, "long", &format!("key={KEY}"))),
        plain.with("WORKRAIL_STORE_KEY_FILE", KEY),
        plain.with("WORKRAIL_STORE", format!("{}&key={KEY}", team.address())),
        plain.with("WORKRAIL_STORE", format!("{}&store_key={KEY}", team.address())),
    ];
    for machine in &bad {
        let (out, err) = printed(machine, &["store", "keys", "rotate", "--yes"]);
        assert!(out.is_empty() && !err.is_empty(), "{out}{err}");
        shown.extend([out, err]);
        shown.extend(shown_by_commands(machine));
        if let Ok(mut client) = machine.server() {
            let refused = client.call("continue_workflow", reply.ack("glued"));
            assert!(refused.is_error, "{}", refused.text);
            shown.extend([refused.raw, client.end().1]);
        }
    }
    shown.push(String::from_utf8_lossy(&team.cluster.dump(&team.database)).into_owned());
    shown.extend(files(&plain.data()));
    assert_hidden(&shown, &key_parts(KEY));
    // The run goes on, so that all of this was about the key in use.
    advance(&mut by_file.client(), &reply, "glued");
}

/// Every request that carries a token somewhere, with the texts that the server answers.
fn requests_with(server: &Http, token: &str) -> Vec<String> {
    let (headers, body) = tool_request(token, "list_workflows", &json!({}));
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let post = |headers: &str, body: &str| server.post(headers, body);
    let get = |path: &str, headers: &str| {
        server.exchange(&format!("GET {path} HTTP/1.1\r\nHost: {{address}}\r\n{headers}"), b"")
    };
    let form = format!("access-token={token}&back=%2Fworkflows");
    let log_in = "POST /login HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
                  Content-Type: application/x-www-form-urlencoded\r\n";
    let answers = [
        post(&headers, &body),
        post(&format!("{bearer}{headers}"), &body),
        post(&headers.replace("Bearer", "Basic"), &body),
        post(&headers, "{"),
        post(&headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": token }).to_string()),
        post(&bearer, &initialize(1, "2025-11-25").to_string()),
        get("/metrics", &bearer),
        get("/whoami", &bearer),
        get("/mcp", &bearer),
        get("/readyz", &bearer),
        get("/", &format!("Cookie: workrail={token}\r\n")),
        server.exchange(log_in, form.as_bytes()),
        server.exchange(log_in, form.replace("access-token", "token").as_bytes()),
    ];
    // The one about an unknown method quotes what was sent.
    let quoted = 4;
    let answers = answers.into_iter().enumerate().filter(|(at, _)| *at != quoted);
    answers.map(|(_, answer)| format!("{}\n{}", answer.head, answer.body)).collect()
}

/// G113: accepted, revoked, malformed and of another store, at every level of the log.
#[test]
fn access_tokens_are_shown_once_and_are_in_no_log_answer_record_or_bundle() {
    for level in ["debug", "trace"] {
        let home = Home::new(PROGRAM).with("WORKRAIL_LOG", level);
        let arguments = ["serve", "--listen", "127.0.0.1:0"];
        let (server, log) = Http::of_command_with_log(home.command(&arguments).stdin(Stdio::null()));
        let good = access_token(&home, "ada", "agent");
        let revoked = token(&home, "bob", "admin");
        home.done(&["team", "token", "revoke", revoked["id"].as_str().unwrap()]);
        let foreign = access_token(&Home::new(PROGRAM), "eve", "agent");
        let altered = format!("{good}x");
        let mut shown = Vec::new();
        for token in [&good, secret(&revoked), &foreign, &altered] {
            shown.extend(requests_with(&server, token));
        }
        assert!(
            shown
                .iter()
                .any(|answer| answer.starts_with("HTTP/1.1 200") || answer.starts_with("http/1.1 200"))
        );
        let arguments: Value = json!({ "workflowId": "wr.small_change", "goal": "repair the teapot" });
        let first = call_server(&server, &good, "start_workflow", &arguments);
        let refused = call_server(&server, &good, "continue_workflow", &json!({ "ackToken": "ack.v2.x" }));
        shown.extend([first.raw.clone(), refused.raw]);
        shown.push(exported(&home, &session_of(&first)));
        shown.extend(shown_by_commands(&home));
        for mistaken in [&good, secret(&revoked)] {
            for arguments in [["team", "token", "revoke", mistaken], ["team", "token", "create", mistaken]] {
                shown.extend(<[String; 2]>::from(printed(&home, &arguments)));
            }
        }
        assert!(server.end("TERM").success());
        let log = log.join().unwrap();
        assert!(log.contains("a request was refused") && log.contains("DEBUG"), "{log}");
        shown.push(log);
        shown.extend(files(&home.data()));
        let secrets = [&good, secret(&revoked), &foreign].map(|token| secret_part(token).to_owned());
        assert_hidden(&shown, &secrets);
    }
}
