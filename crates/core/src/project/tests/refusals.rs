//! Each event that contradicts the log is refused by name, and leaves the state unchanged.

use workrail_model::digest::{SnapshotRef, WorkflowHash};
use workrail_model::event::{
    EdgeKind, Event, EventData, EventIndex, EventKind, NodeCreated, NodeKind, ParentLink, Scope,
};
use workrail_model::gap::Severity;
use workrail_model::id::{GapId, NodeId, OutputId, RunId, SessionId};
use workrail_model::reason::{Reason, Unexpected};

use super::fixture::{EventLog, artifact_payload, notes_payload, session, workflow};
use crate::project::FoldError;

const REASON: Reason = Reason::Unexpected(Unexpected::InvariantViolation);

/// Two runs with a root each, the first advanced once.
struct Case {
    log: EventLog,
    run: RunId,
    root: NodeId,
    child: NodeId,
    other_run: RunId,
    other_root: NodeId,
    index: EventIndex,
}

fn case() -> Case {
    let mut log = EventLog::new();
    let (run, root) = log.start_run();
    let (other_run, other_root) = log.start_run();
    let attempt = log.attempt();
    let child = log.advance(run, root, attempt);
    let index = log.state().next_event_index();
    Case { log, run, root, child, other_run, other_root, index }
}

impl Case {
    /// The error of folding one more event.
    fn refuses(&mut self, scope: Scope, data: EventData) -> FoldError {
        let index = self.log.events.len();
        self.index = EventIndex::new(index as u64).unwrap();
        let event = self.log.event(scope, data);
        self.refuses_event(&event)
    }

    fn refuses_event(&self, event: &Event) -> FoldError {
        let before = self.log.state();
        let mut state = before.clone();
        let error = state.apply(event).unwrap_err();
        assert_eq!(state, before, "a refused event left a trace");
        assert_eq!(error.index(), event.event_index);
        assert!(error.to_string().contains(&format!("event {}", event.event_index.get())), "{error}");
        error
    }

    fn gap(&mut self) -> EventData {
        self.log.gap_data(Severity::Info, REASON, None).1
    }
}

fn unknown_node() -> NodeId {
    NodeId::from_bits([1; 10])
}

fn unknown_run() -> RunId {
    RunId::from_bits([1; 10])
}

#[test]
fn another_session() {
    let mut case = case();
    let data = case.gap();
    let mut event = case.log.event(Scope::Node(case.run, case.root), data);
    event.session_id = SessionId::from_bits([9; 10]);
    let (index, expected, found) = (event.event_index, session(), event.session_id);
    assert_eq!(case.refuses_event(&event), FoldError::WrongSession { index, expected, found });
}

#[test]
fn an_index_that_is_not_the_next() {
    let mut case = case();
    let data = case.gap();
    let mut event = case.log.event(Scope::Node(case.run, case.root), data);
    for index in [case.index.plus(1), EventIndex::new(case.index.get() - 1).unwrap()] {
        event.event_index = index;
        assert_eq!(case.refuses_event(&event), FoldError::WrongIndex { index, expected: case.index });
    }
}

#[test]
fn a_scope_that_does_not_fit() {
    let mut case = case();
    let data = case.gap();
    let mut event = case.log.event(Scope::Node(case.run, case.root), data);
    event.scope = Scope::Run(case.run);
    let (index, kind) = (case.index, EventKind::GapRecorded);
    assert_eq!(case.refuses_event(&event), FoldError::WrongScope { index, kind });
}

#[test]
fn an_unknown_run() {
    let mut case = case();
    let run = unknown_run();
    let data = EventLog::node_data(None, NodeKind::Step);
    let error = case.refuses(Scope::Node(run, unknown_node()), data);
    assert_eq!(error, FoldError::UnknownRun { index: case.index, run });
}

