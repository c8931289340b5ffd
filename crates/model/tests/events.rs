//! Events: every kind round-trips, bad records are refused with the field they break, and the bytes
//! of one of each kind are pinned.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::{Value, json};
use test_case::test_case;
use workrail_model::digest::Sha256;
use workrail_model::event::{DedupeKey, Event, EventError, EventKind, Scope};

const HASH: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn node_scope() -> Value {
    json!({ "runId": "run_0000000000000000", "nodeId": "node_0000000000000001" })
}

fn record(kind: &str, scope: Option<Value>, key: &str, data: Value) -> Value {
    let mut record = json!({
        "v": 1, "eventId": "evt_0000000000000000", "eventIndex": 3, "sessionId": "sess_0000000000000000",
        "kind": kind, "dedupeKey": key, "data": data,
        "at": "2026-01-02T03:04:05.678Z", "activity": 7,
    });
    if let Some(scope) = scope {
        record["scope"] = scope;
    }
    record
}

/// One record of every kind.
fn samples() -> Vec<Value> {
    let node = || Some(node_scope());
    let run = || Some(json!({ "runId": "run_0000000000000000" }));
    vec![
        record("session_created", None, "session_created:s", json!({})),
        record(
            "observation_recorded",
            None,
            "o:1",
            json!({
                "key": "git_branch", "value": { "type": "short_string", "value": "main" }, "confidence": "high",
            }),
        ),
        record(
            "run_started",
            run(),
            "r:1",
            json!({
                "workflowId": "wr.small_change", "workflowHash": HASH, "workflowSourceKind": "bundled",
                "workflowSourceRef": "wr.small_change.json",
                "parent": { "runId": "run_0000000000000001", "nodeId": "node_0000000000000009" },
            }),
        ),
        record(
            "node_created",
            node(),
            "n:1",
            json!({
                "nodeKind": "step", "parentNodeId": null, "workflowHash": HASH, "snapshotRef": HASH,
            }),
        ),
        record(
            "edge_created",
            run(),
            "e:1",
            json!({
                "edgeKind": "acked_step", "fromNodeId": "node_0000000000000000",
                "toNodeId": "node_0000000000000001",
                "cause": { "kind": "ack_pending", "eventId": "evt_0000000000000000" },
            }),
        ),
        record(
            "advance_recorded",
            node(),
            "a:1",
            json!({
                "attemptId": "attempt_000000000", "intent": "ack_pending",
                "outcome": { "kind": "blocked", "blockers": { "blockers": [{
                    "code": "MISSING_REQUIRED_NOTES", "pointer": { "kind": "workflow_step", "stepId": "a.b" },
                    "message": "m", "suggestedFix": "f",
                }] } },
                "requestDigest": HASH, "replyRef": HASH,
            }),
        ),
        record(
            "node_output_appended",
            node(),
            "out:1",
            json!({
                "outputId": "out_0000000000000000", "outputChannel": "recap",
                "payload": { "payloadKind": "notes", "notesMarkdown": "n", "fullTextRef": HASH },
                "attemptId": "attempt_000000000", "supersedesOutputId": "out_0000000000000001",
            }),
        ),
        record(
            "preferences_changed",
            node(),
            "p:1",
            json!({
                "changeId": "prefchg_0000000000000000", "source": "user",
                "delta": [{ "key": "autonomy", "value": "full_auto_never_stop" }],
                "effective": { "autonomy": "full_auto_never_stop", "riskPolicy": "conservative" },
            }),
        ),
        record(
            "capability_observed",
            node(),
            "c:1",
            json!({
                "capObsId": "capobs_0000000000000000", "capability": "web_browsing", "status": "available",
                "provenance": { "kind": "probe_step", "enforcementGrade": "strong", "detail": {
                    "probeTemplateId": "wr.templates.capability_probe", "probeStepId": "wr_probe", "result": "success",
                } },
            }),
        ),
        record(
            "gap_recorded",
            node(),
            "g:1",
            json!({
                "gapId": "gap_0000000000000000", "severity": "critical",
                "reason": { "category": "contract_violation", "detail": "missing_required_output" },
                "summary": "s", "resolution": { "kind": "resolves", "resolvesGapId": "gap_0000000000000001" },
                "evidenceRefs": [{ "kind": "event", "eventId": "evt_0000000000000000" }],
            }),
        ),
        record(
            "divergence_recorded",
            node(),
            "d:1",
            json!({
                "divergenceId": "div_0000000000000000", "reason": "efficiency_skip", "summary": "s",
                "relatedStepId": "a",
            }),
        ),
        record(
            "decision_trace_appended",
            node(),
            "t:1",
            json!({
                "traceId": "trace_0000000000000000", "entries": [{
                    "kind": "entered_loop", "summary": "s",
                    "refs": [{ "kind": "loop_id", "loopId": "l" }, { "kind": "iteration", "value": 0 }],
                }],
            }),
        ),
        record(
            "context_set",
            run(),
            "x:1",
            json!({
                "contextId": "ctx_0000000000000000", "context": { "goal": "g" }, "source": "initial",
                "nodeId": "node_0000000000000001", "attemptId": "attempt_000000000",
            }),
        ),
        record(
            "validation_performed",
            node(),
            "v:1",
            json!({
                "validationId": "val_0000000000000000", "attemptId": "attempt_000000000",
                "contractRef": "wr.contracts.loop_control", "result": { "kind": "invalid", "issues": ["i"] },
            }),
        ),
        record(
            "assessment_recorded",
            node(),
            "as:1",
            json!({
                "recordId": "asmt_0000000000000000", "attemptId": "attempt_000000000", "assessmentId": "ready",
                "dimensions": [{ "dimensionId": "confidence", "level": "high", "normalization": "exact" }],
            }),
        ),
        record(
            "assessment_consequence_applied",
            node(),
            "ac:1",
            json!({
                "consequenceId": "cons_0000000000000000", "attemptId": "attempt_000000000", "assessmentId": "ready",
                "dimensionId": "confidence", "level": "low",
                "effect": { "kind": "require_followup", "guidance": "g" },
            }),
        ),
        record(
            "approval_recorded",
            node(),
            "ap:1",
            json!({
                "approvalId": "appr_0000000000000000", "stepId": "deploy", "decision": "approved",
                "channel": "terminal", "note": "n",
            }),
        ),
        record(
            "run_closed",
            node(),
            "cl:1",
            json!({ "closureId": "close_0000000000000000", "reason": "superseded", "channel": "command_line" }),
        ),
        record(
            "evidence_recorded",
            node(),
            "ev:1",
            json!({
                "evidenceId": "evid_0000000000000000", "attemptId": "attempt_000000000", "grade": "observed",
                "host": "claude-code", "seenAt": "2026-01-02T03:04:05.678Z",
                "evidence": { "kind": "command_run", "command": "cargo test", "exitCode": 101, "durationMs": 12 },
            }),
        ),
    ]
}

