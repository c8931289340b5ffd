//! Several machines work through PgBouncer with a single connection to the database (G102).

use std::thread;

use workrail_testkit::home::Home;
use workrail_testkit::pooler::Pooler;
use workrail_testkit::team::{Team, advance, start};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
const MACHINES: usize = 4;

/// A call that needed a second connection while it holds one would wait until it times out, and fail.
#[test]
fn steps_are_completed_with_one_connection_for_all_machines() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let Some(pooler) = Pooler::with_connections(team.cluster, 1) else { return };
    // The tables are made on a direct connection.
    team.machine().done(&["doctor"]);
    let address = pooler.address(&team.database, "team");
    thread::scope(|scope| {
        for number in 0..MACHINES {
            let machine = Home::new(PROGRAM).with("WORKRAIL_STORE", &address);
            scope.spawn(move || {
                let mut client = machine.client();
                let first = start(&machine, &mut client, &format!("repair teapot {number}"));
                let second = advance(&mut client, &first, "the spout is cracked");
                advance(&mut client, &second, "glued");
            });
        }
    });
    // An import holds its session while it writes.
    let machine = Home::new(PROGRAM).with("WORKRAIL_STORE", &address);
    let listed = machine.done(&["session", "list", "--json"]).json();
    let session = listed["runs"][0]["sessionId"].as_str().unwrap().to_owned();
    machine.done(&["session", "export", &session, "--output", "../out.json"]);
    machine.done(&["session", "delete", &session, "--yes"]);
    machine.done(&["session", "import", "../out.json"]);
    let verified = team.machine().done(&["store", "verify", "--json"]).json();
    assert_eq!(verified["counts"]["sessions"], MACHINES, "{verified}");
    assert_eq!(verified["counts"]["problems"], 0, "{verified}");
}
