//! Random histories that a real server could have written: every operation is adapted to what exists.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use workrail_model::approval::ApprovalDecision;
use workrail_model::assessment::{AssessedDimension, ConsequenceEffect, LevelMatch};
use workrail_model::capability::{Capability, CapabilityStatus};
use workrail_model::event::{
    AssessmentConsequenceApplied, AssessmentRecorded, CloseChannel, Context, DecisionTraceAppended,
    DivergenceReason, DivergenceRecorded, EventData, EvidenceRecorded, NodeKind, ObservationKey, ParentLink,
    RunClosed, Scope, TraceEntry, TraceKind, ValidationPerformed, ValidationResult,
};
use workrail_model::evidence::{Evidence, EvidenceGrade};
use workrail_model::gap::Severity;
use workrail_model::id::{
    AssessmentRecordId, AttemptId, ClosureId, ConsequenceId, DivergenceId, EvidenceId, GapId, NodeId,
    OutputId, RunId, TraceId, ValidationId,
};
use workrail_model::name::AssessmentName;
use workrail_model::preferences::Mode;
use workrail_model::reason::{
    Advisory, CapabilityMissing, ContractViolation, Reason, Unexpected, UserOnlyDependencyReason,
};
use workrail_model::text::BoundedText;
use workrail_model::time::Timestamp;

use super::fixture::{EventLog, RecordPosition, step};

/// The next operation. Numbers select among what exists, counted from the newest.
#[derive(Clone, Debug)]
pub(super) enum Op {
    StartRun {
        nested: bool,
    },
    Advance {
        node: usize,
        delta: Option<[u8; 3]>,
        first: bool,
        retry: bool,
    },
    Block {
        node: usize,
        delta: Option<[u8; 3]>,
        retry: bool,
    },
    Checkpoint {
        node: usize,
    },
    Gap {
        node: usize,
        severity: u8,
        reason: u8,
    },
    ResolveGap {
        node: usize,
        gap: usize,
    },
    Prefer {
        node: usize,
        autonomy: u8,
    },
    ObserveCapability {
        node: usize,
        capability: u8,
        status: u8,
    },
    Observe {
        node: Option<usize>,
        key: u8,
        value: u8,
    },
    /// Writers do not do this, but the fold's result is defined.
    SetContextLate {
        node: usize,
        delta: [u8; 3],
    },
    Fact {
        node: usize,
        kind: u8,
    },
}

/// The newest nodes are picked most often, as in real work; older ones produce forks and rewinds.
fn node() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..2usize, 2 => 0..6usize, 1 => 0..60usize]
}

fn op() -> impl Strategy<Value = Op> {
    let delta = || any::<[u8; 3]>();
    prop_oneof![
        1 => any::<bool>().prop_map(|nested| Op::StartRun { nested }),
        10 => (node(), proptest::option::of(delta()), any::<bool>(), any::<bool>())
            .prop_map(|(node, delta, first, retry)| Op::Advance { node, delta, first, retry }),
        4 => (node(), proptest::option::of(delta()), any::<bool>())
            .prop_map(|(node, delta, retry)| Op::Block { node, delta, retry }),
        3 => node().prop_map(|node| Op::Checkpoint { node }),
        2 => (node(), any::<u8>(), any::<u8>())
            .prop_map(|(node, severity, reason)| Op::Gap { node, severity, reason }),
        2 => (node(), 0..4usize).prop_map(|(node, gap)| Op::ResolveGap { node, gap }),
        2 => (node(), any::<u8>()).prop_map(|(node, autonomy)| Op::Prefer { node, autonomy }),
        2 => (node(), any::<u8>(), any::<u8>())
            .prop_map(|(node, capability, status)| Op::ObserveCapability { node, capability, status }),
        1 => (proptest::option::of(node()), any::<u8>(), any::<u8>())
            .prop_map(|(node, key, value)| Op::Observe { node, key, value }),
        1 => (node(), delta()).prop_map(|(node, delta)| Op::SetContextLate { node, delta }),
        2 => (node(), any::<u8>()).prop_map(|(node, kind)| Op::Fact { node, kind }),
    ]
}

pub(super) fn history() -> impl Strategy<Value = GeneratedHistory> {
    proptest::collection::vec(op(), 1..60).prop_map(|ops| {
        let mut history = GeneratedHistory::new();
        for op in &ops {
            history.play(op);
        }
        history
    })
}

#[derive(Clone, Debug)]
struct Blocked {
    node: NodeId,
    attempt: AttemptId,
    notes: OutputId,
}

#[derive(Clone, Debug)]
pub(super) struct GeneratedHistory {
    pub(super) log: EventLog,
    pub(super) runs: Vec<RunId>,
    pub(super) nodes: Vec<(RunId, NodeId, NodeKind)>,
    /// The newest blocked attempt of every retry chain.
    blocked: Vec<Blocked>,
    gaps: Vec<GapId>,
}

