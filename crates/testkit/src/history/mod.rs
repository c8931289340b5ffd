//! Histories: sessions as the engine writes them, for suites, crash proofs and benches.
//!
//! The core decides every plan, from the state that the earlier plans fold to. A history does not depend on any
//! store: the same seed and the same calls give the same bytes, and a repeated plan has the dedupe keys of the first
//! (G8).

mod content;
mod parts;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use workrail_core::agent_site::AgentSite;
use workrail_core::decide::Minting;
use workrail_core::decide::advance::{Advance, advance};
use workrail_core::decide::attempt::AttemptState;
use workrail_core::decide::checkpoint::{self, Checkpoint};
use workrail_core::decide::evidence::AvailableEvidence;
use workrail_core::decide::proof::ApprovalRule;
use workrail_core::decide::start::{Start, start};
use workrail_core::derive;
use workrail_core::project::{NodeState, SessionState};
use workrail_core::reply::recovery::Snapshots;
use workrail_core::report::ContentReader;
use workrail_model::approval::RequiredProof;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{
    Context, DecisionTraceAppended, DedupeKey, Event, EventData, EventIndex, Scope, TraceEntry, TraceKind,
    WorkflowSourceKind,
};
use workrail_model::evidence::TreeInspection;
use workrail_model::id::{AttemptId, NodeId, RunId, SessionId, TraceId};
use workrail_model::plan::AttachmentKind;
use workrail_model::preferences::{PreferenceSource, Preferences};
use workrail_model::snapshot::{EngineState, ExecutionSnapshot};
use workrail_model::submission::{StepOutput, Submission};
use workrail_model::text::BoundedText;
use workrail_model::tool::ToolSet;

use crate::fixed;

pub use parts::PlanParts;
pub use script::{Step, plans};

/// What an advance carries besides its notes and context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvancePayload {
    /// Artifacts, each an attached blob of `artifact_bytes`.
    pub artifacts: u32,
    pub artifact_bytes: usize,
    /// Extra traces: events without content, which make a plan as long as a test needs.
    pub more_traces: u32,
}

impl AdvancePayload {
    /// The ordinary advance: notes, context and one trace, 6 events.
    pub const NOTES: Self = Self { artifacts: 0, artifact_bytes: 0, more_traces: 0 };
    /// The same with one small artifact.
    pub const ARTIFACT: Self = Self { artifacts: 1, artifact_bytes: 256, ..Self::NOTES };
}

/// The next attempts at a node.
#[derive(Clone, Debug)]
struct NextAttempts {
    advance: AttemptId,
    checkpoint: AttemptId,
    /// What a refused attempt sent.
    earlier_output: StepOutput,
    /// How many children were created by acknowledged steps.
    children: u32,
}

/// The content that decisions read again.
#[derive(Clone, Debug)]
struct Contents {
    workflow: Arc<CompiledWorkflow>,
    snapshots: BTreeMap<SnapshotRef, ExecutionSnapshot>,
}

impl Snapshots for Contents {
    fn state_at(&self, node: &NodeState) -> Option<EngineState> {
        self.snapshots.get(&node.snapshot_ref).map(|snapshot| snapshot.state().clone())
    }
}

impl ContentReader for Contents {
    fn workflow(&self, _: WorkflowHash) -> Option<Arc<CompiledWorkflow>> {
        Some(Arc::clone(&self.workflow))
    }

    fn blob(&self, _: BlobRef) -> Option<Vec<u8>> {
        None
    }
}

/// One session with one run, growing plan by plan.
#[derive(Clone, Debug)]
pub struct History {
    seed: u64,
    run: RunId,
    facts: SessionState,
    contents: Contents,
    nodes: BTreeMap<NodeId, NextAttempts>,
    plans: u64,
}

impl History {
    /// Different seeds are different sessions, runs and workflows.
    pub fn new(seed: u64) -> Self {
        let workflow = Arc::new(content::workflow(seed));
        Self {
            seed,
            run: RunId::from_bits(bits("run", seed, 0)),
            facts: SessionState::new(SessionId::from_bits(bits("session", seed, 0))),
            contents: Contents { workflow, snapshots: BTreeMap::new() },
            nodes: BTreeMap::new(),
            plans: 0,
        }
    }

    pub fn session(&self) -> SessionId {
        self.facts.session_id()
    }

    pub fn run(&self) -> RunId {
        self.run
    }

    pub fn root(&self) -> NodeId {
        derive::root_node_id(self.run)
    }

    pub fn workflow(&self) -> &CompiledWorkflow {
        &self.contents.workflow
    }

    /// The index at which the next plan starts.
    pub fn next_index(&self) -> EventIndex {
        self.facts.next_event_index()
    }

    /// The attempt that the next advance from `node` uses.
    pub fn attempt(&self, node: NodeId) -> AttemptId {
        self.next_attempts(node).advance
    }