#[test]
fn a_parent_run_or_node_that_is_unknown() {
    let mut case = case();
    let (index, known) = (case.index, case.run);
    let link = |run_id, node_id| {
        let mut log = case.log.clone();
        log.open_run(Some(ParentLink { run_id, node_id }));
        log.events.pop().unwrap()
    };
    let (no_run, no_node) = (link(unknown_run(), case.root), link(known, unknown_node()));
    let elsewhere = link(known, case.other_root);
    assert_eq!(case.refuses_event(&no_run), FoldError::UnknownRun { index, run: unknown_run() });
    assert_eq!(case.refuses_event(&no_node), FoldError::UnknownNode { index, node: unknown_node() });
    let node = case.other_root;
    assert_eq!(case.refuses_event(&elsewhere), FoldError::NodeOfAnotherRun { index, run: known, node });
    // The same run twice.
    let again = case.log.events[1].data.clone();
    let error = case.refuses(Scope::Run(known), again);
    assert_eq!(error, FoldError::DuplicateRun { index, run: known });
}

#[test]
fn an_unknown_node() {
    let mut case = case();
    let (index, node) = (case.index, unknown_node());
    let data = case.gap();
    let error = case.refuses(Scope::Node(case.run, node), data);
    assert_eq!(error, FoldError::UnknownNode { index, node });
    let error = case.refuses(Scope::Node(case.run, node), EventLog::node_data(Some(node), NodeKind::Step));
    assert_eq!(error, FoldError::UnknownNode { index, node });
    let edge = case.log.edge_data(case.root, node, EdgeKind::AckedStep);
    assert_eq!(case.refuses(Scope::Run(case.run), edge), FoldError::UnknownNode { index, node });
}

#[test]
fn a_node_of_another_run() {
    let mut case = case();
    let (index, run, node) = (case.index, case.run, case.other_root);
    let data = case.gap();
    let expected = FoldError::NodeOfAnotherRun { index, run, node };
    assert_eq!(case.refuses(Scope::Node(run, node), data), expected);
    let edge = case.log.edge_data(case.root, node, EdgeKind::AckedStep);
    assert_eq!(case.refuses(Scope::Run(run), edge), expected);
}

#[test]
fn a_parent_in_another_run() {
    let mut case = case();
    let (index, run, parent) = (case.index, case.other_run, case.root);
    let error =
        case.refuses(Scope::Node(run, unknown_node()), EventLog::node_data(Some(parent), NodeKind::Step));
    assert_eq!(error, FoldError::ParentOfAnotherRun { index, run, parent });
}

#[test]
fn a_node_twice_and_a_second_root() {
    let mut case = case();
    let (index, run) = (case.index, case.run);
    let error =
        case.refuses(Scope::Node(run, case.child), EventLog::node_data(Some(case.root), NodeKind::Step));
    assert_eq!(error, FoldError::DuplicateNode { index, node: case.child });
    let error = case.refuses(Scope::Node(run, unknown_node()), EventLog::node_data(None, NodeKind::Step));
    assert_eq!(error, FoldError::SecondRoot { index, run, node: unknown_node() });
}

#[test]
fn another_workflow_than_the_pinned_one() {
    let mut case = case();
    let found = WorkflowHash::of(b"another");
    let created = NodeCreated {
        node_kind: NodeKind::Step,
        parent_node_id: Some(case.root),
        workflow_hash: found,
        snapshot_ref: SnapshotRef::of(b"snapshot"),
        checkpoint: None,
    };
    let error = case.refuses(Scope::Node(case.run, unknown_node()), EventData::NodeCreated(created));
    let expected = workflow();
    assert_eq!(error, FoldError::WorkflowHash { index: case.index, run: case.run, expected, found });
}

#[test]
fn an_edge_to_a_node_with_another_parent() {
    let mut case = case();
    let attempt = case.log.attempt();
    let grandchild = case.log.advance(case.run, case.child, attempt);
    let edge = case.log.edge_data(case.root, grandchild, EdgeKind::AckedStep);
    let error = case.refuses(Scope::Run(case.run), edge);
    assert_eq!(error, FoldError::EdgeParent { index: case.index, from: case.root, to: grandchild });
}

