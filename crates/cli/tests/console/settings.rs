//! Settings, sources, clean-up, keys and preferences: forms use the same code as the command line (G95).

use std::fs;

use serde_json::json;

use crate::harness::{Console, Response, home, next, run_id, session_id, start};
use crate::wording::assert_text;

fn post(console: &Console, path: &str, more: &str) -> Response {
    let token = console.page("/").field("token");
    console.post(path, &format!("token={token}{more}"))
}

#[test]
fn a_setting_is_saved_in_the_file_and_reset() {
    let home = home();
    let console = Console::open(&home);
    let set = post(&console, "/settings/set", "&key=retention.ttl_days&value=30");
    assert_eq!((set.status, set.header("location")), (303, Some("/settings?done=changed")), "{set:?}");
    assert_eq!(home.done(&["config", "get", "retention.ttl_days"]).out.trim(), "30");
    let wrong = post(&console, "/settings/set", "&key=retention.ttl_days&value=soon");
    assert_eq!(wrong.status, 409, "{wrong:?}");
    assert_eq!(post(&console, "/settings/set", "&key=no.such&value=1").status, 409);
    assert_eq!(post(&console, "/settings/set", "&key=retention.ttl_days&value=9&reset=yes").status, 303);
    assert_eq!(home.done(&["config", "get", "retention.ttl_days"]).out.trim(), "90");
}

#[test]
fn settings_that_give_agents_more_autonomy_cannot_be_changed_in_the_console() {
    let home = home();
    let console = Console::open(&home);
    for (key, value) in [("preferences.autonomy", "full_auto_never_stop"), ("approvals.chat", "true")] {
        let refused = post(&console, "/settings/set", &format!("&key={key}&value={value}"));
        assert_eq!(refused.status, 409, "{key}: {refused:?}");
        assert_text(&home, &format!("console_refuses_{key}"), &refused.words());
    }
    assert_eq!(home.done(&["config", "get", "approvals.chat"]).out.trim(), "false");
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let path = format!("/session/{}/prefer", session_id(&first));
    let raised = post(&console, &path, "&mode=full_auto_never_stop");
    assert_eq!(raised.status, 409, "{raised:?}");
    assert_text(&home, "console_refuses_a_mode", &raised.words());
    assert_eq!(post(&console, &path, "&mode=guided").status, 303, "the same or less is asked for here");
}

#[test]
fn sources_are_registered_and_removed() {
    let home = home();
    let console = Console::open(&home);
    let folder = home.root().join("flows");
    fs::create_dir(&folder).unwrap();
    let path = folder.to_str().unwrap();
    let registered = || fs::read_to_string(home.config()).unwrap_or_default();
    assert_eq!(post(&console, "/settings/sources/add", &format!("&kind=folder&path={path}")).status, 303);
    assert!(registered().contains(path));
    let git = "&kind=git&name=team&url=https://example.com/team/flows.git&ref=v2";
    assert_eq!(post(&console, "/settings/sources/add", git).status, 303);
    assert_text(&home, "console_sources", &console.page("/settings/sources").words());
    for wrong in [
        "&kind=folder&path=/no/such/folder",
        "&kind=git&name=team&url=file:///etc",
        "&kind=git&name=Team+X&url=https://example.com/a.git",
        "&kind=other",
    ] {
        assert_eq!(post(&console, "/settings/sources/add", wrong).status, 409, "{wrong}");
    }
    assert_eq!(post(&console, "/settings/sources/sync", "&source=nobody").status, 409);
    for source in [path, "team"] {
        assert_eq!(post(&console, "/settings/sources/remove", &format!("&source={source}")).status, 303);
    }
    assert!(!registered().contains(path) && !registered().contains("team"), "{}", registered());
}

