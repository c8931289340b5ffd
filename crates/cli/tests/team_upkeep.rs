//! Cleaning up, verifying and repairing a database through the real binary, with the results that a data directory has
//! (G25, G27, G117).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};
use workrail_testkit::team::{Team, session_of};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// A workflow that ends after one completed step, and one with a loop that an artifact ends.
fn machine(team: &Team) -> Home {
    let machine = team.machine();
    machine.workflow(&json!({
        "id": "team.one", "name": "One", "description": "A single step.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    }));
    let source = json!({ "kind": "artifact_contract", "contractRef": "wr.contracts.loop_control", "loopId": "rounds" });
    machine.workflow(&json!({
        "id": "team.looping", "name": "Looping", "description": "Steps and a loop.", "version": "1.0.0",
        "steps": [
            { "id": "first", "title": "First", "prompt": "Begin." },
            { "id": "rounds", "type": "loop", "title": "Rounds",
              "loop": { "type": "while", "maxIterations": 5, "conditionSource": source },
              "body": [{ "id": "round", "title": "Round", "prompt": "Go round.",
                         "outputContract": { "contractRef": "wr.contracts.loop_control" } }] },
            { "id": "last", "title": "Last", "prompt": "End." },
        ],
    }));
    machine
}

fn begin(client: &mut McpClient, workflow: &str) -> ToolReply {
    let first = client.call("start_workflow", json!({ "workflowId": workflow, "goal": "tidy the shed" }));
    assert!(!first.is_error, "{}", first.text);
    first
}

fn submit(client: &mut McpClient, reply: &ToolReply, artifacts: Value) -> ToolReply {
    let output = json!({ "notesMarkdown": "done and dusted", "artifacts": artifacts });
    let ack = json!({ "ackToken": reply.string("ackToken"), "output": output });
    let next = client.call("continue_workflow", ack);
    assert!(!next.is_error, "{}", next.text);
    next
}

/// A finished run of one step; returns its session.
fn finished(client: &mut McpClient) -> String {
    let first = begin(client, "team.one");
    let last = submit(client, &first, json!([]));
    assert_eq!(last.data["isComplete"], true, "{}", last.text);
    session_of(&first)
}

fn sessions_in(team: &Team) -> Vec<String> {
    let listed = team.cluster.sql(&team.database, "SELECT id FROM workrail.session ORDER BY id");
    listed.lines().map(str::to_owned).collect()
}

/// The kind and the digest of each piece of content, with its bytes in hexadecimal.
fn content_in(team: &Team) -> BTreeMap<String, String> {
    let rows =
        "SELECT kind || ' ' || encode(sha256, 'hex') || ' ' || encode(bytes, 'hex') FROM workrail.content";
    let rows = team.cluster.sql(&team.database, rows);
    let rows = rows.lines().map(|row| row.rsplit_once(' ').unwrap());
    rows.map(|(name, bytes)| (name.to_owned(), bytes.to_owned())).collect()
}

fn assert_sound(machine: &Home) {
    let verified = machine.done(&["store", "verify", "--json"]).json();
    assert_eq!((&verified["problems"], &verified["notes"]), (&json!([]), &json!([])), "{verified}");
}

/// G25
#[test]
fn gc_removes_old_finished_sessions_from_a_database_and_says_why_the_rest_is_kept() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = machine(&team);
    let mut client = machine.client();
    let (old, kept) = (finished(&mut client), finished(&mut client));
    let open = session_of(&begin(&mut client, "team.one"));
    client.close();
    machine.done(&["session", "keep", &kept]);
    let young = machine.done(&["store", "gc", "--json"]).json();
    assert_eq!(young["removed"], json!([]));
    let retained = json!({ "kept": 1, "unfinished": 1, "recent": 1, "withoutTimestamp": 0, "clockBehind": 0, "inUse": 0 });
    assert_eq!(young["retained"], retained, "{young}");

    let before = (sessions_in(&team), content_in(&team));
    let planned = machine.done(&["store", "gc", "--ttl", "0d", "--dry-run", "--json"]).json();
    assert_eq!((sessions_in(&team), content_in(&team)), before, "a dry run changes nothing");
    let cleaned = machine.done(&["store", "gc", "--ttl", "0d", "--json"]).json();
    assert_eq!(cleaned["removed"][0]["sessionId"], json!(old), "{cleaned}");
    assert_eq!((&cleaned["removed"], &cleaned["freed"]), (&planned["removed"], &planned["freed"]));
    let mut left = vec![kept.clone(), open.clone()];
    left.sort();
    assert_eq!(sessions_in(&team), left);
    for table in
        ["segment", "event_key", "session_summary", "indexed_run", "indexed_term", "unindexed", "projection"]
    {
        let rows = format!("SELECT count(*) FROM workrail.{table} WHERE session = '{old}'");
        assert_eq!(team.cluster.count(&team.database, &rows), 0, "{table}");
    }
    let freed = before.1.len() - content_in(&team).len();
    assert_eq!(freed, 1, "its stored reply; the others need the rest");
    assert_sound(&machine);

    machine.done(&["session", "unkeep", &kept]);
    let last = machine.done(&["store", "gc", "--ttl", "0d", "--json"]).json();
    assert_eq!(last["removed"][0]["sessionId"], json!(kept), "{last}");
    assert_eq!(sessions_in(&team), [open], "an unfinished run never goes by age");
    assert_sound(&machine);
}

/// Verifying reads a session, and then its content, which `gc` may have removed with the session meanwhile.
#[test]
fn verify_reports_no_loss_while_gc_removes_sessions_from_a_database() {
    const ROUNDS: usize = 6;
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = machine(&team);
    let mut client = machine.client();
    // Shares its workflow and snapshots with those that come and go.
    begin(&mut client, "team.one");
    client.close();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let cleaner = scope.spawn(|| {
            for _ in 0..ROUNDS {
                let mut client = machine.client();
                (0..4).for_each(|_| drop(finished(&mut client)));
                client.close();
                let cleaned = machine.done(&["store", "gc", "--ttl", "0d", "--json"]).json();
                assert_eq!(cleaned["removed"].as_array().map(Vec::len), Some(4), "{cleaned}");
            }
            is_done.store(true, Ordering::Relaxed);
        });
        let mut verified = 0;
        while !is_done.load(Ordering::Relaxed) && !cleaner.is_finished() {
            let report = machine.run(&["store", "verify", "--json"]);
            assert_eq!((report.code, &report.json()["problems"]), (0, &json!([])), "{report:?}");
            verified += 1;
        }
        assert!(verified > 1, "nothing was verified meanwhile");
    });
}

