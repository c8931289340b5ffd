//! `sessions keep`, `unkeep` and `delete`, next to a server that knows the session.

use std::fs;

use serde_json::json;

use crate::scene::{advance, content, finished, home, label, session, session_dir, start, unfinished};

#[test]
fn deleting_asks_at_a_terminal_and_accepts_a_typed_label() {
    let home = home();
    let run = unfinished(&home);
    let refused = home.run(&["session", "delete", &label(&run)]);
    assert_eq!(refused.code, 2);
    assert!(home.typed(&["session", "delete", &label(&run)], "yes").code != 0);
    assert!(session_dir(&home, &run).exists());
    assert_eq!(home.typed(&["session", "delete", &session(&run)], &label(&run)).code, 0);
    assert!(!session_dir(&home, &run).exists());
    assert_eq!(home.run(&["session", "delete", &session(&run), "--yes"]).code, 2, "it is gone");
}

#[test]
fn a_kept_session_cannot_be_deleted() {
    let home = home();
    let run = finished(&home);
    let kept = home.run(&["session", "keep", &label(&run), "--json"]);
    assert_eq!(kept.json(), json!({ "sessionId": session(&run), "isKept": true }));
    let refused = home.run(&["session", "delete", &label(&run), "--yes", "--json"]);
    assert_eq!((refused.code, &refused.json()["error"]["code"]), (2, &json!("VALIDATION_ERROR")));
    assert!(session_dir(&home, &run).exists());
    let free = home.run(&["session", "unkeep", &label(&run), "--json"]);
    assert_eq!(free.json(), json!({ "sessionId": session(&run), "isKept": false }));
    let deleted = home.run(&["session", "delete", &label(&run), "--yes", "--json"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    let told = deleted.json();
    assert_eq!((&told["sessionId"], &told["deleted"]), (&json!(session(&run)), &json!(true)));
    assert!(told["files"].as_u64().unwrap() >= 3 && told["bytes"].as_u64().unwrap() > 1000, "{told}");
    assert!(!content(&home.data()).is_empty(), "content goes with gc");
    assert_eq!(home.run(&["store", "gc", "--json"]).json()["freed"]["workflows"]["files"], json!(1));
    assert!(content(&home.data()).is_empty());
}

#[test]
fn a_server_that_knows_a_deleted_session_reports_it_and_does_not_restore_it() {
    let home = home();
    let mut client = home.client();
    let (gone, stays) = (start(&mut client), start(&mut client));
    assert_eq!(home.run(&["session", "delete", &session(&gone), "--yes"]).code, 0);
    assert_eq!(home.run(&["store", "gc", "--ttl", "0d"]).code, 0);
    for _ in 0..2 {
        let ack = advance(&mut client, &gone);
        assert_eq!(ack.code(), "TOKEN_UNKNOWN_NODE", "{}", ack.text);
        let look = client.call("continue_workflow", json!({ "stateToken": gone.string("stateToken") }));
        assert_eq!(look.code(), "TOKEN_UNKNOWN_NODE", "{}", look.text);
    }
    let asked = client.call("resume_session", json!({ "sessionId": session(&gone) }));
    assert_eq!(asked.code(), "SESSION_NOT_FOUND", "{}", asked.text);
    assert!(!session_dir(&home, &gone).exists());
    assert!(!advance(&mut client, &stays).is_error, "the other one continues");
    assert!(!start(&mut client).is_error, "and so does the store");
    assert_eq!(home.run(&["store", "verify"]).code, 0);
}

#[test]
fn a_damaged_session_can_be_deleted_by_its_id() {
    let home = home();
    let run = finished(&home);
    fs::write(session_dir(&home, &run).join("manifest.jsonl"), "damage").unwrap();
    let deleted = home.run(&["session", "delete", &session(&run), "--yes"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert!(!session_dir(&home, &run).exists());
}
