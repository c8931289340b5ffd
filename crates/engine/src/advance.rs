//! `continue_workflow` with an ack: decided once under the lock, recorded once, replayed forever.

use std::sync::Arc;

use workrail_core::claims;
use workrail_core::decide::advance::{Advance, Decided, advance};
use workrail_core::decide::attempt::{AttemptState, OpenAttempt};
use workrail_core::decide::checks::passes_in_chain;
use workrail_core::decide::evidence::AvailableEvidence;
use workrail_core::decide::observe::{ObservedFact, is_same_repository};
use workrail_core::decide::retry;
use workrail_core::derive;
use workrail_core::label::RunLabel;
use workrail_core::project::{AdvanceRecord, SessionState};
use workrail_core::reply::rehydrate_call;
use workrail_core::token::{NodeFacts, TokenError, VerifiedToken, check_scope};
use workrail_model::compiled::{CompiledStep, CompiledWorkflow};
use workrail_model::digest::BlobRef;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{AdvanceOutcome, Context, OutputPayload};
use workrail_model::evidence::TreeInspection;
use workrail_model::id::{AttemptId, NodeId, RunId, SessionId};
use workrail_model::passkey::PendingPreferences;
use workrail_model::reply::{Warning, WarningCode};
use workrail_model::snapshot::ExecutionSnapshot;
use workrail_model::strict_json;
use workrail_model::submission::{StepOutput, Submission};
use workrail_model::team::Act;
use workrail_model::token::TokenKind;
use workrail_ports::workspace::WorkspacePath;

use crate::ask::AttemptAwaitingUser;
use crate::catalog::SourceDigests;
use crate::checks::{CheckDemand, CheckedStep, evidence_demand};
use crate::drift::drift_from;
use crate::passkeys::ApprovalKeys;
use crate::reply::{OfferedTokens, Reply, ReplyTokens, sign, sign_stored};
use crate::request::{ContinueWorkflow, Echo};
use crate::session_access::HeldSession;
use crate::token::Attempts;
use crate::{Engine, ReplyResult, Store, error, token};

/// What one call with an ack contains.
struct AckCall<'a> {
    ack: VerifiedToken,
    state_token: Option<VerifiedToken>,
    echo: Echo<'a>,
    sent: Submission,
    folder: Option<WorkspacePath>,
}

/// What was seen of the workspace before the lock was taken: other calls should not wait while files are read.
struct ObservedWorkspace {
    anchors: Vec<ObservedFact>,
    tree: TreeInspection,
    sources: SourceDigests,
}

/// The pending step of an attempt that is not decided yet.
struct OpenStep {
    at: NodeFacts,
    attempt_id: AttemptId,
    snapshot: Arc<ExecutionSnapshot>,
    workflow: Arc<CompiledWorkflow>,
}

impl OpenStep {
    fn compiled(&self) -> Option<&CompiledStep> {
        let pending = self.snapshot.state().pending_step()?;
        self.workflow.step(&pending.step_id)
    }

    /// The checks that run before the attempt is decided; `None` if the step has none.
    fn checks_first(
        &self,
        facts: &SessionState,
        call: &AckCall<'_>,
        workspace: &ObservedWorkspace,
    ) -> Option<CheckDemand> {
        let checks = self.compiled().map(|step| &step.checks).filter(|checks| !checks.is_empty())?;
        let (node, workflow) = (self.at.node, self.at.workflow);
        Some(CheckDemand {
            key: (call.ack.session(), node, self.attempt_id),
            workflow,
            checks: checks.clone(),
            passed: passes_in_chain(facts, node, self.attempt_id),
            folder: call.folder.clone().filter(|_| is_same_repository(facts, &workspace.anchors)),
        })
    }

    /// Whether the step delivers a list of changed files.
    fn says_what_changed(&self) -> bool {
        let output = self.compiled().and_then(|step| step.output.as_ref());
        output.is_some_and(|output| claims::names_changed_files(output.contract_ref.as_str()))
    }
}

