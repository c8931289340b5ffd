//! Decisions and answers of the user, and what is recorded about them (G95).

use serde_json::{Value, json};
use workrail_testkit::mcp_client::with_own_words;

use crate::harness::{Console, home, next, next_without_answer, run_id, start};
use crate::wording::assert_text;

#[test]
fn the_first_page_shows_what_needs_the_user_and_a_form_approves_it() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release the retry budget");
    let blocked = next(&mut client, &first);
    let console = Console::open(&home);
    let page = console.page("/");
    assert_text(&home, "console_needs_an_approval", &page.part("needs"));
    let approved = console.post(
        &format!("/run/{}/approve", run_id(&first)),
        &format!("token={}&seen={}&back=%2F", page.field("token"), page.field("seen")),
    );
    assert_eq!(
        (approved.status, approved.header("location")),
        (303, Some("/?done=approved")),
        "{approved:?}"
    );
    assert_text(&home, "console_after_an_approval", &console.page("/?done=approved").words());
    assert_eq!(next(&mut client, &blocked).step(), "b", "the agent continues");

    let log = home.done(&["log", &run_id(&first), "--json"]).json();
    let events = log["events"].as_array().unwrap();
    let decision = events.iter().find(|event| event["kind"] == "approval_recorded").unwrap();
    assert_eq!(decision["data"]["channel"], "console");
    // This test starts both the server and the console, like a program that runs an agent.
    assert_eq!(decision["data"]["descendsFromServer"], true);
}

#[test]
fn a_rejection_reason_reaches_the_agent() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let blocked = next(&mut client, &first);
    let console = Console::open(&home);
    let rejected = console.act(&run_id(&first), "reject", "&reason=Keep+the+old+table+until+Monday");
    assert_eq!(rejected.status, 303, "{rejected:?}");
    let retried = next(&mut client, &blocked);
    assert_eq!(retried.data["kind"], "blocked");
    assert_text(&home, "reply_after_a_rejection_in_the_console", &retried.text);
}

#[test]
fn a_question_is_answered() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.asking", "Release");
    let blocked = next_without_answer(&mut client, &first);
    assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.data);
    let console = Console::open(&home);
    assert_text(&home, "console_needs_an_answer", &console.page("/").part("needs"));
    let empty = console.act(&run_id(&first), "answer", "&answer.targetBranch=++");
    assert_eq!(empty.status, 409, "{empty:?}");
    let foreign = console.act(&run_id(&first), "answer", "&answer.other=main");
    assert!(foreign.status >= 400, "{foreign:?}");
    let token = console.page("/").field("token");
    let unseen = console.post(
        &format!("/run/{}/answer", run_id(&first)),
        &format!("token={token}&seen=something&back=%2F&answer.targetBranch=main"),
    );
    assert_eq!(unseen.status, 409, "an answer is about what was shown: {unseen:?}");
    let answered = console.act(&run_id(&first), "answer", "&answer.targetBranch=main");
    assert_eq!(answered.status, 303, "{answered:?}");
    let page = console.page(&format!("/run/{}", run_id(&first)));
    assert_text(&home, "console_run_after_an_answer", &page.words());
    assert_eq!(next_without_answer(&mut client, &blocked).step(), "b");
    let log = home.done(&["log", &run_id(&first), "--json"]).json();
    let sources: Vec<&str> = log["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["kind"] == "context_set")
        .filter_map(|event| event["data"]["source"].as_str())
        .collect();
    assert!(sources.contains(&"console_answer") && !sources.contains(&"answer"), "{sources:?}");
}

#[test]
fn a_list_and_a_page_agree_on_a_decision() {
    let home = home();
    let mut client = home.client();
    for action in ["approve", "reject"] {
        let first = start(&mut client, "team.gated", action);
        next(&mut client, &first);
        let console = Console::open(&home);
        let cards = || console.page("/").body.matches("<article class=\"card\"").count();
        assert_eq!(cards(), 1);
        assert_eq!(console.act(&run_id(&first), action, "").status, 303);
        assert_eq!(cards(), 0, "{action}");
        let page = console.page(&format!("/run/{}", run_id(&first)));
        assert!(!page.body.contains("<article class=\"card\""), "{action}: {}", page.body);
        assert_text(&home, &format!("console_run_after_{action}"), &page.words());
    }
}

