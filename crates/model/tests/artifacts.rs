//! The bytes of our own artifacts are pinned: a change here is a change of a durable format, which
//! needs the version matrix of FORMAT.md and a fixture.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::json;
use workrail_model::digest::{BlobRef, Sha256, WorkflowHash};
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::event::Event;
use workrail_model::manifest::{Cursor, ManifestError, ManifestIndex, ManifestRecord};
use workrail_model::manifest::{commit_group, group_bytes, segment_bytes};
use workrail_model::name::{LoopId, StepId};
use workrail_model::snapshot::{
    CompletedSteps, EngineState, ExecutionSnapshot, Pending, PendingStep, SnapshotError,
};
use workrail_model::step_key::LoopFrame;

fn node_event() -> Event {
    Event::from_value(json!({
        "v": 1, "eventId": "evt_0000000000000000", "eventIndex": 0, "sessionId": "sess_0000000000000000",
        "kind": "node_created", "dedupeKey": "n:1",
        "scope": { "runId": "run_0000000000000000", "nodeId": "node_0000000000000000" },
        "data": {
            "nodeKind": "step", "parentNodeId": null,
            "workflowHash": WorkflowHash::of(b"w"), "snapshotRef": Sha256::of(b"s"),
        },
    }))
    .unwrap()
}

fn output_event() -> Event {
    Event::from_value(json!({
        "v": 1, "eventId": "evt_0000000000000001", "eventIndex": 1, "sessionId": "sess_0000000000000000",
        "kind": "node_output_appended", "dedupeKey": "o:1",
        "scope": { "runId": "run_0000000000000000", "nodeId": "node_0000000000000000" },
        "data": {
            "outputId": "out_0000000000000000", "outputChannel": "artifact",
            "payload": {
                "payloadKind": "artifact_ref", "sha256": BlobRef::of(b"{}"), "contentType": "application/json",
                "byteLength": 2,
            },
        },
    }))
    .unwrap()
}