#[test]
fn every_kind_reads_and_writes_the_same_value() {
    let mut kinds = Vec::new();
    for sample in samples() {
        let event = Event::from_value(sample.clone()).unwrap_or_else(|error| panic!("{sample}: {error}"));
        let bytes = event.to_canonical().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), sample);
        assert_eq!(Event::parse(&bytes).unwrap(), event);
        kinds.push(event.kind());
    }
    assert_eq!(kinds, EventKind::ALL);
}

#[test]
fn the_bytes_of_every_kind_are_pinned() {
    let all: Vec<u8> = samples()
        .into_iter()
        .flat_map(|sample| Event::from_value(sample).unwrap().to_canonical().unwrap())
        .collect();
    // A change here is a change of the durable format: version matrix, fixture and FORMAT.md.
    assert_eq!(
        Sha256::of(&all).to_string(),
        "sha256:3c1528bf8eb14b99f62801b97793361e270022b6c18e0ae3c9003bf65cebaea5"
    );
}

#[test]
fn unknown_optional_fields_of_a_known_version_are_ignored() {
    let mut sample = samples().remove(0);
    sample["later"] = json!(1);
    sample["data"]["later"] = json!({});
    assert!(Event::from_value(sample).is_ok());
}

fn changed(kind: EventKind, pointer: &str, value: Value) -> EventError {
    let mut sample = samples().remove(EventKind::ALL.iter().position(|known| *known == kind).unwrap());
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = if parent.is_empty() { &mut sample } else { sample.pointer_mut(parent).unwrap() };
    parent[key] = value;
    Event::from_value(sample).unwrap_err()
}

