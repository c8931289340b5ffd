//! The database's disk is full: an ack is refused as repeatable; once there is space, the same ack succeeds, and
//! nothing is lost (G102).

use serde_json::json;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::team::session_of;

use crate::recorded::{self, note};

/// More steps than a full disk can take.
const STEPS_MAX: usize = 400;

#[test]
fn an_ack_refused_by_a_full_disk_succeeds_once_there_is_space() {
    let settings = ["max_wal_size=32MB", "min_wal_size=32MB", "autovacuum=off"];
    let Some(cluster) = Cluster::start_on_disk_of("160m", &settings) else { return };
    let database = cluster.database();
    let home =
        crate::home_with_long_workflow().with("WORKRAIL_STORE", cluster.address(&database, ROLE, "team"));
    let mut client = home.client();
    let mut reply =
        client.call("start_workflow", json!({ "workflowId": "team.long", "goal": "repair the teapot" }));
    let session = session_of(&reply);
    cluster.fill_disk(&database);
    let mut notes = Vec::new();
    let (refused, call) = (0..STEPS_MAX)
        .find_map(|step| {
            let mine = note(&format!("of-step-{step}"));
            let output = json!({ "notesMarkdown": format!("{mine} {}", "x".repeat(3000)) });
            let call = json!({ "ackToken": reply.string("ackToken"), "output": output });
            let answer = client.call("continue_workflow", call.clone());
            notes.push(mine);
            if answer.is_error {
                return Some((answer, call));
            }
            reply = answer;
            None
        })
        .expect("the disk is full");
    assert_eq!(refused.code(), "STORE_IO");
    insta::assert_snapshot!(refused.data["suggestion"].as_str().unwrap());
    cluster.free_disk();
    let next = client.call("continue_workflow", call.clone());
    assert!(!next.is_error, "{}", next.text);
    let again = client.call("continue_workflow", call);
    assert_eq!(again.string("ackToken"), next.string("ackToken"));
    client.close();
    assert_eq!(recorded::in_database(&cluster, &database, &session), notes);
    assert_eq!(home.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
    println!("{} steps acknowledged around a full disk, none lost", notes.len());
}
