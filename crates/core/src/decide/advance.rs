//! Completing a step: blocked with reasons, or advanced; one plan either way.

use serde_json::Value;
use workrail_model::blocker::{BlockerCode, BlockerReport};
use workrail_model::compiled::{CompiledWorkflow, EditRule};
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef};
use workrail_model::event::{
    AdvanceIntent, AdvanceOutcome, AdvanceRecorded, Context, ContextSet, ContextSource,
    DecisionTraceAppended, EdgeCause, EdgeCauseKind, EdgeCreated, EdgeKind, EventData, NodeCreated, NodeKind,
    PreferencesChanged, Scope,
};
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::passkey::{PendingPreferences, PreferenceProof};
use workrail_model::plan::{AppendPlan, Attachment};
use workrail_model::preferences::{PreferenceChange, PreferenceSource, Preferences};
use workrail_model::reply::{StoredReply, Warning, WarningCode, state_marker_of};
use workrail_model::snapshot::{ExecutionSnapshot, PendingStep};
use workrail_model::submission::{StepOutput, Submission};
use workrail_model::tool::ToolSet;

use super::attempt::OpenAttempt;
use super::draft::PlanDraft;
use super::evidence::{AvailableEvidence, EvidenceSubject};
use super::judge::AttemptResult;
use super::observe::{self, ObservedFact};
use super::outputs::{self, OutputTarget};
use super::proof::ApprovalRule;
use super::retry::{self, EarlierNotes};
use super::{DecideError, Minting, check_events, close, disclose, fit};
use crate::agent_site::AgentSite;
use crate::interpret::{self, Finding, OutputCheck, StepSelection};
use crate::label::RunLabel;
use crate::project::{NodeState, SessionState};
use crate::reply::recovery;
use crate::reply::{ReplyMoment, StepExtras};
use crate::report::ContentReader;
use crate::{derive, reply};

/// An ack to be decided.
#[derive(Debug)]
pub struct Advance<'a> {
    pub facts: &'a SessionState,
    pub attempt: OpenAttempt<'a>,
    pub snapshot: &'a ExecutionSnapshot,
    pub workflow: &'a CompiledWorkflow,
    /// What the preceding refused attempt sent, if this is its retry.
    pub earlier_output: StepOutput,
    /// What a person has asked for since; applied at this node before anything is checked.
    pub pending_preferences: Option<&'a PendingPreferences>,
    /// What makes a decision count.
    pub approvals: ApprovalRule<'a>,
    /// The current workspace; only changes are recorded.
    pub observed: &'a [ObservedFact],
    /// What is known of the step's work besides what was sent.
    pub evidence: AvailableEvidence,
    /// Notices for the reply that do not follow from the session.
    pub notices: Vec<Warning>,
    /// Whether the workflow's file differs from the one that the run was started from.
    pub workflow_changed: bool,
    pub content: &'a dyn ContentReader,
    /// What the server offers.
    pub tools: ToolSet,
    /// Where the agent works.
    pub site: &'a AgentSite,
    pub minting: Minting,
}

/// A plan to append, and then the reply in it to answer with.
#[derive(Debug)]
pub struct Decided {
    pub plan: AppendPlan,
    pub reply: StoredReply,
    /// The snapshot that this plan adds, so that it need not be read back; `None` if the run did not move.
    pub new_snapshot: Option<(SnapshotRef, ExecutionSnapshot)>,
}

pub fn advance(command: Advance<'_>) -> Result<Decided, DecideError> {
    let attempt = PreparedAttempt::prepare(command)?;
    let (check, result) = attempt.judge()?;
    match result {
        AttemptResult::Blocked { blockers } => attempt.block(blockers, &check),
        AttemptResult::Advanced { selection, waived } => attempt.advance(selection, waived, &check),
    }
}

/// What the attempt delivers, together with what was kept of a refused one.
pub(crate) fn delivered_output(command: Advance<'_>) -> Result<StepOutput, DecideError> {
    Ok(PreparedAttempt::prepare(command)?.delivered.output)
}

/// Identifies what the attempt would submit, so that a decision can be recorded about exactly that.
pub(crate) fn delivered_digest(command: Advance<'_>) -> Result<Sha256, DecideError> {
    retry::delivered_digest(&PreparedAttempt::prepare(command)?.delivered)
}

/// Whether the run has already applied this proof elsewhere than where it is in effect: then it is a replayed copy.
fn is_spent(facts: &SessionState, node: &NodeState, proof: &PreferenceProof) -> bool {
    let is_same = |other: &PreferenceProof| other.signed.nonce == proof.signed.nonce;
    let applied = facts.nodes(node.run_id).flat_map(|node| facts.preference_changes(node.node_id));
    let was_applied = applied.into_iter().any(|change| change.data.proof.as_ref().is_some_and(is_same));
    was_applied && !facts.mode_proof(node.node_id).is_some_and(is_same)
}

