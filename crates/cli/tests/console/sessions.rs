//! Lists, sessions, and actions on them.

use serde_json::json;

use crate::harness::{Console, actions, home, next, offers, run_id, session_id, start};
use crate::wording::assert_text;

#[test]
fn damaged_sessions_are_shown_with_their_problem() {
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
    for (name, session) in [("tail", session_id(&tail)), ("head", session_id(&head))] {
        assert!(now.contains(&format!("/session/{session}")), "{now}");
        let page = console.page(&format!("/session/{session}"));
        assert_text(&home, &format!("console_session_with_a_damaged_{name}"), &page.words());
    }
    // Nothing can be decided there.
    let run = console.page(&format!("/run/{}", run_id(&tail)));
    assert_text(&home, "console_run_in_a_damaged_session", &run.words());
    assert_eq!(console.get(&format!("/run/{}", run_id(&head))).status, 404);
}

/// The addresses that a page links to, except its own anchors.
fn links(page: &str) -> Vec<String> {
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    links.filter(|link| link.starts_with('/')).map(|link| link.replace("&amp;", "&")).collect()
}

#[test]
fn a_run_in_a_damaged_session_is_marked_everywhere_and_offers_only_what_works() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Damaged later");
    next(&mut client, &first);
    let (session, run) = (session_id(&first), run_id(&first));
    // A second run in the session, so that there is a timeline.
    let inside =
        json!({ "workflowId": "team.plain", "goal": "Inner", "sessionToken": first.data["run"]["label"] });
    client.call("start_workflow", inside);
    client.close();
    let events = home.data().join("sessions").join(&session).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(&events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    std::fs::write(segments.last().unwrap(), "damaged\n").unwrap();
    let console = Console::open(&home);
    let badge = "<span class=\"chip bad\">damaged";
    for path in ["/".to_owned(), format!("/session/{session}"), format!("/run/{run}")] {
        let page = console.page(&path).body;
        assert!(page.contains(badge), "{path}: {page}");
        for state in ["waits for a person", "in progress", "blocked"] {
            assert!(!page.contains(&format!("chip bad\">{state}<")), "{path}: {page}");
            assert!(!page.contains(&format!("chip quiet\">{state}<")), "{path}: {page}");
        }
        for link in links(&page) {
            assert_eq!(console.get(&link).status, 200, "{path} leads to {link}");
        }
    }
    let kept_or_deleted =
        ["keep", "delete", "delete-now"].map(|action| format!("/session/{session}/{action}"));
    for path in [format!("/session/{session}"), format!("/run/{run}")] {
        let page = console.page(&path);
        assert_eq!(actions(&page.body), kept_or_deleted, "{path}");
        let token = page.field("token");
        assert_eq!(console.post(&kept_or_deleted[0], &format!("token={token}")).status, 303, "{path}");
        assert_eq!(
            console.post(&format!("/session/{session}/unkeep"), &format!("token={token}")).status,
            303
        );
    }
}

#[test]
fn a_session_is_kept_and_deleted_whatever_its_runs_are_doing() {
    let home = home();
    let mut client = home.client();
    let waiting = start(&mut client, "team.gated", "Waits");
    next(&mut client, &waiting);
    let running = start(&mut client, "team.plain", "Runs");
    let closed = start(&mut client, "team.plain", "Closed");
    home.done(&["close", closed.data["run"]["label"].as_str().unwrap(), "--reason", "not needed"]);
    let console = Console::open(&home);
    let token = format!("token={}", console.page("/").field("token"));
    for own in [&waiting, &running, &closed] {
        let (session, run) = (session_id(own), run_id(own));
        let of_session = |path: &str| {
            let all = actions(&console.page(path).body);
            let own = all
                .into_iter()
                .filter_map(|action| action.strip_prefix(&format!("/session/{session}/")).map(str::to_owned));
            own.collect::<Vec<_>>()
        };
        for path in ["/".to_owned(), format!("/run/{run}")] {
            let offered = of_session(&path);
            assert!(offered.contains(&"keep".to_owned()), "{path}: {offered:?}");
            assert!(offered.contains(&"delete".to_owned()), "{path}: {offered:?}");
        }
        assert_eq!(console.post(&format!("/session/{session}/keep"), &token).status, 303);
        for path in ["/".to_owned(), format!("/run/{run}")] {
            assert_eq!(of_session(&path), ["unkeep"], "{path}: what is kept is not deleted");
        }
    }
}

