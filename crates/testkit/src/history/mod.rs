//! Histories: deterministic plans as the engine makes them, for suites, crash proofs and benches.
//!
//! A history knows its own graph and index, and nothing of any store: the same seed and the same calls
//! give the same bytes, whoever appends them. Ids are derived as the core derives them, so that a
//! repeated plan has the dedupe keys of the first (G8).

mod content;
mod parts;
mod script;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use workrail_core::derive;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer, BlockerReport};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::event::{
    AdvanceIntent, AdvanceOutcome, AdvanceRecorded, Context, ContextSet, ContextSource,
    DecisionTraceAppended, EdgeCause, EdgeCauseKind, EdgeCreated, EdgeKind, EventData, EventIndex,
    NodeCreated, NodeKind, NodeOutputAppended, OutputPayload, PreferencesChanged, RunStarted, Scope,
    SessionCreated, TraceEntry, TraceKind, TraceRef, ValidationPerformed, ValidationResult,
    WorkflowSourceKind,
};
use workrail_model::id::{AttemptId, EventId, NodeId, RunId, SessionId, TraceId};
use workrail_model::plan::Attachment;
use workrail_model::preferences::{PreferenceChange, PreferenceSource, Preferences};
use workrail_model::text::BoundedText;

use crate::fixed;
use parts::Draft;

pub use parts::PlanParts;
pub use script::{Step, plans};

/// What an advance carries besides its node and edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Artifacts, each an attached blob of `artifact_bytes`.
    pub artifacts: u32,
    pub artifact_bytes: usize,
    /// Traces: events without content, to make a plan as long as a test needs it.
    pub traces: u32,
}

impl Load {
    /// Notes, context and one trace: the ordinary advance, 6 events.
    pub const NOTES: Self = Self { artifacts: 0, artifact_bytes: 0, traces: 1 };
    /// The same with one small artifact.
    pub const ARTIFACT: Self = Self { artifacts: 1, artifact_bytes: 256, ..Self::NOTES };
}

/// A node as far as its history remembers it.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The attempt that the next advance uses.
    attempt: AttemptId,
    depth: u32,
    /// How many children came by an acked step.
    children: u32,
}

/// One session with one run, growing plan by plan.
#[derive(Clone, Debug)]
pub struct History {
    seed: u64,
    session: SessionId,
    run: RunId,
    workflow: CompiledWorkflow,
    pinned: Attachment,
    nodes: BTreeMap<NodeId, Known>,
    next_index: EventIndex,
    plans: u64,
}

impl History {
    /// Different seeds are different sessions, runs and workflows.
    pub fn new(seed: u64) -> Self {
        let workflow = content::workflow(seed);
        let pinned = content::workflow_attachment(&workflow);
        Self {
            seed,
            session: SessionId::from_bits(bits("session", seed, 0)),
            run: RunId::from_bits(bits("run", seed, 0)),
            workflow,
            pinned,
            nodes: BTreeMap::new(),
            next_index: EventIndex::ZERO,
            plans: 0,
        }
    }

    pub fn session(&self) -> SessionId {
        self.session
    }

    pub fn run(&self) -> RunId {
        self.run
    }

    pub fn root(&self) -> NodeId {
        derive::root_node_id(self.run)
    }

    pub fn workflow(&self) -> &CompiledWorkflow {
        &self.workflow
    }

    pub fn workflow_hash(&self) -> WorkflowHash {
        self.pinned.workflow_hash()
    }

    /// The index at which the next plan starts.
    pub fn next_index(&self) -> EventIndex {
        self.next_index
    }

    /// The attempt that the next advance from `node` uses.
    pub fn attempt(&self, node: NodeId) -> AttemptId {
        self.known(node).attempt
    }

