//! What hooks saw is recorded with the next advance, once, and never counts as more than an observation.

use serde_json::json;
use workrail_model::event::{Event, EventData, EvidenceRecorded};
use workrail_model::evidence::{Evidence, EvidenceGrade};
use workrail_model::id::SessionId;
use workrail_model::preferences::Mode;
use workrail_ports::content::ContentStore as _;
use workrail_ports::observations::ObservationSpool as _;
use workrail_ports::session_store::SessionReader as _;
use workrail_testkit::conformance::observation;

use crate::played::{Played, step};

fn recorded(events: &[Event]) -> Vec<EvidenceRecorded> {
    let mut found = Vec::new();
    for event in events {
        if let EventData::EvidenceRecorded(recorded) = &event.data {
            found.push(recorded.clone());
        }
    }
    found
}

/// G105: recorded in the same append, kept through a refusal, forgotten after it.
#[test]
fn what_a_hook_saw_is_recorded_by_the_next_advance_and_only_there() {
    let mut run = Played::start(json!([step("one", json!({})), step("end", json!({}))]), Mode::Guided);
    let session = SessionId::parse(run.at["run"]["sessionId"].as_str().unwrap()).unwrap();
    let events = |run: &Played| run.scene.store.read(session, None).unwrap().events;
    let run_id = events(&run).iter().find_map(|event| event.scope.run()).unwrap();
    let seen = observation("cargo test").with_output("3 passed");
    run.scene.store.leave_observation(session, run_id, &seen).unwrap();

    let blocked = run.send(json!({}));
    assert_eq!(blocked["kind"], "blocked");
    let found = recorded(&events(&run));
    let [only] = found.as_slice() else { panic!("one observation: {found:?}") };
    assert_eq!(only.grade, EvidenceGrade::Observed);
    assert_eq!(only.host.as_ref().unwrap().as_str(), "claude-code");
    let Evidence::CommandRun { output_ref: Some(output), .. } = &only.evidence else {
        panic!("a command with its output: {only:?}")
    };
    assert_eq!(run.scene.store.blob(*output).unwrap(), b"3 passed");

    // A crash between the append and the removal leaves it behind: it is not recorded again.
    run.scene.store.leave_observation(session, run_id, &seen).unwrap();
    run.send(json!({ "notes": "Renamed it." }));
    assert_eq!(recorded(&events(&run)).len(), 1);
    assert_eq!(run.scene.store.take_observations(session, run_id), []);
}
