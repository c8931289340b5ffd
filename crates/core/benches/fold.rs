//! What folding costs: against parsing the same events, and for one more event after many or few.
//!
//! Prints medians. Targets: folding is not slower than parsing (ratio at most 1), and one more event after
//! 100,000 costs at most 1.2 times what it costs after 1,000.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and reports"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use workrail_core::project::SessionState;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer, BlockerReport};
use workrail_model::digest::{Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{
    AdvanceIntent, AdvanceOutcome, AdvanceRecorded, Context, ContextSet, ContextSource,
    DecisionTraceAppended, DedupeKey, EdgeCause, EdgeCauseKind, EdgeCreated, EdgeKind, Event, EventData,
    EventIndex, GapRecorded, NodeCreated, NodeKind, NodeOutputAppended, OutputChannel, OutputPayload,
    RunStarted, Scope, SessionCreated, TraceEntry, TraceKind, ValidationPerformed, ValidationResult,
    WorkflowSourceKind,
};
use workrail_model::gap::{Resolution, Severity};
use workrail_model::id::{
    AttemptId, ContextId, EventId, GapId, NodeId, OutputId, RunId, SessionId, TraceId, ValidationId,
};
use workrail_model::name::{StepId, WorkflowId};
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::text::BoundedText;

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// One event takes less than the clock's grain: this many are timed together.
const NEXT: usize = 1_000;
const REPETITIONS: usize = 15;

fn main() {
    let events = history(MANY + NEXT);
    let records: Vec<Vec<u8>> =
        events[..MANY].iter().map(|event| event.to_canonical().expect("events are canonical")).collect();

    let parse = median(7, || {
        let start = Instant::now();
        let parsed: Vec<Event> =
            records.iter().map(|record| Event::parse(record).expect("written above")).collect();
        let took = start.elapsed();
        black_box(parsed);
        took
    });
    let fold = median(7, || {
        let start = Instant::now();
        let state = folded(&events[..MANY]);
        let took = start.elapsed();
        black_box(state);
        took
    });
    println!("parse {MANY} events: {parse:?}");
    println!("fold {MANY} events: {fold:?}");
    println!("fold/parse ratio: {:.3}", ratio(fold, parse));

    let (few, many) = one_more(&events);
    println!("one more event after {FEW}: {:?}", few / NEXT as u32);
    println!("one more event after {MANY}: {:?}", many / NEXT as u32);
    println!("one more event 100k/1k ratio: {:.3}", ratio(many, few));

    let state = folded(&events[..MANY]);
    let run = state.runs().next().expect("one run").run_id;
    let tip = median(REPETITIONS, || {
        let start = Instant::now();
        black_box(state.preferred_tip(black_box(run)));
        start.elapsed()
    });
    println!("preferred tip after {MANY}: {tip:?}");
}

/// Alternates the two, so that a change of the machine's mood meets both.
fn one_more(events: &[Event]) -> (Duration, Duration) {
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        for (base, times) in [(FEW, &mut few), (MANY, &mut many)] {
            let mut state = folded(&events[..base]);
            let start = Instant::now();
            for event in &events[base..base + NEXT] {
                state.apply(event).expect("the history is valid");
            }
            times.push(start.elapsed());
            black_box(state);
        }
    }
    (middle(few), middle(many))
}

fn folded(events: &[Event]) -> SessionState {
    SessionState::from_events(session(), events).expect("the history is valid")
}