/// An attempt with everything needed to decide it.
pub(super) struct PreparedAttempt<'a> {
    pub(super) command: Advance<'a>,
    pub(super) attempt_id: AttemptId,
    pub(super) node: &'a NodeState,
    pub(super) pending: &'a PendingStep,
    pub(super) retried: Vec<AttemptId>,
    /// What was sent now, with unambiguous misspellings corrected to what the step accepts.
    pub(super) sent: Submission,
    /// What the reply says about this call: adjusted values, a reopened run.
    pub(super) notices: Vec<Warning>,
    /// The context that results from this call and its retry chain.
    pub(super) context: Context,
    /// What was sent now and earlier in the retry chain; its context is what they sent, not the result.
    pub(super) delivered: Submission,
    pub(super) preferences: Preferences,
    /// A passkey's signature on them.
    pub(super) mode_proof: Option<&'a PreferenceProof>,
}

impl<'a> PreparedAttempt<'a> {
    fn prepare(command: Advance<'a>) -> Result<Self, DecideError> {
        let Advance { facts, attempt: OpenAttempt { node: node_id, attempt_id, sent, .. }, .. } = command;
        let pending = command.snapshot.state().pending_step();
        let step = pending.and_then(|pending| command.workflow.step(&pending.step_id));
        let (sent, adjusted) = fit::fitted(sent, command.workflow, step)?;
        let reopened = close::reopened(facts, node_id);
        let notices = reopened.into_iter().chain(command.notices.iter().cloned()).chain(adjusted).collect();
        outputs::check_sent(&sent)?;
        let node = facts.node(node_id).ok_or(DecideError::Invariant("the node is in the log"))?;
        disclose::check_resolutions(facts, node.run_id, &sent.output.artifacts)?;
        let pending = pending.ok_or(DecideError::NothingPending)?;
        let retried = facts.retry_chain(node_id, attempt_id);
        let context = facts.context_for(node_id, &retried)?.merged(&sent.context)?;
        let delivered = delivered(&command, &sent, node, pending, &retried)?;
        let current = facts.preferences(node_id);
        let preferences = command.pending_preferences.map_or(current, |pending| pending.preferences);
        let mode_proof = match command.pending_preferences {
            Some(pending) => pending.proof.as_ref().filter(|proof| !is_spent(facts, node, proof)),
            None => facts.mode_proof(node_id),
        };
        Ok(Self {
            command,
            attempt_id,
            node,
            pending,
            retried,
            sent,
            notices,
            context,
            delivered,
            preferences,
            mode_proof,
        })
    }

    /// A draft that starts with what changed around the step since it was handed out.
    fn draft(&self) -> PlanDraft {
        let facts = self.command.facts;
        let mut draft =
            PlanDraft::new(facts.session_id(), facts.next_event_index(), self.command.minting.clone());
        observe::push_changed(&mut draft, facts, self.command.observed);
        self.evidence_subject().push(&mut draft, &self.command.evidence, self.edit_rule());
        let is_news = self.mode_proof.is_some() && self.mode_proof != facts.mode_proof(self.node.node_id);
        if is_news || self.preferences != facts.preferences(self.node.node_id) {
            let change = self.preferences_changed(facts.preferences(self.node.node_id));
            draft.push(self.on_node(), EventData::PreferencesChanged(change));
        }
        draft
    }

    fn preferences_changed(&self, before: Preferences) -> PreferencesChanged {
        let effective = self.preferences;
        let mut delta = Vec::new();
        if before.autonomy != effective.autonomy {
            delta.push(PreferenceChange::Autonomy(effective.autonomy));
        }
        if before.risk_policy != effective.risk_policy {
            delta.push(PreferenceChange::RiskPolicy(effective.risk_policy));
        }
        // A passkey vouches only for what it signed.
        let vouches = |proof: &&PreferenceProof| {
            let signed = proof.changes.iter().fold(effective, |own, change| own.with(*change));
            signed == effective && delta.iter().all(|change| proof.changes.contains(change))
        };
        let proof = self.mode_proof.filter(vouches);
        let (source, delta) = match proof {
            Some(proof) => (PreferenceSource::Passkey, proof.changes.clone()),
            None => (PreferenceSource::CommandLine, delta),
        };
        PreferencesChanged {
            change_id: derive::change_id(self.node.node_id, self.attempt_id, effective),
            source,
            delta,
            effective,
            proof: proof.cloned(),
        }
    }