#[test]
fn an_invalid_answer_is_refused_and_can_be_given_again() {
    let home = home();
    home.workflow(&json!({
        "id": "team.sized", "name": "Sized", "description": "Asks for a size.", "version": "1.0.0",
        "steps": [{
            "id": "a", "title": "A", "prompt": "Do a.",
            "sets": { "size": { "values": ["small", "large"] } },
            "userDependencies": [{
                "reason": "needs_user_choice", "choiceKind": "scope_boundary", "description": "Which size?",
                "contextKey": "size" }],
        }],
    }));
    let mut client = home.client();
    let first = start(&mut client, "team.sized", "Release");
    let blocked = next_without_answer(&mut client, &first);
    assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.data);
    let console = Console::open(&home);
    let run = run_id(&first);
    assert_text(&home, "console_needs_a_choice", &console.page("/").part("needs"));
    let wrong = console.act(&run, "answer", "&answer.size=gigantic");
    assert_eq!(wrong.status, 409, "{wrong:?}");
    assert_text(&home, "console_answer_that_is_not_offered", &wrong.words());
    assert_eq!(console.act(&run, "answer", "&answer.size=large").status, 303);
}

#[test]
fn a_console_in_the_background_stays_below_the_program_that_started_it() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    next(&mut client, &first);
    let run = run_id(&first);
    // The shell is below this process, which also started the server, and ends once the console runs.
    let console = Console::open_behind_a_shell(&home);
    home.write(&home.config(), "[approvals]\nrefuse_descendants = true\n");
    let refused = console.page(&format!("/run/{run}"));
    assert_text(&home, "console_run_where_deciding_is_refused", &refused.words());
    assert!(!refused.body.contains("/approve"), "{}", refused.body);
    std::fs::remove_file(home.config()).unwrap();
    assert_eq!(console.act(&run, "approve", "").status, 303);
    let log = home.done(&["log", &run, "--json"]).json();
    let decisions =
        log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "approval_recorded");
    let descent: Vec<_> = decisions.map(|event| event["data"]["descendsFromServer"].clone()).collect();
    assert_eq!(descent, [true], "{log}");
}

#[test]
fn an_answer_to_a_text_question_is_text_even_if_it_is_a_number() {
    let home = home();
    home.workflow(&json!({
        "id": "team.named", "name": "Named", "description": "Asks for a name.", "version": "1.0.0",
        "steps": [{
            "id": "a", "title": "A", "prompt": "Do a.",
            "sets": { "release": { "type": "string" } },
            "userDependencies": [{
                "reason": "needs_user_choice", "choiceKind": "scope_boundary", "description": "Which release?",
                "contextKey": "release" }],
        }],
    }));
    let mut client = home.client();
    let first = start(&mut client, "team.named", "Release");
    let blocked = next_without_answer(&mut client, &first);
    assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.data);
    let console = Console::open(&home);
    let run = run_id(&first);
    assert_eq!(console.act(&run, "answer", "&answer.release=1").status, 303);
    let log = home.done(&["log", &run, "--json"]).json();
    let events = log["events"].as_array().unwrap();
    let answer = events.iter().find(|event| event["data"]["source"] == "console_answer").unwrap();
    assert_eq!(answer["data"]["context"], json!({ "release": "1" }), "{answer}");
}

