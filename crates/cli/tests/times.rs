//! Clock times through the real binary: users read them in their own time zone, documents have them in UTC.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "wording/mod.rs"]
mod wording;

use serde_json::json;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::with_own_words;

use wording::assert_text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// Five and a half hours ahead of UTC: the minutes distinguish an ignored zone from a clock that moved on.
const AHEAD: &str = "IST-5:30";
const AHEAD_MINUTES: i64 = 330;
const MINUTES_OF_A_DAY: i64 = 24 * 60;

/// A home with a closed run that has a completed step.
fn home() -> (Home, String) {
    let home = Home::new(PROGRAM);
    home.workflow(&json!({
        "id": "team.change", "name": "A change", "description": "Change something.", "version": "1.0.0",
        "steps": [
            { "id": "a", "title": "A", "prompt": "Do a." },
            { "id": "b", "title": "B", "prompt": "Do b." },
        ],
    }));
    let mut client = home.client();
    let started = client.call("start_workflow", json!({ "workflowId": "team.change", "goal": "a change" }));
    let call = &started.data["nextCall"];
    client.call(call["tool"].as_str().unwrap(), with_own_words(&call["arguments"]));
    let label = started.data["run"]["label"].as_str().unwrap().to_owned();
    home.done(&["close", &label, "--reason", "nobody needs it"]);
    (home, label)
}

/// The minute of the day of every `2026-01-31 23:59` in a text.
fn minutes(text: &str) -> Vec<i64> {
    let shape = |part: &[u8]| {
        part.iter().zip(b"0000-00-00 00:00").all(|(own, wanted)| match wanted {
            b'0' => own.is_ascii_digit(),
            other => own == other,
        })
    };
    let number = |part: &[u8]| std::str::from_utf8(part).unwrap().parse::<i64>().unwrap();
    text.as_bytes()
        .windows(16)
        .filter(|part| shape(part))
        .map(|part| number(&part[11..13]) * 60 + number(&part[14..16]))
        .collect()
}

fn assert_is_local(what: &str, utc: &str, local: &str) {
    let expected: Vec<i64> =
        minutes(utc).iter().map(|minute| (minute + AHEAD_MINUTES) % MINUTES_OF_A_DAY).collect();
    assert!(!expected.is_empty(), "{what} shows no time: {utc}");
    assert_eq!(minutes(local), expected, "{what}: {local}");
    assert!(!local.contains("UTC"), "{what}: {local}");
}

#[test]
fn users_read_times_in_their_own_zone() {
    let (home, run) = home();
    let (utc, local) = (home.with("TZ", "UTC0"), home.with("TZ", AHEAD));
    let shown = home.done(&["show", &run, "--json"]).json();
    let point = shown["report"]["runs"][0]["nodes"][0]["link"].as_str().unwrap().to_owned();
    let session = shown["report"]["sessionId"].as_str().unwrap().to_owned();
    for command in
        [&["show", &run][..], &["show", &point], &["log", &run], &["tree", &run], &["search", "change"]]
    {
        let name = command.join(" ");
        assert_is_local(&name, &utc.done(command).out, &local.done(command).out);
    }
    // The question before a deletion says when the session was last used; nothing is typed.
    let delete = ["session", "delete", &session];
    assert_is_local("session delete", &utc.typed(&delete, "").out, &local.typed(&delete, "").out);
    let report = ["report", &run];
    assert_is_local("report", &utc.typed(&report, "").out, &local.typed(&report, "").out);
    let paged = local.with("PAGER", "cat -").with("TERM", "xterm");
    assert_is_local("report in a pager", &utc.typed(&report, "").out, &paged.typed(&report, "").out);
}

#[test]
fn runs_to_resume_say_how_long_ago_they_were_used() {
    let (home, _) = home();
    let resumed = home.done(&["resume", "change"]).out;
    assert_text(&home, "resume_says_when", &resumed);
}

#[test]
fn documents_are_the_same_in_every_zone() {
    let (home, run) = home();
    let (utc, local) = (home.with("TZ", "UTC0"), home.with("TZ", AHEAD));
    for command in [
        &["report", &run][..],
        &["report", &run, "--format", "html"],
        &["report", &run, "--json"],
        &["show", &run, "--json"],
        &["log", &run, "--json"],
        &["tree", &run, "--json"],
    ] {
        assert_eq!(utc.done(command).out, local.done(command).out, "{command:?}");
    }
    utc.done(&["report", &run, "-o", "utc.md"]);
    local.typed(&["report", &run, "-o", "local.md"], "");
    let written = |name: &str| std::fs::read_to_string(home.project().join(name)).unwrap();
    assert_eq!(written("utc.md"), written("local.md"));
    assert_text(&home, "report_in_a_file", &written("local.md").replace(" UTC", " (UTC)"));
}
