//! For random histories: the fold equals the literal walks, at every event and after every split.

use proptest::prelude::*;
use workrail_model::capability::Capability;
use workrail_model::event::{AdvanceOutcome, NodeKind};
use workrail_model::id::NodeId;
use workrail_model::time::Timestamp;

use super::fixture::session;
use super::history::{GeneratedHistory, history};
use super::naive::Naive;
use crate::project::SessionState;

fn round_trip(state: &SessionState) -> SessionState {
    serde_json::from_slice(&serde_json::to_vec(state).unwrap()).unwrap()
}

/// A state as a cache keeps it: decision traces are not saved.
fn without_traces(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    state.facts.traces = Default::default();
    state
}

fn fold(history: &GeneratedHistory) -> SessionState {
    history.log.state()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// One state goes through the cache before every event, so every split is tested at once.
    #[test]
    fn every_split_through_the_cache_gives_the_same_state(history in history()) {
        let mut plain = SessionState::new(session());
        let mut cached = SessionState::new(session());
        for event in &history.log.events {
            cached = round_trip(&cached);
            prop_assert_eq!(&cached, &without_traces(&plain));
            plain.apply(event).unwrap();
            cached.apply(event).unwrap();
            prop_assert_eq!(&without_traces(&cached), &without_traces(&plain));
        }
        prop_assert_eq!(&plain, &fold(&history));
    }

    /// G52: the preferred tip is that of the literal rule, after every event.
    #[test]
    fn the_preferred_tip_and_the_status_equal_the_walk_at_every_event(history in history()) {
        let mut state = SessionState::new(session());
        for (position, event) in history.log.events.iter().enumerate() {
            state.apply(event).unwrap();
            let naive = Naive(&history.log.events[..=position]);
            // Only the event's own run can have changed.
            let Some(run) = event.scope.run() else { continue };
            prop_assert_eq!(state.preferred_tip(run), naive.preferred_tip(run), "after event {}", position);
            prop_assert_eq!(state.run_status(run, false), naive.run_status(run, false));
            prop_assert_eq!(state.run_status(run, true), naive.run_status(run, true));
            prop_assert_eq!(state.unresolved_critical(run), naive.open_critical(run).len());
        }
    }

    /// G6: with a clock that runs backwards, every run has the same tip, the same status and the same context.
    #[test]
    fn clock_times_decide_nothing(history in history()) {
        let state = fold(&history);
        let mut backwards = SessionState::new(session());
        for (position, event) in history.log.events.iter().enumerate() {
            let mut event = event.clone();
            event.at = Some(Timestamp::parse(&format!("{:04}-01-01T00:00:00.000Z", 9000 - position)).unwrap());
            backwards.apply(&event).unwrap();
        }
        for run in &history.runs {
            prop_assert_eq!(backwards.preferred_tip(*run), state.preferred_tip(*run));
            prop_assert_eq!(backwards.run_status(*run, false), state.run_status(*run, false));
            prop_assert_eq!(backwards.run_status(*run, true), state.run_status(*run, true));
        }
        for (_, node, _) in &history.nodes {
            prop_assert_eq!(backwards.context_at(*node), state.context_at(*node));
        }
    }

    #[test]
    fn branches_and_ancestry_equal_the_walk(history in history()) {
        let state = fold(&history);
        let naive = Naive(&history.log.events);
        for run in &history.runs {
            let leaves: Vec<NodeId> = state.tips(*run).map(|tip| tip.node_id).collect();
            prop_assert_eq!(leaves, naive.leaves(*run));
        }
        for (_, node, kind) in &history.nodes {
            let path = naive.path(*node);
            let mut walked: Vec<NodeId> = state.ancestors(*node).map(|at| at.node_id).collect();
            walked.reverse();
            prop_assert_eq!(&walked, &path);
            let found = state.node(*node).unwrap();
            prop_assert_eq!(found.depth as usize, path.len() - 1);
            prop_assert_eq!(state.node_by_event(found.created_index), Some(found));
            prop_assert_eq!(found.edge.and_then(|edge| edge.attempt), naive.attempt_to(*node));
            let is_leaf = naive.leaves(found.run_id).contains(node);
            prop_assert!(*kind == NodeKind::Checkpoint || state.is_tip(*node) == is_leaf);
            for (_, other, _) in &history.nodes {
                prop_assert_eq!(state.is_ancestor_or_self(*other, *node), path.contains(other));
            }
        }
    }

    /// G50: a node sees the values set on its own path from the root.
    #[test]
    fn context_equals_the_walk(history in history()) {
        let state = fold(&history);
        let naive = Naive(&history.log.events);
        for (_, node, _) in &history.nodes {
            let at = state.context_at(*node).unwrap();
            prop_assert_eq!(at.as_map(), &naive.context(*node, &[]));
            let chain = history.blocked_on(*node);
            let sent = state.context_for(*node, &chain).unwrap();
            prop_assert_eq!(sent.as_map(), &naive.context(*node, &chain));
        }
    }

    /// G51: a node contributes only the outputs of the attempt that created the path.
    #[test]
    fn notes_equal_the_walk(history in history()) {
        let state = fold(&history);
        let naive = Naive(&history.log.events);
        for (_, node, _) in &history.nodes {
            let found: Vec<_> = state.path_outputs(*node).iter().map(|entry| entry.output.id).collect();
            prop_assert_eq!(found, naive.path_outputs(*node));
        }
    }

    /// G60: the preferences in effect are those recorded nearest on the node's path.
    #[test]
    fn modes_equal_the_walk(history in history()) {
        let state = fold(&history);
        let naive = Naive(&history.log.events);
        for (_, node, _) in &history.nodes {
            prop_assert_eq!(state.preferences(*node), naive.preferences(*node));
            for capability in Capability::ALL {
                let found = state.capability(*node, capability).map(|found| (found.index, found.status));
                prop_assert_eq!(found, naive.capability(*node, capability));
            }
        }
    }

    /// Context sets carry the id of the node they were made for, notes the attempt they were made by (G50, G51).
    #[test]
    fn a_branch_sees_nothing_of_an_abandoned_one(history in history()) {
        let state = fold(&history);
        let naive = Naive(&history.log.events);
        for (_, node, _) in &history.nodes {
            let path: Vec<String> = naive.path(*node).iter().map(NodeId::to_string).collect();
            let context = state.context_at(*node).unwrap();
            for (key, value) in context.as_map().iter().filter(|(key, _)| key.starts_with("mark-")) {
                prop_assert!(path.iter().any(|on_path| value == on_path), "{} at {}", key, node);
            }
            for entry in state.path_outputs(*node) {
                let attempt = entry.output.attempt.unwrap();
                let Some(advance) = state.advance(entry.node.node_id, attempt) else {
                    prop_assert_eq!(entry.node.kind, NodeKind::Checkpoint);
                    continue;
                };
                let AdvanceOutcome::Advanced { to_node_id } = &advance.outcome else {
                    return Err(TestCaseError::fail("notes of a blocked attempt on a path"));
                };
                prop_assert!(path.contains(&to_node_id.to_string()));
            }
        }
    }
}