    /// The session, the run, its root, preferences, first context and trace.
    pub fn start(&mut self) -> PlanParts {
        assert!(self.nodes.is_empty(), "a history starts once");
        let started = start(Start {
            facts: &self.facts,
            run: self.run,
            workflow: &self.contents.workflow,
            source_kind: WorkflowSourceKind::Project,
            source_ref: "workflows/history.json",
            source_digest: None,
            context: context(&json!({ "goal": "prove the store" })),
            preferences: Preferences::default(),
            preference_source: PreferenceSource::System,
            parent: None,
            references: &[],
            observed: &[],
            tree: TreeInspection::NoRepository,
            other_runs: Vec::new(),
            notices: Vec::new(),
            repeatable: None,
            tools: ToolSet::ALL,
            site: &AgentSite::Local,
            minting: self.minting(),
        });
        let started = started.unwrap_or_else(|error| panic!("a history can start: {error:?}"));
        let parts = self.record(PlanParts::of(&started.plan));
        self.arrive(started.run.root, started.run.attempt);
        parts
    }

    /// The ordinary advance; from a node that has a child already it is a fork, and says so.
    pub fn advance(&mut self, from: NodeId, load: AdvancePayload) -> (PlanParts, NodeId) {
        let attempt = self.attempt(from);
        self.advance_by(from, attempt, load)
    }

    /// An advance with another input's fork ack: a deliberate second branch.
    pub fn fork(&mut self, from: NodeId, load: AdvancePayload) -> (PlanParts, NodeId) {
        let next = self.next_attempts(from);
        let request = Sha256::of_parts(&[b"fork", &next.children.to_be_bytes()]);
        let attempt = derive::fork_attempt(next.advance, request);
        self.advance_by(from, attempt, load)
    }

    fn advance_by(&mut self, from: NodeId, attempt: AttemptId, load: AdvancePayload) -> (PlanParts, NodeId) {
        let child = derive::node_id(self.session(), self.run, from, attempt);
        let depth = self.node(from).depth + 1;
        let artifacts =
            (0..load.artifacts).map(|number| artifact(child, number, load.artifact_bytes)).collect();
        let sent = Submission {
            output: StepOutput {
                notes_markdown: Some(format!("Step {depth} is done; next comes another.")),
                artifacts,
            },
            context: context(&json!({ "last": format!("value {depth}") })),
        };
        let mut parts = self.decide(from, attempt, &sent);
        self.push_traces(&mut parts, from, load.more_traces);
        let parts = self.record(parts);

        let next = self.nodes.get_mut(&from).expect("looked at above");
        // An agent that returns to this node has rehydrated it, and holds a fresh attempt.
        next.advance = derive::fork_attempt(next.advance, Sha256::of(child.body().as_bytes()));
        next.earlier_output = StepOutput::default();
        next.children += 1;
        self.arrive(child, derive::next_attempt(attempt, child));
        (parts, child)
    }

    /// An attempt that was refused for lack of notes: the node stays, and its next advance is the retry.
    pub fn blocked(&mut self, node: NodeId) -> PlanParts {
        let attempt = self.attempt(node);
        let sent = Submission {
            output: StepOutput { notes_markdown: None, artifacts: vec![artifact(node, self.number(), 0)] },
            context: Context::default(),
        };
        let parts = self.decide(node, attempt, &sent);
        let parts = self.record(parts);
        let next = self.nodes.get_mut(&node).expect("looked at above");
        next.advance = derive::retry_attempt(attempt);
        next.earlier_output.artifacts.extend(sent.output.artifacts);
        parts
    }

    /// A checkpoint of `node`: a leaf off the main path, with its own notes.
    pub fn checkpoint(&mut self, node: NodeId) -> (PlanParts, NodeId) {
        let attempt = self.next_attempts(node).checkpoint;
        let decided = checkpoint::checkpoint(Checkpoint {
            facts: &self.facts,
            node,
            attempt,
            snapshot: self.snapshot(node),
            workflow: &self.contents.workflow,
            output: &StepOutput::notes("So far so good."),
            minting: self.minting(),
        });
        let decided = decided.unwrap_or_else(|error| panic!("a step can be saved: {error:?}"));
        let parts = self.record(PlanParts::of(&decided.plan));
        let made = derive::checkpoint_node_id(node, attempt);
        let next = self.nodes.get_mut(&node).expect("looked at above");
        next.checkpoint = derive::next_attempt(attempt, made);
        (parts, made)
    }