    /// `session_created`, `run_started`, the root, its preferences and its first context.
    pub fn start(&mut self) -> PlanParts {
        assert!(self.nodes.is_empty(), "a history starts once");
        let mut draft = self.draft();
        let (root, run) = (self.root(), self.run);
        let attempt = derive::root_attempt(root);
        draft.push(Scope::Session, EventData::SessionCreated(SessionCreated::default()));
        draft.attach(&self.pinned);
        let started = RunStarted {
            workflow_id: self.workflow.workflow_id.clone(),
            workflow_hash: self.workflow_hash(),
            workflow_source_kind: WorkflowSourceKind::Project,
            workflow_source_ref: BoundedText::clip("workflows/history.json"),
            workflow_source_digest: None,
            parent: None,
            keyed: None,
        };
        draft.push(Scope::Run(run), EventData::RunStarted(started));
        self.push_node(&mut draft, root, None, NodeKind::Step, 0);
        let effective = Preferences::default();
        let change = PreferencesChanged {
            change_id: derive::change_id(root, attempt, effective),
            source: PreferenceSource::System,
            delta: vec![PreferenceChange::Autonomy(effective.autonomy)],
            effective,
        };
        draft.push(Scope::Node(run, root), EventData::PreferencesChanged(change));
        self.push_context(&mut draft, root, ContextSource::Initial, &[("goal", "prove the store")]);
        self.nodes.insert(root, Known { attempt, depth: 0, children: 0 });
        self.finish(draft)
    }

    /// The ordinary advance; from a node that has a child already it is a fork, and says so.
    pub fn advance(&mut self, from: NodeId, load: Load) -> (PlanParts, NodeId) {
        let known = self.known(from);
        let cause = match known.children {
            0 => EdgeCauseKind::AckPending,
            _ => EdgeCauseKind::NonTipAdvance,
        };
        self.advance_by(from, known.attempt, cause, load)
    }

    /// An advance by the fork ack of another input: a second branch that was asked for.
    pub fn fork(&mut self, from: NodeId, load: Load) -> (PlanParts, NodeId) {
        let known = self.known(from);
        let request = Sha256::of_parts(&[b"fork", &known.children.to_be_bytes()]);
        let attempt = derive::fork_attempt(known.attempt, request);
        self.advance_by(from, attempt, EdgeCauseKind::IntentionalFork, load)
    }

    fn advance_by(
        &mut self,
        from: NodeId,
        attempt: AttemptId,
        cause: EdgeCauseKind,
        load: Load,
    ) -> (PlanParts, NodeId) {
        let known = self.known(from);
        let depth = known.depth + 1;
        let child = derive::node_id(self.session, self.run, from, attempt);
        let on_node = Scope::Node(self.run, from);
        let mut draft = self.draft();

        self.push_notes(&mut draft, from, attempt, &format!("Step {depth} is done; next comes another."));
        let mut artifacts: Vec<Attachment> =
            (0..load.artifacts).map(|number| artifact(child, number, load.artifact_bytes)).collect();
        artifacts.sort_by_key(Attachment::digest);
        for artifact in &artifacts {
            self.push_artifact(&mut draft, from, attempt, artifact);
        }
        self.push_node(&mut draft, child, Some(from), NodeKind::Step, depth);
        let outcome = AdvanceOutcome::Advanced { to_node_id: child };
        let event_id = self.push_recorded(&mut draft, from, attempt, outcome);
        self.push_edge(&mut draft, EdgeKind::AckedStep, (from, child), EdgeCause { kind: cause, event_id });
        let value = format!("value {depth}");
        self.push_context(&mut draft, child, ContextSource::AgentDelta, &[("last", value.as_str())]);
        for number in 0..load.traces {
            let trace = trace(from, attempt, number, depth);
            draft.push(on_node, EventData::DecisionTraceAppended(trace));
        }

        // Whoever comes back to this node has rehydrated it, and holds a fresh attempt.
        let fresh = derive::fork_attempt(known.attempt, Sha256::of(child.body().as_bytes()));
        self.nodes.insert(from, Known { attempt: fresh, children: known.children + 1, ..known });
        let next = derive::next_attempt(attempt, child);
        self.nodes.insert(child, Known { attempt: next, depth, children: 0 });
        (self.finish(draft), child)
    }