/// The result of one turn at the session under its lock.
enum HoldOutcome {
    Answered(Box<Reply>),
    /// Nothing was decided: the step has checks, which run without the lock.
    ChecksFirst(Box<CheckDemand>),
    /// Nothing was decided: the attempt seemed to be recorded, so the workspace was not observed.
    ObserveFirst,
}

impl<S: Store> Engine<S> {
    pub(crate) fn advance(&self, ack: &str, request: &ContinueWorkflow) -> ReplyResult {
        let reading = self.reading();
        let echo = request.echo();
        let refused = |cause| reading.refused(cause, echo);
        let ack = self.signer.verify(ack, TokenKind::Ack).map_err(refused)?;
        let state_token = request
            .state_token
            .as_deref()
            .map(|text| self.signer.verify(text, TokenKind::State).map_err(refused))
            .transpose()?;
        if let Some(other) = state_token.filter(|token| token.session() != ack.session()) {
            let cause = error::other_session(other.session(), ack.session());
            return Err(reading.leading_back(cause, echo, None));
        }
        let workspace = self.workspace(request.workspace_path.as_deref())?;
        let context = Context::new(request.context.clone()).map_err(|cause| error::context(&cause))?;
        let sent = Submission { output: request.output.clone(), context };
        let session = ack.session();
        let folder = self.folder_of(session, workspace.as_ref());
        let call = AckCall { ack, state_token, echo, sent, folder };
        // A repeated call gets the recorded answer; the workspace is not observed a second time (G104).
        let mut observed = (!self.is_recorded(&call.ack)).then(|| self.observed_workspace(&call));
        let mut checked = None;
        let mut was_recorded = false;
        loop {
            let outcome = self.hold(session, |held| {
                self.decide_under_lock(held, &call, observed.as_ref(), checked.as_deref())
            })?;
            match outcome {
                HoldOutcome::Answered(reply) => return Ok(*reply),
                HoldOutcome::ObserveFirst => observed = Some(self.observed_workspace(&call)),
                // Without the lock, so that others can work on the session meanwhile; the attempt is examined again
                // afterwards.
                HoldOutcome::ChecksFirst(demand) => {
                    if was_recorded {
                        // Not recorded after all: another state of the session has been restored since.
                        self.attempt_checks.forget(demand.key);
                    }
                    let tree = observed.as_ref().map_or(&TreeInspection::NoRepository, |seen| &seen.tree);
                    checked = self.checked_step(&demand, tree)?;
                    was_recorded = checked.is_none();
                }
            }
        }
    }

    fn observed_workspace(&self, call: &AckCall<'_>) -> ObservedWorkspace {
        let folder = call.folder.as_ref();
        let anchors = folder.map_or_else(Vec::new, |path| self.seen_in(path));
        // Without anchors there is no repository.
        let repository = folder.filter(|_| !anchors.is_empty());
        let tree = repository
            .map_or(TreeInspection::NoRepository, |path| self.environment.observer.inspect_tree(path));
        ObservedWorkspace { anchors, tree, sources: self.catalog.sources(folder) }
    }

    /// Whether the ack's attempt is recorded, as far as this process can tell without the lock. It reads the log only if
    /// it does not know the session yet.
    fn is_recorded(&self, ack: &VerifiedToken) -> bool {
        let has_attempt = |facts: &SessionState| {
            let resolved = token::resolve(facts, ack).ok();
            let target = resolved.and_then(|resolved| token::target(&resolved).ok());
            target.is_some_and(|(at, attempt_id)| facts.advance(at.node, attempt_id).is_some())
        };
        let (reading, session) = (self.reading(), ack.session());
        let look = || reading.look(session, |facts| Ok(has_attempt(facts))).unwrap_or(false);
        reading.recall(session, has_attempt).unwrap_or_else(look)
    }

