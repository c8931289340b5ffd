//! What pages offer each role, and whose name its records carry (G113, G114, G125).

use serde_json::Value;

use crate::browser::{Browser, encoded};
use crate::{ROLES, WaitingRun, home, secret, serve, token, waiting_run};

#[test]
fn pages_offer_what_a_role_may_do() {
    let home = home();
    let server = serve(&home);
    let WaitingRun { run, .. } = waiting_run(&home);
    // In progress, so that its row offers to close it.
    home.client().call("start_workflow", serde_json::json!({ "workflowId": "team.plain" }));
    let mut table = String::new();
    for role in ROLES {
        let browser = Browser::logged_in(&server, secret(&token(&home, role, role)));
        let page = browser.page(&server, &format!("/run/{run}")).body + &browser.page(&server, "/").body;
        let offers = |action: &str| page.contains(&format!("/{action}\""));
        let offered: Vec<&str> = ["approve", "reject", "close", "keep", "delete", "import"]
            .into_iter()
            .filter(|action| offers(action) || *action == "import" && page.contains("data-import="))
            .collect();
        let links_to_form = page.contains("#close-reason");
        assert_eq!(
            links_to_form,
            offered.contains(&"close"),
            "{role}: a link to a form that the role does not get"
        );
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