#[test_case(EventKind::RunStarted, "/v", json!(2), "`v` is 2, this build reads version 1")]
#[test_case(EventKind::RunStarted, "/v", json!("1"), "`v`: must be a version number")]
#[test_case(EventKind::RunStarted, "/kind", json!("run_paused"), "`kind` \"run_paused\" is not known")]
#[test_case(EventKind::RunStarted, "/sessionId", json!("sess_x"), "`sessionId`: must have 16 characters after `sess_`, has 1")]
#[test_case(EventKind::RunStarted, "/eventIndex", json!(33_554_432), "`eventIndex`: is beyond 33554431")]
#[test_case(EventKind::RunStarted, "/eventIndex", json!(-1), "`eventIndex`: invalid value: integer `-1`, expected u64")]
#[test_case(EventKind::RunStarted, "/dedupeKey", json!("A B"), "`dedupeKey`: a dedupe key holds 1 to 256 characters of a-z, 0-9, `_`, `:`, `>`, `-`")]
#[test_case(EventKind::RunStarted, "/scope/nodeId", json!("node_0000000000000001"), "`scope`: does not fit the kind, which needs Run")]
#[test_case(EventKind::RunStarted, "/data/workflowId", json!("../x"), "`data.workflowId`: \"../x\" is not a valid workflow id: lowercase letters, digits, `_`, `-`; at most one dot, each side then starting with a letter; 128 bytes at most")]
#[test_case(EventKind::RunStarted, "/data/workflowHash", json!("sha256:1"), "`data.workflowHash`: must be `sha256:` and 64 lowercase hexadecimal digits")]
#[test_case(EventKind::RunStarted, "/at", json!("yesterday"), "`at`: must be a UTC time like 2026-01-31T23:59:59.999Z")]
#[test_case(EventKind::EdgeCreated, "/data/cause/kind", json!("checkpoint_created"), "`data`: an acked_step edge cannot have the cause checkpoint_created")]
#[test_case(EventKind::NodeOutputAppended, "/data/outputChannel", json!("artifact"), "`data`: outputChannel does not fit payload.payloadKind")]
#[test_case(EventKind::PreferencesChanged, "/data/delta", json!([]), "`data`: delta must hold at least one change")]
#[test_case(EventKind::PreferencesChanged, "/data/effective/autonomy", json!("guided"), "`data`: effective does not contain delta")]
#[test_case(EventKind::CapabilityObserved, "/data/provenance/enforcementGrade", json!("weak"), "`data`: provenance.enforcementGrade is not the grade of provenance.kind")]
#[test_case(EventKind::ContextSet, "/data/context", json!({ "__proto__": 1 }), "`data.context`: the key \"__proto__\" is reserved")]
#[test_case(EventKind::GapRecorded, "/data/summary", json!("x".repeat(513)), "`data.summary`: text has 513 UTF-8 bytes, at most 512 are allowed")]
#[test_case(EventKind::DivergenceRecorded, "/data/summary", json!(""), "`data`: summary must not be empty")]
#[test_case(EventKind::EvidenceRecorded, "/data/grade", json!("checked"), "`data`: grade is not the grade of evidence.kind")]
#[test_case(EventKind::EvidenceRecorded, "/data/host", json!(null), "`data`: only observed evidence has host and seenAt")]
#[test_case(EventKind::EvidenceRecorded, "/data/evidence/kind", json!("rumour"), "`data.evidence.kind`: unknown variant `rumour`, expected one of `workspace_state`, `workspace_not_seen`, `check_run`, `command_run`, `files_edited`, `edit_refused`, `command_refused`, `subagent_started`, `subagent_ended`, `chat_watched`")]
fn refused_with_the_field(kind: EventKind, pointer: &str, value: Value, message: &str) {
    assert_eq!(changed(kind, pointer, value).to_string(), message);
}

#[test]
fn a_root_must_say_that_it_has_no_parent() {
    let mut sample = samples().remove(3);
    sample["data"].as_object_mut().unwrap().remove("parentNodeId");
    let error = Event::from_value(sample).unwrap_err();
    assert_eq!(error.to_string(), "`data`: missing field `parentNodeId`");
}

#[test]
fn dedupe_keys_follow_the_recipes() {
    let keys: Vec<String> = samples()
        .into_iter()
        .map(|sample| Event::from_value(sample).unwrap())
        .map(|event| DedupeKey::of(event.session_id, event.scope, &event.data).to_string())
        .collect();
    let session = "sess_0000000000000000";
    let (run, node) = ("run_0000000000000000", "node_0000000000000001");
    let expected = [
        format!("session_created:{session}"),
        format!("observation_recorded:{session}:git_branch:DIGEST"),
        format!("run_started:{session}:{run}"),
        format!("node_created:{session}:{run}:{node}"),
        format!("edge_created:{session}:{run}:node_0000000000000000->{node}:acked_step"),
        format!("advance_recorded:{session}:{node}:attempt_000000000"),
        format!("node_output_appended:{session}:out_0000000000000000"),
        format!("preferences_changed:{session}:prefchg_0000000000000000"),
        format!("capability_observed:{session}:capobs_0000000000000000"),
        format!("gap_recorded:{session}:gap_0000000000000000"),
        format!("divergence_recorded:{session}:div_0000000000000000"),
        format!("decision_trace_appended:{session}:trace_0000000000000000"),
        format!("context_set:{session}:ctx_0000000000000000"),
        format!("validation_performed:{session}:val_0000000000000000"),
        format!("assessment_recorded:{session}:asmt_0000000000000000"),
        format!("assessment_consequence_applied:{session}:cons_0000000000000000"),
        format!("approval_recorded:{session}:appr_0000000000000000"),
        format!("run_closed:{session}:close_0000000000000000"),
        format!("evidence_recorded:{session}:evid_0000000000000000"),
    ];
    for (key, expected) in keys.iter().zip(&expected) {
        match expected.strip_suffix("DIGEST") {
            Some(start) => assert!(key.starts_with(start) && key.len() == start.len() + 32, "{key}"),
            None => assert_eq!(key, expected),
        }
    }
}

#[test]
fn the_key_does_not_depend_on_the_event_id() {
    let mut sample = samples().remove(5);
    let key = |sample: Value| {
        let event = Event::from_value(sample).unwrap();
        DedupeKey::of(event.session_id, event.scope, &event.data)
    };
    let before = key(sample.clone());
    sample["eventId"] = json!("evt_zzzzzzzzzzzzzzzz");
    assert_eq!(key(sample), before);
    assert!(matches!(Event::from_value(samples().remove(5)).unwrap().scope, Scope::Node(..)));
}