    /// Decides and records the attempt, unless its checks have to run first.
    fn decide_under_lock(
        &self,
        held: &mut HeldSession<'_, S::Locked<'_>>,
        call: &AckCall<'_>,
        workspace: Option<&ObservedWorkspace>,
        checked: Option<&CheckedStep>,
    ) -> Result<HoldOutcome, Box<ErrorEnvelope>> {
        let session = call.ack.session();
        let facts = held.state();
        let (at, attempt_id) = self.ack_target(facts, call)?;
        // A replay draws no ids and decides nothing.
        let open = match AttemptState::find(facts, at.node, attempt_id, &call.sent) {
            Ok(AttemptState::Open(open)) => open,
            Ok(AttemptState::Recorded { record, input_differs }) => {
                let replayed = self.replay(facts, at, &record, input_differs.then_some(&call.sent))?;
                return Ok(HoldOutcome::Answered(Box::new(replayed)));
            }
            Err(cause) => return Err(error::decide(&cause.into())),
        };
        let Some(workspace) = workspace else {
            return Ok(HoldOutcome::ObserveFirst);
        };
        let step = self.open_step(facts, at, attempt_id)?;
        if checked.is_none()
            && let Some(demand) = step.checks_first(facts, call, workspace)
        {
            return Ok(HoldOutcome::ChecksFirst(Box::new(demand)));
        }
        let preferences =
            self.store.pending_preferences(session, at.run).map_err(|cause| error::io(&cause))?;
        let evidence = self.available_evidence(facts, call, &step, workspace, checked);
        let recorded_observations = evidence.recorded_count();
        let decided = self.decide_attempt(facts, open, &step, workspace, evidence, preferences.as_ref())?;
        held.append(decided.plan)?;
        if let Some((reference, snapshot)) = decided.new_snapshot {
            self.content_cache.keep_snapshot(reference, Arc::new(snapshot));
        }
        self.after_append(session, &step, recorded_observations, preferences.as_ref());
        let facts = held.state();
        let record = facts
            .advance(at.node, attempt_id)
            .ok_or_else(|| error::broken_invariant("an appended advance is folded"))?;
        let tokens = self.outcome_tokens(facts, at, record)?;
        let asked = AttemptAwaitingUser::of(session, at, record);
        let reply = sign(&decided.reply, &tokens, self.signer.state_signer(facts))?.asking(asked);
        Ok(HoldOutcome::Answered(Box::new(reply)))
    }

    fn open_step(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        attempt_id: AttemptId,
    ) -> Result<OpenStep, Box<ErrorEnvelope>> {
        let node = facts.node(at.node).ok_or_else(|| error::broken_invariant("a resolved node is folded"))?;
        let content = self.content();
        let snapshot = content.snapshot(node.snapshot_ref)?;
        let workflow = content.workflow(at.workflow)?;
        Ok(OpenStep { at, attempt_id, snapshot, workflow })
    }

    /// What is known of the step's work besides what was sent.
    fn available_evidence(
        &self,
        facts: &SessionState,
        call: &AckCall<'_>,
        step: &OpenStep,
        workspace: &ObservedWorkspace,
        checked: Option<&CheckedStep>,
    ) -> AvailableEvidence {
        let (at, folder) = (step.at, call.folder.as_ref());
        // Checks can change files.
        let tree = checked.map_or(&workspace.tree, |checked| &checked.tree);
        let mut evidence = AvailableEvidence {
            observations: self.store.take_observations(call.ack.session(), at.run),
            workspace: self.current_workspace(facts, at.node, folder, (tree, &workspace.anchors)),
            checks: checked.map(|checked| checked.checks.clone()).unwrap_or_default(),
            demand: evidence_demand(&self.site),
        };
        if step.says_what_changed() {
            evidence.workspace.changed_in_run =
                self.changed_in_run(facts, at.run, folder, &evidence.workspace.tree);
        }
        evidence
    }