    fn decide(&self, node: NodeId, attempt: AttemptId, sent: &Submission) -> PlanParts {
        let attempt = AttemptState::find(&self.facts, node, attempt, sent);
        let Ok(AttemptState::Open(attempt)) = attempt else {
            panic!("an attempt is decided once: {attempt:?}")
        };
        let decided = advance(Advance {
            facts: &self.facts,
            attempt,
            snapshot: self.snapshot(node),
            workflow: &self.contents.workflow,
            earlier_output: self.next_attempts(node).earlier_output.clone(),
            pending_preferences: None,
            approvals: ApprovalRule::new(RequiredProof::Terminal, None),
            observed: &[],
            evidence: AvailableEvidence::default(),
            notices: Vec::new(),
            workflow_changed: false,
            content: &self.contents,
            tools: ToolSet::ALL,
            site: &AgentSite::Local,
            minting: self.minting(),
        });
        PlanParts::of(&decided.unwrap_or_else(|error| panic!("a step can be completed: {error:?}")).plan)
    }

    fn node(&self, node: NodeId) -> &NodeState {
        self.facts.node(node).unwrap_or_else(|| panic!("{node} is not a node of this history"))
    }

    fn snapshot(&self, node: NodeId) -> &ExecutionSnapshot {
        &self.contents.snapshots[&self.node(node).snapshot_ref]
    }

    fn next_attempts(&self, node: NodeId) -> &NextAttempts {
        self.nodes.get(&node).unwrap_or_else(|| panic!("{node} is not a step of this history"))
    }

    fn arrive(&mut self, node: NodeId, attempt: AttemptId) {
        let next = NextAttempts {
            advance: attempt,
            checkpoint: attempt,
            earlier_output: StepOutput::default(),
            children: 0,
        };
        self.nodes.insert(node, next);
    }

    /// The number of plans; tests make few.
    fn number(&self) -> u32 {
        u32::try_from(self.plans).unwrap_or(u32::MAX)
    }

    fn event_seed(&self) -> [u8; 10] {
        bits("plan", self.seed, self.plans)
    }

    fn minting(&self) -> Minting {
        Minting {
            event_seed: self.event_seed(),
            at: fixed::epoch(),
            activity: fixed::activity(self.plans + 1),
            actor: None,
        }
    }

    /// Folds what was decided, as the engine does after an append.
    fn record(&mut self, parts: PlanParts) -> PlanParts {
        for attachment in
            parts.attachments.iter().filter(|attachment| attachment.kind() == AttachmentKind::Snapshot)
        {
            let snapshot = ExecutionSnapshot::parse(attachment.bytes());
            let snapshot = snapshot.unwrap_or_else(|error| panic!("a decided snapshot is valid: {error}"));
            self.contents.snapshots.insert(attachment.snapshot_ref(), snapshot);
        }
        for event in &parts.events {
            self.facts.apply(event).unwrap_or_else(|error| panic!("a decided event folds: {error}"));
        }
        self.plans += 1;
        parts
    }

    fn push_traces(&self, parts: &mut PlanParts, node: NodeId, count: u32) {
        let scope = Scope::Node(self.run, node);
        for number in 0..count {
            let entry = TraceEntry {
                kind: TraceKind::SelectedNextStep,
                summary: BoundedText::clip(&format!("remark {number}")),
                refs: Vec::new(),
            };
            let trace_id =
                TraceId::from_bits(bits(&format!("trace {}", self.plans), self.seed, number.into()));
            let data =
                EventData::DecisionTraceAppended(DecisionTraceAppended { trace_id, entries: vec![entry] });
            let position = u32::try_from(parts.events.len()).unwrap_or(u32::MAX);
            parts.events.push(Event {
                event_id: derive::event_id(self.event_seed(), position),
                event_index: parts.next_index(),
                session_id: self.session(),
                scope,
                dedupe_key: DedupeKey::of(self.session(), scope, &data),
                at: Some(fixed::epoch()),
                activity: Some(fixed::activity(self.plans + 1)),
                actor: None,
                data,
            });
        }
    }
}

/// 80 bits for a pseudo-random id.
fn bits(what: &str, seed: u64, number: u64) -> [u8; 10] {
    let parts: [&[u8]; 4] =
        [b"workrail/testkit/history", what.as_bytes(), &seed.to_be_bytes(), &number.to_be_bytes()];
    let mut bits = [0; 10];
    bits.copy_from_slice(&Sha256::of_parts(&parts).as_bytes()[..10]);
    bits
}

fn context(entries: &Value) -> Context {
    let entries = entries.as_object().cloned().unwrap_or_default();
    Context::new(entries).expect("a short text and no reserved key are a valid context")
}

/// An artifact of a custom kind with about this many bytes.
fn artifact(node: NodeId, number: u32, bytes: usize) -> Value {
    let bare = json!({ "kind": "testkit", "number": number, "of": node, "pad": "" });
    let pad = bytes.saturating_sub(bare.to_string().len());
    json!({ "kind": "testkit", "number": number, "of": node, "pad": "x".repeat(pad) })
}
