//! A server answers before it indexes; searches lose nothing by that (G18).

use std::sync::Arc;

use serde_json::{Value, json};
use workrail_core::summary;
use workrail_engine::Engine;
use workrail_engine::request::{ContinueWorkflow, ResumeSession, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::submission::StepOutput;
use workrail_ports::cache::SessionIndex;
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::SimFs;
use workrail_testkit::fixed::SeededEntropy;

use crate::scene::{Shelf, authored, environment};

type SimEngine = Engine<LocalStore<SimFs>>;

fn store(fs: &SimFs) -> LocalStore<SimFs> {
    LocalStore::open(fs.clone(), Box::new(SeededEntropy::new(1)), "boot".to_owned()).unwrap()
}

fn engine(fs: &SimFs) -> SimEngine {
    let shelf = Arc::new(Shelf::default());
    let step = |id: &str| json!({ "id": id, "title": "Step", "prompt": "Do it." });
    let steps = json!([step("plan"), step("build"), step("report")]);
    shelf.put(Precedence::Project, "run.json", &authored("team.run", &json!({ "steps": steps })));
    Engine::new(Arc::new(store(fs)), environment(1, &shelf))
}

fn advance(engine: &SimEngine, reply: &Value) -> Value {
    let request = ContinueWorkflow {
        ack_token: reply["ackToken"].as_str().map(str::to_owned),
        output: StepOutput { notes_markdown: Some("Done.".to_owned()), artifacts: Vec::new() },
        ..ContinueWorkflow::default()
    };
    engine.continue_workflow(request).unwrap().into_structured()
}

fn found(engine: &SimEngine) -> Value {
    let request = ResumeSession { query: Some("retry budget".to_owned()), ..ResumeSession::default() };
    engine.resume_session(request).unwrap().into_structured()["candidates"][0]["label"].clone()
}

/// How many events of the only session the index reflects.
fn indexed_events(fs: &SimFs) -> Option<u64> {
    let records = store(fs).index_records(summary::VERSION, &|_| true);
    records.first().map(|record| record.cursor.next_event_index.get())
}

#[test]
fn a_server_indexes_what_it_appended_after_the_reply_and_before_it_searches() {
    let fs = SimFs::new();
    let server = engine(&fs).indexing_after_replies();
    let request = StartWorkflow {
        workflow_id: "team.run".to_owned(),
        goal: Some("Fix the retry budget".to_owned()),
        ..StartWorkflow::default()
    };
    let started = server.start_workflow(request).unwrap().into_structured();
    assert_eq!(indexed_events(&fs), None, "the reply did not wait for the index");
    assert!(server.has_unindexed());
    assert_eq!(found(&engine(&fs)), started["run"]["label"], "another process reads the session itself");

    let planned = advance(&server, &started);
    server.index_appended();
    assert!(!server.has_unindexed());
    let first = indexed_events(&fs).expect("the index has the session");

    advance(&server, &planned);
    assert_eq!(indexed_events(&fs), Some(first), "nor did this one");
    found(&server);
    assert!(indexed_events(&fs) > Some(first), "a search waits for what its own process appended");
}
