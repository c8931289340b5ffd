//! One case per query that others rely on, each a small history.

use data_encoding::BASE64;
use serde_json::json;
use workrail_model::approval::ApprovalDecision;
use workrail_model::capability::{Capability, CapabilityStatus, EnforcementGrade};
use workrail_model::event::{ContextError, EdgeKind, NodeKind, ObservationKey, Scope};
use workrail_model::gap::Severity;
use workrail_model::name::StepId;
use workrail_model::preferences::{Mode, Preferences, RunStatus};
use workrail_model::reason::{ContractViolation, Reason};

use super::fixture::{EventLog, RecordPosition, context, session, step};
use super::naive::Naive;
use crate::project::SessionState;

const MISSING: Reason = Reason::ContractViolation(ContractViolation::MissingRequiredOutput);

#[test]
fn an_empty_session_has_no_runs_and_awaits_its_first_event() {
    let state = SessionState::new(session());
    assert_eq!(state.next_event_index().get(), 0);
    assert_eq!(state.runs().len(), 0);
    assert_eq!((state.last_activity(), state.last_at()), (None, None));
}

#[test]
fn the_edge_names_its_attempt_wherever_the_record_is() {
    for record_at in [RecordPosition::First, RecordPosition::Last] {
        let mut log = EventLog::new();
        let (run, root) = log.start_run();
        let attempt = log.attempt();
        let child = log.advance_in_order(run, root, attempt, record_at);
        let state = log.state();
        assert_eq!(state.node(child).unwrap().edge.unwrap().attempt, Some(attempt));
        assert_eq!(state.acked_children(root).map(|node| node.node_id).collect::<Vec<_>>(), [child]);
        assert!(!state.is_tip(root) && state.is_tip(child));
    }
}

/// G38: a checkpoint never makes the next advance a fork.
#[test]
fn a_checkpoint_neither_ends_a_tip_nor_becomes_one() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let attempt = log.attempt();
    let child = log.advance(run, root, attempt);
    let checkpoint = log.checkpoint(run, child);
    log.notes(run, checkpoint, "half done", None);
    let state = log.state();
    assert!(state.is_tip(child));
    assert_eq!(state.preferred_tip(run), Some(child));
    assert_eq!(state.acked_children(child).count(), 0);
    let notes: Vec<_> = state.path_outputs(child).iter().map(|entry| entry.node.node_id).collect();
    assert_eq!(notes, [checkpoint]);
}

#[test]
fn work_that_continues_from_a_checkpoint_continues_from_its_step() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let checkpoint = log.checkpoint(run, root);
    let attempt = log.attempt();
    let child = log.advance(run, checkpoint, attempt);
    let state = log.state();
    assert!(!state.is_tip(root));
    assert_eq!(state.tips(run).map(|tip| tip.node_id).collect::<Vec<_>>(), [child]);
}

/// G52: the newest activity by event index wins, then the newest node.
#[test]
fn activity_on_an_abandoned_branch_brings_it_back() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let attempts = [log.attempt(), log.attempt(), log.attempt()];
    let first = log.advance(run, root, attempts[0]);
    let second = log.advance(run, root, attempts[1]);
    assert_eq!(log.state().preferred_tip(run), Some(second));
    log.block(run, first, attempts[2]);
    assert_eq!(log.state().preferred_tip(run), Some(first));
    // Activity on a shared node favours neither branch: the newer one wins.
    log.notes(run, root, "an afterthought", None);
    assert_eq!(log.state().preferred_tip(run), Some(second));
}

#[test]
fn a_blocked_delta_is_visible_only_to_its_retry_chain() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    log.set_context(run, root, context(json!({"a": 1})), None);
    let (mine, other) = (log.attempt(), log.attempt());
    log.set_context(run, root, context(json!({"a": null, "b": 2})), Some(mine));
    let state = log.state();
    assert_eq!(state.context_for(root, &[mine]), Ok(context(json!({"b": 2}))));
    assert_eq!(state.context_for(root, &[other]), Ok(context(json!({"a": 1}))));
    assert_eq!(state.context_at(root), Ok(context(json!({"a": 1}))));
}

#[test]
fn the_context_of_a_long_path_equals_the_walk() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let mut nodes = vec![root];
    for round in 0..140u8 {
        // Now and then back a few steps: a fork in the middle of what was merged.
        let back = if round % 37 == 36 { 20 } else { 1 };
        let attempt = log.attempt();
        let node = log.advance(run, nodes[nodes.len() - back], attempt);
        let delta = super::history::delta_of([round, round / 3, round / 7], Some(node));
        log.set_context(run, node, delta, None);
        nodes.push(node);
    }
    let compare = |log: &EventLog| {
        let state = log.state();
        for node in &nodes {
            assert_eq!(state.context_at(*node).unwrap().as_map(), &Naive(&log.events).context(*node, &[]));
        }
    };
    compare(&log);
    // A set above everything that was merged, which no writer makes.
    log.set_context(run, nodes[3], context(json!({"late": true, "a": null})), None);
    compare(&log);
}

