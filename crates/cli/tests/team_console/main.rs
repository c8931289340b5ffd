//! The console of a team through the real binary: admission, roles, whose name a record has, and servers that stand
//! in for each other (G125, G126).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod browser;
mod forms;
mod limits;
mod logins;
mod passkeys;
mod roles;

use workrail_testkit::home::Home;
use workrail_testkit::team::serve_with;
pub(crate) use workrail_testkit::team::{secret, token};
use workrail_testkit::wire::Http;

/// The public name of a load balancer.
pub(crate) const HOST: &str = "workrail.example.com";
pub(crate) const ROLES: [&str; 4] = ["viewer", "agent", "approver", "admin"];

pub(crate) fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    home.gated_workflow();
    home.asking_workflow();
    home.workflow(&serde_json::json!({
        "id": "team.plain", "name": "Plain", "description": "Needs nobody.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    }));
    home
}

/// A server as one of several behind a load balancer.
pub(crate) fn serve(home: &Home) -> Http {
    serve_with(home, &["--public-url", &format!("https://{HOST}"), "--behind-proxy"])
}

/// A run that waits for an approval.
pub(crate) struct WaitingRun {
    pub(crate) run: String,
    pub(crate) label: String,
    pub(crate) session: String,
}

pub(crate) fn waiting_run(home: &Home) -> WaitingRun {
    waiting_run_of(home, "team.gated")
}

/// A run whose first step was submitted.
pub(crate) fn waiting_run_of(home: &Home, workflow: &str) -> WaitingRun {
    let mut client = home.client();
    let first =
        client.call("start_workflow", serde_json::json!({ "workflowId": workflow, "goal": "Release it" }));
    let output = serde_json::json!({ "notesMarkdown": "Did it." });
    let submitted = serde_json::json!({ "ackToken": first.string("ackToken"), "output": output });
    client.call("continue_workflow", submitted);
    let run = |name: &str| first.data["run"][name].as_str().unwrap().to_owned();
    WaitingRun { run: run("runId"), label: run("label"), session: run("sessionId") }
}
