//! What a team relies on, through the real program: everything acknowledged is recorded once and in order, whatever
//! happens to servers, processes and disks, and the cost does not grow with the history.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test prints its figures and stops at the first surprise"
)]

mod cut_commits;
mod database_kills;
mod frozen;
mod full_disk;
mod kills;
mod load;
mod memory;
mod races;
mod recorded;
mod scale;
mod speed;

use workrail_testkit::home::Home;
use workrail_testkit::proof::is_full;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A home with a workflow of arbitrarily many steps.
fn home_with_long_workflow() -> Home {
    let home = Home::new(PROGRAM);
    let round = serde_json::json!({ "id": "round", "title": "Round", "prompt": "Do the next one." });
    let repeated = |id: &str, body: serde_json::Value| {
        let times = serde_json::json!({ "type": "for", "count": 100, "maxIterations": 100 });
        serde_json::json!({ "id": id, "type": "loop", "title": "Rounds", "loop": times, "body": [body] })
    };
    home.workflow(&serde_json::json!({
        "id": "team.long", "name": "Long", "version": "1.0.0", "description": "Measured.",
        "steps": [repeated("outer", repeated("inner", round))],
    }));
    home
}