    /// An attempt that was refused: the node stays, and its next advance uses the retry attempt.
    pub fn blocked(&mut self, node: NodeId) -> PlanParts {
        let known = self.known(node);
        let attempt = known.attempt;
        let mut draft = self.draft();
        self.push_notes(&mut draft, node, attempt, "Not enough yet.");
        let blocker = Blocker {
            code: BlockerCode::MissingRequiredOutput,
            pointer: BlockerPointer::WorkflowStep { step_id: content::step_id(known.depth) },
            message: BoundedText::clip("the step's output is missing"),
            suggested_fix: Some(BoundedText::clip("send the output, for example {\"kind\": \"x\"}")),
        };
        // One blocker is neither none nor too many.
        let blockers = BlockerReport::new(vec![blocker]).expect("one blocker is a report");
        self.push_recorded(&mut draft, node, attempt, AdvanceOutcome::Blocked { blockers });
        let validation = ValidationPerformed {
            validation_id: derive::validation_id(node, attempt, None),
            attempt_id: attempt,
            contract_ref: None,
            result: ValidationResult::Invalid { issues: vec![BoundedText::clip("the output is missing")] },
        };
        draft.push(Scope::Node(self.run, node), EventData::ValidationPerformed(validation));
        self.nodes.insert(node, Known { attempt: derive::retry_attempt(attempt), ..known });
        self.finish(draft)
    }

    /// A checkpoint of `node`: a leaf beside the way, with notes of its own.
    pub fn checkpoint(&mut self, node: NodeId) -> (PlanParts, NodeId) {
        let known = self.known(node);
        let attempt =
            derive::next_attempt(known.attempt, NodeId::from_bits(bits("checkpoint", self.seed, self.plans)));
        let child = derive::checkpoint_node_id(node, attempt);
        let mut draft = self.draft();
        let event_id = self.push_node(&mut draft, child, Some(node), NodeKind::Checkpoint, known.depth);
        let cause = EdgeCause { kind: EdgeCauseKind::CheckpointCreated, event_id };
        self.push_edge(&mut draft, EdgeKind::Checkpoint, (node, child), cause);
        self.push_notes(&mut draft, child, attempt, "So far so good.");
        (self.finish(draft), child)
    }

    fn known(&self, node: NodeId) -> Known {
        *self.nodes.get(&node).unwrap_or_else(|| panic!("{node} is not a step of this history"))
    }

    fn draft(&self) -> Draft {
        let seed = bits("plan", self.seed, self.plans);
        Draft::new(self.session, self.next_index, seed, fixed::activity(self.plans + 1))
    }

    fn finish(&mut self, draft: Draft) -> PlanParts {
        let parts = draft.finish();
        self.next_index = parts.next_index();
        self.plans += 1;
        parts
    }

    fn push_node(
        &self,
        draft: &mut Draft,
        node: NodeId,
        parent: Option<NodeId>,
        kind: NodeKind,
        depth: u32,
    ) -> EventId {
        let snapshot = content::snapshot(self.workflow_hash(), depth);
        let created = NodeCreated {
            node_kind: kind,
            parent_node_id: parent,
            workflow_hash: self.workflow_hash(),
            snapshot_ref: snapshot.snapshot_ref(),
            checkpoint: None,
        };
        draft.attach(&snapshot);
        draft.push(Scope::Node(self.run, node), EventData::NodeCreated(created))
    }

    fn push_edge(&self, draft: &mut Draft, kind: EdgeKind, (from, to): (NodeId, NodeId), cause: EdgeCause) {
        let edge = EdgeCreated { edge_kind: kind, from_node_id: from, to_node_id: to, cause };
        draft.push(Scope::Run(self.run), EventData::EdgeCreated(edge));
    }