/// G23: an answer after a checkpoint does not make every later lookup read the whole path.
#[test]
fn an_answer_after_a_checkpoint_keeps_what_is_merged() {
    let unmerged =
        |log: &EventLog| serde_json::to_value(log.state()).unwrap()["contexts"]["unmergedRuns"].clone();
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    log.set_context(run, root, context(json!({ "a": 1 })), None);
    let checkpoint = log.checkpoint(run, root);
    log.set_context(run, root, context(json!({ "a": 2, "b": 1 })), None);
    assert_eq!(unmerged(&log), json!([]));
    let mut tip = root;
    for round in 0..40 {
        let attempt = log.attempt();
        tip = log.advance(run, tip, attempt);
        log.set_context(run, tip, context(json!({ "round": round })), None);
    }
    let state = log.state();
    assert_eq!(state.context_at(tip), Ok(context(json!({ "a": 2, "b": 1, "round": 39 }))));
    assert_eq!(state.context_at(checkpoint), Ok(context(json!({ "a": 2, "b": 1 }))));
    // The answer may be the first that the step gets.
    let late = |log: &EventLog| {
        let nearest = serde_json::to_value(log.state()).unwrap()["contexts"]["nearest"].clone();
        nearest["late"].clone()
    };
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let (checkpoint, own) = (log.checkpoint(run, root), log.checkpoint(run, root));
    log.set_context(run, own, context(json!({ "own": true })), None);
    log.set_context(run, root, context(json!({ "a": 1 })), None);
    assert_eq!((unmerged(&log), late(&log)), (json!([run]), json!([])));
    let after = log.checkpoint(run, root);
    let state = log.state();
    for saved in [checkpoint, after] {
        assert_eq!(state.context_at(saved), Ok(context(json!({ "a": 1 }))));
    }
    assert_eq!(state.context_at(own), Ok(context(json!({ "a": 1, "own": true }))));
    // Work that continues from the checkpoint inherits from its step, too.
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let checkpoint = log.checkpoint(run, root);
    let attempt = log.attempt();
    log.advance(run, checkpoint, attempt);
    log.set_context(run, root, context(json!({ "a": 2 })), None);
    assert_eq!((unmerged(&log), late(&log).as_array().map(Vec::len)), (json!([run]), Some(1)));
}

#[test]
fn a_context_beyond_the_budget_is_an_error_until_it_fits_again() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let mut tip = root;
    let mut fits = Vec::new();
    for round in 0..80 {
        let attempt = log.attempt();
        tip = log.advance(run, tip, attempt);
        let delta = match round {
            0..40 => json!({ format!("key{round}"): "x".repeat(10_000) }),
            _ => json!({ format!("key{}", round - 40): null }),
        };
        log.set_context(run, tip, context(delta), None);
        fits.push((tip, log.events.len()));
    }
    let state = log.state();
    for (node, _) in fits {
        let expected = Naive(&log.events).context(node, &[]);
        match state.context_at(node) {
            Ok(found) => assert_eq!(found.as_map(), &expected),
            Err(error) => {
                assert!(expected.len() > 26, "{}", expected.len());
                assert!(matches!(error, ContextError::OverBudget { .. }), "{error}");
            }
        }
    }
    assert_eq!(state.context_at(tip), Ok(context(json!({}))));
}

/// G51: a correction links to what it replaces, within one chain of retries.
#[test]
fn a_retry_supersedes_what_its_blocked_attempt_left() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let (blocked, retry) = (log.attempt(), log.attempt());
    let old = log.notes(run, root, "old", Some(blocked));
    log.block(run, root, blocked);
    let new = log.corrected_notes(run, root, "new", Some(retry), Some(old));
    let child = log.advance(run, root, retry);
    let state = log.state();
    assert_eq!(state.outputs(root).iter().map(|output| output.superseded).collect::<Vec<_>>(), [true, false]);
    assert_eq!(state.current_outputs(root, Some(blocked)).count(), 0);
    assert_eq!(state.current_outputs(root, None).map(|output| output.id).collect::<Vec<_>>(), [new]);
    assert_eq!(state.path_outputs(child).iter().map(|entry| entry.output.id).collect::<Vec<_>>(), [new]);
    assert_eq!(state.path_outputs(root), []);
}

#[test]
fn a_refused_attempt_blocks_the_run_unless_it_never_stops() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let attempts = [log.attempt(), log.attempt()];
    assert_eq!(log.state().run_status(run, false), Some(RunStatus::InProgress));
    log.block(run, root, attempts[0]);
    assert_eq!(log.state().run_status(run, false), Some(RunStatus::Blocked));
    assert!(log.state().latest_advance(root).unwrap().is_blocked());
    let mut never_stop = log.clone();
    never_stop.prefer(run, root, Mode::FullAutoNeverStop.preferences());
    assert_eq!(never_stop.state().run_status(run, false), Some(RunStatus::InProgress));
    log.advance(run, root, attempts[1]);
    assert_eq!(log.state().run_status(run, false), Some(RunStatus::InProgress));
    assert_eq!(log.state().run_status(run, true), Some(RunStatus::Complete));
}