#[test]
fn a_source_is_used_from_when_it_is_added_until_it_is_removed() {
    // The variable would override the registered sources.
    let home = home().without("WORKFLOW_STORAGE_PATH");
    let console = Console::open(&home);
    let folder = home.root().join("flows");
    let flow = json!({
        "id": "other.flow", "name": "Flow", "description": "From another folder.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    });
    home.write(&folder.join("other.flow.json"), &flow.to_string());
    let path = folder.to_str().unwrap();
    assert_eq!(console.get("/workflows/other.flow").status, 404);
    let added = post(&console, "/settings/sources/add", &format!("&kind=folder&path={path}"));
    let said = console.page(added.header("location").unwrap()).words();
    assert_text(&home, "console_source_was_added", &said);
    assert_eq!(console.get("/workflows/other.flow").status, 200);
    post(&console, "/settings/sources/remove", &format!("&source={path}"));
    assert!(!console.page("/workflows").body.contains("other.flow"));
    assert_eq!(console.get("/workflows/other.flow").status, 404);
}

#[test]
fn clean_up_shows_what_is_removed_and_asks_for_confirmation() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.plain", "Finish");
    next(&mut client, &first);
    let console = Console::open(&home);
    assert_text(&home, "console_cleanup", &console.page("/settings/cleanup").words());
    assert_eq!(post(&console, "/settings/cleanup", "&typed=yes").status, 409);
    let other = post(&console, "/settings/cleanup", "&typed=delete&planned=something-else");
    assert_eq!(other.status, 409, "only what the page showed is removed");
    assert_eq!(console.get(&format!("/session/{}", session_id(&first))).status, 200, "it is young");
}

#[test]
fn keys_are_shown_by_fingerprint_and_rotated_on_confirmation() {
    let home = home();
    let mut client = home.client();
    start(&mut client, "team.plain", "Makes the keys");
    let console = Console::open(&home);
    let before = home.done(&["store", "keys", "show", "--json"]).json();
    let fingerprint = before["keys"]["current"]["fingerprint"].as_str().unwrap().to_owned();
    assert!(console.page("/settings/keys").body.contains(&fingerprint));
    assert_eq!(post(&console, "/settings/keys/rotate", "&typed=").status, 409);
    assert_eq!(post(&console, "/settings/keys/rotate", "&typed=rotate").status, 303);
    let after = home.done(&["store", "keys", "show", "--json"]).json();
    assert_eq!(after["keys"]["previous"]["fingerprint"], json!(fingerprint));
}

#[test]
fn a_server_with_other_values_is_named() {
    let home = home();
    let client = home.client();
    let console = Console::open(&home);
    assert_text(&home, "console_settings", &console.page("/settings").words());
    home.done(&["config", "set", "tools.start_session", "true"]);
    let process = format!("| {} |", client.process_id());
    let words = console.page("/settings").words().replace(&process, "| PROCESS |");
    assert_text(&home, "console_settings_that_a_server_lacks", &words);
    client.close();
}

#[test]
fn clients_and_health_are_shown() {
    let home = home();
    let console = Console::open(&home);
    assert_text(&home, "console_clients", &console.page("/settings/clients").words());
    assert_text(&home, "console_health", &console.page("/settings/health").words());
}

#[test]
fn a_workflow_is_shown_from_file_to_pins_and_copied_to_a_namespace() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.plain", "Pin it");
    let console = Console::open(&home);
    assert_text(&home, "console_workflow", &console.page("/workflows/team.plain").words());
    let copy = |id: &str| post(&console, "/workflows/wr.small_change/copy", &format!("&id={id}"));
    for wrong in ["wr.other", "plain", "..%2Fx", "Team.X", ""] {
        assert_eq!(copy(wrong).status, 409, "{wrong}");
    }
    assert_eq!(copy("my.change").status, 303);
    assert_eq!(copy("my.change").status, 409, "nothing is overwritten");
    let listed = home.done(&["workflow", "list", "--json"]).json();
    let ids: Vec<&str> = listed["workflows"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|workflow| workflow["workflowId"].as_str())
        .collect();
    assert!(ids.contains(&"my.change"), "{ids:?}");
    assert_eq!(console.get(&format!("/run/{}", run_id(&first))).status, 200);
}