impl GeneratedHistory {
    fn new() -> Self {
        let mut log = EventLog::new();
        let (run, root) = log.start_run();
        let nodes = vec![(run, root, NodeKind::Step)];
        Self { log, runs: vec![run], nodes, blocked: Vec::new(), gaps: Vec::new() }
    }

    fn pick(&self, from_newest: usize) -> (RunId, NodeId) {
        let (run, node, _) = self.nodes[self.nodes.len() - 1 - from_newest % self.nodes.len()];
        (run, node)
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::StartRun { nested } => self.start_run(*nested),
            Op::Advance { node, delta, first, retry } => {
                let record_at = if *first { RecordPosition::First } else { RecordPosition::Last };
                self.advance(*node, *delta, record_at, *retry);
            }
            Op::Block { node, delta, retry } => self.block(*node, *delta, *retry),
            Op::Checkpoint { node } => {
                let (run, parent) = self.pick(*node);
                let attempt = self.log.attempt();
                let checkpoint = self.log.checkpoint(run, parent);
                self.log.notes(run, checkpoint, &format!("checkpoint {checkpoint}"), Some(attempt));
                self.nodes.push((run, checkpoint, NodeKind::Checkpoint));
            }
            Op::Gap { node, severity, reason } => {
                let (run, node) = self.pick(*node);
                let gap = self.log.gap(run, node, severity_of(*severity), reason_of(*reason));
                self.gaps.push(gap);
            }
            Op::ResolveGap { node, gap } => {
                let (run, node) = self.pick(*node);
                if let Some(resolved) = self.gaps.iter().rev().nth(*gap).copied() {
                    self.log.resolve(run, node, Severity::Critical, reason_of(0), resolved);
                }
            }
            Op::Prefer { node, autonomy } => {
                let (run, node) = self.pick(*node);
                self.log.prefer(run, node, mode_of(*autonomy).preferences());
            }
            Op::ObserveCapability { node, capability, status } => {
                let (run, node) = self.pick(*node);
                let capability = Capability::ALL[usize::from(*capability) % Capability::ALL.len()];
                let status =
                    [CapabilityStatus::Available, CapabilityStatus::Unavailable][usize::from(*status % 2)];
                self.log.observe_capability(run, node, capability, status);
            }
            Op::Observe { node, key, value } => {
                let scope = node
                    .map(|node| self.pick(node))
                    .map_or(Scope::Session, |(run, node)| Scope::Node(run, node));
                let keys =
                    [ObservationKey::GitBranch, ObservationKey::GitHeadSha, ObservationKey::RepoRootHash];
                self.log.observe(scope, keys[usize::from(*key % 3)], &format!("value-{}", value % 3));
            }
            Op::SetContextLate { node, delta } => {
                let (run, node) = self.pick(*node);
                self.log.set_context(run, node, delta_of(*delta, None), None);
            }
            Op::Fact { node, kind } => self.fact(*node, *kind),
        }
    }

    fn start_run(&mut self, nested: bool) {
        let (run_id, node_id) = self.pick(0);
        let run = self.log.open_run(nested.then_some(ParentLink { run_id, node_id }));
        let root = self.log.node(run, None, NodeKind::Step);
        self.log.set_context(run, root, delta_of([1, 2, 3], Some(root)), None);
        self.runs.push(run);
        self.nodes.push((run, root, NodeKind::Step));
    }

    /// The chain that a retry on the node continues, if one is requested and exists.
    fn retried(&mut self, node: NodeId, retry: bool) -> Option<Blocked> {
        let position = self.blocked.iter().rposition(|blocked| retry && blocked.node == node)?;
        Some(self.blocked.remove(position))
    }

    fn advance(&mut self, node: usize, delta: Option<[u8; 3]>, record_at: RecordPosition, retry: bool) {
        let (run, from) = self.pick(node);
        let attempt = self.log.attempt();
        let retried = self.retried(from, retry).map(|blocked| blocked.notes);
        self.log.corrected_notes(run, from, &format!("notes of {attempt}"), Some(attempt), retried);
        let to = self.log.advance_in_order(run, from, attempt, record_at);
        if let Some(delta) = delta {
            self.log.set_context(run, to, delta_of(delta, Some(to)), None);
        }
        self.nodes.push((run, to, NodeKind::Step));
    }

    fn block(&mut self, node: usize, delta: Option<[u8; 3]>, retry: bool) {
        let (run, node) = self.pick(node);
        let attempt = self.log.attempt();
        let retried = self.retried(node, retry).map(|blocked| blocked.notes);
        let notes = self.log.corrected_notes(run, node, "blocked notes", Some(attempt), retried);
        self.log.block(run, node, attempt);
        if let Some(delta) = delta {
            self.log.set_context(run, node, delta_of(delta, None), Some(attempt));
        }
        self.blocked.push(Blocked { node, attempt, notes });
    }

    /// The attempts that were blocked on a node and not retried.
    pub(super) fn blocked_on(&self, node: NodeId) -> Vec<AttemptId> {
        self.blocked.iter().filter(|blocked| blocked.node == node).map(|blocked| blocked.attempt).collect()
    }

    fn fact(&mut self, node: usize, kind: u8) {
        let (run, node) = self.pick(node);
        let bits = self.log.bits();
        let attempt = self.log.attempt();
        let name = || AssessmentName::parse("quality").unwrap();
        let data = match kind % 8 {
            0 => return self.log.approve(run, node, step(), ApprovalDecision::Approved),
            1 => EventData::DivergenceRecorded(DivergenceRecorded {
                divergence_id: DivergenceId::from_bits(bits),
                reason: DivergenceReason::EfficiencySkip,
                summary: BoundedText::clip("skipped"),
                related_step_id: Some(step()),
            }),
            2 => EventData::AssessmentRecorded(AssessmentRecorded {
                record_id: AssessmentRecordId::from_bits(bits),
                attempt_id: attempt,
                assessment_id: name(),
                dimensions: vec![AssessedDimension {
                    dimension_id: name(),
                    level: BoundedText::clip("high"),
                    rationale: None,
                    normalization: LevelMatch::Exact,
                }],
                summary: None,
            }),
            3 => EventData::AssessmentConsequenceApplied(AssessmentConsequenceApplied {
                consequence_id: ConsequenceId::from_bits(bits),
                attempt_id: attempt,
                assessment_id: name(),
                dimension_id: name(),
                level: BoundedText::clip("low"),
                effect: ConsequenceEffect::RequireFollowup { guidance: BoundedText::clip("look again") },
            }),
            4 => EventData::RunClosed(RunClosed {
                closure_id: ClosureId::from_bits(bits),
                reason: BoundedText::clip("superseded"),
                channel: CloseChannel::CommandLine,
            }),
            6 => EventData::EvidenceRecorded(EvidenceRecorded {
                evidence_id: EvidenceId::from_bits(bits),
                attempt_id: Some(attempt),
                grade: EvidenceGrade::Observed,
                host: Some(BoundedText::clip("codex")),
                seen_at: Timestamp::parse("2026-01-02T03:04:05.678Z").ok(),
                evidence: Evidence::SubagentStarted { agent: BoundedText::clip("reviewer") },
            }),
            5 => EventData::ValidationPerformed(ValidationPerformed {
                validation_id: ValidationId::from_bits(bits),
                attempt_id: attempt,
                contract_ref: None,
                result: ValidationResult::Valid,
            }),
            _ => EventData::DecisionTraceAppended(DecisionTraceAppended {
                trace_id: TraceId::from_bits(bits),
                entries: vec![TraceEntry {
                    kind: TraceKind::SelectedNextStep,
                    summary: BoundedText::clip("the next one"),
                    refs: Vec::new(),
                }],
            }),
        };
        self.log.push(Scope::Node(run, node), data);
    }
}

