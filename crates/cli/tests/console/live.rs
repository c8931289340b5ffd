//! What another process writes appears on an open page (G96).

use crate::harness::{Console, home, next, run_id, start};

#[test]
fn a_change_by_another_process_reaches_an_open_page() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let console = Console::open(&home);
    let mut live = console.live("/");
    // The whole page comes first, because this request names no part that it has.
    live.until(|line| line.contains("\"id\":\"done\""));
    next(&mut client, &first);
    let sent = live.until(|line| line.contains("\"id\":\"needs\""));
    assert!(sent.contains("/approve") && sent.contains("Words of my own."), "{sent}");
}

#[test]
fn a_part_that_becomes_what_it_was_is_sent_again() {
    let home = home();
    let mut client = home.client();
    let first = start(&mut client, "team.gated", "Release");
    let console = Console::open(&home);
    let page = console.page("/");
    let parts = page.body.split("data-seen=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut live = console.live(&format!("/?has={}", parts.collect::<Vec<_>>().join(",")));
    next(&mut client, &first);
    assert!(live.until(|line| line.contains("\"id\":\"needs\"")).contains("/approve"));
    let page = console.page("/");
    let form = format!("token={}&seen={}&from=now", page.field("token"), page.field("seen"));
    assert_eq!(console.post(&format!("/run/{}/approve", run_id(&first)), &form).status, 303);
    let sent = live.until(|line| line.contains("\"id\":\"needs\""));
    assert!(!sent.contains("/approve"), "nothing waits any more, as when the page was loaded");
}
