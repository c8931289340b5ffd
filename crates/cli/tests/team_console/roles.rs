//! What each role may do through the console, and whose name its records carry (G113, G114, G125).

use serde_json::Value;

use crate::browser::{Browser, encoded};
use crate::{ROLES, WaitingRun, home, secret, serve, token, waiting_run};

/// What a form does, its target, and its fields.
type FormOf<'a> = (&'a str, String, &'a [(&'static str, &'a str)]);

/// Every form of the console with every role. The engine refuses; hiding forms on pages is only a courtesy.
#[test]
fn the_role_table_of_forms() {
    let mut table = String::new();
    for role in ROLES {
        let home = home();
        let server = serve(&home);
        let browser = Browser::logged_in(&server, secret(&token(&home, role, role)));
        let WaitingRun { run, session, .. } = waiting_run(&home);
        let (other, doomed) = (waiting_run(&home).run, waiting_run(&home));
        let admin = Browser::logged_in(&server, secret(&token(&home, "lead", "admin")));
        let seen = |run: &str| admin.page(&server, &format!("/run/{run}")).field("seen");
        let (approved, rejected) = (seen(&run), seen(&other));
        let doomed_page = format!("/session/{}", doomed.session);
        let events = admin.page(&server, &doomed_page).field("events");
        let acts: [FormOf<'_>; 8] = [
            ("approve", format!("/run/{run}/approve"), &[("seen", &approved)]),
            ("reject", format!("/run/{other}/reject"), &[("seen", &rejected), ("reason", "no")]),
            ("close a run", format!("/run/{other}/close"), &[("reason", "over")]),
            ("keep a session", format!("/session/{session}/keep"), &[]),
            ("stop keeping it", format!("/session/{session}/unkeep"), &[]),
            ("ask for a mode", format!("/session/{session}/prefer"), &[("mode", "guided")]),
            ("rotate keys", "/settings/keys/rotate".to_owned(), &[("typed", "rotate")]),
            ("delete", format!("{doomed_page}/delete-now"), &[("typed", &doomed.label), ("events", &events)]),
        ];
        for (what, path, fields) in acts {
            let answer = browser.post(&server, &path, &encoded(&browser.form(&server, fields)));
            let outcome = match answer.status {
                303 => "done",
                403 => "refused for the role",
                409 => "refused for another reason",
                other => panic!("{role} {what}: {other} {}", answer.body),
            };
            table.push_str(&format!("{role:9} {what:16} {outcome}\n"));
        }
        server.end("TERM");
    }
    insta::assert_snapshot!(table);
}

#[test]
fn pages_offer_what_a_role_may_do() {
    let home = home();
    let server = serve(&home);
    let WaitingRun { run, .. } = waiting_run(&home);
    let mut table = String::new();
    for role in ROLES {
        let browser = Browser::logged_in(&server, secret(&token(&home, role, role)));
        let page = browser.page(&server, &format!("/run/{run}")).body + &browser.page(&server, "/").body;
        let offers = |action: &str| page.contains(&format!("/{action}\""));
        let offered: Vec<&str> = ["approve", "reject", "close", "keep", "delete", "import"]
            .into_iter()
            .filter(|action| offers(action) || *action == "import" && page.contains("data-import="))
            .collect();
        table.push_str(&format!("{role}: {}\n", offered.join(", ")));
    }
    insta::assert_snapshot!(table);
    server.end("TERM");
}

#[test]
fn a_decision_is_recorded_under_the_members_name() {
    let home = home();
    let server = serve(&home);
    let WaitingRun { run, label, .. } = waiting_run(&home);
    let made = token(&home, "ada", "approver");
    let ada = Browser::logged_in(&server, secret(&made));
    let form = ada.run_form(&server, &run);
    let approved = ada.post(&server, &format!("/run/{run}/approve"), &encoded(&form));
    assert_eq!(approved.status, 303, "{approved:?}");
    let log = home.done(&["log", &run, "--json"]).json();
    let decided =
        log["events"].as_array().unwrap().iter().find(|event| event["kind"] == "approval_recorded").unwrap();
    let expected = serde_json::json!({
        "name": "ada", "role": "approver", "tokenId": made["id"], "client": "console",
    });
    assert_eq!(decided["actor"], expected);
    assert_eq!(decided["data"]["channel"], "console");
    assert_eq!(decided["data"]["proof"], Value::Null);
    assert!(home.done(&["report", &label]).out.contains("ada (approver)"));
    server.end("TERM");
}