#[test]
fn an_edge_that_does_not_fit_the_node_kind() {
    for (kind, edge_kind) in
        [(NodeKind::Step, EdgeKind::Checkpoint), (NodeKind::Checkpoint, EdgeKind::AckedStep)]
    {
        let mut case = case();
        let to = case.log.node(case.run, Some(case.root), kind);
        let edge = case.log.edge_data(case.root, to, edge_kind);
        let error = case.refuses(Scope::Run(case.run), edge);
        assert_eq!(error, FoldError::EdgeKind { index: case.index, to });
    }
}

#[test]
fn a_second_edge_to_a_node() {
    let mut case = case();
    let edge = case.log.edge_data(case.root, case.child, EdgeKind::AckedStep);
    let error = case.refuses(Scope::Run(case.run), edge);
    assert_eq!(error, FoldError::DuplicateEdge { index: case.index, to: case.child });
}

#[test]
fn an_attempt_recorded_twice_or_toward_the_wrong_node() {
    let mut case = case();
    let (index, node, to) = (case.index, case.root, case.child);
    let on_root = Scope::Node(case.run, node);
    let attempt = case.log.state().node(to).unwrap().edge.unwrap().attempt.unwrap();
    let error = case.refuses(on_root, EventLog::advanced_data(attempt, unknown_node()));
    assert_eq!(error, FoldError::DuplicateAdvance { index, node, attempt });
    let second = case.log.attempt();
    let error = case.refuses(on_root, EventLog::advanced_data(second, to));
    assert_eq!(error, FoldError::AdvancedTwice { index, to });
    let error = case.refuses(on_root, EventLog::advanced_data(second, case.other_root));
    assert_eq!(error, FoldError::AdvanceTarget { index, node, to: case.other_root });
    // The record comes before its node, which then appears elsewhere.
    case.log.push(on_root, EventLog::advanced_data(second, unknown_node()));
    let error =
        case.refuses(Scope::Node(case.run, unknown_node()), EventLog::node_data(Some(to), NodeKind::Step));
    assert_eq!(error, FoldError::AdvanceTarget { index: case.index, node, to: unknown_node() });
}

#[test]
fn a_correction_of_what_is_not_there() {
    let mut case = case();
    let unknown = OutputId::from_bits([1; 10]);
    let notes = case.log.notes(case.run, case.root, "notes", None);
    let on_root = Scope::Node(case.run, case.root);
    let (_, data) = case.log.output_data(notes_payload("n"), None, Some(unknown));
    let error = case.refuses(on_root, data);
    assert_eq!(error, FoldError::UnknownOutput { index: case.index, output: unknown });
    let (_, data) = case.log.output_data(notes_payload("n"), None, Some(notes));
    let error = case.refuses(Scope::Node(case.run, case.child), data);
    assert_eq!(error, FoldError::OutputOfAnotherNode { index: case.index, output: notes });
    let (_, data) = case.log.output_data(artifact_payload(), None, Some(notes));
    let error = case.refuses(on_root, data);
    assert_eq!(error, FoldError::OutputOfAnotherChannel { index: case.index, output: notes });
}

#[test]
fn a_gap_twice_and_the_resolution_of_an_unknown_one() {
    let mut case = case();
    let on_root = Scope::Node(case.run, case.root);
    let unknown = GapId::from_bits([1; 10]);
    let (_, data) = case.log.gap_data(Severity::Info, REASON, Some(unknown));
    let error = case.refuses(on_root, data);
    assert_eq!(error, FoldError::UnknownGap { index: case.index, gap: unknown });
    let (gap, data) = case.log.gap_data(Severity::Info, REASON, None);
    case.log.push(on_root, data.clone());
    let error = case.refuses(on_root, data);
    assert_eq!(error, FoldError::DuplicateGap { index: case.index, gap });
}