    fn decide_attempt(
        &self,
        facts: &SessionState,
        open: OpenAttempt<'_>,
        step: &OpenStep,
        workspace: &ObservedWorkspace,
        evidence: AvailableEvidence,
        pending_preferences: Option<&PendingPreferences>,
    ) -> Result<Decided, Box<ErrorEnvelope>> {
        let OpenStep { at, attempt_id, snapshot, workflow } = step;
        let drift = facts.run(at.run).and_then(|run| drift_from(run, &workspace.sources));
        let approvals = match snapshot.state().pending_step() {
            Some(pending) => self.approval_keys(facts, at.node, workflow, pending)?,
            None => ApprovalKeys::default(),
        };
        let (reading, content) = (self.reading(), self.content());
        advance(Advance {
            facts,
            attempt: open,
            snapshot,
            workflow,
            earlier_output: self.earlier_output(facts, at.node, *attempt_id),
            pending_preferences,
            approvals: approvals.rule(),
            observed: &workspace.anchors,
            evidence,
            workflow_changed: drift.is_some(),
            notices: drift.filter(|_| !reading.drift_was_reported(facts, at.node)).into_iter().collect(),
            content: &content,
            tools: self.environment.tools,
            site: &self.site,
            minting: self.minting(Act::Work)?,
        })
        .map_err(|cause| error::decide(&cause))
    }

    /// Discards what the appended attempt has used. Its record is valid whatever happens here.
    fn after_append(
        &self,
        session: SessionId,
        step: &OpenStep,
        recorded_observations: usize,
        applied: Option<&PendingPreferences>,
    ) {
        let run = step.at.run;
        self.attempt_checks.recorded((session, step.at.node, step.attempt_id));
        if recorded_observations > 0 {
            // What is not removed here is recognised by the next advance, which does not record it again.
            let _ = self.store.forget_observations(session, run, recorded_observations);
        }
        if let Some(applied) = applied {
            // Already applied: a leftover after a crash here equals what is in effect and changes nothing.
            let _ = self.store.clear_pending_preferences(session, run, applied);
        }
    }

    /// What the refused attempt before this one submitted. If it cannot be read, the agent is asked for it again.
    pub(crate) fn earlier_output(
        &self,
        facts: &SessionState,
        node: NodeId,
        attempt: AttemptId,
    ) -> StepOutput {
        match retry::preceding_attempt(facts, node, attempt) {
            None => StepOutput::default(),
            Some(refused) => self.delivered_by(facts, node, refused),
        }
    }

    /// The notes and artifacts that an attempt submitted.
    pub(crate) fn delivered_by(&self, facts: &SessionState, node: NodeId, attempt: AttemptId) -> StepOutput {
        let mut delivered = StepOutput::default();
        for output in facts.outputs(node).iter().filter(|output| output.attempt == Some(attempt)) {
            match &output.payload {
                OutputPayload::Notes { notes_markdown, full_text_ref } => {
                    let whole = full_text_ref.and_then(|text| self.store.blob(text).ok());
                    let whole = whole.and_then(|bytes| String::from_utf8(bytes).ok());
                    delivered.notes_markdown =
                        Some(whole.unwrap_or_else(|| notes_markdown.as_str().to_owned()));
                }
                OutputPayload::ArtifactRef { sha256, .. } => {
                    let bytes = self.store.blob(*sha256).ok();
                    delivered.artifacts.extend(bytes.and_then(|bytes| strict_json::parse(&bytes).ok()));
                }
            }
        }
        delivered
    }

    /// The node and attempt of the ack, if all arguments of the caller agree with them (G34, G35).
    fn ack_target(
        &self,
        facts: &SessionState,
        call: &AckCall<'_>,
    ) -> Result<(NodeFacts, AttemptId), Box<ErrorEnvelope>> {
        let AckCall { ack, state_token, echo, sent: _, folder: _ } = call;
        let reading = self.reading();
        let refused = |cause: TokenError| reading.refused(cause.into(), *echo);
        let resolved = token::resolve(facts, ack).map_err(refused)?;
        let (at, attempt_id) = token::target(&resolved)?;
        if let Some(state_token) = state_token {
            let shown = token::resolve(facts, state_token).map_err(refused)?;
            check_scope(&shown, &resolved).map_err(|cause| {
                reading.leading_back(error::token(&cause), *echo, Some(RunLabel::of(at.run)))
            })?;
        }
        reading.check_echo(facts, at, *echo)?;
        Ok((at, attempt_id))
    }