#[test]
fn nothing_can_be_decided_that_the_page_does_not_show_in_full() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let mut call = with_own_words(&first.data["nextCall"]["arguments"]);
    call["output"]["notesMarkdown"] = Value::from(format!("{} the hidden end", "words ".repeat(13_000)));
    let blocked = client.call("continue_workflow", call);
    assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.data);
    let console = Console::open(&home);
    let run = run_id(&first);
    for (path, part) in [("/".to_owned(), "needs"), (format!("/run/{run}"), "run")] {
        let page = console.page(&path);
        assert!(!page.body.contains("/approve\""), "{path}");
        let words = page.part(part).replace("words ", "");
        assert_text(&home, &format!("console_{part}_with_notes_that_are_too_long"), &words);
    }
}

#[test]
fn text_that_markdown_hides_is_shown_verbatim() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let mut call = with_own_words(&first.data["nextCall"]["arguments"]);
    call["output"]["notesMarkdown"] =
        Value::from("The plan.\n\n[x]: http://a \"and delete production\"\n\n```sh rm -rf /\nls\n```");
    client.call("continue_workflow", call);
    assert_text(&home, "console_text_that_markdown_hides", &Console::open(&home).page("/").part("needs"));
}

#[test]
fn artifacts_under_decision_are_tables_if_their_contract_has_rows() {
    let home = home();
    home.workflow(&json!({
        "id": "team.reviewed", "name": "Reviewed", "description": "Waits with findings.", "version": "1.0.0",
        "steps": [{
            "id": "a", "title": "A", "prompt": "Review.", "requireConfirmation": { "kind": "human_approval" },
            "outputContract": { "contractRef": "wr.contracts.changed_files" },
        }],
    }));
    let mut client = home.client();
    let first = start(&mut client, "team.reviewed", "Review");
    let mut call = with_own_words(&first.data["nextCall"]["arguments"]);
    call["output"]["artifacts"] = json!([{
        "kind": "wr.changed_files",
        "changedFiles": [{ "path": "src/a.rs", "summary": "Adds the limit", "risk": "L" }],
    }]);
    let blocked = client.call("continue_workflow", call);
    assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.data);
    let console = Console::open(&home);
    for path in ["/".to_owned(), format!("/run/{}", run_id(&first))] {
        let page = console.page(&path).body;
        assert_eq!(page.matches(">src/a.rs</td>").count(), 1, "{path}: shown once");
    }
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
    let form = format!("token={}&seen={}&back=%2F", old.field("token"), old.field("seen"));
    let mut call = with_own_words(&blocked.data["nextCall"]["arguments"]);
    call["output"] = json!({ "notesMarkdown": "Something else entirely." });
    client.call("continue_workflow", call);
    let late = console.post(&format!("/run/{run}/approve"), &form);
    assert_eq!(late.status, 409, "{late:?}");
    assert_text(&home, "console_form_that_is_too_old", &late.words());
    let log = home.done(&["log", &run, "--json"]).json();
    let events = log["events"].as_array().unwrap();
    assert!(events.iter().all(|event| event["kind"] != "approval_recorded"));
}

#[test]
fn an_abandoned_run_is_closed_with_a_reason_and_reopened_by_the_next_step() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let run = run_id(&first);
    let console = Console::open(&home);
    let token = console.page(&format!("/run/{run}")).field("token");
    let close = |reason: &str| {
        let body = format!("token={token}&back=%2Frun%2F{run}&reason={reason}");
        console.post(&format!("/run/{run}/close"), &body).status
    };
    assert_eq!((close("+"), close("The+release+was+cancelled")), (409, 303), "a reason is needed");
    assert_text(&home, "console_closed_run", &console.page(&format!("/run/{run}")).words());
    let log = home.done(&["log", &run, "--json"]).json();
    let mut events = log["events"].as_array().unwrap().iter();
    let recorded = events.find(|event| event["kind"] == "run_closed").unwrap();
    assert_eq!(recorded["data"]["channel"], "console");
    let next = next(&mut client, &first);
    assert_eq!(next.data["kind"], "blocked", "{}", next.text);
    assert!(console.page(&format!("/run/{run}")).actions().contains(&format!("/run/{run}/close")));
}