/// G27: as in a data directory, byte for byte.
#[test]
fn every_snapshot_and_workflow_of_a_database_is_recomputed() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = machine(&team);
    let mut client = machine.client();
    let turn =
        |decision: &str| json!([{ "kind": "wr.loop_control", "loopId": "rounds", "decision": decision }]);
    let first = begin(&mut client, "team.looping");
    let inside = submit(&mut client, &first, json!([]));
    let again = submit(&mut client, &inside, turn("continue"));
    let last = submit(&mut client, &again, turn("stop"));
    assert_eq!(last.step(), "last", "{}", last.text);
    client.close();
    let before = content_in(&team);
    let of_kind = |kind: &str| before.keys().filter(|name| name.starts_with(kind)).count();
    let wanted = of_kind("snapshot") + of_kind("workflow");
    assert!(of_kind("workflow") == 1 && wanted >= 5, "{:?}", before.keys());

    // In turns removed, cut and replaced.
    let order = "row_number() OVER (ORDER BY kind, sha256) % 3 AS turn";
    team.cluster.sql(
        &team.database,
        &format!(
            "CREATE TEMP TABLE damage AS SELECT tenant, kind, sha256, {order} FROM workrail.content WHERE kind <> 'blob'; \
             DELETE FROM workrail.content c USING damage d WHERE (c.kind, c.sha256) = (d.kind, d.sha256) AND turn = 0; \
             UPDATE workrail.content c SET bytes = substring(bytes FROM 1 FOR length(bytes) / 2) \
             FROM damage d WHERE (c.kind, c.sha256) = (d.kind, d.sha256) AND turn = 1; \
             UPDATE workrail.content c SET bytes = '{{}}' \
             FROM damage d WHERE (c.kind, c.sha256) = (d.kind, d.sha256) AND turn = 2"
        ),
    );
    let found = machine.run(&["store", "verify", "--json"]);
    assert_eq!(found.code, 1, "{found:?}");
    assert_eq!(found.json()["problems"].as_array().map(Vec::len), Some(wanted), "{found:?}");
    let damaged = content_in(&team);
    machine.run(&["store", "repair", "--all", "--dry-run", "--json"]);
    assert_eq!(content_in(&team), damaged, "a dry run changes nothing");
    let repaired = machine.run(&["store", "repair", "--all", "--yes", "--json"]);
    let content = &repaired.json()["content"];
    assert_eq!((repaired.code, &content["lost"]), (0, &json!([])), "{repaired:?}");
    assert_eq!(content["restored"].as_array().map(Vec::len), Some(wanted), "{repaired:?}");
    assert_eq!(content_in(&team), before);
    assert_sound(&machine);
    submit(&mut machine.client(), &last, json!([]));
    let nothing = machine.done(&["store", "repair", "--all", "--yes", "--json"]).json();
    assert_eq!(nothing["content"]["restored"], json!([]), "{nothing}");
}