    /// Answers from the recorded bytes; nothing is selected, validated or rendered again (G30).
    fn replay(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        record: &AdvanceRecord,
        other_input: Option<&Submission>,
    ) -> Result<Reply, Box<ErrorEnvelope>> {
        let reference = record.reply_ref.ok_or_else(|| {
            error::internal("a recorded attempt has no recorded reply; it is not recomputed")
        })?;
        let tokens = self.outcome_tokens(facts, at, record)?;
        let reply = self.recorded_reply(facts, at.run, reference, &tokens)?;
        match other_input {
            None => Ok(reply.asking(AttemptAwaitingUser::of(facts.session_id(), at, record))),
            Some(sent) => self.with_fork(facts, at, record, sent, reply),
        }
    }

    /// A stored reply, signed again. If it is missing, the error contains the call that shows where the run is.
    pub(crate) fn recorded_reply(
        &self,
        facts: &SessionState,
        run: RunId,
        reference: BlobRef,
        tokens: &ReplyTokens,
    ) -> Result<Reply, Box<ErrorEnvelope>> {
        let lost = |cause| error::lost_reply(cause, rehydrate_call(&tokens.state, RunLabel::of(run)));
        let bytes = self.store.blob(reference).map_err(lost)?;
        let value = strict_json::parse(&bytes).map_err(|cause| error::internal(&cause.to_string()))?;
        sign_stored(value, tokens, self.signer.state_signer(facts))
    }

    /// The tokens that an outcome leads to: the child's, or those for retrying a blocked attempt.
    fn outcome_tokens(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        record: &AdvanceRecord,
    ) -> Result<ReplyTokens, Box<ErrorEnvelope>> {
        let (node, attempt) = match &record.outcome {
            AdvanceOutcome::Advanced { to_node_id } => {
                (*to_node_id, derive::next_attempt(record.attempt, *to_node_id))
            }
            AdvanceOutcome::Blocked { .. } => (at.node, derive::retry_attempt(record.attempt)),
        };
        let at = token::node_facts(facts, node)?;
        Ok(self.signer.tokens(facts.session_id(), at, Attempts::both(attempt, true)))
    }

    /// The same ack came with another payload: the record is unchanged, and the reply says how to record both (G31).
    fn with_fork(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        record: &AdvanceRecord,
        sent: &Submission,
        mut reply: Reply,
    ) -> Result<Reply, Box<ErrorEnvelope>> {
        let digest = sent.digest().map_err(|cause| error::decide(&cause.into()))?;
        let attempt = match &record.outcome {
            AdvanceOutcome::Advanced { .. } => derive::fork_attempt(record.attempt, digest),
            AdvanceOutcome::Blocked { .. } => derive::retry_attempt(record.attempt),
        };
        let tokens = self.signer.tokens(facts.session_id(), at, Attempts::both(attempt, true));
        let fork = tokens.ack.unwrap_or_default();
        let how = match &record.outcome {
            AdvanceOutcome::Advanced { .. } => "To record the new content on a branch of its own,",
            AdvanceOutcome::Blocked { .. } => "To try again with the new content,",
        };
        let message = format!(
            "This ackToken was already used with different content. The recorded result is below; nothing was changed. \
             {how} send your call again with ackToken {fork}"
        );
        reply.warn(&Warning { code: WarningCode::ReplayInputDiffers, message });
        reply.offer(&OfferedTokens { fork_ack_token: Some(fork), ..OfferedTokens::default() })?;
        Ok(reply)
    }
}