/// Three keys shared by all branches, set, changed or deleted, and one that names the node itself.
pub(super) fn delta_of(delta: [u8; 3], mark: Option<NodeId>) -> Context {
    let mut map = Map::new();
    for (key, byte) in ["a", "b", "c"].into_iter().zip(delta) {
        match byte % 4 {
            0 => {}
            1 => {
                map.insert(key.to_owned(), Value::Null);
            }
            _ => {
                map.insert(key.to_owned(), json!({ "value": byte }));
            }
        }
    }
    if let Some(node) = mark {
        map.insert(format!("mark-{node}"), json!(node.to_string()));
    }
    Context::new(map).unwrap()
}

fn severity_of(byte: u8) -> Severity {
    [Severity::Info, Severity::Warning, Severity::Critical, Severity::Critical][usize::from(byte % 4)]
}

fn reason_of(byte: u8) -> Reason {
    let reasons = [
        Reason::UserOnlyDependency(UserOnlyDependencyReason::NeedsUserApproval),
        Reason::ContractViolation(ContractViolation::MissingRequiredOutput),
        Reason::CapabilityMissing(CapabilityMissing::RequiredCapabilityUnknown),
        Reason::Unexpected(Unexpected::InvariantViolation),
        Reason::Advisory(Advisory::CapabilityDegraded),
    ];
    reasons[usize::from(byte) % reasons.len()]
}

fn mode_of(byte: u8) -> Mode {
    let modes = [Mode::Guided, Mode::FullAutoStopOnUserDeps, Mode::FullAutoNeverStop];
    modes[usize::from(byte % 3)]
}