fn median(repetitions: usize, mut measure: impl FnMut() -> Duration) -> Duration {
    middle((0..repetitions).map(|_| measure()).collect())
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn session() -> SessionId {
    SessionId::from_bits([3; 10])
}

/// One run as agents leave it: mostly straight on, with refusals, retries, checkpoints, gaps and forks.
fn history(length: usize) -> Vec<Event> {
    let mut log = Log { events: Vec::new(), minted: 0, run: RunId::from_bits([5; 10]) };
    let root = log.start();
    let mut path = vec![root];
    for round in 0_usize.. {
        if log.events.len() >= length {
            break;
        }
        if round % 60 == 59 {
            path.truncate(path.len().saturating_sub(5).max(1));
        }
        let at = path[path.len() - 1];
        let blocked = (round % 8 == 0).then(|| log.block(at));
        if round % 20 == 0 {
            log.checkpoint(at);
        }
        if round % 15 == 0 {
            log.gap(at);
        }
        path.push(log.advance(at, round, blocked));
    }
    log.events.truncate(length);
    log.events
}

struct Log {
    events: Vec<Event>,
    minted: u64,
    run: RunId,
}

impl Log {
    fn bits(&mut self) -> [u8; 10] {
        self.minted += 1;
        let mut bits = [0; 10];
        bits.copy_from_slice(&Sha256::of(&self.minted.to_be_bytes()).as_bytes()[..10]);
        bits
    }

    fn attempt(&mut self) -> AttemptId {
        let bits = self.bits();
        AttemptId::from_bits(u64::from_be_bytes([0, 0, 0, bits[0], bits[1], bits[2], bits[3], bits[4]]))
    }

    fn push(&mut self, scope: Scope, data: EventData) {
        let event = Event {
            event_id: EventId::from_bits(self.bits()),
            event_index: EventIndex::new(self.events.len() as u64).expect("far below the limit"),
            session_id: session(),
            scope,
            dedupe_key: DedupeKey::of(session(), scope, &data),
            at: None,
            activity: None,
            data,
        };
        self.events.push(event);
    }

    fn on(&self, node: NodeId) -> Scope {
        Scope::Node(self.run, node)
    }

    fn start(&mut self) -> NodeId {
        self.push(Scope::Session, EventData::SessionCreated(SessionCreated::default()));
        let started = RunStarted {
            workflow_id: WorkflowId::parse("bench.workflow").expect("a workflow id"),
            workflow_hash: WorkflowHash::of(b"workflow"),
            workflow_source_kind: WorkflowSourceKind::Project,
            workflow_source_ref: BoundedText::clip("workflows/bench.json"),
            workflow_source_digest: None,
            parent: None,
            keyed: None,
        };
        self.push(Scope::Run(self.run), EventData::RunStarted(started));
        self.node(None, NodeKind::Step)
    }

    fn node(&mut self, parent: Option<NodeId>, kind: NodeKind) -> NodeId {
        let node = NodeId::from_bits(self.bits());
        let created = NodeCreated {
            node_kind: kind,
            parent_node_id: parent,
            workflow_hash: WorkflowHash::of(b"workflow"),
            snapshot_ref: SnapshotRef::of(node.body().as_bytes()),
            checkpoint: None,
        };
        self.push(self.on(node), EventData::NodeCreated(created));
        node
    }

    fn edge(&mut self, from: NodeId, to: NodeId, edge_kind: EdgeKind, kind: EdgeCauseKind) {
        let event_id = self.events[self.events.len() - 1].event_id;
        let cause = EdgeCause { kind, event_id };
        let edge = EdgeCreated { edge_kind, from_node_id: from, to_node_id: to, cause };
        self.push(Scope::Run(self.run), EventData::EdgeCreated(edge));
    }

    fn record(&mut self, node: NodeId, attempt: AttemptId, outcome: AdvanceOutcome) {
        let advance = AdvanceRecorded {
            attempt_id: attempt,
            intent: AdvanceIntent::AckPending,
            outcome,
            request_digest: Some(Sha256::of(attempt.body().as_bytes())),
            reply_ref: None,
            submitted: None,
        };
        self.push(self.on(node), EventData::AdvanceRecorded(advance));
    }

    fn notes(&mut self, node: NodeId, attempt: AttemptId, supersedes: Option<OutputId>) -> OutputId {
        let output_id = OutputId::from_bits(self.bits());
        let text = "Looked at the failing test, found the cause, wrote down what is left to do. ".repeat(6);
        let output = NodeOutputAppended {
            output_id,
            supersedes_output_id: supersedes,
            output_channel: OutputChannel::Recap,
            payload: OutputPayload::Notes { notes_markdown: BoundedText::clip(&text), full_text_ref: None },
            attempt_id: Some(attempt),
        };
        self.push(self.on(node), EventData::NodeOutputAppended(output));
        output_id
    }

    fn block(&mut self, node: NodeId) -> OutputId {
        let attempt = self.attempt();
        let notes = self.notes(node, attempt, None);
        let blocker = Blocker {
            code: BlockerCode::MissingRequiredOutput,
            pointer: BlockerPointer::WorkflowStep { step_id: StepId::parse("step").expect("a step id") },
            message: BoundedText::clip("the output has no field `summary`"),
            suggested_fix: Some(BoundedText::clip("send { \"summary\": \"...\" }")),
        };
        let blockers = BlockerReport::new(vec![blocker]).expect("one blocker");
        self.record(node, attempt, AdvanceOutcome::Blocked { blockers });
        let validation = ValidationPerformed {
            validation_id: ValidationId::from_bits(self.bits()),
            attempt_id: attempt,
            contract_ref: None,
            result: ValidationResult::Invalid { issues: vec![BoundedText::clip("summary is missing")] },
        };
        self.push(self.on(node), EventData::ValidationPerformed(validation));
        notes
    }

    fn checkpoint(&mut self, node: NodeId) {
        let checkpoint = self.node(Some(node), NodeKind::Checkpoint);
        self.edge(node, checkpoint, EdgeKind::Checkpoint, EdgeCauseKind::CheckpointCreated);
        let attempt = self.attempt();
        self.notes(checkpoint, attempt, None);
    }

    fn gap(&mut self, node: NodeId) {
        let mut resolution = Resolution::Unresolved;
        for summary in ["the output was missing", "the output came later"] {
            let gap = GapRecorded {
                gap_id: GapId::from_bits(self.bits()),
                severity: Severity::Critical,
                reason: Reason::ContractViolation(ContractViolation::MissingRequiredOutput),
                summary: BoundedText::clip(summary),
                resolution,
                cause: None,
                evidence_refs: Vec::new(),
            };
            resolution = Resolution::Resolves { resolves_gap_id: gap.gap_id };
            self.push(self.on(node), EventData::GapRecorded(gap));
        }
    }

    fn advance(&mut self, from: NodeId, round: usize, retried: Option<OutputId>) -> NodeId {
        let attempt = self.attempt();
        self.notes(from, attempt, retried);
        let to = self.node(Some(from), NodeKind::Step);
        self.record(from, attempt, AdvanceOutcome::Advanced { to_node_id: to });
        self.edge(from, to, EdgeKind::AckedStep, EdgeCauseKind::AckPending);
        let delta =
            json!({ "phase": round % 7, "branch": "main", format!("finding{}", round % 12): "a line" });
        let set = ContextSet {
            context_id: ContextId::from_bits(self.bits()),
            context: serde_json::from_value::<Context>(delta).expect("a small context"),
            source: ContextSource::AgentDelta,
            node_id: to,
            attempt_id: None,
            proof: None,
        };
        self.push(Scope::Run(self.run), EventData::ContextSet(set));
        let entry = TraceEntry {
            kind: TraceKind::SelectedNextStep,
            summary: BoundedText::clip("the next step whose condition holds"),
            refs: Vec::new(),
        };
        let trace = DecisionTraceAppended { trace_id: TraceId::from_bits(self.bits()), entries: vec![entry] };
        self.push(self.on(from), EventData::DecisionTraceAppended(trace));
        to
    }
}