#[test]
fn words_without_a_result_stay_in_the_search_field() {
    let home = home();
    let console = Console::open(&home);
    assert_text(&home, "console_search_without_a_word", &console.page("/search?q=.").words());
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
    assert!(offers(&console.page(&format!("/session/{session}")).body, "unkeep"));
    assert_eq!(post("unkeep", "").status, 303);

    let events = page.field("events");
    let delete = |more: &str| post("delete-now", more).status;
    assert_eq!(delete(&format!("&events={events}&typed=yes")), 409, "the label is typed");
    assert_eq!(delete(&format!("&events=1&typed={session}")), 409, "what was seen is deleted");
    assert_eq!(console.get(&format!("/session/{session}")).status, 200, "nothing was deleted");
    assert_eq!(delete(&format!("&events={events}&typed={session}")), 303);
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
    // Longer than what a random id can contain by chance.
    assert_text(&home, "console_list_without_matches", &console.page("/?q=nothing-like-this").words());
    assert_eq!(cards("/?status=needs_me&workspace=unknown"), 20, "the project is not a repository");
    assert_eq!(cards("/?status=needs_me&workspace=here"), 0);
    assert_eq!(cards("/?status=needs_me&tag=coding"), 0);
    assert_eq!(cards("/?workflow=team.asking"), 0);
    assert_text(&home, "console_list_of_a_workflow", &console.page("/?workflow=team.asking").words());
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

#[test]
fn a_deletion_can_be_undone_before_it_is_carried_out() {
    let home = home();
    let mut client = home.client();
    let (kept, gone) = (start(&mut client, "team.gated", "Stays"), start(&mut client, "team.gated", "Goes"));
    let console = Console::open(&home);
    let token = console.page("/").field("token");
    let post = |session: &str, action: &str| {
        console.post(&format!("/session/{session}/{action}"), &format!("token={token}"))
    };
    let mut live = console.live("/");
    for session in [session_id(&kept), session_id(&gone)] {
        assert_eq!(post(&session, "delete").header("location"), Some("/?done=held"));
        let page = console.page("/").body;
        assert!(page.contains(&format!("/session/{session}/undo")), "{page}");
    }
    assert!(!console.page("/").body.contains("Goes"), "it is no longer listed");
    assert_eq!(
        console.get(&format!("/session/{}", session_id(&gone))).status,
        200,
        "nothing happened to it yet"
    );
    assert_eq!(post(&session_id(&kept), "undo").header("location"), Some("/?done=undone"));
    assert_eq!(post(&session_id(&kept), "undo").status, 409, "there is nothing to undo any more");
    // The banner disappears when the deletion is done.
    live.part("held", |html| offers(html, "undo"));
    live.part("held", |html| !offers(html, "undo"));
    assert_eq!(console.get(&format!("/session/{}", session_id(&gone))).status, 404);
    assert_eq!(console.get(&format!("/session/{}", session_id(&kept))).status, 200);
}

#[test]
fn a_session_written_to_while_its_deletion_is_held_is_kept() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Still used");
    let console = Console::open(&home);
    let session = session_id(&first);
    let token = console.page("/").field("token");
    let mut live = console.live("/");
    assert_eq!(console.post(&format!("/session/{session}/delete"), &format!("token={token}")).status, 303);
    next(&mut client, &first);
    // A refused deletion has this button; the page's text is compared below.
    live.part("held", |html| html.contains(">Dismiss<"));
    assert_eq!(console.get(&format!("/session/{session}")).status, 200);
    assert_text(&home, "console_after_a_deletion_that_failed", &console.page("/").words());
}

#[test]
fn a_path_shows_skipped_steps_and_folds_finished_rounds() {
    let home = home();
    home.workflow(&json!({
        "id": "team.loop", "name": "Loop", "description": "Repeats.", "version": "1.0.0",
        "steps": [
            { "id": "design", "title": "Design it", "prompt": "Design.", "runCondition": { "var": "size", "equals": "large" } },
            { "id": "rounds", "type": "loop", "title": "Rounds",
              "loop": { "type": "for", "count": 5, "maxIterations": 5 },
              "body": [
                { "id": "do", "title": "Do it", "prompt": "Do." },
                { "id": "check", "title": "Check it", "prompt": "Check." },
              ] },
            { "id": "end", "title": "End", "prompt": "End." },
        ],
    }));
    let mut client = home.client();
    let mut reply = start(&mut client, "team.loop", "Repeat");
    for _ in 0..9 {
        reply = next(&mut client, &reply);
    }
    let console = Console::open(&home);
    let path = format!("/run/{}", run_id(&reply));
    assert_text(&home, "console_path_with_folded_rounds", &console.page(&path).words());
    let page = console.page(&path).body;
    assert_eq!(page.matches("class=\"bracket\"").count(), 1, "{page}");
    let points = |body: &str| body.matches("<circle class=\"passed\"").count();
    let open = console.page(&format!("{path}?open=all")).body;
    assert_eq!((points(&page), points(&open)), (1, 9), "{open}");
    // A missing point is not an error.
    console.page(&format!("{path}?node=node_0000000000000000"));
}

#[test]
fn a_complete_run_offers_nothing_to_continue() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.plain", "Finish");
    let console = Console::open(&home);
    let path = format!("/run/{}", run_id(&first));
    assert_text(&home, "console_started_run", &console.page(&path).words());
    let done = next(&mut client, &first);
    assert_eq!(done.data["isComplete"], true, "{}", done.data);
    assert_text(&home, "console_complete_run", &console.page(&path).words());
}

#[test]
fn a_run_page_reads_only_the_notes_of_the_point_it_shows() {
    let home = home();
    let mut client = home.client();
    let first = client.call("start_workflow", json!({ "workflowId": "team.plain" }));
    let long = "A long paragraph. ".repeat(1000);
    let arguments = json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": long } });
    let second = client.call("continue_workflow", arguments);
    let run = second.data["run"]["runId"].as_str().unwrap();
    let console = Console::open(&home);
    let page = console.page(&format!("/run/{run}")).body;
    let root = page.split("?node=").nth(1).and_then(|rest| rest.split(['#', '"', '&']).next()).unwrap();
    let at_root = format!("/run/{run}?node={root}");
    assert!(console.page(&at_root).body.matches("A long paragraph.").count() >= 1000);
    // The whole text is a separate file: what is not shown is not read.
    for entry in std::fs::read_dir(home.data().join("blobs")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let console = Console::open(&home);
    let elsewhere = console.page(&format!("/run/{run}"));
    assert_text(&home, "console_point_without_the_notes_that_are_gone", &elsewhere.words());
    assert_text(&home, "console_point_whose_notes_are_gone", &console.page(&at_root).words());
}