#[test]
fn a_gap_counts_until_a_later_record_links_to_it() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let gap = log.gap(run, root, Severity::Critical, MISSING);
    let open = log.state();
    assert_eq!(open.run_status(run, false), Some(RunStatus::Blocked));
    assert_eq!(open.run_status(run, true), Some(RunStatus::CompleteWithGaps));
    assert!(open.node_has_blocking_gap(root));
    for _ in 0..2 {
        log.resolve(run, root, Severity::Critical, MISSING, gap);
    }
    let closed = log.state();
    assert_eq!(closed.run_status(run, false), Some(RunStatus::InProgress));
    assert_eq!((closed.unresolved_critical(run), closed.node_has_blocking_gap(root)), (0, false));
    let records: Vec<_> = closed.gaps(run).map(|gap| (gap.is_resolved(), gap.is_open())).collect();
    assert_eq!(records, [(true, false), (false, false), (false, false)]);
    assert!(closed.gap(gap).unwrap().is_resolved());
}

#[test]
fn preferences_and_capabilities_apply_from_their_node_on() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let attempts = [log.attempt(), log.attempt()];
    let left = log.advance(run, root, attempts[0]);
    let right = log.advance(run, root, attempts[1]);
    log.prefer(run, left, Mode::FullAutoNeverStop.preferences());
    log.observe_capability(run, left, Capability::WebBrowsing, CapabilityStatus::Available);
    log.observe_capability(run, left, Capability::WebBrowsing, CapabilityStatus::Unavailable);
    let state = log.state();
    assert_eq!(state.preferences(left), Mode::FullAutoNeverStop.preferences());
    assert_eq!(state.preferences(right), Preferences::default());
    let found = state.capability(left, Capability::WebBrowsing).unwrap();
    assert_eq!((found.status, found.grade()), (CapabilityStatus::Unavailable, EnforcementGrade::Weak));
    assert_eq!(state.capability(right, Capability::WebBrowsing), None);
    assert_eq!(state.preference_changes(left).len(), 1);
}

#[test]
fn the_latest_decision_on_a_gate_counts() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    log.approve(run, root, step(), ApprovalDecision::Approved);
    log.approve(run, root, step(), ApprovalDecision::Rejected);
    let state = log.state();
    assert_eq!(state.approval(root, &step()).unwrap().data.decision, ApprovalDecision::Rejected);
    assert_eq!(state.approval(root, &StepId::parse("other").unwrap()), None);
}

#[test]
fn observations_count_how_often_a_key_was_recorded() {
    let mut log = EventLog::new();
    for branch in ["a", "b", "a"] {
        log.observe(Scope::Session, ObservationKey::GitBranch, branch);
    }
    let state = log.state();
    let (key, latest) = state.observations().next().unwrap();
    assert_eq!((key, latest.occurrences, latest.index.get()), (ObservationKey::GitBranch, 3, 3));
    assert_eq!(state.observation(ObservationKey::GitHeadSha), None);
}

#[test]
fn runs_keep_their_order_and_their_last_activity() {
    let mut log = EventLog::new();
    let (first, _) = log.start_run();
    let (second, root) = log.start_run();
    let touched = log.events.len();
    log.notes(second, root, "n", None);
    let state = log.state();
    assert_eq!(state.runs().map(|run| run.run_id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(state.run(second).unwrap().root, Some(root));
    assert_eq!(state.run(second).unwrap().touched_index.unwrap().get(), touched as u64);
    assert_eq!(state.run(first).unwrap().touched_index.unwrap().get(), 2);
}

#[test]
fn a_cache_with_a_missing_parent_is_refused() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let child = log.node(run, Some(root), NodeKind::Step);
    log.edge(run, root, child, EdgeKind::AckedStep);
    let mut stored = serde_json::to_value(log.state()).unwrap();
    let records = BASE64.decode(stored["dag"]["records"].as_str().unwrap().as_bytes()).unwrap();
    let without_root = &records[records.len() / 2..];
    stored["dag"]["records"] = BASE64.encode(without_root).into();
    let error = serde_json::from_value::<SessionState>(stored.clone()).unwrap_err();
    assert!(error.to_string().contains("the record of node 0 is invalid"), "{error}");
    stored["dag"]["records"] = BASE64.encode(&records[1..]).into();
    let error = serde_json::from_value::<SessionState>(stored).unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
}

#[test]
fn states_may_cross_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<SessionState>();
}

#[test]
fn every_one_of_many_blocked_attempts_is_found_again() {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let attempts: Vec<_> = (0..40).map(|_| log.attempt()).collect();
    for attempt in &attempts {
        log.block(run, root, *attempt);
    }
    let state = log.state();
    for attempt in &attempts {
        assert_eq!(state.advance(root, *attempt).unwrap().attempt, *attempt);
    }
    let unknown = log.attempt();
    assert_eq!(state.advance(root, unknown), None);
    let cached: SessionState = serde_json::from_value(serde_json::to_value(&state).unwrap()).unwrap();
    assert_eq!(cached, state);
}
