//! Writes of another process appear on an open page (G96).

use crate::harness::{Console, home, next, offers, run_id, session_id, start};
use crate::wording::assert_text;
use workrail_testkit::page;

#[test]
fn a_change_by_another_process_reaches_an_open_page() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let console = Console::open(&home);
    let mut live = console.live("/");
    // The whole page comes first, because this request names no part that it has.
    live.part("done", |_| true);
    next(&mut client, &first);
    let sent = live.part("needs", |_| true);
    assert!(offers(&sent, "approve"), "{sent}");
    assert_text(&home, "console_live_approval", &page::words(&sent));
}

#[test]
fn removed_parts_and_pages_disappear() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.plain", "Goes");
    let console = Console::open(&home);
    let broken = home.workflows().join("team.broken.json");
    std::fs::write(&broken, "{ \"id\": \"team.broken\" }").unwrap();
    let mut workflows = console.live("/workflows");
    workflows.order(|parts| parts.iter().any(|part| part == "unusable"));
    std::fs::remove_file(&broken).unwrap();
    workflows.order(|parts| parts.iter().all(|part| part != "unusable"));
    let session = session_id(&first);
    let mut page = console.live(&format!("/session/{session}"));
    page.order(|_| true);
    let shown = console.page(&format!("/session/{session}"));
    let form = format!("token={}&events={}&typed={session}", shown.field("token"), shown.field("events"));
    assert_eq!(console.post(&format!("/session/{session}/delete-now"), &form).status, 303);
    page.order(|parts| parts == ["gone"]);
}

#[test]
fn settings_and_logs_update_although_the_stores_mark_does_not_change() {
    let home = home();
    let mut client = home.client();
    let console = Console::open(&home);
    let (mut settings, mut logs) = (console.live("/settings"), console.live("/logs"));
    settings.order(|_| true);
    logs.order(|_| true);
    home.done(&["config", "set", "retention.ttl_days", "31"]);
    settings.part("settings", |html| page::words(html).lines().any(|line| line.contains("31")));
    client.call("list_workflows", serde_json::json!({}));
    logs.part("calls", |html| html.contains("list_workflows"));
}

#[test]
fn a_part_that_changes_back_is_sent_again() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let console = Console::open(&home);
    let page = console.page("/");
    let parts = page.body.split("data-seen=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut live = console.live(&format!("/?has={}", parts.collect::<Vec<_>>().join(",")));
    next(&mut client, &first);
    assert!(offers(&live.part("needs", |_| true), "approve"));
    let page = console.page("/");
    let form = format!("token={}&seen={}&back=%2F", page.field("token"), page.field("seen"));
    assert_eq!(console.post(&format!("/run/{}/approve", run_id(&first)), &form).status, 303);
    let sent = live.part("needs", |_| true);
    assert!(!offers(&sent, "approve"), "nothing waits any more, as when the page was loaded");
}