    /// The outcome, with a stored reply: every advance has one blob at least.
    fn push_recorded(
        &self,
        draft: &mut Draft,
        node: NodeId,
        attempt: AttemptId,
        outcome: AdvanceOutcome,
    ) -> EventId {
        let reply = Attachment::blob(format!("reply to {attempt} at {node}").into_bytes());
        draft.attach(&reply);
        let recorded = AdvanceRecorded {
            attempt_id: attempt,
            intent: AdvanceIntent::AckPending,
            outcome,
            request_digest: Some(Sha256::of(attempt.body().as_bytes())),
            reply_ref: Some(reply.blob_ref()),
            submitted: None,
        };
        draft.push(Scope::Node(self.run, node), EventData::AdvanceRecorded(recorded))
    }

    fn push_notes(&self, draft: &mut Draft, node: NodeId, attempt: AttemptId, text: &str) {
        let payload = OutputPayload::Notes { notes_markdown: BoundedText::clip(text), full_text_ref: None };
        self.push_output(draft, node, attempt, payload, Sha256::of(text.as_bytes()));
    }

    fn push_artifact(&self, draft: &mut Draft, node: NodeId, attempt: AttemptId, artifact: &Attachment) {
        draft.attach(artifact);
        let payload = OutputPayload::ArtifactRef {
            sha256: artifact.blob_ref(),
            content_type: BoundedText::clip("application/json"),
            byte_length: artifact.bytes().len() as u64,
        };
        self.push_output(draft, node, attempt, payload, artifact.digest());
    }

    fn push_output(
        &self,
        draft: &mut Draft,
        node: NodeId,
        attempt: AttemptId,
        payload: OutputPayload,
        digest: Sha256,
    ) {
        let channel = payload.channel();
        let output = NodeOutputAppended {
            output_id: derive::output_id(node, attempt, channel, digest),
            supersedes_output_id: None,
            output_channel: channel,
            payload,
            attempt_id: Some(attempt),
        };
        draft.push(Scope::Node(self.run, node), EventData::NodeOutputAppended(output));
    }

    fn push_context(&self, draft: &mut Draft, node: NodeId, source: ContextSource, entries: &[(&str, &str)]) {
        let map: Map<String, Value> =
            entries.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        let set = ContextSet {
            // One set per node: the node alone tells them apart.
            context_id: derive::context_id(node, derive::root_attempt(node)),
            // Two short strings, no reserved key.
            context: Context::new(map).expect("a small context"),
            source,
            node_id: node,
            attempt_id: None,
            proof: None,
        };
        draft.push(Scope::Run(self.run), EventData::ContextSet(set));
    }
}

/// 80 bits for an id that the core would draw at random.
fn bits(what: &str, seed: u64, number: u64) -> [u8; 10] {
    let parts: [&[u8]; 4] =
        [b"workrail/testkit/history", what.as_bytes(), &seed.to_be_bytes(), &number.to_be_bytes()];
    first_80(Sha256::of_parts(&parts))
}

fn first_80(digest: Sha256) -> [u8; 10] {
    let mut bits = [0; 10];
    bits.copy_from_slice(&digest.as_bytes()[..10]);
    bits
}

fn artifact(child: NodeId, number: u32, bytes: usize) -> Attachment {
    let text = format!("{{\"kind\":\"testkit\",\"number\":{number},\"of\":\"{child}\",\"pad\":\"");
    let pad = bytes.saturating_sub(text.len() + 2);
    Attachment::blob(format!("{text}{}\"}}", "x".repeat(pad)).into_bytes())
}

fn trace(node: NodeId, attempt: AttemptId, number: u32, depth: u32) -> DecisionTraceAppended {
    let entry = TraceEntry {
        kind: TraceKind::SelectedNextStep,
        summary: BoundedText::clip(&format!("chose step {depth}, remark {number}")),
        refs: vec![TraceRef::StepId { step_id: content::step_id(depth) }],
    };
    let parts: [&[u8]; 3] = [&node.bits(), &attempt.bits().to_be_bytes(), &number.to_be_bytes()];
    let trace_id = TraceId::from_bits(first_80(Sha256::of_parts(&parts)));
    DecisionTraceAppended { trace_id, entries: vec![entry] }
}