#[test]
fn a_group_is_one_closing_then_snapshots_then_blobs() {
    let events = [node_event(), output_event()];
    let segment = segment_bytes(&events).unwrap();
    let group = commit_group(ManifestIndex::new(7), &events, &segment);
    let text = String::from_utf8(group_bytes(&group).unwrap()).unwrap();
    let digest = Sha256::of(&segment);
    let expected = [
        format!(
            r#"{{"bytes":{},"firstEventIndex":0,"kind":"segment_closed","lastEventIndex":1,"manifestIndex":7,"segmentRelPath":"events/00000000-00000001.jsonl","sessionId":"sess_0000000000000000","sha256":"{digest}","v":1}}"#,
            segment.len()
        ),
        format!(
            r#"{{"createdByEventId":"evt_0000000000000000","eventIndex":0,"kind":"snapshot_pinned","manifestIndex":8,"sessionId":"sess_0000000000000000","snapshotRef":"{}","v":1}}"#,
            Sha256::of(b"s")
        ),
        format!(
            r#"{{"blobRef":"{}","createdByEventId":"evt_0000000000000001","eventIndex":1,"kind":"blob_pinned","manifestIndex":9,"sessionId":"sess_0000000000000000","v":1}}"#,
            Sha256::of(b"{}")
        ),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    for line in text.lines() {
        assert!(ManifestRecord::parse(line.as_bytes()).is_ok());
    }
    let cursor = Cursor::start().after(&group, text.as_bytes(), 2);
    assert_eq!((cursor.next_event_index.get(), cursor.next_manifest_index.get()), (2, 3));
}

#[test]
fn manifest_lines_have_one_spelling() {
    let events = [node_event()];
    let group = commit_group(ManifestIndex::ZERO, &events, &segment_bytes(&events).unwrap());
    let line = String::from_utf8(group[0].to_canonical().unwrap()).unwrap();
    let refused = |text: String| ManifestRecord::parse(text.as_bytes()).unwrap_err();
    assert_eq!(refused(line.replace("\"v\":1", "\"v\":3")), ManifestError::UnknownVersion { version: 3 });
    assert_eq!(refused(line.replace("{\"bytes\"", "{ \"bytes\"")), ManifestError::NotCanonical);
    assert!(matches!(refused(line.replace("\"v\":1", "\"v\":1,\"w\":1")), ManifestError::Field { .. }));
    let kind = "segment_opened".to_owned();
    assert_eq!(refused(line.replace("segment_closed", &kind)), ManifestError::UnknownKind { kind });
    assert!(matches!(refused(line[..20].to_owned()), ManifestError::Json(_)));
}

fn step(id: &str) -> StepId {
    StepId::parse(id).unwrap()
}

#[test]
fn the_bytes_of_a_snapshot_are_pinned() {
    let completed = CompletedSteps::new(3);
    let pending = Pending::Some { step: PendingStep { step_id: step("c"), loop_path: Vec::new() } };
    let state = EngineState::Running { completed, loop_stack: Vec::new(), pending };
    let snapshot = ExecutionSnapshot::new(WorkflowHash::of(b"w"), state).unwrap();
    let bytes = snapshot.to_canonical().unwrap();
    let expected = format!(
        r#"{{"enginePayload":{{"engineState":{{"completed":{{"kind":"count","steps":3}},"kind":"running","loopStack":[],"pending":{{"kind":"some","step":{{"loopPath":[],"stepId":"c"}}}}}},"v":1}},"kind":"execution_snapshot","v":1,"workflowHash":"{}"}}"#,
        WorkflowHash::of(b"w")
    );
    assert_eq!(String::from_utf8(bytes.clone()).unwrap(), expected);
    assert_eq!(ExecutionSnapshot::parse(&bytes).unwrap(), snapshot);
}

/// G9: a snapshot that contradicts itself cannot be built and is refused when read.
#[test]
fn impossible_states_are_refused() {
    let pending =
        |loop_path: Vec<LoopFrame>| Pending::Some { step: PendingStep { step_id: step("c"), loop_path } };
    let running = |completed, pending| EngineState::Running { completed, loop_stack: Vec::new(), pending };
    let refused = |state| ExecutionSnapshot::new(WorkflowHash::of(b"w"), state).unwrap_err();
    let frame = LoopFrame { loop_id: LoopId::parse("l").unwrap(), iteration: 0 };
    assert_eq!(
        refused(running(CompletedSteps::default(), pending(vec![frame]))),
        SnapshotError::State("the pending step's loop path is not the loop stack")
    );
    let parse = |state: serde_json::Value| {
        let file = json!({
            "v": 1, "kind": "execution_snapshot", "workflowHash": WorkflowHash::of(b"w"),
            "enginePayload": { "v": 1, "engineState": state },
        });
        ExecutionSnapshot::parse(file.to_string().as_bytes()).unwrap_err().to_string()
    };
    let done = json!({
        "kind": "running", "completed": { "kind": "set", "values": ["b", "c"] }, "loopStack": [],
        "pending": { "kind": "some", "step": { "stepId": "c", "loopPath": [] } },
    });
    assert!(parse(done).contains("already completed"));
    let huge = json!({ "kind": "complete", "completed": { "kind": "count", "steps": u64::MAX } });
    assert!(parse(huge).contains("beyond"));
    let both = json!({ "kind": "complete", "completed": { "kind": "count", "steps": 1, "values": [] } });
    assert!(parse(both).contains("values"));
    let unsorted = json!({ "kind": "complete", "completed": { "kind": "set", "values": ["b", "a"] } });
    assert!(parse(unsorted).contains("sorted"));
    let foreign = json!({ "kind": "complete", "completed": { "kind": "set", "values": ["a/b"] } });
    assert!(parse(foreign).contains("not a step key"));
    let stack = json!({
        "kind": "running", "completed": { "kind": "set", "values": [] }, "pending": { "kind": "none" },
        "loopStack": [
            { "loopId": "l", "iteration": 0, "bodyIndex": 0 }, { "loopId": "l", "iteration": 1, "bodyIndex": 0 },
        ],
    });
    assert!(parse(stack).contains("twice on the stack"));
}

#[test]
fn a_snapshot_that_lists_its_completed_steps_is_read_and_counted() {
    let file = json!({
        "v": 1, "kind": "execution_snapshot", "workflowHash": WorkflowHash::of(b"w"),
        "enginePayload": { "v": 1, "engineState": {
            "kind": "running", "completed": { "kind": "set", "values": ["a", "b", "l@0::x"] }, "loopStack": [],
            "pending": { "kind": "some", "step": { "stepId": "c", "loopPath": [] } },
        } },
    });
    let snapshot = ExecutionSnapshot::parse(file.to_string().as_bytes()).unwrap();
    assert_eq!(snapshot.state().completed().map(CompletedSteps::count), Some(3));
    let written = snapshot.to_canonical().unwrap();
    assert!(
        String::from_utf8(written.clone()).unwrap().contains(r#""completed":{"kind":"count","steps":3}"#)
    );
    assert_eq!(ExecutionSnapshot::parse(&written).unwrap(), snapshot);
}

#[test]
fn a_newer_snapshot_is_refused() {
    let newer = json!({ "v": 2, "kind": "execution_snapshot" }).to_string();
    let error = ExecutionSnapshot::parse(newer.as_bytes()).unwrap_err();
    assert_eq!(error, SnapshotError::UnknownVersion { field: "v", version: 2 });
    let inner = json!({ "v": 1, "enginePayload": { "v": 9 } }).to_string();
    let error = ExecutionSnapshot::parse(inner.as_bytes()).unwrap_err();
    assert_eq!(error, SnapshotError::UnknownVersion { field: "enginePayload.v", version: 9 });
}

#[test]
fn the_shape_of_the_error_envelope_is_pinned() {
    let envelope = ErrorEnvelope {
        code: ErrorCode::TokenSessionLocked,
        message: "m".to_owned(),
        retry: Retry::RetryableAfterMs { after_ms: 1000 },
        suggestion: "s".to_owned(),
        suggestion_for_people: None,
        in_team: None,
        next_call: None,
        details: None,
    };
    let expected = json!({
        "code": "TOKEN_SESSION_LOCKED", "message": "m", "suggestion": "s",
        "retry": { "kind": "retryable_after_ms", "afterMs": 1000 },
    });
    assert_eq!(serde_json::to_value(&envelope).unwrap(), expected);
}