    /// The step's rule about edits.
    pub(super) fn edit_rule(&self) -> Option<&EditRule> {
        self.command.workflow.step(&self.pending.step_id)?.edits.as_ref()
    }

    fn evidence_subject(&self) -> EvidenceSubject<'_> {
        EvidenceSubject {
            facts: self.command.facts,
            scope: self.on_node(),
            node: self.node.node_id,
            attempt: Some(self.attempt_id),
        }
    }

    fn on_node(&self) -> Scope {
        Scope::Node(self.node.run_id, self.node.node_id)
    }

    fn push_outputs(&self, draft: &mut PlanDraft) -> Result<(), DecideError> {
        let outputs = OutputTarget {
            facts: self.command.facts,
            node: self.node.node_id,
            attempt: self.attempt_id,
            retried: &self.retried,
        };
        outputs.push(draft, self.on_node(), &self.delivered.output)
    }

    fn record(&self, outcome: AdvanceOutcome, reply_ref: BlobRef, submitted: Option<Sha256>) -> EventData {
        EventData::AdvanceRecorded(AdvanceRecorded {
            submitted,
            attempt_id: self.attempt_id,
            intent: AdvanceIntent::AckPending,
            outcome,
            request_digest: Some(self.command.attempt.digest),
            reply_ref: Some(reply_ref),
        })
    }

    /// Records the refusal and keeps what was sent for the retry; the run does not move.
    fn block(&self, blockers: BlockerReport, check: &OutputCheck) -> Result<Decided, DecideError> {
        let state = self.command.snapshot.state();
        let moment = ReplyMoment::Blocked { blockers: &blockers, in_a_row: self.retried.len() + 1 };
        let facts = self.command.facts;
        let way_out = recovery::last_good(facts, self.node.node_id)
            .map(|event| reply::rehydrate_call(&state_marker_of(event), RunLabel::of(self.node.run_id)));
        let first = self.retried.is_empty();
        let shown_codes = [WarningCode::ArgumentsAdjusted, WarningCode::RunReopened];
        let adjusted = self.notices.iter().filter(|notice| shown_codes.contains(&notice.code));
        let extras = StepExtras {
            way_out,
            children: if first { self.children() } else { Vec::new() },
            warnings: adjusted.cloned().chain(self.check_warnings()).collect(),
            failed_checks: self.failed_outputs(),
            ..StepExtras::default()
        };
        let body = self.reply(state, moment, extras)?;
        let stored = Attachment::blob(body.to_canonical()?);
        let mut draft = self.draft();
        self.push_outputs(&mut draft)?;
        let (node, attempt) = (self.node.node_id, self.attempt_id);
        let asks = blockers.blockers().iter().any(|blocker| blocker.code == BlockerCode::UserOnlyDependency);
        let submitted = if asks { Some(retry::delivered_digest(&self.delivered)?) } else { None };
        let record = self.record(AdvanceOutcome::Blocked { blockers }, stored.blob_ref(), submitted);
        draft.push(self.on_node(), record);
        draft.attach(stored);
        check_events::push(&mut draft, self.on_node(), node, attempt, check);
        if !self.sent.context.is_empty() {
            let set = self.context_set(node, Some(attempt))?;
            draft.push(Scope::Run(self.node.run_id), set);
        }
        Ok(Decided { plan: draft.plan()?, reply: body, new_snapshot: None })
    }

    fn context_set(&self, node_id: NodeId, attempt_id: Option<AttemptId>) -> Result<EventData, DecideError> {
        // A child takes over what its parent's blocked attempts had set: nothing that was sent is lost.
        let context = match attempt_id {
            Some(_) => self.sent.context.clone(),
            None => self.effective_delta()?,
        };
        Ok(EventData::ContextSet(ContextSet {
            context_id: derive::context_id(self.node.node_id, self.attempt_id),
            context,
            source: ContextSource::AgentDelta,
            node_id,
            attempt_id,
            proof: None,
        }))
    }

    /// The changes from the parent's own context to the child's. Including its deletions, they may be too large to
    /// record although the result is not: then the call is refused, never truncated.
    fn effective_delta(&self) -> Result<Context, DecideError> {
        let parent = self.command.facts.context_at(self.node.node_id).unwrap_or_default();
        let mut delta = serde_json::Map::new();
        for (key, value) in self.context.as_map() {
            if parent.get(key) != Some(value) {
                delta.insert(key.clone(), value.clone());
            }
        }
        for key in parent.as_map().keys().filter(|key| self.context.get(key).is_none()) {
            delta.insert(key.clone(), Value::Null);
        }
        Ok(Context::new(delta)?)
    }

    /// Creates the child node, its edge and what led there.
    fn advance(
        &self,
        selection: StepSelection,
        waived: Vec<Finding>,
        check: &OutputCheck,
    ) -> Result<Decided, DecideError> {
        let PreparedAttempt { command, node, .. } = self;
        let child = derive::node_id(command.facts.session_id(), node.run_id, node.node_id, self.attempt_id);
        let gaps = self.gaps(&self.pending.step_id, &selection, &waived, check);
        let extras = self.step_extras(&selection.state, &gaps, check);
        let body = self.reply(&selection.state, ReplyMoment::Advanced, extras)?;
        let stored = Attachment::blob(body.to_canonical()?);
        let workflow_hash = command.snapshot.workflow_hash;
        let snapshot = ExecutionSnapshot::new(workflow_hash, selection.state.clone())?;
        let on_child = Scope::Node(node.run_id, child);

        let mut draft = self.draft();
        self.push_outputs(&mut draft)?;
        let snapshot_ref = draft.attach_snapshot(&snapshot)?;
        draft.push(
            on_child,
            EventData::NodeCreated(NodeCreated {
                node_kind: NodeKind::Step,
                parent_node_id: Some(node.node_id),
                workflow_hash,
                snapshot_ref,
                checkpoint: None,
            }),
        );
        let outcome = AdvanceOutcome::Advanced { to_node_id: child };
        let record = self.record(outcome, stored.blob_ref(), None);
        draft.attach(stored);
        let event_id = draft.push(self.on_node(), record);
        let edge = EdgeCreated {
            edge_kind: EdgeKind::AckedStep,
            from_node_id: node.node_id,
            to_node_id: child,
            cause: EdgeCause { kind: self.cause(), event_id },
        };
        draft.push(Scope::Run(node.run_id), EventData::EdgeCreated(edge));
        if self.context != command.facts.context_at(node.node_id)? {
            draft.push(Scope::Run(node.run_id), self.context_set(child, None)?);
        }
        check_events::push(&mut draft, self.on_node(), node.node_id, self.attempt_id, check);
        for gap in gaps {
            draft.push_once(self.on_node(), EventData::GapRecorded(gap));
        }
        let trace_id = derive::trace_id(node.node_id, self.attempt_id);
        let entries = disclose::fork_entry(self.cause()).into_iter().chain(selection.trace).collect();
        if let Some(trace) = DecisionTraceAppended::bounded(trace_id, entries) {
            draft.push(self.on_node(), EventData::DecisionTraceAppended(trace));
        }
        Ok(Decided { plan: draft.plan()?, reply: body, new_snapshot: Some((snapshot_ref, snapshot)) })
    }

    /// An ordinary advance, a second branch that was asked for, or an unintended one.
    fn cause(&self) -> EdgeCauseKind {
        let facts = self.command.facts;
        if facts.is_tip(self.node.node_id) {
            return EdgeCauseKind::AckPending;
        }
        // The ack handed out by the reply at this node; any other one was requested by rehydrating.
        let original = match self.node.edge.as_ref().and_then(|edge| edge.attempt) {
            Some(attempt) => derive::next_attempt(attempt, self.node.node_id),
            None => derive::root_attempt(self.node.node_id),
        };
        let first_try = self.retried.last().copied().unwrap_or(self.attempt_id);
        if first_try == original { EdgeCauseKind::NonTipAdvance } else { EdgeCauseKind::IntentionalFork }
    }
}

/// What the attempt delivers together with its retry chain; its context is what they sent.
fn delivered(
    command: &Advance<'_>,
    sent: &Submission,
    node: &NodeState,
    pending: &PendingStep,
    retried: &[AttemptId],
) -> Result<Submission, DecideError> {
    let Advance { facts, workflow, earlier_output, .. } = command;
    let mut context = facts.context_sent(node.node_id, retried);
    context.extend(sent.context.as_map().clone());
    let at_fault = |artifact: &Value| {
        interpret::is_at_fault(workflow, pending, artifact)
            || disclose::names_no_open_gap(facts, node.run_id, artifact)
    };
    let refused = retried.first().and_then(|attempt| facts.advance(node.node_id, *attempt));
    let earlier_notes =
        refused.map_or(EarlierNotes::Extended, |refused| EarlierNotes::of(refused, command.attempt.digest));
    let is_decision = |artifact: &Value| {
        interpret::decides_about_own_loop(workflow, command.snapshot.state(), artifact) && !at_fault(artifact)
    };
    let output = retry::delivered(&sent.output, earlier_output, earlier_notes, at_fault, is_decision)?;
    Ok(Submission { output, context: Context::new(context)? })
}
